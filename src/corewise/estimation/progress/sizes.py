r"""Sizes of the jobs of a class: of those that completed, of what fractions imply, and of those still there.

With d_i jobs of size x_i and n_i whose work reached it (completed or not), the product-limit estimate is
P(X > x) = Π_{x_i ≤ x} (1 − d_i/n_i), and the work that a job has before it after the work a is

    E[X − a | X > a] = ∫_a^∞ P(X > x) dx / P(X > a).

What is left beyond the largest size seen lies at twice the most work seen, and so does everything while no
size is known: a job that is there is as likely as not to be half done. A single size weighs what the others
say it may: beyond three spreads of their logarithms it is drawn in to there, so that one job that says
nonsense moves the mean by no more than its error.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from corewise.estimation.progress.statistics import COMPLETE, Binned
from corewise.estimation.robust.strata import size_distribution
from corewise.kit.arrays import Floats
from corewise.model.sizes import Exponential, SizeLaw

__all__ = ["SizesSeen"]

_TIMES_FARTHEST = 2.0

_FAR = 3.0
"""Spreads beyond the median at which a size is drawn in."""

_FEW, _ALIKE = 5, 0.15
"""Known sizes before which jobs count as alike, and the relative difference within which they are."""

_USUAL_WEIGHT = 1.0
"""Sizes with a spread of one (in logarithms) that the spread of all begins from."""


@dataclass(frozen=True, eq=False)
class SizesSeen:
    """Sizes of a class, in the unit of its progress.

    Attributes
    ----------
    sizes, jobs : ndarray
        Sizes that are known, increasing, and how many jobs had each.
    reached, still : ndarray
        The work of jobs that left uncompleted or are still there, increasing, and how many did each.
    """

    sizes: Floats
    jobs: Floats
    reached: Floats
    still: Floats

    @classmethod
    def of(cls, table: Binned) -> SizesSeen:
        """Return the sizes of a table."""
        columns: list[Floats] = []
        for kind in (True, False):
            mine = (table.keys[:, 0] == COMPLETE) == kind
            jobs, work = table.sums[mine].T
            order = np.argsort(work / jobs)
            columns += [(work / jobs)[order], jobs[order]]
        return cls(*columns)

    @property
    def known(self) -> float:
        """The number of sizes that are known."""
        return float(self.jobs.sum())

    @cached_property
    def limit(self) -> float:
        """The work to which larger sizes are drawn in."""
        if not self.sizes.size:
            return math.inf
        logs = np.log(self.sizes)
        middle = np.searchsorted(np.cumsum(self.jobs), 0.5 * self.known)
        off = logs - logs[middle]
        spread = 1.0
        for _ in range(8):
            bound = 2.0 * spread
            squares = float((self.jobs * np.clip(off, -bound, bound) ** 2).sum())
            spread = math.sqrt((squares + _USUAL_WEIGHT) / (max(self.known - 1.0, 0.0) + _USUAL_WEIGHT))
        return float(np.exp(logs[middle] + _FAR * spread))

    @cached_property
    def alike(self) -> bool:
        """Whether jobs have one size, as far as is known: half of them are within 15 % of the median."""
        if self.known < _FEW:
            return True
        logs = np.log(self.sizes)
        off = np.abs(logs - logs[np.searchsorted(np.cumsum(self.jobs), 0.5 * self.known)])
        order = np.argsort(off)
        return bool(off[order][np.searchsorted(np.cumsum(self.jobs[order]), 0.5 * self.known)] < _ALIKE)

    def law(self, work: Callable[[float], float]) -> tuple[float, SizeLaw] | None:
        """Return the mean of sizes and their distribution, as work on one core; None if they are alike.

        Hazards differ only where that is sure, see `corewise.estimation.robust.strata`: jobs of sizes that
        may be exponential are not told apart by what they have attained.

        Parameters
        ----------
        work : callable
            The work on one core up to a progress.
        """
        if self.alike:
            return None
        jobs = np.append(self.jobs, self.still)
        done = np.array([work(min(size, self.limit)) for size in (*self.sizes, *self.reached)])
        usual = float(jobs @ done) / self.known
        ends = usual * np.concatenate([[0.0], np.exp2(np.arange(-6.0, 7.0)), [np.inf]])
        strata = np.zeros((ends.size - 1, 4))
        strata[:, 0] = np.histogram(done[: self.jobs.size], ends, weights=self.jobs)[0]
        inside = np.clip(done[:, None], ends[:-1], ends[1:]) - ends[:-1]
        strata[:, 1] = jobs @ inside
        found = size_distribution(strata, ends[1:-1])
        at, survival = self._steps
        shares = -np.diff(survival, prepend=1.0)
        mean = float(sum(share * work(size) for share, size in zip(shares, at, strict=True)))
        return mean, Exponential() if found is None or len(found.edges) == 1 else found

    @cached_property
    def _steps(self) -> tuple[Floats, Floats]:
        """The points at which P(X > x) falls, and its value from each on; zero from the last on."""
        sizes, inverse = np.unique(np.minimum(self.sizes, self.limit), return_inverse=True)
        jobs = np.bincount(inverse.reshape(-1), self.jobs, sizes.size)
        reached = np.minimum(self.reached, self.limit)
        there = np.array([jobs[k:].sum() + self.still[reached >= size].sum() for k, size in enumerate(sizes)])
        survival = np.cumprod(1.0 - jobs / there) if sizes.size else np.empty(0)
        farthest = max(reached[-1] if reached.size else 0.0, sizes[-1] if sizes.size else 0.0)
        if sizes.size and survival[-1] <= 1e-12:
            return sizes, np.append(survival[:-1], 0.0)
        last = max(min(_TIMES_FARTHEST * farthest, self.limit), farthest)
        return np.append(sizes, last), np.append(survival, 0.0)

    @cached_property
    def _areas(self) -> tuple[list[float], list[float], list[float]]:
        """The points of `_steps`, P(X > x) up to each, and its integral from each on."""
        at, survival = self._steps
        heights = np.append(1.0, survival[:-1])
        areas = np.append(np.cumsum((np.diff(at) * heights[1:])[::-1])[::-1], 0.0)
        return at.tolist(), heights.tolist(), areas.tolist()

    def remaining(self, done: float) -> float:
        """Return the work that a job is expected to have before it after so much; NaN if nothing is known."""
        at, heights, areas = self._areas
        if not at[-1] > 0.0:
            return done if done > 0.0 else math.nan
        k = bisect_right(at, done)
        if k == len(at):
            return (_TIMES_FARTHEST - 1.0) * done
        return at[k] - done + areas[k] / heights[k]
