"""GREEDY*: the split with the highest rate of departures."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from corewise.model.system import System, require_system
from corewise.policies.base import BoundPolicy
from corewise.policies.decisions import Levels
from corewise.policies.waterfill.demand import marginal_shapes
from corewise.policies.waterfill.levels.steps import LevelSteps
from corewise.policies.waterfill.split import full_speeds, ranked

__all__ = ["Greedy"]


@dataclass(frozen=True)
class Greedy:
    """GREEDY*: maximise the departure rate Σ h_i n_i μ_i s_i(x_i/n_i), weighted by cost.

    Ties go to the least parallelisable class, the one whose jobs are slowest on all cores. With equal weights
    this is GREEDY* of B. Berg, J.-P. Dorsman, M. Harchol-Balter (2017).

    Examples
    --------
    >>> import corewise as cw
    >>> system = cw.load_system("paper:1")
    >>> cw.Greedy().on(system).allocate([1, 5]).round(3)
    array([ 1.276, 28.724])
    """

    name: str = "greedy"

    def on(self, system: System) -> BoundPolicy:
        """Return GREEDY* for that system."""
        require_system(system)
        return BoundPolicy(system, self.name, Levels(partial(_steps, system)))


def _steps(system: System) -> LevelSteps:
    ranks = ranked([(speed,) for speed in full_speeds(system)])
    prices = system.weights * system.size_rates
    return LevelSteps.of(system.cores, [], marginal_shapes(system), prices, ranks)
