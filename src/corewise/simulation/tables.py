"""Transition tables of the chain under a policy, over a box of states, and the occupation counts of a path.

The box is small at first and grows where a path comes to its edge; a path does not depend on the box it was
drawn in, and nothing is ever blocked.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Self

import numpy as np

from corewise.errors import BoxTooLarge
from corewise.kit.arrays import Floats, Ints
from corewise.kit.report import cut
from corewise.model import space as boxes
from corewise.model.rates import departure_rates
from corewise.model.space import StateSpace
from corewise.model.system import System
from corewise.observation.statistics import Statistics
from corewise.policies.base import BoundPolicy, tabulate
from corewise.simulation import _kernels

__all__ = ["BoxTables", "Occupation", "Tables", "Visits", "suits_sampled_tables", "suits_tables"]

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
class Tables(BoxTables):
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
        return cls(system, policy, space, cores, *_chain(system, space, cores))

    @property
    def steps(self) -> tuple[int, ...]:
        """How each move changes the flat index of the state."""
        up = self.space.strides.tolist()
        return (*up, *(-step for step in up))


def _chain(system: System, space: StateSpace, cores: Floats) -> tuple[Floats, Floats]:
    """Return the thresholds, flat, and the mean time in each state."""
    leaving = departure_rates(system, space.jobs, cores)
    thresholds, holding = np.empty(2 * leaving.size), np.empty(space.size)
    _kernels.move_thresholds(
        leaving, system.arrival_rates, space.counts, space.dimensions, thresholds, holding
    )
    return thresholds, holding


@dataclass
class Visits:
    """Occupation counts of a sample path: moves and time by state.

    Attributes
    ----------
    moves : ndarray
        How often each move was made from each state, flat, 2K a state.
    times : ndarray
        The time spent in each state.
    """

    moves: Ints
    times: Floats

    @classmethod
    def none(cls, space: StateSpace) -> Visits:
        """Return the counts of a path that has not begun."""
        return cls(np.zeros(2 * len(space.capacity) * space.size, dtype=np.int64), np.zeros(space.size))

    def moved(self, old: StateSpace, new: StateSpace) -> Visits:
        """Return the same counts over a larger box."""
        wider = Visits.none(new)
        inside = tuple(slice(0, n) for n in old.shape)
        moves = self.moves.reshape(*old.shape, -1)
        wider.moves.reshape(*new.shape, -1)[inside] = moves
        wider.times.reshape(new.shape)[inside] = self.times.reshape(old.shape)
        return wider

    def draw_times(self, holding: Floats, rng: np.random.Generator) -> None:
        """Draw the time spent in every state, given how often it was left: a sum of exponential times."""
        exits = self.moves.reshape(holding.size, -1).sum(axis=1)
        seen = np.flatnonzero(exits)
        self.times[seen] = holding[seen] * rng.standard_gamma(exits[seen])

    def add(self, other: Visits) -> None:
        """Add the counts of a further stretch over the same box."""
        self.moves += other.moves
        self.times += other.times


class Occupation:
    """Occupation counts of a path over a box that grows, batch by batch.

    Attributes
    ----------
    batch : Visits
        Those of the batch that is open.
    """

    def __init__(self, space: StateSpace) -> None:
        self._space = space
        self._closed, self.batch = Visits.none(space), Visits.none(space)

    def grow(self, space: StateSpace) -> None:
        """Go on over a larger box."""
        self._closed = self._closed.moved(self._space, space)
        self.batch = self.batch.moved(self._space, space)
        self._space = space

    def close_batch(self) -> tuple[Floats, float]:
        """Return ∫ n dt by class and the length of the open batch, and begin another."""
        seen = np.flatnonzero(self.batch.times)
        times = self.batch.times[seen]
        self._closed.add(self.batch)
        self.batch = Visits.none(self._space)
        return (self._space.jobs[:, seen] * times).sum(axis=1), float(times.sum())

    @property
    def moves(self) -> Ints:
        """The arrivals of each class, then the departures of each, in the batches that are closed."""
        return np.asarray(self._closed.moves.reshape(self._closed.times.size, -1).sum(axis=0))

    def seen(self, cores: Floats) -> tuple[Ints, Floats, Ints, Floats]:
        """Return the states seen: counts, their cores (both (K, states)), moves (2K, states) and times."""
        moves, times = self._closed.moves.reshape(self._closed.times.size, -1), self._closed.times
        seen = np.flatnonzero((times > 0.0) | moves.any(axis=1))
        counts = self._space.counts[:, seen]
        return counts, cores[:, seen], np.ascontiguousarray(moves[seen].T), times[seen]

    def statistics(self, names: tuple[str, ...], cores: Floats) -> Statistics:
        """Return what was seen, for `estimate`; `cores` are those of each class in the states of the box."""
        counts, held, moves, times = self.seen(cores)
        return Statistics.of_states(names, counts, held, times, moves[: len(names)], moves[len(names) :])
