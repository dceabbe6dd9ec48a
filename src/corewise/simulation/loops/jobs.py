"""The loop over every job, for sizes and times between arrivals of any distribution."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import ClassVar, cast

import numpy as np

from corewise.errors import InvalidPolicy
from corewise.kit.arrays import Floats, Int, Ints
from corewise.observation.sample_path import SamplePath
from corewise.observation.statistics import ClassStatistics, Statistics
from corewise.policies.base import BoundPolicy
from corewise.policies.residual import AttainedOrder
from corewise.simulation.loops._kernels.jobs import (
    Counted,
    JobPath,
    JobRecord,
    Jobs,
    JobTotals,
    Order,
    States,
    add_job,
    known_jobs,
)
from corewise.simulation.loops.every_job import EveryJobLoop
from corewise.simulation.loops.loop import Record
from corewise.simulation.loops.occupation import Occupation
from corewise.simulation.loops.sources import JobSource
from corewise.simulation.loops.tally import Totals
from corewise.simulation.state import State

__all__ = ["Followed", "JobLoop"]

Followed = tuple[Int, float, Int, Int]
"""How many jobs are named, the clock, how many events there were, and departures that are still to come."""

_FIRST_ROOM = 32


class PresentJobs:
    """Room for the jobs of each class: a clock and a heap, and what is known of every job.

    Attributes
    ----------
    arrays : tuple of ndarray
        The room as the kernels take it; see `corewise.simulation.loops._kernels.jobs`.
    """

    arrays: Jobs

    def __init__(self, classes: int, most: int = _FIRST_ROOM) -> None:
        places = np.tile(np.arange(most), (classes, 1))
        floats = np.zeros((4, classes, most))
        self.arrays = Jobs(
            np.zeros(classes, dtype=np.int64),
            np.zeros(classes),
            floats[0],
            places,
            *(floats[1], floats[2], floats[3]),
            np.zeros((classes, most), dtype=np.int64),
        )

    @property
    def counts(self) -> Ints:
        """The jobs of each class."""
        return self.arrays.n

    def add(self, i: int, remaining: float, attained: float, number: int) -> None:
        """Add a job that was there before the path began."""
        self.grow()
        add_job(self.arrays, i, remaining + attained, attained, math.nan, number)

    def grow(self) -> None:
        """Make room for one more job of every class."""
        n, clocks, *columns = self.arrays
        most = columns[0].shape[1]
        if int(n.max()) < most:
            return
        wider = PresentJobs(n.size, 2 * most)
        for old, new in zip(columns, wider.arrays[2:], strict=True):
            new[:, :most] = old
        self.arrays = wider.arrays._replace(n=n, clocks=clocks)

    def present(self, i: int) -> tuple[Floats, Floats, Ints]:
        """Return the remaining work, the attained work and the numbers of the jobs of class i.

        In the order in which they came.
        """
        n, clocks, keys, slots, _, began, _, numbers = self.arrays
        places = slots[i, : n[i]]
        order = np.argsort(numbers[i, places], kind="stable")
        remaining = np.maximum(keys[i, : n[i]] - clocks[i], 0.0)[order]
        attained = np.maximum(clocks[i] - began[i, places], 0.0)[order]
        return remaining, attained, numbers[i, places][order]


class ServedOrder:
    """Order of service by residual work: what was decided last, and what was seen while it was in force.

    Parameters
    ----------
    policy : BoundPolicy
        If it has no residual work, no order is ever in force.
    """

    def __init__(self, policy: BoundPolicy) -> None:
        classes, order = len(policy.system.classes), policy.decision.part(AttainedOrder)
        residual = None if order is None else order.residual
        self.active = residual is not None
        self.cores = policy.system.cores
        table = np.empty((classes, 0)) if residual is None else residual.table
        rates, weights = (
            (np.empty(0), np.empty(0)) if residual is None else (residual.size_rates, residual.weights)
        )
        self._crowd = np.zeros((3, classes))
        self.arrays = Order(
            *(self.cores, table, rates, weights),
            *(np.zeros(classes), np.zeros(classes), np.zeros(1, dtype=np.int64)),
            self._crowd,
        )

    @property
    def in_force(self) -> Floats | None:
        """The cores of a job of each class, if classes are served in order now and it was decided how."""
        return self.arrays.own if self.arrays.decided[0] else None

    def statistics(self, names: tuple[str, ...], arrivals: list[int], time: float) -> Statistics:
        """Return what was seen of each class while jobs outnumbered cores: at one core, or at none."""
        left, at_one, at_none = self._crowd
        tables = [
            ClassStatistics.gathered(
                arrivals[i], np.array([0.0, 1.0]), np.array([0.0, left[i]]), np.array([at_none[i], at_one[i]])
            )
            for i in range(len(names))
        ]
        return Statistics(names, time, tuple(tables))


class JobLoop(EveryJobLoop):
    """Loop over every job, where those of a class share its cores equally.

    States are decided once and remembered; in a state that is not, the loop stops and `_decide` is called.

    Parameters
    ----------
    policy : BoundPolicy
        Who holds how many cores.
    source : JobSource
        Where jobs come from.
    start : State
        Where to begin. Jobs there whose attained work is unknown begin anew.
    rng : Generator
        The source of randomness; what is drawn is drawn by the source of jobs.
    record : bool
        Whether to keep every event.
    """

    at_a_time: ClassVar[int] = 2**19

    def __init__(
        self,
        policy: BoundPolicy,
        source: JobSource,
        start: State,
        rng: np.random.Generator,
        seen: Occupation | Totals,
        *,
        record: bool,
    ) -> None:
        super().__init__(source, start, rng, seen, record=record)
        self.order = ServedOrder(policy)
        self._whose: list[Ints] = []
        self._shares: list[Floats] = []
        self._present = PresentJobs(len(start.counts))
        self._let_in()

    def _add(self, i: int, remaining: float, attained: float, number: int) -> None:
        self._present.add(i, remaining, attained, number)

    @property
    def counts(self) -> tuple[int, ...]:
        """The jobs of each class now."""
        return tuple(self._present.counts.tolist())

    def _draw(self, until: float, events: int, departures: int) -> tuple[Record, int, int]:
        kept = events if self.record else 0
        shares = np.empty((kept if self.order.active else 0, len(self.counts)))
        record = JobRecord(
            np.empty(kept), np.empty(kept, dtype=np.int16), np.empty(kept, dtype=np.int64), shares
        )
        before = self._clock
        self._named, self._clock, made, remaining = self._follow_moves(record, until, events, departures)
        if math.isinf(self._clock):
            raise InvalidPolicy(
                f"{self.policy.name}: the jobs present at time {before:g}, {list(self.counts)}, get no "
                f"cores, and none are to come"
            )
        if self.record:
            self._shares.append(shares[:made].copy())
            self._whose.append(record.whose[:made].copy())
        return (record.when, record.what), int(made), departures - int(remaining)

    def _make_room(self) -> None:
        self.source.refill()
        self._present.grow()

    def _path_of(self, record: JobRecord) -> JobPath:
        """Return all arrays that kernels keep up."""
        jobs, completed = self._present.arrays, self.times.arrays
        return JobPath(jobs, self.source.arrays, completed, record, self._counted, self.order.arrays)

    def _follow_moves(self, record: JobRecord, until: float, events: int, departures: int) -> Followed:
        """Follow jobs until a time, so many events or departures, or something is used up."""
        named, clock, remaining = self._named, self._clock, cast(Int, departures)
        done: Int = 0
        while True:
            row, named, clock, done, remaining = known_jobs(
                self._memory,
                self._path_of(record),
                self._job_totals,
                named,
                clock,
                until,
                done,
                events,
                remaining,
            )
            if row < 0:
                return named, clock, done, remaining
            self._decide(row)

    @property
    @abstractmethod
    def _memory(self) -> States:
        """What is decided in states."""

    @property
    @abstractmethod
    def _counted(self) -> Counted:
        """What is counted in the open batch, by state or of all states."""

    @property
    def _job_totals(self) -> JobTotals | None:
        """What else is counted if it is not counted by state."""
        return None

    @abstractmethod
    def _decide(self, row: Int) -> None:
        """Decide in the state that the path is in, which has a row in the memory."""

    def finish(self) -> tuple[State, SamplePath | None]:
        """Return the state at the end, and the path if it was recorded."""
        rows = [self._present.present(i) for i in range(len(self.counts))]
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
