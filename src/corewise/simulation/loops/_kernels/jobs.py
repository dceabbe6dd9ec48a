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
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from corewise.kit._kernels import njit_norefs
from corewise.kit.arrays import Floats, Int, Ints
from corewise.policies.residual import FIRST_NODE, NODE_SHIFT
from corewise.simulation.loops._kernels.clocked import Curves, Tally, count_departure, count_time, speed

__all__ = [
    "BINS",
    "FIRST_BIN",
    "SHIFT",
    "Completed",
    "Counted",
    "JobPath",
    "JobRecord",
    "JobTotals",
    "Jobs",
    "Order",
    "Source",
    "States",
    "add_job",
    "count_completed",
    "known_jobs",
    "remember_speeds",
]


class Jobs(NamedTuple):
    """Jobs present: by class their number, its clock and its heap; by place in it what is known of a job."""

    n: Ints
    clocks: Floats
    keys: Floats
    slots: Ints
    arrivals: Floats
    began: Floats
    sizes: Floats
    numbers: Ints


class Source(NamedTuple):
    """Jobs to come: their arrival times and sizes, one row per class, and how many of each row are used."""

    at: Floats
    work: Floats
    used: Ints


class Completed(NamedTuple):
    """Completed jobs by class: how many, their time and their work; the bins of their times; room to work in.

    And by class and bin of size how many, and the sum of their times over their sizes; the bits of the room.
    """

    sums: Floats
    bins: Ints
    room: Floats
    ratios: Floats
    bits: Ints


class JobRecord(NamedTuple):
    """Record of events, if it has room for any: times, moves, job numbers, and the cores held before each."""

    when: Floats
    what: NDArray[np.int16]
    whose: Ints
    shares: Floats


class Counted(NamedTuple):
    """Counts by state, one row as in the memory of states; or of all states in one row, and no times."""

    moves: Ints
    times: Floats


class JobTotals(NamedTuple):
    """Totals where states are not counted: ∫ n dt by class, and a tally by width."""

    areas: Floats
    tally: Tally


class States(NamedTuple):
    """Memory of states: rows of the jobs of each class, their speeds, and from column 2K on their widths.

    A state has one row in which it may lie, ⌊Σ n_i units_i / 2^shift⌋ mod rows; −1 for the jobs of a row
    means that there is none. Over a box a row is a flat index, so every state has its own.
    """

    rows: Floats
    units: Ints
    shift: int
    mask: int


class Order(NamedTuple):
    """Order of classes by residual work, where jobs outnumber cores; m has no nodes if there is none.

    Cores; m by class and node, μ and h; room for indices; the speeds decided, and whether they are. The crowd
    are departures, job-time at one core and job-time at none, by class, in states in which jobs outnumber
    cores. There a job holds z ≤ 1 cores, which is as good as one core for a share z of the time.
    """

    cores: float
    table: Floats
    size_rates: Floats
    weights: Floats
    indices: Floats
    own: Floats
    decided: Ints
    crowd: Floats


class JobPath(NamedTuple):
    """Path of every job: all arrays that the loop keeps up."""

    jobs: Jobs
    source: Source
    completed: Completed
    record: JobRecord
    counted: Counted
    order: Order


SHIFT = 46
BINS = 64 * 128
FIRST_BIN = (1023 - 64) * 64  # the exponent of 2^-64 in 64 parts of an octave

_TIE = 1e-9
_FRACTION = (1 << NODE_SHIFT) - 1


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
def count_completed(completed: Completed, i: Int, spent: float, size: float) -> None:
    """Count a job of class i that has left after a time."""
    sums, bins, room, ratios, bits = completed
    sums[0, i] += 1.0
    sums[1, i] += spent
    sums[2, i] += size
    room[0] = spent
    bins[i, min(max((bits[0] >> SHIFT) - FIRST_BIN, 0), BINS - 1)] += 1
    if size > 0.0:
        room[0] = size
        place = min(max((bits[0] >> SHIFT) - FIRST_BIN, 0), BINS - 1)
        ratios[0, i, place] += 1.0
        ratios[1, i, place] += spent / size


@njit_norefs
def make_move(move: Int, now: float, named: Int, jobs: Jobs, source: Source, completed: Completed) -> Int:
    """Let a job come or leave, and count its time if it did both; return its number."""
    n, clocks, keys, slots, arrivals, began, sizes, numbers = jobs
    _, work, used = source
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
        count_completed(completed, i, spent, sizes[i, place])
    number: Int = numbers[i, place]
    return number


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
def order_speeds(order: Order, jobs: Jobs, speeds: Floats, row: Int, room: Floats, bits: Ints) -> None:
    """Write the speed of a job of each class if classes are served in order of h n / Σ m, a core to a job.

    Of classes that are alike the one goes first that runs faster under the policy used elsewhere, whose
    speeds are given.
    """
    cores, table, size_rates, weights, indices, own = order[:6]
    n, clocks, slots, began = jobs.n, jobs.clocks, jobs.slots, jobs.began
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


@njit_norefs
def _count_stay(
    totals: JobTotals, per_octave: int, states: Floats, row: Int, n: Ints, spent: float, crowded: bool
) -> None:
    """Add the time spent in a state to the totals, by width unless classes are served in order."""
    i = np.int64(0)
    while i < n.size:
        totals.areas[i] += n[i] * spent
        if per_octave > 0 and n[i] > 0 and not crowded:
            width = states[row, 2 * n.size + i]
            count_time(totals.tally.grid, per_octave, totals.tally.held, i, width, n[i] * spent)
        i += 1


@njit(cache=True, nogil=True, error_model="numpy")
def known_jobs(
    memory: States,
    path: JobPath,
    totals: JobTotals | None,
    named: Int,
    clock: float,
    until: float,
    event: Int,
    events: Int,
    departures: Int,
) -> tuple[Int, Int, float, Int, Int]:
    """Follow jobs while states are remembered, until a time, an event, so many departures, or a full block.

    Without totals time and moves are counted by state, for which a loop of its own is compiled. Returns the
    row of the state that is not remembered, or −1; the jobs named, the clock, the event, and how many
    departures are left.
    """
    jobs, source, completed, record, counted, order = path
    n, clocks, keys = jobs.n, jobs.clocks, jobs.keys
    at, used = source.at, source.used
    when, what, whose, shares = record
    moves, times = counted
    own, decided, crowd = order.own, order.decided, order.crowd
    states, units, shift, mask = memory
    bits, flat = completed.bits, states.reshape(-1)
    classes, most, block, columns = n.size, keys.shape[1], at.shape[1], states.shape[1]
    recorded, per_octave = when.size > 0, 0
    if totals is not None and totals.tally.grid.size > 0:
        per_octave = int(0.5 + 1.0 / math.log2(totals.tally.grid[2]))
    now, done, fresh, remaining = clock, event, named, departures
    place, moves_at = np.int64(0), np.int64(0)
    most_alone, present = order.cores if order.table.shape[1] > 0 else math.inf, n.sum()
    first = np.int64(0)  # no literal, for which kernels would be compiled once more
    for j in range(classes):
        place += n[j] * units[j]
    while remaining > 0 and done < events:
        row, i = (place >> shift) & mask, np.int64(0)
        while i < classes and states[row, i] == n[i]:
            i += 1
        if i < classes:
            return row, fresh, now, done, remaining
        speeds = row * columns + classes
        crowded = present > most_alone
        if crowded:
            if not decided[0]:
                order_speeds(order, jobs, flat, speeds, completed.room, bits)
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
        if totals is None:
            times[row] += spent
            moves_at = row * 2 * classes
        else:
            _count_stay(totals, per_octave, states, row, n, spent, crowded)
        if ends:
            return -1, fresh, until, done, remaining
        decided[0] = 0
        gone = move >= classes
        if recorded and shares.size > 0:
            for j in range(classes):
                shares[done, j] = n[j] * own[j] if crowded else np.nan
        if crowded and gone:
            crowd[0, move - classes] += 1.0
        elif totals is not None:  # noqa: SIM102  # alone, so that it is not compiled without totals
            if per_octave > 0 and gone:
                i = move - classes
                tally = totals.tally
                count_departure(tally.grid, per_octave, tally.departed, i, states[row, 2 * classes + i])
        moves[moves_at + move] += 1
        now = now + spent if gone else max(now, at[move, used[move]])
        number = make_move(move, now, fresh, jobs, source, completed)
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
def remember_speeds(states: Floats, row: Int, n: Ints, widths: Floats, curves: Curves) -> None:
    """Write the row of a state of which the widths are known."""
    rows, offsets, points = curves
    classes, i = n.size, 0
    while i < classes:
        z = widths[i] if n[i] > 0 else 0.0
        states[row, i] = n[i]
        states[row, classes + i] = speed(rows, offsets, points, i, z)
        states[row, 2 * classes + i] = z
        i += 1
