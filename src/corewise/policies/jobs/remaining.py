r"""Remaining work of jobs that do not say it: its distribution given the work they have attained.

Of a job that has attained the work a the remaining work R = X − a has P(R > r) = P(X > a + r)/P(X > a). Only
the order of the jobs by remaining work matters for their weights, so R is told apart by octaves, from 2^−6 to
2^9 mean sizes: octaves cost 0.0 to 0.7 % against finer bins for the distributions in use. The less sizes
vary, the finer the bins, down to an eighth of an octave; deterministic sizes need none.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from corewise.kit.arrays import Floats
from corewise.model.job_class import JobClass

__all__ = ["RemainingWork"]

_FIRST, _LAST = -6, 9
_FINENESS = ((0.35, 1), (0.15, 2), (0.05, 4), (0.0, 8))
"""Bins per octave, by the squared coefficient of variation from which on they are enough."""
_UNDERFLOW = 1e-280


@dataclass(frozen=True)
class RemainingWork:
    """Remaining work of the jobs of a class, by bins."""

    job_class: JobClass

    @cached_property
    def edges(self) -> Floats:
        """The edges between bins in mean sizes; the first bin begins at none and the last has no end."""
        cv2 = self.job_class.sizes.cv2
        fine = next(parts for least, parts in _FINENESS if cv2 >= least)
        return np.exp2(np.arange(_FIRST * fine, _LAST * fine + 1) / fine)

    @cached_property
    def middles(self) -> Floats:
        """The work in the middle of each bin, by ratio."""
        step = self.edges[1] / self.edges[0]
        middles = np.append(self.edges, self.edges[-1] * step) / np.sqrt(step)
        return np.asarray(middles / self.job_class.known_size_rate)

    def probabilities(self, attained: Floats) -> Floats:
        """Return the probability of each bin for jobs that have attained so much, shape (jobs, bins)."""
        sizes, rate = self.job_class.sizes, self.job_class.known_size_rate
        done = attained[:, None] * rate
        here = sizes.survival(done)
        beyond = np.empty((attained.size, self.edges.size + 2))
        beyond[:, 0], beyond[:, -1] = 1.0, 0.0
        with np.errstate(divide="ignore", invalid="ignore"):
            beyond[:, 1:-1] = sizes.survival(done + self.edges) / here
            # Too far out for the survival function: as if exponential with the mean that is left.
            far = here[:, 0] < _UNDERFLOW
            if far.any():
                left = np.nan_to_num(sizes.mean_residual(done[far]), nan=0.0)
                beyond[far, 1:-1] = np.where(left > 0.0, np.exp(-self.edges / left), 0.0)
        return -np.diff(np.minimum.accumulate(beyond, axis=1), axis=1)
