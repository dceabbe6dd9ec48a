"""Results of a simulation: the means over a sample path, their intervals, and response times."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from corewise.errors import InvalidInput
from corewise.kit.arrays import Floats, Ints
from corewise.kit.frozen import FrozenMapping
from corewise.kit.numbers import value_with_interval
from corewise.kit.report import Report, Reported, Summarised, Table
from corewise.kit.unit_labels import with_unit
from corewise.kit.values import ByValue
from corewise.model.system import System
from corewise.observation.sample_path import SamplePath
from corewise.observation.statistics import Statistics
from corewise.simulation.correlation import correlation_time
from corewise.simulation.decisions.table import TableChain, TableJobs
from corewise.simulation.intervals import BATCH_TIMES, independent, ratio_interval
from corewise.simulation.job_times import ClassTimes, JobTimes, exact_percentiles
from corewise.simulation.loops.every_job import EveryJobLoop
from corewise.simulation.loops.loop import Loop
from corewise.simulation.loops.widths import WidthLoop
from corewise.simulation.slowdowns import Slowdowns
from corewise.simulation.state import State
from corewise.simulation.trace import Trace
from corewise.simulation.window import LEAST_DEPARTURES, Replay

__all__ = ["ClassRun", "Run", "has_batches", "mean_response_time", "run_of"]

_LEFT_OVER, _FEW = 0.05, 10
"""Of those who left, as many may be left over where a run has settled; of a class, a few in any case."""

_NEGLIGIBLE = 1e-3
"""The part of the departures that may be left over where response times come from Little's law."""


@dataclass(frozen=True, eq=False, repr=False)
class ClassRun(ByValue, Summarised):
    """Simulation output for one class.

    Attributes
    ----------
    name : str
        The class.
    arrivals, departures : int
        How many jobs came and left.
    mean_jobs : float
        The mean number in the system.
    interval : tuple of float
        A 95 % confidence interval for it, by batch means; NaN if the run is too short.
    mean_response_time : float
        The mean time in the system of the jobs that came and left, NaN if none did; see
        `corewise.simulation.response_times`.
    completed : float
        How many those are; a fraction if jobs were there at the start, as any of them may have left.

    Examples
    --------
    >>> import corewise as cw
    >>> system = cw.load_system("paper:1")
    >>> run = cw.simulate(system, "equi", departures=20_000, rng=7)
    >>> one = run.classes["one"]
    >>> one.name, one.departures, round(one.mean_jobs, 3)
    ('one', 6992, 0.395)
    """

    _repr_fields = ("name", "mean_jobs", "interval", "mean_response_time")
    _json_fields = ("name", "arrivals", "departures", "mean_jobs", "interval", "mean_response_time")

    name: str
    arrivals: int
    departures: int
    mean_jobs: float
    interval: tuple[float, float]
    mean_response_time: float
    completed: float


@dataclass(frozen=True, eq=False, repr=False)
class Run(ByValue, Reported):
    """Simulation output: the means over a sample path, and what is needed to go on from its end.

    Attributes
    ----------
    policy : str
        The name of the policy.
    path : SamplePath or None
        The record of events, if it was asked for.
    mean_jobs : float
        The mean number of jobs over the window.
    interval : tuple of float
        A 95 % confidence interval for the long-run mean, by means of 20 batches; NaN if the run is too short
        for one: if batches are not ten times as long as the number of jobs is correlated, which grows as 1/(1
        − load)², or if each is like the next. `replicate` needs no such condition.
    mean_cost : float
        The mean of Σ h_i n_i over the window, each job counted by the weight of its class.
    events, departures : int
        How many there were.
    time : float
        How long the window lasted.
    state : State
        Where it ended; ``simulate(..., start=run.state)`` goes on from there.
    classes : mapping
        The same for each class, by name.
    visited : ndarray
        The states visited, shape (K, states); none if it ran without tables, which does not count them.
    times : ndarray
        The time spent in each of them.
    observed : Statistics or callable
        What `statistics` gives, or what makes it.
    response_times : mapping
        The response times of each class, by its name: the mean, its interval, and percentiles.
    job_times : JobTimes or None
        Where all percentiles come from, if every job was followed.
    overall : ClassTimes or None
        The response times of all classes together, where every job was followed.
    slowdowns : Slowdowns or None
        How much longer jobs took than each would alone, by class and by size, where every job was followed.
    makespan : float or None
        The time from the first recorded job to the departure of the last, if all of them have left.
    resizes : int or None
        How often the cores of a job that had begun changed; None unless jobs hold whole cores.
    resizes_interval : tuple of float
        A 95 % confidence interval for `resizes_per_job`, by batch means; NaN where there is none.
    unit : str or None
        What times are in, if the system says so.

    Examples
    --------
    >>> import corewise as cw
    >>> system = cw.load_system("paper:1")
    >>> run = cw.simulate(system, "equi", departures=20_000, rng=7)
    >>> run.departures, round(run.mean_jobs, 3)
    (20000, 0.647)
    >>> round(run.mean_response_time, 4)
    0.1624
    >>> run.statistics.departures == run.departures
    True
    """

    _repr_fields = ("policy", "mean_jobs", "interval", "departures")
    _exported = (
        *("policy", "mean_jobs", "interval", "mean_response_time", "mean_cost", "events", "arrivals"),
        *("departures", "time", "unit", "resizes", "state", "classes", "response_times"),
    )
    _json_fields = (
        *("policy", "mean_jobs", "interval", "mean_response_time", "settled", "events", "departures", "time"),
        *("unit", "state=state.counts", "classes", "response_times", "overall", "slowdowns", "makespan"),
        *("resizes_per_job", "resizes_interval"),
    )

    policy: str
    path: SamplePath | None
    mean_jobs: float
    interval: tuple[float, float]
    mean_cost: float
    events: int
    departures: int
    time: float
    state: State
    classes: Mapping[str, ClassRun]
    visited: Ints
    times: Floats
    observed: Statistics | Replay = field(compare=False)
    response_times: Mapping[str, ClassTimes]
    job_times: JobTimes | None = None
    overall: ClassTimes | None = None
    slowdowns: Slowdowns | None = None
    makespan: float | None = None
    resizes: int | None = None
    resizes_interval: tuple[float, float] = (math.nan, math.nan)
    unit: str | None = None

    @property
    def resizes_per_event(self) -> float:
        """How often cores of running jobs changed, for each arrival or departure; NaN if moves are free."""
        return math.nan if self.resizes is None else self.resizes / max(self.events, 1)

    @property
    def resizes_per_job(self) -> float:
        """How often the cores of a job that had begun changed; NaN if moves are free."""
        return math.nan if self.resizes is None else self.resizes / max(self.departures, 1)

    @property
    def arrivals(self) -> int:
        """How many jobs came."""
        return sum(row.arrivals for row in self.classes.values())

    @property
    def mean_response_time(self) -> float:
        """The mean time in the system of the jobs that came and left, of all classes; NaN if none did."""
        return mean_response_time(self.classes.values())

    @property
    def settled(self) -> bool:
        """Whether few jobs are left over at the end: at most one for every twenty that have left.

        So in all, and in every class that has more than ten left over. Otherwise the window was filling, or
        too short for the jobs that take long, and its means are not those of the long run.
        """
        left_over = self.state.counts
        rows = zip(left_over, self.classes.values(), strict=True)
        return sum(left_over) <= _LEFT_OVER * self.departures and all(
            count <= max(_FEW, _LEFT_OVER * row.departures) for count, row in rows
        )

    def percentiles(self, percents: Sequence[float]) -> dict[str, Floats]:
        """Return percentiles of the response times of each class, by its name; NaN if no job came and left.

        They are known where every job is followed: with ``record=True``, and to about half a per cent where
        sizes are not exponential.
        """
        if self.path is None and self.job_times is not None:
            wanted = np.array(percents, dtype=np.float64)
            return {name: self.job_times.percentiles(i, wanted) for i, name in enumerate(self.classes)}
        if self.path is None:
            raise InvalidInput("percentiles need every event: simulate(…, record=True)")
        none = np.full(len(percents), math.nan)
        return {
            name: np.percentile(times, percents) if times.size else none
            for name, times in self.path.response_times.items()
        }

    @cached_property
    def statistics(self) -> Statistics:
        """Departures and job-time by cores per job, for `estimate`.

        A run without tables does not keep them, since a tally of all classes at every event takes far longer
        than the run; when asked for, they come from the same run once more.
        """
        return self.observed if isinstance(self.observed, Statistics) else self.observed()

    def report(self) -> Report:
        """Return the means of the run and of each class."""
        facts = []
        if self.resizes is not None:
            often = f"{self.resizes_per_event:.3g} for each arrival or departure"
            facts.append(("resizes", f"{self.resizes:,}, {often}"))
            each = value_with_interval(self.resizes_per_job, self.resizes_interval, digits=3)
            facts.append(("resizes per job", each))
        if self.makespan is not None:
            facts.append(("makespan", f"{self.makespan:,.6g} {self.unit or 'units of time'}"))
        if self.slowdowns is not None:
            overall = self.slowdowns.overall
            facts.append(("mean slowdown", value_with_interval(overall.mean, overall.interval)))
        jobs = ", ".join(f"{name} {n}" for n, name in zip(self.state.counts, self.classes, strict=True))
        facts.append(("jobs at the end", jobs))
        left_over = f"{sum(self.state.counts):,} jobs are left over"
        report = simulation_report(self, "by batch means", facts, left_over)
        if self.slowdowns is None or not self.slowdowns.overall.jobs:
            return report
        return replace(report, tables=[*report.tables, self.slowdowns.table])


class Simulated(Protocol):
    """What a run and replications of it have in common."""

    @property
    def policy(self) -> str: ...
    @property
    def mean_jobs(self) -> float: ...
    @property
    def interval(self) -> tuple[float, float]: ...
    @property
    def mean_response_time(self) -> float: ...
    @property
    def departures(self) -> int: ...
    @property
    def time(self) -> float: ...
    @property
    def settled(self) -> bool: ...
    @property
    def unit(self) -> str | None: ...
    @property
    def classes(self) -> Mapping[str, Any]: ...


def simulation_report(found: Simulated, how: str, facts: Sequence[tuple[str, str]], left_over: str) -> Report:
    """Return the report of a run or of replications; `how` its interval was found."""
    interval = "" if math.isnan(found.interval[0]) else f" (95 % confidence, {how})"
    unsettled = (
        f"not settled: {found.departures:,} have left and {left_over}, so these are not the means of the "
        "long run; simulate longer"
    )
    table = Table(
        [
            "class",
            "arrivals",
            "departures",
            "mean number of jobs",
            with_unit("mean response time", found.unit),
        ],
        [
            (
                row.name,
                row.arrivals,
                row.departures,
                value_with_interval(row.mean_jobs, row.interval),
                _digits(row.mean_response_time),
            )
            for row in found.classes.values()
        ],
    )
    rates = found.unit or "(in the unit of time of the rates)"
    return Report(
        f"Simulated {found.policy}",
        [
            ("mean number of jobs", f"{value_with_interval(found.mean_jobs, found.interval)}{interval}"),
            ("mean response time", f"{_digits(found.mean_response_time)} {rates}"),
            ("departures", f"{found.departures:,} in {found.time:,.6g} {found.unit or 'units of time'}"),
            *facts,
            *([] if found.settled else [("note", unsettled)]),
        ],
        [table],
    )


def _digits(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.6g}"


def mean_response_time(rows: Iterable[ClassRun]) -> float:
    """Return the mean response time of all jobs that came and left; NaN if none did."""
    done = [(row.completed, row.mean_response_time) for row in rows if row.completed]
    return math.fsum(n * time for n, time in done) / math.fsum(n for n, _ in done) if done else math.nan


def run_of(walk: Loop, replay: Replay) -> Run:
    """Return what a walk saw; `replay` makes the same one again, for what it kept no count of."""
    names, moves = tuple(walk.system.names), walk.moves
    counts, times = walk.visits
    counts.setflags(write=False)
    times.setflags(write=False)
    departures = int(moves[len(names) :].sum())
    areas, spans = np.array(walk.areas), np.array(walk.spans)
    correlation = 0.0
    if replay.jobs is None and has_batches(walk.system, areas.sum(axis=1), spans, departures):
        correlation = correlation_time(walk.system)
    else:
        areas, spans = areas.sum(axis=0, keepdims=True), spans.sum(keepdims=True)
    duration = float(spans.sum())
    if duration <= 0.0:
        raise InvalidInput(f"a window of no length at time {walk.start.time!r}: the clock cannot resolve it")
    state, path = walk.finish()
    spent, completed = _responses(walk, replay, areas.sum(axis=0))
    rows = {}
    for i, name in enumerate(names):
        rows[name] = ClassRun(
            name,
            int(moves[i]),
            int(moves[len(names) + i]),
            float(areas[:, i].sum()) / duration,
            ratio_interval(areas[:, i], spans, correlation),
            spent[i] / completed[i] if completed[i] else math.nan,
            completed[i],
        )
    return Run(
        policy=walk.policy.name,
        path=path,
        mean_jobs=float(areas.sum()) / duration,
        interval=ratio_interval(areas.sum(axis=1), spans, correlation),
        mean_cost=math.fsum(known.weight * rows[known.name].mean_jobs for known in walk.system.classes),
        events=walk.events,
        departures=departures,
        time=duration,
        state=state,
        classes=FrozenMapping(rows),
        visited=counts,
        times=times,
        observed=walk.statistics() if isinstance(walk, TableChain | TableJobs) else replay,
        response_times=FrozenMapping(_class_times(walk, rows, path, correlation, replay.jobs)),
        job_times=walk.times if isinstance(walk, EveryJobLoop) else None,
        overall=walk.overall_times(correlation) if isinstance(walk, EveryJobLoop) else None,
        slowdowns=walk.slowdowns(correlation) if isinstance(walk, EveryJobLoop) else None,
        makespan=duration if replay.jobs is not None and not any(walk.counts) else None,
        resizes=int(walk.resizes.sum()) if isinstance(walk, WidthLoop) and walk.whole else None,
        resizes_interval=walk.resizes_interval(correlation)
        if isinstance(walk, WidthLoop)
        else (math.nan, math.nan),
        unit=walk.system.unit,
    )


def _class_times(
    walk: Loop,
    rows: Mapping[str, ClassRun],
    path: SamplePath | None,
    correlation: float,
    jobs: Trace | None,
) -> dict[str, ClassTimes]:
    """Return the response times of each class; `correlation` is zero if batches are not independent."""
    if isinstance(walk, EveryJobLoop):
        means = None if jobs is not None else 1.0 / walk.system.size_rates
        return walk.class_times(means, correlation)
    none = math.nan, math.nan
    times: Mapping[str, Floats] = path.response_times if path is not None else {}
    return {
        name: ClassTimes(
            name,
            row.completed,
            row.mean_response_time,
            none,
            row.mean_response_time,
            exact_percentiles(times.get(name)),
        )
        for name, row in rows.items()
    }


def has_batches(system: System, areas: Floats, spans: Floats, departures: int) -> bool:
    """Return whether batches are long enough to be independent, and look as if they were.

    Where more work comes than all cores can do, there is no long-run mean to give an interval for.
    """
    if system.load >= 1.0 or departures < LEAST_DEPARTURES:
        return False
    return float(spans.min()) >= BATCH_TIMES * correlation_time(system) and independent(areas / spans)


def _responses(walk: Loop, replay: Replay, areas: Floats) -> tuple[list[float], list[float]]:
    """Return, by class, the time spent by the jobs that came and left, and how many those are.

    In a long run that no one has followed, Little's law says as much, if next to no jobs are left over from
    before it and to after it; otherwise the run is made again.
    """
    departures = walk.moves[areas.size :]
    over = np.array(walk.start.counts) + np.array(walk.counts)
    if isinstance(walk, EveryJobLoop):
        return walk.times.spent.tolist(), walk.times.left.tolist()
    if walk.responses is None and np.all(over <= _NEGLIGIBLE * departures):
        return areas.tolist(), departures.astype(np.float64).tolist()
    found = walk.responses or replay.response_times()
    return found.spent.tolist(), found.left.tolist()
