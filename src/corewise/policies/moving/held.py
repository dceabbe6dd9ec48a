"""Widths that are never changed: the policy of a pool that does not resize its jobs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from corewise.model.system import System
from corewise.policies.base import BoundPolicy, Policy, bind, checked_policy
from corewise.policies.moving.rule import WidthRule, Widths, job_times
from corewise.policies.rounding import require_whole

__all__ = ["Held"]


@dataclass(frozen=True)
class Held:
    """Held widths: a job starts with what a policy would give it, or as much as is free, and keeps it.

    Where moves are free it is that policy itself; it differs in `simulate` with moving costs.

    Parameters
    ----------
    policy : Policy or str, optional
        The policy; by default the optimum.
    """

    policy: Policy | str = "optimal"
    name: str = "held"

    def require_fit(self, system: System) -> None:
        """Raise unless there is a whole number of cores and the policy itself fits."""
        require_whole(system)
        checked_policy(self.policy, system)

    def on(self, system: System) -> BoundPolicy:
        """Return the policy for that system."""
        self.require_fit(system)
        bound = bind(self.policy, system)
        pauses = np.array([known.resize_pause for known in system.classes])
        rule = WidthRule("hold", pauses, job_times(bound.system, int(system.cores)))
        return BoundPolicy(bound.system, self.name, Widths(bound.decision, rule))
