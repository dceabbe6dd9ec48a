r"""Concave majorants: straight pieces that are nowhere below a speed-up curve.

A concave curve lies below each of its tangents, hence below the least of many. Serving jobs along that
broken line is serving them at least as fast, so a lower bound on the cost computed with it is one for the
curve. At the points of touch the line is exact: these are widths in equal ratios, the kinks of a curve, and
c/n, what n jobs get of all cores. Between them it is too high by the square of the distance, about 1e-5 of
the speed.

*Rounding is outward.* Speeds are taken to be right to four units in the last place, and so are the slopes of
the families, which have formulas; a tangent is lifted by as much as such errors move it within its piece. An
own curve is asked for speeds only. If D₊ and D₋ are its differences over a step h to the right and to the
left of z, concavity alone gives

    s(x) ≤ s(z) + D₊ (x − z) for x ≥ z + h,    s(x) ≤ s(z) − D₋ (z − x) for x ≤ z − h,

and within the step a line with a slope between the two is too low by (D₋ − D₊) h at most. So such a line,
lifted by that and by what rounding does to D₊ and D₋, is nowhere below the curve, smooth or not. At a step of
z/2¹⁹ both are about 1e-11 of the speed. In the end the corners are replaced by their concave hull, so that
slopes fall and are those of the corners, however nearly straight a curve is.

What a job buys at a price is then a search among slopes, for every family alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from corewise.kit.arrays import Floats
from corewise.model.capped import Capped
from corewise.model.speedup import FAMILIES, SpeedUp

__all__ = ["Majorants"]

_RATIOS = 256  # widths in equal ratios from one core to all
_SHARES = 512  # the largest n for which c/n is a point of touch
_ULPS = 4.0 * float(np.finfo(np.float64).eps)
_STEP = 2.0**-19


@dataclass(frozen=True, eq=False)
class Majorants:
    """Concave piecewise linear majorants of several curves on [0, c], a row each.

    Attributes
    ----------
    slopes : ndarray
        Of the pieces, falling; rows end with zeros.
    widths, speeds : ndarray
        Their corners, one more than pieces, from (0, 0); rows end with repetitions of the last one.
    """

    slopes: Floats
    widths: Floats
    speeds: Floats

    @classmethod
    def of(cls, curves: Sequence[SpeedUp], cores: float, widths: Floats) -> Majorants:
        """Return the majorants of curves on a number of cores, each exact at a width that is given for it."""
        rows = [_tangents(curve, cores, width) for curve, width in zip(curves, widths.tolist(), strict=True)]
        pieces = max(row[0].size for row in rows)
        slopes = np.stack([np.pad(row[0], (0, pieces - row[0].size)) for row in rows])
        corners = [
            np.stack([np.pad(row[k], (0, pieces + 1 - row[k].size), mode="edge") for row in rows])
            for k in (1, 2)
        ]
        return cls(slopes, *corners)

    def capped(self, i: int, cores: float, most: int) -> Floats:
        """Return the speed of a job of row i on c/n cores, for n = 1 … `most`; zero for n = 0."""
        shares = cores / np.arange(1.0, most + 1.0)
        return np.concatenate([[0.0], (1.0 + _ULPS) * np.interp(shares, self.widths[i], self.speeds[i])])


def _tangents(curve: SpeedUp, cores: float, width: float) -> tuple[Floats, Floats, Floats]:
    """Return slopes and corners of the least of the tangents."""
    if cores <= 1.0:
        return np.ones(1), np.array([0.0, cores]), np.array([0.0, cores])
    z = np.concatenate(
        [
            np.geomspace(1.0, cores, _RATIOS),
            cores / np.arange(1.0, min(_SHARES, int(cores)) + 1.0),
            curve.kinks,
            [width],
        ]
    )
    own = type(curve.curve if isinstance(curve, Capped) else curve) not in FAMILIES.values()
    # Up to one core s(z) = z is known; a step into an own curve keeps its kink there out of the differences.
    z = np.unique(np.clip(z, 1.0 + _STEP if own else 1.0, cores))
    reach = np.maximum(np.diff(z, append=cores), np.diff(z, prepend=0.0))  # of a tangent, to either side
    speed, slope = (_bracketed if own else _lifted)(curve, z, reach)
    # A tangent begins where it meets the one before: between the two points of touch.
    z, speed, slope = np.append(0.0, z), np.append(0.0, speed), np.append(1.0, slope)
    drop = slope[:-1] - slope[1:]
    with np.errstate(divide="ignore", invalid="ignore"):
        meet = ((speed[1:] - slope[1:] * z[1:]) - (speed[:-1] - slope[:-1] * z[:-1])) / drop
    meet = np.clip(np.where(drop > 0.0, meet, z[1:]), z[:-1], z[1:])
    # The larger of the two, should rounding part them, or one tangent be lifted above the other.
    height = np.maximum(speed[:-1] + slope[:-1] * (meet - z[:-1]), speed[1:] - slope[1:] * (z[1:] - meet))
    last = speed[-1] + slope[-1] * (cores - z[-1])
    return _hull(np.concatenate([[0.0], meet, [cores]]), np.concatenate([[0.0], height, [last]]))


def _lifted(curve: SpeedUp, z: Floats, reach: Floats) -> tuple[Floats, Floats]:
    """Return tangents to a family at points, as heights there and slopes, lifted by what rounding may do."""
    speed, exact = curve.rate(z), curve.slope(z)
    slope = np.minimum.accumulate(np.clip(exact, 0.0, 1.0))
    turned = exact - slope  # by rounding alone; it makes the line too low ahead
    return speed + 2.0 * _ULPS * speed + (turned + _ULPS * speed / z) * reach, slope


def _bracketed(curve: SpeedUp, z: Floats, reach: Floats) -> tuple[Floats, Floats]:
    """Return the same for a curve of which only speeds are known."""
    step = np.exp2(np.floor(np.log2(z))) * _STEP
    before, speed, after = curve.rate(z - step), curve.rate(z), curve.rate(z + step)
    ahead, behind = (after - speed) / step, (speed - before) / step
    doubt = 2.0 * _ULPS * after / step
    slope = np.minimum.accumulate(np.clip(0.5 * (ahead + behind), 0.0, 1.0))
    short = np.maximum(np.maximum(ahead - slope, slope - behind), 0.0) + doubt
    inside = np.maximum(behind - ahead, 0.0) + 2.0 * doubt
    return speed + 2.0 * _ULPS * speed + short * reach + inside * step, slope


def _hull(widths: Floats, speeds: Floats) -> tuple[Floats, Floats, Floats]:
    """Return slopes and corners of the least concave line above some corners, whose widths do not fall."""
    first = np.flatnonzero(np.diff(widths, prepend=-1.0))
    widths, speeds = widths[first], np.maximum.reduceat(speeds, first)
    while True:
        slopes = np.diff(speeds) / np.diff(widths)
        corner = np.concatenate([[True], np.diff(slopes) < 0.0, [True]])
        if corner.all():
            return slopes, widths, speeds
        widths, speeds = widths[corner], speeds[corner]
