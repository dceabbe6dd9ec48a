r"""Compiled loops for policies that are one water level; see `corewise.policies.waterfill.levels.steps`.

The class that leaves is drawn by thinning. Every class present has a bound on the rate of a job that holds up
to a *ceiling* a little above the level; a class drawn by its bound leaves with the probability rate/bound,
and the rate is found for this class alone. The bounds are renewed when the level passes the ceiling, or when
too many draws were in vain; their sums are kept in blocks of 32 classes.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.random import Generator

from corewise.kit._kernels import njit_norefs
from corewise.kit.arrays import Floats, Int, Ints
from corewise.policies.waterfill.levels._kernels import (
    GROUP,
    PART,
    REST,
    G,
    T,
    add_step,
    find_level,
    restart,
    width,
)
from corewise.simulation.loops._kernels.clocked import (
    ChainRecord,
    Curves,
    Plant,
    Tally,
    count_departure,
    count_time,
    speed,
)
from corewise.simulation.loops._kernels.jobs import JobPath, JobTotals, States, known_jobs, remember_speeds

_CEILING = 1.15
_BLOCK = 32


@njit_norefs
def _bound(
    steps: Floats,
    own: Ints,
    tails: Floats,
    nodes: Floats,
    curves: Floats,
    offsets: Ints,
    points: Floats,
    above: Floats,
    cores: float,
    i: Int,
) -> float:
    """Return the speed of a class-i job at the ceiling."""
    return float(speed(curves, offsets, points, i, min(width(steps, own, tails, nodes, above, i), cores)))


@njit_norefs
def _ceiling(at: Floats, level: Floats, above: Floats) -> None:
    """Set a level above another, up to which bounds are to hold."""
    g, groups = int(level[G]), at.size
    above[T] = _CEILING * level[T]
    above[PART] = 0.0
    above[REST] = _CEILING * level[REST]
    top = g + 1 if level[PART] > 0.0 else g
    if level[T] == 0.0:
        top = min(top + 1 + groups // 64, groups)
        above[T] = at[top - 1] if top > 0 else 0.0
    while top < groups and at[top] <= above[T]:
        top += 1
    above[G] = top


@njit_norefs
def _draw(sums: Floats, weights: Floats, x: float) -> tuple[int, float]:
    """Return the class at x of the line on which weights lie end to end, and the place within its weight."""
    block, offset = 0, x
    while block < sums.size - 1 and offset >= sums[block]:
        offset -= sums[block]
        block += 1
    i, last = block * _BLOCK, min((block + 1) * _BLOCK, weights.size) - 1
    while i < last and offset >= weights[i]:
        offset -= weights[i]
        i += 1
    return i, offset


@njit(cache=True, nogil=True, error_model="numpy")
def level_chain(
    rng: Generator,
    levels: tuple[Floats, Ints, Ints, Ints, Floats, Floats, Floats, Ints, Ints],
    cores: float,
    plant: Plant,
    n: Ints,
    areas: Floats,
    moves: Ints,
    tally: Tally,
    record: ChainRecord,
    clock: float,
    until: float,
    events: Int,
    departures: Int,
) -> tuple[float, Int, Int]:
    """Draw moves until a time, so many events or departures; return the clock and how many there were.

    `levels` are the arrays of `Levels` (steps, own, order, first, at, tails, nodes, owner) and its curved
    steps; `plant` the curves (see `speed`), size rates, arrival rates, and for arrivals the shares and others
    of Walker's alias method. `n`, the jobs of each class, is kept up; `areas` (∫ n dt), `moves` (arrivals,
    then departures), the `tally` of departures and job-time by width (if it has a grid) and the `record` of
    times and moves (if it has room) are added to.
    """
    steps, own, order, first, at, tails, nodes, owner, rows = levels
    curves, offsets, points, size_rates, arrival_rates, shares, others = plant
    grid, departed_at, held_at = tally
    when, what = record
    classes, tallied, recorded = n.size, grid.size > 0, when.size > 0
    per_octave = int(0.5 + 1.0 / math.log2(grid[2])) if tallied else 0
    sums, level, above = np.zeros(5), np.zeros(4), np.zeros(4)
    bounds, weights = np.zeros(classes), np.zeros(classes)
    blocks = np.zeros((classes + _BLOCK - 1) // _BLOCK)
    since = np.full(classes, clock)
    present, place = np.zeros(classes, dtype=np.int64), np.zeros(classes, dtype=np.int64)
    count, lam = 0, 0.0
    jobs = np.int64(0)
    for i in range(classes):
        lam += arrival_rates[i]
        jobs += n[i]
        if n[i] > 0:
            place[i], present[count] = count, i
            count += 1
    find_level(steps, order, first, at, rows, owner, tails, nodes, n, jobs, cores, sums, level)
    now, still, todo, remaining, total, vain, fresh = clock, clock, events, departures, 0.0, 0, False
    while remaining > 0 and todo > 0:
        if not fresh:
            restart(steps, order, first, owner, n, sums, level)
            _ceiling(at, level, above)
            blocks[:] = 0.0
            total = 0.0
            for k in range(count):
                i = present[k]
                bounds[i] = size_rates[i] * _bound(
                    steps, own, tails, nodes, curves, offsets, points, above, cores, i
                )
                weights[i] = n[i] * bounds[i]
                blocks[i // _BLOCK] += weights[i]
                total += weights[i]
            vain, fresh = 0, True
        ahead = now + rng.standard_exponential() / (lam + total)
        if ahead > until:
            now = until
            break
        now = ahead
        x = rng.random() * (lam + total)
        if x < lam:
            x *= classes / lam
            i = min(int(x), classes - 1)
            if x - i >= shares[i]:
                i = others[i]
            change = 1
            z = 0.0
        else:
            i, x = _draw(blocks, weights, x - lam)
            z = width(steps, own, tails, nodes, level, i)
            if x >= n[i] * size_rates[i] * speed(curves, offsets, points, i, z):
                vain += 1
                fresh = vain <= 8 + count // 8
                continue
            change = -1
        if tallied:
            for k in range(count):
                j = present[k]
                y = width(steps, own, tails, nodes, level, j)
                count_time(grid, per_octave, held_at, j, y, n[j] * (now - still))
            if change < 0:
                count_departure(grid, per_octave, departed_at, i, z)
            still = now
        areas[i] += n[i] * (now - since[i])
        since[i] = now
        if recorded:
            when[events - todo] = now
            what[events - todo] = np.int16(i if change > 0 else classes + i)
        todo -= 1
        n[i] += change
        jobs += change
        if change > 0:
            moves[i] += 1
            if n[i] == 1:
                place[i], present[count] = count, i
                count += 1
                bounds[i] = size_rates[i] * _bound(
                    steps, own, tails, nodes, curves, offsets, points, above, cores, i
                )
        else:
            moves[classes + i] += 1
            remaining -= 1
            if n[i] == 0:
                count -= 1
                last = present[count]
                present[place[i]] = last
                place[last] = place[i]
        e = own[i]
        while e < own[i + 1] and steps[e, GROUP] < level[G]:
            add_step(steps, e, change, sums)
            e += 1
        find_level(steps, order, first, at, rows, owner, tails, nodes, n, jobs, cores, sums, level)
        weight = n[i] * bounds[i]
        blocks[i // _BLOCK] += weight - weights[i]
        total += weight - weights[i]
        weights[i] = weight
        fresh = (
            level[T] <= above[T]
            and level[REST] <= above[REST]
            and (level[G] < above[G] or (level[G] == above[G] and level[PART] == 0.0))
        )
    if tallied:
        for k in range(count):
            j = present[k]
            y = width(steps, own, tails, nodes, level, j)
            count_time(grid, per_octave, held_at, j, y, n[j] * (now - still))
    for i in range(classes):
        areas[i] += n[i] * (now - since[i])
    return now, events - todo, departures - remaining


@njit(cache=True, nogil=True, error_model="numpy")
def level_jobs(
    levels: tuple[Floats, Ints, Ints, Ints, Floats, Floats, Floats, Ints, Ints],
    cores: float,
    curves: Curves,
    memory: States,
    level: Floats,
    path: JobPath,
    totals: JobTotals,
    named: Int,
    clock: float,
    until: float,
    events: Int,
    departures: Int,
) -> tuple[Int, float, Int, Int]:
    """Do as `known_jobs` under a water-level policy, which decides in states that are not remembered."""
    steps, pieces, ranks, first, at, tails, nodes, owner, rows = levels
    n = path.jobs.n
    sums, widths = np.zeros(5), np.zeros(n.size)
    fresh, now, remaining = named, clock, departures
    done: Int = np.int64(0)  # no literal: the walk would be compiled once more for it
    while True:
        row, fresh, now, done, remaining = known_jobs(
            memory, path, totals, fresh, now, until, done, events, remaining
        )
        if row < 0:
            return fresh, now, done, remaining
        restart(steps, ranks, first, owner, n, sums, level)
        find_level(steps, ranks, first, at, rows, owner, tails, nodes, n, n.sum(), cores, sums, level)
        for i in range(n.size):
            if n[i] > 0:
                widths[i] = width(steps, pieces, tails, nodes, level, i)
        remember_speeds(memory.rows, row, n, widths, curves)
