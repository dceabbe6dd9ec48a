"""Confidence intervals of simulated means, from batches or replications."""

from __future__ import annotations

import math

import numpy as np

from corewise.kit.arrays import Floats

__all__ = ["LEVEL", "mean_interval", "ratio_interval"]

LEVEL = 0.95
"""The confidence level of every interval here."""


def mean_interval(samples: Floats) -> tuple[float, float]:
    """Return Student's interval for the mean of independent samples; NaN if there are fewer than two."""
    return ratio_interval(samples, np.ones(samples.size))


def ratio_interval(tops: Floats, bottoms: Floats) -> tuple[float, float]:
    """Return the interval for E[top]/E[bottom] from independent pairs; NaN if there are fewer than two.

    The residuals top − ratio · bottom have mean zero, and their spread over the mean bottom is that of the
    ratio.

    Source: A. M. Law, *Simulation Modeling and Analysis* (2015), sections 9.5.3 and 9.5.5.
    """
    from scipy.special import stdtrit  # half of the import time of this room

    count = tops.size
    if count < 2:
        return math.nan, math.nan
    ratio = float(tops.sum() / bottoms.sum())
    spread = math.sqrt(float(np.sum((tops - ratio * bottoms) ** 2)) / (count - 1) / count)
    half = float(stdtrit(count - 1, 0.5 + LEVEL / 2.0)) * spread / float(bottoms.mean())
    return ratio - half, ratio + half
