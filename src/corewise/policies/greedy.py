"""GREEDY*: the split with the highest rate of departures."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from corewise.model.speedup import Array
from corewise.model.system import System, require_system
from corewise.policies.base import BoundPolicy
from corewise.policies.shapes import marginal_shapes
from corewise.policies.waterfill import full_speeds, ranked, split

__all__ = ["Greedy"]


@dataclass(frozen=True)
class Greedy:
    """Maximise the rate Σ h_i n_i μ_i s_i(x_i/n_i) at which cost leaves.

    Ties go to the least parallelisable class, the one whose jobs are slowest on all cores. With equal weights
    this is GREEDY* of B. Berg, J.-P. Dorsman, M. Harchol-Balter (2017).
    """

    name: str = "greedy"

    def on(self, system: System) -> BoundPolicy:
        """Return GREEDY* for that system."""
        require_system(system)
        shapes = marginal_shapes(system)
        prices = system.weights * system.size_rates
        ranks = ranked([(speed,) for speed in full_speeds(system)])

        def rule(counts: NDArray[np.int64]) -> Array:
            budget = np.full(counts.shape[1], system.cores)
            return split(shapes, counts, prices, budget, ranks=ranks)

        return BoundPolicy(system, self.name, rule)
