"""Engines to show a live pool with, and how long a job and a round should be on each.

A round should take fifty times as long as it takes to send a call, or its cores idle; and all of it must go
on beside whatever else a laptop has to do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from corewise.errors import InvalidInput, nearest
from corewise.live.engines.base import Engine
from corewise.live.engines.dask import DaskEngine
from corewise.live.engines.executor import ExecutorEngine
from corewise.live.engines.ray import RayEngine

__all__ = ["STAGES", "Stage", "stage_named"]


@dataclass(frozen=True)
class Stage:
    """Stage of a demonstration: an engine, and jobs that suit it.

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


STAGES: Mapping[str, Stage] = {
    stage.name: stage
    for stage in (
        Stage("threads", _threads, mean_size=0.75, rounds=10),
        Stage("dask", _dask, mean_size=4.0, rounds=10),
        Stage("ray", _ray, mean_size=4.0, rounds=10, at_once=False),
    )
}
"""The stages by name."""


def stage_named(name: str) -> Stage:
    """Return a stage, or say which there are."""
    if name not in STAGES:
        raise InvalidInput(
            f"engine must be one of {', '.join(STAGES)}, got {name!r}{nearest(name, list(STAGES))}"
        )
    return STAGES[name]
