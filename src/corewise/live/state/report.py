"""Reports of a live pool: its state, the estimates, and the expected improvement by a policy."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from corewise.estimation.changes.alarms import Alarm
from corewise.estimation.class_estimate import ClassEstimate
from corewise.kit import report as reports
from corewise.kit.jsonable import plain
from corewise.kit.report import Reported, Summarised, Table
from corewise.kit.times import in_force_since, instant
from corewise.learning.gate import gain_in_words
from corewise.live.state.counters import JobCounters
from corewise.live.state.instructions import Alert
from corewise.observation.events import Mode, Solved

__all__ = ["ClassReport", "Expected", "Report", "ResponseSummary"]


@dataclass(frozen=True)
class ResponseSummary:
    """Measured response times: those of jobs that were seen to arrive and to finish.

    Attributes
    ----------
    count : int
        How many.
    mean, stderr : float
        Their mean and its standard error, as if they were independent; NaN where there are too few.
    """

    count: int
    mean: float
    stderr: float

    @classmethod
    def of(cls, counters: JobCounters) -> ResponseSummary:
        """Return the response times that were counted."""
        mean = counters.mean if counters.responses else math.nan
        return cls(counters.responses, mean, counters.stderr)


@dataclass(frozen=True)
class Expected:
    """Mean response time that is expected at the estimates: under EQUI, and under the policy last solved for.

    Attributes
    ----------
    equi : float
        Mean response time under EQUI.
    policy : float
        Mean response time under the policy.
    """

    equi: float
    policy: float

    @classmethod
    def by_class(cls, answer: Solved, names: Sequence[str]) -> dict[str, Expected]:
        """Return the expected mean response times by class; `names` are those of an answer that has none."""
        if answer.response_times is None:
            return {}
        classes = names if answer.classes is None else answer.classes
        return {name: cls(*times) for name, times in zip(classes, answer.response_times, strict=True)}

    @property
    def gain(self) -> float:
        """The fraction by which it is less under the policy."""
        return 1.0 - self.policy / self.equi


@dataclass(frozen=True, repr=False)
class ClassReport(Summarised):
    """Report on a class of a live pool.

    Attributes
    ----------
    name : str
        The class.
    jobs, waiting : int
        The jobs that are there, and how many of them hold no core.
    held : int
        The cores that they hold.
    told : int
        The cores that they were assigned.
    target : int
        The cores that they should hold; in `watch` those that they would be assigned.
    arrived, present, finished, ended : int
        Jobs that arrived, were there before, finished, and left without having finished.
    responses : ResponseSummary
        Measured response times.
    learned : ClassEstimate or None
        Curve and rates; None before the first window is over.
    marks : float
        Progress that jobs have reported, in the unit of the class.
    expected : Expected or None
        Mean response times to expect; None before an answer of the solver, for a class that the answer is not
        about, or where a policy is unstable.
    departures, departures_needed : int
        The departures that were learned from, and how many it takes for the class to be part of a policy.

    Examples
    --------
    >>> import corewise as cw
    >>> from corewise.observation.events import JobArrived
    >>> classes = [cw.JobClass(name, 1.0, 1.0, cw.Amdahl(0.5)) for name in ("etl", "query")]
    >>> system = cw.System(8, classes)
    >>> controller = cw.live.Controller(cw.algorithm_1b(system), lambda digest: cw.Equi(), mode="steer")
    >>> _ = controller.handle(JobArrived(0.0, "event 1", "job 1", "etl"))
    >>> etl, query = controller.report().classes
    >>> etl.name, etl.jobs, etl.target
    ('etl', 1, 8)
    >>> query.jobs
    0
    """

    _repr_fields = ("name", "jobs", "held", "finished")

    name: str
    jobs: int
    waiting: int
    held: int
    told: int
    target: int
    arrived: int
    present: int
    finished: int
    ended: int
    responses: ResponseSummary
    learned: ClassEstimate | None
    marks: float
    expected: Expected | None
    departures: int = 0
    departures_needed: int = 0

    def as_mapping(self) -> dict[str, Any]:
        """Return the report as plain values."""
        expected = self.expected and {**asdict(self.expected), "gain": self.expected.gain}
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return values | {
            "responses": asdict(self.responses),
            "learned": self.learned and self.learned.as_mapping(),
            "expected": expected,
        }


@dataclass(frozen=True, repr=False)
class Report(Reported):
    """Report of a live pool.

    Attributes
    ----------
    time : float
        When it was made, by the clock of the pool.
    mode : str
        ``"watch"``, ``"steer"`` or ``"hold"``.
    pool : int
        The cores of the pool.
    policy : str
        The policy in force.
    since : float
        When it was adopted.
    windows : int
        How many windows of departures were learned from.
    gain : tuple of float or None
        The gain of the policy last solved for over EQUI, as a fraction of the mean cost and given what was
        seen: its 10 % quantile, its mean and its 90 % quantile. None before there is one.
    in_force : bool
        Whether that policy is in force.
    responses : ResponseSummary
        Measured response times, of all classes.
    classes : tuple of ClassReport
        Each class.
    alarms : tuple of Alarm
        Changes that were found.
    alerts : tuple of Alert
        Alerts to a person, the latest last.
    would_have_moved : int
        How often cores of a job would have been moved while they were only watched.
    adopted : bool
        Whether a policy other than EQUI is in force.
    reason : str
        Why none is, or not the last one that was solved for, and which classes share equally beside it; empty
        if there is nothing of the kind to say.
    late_events : int
        Events that came too late to be learned from.

    Examples
    --------
    >>> import corewise as cw
    >>> from corewise.observation.events import JobArrived
    >>> classes = [cw.JobClass(name, 1.0, 1.0, cw.Amdahl(0.5)) for name in ("etl", "query")]
    >>> system = cw.System(8, classes)
    >>> controller = cw.live.Controller(cw.algorithm_1b(system), lambda digest: cw.Equi(), mode="steer")
    >>> _ = controller.handle(JobArrived(0.0, "event 1", "job 1", "etl"))
    >>> report = controller.report()
    >>> report.mode, report.pool, report.policy, report.jobs
    ('steer', 8, 'equi', 1)
    """

    _repr_fields = ("mode", "pool", "policy", "gain")
    _width = None

    time: float
    mode: Mode
    pool: int
    policy: str
    since: float
    windows: int
    gain: tuple[float, float, float] | None
    in_force: bool
    responses: ResponseSummary
    classes: tuple[ClassReport, ...]
    alarms: tuple[Alarm, ...]
    alerts: tuple[Alert, ...]
    would_have_moved: int
    adopted: bool = False
    reason: str = ""
    late_events: int = 0

    @property
    def held(self) -> int:
        """The cores that jobs hold."""
        return sum(row.held for row in self.classes)

    @property
    def told(self) -> int:
        """The cores that jobs were assigned."""
        return sum(row.told for row in self.classes)

    @property
    def jobs(self) -> int:
        """The jobs that are there."""
        return sum(row.jobs for row in self.classes)

    def as_mapping(self) -> dict[str, Any]:
        """Return the report as plain values, which JSON can hold: what is not a finite number is None."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        whole = values | {
            "held": self.held,
            "told": self.told,
            "jobs": self.jobs,
            "gain": self.gain and dict(zip(("least", "expected", "most"), self.gain, strict=True)),
            "responses": asdict(self.responses),
            "classes": [row.as_mapping() for row in self.classes],
            "alarms": [{"class": one.name, "kind": one.kind, "text": str(one)} for one in self.alarms],
            "alerts": [asdict(alert) for alert in self.alerts],
        }
        made = plain(whole)
        assert isinstance(made, dict)
        return made

    def report(self) -> reports.Report:
        """Return the cores held, the policy and its expected gain, a table of the classes, and the alerts."""
        held = f"{self.held} of {self.pool} cores held by {self.jobs} jobs"
        title = f"at {instant(self.time)}, {self.mode}: {held}"
        rows = [_cells(row) for row in self.classes]
        shown = [i for i, column in enumerate(zip(*rows, strict=True)) if any(column)]
        header, cells = [_COLUMNS[i] for i in shown], [[row[i] for i in shown] for row in rows]
        table = Table(header, cells, names=2 if "curve" in header else 1)
        return reports.Report(title, list(self._facts()), [table], list(self._notes()))

    def _facts(self) -> Iterator[tuple[str, str]]:
        yield "policy", f"{self.policy} in force {in_force_since(self.since, self.time)}"
        if self.gain is not None:
            state = "in force" if self.in_force else f"not adopted: {self.policy} stays in force"
            yield "expected", f"{gain_in_words(self.gain)} by the last policy solved for, {state}"
        if self.reason:
            yield "note", self.reason
        if self.responses.count:
            yield "mean response time", f"{_measured(self.responses)} of {self.responses.count} jobs"

    def _notes(self) -> Iterator[str]:
        if self.mode == "watch":
            yield f"{self.would_have_moved} moves would have been made"
        if self.late_events:
            yield f"{self.late_events} events came too late to be learned from"
        for row in self.classes:
            if row.learned is not None and row.learned.note:
                yield f"{row.name}: {row.learned.note}"
        for alarm in self.alarms:
            yield f"change: {alarm}"
        for alert in self.alerts:
            yield f"alert: {alert.about}: {alert.text}"


_COLUMNS = ("class", "curve", "jobs", "waiting", "held", "told", "finished", "response", "EQUI", "policy")


def _cells(row: ClassReport) -> tuple[str, ...]:
    expected = (
        ("", "") if row.expected is None else (f"{row.expected.equi:.4g}", f"{row.expected.policy:.4g}")
    )
    counts = (row.jobs, row.waiting, row.held, row.told, row.finished)
    return (
        row.name,
        "" if row.learned is None else _curve(row.learned),
        *map(str, counts),
        _measured(row.responses),
        *expected,
    )


def _measured(responses: ResponseSummary) -> str:
    if not responses.count:
        return ""
    error = "" if math.isnan(responses.stderr) else f" ± {responses.stderr:.2g}"
    return f"{responses.mean:.4g}{error}"


def _curve(learned: ClassEstimate) -> str:
    if not learned.informative:
        return f"{learned.family}, not known yet"
    ends = {name: f"[{low:.3g}, {high:.3g}]" for name, (low, high) in learned.intervals.items()}
    values = [f"{name} = {value:.3g} {ends[name]}" for name, value in learned.parameters.items()]
    return f"{learned.family} {', '.join(values)}".strip()
