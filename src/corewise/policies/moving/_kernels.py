r"""Compiled choice of the whole cores of every job, for each kind of rule.

Jobs are listed oldest first, as arrays of their class, the cores they hold, whether they never held any, how
much of a pause they still have before them, and the least and most cores they may hold. A rule fills `out`
with the cores they are to hold, in sum at most the pool.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from corewise.kit.arrays import Bools, Floats, Int, Ints
from corewise.policies.jobs._kernels import knapsack_table, read_widths

__all__ = ["FOLLOW", "HOLD", "PRICE", "STEADY", "Jobs", "Prices", "choose_widths", "share_out"]

FOLLOW, HOLD, STEADY, PRICE = range(4)

Jobs = tuple[Ints, Ints, Bools, Floats, Ints, Ints]
"""Class, cores held, whether it never held any, pause left, least and most cores; the oldest first."""

Prices = tuple[Ints, Ints, Floats, Floats, Floats, Floats, Floats]
"""Capacity and strides of the box; costs-to-go by class, state and width of a job that runs and of one that
pauses; of one that waits, and the least of one that pauses, by class and state; the cost of an idle core."""

_WORTH_PAUSES = 4.0
"""Pauses that the remaining time of a job must change by for a move to be worth it."""


@njit(cache=True)
def _admit(classes: Ints, least: Ints, only: Int, budget: Int, out: Ints) -> None:
    """Give every job without cores its least, the oldest first, as long as it fits; of one class, or all."""
    for j in range(classes.size):
        if (only < 0 or classes[j] == only) and out[j] == 0 and least[j] <= budget:
            out[j] = least[j]
            budget -= least[j]


@njit(cache=True)
def _raise(classes: Ints, most: Ints, only: Int, spare: Int, out: Ints) -> None:
    """Give cores one by one to the job that runs on the fewest, the oldest first.

    All at once: every job is raised to the highest common level that there are cores for, and the oldest of
    those at it to one more.
    """
    low, high, top = np.int64(0), np.int64(0), np.int64(0)
    for j in range(classes.size):
        if (only < 0 or classes[j] == only) and 0 < out[j] < most[j]:
            high = max(high, most[j])
            low = out[j] if low == 0 else min(low, out[j])
    if spare <= 0 or low == 0:
        return
    high, top = min(high, low + spare), low
    while low < high:
        level, needed = (low + high + 1) // 2, np.int64(0)
        for j in range(classes.size):
            if (only < 0 or classes[j] == only) and out[j] > 0:
                needed += max(min(level, most[j]) - out[j], 0)
        if needed <= spare:
            low = level
        else:
            high = level - 1
    top = low
    for j in range(classes.size):
        if (only < 0 or classes[j] == only) and 0 < out[j] < min(top, most[j]):
            spare -= min(top, most[j]) - out[j]
            out[j] = min(top, most[j])
    for j in range(classes.size):
        if spare > 0 and (only < 0 or classes[j] == only) and out[j] == top < most[j]:
            out[j] += 1
            spare -= 1


@njit(cache=True)
def share_out(classes: Ints, least: Ints, most: Ints, cores: Ints, pool: Int, out: Ints) -> None:
    """Share the cores of each class among its jobs; see `corewise.policies.moving.share`."""
    out[:] = 0
    for i in range(cores.size):
        _admit(classes, least, i, cores[i], out)
        spare = cores[i]
        for j in range(classes.size):
            if classes[j] == i:
                spare -= out[j]
        _raise(classes, most, i, spare, out)
    _admit(classes, least, -1, pool - out.sum(), out)
    _raise(classes, most, -1, pool - out.sum(), out)


@njit(cache=True)
def _start(widths: Ints, least: Ints, wanted: Ints, pool: Int, out: Ints) -> None:
    """Give jobs that wait what they want, the oldest first, or as much of it as is free."""
    free = pool - out.sum()
    for j in range(widths.size):
        if out[j] == 0 and widths[j] == 0:
            given = min(max(wanted[j], least[j]), free)
            if given >= least[j]:
                out[j] = given
                free -= given


@njit(cache=True)
def _keep(widths: Ints, pool: Int, out: Ints) -> None:
    """Let jobs keep what they hold; of a pool that has shrunk, the youngest give way."""
    free = pool
    for j in range(widths.size):
        out[j] = widths[j] if widths[j] <= free else 0
        free -= out[j]


@njit(cache=True)
def _steady(jobs: Jobs, wanted: Ints, pauses: Floats, times: Floats, pool: Int, out: Ints) -> None:
    """Resize a job only if its remaining time changes by four pauses, or for jobs that wait."""
    classes, widths, _, _, least, _ = jobs
    _keep(widths, pool, out)
    needed = np.int64(0)
    for j in range(widths.size):
        if widths[j] == 0:
            needed += max(wanted[j], least[j])
    needed -= pool - out.sum()
    while needed > 0:  # take back from the job furthest above its target
        richest, excess = -1, np.int64(0)
        for j in range(widths.size):
            if out[j] > 0 and out[j] == widths[j] and wanted[j] > 0 and out[j] - wanted[j] > excess:
                richest, excess = j, out[j] - wanted[j]
        if richest < 0:
            break
        out[richest] -= min(excess, needed)
        needed -= excess
    _start(widths, least, wanted, pool, out)
    free = pool - out.sum()
    for j in range(widths.size):
        grown = min(wanted[j], out[j] + free)
        if out[j] == widths[j] and grown > out[j] > 0:
            i = classes[j]
            if times[i, out[j]] - times[i, grown] > _WORTH_PAUSES * pauses[i]:
                free -= grown - out[j]
                out[j] = grown


@njit(cache=True)
def _cost(prices: Prices, i: Int, s: Int, u: Int, held: Int, fresh: bool, left: float) -> float:
    """Return what is expected of a job that is to hold u cores; `left` is the share of a pause before it.

    A job that was stopped has its restart still to pay, whichever job holds its cores now.
    """
    _, _, running, paused, waiting, restart, _ = prices
    if fresh:
        return float(waiting[i, s]) if u == 0 else float(running[i, s, u])
    if u == 0:
        return float(max(running[i, s, 0], restart[i, s]))
    if u != held:
        return float(paused[i, s, u])
    return float(running[i, s, u] + left * (paused[i, s, u] - running[i, s, u]))


@njit(cache=True)
def _price(jobs: Jobs, prices: Prices, pauses: Floats, pool: Int, out: Ints) -> None:
    """Choose the widths with the least sum of costs-to-go, idle cores included: a knapsack."""
    classes, widths, fresh, left, least, most = jobs
    capacity, strides, running = prices[:3]
    counts = np.zeros(capacity.size, dtype=np.int64)
    waiting = np.zeros(capacity.size, dtype=np.int64)
    for j in range(classes.size):
        counts[classes[j]] += 1
    s = np.int64(0)
    for i in range(capacity.size):
        s += strides[i] * min(counts[i], capacity[i])
    widest = min(pool, running.shape[2] - 1)
    values = np.full((classes.size, widest + 1), -np.inf)
    for j in range(classes.size):
        i = classes[j]
        if fresh[j]:
            waiting[i] += 1
            if waiting[i] > pool:  # so many cannot start at once
                values[j, 0] = 0.0
                continue
        part = left[j] / pauses[i] if pauses[i] > 0.0 else 0.0
        for u in range(widest + 1):
            allowed = u == 0 or least[j] <= u <= most[j] or u == widths[j]
            if allowed:
                values[j, u] = -_cost(prices, i, s, u, widths[j], fresh[j], part)
    best = np.full(pool + 1, -np.inf)
    best[0] = 0.0
    taken = np.zeros((classes.size, pool + 1), dtype=np.int64)
    knapsack_table(values, pool, best, taken)
    idle = prices[6][s]
    used, lowest = np.int64(0), np.inf
    for x in range(pool + 1):
        value = idle * (pool - x) - best[x]
        if value < lowest:
            used, lowest = np.int64(x), value
    read_widths(taken, used, out)


@njit(cache=True)
def choose_widths(
    kind: Int, jobs: Jobs, cores: Ints, pauses: Floats, times: Floats, prices: Prices, pool: Int, out: Ints
) -> None:
    """Fill `out` with the cores of every job; `cores` are those that the policy gives to each class."""
    classes, widths, _, _, least, most = jobs
    if kind == PRICE:
        _price(jobs, prices, pauses, pool, out)
        return
    share_out(classes, least, most, cores, pool, out)
    if kind == FOLLOW:
        return
    wanted = out.copy()
    if kind == HOLD:
        _keep(widths, pool, out)
        _start(widths, least, wanted, pool, out)
    else:
        _steady(jobs, wanted, pauses, times, pool, out)
