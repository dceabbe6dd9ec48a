"""Simulation without tables of a policy by fitted values; any number of classes."""

from __future__ import annotations

from typing import ClassVar

from corewise.policies.base import BoundPolicy
from corewise.policies.fitted.rule import Fitted
from corewise.simulation.tableless._kernels import fitted as _kernels
from corewise.simulation.tableless.engine import Drawn, Summarised
from corewise.simulation.tableless.remembering import RememberingWalk

__all__ = ["FittedWalk"]


class FittedWalk(RememberingWalk):
    """Simulation engine for a fitted policy: a bound one whose rule is a `Fitted`.

    To draw an event takes a few steps for each class, present or not, unless the state is remembered; what
    is decided is remembered for any number of classes, since to decide anew takes microseconds.
    """

    numbers: ClassVar[int] = 2**21

    def _prepare(self, policy: BoundPolicy) -> None:
        rule = policy.decision.by_counts
        assert isinstance(rule, Fitted)
        self._rule, self._single = rule.arrays

    def _decide_and_draw(self, record: Summarised, until: float, events: int, departures: int) -> Drawn:
        world = (self._system.cores, self._plant, self._memory.arrays)
        path = (self._now, self._area, self._moves, self._tally.arrays, record)
        window = (*world, *path, self._clock, until, events, departures)
        return _kernels.fitted_walk(self.rng, self._rule, self._single, *window)
