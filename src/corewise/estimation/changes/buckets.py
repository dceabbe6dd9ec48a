"""Exponential histograms: what was seen, in buckets that grow geometrically into the past.

The newest checks have a bucket each; older ones share buckets of 2, 4, 8, … checks, at most a few of each
size. So n checks take O(log n) memory, adding one takes amortised constant work, and every stretch of the
past can be told apart to within a quarter of its age.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from corewise.estimation.changes import _kernels
from corewise.kit.arrays import Floats, Ints

__all__ = ["Buckets"]

_OF_EACH_SIZE = 4


@dataclass(frozen=True, eq=False)
class Buckets:
    """Exponential histogram: sums of rows of numbers over successive checks, the oldest first.

    Attributes
    ----------
    sizes : ndarray of int
        How many checks each bucket holds.
    rows : ndarray
        Their sums, one row a bucket.
    """

    sizes: Ints
    rows: Floats

    @classmethod
    def empty(cls, columns: int) -> Buckets:
        """Return a histogram without buckets, for rows of so many numbers."""
        return cls(np.empty(0, dtype=np.int64), np.empty((0, columns)))

    def with_row(self, row: Floats) -> Buckets:
        """Return the buckets after one more check."""
        count = self.sizes.size + 1
        sizes, rows = np.empty(count, dtype=np.int64), np.empty((count, self.rows.shape[1]))
        used = _kernels.append_bucket(self.sizes, self.rows, _OF_EACH_SIZE, row, sizes, rows)
        return Buckets(sizes[:used], rows[:used])

    def since(self, bucket: int) -> Buckets:
        """Return the buckets from one on, without those before it."""
        return Buckets(self.sizes[bucket:].copy(), self.rows[bucket:].copy())

    def after(self, checks: int, row: Floats) -> Buckets:
        """Return the buckets with one before all others, of so many checks and with this row."""
        return Buckets(np.concatenate([[checks], self.sizes]), np.vstack([row, self.rows]))

    def __len__(self) -> int:
        """Return the number of buckets."""
        return self.sizes.size
