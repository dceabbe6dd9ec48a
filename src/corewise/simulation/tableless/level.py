"""Simulation without tables of a water-level policy; any number of classes."""

from __future__ import annotations

from typing import ClassVar

from corewise.policies.base import BoundPolicy
from corewise.policies.decisions import Levels
from corewise.simulation.tableless._kernels import level as _kernels
from corewise.simulation.tableless.engine import Drawn, Summarised
from corewise.simulation.tableless.remembering import RememberingWalk

__all__ = ["LevelWalk"]


class LevelWalk(RememberingWalk):
    """Simulation engine for a water-level policy: a bound one that has `levels`.

    To draw an event takes less than a step for each class present.
    """

    numbers: ClassVar[int] = 2**19

    def _prepare(self, policy: BoundPolicy) -> None:
        levels = policy.decision.by_counts
        assert isinstance(levels, Levels)
        self._steps = levels.steps.arrays

    def _decide_and_draw(self, record: Summarised, until: float, events: int, departures: int) -> Drawn:
        path = (self._now, self._area, self._moves, self._tally.arrays, record)
        window = (*path, self._clock, until, events, departures)
        return _kernels.level_walk(self.rng, self._steps, self._system.cores, self._plant, *window)
