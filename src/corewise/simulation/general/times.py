r"""Response times of jobs that are followed one by one: means and percentiles, in a fixed space.

For sizes of any law E[T | X = x] is nearly proportional to x, and exactly so for one class (F. P. Kelly,
*Reversibility and Stochastic Networks*, 1979). So the *ratio* of total time to total work, times the mean size,

    (ΣT / ΣX) · E[X],

estimates the mean response time of a class with less variance than the mean of T: a factor of 1.4 to 3.8 was
measured, and where sizes have no variance it still settles.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from corewise.kit.arrays import Floats, Ints
from corewise.simulation.general._kernels.jobs import BINS, FIRST_BIN, SHIFT, Seen

__all__ = ["JobTimes"]


@dataclass
class JobTimes:
    """Response times of the jobs that came and left, of each class.

    Attributes
    ----------
    sums : ndarray, shape (3, K)
        How many they are, their total time, and their total size.
    bins : ndarray of int, shape (K, bins)
        How many took how long, in parts of an octave.
    """

    sums: Floats
    bins: Ints
    _scratch: Floats

    @classmethod
    def none(cls, classes: int) -> JobTimes:
        """Return those of no jobs."""
        return cls(np.zeros((3, classes)), np.zeros((classes, BINS), dtype=np.int64), np.zeros(1))

    @property
    def arrays(self) -> Seen:
        """What the kernels count in."""
        return self.sums, self.bins, self._scratch

    @property
    def left(self) -> Floats:
        """How many jobs came and left."""
        return self.sums[0]

    @property
    def spent(self) -> Floats:
        """Their total time."""
        return self.sums[1]

    @property
    def work(self) -> Floats:
        """Their total size."""
        return self.sums[2]

    def percentiles(self, i: int, percents: Floats) -> Floats:
        """Return percentiles of the times of class i, to about half a per cent; NaN if there are none."""
        counts = self.bins[i]
        seen = np.flatnonzero(counts)
        if not seen.size:
            return np.full(percents.shape, np.nan)
        edges = ((np.arange(seen[0], seen[-1] + 2) + FIRST_BIN) << SHIFT).view(np.float64)
        upto = np.concatenate([[0], np.cumsum(counts[seen[0] : seen[-1] + 1])])
        return np.interp(percents / 100.0 * upto[-1], upto, edges)
