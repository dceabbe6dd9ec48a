r"""Relaxation time: how long a path must be before its parts have forgotten one another.

Work comes in at the rate Σ λ_i/μ_i and leaves at most at the rate c. Near saturation the work in the system,
W = Σ n_i/μ_i, is a reflected Brownian motion with the drift −d, d = c − Σ λ_i/μ_i, and the variance rate
σ² = 2 Σ λ_i/μ_i². It forgets where it was at the rate d²/(2 σ²). Far from saturation the slowest thing is a
job that stays for 1/μ_i. A policy that wastes cores has less to spare, and takes longer.

Source: J. Abate, W. Whitt, *Transient behavior of regulated Brownian motion, I* (1987).
"""

from __future__ import annotations

import math

import numpy as np

from corewise.kit.arrays import Ints
from corewise.model.system import System

__all__ = ["excess_growth", "relaxation_time"]


def relaxation_time(system: System) -> float:
    """Return the relaxation time of a stable system under a policy that wastes nothing.

    >>> import corewise as cw
    >>> relaxation_time(cw.System(10, [cw.JobClass("a", 9.0, 1.0, cw.Amdahl(0.5))]))
    36.0
    """
    spare = system.cores * (1.0 - system.load)
    return max(2.0 * _variance_rate(system) / spare**2, float(1.0 / system.size_rates.min()))


def excess_growth(system: System, began: Ints, ended: Ints, span: float) -> float:
    """Return how far work grew beyond what chance does, in standard deviations.

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
    return 2.0 * float(np.sum(system.arrival_rates / system.size_rates**2))
