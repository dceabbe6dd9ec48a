"""Reach: whether exact numbers for a system, a stationary distribution or the optimum, take seconds.

They are computed over a box of states: one count for each class, so that the states multiply with every
class. At high load the box must hold the tail of a queue of about 1/(1 − load) jobs, and as many more sweeps
are needed for the chain to forget its start; so effort is counted as states / (1 − load)².

Whether tables over states suit a *simulation* is another question, answered in `corewise.simulation.tables`:
a path needs no sweeps, and may leave its tables for larger ones.
"""

from __future__ import annotations

from dataclasses import dataclass

from corewise.model.system import System

__all__ = ["Reach"]

_MOST_CLASSES = 3
_MOST_STATES = 250_000
_MOST_EFFORT = 3e6


@dataclass(frozen=True)
class Reach:
    """Whether exact numbers for a system are within reach, and if not, why.

    Attributes
    ----------
    classes : int
        How many classes there are.
    states : float
        About how many states are likely.
    load : float
        The load.
    """

    classes: int
    states: float
    load: float

    @classmethod
    def of(cls, system: System) -> Reach:
        """Return the reach of a stable system."""
        system.require_stable()
        return cls(len(system.classes), system.likely_states, system.load)

    @property
    def obstacle(self) -> str:
        """What puts exact numbers out of reach, as a noun such as "4 classes"; empty if nothing does."""
        if self.classes > _MOST_CLASSES:
            return f"{self.classes} classes"
        if self.states > _MOST_STATES:
            return f"some {self.states:,.0f} states"
        if self.states / (1.0 - self.load) ** 2 > _MOST_EFFORT:
            return f"some {self.states:,.0f} states at load {self.load:.6g}"
        return ""

    @property
    def exact(self) -> bool:
        """Whether exact numbers take no more than seconds."""
        return not self.obstacle

    def __str__(self) -> str:
        """Return the answer in words."""
        if self.exact:
            return "exact numbers are within reach"
        return f"exact numbers for {self.obstacle} are out of reach"
