"""Fixed shares of the cores."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

import numpy as np

from corewise.errors import InvalidPolicy
from corewise.kit import checks
from corewise.kit.arrays import Floats, Ints
from corewise.model.system import System, require_system
from corewise.policies.base import BoundPolicy
from corewise.policies.equi import equal_share

__all__ = ["Fixed"]


@dataclass(frozen=True)
class Fixed:
    """Fixed shares: each class holds its own; that of an absent class goes to the others in proportion.

    Where only classes with a share of zero are present, their jobs share all cores equally.

    Examples
    --------
    >>> import corewise as cw
    >>> system = cw.load_system("paper:1")
    >>> policy = cw.Fixed([0.25, 0.75]).on(system)
    >>> policy.allocate([[1, 5], [1, 0]])
    array([[ 7.5, 22.5],
           [30. ,  0. ]])
    """

    shares: tuple[float, ...]

    def __init__(self, shares: Iterable[float]) -> None:
        if isinstance(shares, str) or not isinstance(shares, Iterable):
            raise InvalidPolicy(f"fixed shares must be a list of numbers, got {shares!r}")
        values = tuple(checks.within(share, 0.0, 1.0, "fixed share", InvalidPolicy) for share in shares)
        total = math.fsum(values)
        if abs(total - 1.0) > 1e-9:
            raise InvalidPolicy(
                f"fixed shares must sum to one, got {list(values)}, which sum to {total:.10g}"
            )
        object.__setattr__(self, "shares", values)

    @classmethod
    def parsed(cls, text: str) -> Fixed:
        """Return the policy of shares that are written with commas between them."""
        values = []
        for share in text.split(","):
            try:
                values.append(float(share))
            except ValueError:
                raise InvalidPolicy(f"fixed:{text}: every share must be a number, got {share!r}") from None
        return cls(values)

    @property
    def name(self) -> str:
        """What to call the policy in a table."""
        return "fixed:" + ",".join(f"{share:g}" for share in self.shares)

    def require_fit(self, system: System) -> None:
        """Raise `InvalidPolicy` unless there is a share for every class."""
        require_system(system)
        if len(self.shares) != len(system.classes):
            raise InvalidPolicy(
                f"{self.name} has {len(self.shares)} shares, the system has {len(system.classes)} classes: "
                f"{', '.join(system.names)}"
            )

    def on(self, system: System) -> BoundPolicy:
        """Return the policy for that system."""
        self.require_fit(system)
        return BoundPolicy(system, self.name, partial(_share, np.array(self.shares)[:, None], system.cores))


def _share(shares: Floats, cores: float, counts: Ints) -> Floats:
    held = np.where(counts > 0, shares, 0.0)
    total = held.sum(axis=0)
    return np.where(total > 0.0, cores * held / np.where(total > 0.0, total, 1.0), equal_share(counts, cores))
