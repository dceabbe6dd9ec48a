r"""Compiled parts of paths without tables: speeds, counts by width, and states that are remembered.

A memory of states has rows of 4K numbers: the jobs of each class, the rates of the 2K moves added up
(arrivals, then departures), and the cores of a job of each class. A state has one row in which it may lie,
found by a hash,

    row = ⌊ Σ n_i u_i ⌋ mod rows,

so the last of several that share a row is the one remembered. Nothing but speed depends on what is.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.random import Generator
from numpy.typing import NDArray

from corewise.kit._kernels import njit_norefs
from corewise.kit.arrays import Floats, Int, Ints

__all__ = [
    "FINE",
    "ChainRecord",
    "Curves",
    "Plant",
    "Tally",
    "count_departure",
    "count_time",
    "known_chain",
    "remember_rates",
    "speed",
]


AMDAHL, POWER_LAW, GUSTAFSON, USL = 0.0, 1.0, 2.0, 3.0  # as `SpeedUp.code`
NODES = 4.0  # a curve that is sampled
FINE = 20  # units of the hash are in 2^-20 rows


class Curves(NamedTuple):
    """Curves in compiled form: a row (kind, two parameters, most cores) per class; where its nodes begin."""

    rows: Floats
    offsets: Ints
    points: Floats


class Plant(NamedTuple):
    """System in compiled form: its curves and rates, and Walker's alias table of arrivals."""

    curves: Floats
    offsets: Ints
    points: Floats
    size_rates: Floats
    arrival_rates: Floats
    shares: Floats
    others: Ints


class Tally(NamedTuple):
    """Tally of departures and job-time by class and width; without a grid of widths nothing is counted."""

    grid: Floats
    departed: Floats
    held: Floats


class ChainRecord(NamedTuple):
    """Record of events, if it has room for any: their times and moves."""

    when: Floats
    what: NDArray[np.int16]


@njit_norefs
def speed(curves: Floats, offsets: Ints, points: Floats, i: Int, z: float) -> float:
    """Return s_i(z); `curves` has rows (kind, parameters, most), `points` the (z, s) of tabulated ones.

    A job is no faster on more than `most` cores: the peak of its curve, or what it can use.
    """
    kind, a, s = curves[i, 0], curves[i, 1], z
    if z > 1.0:
        held = min(z, curves[i, 3])
        if kind == AMDAHL:
            s = 1.0 / (1.0 - a + a / held)
        elif kind == POWER_LAW:
            s = math.exp(a * math.log(held))
        elif kind == GUSTAFSON:
            s = 1.0 + a * (held - 1.0)
        elif kind == USL:
            s = held / (1.0 + (held - 1.0) * (a + curves[i, 2] * held))
        else:
            low, high = offsets[i], offsets[i + 1] - 1
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (middle, high) if points[middle, 0] <= held else (low, middle)
            slope = (points[high, 1] - points[low, 1]) / (points[high, 0] - points[low, 0])
            s = points[low, 1] + slope * (min(held, points[high, 0]) - points[low, 0])
    return s


@njit_norefs
def _share(grid: Floats, per_octave: int, z: float) -> tuple[int, float]:
    """Return the node of the grid below a width, and the share of the node above it."""
    if z <= 1.0:
        return 0, z
    j = min(1 + int(math.log2(z) * per_octave), grid.size - 2)
    return j, min(max((z - grid[j]) / (grid[j + 1] - grid[j]), 0.0), 1.0)


@njit_norefs
def count_time(grid: Floats, per_octave: int, held_at: Floats, i: Int, z: float, spent: float) -> None:
    """Add the time that class-i jobs spent at a width to the two nodes about it."""
    node, upper = _share(grid, per_octave, z)
    held_at[i, node] += (1.0 - upper) * spent
    held_at[i, node + 1] += upper * spent


@njit_norefs
def count_departure(grid: Floats, per_octave: int, departed_at: Floats, i: Int, z: float) -> None:
    """Add a departure from a width to the two nodes about it.

    Up to one core, where s(z) = z, time at z cores is z times as much at one and the rest at none; all who
    leave do so at one core, since no job can leave with none.
    """
    node, upper = _share(grid, per_octave, z)
    if node == 0:
        upper = 1.0
    departed_at[i, node] += 1.0 - upper
    departed_at[i, node + 1] += upper


@njit_norefs
def remember_rates(
    seen: Floats,
    row: Int,
    n: Ints,
    widths: Floats,
    curves: Floats,
    offsets: Ints,
    points: Floats,
    size_rates: Floats,
    arrival_rates: Floats,
) -> None:
    """Write the row of a state of which the widths are known.

    No variable reaches beyond the last move that has a rate, whatever the rounding.
    """
    classes, upto, i = n.size, 0.0, np.int64(0)
    while i < classes:
        seen[row, i] = n[i]
        upto += arrival_rates[i]
        seen[row, classes + i] = upto
        i += 1
    i = np.int64(0)
    while i < classes:
        z = widths[i] if n[i] > 0 else 0.0
        upto += n[i] * size_rates[i] * speed(curves, offsets, points, i, z)
        seen[row, 2 * classes + i] = upto
        seen[row, 3 * classes + i] = z
        i += 1
    k = 3 * classes - 2
    while k >= classes and seen[row, k] >= upto:
        seen[row, k] = math.inf
        k -= 1


@njit(cache=True, nogil=True, error_model="numpy")
def known_chain(
    rng: Generator,
    seen: Floats,
    units: Ints,
    n: Ints,
    areas: Floats,
    moves: Ints,
    tally: Tally,
    record: ChainRecord,
    clock: float,
    until: float,
    event: Int,
    events: Int,
    departures: Int,
) -> tuple[Int, float, Int, Int]:
    """Draw moves while states are remembered, until a time, an event or so many departures.

    Returns the row of the state that is not remembered, or −1 at the end; the clock, the event, and how many
    departures are left. `n`, the jobs of each class, is kept up; `areas` (∫ n dt), `moves` (arrivals, then
    departures), the `tally` of departures and job-time by width (if it has a grid) and the `record` of times
    and moves (if it has room) are added to.
    """
    grid, departed_at, held_at = tally
    when, what = record
    classes, tallied, recorded = n.size, grid.size > 0, when.size > 0
    per_octave = int(0.5 + 1.0 / math.log2(grid[2])) if tallied else 0
    now, done, remaining = clock, event, departures
    mask, place = seen.shape[0] - 1, np.int64(0)
    for j in range(classes):
        place += n[j] * units[j]
    while remaining > 0 and done < events:
        row, i = (place >> FINE) & mask, np.int64(0)
        while i < classes and seen[row, i] == n[i]:
            i += 1
        if i < classes:
            return row, now, done, remaining
        total = seen[row, 3 * classes - 1]
        ahead = now + rng.standard_exponential() / total
        spent = min(ahead, until) - now
        for j in range(classes):
            areas[j] += n[j] * spent
        if tallied:
            for j in range(classes):
                if n[j] > 0:
                    count_time(grid, per_octave, held_at, j, seen[row, 3 * classes + j], n[j] * spent)
        if ahead > until:
            return -1, until, done, remaining
        now = ahead
        x, k = rng.random() * total, np.int64(0)
        for j in range(2 * classes - 1):
            k += x >= seen[row, classes + j]
        if recorded:
            when[done] = now
            what[done] = np.int16(k)
        done += 1
        moves[k] += 1
        gone = np.int64(k >= classes)
        i = k - gone * classes
        change = 1 - 2 * gone
        remaining -= gone
        if tallied and gone:
            count_departure(grid, per_octave, departed_at, i, seen[row, 3 * classes + i])
        n[i] += change
        place += change * units[i]
    return -1, now, done, remaining
