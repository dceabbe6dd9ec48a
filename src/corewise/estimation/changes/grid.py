"""Statistics of a class as a row of numbers on a fixed grid of widths: rows add, and make up matrices."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from corewise.kit.arrays import Floats
from corewise.observation.statistics import ClassStatistics

__all__ = [
    "DEPARTURES",
    "PER_OCTAVE",
    "SCORES",
    "TABLE",
    "TIME",
    "columns_of",
    "grid_of",
    "rescaled",
    "rescaled_scores",
    "row_length",
    "scores_of",
    "table_of",
    "with_scores",
]

PER_OCTAVE = 32
"""Nodes of the grid of widths per factor of two."""

DEPARTURES, TIME, TABLE = 0, 1, 2
"""Columns of the rows in buckets: departures of all classes, time, and a table from the third on."""

SCORES = 6
"""Columns after the table: sums over single jobs, see `corewise.estimation.changes.dispersion`."""


@lru_cache(maxsize=16)
def grid_of(cores: float) -> Floats:
    """Return the grid of widths at which statistics are kept, from one core to all of them."""
    octaves = math.log2(max(cores, 2.0))
    nodes = np.exp2(np.arange(math.ceil(octaves * PER_OCTAVE) + 1) / PER_OCTAVE)
    nodes.setflags(write=False)
    return nodes


def row_length(nodes: Floats) -> int:
    """Return how many numbers a row has."""
    return TABLE + 2 * nodes.size + SCORES


def columns_of(row: Floats, nodes: Floats) -> tuple[Floats, Floats]:
    """Return the departures and the job-time in a row or in rows, node by node."""
    middle = TABLE + nodes.size
    return row[..., TABLE:middle], row[..., middle : middle + nodes.size]


def scores_of(row: Floats) -> Floats:
    """Return the sums over single jobs in a row or in rows."""
    return row[..., -SCORES:]


def with_scores(rows: Floats, nodes: Floats) -> Floats:
    """Return rows with sums over single jobs; those of earlier versions have none, and nought is added."""
    missing = row_length(nodes) - rows.shape[-1]
    return np.pad(rows, [(0, 0)] * (rows.ndim - 1) + [(0, missing)])


def rescaled(rows: Floats, nodes: Floats, factor: float) -> Floats:
    """Return rows in units of a size rate that is some factor higher: work is that many times as much."""
    rows = rows.copy()
    columns_of(rows, nodes)[1][...] *= factor
    scores_of(rows)[...] = rescaled_scores(scores_of(rows), factor)
    return rows


def rescaled_scores(scores: Floats, factor: float) -> Floats:
    """Return sums over single jobs, gg, gb, bb and dd, dx, xx, where b and x are so many times as much."""
    return np.asarray(scores * np.array([1.0, factor, factor**2] * 2))


def table_of(row: Floats, nodes: Floats, arrivals: int = 0) -> ClassStatistics:
    """Return a row as the statistics of a class."""
    departed, spent = columns_of(row, nodes)
    departed, spent = np.maximum(departed, 0.0), np.maximum(spent, 0.0)  # differences of sums are rounded
    seen = (departed > 0.0) | (spent > 0.0)
    return ClassStatistics(arrivals, nodes[seen], departed[seen], spent[seen], PER_OCTAVE)
