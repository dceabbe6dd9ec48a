r"""What a policy is worth over the region in which the parameters lie: what it must pass to be adopted.

A policy made from few departures can be far worse than EQUI, though at the estimates it looks best: they are
what it was made for. So it is held against the policy in force at the estimates and at every corner of the
region: each class a standard error below and above its estimate, with the size rate that is most likely
there. What is hard to tell apart is the curve from the size rate; their product at the widths in use is not.
It is adopted if it is better in all corners. Those of 95 % intervals are too far out: no policy passes there
for thousands of departures.

Exact where that takes seconds; else by simulations with the same jobs, at the estimates alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import numpy as np

from corewise.analysis.performance import evaluate
from corewise.analysis.reach import Reach
from corewise.errors import BoxTooLarge, NotConverged, UnstablePolicy
from corewise.estimation.estimates import Estimate
from corewise.learning.learner import SolveRequest
from corewise.model.speedup import SpeedUp
from corewise.model.system import JobClass, System
from corewise.observation.statistics import ClassStatistics, Statistics
from corewise.policies.base import Policy
from corewise.policies.equi import Equi
from corewise.simulation.simulator import simulate

__all__ = ["Gain", "corners", "gains"]

Gain = tuple[float, float, float]
"""A fraction of the mean cost: the least over the region, at the estimates, and the largest."""

_BUSIEST = 0.95  # the load at a corner
_RUNS, _DEPARTURES = 4, 20_000


def gains(asked: SolveRequest, seen: Statistics, policy: Policy, in_force: Policy) -> tuple[Gain, Gain]:
    """Return what is gained by a policy over the one in force, and over EQUI."""
    others = (in_force, Equi())
    if len(asked.system.classes) <= 3 and Reach.of(asked.system).quick:
        systems = [asked.system, *corners(asked, seen)]
        costs = np.array([[_cost(system, one) for one in (policy, *others)] for system in systems])
        shares = np.array([[_saved(row[0], row[k]) for row in costs] for k in (1, 2)])
        ends = [(float(row.min()), float(row[0]), float(row.max())) for row in shares]
        return ends[0], ends[1]
    shares = np.array(
        [[_saved(*pair) for pair in _simulated(asked.system, policy, other)] for other in others]
    )
    means, errors = shares.mean(axis=1), shares.std(axis=1, ddof=1) / math.sqrt(_RUNS)
    first, second = (
        (float(mean - 3.0 * error), float(mean), float(mean + 3.0 * error))
        for mean, error in zip(means, errors, strict=True)
    )
    return first, second


def corners(asked: SolveRequest, seen: Statistics) -> list[System]:
    """Return the systems at the corners of the region in which the parameters lie."""
    given, believed = asked.algorithm.system, asked.system
    rows = zip(believed.classes, given.classes, seen.classes, strict=True)
    ends = [
        _ends(job_class, known, asked.estimates[job_class.name], table) for job_class, known, table in rows
    ]
    found = [System(believed.cores, classes) for classes in product(*ends)]
    return [system if system.load <= _BUSIEST else system.at_load(_BUSIEST) for system in found]


def _ends(
    believed: JobClass, given: JobClass, estimate: Estimate, table: ClassStatistics
) -> Sequence[JobClass]:
    """Return a class with its curve a standard error below and above the one that is believed."""
    curve = believed.speedup
    if not curve.bounds:
        return [believed]
    made = []
    for side in (-1.0, 1.0):
        there = curve.with_parameters(**_moved(curve, estimate, side))
        rate = believed.size_rate if given.size_rate is not None else _size_rate(there, table)
        made.append(replace(believed, speedup=there, size_rate=rate or believed.size_rate))
    return made


def _moved(curve: SpeedUp, estimate: Estimate, side: float) -> dict[str, float]:
    """Return the parameters of a curve, each moved by a standard error to one side, within its range."""
    values = {}
    for name, (low, high) in curve.bounds.items():
        error = estimate.stderrs[name]
        reach = error if math.isfinite(error) else min(high - low, 1.0)
        values[name] = min(max(curve.parameters[name] + side * reach, low), high)
    return values


def _size_rate(curve: SpeedUp, table: ClassStatistics) -> float | None:
    """Return the most likely size rate with a curve; None if nobody left."""
    served = float(table.job_time @ curve.rate(table.widths))
    return table.left / served if served > 0.0 and table.left else None


def _cost(system: System, policy: Policy) -> float:
    try:
        return evaluate(system, policy).mean_cost
    except (UnstablePolicy, BoxTooLarge, NotConverged):
        return math.inf


def _saved(new: float, old: float) -> float:
    """Return by what share a cost is less than another; beyond all bounds are alike."""
    if math.isinf(new):
        return 0.0 if math.isinf(old) else -1.0
    return 1.0 if math.isinf(old) else 1.0 - new / old


def _simulated(system: System, policy: Policy, other: Policy) -> list[tuple[float, float]]:
    """Return the mean costs of two policies in some runs."""
    return [
        (
            simulate(system, policy, departures=_DEPARTURES, rng=seed).mean_cost,
            simulate(system, other, departures=_DEPARTURES, rng=seed).mean_cost,
        )
        for seed in range(_RUNS)
    ]
