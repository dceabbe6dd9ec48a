r"""The dispersion of scores: by how much they vary more than if sizes were exponential.

The likelihood ratios of the detector take sizes to be exponential. If their scores have φ times the variance
that the likelihood says, so have the ratios, and a threshold of h promises what h/φ would: with CV² = 4 there
are a hundred times as many false alarms. So thresholds are φ times as high (a quasi-likelihood), where φ is
found from the scores of single jobs, Σψ² over the information, for curves; and from 1{departed} − μX for size
rates. It is never below one: for sizes that vary less alarms are rarer than promised, and that is left so.

Both are kept up with forgetting, and believed once they are beyond what exponential sizes might do.

*Skewness.* Where sizes vary much, most of φ comes from a few large jobs, and the score of a short stretch is
far from normal: of lognormal sizes with CV² = 4 one in 100 000 is a hundred times the mean, and makes all
jobs of its window look slow. But it makes the squares of that window large as well. For n jobs with skewness
γ and CV = c, the root r of twice the likelihood ratio over φ, and the dispersion φ₀ of those jobs alone, at
their own rate, are

    r = Z − (c/3) Z²/√n + …,        φ₀/φ = 1 + (γ − 2c) Z/√n + …,        Z normal but for + (γ/6) Z²/√n,

so that dividing the ratio by φ (φ₀/φ)^(1/3) instead of φ leaves no skewness of order 1/√n, whatever the law.
About a split φ₀ is the dispersion of the difference of both sides, as in Welch's test.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from corewise.estimation.changes.grid import columns_of, scores_of
from corewise.estimation.robust.node_score import job_sums
from corewise.kit.arrays import Floats
from corewise.model.speedup import SpeedUp
from corewise.observation.statistics import ClassStatistics
from corewise.observation.strata.tables import Strata

__all__ = ["Dispersion", "job_scores", "skewness_factors"]

_MEMORY = 50_000.0
"""Departures of a class after which what was seen counts for a third."""

_FOURTH = 8.0
"""The variance of (1 − X)² if X is exponential: of the square of a score, in units of its mean."""

_LEAST = 0.25
"""The least part of φ that φ₀ is taken for: where no large job happened to come, it is too small."""

_BEYOND = 3.0
"""How many standard errors above one a dispersion must be, at exponential sizes, to be believed."""


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
        """Return the dispersion before anything is known."""
        return cls(np.zeros(4))

    def observe(self, table: ClassStatistics, scores: Floats, curve: SpeedUp, size_rate: float) -> Dispersion:
        """Return the dispersion after one more window, of scores at a curve and a size rate."""
        along, surplus = _squares(scores, np.ones(2))
        told = table.widths > 1.0
        speed, slope = curve.rate(table.widths[told]), curve.gradient(table.widths[told])[:, 0]
        information = size_rate * float(table.job_time[told] @ (slope**2 / speed))
        kept = math.exp(-table.left / _MEMORY)
        return Dispersion(kept * self.sums + np.array([along, information, surplus, table.left]))

    @property
    def of_curve(self) -> float:
        """φ of the curve, one if it is not known to be more."""
        return self._believed(float(self.sums[0]), float(self.sums[1]))

    @property
    def of_size_rate(self) -> float:
        """φ of the size rate, one if it is not known to be more."""
        return self._believed(float(self.sums[2]), float(self.sums[3]))

    def _believed(self, squares: float, expected: float) -> float:
        departures = float(self.sums[3])
        if departures <= 0.0 or expected <= 0.0:
            return 1.0
        value = squares / expected
        return value if value > 1.0 + _BEYOND * math.sqrt(_FOURTH / departures) else 1.0


def job_scores(strata: Strata, curve: SpeedUp, size_rate: float) -> Floats:
    """Return sums over the single jobs of a window, of which scores at a curve and a size rate consist.

    With g at departures and b = μB those of gg, gb, bb; with d = 1{departed} and x = μX those of dd, dx, xx.
    """
    (p,) = curve.parameters.values()
    s = job_sums(strata, p)
    return np.array([s.gg, size_rate * s.gb, size_rate**2 * s.bb, s.d, size_rate * s.dx, size_rate**2 * s.xx])


def _squares(scores: Floats, factors: Floats) -> Floats:
    """Return Σ(g − fb)² and Σ(d − fx)², shape (…, 2), if the size rate of either is f times as high."""
    own, mixed, other = np.moveaxis(scores.reshape(*scores.shape[:-1], 2, 3), -1, 0)
    return np.asarray(own - 2.0 * factors * mixed + factors**2 * other)


def skewness_factors(
    sides: Floats, believed: Floats, nodes: Floats, rate: Floats, ratio: Floats, unit: float
) -> Floats:
    """Return (φ₀/φ)^(1/3) of splits, along the curve and along the size rate, shape (splits, 2).

    One where φ is, since then sizes are not known to vary more than exponential ones.

    Parameters
    ----------
    sides : ndarray
        What was seen before and after each split, shape (2, splits, columns).
    believed : ndarray
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
    own = np.divide(squares, information, out=believed + 0.0 * squares, where=information > 0.0)
    both = information.sum(axis=0)
    weights = np.divide(information[::-1], both, out=np.full_like(own, 0.5), where=both > 0.0)
    found = (weights * own).sum(axis=0) / believed
    return np.where(believed > 1.0, np.cbrt(np.maximum(found, _LEAST)), 1.0)
