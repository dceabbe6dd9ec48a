"""Doubts of a change detector: whether a change was one, and what it was that changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from corewise.estimation.changes.alarms import Alarm
from corewise.estimation.changes.buckets import Buckets
from corewise.estimation.changes.fits import ratio_of_rates
from corewise.estimation.changes.jumps import skewness
from corewise.kit.arrays import Floats
from corewise.model.speedup import SpeedUp
from corewise.observation.strata.tables import Strata

if TYPE_CHECKING:
    from corewise.estimation.changes.class_detector import ClassDetector

__all__ = ["Evidence", "Suspect", "evidence_for"]


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


class Evidence(NamedTuple):
    """Evidence for a change that is in doubt.

    Attributes
    ----------
    lead : float
        By how much the likelihood ratio exceeds the threshold, as for exponential sizes.
    one, after : SpeedUp
        The curves if it was none, and since if it was one.
    """

    lead: float
    one: SpeedUp
    after: SpeedUp


def evidence_for(
    detector: ClassDetector, suspect: Suspect, nodes: Floats, thresholds: Mapping[str, float]
) -> Evidence:
    """Return what is to be said now for a change that is in doubt."""
    before, after = suspect.row, detector.speed.rows.sum(axis=0)
    curve, whole = detector.fitted_to(before + after, nodes)
    new, of_new = detector.fitted_to(after, nodes)
    found = {
        "curve": detector.fitted_to(before, nodes)[1] + of_new - whole,
        "size rate": ratio_of_rates(before, after, curve.rate(nodes), nodes),
    }
    both = Buckets(np.ones(2, dtype=np.int64), np.stack([before, after]))
    skewed = skewness(detector, both, nodes)[:, 0].tolist()
    tests = zip(detector.factors.items(), skewed, strict=True)
    leads = [(found[test] / more - thresholds[test]) / factor for (test, factor), more in tests]
    return Evidence(max(leads), curve, new)
