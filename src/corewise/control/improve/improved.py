r"""Improvement of the Whittle policy by fitted values: near the optimum, without a state space.

For any policy the mean cost J and the values V solve f − J + QV = 0, f(n) = Σ h_i n_i, and the policy that is
best against V is no worse: policy iteration. Here it starts from the Whittle policy, and V is a combination
of a few features, fitted to states that the policy visits (`corewise.control.improve.equations`). Every
policy's mean is estimated on the way: a step that makes it clearly worse is not taken, nor all of them
together if they may have gained nothing.

Sources: J. A. Boyan, *Technical update: least-squares temporal difference learning* (2002), for the fit;
S. G. Henderson, S. P. Meyn, V. B. Tadić, *Performance evaluation and policy selection in multiclass
networks* (2003), for QV as a control variate.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from corewise.control.improve.equations import Equations
from corewise.kit import checks
from corewise.kit.arrays import Floats
from corewise.kit.report import Report, Reported, Summarised, Table
from corewise.kit.values import ByValue
from corewise.model.system import System, require_system
from corewise.policies.base import BoundPolicy
from corewise.policies.fitted.rule import Fitted
from corewise.policies.fitted.values import FittedValues
from corewise.policies.whittle import Whittle
from corewise.simulation.intervals import ratio_interval
from corewise.simulation.randomness import random_generator
from corewise.simulation.sampling import Sample, sample_states, settled_events

__all__ = ["Improved", "Improvement", "ImprovementRound", "improve"]

_TRUSTED = 0.9999
_OTHERS = 0.05
_SHUFFLED = 2000
_LEAST_STEPS = 2
_LONGEST = 20  # times the events asked for


@dataclass(frozen=True, eq=False, repr=False)
class ImprovementRound(ByValue, Summarised):
    """Round of policy improvement: one policy, its fitted values, and its cost by simulation.

    Attributes
    ----------
    policy : BoundPolicy
        The policy: Whittle first, then each improvement on the one before.
    values : FittedValues
        Its values; Σ h_i n_i + QV under this policy has the mean of the cost and little variance.
    mean_cost : float
        Its mean cost by simulation with that control variate.
    interval : tuple of float
        A 95 % confidence interval for it, by means of batches.
    variance_ratio : float
        How many times less Σ h_i n_i + QV varies from state to state than the cost alone, for states that V
        was not fitted to; near one says that the fit is bad.
    states : int
        How many states it was fitted to.
    """

    _repr_fields = ("mean_cost", "interval", "variance_ratio", "states")
    _exported = ("policy", *_repr_fields)

    policy: BoundPolicy
    values: FittedValues
    mean_cost: float
    interval: tuple[float, float]
    variance_ratio: float
    states: int


@dataclass(frozen=True, eq=False, repr=False)
class Improvement(ByValue, Reported):
    """Result of approximate policy iteration: the improved policy, and the rounds that led to it.

    Attributes
    ----------
    rounds : tuple of ImprovementRound
        The policies tried, the Whittle policy first.
    chosen : int
        Which of them is the answer: the last that was not clearly worse than the one chosen before it; the
        Whittle policy if that has the lower upper end of the interval.

    Examples
    --------
    >>> import corewise as cw
    >>> system = cw.load_system("paper:1")
    >>> from corewise.control.improve.improved import improve
    >>> result = improve(system, steps=1, events=20_000, rng=7)
    >>> len(result.rounds), result.policy is result.rounds[result.chosen].policy
    (2, True)
    """

    _repr_fields = ("rounds", "chosen")
    _exported = ("policy", "chosen", "rounds")

    rounds: tuple[ImprovementRound, ...]
    chosen: int

    @property
    def policy(self) -> BoundPolicy:
        """The policy chosen."""
        return self.rounds[self.chosen].policy

    @property
    def values(self) -> FittedValues:
        """Its values."""
        return self.rounds[self.chosen].values

    def report(self) -> Report:
        """Return the policy chosen, and a table of the rounds."""
        taken = f"{self.policy.name} after {self.chosen} steps"
        variance = "times less variance\nthan of the cost"
        header = ["steps", "policy", "mean cost", "95 % interval", variance, "states"]
        rows = [
            (f"{k}", row.policy.name, row.mean_cost, row.interval, f"{row.variance_ratio:.4g}", row.states)
            for k, row in enumerate(self.rounds)
        ]
        return Report("Approximate policy iteration", [("chosen", taken)], [Table(header, rows, names=2)])

    def _content(self) -> Sequence[ImprovementRound]:
        return self.rounds


@dataclass(frozen=True)
class Improved:
    """Approximate policy iteration: fitted improvements of the Whittle policy; for any number of classes.

    Parameters
    ----------
    steps : int
        How many improvements at most; a third and further ones only if the one before clearly gained.
    events : int
        How many events to simulate of each policy on the way.
    seed : int
        For the simulations: the policy is the same each time it is bound to the same system.

    Examples
    --------
    >>> import corewise as cw
    >>> system = cw.load_system("paper:1").at_load(0.8)
    >>> policy = cw.Improved(steps=1, events=20_000, seed=7).on(system)
    >>> policy.allocate([3, 2]).sum().tolist()
    30.0
    >>> whittle = cw.evaluate(system, cw.Whittle()).mean_jobs
    >>> cw.evaluate(system, policy).mean_jobs <= whittle
    True
    """

    steps: int = 3
    events: int = 200_000
    seed: int = 0
    name: str = "improved"

    def __post_init__(self) -> None:
        for name, least in (("steps", 1), ("events", _LEAST_EVENTS), ("seed", 0)):
            object.__setattr__(self, name, checks.whole(getattr(self, name), name, least=least))

    def on(self, system: System) -> BoundPolicy:
        """Return the improved policy for that system."""
        require_system(system)
        found = improve(system.as_memoryless(), rng=self.seed, steps=self.steps, events=self.events)
        return replace(found.policy, name=self.name)


_LEAST_EVENTS = 1000


def improve(
    system: System,
    *,
    rng: np.random.Generator | int | None = None,
    steps: int = 3,
    events: int = 200_000,
) -> Improvement:
    """Run approximate policy iteration from the Whittle policy, and report every round.

    Parameters
    ----------
    system : System
        A system whose load is below one.
    rng : Generator or int, optional
        The source of randomness, or a seed for one.
    steps : int
        How many improvements at most; a third and further ones only if the one before clearly gained.
    events : int
        How many events to simulate of each policy; near saturation up to twenty times as many, if parts of
        the simulation would not be independent otherwise. Intervals are too narrow where even that is short.

    Raises
    ------
    UnstableSystem
        If the load is one or more.
    """
    require_system(system)
    system.require_memoryless("improve")
    system.require_stable()
    system.require_scale()
    steps = checks.whole(steps, "steps")
    events = checks.whole(events, "events", least=_LEAST_EVENTS)
    generator = random_generator(rng)
    policy = Whittle().on(system)
    rounds: list[ImprovementRound] = []
    samples: list[Sample] = []
    limits = np.zeros(len(system.classes) + 1)
    for k in range(steps + 1):
        near = samples[-1] if samples else None
        length = int(min(max(events, settled_events(system, policy)), _LONGEST * events))
        samples.append(sample_states(system, policy, events=length, rng=generator, near=near))
        limits = np.maximum(limits, _limits(samples[-1]))
        rounds.append(_examine(system, policy, samples, limits, generator))
        if k >= _LEAST_STEPS and not _clearly_worse(rounds[k - 1], rounds[k]):
            break
        policy = BoundPolicy(system, "improved", Fitted(system, rounds[k].values, limits))
    return Improvement(tuple(rounds), _choice(rounds))


def _choice(rounds: Sequence[ImprovementRound]) -> int:
    """Return which policy to take; see `Improvement.chosen`.

    With one round of which little is known between two others, the last may be clearly worse than the first
    although each step was not: hence the second rule.
    """
    chosen = 0
    for k, new in enumerate(rounds):
        if not _clearly_worse(new, rounds[chosen]):
            chosen = k
    return 0 if rounds[0].interval[1] < rounds[chosen].interval[1] else chosen


def _clearly_worse(new: ImprovementRound, old: ImprovementRound) -> bool:
    """Return whether the means differ by more than the error of their difference."""
    spread = math.hypot(*(row.interval[1] - row.interval[0] for row in (new, old))) / 2.0
    return new.mean_cost - old.mean_cost > spread


def _examine(
    system: System, policy: BoundPolicy, samples: Sequence[Sample], limits: Floats, rng: np.random.Generator
) -> ImprovementRound:
    """Fit the values of a policy to states that it visited, the last sample, and see how good they are.

    Other states count a little as well: those that the policies before it visited, since a better policy
    comes to fewer states, and what to do in the others must not be forgotten; and states with the same counts
    of single classes put together at random, since the next policy may lead there. The mean of each half of
    the batches is taken with values fitted to the other half: those of the same states would flatter it.
    """
    sample = samples[-1]
    others = [*samples[:-1], *(_shuffled(part, limits, rng) for part in samples)]
    counts = np.concatenate([sample.counts, *(part.counts for part in others)], axis=1)
    cores, here = policy.decision(counts), sample.counts.shape[1]
    halves = np.array_split(sample.times, 2)
    weights = np.zeros((3, counts.shape[1]))
    for row, half in zip(weights, halves, strict=False):
        row[:here] = half.sum(axis=0) / half.sum()
    weights[2, here:] = np.concatenate([part.times.sum(axis=0) / part.times.sum() for part in others])
    equations = Equations.of(system, counts, weights, cores)
    cost = system.weights @ sample.counts
    controlled = [
        cost + equations.solved(other).drift(system, sample.counts, cores[:, :here])
        for other in ((0.0, 1.0, _OTHERS), (1.0, 0.0, _OTHERS))
    ]
    tops = np.concatenate([half @ row for half, row in zip(halves, controlled, strict=True)])
    spans = sample.times.sum(axis=1)
    spread = sum(_variance(row, weight[:here]) for row, weight in zip(controlled, weights, strict=False))
    plain = sum(_variance(cost, weight[:here]) for weight in weights[:2])
    return ImprovementRound(
        policy,
        equations.solved((0.5, 0.5, _OTHERS)),
        float(tops.sum() / spans.sum()),
        ratio_interval(tops, spans),
        plain / spread if spread > 0.0 else math.inf,
        here,
    )


def _shuffled(sample: Sample, limits: Floats, rng: np.random.Generator) -> Sample:
    """Return states in which every count is drawn on its own, rare ones more often than they were seen.

    How much more depends on the number of classes: with many of them all would be far from any state seen.
    """
    times, power = sample.times.sum(axis=0), 1.0 - 1.0 / max(len(sample.counts), 2)
    rows = []
    for jobs in sample.counts:
        probability = np.bincount(jobs, weights=times) ** power
        rows.append(rng.choice(probability.size, _SHUFFLED, p=probability / probability.sum()))
    counts = np.array(rows)
    known = np.all(counts <= limits[:-1, None], axis=0) & (counts.sum(axis=0) <= limits[-1])
    return Sample(np.ascontiguousarray(counts[:, known]), np.ones((1, np.count_nonzero(known))))


def _limits(sample: Sample) -> Floats:
    """Return the counts of each class, and of all, which are exceeded hardly ever."""
    times = sample.times.sum(axis=0)
    rows = np.concatenate([sample.counts, sample.counts.sum(axis=0, keepdims=True)])
    limits = []
    for row in rows:
        order = np.argsort(row, kind="stable")
        upto = np.cumsum(times[order])
        limits.append(float(row[order][np.searchsorted(upto, _TRUSTED * upto[-1])]))
    return np.array(limits)


def _variance(values: Floats, times: Floats) -> float:
    weight = times / times.sum()
    return float(weight @ (values - weight @ values) ** 2)
