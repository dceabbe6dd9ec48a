"""Compiled order of classes by their residual work, where jobs outnumber cores."""

from __future__ import annotations

import numpy as np

from corewise.kit._kernels import njit_norefs
from corewise.kit.arrays import Floats, Int, Ints
from corewise.policies.residual import FIRST_NODE, NODE_SHIFT

__all__ = ["Order", "count_crowd", "order_speeds"]

Order = tuple[float, Floats, Floats, Floats, Floats, Floats, Ints, Floats]
"""Cores; m by class and node; μ; h; room for indices; the speeds decided; whether they are; and the crowd.

The crowd are departures, job-time at one core and job-time at none, by class, in states in which jobs
outnumber cores. There a job holds z ≤ 1 cores, which is as good as one core for a share z of the time.
"""

_TIE = 1e-9
_FRACTION = (1 << NODE_SHIFT) - 1


@njit_norefs
def _residual(table: Floats, i: Int, attained: float, room: Floats, bits: Ints) -> float:
    """Return m_i at an attained work, in mean sizes."""
    room[0] = max(attained, 0.0)
    k = (bits[0] >> NODE_SHIFT) - FIRST_NODE
    if k < 0:
        return float(table[i, 0])
    if k >= table.shape[1] - 1:
        return float(table[i, table.shape[1] - 1])
    part = (bits[0] & _FRACTION) / (_FRACTION + 1.0)
    return float(table[i, k] + part * (table[i, k + 1] - table[i, k]))


@njit_norefs
def order_speeds(
    cores: float,
    table: Floats,
    size_rates: Floats,
    weights: Floats,
    indices: Floats,
    own: Floats,
    n: Ints,
    clocks: Floats,
    slots: Ints,
    began: Floats,
    speeds: Floats,
    row: Int,
    room: Floats,
    bits: Ints,
) -> None:
    """Write the speed of a job of each class if classes are served in order of h n / Σ m, a core to a job.

    Of classes that are alike the one goes first that runs faster under the policy used elsewhere, whose
    speeds are given.
    """
    classes, i = n.size, np.int64(0)
    while i < classes:
        own[i] = 0.0
        indices[i] = -1.0
        if n[i] > 0:
            total, k = 0.0, np.int64(0)
            while k < n[i]:
                attained = clocks[i] - began[i, slots[i, k]]
                total += _residual(table, i, attained * size_rates[i], room, bits)
                k += 1
            indices[i] = weights[i] * size_rates[i] * n[i] / total
        i += 1
    left = cores
    while left > 0.0:
        first, i = np.int64(-1), np.int64(0)
        while i < classes:
            if indices[i] > 0.0:
                above = first < 0 or indices[i] > indices[first] * (1.0 + _TIE)
                alike = first >= 0 and indices[i] >= indices[first] * (1.0 - _TIE)
                if above or (alike and speeds[row + i] > speeds[row + first]):
                    first = i
            i += 1
        if first < 0:
            break
        own[first] = min(left / n[first], 1.0)
        left -= own[first] * n[first]
        indices[first] = -1.0


@njit_norefs
def count_crowd(crowd: Floats, n: Ints, own: Floats, spent: float) -> None:
    """Add the time of the jobs present to that at one core and at none."""
    i = np.int64(0)
    while i < n.size:
        crowd[1, i] += n[i] * own[i] * spent
        crowd[2, i] += n[i] * (1.0 - own[i]) * spent
        i += 1
