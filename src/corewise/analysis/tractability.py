"""Tractability of a system: how long its exact optimum and the exact mean of a policy take.

They are computed over a box of states: one count for each class, so that the states multiply with every
class, and at high load the box must hold the tails. Beyond the body of its distribution the count of a class
falls geometrically. Where jobs share alike (EQUI), the total falls by ρ, the load, and each of its jobs is of
class i with probability ρ_i/ρ, so that the count of the class falls by

    ρ_i / (1 − ρ + ρ_i);

where classes are served in order (Whittle, the optimum), that of a class falls by about the load of all
classes up to it. Classes that are alike in curve, size rate and weight are served together there: with r the
load up to the last of them and q the share of one in their load, its count falls by

    r q / (1 − r + r q).

A box that holds either to the last digits is predicted from these; work is counted in updates of one state,
some thousands for each state of the optimum and fewer for a mean, hardly more at a higher load.
The answer depends on the system alone, not on a clock: results stay reproducible.

Whether tables over states suit a *simulation* is another question, answered in
`corewise.simulation.decisions.table`: a path needs no sweeps, and may leave its tables for larger ones.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from corewise.kit.arrays import Floats
from corewise.model.system import System

__all__ = ["Tractability"]

_MOST_CLASSES = 3
_MOST_SECONDS = 60.0
_UPDATES_PER_SECOND = 2e8
"""Updates of a state by one core of a machine of 2020 or later."""
_OF_THE_OPTIMUM = 5000.0
_OF_A_MEAN = 1000.0
"""Updates of each state until the optimum is certified, and until a stationary distribution has converged."""
_MEANS = 4
"""Number of means computed beside an optimum: those of the usual policies."""
_DIGITS = 33.0
"""Decay of the tails within a box, as a power of e."""


@dataclass(frozen=True)
class Tractability:
    """Tractability of exact numbers for a system, and the obstacle if there is one.

    Attributes
    ----------
    classes : int
        Number of classes.
    ordered, shared : float
        Approximate number of states of the box under policies that serve classes in order, and under EQUI.
    load : float
        The load.
    memoryless : bool
        Whether sizes and the times between arrivals are exponential.
    """

    classes: int
    ordered: float
    shared: float
    load: float
    memoryless: bool = True

    @classmethod
    def of(cls, system: System) -> Tractability:
        """Return the tractability of a stable system."""
        system.require_stable()
        system.require_scale()
        jobs = system.arrival_rates / system.size_rates
        body = jobs + 4.0 * np.sqrt(jobs) + 4.0
        loads = jobs / system.cores
        order = np.argsort(-system.weights * system.size_rates, kind="stable")
        upto = np.empty(len(jobs))
        upto[order] = np.minimum(np.cumsum(loads[order]), system.load)
        alike = loads / (1.0 - system.load + loads)
        in_order = _served_together(system, loads, upto)
        return cls(len(jobs), _states(body, in_order), _states(body, alike), system.load, system.memoryless)

    @property
    def states(self) -> float:
        """Approximate number of states of the larger box."""
        return max(self.ordered, self.shared)

    @property
    def seconds_to_solve(self) -> float:
        """Approximate time for the optimum; one class has a closed form."""
        updates = _OF_A_MEAN if self.classes == 1 else _OF_THE_OPTIMUM
        return self.ordered * updates / _UPDATES_PER_SECOND

    @property
    def seconds_to_evaluate(self) -> float:
        """Approximate time for the mean of a policy that is not among the worst."""
        return self.states * _OF_A_MEAN / _UPDATES_PER_SECOND

    @property
    def seconds(self) -> float:
        """Approximate time for the optimum and the means of the usual policies beside it."""
        means = self.shared + (_MEANS - 1) * self.ordered
        return self.seconds_to_solve + means * _OF_A_MEAN / _UPDATES_PER_SECOND

    @property
    def quick(self) -> bool:
        """Whether all of these take no more than a minute, however many classes there are."""
        return self.seconds <= _MOST_SECONDS

    @property
    def obstacle(self) -> str:
        """Reason why exact numbers are intractable, as a noun such as "4 classes"; empty if none."""
        if not self.memoryless:
            return "sizes or arrivals that are not exponential"
        if self.classes > _MOST_CLASSES:
            return f"{self.classes} classes"
        if not self.quick:
            return f"some {self.states:,.0f} states at load {self.load:.6g}"
        return ""

    @property
    def exact(self) -> bool:
        """Whether exact numbers take no more than a minute."""
        return not self.obstacle

    def __str__(self) -> str:
        """Return the answer in words."""
        if self.exact:
            return "exact numbers are within reach"
        return f"exact numbers for {self.obstacle} are out of reach"


def _served_together(system: System, loads: Floats, upto: Floats) -> Floats:
    """Return the decay of the count of each class per job, where equal classes are served together.

    `upto` is the load of all classes up to each.
    """
    kinds = [(known.curve, known.size_rate, known.weight) for known in system.classes]
    decays = upto.copy()
    for i, kind in enumerate(kinds):
        group = [k for k, other in enumerate(kinds) if other == kind]
        share, most = loads[i] / loads[group].sum(), upto[group].max()
        decays[i] = most * share / (1.0 - most + most * share)
    return decays


def _states(body: Floats, decays: Floats) -> float:
    """Return the number of states that hold the body of every count and a tail with this decay per job."""
    tails = _DIGITS / -np.log(np.clip(decays, 1e-300, 1.0 - 1e-15))
    return math.exp(min(float(np.log(body + tails).sum()), 700.0))
