"""State of a live pool, as a controller hands it out to be explained and checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from corewise.estimation.class_estimate import ClassEstimate
from corewise.live.state.counters import JobCounters
from corewise.live.state.job_table import JobTable
from corewise.model.system import System
from corewise.observation.events import Mode

__all__ = ["PoolState"]


@dataclass(frozen=True, slots=True)
class PoolState:
    """State of a live pool between two events; it is to be read, not changed.

    Attributes
    ----------
    time : float
        The time of the last event.
    mode : str
        ``"watch"``, ``"steer"`` or ``"hold"``.
    pool : int
        The cores of the pool.
    jobs : JobTable
        The jobs that are present.
    counters : sequence of JobCounters
        The counters of each class.
    free_moves : bool
        Whether no class is known to pause when its jobs are resized, nor to be faster on fewer cores, so that
        no core is left over.
    policy : str
        The policy in force.
    policy_classes : sequence of str
        The classes that it is for; jobs of others share equally.
    estimates : mapping or None
        The estimates by class; None before the first.
    estimated : System
        The system with the latest estimate of every curve.
    """

    time: float
    mode: Mode
    pool: int
    jobs: JobTable
    counters: Sequence[JobCounters]
    free_moves: bool
    policy: str
    policy_classes: Sequence[str]
    estimates: Mapping[str, ClassEstimate] | None
    estimated: System

    @property
    def names(self) -> list[str]:
        """The classes."""
        return self.estimated.names
