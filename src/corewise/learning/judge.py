"""Exact verdicts on the policies that are adopted: diagnostics of experiments, which no learner sees."""

from __future__ import annotations

import math
from collections.abc import Container

from corewise.analysis.performance import evaluate
from corewise.control.solution import solve, within_reach
from corewise.errors import InvalidInput, UnstablePolicy
from corewise.learning.plant import Plant
from corewise.model.system import System
from corewise.policies.base import Policy

__all__ = ["Judge"]


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
        self._truth: System | None = None
        self._least = math.nan

    def wants(self, k: int) -> bool:
        """Return whether epoch k is to be judged."""
        return self._diagnose if isinstance(self._diagnose, bool) else k in self._diagnose

    def verdict(
        self, k: int, plant: Plant, policy: Policy
    ) -> tuple[float, float, float] | tuple[None, None, None]:
        """Evaluate a policy under the truth: mean jobs, mean cost, and its gap to the optimum.

        Infinite if the policy cannot keep up; None if epoch k is not to be judged, if nobody knows the truth,
        or if it has so many states that an exact answer is out of reach.
        """
        truth = plant.truth if self.wants(k) else None
        if truth is None or not (truth == self._truth or within_reach(truth)):
            return None, None, None
        if truth != self._truth:
            self._truth, self._least = truth, solve(truth).mean_cost
        try:
            found = evaluate(truth, policy)
        except UnstablePolicy:
            return math.inf, math.inf, math.inf
        # No policy is better than the best: what lies below zero is rounding.
        return found.mean_jobs, found.mean_cost, max(found.mean_cost / self._least - 1.0, 0.0)
