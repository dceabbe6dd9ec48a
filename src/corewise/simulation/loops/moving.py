"""The loop over every job that holds whole cores and pauses when these change."""

from __future__ import annotations

from typing import Any

import numpy as np

from corewise.errors import UnstablePolicy
from corewise.kit.arrays import Floats
from corewise.model.space import StateSpace
from corewise.model.system import System
from corewise.observation.statistics import ClassStatistics, Statistics
from corewise.policies.base import BoundPolicy, cores_of
from corewise.policies.moving.rule import WidthRule, Widths, job_times
from corewise.policies.rounding import require_whole, round_cores
from corewise.simulation.job_times import JobTimes
from corewise.simulation.loops._kernels.moving import MovingJobs, MovingTally, moving_jobs
from corewise.simulation.loops.sources import JobSource, RecordedJobs

__all__ = ["MovingLoop"]

_ROOM = 64
_MOST_JOBS, _MOST_A_CORE = 2**12, 64
"""Jobs at which a system is taken not to keep up: so many, and so many more for each core."""


class MovingLoop:
    """Loop over every job with whole cores, where a move costs a pause.

    Parameters
    ----------
    system : System
        The system: its curves, limits and pauses.
    policy : BoundPolicy
        Who is to hold how many cores; without a width rule of its own it is followed at every event.
    source : JobSource
        The jobs that come.
    time : float
        When it begins, with no job.
    """

    def __init__(self, system: System, policy: BoundPolicy, source: JobSource, time: float) -> None:
        self.system, self.policy, self.source = system, policy, source
        self.pool, classes = require_whole(system), len(system.classes)
        self.clock = time
        self.departures = 0
        self.times = JobTimes.none(classes)
        self.job_time = np.zeros((classes, self.pool + 1))
        self.departed = np.zeros((classes, self.pool + 1))
        self.arrivals = np.zeros(classes, dtype=np.int64)
        self.resizes = np.zeros(classes, dtype=np.int64)
        self._area = np.zeros(classes)
        self.pauses = np.array([known.resize_pause for known in system.classes])
        own = policy.decision.part(Widths)
        follow = WidthRule("follow", self.pauses, job_times(system, self.pool))
        self._rule = follow if own is None else own.rule
        speeds = np.stack([known.curve.table(self.pool) for known in system.classes])
        least = np.array([known.min_cores for known in system.classes])
        most = np.array([known.max_cores or self.pool for known in system.classes])
        self._plant = (speeds, self.pauses, least, most)
        self._present = _room(_ROOM)
        self._here = np.zeros(2, dtype=np.int64)
        self._box((15,) * classes)

    def _box(self, capacity: tuple[int, ...]) -> None:
        """Tabulate the whole cores of each class over a box."""
        space = StateSpace.of(capacity, len(capacity))
        given = round_cores(cores_of(self.policy, space.counts)).astype(np.int64)
        self._policy = (given, np.array(space.capacity, dtype=np.int64), space.strides)

    @property
    def counts(self) -> tuple[int, ...]:
        """The jobs of each class that are there."""
        there = self._present.classes[: self._here[0]]
        return tuple(np.bincount(there, minlength=len(self.system.classes)).tolist())

    def run(self, departures: int, until: float) -> tuple[Floats, float]:
        """Go on for so many departures or until a time; return the areas under the counts, and the time."""
        began, left = self.clock, departures
        self._area[:] = 0.0
        tallied = MovingTally(self.job_time, self.departed, self._area, self.arrivals, self.resizes)
        while left > 0 and self.clock < until:
            self._make_room()
            self.clock, gone = moving_jobs(
                self._rule.arguments,
                self._present,
                self._here,
                self.source.arrays,
                self._policy,
                self._plant,
                tallied,
                self.times.arrays,
                self.clock,
                until,
                left,
            )
            left -= int(gone)
            self.departures += int(gone)
        return self._area.copy(), self.clock - began

    def _make_room(self) -> None:
        """See to what a kernel has used up."""
        self.source.refill()
        size = self._present.classes.size
        if self._here[0] == size:
            if size >= _MOST_JOBS + _MOST_A_CORE * self.pool and not isinstance(self.source, RecordedJobs):
                raise UnstablePolicy(
                    f"{self.policy.name} does not keep up: {size} jobs after {self.departures} departures"
                )
            self._present = _room(2 * size, self._present)
        capacity = self._policy[1].tolist()
        needed = zip(self.counts, capacity, strict=True)
        if self._rule.kind != "price" and any(n > most for n, most in needed):
            self._box(tuple(max(2 * n, most) for n, most in zip(self.counts, capacity, strict=True)))

    def statistics(self, time: float) -> Statistics:
        """Return departures and job-time by the cores held, for `estimate`; pauses count at no width."""
        classes = []
        for i, arrived in enumerate(self.arrivals.tolist()):
            seen = np.flatnonzero((self.job_time[i] > 0.0) | (self.departed[i] > 0.0))
            table = (seen.astype(np.float64), self.departed[i, seen], self.job_time[i, seen])
            classes.append(ClassStatistics(arrived, *table))
        return Statistics(tuple(self.system.names), time, tuple(classes))


def _room(size: int, before: MovingJobs | None = None) -> MovingJobs:
    """Return room for jobs, with those of a smaller one at its beginning."""
    kinds = (np.int64, np.int64, np.bool_, *(np.float64,) * 4, np.int64, np.int64)
    arrays: list[Any] = [np.zeros(size, dtype=kind) for kind in kinds]
    for new, old in zip(arrays, before or (), strict=False):
        new[: old.size] = old
    return MovingJobs(*arrays)
