r"""Dispersion of scores: their variance relative to that of exponential sizes.

The likelihood ratios of the detector take sizes to be exponential. If their scores have φ times the variance
that the likelihood implies, so have the ratios, and a threshold of h promises what h/φ would: with CV² = 4
there are a hundred times as many false alarms. So thresholds are φ times as high (a quasi-likelihood), where
φ is estimated from the scores of single jobs, Σψ² over the information, for curves; and from 1{departed} − μX
for size rates. It is never below one: for sizes that vary less, false alarms are rarer than promised.

Both are averaged with exponential forgetting, and applied once they exceed one significantly.

*Skewness.* Where sizes vary much, most of φ comes from a few large jobs, and the score of a short stretch is
far from normal: of lognormal sizes with CV² = 4 one in 100 000 is a hundred times the mean, and makes all
jobs of its window look slow. But it makes the squares of that window large as well. For n jobs with skewness
γ and CV = c, the root r of twice the likelihood ratio over φ, and the dispersion φ₀ of those jobs alone, at
their own rate, are

    r = Z − (c/3) Z²/√n + …,        φ₀/φ = 1 + (γ − 2c) Z/√n + …,        Z normal but for + (γ/6) Z²/√n,

so that dividing the ratio by φ (φ₀/φ)^(1/3) instead of φ leaves no skewness of order 1/√n, whatever the
distribution. About a split φ₀ is the dispersion of the difference of both sides, as in Welch's test.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from corewise.estimation.changes.buckets import columns_of, scores_of
from corewise.estimation.robust.strata import job_sums
from corewise.kit.arrays import Floats
from corewise.model.speedup import SpeedUp
from corewise.observation.statistics import ClassStatistics
from corewise.observation.strata.tables import Strata

__all__ = ["Dispersion", "job_scores", "skewness_factors"]

_MEMORY = 50_000.0
"""Departures of a class after which the weight of a window has fallen to 1/e."""

_FOURTH = 8.0
"""Variance of (1 − X)² for an exponential X: of the square of a score, in units of its mean."""

_LEAST = 0.25
"""Lower bound of φ₀/φ: where no large job happened to come, φ₀ is too small."""

_BEYOND = 3.0
"""Standard errors above one, for exponential sizes, at which a dispersion is applied."""


@dataclass(frozen=True, eq=False)
class Dispersion:
    """Dispersion of the scores of one class.

    Attributes
    ----------
    sums : ndarray
        Σψ², the information, the sum of (1{departed} − μX)², and departures.
    """

    sums: Floats

    @classmethod
    def unknown(cls) -> Dispersion:
        """Return the dispersion without data."""
        return cls(np.zeros(4))

    def observe(self, table: ClassStatistics, scores: Floats, curve: SpeedUp, size_rate: float) -> Dispersion:
        """Return the dispersion after one more window, of scores at a curve and a size rate."""
        along, surplus = _squares(scores, np.ones(2))
        wide = table.widths > 1.0
        speed, slope = curve.rate(table.widths[wide]), curve.gradient(table.widths[wide])[:, 0]
        information = size_rate * float(table.job_time[wide] @ (slope**2 / speed))
        kept = math.exp(-table.left / _MEMORY)
        return Dispersion(kept * self.sums + np.array([along, information, surplus, table.left]))

    @property
    def of_curve(self) -> float:
        """φ of the curve, one unless it is significantly more."""
        return self._significant(float(self.sums[0]), float(self.sums[1]))

    @property
    def of_size_rate(self) -> float:
        """φ of the size rate, one unless it is significantly more."""
        return self._significant(float(self.sums[2]), float(self.sums[3]))

    def _significant(self, squares: float, expected: float) -> float:
        departures = float(self.sums[3])
        if departures <= 0.0 or expected <= 0.0:
            return 1.0
        value = squares / expected
        return value if value > 1.0 + _BEYOND * math.sqrt(_FOURTH / departures) else 1.0


def job_scores(strata: Strata, curve: SpeedUp, size_rate: float) -> Floats:
    """Return the sums over the single jobs of a window that make up scores at a curve and a size rate.

    With g at departures and b = μB they are those of gg, gb, bb; with d = 1{departed} and x = μX those of dd,
    dx, xx.
    """
    (p,) = curve.parameters.values()
    s = job_sums(strata, p)
    return np.array([s.gg, size_rate * s.gb, size_rate**2 * s.bb, s.d, size_rate * s.dx, size_rate**2 * s.xx])


def _squares(scores: Floats, factors: Floats) -> Floats:
    """Return Σ(g − fb)² and Σ(d − fx)², shape (…, 2), if the size rate of either is f times as high."""
    own, mixed, other = np.moveaxis(scores.reshape(*scores.shape[:-1], 2, 3), -1, 0)
    return np.asarray(own - 2.0 * factors * mixed + factors**2 * other)


def skewness_factors(
    sides: Floats, dispersions: Floats, nodes: Floats, rate: Floats, ratio: Floats, unit: float
) -> Floats:
    """Return (φ₀/φ)^(1/3) of splits, along the curve and along the size rate, shape (splits, 2).

    One where φ is one.

    Parameters
    ----------
    sides : ndarray
        Rows before and after each split, shape (2, splits, columns).
    dispersions : ndarray
        φ along the curve and along the size rate.
    nodes : ndarray
        The grid of widths.
    rate, ratio : ndarray
        The departure rate of a job, and ∂log s/∂p, at each node.
    unit : float
        The size rate of `rate`, in units of that of the sums over single jobs.
    """
    departed, spent = columns_of(sides, nodes)
    along = np.stack([ratio, np.ones(nodes.size)], axis=-1)
    due = spent @ (rate[:, None] * along)
    factors = np.divide(departed @ along, due, out=np.zeros_like(due), where=due > 0.0)
    information = factors * (spent @ (rate[:, None] * along**2))
    squares = np.maximum(_squares(scores_of(sides), unit * factors), 0.0)
    own = np.divide(squares, information, out=dispersions + 0.0 * squares, where=information > 0.0)
    both = information.sum(axis=0)
    weights = np.divide(information[::-1], both, out=np.full_like(own, 0.5), where=both > 0.0)
    found = (weights * own).sum(axis=0) / dispersions
    return np.where(dispersions > 1.0, np.cbrt(np.maximum(found, _LEAST)), 1.0)
