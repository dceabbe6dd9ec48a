r"""Curves as the compiled arithmetic of decisions per job reads them.

Amdahl's law and the power law are closed forms up to a limit; every other curve is given by the corners of
its concave majorant, with straight lines between. A table of whole cores, which need not be concave or rise,
has the majorant of its points and ends at its peak; a job that needs several cores at least has a straight
first piece up to them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from corewise.kit.arrays import Floats
from corewise.model.capped import Capped
from corewise.model.speedup import Amdahl, Gustafson, Piecewise, PowerLaw, SpeedUp, Usl
from corewise.policies.jobs._kernels import AMDAHL, CORNERS, POWER, Curves, concave_corners

__all__ = ["PackedCurve", "curve_of", "packed", "table_curves"]

_UNLIMITED = 1e4
"""Times the cores there are: beyond it no width matters, and numbers stay finite."""

_NODES = 1025
"""Widths at which a curve without a closed form is sampled: the loss is of second order in their distance."""


@dataclass(frozen=True, eq=False)
class PackedCurve:
    """Curve of one kind of job: a closed form with its parameter up to a limit, or corners."""

    form: int
    parameter: float
    limit: float
    widths: Floats
    speeds: Floats


@lru_cache(maxsize=1024)
def curve_of(curve: SpeedUp, cores: float, low: float = 0.0, high: float | None = None) -> PackedCurve:
    """Return the curve of jobs that hold none, or from `low` to `high` cores of a pool."""
    top = _UNLIMITED * max(cores, 1.0) if high is None else float(high)
    if low <= 1.0:
        closed = _closed(curve, top)
        if closed is not None:
            return closed
    z = _corner_widths(curve, max(cores, 1.0), low, top)
    return _corners(z, curve.rate(z))


def _closed(curve: SpeedUp, top: float) -> PackedCurve | None:
    """Return the closed form of a curve, if it has one."""
    if isinstance(curve, Capped):
        return _closed(curve.curve, min(top, curve.most))
    if isinstance(curve, Usl) and curve.kappa == 0.0:
        return _closed(Amdahl(1.0 - curve.sigma), top)
    none = np.empty(0)
    if isinstance(curve, Amdahl | PowerLaw) and 0.0 < curve.p < 1.0:
        return PackedCurve(AMDAHL if isinstance(curve, Amdahl) else POWER, curve.p, top, none, none)
    if isinstance(curve, Amdahl | PowerLaw | Gustafson):  # straight above one core
        z = np.array([1.0]) if top <= 1.0 or curve.p == 0.0 else np.array([1.0, top])
        return _corners(z, curve.rate(z))
    return None


def _corner_widths(curve: SpeedUp, cores: float, low: float, top: float) -> Floats:
    """Return the widths at which a curve is sampled, from the least that its jobs run on."""
    if isinstance(curve, Capped):
        return _corner_widths(curve.curve, cores, low, min(top, curve.most))
    first, last = max(low, 1.0), max(min(top, cores), low, 1.0)
    if isinstance(curve, Piecewise):
        z = curve.corners[0]
        return np.concatenate([[first], z[(z > first) & (z < last)], [last] if last > first else []])
    last = max(min(last, curve.peak), first) if isinstance(curve, Usl) else last
    return np.geomspace(first, last, _NODES) if last > first else np.array([first])


def _corners(z: Floats, s: Floats) -> PackedCurve:
    """Return the concave majorant of points with (0, 0)."""
    widths, speeds = [0.0], [0.0]
    for width, speed in zip(z.tolist(), s.tolist(), strict=True):
        if speed <= speeds[-1]:
            continue
        while len(widths) > 1 and (speeds[-1] - speeds[-2]) * (width - widths[-1]) <= (speed - speeds[-1]) * (
            widths[-1] - widths[-2]
        ):
            widths.pop()
            speeds.pop()
        widths.append(width)
        speeds.append(speed)
    return PackedCurve(CORNERS, 0.0, widths[-1], np.array(widths), np.array(speeds))


def packed(curves: Sequence[PackedCurve]) -> Curves:
    """Return curves as arrays for the kernels."""
    starts = np.zeros(len(curves) + 1, dtype=np.int64)
    np.cumsum([curve.widths.size for curve in curves], out=starts[1:])
    return (
        np.array([curve.form for curve in curves], dtype=np.int64),
        np.array([curve.parameter for curve in curves]),
        np.array([curve.limit for curve in curves]),
        starts,
        np.concatenate([*(curve.widths for curve in curves), np.empty(0)]),
        np.concatenate([*(curve.speeds for curve in curves), np.empty(0)]),
    )


def table_curves(speeds: Floats, lows: Sequence[int], highs: Sequence[int]) -> Curves:
    """Return the majorants of tables of whole cores, one row each, as arrays for the kernels.

    A row has the speeds on 0, 1, 2, … cores, of which a job may hold none, or from `lows` to `highs`.
    """
    rows, columns = speeds.shape
    starts = np.empty(rows + 1, dtype=np.int64)
    widths, heights = np.empty(rows * columns + 1), np.empty(rows * columns + 1)
    concave_corners(
        speeds, np.array(lows, dtype=np.int64), np.array(highs, dtype=np.int64), starts, widths, heights
    )
    used = starts[-1]
    limits = widths[starts[1:] - 1]
    return (
        np.full(rows, CORNERS, dtype=np.int64),
        np.zeros(rows),
        limits,
        starts,
        widths[:used].copy(),
        heights[:used].copy(),
    )


def joined(first: Curves, second: Curves) -> Curves:
    """Return two sets of curves as one."""
    starts = np.concatenate([first[3][:-1], second[3] + first[3][-1]])
    parts = [np.concatenate([one, other]) for one, other in zip(first, second, strict=True)]
    return parts[0], parts[1], parts[2], starts, parts[4], parts[5]
