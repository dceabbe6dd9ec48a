"""Simulation without tables of a water-level policy; any number of classes."""

from __future__ import annotations

from typing import ClassVar

from corewise.model.system import System
from corewise.policies.base import BoundPolicy
from corewise.simulation.tableless._kernels import level as _kernels
from corewise.simulation.tableless.engine import Drawn, Record, TablelessWalk
from corewise.simulation.tableless.state_cache import StateCache

__all__ = ["LevelWalk"]

_NUMBERS = 2**17
"""The size of the memory: a megabyte, since to decide anew takes no longer than to fetch from afar."""


class LevelWalk(TablelessWalk):
    """Simulation engine for a water-level policy: a bound one that has `levels`.

    To draw an event takes less than a step for each class present.

    Attributes
    ----------
    few : int
        Classes up to which a path comes back to states so often that decisions are worth a cache.
    likely : int
        Likely states up to which it does.
    """

    few: ClassVar[int] = 4
    likely: ClassVar[int] = 2**20

    def _prepare(self, policy: BoundPolicy) -> None:
        assert policy.levels is not None
        self._steps = policy.levels().arrays

    def _set_system(self, system: System) -> None:
        super()._set_system(system)
        classes = len(system.classes)
        returns = classes <= self.few and system.likely_states <= self.likely
        self._memory = StateCache.of(classes, _NUMBERS) if returns else None

    def _draw(self, record: Record, until: float, events: int, departures: int) -> Drawn:
        steps, cores, plant = self._steps, self._system.cores, self._plant
        path = (self._now, self._area, self._moves, self._tally.arrays, record)
        window = (*path, self._clock, until, events, departures)
        if self._memory is None:
            return _kernels.level_walk(self.rng, steps, cores, plant, *window)
        return _kernels.remembered_walk(self.rng, steps, cores, plant, self._memory.arrays, *window)
