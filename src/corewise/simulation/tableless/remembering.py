"""Simulation without tables of a policy whose paths come back to states: its rule is asked about each once.

A path that comes to a state which is not remembered stops there. The rule of the policy is asked about this
state and about those within two events of it, all at once, and the path goes on. To ask takes 30 to 70 µs, a
compiled decision a few, but to compile that takes seconds. So the rule is asked some hundred times, and then
only as long as events in between make it a small matter; a path that comes to new states more often than that
is drawn by a kernel which decides for itself.
"""

from __future__ import annotations

from abc import abstractmethod
from functools import cache
from itertools import product
from typing import ClassVar

import numpy as np

from corewise.kit.arrays import Ints
from corewise.model.rates import departure_rates
from corewise.model.system import System
from corewise.simulation.tableless._kernels.events import known_walk
from corewise.simulation.tableless.engine import Drawn, Summarised, TablelessWalk
from corewise.simulation.tableless.state_cache import StateCache

__all__ = ["RememberingWalk"]

_REACH = 2
"""Events within which a state is asked about along with another: of four classes, 41 states at a time."""
_EARNED = 500
"""Events in which a path earns another question."""


class RememberingWalk(TablelessWalk):
    """Simulation engine that asks the rule of its policy about states that a path has not been near before.

    Attributes
    ----------
    few : int
        Classes up to which a path comes back to states so often that it is worth asking.
    likely : int
        Likely states up to which it does.
    patience : int
        How often the rule is asked before questions have to be earned.
    numbers : int
        The size of the cache of states.
    """

    few: ClassVar[int] = 4
    likely: ClassVar[int] = 2**20
    patience: ClassVar[int] = 500
    numbers: ClassVar[int]

    def _set_system(self, system: System) -> None:
        super()._set_system(system)
        classes = len(system.classes)
        returns = classes <= self.few and system.likely_states <= self.likely
        self._asks, self._asked, self._events_before = returns, 0, self.events
        self._cache: StateCache | None = None

    @property
    def _memory(self) -> StateCache:
        """What was decided in the states of this system, made when it is first needed: it takes megabytes."""
        if self._cache is None:
            self._cache = StateCache.of(self._now.size, self.numbers)
        return self._cache

    def _draw(self, record: Summarised, until: float, events: int, departures: int) -> Drawn:
        if not self._asks:
            return self._decide_and_draw(record, until, events, departures)
        seen, units, _ = self._memory.arrays
        path = (self.rng, seen, units, self._now, self._area, self._moves, self._tally.arrays, record)
        row, clock, done, remaining = known_walk(*path, self._clock, until, 0, events, departures)
        while row >= 0:
            earned = (self.events - self._events_before + int(done)) // _EARNED
            self._asks = self._asked < self.patience + earned
            if not self._asks:
                break
            self._ask()
            row, clock, done, remaining = known_walk(*path, clock, until, done, events, remaining)
        return clock, done, departures - remaining

    @abstractmethod
    def _decide_and_draw(self, record: Summarised, until: float, events: int, departures: int) -> Drawn:
        """Do as `_draw`, by a kernel that decides for itself."""

    def _ask(self) -> None:
        """Remember what the rule says of the state that the path is in, and of those about it."""
        about = self._now[:, None] + _steps(self._now.size)
        counts = np.ascontiguousarray(about[:, np.all(about >= 0, axis=0)])
        cores = self._policy.decision(counts)
        leaving = departure_rates(self._system, counts.astype(np.float64), cores)
        self._memory.remember(counts, self._system.arrival_rates, leaving, cores / np.maximum(counts, 1))
        self._asked += 1


@cache
def _steps(classes: int) -> Ints:
    """Return where few events lead to, shape (K, states); staying comes last, so that it is remembered."""
    ways = product(range(-_REACH, _REACH + 1), repeat=classes)
    near = sorted((way for way in ways if sum(map(abs, way)) <= _REACH), key=lambda way: -sum(map(abs, way)))
    return np.array(near, dtype=np.int64).T
