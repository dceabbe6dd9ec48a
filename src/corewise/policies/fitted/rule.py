r"""The greedy policy of a fitted value function, with guards where the fit may mislead.

In state n the cores are split by offers ω_i = μ_i (V(n) − V(n − e_i)), which is the action of the Bellman
equation (`corewise.policies.waterfill.split`). V is an estimate, so:

- Where some n_i or N lies beyond what was seen when V was fitted, the offers are those of the nearest state
  that was seen; and if there are as many jobs as cores, no job holds more than one. All cores are then at
  work at full efficiency, so the policy is stable whatever V is.
- ω_i ≥ h_i / s_i(c): a system with one job less can do what the other does with that job, and spares at
  least its cost over the shortest time that it could have stayed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from corewise.errors import InvalidPolicy
from corewise.kit.arrays import Bools, Floats, Ints
from corewise.model.speedup import Amdahl
from corewise.model.system import System, require_system
from corewise.policies.decisions import Decision
from corewise.policies.fitted import _kernels
from corewise.policies.fitted.values import FittedValues
from corewise.policies.waterfill.demand import Shapes, marginal_shapes
from corewise.policies.waterfill.split import full_speeds, split

__all__ = ["Fitted"]


@dataclass(frozen=True, eq=False)
class Fitted(Decision):
    """Decision by fitted values: the greedy split of a fitted value function.

    Attributes
    ----------
    system : System
        The system it was made for.
    values : FittedValues
        V.
    limits : ndarray, shape (K + 1,)
        The most jobs of each class, and of all together, that were seen when V was fitted; at least one.
    """

    system: System
    values: FittedValues
    limits: Floats

    def __post_init__(self) -> None:
        require_system(self.system)
        classes = len(self.system.classes)
        limits = np.maximum(np.array(self.limits, dtype=np.float64), 1.0)
        if limits.shape != (classes + 1,) or self.values.own.shape[1] != classes:
            raise InvalidPolicy(
                f"limits and values must be for {classes} classes, got shapes {limits.shape} and "
                f"{self.values.own.shape}"
            )
        limits.setflags(write=False)
        object.__setattr__(self, "limits", limits)

    def __reduce__(self) -> tuple[type[Fitted], tuple[System, FittedValues, Floats]]:
        """Return what to send to another process; what follows from it is made there."""
        return Fitted, (self.system, self.values, self.limits)

    @cached_property
    def guards(self) -> Floats:
        """For the kernels: μ, the least offer, the most jobs of each class; in the last row those of all."""
        rows = np.zeros((self.limits.size, 3))
        rows[:-1, 0] = self.system.size_rates
        rows[:-1, 1] = self.system.weights / np.array(full_speeds(self.system))
        rows[-1, 0] = self.system.cores
        rows[:, 2] = self.limits
        return rows

    @cached_property
    def shapes(self) -> Shapes:
        """What every class buys at a price for speed."""
        return marginal_shapes(self.system)

    @cached_property
    def single(self) -> Shapes:
        """The same if no job can use more than one core."""
        return marginal_shapes(self.system.with_curves(dict.fromkeys(self.system.names, Amdahl(0.0))))

    @property
    def arrays(self) -> _kernels.FittedArrays:
        """The rule as the kernels take it."""
        return _kernels.FittedArrays(self.guards, self.values.arrays, self.shapes.arrays, self.single.arrays)

    def __call__(self, counts: Ints) -> Floats:
        """Return the cores per class."""
        offers, single = self.offers(counts)
        cores = np.empty(counts.shape)
        for shapes, where in ((self.shapes, ~single), (self.single, single)):
            if where.any():
                budget = np.full(np.count_nonzero(where), self.system.cores)
                some = np.ascontiguousarray(counts[:, where])
                cores[:, where] = split(shapes, some, np.ascontiguousarray(offers[:, where]), budget)
        return cores

    def offers(self, counts: Ints) -> tuple[Floats, Bools]:
        """Return ω, shape (K, states), and where no job may hold more than one core."""
        offers, single = np.empty(counts.shape), np.empty(counts.shape[1], dtype=np.bool_)
        _kernels.offers_of_states(
            np.ascontiguousarray(counts), self.guards, self.values.arrays, offers, single
        )
        return offers, single
