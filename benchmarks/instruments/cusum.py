r"""CUSUM that knows a change beforehand: how soon it finds it, and how often one that never was.

Page's CUSUM, applied event by event, is the yardstick for every detector. With the departure rates δ₀(n)
of a class before a change of its curve and δ₁(n) after it, the level

    falls by (δ₁(n) − δ₀(n)) dt while the counts are n,      rises by log(δ₁(n)/δ₀(n)) when a job leaves,

and starts afresh whenever it comes below zero: it is the largest log-likelihood ratio of a change at any time
so far. No detector with as few false alarms finds that change sooner in the worst case.

*Heights.* The likelihood ratio turns probabilities before the change into expectations after it: an excursion
of the level reaches h with the probability e^−h E₁[e^−overshoot; it does], and the overshoot soon has a law
that does not depend on h. So the mean number of departures between false alarms is γ = C e^h: log γ rises
with a slope of one in h, and a run length that was simulated gives the heights of those that are too long for
it.

*Delays* are counted in departures of all classes, from the change to the alarm. To first order they are
log γ / I, where I is the mean gain of the log-likelihood ratio per departure after the change.

Source: G. Lorden, *Procedures for reacting to a change in distribution* (Annals of Mathematical Statistics
42, 1971); G. V. Moustakides, *Optimal stopping times for detecting changes in distributions* (Annals of
Statistics 14, 1986).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from benchmarks.instruments import _kernels
from corewise.analysis.performance import stationary_chain
from corewise.errors import NotConverged
from corewise.kit import checks
from corewise.kit.arrays import Floats
from corewise.model.rates import departure_rates
from corewise.model.speedup import SpeedUp
from corewise.model.system import System
from corewise.policies.base import Policy, bind, tabulate
from corewise.simulation.decisions.table import TransitionTables
from corewise.simulation.randomness import random_generator

__all__ = ["Jump", "RunLength", "cusum_delays", "cusum_height", "cusum_run_length"]

Rng = np.random.Generator | int | None

_PILOT_HEIGHT = 4.0
"""A height that is reached often, and high enough for the slope to be nearly one."""

_ALARMS = 400
"""So many false alarms tell a height to within 0.05."""

_SETTLED = 20_000
"""Departures after which counts and level have forgotten where they began."""


@dataclass(frozen=True, eq=False)
class Jump:
    """A change of one class's curve under a policy that stays as it is.

    Attributes
    ----------
    system : System
        The curves before the change.
    policy : Policy
        Who holds how many cores; a rule is made for the system before the change.
    name : str
        The class that changes.
    after : SpeedUp
        Its curve afterwards.
    """

    system: System
    policy: Policy
    name: str
    after: SpeedUp

    @property
    def changed(self) -> System:
        """The curves after the change."""
        return self.system.with_curves({self.name: self.after})

    def rates(self, jobs: Floats, cores: Floats) -> tuple[Floats, Floats]:
        """Return δ₀ and δ₁, the rates at which jobs of the class leave, state by state."""
        i = self.system.index(self.name)
        return departure_rates(self.system, jobs, cores)[i], departure_rates(self.changed, jobs, cores)[i]

    @property
    def information(self) -> float:
        """I, the mean gain of the log-likelihood ratio per departure of all classes after the change.

        Exactly, from the stationary distribution π of the changed system under the old policy:

            I = Σ_n π(n) [δ₁ log(δ₁/δ₀) − δ₁ + δ₀] / Σ_j λ_j.
        """
        bound = bind(self.policy, self.system)
        chain = stationary_chain(self.changed, bound, None)
        before, after = self.rates(chain.space.jobs, tabulate(bound, chain.space))
        served = before > 0.0
        old, new = before[served], after[served]
        gain = chain.distribution[served] @ (new * np.log(new / old) - new + old)
        return float(gain / self.system.arrival_rates.sum())


@dataclass(frozen=True)
class RunLength:
    """False alarms of CUSUM at one height.

    Attributes
    ----------
    height : float
        Alarm when the level comes to this.
    departures : int
        Departures simulated, of all classes.
    alarms : int
        How many alarms there were.
    """

    height: float
    departures: int
    alarms: int

    @property
    def mean(self) -> float:
        """The mean number of departures between alarms; infinite if there was none."""
        return self.departures / self.alarms if self.alarms else math.inf


class _Cusum:
    """A walk and the level along it."""

    def __init__(self, jump: Jump, rng: np.random.Generator) -> None:
        self.jump, self.rng, self.level = jump, rng, 0.0
        empty = (0,) * len(jump.system.classes)
        self._tables = TransitionTables.of(jump.system, bind(jump.policy, jump.system), empty)
        self._here = self._tables.state(empty)
        self._weigh()

    def _weigh(self) -> None:
        """Compute by how much the level falls and rises in every state of the box."""
        old, new = self.jump.rates(self._tables.space.jobs, self._tables.cores)
        self._falls, self._rises = new - old, np.zeros(new.size)
        served = old > 0.0
        self._rises[served] = np.log(new[served] / old[served])

    def under(self, system: System) -> None:
        """Let the walk go on with the curves of another system; the policy stays."""
        self._tables = self._tables.under(system)

    def run(self, height: float, departures: int) -> int:
        """Go on until the level comes to `height`, for so many departures at most; return how many."""
        jump, done = self.jump, 0
        watched = len(jump.system.classes) + jump.system.index(jump.name)
        while done < departures and self.level < height:
            tables = self._tables
            here, self.level, more = _kernels.cusum_walk(
                self.rng,
                tables.thresholds,
                tables.holding,
                self._falls,
                self._rises,
                tables.steps,
                watched,
                self._here,
                self.level,
                height,
                departures - done,
            )
            self._here, done = int(here), done + int(more)
            if tables.thresholds[self._here * len(tables.steps)] < 0.0:
                counts = tables.counts(self._here)
                self._tables = tables.grown(counts)
                self._here = self._tables.state(counts)
                self._weigh()
        return done


def cusum_run_length(jump: Jump, *, height: float, departures: int, rng: Rng = None) -> RunLength:
    """Return the false alarms of CUSUM while nothing changes.

    Parameters
    ----------
    jump : Jump
        The change that CUSUM expects, and that does not come.
    height : float
        Alarm when the level comes to this; it then starts from zero.
    departures : int
        How many to simulate, of all classes.
    rng : Generator or int, optional
        The source of randomness, or a seed for one.
    """
    height = checks.positive(height, "height")
    left = total = checks.count(departures, "departures")
    cusum, alarms = _Cusum(jump, random_generator(rng)), 0
    while left:
        left -= cusum.run(height, left)
        if cusum.level >= height:
            alarms += 1
            cusum.level = 0.0
    return RunLength(height, total, alarms)


def cusum_height(jump: Jump, *, between: float, departures: int = 10_000_000, rng: Rng = None) -> float:
    """Return the height at which CUSUM has so many departures between false alarms, in the mean.

    Found from the run length at a lower height, at which there are some 400 alarms in so many `departures`.
    """
    log_between = math.log(checks.positive(between, "between"))
    generator = random_generator(rng)

    def aimed(height: float, count: int) -> tuple[float, float]:
        found = cusum_run_length(jump, height=height, departures=count, rng=generator)
        if found.alarms == 0:
            raise NotConverged(f"no false alarm of CUSUM at height {height:.3g} in {count} departures")
        shift = height - math.log(found.mean)
        return shift + log_between, shift + math.log(departures / _ALARMS)

    wanted, affordable = aimed(_PILOT_HEIGHT, max(departures // 10, 1))
    return aimed(max(min(wanted, affordable), 0.5 * _PILOT_HEIGHT), departures)[0]


def cusum_delays(
    jump: Jump, *, height: float, repetitions: int, most: int = 10_000_000, rng: Rng = None
) -> Floats:
    """Return the delay of CUSUM at each of some repetitions of a change, in departures of all classes.

    At the change the counts and the level have their stationary law under no change: the level is a little
    above zero then, which is in favour of CUSUM. `NotConverged` is raised after `most` departures.
    """
    height = checks.positive(height, "height")
    delays = np.empty(checks.count(repetitions, "repetitions"))
    cusum = _Cusum(jump, random_generator(rng))
    for k in range(delays.size):
        cusum.under(jump.system)
        cusum.run(math.inf, _SETTLED)
        cusum.under(jump.changed)
        delays[k] = cusum.run(height, most)
        if cusum.level < height:
            raise NotConverged(f"CUSUM has not found the change of class {jump.name!r} in {most} departures")
        cusum.level = 0.0
    return delays
