"""Cores of single jobs under a policy of classes: equal shares within a class."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from corewise.kit.arrays import Floats, Ints
from corewise.model.system import System
from corewise.policies.jobs.decision._kernels import equal as kernels
from corewise.policies.jobs.state import JobState, checked_jobs, curve_now, limits
from corewise.policies.jobs.widths import MOVED, moves

__all__ = ["equal_cores", "equal_shares"]


def equal_shares(
    jobs: Iterable[JobState], system: System, cores_of: Callable[[Ints], Floats]
) -> dict[str, float]:
    """Return the share of every job of the cores that a policy gives to its class, both of shape (K, 1).

    No job holds more than it can use, or less than it needs to run: what it leaves goes to the others of its
    class; jobs that need several cores and do not get them hold none, the last listed first.
    """
    listed, classes, lows, highs = _listed(jobs, system, whole=False)
    given = np.zeros(len(listed))
    kernels.equal_shares(classes, lows, highs, _cores(classes, system, cores_of), given)
    return dict(zip([job.name for job in listed], given.tolist(), strict=True))


def equal_cores(
    jobs: Iterable[JobState],
    system: System,
    cores_of: Callable[[Ints], Floats],
    pool: int,
    *,
    pause: float = 0.0,
) -> dict[str, int]:
    """Return whole cores of every job: those of its class shared equally, the first listed first.

    With a pause, a width other than the one held has to be worth it. A job values its speed relative to that
    at its share, no more than that, less a fifth at another width than it holds; the sum is maximised.
    """
    listed, classes, lows, highs = _listed(jobs, system, whole=True)
    given = np.zeros(len(listed))
    speeds = np.zeros((len(listed), pool + 1))
    for row, job, i in zip(speeds, listed, classes.tolist(), strict=True):
        table = job.speeds if job.speeds is not None else curve_now(job, system.classes[i]).table(pool)
        row[: table.size] = table[: pool + 1]
    held = np.array([job.held for job in listed], dtype=np.float64)
    lost = np.array([MOVED if pause and moves(job) else 0.0 for job in listed])
    cores = _cores(classes, system, cores_of)
    kernels.equal_widths(classes, np.arange(len(listed)), speeds, lows, highs, held, lost, cores, given)
    return dict(zip([job.name for job in listed], given.astype(np.int64).tolist(), strict=True))


def _listed(
    jobs: Iterable[JobState], system: System, *, whole: bool
) -> tuple[list[JobState], Ints, Floats, Floats]:
    """Return jobs with the positions of their classes, and the fewest and the most cores of each."""
    listed, classes = checked_jobs(jobs, system)
    lows, highs = limits(listed, classes, system, whole=whole)
    tops = [np.inf if high is None else high for high in highs]
    return (
        listed,
        np.array(classes, dtype=np.int64),
        np.array(lows, dtype=np.float64),
        np.array(tops, dtype=np.float64),
    )


def _cores(classes: Ints, system: System, cores_of: Callable[[Ints], Floats]) -> Floats:
    """Return the cores that a policy gives to each class for the jobs present."""
    counts = np.bincount(classes, minlength=len(system.classes)).astype(np.int64)
    return np.ascontiguousarray(cores_of(counts[:, None])[:, 0], dtype=np.float64)
