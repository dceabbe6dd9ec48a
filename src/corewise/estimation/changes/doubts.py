"""Doubts of a change detector: whether a change was one, and what it was that changed."""

from __future__ import annotations

from dataclasses import dataclass

from corewise.estimation.changes.alarms import Alarm
from corewise.kit.arrays import Floats
from corewise.model.speedup import SpeedUp
from corewise.observation.strata.tables import Strata

__all__ = ["Suspect"]


@dataclass(frozen=True, eq=False)
class Suspect:
    """A change of speed that is in doubt, and what was seen before it.

    Attributes
    ----------
    alarm : Alarm
        What was last said of it.
    curve : SpeedUp
        The curve before it.
    row : ndarray
        The statistics from before it.
    checks : int
        How many checks those are of.
    fresh : int
        How many checks there were since the change when the alarm was raised.
    sure : bool
        Whether it was one. If not, what was seen before it still counts.
    strata : Strata or None
        What was kept of single jobs when the alarm was raised, while it is not sure.
    """

    alarm: Alarm
    curve: SpeedUp
    row: Floats
    checks: int
    fresh: int
    sure: bool = False
    strata: Strata | None = None

    @property
    def stalled(self) -> bool:
        """Whether none of the jobs has left since, though many were due."""
        return self.alarm.kind == "size rate" and self.alarm.after["size_rate"] == 0.0
