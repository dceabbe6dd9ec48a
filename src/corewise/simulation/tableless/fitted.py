"""Simulation without tables of a policy by fitted values; any number of classes."""

from __future__ import annotations

from corewise.model.system import System
from corewise.policies.base import BoundPolicy
from corewise.policies.fitted.rule import FittedRule
from corewise.simulation.tableless._kernels import fitted as _kernels
from corewise.simulation.tableless.engine import Drawn, Record, TablelessWalk
from corewise.simulation.tableless.state_cache import StateCache

__all__ = ["FittedWalk"]

_NUMBERS = 2**21
"""The size of the memory: 16 megabytes, since to decide anew takes microseconds."""


class FittedWalk(TablelessWalk):
    """Simulation engine for a fitted policy: a bound one whose rule is a `FittedRule`.

    To draw an event takes a few steps for each class, present or not, unless the state is remembered.
    """

    def _prepare(self, policy: BoundPolicy) -> None:
        rule = policy.rule
        assert isinstance(rule, FittedRule)
        self._rule, self._single = rule.arrays

    def _set_system(self, system: System) -> None:
        super()._set_system(system)
        self._memory = StateCache.of(len(system.classes), _NUMBERS)

    def _draw(self, record: Record, until: float, events: int, departures: int) -> Drawn:
        world = (self._system.cores, self._plant, self._memory.arrays)
        path = (self._now, self._area, self._moves, self._tally.arrays, record)
        window = (*world, *path, self._clock, until, events, departures)
        return _kernels.fitted_walk(self.rng, self._rule, self._single, *window)
