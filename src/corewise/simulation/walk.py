"""Simulation engines: a sample path being drawn, which knows where it is and counts what it has seen."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from corewise.errors import InvalidInput
from corewise.kit import checks
from corewise.kit.arrays import Floats, Ints
from corewise.kit.display import Shown
from corewise.model.system import System
from corewise.observation.sample_path import NOBODY, Event, SamplePath
from corewise.observation.statistics import Statistics
from corewise.policies.base import BoundPolicy
from corewise.simulation import _kernels
from corewise.simulation.response_times import ResponseTimes
from corewise.simulation.tables import Occupation, Tables

__all__ = ["Engine", "State", "Walk"]

_AT_A_TIME = 2**20
"""Events per call of a kernel, which cannot be interrupted: about ten milliseconds."""


@dataclass(frozen=True, repr=False)
class State(Shown):
    """State of a simulation: where a run ended, and where another can start.

    Attributes
    ----------
    counts : tuple of int
        The jobs of each class.
    time : float
        The clock.
    jobs : tuple of tuple of int
        Their numbers, class by class, if they were recorded; otherwise empty, and a recorded run gives new
        ones.
    named : int
        How many job numbers have been given out.
    remaining, attained : tuple of tuple of float
        The work that each job still has to get and has got, class by class, if sizes are not exponential;
        empty if nobody knows: then all of them begin anew.
    next_arrivals : tuple of float
        When the next job of each class comes, if it is known already.
    """

    _shown = ("counts", "time")

    counts: tuple[int, ...]
    time: float = 0.0
    jobs: tuple[tuple[int, ...], ...] = ()
    named: int = 0
    remaining: tuple[tuple[float, ...], ...] = ()
    attained: tuple[tuple[float, ...], ...] = ()
    next_arrivals: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        counts = tuple(checks.count(n, "jobs of a state", least=0) for n in self.counts)
        object.__setattr__(self, "counts", counts)
        object.__setattr__(self, "time", checks.finite(self.time, "time of a state"))
        for what, rows in (
            ("job numbers", self.jobs),
            ("remaining work", self.remaining),
            ("attained work", self.attained),
        ):
            if rows and tuple(len(row) for row in rows) != counts:
                raise InvalidInput(
                    f"a state with {list(counts)} jobs cannot have the {what} {checks.shown(rows)}"
                )
        if bool(self.remaining) != bool(self.attained):
            raise InvalidInput("a state has both the remaining and the attained work of its jobs, or neither")
        for row in (*self.remaining, *self.attained):
            for work in row:
                checks.within(work, 0.0, math.inf, "work of a job in a state")
        if self.next_arrivals and len(self.next_arrivals) != len(counts):
            raise InvalidInput(
                f"a state of {len(counts)} classes cannot have the next arrivals {self.next_arrivals!r}"
            )

    def with_names(self) -> State:
        """Return the state with a number for every job."""
        if self.jobs or not any(self.counts):
            return self
        edges = np.cumsum([self.named, *self.counts]).tolist()
        jobs = tuple(tuple(range(a, b)) for a, b in pairwise(edges))
        return replace(self, jobs=jobs, named=edges[-1])


class Engine(ABC):
    """Simulation engine: a sample path being drawn, by whatever means.

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
    """

    def __init__(self, start: State, rng: np.random.Generator, *, record: bool) -> None:
        self.start = start.with_names() if record else start
        self.rng = rng
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
    @abstractmethod
    def moves(self) -> Ints:
        """The arrivals of each class, then the departures of each, in the batches closed so far."""

    @property
    @abstractmethod
    def visits(self) -> tuple[Ints, Floats]:
        """The states visited, shape (K, states), and the time in each; none if they are not counted."""

    @abstractmethod
    def statistics(self) -> Statistics:
        """Return what was seen, for `estimate`."""

    @abstractmethod
    def _tick(self, until: float, departures: int) -> int:
        """Make moves by the clock, up to a time and at most as many departures; return how many."""

    @abstractmethod
    def _close_batch(self) -> None:
        """Put away what was seen since the last batch was closed."""

    @abstractmethod
    def _cores(self, counts: Ints) -> Floats:
        """Return the cores of each class in each state, both of shape (K, states)."""

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
        present = np.full((classes, max(self.start.counts) + arrivals), NOBODY, dtype=np.int64)
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
        kinds = np.where(what < classes, Event.ARRIVAL, Event.DEPARTURE)
        column = np.concatenate
        nobody, when = [NOBODY], self._when or [np.empty(0)]
        return SamplePath(
            names=tuple(self.system.names),
            pool=self.system.cores,
            time=column([np.full(1 + at_first.size, start.time), *when, [self._clock]]),
            event=column([[Event.START], [Event.PRESENT] * at_first.size, kinds, [Event.END]]).astype(
                np.int8
            ),
            job_class=column([nobody, moves % classes, nobody]),
            job=column([nobody, np.array(first_jobs, dtype=np.int64), job, nobody]),
            cores=np.ascontiguousarray(self._cores(np.cumsum(counts, axis=1)).T),
        )


class Walk(Engine):
    """Simulation engine over transition tables: every state of a box has its moves in them."""

    def __init__(
        self, tables: Tables, start: State, rng: np.random.Generator, *, record: bool = False
    ) -> None:
        super().__init__(start, rng, record=record)
        self.tables = tables
        self._occupation = Occupation(tables.space)
        self._here = tables.state(start.counts)
        self._jumps: list[NDArray[np.int16]] = []

    @property
    def system(self) -> System:
        """The system that is simulated, as it is now."""
        return self.tables.system

    @property
    def policy(self) -> BoundPolicy:
        """Who holds how many cores."""
        return self.tables.policy

    @property
    def counts(self) -> tuple[int, ...]:
        """The jobs of each class now."""
        return self.tables.counts(self._here)

    def _cores(self, counts: Ints) -> Floats:
        """Return the cores of each class in each state."""
        return self.tables.cores[:, self.tables.space.index(counts.T)]

    # --- drawing --------------------------------------------------------------------------------

    def run_departures(self, batches: Sequence[int], progress: Callable[[float], object] | None) -> None:
        """Go on until as many jobs have left as all batches say."""
        whole, done = sum(batches), 0
        with_clock = self.record or bool(self.tables.system.changes)
        for size in batches:
            remaining, began = size, self.counts
            while remaining:
                step = self._tick(math.inf, remaining) if with_clock else self._jump(remaining)
                remaining -= step
                done += step
                if progress:
                    progress(done / whole)
            if not with_clock:
                self._occupation.batch.draw_times(self.tables.holding, self.rng)
                self._follow_jumps(began)
            self._close_batch()
        if not with_clock:
            self._clock = self.start.time + math.fsum(self.spans)

    def _jump(self, departures: int) -> int:
        """Make moves without a clock, at most as many departures; return how many."""
        tables, same = self.tables, None if self.responses is None else deepcopy(self.rng)
        here, events, done = _kernels.jump(
            self.rng,
            tables.thresholds,
            self._occupation.batch.moves,
            tables.steps,
            self._here,
            _AT_A_TIME,
            departures,
        )
        if same is not None:
            self._jumps.append(np.empty(events, dtype=np.int16))
            _kernels.retrace(
                same.random(events), tables.thresholds, tables.steps, self._here, self._jumps[-1]
            )
        self._here = int(here)
        self.events += events
        self._grow_if_at_edge()
        return int(done)

    def _follow_jumps(self, began: tuple[int, ...]) -> None:
        """Follow jobs along the moves of a batch that began in a state.

        Of its visits to a state each lasted as long as any other: in the mean, its part of the time there.
        """
        if self.responses is None:
            return
        what, self._jumps = np.concatenate(self._jumps), []
        steps = np.array(self.tables.steps)[what]
        states = self.tables.state(began) + np.cumsum(steps) - steps
        visits = self._occupation.batch.moves.reshape(self._occupation.batch.times.size, -1).sum(axis=1)
        self.responses.follow(what, self._occupation.batch.times[states] / visits[states])

    def _tick(self, until: float, departures: int) -> int:
        """Make moves by the clock, up to a time and at most as many departures; return how many."""
        changes = self.tables.system.changes
        horizon = min(until, changes[0].time) if changes else until
        room = min(_AT_A_TIME, 4 * departures + 64)
        when, what = np.empty(room), np.empty(room, dtype=np.int16)
        here, self._clock, events, done = _kernels.clocked(
            self.rng,
            self.tables.thresholds,
            self.tables.holding,
            self._occupation.batch.moves,
            self._occupation.batch.times,
            self.tables.steps,
            self._here,
            self._clock,
            horizon,
            departures,
            when,
            what,
        )
        self._here = int(here)
        self.events += events
        self._follow(when[:events], what[:events])
        if self.record:
            self._when.append(when[:events].copy())
            self._what.append(what[:events].copy())
        if changes and self._clock >= changes[0].time:
            self.tables = self.tables.under(self.tables.system.at(self._clock))
        self._grow_if_at_edge()
        return int(done)

    def _grow_if_at_edge(self) -> None:
        tables = self.tables
        if tables.thresholds[self._here * len(tables.steps)] >= 0.0:
            return
        counts = tables.counts(self._here)
        self.tables = tables.grown(counts)
        self._here = self.tables.state(counts)
        self._occupation.grow(self.tables.space)

    def _close_batch(self) -> None:
        area, span = self._occupation.close_batch()
        self.areas.append(area)
        self.spans.append(span)

    # --- what was seen ----------------------------------------------------------------------------

    def seen(self) -> tuple[Ints, Floats, Ints, Floats]:
        """Return the states seen: counts, cores (both (K, states)), moves (2K, states) and times."""
        return self._occupation.seen(self.tables.cores)

    def statistics(self) -> Statistics:
        """Return what was seen, for `estimate`."""
        return self._occupation.statistics(tuple(self.system.names), self.tables.cores)

    @property
    def moves(self) -> Ints:
        """The arrivals of each class, then the departures of each."""
        return self._occupation.moves

    @property
    def visits(self) -> tuple[Ints, Floats]:
        """The states visited, shape (K, states), and the time in each."""
        counts, _, _, times = self.seen()
        return counts, times
