"""Independent replications, on one machine or many.

Every replication has a random stream of its own, spawned from one seed in order; so the answer depends on the
seed and the number of replications, not on who computed which of them.
"""

from __future__ import annotations

import math
import os
import pickle
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import CancelledError, Executor, ThreadPoolExecutor, as_completed
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property, partial
from threading import Event
from typing import TypeVar

import numpy as np

from corewise.errors import InvalidInput, InvalidPolicy
from corewise.kit import checks
from corewise.kit.arrays import Floats
from corewise.kit.frozen import FrozenMapping
from corewise.kit.numbers import value_with_interval
from corewise.kit.progress import Progress
from corewise.kit.report import Report, Reported, Summarised, Table
from corewise.kit.unit_labels import with_unit
from corewise.kit.values import ByValue
from corewise.model.system import System, require_system
from corewise.observation.statistics import Statistics
from corewise.policies.base import BoundPolicy, Policy, bind
from corewise.simulation.intervals import mean_interval, ratio_interval
from corewise.simulation.loops.loop import Loop
from corewise.simulation.paths import SHARES, Manner, another_walk
from corewise.simulation.randomness import random_streams
from corewise.simulation.run import Run, mean_response_time, run_of, simulation_report
from corewise.simulation.state import State
from corewise.simulation.window import Replay, Window, start_state

__all__ = ["ClassReplications", "Percentile", "Replications", "carried_out", "percentile_tables", "replicate"]

T = TypeVar("T")
Part = TypeVar("Part")

_TASKS = 32  # enough to keep all workers busy to the end, few enough to share tables


@dataclass(frozen=True, eq=False, repr=False)
class Percentile(ByValue, Summarised):
    """A percentile of response times, averaged over replications.

    Attributes
    ----------
    percent : float
        Which, from 0 to 100.
    value : float
        The mean of the replications' percentiles, over those in which a job of the class came and left.
    interval : tuple of float
        A 95 % confidence interval for it.

    Examples
    --------
    >>> import corewise as cw
    >>> system = cw.load_system("paper:1")
    >>> runs = cw.replicate(system, "equi", n=10, departures=2_000, rng=7, percentiles=[95])
    >>> (percentile,) = runs.classes["two"].percentiles
    >>> low, high = percentile.interval
    >>> percentile.percent, low < percentile.value < high
    (95.0, True)
    """

    _repr_fields = ("percent", "value", "interval")

    percent: float
    value: float
    interval: tuple[float, float]


@dataclass(frozen=True, eq=False, repr=False)
class ClassReplications(ByValue, Summarised):
    """Output of the replications for one class; `percentiles` are those of its response times.

    Examples
    --------
    >>> import corewise as cw
    >>> system = cw.load_system("paper:1")
    >>> runs = cw.replicate(system, "equi", n=10, departures=2_000, rng=7, percentiles=[95])
    >>> two = runs.classes["two"]
    >>> round(two.mean_jobs, 2), round(two.percentiles[0].value, 2)
    (0.25, 0.29)
    """

    _repr_fields = ("name", "mean_jobs", "interval", "mean_response_time")

    name: str
    arrivals: int
    departures: int
    mean_jobs: float
    interval: tuple[float, float]
    mean_response_time: float
    percentiles: tuple[Percentile, ...]


@dataclass(frozen=True, eq=False, repr=False)
class Replications(ByValue, Reported):
    """Independent replications of the same run, with confidence intervals.

    Attributes
    ----------
    policy : str
        The name of the policy.
    runs : tuple of Run
        The runs, in order; without their paths.
    mean_jobs : float
        The mean number of jobs over all of them.
    interval : tuple of float
        A 95 % confidence interval for it.
    events, departures : int
        How many there were in all.
    classes : mapping
        The same for each class, by name.

    Examples
    --------
    >>> import corewise as cw
    >>> system = cw.load_system("paper:1")
    >>> runs = cw.replicate(system, "equi", n=10, departures=2_000, rng=7)
    >>> len(runs.runs), round(runs.mean_jobs, 2)
    (10, 0.66)
    >>> runs.classes["two"].name
    'two'
    """

    _repr_fields = ("policy", "mean_jobs", "interval", "runs")
    _exported = (
        *("policy", "mean_jobs", "interval", "mean_response_time", "mean_cost", "events", "arrivals"),
        *("departures", "time", "unit", "classes"),
    )
    _json_fields = (
        *("policy", "mean_jobs", "interval", "mean_response_time", "settled", "events", "departures", "time"),
        *("unit", "classes"),
    )

    policy: str
    runs: tuple[Run, ...]
    mean_jobs: float
    interval: tuple[float, float]
    events: int
    departures: int
    classes: Mapping[str, ClassReplications]

    @property
    def unit(self) -> str | None:
        """What times are in, if the system says so."""
        return self.runs[0].unit

    @property
    def time(self) -> float:
        """How long the windows lasted together."""
        return math.fsum(run.time for run in self.runs)

    @property
    def arrivals(self) -> int:
        """How many jobs came in all."""
        return sum(run.arrivals for run in self.runs)

    @property
    def mean_response_time(self) -> float:
        """The mean time in the system of the jobs that came and left, of all classes and runs.

        NaN if none did.
        """
        return mean_response_time(row for run in self.runs for row in run.classes.values())

    @property
    def settled(self) -> bool:
        """Whether all runs have settled, as `Run.settled` has it."""
        return all(run.settled for run in self.runs)

    @property
    def mean_cost(self) -> float:
        """The mean of Σ h_i n_i over all runs, each job counted by the weight of its class."""
        return math.fsum(run.mean_cost * run.time for run in self.runs) / self.time

    @cached_property
    def statistics(self) -> Statistics:
        """The sufficient statistics of all runs together."""
        return Statistics.total([run.statistics for run in self.runs])

    def report(self) -> Report:
        """Return the means over all runs, of each class as well, and the percentiles asked for."""
        how = f"over {len(self.runs)} replications"
        report = simulation_report(self, how, [], "many jobs are left over")
        found = {name: row.percentiles for name, row in self.classes.items()}
        return replace(report, tables=[*report.tables, *percentile_tables(found, self.unit, together=3)])


def percentile_tables(
    found: Mapping[str, Sequence[Percentile]], unit: str | None, together: int
) -> list[Table]:
    """Return percentiles of response times by class, `together` of them side by side in each table."""
    percents = [one.percent for one in next(iter(found.values()))]
    tables = []
    for first in range(0, len(percents), together):
        part = slice(first, first + together)
        header = [with_unit("response\ntime", unit), *(f"{percent:g} %" for percent in percents[part])]
        rows = [
            [name, *(value_with_interval(one.value, one.interval, digits=4) for one in row[part])]
            for name, row in found.items()
        ]
        tables.append(Table(header, rows))
    return tables


def replicate(  # noqa: PLR0913  # those of simulate, and who does the work
    system: System,
    policy: Policy | str,
    *,
    n: int,
    departures: int | None = None,
    time: float | None = None,
    rng: np.random.Generator | int | None = None,
    start: State | Sequence[int] | None = None,
    percentiles: Collection[float] = (),
    whole: bool = False,
    known_sizes: bool = False,
    executor: Executor | None = None,
    progress: Progress | None = None,
) -> Replications:
    """Simulate the same window `n` times, independently.

    Parameters
    ----------
    system, policy, departures, time, start, whole, known_sizes
        As for `simulate`.
    n : int
        How many replications.
    rng : Generator or int, optional
        Where the streams of the replications are spawned from, or a seed for it.
    percentiles : collection of float, optional
        Percentiles of the response times to find, from 0 to 100; these need every path, which is slower.
    executor : concurrent.futures.Executor, optional
        Who does the work; threads on all cores of this machine if not given. Other processes need a policy
        that can be sent to them: the rule itself, such as ``Equi()``, rather than ``Equi().on(system)``.
    progress : callable, optional
        Called now and then with the share of the replications that are done.

    Examples
    --------
    >>> import corewise as cw
    >>> system = cw.load_system("paper:1")
    >>> runs = cw.replicate(system, "equi", n=10, departures=2_000, rng=7)
    >>> low, high = runs.interval
    >>> low < cw.evaluate(system, "equi").mean_jobs < high
    True
    >>> runs.departures
    20000
    """
    require_system(system)
    count = checks.whole(n, "n")
    window = Window.of(departures, time)
    if isinstance(percentiles, str) or not isinstance(percentiles, Collection):
        raise InvalidInput(f"percentiles must be a list such as [50, 95], got {percentiles!r}")
    wanted = tuple(checks.within(percent, 0.0, 100.0, "percentile") for percent in percentiles)
    manner = Manner(whole, known_sizes)
    begin = start_state(start, system)
    job = _Replication(system, policy, bind(policy, system), window, begin, wanted, manner)
    streams = random_streams(rng, count)
    parts = [list(part) for part in np.array_split(np.array(streams, dtype=object), min(count, _TASKS))]
    if executor is not None:
        if not isinstance(executor, ThreadPoolExecutor):
            job = job.portable()
        found = carried_out(job.run, parts, executor, progress)
    else:
        stop = Event()
        with ThreadPoolExecutor(os.cpu_count()) as threads:
            try:
                found = carried_out(partial(job.run, stop=stop), parts, threads, progress)
            finally:
                stop.set()  # an interrupt must not wait for the replications that are under way
    return _summary([outcome for part in found for outcome in part], wanted)


_Outcome = tuple[Run, dict[str, Floats]]
"""A run without its path, and the percentiles asked for of each class."""


@dataclass(frozen=True)
class _Replication:
    """Task of every replication."""

    system: System
    policy: Policy | str
    bound: BoundPolicy | None
    window: Window
    start: State
    percents: tuple[float, ...]
    manner: Manner = SHARES

    def portable(self) -> _Replication:
        """Return the job in a form that can be sent to other processes, raising `InvalidPolicy` if none can.

        A policy that took a computation is sent as it is bound; others are bound again where they arrive.
        """
        assert self.bound is not None
        why: Exception | None = None
        for policy in (self.bound, self.policy):
            job = replace(self, policy=policy, bound=None)
            try:
                pickle.dumps(job)
            except (pickle.PicklingError, AttributeError, TypeError) as error:
                why = error
            else:
                return job
        raise InvalidPolicy(
            f"{self.bound.name} cannot be sent to other processes ({why}); give the rule itself, "
            f"not one bound by on(system), or use threads"
        )

    def run(self, streams: Sequence[np.random.Generator], stop: Event | None = None) -> list[_Outcome]:
        """Return the outcome for each stream; the tables that one has grown serve the next."""

        def go_on(_: float) -> None:
            if stop is not None and stop.is_set():
                raise CancelledError

        bound = self.bound or bind(self.policy, self.system)
        outcomes: list[_Outcome] = []
        walk: Loop | None = None
        for stream in streams:
            begun = (self.system, self.policy, self.start, self.window, 1, deepcopy(stream), bound)
            replay = Replay(*begun, manner=self.manner)
            walk = another_walk(
                *(walk, self.system, bound, self.start, stream),
                record=bool(self.percents),
                manner=self.manner,
            )
            if self.percents or self.window.short(self.system):
                walk.follow_jobs()
            self.window.walk(walk, 1, go_on)
            run = run_of(walk, replay)
            found = run.percentiles(self.percents) if self.percents else {}
            outcomes.append((replace(run, path=None), found))
        return outcomes


def carried_out(
    work: Callable[[Part], T], parts: Sequence[Part], executor: Executor, progress: Progress | None
) -> list[T]:
    """Return what an executor makes of every part, in their order; `progress` hears of the share done."""
    pending = {executor.submit(work, part): i for i, part in enumerate(parts)}
    done: dict[int, T] = {}
    try:
        for future in as_completed(pending):
            done[pending[future]] = future.result()
            if progress:
                progress(len(done) / len(parts))
    finally:
        for future in pending:
            future.cancel()
    return [done[i] for i in range(len(parts))]


def _percentile(percent: float, found: Floats) -> Percentile:
    """Return the mean over the replications that saw a job of the class come and leave."""
    seen = found[~np.isnan(found)]
    return Percentile(percent, float(seen.mean()) if seen.size else math.nan, mean_interval(seen))


def _summary(outcomes: Sequence[_Outcome], percents: Sequence[float]) -> Replications:
    runs = [run for run, _ in outcomes]
    spans = np.array([run.time for run in runs])
    jobs = np.array([run.mean_jobs for run in runs])
    rows = {}
    for name in runs[0].classes:
        means = np.array([run.classes[name].mean_jobs for run in runs])
        area = float((means * spans).sum())
        within = np.array([found[name] for _, found in outcomes]) if percents else np.empty((len(runs), 0))
        rows[name] = ClassReplications(
            name,
            sum(run.classes[name].arrivals for run in runs),
            sum(run.classes[name].departures for run in runs),
            area / float(spans.sum()),
            ratio_interval(means * spans, spans),
            mean_response_time(run.classes[name] for run in runs),
            tuple(_percentile(percent, within[:, q]) for q, percent in enumerate(percents)),
        )
    return Replications(
        policy=runs[0].policy,
        runs=tuple(runs),
        mean_jobs=float((jobs * spans).sum() / spans.sum()),
        interval=ratio_interval(jobs * spans, spans),
        events=sum(run.events for run in runs),
        departures=sum(run.departures for run in runs),
        classes=FrozenMapping(rows),
    )
