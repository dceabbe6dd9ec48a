"""Latency: what an engine takes for a round beyond its work, what a disk takes to make an event safe."""

from __future__ import annotations

import importlib.metadata
import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, ClassVar

from corewise.errors import InvalidFile, InvalidInput, nearest
from corewise.kit.files import reason_of
from corewise.kit.report import Report, Table
from corewise.live.engines.base import Engine, Gang, Holding, Rounds
from corewise.live.engines.dask import DaskEngine
from corewise.live.engines.executor import ExecutorEngine
from corewise.live.engines.ray import RayEngine
from corewise.observation.events import Event

__all__ = ["EngineHealth", "Health", "examine", "round_latency", "sync_time"]

ROUND_TO_LATENCY = 50.0
"""How many times its latency a round should last: cores are then idle for two hundredths of the time."""

_ROUNDS, _WARM_UP = 100, 10
_SYNCS, _BLOCK = 20, 4096  # bytes
_USUAL = ("threads", "processes")

_MAKE: Mapping[str, tuple[str | None, Callable[[], Engine]]] = {
    "threads": (None, lambda: ExecutorEngine(ThreadPoolExecutor(1))),
    "processes": (None, lambda: ExecutorEngine(None, 1)),
    "dask": ("distributed", lambda: DaskEngine(workers=1)),
    "ray": ("ray", lambda: RayEngine(cores=1)),
}
"""By engine, the package it needs, and how to make one with one core."""


@dataclass(frozen=True)
class EngineHealth:
    """Whether an engine is here, and how quick it is.

    Attributes
    ----------
    name : str
        The engine.
    package, version : str or None
        What it needs beyond corewise, and the version that is installed; None if it needs nothing, or if it
        is not.
    available : bool
        Whether it can be used.
    latency : float or None
        Seconds that a round takes beyond its work, in the median; None if it was not measured.
    """

    _json_fields: ClassVar = ("name", "package", "version", "available", "latency", "least_round")

    name: str
    package: str | None
    version: str | None
    latency: float | None

    @property
    def available(self) -> bool:
        """Whether it can be used."""
        return self.package is None or self.version is not None

    @property
    def least_round(self) -> float | None:
        """How many seconds a round should take at least."""
        return None if self.latency is None else ROUND_TO_LATENCY * self.latency

    def _cells(self) -> list[str]:
        """Return the row of a table: the package it needs, its latency, and how long a round should last."""
        package = "comes with Python"
        if self.package is not None:
            package = f"{self.package} {self.version or 'is not installed'}"
        if self.latency is None or self.least_round is None:
            return [self.name, package, f"--engine {self.name} tries it" if self.available else "-", "-"]
        return [self.name, package, _time(self.latency), f"{_time(self.least_round)} or more"]


@dataclass(frozen=True)
class Health:
    """What a live pool would find on this machine.

    Attributes
    ----------
    cores, usable : int
        The cores of the machine, and those that this process may use.
    engines : tuple of EngineHealth
        The engines.
    directory : str
        Where a journal would be.
    sync : float
        Seconds that its disk takes to make a block safe, in the median.
    """

    _json_fields: ClassVar = ("cores", "usable", "engines", "journal")

    cores: int
    usable: int
    engines: tuple[EngineHealth, ...]
    directory: str
    sync: float

    @property
    def journal(self) -> dict[str, object]:
        """Where a journal would be, and how long its disk takes to make a block safe."""
        return {"directory": self.directory, "sync": self.sync}

    def report(self) -> Report:
        """Return cores and disk, and a table of the engines."""
        facts = [
            ("cores", f"{self.cores}, of which this process may use {self.usable}"),
            ("journal", f"{_time(self.sync)} to make a block safe in {self.directory}"),
            (
                "rounds",
                f"should last {ROUND_TO_LATENCY:g} times as long as it takes to begin one, or cores idle",
            ),
        ]
        header = ["engine", "package", "latency", "a round should last"]
        table = Table(header, [engine._cells() for engine in self.engines], names=2)
        return Report("What a live pool finds here", facts, [table])


def _time(seconds: float) -> str:
    return f"{seconds:.2g} s" if seconds >= 1.0 else f"{1e3 * seconds:.2g} ms"


def examine(engines: Sequence[str] = (), directory: str | Path = ".") -> Health:
    """Look at the engines that are here, and measure threads, processes and whichever else is named.

    Parameters
    ----------
    engines : sequence of str, optional
        Further engines to start and measure: ``"dask"``, ``"ray"``.
    directory : path, optional
        Where a journal would be.
    """
    for name in engines:
        if name not in _MAKE:
            raise InvalidInput(
                f"engine must be one of {', '.join(_MAKE)}, got {name!r}{nearest(name, list(_MAKE))}"
            )
    sync = sync_time(directory)
    found = []
    for name, (package, make) in _MAKE.items():
        latency = round_latency(make()) if name in {*_USUAL, *engines} else None
        found.append(EngineHealth(name, package, _version(package), latency))
    cores = os.cpu_count() or 1
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else cores
    return Health(cores, usable, tuple(found), str(Path(directory).resolve()), sync)


def _version(package: str | None) -> str | None:
    if package is None:
        return None
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def round_latency(engine: Engine) -> float:
    """Return the seconds that a round takes in the median whose only call does nothing; close the engine."""
    times: list[float] = []
    holding = Holding("latency")
    job = Gang(holding, _timed_rounds(times))
    engine.start(_told)
    try:
        engine.submit(job)
        engine.set_cores(holding.name, 1)
        job.future.result()
    finally:
        engine.close()
    return median(times[_WARM_UP:])


def _timed_rounds(times: list[float]) -> Rounds:
    for _ in range(_WARM_UP + _ROUNDS):
        began = time.perf_counter()
        yield [_nothing]
        times.append(time.perf_counter() - began)


def _nothing() -> None:
    pass


def _told(kind: type[Event], *values: Any, then: Callable[[], None] | None = None) -> None:  # noqa: ARG001
    """Ignore an event, and acknowledge it at once."""
    if then is not None:
        then()


def sync_time(directory: str | Path) -> float:
    """Return the seconds that the disk under a directory takes to make a block safe, in the median."""
    times = []
    try:
        with tempfile.TemporaryFile(dir=directory, prefix="corewise-") as file:
            for _ in range(_SYNCS):
                file.write(bytes(_BLOCK))
                file.flush()
                began = time.perf_counter()
                os.fsync(file.fileno())
                times.append(time.perf_counter() - began)
    except OSError as error:
        raise InvalidFile(f"{directory}: a journal cannot be written there: {reason_of(error)}") from None
    return median(times)
