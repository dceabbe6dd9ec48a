"""A plain simulator of jobs whose sizes have any law: it follows the work that is left of every single job.

Jobs of a class share equally, so one clock a class says how much work each of its jobs has been offered, and
a job leaves when the clock shows its size more than it did when the job came. Written from that definition;
only tables of the split come from corewise.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numba import njit
from numpy.typing import NDArray

import corewise as cw
from corewise.observation.sample_path import EventKind
from corewise.policies.base import bind

Floats = NDArray[np.float64]
Law = Callable[[np.random.Generator, int], Floats]


def hyperexponential(cv2: float) -> Law:
    """Sizes that are short or long, balanced means."""
    rare = 0.5 * (1.0 - math.sqrt((cv2 - 1.0) / (cv2 + 1.0)))

    def draw(rng: np.random.Generator, n: int) -> Floats:
        share = np.where(rng.random(n) < rare, rare, 1.0 - rare)
        return rng.standard_exponential(n) / (2.0 * share)

    return draw


def lognormal(cv2: float) -> Law:
    sigma = math.sqrt(math.log1p(cv2))
    return lambda rng, n: rng.lognormal(-0.5 * sigma**2, sigma, n)


LAWS: dict[str, Law] = {
    "det": lambda _, n: np.ones(n),
    "erl4": lambda rng, n: rng.gamma(4.0, 0.25, n),
    "exp": lambda rng, n: rng.standard_exponential(n),
    "h2_4": hyperexponential(4.0),
    "logn4": lognormal(4.0),
    "weib.5": lambda rng, n: 0.5 * rng.weibull(0.5, n),
    "h2_16": hyperexponential(16.0),
    "par1.5": lambda rng, n: (1.0 + rng.pareto(1.5, n)) / 3.0,
}
"""Laws of mean one, by the names of the study they come from."""


@njit(cache=True)
def _walk(
    split: Floats,
    speed: Floats,
    gaps: Floats,
    kinds: NDArray[np.int64],
    sizes: Floats,
    departures: int,
    time: Floats,
    event: NDArray[np.int8],
    job_class: NDArray[np.int64],
    job: NDArray[np.int64],
    cores: Floats,
) -> int:
    """Write the rows of a path; `split` and `speed` have axes class, jobs of class one, jobs of class two."""
    most = split.shape[1]
    ends = np.empty((2, most))
    names = np.empty((2, most), dtype=np.int64)
    counts = np.zeros(2, dtype=np.int64)
    clock = np.zeros(2)
    now, upto, row, gone, came = 0.0, gaps[0], 0, 0, 0
    while gone < departures:
        best, who, which = upto - now, -1, -1
        for i in range(2):
            rate = speed[i, counts[0], counts[1]]
            if counts[i] == 0 or rate <= 0.0:
                continue
            k = int(np.argmin(ends[i, : counts[i]]))
            due = (ends[i, k] - clock[i]) / rate
            if due < best:
                best, who, which = due, i, k
        for i in range(2):
            clock[i] += best * speed[i, counts[0], counts[1]]
        now += best
        if who < 0:
            now = upto
            i = kinds[came]
            ends[i, counts[i]] = clock[i] + sizes[came]
            names[i, counts[i]] = came
            event[row], job_class[row], job[row] = 2, i, came
            counts[i] += 1
            came += 1
            upto += gaps[came]
            if counts[i] >= most:
                return -1
        else:
            event[row], job_class[row], job[row] = 3, who, names[who, which]
            counts[who] -= 1
            ends[who, which] = ends[who, counts[who]]
            names[who, which] = names[who, counts[who]]
            gone += 1
        time[row] = now
        cores[row, 0] = split[0, counts[0], counts[1]]
        cores[row, 1] = split[1, counts[0], counts[1]]
        row += 1
    return row


def tables(system: cw.System, policy: cw.Policy, most: int = 400) -> tuple[Floats, Floats]:
    """Cores of both classes, and the speed of one job of each, by the jobs of both."""
    counts = np.stack(np.meshgrid(np.arange(most), np.arange(most), indexing="ij"), axis=-1).reshape(-1, 2)
    split = bind(policy, system).allocate(counts).T.copy()
    width = split / np.maximum(counts.T, 1)
    speed = np.stack([one.speedup.rate(z) for one, z in zip(system.classes, width, strict=True)])
    return split.reshape(2, most, most), speed.reshape(2, most, most)


def sized_path(
    system: cw.System,
    law: Law,
    departures: int,
    rng: np.random.Generator,
    made: tuple[Floats, Floats] | None = None,
) -> cw.SamplePath:
    """The record of a system of two classes with sizes of a law, from empty until so many jobs have left."""
    split, speed = tables(system, cw.Equi()) if made is None else made
    room = departures + split.shape[1] * 2
    gaps = rng.exponential(1.0 / system.arrival_rates.sum(), room)
    kinds = (rng.random(room) * system.arrival_rates.sum() > system.arrival_rates[0]).astype(np.int64)
    sizes = law(rng, room) / system.size_rates[kinds]
    rows = 2 * room
    time, event = np.empty(rows), np.empty(rows, dtype=np.int8)
    job_class, job = np.empty((2, rows), dtype=np.int64)
    cores = np.empty((rows, 2))
    used = _walk(split, speed, gaps, kinds, sizes, departures, time, event, job_class, job, cores)
    assert used > 0, "more jobs than the tables have"
    return cw.SamplePath(
        tuple(system.names),
        system.cores,
        np.concatenate([[0.0], time[:used]]),
        np.concatenate([[EventKind.START], event[:used]]).astype(np.int8),
        np.concatenate([[-1], job_class[:used]]),
        np.concatenate([[-1], job[:used]]),
        np.concatenate([[[0.0, 0.0]], cores[:used]]),
    )
