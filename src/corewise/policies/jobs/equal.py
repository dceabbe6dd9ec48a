"""Cores of single jobs under a policy of classes: equal shares within a class."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from corewise.kit.arrays import Floats, Ints
from corewise.model.system import System
from corewise.policies.jobs._kernels import knapsack
from corewise.policies.jobs.state import JobState, checked_jobs, curve_now, limits
from corewise.policies.jobs.widths import MOVED, moves
from corewise.policies.moving.share import Claim, share

__all__ = ["equal_cores", "equal_shares"]


def equal_shares(
    jobs: Iterable[JobState], system: System, cores_of: Callable[[Ints], Floats]
) -> dict[str, float]:
    """Return the share of every job of the cores that a policy gives to its class, both of shape (K, 1).

    No job holds more than it can use, or less than it needs to run: what it leaves goes to the others of its
    class; jobs that need several cores and do not get them hold none, the last listed first.
    """
    listed, classes = checked_jobs(jobs, system)
    lows, highs = limits(listed, classes, system, whole=False)
    counts = np.bincount(np.array(classes, dtype=np.int64), minlength=len(system.classes))
    cores = cores_of(counts.astype(np.int64)[:, None])[:, 0]
    tops = [np.inf if high is None else float(high) for high in highs]
    found = dict.fromkeys((job.name for job in listed), 0.0)
    for i in range(len(system.classes)):
        mine = [j for j, k in enumerate(classes) if k == i]
        while mine:
            level = _level([tops[j] for j in mine], float(cores[i]))
            short = [j for j in mine if min(level, tops[j]) < lows[j]]
            if not short:
                break
            mine.remove(short[-1])
        found |= {listed[j].name: min(level, tops[j]) for j in mine}
    return found


def _level(tops: list[float], cores: float) -> float:
    """Return the level up to which jobs are filled, none beyond its top."""
    left = cores
    for k, top in enumerate(sorted(tops)):
        level = left / (len(tops) - k)
        if level <= top:
            return level
        left -= top
    return np.inf


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
    listed, classes = checked_jobs(jobs, system)
    lows, highs = limits(listed, classes, system, whole=True)
    counts = np.bincount(np.array(classes, dtype=np.int64), minlength=len(system.classes))
    cores = cores_of(counts.astype(np.int64)[:, None])[:, 0]
    tops = [pool if high is None else min(high, pool) for high in highs]
    claims = [
        Claim(job.name, i, j, low, top)
        for j, (job, i, low, top) in enumerate(zip(listed, classes, lows, tops, strict=True))
    ]
    shares = dict(share(claims, np.rint(cores).astype(np.int64).tolist(), pool))
    if not pause or not listed:
        return {job.name: shares[job.name] for job in listed}
    values = np.full((len(listed), pool + 1), -np.inf)
    values[:, 0] = 0.0
    for j, (job, i) in enumerate(zip(listed, classes, strict=True)):
        allowed = slice(lows[j], tops[j] + 1)
        speeds = job.speeds if job.speeds is not None else curve_now(job, system.classes[i]).table(pool)
        target = max(shares[job.name], lows[j])
        values[j, allowed] = np.minimum(speeds[allowed] / max(speeds[target], 1e-300), 1.0)
        if not shares[job.name]:
            values[j, allowed] *= 0.5  # it waits if others are to
        values[j, allowed] *= np.where(
            np.arange(lows[j], tops[j] + 1) == job.held, 1.0, 1.0 - MOVED if moves(job) else 1.0
        )
    widths = np.zeros(len(listed), dtype=np.int64)
    knapsack(values, pool, widths)
    return {job.name: int(width) for job, width in zip(listed, widths, strict=True)}
