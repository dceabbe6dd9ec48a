"""Statistics of a class as rows of numbers, in buckets that grow geometrically into the past.

A *row* holds the statistics of one or more successive checks on a fixed grid of widths: departures of all
classes, time, the departures and the job-time of the class at each node, and sums over single jobs
(`corewise.estimation.changes.dispersion`). Rows add.

*Buckets* are an exponential histogram of rows. The newest checks have a bucket each; older ones share buckets
of 2, 4, 8, … checks, at most a few of each size. So n checks take O(log n) memory, adding one takes amortised
constant work, and the length of every stretch of the past is known to within a quarter of its age.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from corewise.estimation.changes import _kernels
from corewise.kit.arrays import Floats, Ints
from corewise.observation.statistics import ClassStatistics

__all__ = [
    "DEPARTURES",
    "SCORES",
    "TABLE",
    "TIME",
    "Buckets",
    "columns_of",
    "grid_of",
    "rescaled",
    "rescaled_scores",
    "row_length",
    "row_of",
    "scores_of",
    "table_of",
    "with_scores",
]

_PER_OCTAVE = 32
"""Nodes of the grid of widths per factor of two."""

DEPARTURES, TIME, TABLE = 0, 1, 2
"""Columns of a row: departures of all classes, time, and the table of the class from the third on."""

SCORES = 6
"""Number of columns after the table: sums over single jobs."""

_OF_EACH_SIZE = 4
"""Maximum number of buckets of each size."""


@lru_cache(maxsize=16)
def grid_of(cores: float) -> Floats:
    """Return the grid of widths at which statistics are kept, from one core to all of them."""
    octaves = math.log2(max(cores, 2.0))
    nodes = np.exp2(np.arange(math.ceil(octaves * _PER_OCTAVE) + 1) / _PER_OCTAVE)
    nodes.setflags(write=False)
    return nodes


def row_length(nodes: Floats) -> int:
    """Return the number of columns of a row."""
    return TABLE + 2 * nodes.size + SCORES


def row_of(
    table: ClassStatistics, seen: float, lasted: float, scores: Floats, nodes: Floats, factor: float = 1.0
) -> Floats:
    """Return the row of one check: the statistics of a class on the grid, job-time multiplied by a factor."""
    row = np.zeros(row_length(nodes))
    row[DEPARTURES], row[TIME] = seen, lasted
    departed, spent = columns_of(row, nodes)
    _kernels.share_out(table.widths, table.departures, table.job_time, _PER_OCTAVE, departed, spent)
    spent *= factor
    scores_of(row)[:] = scores
    return row


def columns_of(row: Floats, nodes: Floats) -> tuple[Floats, Floats]:
    """Return the departures and the job-time in a row or in rows, node by node."""
    middle = TABLE + nodes.size
    return row[..., TABLE:middle], row[..., middle : middle + nodes.size]


def scores_of(row: Floats) -> Floats:
    """Return the sums over single jobs in a row or in rows."""
    return row[..., -SCORES:]


def with_scores(rows: Floats, nodes: Floats) -> Floats:
    """Return rows with sums over single jobs; rows of earlier versions have none, and get zeros."""
    missing = row_length(nodes) - rows.shape[-1]
    return np.pad(rows, [(0, 0)] * (rows.ndim - 1) + [(0, missing)])


def rescaled(rows: Floats, nodes: Floats, factor: float) -> Floats:
    """Return rows in units of a size rate that is higher by a factor: job-time is multiplied by it."""
    rows = rows.copy()
    columns_of(rows, nodes)[1][...] *= factor
    scores_of(rows)[...] = rescaled_scores(scores_of(rows), factor)
    return rows


def rescaled_scores(scores: Floats, factor: float) -> Floats:
    """Return the sums gg, gb, bb and dd, dx, xx over single jobs, with b and x multiplied by a factor."""
    return np.asarray(scores * np.array([1.0, factor, factor**2] * 2))


def table_of(row: Floats, nodes: Floats, arrivals: int = 0) -> ClassStatistics:
    """Return a row as the statistics of a class."""
    departed, spent = columns_of(row, nodes)
    departed, spent = np.maximum(departed, 0.0), np.maximum(spent, 0.0)  # differences of sums are rounded
    seen = (departed > 0.0) | (spent > 0.0)
    return ClassStatistics(arrivals, nodes[seen], departed[seen], spent[seen], _PER_OCTAVE)


@dataclass(frozen=True, eq=False)
class Buckets:
    """Exponential histogram: sums of rows over successive checks, the oldest first.

    Attributes
    ----------
    sizes : ndarray of int
        Number of checks in each bucket.
    rows : ndarray
        Their sums, one row per bucket.
    """

    sizes: Ints
    rows: Floats

    @classmethod
    def empty(cls, columns: int) -> Buckets:
        """Return a histogram without buckets, for rows of a number of columns."""
        return cls(np.empty(0, dtype=np.int64), np.empty((0, columns)))

    def with_row(self, row: Floats) -> Buckets:
        """Return the buckets after one more check."""
        count = self.sizes.size + 1
        sizes, rows = np.empty(count, dtype=np.int64), np.empty((count, self.rows.shape[1]))
        used = _kernels.append_bucket(self.sizes, self.rows, _OF_EACH_SIZE, row, sizes, rows)
        return Buckets(sizes[:used], rows[:used])

    def since(self, bucket: int) -> Buckets:
        """Return the buckets from an index on."""
        return Buckets(self.sizes[bucket:].copy(), self.rows[bucket:].copy())

    def after(self, checks: int, row: Floats) -> Buckets:
        """Return the buckets after an older one, with a number of checks and a row."""
        return Buckets(np.concatenate([[checks], self.sizes]), np.vstack([row, self.rows]))

    def __len__(self) -> int:
        """Return the number of buckets."""
        return self.sizes.size
