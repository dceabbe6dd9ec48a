r"""Simulation: a random path of the system under a policy.

Two engines, both exact, behind one function.

- A window that ends on a *count* of departures needs no clock while it runs: the sequence of states is a
  Markov chain of its own (the jump chain), and given how often each state was left, the time spent in it is
  one Gamma variable. No exponential variable is drawn per event.
- A window that ends at a *time*, a recorded path, and curves that change need the clock: one exponential and
  one uniform variable an event.

Nobody is ever blocked: tables grow with the path, and the path does not depend on them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from corewise.errors import InvalidInput
from corewise.model import checks
from corewise.model.frozen import FrozenMapping
from corewise.model.path import Path
from corewise.model.rates import uniformisation_constant
from corewise.model.speedup import Array
from corewise.model.statistics import Statistics
from corewise.model.system import System
from corewise.policies.base import BoundPolicy, Policy, bind
from corewise.simulation.intervals import ratio_interval
from corewise.simulation.tables import Tables
from corewise.simulation.walk import State, Walk

__all__ = [
    "ClassRun",
    "Progress",
    "Run",
    "Window",
    "first_tables",
    "random_generator",
    "random_streams",
    "run_of",
    "simulate",
    "start_state",
]

_BATCHES = 20  # enough for Student's quantile to be near the normal one, few enough to be long
_LEAST_DEPARTURES = 10 * _BATCHES  # with fewer a batch says nothing, and there is no interval

_MOST_DEPARTURES = 10**18  # what 64 bits can count

Progress = Callable[[float], object]
"""Called now and then with the share of the work that is done."""


@dataclass(frozen=True)
class ClassRun:
    """What a run saw of one class.

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
        The mean time in the system by Little's law, NaN if no job left.
    """

    name: str
    arrivals: int
    departures: int
    mean_jobs: float
    interval: tuple[float, float]
    mean_response_time: float


@dataclass(frozen=True, eq=False)
class Run:
    """What a simulation gave.

    Attributes
    ----------
    policy : str
        The name of the policy.
    statistics : Statistics
        Departures and job-time by cores per job, for `estimate`.
    path : Path or None
        The record of events, if it was asked for.
    mean_jobs : float
        The mean number of jobs over the window.
    interval : tuple of float
        A 95 % confidence interval for the long-run mean, by means of 20 batches; NaN if the run is too short
        for one. Batches must be long against the time that the system takes to forget, which grows as 1/(1 −
        load)²: at a load of 0.9 it covers 95 % only from about 100 000 departures on. `replicate` needs no
        such condition.
    events, departures : int
        How many there were.
    time : float
        How long the window lasted.
    state : State
        Where it ended; ``simulate(..., start=run.state)`` goes on from there.
    classes : mapping
        The same for each class, by name.
    visited : ndarray
        The states visited, shape (K, states).
    times : ndarray
        The time spent in each of them.
    """

    policy: str
    statistics: Statistics
    path: Path | None
    mean_jobs: float
    interval: tuple[float, float]
    events: int
    departures: int
    time: float
    state: State
    classes: Mapping[str, ClassRun]
    visited: NDArray[np.int64]
    times: Array

    def __str__(self) -> str:
        """Return the numbers as a small table."""
        lines = [
            f"{self.policy}: {self.departures} departures in {self.time:.6g} units of time, "
            f"mean jobs {_with_interval(self.mean_jobs, self.interval)}"
        ]
        lines += [
            f"  {row.name}: {row.departures} departures, "
            f"mean jobs {_with_interval(row.mean_jobs, row.interval)}, "
            f"mean response time {row.mean_response_time:.6g}"
            for row in self.classes.values()
        ]
        return "\n".join(lines)


def _with_interval(value: float, interval: tuple[float, float]) -> str:
    low, high = interval
    return f"{value:.6g}" if math.isnan(low) else f"{value:.6g} (95 %: {low:.6g} to {high:.6g})"


def simulate(
    system: System,
    policy: Policy,
    *,
    departures: int | None = None,
    time: float | None = None,
    rng: np.random.Generator | int | None = None,
    start: State | Sequence[int] | None = None,
    record: bool = False,
    progress: Progress | None = None,
) -> Run:
    """Simulate `policy` on `system` for a number of departures or a length of time.

    Parameters
    ----------
    system : System
        The system; curves that change do so at their times.
    policy : Policy
        A rule, or a policy bound to another system with the same cores and classes.
    departures, time : int, float
        How long: exactly one of the two.
    rng : Generator or int, optional
        The source of randomness, or a seed for one.
    start : State or sequence of int, optional
        The state to start from: where another run ended, or the jobs of each class. Empty if not given.
    record : bool, optional
        Whether to keep every event, with the jobs' identities, in `Run.path`.
    progress : callable, optional
        Called now and then with the share of the work that is done, from 0 to 1.
    """
    window = Window.of(departures, time)
    bound = bind(policy, system)
    begin = start_state(start, system)
    generator = random_generator(rng)
    walk = Walk(first_tables(system, bound, begin), begin, generator, record=record)
    window.walk(walk, _BATCHES, progress)
    return run_of(walk)


@dataclass(frozen=True)
class Window:
    """How long a run lasts: a number of departures, or a length of time."""

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

    def walk(self, walk: Walk, batches: int, progress: Progress | None) -> None:
        """Let a walk go on for this window, in batches if it is long enough for them."""
        if self.departures is None:
            assert self.time is not None
            walk.run_time(self.time, batches, progress)
            return
        parts = batches if self.departures >= _LEAST_DEPARTURES else 1
        edges = [self.departures * i // parts for i in range(parts + 1)]
        walk.run_departures([high - low for low, high in pairwise(edges)], progress)


def first_tables(
    system: System, policy: BoundPolicy, start: State, least: tuple[int, ...] | None = None
) -> Tables:
    """Return the tables to start a walk with, over a box of at least a given capacity."""
    system.require_scale()
    if np.spacing(abs(start.time)) * uniformisation_constant(system) > 1e-4:
        raise InvalidInput(
            f"the clock cannot start at {start.time!r}: events would be too close to tell apart"
        )
    return Tables.of(system.at(start.time), policy, start.counts, least)


def run_of(walk: Walk) -> Run:
    """Return what a walk saw."""
    names, tables = tuple(walk.tables.system.names), walk.tables
    counts, _, moves, times = walk.seen()
    counts.setflags(write=False)
    times.setflags(write=False)
    departures = int(moves[len(names) :].sum())
    areas, spans = np.array(walk.areas), np.array(walk.spans)
    if departures < _LEAST_DEPARTURES:
        areas, spans = areas.sum(axis=0, keepdims=True), spans.sum(keepdims=True)
    duration = float(spans.sum())
    if duration <= 0.0:
        raise InvalidInput(f"a window of no length at time {walk.start.time!r}: the clock cannot resolve it")
    state, path = walk.finish()
    rows = {}
    for i, name in enumerate(names):
        area, left = float(areas[:, i].sum()), int(moves[len(names) + i].sum())
        rows[name] = ClassRun(
            name,
            int(moves[i].sum()),
            left,
            area / duration,
            ratio_interval(areas[:, i], spans),
            area / left if left else math.nan,
        )
    return Run(
        policy=tables.policy.name,
        statistics=walk.statistics(),
        path=path,
        mean_jobs=float(areas.sum()) / duration,
        interval=ratio_interval(areas.sum(axis=1), spans),
        events=walk.events,
        departures=departures,
        time=duration,
        state=state,
        classes=FrozenMapping(rows),
        visited=counts,
        times=times,
    )


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
