r"""Correlation time: how long a path must be before its parts have forgotten one another.

The number of jobs N is correlated over a time θ = ∫ corr(N(0), N(t)) dt. Two things make it long.

- *Near saturation* the work in the system, W = Σ n_i/μ_i, is a reflected Brownian motion with the drift −d,
  d = c − Σ λ_i/μ_i, and the variance rate σ² = 2 Σ λ_i/μ_i²: it is correlated over σ²/d².
- *Below it* the counts swing about the point where as many jobs leave as come. With z cores for every job,
  n_i = λ_i/(μ_i s_i(z)) and Σ n_i z = c; a deviation there decays at the rate x that solves

      Σ_i (n_i/N) μ_i z s_i′(z) / (μ_i s_i(z) − x) = 1,     0 ≤ x < min μ_i s_i(z),

  the slowest of the linearised rates under EQUI.

For one class under EQUI the longer of the two is within a quarter of θ. A policy that wastes cores has less
to spare, and takes longer.

For sizes of another law σ² = Σ λ_i (cv_i² + a_i²)/μ_i², with cv² of the sizes and a² of the times between
arrivals. A job that is found present is larger than others, by (1 + cv²)/2 in the mean, and so much longer do
counts take to come back. Where a variance is infinite so is θ: no two parts of a path are independent.

Source: J. Abate, W. Whitt, *Transient behavior of regulated Brownian motion, I* (1987).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np

from corewise.kit.arrays import Floats, Ints
from corewise.model.system import System

__all__ = ["correlation_time", "excess_growth"]

_HALVINGS = 40


def correlation_time(system: System) -> float:
    """Return about how long the number of jobs in a stable system is correlated.

    >>> import corewise as cw
    >>> correlation_time(cw.System(10, [cw.JobClass("a", 9.0, 1.0, cw.Amdahl(0.5))]))
    18.0
    """
    try:
        return _remembered(system)  # a thousand runs of one system ask for it a thousand times
    except TypeError:  # a curve of a user's own need not have a hash
        return _remembered.__wrapped__(system)


@lru_cache(maxsize=64)
def _remembered(system: System) -> float:
    spare = system.cores * (1.0 - system.load)
    longest = max((1.0 + job_class.sizes.cv2) / 2.0 for job_class in system.classes)
    return max(_variance_rate(system) / spare**2, max(longest, 1.0) * _swing_time(system))


def excess_growth(system: System, began: Ints, ended: Ints, span: float) -> float:
    """Return how far work grew beyond random variation, in standard deviations.

    A queue without drift, which is worse than any stable one, rises from zero by σ √(2 t/π) in the mean of
    many paths of length t, with a standard deviation below σ √t. So a number such as six says that the work
    has a drift upwards.

    Parameters
    ----------
    system : System
        The system.
    began, ended : ndarray of int, shape (K, paths)
        The jobs of each class at both ends of independent paths.
    span : float
        The length of each.
    """
    rises = ((ended - began) / system.size_rates[:, None]).sum(axis=0)
    unit = math.sqrt(_variance_rate(system) * span)
    return (float(rises.mean()) / unit - math.sqrt(2.0 / math.pi)) * math.sqrt(rises.size)


def _variance_rate(system: System) -> float:
    spread = np.array([job_class.sizes.cv2 + job_class.arrivals.cv2 for job_class in system.classes])
    return float(np.sum(spread * system.arrival_rates / system.size_rates**2))


def _swing_time(system: System) -> float:
    """Return how long counts below saturation take to come back to where as many jobs leave as come."""
    work, curves = system.arrival_rates / system.size_rates, [one.curve for one in system.classes]

    def speeds(width: float) -> Floats:
        return np.array([float(curve.rate(width)) for curve in curves])

    cores = max(system.cores, 1.0)
    width = _crossing(lambda z: z * float(np.sum(work / speeds(z))) - system.cores, 1.0, cores)
    leaving = system.size_rates * speeds(width)
    if width >= cores * (1.0 - 1e-9):  # hardly ever more than a job at a time
        return float(1.0 / leaving.min())
    step = 1e-6 * width
    slopes = (speeds(width + step) - speeds(width)) / step
    shares = system.arrival_rates / leaving
    pull = shares / shares.sum() * system.size_rates * width * slopes
    slowest = float(leaving.min())
    back = _crossing(lambda x: float(np.sum(pull / (leaving - x))) - 1.0, 0.0, slowest * (1.0 - 1e-12))
    return 1.0 / max(back, 1e-12 * slowest)


def _crossing(rises: Callable[[float], float], low: float, high: float) -> float:
    """Return where an increasing function passes zero, or the upper end if it does not.

    To a few digits, which does; `scipy.optimize` takes half a second to import.
    """
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if rises(middle) > 0.0 else (middle, high)
    return high
