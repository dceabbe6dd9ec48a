"""Exact evaluation of adopted policies under the true system: diagnostics that no learner sees."""

from __future__ import annotations

import math
from collections.abc import Container
from dataclasses import dataclass
from functools import cached_property

from corewise.analysis.performance import Performance, evaluate
from corewise.analysis.tractability import Tractability
from corewise.control.solution import Solution, solve
from corewise.errors import InvalidInput, UnstablePolicy
from corewise.learning.plant import Plant
from corewise.model.system import System
from corewise.policies.base import Policy, bind
from corewise.policies.equi import Equi

__all__ = ["Baselines", "ExactEvaluator"]


@dataclass(frozen=True, eq=False)
class Baselines:
    """Baselines under a true system, exact and computed on first use: the optimum, and EQUI."""

    truth: System

    @cached_property
    def best(self) -> Solution:
        """The optimum."""
        return solve(self.truth)

    @cached_property
    def equi(self) -> Performance:
        """The performance of EQUI, the first policy."""
        return evaluate(self.truth, Equi())

    @property
    def equi_gap(self) -> float:
        """How much more EQUI costs than the optimum, as a fraction."""
        return self.gap(self.equi.mean_cost)

    def gap(self, cost: float) -> float:
        """Return how much more a policy costs than the optimum, as a fraction."""
        # No policy is better than the best: what lies below zero is rounding.
        return max(cost / self.best.mean_cost - 1.0, 0.0)


class ExactEvaluator:
    """Exact evaluator of adopted policies under the true system: mean jobs, cost, and gap to the optimum.

    Parameters
    ----------
    diagnose : bool or container of int
        Whether to evaluate, or which epochs.
    """

    def __init__(self, diagnose: bool | Container[int]) -> None:
        if isinstance(diagnose, str) or not isinstance(diagnose, bool | Container):
            raise InvalidInput(f"diagnose must be True, False or numbers of epochs, got {diagnose!r}")
        self._diagnose = diagnose
        self._baselines: Baselines | None = None

    def wants(self, k: int) -> bool:
        """Return whether epoch k is to be evaluated."""
        return self._diagnose if isinstance(self._diagnose, bool) else k in self._diagnose

    def baselines(self, truth: System) -> Baselines | None:
        """Return the baselines under a true system; None if exact numbers are intractable."""
        if self._baselines is None or self._baselines.truth != truth:
            self._baselines = Baselines(truth) if Tractability.of(truth).exact else None
        return self._baselines

    def evaluate(
        self, k: int, plant: Plant, policy: Policy
    ) -> tuple[float, float, float] | tuple[None, None, None]:
        """Evaluate a policy under the true system: mean jobs, mean cost, and its gap to the optimum.

        Infinite if the policy is unstable; None if epoch k is not to be evaluated, if the true system is not
        known, or if exact numbers are out of reach, as they are for sizes that are not exponential and for a
        policy that goes by attained work.
        """
        truth = plant.truth if self.wants(k) else None
        baselines = None if truth is None else self.baselines(truth)
        if baselines is None or not bind(policy, baselines.truth).by_counts:
            return None, None, None
        try:
            found = evaluate(baselines.truth, policy)
        except UnstablePolicy:
            return math.inf, math.inf, math.inf
        return found.mean_jobs, found.mean_cost, baselines.gap(found.mean_cost)
