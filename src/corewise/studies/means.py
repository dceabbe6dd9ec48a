r"""Steady-state means by simulation with a control variate: far less noise than the path itself.

For any function V of the state that does not grow too fast, the drift (QV)(n) of the controlled chain has
mean zero in the long run, so Σ h_i n_i + (QV)(n) has the mean of the cost; and where V is near the value
function of the policy it hardly varies. V is fitted to the states of a first simulation
(`corewise.control.improve.equations`), the mean is taken over those of a second one, independent of it: the
interval owes nothing to the fit. The second is twice as long.

Some things can make such an interval too narrow, and each has its remedy.

- V is wrong where the first simulation never was, at both ends: states nearly empty, and states with many
  more jobs. It is rare for the second one to come there, but then QV is huge. The equations of V hold in
  every state, visited or not; so V is fitted to states with 0 to 3 times as many jobs as well. And QV is
  taken at 99.5 %, which leaves half a per cent of the noise of the cost: more than rare states add, and
  well-behaved.
- The equations of V may happen to be all but singular: once in some thousand fits at load .99 V is nonsense.
  Such a V does not calm the first simulation either: it is fitted again, more stiffly, and if that does not
  help, there is no control.
- Over a path of length T the mean of QV is (V(end) − V(start))/T. That is small against the error only if
  parts of the path are long against the time over which counts are correlated, which is known beforehand
  (`corewise.simulation.correlation`): the simulation is made as long as that takes. The mean of QV by itself
  must be near zero, and parts that follow one another uncorrelated; otherwise it is made longer.
- An interval below a proved lower bound is wrong whatever the reason: again the simulation is made longer. An
  interval that covers the bound is cut off there.

What is not settled after fifty times the events asked for is refused (`NotSettled`). A policy is called
unstable only where the work in the system has a drift upwards: where it grew by six standard deviations more
than that of a queue without any drift, the false-alarm probability of which is 1e-9.

Source: S. G. Henderson, S. P. Meyn, V. B. Tadić, *Performance evaluation and policy selection in multiclass
networks* (2003).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from corewise.analysis.lower.bounds import perfect_speedup
from corewise.analysis.performance import Performance, has_product_form, product_form
from corewise.control.improve.equations import RIDGE, Equations
from corewise.errors import NotSettled, UnstablePolicy
from corewise.kit import checks
from corewise.kit.arrays import Floats, Ints
from corewise.kit.numbers import value_and_ends
from corewise.kit.report import Summarised
from corewise.kit.unit_labels import time_suffix
from corewise.kit.values import ByValue
from corewise.model.system import System, require_system
from corewise.policies.base import BoundPolicy, Policy, bind, checked_policy
from corewise.policies.fitted.values import FittedValues
from corewise.simulation.correlation import correlation_time
from corewise.simulation.intervals import independent, ratio_interval
from corewise.simulation.paths import SHARES, Manner
from corewise.simulation.randomness import random_generator
from corewise.simulation.sampling import sample_states, settled_events
from corewise.studies.job_means import job_means, least_events

__all__ = ["LONGEST", "SimulatedMean", "shortest_simulation", "simulated_mean"]

_LEAST_EVENTS = 50_000
LONGEST = 50  # times the events asked for
_WITH_WARM_UP = 1.25

_SCALED, _SCALE, _SCALED_WEIGHT = 8000, 3.0, 0.05
_RIDGES = (RIDGE, 1e3 * RIDGE, 1e6 * RIDGE)
_CONTROL = 0.995
_UNSTABLE = 6.0
_AWAY = 3.0  # of the 95 % interval: half widths of it from zero


@dataclass(frozen=True, eq=False, repr=False)
class SimulatedMean(ByValue, Summarised):
    """Steady-state means of a policy by simulation with a control variate, with confidence intervals.

    Attributes
    ----------
    policy : str
        Its name.
    mean_cost, mean_jobs : float
        The mean of Σ h_i n_i, and of the number of jobs.
    cost_interval, interval : tuple of float
        95 % confidence intervals for them, by means of 12 parts of the simulation, or 20 where every job is
        followed; NaN where the variance of sizes is infinite.
    mean_response_time : float
        By Little's law.
    gain : float
        How many times longer a simulation without the control variate, or of the time average, would have to
        be for an interval for the cost as narrow; itself an estimate, from as many parts.
    events : int
        About how many events were simulated; none where the means are known: EQUI among classes with one
        curve has a product form (`corewise.analysis.performance`).
    unit : str or None
        What times are in, if the system says so.

    Examples
    --------
    >>> import corewise as cw
    >>> system = cw.load_system("paper:1")
    >>> mean = cw.simulated_mean(system, "equi", events=50_000, rng=7)
    >>> low, high = mean.interval
    >>> low < cw.evaluate(system, "equi").mean_jobs < high
    True
    """

    _repr_fields = ("policy", "mean_jobs", "interval", "mean_response_time")

    policy: str
    mean_cost: float
    cost_interval: tuple[float, float]
    mean_jobs: float
    interval: tuple[float, float]
    mean_response_time: float
    gain: float
    events: int
    unit: str | None = None

    @classmethod
    def exactly(cls, known: Performance) -> SimulatedMean:
        """Return means that are known, and need no simulation: intervals without width, and no events."""
        return cls(
            policy=known.policy,
            mean_cost=known.mean_cost,
            cost_interval=(known.mean_cost, known.mean_cost),
            mean_jobs=known.mean_jobs,
            interval=(known.mean_jobs, known.mean_jobs),
            mean_response_time=known.mean_response_time,
            gain=math.inf,
            events=0,
            unit=known.unit,
        )

    def __str__(self) -> str:
        """Return the numbers in a line."""
        if not self.events:
            return (
                f"{self.policy}: mean jobs {self.mean_jobs:.9g}, "
                f"mean response time {self.mean_response_time:.9g}{time_suffix(self.unit)}; "
                "exact, nothing was simulated"
            )
        gain = "" if math.isnan(self.gain) else f", as good as {self.gain:.3g} times more"
        return (
            f"{self.policy}: mean jobs {value_and_ends(self.mean_jobs, self.interval)}, "
            f"mean response time {self.mean_response_time:.6g}{time_suffix(self.unit)}; "
            f"{self.events:,} events{gain}"
        )


def simulated_mean(
    system: System,
    policy: Policy | str,
    *,
    events: int = 1_000_000,
    rng: np.random.Generator | int | None = None,
    lower_bound: float = 0.0,
    whole: bool = False,
    known_sizes: bool = False,
) -> SimulatedMean:
    """Return the long-run means of a policy by simulation; for any number of classes and any size law.

    For exponential sizes and Poisson arrivals with a control variate; for other laws, for whole cores and
    where policies see sizes every job is followed, and the means are ratios of time to size
    (`corewise.studies.job_means`).

    Parameters
    ----------
    system : System
        A system whose load is below one.
    policy : Policy or str
        A rule, its name (``"equi"``), or a policy bound to another system with the same cores and classes.
    events : int, optional
        How many events to simulate: a third for the control variate, the rest for the mean. Near saturation
        up to fifty times as many, if parts of the simulation would not be independent otherwise.
    rng : Generator or int, optional
        The source of randomness, or a seed for one.
    lower_bound : float, optional
        What the mean cost is known not to be below, besides that of perfect speed-up.
    whole, known_sizes : bool, optional
        As for `simulate`: whether every job holds whole cores, and whether policies see the work before it.

    Raises
    ------
    UnstableSystem
        If no policy keeps up.
    UnstablePolicy
        If this one does not: the work in the system drifts upwards.
    NotSettled
        If so many events are too few to tell.

    Examples
    --------
    >>> import corewise as cw
    >>> system = cw.System(16, [cw.JobClass(name, 2.0, 1.0, cw.Amdahl(0.8)) for name in "abcd"])
    >>> mean = cw.simulated_mean(system, "whittle", events=50_000, rng=1)
    >>> mean.interval[0] < mean.mean_jobs < mean.interval[1]
    True
    """
    require_system(system)
    system.require_stable()
    system.require_scale()
    count = checks.whole(events, "events", least=_LEAST_EVENTS)
    rule, most, manner = checked_policy(policy, system), LONGEST * count, Manner(whole, known_sizes)
    by_jobs = manner != SHARES or not system.memoryless
    if not by_jobs and has_product_form(system, rule):
        return SimulatedMean.exactly(product_form(system, rule.name))
    known = "parts of a shorter simulation are not independent"
    if shortest_simulation(system, by_jobs=by_jobs) > most:  # before the policy is made, which may take long
        raise _not_settled(system, rule.name, count, known, 0.0)
    bound, generator = bind(rule, system), random_generator(rng)
    if by_jobs or not bound.by_counts:
        return _by_jobs(system, bound, count, generator, manner)
    problems, floors = [system], [max(lower_bound, perfect_speedup(system))]
    if np.any(system.weights != 1.0):
        problems.append(system.with_classes(replace(one, weight=1.0) for one in system.classes))
        floors.append(perfect_speedup(problems[-1]))
    length, obstacle = max(2 * count // 3, math.ceil(settled_events(system, bound))), known
    while _whole(length) <= most:
        first = sample_states(system, bound, events=length // 2, rng=generator)
        sample = sample_states(system, bound, events=length, rng=generator)
        _require_no_drift(system, bound, sample.growth, length)
        states = np.concatenate([first.counts, first.scaled(_SCALED, _SCALE, generator)], axis=1)
        fitted, seen = (_Allotted(each, bound.decision(each)) for each in (states, sample.counts))
        means = [
            _controlled(problem, floor, fitted, first.times, seen, sample.times)
            for problem, floor in zip(problems, floors, strict=True)
        ]
        obstacle = next((mean.obstacle for mean in means if mean.obstacle), "")
        if not obstacle:
            cost, jobs = means[0], means[-1]
            return SimulatedMean(
                policy=bound.name,
                mean_cost=cost.mean,
                cost_interval=cost.interval,
                mean_jobs=jobs.mean,
                interval=jobs.interval,
                mean_response_time=jobs.mean / float(system.arrival_rates.sum()),
                gain=cost.gain,
                events=length + length // 2,
                unit=system.unit,
            )
        length *= 2
    raise _not_settled(system, bound.name, count, obstacle, length)


def _by_jobs(
    system: System, policy: BoundPolicy, count: int, rng: np.random.Generator, manner: Manner
) -> SimulatedMean:
    """Return the means of a policy for sizes of any law."""
    length = max(count, math.ceil(least_events(system)))
    obstacle = ""
    while length <= LONGEST * count:
        found = job_means(system, policy, length, rng, manner)
        _require_no_drift(system, policy, found.growth, length)
        obstacle = found.obstacle
        if not obstacle:
            jobs = np.ones(len(system.classes))
            return SimulatedMean(
                policy=policy.name,
                mean_cost=found.mean(system.weights),
                cost_interval=found.interval(system.weights),
                mean_jobs=found.mean(jobs),
                interval=found.interval(jobs),
                mean_response_time=found.mean(jobs) / float(system.arrival_rates.sum()),
                gain=found.gain,
                events=length,
                unit=system.unit,
            )
        length *= 2
    raise _not_settled(system, policy.name, count, obstacle, length)


def _whole(length: float) -> int:
    """Return how many events are simulated in all for a mean over so many of them."""
    return math.ceil(_WITH_WARM_UP * 1.5 * length)


def shortest_simulation(system: System, *, by_jobs: bool | None = None) -> int:
    """Return how many events a simulation needs in all so that its parts are about independent.

    Jobs are followed one by one where not all is exponential, or if `by_jobs` says so.
    """
    followed = not system.memoryless if by_jobs is None else by_jobs
    return math.ceil(least_events(system)) if followed else _whole(settled_events(system))


def _not_settled(system: System, name: str, events: int, obstacle: str, length: float) -> NotSettled:
    """Return the error that says how many events would do."""
    needed = max(_whole(length) if system.memoryless else math.ceil(length), shortest_simulation(system))
    return NotSettled(
        f"the mean under {name} at load {system.load:.6g} is not settled within {LONGEST * events:,} "
        f"events, {LONGEST} times as many as asked for: {obstacle}. At least {needed:,} are needed: ask "
        f"for {math.ceil(needed / LONGEST):,}"
    )


def _require_no_drift(system: System, policy: BoundPolicy, growth: float, events: int) -> None:
    """Raise `UnstablePolicy` if the work in the system grew as it does only under a drift upwards."""
    if growth > _UNSTABLE:
        raise UnstablePolicy(
            f"under {policy.name} the number of jobs grows without end, though the load is "
            f"{system.load:.6g}: in {events:,} events the work in the system rose by {growth:.3g} "
            "standard deviations more than that of a queue without drift"
        )


@dataclass(frozen=True, eq=False)
class _Allotted:
    """States, and the cores that a policy gives them, both of shape (K, states)."""

    counts: Ints
    cores: Floats


@dataclass(frozen=True, eq=False)
class _Controlled:
    """Sums of Σ h_i n_i and of QV over the parts of a simulation, and their lengths.

    Also how long the number of jobs is correlated, and a proved lower bound.
    """

    costs: Floats
    drifts: Floats
    spans: Floats
    correlation: float
    floor: float

    @property
    def mean(self) -> float:
        """The mean with the control variate, no less than is proved."""
        return max(float((self.costs + self.drifts).sum() / self.spans.sum()), self.floor)

    @property
    def interval(self) -> tuple[float, float]:
        """The interval for it; what lies below the proved bound is cut off."""
        low, high = self._interval
        return max(low, self.floor), high

    @cached_property
    def _interval(self) -> tuple[float, float]:
        return ratio_interval(self.costs + self.drifts, self.spans, self.correlation)

    @property
    def gain(self) -> float:
        """How many times longer a simulation without the control variate would have to be."""
        plainly = ratio_interval(self.costs, self.spans, self.correlation)
        width, plain = (high - low for low, high in (self._interval, plainly))
        return (plain / width) ** 2 if width > 0.0 else math.inf

    @property
    def obstacle(self) -> str:
        """Why the interval is not to be trusted, empty if it is."""
        if self._interval[1] < self.floor:
            low, high = self._interval
            return f"it came out as {low:.6g} to {high:.6g}, and under no policy is it below {self.floor:.6g}"
        low, high = ratio_interval(self.drifts, self.spans)
        if abs(low + high) > _AWAY * (high - low):
            return "means with the control variate and without it are too far apart"
        if not all(independent(sums / self.spans) for sums in (self.costs, self.costs + self.drifts)):
            return "parts of the simulation that follow one another are alike"
        return ""


def _controlled(
    system: System, floor: float, fitted: _Allotted, fitted_times: Floats, seen: _Allotted, times: Floats
) -> _Controlled:
    """Return the parts of the mean cost over a sample, with values fitted to other states.

    The first of these were visited, and count for the time spent in them; the others count little.
    """
    visited = fitted_times.shape[1]
    weights = np.zeros((2, fitted.counts.shape[1]))
    weights[0, :visited] = fitted_times.sum(axis=0) / fitted_times.sum()
    weights[1, visited:] = 1.0 / (weights.shape[1] - visited)
    equations = Equations.of(system, fitted.counts, weights, fitted.cores)
    calm = _Allotted(fitted.counts[:, :visited], fitted.cores[:, :visited])
    values = _calming(system, equations, calm, weights[0, :visited])
    cost, spans = system.weights @ seen.counts, times.sum(axis=1)
    drift = np.zeros(cost.size) if values is None else values.drift(system, seen.counts, seen.cores)
    return _Controlled(times @ cost, _CONTROL * (times @ drift), spans, correlation_time(system), floor)


def _calming(
    system: System, equations: Equations, visited: _Allotted, weights: Floats
) -> FittedValues | None:
    """Return values with which Σ h_i n_i + QV varies less than without, over the states that were visited."""
    cost = system.weights @ visited.counts
    for ridge in _RIDGES:
        values = equations.solved([1.0, _SCALED_WEIGHT], ridge)
        if _variance(cost + values.drift(system, visited.counts, visited.cores), weights) < _variance(
            cost, weights
        ):
            return values
    return None


def _variance(numbers: Floats, weights: Floats) -> float:
    """Return the weighted variance of numbers, for weights that add up to one."""
    return float(weights @ (numbers - weights @ numbers) ** 2)
