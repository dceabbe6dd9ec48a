"""The order in which classes are served where jobs outnumber cores, as a path keeps it."""

from __future__ import annotations

import numpy as np

from corewise.kit.arrays import Floats
from corewise.observation.statistics import ClassStatistics, Statistics
from corewise.policies.base import BoundPolicy
from corewise.policies.residual import AttainedOrder
from corewise.simulation.general._kernels.residual import Order

__all__ = ["ServedOrder"]


class ServedOrder:
    """Order of service by residual work: what was decided last, and what was seen while it was in force.

    Parameters
    ----------
    policy : BoundPolicy
        If it has no residual work, no order is ever in force.
    """

    def __init__(self, policy: BoundPolicy) -> None:
        classes, order = len(policy.system.classes), policy.decision.part(AttainedOrder)
        residual = None if order is None else order.residual
        self.active = residual is not None
        self.cores = policy.system.cores
        table = np.empty((classes, 0)) if residual is None else residual.table
        rates, weights = (
            (np.empty(0), np.empty(0)) if residual is None else (residual.size_rates, residual.weights)
        )
        self._crowd = np.zeros((3, classes))
        self.arrays: Order = (
            *(self.cores, table, rates, weights),
            *(np.zeros(classes), np.zeros(classes), np.zeros(1, dtype=np.int64)),
            self._crowd,
        )

    @property
    def in_force(self) -> Floats | None:
        """The cores of a job of each class, if classes are served in order now and it was decided how."""
        own, decided = self.arrays[5], self.arrays[6]
        return own if decided[0] else None

    def statistics(self, names: tuple[str, ...], arrivals: list[int], time: float) -> Statistics:
        """Return what was seen of each class while jobs outnumbered cores: at one core, or at none."""
        left, at_one, at_none = self._crowd
        tables = [
            ClassStatistics.gathered(
                arrivals[i], np.array([0.0, 1.0]), np.array([0.0, left[i]]), np.array([at_none[i], at_one[i]])
            )
            for i in range(len(names))
        ]
        return Statistics(names, time, tuple(tables))
