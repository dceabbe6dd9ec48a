"""The parts that a simulated run is made of: intervals, tables, the clock, regimes that come and go."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

import corewise as cw
from corewise.model.rates import departure_rates
from corewise.simulation.decisions.table import TransitionTables
from corewise.simulation.intervals import mean_interval, ratio_interval


def test_the_interval_of_a_mean_is_students() -> None:
    for count in (2, 5, 20):
        samples = np.random.default_rng(count).exponential(3.0, count)
        theirs = stats.t.interval(0.95, count - 1, samples.mean(), stats.sem(samples))
        assert mean_interval(samples) == pytest.approx(theirs, rel=1e-12)
    assert all(map(math.isnan, mean_interval(np.ones(1))))


def test_the_interval_of_a_ratio_by_hand() -> None:
    tops, bottoms = np.array([1.0, 7.0, 3.0, 5.0]), np.array([1.0, 4.0, 2.0, 1.0])
    ratio, off = 2.0, np.array([-1.0, -1.0, -1.0, 3.0])  # 16 / 8
    half = float(stats.t.ppf(0.975, 3)) * math.sqrt(float(off @ off) / 3.0 / 4.0) / 2.0
    assert ratio_interval(tops, bottoms) == pytest.approx((ratio - half, ratio + half), rel=1e-12)


def test_no_draw_makes_a_move_that_has_no_rate() -> None:
    """The total rate of the empty state is 49, and 49 · (1/49) < 1 in floating point."""
    jobs = [cw.JobClass("a", 47.0, 1.0, cw.Amdahl(0.3)), cw.JobClass("b", 1.0, 1.0, cw.Amdahl(0.3))]
    system = cw.System(1.0, jobs)
    tables = TransitionTables.over(system, cw.Priority(["a", "b"]).on(system), (9, 9))
    leaving = departure_rates(system, tables.space.jobs, tables.cores)
    rates = np.concatenate([np.broadcast_to(system.arrival_rates[:, None], leaving.shape), leaving])
    thresholds = tables.thresholds.reshape(tables.space.size, -1)
    inside = np.flatnonzero(thresholds[:, 0] >= 0.0)
    for draw in (0.0, float(np.nextafter(1.0, 0.0))):
        move = np.count_nonzero(draw >= thresholds[inside, :-1], axis=1)
        assert np.all(rates[move, inside] > 0.0)


def test_the_clock_must_tell_events_apart() -> None:
    system = cw.load_system("paper:1")
    with pytest.raises(cw.errors.InvalidInput, match=r"the clock cannot start at 1e\+16"):
        cw.simulate(system, cw.Equi(), departures=5, rng=1, start=cw.results.State((0, 0), 1e16))
    with pytest.raises(cw.errors.InvalidInput, match="a window of no length"):
        cw.simulate(system, cw.Equi(), time=1e-8, rng=1, start=cw.results.State((1, 1), 1e9))


@pytest.mark.statistical
@pytest.mark.parametrize("window", [{"time": 49.0}, {"departures": 180}], ids="-".join)
def test_a_regime_that_is_over_before_the_batch_is(window: dict[str, Any]) -> None:
    """No speed-up, perfect speed-up from 10 to 11, none again: the job-time in between is what it should be.

    Jobs leave one by one at rate 1 each, or together at rate 20. Departures less the integral of their rate
    are a martingale: 5 standard deviations have a false alarm of 6e-7. Control: no change at all.
    """
    changes = [cw.Change(10.0, "a", cw.Amdahl(1.0)), cw.Change(11.0, "a", cw.Amdahl(0.0))]
    system = cw.System(20.0, [cw.JobClass("a", 4.0, 1.0, cw.Amdahl(0.0))], changes)
    left, expected, unchanged = 0, 0.0, 0.0
    for stream in np.random.default_rng(5).spawn(200):
        path = cw.simulate(system, cw.Equi(), rng=stream, record=True, **window).path
        assert path is not None
        assert path.end > 12.0
        inside = (path.time >= 10.0) & (path.time < 11.0)
        left += int(np.count_nonzero(inside & (path.event == cw.results.EventKind.DEPARTURE)))
        edges = np.clip(path.time, 10.0, 11.0)
        busy, jobs = path.counts[:-1, 0] > 0, path.counts[:-1, 0]
        expected += float(20.0 * np.diff(edges)[busy].sum())
        unchanged += float(jobs @ np.diff(edges))
    assert abs(left - expected) < 5.0 * math.sqrt(expected)
    assert abs(left - unchanged) > 5.0 * math.sqrt(unchanged)
