r"""Backends of a demonstration: engines, and jobs that suit them, whose speed-up is emulated by sleeping.

A job of size x works in rounds of a given work. On z cores a round of work w keeps all z of them for w/s(z)
seconds, in which they sleep: two cores can play sixteen, and nothing is proved about real parallel code. All
else is real: the clock, arrivals, the dispatch of calls, moves of cores, what is learned and when.

The classes are those between which sharing matters most (`docs/decisions`): short ones that hardly scale,
p = 0.1, and ones four times as long that scale well, p = 0.95, as many of each, at a load of 0.7.

A round should take fifty times as long as it takes to send a call, or its cores idle; and all of it must go
on beside other work of a laptop. So each backend has its own mean size.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np

from corewise.errors import InvalidInput, nearest
from corewise.live.engines.base import Engine, Holding, Round, Rounds
from corewise.live.engines.dask import DaskEngine
from corewise.live.engines.executor import ExecutorEngine
from corewise.live.engines.ray import RayEngine
from corewise.model.job_class import JobClass
from corewise.model.speedup import Amdahl, SpeedUp
from corewise.model.system import System

__all__ = ["BACKENDS", "Backend", "DemoJob", "backend_named", "sleeping", "true_system", "workload"]

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


def sleeping(job: Holding, size: float, grain: float, curve: SpeedUp) -> Rounds:
    """Work through a job by sleeping, in rounds of `grain` seconds on one core, on as many as it holds."""
    left = size
    while left > 0.0:
        work, cores = min(grain, left), job.cores
        nap = work / float(curve.rate(float(cores)))
        yield Round([partial(time.sleep, nap)] * cores, work / grain)
        left -= work


# --- backends ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Backend:
    """Backend of a demonstration: an engine, and jobs that suit it.

    Attributes
    ----------
    name : str
        The engine.
    make : callable
        Makes one with so many cores.
    mean_size : float
        The mean size of the longer jobs, in seconds on one core.
    rounds : int
        The rounds of such a job.
    at_once : bool
        Whether the machine can carry two of them at once.
    """

    name: str
    make: Callable[[int], Engine]
    mean_size: float
    rounds: int
    at_once: bool = True

    @property
    def grain(self) -> float:
        """The work of a round, in seconds on one core."""
        return self.mean_size / self.rounds


def _threads(cores: int) -> Engine:
    return ExecutorEngine(ThreadPoolExecutor(cores, "corewise-demo"))


def _dask(cores: int) -> Engine:
    return DaskEngine(workers=1, threads=cores)


def _ray(cores: int) -> Engine:
    return RayEngine(cores=cores)


BACKENDS: Mapping[str, Backend] = {
    backend.name: backend
    for backend in (
        Backend("threads", _threads, mean_size=0.75, rounds=10),
        Backend("dask", _dask, mean_size=4.0, rounds=10),
        Backend("ray", _ray, mean_size=4.0, rounds=10, at_once=False),
    )
}
"""The backends by name."""


def backend_named(name: str) -> Backend:
    """Return a backend, or say which there are."""
    if name not in BACKENDS:
        raise InvalidInput(
            f"engine must be one of {', '.join(BACKENDS)}, got {name!r}{nearest(name, list(BACKENDS))}"
        )
    return BACKENDS[name]
