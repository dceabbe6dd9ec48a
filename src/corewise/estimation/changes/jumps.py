"""Jumps: where what was seen of a class is best split in two, and whether that makes an alarm."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from corewise.estimation.changes.buckets import Buckets
from corewise.estimation.changes.departure_rate import shape_and_rate
from corewise.estimation.changes.dispersion import skewness_factors
from corewise.estimation.changes.scan import NEAR, View
from corewise.kit.arrays import Floats, Ints

if TYPE_CHECKING:
    from corewise.estimation.changes.class_detector import ClassDetector

__all__ = ["Jump", "jump_in", "skewness"]

_AT_MOST = 4
"""For so many splits G is computed at first, and for all if one of them exceeds the threshold."""


class Jump(NamedTuple):
    """Jump of the speed of a class: the test that found it, and its ratios for a change after each bucket."""

    test: str
    ratios: Floats


def jump_in(
    detector: ClassDetector, view: View, nodes: Floats, thresholds: Mapping[str, float]
) -> Jump | None:
    """Return the jump in all that counts, if a ratio exceeds its threshold where a change may be."""
    whole = detector.whole
    may = np.cumsum(whole.sizes)[:-1] >= detector.min_checks
    by_curve, by_size = np.where(may, skewness(detector, whole, nodes), np.inf)
    found = {"size rate": view.by_size / by_size}
    if view.most_by_curve >= NEAR * thresholds["curve"]:
        found["curve"] = _of_curve(detector, view.by_curve / by_curve, by_curve, nodes, thresholds["curve"])
    exceeding = {test: ratios for test, ratios in found.items() if ratios.max() >= thresholds[test]}
    if not exceeding:
        return None
    test = max(exceeding, key=lambda kind: float(exceeding[kind].max()))
    return Jump(test, exceeding[test])


def skewness(detector: ClassDetector, whole: Buckets, nodes: Floats) -> Floats:
    """Return what to divide ratios of a change after each bucket by, of curve and size rate, shape (2, …)."""
    believed = np.array(list(detector.factors.values()))
    if not np.any(believed > 1.0):
        return np.ones((2, len(whole) - 1))
    upto = np.cumsum(whole.rows, axis=0)
    sides = np.stack([upto[:-1], upto[-1] - upto[:-1]])
    curve = detector.curve
    shape, unit = shape_and_rate(curve)
    rate = detector.known.known_size_rate * curve.rate_above(nodes)
    ratio = shape.gradient_above(nodes)[:, 0] / shape.rate_above(nodes)
    return skewness_factors(sides, believed, nodes, rate, ratio, unit).T


def _of_curve(
    detector: ClassDetector, model: Floats, skewed: Floats, nodes: Floats, threshold: float
) -> Floats:
    """Return G for a change of the curve after each bucket, or nought if it nowhere exceeds the threshold.

    Curves with several parameters take long to fit: G is computed at the likeliest place of the quadratic
    model alone, and at the others that is scaled to it.
    """
    several = len(detector.curve.bounds) > 1
    best = np.argsort(-model, kind="stable")[: 1 if several else _AT_MOST]
    best = best[model[best] > 0.0]
    highest = float((_ratios(detector, best, nodes) / skewed[best]).max(initial=0.0))
    if highest < threshold:
        return np.zeros(model.size)
    if several:
        return np.asarray(model * (highest / model.max()))
    return np.asarray(_ratios(detector, np.arange(model.size), nodes) / skewed)


def _ratios(detector: ClassDetector, splits: Ints, nodes: Floats) -> Floats:
    """Return G for changes of the curve after these buckets."""
    upto = np.cumsum(detector.whole.rows, axis=0)

    def most(row: Floats) -> float:
        return detector.fitted_to(row, nodes)[1]

    one = most(upto[-1])
    return np.array([most(upto[k]) + most(upto[-1] - upto[k]) - one for k in splits.tolist()])
