"""Scaled policies: in a pool that has other cores or other classes than they were made for, in whole cores.

A policy shares the cores of the classes that it was made for, in proportion where it was made for another
number of cores. The jobs of a class that it does not know hold an equal share of the pool: of N jobs, n_u of
class u, the class gets c n_u / N of c cores, and the policy shares out what is left as it would its own pool.
A class of the policy that the pool does not have counts as one without jobs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from corewise.kit.arrays import Floats, Ints
from corewise.model.system import System
from corewise.policies.base import BoundPolicy, Policy, bind, cores_of
from corewise.policies.equi import equal_share
from corewise.policies.moving.priced import PricedTabular
from corewise.policies.rounding import round_cores
from corewise.policies.tabular import Tabular

__all__ = ["ScaledPolicy", "integer_allocation", "positions", "rebind"]


def rebind(policy: Policy, system: System) -> BoundPolicy:
    """Return a policy on the system that it was made for, if it was made for one, else on `system`."""
    return bind(
        policy, policy.system if isinstance(policy, Tabular | PricedTabular | BoundPolicy) else system
    )


def positions(policy: BoundPolicy, names: Sequence[str]) -> Ints:
    """Return the position of each of these classes among those of a policy, -1 if it does not know it."""
    known = {name: k for k, name in enumerate(policy.system.names)}
    return np.array([known.get(name, -1) for name in names], dtype=np.int64)


def integer_allocation(
    policy: BoundPolicy, names: Sequence[str], counts: tuple[int, ...], pool: int
) -> tuple[int, ...]:
    """Return the integer allocation of a state: the whole cores of each class, in a pool of so many.

    `names` and `counts` are the classes of the pool and the jobs of each.
    """
    cores = _integer_allocations(policy, names, np.array(counts, dtype=np.int64)[:, None], pool)
    return tuple(int(x) for x in cores[:, 0])


def _integer_allocations(policy: BoundPolicy, names: Sequence[str], counts: Ints, pool: float) -> Floats:
    """Return the whole cores of each class; counts and cores of shape (K, states)."""
    at = positions(policy, names)
    ours = np.flatnonzero(at >= 0)
    theirs = at[ours]
    jobs = np.zeros((len(policy.system.classes), counts.shape[1]), dtype=np.int64)
    jobs[theirs] = counts[ours]
    part = jobs.sum(axis=0) / np.maximum(counts.sum(axis=0), 1)
    cores = equal_share(counts, pool)
    cores[ours] = cores_of(policy, jobs)[theirs] * (pool / policy.system.cores) * part
    return round_cores(cores)


@dataclass(frozen=True, eq=False)
class ScaledPolicy:
    """Policy that was made for another pool: cores in proportion for its classes, equal shares for others.

    Attributes
    ----------
    policy : BoundPolicy
        The policy as it was made.
    """

    policy: BoundPolicy

    @property
    def name(self) -> str:
        """What it is called."""
        return self.policy.name

    def on(self, system: System) -> BoundPolicy:
        """Return the policy on `system`."""

        def rule(counts: Ints) -> Floats:
            return _integer_allocations(self.policy, system.names, counts, system.cores)

        return BoundPolicy(system, self.name, rule)
