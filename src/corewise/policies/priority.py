"""Strict priority between classes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

import numpy as np

from corewise.errors import InvalidPolicy, nearest
from corewise.kit.arrays import Floats, Ints
from corewise.model.system import System, require_system
from corewise.policies.base import BoundPolicy
from corewise.policies.decisions import Levels
from corewise.policies.waterfill.levels.steps import LevelSteps

__all__ = ["Priority"]


@dataclass(frozen=True)
class Priority:
    """Strict priority: all cores go to the first class present, in the order given.

    Examples
    --------
    >>> import corewise as cw
    >>> system = cw.load_system("paper:1")
    >>> policy = cw.Priority(["two", "one"]).on(system)
    >>> policy.allocate([[1, 5], [1, 0]])
    array([[ 0., 30.],
           [30.,  0.]])
    """

    order: tuple[str, ...]

    def __init__(self, order: Iterable[str]) -> None:
        names = (order,) if isinstance(order, str) or not isinstance(order, Iterable) else tuple(order)
        for name in names:
            if not isinstance(name, str):
                raise InvalidPolicy(f"priority needs names of classes, got {name!r}")
            if names.count(name) > 1:
                raise InvalidPolicy(f"priority names class {name!r} twice")
        object.__setattr__(self, "order", names)

    @property
    def name(self) -> str:
        """What to call the policy in a table."""
        return "priority:" + ",".join(self.order)

    def require_fit(self, system: System) -> None:
        """Raise `InvalidPolicy` unless every class is named."""
        require_system(system)
        for name in self.order:
            if name not in system.names:
                raise InvalidPolicy(f"{self.name}: unknown class {name!r}{nearest(name, system.names)}")
        for name in system.names:
            if name not in self.order:
                raise InvalidPolicy(f"{self.name}: class {name!r} is missing; name every class once")

    def on(self, system: System) -> BoundPolicy:
        """Return the policy for that system."""
        self.require_fit(system)
        ranks = np.array([self.order.index(name) for name in system.names], dtype=np.int64)
        rule = partial(_first_present, np.argsort(ranks), system.cores)
        steps = partial(LevelSteps.in_order, system.cores, [(ranks, np.full(ranks.size, system.cores))])
        return BoundPolicy(system, self.name, Levels(steps, rule))


def _first_present(order: Ints, cores: float, counts: Ints) -> Floats:
    first = order[np.argmax(counts[order] > 0, axis=0)]
    return np.where((np.arange(order.size)[:, None] == first) & (counts > 0), cores, 0.0)
