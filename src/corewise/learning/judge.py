"""Exact verdicts on the policies that are adopted: diagnostics of experiments, which no learner sees."""

from __future__ import annotations

import math
from collections.abc import Container
from dataclasses import dataclass
from functools import cached_property

from corewise.analysis.performance import Performance, evaluate
from corewise.analysis.reach import Reach
from corewise.control.solution import Solution, solve
from corewise.errors import InvalidInput, UnstablePolicy
from corewise.learning.plant import Plant
from corewise.model.system import System
from corewise.policies.base import Policy, bind
from corewise.policies.equi import Equi

__all__ = ["Judge", "Yardstick"]


@dataclass(frozen=True, eq=False)
class Yardstick:
    """The baselines under a truth, exact and computed on first use: the optimum, and EQUI."""

    truth: System

    @cached_property
    def best(self) -> Solution:
        """The optimum."""
        return solve(self.truth)

    @cached_property
    def equi(self) -> Performance:
        """What EQUI, the first policy, does."""
        return evaluate(self.truth, Equi())

    @property
    def equi_gap(self) -> float:
        """How much more EQUI costs than the optimum, as a fraction."""
        return self.gap(self.equi.mean_cost)

    def gap(self, cost: float) -> float:
        """Return how much more a policy costs than the optimum, as a fraction."""
        # No policy is better than the best: what lies below zero is rounding.
        return max(cost / self.best.mean_cost - 1.0, 0.0)


class Judge:
    """Exact evaluator of adopted policies under the true system: mean jobs, cost, and gap to the optimum.

    Parameters
    ----------
    diagnose : bool or container of int
        Whether to judge, or which epochs.
    """

    def __init__(self, diagnose: bool | Container[int]) -> None:
        if isinstance(diagnose, str) or not isinstance(diagnose, bool | Container):
            raise InvalidInput(f"diagnose must be True, False or numbers of epochs, got {diagnose!r}")
        self._diagnose = diagnose
        self._yardstick: Yardstick | None = None

    def wants(self, k: int) -> bool:
        """Return whether epoch k is to be judged."""
        return self._diagnose if isinstance(self._diagnose, bool) else k in self._diagnose

    def yardstick(self, truth: System) -> Yardstick | None:
        """Return the baselines under a truth; None if exact numbers are out of reach, as `Reach` says."""
        if self._yardstick is None or self._yardstick.truth != truth:
            self._yardstick = Yardstick(truth) if Reach.of(truth).exact else None
        return self._yardstick

    def verdict(
        self, k: int, plant: Plant, policy: Policy
    ) -> tuple[float, float, float] | tuple[None, None, None]:
        """Evaluate a policy under the truth: mean jobs, mean cost, and its gap to the optimum.

        Infinite if the policy cannot keep up; None if epoch k is not to be judged, if nobody knows the truth,
        or if exact numbers are out of reach, as they are for sizes that are not exponential and for a policy
        that goes by attained work.
        """
        truth = plant.truth if self.wants(k) else None
        yardstick = None if truth is None else self.yardstick(truth)
        if yardstick is None or not bind(policy, yardstick.truth).by_counts:
            return None, None, None
        try:
            found = evaluate(yardstick.truth, policy)
        except UnstablePolicy:
            return math.inf, math.inf, math.inf
        return found.mean_jobs, found.mean_cost, yardstick.gap(found.mean_cost)
