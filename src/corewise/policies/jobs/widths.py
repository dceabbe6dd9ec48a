r"""Whole cores of single jobs: the widths with the largest weighted speed, where moves cost a pause.

A job of weight w on u cores is worth w s(u) per unit of time; s is a table of whole cores that need not be
concave or rise. At a width other than the one it holds it stands still for a pause first, which over a
horizon of five pauses takes a fifth off that value: so a job is resized only for what is worth it, shrinking
as well as growing. The widths of the largest total within the pool are a knapsack, solved exactly for few
jobs or cores; beyond that greedily on concave majorants, with a repair.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from corewise.kit.arrays import Floats, Ints
from corewise.policies.jobs._kernels import greedy_widths, knapsack
from corewise.policies.jobs.state import JobState

__all__ = ["HORIZON", "MOVED", "best_widths", "moves"]

HORIZON = 5.0
"""Pauses over which the cost of one is spread."""

MOVED = 1.0 / HORIZON
"""The share of its value that a job loses at a width other than the one it holds."""

_EXACT_JOBS, _EXACT_CORES = 20, 64
"""Up to so many jobs, or so many cores, the knapsack is solved exactly."""

_FIRST = 1e6
"""What a core is worth to a job that has waited too long, over all that the others could gain."""


def moves(job: JobState) -> bool:
    """Return whether it costs the job a pause to take cores: a job that never held any starts for free."""
    return job.held > 0 or job.attained > 0.0


def best_widths(
    jobs: Sequence[JobState],
    weights: Floats,
    speeds: Floats,
    lows: Sequence[int],
    caps: Sequence[int],
    pool: int,
    *,
    pause: float,
    overdue: Sequence[int] = (),
) -> Ints:
    """Return the whole cores of every job.

    Parameters
    ----------
    jobs : sequence of JobState
        The jobs.
    weights : ndarray
        What a unit of work of each is worth.
    speeds : ndarray, shape (jobs, widths)
        The speed of each on 0, 1, 2, … cores.
    lows, caps : sequence of int
        The fewest and the most cores of each; it may also hold none.
    pool : int
        The cores there are.
    pause : float
        How long a job stands still whose cores change.
    overdue : sequence of int, optional
        Positions of jobs that come first, on their fewest cores at least.
    """
    columns = np.arange(speeds.shape[1])
    values = weights[:, None] * speeds
    if pause:
        held = np.array([job.held for job in jobs])
        moved = np.array([moves(job) for job in jobs])
        values[(columns != held[:, None]) & moved[:, None]] *= 1.0 - MOVED
    low, cap = np.asarray(lows)[:, None], np.asarray(caps)[:, None]
    if len(overdue):
        most = float(np.abs(values).max()) * len(jobs)
        values[list(overdue), 1:] += _FIRST * max(most, 1.0)
    values[(columns < low) | (columns > cap)] = -np.inf
    values[:, 0] = 0.0
    widths = np.zeros(len(jobs), dtype=np.int64)
    exact = len(jobs) < _EXACT_JOBS or pool <= _EXACT_CORES
    (knapsack if exact else greedy_widths)(values, pool, widths)
    return widths
