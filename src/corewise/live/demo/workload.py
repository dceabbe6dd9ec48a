r"""Jobs to show a live pool with: gangs whose speed-up is emulated by sleeping.

A job of size x works in rounds of a given work. On z cores a round of work w keeps all z of them for w/s(z)
seconds, in which they sleep: two cores can play sixteen, and nothing is proved about real parallel code. What
is real is all else: the clock, arrivals, the dispatch of calls, moves of cores, what is learned and when.

The classes are those between which sharing matters most (`docs/decisions`): short ones that hardly scale,
p = 0.1, and ones four times as long that scale well, p = 0.95, as many of each, at a load of 0.7.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial

import numpy as np

from corewise.live.engines.base import Holding, Round, Rounds
from corewise.model.job_class import JobClass
from corewise.model.speedup import Amdahl, SpeedUp
from corewise.model.system import System

__all__ = ["DemoJob", "napping", "true_system", "workload"]

_CORES, _LOAD = 16, 0.7
_CURVES = {"etl": Amdahl(0.1), "training": Amdahl(0.95)}
_SIZES = {"etl": 0.25, "training": 1.0}  # in mean sizes of the longer class


@dataclass(frozen=True, slots=True)
class DemoJob:
    """Job of a demonstration.

    Attributes
    ----------
    time : float
        When it arrives, in seconds from the beginning.
    job_class : str
        Its class.
    size : float
        The seconds it takes on one core.
    """

    time: float
    job_class: str
    size: float


def true_system(mean_size: float) -> System:
    """Return the system that is played, in seconds: the longer class has jobs of so many in the mean."""
    classes = [
        JobClass(name, arrival_rate=1.0, size_rate=1.0 / (mean_size * _SIZES[name]), speedup=curve)
        for name, curve in _CURVES.items()
    ]
    return System(_CORES, classes).at_load(_LOAD)


def workload(system: System, seconds: float, rng: np.random.Generator) -> list[DemoJob]:
    """Return the jobs that arrive within so many seconds: Poisson arrivals, exponential sizes."""
    jobs = []
    for job_class in system.classes:
        assert job_class.arrival_rate is not None
        assert job_class.size_rate is not None
        count = rng.poisson(job_class.arrival_rate * seconds)
        times = rng.uniform(0.0, seconds, count).tolist()
        sizes = rng.exponential(1.0 / job_class.size_rate, count).tolist()
        jobs += [DemoJob(at, job_class.name, size) for at, size in zip(times, sizes, strict=True)]
    return sorted(jobs, key=lambda job: job.time)


def napping(job: Holding, size: float, grain: float, curve: SpeedUp) -> Rounds:
    """Work through a job by sleeping, in rounds of `grain` seconds on one core, on as many as it holds."""
    left = size
    while left > 0.0:
        work, cores = min(grain, left), job.cores
        nap = work / float(curve.rate(float(cores)))
        yield Round([partial(time.sleep, nap)] * cores, work / grain)
        left -= work
