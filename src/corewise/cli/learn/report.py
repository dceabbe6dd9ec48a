"""Result of `corewise learn`: its report, and the fields of its JSON."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from corewise.cli.learn.changes import changes_table
from corewise.cli.learn.options import LearnOptions
from corewise.cli.learn.session import LearnSession
from corewise.kit.numbers import plus_minus
from corewise.kit.report import LINE, Report, Table
from corewise.kit.unit_labels import time_suffix, with_unit

if TYPE_CHECKING:
    from corewise.learning.checkpoint import EpochRow
    from corewise.learning.evaluator import Baselines, ExactEvaluator
    from corewise.model.system import System

__all__ = ["Learned"]

_FIRST, _SPACED = 3, 10  # epochs that are shown
_MOST_PARAMETERS = 12  # whose estimates are shown epoch by epoch
_EQUAL = 1e-8  # relative: what is exact is so to about 1e-9
_LONGEST = 17  # of a name at the head of a column
_PARTS = {"run": "running", "estimate": "estimating", "solve": "solving", "evaluate": "judging exactly"}


@dataclass(frozen=True)
class Learned:
    """Result of `corewise learn`.

    Attributes
    ----------
    system : System
        The system that was learned about.
    options : LearnOptions
        The options of the run.
    course : LearnSession
        The run. Its ``rows`` are the epochs as they were recorded, with the alarms of each; `changes` has
        every change once, as it is known in the end.
    evaluator : ExactEvaluator or None
        What evaluates its policies exactly; None if that was not requested.
    width : int
        Columns of the terminal.
    """

    _json_fields = (
        *("algorithm=options.algorithm", "first_window=options.departures", "power=options.power"),
        *("between_alarms=options.between_alarms", "steps=options.steps", "policy=options.policy"),
        *("seed=options.seed", "events=options.events", "unknown_rates=course.unknown_rates"),
        *("interrupted=course.interrupted", "epochs=course.rows", "changes", "truth=true_parameters"),
        *("baselines=baseline_values", "not_computed=exactness", "unit=system.unit"),
        *("seconds=course.seconds", "parts=course.parts"),
    )

    system: System
    options: LearnOptions
    course: LearnSession
    evaluator: ExactEvaluator | None
    width: int = LINE

    def prepare(self, truth: System | None) -> None:
        """Compute the baselines under a truth, so that they are there when they are asked for."""
        baselines = self.evaluator.baselines(truth) if self.evaluator and truth else None
        if baselines:
            _ = baselines.equi_gap

    @property
    def truth(self) -> System | None:
        """What was in force at the end; None for a log."""
        return None if self.options.events else self.system.regime(self.course.time)

    @property
    def baselines(self) -> Baselines | None:
        """The baselines under that truth; None where they were not computed."""
        return self.evaluator.baselines(self.truth) if self.evaluator and self.truth else None

    @property
    def not_computed(self) -> str | None:
        """Why it is not said what the policies are worth; None where it is."""
        if self.truth is None:
            return "is not known: the log was recorded under others"
        if self.evaluator and self.baselines is None:
            from corewise.analysis.tractability import Tractability

            return f"was not computed: {Tractability.of(self.truth)}"
        if self.evaluator is None or (self.course.rows and self.course.rows[-1]["gap"] is None):
            return "was not asked for"
        return None

    @cached_property
    def changes(self) -> list[dict[str, Any]]:
        """The changes that were found; of one that was named later there is but one row."""
        from corewise.learning.epochs import changes_found

        return changes_found(self.course.rows)

    def report(self) -> Report:
        """Return how it was made, some of its epochs, what was learned and what that is worth.

        Estimates stand beside the epochs where the terminal has room for them.
        """
        rows, alarms = self.course.rows, self.options.between_alarms
        title = f"Algorithm {self.options.algorithm}: {replace(self.system, changes=()).summary}"
        facts = list(_course(self))
        if not rows:
            return Report(title, facts)
        tables = [*_epoch_tables(_selected(rows), self.system.weighted, self.width), *_estimate_tables(self)]
        if alarms is not None:
            tables.append(changes_table(self.changes, alarms, self.system if self.truth else None))
        return Report(title, facts, tables, [_worth(self)])

    @property
    def exactness(self) -> str | None:
        """The same in a sentence."""
        return self.not_computed and f"what the policies are worth {self.not_computed}"

    @property
    def true_parameters(self) -> dict[str, dict[str, float]] | None:
        """The parameters of the curves that were in force at the end; None for a log."""
        if self.truth is None:
            return None
        return {known.name: dict(known.speedup.parameters) for known in self.truth.classes}

    @property
    def baseline_values(self) -> dict[str, dict[str, float]] | None:
        """Means and gap of EQUI and of the optimum; None where they were not computed."""
        found = self.baselines
        if found is None:
            return None
        equi, best = found.equi, found.best
        return {
            "equi": {"mean_jobs": equi.mean_jobs, "mean_cost": equi.mean_cost, "gap": found.equi_gap},
            "optimal": {"mean_jobs": best.mean_jobs, "mean_cost": best.mean_cost, "gap": 0.0},
        }


def _course(learned: Learned) -> Iterator[tuple[str, str]]:
    """Yield how the run was made."""
    options, course, rows = learned.options, learned.course, learned.course.rows
    unit = learned.system.unit
    steps = "" if options.steps is None else f" of {options.steps:,}"
    ended = ": the log ended" if steps and course.log_ended else ""
    windows = f"{len(rows):,}{steps}{ended}; {course.algorithm.schedule}"
    yield "windows", f"interrupted after {windows}" if course.interrupted else windows
    if rows:
        yield "departures", _departures(course, unit)
    adopted = f"{'the optimum' if options.policy == 'optimal' else options.policy} for the estimates"
    before = "EQUI first, then" if course.logged is None else "what would have been adopted:"
    yield "policy", f"{before} {adopted}"
    if course.before:
        yield "resumed", f"after {course.before:,} windows"
    yield "time", _time(course)
    if options.seed is not None:
        again = f" (the same command with --seed {options.seed} gives the same numbers)"
        yield "seed", f"{options.seed}{'' if course.interrupted else again}"
    changes = [change for change in learned.system.changes if learned.truth and change.time <= course.time]
    if changes:
        true = (f"{change.name} at time {change.time:,.8g}{time_suffix(unit)}" for change in changes)
        yield "true changes", ", ".join(true)


def _departures(course: LearnSession, unit: str | None) -> str:
    """Return how many departures there were, and what is left of a log that ended within a window."""
    done, logged = course.rows[-1]["departures"], course.logged
    over = f" in {course.time:,.8g} {unit or 'units of time'}"
    if logged is None:
        return f"{done:,}{over}"
    left, rest = logged - done, ""
    if left and course.log_ended:
        rest = f"; the last {'one fills' if left == 1 else f'{left:,} fill'} no window"
    return f"{done:,} of the {logged:,} in the log,{over}{rest}"


def _time(course: LearnSession) -> str:
    """Return how long it took, with those parts of it that were done."""
    spent = [f"{name} {_seconds(course.parts[part])}" for part, name in _PARTS.items() if course.parts[part]]
    since = " since then" if course.before else ""
    return f"{_seconds(course.seconds)}{since}{': ' if spent else ''}{', '.join(spent)}"


def _seconds(seconds: float) -> str:
    """Return a time to three digits, never with an exponent."""
    if seconds < 0.001:
        return "under 0.001 s"
    return f"{seconds:,.0f} s" if seconds >= 100.0 else f"{seconds:.3g} s"


# --- epoch by epoch ---------------------------------------------------------------------------


def _selected(rows: Sequence[EpochRow]) -> list[EpochRow]:
    """Return the first few epochs, some later ones evenly spaced, and the last."""
    spaced = {math.ceil(len(rows) * i / _SPACED) for i in range(1, _SPACED + 1)}
    return [row for k, row in enumerate(rows, start=1) if k <= _FIRST or k in spaced]


def _epoch_tables(rows: Sequence[EpochRow], weighted: bool, room: int) -> list[Table]:
    """Return epochs, all columns beside each other if they fit, and otherwise the estimates further down."""
    k = ["k", *(f"{row['k']:,}" for row in rows)]
    departures = ["departures", *(f"{row['departures']:,}" for row in rows)]
    window = ["window", *(f"{row['window']:,}" for row in rows)]
    estimates, verdicts = list(_estimate_columns(rows)), _verdict_columns(rows, weighted)
    for lead in ([k, departures, window], [k, departures]):
        if _width([*lead, *estimates, *verdicts]) <= room:
            return [_table([*lead, *estimates, *verdicts])]
    blocks = [[k, departures, window, *verdicts]]
    if len(estimates) <= _MOST_PARAMETERS:  # the last of them follow in any case
        blocks.append([k])
        for column in estimates:
            if len(blocks[-1]) > 1 and _width([*blocks[-1], column]) > room:
                blocks.append([k])
            blocks[-1].append(column)
    return list(map(_table, blocks))


def _estimate_columns(rows: Sequence[EpochRow]) -> Iterator[list[str]]:
    for name, parameters in rows[-1]["estimates"].items():
        for parameter in parameters:
            short = name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…"
            yield [f"{short}\n{parameter}", *(_estimate_cell(row, name, parameter) for row in rows)]


def _estimate_cell(row: EpochRow, name: str, parameter: str) -> str:
    if not row["informative"][name]:
        return "no information"
    return plus_minus(row["estimates"][name][parameter], row["stderr"][name][parameter], figures=2)


def _verdict_columns(rows: Sequence[EpochRow], weighted: bool) -> list[list[str]]:
    """Return what the policies are worth, if it is known of any."""
    if all(row["mean_jobs"] is None for row in rows):
        return []
    means = {"mean\njobs": "mean_jobs"} | ({"mean\ncost": "mean_cost"} if weighted else {})
    columns = [[head, *(_number(row[key], "{:#.5g}") for row in rows)] for head, key in means.items()]
    return [*columns, ["above\noptimum", *(_gap(row["gap"]) for row in rows)]]


def _number(value: float | None, form: str) -> str:
    if value is None:
        return "-"
    return form.format(value) if math.isfinite(value) else "unstable"


def _gap(gap: float | None) -> str:
    return _number(gap, "{:.4%}" if gap is None or gap < 0.01 else "{:.2%}")


def _width(columns: Sequence[Sequence[str]]) -> int:
    """Return how wide a table of these columns is."""
    return sum(max(len(line) for cell in column for line in cell.split("\n")) + 3 for column in columns) + 1


def _table(columns: Sequence[Sequence[str]]) -> Table:
    header, *rows = zip(*columns, strict=True)
    return Table(header, rows, names=0)


# --- in the end -------------------------------------------------------------------------------


def _estimate_tables(learned: Learned) -> Iterator[Table]:
    """Yield what is believed in the end, with the truth beside it if it is known."""
    row = learned.course.rows[-1]
    columns = ["class", "curve", "estimate", "±\nstderr", "95 % interval"]
    if learned.truth:
        columns.append("truth")
    cells = [line for name in row["estimates"] for line in _class_lines(learned, row, name)]
    yield Table(columns, cells, names=2)
    ends = [name for name, at_end in row["at_boundary"].items() if at_end and row["informative"][name]]
    if ends:
        said = "its most likely curve is at the end of its range"
        yield Table((), [(name, said) for name in ends], title="Notes")


def _class_lines(learned: Learned, row: EpochRow, name: str) -> Iterator[list[str]]:
    """Yield a line for each parameter; the name is not repeated."""
    about, family = name, learned.system[name].speedup.family
    if not row["estimates"][name]:
        yield [about, family, "known", "", "", *([""] if learned.truth else [])]
    for parameter, value in row["estimates"][name].items():
        stderr, (low, high) = row["stderr"][name][parameter], row["interval"][name][parameter]
        informative = row["informative"][name]
        line = [
            about,
            f"{family} {parameter}",
            f"{value:.6g}",
            f"{stderr:.2g}" if informative and math.isfinite(stderr) else "-",
            f"{low:.4g}–{high:.4g}" if informative else "no information",
        ]
        if learned.truth:
            line.append(f"{learned.truth[name].speedup.parameters[parameter]:.6g}")
        yield line
        about = ""
    given = learned.course.algorithm.system[name]
    for key in ("arrival_rate", "size_rate"):
        if getattr(given, key) is None:
            truth = [f"{getattr(learned.truth[name], key):.6g}"] if learned.truth else []
            rate = with_unit(key.replace("_", " "), learned.system.unit)
            yield [about, rate, f"{row[f'{key}s'][name]:.6g}", "-", "", *truth]
            about = ""


def _worth(learned: Learned) -> str:
    """Return in words what the last policy is worth."""
    if learned.not_computed or learned.baselines is None:
        more = "; corewise compare simulates policies instead" if learned.evaluator else ""
        return f"What the policies are worth {learned.not_computed}{more}."
    found = learned.course.rows[-1]["mean_cost"]
    equi, best = learned.baselines.equi.mean_cost, learned.baselines.best.mean_cost
    what = "mean cost" if learned.system.weighted else "mean number of jobs"
    if not math.isfinite(found):
        return f"The policy adopted last cannot keep up; the {what} under EQUI is {equi:.6g}."
    found_text, equi_text, best_text = _agreeing(found, equi, best)
    than_equi, than_best = _comparison(found, equi), _comparison(found, best)
    equi_part = (
        f"{than_equi} than under EQUI, where it is {equi_text}" if than_equi else "the same as under EQUI"
    )
    best_part = f"{than_best} than the least possible, {best_text}" if than_best else "the least possible"
    return f"Under the policy adopted last the {what} is {found_text}: {equi_part}, and {best_part}."


def _agreeing(found: float, *others: float) -> list[str]:
    """Return numbers with at least 6 digits, and as many as it takes to see how the first differs."""
    wanted = [_comparison(found, other) for other in others]
    texts: list[str] = []
    for digits in range(6, 17):
        texts = [f"{value:.{digits}g}" for value in (found, *others)]
        if [_comparison(float(texts[0]), float(text)) for text in texts[1:]] == wanted:
            break
    return texts


def _comparison(value: float, other: float) -> str:
    """Return by how much one number is more or less than another, empty if they are the same."""
    change = value / other - 1.0
    if abs(change) < _EQUAL:
        return ""
    decimals = max(2, 1 - math.floor(math.log10(abs(100.0 * change))))  # two digits that count
    return f"{abs(change):.{decimals}%} {'less' if change < 0.0 else 'more'}"
