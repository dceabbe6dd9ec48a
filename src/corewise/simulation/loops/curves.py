"""A system as arrays: its curves in compiled form, and its arrivals for drawing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from corewise.kit.arrays import Floats, Ints
from corewise.model.capped import Capped
from corewise.model.speedup import Piecewise, SpeedUp
from corewise.model.system import System
from corewise.simulation.loops._kernels.clocked import NODES, Curves

__all__ = ["alias_table", "curve_arrays", "curves_as_arrays"]


_NODES = 8193
"""Nodes at which a curve of no known family is sampled: linear between them, it is off by 1e-8 or so."""


def curve_arrays(system: System) -> Curves:
    """Return a row (kind, two parameters, most cores) per curve, where its nodes begin, and the nodes."""
    return curves_as_arrays([job_class.curve for job_class in system.classes], system.cores)


def curves_as_arrays(curves: Sequence[SpeedUp], cores: float) -> Curves:
    """Return curves over so many cores, a row each."""
    rows, offsets, points = [], [0], [np.empty((0, 2))]
    for curve in curves:
        row, nodes = _compiled(curve, cores)
        rows.append(row)
        points.append(nodes)
        offsets.append(offsets[-1] + len(nodes))
    return Curves(np.array(rows), np.array(offsets, dtype=np.int64), np.concatenate(points))


def _compiled(curve: SpeedUp, cores: float) -> tuple[tuple[float, float, float, float], Floats]:
    formula = curve.curve if isinstance(curve, Capped) else curve
    if formula.code is not None:
        first, second = (*formula.parameters.values(), 0.0)[:2]
        return (float(formula.code), first, second, curve.useful_cores), np.empty((0, 2))
    if isinstance(formula, Piecewise):
        z, s = formula.corners
    else:
        z = np.geomspace(1.0, max(cores, 1.0) + 1.0, _NODES)
        s = formula.rate_above(z)
    if len(z) == 1:  # a curve that is flat from one core on
        z, s = np.append(z, 2.0 * z), np.append(s, s)
    return (NODES, 0.0, 0.0, curve.useful_cores), np.stack([z, s], axis=1)


def alias_table(weights: Floats) -> tuple[Floats, Ints]:
    """Return Walker's alias table: draw a cell, keep it with its share, else take the other.

    Source: A. J. Walker (1977), in the form of M. D. Vose (1991).
    """
    count = weights.size
    mass = weights * (count / weights.sum())
    shares, others = np.ones(count), np.arange(count)
    small = [i for i in range(count) if mass[i] < 1.0]
    large = [i for i in range(count) if mass[i] >= 1.0]
    while small and large:
        low, high = small.pop(), large[-1]
        shares[low], others[low] = mass[low], high
        mass[high] -= 1.0 - mass[low]
        if mass[high] < 1.0:
            small.append(large.pop())
    return shares, others
