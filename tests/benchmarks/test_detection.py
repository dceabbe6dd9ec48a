"""Studies of detection: CUSUM against a naive twin and its theory, false alarms against what was promised."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

import corewise as cw
from benchmarks.instruments.cusum import Jump, cusum_delays, cusum_height, cusum_run_length
from benchmarks.instruments.detection import (
    DelayCurve,
    FalseAlarms,
    delay_curve,
    detection_delays,
    false_alarms,
)
from benchmarks.instruments.figure import delay_figure
from corewise.estimation.changes import detector as change
from corewise.estimation.changes.detector import threshold
from corewise.observation.sample_path import EventKind

pytestmark = pytest.mark.slow

SYSTEM = cw.load_system("paper:drift").regime(0)
SLOWER = Jump(SYSTEM, cw.Equi(), "two", cw.Amdahl(0.6))
FASTER = Jump(SYSTEM, cw.Equi(), "one", cw.Amdahl(0.8))
EITHER = pytest.mark.parametrize("jump", [SLOWER, FASTER], ids=["slower", "faster"])


# --- CUSUM ----------------------------------------------------------------------------------------


def naive_alarms(jump: Jump, height: float, departures: int, seed: int) -> int:
    """Count alarms along a recorded path, event by event, from the definition."""
    path = cw.simulate(jump.system, jump.policy, departures=departures, rng=seed, record=True).path
    assert path is not None
    i, size_rate = jump.system.index(jump.name), jump.system[jump.name].known_size_rate
    before, after = jump.system[jump.name].speedup, jump.after
    level, alarms = 0.0, 0
    counts, durations = path.counts, np.diff(path.time)
    for k in range(durations.size):
        n, held = int(counts[k, i]), float(path.cores[k, i])
        if n == 0:
            continue
        old, new = (n * size_rate * float(curve.rate(np.array([held / n]))[0]) for curve in (before, after))
        level = max(level - (new - old) * float(durations[k]), 0.0)
        if level < height and path.event[k + 1] == EventKind.DEPARTURE and path.job_class[k + 1] == i:
            level = max(level + math.log(new / old), 0.0)
        if level >= height:
            alarms, level = alarms + 1, 0.0
    return alarms


@pytest.mark.statistical
@EITHER
def test_run_length_of_a_naive_twin(jump: Jump) -> None:
    """Given their sum, two counts of rare events are binomial; they differ so much once in ten thousand."""

    def unlikely(height: float) -> bool:
        found = cusum_run_length(jump, height=height, departures=400_000, rng=2)
        both = found.alarms + twin
        return float(stats.binomtest(twin, both, 20_000 / 420_000).pvalue) < 1e-4

    twin = naive_alarms(jump, 1.0, 20_000, seed=1)
    assert twin > 50
    assert not unlikely(1.0)
    assert unlikely(2.0)


@pytest.mark.statistical
@EITHER
def test_run_lengths_grow_with_slope_one(jump: Jump) -> None:
    """log γ(h + 1) − log γ(h) = 1 to within four standard errors; half a unit is not."""
    lower, upper = (
        cusum_run_length(jump, height=height, departures=4_000_000, rng=3) for height in (4.0, 5.0)
    )
    error = math.sqrt(1.0 / lower.alarms + 1.0 / upper.alarms)
    assert upper.alarms > 200
    rise = math.log(upper.mean / lower.mean)
    assert abs(rise - 1.0) < 4.0 * error
    assert abs(rise - 0.5) > 4.0 * error


@pytest.mark.statistical
def test_height_for_a_run_length() -> None:
    """Found at a height with 400 alarms, tried where there are 40: within four standard errors."""
    height = cusum_height(SLOWER, between=1e5, departures=2_000_000, rng=4)
    found = cusum_run_length(SLOWER, height=height, departures=4_000_000, rng=5)
    assert abs(math.log(found.mean / 1e5)) < 4.0 * math.sqrt(1.0 / found.alarms + 1.0 / 400.0)
    other = cusum_run_length(SLOWER, height=height - 1.5, departures=4_000_000, rng=5)
    assert abs(math.log(other.mean / 1e5)) > 4.0 * math.sqrt(1.0 / other.alarms + 1.0 / 400.0)


@pytest.mark.statistical
@EITHER
def test_delays_grow_by_one_over_the_information(jump: Jump) -> None:
    """By renewal theory (Lorden); within four standard errors, which are well below the rise itself."""
    low, high = (cusum_delays(jump, height=height, repetitions=500, rng=6) for height in (6.0, 12.0))
    error = math.sqrt((low.var() + high.var()) / 500)
    rise = float(high.mean() - low.mean())
    assert abs(rise - 6.0 / jump.information) < 4.0 * error
    assert abs(rise - 4.0 / jump.information) > 4.0 * error


def test_information_of_one_class() -> None:
    """The counts of one class that holds all cores are a birth-death chain."""
    old, new, rate, cores = cw.Amdahl(0.7), cw.Amdahl(0.5), 1.3, 6.0
    system = cw.System(cores, [cw.JobClass("a", 2.0, rate, old)])

    def leaving(curve: cw.SpeedUp, n: int) -> float:
        return n * rate * float(curve.rate(np.array([cores / n]))[0])

    weights = [1.0]
    for n in range(1, 200):
        weights.append(weights[-1] * 2.0 / leaving(new, n))
    gain = 0.0
    for n in range(1, 200):
        before, after = leaving(old, n), leaving(new, n)
        gain += weights[n] * (after * math.log(after / before) - after + before)
    expected = gain / sum(weights) / 2.0
    assert Jump(system, cw.Equi(), "a", new).information == pytest.approx(expected, rel=1e-9)


def test_cusum_gives_up_and_says_so() -> None:
    with pytest.raises(
        cw.errors.NotConverged, match="has not found the change of class 'two' in 10 departures"
    ):
        cusum_delays(SLOWER, height=50.0, repetitions=1, most=10, rng=1)
    with pytest.raises(cw.errors.NotConverged, match="no false alarm"):
        cusum_height(SLOWER, between=1e5, departures=50, rng=1)
    with pytest.raises(cw.errors.InvalidInput, match="height must be"):
        cusum_run_length(SLOWER, height=0.0, departures=10, rng=1)
    assert cusum_run_length(SLOWER, height=50.0, departures=100, rng=1).mean == math.inf


# --- the detector ---------------------------------------------------------------------------------


def as_promised(promised: float) -> bool:
    """Return whether a count of false alarms is such as a Poisson variable misses once in a thousand."""
    departures = round(promised * 2e4)
    found = false_alarms(SYSTEM, cw.Equi(), between_alarms=2e4, departures=departures, rng=7)
    low, high = (float(stats.poisson.ppf(chance, promised)) for chance in (5e-4, 1.0 - 5e-4))
    return low <= len(found.alarms) <= high


@pytest.mark.statistical
def test_false_alarms_are_as_many_as_promised(monkeypatch: pytest.MonkeyPatch) -> None:
    """One in a thousand seeds would fail; so does a threshold that is too low."""
    assert as_promised(20.0)
    monkeypatch.setattr(change, "threshold", lambda between, count=1: threshold(between, count) - 2.5)
    assert not as_promised(5.0)


def test_a_change_is_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """However often it is named, and as it was named last."""
    raised, observe = list[change.Alarm](), change.ChangeDetector.observe

    def noted(
        detector: change.ChangeDetector, window: cw.Statistics
    ) -> tuple[change.ChangeDetector, tuple[change.Alarm, ...]]:
        after, alarms = observe(detector, window)
        raised.extend(alarms)
        return after, alarms

    monkeypatch.setattr(change.ChangeDetector, "observe", noted)
    found = false_alarms(SYSTEM, cw.Equi(), between_alarms=1e4, departures=100_000, every=100, rng=8)
    places = [(alarm.name, alarm.departures, alarm.statistic) for alarm in found.alarms]
    assert len(raised) > len(places)  # some were named later
    assert {(alarm.name, alarm.departures, alarm.statistic) for alarm in raised} == set(places)
    assert len(set(places)) == len(places)
    assert sum(found.kinds.values()) == len(places)
    assert found.promised == 10.0
    both = found + found
    assert (both.departures, len(both.alarms), both.promised) == (200_000, 2 * len(places), 20.0)
    with pytest.raises(cw.errors.InvalidInput, match="set to 10000 and 1 do not add"):
        found + FalseAlarms(1.0, 1, ())


def test_delays_of_the_detector() -> None:
    """In departures from the change, which is at a random one of its window, to the end of a later window."""
    delays = detection_delays(
        SLOWER, between_alarms=1e6, repetitions=20, every=200, before=150, apart=10, rng=9
    )
    assert np.all(delays >= 1.0)
    assert np.all(delays == np.rint(delays))
    assert len(set((delays % 200).tolist())) > 10
    greater = Jump(SYSTEM, cw.Equi(), "two", cw.Amdahl(0.2))
    quicker = detection_delays(greater, between_alarms=1e6, repetitions=20, before=150, apart=10, rng=9)
    assert quicker.mean() < 0.7 * delays.mean()
    height = cusum_height(SLOWER, between=1e6, departures=2_000_000, rng=10)
    best = cusum_delays(SLOWER, height=height, repetitions=400, rng=10)
    assert best.mean() < delays.mean() < 3.0 * best.mean()


def test_a_detector_that_finds_nothing_says_so() -> None:
    hardly = Jump(SYSTEM, cw.Equi(), "two", cw.Amdahl(0.85001))
    with pytest.raises(cw.errors.NotConverged, match="not found in 3 windows of 50"):
        detection_delays(hardly, between_alarms=1e9, repetitions=1, every=50, before=3, most=3, rng=1)


def test_delay_curve_and_its_figure() -> None:
    curve = delay_curve(SLOWER, between=[1e5, 1e7], repetitions=5, before=100, rng=11)
    assert np.all(curve.cusum < curve.detector)
    assert np.all(curve.detector_stderr > 0.0)
    assert curve.information == SLOWER.information
    between = np.array([1e4, 1e6, 1e8])
    line = DelayCurve(
        "two", 0.01, between, 9, 5.0 + 130.0 * np.log(between), 100.0 * np.log(between), *np.ones((2, 3))
    )
    assert line.slopes == pytest.approx((130.0, 100.0))
    (axes,) = delay_figure(line).axes
    assert "departures" in axes.get_xlabel()
    assert "departures" in axes.get_ylabel()
    legend = axes.get_legend()
    assert legend is not None
    shown = " ".join(text.get_text() for text in legend.get_texts())
    assert "slope 130" in shown
    assert "= 100" in shown
    with pytest.raises(cw.errors.InvalidInput, match="at least two"):
        delay_curve(SLOWER, between=[1e5], repetitions=5, rng=1)
