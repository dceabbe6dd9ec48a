r"""What reports of progress say of the classes of jobs: speeds by progress and cores, and sizes.

Rates, work done over time, are pooled over the jobs of a class, by quarter octaves of progress and by the
cores held. For a job at some progress a curve that may fall is fitted to them in logarithms,

    log r(z) = log r(1) − log((1 − p) + p/z + k (z − 1)),

with weights that fall with the distance in progress; what the family misses at widths that were measured is
put back, the more the more was seen there. The size of the jobs of a class is the mean of those that have
finished; before the first, twice the farthest that one was seen at.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from corewise.kit.arrays import Floats

__all__ = ["JobLearner", "PooledRates", "ProgressReport"]


@dataclass(frozen=True, slots=True)
class ProgressReport:
    """Work done by a job since its last report, on cores that did not change.

    Attributes
    ----------
    job_class, job : str
        Its class, and its name.
    cores : int
        The cores that it held.
    amount : float
        The work done, in a unit of the class.
    time : float
        How long it ran for that, without pauses.
    position : float
        All work that it has done before.
    fraction : float or None
        The fraction of its work that is done after it, if it is known.
    """

    job_class: str
    job: str
    cores: int
    amount: float
    time: float
    position: float
    fraction: float | None = None


class JobLearner(Protocol):
    """Learner of classes from reports of progress."""

    def add(self, report: ProgressReport) -> None:
        """Take in a report."""
        ...

    def finish(self, job_class: str, work: float) -> None:
        """Take in the work of a job that has finished."""
        ...

    def known(self, job_class: str) -> bool:
        """Return whether a speed of the class was measured."""
        ...

    def rates(self, job_class: str, position: float, most: int) -> Floats:
        """Return the work per time on 0, 1, … cores of a job that has done so much."""
        ...

    def size(self, job_class: str, position: float) -> float:
        """Return the work that is expected of a job in all that has done so much."""
        ...


_BINS = 4.0  # per octave of progress
_REACH = 0.5  # octaves of progress over which what was seen elsewhere counts 1/e of what was seen here
_P = np.array([0.0, 0.3, 0.5, 0.7, 0.8, 0.85, 0.9, 0.93, 0.95, 0.97, 0.98, 0.99, 0.995, 0.999])
_K = np.array([0.0, 0.0005, 0.001, 0.002, 0.004, 0.008, 0.016, 0.03, 0.06, 0.12])
_ERROR = 0.05  # of one measured rate in logarithms, and of what the family misses
_SHRINK = 0.5  # of the weight of a cell at which half of what the family misses is put back


def _family(z: Floats) -> Floats:
    """Return the logarithms of the family at widths, shape (p and k, widths)."""
    p, k = (axis.ravel()[:, None] for axis in np.meshgrid(_P, _K, indexing="ij"))
    return np.asarray(-np.log((1.0 - p) + p / z + k * (z - 1.0)))


def _prior() -> Floats:
    p, k = (axis.ravel() for axis in np.meshgrid(_P, _K, indexing="ij"))
    odds = np.log(np.maximum(p, 0.05) / np.maximum(1.0 - p, 1e-4))
    return np.asarray(0.5 * ((odds - math.log(9.0)) / 1.5) ** 2 + 0.5 * (k / 0.02) ** 2)


@dataclass(slots=True)
class _Class:
    work: dict[tuple[int, int], float] = field(default_factory=dict)
    time: dict[tuple[int, int], float] = field(default_factory=dict)
    reports: dict[tuple[int, int], int] = field(default_factory=dict)
    farthest: float = 0.0
    finished: int = 0
    total: float = 0.0
    version: int = 0
    cache: dict[tuple[int, int], tuple[int, Floats]] = field(default_factory=dict)


class PooledRates:
    """Rates pooled by class, progress and cores."""

    def __init__(self) -> None:
        self._classes: dict[str, _Class] = {}

    def add(self, report: ProgressReport) -> None:
        """Take in a report."""
        seen = self._classes.setdefault(report.job_class, _Class())
        key = (_bin(report.position + 0.5 * report.amount), report.cores)
        seen.work[key] = seen.work.get(key, 0.0) + report.amount
        seen.time[key] = seen.time.get(key, 0.0) + report.time
        seen.reports[key] = seen.reports.get(key, 0) + 1
        seen.farthest = max(seen.farthest, report.position + report.amount)
        seen.version += 1

    def finish(self, job_class: str, work: float) -> None:
        """Take in the work of a job that has finished."""
        seen = self._classes.setdefault(job_class, _Class())
        seen.finished += 1
        seen.total += work

    def known(self, job_class: str) -> bool:
        """Return whether a speed of the class was measured."""
        seen = self._classes.get(job_class)
        return seen is not None and any(work > 0.0 for work in seen.work.values())

    def size(self, job_class: str, position: float) -> float:
        """Return the work that is expected of a job in all."""
        seen = self._classes[job_class]
        size = seen.total / seen.finished if seen.finished else 2.0 * seen.farthest
        return max(size, position * 1.01)

    def rates(self, job_class: str, position: float, most: int) -> Floats:
        """Return the work per time on 0, 1, … cores."""
        seen, here = self._classes[job_class], _bin(position)
        cached = seen.cache.get((here, most))
        if cached is not None and cached[0] == seen.version:
            return cached[1]
        rates = _fitted(seen, here, most)
        seen.cache[here, most] = seen.version, rates
        return rates


def _bin(position: float) -> int:
    return math.floor(_BINS * math.log2(max(position, 1e-9)))


def _fitted(seen: _Class, here: int, most: int) -> Floats:
    keys = [key for key in seen.work if seen.work[key] > 0.0]
    bins, cores = (np.array(column, dtype=np.float64) for column in zip(*keys, strict=True))
    rates = np.log([seen.work[key] / seen.time[key] for key in keys])
    near = np.exp(-np.abs(bins - here) / (_BINS * _REACH))
    reports = np.array([seen.reports[key] for key in keys])
    weights = near * reports / (reports + 1.0)
    off = rates - _family(cores)
    level = (off @ weights) / weights.sum()
    cost = _prior() + 0.5 * ((off - level[:, None]) ** 2 @ weights) / _ERROR**2
    best = int(np.argmin(cost))
    z = np.arange(1.0, most + 1.0)
    fitted = level[best] + _family(z)[best]
    weight, missed = np.zeros(most + 1), np.zeros(most + 1)
    np.add.at(weight, cores.astype(np.int64), weights)
    np.add.at(missed, cores.astype(np.int64), weights * (off[best] - level[best]))
    fitted += (missed / (weight + _SHRINK))[1:]
    return np.append(0.0, np.exp(fitted))
