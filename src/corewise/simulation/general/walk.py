"""Simulation engines that follow every job, for sizes and times between arrivals of any law."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from corewise.errors import InvalidPolicy
from corewise.kit.arrays import Floats, Ints
from corewise.model.system import System
from corewise.observation.sample_path import SamplePath
from corewise.observation.statistics import Statistics
from corewise.policies.base import BoundPolicy, cores_of
from corewise.simulation.general._kernels import box, tableless
from corewise.simulation.general._kernels.jobs import Record
from corewise.simulation.general.room import JobRoom
from corewise.simulation.general.source import JobSource
from corewise.simulation.general.tables import SpeedTables
from corewise.simulation.general.times import JobTimes
from corewise.simulation.tableless.curves import curve_arrays
from corewise.simulation.tableless.engine import GridTally
from corewise.simulation.tableless.state_cache import StateCache
from corewise.simulation.tables import Visits
from corewise.simulation.walk import Engine, State

__all__ = ["BoxJobWalk", "JobWalk", "LevelJobWalk", "RuleJobWalk"]

_AT_A_TIME = 2**19
"""Events per call of a kernel, which cannot be interrupted: some hundredths of a second."""

_NUMBERS = 2**20
"""The size of the memory of states: 8 megabytes, since to ask a rule takes long."""


class JobWalk(Engine):
    """Simulation engine that follows every job.

    Parameters
    ----------
    source : JobSource
        Where jobs come from.
    start : State
        Where to begin. Jobs there whose work nobody knows begin anew.
    rng : Generator
        The source of randomness; what is drawn is drawn by the source of jobs.
    record : bool
        Whether to keep every event.

    Attributes
    ----------
    times : JobTimes
        The response times of the jobs that came and left.
    batch_sums : list of ndarray
        How many left, their total time and their total size, in each batch, by class.
    """

    def __init__(self, source: JobSource, start: State, rng: np.random.Generator, *, record: bool) -> None:
        super().__init__(start, rng, record=record)
        classes = len(start.counts)
        self.source = source
        self.times = JobTimes.none(classes)
        self.batch_sums: list[Floats] = []
        self._sums_before = self.times.sums.copy()
        self._named = self.start.named
        self._whose: list[Ints] = []
        self._room = JobRoom(classes)
        for i, count in enumerate(start.counts):
            self._add_present(i, count)

    def _add_present(self, i: int, count: int) -> None:
        """Let the jobs of class i that are there at the start in."""
        start = self.start
        remaining = start.remaining[i] if start.remaining else self.source.sizes(i, count).tolist()
        attained = start.attained[i] if start.attained else (0.0,) * count
        numbers = start.jobs[i] if start.jobs else range(count)
        for work, got, number in zip(remaining, attained, numbers, strict=True):
            self._room.add(i, work, got, number)

    @property
    def counts(self) -> tuple[int, ...]:
        """The jobs of each class now."""
        return tuple(self._room.counts.tolist())

    def follow_jobs(self) -> None:
        """Every job is followed in any case."""

    def run_departures(self, batches: Sequence[int], progress: Callable[[float], object] | None) -> None:
        """Go on until as many jobs have left as all batches say."""
        whole, done = sum(batches), 0
        for size in batches:
            remaining = size
            while remaining:
                step = self._tick(math.inf, remaining)
                remaining -= step
                done += step
                if progress:
                    progress(done / whole)
            self._close_batch()

    def _tick(self, until: float, departures: int) -> int:
        """Make moves up to a time and at most as many departures; return how many."""
        changes = self.system.changes
        horizon = min(until, changes[0].time) if changes else until
        room = min(_AT_A_TIME, 4 * departures + 64)
        kept = room if self.record else 0
        record = (np.empty(kept), np.empty(kept, dtype=np.int16), np.empty(kept, dtype=np.int64))
        before = self._clock
        self._named, self._clock, events, done = self._follow_moves(record, horizon, room, departures)
        if math.isinf(self._clock):
            raise InvalidPolicy(
                f"{self.policy.name}: the jobs present at time {before:g}, {list(self.counts)}, get no cores, "
                f"and none are to come"
            )
        self.events += events
        if self.record:
            self._keep(record, events)
        self.source.refill()
        self._room.grow()
        if changes and self._clock >= changes[0].time:
            self._set_system(self.system.at(self._clock))
        return done

    def _keep(self, record: Record, events: int) -> None:
        when, what, whose = record
        self._when.append(when[:events].copy())
        self._what.append(what[:events].copy())
        self._whose.append(whose[:events].copy())

    @abstractmethod
    def _follow_moves(
        self, record: Record, until: float, events: int, departures: int
    ) -> tuple[int, float, int, int]:
        """Follow jobs; return how many are named, the clock, and how many events and departures there were."""

    @abstractmethod
    def _set_system(self, system: System) -> None:
        """Simulate this system from now on."""

    def _close_batch(self) -> None:
        self.batch_sums.append(self.times.sums - self._sums_before)
        self._sums_before = self.times.sums.copy()

    def finish(self) -> tuple[State, SamplePath | None]:
        """Return the state at the end, and the path if it was recorded."""
        rows = [self._room.present(i) for i in range(len(self.counts))]
        remaining, attained, jobs = (
            tuple(tuple(column.tolist()) for column in columns) for columns in zip(*rows, strict=True)
        )
        end = State(
            self.counts,
            self._clock,
            jobs if self.record else (),
            self._named if self.record else self.start.named,
            remaining,
            attained,
            tuple(self.source.next_arrivals.tolist()),
        )
        if not self.record:
            return end, None
        what = np.concatenate(self._what) if self._what else np.empty(0, dtype=np.int16)
        job = np.concatenate(self._whose) if self._whose else np.empty(0, dtype=np.int64)
        return end, self._path(what, job)


class BoxJobWalk(JobWalk):
    """Simulation engine that follows every job, with a table of speeds for the states of a box."""

    def __init__(
        self,
        tables: SpeedTables,
        source: JobSource,
        start: State,
        rng: np.random.Generator,
        *,
        record: bool = False,
    ) -> None:
        super().__init__(source, start, rng, record=record)
        self.tables = tables
        self._seen = OccupiedBox(tables)
        self._here = tables.state(start.counts)
