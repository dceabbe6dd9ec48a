"""Running sufficient statistics of a path, stretch by stretch: departures and job-time by width.

A tally stands at a row and knows who holds what there, so that a path can be cut into windows anywhere: the
entries of successive stretches add up to those of the whole. `corewise.observation.statistics` makes tables
of them.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from corewise.kit.arrays import Floats, Ints
from corewise.observation import _kernels
from corewise.observation.rows import dense
from corewise.observation.sample_path import SamplePath

__all__ = ["MOST_WIDTHS", "Tally"]

MOST_WIDTHS = 1024
"""How many different widths a class may have before they are condensed."""

_SLOTS = 4 * MOST_WIDTHS

Entries = tuple[int, Floats]
"""The position of a class, and what was seen of it: rows are widths, departures, job-time."""


class Tally:
    """Accumulator of a path's sufficient statistics: how far it has counted, and who holds what there."""

    def __init__(self, path: SamplePath) -> None:
        self.path = path
        self.row = 0
        """The first row that has not been counted."""
        self._jobs = np.zeros((2, len(path.names)), dtype=np.int64)
        if path.per_job:
            _, self._job = dense(path.job)
            self._holding = np.full((4, int(self._job.max()) + 1), -1.0)

    @property
    def time(self) -> float:
        """The time up to which everything has been counted."""
        return float(self.path.time[max(self.row - 1, 0)])

    def count(self, end: int) -> Iterator[Entries]:
        """Count the rows from where the tally stands to before `end`; the last of them closes the stretch.

        Within it, all that was held to its end is included: a stretch is censored, not cut short.
        """
        path = self.path
        columns = (path.time[:end], path.event[:end], path.job_class[:end])
        while self.row < end:
            tables, used = _new_tables(len(path.names))
            if path.per_job:
                self.row = _kernels.tally_jobs(
                    *columns,
                    self._job[:end],
                    path.cores[:end],
                    self.row,
                    self._holding,
                    tables,
                    used,
                    MOST_WIDTHS,
                )
            else:
                self.row = _kernels.tally_totals(
                    *columns, path.cores[:end], self.row, self._jobs, tables, used, MOST_WIDTHS
                )
            for i, table in enumerate(tables):
                yield i, table[:, ~np.isnan(table[0])]
        if path.per_job:
            yield from self._still_held()

    def _still_held(self) -> Iterator[Entries]:
        """Yield what the jobs that are there have held since their last row, and start counting anew."""
        for i in range(len(self.path.names)):
            here = self._holding[0] == i
            _, widths, since, before = self._holding[:, here]
            yield i, np.stack([widths, np.zeros(widths.size), self.time - since])
            self._holding[2, here] = self.time
            self._holding[3, here] = np.where(since < self.time, widths, before)


def _new_tables(classes: int) -> tuple[Floats, Ints]:
    """Return an open hash table for each class, widths (NaN where free) first, and how full they are."""
    tables = np.zeros((classes, 3, _SLOTS))
    tables[:, 0] = np.nan
    return tables, np.zeros(classes, dtype=np.int64)
