"""Parameters that creep, and the windows that would have followed them best, in hindsight."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from corewise.errors import InvalidInput
from corewise.estimation.likelihood import Likelihood
from corewise.estimation.search import fit_curve_to
from corewise.experiments.studies.tracking import only_parameter, squared_errors
from corewise.kit import checks
from corewise.kit.arrays import Floats
from corewise.learning.algorithms import first_curve
from corewise.model.job_class import Change, JobClass
from corewise.model.speedup import Amdahl
from corewise.model.system import System, require_system
from corewise.observation.statistics import ClassStatistics, Statistics
from corewise.simulation.randomness import random_generator

__all__ = ["FixedWindows", "fixed_windows", "random_walk"]

_SAMPLES = 8
"""In how many places a fixed window of many checks is looked at while it moves on by its own length."""

_WALK_BOUNDS = (0.05, 0.95)


def random_walk(
    system: System, *, sd: float, every: float, end: float, rng: np.random.Generator | int | None = None
) -> System:
    """Return a system in which the fraction p of every class takes a normal step now and then.

    Parameters
    ----------
    system : System
        Where it begins; all curves are Amdahl's.
    sd : float
        The standard deviation of a step; p is reflected into [0.05, 0.95].
    every, end : float
        The time from one step to the next, and when the last may be.
    rng : Generator or int, optional
        The source of randomness, or a seed for one.
    """
    fractions = system.regime(0.0).amdahl_fractions
    if fractions is None:
        raise InvalidInput("a random walk is for curves of Amdahl's law")
    checks.positive(sd, "sd")
    count = math.floor(checks.positive(end, "end") / checks.positive(every, "every"))
    steps = random_generator(rng).normal(0.0, sd, (count, len(system.classes)))
    low, high = _WALK_BOUNDS
    # A walk that is not bounded, folded at both ends.
    away = np.mod(fractions - low + np.cumsum(steps, axis=0), 2.0 * (high - low))
    values = low + np.minimum(away, 2.0 * (high - low) - away)
    changes = [
        Change(every * (j + 1), name, Amdahl(p))
        for j, row in enumerate(values.tolist())
        for name, p in zip(system.names, row, strict=True)
    ]
    return System(system.cores, system.regime(0.0).classes, changes)


@dataclass(frozen=True, eq=False)
class FixedWindows:
    """Estimates from sliding windows of a fixed number of checks, and how far off they were.

    Attributes
    ----------
    lengths : ndarray
        In checks, shape (L,).
    errors : ndarray
        The squared error, averaged over time, shape (L, K).
    """

    lengths: Floats
    errors: Floats

    @property
    def best(self) -> Floats:
        """The error of the window that turned out best for each class, shape (K,)."""
        return np.asarray(self.errors.min(axis=0))

    @property
    def best_lengths(self) -> Floats:
        """The length of the window that turned out best for each class, shape (K,)."""
        return np.asarray(self.lengths[self.errors.argmin(axis=0)])


def fixed_windows(checks_seen: Sequence[Statistics], system: System) -> FixedWindows:
    """Return how sliding windows of 1, 2, 3, 4, 6, 8, 12, … checks would have followed the truth.

    Parameters
    ----------
    checks_seen : sequence of Statistics
        What was seen between successive checks, from time zero on.
    system : System
        The truth, and how it changes.

    Notes
    -----
    Before there are enough checks a window has all there are. A window moves on check by check, and has its
    estimate at each; of more than eight checks, the error is averaged over every so many positions that there
    are eight of them in a window's length: what lies between is nearly the same.
    """
    require_system(system)
    if len(checks_seen) < 2:
        raise InvalidInput(f"at least two checks are needed, got {len(checks_seen)}")
    times = np.cumsum([window.time for window in checks_seen])
    lengths: list[int] = []
    errors: list[list[float]] = []
    for i, known in enumerate(system.classes):
        found = []
        for length, tables in _sliding([window.classes[i] for window in checks_seen]):
            at = np.arange(0, times.size - 1, max(1, length // _SAMPLES))
            values = np.full((1, times.size), np.nan)
            values[0, at] = _estimates([tables[k] for k in at.tolist()], known)
            own = System(system.cores, [known], [row for row in system.changes if row.name == known.name])
            spans = np.diff(times)[at]
            found.append(float(squared_errors(own, times, values)[0, at] @ spans / spans.sum()))
            if i == 0:
                lengths.append(length)
        errors.append(found)
    return FixedWindows(np.array(lengths), np.array(errors).T)


def _sliding(tables: Sequence[ClassStatistics]) -> Iterator[tuple[int, Sequence[ClassStatistics]]]:
    """Yield the sums over the last 1, 2, 3, 4, 6, 8, 12, … tables up to each, or all if there are fewer."""
    single, length = tables, 1
    yield length, single
    while 2 * length <= len(tables):
        double = _lengthened(single, single, length)
        yield 2 * length, double
        if 3 * length <= len(tables):
            yield 3 * length, _lengthened(double, single, 2 * length)
        single, length = double, 2 * length


def _lengthened(
    sums: Sequence[ClassStatistics], earlier: Sequence[ClassStatistics], length: int
) -> list[ClassStatistics]:
    """Return the sums over the last `length` tables, with what was `earlier` than that added to each."""
    later = zip(earlier, sums[length:], strict=False)
    return [*sums[:length], *(ClassStatistics.total(pair) for pair in later)]


def _estimates(tables: Sequence[ClassStatistics], known: JobClass) -> list[float]:
    """Return the estimate from each table; where it says nothing, the last one stays."""
    value, found = only_parameter(known.name, first_curve(known.speedup)), []
    for table in tables:
        if table.left and np.any(table.widths > 1.0):
            value = float(fit_curve_to(Likelihood(table, known.speedup, known.size_rate)).parameters[0])
        found.append(value)
    return found
