r"""Compiled loops over every job with cores of its own: job-index, and policies of classes.

What a policy sees of the jobs is gathered from those of the path: work attained, work left if sizes are
known, cores held, and the curve at the progress that it takes a job to have.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from corewise.kit.arrays import Floats, Int, Ints
from corewise.policies.jobs._kernels import Curves
from corewise.policies.jobs.decision._kernels.equal import equal_shares, equal_widths
from corewise.policies.jobs.decision._kernels.index import IndexRule, JobList, decide
from corewise.simulation.loops._kernels.jobs import States
from corewise.simulation.loops._kernels.widths import JOBS, WidthPath, apply_widths, settle

__all__ = ["JobView", "equal_jobs", "index_jobs"]


class JobView(NamedTuple):
    """What a policy sees of jobs.

    Attributes
    ----------
    known_sizes : bool
        Whether it sees the work before every job.
    first : ndarray of int
        The first row of each class; a row is a curve, one for each part of a job's work.
    begins : ndarray
        The fraction of a job's work at which the curve of a row begins.
    turns, rows : ndarray
        From which attained work on a job of unknown size is taken to be at which row, class by class.
    first_turns : ndarray of int
        Where those of each class begin, one more than classes.
    lows, highs : ndarray
        The fewest and the most cores of a job at each row.
    speeds : ndarray
        The speeds on whole cores of each row; of none if jobs hold shares.
    lost : ndarray
        The share of its value that a job of each class loses at a width other than the one it holds.
    """

    known_sizes: bool
    first: Ints
    begins: Floats
    turns: Floats
    rows: Ints
    first_turns: Ints
    lows: Floats
    highs: Floats
    speeds: Floats
    lost: Floats


_ROUNDING = 1e-9
"""Of a size: by so much a job may be short of where its curve changes."""


@njit(cache=True, nogil=True, error_model="numpy")
def _row(view: JobView, i: Int, attained: float, left: float) -> Int:
    """Return the row of a job of class i, by its progress or by what it has attained."""
    end: Int = view.first[i + 1]
    row: Int = view.first[i]
    if end == row + 1:
        return row
    if view.known_sizes:
        done = attained / (attained + left) + _ROUNDING if attained > 0.0 else 0.0
        while row + 1 < end and view.begins[row + 1] <= done:
            row += 1
        return row
    k = view.first_turns[i]
    while k + 1 < view.first_turns[i + 1] and view.turns[k + 1] <= attained:
        k += 1
    return np.int64(view.rows[k])


@njit(cache=True, nogil=True, error_model="numpy")
def _seen(view: JobView, path: WidthPath, now: float) -> JobList:
    """Return the jobs present as a policy sees them."""
    jobs, n = path.jobs, path.here[JOBS]
    seen = JobList(
        jobs.classes[:n].copy(),
        np.empty(n, dtype=np.int64),
        np.empty(n),
        np.empty(n),
        jobs.widths[:n].copy(),
        np.zeros(n),
        np.empty(n),
        np.empty(n),
        np.empty(n, dtype=np.bool_),
    )
    for j in range(n):
        i, left = jobs.classes[j], max(jobs.left[j], 0.0)
        attained = jobs.sizes[j] - left
        row = _row(view, i, attained, left)
        seen.kinds[j], seen.attained[j] = row, attained
        seen.remaining[j] = left if view.known_sizes else np.nan
        seen.lows[j], seen.highs[j] = view.lows[row], view.highs[row]
        seen.moves[j] = (jobs.widths[j] > 0.0 or attained > 0.0) and view.lost[i] > 0.0
        if jobs.widths[j] == 0.0:
            seen.waited[j] = now - jobs.since[j]
            if now >= jobs.since[j] + path.plant.patience:
                seen.waited[j] = max(seen.waited[j], path.plant.patience)
    return seen


@njit(cache=True, nogil=True, error_model="numpy")
def index_jobs(
    rule: IndexRule, curves: Curves, view: JobView, path: WidthPath, clock: float, until: float
) -> float:
    """Follow jobs under job-index until a time or something is used up; return the clock."""
    lost, pool = view.lost.max(), np.int64(max(view.speeds.shape[1] - 1, 0))
    while True:
        clock, due = settle(path, clock, until)
        if not due:
            return clock
        out = np.zeros(path.here[JOBS])
        if out.size > 0:
            decide(rule, curves, view.speeds, _seen(view, path, clock), lost, pool, out)
        apply_widths(path, out, clock)


@njit(cache=True, nogil=True, error_model="numpy")
def equal_jobs(
    memory: States, view: JobView, path: WidthPath, clock: float, until: float
) -> tuple[Int, float]:
    """Follow jobs under a policy of classes until a time, or something is used up, or a state is not known.

    A row of the memory has the jobs of each class, and from column 2K on the cores of each class. Returns the
    row of the state that is not remembered, or −1, and the clock.
    """
    states, units, shift, mask = memory
    classes = units.size
    counts = np.zeros(classes, dtype=np.int64)
    while True:
        clock, due = settle(path, clock, until)
        if not due:
            return np.int64(-1), clock
        n, place, i = path.here[JOBS], np.int64(0), np.int64(0)
        counts[:] = 0
        for j in range(n):
            counts[path.jobs.classes[j]] += 1
            place += units[path.jobs.classes[j]]
        row = (place >> shift) & mask
        while i < classes and states[row, i] == counts[i]:
            i += 1
        if i < classes:
            return row, clock
        cores, out = states[row, 2 * classes : 3 * classes], np.zeros(n)
        seen = _seen(view, path, clock)
        if view.speeds.size > 0:
            lost = np.where(seen.moves, view.lost[seen.classes], 0.0)
            equal_widths(
                seen.classes, seen.kinds, view.speeds, seen.lows, seen.highs, seen.held, lost, cores, out
            )
        else:
            equal_shares(seen.classes, seen.lows, seen.highs, cores, out)
        apply_widths(path, out, clock)
