"""A tally of departures and job-time over a grid of widths, where states are not counted."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from corewise.kit.arrays import Floats, Ints
from corewise.model.system import System
from corewise.observation.statistics import ClassStatistics, Statistics

__all__ = ["GridTally", "octave_parts", "width_grid"]

_MOST_NODES = 1000


@dataclass(frozen=True, eq=False)
class GridTally:
    """Tally over a grid of widths, in arrays that kernels add to; without nodes nothing is counted.

    Attributes
    ----------
    grid : ndarray
        The widths.
    departed, held : ndarray, shape (K, nodes)
        Departures and job-time by class and width.
    """

    grid: Floats
    departed: Floats
    held: Floats

    @classmethod
    def of(cls, system: System) -> GridTally:
        """Return an empty tally of a system."""
        grid = width_grid(system.cores)
        return cls(grid, *np.zeros((2, len(system.classes), grid.size)))

    @classmethod
    def none(cls, classes: int) -> GridTally:
        """Return a tally that counts nothing."""
        return cls(np.empty(0), *np.zeros((2, classes, 0)))

    @property
    def arrays(self) -> tuple[Floats, Floats, Floats]:
        """The tally as the kernels take it."""
        return self.grid, self.departed, self.held

    def statistics(self, names: tuple[str, ...], moves: Ints, time: float) -> Statistics:
        """Return what was counted in a time; `moves` are the arrivals of each class first."""
        assert self.grid.size, "this walk keeps no tally"
        per_octave, tables = octave_parts(self.grid), []
        for i in range(len(names)):
            seen = np.flatnonzero((self.departed[i] > 0.0) | (self.held[i] > 0.0))
            columns = (self.grid[seen], self.departed[i, seen], self.held[i, seen])
            tables.append(ClassStatistics(int(moves[i]), *columns, per_octave=per_octave))
        return Statistics(names, time, tuple(tables))


def width_grid(cores: float) -> Floats:
    """Return the nodes of widths: zero, then 2^(j/m) from one core up to all, m a power of two."""
    per_octave = 128
    while per_octave > 1 and math.log2(max(cores, 2.0)) * per_octave > _MOST_NODES:
        per_octave //= 2
    above = math.ceil(math.log2(max(cores, 1.0)) * per_octave) + 2
    return np.concatenate([[0.0], np.exp2(np.arange(above) / per_octave)])


def octave_parts(grid: Floats) -> int:
    """Return how many nodes of a grid there are to a factor of two."""
    return round(1.0 / math.log2(grid[2]))
