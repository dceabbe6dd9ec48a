"""Policies of a pool that has more or fewer cores than they were made for: in proportion, in whole cores."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from corewise.kit.arrays import Floats, Ints
from corewise.model.system import System
from corewise.policies.base import BoundPolicy, Policy, bind
from corewise.policies.moving.priced import PricedTabular
from corewise.policies.tabular import Tabular
from corewise.policies.whole import round_cores

__all__ = ["InProportion", "as_made", "whole_share"]


def as_made(policy: Policy, system: System) -> BoundPolicy:
    """Return a policy on the system that it was made for, if it was made for one, else on `system`."""
    return bind(
        policy, policy.system if isinstance(policy, Tabular | PricedTabular | BoundPolicy) else system
    )


def whole_share(policy: BoundPolicy, counts: tuple[int, ...], pool: int) -> tuple[int, ...]:
    """Return the whole cores of each class in a state, in a pool of so many of them."""
    cores = policy.allocate(np.array(counts)) * (pool / policy.system.cores)
    return tuple(int(x) for x in round_cores(cores[:, None])[:, 0])


@dataclass(frozen=True, eq=False)
class InProportion:
    """Policy of another pool, with as many cores for each class as that gives it of its own, in proportion.

    Attributes
    ----------
    policy : BoundPolicy
        That policy.
    """

    policy: BoundPolicy

    @property
    def name(self) -> str:
        """What it is called."""
        return self.policy.name

    def on(self, system: System) -> BoundPolicy:
        """Return the policy on `system`."""
        ratio = system.cores / self.policy.system.cores

        def rule(counts: Ints) -> Floats:
            return round_cores(self.policy.rule(counts) * ratio)

        return BoundPolicy(system, self.name, rule)
