"""The optimum as a rule: solved for the system that it is bound to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from corewise.control.solution import solve
from corewise.model.system import System, require_system
from corewise.policies.base import BoundPolicy

__all__ = ["Optimal"]


@dataclass(frozen=True)
class Optimal:
    """The exact optimum of whatever system it is bound to; `solve` also says what it achieves.

    For sizes that are not exponential, it is the optimum as if they were.

    Parameters
    ----------
    capacity : int or sequence of int, optional
        The box within which it is solved, as for `solve`.
    """

    capacity: int | Iterable[int] | None = None
    name: str = "optimal"

    def on(self, system: System) -> BoundPolicy:
        """Return the optimal policy for that system."""
        require_system(system)
        return solve(system.as_memoryless(), capacity=self.capacity).policy.on(system)
