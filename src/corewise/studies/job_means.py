r"""Steady-state means by simulation of every job, for sizes and times between arrivals of any law.

Per class the mean response time is the ratio (ΣT/ΣX) · E[X] of total time to total size, times the mean size;
by Little's law the mean cost is

    Σ_i h_i (λ_i/μ_i) R_i,      R_i = ΣT_i / ΣX_i,

and its interval comes from the residuals T_ib − R_i X_ib of the batches b, added up over the classes with the
same factors: they vary far less than the number of jobs does, since a batch with larger jobs takes longer.

Batches are ten correlation times long each (`corewise.simulation.correlation`), which grows with the second
moment of sizes. If that is infinite no length is enough, and there is no interval.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from corewise.kit.arrays import Floats
from corewise.model.system import System
from corewise.policies.base import BoundPolicy
from corewise.simulation.correlation import correlation_time, excess_growth
from corewise.simulation.intervals import BATCH_TIMES, independent, ratio_interval
from corewise.simulation.loops.every_job import EveryJobLoop
from corewise.simulation.loops.sources import RandomJobs
from corewise.simulation.paths import SHARES, Manner, first_walk
from corewise.simulation.state import State

__all__ = ["JobMeans", "job_means", "least_events"]

_BATCHES = 20
_WARM_UP = 0.25


@dataclass(frozen=True, eq=False)
class JobMeans:
    """Means over a path on which every job was followed.

    Attributes
    ----------
    sums : ndarray, shape (batches, 3, K)
        How many jobs left, their total time and their total size.
    areas, spans : ndarray
        ∫ Σ h_i n_i dt and the length of each batch.
    growth : float
        How many standard deviations the work in the system grew beyond random variation.
    """

    system: System
    sums: Floats
    areas: Floats
    spans: Floats
    growth: float

    def mean(self, weights: Floats) -> float:
        """Return the mean of Σ h_i n_i."""
        _, times, sizes = self.sums.sum(axis=0)
        return float(np.sum(weights * self._work * times / sizes))

    def interval(self, weights: Floats) -> tuple[float, float]:
        """Return a 95 % confidence interval for it; NaN if no batches are independent of one another."""
        _, times, sizes = self.sums.sum(axis=0)
        residuals = self.sums[:, 1] - times / sizes * self.sums[:, 2]
        scaled = residuals @ (weights * self._work / sizes) * _BATCHES
        theta = correlation_time(self.system)
        if math.isinf(theta):
            return math.nan, math.nan
        shift = np.ones(_BATCHES)
        return ratio_interval(self.mean(weights) + scaled, shift, theta / float(self.spans.mean()))

    @property
    def _work(self) -> Floats:
        return np.asarray(self.system.arrival_rates / self.system.size_rates)

    @property
    def gain(self) -> float:
        """How many times longer a simulation would have to be if the time average were taken instead."""
        theta = correlation_time(self.system)
        if math.isinf(theta):
            return math.nan
        plain = ratio_interval(self.areas, self.spans, theta)
        low, high = self.interval(self.system.weights)
        return ((plain[1] - plain[0]) / (high - low)) ** 2

    @property
    def obstacle(self) -> str:
        """Why the interval is not to be trusted, empty if it is."""
        if not np.all(self.sums[:, 0].sum(axis=0) > 0.0):
            return "no job of some class came and left"
        if not independent(self.areas / self.spans):
            return "parts of the simulation that follow one another are alike"
        return ""


def least_events(system: System) -> float:
    """Return how many events a path must have for its batches to be about independent; zero if none has."""
    theta = correlation_time(system)
    return (
        0.0 if math.isinf(theta) else _BATCHES * BATCH_TIMES * theta * 2.0 * float(system.arrival_rates.sum())
    )


def job_means(
    system: System, policy: BoundPolicy, events: int, rng: np.random.Generator, manner: Manner = SHARES
) -> JobMeans:
    """Follow the jobs of a path of about so many events, after a warm-up of a quarter of them."""
    start = State((0,) * len(system.classes))
    walk = first_walk(system, policy, start, rng, source=RandomJobs(system, rng, start), manner=manner)
    assert isinstance(walk, EveryJobLoop)
    each = max(events // (2 * _BATCHES), 1)
    warm_up = int(_WARM_UP * _BATCHES)
    walk.run_departures([each] * (warm_up + _BATCHES), None)
    ended = np.array([walk.counts]).T
    growth = excess_growth(system, np.zeros_like(ended), ended, float(sum(walk.spans)))
    areas = np.array(walk.areas[warm_up:]) @ system.weights
    return JobMeans(
        system, np.array(walk.batch_sums[warm_up:]), areas, np.array(walk.spans[warm_up:]), growth
    )
