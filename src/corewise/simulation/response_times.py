r"""Response times of jobs that came and left, without their identities.

In a class all jobs hold the same cores and sizes have no memory, so when one of n leaves it is any of them
with probability 1/n. Given the path of the counts, let a be the expected total age of the jobs that came
within the window and are present, and o the expected number of those that were there at its beginning:

    between events    a grows by (n − o) per unit of time,
    at a departure    one of them has left with probability (n − o)/n, after a time that adds a/n
                      in the mean; a and o fall by the nth part.

What was added, over how many have left, is the mean response time of the jobs that came and left, in the mean
over who of them did. No number is drawn for it. By Little's law instead, jobs over the departure rate, it
would have in it the time of jobs that have not left yet: while a system fills, more than any job can have
spent there.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from corewise.kit.arrays import Floats, Ints
from corewise.simulation.loops._kernels import chain as _kernels

__all__ = ["ResponseTimes"]


@dataclass
class ResponseTimes:
    """Response times of the jobs that came and left, being followed along a path; arrays are by class.

    Attributes
    ----------
    spent : ndarray
        The total time of those that came and left.
    left : ndarray
        How many those are, in the mean over who left.
    """

    spent: Floats
    left: Floats
    _counts: Ints
    _old: Floats
    _ages: Floats
    _touched: Floats
    _now: float = 0.0

    @classmethod
    def of(cls, start: tuple[int, ...]) -> ResponseTimes:
        """Return those of a path that has not begun, with so many jobs present."""
        none = np.zeros((4, len(start)))
        counts = np.array(start, dtype=np.int64)
        return cls(none[0], none[1], counts, counts.astype(np.float64), none[2], none[3])

    def follow(self, what: NDArray[np.int16], lasted: Floats) -> None:
        """Go on along moves, each after the time that the state before it lasted."""
        self._now = _kernels.follow_jobs(
            *(what, lasted, self._now, self._counts, self._old),
            *(self._ages, self._touched, self.spent, self.left),
        )
