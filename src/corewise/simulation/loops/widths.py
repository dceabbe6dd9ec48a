"""The loop over every job where each has cores of its own: shares or whole cores, pauses, any curves."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from corewise.errors import InvalidPolicy, UnstablePolicy
from corewise.model.speedup import SpeedUp
from corewise.model.system import System
from corewise.observation.sample_path import NO_JOB, EventKind, SamplePath
from corewise.observation.statistics import Statistics
from corewise.policies.base import BoundPolicy
from corewise.policies.jobs.levels import JobLevels
from corewise.policies.rounding import require_whole
from corewise.simulation.intervals import ratio_interval
from corewise.simulation.loops._kernels import widths as _kernels
from corewise.simulation.loops._kernels.widths import (
    DEPARTURES,
    DUE,
    EVENTS,
    JOBS,
    NAMED,
    ROWS,
    HeldTotals,
    JobPlant,
    JobRows,
    WidthJobs,
    WidthPath,
)
from corewise.simulation.loops.curves import curves_as_arrays
from corewise.simulation.loops.every_job import EveryJobLoop
from corewise.simulation.loops.loop import Record
from corewise.simulation.loops.sources import JobSource, RecordedJobs
from corewise.simulation.loops.tally import Totals
from corewise.simulation.state import State

__all__ = ["WidthLoop"]

_FIRST_ROOM = 32
_MOST_JOBS, _MOST_A_CORE = 2**12, 64
"""Jobs at which a system is taken not to keep up: so many, and so many more for each core."""


class WidthLoop(EveryJobLoop):
    """Loop over every job where each has cores of its own.

    Parameters
    ----------
    system : System
        The system that is simulated; curves that change do so at their times.
    policy : BoundPolicy
        Who holds how many cores.
    whole : bool
        Whether jobs hold whole cores, and pause when these change.
    known_sizes : bool
        Whether the policy sees the work before every job.
    tally : bool, optional
        Whether to keep count of departures and job-time by width.
    source, start, rng, record
        As for `EveryJobLoop`. Jobs that are there at the start hold no cores yet.

    Attributes
    ----------
    resizes : ndarray of int
        How often the cores of a job that had begun changed, by class.
    batch_resizes : list of int
        How often they did in each batch.
    """

    at_a_time: ClassVar[int] = 2**14

    def __init__(  # noqa: PLR0913  # a system, how jobs hold cores in it, and how its path is drawn
        self,
        system: System,
        policy: BoundPolicy,
        source: JobSource,
        start: State,
        rng: np.random.Generator,
        *,
        whole: bool,
        known_sizes: bool,
        record: bool = False,
        tally: bool = False,
    ) -> None:
        self._totals = Totals(system, start.time, tally=tally)
        super().__init__(source, start, rng, self._totals, record=record)
        self._policy, self.whole, self.known_sizes = policy, whole, known_sizes
        self.batch_resizes: list[int] = []
        self.resizes = np.zeros(len(system.classes), dtype=np.int64)
        self._jobs, self._here = _room(_FIRST_ROOM), np.zeros(6, dtype=np.int64)
        self._here[NAMED] = self._named
        self._rows: list[tuple[NDArray[Any], ...]] = []
        self._set_system(system)
        self._let_in()
        self._here[DUE] = int(self._here[JOBS] > 0)

    def _set_system(self, system: System) -> None:
        self._system = system
        curves: list[SpeedUp] = []
        ends: list[float] = []
        first: list[int] = []
        for known in system.classes:
            first.append(len(curves))
            curves += known.curves
            ends += [*(1.0 - known.starts[1:]).tolist(), 0.0]
        table = np.empty((0, 0))
        if self.whole:
            pool = require_whole(system)
            table = np.stack([curve.table(pool) for curve in curves])
        levels = self._policy.decision.part(JobLevels)
        self._plant = JobPlant(
            curves_as_arrays(curves, system.cores),
            np.array(first, dtype=np.int64),
            np.array(ends),
            table,
            np.array([known.resize_pause if self.whole else 0.0 for known in system.classes]),
            math.inf if levels is None else levels.longest_wait,
        )
        self._here[DUE] = int(self._here[JOBS] > 0)
        _kernels.refresh_speeds(self._jobs, self._here[JOBS], self._plant)

    @property
    def system(self) -> System:
        """The system that is simulated, as it is now."""
        return self._system

    @property
    def policy(self) -> BoundPolicy:
        """Who holds how many cores."""
        return self._policy

    @property
    def counts(self) -> tuple[int, ...]:
        """The jobs of each class now."""
        present = self._jobs.classes[: self._here[JOBS]]
        return tuple(np.bincount(present, minlength=len(self._system.classes)).tolist())

    def _add(self, i: int, remaining: float, attained: float, number: int) -> None:
        self._grow()
        jobs, j, size = self._jobs, self._here[JOBS], remaining + attained
        jobs.classes[j], jobs.numbers[j], jobs.sizes[j], jobs.left[j] = i, number, size, remaining
        row = self._plant.first[i]
        while self._plant.ends[row] * size >= remaining > 0.0:
            row += 1
        jobs.pieces[j] = row - self._plant.first[i]
        jobs.floors[j] = self._plant.ends[row] * size
        jobs.begun[j] = attained > 0.0
        jobs.since[j], jobs.arrived[j], jobs.resumes[j] = self._clock, math.nan, self._clock
        self._here[JOBS] += 1

    def _grow(self) -> None:
        """Make room for one more job."""
        size = self._jobs.classes.size
        if self._here[JOBS] < size:
            return
        recorded = isinstance(self.source, RecordedJobs)
        if not recorded and size >= _MOST_JOBS + _MOST_A_CORE * self._system.cores:
            raise UnstablePolicy(
                f"{self._policy.name} does not keep up: {size} jobs after {self.events} events"
            )
        self._jobs = _room(2 * size, self._jobs)

    def _make_room(self) -> None:
        self.source.refill()
        self._grow()

    def _close_batch(self) -> None:
        super()._close_batch()
        self.batch_resizes.append(int(self.resizes.sum()) - sum(self.batch_resizes))

    def resizes_interval(self, correlation: float) -> tuple[float, float]:
        """Return an interval for how often the cores of a job change, if a correlation time is given."""
        if correlation <= 0.0 or not self.whole:
            return math.nan, math.nan
        left = np.array([sums[0].sum() for sums in self.batch_sums])
        in_jobs = correlation * float(left.mean() / np.mean(self.spans))
        return ratio_interval(np.array(self.batch_resizes, dtype=np.float64), left, in_jobs)

    def _path_of(self, events: int, departures: int) -> WidthPath:
        """Return all arrays that kernels keep up, with room for so many events."""
        rows = (events + 2) * (int(self._here[JOBS]) + 4) if self.record else 0
        self._here[[EVENTS, DEPARTURES, ROWS]] = events, departures, 0
        totals = self._totals
        return WidthPath(
            self._jobs,
            self._here,
            self.source.arrays,
            self._plant,
            self.times.arrays,
            HeldTotals(totals.moves, totals.area, totals.tally.arrays, self.resizes),
            JobRows(
                np.empty(rows),
                np.empty(rows, dtype=np.int8),
                np.empty(rows, dtype=np.int64),
                np.empty(rows, dtype=np.int64),
                np.empty(rows),
            ),
        )

    def _draw(self, until: float, events: int, departures: int) -> tuple[Record, int, int]:
        path, here, before = self._path_of(events, departures), self._here, self._clock
        self._clock = self._follow_jobs(path, self._clock, until)
        self._named = here[NAMED]
        if math.isinf(self._clock):
            raise InvalidPolicy(
                f"{self._policy.name}: the jobs present after time {before:g}, {list(self.counts)}, get no "
                f"cores, and none are to come"
            )
        if self.record:
            self._rows.append(tuple(column[: here[ROWS]].copy() for column in path.rows))
        none = np.empty(0), np.empty(0, dtype=np.int16)
        return none, events - int(here[EVENTS]), departures - int(here[DEPARTURES])

    @abstractmethod
    def _follow_jobs(self, path: WidthPath, clock: float, until: float) -> float:
        """Follow jobs until a time or something is used up; return the clock."""

    def statistics(self) -> Statistics:
        """Return what was seen, by the widths of the grid; pauses count at no width."""
        return self._totals.statistics(tuple(self._system.names), float(sum(self.spans)))

    def finish(self) -> tuple[State, SamplePath | None]:
        """Return the state at the end, and the path if it was recorded."""
        jobs, n = self._jobs, int(self._here[JOBS])
        order = [np.flatnonzero(jobs.classes[:n] == i) for i in range(len(self.counts))]
        remaining = tuple(tuple(np.maximum(jobs.left[mine], 0.0).tolist()) for mine in order)
        attained = tuple(tuple((jobs.sizes[mine] - jobs.left[mine]).tolist()) for mine in order)
        end = State(
            self.counts,
            self._clock,
            tuple(tuple(jobs.numbers[mine].tolist()) for mine in order) if self.record else (),
            int(self._named) if self.record else self.start.named,
            remaining,
            attained,
            tuple(self.source.next_arrivals.tolist()),
        )
        return end, self._recorded() if self.record else None

    def _recorded(self) -> SamplePath:
        """Return the record as a path with the cores of every job."""
        start = self.start
        there = np.repeat(np.arange(len(start.counts)), start.counts)
        numbers = np.array([number for row in start.jobs for number in row], dtype=np.int64)
        when, what, classes, jobs, cores = (
            np.concatenate(column) for column in zip(*self._rows, strict=True)
        )
        first = 1 + there.size
        none = np.full(1, math.nan)
        return SamplePath(
            names=tuple(self._system.names),
            pool=self._system.cores,
            time=np.concatenate([np.full(first, start.time), when, [self._clock]]),
            event=np.concatenate(
                [[EventKind.START], [EventKind.PRESENT] * there.size, what, [EventKind.END]]
            ).astype(np.int8),
            job_class=np.concatenate([[NO_JOB], there, classes, [NO_JOB]]),
            job=np.concatenate([[NO_JOB], numbers, jobs, [NO_JOB]]),
            cores=np.concatenate([none, np.zeros(there.size), cores, none]),
        )


def _room(size: int, before: WidthJobs | None = None) -> WidthJobs:
    """Return room for jobs, with those of a smaller one at its beginning."""
    kinds = (*(np.int64,) * 3, np.bool_, *(np.float64,) * 8)
    arrays: list[Any] = [np.zeros(size, dtype=kind) for kind in kinds]
    for new, old in zip(arrays, before or (), strict=False):
        new[: old.size] = old
    return WidthJobs(*arrays)
