r"""Concave speed-up curves without a family: mixtures of hinges, and simultaneous confidence bands.

*Hinges.* Every curve with s(z) = z up to one core, nondecreasing and concave, is a mixture of hinges: a job
is worth min(z, t) cores, with t ≥ 1 random. Data depend on the mixture only at t = 1 and at the widths above
one at which there are data, so with hinges t_k there and weights θ_k ≥ 0

    r(z) = μ s(z) = Σ_k θ_k min(z, t_k),    μ = Σ_k θ_k,

and the curve has a corner at each hinge with a positive weight.

*Bands.* At a few widths, spread evenly on a logarithmic scale over those with data, intervals of s(z) hold
simultaneously with the probability `level`. Between and beyond them the band needs no further probability: a
curve that is concave, nondecreasing and s(z) = z up to one core lies, for widths a < z < b with bounds [L,
U],

    above the chord from (a, L_a) to (b, L_b), and above L at the widest of them beyond it;
    below U_b, below U_a z/a, and below the line from (a', L_a') through (a, U_a) for every a' < a.

Source of the representation: Lindsay, *The geometry of mixture likelihoods* (1983), for mixtures in general.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from corewise.kit.arrays import Floats
from corewise.kit.report import Summarised, Table
from corewise.kit.values import ByValue
from corewise.model.speedup import Tabulated

__all__ = ["FREE", "SpeedBand", "anchors_of", "curve_through", "hinge_matrix"]

FREE = "free"
"""Name of the family of all concave curves."""

_ANCHORS = 8
"""Maximum number of widths at which intervals of a band are computed."""


def hinge_matrix(widths: Floats, hinges: Floats) -> Floats:
    """Return min(z, t) for every width and hinge."""
    return np.minimum(widths[:, None], hinges)


def curve_through(corners: Floats, speeds: Floats) -> Tabulated:
    """Return the curve with these speeds at its corners above one core."""
    return Tabulated([(1.0, 1.0), *zip(corners.tolist(), speeds.tolist(), strict=True)])


@dataclass(frozen=True, eq=False, repr=False)
class SpeedBand(ByValue, Summarised):
    """Simultaneous confidence band of a speed-up curve.

    Attributes
    ----------
    level : float
        Confidence level of the whole band.
    cores : tuple of float
        Widths at which intervals were computed.
    low, high : tuple of float
        The intervals of s there; at one core and less s(z) = z.

    Examples
    --------
    >>> import corewise as cw
    >>> fit = cw.fit_curve([1, 1, 2, 2, 4, 4, 8, 8], [99, 101, 180, 184, 305, 311, 468, 473], family="free")
    >>> band = fit.band
    >>> band.level, len(band.cores)
    (0.95, 3)
    >>> all(low <= high for low, high in zip(band.low, band.high))
    True
    """

    _repr_fields = ("level", "cores", "low", "high")

    level: float
    cores: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]

    def at(self, z: ArrayLike) -> tuple[Floats, Floats]:
        """Return the edges of the band at widths z."""
        widths = np.asarray(z, dtype=np.float64)
        at = np.array([1.0, *self.cores])
        lows, highs = np.array([1.0, *self.low]), np.array([1.0, *self.high])
        low = np.where(widths <= 1.0, widths, np.interp(widths, *_hull(at, lows)))
        high = widths.copy()
        for k, (width, most) in enumerate(zip(at.tolist(), highs.tolist(), strict=True)):
            high = np.where(widths <= width, np.minimum(high, most), np.minimum(high, most * widths / width))
            for before, least in zip(at[:k].tolist(), lows[:k].tolist(), strict=True):
                slope = max(most - least, 0.0) / (width - before)
                high = np.where(widths > width, np.minimum(high, most + slope * (widths - width)), high)
        return low, np.where(widths <= 1.0, widths, np.maximum(high, low))

    def __str__(self) -> str:
        """Return the edges of the band in a line."""
        rows = zip(self.cores, self.low, self.high, strict=True)
        edges = ", ".join(f"s({z:.4g}) {low:.4g} to {high:.4g}" for z, low, high in rows)
        return f"{edges}, all of it with {self.level:.4g} probability"

    def _table(self) -> Table:
        return Table(("cores", "low", "high"), list(zip(self.cores, self.low, self.high, strict=True)))

    def _content(self) -> dict[str, tuple[float, ...]]:
        return {"cores": self.cores, "low": self.low, "high": self.high}


def anchors_of(widths: Floats) -> list[float]:
    """Return a few of increasing widths, spread evenly on a logarithmic scale."""
    spread = np.geomspace(widths[0], widths[-1], min(_ANCHORS, widths.size))
    nearest = np.argmin(np.abs(np.log(widths) - np.log(spread)[:, None]), axis=1)
    return [float(width) for width in np.unique(widths[nearest])]


def _hull(at: Floats, lows: Floats) -> tuple[Floats, Floats]:
    """Return the least concave nondecreasing curve above points, as its corners."""
    hull: list[tuple[float, float]] = []
    for point in zip(at.tolist(), np.maximum.accumulate(lows).tolist(), strict=True):
        while len(hull) > 1 and _above(hull[-2], hull[-1], point):
            hull.pop()
        hull.append(point)
    z, s = np.array(hull).T
    return z, s


def _above(left: tuple[float, float], middle: tuple[float, float], right: tuple[float, float]) -> bool:
    """Return whether the chord from left to right passes above the middle."""
    return (middle[1] - left[1]) * (right[0] - left[0]) <= (right[1] - left[1]) * (middle[0] - left[0])
