"""Decisions by table: the chain and every job over a box of states in which all is decided beforehand.

The box is small at first and grows where a path comes to its edge; a path does not depend on the box it was
drawn in, and nothing is ever blocked.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from corewise.errors import BoxTooLarge
from corewise.kit.arrays import Floats, Int, Ints
from corewise.kit.report import cut
from corewise.model import space as boxes
from corewise.model.rates import departure_rates, job_speeds
from corewise.model.space import StateSpace
from corewise.model.system import System
from corewise.observation.statistics import Statistics
from corewise.policies.base import BoundPolicy, tabulate
from corewise.simulation.loops._kernels import chain as _kernels
from corewise.simulation.loops._kernels.jobs import Counted, States
from corewise.simulation.loops.jobs import JobLoop
from corewise.simulation.loops.loop import Loop, Record
from corewise.simulation.loops.occupation import Occupation
from corewise.simulation.loops.sources import JobSource
from corewise.simulation.state import State

__all__ = [
    "SpeedTables",
    "TableChain",
    "TableJobs",
    "TransitionTables",
    "suits_sampled_tables",
    "suits_tables",
]

_FIRST_CAPACITY = (63, 23, 11, 7, 5, 4, 3, 3, 2)
"""The first capacity for one, two, … classes: about the range of a moderate load, and quick to tabulate."""

_MOST_STATES = 2**22
"""A path that needs more is of many classes, or not stable: making tables would take longer than walking."""


_MOST_CLASSES, _MOST_LIKELY = 3, 2**21
"""Classes and likely states up to which a path is quicker over tables than without."""

_MOST_SAMPLED = 200_000
"""States up to which a sample of states, which visits every table anew, is quicker over tables."""


def suits_tables(system: System) -> bool:
    """Return whether a path is drawn more quickly over tables than without.

    Not whether exact numbers are within reach, which `corewise.analysis.tractability` answers: a path needs
    tables of the states that it comes to, and nothing is solved over them.
    """
    return len(system.classes) <= _MOST_CLASSES and system.likely_states <= _MOST_LIKELY


def suits_sampled_tables(system: System) -> bool:
    """Return whether a sample of states is drawn more quickly over tables, going by cores and classes alone.

    Arrival rates do not count: the sample is of a policy that may keep far more jobs than there are cores.
    """
    return len(system.classes) * math.log(system.cores + 20.0) <= math.log(_MOST_SAMPLED)


@dataclass(frozen=True, eq=False)
class BoxTables(ABC):
    """Tables of what a policy does in every state of a box, which grows where a path comes to its edge.

    Attributes
    ----------
    system : System
        The system that is simulated.
    policy : BoundPolicy
        Who holds how many cores.
    space : StateSpace
        The box.
    cores : ndarray
        Cores per class and state, shape (K, size).
    """

    system: System
    policy: BoundPolicy
    space: StateSpace
    cores: Floats

    @classmethod
    @abstractmethod
    def filled(cls, system: System, policy: BoundPolicy, space: StateSpace, cores: Floats) -> Self:
        """Return the tables of a box in which the cores are known."""

    @classmethod
    def of(
        cls,
        system: System,
        policy: BoundPolicy,
        start: tuple[int, ...],
        least: tuple[int, ...] | None = None,
    ) -> Self:
        """Return tables over a first box around a state, of at least the capacity given or a usual one."""
        usual = least or (_FIRST_CAPACITY[min(len(start), len(_FIRST_CAPACITY)) - 1],) * len(start)
        try:
            around = zip(usual, start, strict=True)
            return cls.over(system, policy, tuple(max(most, n + n // 2 + 2) for most, n in around))
        except BoxTooLarge:
            raise BoxTooLarge(
                f"{len(start)} classes with {sum(start)} jobs at the start need larger tables than there is "
                f"room for: {cut(policy.name, 40)} is tabulated; equi, greedy, whittle, priority and "
                f"improved need no tables"
            ) from None

    @classmethod
    def over(cls, system: System, policy: BoundPolicy, capacity: tuple[int, ...]) -> Self:
        """Return tables over a box."""
        space = StateSpace.of(capacity, len(capacity))
        per_state = 8 * (20 * len(capacity) + 12)  # with the smaller tables that these are to replace
        if space.size > min(_MOST_STATES, boxes.available_memory() // per_state):
            raise BoxTooLarge(f"a simulation does not tabulate {space.size:,} states")
        return cls.filled(system, policy, space, tabulate(policy, space))

    def under(self, system: System) -> Self:
        """Return the tables of the same policy and box when the curves are those of another system."""
        return self.filled(system, self.policy, self.space, self.cores)

    def grown(self, counts: tuple[int, ...]) -> Self:
        """Return tables over a box in which a state at the edge of this one lies inside."""
        most = self.space.capacity
        wider = tuple(m + m // 2 + 2 if 3 * n >= 2 * m else m for n, m in zip(counts, most, strict=True))
        try:
            return self.over(self.system, self.policy, wider)
        except BoxTooLarge:
            raise BoxTooLarge(
                f"the simulation came to {sum(counts)} jobs of {len(counts)} classes, and needs larger "
                f"tables than there is room for; is the system stable under {cut(self.policy.name, 40)}?"
            ) from None

    def state(self, counts: tuple[int, ...]) -> int:
        """Return the flat index of a state."""
        return int(self.space.index(np.array(counts, dtype=np.int64)))

    def counts(self, state: int) -> tuple[int, ...]:
        """Return the counts of a flat index."""
        return tuple(self.space.counts[:, state].tolist())


@dataclass(frozen=True, eq=False)
class TransitionTables(BoxTables):
    """Transition tables of the chain under a policy: where it leads from every state of a box.

    Attributes
    ----------
    thresholds : ndarray
        Cumulative probabilities of the moves, flat, 2K a state; −1 at the edge.
    holding : ndarray
        The mean time in each state.
    """

    thresholds: Floats
    holding: Floats

    @classmethod
    def filled(cls, system: System, policy: BoundPolicy, space: StateSpace, cores: Floats) -> Self:
        """Return the tables of a box in which the cores are known."""
        return cls(system, policy, space, cores, *_transitions(system, space, cores))

    @property
    def steps(self) -> tuple[int, ...]:
        """How each move changes the flat index of the state."""
        up = self.space.strides.tolist()
        return (*up, *(-step for step in up))


def _transitions(system: System, space: StateSpace, cores: Floats) -> tuple[Floats, Floats]:
    """Return the thresholds, flat, and the mean time in each state."""
    leaving = departure_rates(system, space.jobs, cores)
    thresholds, holding = np.empty(2 * leaving.size), np.empty(space.size)
    _kernels.move_thresholds(
        leaving, system.arrival_rates, space.counts, space.dimensions, thresholds, holding
    )
    return thresholds, holding


@dataclass(frozen=True, eq=False)
class SpeedTables(BoxTables):
    """Tables of the speeds of jobs under a policy: a memory of states that is filled beforehand.

    Attributes
    ----------
    states : States
        One row per state, its jobs and the speed of a job of each class; at the edge of the box, where some
        class can have no further job within it, a row is empty.
    """

    states: States

    @classmethod
    def filled(cls, system: System, policy: BoundPolicy, space: StateSpace, cores: Floats) -> Self:
        """Return the tables of a box in which the cores are known."""
        inside = np.all(space.counts < np.array(space.capacity)[:, None], axis=0)
        known = np.where(inside, space.counts, -1.0)
        rows = np.concatenate([known, job_speeds(system, space.jobs, cores)])
        states = States(np.ascontiguousarray(rows.T), space.strides, 0, -1)
        return cls(system, policy, space, cores, states)


class TableChain(Loop):
    """Jump chain and clocked chain over transition tables: every state of a box has its moves in them."""

    at_a_time: ClassVar[int] = 2**20

    def __init__(
        self, tables: TransitionTables, start: State, rng: np.random.Generator, *, record: bool = False
    ) -> None:
        self._occupation = Occupation(tables.space)
        super().__init__(start, rng, self._occupation, record=record)
        self.tables = tables
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
            self.at_a_time,
            departures,
        )
        if same is not None:
            self._jumps.append(np.empty(events, dtype=np.int16))
            _kernels.retrace(
                same.random(events), tables.thresholds, tables.steps, self._here, self._jumps[-1]
            )
        self._here = int(here)
        self.events += events
        self._make_room()
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

    def _draw(self, until: float, events: int, departures: int) -> tuple[Record, int, int]:
        when, what = np.empty(events), np.empty(events, dtype=np.int16)
        here, self._clock, made, done = _kernels.clocked(
            self.rng,
            self.tables.thresholds,
            self.tables.holding,
            self._occupation.batch.moves,
            self._occupation.batch.times,
            self.tables.steps,
            self._here,
            self._clock,
            until,
            departures,
            when,
            what,
        )
        self._here = int(here)
        return (when, what), int(made), int(done)

    def _set_system(self, system: System) -> None:
        self.tables = self.tables.under(system)

    def _make_room(self) -> None:
        """Enlarge the box if the path is at its edge."""
        tables = self.tables
        if tables.thresholds[self._here * len(tables.steps)] >= 0.0:
            return
        counts = tables.counts(self._here)
        self.tables = tables.grown(counts)
        self._here = self.tables.state(counts)
        self._occupation.grow(self.tables.space)

    # --- what was seen ----------------------------------------------------------------------------

    def seen(self) -> tuple[Ints, Floats, Ints, Floats]:
        """Return the states seen: counts, cores (both (K, states)), moves (2K, states) and times."""
        return self._occupation.seen(self.tables.cores)

    def statistics(self) -> Statistics:
        """Return what was seen, for `estimate`."""
        return self._occupation.statistics(tuple(self.system.names), self.tables.cores)


class TableJobs(JobLoop):
    """Loop over every job with a table of speeds for the states of a box."""

    def __init__(
        self,
        tables: SpeedTables,
        source: JobSource,
        start: State,
        rng: np.random.Generator,
        *,
        record: bool = False,
    ) -> None:
        self._occupation = Occupation(tables.space)
        super().__init__(tables.policy, source, start, rng, self._occupation, record=record)
        self.tables = tables

    @property
    def system(self) -> System:
        """The system that is simulated, as it is now."""
        return self.tables.system

    @property
    def policy(self) -> BoundPolicy:
        """Who holds how many cores."""
        return self.tables.policy

    def _set_system(self, system: System) -> None:
        self.tables = self.tables.under(system)

    @property
    def _memory(self) -> States:
        return self.tables.states

    @property
    def _counted(self) -> Counted:
        return Counted(self._occupation.batch.moves, self._occupation.batch.times)

    def _decide(self, _row: Int) -> None:
        """Enlarge the box: the path is at its edge."""
        self.tables = self.tables.grown(self.counts)
        self._occupation.grow(self.tables.space)

    def _cores_in(self, counts: Ints) -> Floats:
        return self.tables.cores[:, self.tables.space.index(counts.T)]

    def statistics(self) -> Statistics:
        """Return what was seen, for `estimate`."""
        names, cores = tuple(self.system.names), self.tables.cores
        if not self.order.active:
            return self._occupation.statistics(names, cores)
        counts, held, moves, times = self._occupation.seen(cores)
        crowded = counts.sum(axis=0) > self.order.cores
        arrivals = moves[: len(names), crowded].sum(axis=1).tolist()
        alone = ~crowded
        comes, leaves = moves[: len(names), alone], moves[len(names) :, alone]
        seen = Statistics.of_states(names, counts[:, alone], held[:, alone], times[alone], comes, leaves)
        return seen + self.order.statistics(names, arrivals, float(times[crowded].sum()))
