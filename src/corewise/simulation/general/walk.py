"""Simulation engines that follow every job, for sizes and times between arrivals of any law."""

from __future__ import annotations

import math
from abc import abstractmethod

import numpy as np

from corewise.errors import InvalidPolicy
from corewise.kit.arrays import Floats, Int, Ints
from corewise.model.system import System
from corewise.observation.sample_path import SamplePath
from corewise.policies.base import BoundPolicy
from corewise.simulation.engine import Engine
from corewise.simulation.general._kernels.jobs import Summarised
from corewise.simulation.general.order import ServedOrder
from corewise.simulation.general.room import JobRoom
from corewise.simulation.general.source import JobSource
from corewise.simulation.general.times import ClassTimes, JobTimes
from corewise.simulation.intervals import ratio_interval
from corewise.simulation.state import State

__all__ = ["Followed", "JobWalk"]

Followed = tuple[Int, float, Int, Int]
"""How many jobs are named, the clock, and how many events and departures there were."""

_AT_A_TIME = 2**19
"""Events per call of a kernel, which cannot be interrupted: some hundredths of a second."""


class JobWalk(Engine):
    """Simulation engine that follows every job.

    Parameters
    ----------
    policy : BoundPolicy
        Who holds how many cores.
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

    def __init__(
        self, policy: BoundPolicy, source: JobSource, start: State, rng: np.random.Generator, *, record: bool
    ) -> None:
        super().__init__(start, rng, record=record)
        self.order = ServedOrder(policy)
        classes = len(start.counts)
        self.source = source
        self.times = JobTimes.none(classes)
        self.batch_sums: list[Floats] = []
        self._sums_before = self.times.sums.copy()
        self._named: Int = self.start.named
        self._whose: list[Ints] = []
        self._shares: list[Floats] = []
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

    def _tick(self, until: float, departures: int) -> int:
        """Make moves up to a time and at most as many departures; return how many."""
        changes = self.system.changes
        horizon = min(until, changes[0].time) if changes else until
        room = min(_AT_A_TIME, 4 * departures + 64)
        kept = room if self.record else 0
        shares = np.empty((kept if self.order.active else 0, len(self.counts)))
        record = (np.empty(kept), np.empty(kept, dtype=np.int16), np.empty(kept, dtype=np.int64), shares)
        before = self._clock
        self._named, self._clock, events, done = self._follow_moves(record, horizon, room, departures)
        if math.isinf(self._clock):
            raise InvalidPolicy(
                f"{self.policy.name}: the jobs present at time {before:g}, {list(self.counts)}, get no "
                f"cores, and none are to come"
            )
        self.events += int(events)
        if self.record:
            self._keep(record, int(events))
        self.source.refill()
        self._room.grow()
        if changes and self._clock >= changes[0].time:
            self._set_system(self.system.at(self._clock))
        return int(done)

    def _keep(self, record: Summarised, events: int) -> None:
        when, what, whose, shares = record
        self._shares.append(shares[:events].copy())
        self._when.append(when[:events].copy())
        self._what.append(what[:events].copy())
        self._whose.append(whose[:events].copy())

    @abstractmethod
    def _follow_moves(self, record: Summarised, until: float, events: int, departures: int) -> Followed:
        """Follow jobs up to a time, so many events or departures."""

    @abstractmethod
    def _set_system(self, system: System) -> None:
        """Simulate this system from now on."""

    def _close_batch(self) -> None:
        self.batch_sums.append(self.times.sums - self._sums_before)
        self._sums_before = self.times.sums.copy()

    def class_times(self, mean_sizes: Floats | None, correlation: float) -> dict[str, ClassTimes]:
        """Return the response times of each class.

        The means are ratios if mean sizes are given, with intervals if batches are correlated over a time
        that is given and positive.
        """
        found = {}
        batches, spans = np.array(self.batch_sums), np.array(self.spans)
        for i, name in enumerate(self.system.names):
            left, spent, work = self.times.sums[:, i].tolist()
            sample_mean = mean = spent / left if left else math.nan
            interval = math.nan, math.nan
            if mean_sizes is not None and work > 0.0:
                mean = spent / work * float(mean_sizes[i])
                if correlation > 0.0:
                    _, times, sizes = batches[:, :, i].T
                    in_work = correlation * float(sizes.mean() / spans.mean())
                    low, high = ratio_interval(times, sizes, in_work)
                    interval = low * float(mean_sizes[i]), high * float(mean_sizes[i])
            percentiles = self.times.usual_percentiles(i)
            found[name] = ClassTimes(name, left, mean, interval, sample_mean, percentiles)
        return found

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
            int(self._named) if self.record else self.start.named,
            remaining,
            attained,
            tuple(self.source.next_arrivals.tolist()),
        )
        if not self.record:
            return end, None
        what = np.concatenate(self._what) if self._what else np.empty(0, dtype=np.int16)
        job = np.concatenate(self._whose) if self._whose else np.empty(0, dtype=np.int64)
        return end, self._path(what, job)

    def _cores(self, counts: Ints) -> Floats:
        """Return the cores of each class in the states of the path, row by row."""
        cores = self._cores_in(counts)
        if self.order.active and self._shares:
            before = np.concatenate(self._shares).T
            rows = slice(-before.shape[1] - 2, -2)  # what was held before an event, from the row before it on
            cores[:, rows] = np.where(np.isnan(before), cores[:, rows], before)
            if self.order.in_force is not None:
                cores[:, -2:] = (self.order.in_force * counts[:, -2])[:, None]
        return cores

    @abstractmethod
    def _cores_in(self, counts: Ints) -> Floats:
        """Return the cores that the policy gives to each class in states, both (K, states)."""
