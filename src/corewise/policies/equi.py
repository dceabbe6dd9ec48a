"""EQUI: every job holds the same number of cores."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from corewise.kit.arrays import Floats, Ints
from corewise.model.system import System, require_system
from corewise.policies.base import BoundPolicy
from corewise.policies.decisions import Levels
from corewise.policies.waterfill.levels.steps import LevelSteps

__all__ = ["Equi", "equal_share"]


def equal_share(counts: Ints, cores: float) -> Floats:
    """Return the equal share c n_i / N, and nothing in the empty state; counts of shape (K, states)."""
    return np.asarray(cores * (counts / np.maximum(counts.sum(axis=0), 1)))


@dataclass(frozen=True)
class Equi:
    """EQUI, the equal-share policy: every job holds c/N cores; optimal when all classes are alike.

    Source: B. Berg, J.-P. Dorsman, M. Harchol-Balter, *Towards optimality in parallel job scheduling* (2017).

    Examples
    --------
    >>> import corewise as cw
    >>> system = cw.load_system("paper:1")
    >>> cw.Equi().on(system).allocate([1, 5])
    array([ 5., 25.])
    """

    name: str = "equi"

    def on(self, system: System) -> BoundPolicy:
        """Return EQUI for that system."""
        require_system(system)
        steps = partial(LevelSteps.equal, system.cores, len(system.classes))
        return BoundPolicy(system, self.name, Levels(steps, partial(equal_share, cores=system.cores)))
