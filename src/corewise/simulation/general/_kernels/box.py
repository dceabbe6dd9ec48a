"""Compiled loop over a box of states, each with the speeds that a policy gives."""

from __future__ import annotations

import numpy as np
from numba import njit

from corewise.kit.arrays import Bools, Floats, Int, Ints
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

__all__ = ["box_walk"]


@njit(cache=True, nogil=True, error_model="numpy")
def box_walk(
    speeds: Floats,
    inside: Bools,
    strides: Ints,
    moves: Ints,
    times: Floats,
    state: Int,
    jobs: Jobs,
    source: Source,
    seen: Seen,
    record: Summarised,
    order: Order,
    named: Int,
    clock: float,
    until: float,
    events: Int,
    departures: Int,
) -> tuple[Int, float, Int, Int]:
    """Follow jobs over a box until a time, so many events or departures, or something is used up.

    `speeds` are those of a job of each class, flat, K a state; `inside` says whether a state has its speeds.
    If `order` has a table of residual work, classes are served in order where jobs outnumber cores.
    Returns the jobs named, the clock, and how many events and departures there were.
    """
    n, clocks, keys, slots, arrivals, began, sizes, numbers = jobs
    at, work, used = source
    sums, bins, room = seen
    when, what, whose, shares = record
    cores, table, size_rates, weights, indices, own, decided, crowd = order
    bits = room.view(np.int64)
    classes, most, block, recorded = n.size, keys.shape[1], at.shape[1], when.size > 0
    here, now, fresh, remaining, event = state, clock, named, departures, np.int64(0)
    most_alone = cores if table.shape[1] > 0 else np.inf
    present, first = n.sum(), np.int64(0)  # no literal, for which kernels would be compiled once more
    while remaining > 0 and event < events and inside[here]:
        row = here * classes
        crowded = present > most_alone
        if crowded:
            if not decided[0]:
                order_speeds(
                    *(cores, table, size_rates, weights, indices, own),
                    *(n, clocks, slots, began, speeds, row, room, bits),
                )
                decided[0] = 1
            move, spent = next_move(n, clocks, keys, at, used, own, first, now)
        else:
            move, spent = next_move(n, clocks, keys, at, used, speeds, row, now)
        ends = now + spent > until or move < 0
        if ends:
            spent = until - now
        if crowded:
            run_clocks(n, clocks, own, first, spent)
            count_crowd(crowd, n, own, spent)
        else:
            run_clocks(n, clocks, speeds, row, spent)
        times[here] += spent
        if ends:
            return fresh, until, event, departures - remaining
        decided[0] = 0
        moves[2 * row + move] += 1
        gone = move >= classes
        if crowded and gone:
            crowd[0, move - classes] += 1.0
        if recorded and shares.size > 0:
            for i in range(classes):
                shares[event, i] = n[i] * own[i] if crowded else np.nan
        now = now + spent if gone else max(now, at[move, used[move]])
        number = make_move(
            *(move, now, fresh, n, clocks, keys, slots, arrivals, began, sizes, numbers),
            *(work, used, sums, bins, room, bits),
        )
        if recorded:
            when[event] = now
            what[event] = np.int16(move)
            whose[event] = number
        event += 1
        if gone:
            here -= strides[move - classes]
            present -= 1
            remaining -= 1
        else:
            here += strides[move]
            present += 1
            fresh += 1
            if used[move] == block or n[move] == most:
                break
    return fresh, now, event, departures - remaining
