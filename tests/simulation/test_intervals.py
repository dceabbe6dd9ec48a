"""Intervals of simulated means, by hand; Student's quantiles are from a printed table."""

from __future__ import annotations

import math

import numpy as np
import pytest

from corewise.simulation.intervals import mean_interval, ratio_interval

T_3, T_2, T_1 = 3.182446305, 4.302652730, 12.706204736
"""The 97.5 % quantiles of Student's law with three, two and one degrees of freedom."""


def test_the_interval_of_a_mean_by_hand() -> None:
    """1, 2, 3, 4 have the mean 2.5 and the variance (2.25 + .25 + .25 + 2.25) / 3 = 5/3."""
    half = T_3 * math.sqrt(5.0 / 3.0 / 4.0)
    assert mean_interval(np.array([1.0, 2.0, 3.0, 4.0])) == pytest.approx((2.5 - half, 2.5 + half), rel=1e-9)


def test_the_interval_of_a_mean_of_two_by_hand() -> None:
    """0 and 2: the mean is 1, the variance 2, that of the mean 1; with n for n − 1 the half would be 3.04."""
    assert mean_interval(np.array([0.0, 2.0])) == pytest.approx((1.0 - T_1, 1.0 + T_1), rel=1e-9)


def test_the_interval_of_a_ratio_by_hand() -> None:
    """12 over 6; the residuals 0, −1, 1 have the variance 1, their mean 1/3, and the mean bottom is 2."""
    half = T_2 * math.sqrt(1.0 / 3.0) / 2.0
    found = ratio_interval(np.array([2.0, 3.0, 7.0]), np.array([1.0, 2.0, 3.0]))
    assert found == pytest.approx((2.0 - half, 2.0 + half), rel=1e-9)


@pytest.mark.parametrize("samples", [[], [3.0]])
def test_there_is_none_of_fewer_than_two(samples: list[float]) -> None:
    assert all(math.isnan(end) for end in mean_interval(np.array(samples)))


def test_batches_of_a_correlated_path_vary_less_than_they_should() -> None:
    """By 1 − θ/T: a batch of ten correlation times has nine tenths of the variance."""
    tops, bottoms = np.array([20.0, 30.0, 26.0]), np.full(3, 10.0)
    low, high = ratio_interval(tops, bottoms)
    wide_low, wide_high = ratio_interval(tops, bottoms, 1.0)
    assert wide_low + wide_high == pytest.approx(low + high)
    assert wide_high - wide_low == pytest.approx((high - low) / np.sqrt(0.9))
