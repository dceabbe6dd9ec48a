"""Doubts of a change detector: a change that has not been named, and what was seen before it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from corewise.estimation.changes.alarms import Alarm
from corewise.kit.arrays import Floats
from corewise.model.speedup import SpeedUp

__all__ = ["Pending", "Suspect"]


@dataclass(frozen=True, eq=False)
class Suspect:
    """An unidentified change of speed, of the curve or the size rate: the alarm, and what was seen before."""

    alarm: Alarm
    curve: SpeedUp
    row: Floats
    checks: int


class Pending(NamedTuple):
    """Statistics from before a change that is in doubt: kept until it is sure, and when to look again."""

    row: Floats
    checks: int
