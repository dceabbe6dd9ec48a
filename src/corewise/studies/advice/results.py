"""Advice from a log: what was found of each class, what policies would have done, and what to know.

The sentences in which it is said are the same in the terminal, in a notebook and on the page.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from corewise.estimation.quantities import Quantity
from corewise.estimation.residuals import GoodnessOfFit
from corewise.kit.numbers import rounded
from corewise.kit.report import Report, Reported, Summarised, Table, json_values
from corewise.kit.unit_labels import with_unit
from corewise.model.system import System
from corewise.policies.base import BoundPolicy
from corewise.studies.advice.curves import ASSUMED, ASSUMED_CURVE, ASSUMED_RANGE, FROM_TABLE, CurveFinding
from corewise.studies.advice.outcomes import CoresNeeded, PolicyOutcome, percent
from corewise.studies.advice.usage import ClassUsage, Usage

__all__ = [
    "DOUBTFUL",
    "Advice",
    "ClassAdvice",
    "by_size",
    "cores_in_words",
    "curve_in_words",
    "fit_in_words",
    "gain_in_words",
    "interval_in_words",
    "less_time",
    "one_more_in_words",
    "sizes_in_words",
]

DOUBTFUL = 0.0025
"""What a single test of four must be below for all together to be doubtful."""

_FEW_NAMES = 3  # classes that a sentence names
_SHOWN = 12  # classes in a table


@dataclass(frozen=True, eq=False, repr=False)
class ClassAdvice(Summarised):
    """What a log says of one class.

    Attributes
    ----------
    name : str
        The class.
    usage : ClassUsage
        What was seen of it.
    curve : CurveFinding
        Its curve, and how sure that is.
    fit : GoodnessOfFit or None
        Whether it follows the model; None if its curve is not from the log.
    """

    _repr_fields = ("name", "usage", "curve")
    _json_fields = (
        *("name", "jobs=usage.jobs", "cv2", "cv2_interval", "curve", "informative=curve.informative"),
        *("reason=curve.reason", "goodness_of_fit", "usage"),
    )

    name: str
    usage: ClassUsage
    curve: CurveFinding
    fit: GoodnessOfFit | None

    @property
    def cv2(self) -> float:
        """The squared coefficient of variation of its sizes, NaN if not known."""
        spread = self.curve.estimate.dispersion if self.curve.estimate else None
        return spread.value if spread else self.usage.cv2

    @property
    def cv2_interval(self) -> tuple[float, float] | None:
        """The interval of `cv2`; None where the log does not tell the curve."""
        found = self.curve.estimate if self.curve.informative else None
        return found.dispersion.interval if found and found.dispersion else None

    @property
    def goodness_of_fit(self) -> float | None:
        """The p-value of the tests of the model; None where it was not tested."""
        return None if self.fit is None else self.fit.p_value


@dataclass(frozen=True, eq=False, repr=False)
class Advice(Reported):
    """Advice from a log.

    Attributes
    ----------
    system : System
        The pool with its classes as they were found, to go on with.
    usage : Usage
        What was observed over time.
    classes : tuple of ClassAdvice
        What was found of each class.
    outcomes : tuple of PolicyOutcome
        Mean response times of the policies on the same jobs, that of the log first.
    best : str
        The policy to go on with.
    policy : BoundPolicy
        The same, made for the system.
    cores : CoresNeeded
        How many cores meet the response time had in the log, and what one more is worth.
    warnings : tuple of str
        What a reader must know before relying on it.
    assumptions : tuple of str
        What is taken to be so.
    unit : str or None
        What times are in, if that was said.
    """

    _repr_fields = ("best", "outcomes", "warnings")
    _json_fields = (
        *("verdict", "classes", "policies", "best", "cores=system.cores", "cores_needed=cores.cores"),
        *("cores_needed_interval=cores.interval", "assumed=assumption", "one_more_core=cores.one_more_core"),
        *("unit", "warnings", "assumptions"),
    )

    system: System
    usage: Usage
    classes: tuple[ClassAdvice, ...]
    outcomes: tuple[PolicyOutcome, ...]
    best: str
    policy: BoundPolicy
    cores: CoresNeeded
    warnings: tuple[str, ...]
    assumptions: tuple[str, ...]
    unit: str | None

    def __getitem__(self, policy: str) -> PolicyOutcome:
        """Return the outcome of a policy by name."""
        for row in self.outcomes:
            if row.name == policy:
                return row
        raise KeyError(policy)

    @property
    def times_in(self) -> str:
        """What to say behind a time."""
        return self.unit or "units of time"

    @property
    def assumed(self) -> tuple[str, ...]:
        """The classes whose curve is assumed, since neither the log nor a measurement tells it."""
        return tuple(row.name for row in self.classes if row.curve.source == ASSUMED)

    @property
    def condition(self) -> str:
        """The condition under which the answers hold; empty where no curve is assumed."""
        if not self.assumed:
            return ""
        low, high = (curve.p for curve in ASSUMED_RANGE)
        few = ", ".join(self.assumed) if len(self.assumed) <= _FEW_NAMES else f"{len(self.assumed)} classes"
        whose = "these jobs" if len(self.assumed) == len(self.classes) else f"jobs of {few}"
        return f"if {whose} can be resized and their p lies between {low:g} and {high:g} (Amdahl's law)"

    @property
    def best_policy(self) -> PolicyOutcome:
        """The outcome of the best policy other than that of the log; of the log if there is no other."""
        return min(self.outcomes[1:] or self.outcomes, key=lambda row: row.mean)

    @property
    def verdict(self) -> str:
        """The answer in a sentence."""
        row = self.best_policy
        low, high = row.gain_interval
        if row.name == "log":
            return "No other policy could be compared with what was in force."
        if self.assumed:
            condition = self.condition[0].upper() + self.condition[1:]
            gain = less_time(low, high)
            return f"{condition}, which this log does not tell, sharing by {row.label} takes {gain}."
        if self.best == "log":
            return "No other policy would clearly have been better on these jobs."
        if low > 0.0:
            sure = f"{row.gain:.0%} less time in the system, between {low:.0%} and {high:.0%} (95 %)"
            return f"Sharing by {row.label} would have paid: {sure}."
        return (
            f"Sharing by {row.label} may have paid: {row.gain:.0%} less time in the system, "
            f"but anything from {low:.0%} to {high:.0%} is possible (95 %)."
        )

    @property
    def policies(self) -> list[dict[str, object]]:
        """The outcomes as plain values, with the mean response times of the classes by name."""
        names = self.system.names
        return [
            {**json_values(row), "by_class": dict(zip(names, row.by_class, strict=True))}
            for row in self.outcomes
        ]

    @property
    def assumption(self) -> dict[str, object] | None:
        """The curve that is assumed, of which classes, and the range of p; None if none is."""
        if not self.assumed:
            return None
        ends = [curve.p for curve in ASSUMED_RANGE]
        family, p = ASSUMED_CURVE.family, ASSUMED_CURVE.p
        return {"classes": list(self.assumed), "family": family, "p": p, "range": ends}

    def report(self) -> Report:
        """Return the verdict, the answers, the policies side by side, the classes, and the warnings."""
        usage, ends = self.usage, interval_in_words(self)
        times = with_unit("mean response\ntime", self.unit).replace(" (", "\n(")
        facts = [
            ("jobs", f"{usage.jobs:,} in {rounded(usage.end - usage.start)} {self.times_in}"),
            ("pool", f"{usage.cores:g} cores, {usage.utilisation:.0%} of them held on average"),
            ("gain", gain_in_words(self)),
            ("cores", cores_in_words(self)),
            ("one more", one_more_in_words(self)),
        ]
        less = "less than\nthe log" + (f"\n(p = {ASSUMED_CURVE.p:g})" if self.assumed else "")
        policies = Table(["policy", times, ends, less, ends], [row._cells() for row in self.outcomes])
        classes = by_size(self)
        rows = [
            [
                row.name,
                curve_in_words(row),
                f"{row.usage.jobs:,}",
                rounded(row.usage.mean_response_time),
                sizes_in_words(row),
            ]
            for row in classes[:_SHOWN]
        ]
        if rest := classes[_SHOWN:]:
            jobs = f"{sum(row.usage.jobs for row in rest):,}"
            rows.append([f"and {len(rest)} more", "see the page", jobs, "", ""])
        by_class = Table(["class", "curve", "jobs", times, "CV² of sizes"], rows, names=2)
        numbered = [(f"{k}", line) for k, line in enumerate(self.warnings, start=1)]
        warned = [Table((), numbered, title="Before you rely on it")] if numbered else []
        return Report(self.verdict, facts, [policies, by_class, *warned])


def less_time(low: float, high: float) -> str:
    """Return a range of gains in words."""
    if high < 0.0:
        return f"between {-high:.0%} and {-low:.0%} more time in the system"
    if low < 0.0:
        return f"anything between {-low:.0%} more and {high:.0%} less time in the system"
    return f"between {low:.0%} and {high:.0%} less time in the system"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def gain_in_words(advice: Advice) -> str:
    """Return the gain of the best policy."""
    row = advice.best_policy
    if row.name == "log":
        return "Not known: no policy could be run on these jobs."
    low, high = row.gain_interval
    if advice.assumed:
        return f"{_capital(less_time(low, high))} under {row.label}, {advice.condition}."
    return (
        f"{percent(row.gain)} less time in the system under {row.label} "
        f"({percent(low)} to {percent(high)}, 95 %)."
    )


def cores_in_words(advice: Advice) -> str:
    """Return how many cores meet the response time of the log."""
    found, there = advice.cores, f"{advice.system.cores:g}"
    if not found.answered:
        return "Not known: see the warnings."
    condition = f", {advice.condition}" if advice.assumed else ""
    if found.cores is None:
        return f"Not even {found.most_tried} cores would do under {found.label}{condition}."
    who = f"{found.cores} cores under {found.label}"
    enough = f"{who} give these jobs the mean response time that {there} gave"
    low, high = found.interval
    if advice.assumed:
        busy = f"{advice.usage.utilisation * advice.usage.cores:.0f}"
        fewer = "fewer may do, but this log does not tell how many" if low is None else f"{low} may do"
        return f"{enough}{condition}; {fewer} ({busy} were busy on average)."
    sure = f"{high}" if high is not None else "more than four times as many"
    return f"{enough}; {low if low is not None else found.cores} may do, {sure} do for sure (95 %)."


def one_more_in_words(advice: Advice) -> str:
    """Return what one more core is worth."""
    found = advice.cores
    if not found.answered:
        return "Not known: see the warnings."
    low, high = found.one_more_interval
    off = f"{advice.times_in} off the mean response time under {found.label}"
    if advice.assumed:
        return f"One more core takes between {low:.3g} and {high:.3g} {off}, {advice.condition}."
    return f"One more core would take {found.one_more:.3g} {off} ({low:.3g} to {high:.3g}, 95 %)."


def interval_in_words(advice: Advice) -> str:
    """Return what the ends beside a number are called."""
    return "range" if advice.assumed else "95 % interval"


def by_size(advice: Advice) -> list[ClassAdvice]:
    """Return the classes, that with most jobs first."""
    return sorted(advice.classes, key=lambda row: -row.usage.jobs)


def sizes_in_words(row: ClassAdvice) -> str:
    """Return how much sizes differ."""
    spread = row.curve.estimate.dispersion if row.curve.informative and row.curve.estimate else None
    if isinstance(spread, Quantity):
        low, high = spread.interval
        return f"{spread.value:.2g} ({low:.2g} to {high:.2g})"
    return "not known" if math.isnan(row.usage.cv2) else f"{row.usage.cv2:.2g} on that curve"


def curve_in_words(row: ClassAdvice) -> str:
    """Return the curve of a class and how sure it is; why the log does not tell it is among the warnings."""
    curve = row.curve
    if curve.source == FROM_TABLE:
        return "as measured"
    if curve.source == ASSUMED:
        return f"assumed, p = {ASSUMED_CURVE.p:g}"
    found = curve.estimate
    assert found is not None
    values = ", ".join(
        f"{name} = {value:.3g} ({found.intervals[name][0]:.3g} to {found.intervals[name][1]:.3g})"
        for name, value in found.parameters.items()
    )
    width = row.usage.widths[1]
    low, high = (float(end[0]) for end in curve.band(np.array([width])))
    speed = (
        f"{float(curve.curve.rate(width)):.3g} times faster on {width:.3g} cores ({low:.3g} to {high:.3g})"
    )
    weight = curve.weights.get(found.family, 1.0)
    return (
        f"{found.family} {values}; {speed}; {weight:.0%} sure of the family"
        if values
        else f"{found.family}; {speed}"
    )


def fit_in_words(row: ClassAdvice) -> str:
    """Return whether a class follows the model, and what it means where it does not."""
    if row.fit is None:
        return "not tested"
    if math.isnan(row.fit.p_value):
        return "too few jobs to tell"
    if not row.fit.doubtful:
        return "no sign against it"
    said = []
    if row.fit.p_values.get("widths", 1.0) < DOUBTFUL:
        said.append("jobs do not leave at the widths that the curve predicts: rely on it less")
    if row.fit.p_values.get("sizes", 1.0) < DOUBTFUL:
        said.append("sizes are not exponential: allowed for, since the sizes of the log itself were run")
    if min(row.fit.p_values.get("law", 1.0), row.fit.p_values.get("order", 1.0)) < DOUBTFUL:
        said.append("jobs leave in clusters: sizes differ, or something changed on the way")
    return "; ".join(said) or "some doubt"
