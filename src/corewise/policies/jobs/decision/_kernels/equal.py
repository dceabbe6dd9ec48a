r"""Cores of single jobs under a policy of classes, compiled: equal shares within a class.

Jobs are listed oldest first, by arrays; `cores` are those that the policy gives to each class.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from corewise.kit._kernels import tiered
from corewise.kit.arrays import Bools, Floats, Int, Ints
from corewise.policies.jobs._kernels import knapsack
from corewise.policies.moving._kernels import share_out

__all__ = ["equal_shares", "equal_widths"]

_WAITS = 0.5
"""Of its value: what a job counts for that is to wait, if cores are left by others."""


@njit(cache=True, error_model="numpy")
def _level(classes: Ints, i: Int, highs: Floats, out: Bools, cores: float) -> float:
    """Return the level up to which the jobs of class i are filled that are not out, none beyond its most."""
    level = -1.0
    while True:
        left, count = cores, 0
        for j in range(classes.size):
            if classes[j] == i and not out[j]:
                if highs[j] < level:
                    left -= highs[j]
                else:
                    count += 1
        if count == 0:
            return math.inf
        if left / count <= level:
            return level
        level = left / count


@tiered(lambda classes, *_: 3.0 * classes.size**2)
@njit(cache=True, error_model="numpy")
def equal_shares(classes: Ints, lows: Floats, highs: Floats, cores: Floats, given: Floats) -> None:
    """Fill `given` with the share of every job of the cores of its class.

    No job holds more than it can use, or less than it needs: what it leaves goes to the others of its class;
    jobs that need several cores and do not get them hold none, the last listed first.
    """
    out = np.zeros(classes.size, dtype=np.bool_)
    given[:] = 0.0
    for i in range(cores.size):
        while True:
            level = _level(classes, i, highs, out, cores[i])
            last = -1
            for j in range(classes.size):
                if classes[j] == i and not out[j] and min(level, highs[j]) < lows[j]:
                    last = j
            if last < 0:
                break
            out[last] = True
        for j in range(classes.size):
            if classes[j] == i and not out[j]:
                given[j] = min(level, highs[j])


@tiered(lambda classes, _, speeds, *__: 20.0 * classes.size * speeds.shape[1])
@njit(cache=True, error_model="numpy")
def equal_widths(
    classes: Ints,
    rows: Ints,
    speeds: Floats,
    lows: Floats,
    highs: Floats,
    held: Floats,
    lost: Floats,
    cores: Floats,
    given: Floats,
) -> None:
    """Fill `given` with whole cores of every job: those of its class shared equally, the first listed first.

    `speeds` has a row of whole cores per curve, `lost` the share of its value that a job loses at a width
    other than the one it holds. If any loses something a job values its speed relative to that at its share,
    no more than that, and the sum is maximised.
    """
    n, pool, moves = classes.size, speeds.shape[1] - 1, False
    least, most = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    shares, whole = np.empty(n, dtype=np.int64), np.empty(cores.size, dtype=np.int64)
    for j in range(n):
        least[j], most[j] = np.int64(lows[j]), np.int64(min(highs[j], float(pool)))
        moves = moves or lost[j] > 0.0
    for i in range(cores.size):
        whole[i] = np.int64(np.rint(cores[i]))
    share_out(classes, least, most, whole, pool, shares)
    if moves:
        values = np.full((n, pool + 1), -np.inf)
        for j in range(n):
            values[j, 0] = 0.0
            target = max(speeds[rows[j], max(shares[j], least[j])], 1e-300)
            for u in range(least[j], most[j] + 1):
                value = min(speeds[rows[j], u] / target, 1.0)
                if shares[j] == 0:
                    value *= _WAITS
                values[j, u] = value if u == held[j] else value * (1.0 - lost[j])
        knapsack(values, pool, shares)
    for j in range(n):
        given[j] = shares[j]
