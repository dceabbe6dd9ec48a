r"""Steady-state means by simulation with a control variate: far less noise than the path itself.

For any function V of the state that does not grow too fast, the drift (QV)(n) of the controlled chain has
mean zero in the long run, so Σ h_i n_i + (QV)(n) has the mean of the cost; and where V is near the value
function of the policy it hardly varies. V is fitted to the states of a first simulation
(`corewise.control.improve.equations`), the mean is taken over those of a second one, independent of it: the
interval owes nothing to the fit. The two are of the same length, since V must be good in all states that the
second one sees: with a first one five times shorter intervals that should cover 95 % covered 93 % and less.

A policy may be unstable where another one is not. The count of jobs then grows in proportion to the time: a
policy is called unstable when its mean rises to one and a half times as much or more from a short simulation
to one that is five times as long, and again to one that is five times as long as that.

Source: S. G. Henderson, S. P. Meyn, V. B. Tadić, *Performance evaluation and policy selection in multiclass
networks* (2003).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from corewise.control.improve.equations import Equations
from corewise.errors import UnstablePolicy
from corewise.kit import checks
from corewise.kit.arrays import Floats
from corewise.kit.display import Shown
from corewise.model.system import System, require_system
from corewise.policies.base import BoundPolicy, Policy, bind
from corewise.simulation.intervals import ratio_interval
from corewise.simulation.sampling import Sample, sample_states
from corewise.simulation.simulator import random_streams

__all__ = ["SimulatedMean", "simulated_mean"]

_LEAST_EVENTS = 50_000
_LONGER = 5
_GROWTH = 1.5


@dataclass(frozen=True, repr=False)
class SimulatedMean(Shown):
    """Steady-state means of a policy by simulation with a control variate, with confidence intervals.

    Attributes
    ----------
    policy : str
        Its name.
    mean_cost, mean_jobs : float
        The mean of Σ h_i n_i, and of the number of jobs.
    cost_interval, interval : tuple of float
        95 % confidence intervals for them, by means of 16 parts of the simulation.
    mean_response_time : float
        By Little's law.
    gain : float
        How many times longer a simulation without the control variate would have to be for an interval for
        the cost as narrow; itself an estimate, from as many parts.
    events : int
        About how many events were simulated.
    """

    _shown = ("policy", "mean_jobs", "interval", "mean_response_time")

    policy: str
    mean_cost: float
    cost_interval: tuple[float, float]
    mean_jobs: float
    interval: tuple[float, float]
    mean_response_time: float
    gain: float
    events: int

    def __str__(self) -> str:
        """Return the numbers in a line."""
        low, high = self.interval
        return (
            f"{self.policy}: mean jobs {self.mean_jobs:.6g} (95 %: {low:.6g} to {high:.6g}), "
            f"mean response time {self.mean_response_time:.6g}; "
            f"{self.events:,} events, as good as {self.gain:.3g} times more"
        )


def simulated_mean(
    system: System,
    policy: Policy | str,
    *,
    events: int = 1_000_000,
    rng: np.random.Generator | int | None = None,
) -> SimulatedMean:
    """Return the long-run means of a policy by simulation with a control variate; for any number of classes.

    Parameters
    ----------
    system : System
        A system whose load is below one.
    policy : Policy or str
        A rule, its name (``"equi"``), or a policy bound to another system with the same cores and classes.
    events : int, optional
        How many events to simulate: half of them for the control variate, half for the mean.
    rng : Generator or int, optional
        The source of randomness, or a seed for one.

    Raises
    ------
    UnstableSystem
        If no policy keeps up.
    UnstablePolicy
        If this one does not.
    """
    require_system(system)
    system.require_stable()
    system.require_scale()
    count = checks.count(events, "events", least=_LEAST_EVENTS)
    bound = bind(policy, system)
    streams = random_streams(rng, 4)
    first, sample = (sample_states(system, bound, events=count // 2, rng=stream) for stream in streams[:2])
    _require_no_growth(system, bound, sample, count // 2, streams[2:])
    cores = bound.rule(sample.counts)
    cost, cost_interval, gain = _controlled(system, bound, first, sample, cores)
    jobs, interval = cost, cost_interval
    if np.any(system.weights != 1.0):
        equal = [replace(job_class, weight=1.0) for job_class in system.classes]
        jobs, interval, _ = _controlled(System(system.cores, equal), bound, first, sample, cores)
    return SimulatedMean(
        policy=bound.name,
        mean_cost=cost,
        cost_interval=cost_interval,
        mean_jobs=jobs,
        interval=interval,
        mean_response_time=jobs / float(system.arrival_rates.sum()),
        gain=gain,
        events=count,
    )


def _require_no_growth(
    system: System, policy: BoundPolicy, sample: Sample, events: int, streams: Sequence[np.random.Generator]
) -> None:
    """Raise `UnstablePolicy` if the mean grows with the length of the simulation, and goes on growing."""
    here = _mean_jobs(sample)
    before = _mean_jobs(sample_states(system, policy, events=events // _LONGER, rng=streams[0]))
    if here <= _GROWTH * before:
        return
    after = _mean_jobs(sample_states(system, policy, events=_LONGER * events, rng=streams[1]))
    if after > _GROWTH * here:
        raise UnstablePolicy(
            f"under {policy.name} the number of jobs grows without end: {before:.4g} in the mean of "
            f"{events // _LONGER:,} events, {here:.4g} of {events:,} and {after:.4g} of {_LONGER * events:,}"
        )


def _mean_jobs(sample: Sample) -> float:
    times = sample.times.sum(axis=0)
    return float(sample.counts.sum(axis=0) @ times / times.sum())


def _controlled(
    system: System, policy: BoundPolicy, first: Sample, sample: Sample, cores: Floats
) -> tuple[float, tuple[float, float], float]:
    """Return the mean of Σ h_i n_i over a sample, its interval, and what the control variate gained."""
    weights = first.times.sum(axis=0, keepdims=True)
    values = Equations.of(system, first.counts, weights, policy.rule(first.counts)).solved([1.0])
    cost = system.weights @ sample.counts
    spans = sample.times.sum(axis=1)
    controlled = sample.times @ (cost + values.drift(system, sample.counts, cores))
    low, high = ratio_interval(controlled, spans)
    plain_low, plain_high = ratio_interval(sample.times @ cost, spans)
    gain = ((plain_high - plain_low) / (high - low)) ** 2 if high > low else math.inf
    return float(controlled.sum() / spans.sum()), (low, high), gain
