r"""Water levels in closed form: the places on the way of the level, where no tail is curved.

The places come in order: up to t_0, over the jumps of group 0, up to t_1, and so on; in the end all jobs
share what is left, unless groups at t = ∞ have said who takes it. What a job holds at each place depends on
its class alone, so the demand of a state there is a sum over classes, and the level lies before the first
place where that is no less than the cores. Over jumps it is found by proportion; between t_g−1 and t_g from

    Σ n_i (a_i + b_i t + d_i t²) = c,

with the sums of the steps bought so far.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from corewise.kit.arrays import Floats, Ints
from corewise.policies.waterfill.levels import _kernels
from corewise.policies.waterfill.levels._kernels import CONSTANT, GROUP, JUMP, KIND, LINEAR, SQUARE

__all__ = ["Places"]

_INFINITE = 1e100
"""Stands for t = ∞: every tail then asks for more cores than there are, and those of no jobs for none."""


@dataclass(frozen=True, eq=False)
class Places:
    """Places on the way of a water level without curved tails; its intervals are g = 0 … G.

    Attributes
    ----------
    cores : float
        What there is to share.
    demand : ndarray, shape (2 (G + 1), K)
        What a job of each class holds at every place: where interval g ends, and after the jumps there.
    bought : ndarray, shape (G + 1, 5, K)
        Of each interval: what has jumped before, the terms a, b, d of the tail, and what jumps at its end.
    ends : ndarray, shape (G + 2,)
        The t at which intervals begin and end.
    """

    cores: float
    demand: Floats
    bought: Floats
    ends: Floats

    @classmethod
    def of(cls, cores: float, classes: int, steps: Floats, owner: Ints, at: Floats) -> Places:
        """Return the places on the way over `steps`, of the classes `owner`, in groups bought at t = `at`."""
        bought = np.zeros((at.size + 1, 5, classes))
        for step, i in zip(steps.tolist(), owner.tolist(), strict=True):
            g = int(step[GROUP])
            if step[KIND] == JUMP:
                bought[g, 4, i] += step[CONSTANT]
            else:
                bought[g + 1, 1:4, i] = step[CONSTANT], step[LINEAR], step[SQUARE]
        bought[1:, 0] = bought[:-1, 4]
        np.cumsum(bought[:, :4], axis=0, out=bought[:, :4])
        if not np.isinf(at).any():
            bought[-1, 4] = 2.0 * cores  # in the end every job would take more than there is
        ends = np.minimum([0.0, *at.tolist(), np.inf], _INFINITE)
        t, demand = ends[1:, None], np.empty((at.size + 1, 2, classes))
        tails = bought[:, 1] + (bought[:, 2] + bought[:, 3] * t) * t
        np.add(bought[:, 0], np.maximum(tails, 0.0), out=demand[:, 0])
        np.add(demand[:, 0], bought[:, 4], out=demand[:, 1])
        return cls(cores, demand.reshape(-1, classes), bought, ends)

    def allocate(self, counts: Ints) -> Floats:
        """Return the cores of each class, counts and cores of shape (K, states)."""
        held = np.empty(counts.shape)
        _kernels.place_states(self.cores, self.demand, self.bought, self.ends, counts, held)
        return held
