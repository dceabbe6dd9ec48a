r"""The gate: when a policy that was solved for takes the place of the one in force.

The simulated loop adopts every policy, as the paper does. A live pool is cautious: a policy made from few
departures can be far worse than EQUI, though at the estimates it looks best: they are what it was made for.
There a policy is adopted once

- the classes that it is for have been seen to leave often enough,
- given what was seen, it beats EQUI with a probability of nine tenths, and
- it beats the policy in force in the mean.

Classes that have not left so often, or whose rounds are too short to learn from, share equally beside it.
Where the policy in force is found to be worse than EQUI in the mean, EQUI takes its place.

The expected improvement of a policy over EQUI, and over the policy in force, is computed at systems drawn
from what is likely, given what was seen. For each class, independently,

    p ~ normal about its estimate, within its range;
    μ ~ Gamma(D) / Σ_z W s(z; p), given p, unless it is known;
    λ ~ Gamma(A) / T, unless it is known;

with D departures, A arrivals and W job-time. The curve is hard to tell from the size rate, and their product
at the widths in use is not: hence μ given p. Draws are the points of a sequence that fills the cube evenly,
so that nothing is random (M. Roberts, *The unreasonable effectiveness of quasirandom sequences*, 2018). An
improvement is a fraction of the mean cost, given by three numbers: its 10 % quantile, its mean, and its 90 %
quantile.

Means are exact to four digits where that takes seconds, far more than is known of any draw; else they are
from simulations with the same jobs, at the estimates alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Literal, Protocol

import numpy as np

from corewise.analysis.box import edge_probabilities, first_box
from corewise.analysis.chain import Chain
from corewise.analysis.performance import Performance, evaluate
from corewise.analysis.tractability import Tractability
from corewise.errors import BoxTooLarge, NotConverged, UnstablePolicy
from corewise.estimation.class_estimate import ClassEstimate
from corewise.kit.arrays import Floats
from corewise.learning.learner import Inference, InferenceRequest, with_load_below
from corewise.model.job_class import JobClass
from corewise.model.system import System
from corewise.observation.statistics import ClassStatistics
from corewise.policies.base import Policy, bind
from corewise.policies.equi import Equi
from corewise.simulation.simulator import simulate

__all__ = [
    "AlwaysAdopt",
    "CautiousGate",
    "Decision",
    "Evidence",
    "ExpectedImprovement",
    "Gain",
    "Gate",
    "expected_improvement",
    "gain_in_words",
    "likely_systems",
    "mean_cost",
]

Gain = tuple[float, float, float]
"""A fraction of the mean cost: its 10 % quantile, its mean, its 90 % quantile."""

Decision = Literal["adopt", "keep", "equi"]
"""Adopt the policy that was solved for, keep the one in force, or go back to EQUI."""

_DRAWS = 16
_TAIL = 0.1
_MAX_LOAD = 0.85
"""The load of a draw at most, below that of a solve (`corewise.learning.learner.MAX_LOAD`): up to three
policies are evaluated at each of sixteen draws, and from here to 0.95 the states of a box grow threefold per
class."""
_REMOTE = 1e-5  # the probability of an edge of a box beyond which the mean does not change by a thousandth
_RUNS, _DEPARTURES = 4, 20_000
_NAMED = 5  # classes in a sentence


@dataclass(frozen=True)
class ExpectedImprovement:
    """Expected improvement by a policy, given what was seen.

    Attributes
    ----------
    gain : tuple of float
        The gain of the policy over the one in force.
    gain_over_equi : tuple of float
        The gain of the policy over EQUI.
    in_force_over_equi : tuple of float or None
        The gain of the policy in force over EQUI; None where it was not computed.
    response_times : tuple or None
        The mean response time of each class at the estimates, under EQUI and under the policy, where both are
        finite.
    """

    gain: Gain
    gain_over_equi: Gain
    in_force_over_equi: Gain | None = None
    response_times: tuple[tuple[float, float], ...] | None = None


# --- when to adopt ------------------------------------------------------------------------------------


class Gate(Protocol):
    """Gate: the rule by which a policy that was solved for is adopted or not."""

    def decide(self, improvement: ExpectedImprovement | None, unknown: Sequence[str] = ()) -> Decision:
        """Return what to do with a policy, given its improvement and which of its classes are unknown."""
        ...


@dataclass(frozen=True)
class AlwaysAdopt:
    """Gate of the simulated loop, which the paper does not have: every policy is adopted."""

    def decide(self, improvement: ExpectedImprovement | None, unknown: Sequence[str] = ()) -> Decision:  # noqa: ARG002
        """Return that the policy is to be adopted."""
        return "adopt"


@dataclass(frozen=True)
class CautiousGate:
    """Gate of a live pool: a policy is adopted if it beats EQUI, surely, and the one in force in the mean."""

    def decide(self, improvement: ExpectedImprovement | None, unknown: Sequence[str] = ()) -> Decision:
        """Return what to do with a policy, given its improvement and which of its classes are unknown."""
        if improvement is None:
            return "keep"
        if not unknown and improvement.gain[1] > 0.0 and improvement.gain_over_equi[0] > 0.0:
            return "adopt"
        in_force = improvement.in_force_over_equi
        return "equi" if in_force is not None and in_force[1] < 0.0 else "keep"


@dataclass(frozen=True)
class Evidence:
    """Evidence on the classes of a pool: how often they have left, and whether they can be learned from.

    Attributes
    ----------
    names : sequence of str
        The classes of the pool.
    estimates : mapping or None
        Their estimates by name; None before the first.
    departures : int
        The departures of all classes.
    needed : int
        The departures of a class from which on it is part of a policy.
    """

    names: Sequence[str]
    estimates: Mapping[str, ClassEstimate] | None
    departures: int
    needed: int

    def departures_of(self, name: str) -> int:
        """Return the departures of a class that its estimate is from."""
        row = None if self.estimates is None else self.estimates.get(name)
        return 0 if row is None else row.departures

    def unknown(self, names: Iterable[str]) -> list[str]:
        """Return the classes that have not left often enough, or whose rounds are too short."""
        return [name for name in names if self.departures_of(name) < self.needed or self._too_short(name)]

    def unknown_of_policy(self, classes: Sequence[str]) -> list[str]:
        """Return the classes of a policy that are unknown; by all departures, before there are estimates."""
        if self.estimates is None:
            return [] if self.departures >= self.needed else list(classes)
        return self.unknown(classes)

    def refusal(self, classes: Sequence[str], gain_over_equi: Gain) -> str:
        """Return why a policy for these classes is not in force, in words."""
        unknown = self.unknown_of_policy(classes)
        if unknown:
            return _listed([self._lacks(name) for name in unknown])
        if gain_over_equi[0] > 0.0:
            return "the last policy solved for gains nothing over it"
        text = gain_in_words(gain_over_equi) + (" is not sure" if gain_over_equi[2] > 0.0 else "")
        left_out = self.unknown(name for name in self.names if name not in classes)
        return f"{text}; {_listed([self._lacks(name) for name in left_out])}" if left_out else text

    def equal_shares(self, classes: Sequence[str]) -> str:
        """Return which classes share equally beside a policy for these classes, and until when."""
        names = [name for name in self.names if name not in classes]
        unknown = set(self.unknown(names))
        return _listed(
            [
                f"{name} shares equally: {self._lacks(name).removeprefix(f'{name} has ')}"
                if name in unknown
                else f"{name} shares equally until a policy for it is adopted"
                for name in names
            ]
        )

    def _too_short(self, name: str) -> bool:
        row = None if self.estimates is None else self.estimates.get(name)
        return row is not None and row.too_short

    def _lacks(self, name: str) -> str:
        """Return what a class lacks to be part of a policy."""
        if self._too_short(name):
            return f"the rounds of {name} are too short to learn from"
        return f"{name} has {self.departures_of(name)} of {self.needed} departures"


def _listed(rows: Sequence[str]) -> str:
    more = len(rows) - _NAMED
    return ", ".join([*rows[:_NAMED], *([f"and {more} more"] if more > 0 else [])])


def gain_in_words(gain: Gain) -> str:
    """Return a gain over EQUI with its 10 % and its 90 % quantile."""
    low, middle, high = gain
    return f"gain over EQUI {middle:.1%} ({low:.1%} to {high:.1%})"


# --- the expected improvement -------------------------------------------------------------------------


def expected_improvement(
    request: InferenceRequest, inference: Inference, system: System, policy: Policy, in_force: Policy
) -> ExpectedImprovement:
    """Return the expected improvement by a policy, given what was seen.

    Parameters
    ----------
    request, inference
        What was seen, and what was inferred from it.
    system : System
        The plug-in system of the classes that the policy is for.
    policy, in_force : Policy
        The policy, and the one in force.
    """
    equi = Equi()
    if not Tractability.of(system).exact:
        return ExpectedImprovement(
            _by_simulation(system, policy, in_force),
            _by_simulation(system, policy, equi),
            _by_simulation(system, in_force, equi),
        )
    systems = likely_systems(request, inference, system)
    new, base = ([mean_cost(drawn, one) for drawn in systems] for one in (policy, equi))
    old = base if isinstance(in_force, Equi) else [mean_cost(drawn, in_force) for drawn in systems]
    here = [_performance(system, one) for one in (equi, policy)]
    return ExpectedImprovement(_gain(new, old), _gain(new, base), _gain(old, base), _response_times(*here))


def _gain(new: list[float], old: list[float]) -> Gain:
    shares = np.array([_saved(*pair) for pair in zip(new, old, strict=True)])
    low, high = np.quantile(shares, [_TAIL, 1.0 - _TAIL])
    return float(low), float(shares.mean()), float(high)


def _by_simulation(system: System, policy: Policy, other: Policy) -> Gain:
    """Return the gain of a policy over another at the estimates, within three standard errors."""
    shares = np.array([_saved(*pair) for pair in _simulated(system, policy, other)])
    mean, error = float(shares.mean()), 3.0 * float(shares.std(ddof=1)) / math.sqrt(_RUNS)
    return mean - error, mean, mean + error


def _response_times(
    equi: Performance | None, policy: Performance | None
) -> tuple[tuple[float, float], ...] | None:
    if equi is None or policy is None:
        return None
    both = zip(equi.classes.values(), policy.classes.values(), strict=True)
    return tuple((one.mean_response_time, other.mean_response_time) for one, other in both)


def likely_systems(
    request: InferenceRequest, inference: Inference, system: System, count: int = _DRAWS
) -> list[System]:
    """Return systems that are likely, given what was seen, with the classes of a plug-in system."""
    estimates = {row.name: row for row in inference.classes}
    seen = dict(zip(request.seen.names, request.seen.classes, strict=True))
    rows = [(known, estimates[known.name], seen[known.name]) for known in system.classes]
    given = [request.algorithm.system[known.name] for known in system.classes]
    spans = [len(row.parameters) + 2 for _, row, _ in rows]
    points = np.split(_spread_evenly(count, sum(spans)), np.cumsum(spans)[:-1], axis=1)
    drawn = [
        system.with_classes(
            _drawn(row, known, at[k]) for row, known, at in zip(rows, given, points, strict=True)
        )
        for k in range(count)
    ]
    return [with_load_below(one, _MAX_LOAD) for one in drawn]


def _drawn(row: tuple[JobClass, ClassEstimate, ClassStatistics], given: JobClass, at: Floats) -> JobClass:
    """Return a class at a point of the unit cube: the parameters of its curve, size rate, arrival rate."""
    known, estimated, table = row
    curve = known.speedup
    if curve.bounds:
        curve = curve.with_parameters(**_parameters(known, estimated, at))
    size_rate, arrival_rate = known.size_rate, known.arrival_rate
    assert size_rate is not None
    assert arrival_rate is not None
    if given.size_rate is None:
        served = [float(table.job_time @ one.rate(table.widths)) for one in (known.speedup, curve)]
        ratio = served[0] / served[1] if served[1] > 0.0 else 1.0
        size_rate *= ratio * _gamma(table.left, float(at[-2]))
    if given.arrival_rate is None:
        arrival_rate *= _gamma(table.arrivals, float(at[-1]))
    return replace(known, speedup=curve, size_rate=size_rate, arrival_rate=arrival_rate)


def _parameters(known: JobClass, estimated: ClassEstimate, at: Floats) -> dict[str, float]:
    """Return the parameters of a curve at a point: normal about the plug-in ones, or in the whole range."""
    from scipy.special import ndtri

    curve, values = known.speedup, {}
    for u, (name, (low, high)) in zip(at.tolist(), curve.bounds.items(), strict=False):
        error, middle = estimated.stderrs[name], curve.parameters[name]
        if estimated.informative and math.isfinite(error):
            value = middle + error * float(ndtri(u))
        else:
            value = low + u * min(high - low, 1.0)
        values[name] = min(max(value, low), high)
    return values


def _gamma(count: int, u: float) -> float:
    """Return the quantile of Gamma(n)/n; of half an event where there was none."""
    from scipy.special import gammaincinv

    shape = max(float(count), 0.5)
    return max(float(gammaincinv(shape, u)) / shape, 1e-3)


def _spread_evenly(count: int, dimensions: int) -> Floats:
    """Return points that fill the unit cube evenly: k/g, k/g², … less whole parts, g^(d+1) = g + 1."""
    root = 2.0
    for _ in range(64):
        root = (1.0 + root) ** (1.0 / (dimensions + 1.0))
    steps = root ** -np.arange(1.0, dimensions + 1.0)
    return np.asarray((0.5 + np.outer(np.arange(1.0, count + 1.0), steps)) % 1.0)


def _performance(system: System, policy: Policy) -> Performance | None:
    """Return the performance of a policy, None if it is unstable or out of reach."""
    try:
        return evaluate(system, policy)
    except (UnstablePolicy, BoxTooLarge, NotConverged):
        return None


def mean_cost(system: System, policy: Policy) -> float:
    """Return the mean cost of a policy to some four digits, infinite if it is unstable.

    Twelve digits take ten times as long: they need a box whose edges have a far smaller probability.
    """
    space = first_box(system)
    with suppress(NotConverged):
        probabilities = Chain.under(bind(policy, system), system, space).rough
        if max(edge_probabilities(space, probabilities)) <= _REMOTE:
            return float(system.weights @ (space.counts @ probabilities))
    found = _performance(system, policy)
    return math.inf if found is None else found.mean_cost


def _saved(new: float, old: float) -> float:
    """Return the fraction of a cost that is saved; of two infinite costs nothing is."""
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
