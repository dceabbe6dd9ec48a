r"""Rates of a class by progress and cores: a family that may fall, fitted to what was measured near by.

On z cores at the progress u the jobs of a class do

    log r(z, u) = log a(u) + log s(z; σ, κ) + e(z, u),    s = z / (1 + σ(z − 1) + κ z(z − 1)),

work per second: the rate on one core, Amdahl's law with a linear penalty (the Universal Scalability Law, not
held at its peak: it falls beyond it), and what the family misses at that width, Gaussian with the variance
τ².

Measured are the rates of stretches, in cells of progress and cores. A cell has a location that outliers move
by no more than its error (Huber), with the variance v_c = σ_r²/n of n stretches, whose spread σ_r is pooled
over the cells of the class. At the progress u a cell at a distance of d octaves counts with the precision
exp(−d/½)/v_c; P_z is the sum at width z, and ȳ_z the mean. Then

    ȳ_z = log a + log s(z; σ, κ) + an error of variance τ² + 1/P_z,

log a has a flat prior, and (σ, κ) a grid with a broad one around σ = 0.1: sums over the grid are the
posterior, its mean and its spread. At a measured width the part τ²/(τ² + 1/P_z) of what is left over is put
back, which is the mean of e.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from corewise.estimation.progress.statistics import PROGRESS_BINS, RATE_BINS, Binned, distinct
from corewise.kit.arrays import Floats, Ints

__all__ = ["Cells", "RateCurves", "SpeedTable"]

MEMORY = 0.5
"""Octaves of progress over which what was measured counts by 1/e less."""

MISSED = 0.1
"""τ: the relative error of the family at a width."""

_SPREAD, _SPREAD_WEIGHT = 0.1, 4.0
"""A usual relative difference between stretches of one cell, and how many of them it weighs."""

_DRIFT = 0.03
"""Relative differences of rates within a bin of progress, of which more stretches tell nothing."""

_USUAL, _BROAD = (0.1, 1e-6), (1.2, 1.5)
"""The prior of log σ, normal about p = 0.9, and of log κ, a Cauchy about no peak: it may be far from it."""

_HUBER = 1.5
"""Spreads at which a stretch ceases to count for more."""

_ROUNDS = 8


@dataclass(frozen=True, eq=False)
class Cells:
    """Rates of a class in cells of progress and cores.

    Attributes
    ----------
    octave : ndarray
        The progress of each cell, as the logarithm to base two.
    cores : ndarray of int
        The cores.
    log_rate, variance : ndarray
        The location of the logarithms of rates, and its variance.
    stretches : ndarray
        How many stretches there were.
    """

    octave: Floats
    cores: Ints
    log_rate: Floats
    variance: Floats
    stretches: Floats

    @classmethod
    def of(cls, rates: Binned, scale: int) -> Cells:
        """Return the cells of a class whose progress is measured on a scale."""
        mine = rates.keys[:, 0] == scale
        keys, (count, work, seconds) = rates.keys[mine], rates.sums[mine].T
        width = 2.0**rates.merged / PROGRESS_BINS
        cells, place = distinct(keys[:, 1:3])
        at, variance = _locations(np.log(work / seconds), count, place, len(cells), rates.merged)
        stretches = np.asarray(np.bincount(place, count, len(cells)), dtype=np.float64)
        return cls(
            np.asarray((cells[:, 0] + 0.5) * width, dtype=np.float64), cells[:, 1], at, variance, stretches
        )


def _locations(logs: Floats, count: Floats, place: Ints, cells: int, merged: int) -> tuple[Floats, Floats]:
    """Return Huber's location of the values in each cell, and its variance."""
    if not cells:
        return np.empty(0), np.empty(0)
    stretches = np.bincount(place, count, cells)
    at = _medians(logs, count, place, cells)
    freedom = float(np.maximum(stretches - 1.0, 0.0).sum())
    within = (2.0**merged * math.log(2.0) / RATE_BINS) ** 2 / 12.0  # rates of one row differ by as much
    spread = _SPREAD
    for _ in range(_ROUNDS):
        off = logs - at[place]
        bound = _HUBER * spread
        at = at + np.bincount(place, count * np.clip(off, -bound, bound), cells) / stretches
        squares = float((count * (np.clip(off, -2.0 * bound, 2.0 * bound) ** 2)).sum())
        prior = _SPREAD_WEIGHT * _SPREAD**2
        spread = math.sqrt((squares + within * freedom + prior) / (freedom + _SPREAD_WEIGHT))
    return at, spread**2 / stretches + _DRIFT**2


def _medians(logs: Floats, count: Floats, place: Ints, cells: int) -> Floats:
    """Return the weighted median of the values in each cell."""
    order = np.lexsort((logs, place))
    below = np.cumsum(count[order])
    whole = np.bincount(place, count, cells)
    ends = np.cumsum(whole)
    first = np.searchsorted(below, ends - 0.5 * whole - 1e-9 * ends)
    return np.asarray(logs[order][np.minimum(first, logs.size - 1)])


@dataclass(frozen=True, eq=False)
class SpeedTable:
    """Speed-up of a class at one progress on 0, 1, 2, … cores, with its error.

    Attributes
    ----------
    speeds : ndarray
        The speed-up, s(1) = 1; it may fall.
    errors : ndarray
        The standard deviation of its logarithm.
    rate : float
        Work per second on one core; NaN where nothing was measured.
    rate_error : float
        The standard deviation of its logarithm.
    """

    speeds: Floats
    errors: Floats
    rate: float
    rate_error: float

    def at_least(self, deviations: float) -> Floats:
        """Return speeds so many standard deviations below the estimate."""
        return np.asarray(self.speeds * np.exp(-deviations * self.errors))


@dataclass(frozen=True, eq=False)
class _Grid:
    """Grid of curves: log s on 1, 2, … cores, shape (curves, widths), and the logarithm of the prior."""

    logs: Floats
    squares: Floats
    prior: Floats


@lru_cache(maxsize=8)
def _grid(most: int) -> _Grid:
    z = np.arange(1.0, most + 1.0)
    sigma, kappa = np.geomspace(1e-3, 1.0, 22), np.geomspace(1e-6, 0.3, 15)
    grid = np.meshgrid(sigma, kappa)
    at_sigma, at_kappa = (part.reshape(-1, 1) for part in grid)
    logs = np.log(z) - np.log1p((z - 1.0) * (at_sigma + at_kappa * z))
    off = [np.log(part / usual) / broad for part, usual, broad in zip(grid, _USUAL, _BROAD, strict=True)]
    prior = -0.5 * off[0] ** 2 - np.log1p(off[1] ** 2)
    return _Grid(logs, logs**2, prior.reshape(-1))


class RateCurves:
    """Rates of a class at any progress and on any cores.

    Parameters
    ----------
    cells : Cells
        What was measured.
    most : int
        The most cores asked for.
    """

    def __init__(self, cells: Cells, most: int) -> None:
        self.cells, self.most = cells, max(most, 1, *cells.cores.tolist())
        self.octaves = np.unique(cells.octave)
        self._tables: dict[int, SpeedTable] = {}

    @cached_property
    def widths(self) -> Ints:
        """The cores at which rates were measured."""
        return np.unique(self.cells.cores)

    @cached_property
    def _measured(self) -> tuple[Floats, Floats]:
        """The precision and the mean of logarithms, at each bin of progress and each measured width."""
        cells = self.cells
        near = np.exp(-np.abs(self.octaves[:, None] - cells.octave) / MEMORY) / cells.variance
        at_width = (cells.cores[:, None] == self.widths).astype(float)
        precision = np.maximum(near @ at_width, 1e-12)
        return precision, ((near * cells.log_rate) @ at_width) / precision

    @cached_property
    def _posterior(self) -> tuple[Floats, Floats, Floats]:
        """The weight of each curve of the grid, its level log a, and the variance of that, by progress."""
        grid = _grid(self.most)
        precision, mean = self._measured
        weight = 1.0 / (1.0 / precision + MISSED**2)
        logs, squares = grid.logs[:, self.widths - 1], grid.squares[:, self.widths - 1]
        whole = weight.sum(axis=1)
        level = ((weight * mean).sum(axis=1)[:, None] - weight @ logs.T) / whole[:, None]
        misfit = (weight * mean**2).sum(axis=1)[:, None] - 2.0 * (weight * mean) @ logs.T + weight @ squares.T
        fit = grid.prior - 0.5 * (misfit - level**2 * whole[:, None])
        fit = np.exp(fit - fit.max(axis=1, keepdims=True))
        return fit / fit.sum(axis=1, keepdims=True), level, 1.0 / whole

    @cached_property
    def _between(self) -> list[float]:
        """The borders between bins of progress."""
        return (0.5 * (self.octaves[1:] + self.octaves[:-1])).tolist()  # type: ignore[no-any-return]

    def at(self, octave: float) -> SpeedTable:
        """Return the speeds at a progress, given as the logarithm to base two."""
        if not self.octaves.size:
            return _unmeasured(self.most)
        k = bisect_right(self._between, octave)
        if k not in self._tables:
            self._tables[k] = self._table(k)
        return self._tables[k]

    def _table(self, k: int) -> SpeedTable:
        """Return the posterior of log s(z) + e(z) − e(1) and of log a + e(1) in a bin of progress.

        Given a curve of the grid, e(z) has the mean b (ȳ − log a − log s) and the variance (1 − b) τ², with
        b = τ²/(τ² + 1/P), and none of it is known where nothing was measured: b = 0.
        """
        share, level, level_variance = (part[k] for part in self._posterior)
        precision, measured = (part[k] for part in self._measured)
        back, mean = np.zeros(self.most), np.zeros(self.most)
        back[self.widths - 1], mean[self.widths - 1] = _put_back(precision), measured
        first, own = back[0], back - back[0]
        grid, level_at = _grid(self.most), float(share @ level)
        logs, off = share @ grid.logs, share * (level - level_at)
        at = (1.0 - back) * logs - own * level_at + back * mean - first * mean[0]
        variance = (
            (1.0 - back) ** 2 * np.maximum(share @ grid.squares - logs**2, 0.0)
            + own**2 * (off @ level + level_variance)
            - 2.0 * (1.0 - back) * own * (off @ grid.logs)
            + (2.0 - back - first) * MISSED**2
        )
        variance[0] = 0.0
        rate = (1.0 - first) * level_at + first * mean[0]
        rate_variance = (1.0 - first) ** 2 * (off @ level + level_variance) + (1.0 - first) * MISSED**2
        return SpeedTable(
            np.append(0.0, np.exp(at)),
            np.append(0.0, np.sqrt(variance)),
            math.exp(rate),
            math.sqrt(rate_variance),
        )

    @cached_property
    def one_core_rates(self) -> Floats:
        """Work per second on one core in each bin of progress."""
        share, level, _ = self._posterior
        rates = (share * level).sum(axis=1)
        if self.widths[0] == 1:
            precision, measured = (part[:, 0] for part in self._measured)
            rates += _put_back(precision) * (measured - rates)
        return np.asarray(np.exp(rates))

    @cached_property
    def _spent(self) -> tuple[list[float], list[float], list[float]]:
        """Where bins of progress begin, the rate on one core in each, and the seconds spent before it."""
        begins = np.append(0.0, np.exp2(self._between))
        rates = self.one_core_rates
        before = np.append(0.0, np.cumsum(np.diff(begins) / rates[:-1]))
        return begins.tolist(), rates.tolist(), before.tolist()

    def seconds(self, progress: float) -> float:
        """Return the seconds that work up to a progress takes on one core."""
        begins, rates, before = self._spent
        k = bisect_right(begins, progress) - 1
        return before[k] + (progress - begins[k]) / rates[k]


def _put_back(precision: Floats) -> Floats:
    """Return the part of what the family misses that is put back."""
    return np.asarray(MISSED**2 / (MISSED**2 + 1.0 / precision))


@lru_cache(maxsize=8)
def _unmeasured(most: int) -> SpeedTable:
    """Return the speeds of a class of which nothing is known: the prior."""
    grid = _grid(most)
    share = np.exp(grid.prior - grid.prior.max())
    share /= share.sum()
    mean = share @ grid.logs
    error = np.sqrt(np.maximum(share @ grid.squares - mean**2, 0.0))
    return SpeedTable(np.append(0.0, np.exp(mean)), np.append(0.0, error), math.nan, math.inf)
