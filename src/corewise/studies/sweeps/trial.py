"""Carrying out one trial of a sweep, and the row of results it gives.

Whatever goes wrong becomes a row as well. Everything in a row but its last two columns, how long it took and
who did it, depends on the trial alone.
"""

from __future__ import annotations

import math
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from time import perf_counter
from typing import Any

import numpy as np

from corewise.analysis.performance import evaluate
from corewise.analysis.tractability import Tractability
from corewise.control.solution import Solution, solve
from corewise.errors import BoxTooLarge, CorewiseError
from corewise.kit.report import Summarised
from corewise.kit.values import ByValue
from corewise.kit.version import __version__
from corewise.learning.algorithms import ALGORITHMS, Algorithm
from corewise.learning.loop import learn
from corewise.learning.plant import SimulatedPlant
from corewise.model.system import System
from corewise.policies.base import Policy, bind, policy_named
from corewise.simulation.run import Run
from corewise.simulation.simulator import simulate
from corewise.studies.means import SimulatedMean, simulated_mean
from corewise.studies.sweeps.grid import Trial

__all__ = ["DONE", "FAILED", "SweepRow", "carry_out", "failed_row"]

DONE, FAILED = "done", "failed"

_OPTIMAL = "optimal"
_ROUNDING = 1e-12
_KEPT = 8  # policies that a worker remembers: trials that differ by their seeds come one after another


@dataclass(frozen=True, eq=False, repr=False)
class SweepRow(ByValue, Summarised):
    """Result of one trial; its fields are the columns of the file of results.

    Attributes
    ----------
    key : str
        What the trial is, in words; no other row has it.
    kind : str
        ``simulate``, ``evaluate`` or ``learn``.
    system : str
        What the sweep calls the system.
    cores, load : float
        Of the system, as it was served.
    policy : str
        What the sweep calls the policy.
    algorithm, steps, power, between_alarms
        Of a ``learn``, as the sweep has them.
    seed : int or None
        Which of the otherwise equal trials.
    status : str
        ``done`` or ``failed``.
    error : str or None
        Why it failed.
    departures : int or None
        How many were seen; None if nothing was simulated.
    mean_jobs, interval_low, interval_high : float or None
        The mean number of jobs, and its 95 % confidence interval where it is simulated: under the policy, or
        under the last one that was learned.
    mean_response_time, mean_cost : float or None
        The mean time that a job spends in the system; the mean number of jobs, counted by their weights.
    gap : float or None
        How much the policy costs above the optimum, as a fraction; None where the optimum is not known. May
        be negative where it is simulated.
    sweep : str
        The fingerprint of the sweep.
    seconds : float
        How long it took.
    worker : str
        Who carried it out: machine and process.

    Examples
    --------
    >>> from concurrent.futures import ThreadPoolExecutor
    >>> import corewise as cw
    >>> plan = {"systems": ["paper:1"], "loads": [0.5], "evaluate": [{"policies": ["equi"]}]}
    >>> with ThreadPoolExecutor(1) as executor, cw.sweep(plan, executor=executor) as runs:
    ...     row = next(runs)
    >>> row.kind, row.policy, row.load, row.status, round(row.mean_jobs, 3)
    ('evaluate', 'equi', 0.5, 'done', 8.617)
    """

    _repr_fields = ("kind", "system", "policy", "seed", "status", "mean_jobs")
    _exported = _json_fields = (
        *("key", "kind", "system", "cores", "load", "policy", "algorithm", "steps", "power"),
        *("between_alarms", "seed", "status", "error", "departures", "mean_jobs", "mean_response_time"),
        *("mean_cost", "gap", "sweep", "seconds", "worker", "interval"),
    )

    key: str
    kind: str
    system: str
    cores: float
    load: float
    policy: str
    algorithm: str | None
    steps: int | None
    power: float | None
    between_alarms: float | None
    seed: int | None
    status: str
    error: str | None
    departures: int | None
    mean_jobs: float | None
    interval_low: float | None
    interval_high: float | None
    mean_response_time: float | None
    mean_cost: float | None
    gap: float | None
    sweep: str
    seconds: float
    worker: str

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % confidence interval of the mean number of jobs, where it is simulated."""
        if self.interval_low is None or self.interval_high is None:
            return None
        return self.interval_low, self.interval_high

    def __str__(self) -> str:
        """Return the row in a line."""
        if self.status == FAILED:
            return f"{self.key}: failed: {self.error}"
        gap = "" if self.gap is None else f", {self.gap:.4%} above the optimum"
        return f"{self.key}: mean jobs {self.mean_jobs:.6g}{gap}"


def carry_out(trial: Trial, sweep: str, version: str) -> SweepRow:
    """Return what comes of a trial of a sweep made by a version of corewise; nothing is raised."""
    began = perf_counter()
    try:
        if version != __version__:
            raise CorewiseError(f"the worker has corewise {__version__}, the sweep was begun by {version}")
        found = _KINDS[trial.kind](trial)
    except Exception as error:
        return failed_row(trial, sweep, error, perf_counter() - began)
    return _row(trial, sweep, DONE, found, perf_counter() - began)


def failed_row(trial: Trial, sweep: str, error: BaseException, seconds: float) -> SweepRow:
    """Return the row of a trial of which nothing came."""
    # One line: a row of the file is one, whatever happens.
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return _row(trial, sweep, FAILED, {"error": text}, seconds)


def _row(trial: Trial, sweep: str, status: str, found: Mapping[str, Any], seconds: float) -> SweepRow:
    nothing = dict.fromkeys(
        (
            *("error", "departures", "mean_jobs", "interval_low", "interval_high"),
            *("mean_response_time", "mean_cost", "gap"),
        )
    )
    return SweepRow(
        key=trial.key,
        kind=trial.kind,
        system=trial.name,
        cores=trial.system.cores,
        load=trial.system.load,
        policy=trial.policy,
        algorithm=trial.algorithm,
        steps=trial.steps,
        power=trial.power,
        between_alarms=trial.between_alarms,
        seed=trial.seed,
        status=status,
        sweep=sweep,
        seconds=seconds,
        worker=f"{socket.gethostname()}:{os.getpid()}",
        **{**nothing, **{name: _finite(value) for name, value in found.items()}},
    )


def _finite(value: Any) -> Any:
    """Return a value, or None if it is a number that is not finite: a run too short for an interval."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


# --- the three kinds --------------------------------------------------------------------------


def _evaluated(trial: Trial) -> dict[str, Any]:
    return _long_run(trial, trial.system, _policy(trial), trial.random_generator())


def _simulated(trial: Trial) -> dict[str, Any]:
    assert trial.departures is not None
    policy, rng = _policy(trial), trial.random_generator()
    found = _by_chance(trial, trial.system, policy, trial.departures, rng)
    return {**found, "departures": trial.departures}


def _learned(trial: Trial) -> dict[str, Any]:
    rng = trial.random_generator()
    plant = SimulatedPlant(trial.system, rng=rng)
    *_, epoch = learn(plant, _algorithm(trial), diagnose=False)
    # Judged by random numbers of their own, so that judging never changes what was learned.
    (judge,) = rng.spawn(1)
    if trial.test_departures is None:
        found = _long_run(trial, plant.truth, epoch.policy, judge)
    else:
        found = _by_chance(trial, plant.truth, epoch.policy, trial.test_departures, judge)
    return {**found, "departures": epoch.departures}


_KINDS = {"evaluate": _evaluated, "simulate": _simulated, "learn": _learned}


def _policy(trial: Trial) -> Policy:
    """Return the policy of a trial; one that takes a computation is made here."""
    if trial.rule is not None:
        return trial.rule
    reach = Tractability.of(trial.system.as_memoryless())
    if trial.policy == _OPTIMAL and not (trial.exact or reach.quick):
        raise BoxTooLarge(
            f"the optimum of {reach.obstacle} takes some {reach.seconds_to_solve:,.0f} s; "
            f"exact = true insists"
        )
    return (
        _optimum(trial.system.as_memoryless()).policy
        if trial.policy == _OPTIMAL
        else _computed(trial.policy, trial.system)
    )


def _algorithm(trial: Trial) -> Algorithm:
    said = {"power": trial.power, "between_alarms": trial.between_alarms}
    assert trial.algorithm is not None
    return ALGORITHMS[trial.algorithm](
        trial.system,
        departures=trial.departures,
        steps=trial.steps,
        policy=_adopted(trial),
        **{name: value for name, value in said.items() if value is not None},
    )


def _adopted(trial: Trial) -> Policy | None:
    """Return the rule that is to be bound to the estimates; None for the exact optimum."""
    return None if trial.policy == _OPTIMAL else trial.rule or policy_named(trial.policy, trial.system)


def _long_run(trial: Trial, system: System, policy: Policy, rng: np.random.Generator) -> dict[str, Any]:
    """Return the means of a policy: exact, or by simulation where that would take more than a minute."""
    if not (trial.exact or (Tractability.of(system).quick and system.memoryless)):
        return _with_interval(trial, system, simulated_mean(system, policy, rng=rng))
    found = evaluate(system, policy)
    return {
        "mean_jobs": found.mean_jobs,
        "mean_response_time": found.mean_response_time,
        "mean_cost": found.mean_cost,
        "gap": _gap(trial, system, found.mean_cost, exact=True),
    }


def _by_chance(
    trial: Trial, system: System, policy: Policy, departures: int, rng: np.random.Generator
) -> dict[str, Any]:
    found = simulate(
        *(system, policy), departures=departures, rng=rng, whole=trial.whole, known_sizes=trial.known_sizes
    )
    return _with_interval(trial, system, found)


def _with_interval(trial: Trial, system: System, simulated: Run | SimulatedMean) -> dict[str, Any]:
    """Return simulated means as the columns of a row."""
    low, high = simulated.interval
    return {
        "mean_jobs": simulated.mean_jobs,
        "interval_low": low,
        "interval_high": high,
        "mean_response_time": simulated.mean_response_time,
        "mean_cost": simulated.mean_cost,
        "gap": _gap(trial, system, simulated.mean_cost, exact=False),
    }


def _gap(trial: Trial, system: System, cost: float, *, exact: bool) -> float | None:
    """Return how much a cost is above the optimum; None where that is not known or not asked for."""
    wanted = trial.gap
    if wanted is None:
        as_exact = not (trial.whole or trial.known_sizes)  # else the optimum is of another model
        wanted = as_exact and system.load < 1.0 and Tractability.of(system).exact
    if not wanted or (system.changes and not exact):  # a path through several regimes has no one optimum
        return None
    try:
        gap = cost / _optimum(system.regime(0.0)).mean_cost - 1.0
    except BoxTooLarge:
        if trial.gap:
            raise
        return None
    # No policy is better than the best: what an exact one has below zero, or as little above it, is rounding.
    return 0.0 if exact and gap < _ROUNDING else gap


@lru_cache(maxsize=_KEPT)
def _optimum(system: System) -> Solution:
    return solve(system)


@lru_cache(maxsize=_KEPT)
def _computed(policy: str, system: System) -> Policy:
    return bind(policy, system)
