"""Whole cores: any policy, rounded so that every class holds an integer number of cores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from corewise.errors import InvalidPolicy
from corewise.kit.arrays import Floats, Ints
from corewise.model.system import System, require_system
from corewise.policies.base import BoundPolicy, Policy, bind, checked_policy, cores_of
from corewise.policies.decisions import Decision
from corewise.policies.rounding import require_whole, round_cores

__all__ = ["Rounded", "WholeCores"]


@dataclass(frozen=True, eq=False)
class Rounded(Decision):
    """Decision of a whole-core policy: the cores of another policy, rounded to whole ones."""

    whole_jobs: ClassVar[bool] = True

    policy: BoundPolicy

    def __call__(self, counts: Ints) -> Floats:
        """Return the cores per class, both of shape (K, states)."""
        return round_cores(cores_of(self.policy, counts))


@dataclass(frozen=True)
class WholeCores:
    """Whole-core version of a policy: each class's cores are rounded to whole numbers.

    Examples
    --------
    >>> import corewise as cw
    >>> system = cw.load_system("paper:1")
    >>> cw.WholeCores(cw.Whittle()).on(system).allocate([1, 5])
    array([ 2., 28.])
    """

    policy: Policy | str

    @property
    def name(self) -> str:
        """What to call the policy in a table."""
        rule = self.policy if isinstance(self.policy, str) else self.policy.name
        return f"{rule}, whole cores"

    def require_fit(self, system: System) -> None:
        """Raise unless there is a whole number of cores and the policy itself fits."""
        require_system(system)
        require_whole(system)
        checked_policy(self.policy, system)

    def on(self, system: System) -> BoundPolicy:
        """Return the rounded policy for that system."""
        self.require_fit(system)
        bound = bind(self.policy, system)
        if not bound.by_counts:
            raise InvalidPolicy(f"{bound.name} serves classes in order of attained work, not by whole cores")
        return BoundPolicy(bound.system, self.name, Rounded(bound))
