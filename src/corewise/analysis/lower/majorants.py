r"""Concave majorants: straight pieces that are nowhere below a speed-up curve.

A concave curve lies below each of its tangents, hence below the least of many. Serving jobs along that
broken line is serving them at least as fast, so a lower bound on the cost computed with it is one for the
curve. At the points of touch the line is exact: these are widths in equal ratios, the kinks of a curve, and
c/n, what n jobs get of all cores. Between them it is too high by the square of the distance, about 1e-5 of
the speed.

What a job buys at a price is then a search among slopes, for every family alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from corewise.kit.arrays import Floats
from corewise.model.speedup import SpeedUp, Tabulated, Usl

__all__ = ["Majorants"]

_RATIOS = 256  # widths in equal ratios from one core to all
_SHARES = 512  # the largest n for which c/n is a point of touch


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
    def of(cls, curves: Sequence[SpeedUp], cores: float) -> Majorants:
        """Return the majorants of curves on a number of cores; equal ones are sampled once."""
        tangents: dict[int, tuple[Floats, Floats, Floats]] = {}
        for curve in curves:
            if id(curve) not in tangents:
                tangents[id(curve)] = _tangents(curve, cores)
        rows = [tangents[id(curve)] for curve in curves]
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
        return np.concatenate([[0.0], np.interp(shares, self.widths[i], self.speeds[i])])


def _tangents(curve: SpeedUp, cores: float) -> tuple[Floats, Floats, Floats]:
    """Return slopes and corners of the least of the tangents."""
    if cores <= 1.0:
        return np.ones(1), np.array([0.0, cores]), np.array([0.0, cores])
    z = np.concatenate(
        [
            np.geomspace(1.0, cores, _RATIOS),
            cores / np.arange(1.0, min(_SHARES, int(cores)) + 1.0),
            _kinks(curve),
        ]
    )
    z = np.unique(z[(z >= 1.0) & (z <= cores)])
    speed = curve.rate(z)
    slope = np.minimum.accumulate(np.clip(curve.slope(z), 0.0, 1.0))
    # A tangent begins where it meets the one before: between the two points of touch.
    z, speed, slope = np.append(0.0, z), np.append(0.0, speed), np.append(1.0, slope)
    drop = slope[:-1] - slope[1:]
    keep = np.append(True, drop > 1e-14)  # tangents along one straight part are one
    kept = np.flatnonzero(keep)
    z, speed, slope = z[kept], speed[kept], slope[kept]
    drop = slope[:-1] - slope[1:]
    meet = ((speed[1:] - slope[1:] * z[1:]) - (speed[:-1] - slope[:-1] * z[:-1])) / drop
    meet = np.clip(meet, z[:-1], z[1:])
    height = np.maximum(
        speed[:-1] + slope[:-1] * (meet - z[:-1]), speed[1:] - slope[1:] * (z[1:] - meet)
    )  # the larger, should rounding part them
    last = speed[-1] + slope[-1] * (cores - z[-1])
    return slope, np.concatenate([[0.0], meet, [cores]]), np.concatenate([[0.0], height, [last]])


def _kinks(curve: SpeedUp) -> Floats:
    """Return the widths at which the slope of a curve jumps, beyond one core."""
    if isinstance(curve, Tabulated):
        return curve.corners[0]
    return np.array([curve.peak]) if isinstance(curve, Usl) else np.empty(0)
