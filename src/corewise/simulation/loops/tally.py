"""A tally of departures and job-time over a grid of widths, where states are not counted."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from corewise.kit.arrays import Floats, Ints
from corewise.model.system import System
from corewise.observation.statistics import ClassStatistics, Statistics
from corewise.simulation.loops._kernels.clocked import Tally

__all__ = ["GridTally", "Totals", "octave_parts", "width_grid"]

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
    def arrays(self) -> Tally:
        """The tally as the kernels take it."""
        return Tally(self.grid, self.departed, self.held)

    def statistics(self, names: tuple[str, ...], moves: Ints, time: float) -> Statistics:
        """Return what was counted in a time; `moves` are the arrivals of each class first."""
        assert self.grid.size, "this walk keeps no tally"
        per_octave, tables = octave_parts(self.grid), []
        for i in range(len(names)):
            seen = np.flatnonzero((self.departed[i] > 0.0) | (self.held[i] > 0.0))
            columns = (self.grid[seen], self.departed[i, seen], self.held[i, seen])
            tables.append(ClassStatistics(int(moves[i]), *columns, per_octave=per_octave))
        return Statistics(names, time, tuple(tables))


class Totals:
    """Totals of a path, batch by batch, where states are not counted.

    Parameters
    ----------
    system : System
        The system.
    time : float
        When the path begins.
    tally : bool
        Whether to keep count of departures and job-time by width, which takes a step for each class present
        at every event.

    Attributes
    ----------
    area : ndarray
        ∫ n dt by class, of the batch that is open.
    moves : ndarray of int
        The arrivals of each class, then the departures of each.
    tally : GridTally
        Departures and job-time by width.
    """

    def __init__(self, system: System, time: float, *, tally: bool) -> None:
        classes = len(system.classes)
        self.area = np.zeros(classes)
        self.moves = np.zeros(2 * classes, dtype=np.int64)
        self.tally = GridTally.of(system) if tally else GridTally.none(classes)
        self._since = time

    def close_batch(self, clock: float) -> tuple[Floats, float]:
        """Return ∫ n dt by class and the length of the open batch, and begin another."""
        area, span = self.area.copy(), clock - self._since
        self.area[:] = 0.0
        self._since = clock
        return area, span

    @property
    def visits(self) -> tuple[Ints, Floats]:
        """Nothing: states are not counted."""
        return np.empty((self.area.size, 0), dtype=np.int64), np.empty(0)

    def statistics(self, names: tuple[str, ...], time: float) -> Statistics:
        """Return what was seen in a time, by the widths of the grid."""
        return self.tally.statistics(names, self.moves, time)


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
