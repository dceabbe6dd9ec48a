r"""The Whittle index policy: one price for a core, and every job buys its own width.

A job that pays ℓ per core and unit of time runs at the width z that minimises (h + ℓ z) / (μ s(z)); its size
drops out. The price at which it is indifferent to a little more is the index

    W(z) = h s'(z) / (s(z) − z s'(z)),

decreasing in z and infinite while s(z) = z. So:

- every job holds one core first; when there are more jobs than cores, classes are served in order of
  h_i μ_i, then of least parallelisable; classes alike share in proportion to their jobs;
- classes whose curve goes on as s(z) = z above one core take what is left up to the end of that part,
  largest h_i μ_i first;
- what then remains is sold at one price ℓ with Σ n_i z_i(ℓ) = c.

The idea is that of Li, Harchol-Balter and Berg's mean-field optimal allocation (2026); this form is a
reconstruction.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from corewise.model.system import System, require_system
from corewise.policies.base import BoundPolicy
from corewise.policies.decisions import Levels
from corewise.policies.waterfill.demand import index_shapes, linear_width
from corewise.policies.waterfill.levels.steps import LevelSteps
from corewise.policies.waterfill.split import full_speeds, ranked

__all__ = ["Whittle"]


@dataclass(frozen=True)
class Whittle:
    """Whittle index policy: jobs buy their widths at one price for a core; for any number of classes.

    Examples
    --------
    >>> import corewise as cw
    >>> system = cw.load_system("paper:1")
    >>> cw.Whittle().on(system).allocate([1, 5]).round(3)
    array([ 1.843, 28.157])
    >>> round(cw.evaluate(system, cw.Whittle()).mean_jobs / cw.solve(system).mean_jobs - 1.0, 6)
    7e-06
    """

    name: str = "whittle"

    def on(self, system: System) -> BoundPolicy:
        """Return the Whittle policy for that system."""
        require_system(system)
        return BoundPolicy(system, self.name, Levels(partial(_steps, system)))


def _steps(system: System) -> LevelSteps:
    values = (system.weights * system.size_rates).tolist()
    ranks = ranked(list(zip((-value for value in values), full_speeds(system), strict=True)))
    linear = [linear_width(job_class.curve, system.cores) for job_class in system.classes]
    fills = [(ranks, np.ones(ranks.size)), (ranks, np.array(linear) - 1.0)]
    return LevelSteps.of(system.cores, fills, index_shapes(system), system.weights)
