r"""Compiled loop over jobs that hold whole cores and stand still for a while when these change.

After every arrival and departure a width rule says what each job is to hold. A job whose cores change stands
still for the pause of its class, but when it is given its first ones; if they change again before it has
gone on, the pause begins anew. A job that is stopped holds nothing, and pauses when it is given cores again.

Nothing is drawn here: arrivals and sizes come in blocks, made before. A loop stops when a block, the room for
jobs or the table of the policy is used up; its caller sees to that and goes on.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from corewise.kit.arrays import Bools, Floats, Int, Ints
from corewise.policies.moving._kernels import PRICE, Prices, choose_widths
from corewise.simulation.loops._kernels.jobs import Completed, Source, count_completed

__all__ = ["MovingJobs", "MovingTally", "moving_jobs"]


class MovingJobs(NamedTuple):
    """Jobs present, oldest first.

    Class, cores, whether it never held any, work left, when its pause ends, arrival, size, least and most
    cores.
    """

    classes: Ints
    widths: Ints
    fresh: Bools
    left: Floats
    until: Floats
    arrived: Floats
    sizes: Floats
    least: Ints
    most: Ints


class MovingTally(NamedTuple):
    """Job-time and departures by class and width; by class ∫ n dt, arrivals and resizes."""

    job_time: Floats
    departed: Floats
    area: Floats
    arrivals: Ints
    resizes: Ints


@njit(cache=True)
def _drop(present: MovingJobs, who: Int, n: Int) -> None:
    """Take a job out of the list, and let the younger ones move up."""
    classes, widths, fresh, left, until, arrived, sizes, least, most = present
    for j in range(who, n - 1):
        classes[j], widths[j], fresh[j] = classes[j + 1], widths[j + 1], fresh[j + 1]
        left[j], until[j], arrived[j] = left[j + 1], until[j + 1], arrived[j + 1]
        sizes[j], least[j], most[j] = sizes[j + 1], least[j + 1], most[j + 1]


@njit(cache=True)
def _next_to_leave(present: MovingJobs, n: Int, speeds: Floats, now: float) -> tuple[Int, float]:
    """Return which job leaves next if nothing changes, and the time until then; −1 if none does."""
    classes, widths, left, until = present.classes, present.widths, present.left, present.until
    who, soonest = np.int64(-1), np.inf
    for j in range(n):
        if widths[j] > 0:
            wait = max(until[j] - now, 0.0) + max(left[j], 0.0) / speeds[classes[j], widths[j]]
            if wait < soonest:
                who, soonest = np.int64(j), wait
    return who, soonest


@njit(cache=True)
def _advance(
    present: MovingJobs, n: Int, speeds: Floats, tallied: MovingTally, now: float, spent: float
) -> None:
    """Let jobs work for a while; time in which they stand still counts at no width."""
    classes, widths, left, until = present.classes, present.widths, present.left, present.until
    job_time, area = tallied.job_time, tallied.area
    for j in range(n):
        i, u = classes[j], widths[j]
        area[i] += spent
        at_work = spent - min(max(until[j] - now, 0.0), spent) if u > 0 else spent
        job_time[i, u] += at_work
        left[j] -= at_work * speeds[i, u]


@njit(cache=True)
def _resize(present: MovingJobs, n: Int, out: Ints, pauses: Floats, resizes: Ints, now: float) -> None:
    """Give jobs the cores chosen for them."""
    classes, widths, fresh, until = present.classes, present.widths, present.fresh, present.until
    for j in range(n):
        if out[j] == widths[j]:
            continue
        if fresh[j]:
            fresh[j] = False
        else:
            resizes[classes[j]] += 1
            until[j] = now + pauses[classes[j]] if out[j] > 0 else now
        widths[j] = out[j]


@njit(cache=True)
def moving_jobs(
    rule: tuple[Int, Floats, Floats, Prices],
    present: MovingJobs,
    here: Ints,
    source: Source,
    policy: tuple[Ints, Ints, Ints],
    plant: tuple[Floats, Floats, Ints, Ints],
    tallied: MovingTally,
    completed: Completed,
    clock: float,
    until: float,
    departures: Int,
) -> tuple[float, Int]:
    """Follow jobs until a time, so many departures, or something is used up.

    `here` holds how many jobs there are and whether the rule is still to be asked; `policy` the whole cores
    of each class by state, with the capacity and strides of the box; `plant` the speeds by class and width,
    the pauses, and the least and most cores of each class. Returns the clock and how many have left.
    """
    kind, believed, times, prices = rule
    classes, widths, fresh, left, paused, arrived, sizes, least, most = present
    at, work, used = source
    cores, capacity, strides = policy
    speeds, pauses, fewest, widest = plant
    departed, arrivals, resizes = tallied.departed, tallied.arrivals, tallied.resizes
    pool, block = speeds.shape[1] - 1, at.shape[1]
    now, gone = clock, np.int64(0)
    counts = np.zeros(capacity.size, dtype=np.int64)
    for j in range(here[0]):
        counts[classes[j]] += 1
    while gone < departures:
        n = here[0]
        if here[1] == 1:
            s = np.int64(0)
            for i in range(counts.size):
                if kind != PRICE and counts[i] > capacity[i]:
                    return now, gone
                s += strides[i] * min(counts[i], capacity[i])
            rest = np.maximum(paused[:n] - now, 0.0)
            jobs = (classes[:n], widths[:n], fresh[:n], rest, least[:n], most[:n])
            out = np.zeros(n, dtype=np.int64)
            choose_widths(kind, jobs, cores[:, s].copy(), believed, times, prices, pool, out)
            _resize(present, n, out, pauses, resizes, now)
            here[1] = 0
        who, spent = _next_to_leave(present, n, speeds, now)
        comes = np.int64(-1)
        for i in range(used.size):
            if used[i] == block or n == classes.size:
                return now, gone
            wait = max(at[i, used[i]] - now, 0.0)
            if wait < spent:
                comes, spent = np.int64(i), wait
        if now + spent > until:
            _advance(present, n, speeds, tallied, now, until - now)
            return until, gone
        _advance(present, n, speeds, tallied, now, spent)
        now += spent
        here[1] = 1
        if comes >= 0:
            classes[n], widths[n], fresh[n], paused[n], arrived[n] = comes, 0, True, now, now
            left[n] = sizes[n] = work[comes, used[comes]]
            least[n], most[n] = fewest[comes], widest[comes]
            arrivals[comes] += 1
            counts[comes] += 1
            used[comes] += 1
            here[0] = n + 1
            continue
        i = classes[who]
        departed[i, widths[who]] += 1.0
        counts[i] -= 1
        gone += 1
        count_completed(completed, i, now - arrived[who], sizes[who])
        _drop(present, who, n)
        here[0] = n - 1
    return now, gone
