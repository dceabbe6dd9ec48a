"""Arrivals by the time of day: counts, the long-run load, false alarms, bursts."""

from __future__ import annotations

import math

import numpy as np
import pytest

from corewise.errors import InvalidInput
from corewise.estimation.time_of_day import DAY, WEEK, ArrivalCounts, long_run_load
from corewise.kit.arrays import Floats


def poisson(rng: np.random.Generator, per_day: float, days: float, *, swing: float = 0.0) -> Floats:
    """A Poisson process whose rate is per_day (1 + swing sin 2πt/day), by thinning."""
    times = np.sort(rng.uniform(0.0, days * DAY, rng.poisson(per_day * (1.0 + swing) * days)))
    rate = (1.0 + swing * np.sin(2.0 * math.pi * times / DAY)) / (1.0 + swing)
    return times[rng.uniform(size=times.size) < rate]


def test_hours_that_do_not_differ_seldom_do() -> None:
    """300 weeks of 100 arrivals a day: a false alarm one time in 1000 each; five or more: below 1e-4.

    The control, a rate that swings by half about its mean, is always seen.
    """
    rng = np.random.default_rng(2)
    false = sum(ArrivalCounts.of(poisson(rng, 100, 7), 0.0, WEEK).follows_the_clock for _ in range(300))
    assert false < 5
    assert all(
        ArrivalCounts.of(poisson(rng, 100, 7, swing=0.5), 0.0, WEEK).follows_the_clock for _ in range(30)
    )


def test_bursts_are_no_time_of_day() -> None:
    """Ten bursts a week of thirty jobs each; taken as Poisson counts hours would always differ."""
    rng, alarms = np.random.default_rng(4), 0
    for _ in range(100):
        starts = rng.uniform(0.0, WEEK, 10)
        times = np.sort((starts[:, None] + rng.uniform(0.0, 1800.0, (10, 30))).ravel())
        seen = ArrivalCounts.of(times, 0.0, WEEK)
        alarms += seen.follows_the_clock
        hours = np.bincount((times % DAY // 3600).astype(int), minlength=24)
        assert ((hours - 12.5) ** 2).sum() / 12.5 > 49.7  # χ² with 23 degrees of freedom at 1 in 1000
    assert alarms <= 3


def test_the_rate_by_the_clock_is_that_of_the_process() -> None:
    """Four weeks of 200 a day: hours have some 230 arrivals each, errors of 6.5 %, four of them allowed."""
    seen = ArrivalCounts.of(poisson(np.random.default_rng(3), 200, 28, swing=0.8), 0.0, 4 * WEEK)
    assert seen.rate == pytest.approx(200.0 / DAY, rel=4.0 / math.sqrt(5600.0))
    for hour in (3, 12, 18):
        true = 200.0 / DAY * (1.0 + 0.8 * math.sin(2.0 * math.pi * (hour + 0.5) / 24.0))
        assert seen.rate_at(9 * DAY + hour * 3600.0) == pytest.approx(true, abs=0.26 * 200.0 / DAY)


def test_the_load_is_that_of_whole_weeks() -> None:
    """Five busy days and two empty ones, twice; then two busy days more, which are not a week."""
    busy = [day * DAY + k * 864.0 for day in range(16) if day % 7 < 5 for k in range(100)]
    before = ArrivalCounts.of([time for time in busy if time < 6.9 * DAY], 0.0, 6.9 * DAY)
    assert math.isnan(before.rate)
    assert long_run_load({"a": before}, {"a": 432.0}, 1.0) is None
    weeks = ArrivalCounts.of([time for time in busy if time < 14 * DAY], 0.0, 14 * DAY)
    assert long_run_load({"a": weeks}, {"a": 432.0}, 1.0) == pytest.approx(0.5 * 5.0 / 7.0)
    later = ArrivalCounts.of(busy, 0.0, 16 * DAY)
    assert long_run_load({"a": later, "b": weeks}, {"a": 432.0, "b": 0.0}, 1.0) == pytest.approx(
        0.5 * 5.0 / 7.0, rel=0.01
    )


def test_counts_go_on_and_forget_what_is_older_than_four_weeks() -> None:
    times = poisson(np.random.default_rng(7), 50, 70)
    parts = ArrivalCounts.of(times[times < 10 * DAY], 0.0, 10 * DAY)
    for begin in range(10, 70, 6):
        end = min(begin + 6, 70) * DAY
        parts = parts.after(times[(times >= begin * DAY) & (times < end)], end)
    whole = ArrivalCounts.of(times, 0.0, 70 * DAY)
    assert parts.counts.size <= 24 * 28 + 1
    assert parts.rate == pytest.approx(whole.rate)
    assert parts.rate_at(0.0) == pytest.approx(whole.rate_at(0.0))
    assert parts.counts.sum() == pytest.approx((times >= 42 * DAY).sum(), abs=3)


def test_an_observation_that_ends_before_it_begins_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"must end after it begins, got 2\.0 and 1\.0"):
        ArrivalCounts.of([], 2.0, 1.0)
