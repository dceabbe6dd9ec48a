r"""Simultaneous confidence band of a concave curve without a family.

At a few widths, spread evenly on a logarithmic scale over those that jobs held, the profile-likelihood
interval of s(z) is taken at the level 1 − (1 − level)/m, m widths (Bonferroni): all of them hold together
with the probability `level` at least. Between and beyond them the band needs no further probability: a curve
that is concave, nondecreasing and s(z) = z up to one core lies, for widths a < z < b with bounds [L, U],

    above the chord from (a, L_a) to (b, L_b), and above L at the widest of them beyond it;
    below U_b, below U_a z/a, and below the line from (a', L_a') through (a, U_a) for every a' < a.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from corewise.estimation.free import FreeFit
from corewise.estimation.likelihood import likely_drop
from corewise.kit.arrays import Floats
from corewise.kit.display import Shown, Table
from corewise.kit.values import ByValue

__all__ = ["SpeedBand", "anchors_of", "band_of"]

_ANCHORS = 8


@dataclass(frozen=True, eq=False, repr=False)
class SpeedBand(ByValue, Shown):
    """Simultaneous confidence band of a speed-up curve.

    Attributes
    ----------
    level : float
        The probability with which the whole curve is in the band.
    cores : tuple of float
        The widths at which intervals were taken.
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

    _shown = ("level", "cores", "low", "high")

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

    def as_mapping(self) -> dict[str, object]:
        """Return the band as plain values, for JSON."""
        return {
            "level": self.level,
            "cores": list(self.cores),
            "low": list(self.low),
            "high": list(self.high),
        }

    def _table(self) -> Table:
        return Table(("cores", "low", "high"), zip(self.cores, self.low, self.high, strict=True))

    def _content(self) -> dict[str, tuple[float, ...]]:
        return {"cores": self.cores, "low": self.low, "high": self.high}


def band_of(fit: FreeFit, level: float) -> SpeedBand:
    """Return the simultaneous band of a fitted curve."""
    cores = anchors_of(fit.widths[1:])
    drop = likely_drop(1.0 - (1.0 - level) / len(cores))
    low, high = zip(*(fit.interval(z, drop) for z in cores), strict=True)
    return SpeedBand(level, tuple(cores), low, high)


def anchors_of(widths: Floats) -> list[float]:
    """Return a few of the widths, which increase, spread evenly on a logarithmic scale."""
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
