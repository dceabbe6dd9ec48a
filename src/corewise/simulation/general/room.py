"""The jobs that are present, class by class, as the compiled loops keep them."""

from __future__ import annotations

import math

import numpy as np

from corewise.kit.arrays import Floats, Ints
from corewise.simulation.general._kernels.jobs import Jobs, add_job

__all__ = ["JobRoom"]

_FIRST_ROOM = 32


class JobRoom:
    """Room for the jobs of each class: a clock and a heap, and what is known of every job.

    Attributes
    ----------
    arrays : tuple of ndarray
        The room as the kernels take it; see `corewise.simulation.general._kernels.jobs`.
    """

    arrays: Jobs

    def __init__(self, classes: int, most: int = _FIRST_ROOM) -> None:
        places = np.tile(np.arange(most), (classes, 1))
        floats = np.zeros((4, classes, most))
        self.arrays = (
            np.zeros(classes, dtype=np.int64),
            np.zeros(classes),
            floats[0],
            places,
            *(floats[1], floats[2], floats[3]),
            np.zeros((classes, most), dtype=np.int64),
        )

    @property
    def counts(self) -> Ints:
        """The jobs of each class."""
        return self.arrays[0]

    def add(self, i: int, remaining: float, attained: float, number: int) -> None:
        """Add a job that was there before the path began."""
        self.grow()
        add_job(self.arrays, i, remaining + attained, attained, math.nan, number)

    def grow(self) -> None:
        """Make room for one more job of every class."""
        n, clocks, *columns = self.arrays
        most = columns[0].shape[1]
        if int(n.max()) < most:
            return
        wider = JobRoom(n.size, 2 * most)
        for old, new in zip(columns, wider.arrays[2:], strict=True):
            new[:, :most] = old
        keys, slots, *rest = wider.arrays[2:]
        self.arrays = (n, clocks, keys, slots, *rest)  # type: ignore[assignment]

    def present(self, i: int) -> tuple[Floats, Floats, Ints]:
        """Return the remaining work, the attained work and the numbers of the jobs of class i.

        In the order in which they came.
        """
        n, clocks, keys, slots, _, began, _, numbers = self.arrays
        places = slots[i, : n[i]]
        order = np.argsort(numbers[i, places], kind="stable")
        remaining = np.maximum(keys[i, : n[i]] - clocks[i], 0.0)[order]
        attained = np.maximum(clocks[i] - began[i, places], 0.0)[order]
        return remaining, attained, numbers[i, places][order]
