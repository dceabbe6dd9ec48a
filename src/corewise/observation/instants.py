"""Rows of one instant: they happen together, so a log may have them in any order.

A log is read in its own order if that is possible. If it is not, the rows of every instant are put in the
order in which they can happen: those that open the observation, then arrivals, resizes, departures and
cancellations, and the end last. If cores are those of classes, jobs that were there before leave before
others arrive, and the totals of the last row are what the instant leaves behind; totals on the way to it are
held for no time, and a class that is empty in passing holds none.
"""

from __future__ import annotations

import numpy as np

from corewise.kit.arrays import Bools, Floats, Ints
from corewise.observation.rows import NOBODY, STEPS, Columns, Event, Fault, find_faults, most_cores

__all__ = ["settled"]

_RANKS = np.array([0, 1, 3, 5, 4, 6, 5])
"""The place of each `Event` within an instant."""

_FIRST_TO_LEAVE = 2
"""The place at which jobs that were there before leave, if cores are those of classes."""


def settled(columns: Columns) -> tuple[Columns, Ints]:
    """Return the rows of every instant in an order that is possible, and which row each one was.

    Instants that are impossible in that order stay as they are.
    """
    instant = np.concatenate([[0], np.cumsum(columns.time[1:] != columns.time[:-1])])
    ordered, _ = _in_order(columns, instant, np.ones(instant[-1] + 1, dtype=np.bool_))
    _, faults = find_faults(ordered, lenient=True)
    return _in_order(columns, instant, np.bincount(instant, faults != Fault.NONE) == 0)


def _in_order(columns: Columns, instant: Ints, chosen: Bools) -> tuple[Columns, Ints]:
    """Return the rows with some instants in the order of ranks, and which row each one was."""
    rank = np.where(chosen[instant], _ranks(columns, instant), 0)
    order = np.lexsort((rank, instant))
    names, pool, time, event, job_class, job, cores = columns
    moved = Columns(names, pool, time, event[order], job_class[order], job[order], cores[order])
    if cores.ndim == 2:
        in_itself = np.all(moved.cores >= 0.0, axis=1) & (moved.cores.sum(axis=1) <= most_cores(pool))
        rows = np.flatnonzero(chosen[instant] & in_itself)  # what is wrong in itself stays so
        moved.cores[rows] = _totals(columns, moved, instant, rank[order])[rows]
    return moved, order


def _ranks(columns: Columns, instant: Ints) -> Ints:
    """Return the place of every row within its instant."""
    rank = _RANKS[columns.event]
    if columns.cores.ndim == 2:
        leaves = np.flatnonzero(STEPS[columns.event] < 0)
        rank[leaves[~_only_came_now(columns, instant, leaves)]] = _FIRST_TO_LEAVE
    return rank


def _only_came_now(columns: Columns, instant: Ints, leaves: Ints) -> Bools:
    """Return which of the rows at which jobs leave are of jobs that arrive in the same instant.

    Jobs without a name leave in the order of their arrival: those that were there before go first.
    """
    known, number = np.unique(columns.job, return_inverse=True)
    arrives = columns.event == Event.ARRIVAL
    came = np.full(known.size, -1)
    came[number[arrives]] = instant[arrives]
    found: Bools = came[number[leaves]] == instant[leaves]
    nameless = columns.job[leaves] == NOBODY
    if np.any(nameless):
        first = np.searchsorted(instant, instant[leaves])  # row of each one's instant
        for i in range(len(columns.names)):
            own = np.where(columns.job_class == i, STEPS[columns.event], 0)
            there = np.concatenate([[0], np.cumsum(own)])
            left = np.concatenate([[0], np.cumsum(own < 0)])
            mine = nameless & (columns.job_class[leaves] == i)
            nth = left[leaves[mine] + 1] - left[first[mine]]
            found[mine] = nth > there[first[mine]]
    return found


def _totals(columns: Columns, moved: Columns, instant: Ints, rank: Ints) -> Floats:
    """Return the cores of every class after each moved row: the last totals of its instant in the file.

    Before the last of its jobs from before has left, the totals are still those before the instant. A class
    that is empty in passing holds none; what the instant leaves behind is not touched.
    """
    ends = np.flatnonzero(np.diff(instant, append=instant[-1] + 1))
    says = np.where(columns.event != Event.END, np.arange(instant.size), -1)
    last = np.maximum.accumulate(says)[ends]
    totals = columns.cores[np.where(instant[last] == instant[ends], last, ends)]
    passing = np.ones(instant.size, dtype=np.bool_)
    passing[ends] = False
    still = passing & (rank == _FIRST_TO_LEAVE) & (instant > 0)
    own = moved.job_class[:, None] == np.arange(len(moved.names))
    empty = np.cumsum(np.where(own, STEPS[moved.event][:, None], 0), axis=0) == 0
    return np.where(empty & passing[:, None], 0.0, totals[instant - still])
