r"""Compiled parts of loops that follow every job, for sizes of any law.

Jobs of a class share its cores equally, so all of them are offered the same work: one *clock* V_i a class,
which runs at the speed s_i of its jobs. A job that comes when the clock shows V leaves when it shows V plus
its size, and the next to leave is on top of the class's *heap*. In a state with speeds s,

    dt = min( (top of heap i − V_i) / s_i,  time to the next arrival ),      V_i += s_i dt,

so an event takes K steps and the depth of a heap. A clock is set back to zero when a class was empty, and to
the finish of whoever leaves, exactly: differences of large numbers never arise.

Nothing is drawn here: arrivals and sizes come in blocks, made before. A loop stops when a block or the room
of a heap is used up, or the state is not known yet; its caller sees to that and goes on, and the path does
not depend on it.

The room of a class has the jobs' places: `keys` and `slots` are the heap, and beyond its end `slots` holds
the free places. Response times are counted in bins of 1/64 octave, which are read off the bits of the number.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from corewise.kit._kernels import njit_norefs
from corewise.kit.arrays import Floats, Int, Ints

__all__ = [
    "BINS",
    "FIRST_BIN",
    "SHIFT",
    "Jobs",
    "Seen",
    "Source",
    "Summarised",
    "add_job",
    "make_move",
    "next_move",
    "run_clocks",
]

Jobs = tuple[Ints, Floats, Floats, Ints, Floats, Floats, Floats, Ints]
"""By class: how many, the clock, the heap (keys, slots), and by place arrival, clock then, size, number."""

Source = tuple[Floats, Floats, Ints]
"""Arrival times and sizes to come, a row a class, and how many of each row are used up."""

Seen = tuple[Floats, Ints, Floats]
"""Of those who came and left: how many, their time and their work; the bins of their times; room to work."""

Summarised = tuple[Floats, NDArray[np.int16], Ints, Floats]
"""Times, moves and job numbers of events, if there is room for any, and the cores held before each."""

SHIFT = 46
BINS = 64 * 128
FIRST_BIN = (1023 - 64) * 64  # the exponent of 2^-64 in 64 parts of an octave


@njit_norefs
def _push(keys: Floats, slots: Ints, i: Int, n: Int, key: float) -> Int:
    """Put a key on the heap of class i, which has n; return the place of its job."""
    place: Int = slots[i, n]
    k = n
    while k > 0:
        above = (k - 1) >> 1
        if keys[i, above] <= key:
            break
        keys[i, k] = keys[i, above]
        slots[i, k] = slots[i, above]
        k = above
    keys[i, k] = key
    slots[i, k] = place
    return place


@njit_norefs
def _pop(keys: Floats, slots: Ints, i: Int, n: Int) -> None:
    """Take the top off the heap of class i, which has n; its place is free."""
    free, last = slots[i, 0], n - 1
    key, place, k = keys[i, last], slots[i, last], np.int64(0)
    below = np.int64(1)
    while below < last:
        if below + 1 < last and keys[i, below + 1] < keys[i, below]:
            below += 1
        if keys[i, below] >= key:
            break
        keys[i, k] = keys[i, below]
        slots[i, k] = slots[i, below]
        k = below
        below = 2 * k + 1
    keys[i, k] = key
    slots[i, k] = place
    slots[i, last] = free


@njit_norefs
def add_job(jobs: Jobs, i: Int, size: float, attained: float, arrived: float, number: Int) -> None:
    """Add a job to class i; `arrived` is NaN if it came before the path began."""
    n, clocks, keys, slots, arrivals, began, sizes, numbers = jobs
    if n[i] == 0:
        clocks[i] = 0.0
    place = _push(keys, slots, i, n[i], clocks[i] + (size - attained))
    arrivals[i, place] = arrived
    began[i, place] = clocks[i] - attained
    sizes[i, place] = size
    numbers[i, place] = number
    n[i] += 1


@njit_norefs
def next_move(
    n: Ints,
    clocks: Floats,
    keys: Floats,
    at: Floats,
    used: Ints,
    speeds: Floats,
    row: Int,
    now: float,
) -> tuple[Int, float]:
    """Return the next move (arrivals of each class, then departures), and the time until then.

    At one instant a departure comes before an arrival, and a class before those listed after it. Nobody
    leaves who holds no cores, also not a job with no work left.
    """
    classes, move, soonest, i = n.size, np.int64(-1), math.inf, np.int64(0)
    while i < classes:
        if n[i] > 0:
            left = max(keys[i, 0] - clocks[i], 0.0)
            if left < soonest * speeds[row + i]:
                soonest = left / speeds[row + i]
                move = classes + i
        i += 1
    i = np.int64(0)
    while i < classes:
        wait = max(at[i, used[i]] - now, 0.0)
        if wait < soonest:
            soonest, move = wait, i
        i += 1
    return move, soonest


@njit_norefs
def run_clocks(n: Ints, clocks: Floats, speeds: Floats, row: Int, spent: float) -> None:
    i = np.int64(0)
    while i < n.size:
        if n[i] > 0:
            clocks[i] += spent * speeds[row + i]
        i += 1


@njit_norefs
def make_move(
    move: Int,
    now: float,
    named: Int,
    n: Ints,
    clocks: Floats,
    keys: Floats,
    slots: Ints,
    arrivals: Floats,
    began: Floats,
    sizes: Floats,
    numbers: Ints,
    work: Floats,
    used: Ints,
    sums: Floats,
    bins: Ints,
    room: Floats,
    bits: Ints,
) -> Int:
    """Let a job come or leave, and count its time if it did both; return its number."""
    classes = n.size
    if move < classes:
        i = move
        if n[i] == 0:
            clocks[i] = 0.0
        size = work[i, used[i]]
        place = _push(keys, slots, i, n[i], clocks[i] + size)
        arrivals[i, place] = now
        began[i, place] = clocks[i]
        sizes[i, place] = size
        numbers[i, place] = named
        used[i] += 1
        n[i] += 1
        return named
    i = move - classes
    place = slots[i, 0]
    clocks[i] = keys[i, 0]
    _pop(keys, slots, i, n[i])
    n[i] -= 1
    spent = now - arrivals[i, place]
    if spent >= 0.0:  # not NaN
        sums[0, i] += 1.0
        sums[1, i] += spent
        sums[2, i] += sizes[i, place]
        room[0] = spent
        bins[i, min(max((bits[0] >> SHIFT) - FIRST_BIN, 0), BINS - 1)] += 1
    number: Int = numbers[i, place]
    return number
