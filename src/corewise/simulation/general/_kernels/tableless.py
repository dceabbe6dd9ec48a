"""Compiled loops without tables over states, for any number of classes.

What was decided in a state is kept in a `StateCache`, in rows of the jobs of each class, their speed and
their width; the last quarter of a row is free.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from corewise.kit._kernels import njit_norefs
from corewise.kit.arrays import Floats, Int, Ints
from corewise.policies.waterfill.levels._kernels import find_level, restart, width
from corewise.simulation.general._kernels.jobs import (
    Jobs,
    Seen,
    Source,
    Summarised,
    make_move,
    next_move,
    run_clocks,
)
from corewise.simulation.general._kernels.residual import Order, count_crowd, order_speeds
from corewise.simulation.tableless._kernels.events import FINE, count_departure, count_time, speed
from corewise.simulation.tableless._kernels.fitted import fitted_widths

__all__ = ["fitted_walk", "known_walk", "level_walk", "remember"]

Counted = tuple[Floats, Ints, tuple[Floats, Floats, Floats]]
"""∫ n dt of each class, arrivals and departures of each, and the tally by width, without a grid if none."""


@njit(cache=True, nogil=True, error_model="numpy")
def known_walk(
    memory: tuple[Floats, Ints, Floats],
    jobs: Jobs,
    source: Source,
    seen: Seen,
    record: Summarised,
    counted: Counted,
    order: Order,
    named: Int,
    clock: float,
    until: float,
    event: Int,
    events: Int,
    departures: Int,
) -> tuple[Int, Int, float, Int, Int]:
    """Follow jobs while states are remembered, until a time, an event, so many departures, or a full block.

    Returns the row of the state that is not remembered, or −1; the jobs named, the clock, the event, and how
    many departures are left.
    """
    n, clocks, keys, slots, arrivals, began, sizes, numbers = jobs
    at, work, used = source
    sums, bins, room = seen
    when, what, whose, shares = record
    cores, table, size_rates, weights, indices, own, decided, crowd = order
    states, units, _ = memory
    areas, moves, tally = counted
    grid, departed_at, held_at = tally
    bits, flat = room.view(np.int64), states.reshape(-1)
    classes, most, block = n.size, keys.shape[1], at.shape[1]
    tallied, recorded = grid.size > 0, when.size > 0
    per_octave = int(0.5 + 1.0 / math.log2(grid[2])) if tallied else 0
    now, done, fresh, remaining = clock, event, named, departures
    mask, place = states.shape[0] - 1, np.int64(0)
    most_alone, present = cores if table.shape[1] > 0 else math.inf, n.sum()
    first = np.int64(0)  # no literal, for which kernels would be compiled once more
    for j in range(classes):
        place += n[j] * units[j]
    while remaining > 0 and done < events:
        row, i = (place >> FINE) & mask, np.int64(0)
        while i < classes and states[row, i] == n[i]:
            i += 1
        if i < classes:
            return row, fresh, now, done, remaining
        speeds = row * 4 * classes + classes
        crowded = present > most_alone
        if crowded:
            if not decided[0]:
                order_speeds(
                    *(cores, table, size_rates, weights, indices, own),
                    *(n, clocks, slots, began, flat, speeds, room, bits),
                )
                decided[0] = 1
            move, spent = next_move(n, clocks, keys, at, used, own, first, now)
        else:
            move, spent = next_move(n, clocks, keys, at, used, flat, speeds, now)
        ends = now + spent > until or move < 0
        if ends:
            spent = until - now
        if crowded:
            run_clocks(n, clocks, own, first, spent)
            count_crowd(crowd, n, own, spent)
        else:
            run_clocks(n, clocks, flat, speeds, spent)
        for j in range(classes):
            areas[j] += n[j] * spent
            if tallied and n[j] > 0 and not crowded:
                count_time(grid, per_octave, held_at, j, states[row, 2 * classes + j], n[j] * spent)
        if ends:
            return -1, fresh, until, done, remaining
        decided[0] = 0
        gone = move >= classes
        if recorded and shares.size > 0:
            for j in range(classes):
                shares[done, j] = n[j] * own[j] if crowded else np.nan
        if crowded and gone:
            crowd[0, move - classes] += 1.0
        elif tallied and gone:
            i = move - classes
            count_departure(grid, per_octave, departed_at, i, states[row, 2 * classes + i])
        moves[move] += 1
        now = now + spent if gone else max(now, at[move, used[move]])
        number = make_move(
            *(move, now, fresh, n, clocks, keys, slots, arrivals, began, sizes, numbers),
            *(work, used, sums, bins, room, bits),
        )
        if recorded:
            when[done] = now
            what[done] = np.int16(move)
            whose[done] = number
        done += 1
        if gone:
            place -= units[move - classes]
            present -= 1
            remaining -= 1
        else:
            place += units[move]
            present += 1
            fresh += 1
            if used[move] == block or n[move] == most:
                break
    return -1, fresh, now, done, remaining


@njit_norefs
def remember(
    states: Floats, row: Int, n: Ints, widths: Floats, curves: Floats, offsets: Ints, points: Floats
) -> None:
    """Write the row of a state of which the widths are known."""
    classes, i = n.size, 0
    while i < classes:
        z = widths[i] if n[i] > 0 else 0.0
        states[row, i] = n[i]
        states[row, classes + i] = speed(curves, offsets, points, i, z)
        states[row, 2 * classes + i] = z
        i += 1


@njit(cache=True, nogil=True, error_model="numpy")
def level_walk(
    levels: tuple[Floats, Ints, Ints, Ints, Floats, Floats, Floats, Ints, Ints],
    cores: float,
    curves: tuple[Floats, Ints, Floats],
    memory: tuple[Floats, Ints, Floats],
    jobs: Jobs,
    source: Source,
    seen: Seen,
    record: Summarised,
    counted: Counted,
    order: Order,
    named: Int,
    clock: float,
    until: float,
    events: Int,
    departures: Int,
) -> tuple[Int, float, Int, Int]:
    """Do as `known_walk` under a water-level policy, which is asked in states that are not remembered."""
    steps, pieces, ranks, first, at, tails, nodes, owner, rows = levels
    kinds, offsets, points = curves
    n, (states, _, level) = jobs[0], memory
    sums, widths = np.zeros(5), np.zeros(n.size)
    fresh, now, remaining = named, clock, departures
    done: Int = np.int64(0)  # no literal: the walk would be compiled once more for it
    while True:
        row, fresh, now, done, remaining = known_walk(
            memory, jobs, source, seen, record, counted, order, fresh, now, until, done, events, remaining
        )
        if row < 0:
            return fresh, now, done, remaining
        restart(steps, ranks, first, owner, n, sums, level)
        find_level(steps, ranks, first, at, rows, owner, tails, nodes, n, n.sum(), cores, sums, level)
        for i in range(n.size):
            if n[i] > 0:
                widths[i] = width(steps, pieces, tails, nodes, level, i)
        remember(states, row, n, widths, kinds, offsets, points)


@njit(cache=True, nogil=True, error_model="numpy")
def fitted_walk(
    rule: tuple[Floats, Floats, Floats, Floats, Floats, Floats, Floats, Floats, Floats],
    single: tuple[Floats, Floats, Floats],
    cores: float,
    curves: tuple[Floats, Ints, Floats],
    memory: tuple[Floats, Ints, Floats],
    jobs: Jobs,
    source: Source,
    seen: Seen,
    record: Summarised,
    counted: Counted,
    order: Order,
    named: Int,
    clock: float,
    until: float,
    events: Int,
    departures: Int,
) -> tuple[Int, float, Int, Int]:
    """Do as `level_walk` under a policy by fitted values; see `corewise.simulation.tableless.fitted`."""
    guards, forms, own, functions, slopes, products, tails, pieces, nodes = rule
    one_tails, one_pieces, one_nodes = single
    kinds, offsets, points = curves
    n, (states, _, level) = jobs[0], memory
    classes = n.size
    offers, starts, held, widths = np.zeros(classes), np.ones(classes), np.zeros(classes), np.zeros(classes)
    fresh, now, remaining = named, clock, departures
    done: Int = np.int64(0)  # no literal: the walk would be compiled once more for it
    while True:
        row, fresh, now, done, remaining = known_walk(
            memory, jobs, source, seen, record, counted, order, fresh, now, until, done, events, remaining
        )
        if row < 0:
            return fresh, now, done, remaining
        fitted_widths(
            *(guards, forms, own, functions, slopes, products, tails, pieces, nodes),
            *(one_tails, one_pieces, one_nodes, cores, n, offers, starts, held, level, widths),
        )
        remember(states, row, n, widths, kinds, offsets, points)
