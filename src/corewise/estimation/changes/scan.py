"""Scan of what a class has shown: likelihood ratios of a change after each bucket, and drift windows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from corewise.estimation.changes import _kernels
from corewise.estimation.changes.buckets import Buckets
from corewise.estimation.changes.grid import TABLE
from corewise.kit.arrays import Floats

if TYPE_CHECKING:
    from corewise.estimation.changes.class_detector import ClassDetector

__all__ = ["NEAR", "WINDOW_LENGTHS", "View", "window_start"]

NEAR = 0.5
"""If the quadratic model of a split reaches this part of the threshold, G is computed, and corrected."""

WINDOW_LENGTHS = 2 ** np.arange(1, 13)
"""The lengths of the windows that follow drift, in checks."""


class View(NamedTuple):
    """Likelihood ratios at all edges of the buckets, and the state of the drift windows: see `scan`."""

    by_curve: Floats
    by_size: Floats
    window_leads: Floats
    steps: Floats
    most_by_curve: float
    most_by_size: float
    square: float

    @classmethod
    def of(cls, detector: ClassDetector, nodes: Floats) -> View:
        """Return what a scan of all that counts shows."""
        whole = detector.whole
        rate = detector.curve.rate_above(nodes)  # no node is below one core
        ratio = detector.curve.gradient_above(nodes) / rate[:, None]
        by_curve, by_size = np.zeros((2, len(whole) - 1))
        window_leads, steps = (
            detector.window_leads.copy(),
            np.empty((WINDOW_LENGTHS.size + 1, ratio.shape[1])),
        )
        rate = detector.known.known_size_rate * rate
        most = _kernels.scan(
            whole.sizes,
            whole.rows,
            TABLE,
            rate,
            ratio,
            WINDOW_LENGTHS,
            detector.offsets,
            window_leads,
            detector.window_index,
            detector.min_checks,
            by_curve,
            by_size,
            steps,
        )
        return cls(by_curve, by_size, window_leads, steps, *most)

    def alerting(self, thresholds: Mapping[str, float]) -> bool:
        """Return whether a change might be found."""
        most = {"size rate": self.most_by_size, "curve": self.most_by_curve}
        return any(most[test] >= NEAR * threshold for test, threshold in thresholds.items())


def window_start(speed: Buckets, window_index: int) -> int:
    """Return the first bucket of a window."""
    if window_index == 0:
        return 0
    ages = np.cumsum(speed.sizes[::-1])
    return max(ages.size - 1 - int(np.searchsorted(ages, WINDOW_LENGTHS[window_index - 1])), 0)
