r"""Simulation: a sample path of the system under a policy.

For exponential sizes and Poisson arrivals two engines, both exact, behind one function.

- A window that ends on a *count* of departures needs no clock while it runs: the sequence of states is a
  Markov chain of its own (the jump chain), and given how often each state was left, the time spent in it is
  one Gamma variable. No exponential variable is drawn per event.
- A window that ends at a *time*, a recorded path, and curves that change need the clock: one exponential and
  one uniform variable an event.

Both read the moves of a state from tables over a box. Nobody is ever blocked: tables grow with the path, and
the path does not depend on them. For more than three classes policies that are one water level, or go by
fitted values, are simulated without tables (`corewise.simulation.tableless`).

For any other law, and for jobs that were recorded, every job is followed (`corewise.simulation.general`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np

from corewise.errors import InvalidInput
from corewise.kit import checks
from corewise.kit.arrays import Floats, Ints
from corewise.kit.display import Shown, Table
from corewise.kit.frozen import FrozenMapping
from corewise.kit.numbers import value_and_ends
from corewise.model.rates import uniformisation_constant
from corewise.model.system import System, require_system
from corewise.observation.sample_path import SamplePath
from corewise.observation.statistics import Statistics
from corewise.policies.base import BoundPolicy, Policy, bind
from corewise.policies.fitted.rule import FittedRule
from corewise.simulation.correlation import correlation_time
from corewise.simulation.general.box import BoxJobWalk
from corewise.simulation.general.source import JobSource, RandomJobs, RecordedJobs
from corewise.simulation.general.tableless import FittedJobWalk, LevelJobWalk, TablelessJobWalk
from corewise.simulation.general.tables import SpeedTables
from corewise.simulation.general.times import ClassTimes, JobTimes, exact_percentiles
from corewise.simulation.general.trace import Trace, require_trace
from corewise.simulation.general.walk import JobWalk
from corewise.simulation.intervals import BATCH_TIMES, independent, ratio_interval
from corewise.simulation.response_times import ResponseTimes
from corewise.simulation.tableless.fitted import FittedWalk
from corewise.simulation.tableless.level import LevelWalk
from corewise.simulation.tables import Tables, suits_tables
from corewise.simulation.walk import Engine, State, Walk

__all__ = [
    "ClassRun",
    "Progress",
    "Replay",
    "Run",
    "Window",
    "another_walk",
    "draws_without_tables",
    "first_tables",
    "first_walk",
    "has_batches",
    "mean_response_time",
    "random_generator",
    "random_streams",
    "run_of",
    "simulate",
    "start_state",
]

_BATCHES = 20  # enough for Student's quantile to be near the normal one, few enough to be long
_LEAST_DEPARTURES = 10 * _BATCHES  # with fewer a batch says nothing, and there is no interval

_LEFT_OVER, _FEW = 0.05, 10
"""Of those who left, as many may be left over where a run has settled; of a class, a few in any case."""

_FOLLOWED = 2**15
"""Departures up to which all jobs are followed at once, which takes some milliseconds."""

_NEGLIGIBLE = 1e-3
"""The part of the departures that may be left over where response times come from Little's law."""

_MOST_DEPARTURES = 10**18  # what 64 bits can count


Progress = Callable[[float], object]
"""Called now and then with the share of the work that is done."""


@dataclass(frozen=True, repr=False)
class ClassRun(Shown):
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
    """

    _shown = ("name", "mean_jobs", "interval", "mean_response_time")

    name: str
    arrivals: int
    departures: int
    mean_jobs: float
    interval: tuple[float, float]
    mean_response_time: float
    completed: float


@dataclass(frozen=True, eq=False, repr=False)
class Run(Shown):
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
    resizes : int or None
        How often the cores of a job that had begun changed; None but with moving costs.
    """

    _shown = ("policy", "mean_jobs", "interval", "departures")

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
    observed: Statistics | Replay
    response_times: Mapping[str, ClassTimes]
    job_times: JobTimes | None = None
    resizes: int | None = None

    @property
    def resizes_per_event(self) -> float:
        """How often cores of running jobs changed, for each arrival or departure; NaN if moves are free."""
        return math.nan if self.resizes is None else self.resizes / max(self.events, 1)

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

    def __str__(self) -> str:
        """Return the numbers as a small table."""
        lines = [
            f"{self.policy}: {self.departures} departures in {self.time:.6g} units of time, "
            f"mean jobs {value_and_ends(self.mean_jobs, self.interval)}"
        ]
        lines += [
            f"  {row.name}: {row.departures} departures, "
            f"mean jobs {value_and_ends(row.mean_jobs, row.interval)}, "
            f"mean response time {row.mean_response_time:.6g}"
            for row in self.classes.values()
        ]
        return "\n".join(lines)

    def _table(self) -> Table:
        columns = "name", "departures", "mean_jobs", "interval", "mean_response_time"
        return Table.of(self.classes.values(), *columns)


def mean_response_time(rows: Iterable[ClassRun]) -> float:
    """Return the mean response time of all jobs that came and left; NaN if none did."""
    done = [(row.completed, row.mean_response_time) for row in rows if row.completed]
    return math.fsum(n * time for n, time in done) / math.fsum(n for n, _ in done) if done else math.nan


def simulate(  # noqa: PLR0913  # what to simulate, how long, and what to keep
    system: System,
    policy: Policy | str,
    *,
    departures: int | None = None,
    time: float | None = None,
    rng: np.random.Generator | int | None = None,
    start: State | Sequence[int] | None = None,
    record: bool = False,
    jobs: Trace | None = None,
    progress: Progress | None = None,
    moving_costs: bool = False,
) -> Run:
    """Simulate `policy` on `system` for a number of departures or a length of time.

    Where sizes or the times between arrivals are not exponential, every job is followed. Its size and its
    arrival come from streams of its class: with one seed the jobs are the same under every policy.

    Parameters
    ----------
    system : System
        The system; curves that change do so at their times.
    policy : Policy or str
        A rule, its name (``"equi"``), or a policy bound to another system with the same cores and classes.
    departures, time : int, float
        How long: exactly one of the two; with `jobs` until all of them have left, if neither is given.
    rng : Generator or int, optional
        The source of randomness, or a seed for one.
    start : State or sequence of int, optional
        The state to start from: where another run ended, or the jobs of each class. Empty if not given.
    record : bool, optional
        Whether to keep every event, with the jobs' identities, in `Run.path`.
    jobs : Trace, optional
        Jobs that were recorded, which come exactly so; nothing is random then. Rates that the system does not
        know are those of the trace.
    progress : callable, optional
        Called now and then with the share of the work that is done, from 0 to 1.
    moving_costs : bool, optional
        Whether jobs hold whole cores, as many as their class allows, and stand still for its `resize_pause`
        when they change, but for their first ones. If cores change again during a pause, it begins anew. The
        run begins with no job and keeps no events. A policy without a rule for single jobs is followed:
        cores of a class are shared equally, the oldest jobs first.
    """
    require_system(system)
    if moving_costs and (record or start is not None):
        raise InvalidInput("with moving costs a run begins empty and keeps no events: no record, no start")
    if jobs is None:
        window, begin = Window.of(departures, time), start_state(start, system)
    else:
        require_trace(jobs)
        system = jobs.completed(system)
        begin = _trace_start(jobs, start, system)
        window = _trace_window(jobs, begin, departures, time)
    bound = bind(policy, system)
    generator = random_generator(rng)
    if moving_costs:
        from corewise.simulation.moving.run import moving_run, require_moves

        require_moves(system, bound)
        _require_scale(system, begin)
        source = RandomJobs(system, generator, begin) if jobs is None else RecordedJobs(system, jobs)
        return moving_run(system, bound, window, source, begin.time, progress, recorded=jobs is not None)
    replay = Replay(system, policy, begin, window, _BATCHES, deepcopy(generator), bound, jobs)
    walk = first_walk(system, bound, begin, generator, record=record, source=replay.source)
    if record or window.short(system):
        walk.follow_jobs()
    window.walk(walk, _BATCHES, progress)
    return run_of(walk, replay)


def _trace_start(jobs: Trace, start: State | Sequence[int] | None, system: System) -> State:
    """Return the state in which a trace begins: at its first job, unless another is given."""
    begin = start_state(start, system)
    if not isinstance(start, State):
        begin = replace(begin, time=float(jobs.time[0]))
    if jobs.time[0] < begin.time:
        raise InvalidInput(
            f"job 0 of the trace comes at {jobs.time[0]:g}, before the start at {begin.time:g}"
        )
    return begin


def _trace_window(jobs: Trace, begin: State, departures: int | None, time: float | None) -> Window:
    """Return when to stop: when all jobs of a trace have left, unless something else is asked for."""
    most = len(jobs.job_class) + sum(begin.counts)
    window = Window.of(most if departures is None and time is None else departures, time)
    if window.departures is not None and window.departures > most:
        raise InvalidInput(f"the trace has {most} jobs, and departures={departures!r} are asked for")
    return window


@dataclass(frozen=True)
class Window:
    """Stopping rule of a run: a number of departures, or a length of time."""

    departures: int | None
    time: float | None

    @classmethod
    def of(cls, departures: int | None, time: float | None) -> Window:
        """Return the window, if exactly one of the two is given and makes sense."""
        if (departures is None) == (time is None):
            raise InvalidInput(
                f"give either departures or time, got departures={departures!r}, time={time!r}"
            )
        if departures is not None:
            count = checks.count(departures, "departures")
            checks.within(count, 1, _MOST_DEPARTURES, "departures")
            return cls(count, None)
        return cls(None, checks.positive(time, "time"))

    def short(self, system: System) -> bool:
        """Return whether it is so short that to follow all jobs takes next to no time."""
        if self.departures is not None:
            return self.departures <= _FOLLOWED
        assert self.time is not None
        return self.time * float(system.arrival_rates.sum()) <= _FOLLOWED

    def walk(self, walk: Engine, batches: int, progress: Progress | None) -> None:
        """Let a walk go on for this window, in batches if it is long enough for them."""
        if self.departures is None:
            assert self.time is not None
            walk.run_time(self.time, batches, progress)
            return
        parts = batches if self.departures >= _LEAST_DEPARTURES else 1
        edges = [self.departures * i // parts for i in range(parts + 1)]
        walk.run_departures([high - low for low, high in pairwise(edges)], progress)


@dataclass(frozen=True, eq=False)
class Replay:
    """Replay of a run, with the same random numbers, for what was not kept count of.

    A bound policy seldom can be sent to another process: there, the policy is bound again.
    """

    system: System
    policy: Policy | str
    start: State
    window: Window
    batches: int
    rng: np.random.Generator
    bound: BoundPolicy | None = None
    jobs: Trace | None = None

    def __getstate__(self) -> dict[str, object]:
        """Return what to send to another process."""
        return {**vars(self), "bound": None}

    def __call__(self) -> Statistics:
        """Return what the run sees."""
        walk = self._walk(tally=True)
        self.window.walk(walk, self.batches, None)
        return walk.statistics()

    def response_times(self) -> ResponseTimes:
        """Return the response times of the jobs that came and left."""
        walk = self._walk(tally=False)
        walk.follow_jobs()
        self.window.walk(walk, self.batches, None)
        assert walk.responses is not None
        return walk.responses

    def _walk(self, *, tally: bool) -> Engine:
        """Return the run before it began; the generator is copied, so that it can be asked for again."""
        bound = self.bound or bind(self.policy, self.system)
        rng = deepcopy(self.rng)
        return first_walk(self.system, bound, self.start, rng, tally=tally, source=self.source)

    @property
    def source(self) -> JobSource | None:
        """The jobs that were recorded, before the first of them; None if jobs are to be drawn."""
        return None if self.jobs is None else RecordedJobs(self.system, self.jobs)


def first_walk(
    system: System,
    policy: BoundPolicy,
    start: State,
    rng: np.random.Generator,
    *,
    record: bool = False,
    tally: bool = False,
    least: tuple[int, ...] | None = None,
    source: JobSource | None = None,
) -> Engine:
    """Return a path that has not begun, without tables or over tables of at least a given capacity.

    Jobs are followed one by one if their sizes or arrivals have a memory, or if a source of them is given.
    """
    if source is not None or not system.memoryless or policy.residual is not None:
        jobs = source or RandomJobs(system, rng, start)
        return _job_walk(system, policy, jobs, start, rng, record=record, tally=tally, least=least)
    kind = _tableless_kind(policy)
    if kind is not None and not suits_tables(system):
        _require_scale(system, start)
        return kind(system.at(start.time), policy, start, rng, record=record, tally=tally)
    return Walk(first_tables(system, policy, start, least), start, rng, record=record)


def _job_walk(
    system: System,
    policy: BoundPolicy,
    source: JobSource,
    start: State,
    rng: np.random.Generator,
    *,
    record: bool,
    tally: bool,
    least: tuple[int, ...] | None,
) -> JobWalk:
    """Return a path that has not begun and on which every job is followed."""
    if suits_tables(system):
        _require_scale(system, start)
        tables = SpeedTables.of(system.at(start.time), policy, start.counts, least)
        return BoxJobWalk(tables, source, start, rng, record=record)
    _require_scale(system, start)
    kind = TablelessJobWalk if policy.levels is None else LevelJobWalk
    if isinstance(policy.rule, FittedRule):
        kind = FittedJobWalk
    return kind(system.at(start.time), policy, source, start, rng, record=record, tally=tally)


def _tableless_kind(policy: BoundPolicy) -> type[LevelWalk | FittedWalk] | None:
    """Return what can draw the paths of a policy without tables."""
    if policy.levels is not None:
        return LevelWalk
    return FittedWalk if isinstance(policy.rule, FittedRule) else None


def draws_without_tables(policy: BoundPolicy) -> bool:
    """Return whether paths of a policy can be drawn without tables."""
    return _tableless_kind(policy) is not None


def another_walk(
    last: Engine | None,
    system: System,
    policy: BoundPolicy,
    start: State,
    rng: np.random.Generator,
    *,
    record: bool = False,
    tally: bool = False,
) -> Engine:
    """Return a path that has not begun; the tables that the last one has grown serve it too."""
    if isinstance(last, BoxJobWalk):
        tables = last.tables.under(system) if system.changes else last.tables
        return BoxJobWalk(tables, RandomJobs(system, rng, start), start, rng, record=record)
    if not isinstance(last, Walk):
        return first_walk(system, policy, start, rng, record=record, tally=tally)
    grown = last.tables
    return Walk(grown.under(system) if system.changes else grown, start, rng, record=record)


def first_tables(
    system: System, policy: BoundPolicy, start: State, least: tuple[int, ...] | None = None
) -> Tables:
    """Return the tables to start a walk with, over a box of at least a given capacity."""
    _require_scale(system, start)
    return Tables.of(system.at(start.time), policy, start.counts, least)


def _require_scale(system: System, start: State) -> None:
    """Raise `InvalidInput` if arithmetic would break down."""
    system.require_scale()
    if np.spacing(abs(start.time)) * uniformisation_constant(system) > 1e-4:
        raise InvalidInput(
            f"the clock cannot start at {start.time!r}: events would be too close to tell apart"
        )


def run_of(walk: Engine, replay: Replay) -> Run:
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
        observed=walk.statistics() if isinstance(walk, Walk | BoxJobWalk) else replay,
        response_times=FrozenMapping(_class_times(walk, rows, path, correlation, replay.jobs)),
        job_times=walk.times if isinstance(walk, JobWalk) else None,
    )


def _class_times(
    walk: Engine,
    rows: Mapping[str, ClassRun],
    path: SamplePath | None,
    correlation: float,
    jobs: Trace | None,
) -> dict[str, ClassTimes]:
    """Return the response times of each class; `correlation` is zero if batches are not independent."""
    if isinstance(walk, JobWalk):
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
    if system.load >= 1.0 or departures < _LEAST_DEPARTURES:
        return False
    return float(spans.min()) >= BATCH_TIMES * correlation_time(system) and independent(areas / spans)


def _responses(walk: Engine, replay: Replay, areas: Floats) -> tuple[list[float], list[float]]:
    """Return, by class, the time spent by the jobs that came and left, and how many those are.

    In a long run that no one has followed, Little's law says as much, if next to no jobs are left over from
    before it and to after it; otherwise the run is made again.
    """
    departures = walk.moves[areas.size :]
    over = np.array(walk.start.counts) + np.array(walk.counts)
    if isinstance(walk, JobWalk):
        return walk.times.spent.tolist(), walk.times.left.tolist()
    if walk.responses is None and np.all(over <= _NEGLIGIBLE * departures):
        return areas.tolist(), departures.astype(np.float64).tolist()
    found = walk.responses or replay.response_times()
    return found.spent.tolist(), found.left.tolist()


def start_state(start: object, system: System) -> State:
    """Return the state to start from, given as one, as counts, or not at all."""
    if start is None:
        return State((0,) * len(system.classes))
    if isinstance(start, State):
        if len(start.counts) != len(system.classes):
            raise InvalidInput(f"start has {len(start.counts)} classes, the system {len(system.classes)}")
        return start
    if isinstance(start, str) or not isinstance(start, Sequence | np.ndarray):
        raise InvalidInput(f"start must be a State or the jobs of each class, got {start!r}")
    if len(start) != len(system.classes):
        raise InvalidInput(f"start needs {len(system.classes)} numbers, one for each class, got {start!r}")
    return State(tuple(checks.count(n, "start", least=0) for n in start))


def random_streams(rng: np.random.Generator | int | None, count: int) -> list[np.random.Generator]:
    """Return independent generators spawned from the one given, or from a seed, in order."""
    try:
        return random_generator(rng).spawn(count)
    except TypeError:
        raise InvalidInput("rng cannot spawn streams of its own: make it with default_rng(seed)") from None


def random_generator(rng: np.random.Generator | int | None) -> np.random.Generator:
    """Return the generator given, or one made from a seed."""
    if isinstance(rng, np.random.Generator):
        return rng
    if rng is not None:
        checks.count(rng, "rng", least=0)
    return np.random.default_rng(rng)
