"""A cache of states, for paths without tables that come back to some of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from corewise.kit.arrays import Floats, Ints
from corewise.simulation.loops._kernels.clocked import FINE
from corewise.simulation.loops._kernels.jobs import States

__all__ = ["StateCache"]


@dataclass(frozen=True, eq=False)
class StateCache:
    """Cache of states that a path has been in, and of what was decided there.

    Attributes
    ----------
    seen : ndarray, shape (rows, 4K)
        What is known of states, at most one a row; see `corewise.simulation.loops._kernels.clocked`.
        The number of rows is a power of two.
    units : ndarray of int, shape (K,)
        By how much of a row a job of each class moves a state, in 2^-20 rows.
    level : ndarray, shape (4,)
        The water level of the last decision, from which the next one sets out.
    """

    seen: Floats
    units: Ints
    level: Floats

    @classmethod
    def of(cls, classes: int, numbers: int) -> StateCache:
        """Return an empty cache for so many classes, with room for about so many numbers.

        Units are powers of 1/g, g the root of g^(K+1) = g + 1 (M. Roberts, 2018): multiples of these lie as
        far from whole numbers as can be, so states that are near each other do not meet in a row.
        """
        rows = 2 ** max((numbers // (4 * classes)).bit_length() - 1, 1)
        g = 2.0
        for _ in range(60):
            g = (1.0 + g) ** (1.0 / (classes + 1))
        units = np.floor(rows * 2**FINE / g ** np.arange(1, classes + 1)).astype(np.int64)
        return cls(np.full((rows, 4 * classes), -1.0), units, np.zeros(4))

    def remember(self, counts: Ints, arrival_rates: Floats, leaving: Floats, widths: Floats) -> None:
        """Write the rows of states, all of shape (K, states); where some meet in a row, the last one stays.

        `leaving` are the rates of departures. As in the kernel of this name, no variable reaches beyond the
        last move that has a rate, whatever the rounding.
        """
        classes, states = counts.shape
        rows = np.empty((4 * classes, states))
        rows[:classes], rows[3 * classes :] = counts, widths
        upto = rows[classes : 3 * classes]
        upto[:classes], upto[classes:] = arrival_rates[:, None], leaving
        np.cumsum(upto, axis=0, out=upto)
        upto[:-1][upto[:-1] >= upto[-1]] = np.inf
        self.seen[(self.units @ counts >> FINE) & (len(self.seen) - 1)] = rows.T

    @property
    def states(self) -> States:
        """The cache as loops over every job take it."""
        return States(self.seen, self.units, FINE, len(self.seen) - 1)

    @property
    def arrays(self) -> tuple[Floats, Ints, Floats]:
        """The cache as the kernels take it."""
        return self.seen, self.units, self.level
