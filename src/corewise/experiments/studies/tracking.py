"""Tracking of changes: an oracle that knows them, errors over time, and exact performance.

All of it is about a system whose curves change at known times, and have one parameter each. An estimate is in
force from the end of its window to the end of the next; errors are squared, and averaged over time.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Self

import numpy as np

from corewise.analysis.performance import evaluate
from corewise.errors import InvalidInput, UnstablePolicy
from corewise.kit import checks
from corewise.kit.arrays import Floats
from corewise.learning.algorithms import Algorithm
from corewise.learning.memories import Part
from corewise.learning.schedules import Constant, Schedule
from corewise.model.job_class import Change
from corewise.model.speedup import SpeedUp
from corewise.model.system import System, require_system
from corewise.observation.statistics import ClassStatistics, Statistics
from corewise.policies.base import Policy

__all__ = [
    "ExactAverage",
    "OracleMemory",
    "exact_mean_jobs",
    "only_parameter",
    "oracle",
    "squared_errors",
    "true_values",
    "windows_until",
]


# --- the oracle -----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class OracleMemory:
    """Memory that knows when a curve changes, and at the next check drops the statistics of that class.

    The statistics of other classes stay, and so do all arrivals: their rates do not change.

    Attributes
    ----------
    changes : tuple of Change
        The changes.
    time : float
        Time observed, from time zero.
    kept : Statistics or None
        The statistics in memory.
    """

    changes: tuple[Change, ...]
    time: float = 0.0
    kept: Statistics | None = None

    def recall(self) -> Statistics:
        """Return the statistics of each class since the first check after its last change."""
        if self.kept is None:
            raise InvalidInput("nothing has been remembered yet")
        return self.kept

    def remember(self, window: Statistics) -> Self:
        """Return the memory with that window added, and without all of a class that changed during it."""
        if not isinstance(window, Statistics):
            raise InvalidInput(f"a memory is of Statistics, such as those of a run, got {window!r}")
        seen = window if self.kept is None else self.kept + window
        now = self.time + window.time
        first, last = (bisect_right(self.changes, at, key=_time) for at in (self.time, now))
        changed = {change.name for change in self.changes[first:last]}
        if changed:
            tables = zip(seen.names, seen.classes, strict=True)
            kept = (_forgotten(table) if name in changed else table for name, table in tables)
            seen = replace(seen, classes=tuple(kept))
        return replace(self, time=now, kept=seen)

    @property
    def parts(self) -> tuple[Part, ...]:
        """The checkpoint of the memory."""
        return () if self.kept is None else (self.kept, {"time": np.array([self.time])})

    def of_parts(self, parts: tuple[Any, ...]) -> Self:
        """Return the memory of a checkpoint, its `parts`."""
        if not parts:
            return replace(self, time=0.0, kept=None)
        kept, clock = parts
        return replace(self, time=float(clock["time"][0]), kept=kept)


def _time(change: Change) -> float:
    return change.time


def _forgotten(table: ClassStatistics) -> ClassStatistics:
    """Return the arrivals alone."""
    return ClassStatistics(table.arrivals, np.empty(0), np.empty(0), np.empty(0))


def oracle(
    system: System,
    *,
    departures: int = 200,
    steps: int | None,
    policy: Policy | None = None,
    first: Policy | Mapping[str, SpeedUp] | None = None,
    inertia: float = 0.1,
) -> Algorithm:
    """Return the algorithm that knows the times of ``system.changes``, and nothing else.

    It restarts the class that changed at the first end of a window after the change. Parameters are those of
    `adaptive`, of which it is the limit.
    """
    require_system(system)
    memory = OracleMemory(system.changes)
    return Algorithm("oracle", system, Constant(departures), memory, steps, policy, first, inertia)


def windows_until(schedule: Schedule, departures: float) -> int:
    """Return the number of windows up to a number of departures."""
    k = 0
    while departures > 0.0:
        k += 1
        departures -= schedule.window(k)
    return k


# --- errors ---------------------------------------------------------------------------------------


def true_values(system: System, times: Floats) -> Floats:
    """Return the parameters in force at times of any shape; classes are the last axis but one."""
    columns = []
    for known in system.classes:
        changes = [change for change in system.changes if change.name == known.name]
        curves = [known.speedup, *(change.speedup for change in changes)]
        values = [only_parameter(known.name, curve) for curve in curves]
        regime = np.searchsorted([change.time for change in changes], times, side="right")
        columns.append(np.array(values)[regime])
    return np.stack(columns, axis=-2)


def only_parameter(name: str, curve: SpeedUp) -> float:
    """Return the parameter of the curve of a class, if there is but one."""
    values = list(curve.parameters.values())
    if len(values) != 1:
        raise InvalidInput(f"class {name!r}: {curve.family} has not one parameter, which could be tracked")
    return values[0]


def squared_errors(system: System, times: Floats, estimates: Floats) -> Floats:
    """Return the squared error of the estimates in force, averaged between successive times.

    Parameters
    ----------
    system : System
        The truth, and how it changes.
    times : ndarray
        When each estimate was made, increasing, shape (epochs,).
    estimates : ndarray
        Shape (K, epochs).

    Returns
    -------
    ndarray
        Shape (K, epochs − 1): estimate k is in force until time k + 1.
    """
    changes = np.array([change.time for change in system.changes])
    inside = changes[(changes > times[0]) & (changes < times[-1])]
    edges = np.unique(np.concatenate([times, inside]))
    which = np.searchsorted(times, edges[:-1], side="right") - 1
    parts = (estimates[:, which] - true_values(system, edges[:-1])) ** 2 * np.diff(edges)
    sums = np.stack([np.bincount(which, row, times.size - 1) for row in parts])
    return np.asarray(sums / np.diff(times))


# --- exact performance ----------------------------------------------------------------------------


class ExactAverage:
    """Exact time average of the number of jobs over a run, while policies and truths change.

    ∫ J(policy in force, truth in force) dt / T, each J by exact evaluation, without the noise of one path.
    Infinite if a policy in force is unstable.

    Parameters
    ----------
    system : System
        The truth, and how it changes.
    end : float, optional
        Time up to which the average is taken, so that runs that end at different times can be compared.
    """

    def __init__(self, system: System, end: float = math.inf) -> None:
        require_system(system)
        self._system, self._end = system, end
        self._edges = sorted({change.time for change in system.changes})
        self._policy: Policy | None = None
        self._since = self._until = self._area = 0.0

    def add(self, policy: Policy, until: float) -> None:
        """Add a policy that was in force from the end of the last one to a time."""
        if policy is not self._policy:
            self._integrate()
            self._policy = policy
        self._until = min(until, self._end)

    def _integrate(self) -> None:
        """Evaluate the last policy added, under each truth of its time."""
        if self._policy is not None:
            first, last = (bisect_right(self._edges, at) for at in (self._since, self._until))
            for begin, end in pairwise([self._since, *self._edges[first:last], self._until]):
                if end > begin:
                    self._area += (end - begin) * _mean_jobs(self._system.regime(begin), self._policy)
        self._since = self._until

    @property
    def mean_jobs(self) -> float:
        """The mean from time zero up to now."""
        self._integrate()
        if self._until <= 0.0:
            raise InvalidInput("no policy has been in force yet")
        return self._area / self._until


def exact_mean_jobs(rule: Callable[[System], Policy], system: System, end: float) -> float:
    """Return the mean number of jobs up to a time if the rule's policy for the truth is always in force."""
    average = ExactAverage(system, end)
    inside = sorted({change.time for change in system.changes if change.time < end})
    for since, until in pairwise([0.0, *inside, checks.positive(end, "end")]):
        average.add(rule(system.regime(since)), until)
    return average.mean_jobs


def _mean_jobs(truth: System, policy: Policy) -> float:
    try:
        return evaluate(truth, policy).mean_jobs
    except UnstablePolicy:
        return math.inf
