r"""What a policy is worth over the region in which the parameters lie: what it must pass to be adopted.

A policy made from few departures can be far worse than EQUI, though at the estimates it looks best: they are
what it was made for. So it is held against EQUI, and against the policy in force, at systems drawn from what
is likely, given what was seen. For each class, independently,

    p ~ normal about its estimate, within its range;
    μ ~ Gamma(D) / Σ_z W s(z; p), given p, unless it is known;
    λ ~ Gamma(A) / T, unless it is known;

with D departures, A arrivals and W job-time. What is hard to tell apart is the curve from the size rate, and
their product at the widths in use is not: hence μ given p. Draws are the points of a sequence that fills the
cube evenly, so that there is no chance in it (M. Roberts, *The unreasonable effectiveness of quasirandom
sequences*, 2018). A gain is a fraction of the mean cost, told by three numbers: below the first it is with a
probability of a tenth, the second is its mean, above the third it is with a probability of a tenth.

Exact to four digits where that takes seconds, which is far more than is known of any draw; else by
simulations with the same jobs, at the estimates alone.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from corewise.analysis.box import edge_probabilities, first_box
from corewise.analysis.chain import Chain
from corewise.analysis.performance import Performance, evaluate
from corewise.analysis.reach import Reach
from corewise.errors import BoxTooLarge, NotConverged, UnstablePolicy
from corewise.kit.arrays import Floats
from corewise.live.state.learned import Learned
from corewise.live.state.lessons import Lesson, Question
from corewise.model.job_class import JobClass
from corewise.model.system import System
from corewise.observation.statistics import ClassStatistics
from corewise.policies.base import Policy, bind
from corewise.policies.equi import Equi
from corewise.simulation.simulator import simulate

__all__ = ["Gain", "Worth", "likely_systems", "mean_cost", "worth"]

Gain = tuple[float, float, float]
"""A fraction of the mean cost: its lower tenth, its mean, its upper tenth."""

_DRAWS = 16
_TAIL = 0.1
_BUSIEST = 0.85  # the load of a draw: above it an evaluation takes long
_REMOTE = 1e-5  # the chance of an edge of a box beyond which the mean does not change by a thousandth
_RUNS, _DEPARTURES = 4, 20_000


@dataclass(frozen=True)
class Worth:
    """What a policy is worth.

    Attributes
    ----------
    gain, gain_over_equi : tuple of float
        What is gained by it over the policy in force, and over EQUI.
    in_force_over_equi : tuple of float
        What is gained by the policy in force over EQUI.
    response_times : tuple or None
        The mean response time of each of these classes at the estimates, under EQUI and by it, where both are
        finite.
    """

    gain: Gain
    gain_over_equi: Gain
    in_force_over_equi: Gain
    response_times: tuple[tuple[float, float], ...] | None = None


def worth(asked: Question, lesson: Lesson, policy: Policy, in_force: Policy) -> Worth:
    """Return what a policy is worth to the classes of `lesson.believed`, given what was seen."""
    if len(lesson.believed.classes) <= 3 and Reach.of(lesson.believed).quick:
        return _exact(asked, lesson, policy, in_force)
    system, equi = lesson.believed, Equi()
    return Worth(
        _by_simulation(system, policy, in_force),
        _by_simulation(system, policy, equi),
        _by_simulation(system, in_force, equi),
    )


def _exact(asked: Question, lesson: Lesson, policy: Policy, in_force: Policy) -> Worth:
    systems, equi = likely_systems(asked, lesson), Equi()
    new, base = ([mean_cost(system, one) for system in systems] for one in (policy, equi))
    old = base if isinstance(in_force, Equi) else [mean_cost(system, in_force) for system in systems]
    here = [_performance(lesson.believed, one) for one in (equi, policy)]
    return Worth(_gain(new, old), _gain(new, base), _gain(old, base), _response_times(*here))


def _gain(new: list[float], old: list[float]) -> Gain:
    shares = np.array([_saved(*pair) for pair in zip(new, old, strict=True)])
    low, high = np.quantile(shares, [_TAIL, 1.0 - _TAIL])
    return float(low), float(shares.mean()), float(high)


def _by_simulation(system: System, policy: Policy, other: Policy) -> Gain:
    """Return what a policy gains over another at the estimates, within three standard errors."""
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


def likely_systems(asked: Question, lesson: Lesson, count: int = _DRAWS) -> list[System]:
    """Return systems that are likely, given what was seen; their classes are those of `lesson.believed`."""
    learned = {row.name: row for row in lesson.classes}
    seen = dict(zip(asked.seen.names, asked.seen.classes, strict=True))
    rows = [(known, learned[known.name], seen[known.name]) for known in lesson.believed.classes]
    given = [asked.algorithm.system[known.name] for known in lesson.believed.classes]
    spans = [len(row.parameters) + 2 for _, row, _ in rows]
    points = np.split(_spread_evenly(count, sum(spans)), np.cumsum(spans)[:-1], axis=1)
    found = [
        lesson.believed.with_classes(
            _drawn(row, known, at[k]) for row, known, at in zip(rows, given, points, strict=True)
        )
        for k in range(count)
    ]
    return [system if system.load <= _BUSIEST else system.at_load(_BUSIEST) for system in found]


def _drawn(row: tuple[JobClass, Learned, ClassStatistics], given: JobClass, at: Floats) -> JobClass:
    """Return a class at a point of the unit cube: the parameters of its curve, size rate, arrival rate."""
    believed, learned, table = row
    curve = believed.speedup
    if curve.bounds:
        values = _parameters(believed, learned, at)
        curve = curve.with_parameters(**values)
    size_rate, arrival_rate = believed.size_rate, believed.arrival_rate
    assert size_rate is not None
    assert arrival_rate is not None
    if given.size_rate is None:
        served = [float(table.job_time @ one.rate(table.widths)) for one in (believed.speedup, curve)]
        ratio = served[0] / served[1] if served[1] > 0.0 else 1.0
        size_rate *= ratio * _gamma(table.left, float(at[-2]))
    if given.arrival_rate is None:
        arrival_rate *= _gamma(table.arrivals, float(at[-1]))
    return replace(believed, speedup=curve, size_rate=size_rate, arrival_rate=arrival_rate)


def _parameters(believed: JobClass, learned: Learned, at: Floats) -> dict[str, float]:
    """Return the parameters of a curve at a point: normal about what is believed, or anything at all."""
    from scipy.special import ndtri

    curve, values = believed.speedup, {}
    for u, (name, (low, high)) in zip(at.tolist(), curve.bounds.items(), strict=False):
        error, middle = learned.stderrs[name], curve.parameters[name]
        if learned.informative and math.isfinite(error):
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
    """Return how a policy does, None if it is beyond all bounds."""
    try:
        return evaluate(system, policy)
    except (UnstablePolicy, BoxTooLarge, NotConverged):
        return None


def mean_cost(system: System, policy: Policy) -> float:
    """Return the mean cost of a policy to some four digits, infinite if it is beyond all bounds.

    To twelve digits it takes ten times as long, for boxes in which what is left out does not matter to them.
    """
    space = first_box(system)
    with suppress(NotConverged):
        chances = Chain.under(bind(policy, system), system, space).rough
        if max(edge_probabilities(space, chances)) <= _REMOTE:
            return float(system.weights @ (space.counts @ chances))
    found = _performance(system, policy)
    return math.inf if found is None else found.mean_cost


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
