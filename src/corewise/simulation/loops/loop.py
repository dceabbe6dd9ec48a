"""Simulation loops: what draws a sample path event by event and counts what it sees.

A loop draws events; how many cores each class holds in a state is decided by the classes of
`corewise.simulation.decisions`, which complete it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from corewise.kit.arrays import Floats, Ints
from corewise.model.system import System
from corewise.observation.sample_path import NO_JOB, EventKind, SamplePath
from corewise.observation.statistics import Statistics
from corewise.policies.base import BoundPolicy
from corewise.simulation.loops._kernels import chain as _kernels
from corewise.simulation.loops.occupation import Occupation
from corewise.simulation.loops.tally import Totals
from corewise.simulation.response_times import ResponseTimes
from corewise.simulation.state import State

__all__ = ["Loop", "Record"]

Record = tuple[Floats, NDArray[np.int16]]
"""Times and moves of events."""


class Loop(ABC):
    """Simulation loop: a sample path being drawn.

    Attributes
    ----------
    start : State
        Where it began.
    events : int
        How many there were.
    areas : list of ndarray
        ∫ n dt of each batch, by class.
    spans : list of float
        The length of each batch.
    responses : ResponseTimes or None
        The response times, if jobs are followed.
    at_a_time : int
        Events per call of a kernel, which cannot be interrupted: some hundredths of a second.

    Parameters
    ----------
    start : State
        Where to begin.
    rng : Generator
        The source of randomness.
    seen : Occupation or Totals
        What is counted, by state or in total.
    record : bool
        Whether to keep every event.
    """

    at_a_time: ClassVar[int]

    def __init__(
        self, start: State, rng: np.random.Generator, seen: Occupation | Totals, *, record: bool
    ) -> None:
        self.start = start.with_names() if record else start
        self.rng = rng
        self._seen = seen
        self.record = record
        self.events = 0
        self.areas: list[Floats] = []
        self.spans: list[float] = []
        self.responses: ResponseTimes | None = None
        self._clock = self._last_event = start.time
        self._when: list[Floats] = []
        self._what: list[NDArray[np.int16]] = []

    @property
    @abstractmethod
    def system(self) -> System:
        """The system that is simulated, as it is now."""

    @property
    @abstractmethod
    def policy(self) -> BoundPolicy:
        """Who holds how many cores."""

    @property
    @abstractmethod
    def counts(self) -> tuple[int, ...]:
        """The jobs of each class now."""

    @property
    def moves(self) -> Ints:
        """The arrivals of each class, then the departures of each, in the batches closed so far."""
        return self._seen.moves

    @property
    def visits(self) -> tuple[Ints, Floats]:
        """The states visited, shape (K, states), and the time in each; none if they are not counted."""
        return self._seen.visits

    @abstractmethod
    def statistics(self) -> Statistics:
        """Return what was seen, for `estimate`."""

    @abstractmethod
    def _draw(self, until: float, events: int, departures: int) -> tuple[Record, int, int]:
        """Draw moves by the clock until a time, so many events or departures, or something is used up.

        Returns the record, empty if it is not needed, and how many events and departures there were.
        """

    @abstractmethod
    def _set_system(self, system: System) -> None:
        """Simulate this system from now on."""

    def _make_room(self) -> None:  # noqa: B027  # some loops use nothing up
        """Enlarge what was used up, before more moves are drawn."""

    def _tick(self, until: float, departures: int) -> int:
        """Make moves by the clock, up to a time and at most as many departures; return how many."""
        changes = self.system.changes
        horizon = min(until, changes[0].time) if changes else until
        room = min(self.at_a_time, 4 * departures + 64)
        (when, what), events, done = self._draw(horizon, room, departures)
        self.events += events
        self._follow(when[:events], what[:events])
        if self.record:
            self._when.append(when[:events].copy())
            self._what.append(what[:events].copy())
        if changes and self._clock >= changes[0].time:
            self._set_system(self.system.at(self._clock))
        self._make_room()
        return done

    def _close_batch(self) -> None:
        """Add what was seen since the last batch was closed to the batches."""
        area, span = self._seen.close_batch(self._clock)
        self.areas.append(area)
        self.spans.append(span)

    def _cores(self, counts: Ints) -> Floats:
        """Return the cores of each class in each state, both of shape (K, states)."""
        raise NotImplementedError("this loop records the cores of every job")

    def follow_jobs(self) -> None:
        """Follow jobs from the beginning on, for their response times."""
        self.responses = ResponseTimes.of(self.start.counts)

    def _follow(self, when: Floats, what: NDArray[np.int16]) -> None:
        """Follow jobs along moves made by the clock."""
        if self.responses is not None and when.size:
            self.responses.follow(what, np.diff(when, prepend=self._last_event))
            self._last_event = float(when[-1])

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

    def run_time(self, length: float, batches: int, progress: Callable[[float], object] | None) -> None:
        """Go on for a length of time."""
        for i in range(1, batches + 1):
            until = self.start.time + length * i / batches
            while self._clock < until:
                self._tick(until, np.iinfo(np.int64).max)
                if progress:
                    progress((self._clock - self.start.time) / length)
            self._close_batch()

    def sampled(self, length: float, times: int) -> Ints:
        """Go on for a length of time, a batch of its own; return the states at regular times, (K, times)."""
        began, first, recorded, kept = self._clock, np.array(self.counts), len(self._when), self.record
        at = began + length * np.arange(1, times + 1) / times
        self.record = True
        while self._clock < at[-1]:
            self._tick(float(at[-1]), np.iinfo(np.int64).max)
        self.record = kept
        self._close_batch()
        when, what = np.concatenate(self._when[recorded:]), np.concatenate(self._what[recorded:])
        if not kept:
            del self._when[recorded:], self._what[recorded:]
        moves = 2 * first.size
        upto = np.searchsorted(when, at, side="right")  # far fewer of them than events
        between = np.repeat(np.arange(times + 1), np.diff(upto, prepend=0, append=when.size)) * moves + what
        made = np.bincount(between, minlength=times * moves)[: times * moves].reshape(times, 2, -1)
        return np.ascontiguousarray((first + np.cumsum(made[:, 0] - made[:, 1], axis=0)).T)

    def finish(self) -> tuple[State, SamplePath | None]:
        """Return the state at the end, and the path if it was recorded; their jobs are named here."""
        counts = self.counts
        if not self.record:
            return State(counts, self._clock, named=self.start.named), None
        what = np.concatenate(self._what) if self._what else np.empty(0, dtype=np.int16)
        classes = len(counts)
        arrivals = int(np.count_nonzero(what < classes))
        present = np.full((classes, max(self.start.counts) + arrivals), NO_JOB, dtype=np.int64)
        for i, row in enumerate(self.start.jobs):
            present[i, : len(row)] = row
        job, held = np.empty(what.size, dtype=np.int64), np.array(self.start.counts, dtype=np.int64)
        _kernels.name_jobs(self.rng, what, present, held, self.start.named, job)
        jobs = tuple(tuple(present[i, :n].tolist()) for i, n in enumerate(counts))
        end = State(counts, self._clock, jobs, self.start.named + arrivals)
        return end, self._path(what, job)

    def _path(self, what: NDArray[np.int16], job: Ints) -> SamplePath:
        """Return the record as a path: the start, the jobs present, every event, the end."""
        start, classes = self.start, len(self.start.counts)
        at_first = np.repeat(np.arange(classes), start.counts)
        first_jobs = [number for row in start.jobs for number in row]
        moves = np.concatenate([at_first, what])
        counts = np.zeros((classes, moves.size + 2), dtype=np.int64)
        counts[moves % classes, np.arange(1, moves.size + 1)] = np.where(moves < classes, 1, -1)
        kinds = np.where(what < classes, EventKind.ARRIVAL, EventKind.DEPARTURE)
        column = np.concatenate
        no_job, when = [NO_JOB], self._when or [np.empty(0)]
        return SamplePath(
            names=tuple(self.system.names),
            pool=self.system.cores,
            time=column([np.full(1 + at_first.size, start.time), *when, [self._clock]]),
            event=column(
                [[EventKind.START], [EventKind.PRESENT] * at_first.size, kinds, [EventKind.END]]
            ).astype(np.int8),
            job_class=column([no_job, moves % classes, no_job]),
            job=column([no_job, np.array(first_jobs, dtype=np.int64), job, no_job]),
            cores=np.ascontiguousarray(self._cores(np.cumsum(counts, axis=1)).T),
        )
