r"""The dispersion of scores: by how much they vary more than if sizes were exponential.

The likelihood ratios of the detector take sizes to be exponential. If their scores have φ times the variance
that the likelihood says, so have the ratios, and a threshold of h promises what h/φ would: with CV² = 4 there
are a hundred times as many false alarms. So thresholds are φ times as high (a quasi-likelihood), where φ is
found from the scores of single jobs, Σψ² over the information, for curves; and from 1{departed} − μX for size
rates. It is never below one: for sizes that vary less alarms are rarer than promised, and that is left so.

Both are kept up with forgetting, and believed once they are beyond what exponential sizes might do.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from corewise.estimation.robust.node_score import job_sums
from corewise.kit.arrays import Floats
from corewise.model.speedup import SpeedUp
from corewise.observation.statistics import ClassStatistics
from corewise.observation.strata.tables import Strata

__all__ = ["Dispersion"]

_MEMORY = 50_000.0
"""Departures of a class after which what was seen counts for a third."""

_FOURTH = 8.0
"""The variance of (1 − X)² if X is exponential: of the square of a score, in units of its mean."""

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

    def observe(self, table: ClassStatistics, strata: Strata, curve: SpeedUp, size_rate: float) -> Dispersion:
        """Return the dispersion after one more window, of scores at a curve and a size rate."""
        (p,) = curve.parameters.values()
        s = job_sums(strata, p)
        along, surplus = (
            square - 2.0 * size_rate * mixed + size_rate**2 * own
            for square, mixed, own in ((s.gg, s.gb, s.bb), (s.d, s.dx, s.xx))
        )
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
