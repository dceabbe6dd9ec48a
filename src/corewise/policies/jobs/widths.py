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
from corewise.policies.jobs.decision._kernels.index import widths_of_most_value
from corewise.policies.jobs.state import JobState

__all__ = ["HORIZON", "MOVED", "best_widths", "moves"]

HORIZON = 5.0
"""Pauses over which the cost of one is spread."""

MOVED = 1.0 / HORIZON
"""The share of its value that a job loses at a width other than the one it holds."""


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
    lost = np.array([MOVED if pause and moves(job) else 0.0 for job in jobs])
    held = np.array([job.held for job in jobs], dtype=np.float64)
    widths = np.zeros(len(jobs), dtype=np.int64)
    limits = np.array(lows, dtype=np.float64), np.array(caps, dtype=np.float64)
    first = np.array(overdue, dtype=np.int64)
    widths_of_most_value(
        speeds,
        np.arange(len(jobs)),
        weights,
        held,
        lost,
        *limits,
        first,
        min(pool, speeds.shape[1] - 1),
        widths,
    )
    return widths
