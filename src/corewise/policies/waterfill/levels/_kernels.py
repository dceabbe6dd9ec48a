r"""Compiled water levels; see `corewise.policies.waterfill.levels.steps`.

The *level* is a place in the list of steps, (g, t, part, rest): the groups before g are bought, and so is a
part of the jumps of group g; tails have grown to t; when all is bought every job holds `rest` cores more, but
if groups at t = ∞ have said who takes what speeds no job up, what these leave is idle.
Between groups the cores held are C + A t + D t² plus the curved tails. These three sums follow every event
and every group that is passed in constant time, so a decision costs as many operations as the level passes
steps, and one for each class present with a curved tail.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from corewise.kit._kernels import njit_norefs, tiered
from corewise.kit.arrays import Floats, Int, Ints
from corewise.policies.waterfill._kernels import START, curved_tail

__all__ = ["add_step", "find_level", "level_states", "place_states", "restart", "width"]


JUMP, TAIL, CURVED = 0.0, 1.0, 2.0  # the kinds of steps
GROUP, KIND, CONSTANT, LINEAR, SQUARE, ROW = 0, 1, 2, 3, 4, 5  # the columns of steps
G, T, PART, REST = 0, 1, 2, 3  # the fields of a level

_CLOSE = 1e-13


@njit_norefs
def width(steps: Floats, own: Ints, tails: Floats, nodes: Floats, level: Floats, i: Int) -> float:
    """Return the cores that a class-i job holds at a level."""
    g, t, z = level[G], level[T], level[REST]
    e, last = own[i], own[i + 1]
    while e < last and steps[e, GROUP] <= g:
        kind = steps[e, KIND]
        if steps[e, GROUP] == g:
            z += level[PART] * steps[e, CONSTANT] if kind == JUMP else 0.0
        elif kind == JUMP:
            z += steps[e, CONSTANT]
        elif kind == CURVED:
            row = int(steps[e, ROW])
            z += curved_tail(tails, nodes, row, t / tails[row, START])[0]
        elif t < math.inf:
            z += max(steps[e, CONSTANT] + (steps[e, LINEAR] + steps[e, SQUARE] * t) * t, 0.0)
        else:
            z = math.inf
        e += 1
    return float(z)


@njit_norefs
def _rise(steps: Floats, own: Ints, tails: Floats, nodes: Floats, level: Floats, i: Int) -> float:
    """Return d width / d log t of a class-i job at a level."""
    t, rise = level[T], 0.0
    for e in range(own[i], own[i + 1]):
        if steps[e, GROUP] < level[G] and t < math.inf:
            if steps[e, KIND] == CURVED:
                row = int(steps[e, ROW])
                rise += curved_tail(tails, nodes, row, t / tails[row, START])[1]
            else:
                rise += (steps[e, LINEAR] + 2.0 * steps[e, SQUARE] * t) * t
    return rise


@njit_norefs
def add_step(steps: Floats, e: Int, jobs: Int, sums: Floats) -> None:
    """Add a step that so many jobs have bought to the sums: C, A, D, and how many jobs are behind A and D."""
    sums[0] += jobs * steps[e, CONSTANT]
    sums[1] += jobs * steps[e, LINEAR]
    sums[2] += jobs * steps[e, SQUARE]
    sums[3] += jobs if steps[e, LINEAR] > 0.0 else 0
    sums[4] += jobs if steps[e, SQUARE] > 0.0 else 0


@njit_norefs
def _straight_demand(linear: float, square: float, t: float) -> float:
    """Return A t + D t², also at infinity."""
    if linear + square > 0.0:
        return (linear + square * t) * t if t < math.inf else math.inf
    return 0.0


@njit_norefs
def _curved_demand(
    steps: Floats, rows: Ints, owner: Ints, tails: Floats, nodes: Floats, n: Ints, g: float, t: float
) -> tuple[float, float]:
    """Return the cores that all curved tails bought before group g hold at t, and d/d log t of them."""
    held, rise, k = 0.0, 0.0, 0
    while k < rows.size:
        e = rows[k]
        jobs = n[owner[e]]
        if jobs > 0 and steps[e, GROUP] < g:
            row = int(steps[e, ROW])
            extra, slope = curved_tail(tails, nodes, row, t / tails[row, START])
            held += jobs * extra
            rise += jobs * slope
        k += 1
    return held, rise


@njit_norefs
def _curved_level(
    steps: Floats,
    rows: Ints,
    owner: Ints,
    tails: Floats,
    nodes: Floats,
    n: Ints,
    linear: float,
    square: float,
    free: float,
    g: float,
    low: float,
    high: float,
    guess: float,
) -> float:
    """Return the t in [low, high] at which tails hold the free cores: Newton in log t, safeguarded."""
    bottom, top = low, high
    t = guess if low < guess < high else (0.5 * (low + high) if high < math.inf else 2.0 * low)
    k = 0
    while k < 200:
        held, rise = _curved_demand(steps, rows, owner, tails, nodes, n, g, t)
        held += (linear + square * t) * t
        rise += (linear + 2.0 * square * t) * t
        bottom, top = (t, top) if held < free else (bottom, t)
        # Every third time the middle: far out, where demand explodes, Newton's steps are tiny.
        newton = k % 3 < 2 and rise > 0.0 and held > 0.0
        step = t * math.exp(min(held * math.log(free / held) / rise, 3.0)) if newton else top
        middle = math.sqrt(bottom * top) if top < math.inf else 4.0 * bottom
        near = abs(held - free) <= _CLOSE * free or top - bottom <= 1e-15 * bottom
        t = t if near else (step if bottom < step < top else middle)
        k = 200 if near else k + 1
    return t


@njit_norefs
def find_level(
    steps: Floats,
    order: Ints,
    first: Ints,
    at: Floats,
    rows: Ints,
    owner: Ints,
    tails: Floats,
    nodes: Floats,
    n: Ints,
    jobs: Int,
    cores: float,
    sums: Floats,
    level: Floats,
) -> None:
    """Move the level to where the cores are held by the `jobs` jobs; `sums` is of the groups before it."""
    g, t, part, rest, settled = int(level[G]), level[T], 0.0, 0.0, False
    back = False  # over a group where nothing jumps: what is held on its two sides differs by rounding alone
    while not settled:
        low, high = at[g - 1] if g > 0 else 0.0, at[g] if g < at.size else math.inf
        linear = sums[1] if sums[3] > 0.0 else 0.0  # what rounding leaves of nothing is nothing
        square = sums[2] if sums[4] > 0.0 else 0.0
        held = sums[0] + _straight_demand(linear, square, low)
        held += _curved_demand(steps, rows, owner, tails, nodes, n, g, low)[0] if rows.size > 0 else 0.0
        if held > cores and g > 0:
            g -= 1
            jump, k = 0.0, first[g]
            while k < first[g + 1]:
                e = order[k]
                add_step(steps, e, -n[owner[e]], sums)
                jump += n[owner[e]] * steps[e, CONSTANT] if steps[e, KIND] == JUMP else 0.0
                k += 1
            back = jump == 0.0
            if jump > 0.0 and held - jump <= cores:
                t, part, settled = low, (cores - (held - jump)) / jump, True
        else:
            most = sums[0] + _straight_demand(linear, square, high)
            most += _curved_demand(steps, rows, owner, tails, nodes, n, g, high)[0] if rows.size > 0 else 0.0
            if most >= cores or back:
                free, settled = cores - sums[0], True
                if rows.size > 0:
                    t = _curved_level(
                        steps, rows, owner, tails, nodes, n, linear, square, free, g, low, high, t
                    )
                elif linear + square > 0.0:
                    root = math.sqrt(linear * linear + 4.0 * square * free)
                    t = min(max(2.0 * free / (linear + root), low), high)
                else:
                    t = low
            elif g == at.size:
                idle = jobs > 0 and g > 0 and low == math.inf
                t, rest, settled = math.inf, 0.0 if idle else (cores - most) / max(jobs, 1), True
            else:
                jump, k = 0.0, first[g]
                while k < first[g + 1]:
                    e = order[k]
                    jump += n[owner[e]] * steps[e, CONSTANT] if steps[e, KIND] == JUMP else 0.0
                    k += 1
                if most + jump > cores:
                    t, part, settled = high, (cores - most) / jump, True
                else:
                    k = first[g]
                    while k < first[g + 1]:
                        add_step(steps, order[k], n[owner[order[k]]], sums)
                        k += 1
                    g += 1
    level[G] = g
    level[T] = t
    level[PART] = part
    level[REST] = rest


@njit_norefs
def restart(
    steps: Floats, order: Ints, first: Ints, owner: Ints, n: Ints, sums: Floats, level: Floats
) -> None:
    """Add up the sums of a level afresh: additions and subtractions leave rounding behind."""
    sums[:] = 0.0
    k, last = 0, first[int(level[G])]
    while k < last:
        add_step(steps, order[k], n[owner[order[k]]], sums)
        k += 1


@njit(cache=True, nogil=True)
def level_states(
    levels: tuple[Floats, Ints, Ints, Ints, Floats, Floats, Floats, Ints, Ints],
    cores: float,
    counts: Ints,
    held: Floats,
) -> None:
    """Write the cores of each class in every state; counts and cores of shape (K, states)."""
    steps, own, order, first, at, tails, nodes, owner, rows = levels
    n, sums, level = np.empty(counts.shape[0], dtype=np.int64), np.zeros(5), np.zeros(4)
    for s in range(counts.shape[1]):
        jobs = np.int64(0)
        for i in range(n.size):
            n[i] = counts[i, s]
            jobs += n[i]
            held[i, s] = 0.0
        if jobs == 0:
            continue
        sums[:] = 0.0
        level[:] = 0.0  # from the bottom, lest rounding depend on the state before
        find_level(steps, order, first, at, rows, owner, tails, nodes, n, jobs, cores, sums, level)
        total, rises = 0.0, 0.0
        for i in range(n.size):
            if n[i] > 0:
                held[i, s] = n[i] * width(steps, own, tails, nodes, level, i)
                total += held[i, s]
                rises += n[i] * _rise(steps, own, tails, nodes, level, i)
        if rises > 0.0:
            # A tail may be so nearly straight that demand leaps over the cores between neighbouring numbers.
            for i in range(n.size):
                if n[i] > 0:
                    rise = n[i] * _rise(steps, own, tails, nodes, level, i)
                    held[i, s] += (cores - total) * (rise / rises)


@njit(cache=True, nogil=True)
def _place(cores: float, demand: Floats, counts: Ints, s: int) -> int:
    """Return the first place at which the demand of a state exceeds the cores."""
    place, last = 0, demand.shape[0] - 1
    while place < last:
        middle = (place + last) >> 1
        total = 0.0
        for i in range(counts.shape[0]):
            total += counts[i, s] * demand[middle, i]
        if total > cores or (total == cores and middle & 1 == 0):
            last = middle
        else:
            place = middle + 1
    return place


@tiered(lambda *args: 10.0 * args[-1].size, most=0.03)
@njit(cache=True, nogil=True)
def place_states(
    cores: float, demand: Floats, bought: Floats, ends: Floats, counts: Ints, held: Floats
) -> None:
    """Do as `level_states` without curved tails; see `corewise.policies.waterfill.levels.places`."""
    classes, states = counts.shape
    for s in range(states):
        place = _place(cores, demand, counts, s)
        g = place >> 1
        before, jump, constant, linear, square = 0.0, 0.0, 0.0, 0.0, 0.0
        for i in range(classes):
            n = counts[i, s]
            before += n * demand[2 * g, i]
            jump += n * bought[g, 4, i]
            constant += n * (bought[g, 0, i] + bought[g, 1, i])
            linear += n * bought[g, 2, i]
            square += n * bought[g, 3, i]
        t, part = ends[g], 0.0
        if place & 1 == 1:
            t = ends[g + 1]
            part = (cores - before) / jump if jump > 0.0 else 0.0
        elif linear + square > 0.0:
            free = max(cores - constant, 0.0)
            level = 2.0 * free / (linear + math.sqrt(linear * linear + 4.0 * square * free))
            t = min(max(level, t), ends[g + 1])
        total, rises = 0.0, 0.0
        for i in range(classes):
            tail = bought[g, 1, i] + (bought[g, 2, i] + bought[g, 3, i] * t) * t
            held[i, s] = counts[i, s] * (bought[g, 0, i] + max(tail, 0.0) + part * bought[g, 4, i])
            total += held[i, s]
            rises += counts[i, s] * ((bought[g, 2, i] + 2.0 * bought[g, 3, i] * t) * t)
        if rises > 0.0:
            # A tail may be so nearly straight that demand leaps over the cores between neighbouring numbers.
            for i in range(classes):
                rise = counts[i, s] * ((bought[g, 2, i] + 2.0 * bought[g, 3, i] * t) * t)
                held[i, s] += (cores - total) * (rise / rises)
