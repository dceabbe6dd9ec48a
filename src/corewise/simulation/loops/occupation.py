"""Occupation counts of a path over a box of states, which may grow."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from corewise.kit.arrays import Floats, Ints
from corewise.model.space import StateSpace
from corewise.observation.statistics import Statistics

__all__ = ["Occupation", "Visits"]


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

    def close_batch(self, _clock: float) -> tuple[Floats, float]:
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

    @property
    def visits(self) -> tuple[Ints, Floats]:
        """The states visited, shape (K, states), and the time in each."""
        seen = self._visited
        return self._space.counts[:, seen], self._closed.times[seen]

    @property
    def _visited(self) -> Ints:
        moves = self._closed.moves.reshape(self._closed.times.size, -1)
        return np.flatnonzero((self._closed.times > 0.0) | moves.any(axis=1))

    def seen(self, cores: Floats) -> tuple[Ints, Floats, Ints, Floats]:
        """Return the states seen: counts, their cores (both (K, states)), moves (2K, states) and times."""
        moves, times = self._closed.moves.reshape(self._closed.times.size, -1), self._closed.times
        seen = self._visited
        counts = self._space.counts[:, seen]
        return counts, cores[:, seen], np.ascontiguousarray(moves[seen].T), times[seen]

    def statistics(self, names: tuple[str, ...], cores: Floats) -> Statistics:
        """Return what was seen, for `estimate`; `cores` are those of each class in the states of the box."""
        counts, held, moves, times = self.seen(cores)
        return Statistics.of_states(names, counts, held, times, moves[: len(names)], moves[len(names) :])
