"""Where jobs come from: drawn from the laws of a system, or a table of them as they were recorded.

Every class has two random streams of its own, one for the times between arrivals and one for sizes, and
draws from them in blocks of a fixed size. So the jobs of a seed are the same under every policy, and on every
machine: nothing is drawn but for jobs, in their order.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np

from corewise.kit.arrays import Floats
from corewise.model.system import System
from corewise.simulation.loops._kernels.jobs import Source
from corewise.simulation.state import State
from corewise.simulation.trace import Trace

__all__ = ["JobSource", "RandomJobs", "RecordedJobs"]

_BLOCK = 4096


class JobSource(ABC):
    """Source of jobs: when the next ones of each class come, and how large they are.

    Attributes
    ----------
    arrays : tuple of ndarray
        Arrival times and sizes, a row a class, and how many of each row are used up.
    """

    arrays: Source

    @property
    def next_arrivals(self) -> Floats:
        """When the next job of each class comes."""
        at, _, used = self.arrays
        return at[np.arange(used.size), used]

    @abstractmethod
    def refill(self) -> None:
        """Go on where a row is used up."""

    @abstractmethod
    def sizes(self, i: int, count: int) -> Floats:
        """Return sizes for jobs of class i of which nothing is known; jobs to come do not depend on it."""


class RandomJobs(JobSource):
    """Source of jobs drawn from the laws of a system.

    Parameters
    ----------
    system : System
        Its rates and laws; curves do not matter.
    rng : Generator
        What the streams are made from.
    start : State
        Where a path begins. If it does not say when the next jobs come, the times to the first arrivals are
        drawn like those between arrivals.
    """

    def __init__(self, system: System, rng: np.random.Generator, start: State) -> None:
        self._system = system
        seeds = np.random.SeedSequence(rng.integers(2**63, size=4).tolist())
        streams = [np.random.Generator(np.random.PCG64(seed)) for seed in seeds.spawn(2 * self._classes + 1)]
        self._gaps, self._sizes = streams[: self._classes], streams[self._classes : -1]
        self._present = streams[-1]
        self._before = [self._streams(i) for i in range(self._classes)]
        self._last = np.full(self._classes, start.time)
        self._first = np.array(start.next_arrivals or [np.nan] * self._classes)
        shape = (self._classes, _BLOCK)
        self.arrays = Source(np.empty(shape), np.empty(shape), np.zeros(self._classes, dtype=np.int64))
        for i in range(self._classes):
            self._draw(i)

    @property
    def _classes(self) -> int:
        return len(self._system.classes)

    def _streams(self, i: int) -> tuple[Any, Any]:
        return self._gaps[i].bit_generator.state, self._sizes[i].bit_generator.state

    def _draw(self, i: int) -> None:
        """Draw the next block of class i."""
        known = self._system.classes[i]
        at, work, used = self.arrays
        self._before[i] = self._streams(i)
        gaps = known.arrivals.draw(self._gaps[i], _BLOCK)
        at[i] = self._last[i] + np.cumsum(gaps) / self._system.arrival_rates[i]
        if not np.isnan(self._first[i]):
            at[i] += self._first[i] - at[i, 0]
        work[i] = known.sizes.draw(self._sizes[i], _BLOCK) / self._system.size_rates[i]
        used[i] = 0

    def refill(self) -> None:
        """Draw the next block of every class that has used up its own."""
        at, _, used = self.arrays
        for i in np.flatnonzero(used == _BLOCK).tolist():
            self._last[i], self._first[i] = at[i, -1], np.nan
            self._draw(i)

    def sizes(self, i: int, count: int) -> Floats:
        """Return sizes for jobs of class i of which nothing is known."""
        return np.asarray(
            self._system.classes[i].sizes.draw(self._present, count) / self._system.size_rates[i]
        )

    def snapshot(self) -> dict[str, Any]:
        """Return where every stream was before its block, and how much of the block is used up."""
        return {
            "streams": self._before,
            "present": self._present.bit_generator.state,
            "first": [None if np.isnan(time) else time for time in self._first.tolist()],
            "last": self._last.tolist(),
            "used": self.arrays[2].tolist(),
        }

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        """Go where another source of the same system was."""
        self._last = np.array(snapshot["last"])
        self._first = np.array(snapshot["first"], dtype=np.float64)  # None becomes NaN
        self._present.bit_generator.state = snapshot["present"]
        for i, (gaps, sizes) in enumerate(snapshot["streams"]):
            self._gaps[i].bit_generator.state = gaps
            self._sizes[i].bit_generator.state = sizes
            self._draw(i)
        self.arrays[2][:] = snapshot["used"]


class RecordedJobs(JobSource):
    """Source of jobs that were recorded: exactly those, and then no more."""

    def __init__(self, system: System, trace: Trace) -> None:
        which = trace.positions(system)
        counts = np.bincount(which, minlength=len(system.classes))
        shape = (counts.size, int(counts.max(initial=0)) + 1)
        at, work = np.full(shape, np.inf), np.zeros(shape)
        for i, count in enumerate(counts.tolist()):
            at[i, :count] = trace.time[which == i]
            work[i, :count] = trace.size[which == i]
        self.arrays = Source(at, work, np.zeros(counts.size, dtype=np.int64))
        self._system = system

    def refill(self) -> None:
        """Nothing follows what was recorded: a row ends with a job that never comes."""

    def sizes(self, i: int, count: int) -> Floats:
        """Return the mean size: no law says more."""
        return np.full(count, 1.0 / self._system.size_rates[i])
