"""Statistics of a class as a row of numbers on a fixed grid of widths: rows add, and make up matrices."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from corewise.kit.arrays import Floats
from corewise.observation.statistics import ClassStatistics

__all__ = ["DEPARTURES", "PER_OCTAVE", "TABLE", "TIME", "columns_of", "grid_of", "table_of"]

PER_OCTAVE = 32
"""Nodes of the grid of widths per factor of two."""

DEPARTURES, TIME, TABLE = 0, 1, 2
"""Columns of the rows in buckets: departures of all classes, time, and a table from the third on."""


@lru_cache(maxsize=16)
def grid_of(cores: float) -> Floats:
    """Return the grid of widths at which statistics are kept, from one core to all of them."""
    octaves = math.log2(max(cores, 2.0))
    nodes = np.exp2(np.arange(math.ceil(octaves * PER_OCTAVE) + 1) / PER_OCTAVE)
    nodes.setflags(write=False)
    return nodes


def columns_of(row: Floats, nodes: Floats) -> tuple[Floats, Floats]:
    """Return the departures and the job-time in a row, node by node."""
    return row[TABLE : TABLE + nodes.size], row[TABLE + nodes.size :]


def table_of(row: Floats, nodes: Floats, arrivals: int = 0) -> ClassStatistics:
    """Return a row as the statistics of a class."""
    departed, spent = columns_of(row, nodes)
    departed, spent = np.maximum(departed, 0.0), np.maximum(spent, 0.0)  # differences of sums are rounded
    seen = (departed > 0.0) | (spent > 0.0)
    return ClassStatistics(arrivals, nodes[seen], departed[seen], spent[seen], PER_OCTAVE)
