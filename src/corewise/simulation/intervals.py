"""Confidence intervals of simulated means, from batches or replications."""

from __future__ import annotations

import math

import numpy as np

from corewise.kit.arrays import Floats

__all__ = ["BATCH_TIMES", "LEVEL", "independent", "mean_interval", "ratio_interval"]

LEVEL = 0.95
"""The confidence level of every interval here."""

BATCH_TIMES = 10.0
"""Correlation times (`corewise.simulation.correlation`) in a batch, so that batches are about independent."""

_CORRELATED = 0.65


def independent(means: Floats) -> bool:
    """Return whether means of batches that follow one another may be independent.

    Each is correlated with the next by −1/n in the mean if they are, and by more than 0.65 in about one case
    of a thousand with twelve of them, of ten thousand with twenty.
    """
    away = means - means.mean()
    return float(away[1:] @ away[:-1]) <= _CORRELATED * float(away @ away)


def mean_interval(samples: Floats) -> tuple[float, float]:
    """Return Student's interval for the mean of independent samples; NaN if there are fewer than two."""
    return ratio_interval(samples, np.ones(samples.size))


def ratio_interval(tops: Floats, bottoms: Floats, correlation: float = 0.0) -> tuple[float, float]:
    """Return the interval for E[top]/E[bottom] from independent pairs; NaN if there are fewer than two.

    The residuals top − ratio · bottom have mean zero, and their spread over the mean bottom is that of the
    ratio. If bottoms are the lengths of batches of one path, on which what is measured is correlated over a
    time θ, batches of length T vary less than they would if they were independent, by 1 − θ/T.

    Source: A. M. Law, *Simulation Modeling and Analysis* (2015), sections 9.5.3 and 9.5.5.
    """
    from scipy.special import stdtrit  # half of the import time of this room

    count = tops.size
    if count < 2:
        return math.nan, math.nan
    ratio, length = float(tops.sum() / bottoms.sum()), float(bottoms.mean())
    variance = float(np.sum((tops - ratio * bottoms) ** 2)) / (count - 1) / (1.0 - correlation / length)
    half = float(stdtrit(count - 1, 0.5 + LEVEL / 2.0)) * math.sqrt(variance / count) / length
    return ratio - half, ratio + half
