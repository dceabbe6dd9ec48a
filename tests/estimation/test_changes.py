"""The detector of changes, against brute force on raw data, and on changes of every kind."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from scipy import optimize, stats

import corewise as cw
from corewise.estimation.changes.detector import (
    LEAST_CHECKS,
    Alarm,
    ChangeDetector,
    run_length,
    threshold,
)
from corewise.observation.statistics import ClassStatistics

WIDTHS = np.array([0.5, 1.0, 2.0, 4.0, 8.0])
"""On the grid of the detector or below one core, so that nothing is lost by sharing out."""

PAIR = cw.System(
    8,
    [
        cw.JobClass("one", 1.4, 1.5, cw.Amdahl(0.6)),
        cw.JobClass("two", 0.6, 1.5, cw.Amdahl(0.85)),
    ],
)


def with_class(system: cw.System, name: str, **values: Any) -> cw.System:
    """Return the system with some values of a class replaced."""
    classes = [replace(each, **values) if each.name == name else each for each in system.classes]
    return cw.System(system.cores, classes)


def drawn(
    system: cw.System, rng: np.random.Generator, time: float = 100.0, narrow: float = 1.0
) -> cw.Statistics:
    """Return a window as the likelihood has it: given job-time and time, counts are Poisson.

    About as many jobs leave as arrive; `narrow` times as many of those with one core or less.
    """
    tables = []
    for each in system.classes:
        assert each.arrival_rate is not None
        job_time = rng.gamma(4.0, 0.15 * each.arrival_rate * time / each.known_size_rate / 4.0, WIDTHS.size)
        job_time[:2] *= narrow
        left = rng.poisson(each.known_size_rate * job_time * each.speedup.rate(WIDTHS)).astype(float)
        tables.append(ClassStatistics(int(rng.poisson(each.arrival_rate * time)), WIDTHS, left, job_time))
    return cw.Statistics(tuple(system.names), time, tuple(tables))


@dataclass
class Watched:
    """A detector that has seen some windows, and all it has found."""

    detector: ChangeDetector
    alarms: list[Alarm]

    @classmethod
    def of(cls, system: cw.System, between_alarms: float = 1e7) -> Watched:
        return cls(ChangeDetector(system, between_alarms), [])

    def see(self, system: cw.System, windows: int, rng: np.random.Generator, **how: float) -> Watched:
        for _ in range(windows):
            self.detector, found = self.detector.observe(drawn(system, rng, **how))
            self.alarms += found
        return self


# --- thresholds -----------------------------------------------------------------------------------


@pytest.mark.parametrize("parameters", [1, 2, 3])
def test_threshold_and_run_length_are_inverse(parameters: int) -> None:
    heights = [threshold(count, parameters) for count in (1e3, 1e4, 1e6, 1e12)]
    assert [run_length(height, parameters) for height in heights] == pytest.approx([1e3, 1e4, 1e6, 1e12])
    assert heights == sorted(heights)
    # Siegmund and Venkatraman: log N = h − (P/2) log h + c
    constants = [
        math.log(run_length(h, parameters)) - h + 0.5 * parameters * math.log(h) for h in (5.0, 9.0, 17.0)
    ]
    assert constants == pytest.approx([constants[0]] * 3)


def test_too_few_checks_are_refused() -> None:
    with pytest.raises(cw.errors.InvalidInput, match="too few to detect a change"):
        threshold(1.0)


# --- against brute force --------------------------------------------------------------------------


def log_likelihood(curve: cw.SpeedUp, size_rate: float, tables: list[ClassStatistics]) -> float:
    """Return ℓ of some windows, width by width; all of them have the same."""
    left, spent = sum(table.departures for table in tables), sum(table.job_time for table in tables)
    rate = size_rate * curve.rate(WIDTHS)
    return float(np.sum(left * np.log(rate) - spent * rate))


def most_likely(curve: cw.SpeedUp, size_rate: float, tables: list[ClassStatistics]) -> float:
    """Return the largest ℓ over p, by trying a grid and refining around its best."""

    def lost(p: float) -> float:
        return -log_likelihood(curve.with_parameters(p=p), size_rate, tables)

    best = min(np.linspace(0.0, 1.0, 21).tolist(), key=lost)
    ends = (max(best - 0.05, 0.0), min(best + 0.05, 1.0))
    found = optimize.minimize_scalar(lost, bounds=ends, method="bounded", options={"xatol": 1e-9})
    return -min(float(found.fun), lost(best))


def brute_force(
    curve: cw.SpeedUp, size_rate: float, tables: list[ClassStatistics], splits: list[int]
) -> list[float]:
    """Return G for a change of the curve after so many windows."""
    whole = most_likely(curve, size_rate, tables)
    return [
        most_likely(curve, size_rate, tables[:k]) + most_likely(curve, size_rate, tables[k:]) - whole
        for k in splits
    ]


def bucket_edges(checks: int) -> list[int]:
    """Return how many checks lie before each edge between buckets: four of each size, by repeated merging."""
    sizes: list[int] = []
    for _ in range(checks):
        sizes, size = [*sizes, 1], 1
        while sizes.count(size) > 4:
            at = sizes.index(size)
            sizes[at : at + 2] = [2 * size]
            size *= 2
    return [sum(sizes[:k]) for k in range(1, len(sizes))]


@pytest.mark.parametrize("curve", [cw.Amdahl(0.6), cw.PowerLaw(0.7), cw.Gustafson(0.5)])
def test_statistic_and_place_by_brute_force(curve: cw.SpeedUp) -> None:
    """The first check at which the largest G exceeds the threshold raises the alarm, with that G, there.

    Most jobs hold one core or less, so that another size rate does not explain what is seen as well.
    """
    system = cw.System(8, [cw.JobClass("a", 2.0, 1.5, curve)])
    later = with_class(system, "a", speedup=curve.with_parameters(p=curve.parameters["p"] - 0.25))
    rng, between = np.random.default_rng(1), 1e6
    detector, windows = ChangeDetector(system, between), list[cw.Statistics]()
    for k in range(40):
        window = drawn(later if k >= 9 else system, rng, narrow=10.0)
        windows.append(window)
        detector, alarms = detector.observe(window)
        edges = bucket_edges(len(windows))
        tables = [window.classes[0] for window in windows]
        ratios = np.array(brute_force(curve, 1.5, tables, edges))
        # False alarms are shared over a class: 0.8 of them for its curve.
        height = threshold(between / window.departures / 0.8)
        if ratios.size == 0 or ratios.max() < height:
            assert alarms == ()
            continue
        (alarm,) = alarms
        break
    else:
        pytest.fail("the change was not found")
    assert alarm.statistic == pytest.approx(ratios.max(), abs=1e-5)
    assert alarm.threshold == pytest.approx(height)
    assert alarm.raised == sum(window.departures for window in windows)
    best = edges[int(np.argmax(ratios))]
    assert alarm.departures == sum(window.departures for window in windows[:best])
    assert alarm.time == pytest.approx(100.0 * best)
    near = [0, *edges, len(windows)]
    likely = np.flatnonzero(ratios >= ratios.max() - math.log(40.0))
    low, high = near[likely[0]], near[likely[-1] + 2]
    assert alarm.time_interval == pytest.approx((100.0 * low, 100.0 * high))
    assert alarm.interval == tuple(float(sum(w.departures for w in windows[:k])) for k in (low, high))
    for side, part in ((alarm.before, tables[:best]), (alarm.after, tables[best:])):
        at_side = log_likelihood(curve.with_parameters(**side), 1.5, part)
        assert at_side == pytest.approx(most_likely(curve, 1.5, part), abs=1e-5)


# --- jumps of every kind --------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new"),
    [
        (cw.Amdahl(0.6), cw.Amdahl(0.45)),
        (cw.PowerLaw(0.5), cw.PowerLaw(0.6)),
        (cw.Gustafson(0.5), cw.Gustafson(0.35)),
        (cw.Usl(0.2, 0.01), cw.Usl(0.05, 0.005)),
    ],
    ids=lambda curve: curve.family,
)
def test_jump_of_a_curve(old: cw.SpeedUp, new: cw.SpeedUp) -> None:
    system, rng = with_class(PAIR, "one", speedup=old), np.random.default_rng(2)
    windows = 300 if len(old.bounds) == 1 else 25
    watched = Watched.of(system).see(system, windows, rng)
    assert watched.alarms == []
    seen = watched.detector.departures
    watched.see(with_class(system, "one", speedup=new), windows, rng)
    first, last = watched.alarms[0], watched.alarms[-1]
    assert {alarm.name for alarm in watched.alarms} == {"one"}
    assert {alarm.kind for alarm in watched.alarms} <= {"speed", "curve"}
    assert last.kind == "curve"
    assert (last.departures, last.statistic) == (first.departures, first.statistic)
    assert first.interval[0] <= seen <= first.interval[1]
    assert first.time_interval[0] <= windows * 100.0 <= first.time_interval[1]
    assert last.statistic >= last.threshold
    assert last.between >= 1e7
    left = watched.detector.statistics()
    of_one = watched.detector.departures - left["two"].left
    assert left["one"].left < 0.7 * of_one  # about half of what was seen of it is forgotten
    estimates = cw.estimate(left, system)["one"]
    for name, value in new.parameters.items():
        assert abs(estimates.parameters[name] - value) < 5.0 * estimates.stderrs[name]
    for name, value in old.parameters.items():
        assert abs(last.before[name] - value) < 0.1


def test_only_the_class_that_changed_forgets() -> None:
    rng = np.random.default_rng(3)
    watched = Watched.of(PAIR).see(PAIR, 200, rng)
    before = watched.detector.statistics()
    changed = with_class(PAIR, "one", speedup=cw.Amdahl(0.4))
    watched.see(changed, 50, rng)
    assert watched.alarms
    after = watched.detector.statistics()
    assert after["two"].left > before["two"].left
    assert after["two"].job_time.sum() > before["two"].job_time.sum()
    assert after["one"].left < 0.35 * before["one"].left
    assert after.time == pytest.approx(250 * 100.0)  # arrivals have not changed


# --- tentative and confirmed changes --------------------------------------------------------------


@pytest.mark.parametrize("curve", [cw.Amdahl(0.6), cw.PowerLaw(0.7), cw.Gustafson(0.5)])
def test_statistics_before_a_change_are_used_until_it_is_confirmed(curve: cw.SpeedUp) -> None:
    """After the alarm, until two stretches lead by 3 more than that took: by brute force."""
    system = cw.System(8, [cw.JobClass("a", 2.0, 1.5, curve)])
    later = with_class(system, "a", speedup=curve.with_parameters(p=curve.parameters["p"] - 0.07))
    rng, between = np.random.default_rng(3), 1e6
    watched, tables, waited, confirmed = Watched.of(system, between), list[ClassStatistics](), 0, False
    for k in range(200):
        window = drawn(later if k >= 40 else system, rng, narrow=10.0)
        tables.append(window.classes[0])
        watched.detector, found = watched.detector.observe(window)
        watched.alarms += found
        if not watched.alarms:
            continue
        split = round(watched.alarms[0].time / 100.0)
        (ratio,) = brute_force(curve, 1.5, tables, [split])
        confirmed = ratio >= threshold(between / window.departures / 0.8) + 3.0
        counted = tables[split:] if confirmed else tables
        assert watched.detector.statistics()["a"].left == sum(table.left for table in counted)
        if confirmed:
            break
        waited += 1
    assert confirmed
    assert waited > 0


def after_an_alarm(returns: bool) -> tuple[Watched, int]:
    """Return a detector after a tentative change that lasts or not; and the number of departures."""
    system = cw.System(8, [cw.JobClass("a", 2.0, 1.5, cw.Amdahl(0.6))])
    later = with_class(system, "a", speedup=cw.Amdahl(0.52))
    rng = np.random.default_rng(3)
    watched = Watched.of(system, 1e6).see(system, 60, rng, narrow=10.0)
    while not watched.alarms:
        watched.see(later, 1, rng, narrow=10.0)
    (detector,) = watched.detector._detectors
    assert detector.pending is not None
    assert not detector.pending.confirmed
    return watched.see(system if returns else later, 80, rng, narrow=10.0), watched.detector.departures


def test_a_change_that_was_none_is_retracted() -> None:
    """One alarm, then its retraction, and all statistics are kept. Negative control: a change that lasts."""
    watched, seen = after_an_alarm(returns=True)
    first, retracted = watched.alarms[0], watched.alarms[-1]
    assert [alarm.kind == "none" for alarm in watched.alarms].index(True) == len(watched.alarms) - 1
    assert {(alarm.departures, alarm.statistic) for alarm in watched.alarms} == {
        (first.departures, first.statistic)
    }
    assert retracted.raised > first.raised
    assert retracted.before == retracted.after
    text = str(retracted)
    assert text.startswith(
        f"class a: nothing changed after {first.departures:.0f} departures after all: p 0.5"
    )
    assert text.endswith(f"retracted after {retracted.raised}")
    assert watched.detector.statistics()["a"].left == seen
    watched, seen = after_an_alarm(returns=False)
    assert "none" not in {alarm.kind for alarm in watched.alarms}
    assert watched.detector.statistics()["a"].left < seen


def test_a_change_that_takes_long_to_be_confirmed_has_one_alarm() -> None:
    """The data after its alarm differ from those before it, too; that is the same change."""
    for seed in range(8):
        system = cw.System(8, [cw.JobClass("a", 2.0, 1.5, cw.Amdahl(0.6))])
        later = with_class(system, "a", speedup=cw.Amdahl(0.53))
        rng = np.random.default_rng([30, seed])
        watched = Watched.of(system, 1e6).see(system, 40, rng, narrow=10.0).see(later, 150, rng, narrow=10.0)
        lasting = {alarm.departures for alarm in watched.alarms}
        lasting -= {alarm.departures for alarm in watched.alarms if alarm.kind == "none"}
        assert len(lasting) == 1, seed


def test_every_alarm_exceeds_its_threshold() -> None:
    """Also shortly after another, when most places are too near to it to be tried."""
    watched, rng = Watched.of(PAIR, 1.0), np.random.default_rng(32)
    for k in range(150):
        one = with_class(PAIR, "one", speedup=cw.Amdahl(0.6 if k % 2 else 0.35))
        watched.see(one, 8, rng)
    alarms = [alarm for alarm in watched.alarms if alarm.kind != "none"]
    assert len(alarms) > 100
    assert all(alarm.statistic >= alarm.threshold for alarm in alarms)


def confirmed(windows: int) -> tuple[int, int]:
    """Return the number of false alarms that were confirmed, and of false alarms."""
    watched, times, alarms, rng = Watched.of(PAIR, 3e4), 0, 0, np.random.default_rng(6)
    for _ in range(windows):
        before = watched.detector._detectors
        watched.see(PAIR, 1, rng)
        for old, new in zip(before, watched.detector._detectors, strict=True):
            earlier = set() if old.pending is None else {old.pending.alarm.departures}
            if new.pending is not None and new.window_index == 0:
                alarmed = new.pending.alarm.departures not in earlier
                alarms += alarmed
                was_tentative = old.pending is not None and not old.pending.confirmed
                times += new.pending.confirmed and (alarmed or was_tentative)
    return times, alarms


@pytest.mark.statistical
def test_false_alarms_are_hardly_ever_confirmed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The statistic exceeds the threshold by 3 about once in e³ = 20 alarms; false alarm 1e-6.

    Control: all are confirmed where no lead is required.
    """
    times, alarms = confirmed(6000)
    assert alarms > 40
    assert stats.binom.sf(times - 1, alarms, math.exp(-3.0)) > 1e-6
    monkeypatch.setattr("corewise.estimation.changes.class_detector._CONFIRMATION", 0.0)
    times, alarms = confirmed(3000)
    assert stats.binom.sf(times - 1, alarms, math.exp(-3.0)) < 1e-6


# --- other kinds of jumps -------------------------------------------------------------------------


@pytest.mark.parametrize("factor", [1.5, 0.7])
def test_jump_of_a_size_rate(factor: float) -> None:
    """It is named, never as one of the curve; and the curve is estimated from all that was seen."""
    rng = np.random.default_rng(4)
    watched = Watched.of(PAIR).see(PAIR, 300, rng)
    changed = with_class(PAIR, "two", size_rate=1.5 * factor)
    watched.see(changed, 300, rng)
    assert {alarm.name for alarm in watched.alarms} == {"two"}
    assert {alarm.kind for alarm in watched.alarms} <= {"speed", "size rate"}
    last = watched.alarms[-1]
    assert last.kind == "size rate"
    first = next(alarm for alarm in watched.alarms if alarm.kind == "size rate")
    assert first.before["size_rate"] == 1.5
    assert last.after["size_rate"] == pytest.approx(1.5 * factor, rel=0.15)
    known = watched.detector.known(PAIR)
    assert known["two"].size_rate == pytest.approx(1.5 * factor, rel=0.15)
    assert known["one"] == PAIR["one"]
    assert known["two"].arrival_rate == 0.6
    kept = watched.detector.statistics()
    assert kept["two"].left > 550 / 600 * 0.6 / 1.4 * kept["one"].left
    assert cw.estimate(kept, PAIR)["two"].value == pytest.approx(0.85, abs=0.03)


@pytest.mark.parametrize("name", ["one", "two"])
def test_jump_of_an_arrival_rate(name: str) -> None:
    rng = np.random.default_rng(5)
    watched = Watched.of(PAIR).see(PAIR, 300, rng)
    changed = with_class(PAIR, name, arrival_rate=1.0)
    watched.see(changed, 300, rng)
    (alarm,) = watched.alarms
    assert (alarm.name, alarm.kind) == (name, "arrival rate")
    assert alarm.before["arrival_rate"] == pytest.approx(PAIR[name].arrival_rate, rel=0.05)
    assert alarm.after["arrival_rate"] == pytest.approx(1.0, rel=0.3)
    assert alarm.time_interval[0] <= 300 * 100.0 <= alarm.time_interval[1]
    other = "two" if name == "one" else "one"
    known = watched.detector.known(PAIR)
    assert known[name].arrival_rate == pytest.approx(1.0, rel=0.03)
    assert known[other] == PAIR[other]
    assert known[name].size_rate == 1.5


def without(window: cw.Statistics, name: str, **nothing: Any) -> cw.Statistics:
    """Return a window in which some numbers of a class are nought."""
    tables = [
        replace(table, **nothing) if each == name else table
        for each, table in zip(window.names, window.classes, strict=True)
    ]
    return cw.Statistics(window.names, window.time, tuple(tables))


@dataclass
class Halted(Watched):
    """The same, where now and then a class has no arrivals or no departures."""

    def halt(self, name: str, windows: int, rng: np.random.Generator, **nothing: Any) -> Halted:
        for _ in range(windows):
            self.detector, found = self.detector.observe(without(drawn(PAIR, rng), name, **nothing))
            self.alarms += found
        return self


@pytest.mark.parametrize("name", ["one", "two"])
def test_a_class_that_vanishes_and_comes_back(name: str) -> None:
    """No job arrives for 60 windows: the plug-in rate is that of half an arrival in all of them.

    Negative control: before, the rate is that of the system and there is no alarm.
    """
    rng = np.random.default_rng(21)
    watched = Halted.of(PAIR).see(PAIR, 60, rng)
    assert isinstance(watched, Halted)
    assert not watched.alarms
    assert watched.detector.known(PAIR) == PAIR
    watched.halt(name, 60, rng, arrivals=0)
    (gone,) = watched.alarms
    assert (gone.name, gone.kind) == (name, "arrival rate")
    assert gone.after["arrival_rate"] == 0.0
    assert "→ 0, none of its jobs has arrived since; found after" in str(gone)
    assert watched.detector.known(PAIR)[name].arrival_rate == 0.5 / (60 * 100.0)
    watched.see(PAIR, 60, rng)
    _, back = watched.alarms
    assert (back.name, back.kind, back.before["arrival_rate"]) == (name, "arrival rate", 0.0)
    assert "none of its jobs had arrived for a while" in str(back)
    rate = PAIR[name].arrival_rate
    assert rate is not None
    assert watched.detector.known(PAIR)[name].arrival_rate == pytest.approx(
        rate, rel=5.0 / np.sqrt(6000 * rate)
    )
    assert watched.detector.known(PAIR)[name].size_rate == 1.5


@pytest.mark.parametrize("name", ["one", "two"])
def test_a_class_whose_jobs_cease_to_leave(name: str) -> None:
    """It is one alarm, a size rate of zero; the policy is for next to none; and then all is as it was.

    The plug-in rate is that of half a departure where so many were due, written out; not below 1/1000.
    """
    rng = np.random.default_rng(22)
    none = np.zeros(WIDTHS.size)
    watched = Halted.of(PAIR).see(PAIR, 60, rng)
    assert isinstance(watched, Halted)
    kept = watched.detector.statistics()[name].left
    window = without(drawn(PAIR, rng), name, departures=none)
    watched.detector, found = watched.detector.observe(window)
    (stalled,) = found
    assert (stalled.name, stalled.kind) == (name, "size rate")
    assert (stalled.before["size_rate"], stalled.after["size_rate"]) == (1.5, 0.0)
    assert "size_rate 1.5 → 0, none of its jobs has left since" in str(stalled)
    before = cw.Amdahl(
        cw.estimate(Watched.of(PAIR).see(PAIR, 60, np.random.default_rng(22)).detector.statistics(), PAIR)[
            name
        ].value
    )
    due = 1.5 * float(window[name].job_time @ before.rate(WIDTHS))
    assert watched.detector.known(PAIR)[name].size_rate == pytest.approx(1.5 * 0.5 / due, rel=1e-3)
    assert watched.halt(name, 60, rng, departures=none).alarms == []
    assert watched.detector.known(PAIR)[name].size_rate == 1.5e-3
    assert not cw.estimate(watched.detector.statistics(), PAIR)[name].informative
    restored = Watched(ChangeDetector(PAIR, 1e7).of_state(watched.detector.state), [])
    assert restored.detector.known(PAIR) == watched.detector.known(PAIR)
    restored.see(PAIR, 60, np.random.default_rng(23))
    watched.see(PAIR, 60, np.random.default_rng(23))
    assert restored.alarms == watched.alarms
    (again,) = watched.alarms
    assert (again.name, again.kind, again.before["size_rate"]) == (name, "size rate", 0.0)
    assert again.after["size_rate"] == pytest.approx(1.5, rel=0.4)
    assert "none of its jobs had left for a while" in str(again)
    assert watched.detector.known(PAIR) == PAIR
    assert (
        watched.detector.known(with_class(PAIR, name, size_rate=1.5e-3)) == PAIR
    )  # the plug-in rate does not stay
    assert watched.detector.statistics()[name].left > 1.9 * kept  # the statistics from before are used again


def test_a_class_that_goes_on_more_slowly_than_before() -> None:
    """After a halt its jobs leave at another rate, which is named and kept; what came before stays."""
    rng = np.random.default_rng(24)
    watched = Halted.of(PAIR).see(PAIR, 60, rng)
    assert isinstance(watched, Halted)
    watched.halt("one", 20, rng, departures=np.zeros(WIDTHS.size))
    slower = with_class(PAIR, "one", size_rate=0.5)
    watched.see(slower, 60, rng)
    assert [(alarm.name, alarm.kind) for alarm in watched.alarms] == [("one", "size rate")] * 2
    assert watched.detector.known(PAIR)["one"].size_rate == pytest.approx(0.5, rel=0.15)
    assert cw.estimate(watched.detector.statistics(), PAIR)["one"].value == pytest.approx(0.6, abs=0.1)


def test_changes_one_after_the_other() -> None:
    """A curve, then an arrival rate, then a curve again."""
    rng = np.random.default_rng(6)
    watched = Watched.of(PAIR).see(PAIR, 100, rng)
    second = with_class(PAIR, "two", speedup=cw.Amdahl(0.6))
    watched.see(second, 100, rng)
    third = with_class(second, "one", arrival_rate=0.9)
    watched.see(third, 100, rng)
    watched.see(with_class(third, "two", speedup=cw.Amdahl(0.9)), 100, rng)
    named = [(alarm.name, alarm.kind) for alarm in watched.alarms if alarm.kind != "speed"]
    assert named == [("two", "curve"), ("one", "arrival rate"), ("two", "curve")]
    raised = [alarm.raised for alarm in watched.alarms]
    assert raised == sorted(raised)


# --- curves and classes of every sort -------------------------------------------------------------


def test_a_curve_without_parameters() -> None:
    """Nothing can change but its rates, so a change of speed is one of its size rate."""
    table = cw.Tabulated([[1, 1], [2, 1.8], [8, 4]])
    system, rng = with_class(PAIR, "one", speedup=table), np.random.default_rng(7)
    watched = Watched.of(system).see(system, 100, rng)
    assert watched.alarms == []
    watched.see(with_class(system, "one", size_rate=2.5), 100, rng)
    assert {alarm.kind for alarm in watched.alarms} == {"size rate"}
    assert watched.detector.known(system)["one"].size_rate == pytest.approx(2.5, rel=0.1)


def test_a_class_that_never_holds_more_than_a_core() -> None:
    """Its curve leaves no trace; its size rate does."""

    def narrow(system: cw.System, rng: np.random.Generator) -> cw.Statistics:
        window = drawn(system, rng)
        one = window.classes[0]
        left = rng.poisson(system["one"].known_size_rate * one.job_time[:2] * one.widths[:2]).astype(float)
        table = ClassStatistics(one.arrivals, one.widths[:2], left, one.job_time[:2])
        return replace(window, classes=(table, window.classes[1]))

    rng, detector = np.random.default_rng(8), ChangeDetector(PAIR, 1e7)
    found = list[Alarm]()
    for k in range(200):
        system = with_class(PAIR, "one", size_rate=2.5 if k >= 100 else 1.5, speedup=cw.Amdahl(k / 200))
        detector, alarms = detector.observe(narrow(system, rng))
        found += alarms
    assert {(alarm.name, alarm.kind) for alarm in found} == {("one", "size rate")}
    assert found[-1].time_interval[0] <= 100 * 100.0 <= found[-1].time_interval[1]


def test_a_rare_class() -> None:
    """One in a thousand: in most windows nothing is seen of it, and its change is found all the same."""
    rare = cw.JobClass("rare", 0.002, 1.5, cw.Amdahl(0.9))
    system, rng = cw.System(8, [PAIR["one"], rare]), np.random.default_rng(9)
    watched = Watched.of(system).see(system, 200, rng, time=300.0)
    assert watched.alarms == []
    watched.see(with_class(system, "rare", speedup=cw.Amdahl(0.0)), 300, rng, time=300.0)
    assert {alarm.name for alarm in watched.alarms} == {"rare"}


def test_a_simulated_plant() -> None:
    """As the learner sees it: widths of a policy, off the grid, in a system that forgets slowly."""
    system = cw.load_system("paper:drift").regime(0)
    policy = cw.solve(system).policy
    detector, found = ChangeDetector(system, 1e7), list[Alarm]()
    plant = cw.SimulatedPlant(system, rng=10)
    for truth in (system, system.with_curves({"two": cw.Amdahl(0.7)})):
        plant = cw.SimulatedPlant(truth, rng=plant.rng, start=plant.state)
        for _ in range(150):
            detector, alarms = detector.observe(plant.run(policy, 200))
            found += alarms
    assert {alarm.name for alarm in found} == {"two"}
    assert found[-1].kind == "curve"
    assert found[0].interval[0] <= 30_000 <= found[0].interval[1]
    assert found[0].raised < 33_000


# --- where the change is --------------------------------------------------------------------------


def covered(repetitions: int, off: float) -> int:
    """Return how often the interval holds the time of the change, or one so far from it.

    The changes branch off one run in which nothing changes.
    """
    system, rng, hits = cw.System(8, [PAIR["one"]]), np.random.default_rng(11), 0
    changed = with_class(system, "one", speedup=cw.Amdahl(0.4))
    stationary = Watched.of(system, 1e9).see(system, 50, rng)
    for _ in range(repetitions):
        stationary.see(system, 3, rng)
        assert stationary.alarms == []
        watched = Watched(stationary.detector, [])
        while not watched.alarms:
            watched.see(changed, 1, rng)
        low, high = watched.alarms[0].time_interval
        hits += low <= stationary.detector.time + off <= high
    return hits


@pytest.mark.statistical
def test_interval_covers_the_change() -> None:
    """At least 95 %; with that a count below the bound comes by chance once in ten thousand."""
    assert covered(200, off=0.0) >= stats.binom.ppf(1e-4, 200, 0.95)
    assert covered(40, off=1500.0) < stats.binom.ppf(1e-4, 40, 0.95)


# --- to go on later -------------------------------------------------------------------------------


def stages(system: cw.System, rng: np.random.Generator) -> Iterator[Watched]:
    """Yield a detector that has seen little, more, a change not named, one that is, and another one.

    Next to no job holds one core or less: a curve explains what is seen nearly as well as a size rate.
    """
    watched = Watched.of(system)
    yield watched.see(system, 1, rng, narrow=0.01)
    yield watched.see(system, 60, rng, narrow=0.01)
    changed = with_class(system, "one", size_rate=1.75)
    while not watched.alarms:
        watched.see(changed, 1, rng, narrow=0.01)
    assert watched.alarms[-1].kind == "speed"
    yield watched
    while watched.alarms[-1].kind == "speed":
        watched.see(changed, 1, rng)
    yield watched
    yield watched.see(with_class(changed, "two", arrival_rate=0.3), 60, rng)
    assert watched.alarms[-1].kind == "arrival rate"


@pytest.mark.parametrize("curve", [cw.Amdahl(0.6), cw.PowerLaw(0.6), cw.Gustafson(0.4)])
def test_restored_from_its_state(curve: cw.SpeedUp) -> None:
    """A detector restored from what it has kept finds the same, bit for bit."""
    system = with_class(PAIR, "one", speedup=curve)
    later = with_class(system, "two", speedup=cw.Amdahl(0.5))
    for stage, watched in enumerate(stages(system, np.random.default_rng(12))):
        kept = {name: array.copy() for name, array in watched.detector.state.items()}
        ours = Watched(watched.detector, [])
        theirs = Watched(ChangeDetector(system, 1e7).of_state(kept), [])
        for each in (ours, theirs):
            assert each.detector.known(system) == watched.detector.known(system)
            each.see(later, 60, np.random.default_rng(13))
        assert ours.alarms or stage == 0  # one window before a change is not enough to find it
        assert ours.alarms == theirs.alarms
        states = ours.detector.state, theirs.detector.state
        assert states[0].keys() == states[1].keys()
        for name, array in states[0].items():
            assert array.tobytes() == states[1][name].tobytes(), name
    assert stage == 4


def test_a_detector_is_a_value() -> None:
    rng = np.random.default_rng(14)
    detector = Watched.of(PAIR).see(PAIR, 20, rng).detector
    before = {name: array.copy() for name, array in detector.state.items()}
    Watched(detector, []).see(with_class(PAIR, "one", size_rate=3.0), 20, rng)
    for name, array in detector.state.items():
        assert array.tobytes() == before[name].tobytes(), name


# --- what it says, and what it refuses ------------------------------------------------------------


def test_alarms_in_words_and_plain_values() -> None:
    watched = Watched.of(PAIR).see(PAIR, 100, np.random.default_rng(15))
    watched.see(with_class(PAIR, "one", arrival_rate=3.0), 20, np.random.default_rng(16))
    (alarm,) = watched.alarms
    assert "class one: its arrival rate changed" in str(alarm)
    mapping = alarm.as_mapping()
    assert Alarm(**{**mapping, **{k: tuple(mapping[k]) for k in ("interval", "time_interval")}}) == alarm


def test_bad_input_is_refused() -> None:
    detector, window = ChangeDetector(PAIR, 1e7), drawn(PAIR, np.random.default_rng(17))
    with pytest.raises(cw.errors.InvalidInput, match="expected Statistics"):
        detector.observe(PAIR)  # type: ignore[arg-type]
    with pytest.raises(cw.errors.InvalidInput, match="of classes two, one; the system has one, two"):
        detector.observe(replace(window, names=("two", "one")))
    with pytest.raises(cw.errors.InvalidInput, match="without departures"):
        detector.observe(cw.Statistics.empty(("one", "two")))
    with pytest.raises(cw.errors.InvalidInput, match="nothing has been seen"):
        detector.statistics()
    for nonsense in (0.0, -1.0, math.nan):
        with pytest.raises(cw.errors.InvalidInput, match="between_alarms must be"):
            ChangeDetector(PAIR, nonsense)


def test_false_alarms_at_every_other_check_are_not_to_be_had() -> None:
    """However few departures are asked for between them, there are at least so many checks."""
    rng = np.random.default_rng(19)
    watched = Watched.of(PAIR, 1.0).see(PAIR, 4, rng).see(with_class(PAIR, "one", arrival_rate=4.0), 4, rng)
    alarm = next(alarm for alarm in watched.alarms if alarm.kind == "arrival rate")
    assert alarm.threshold == pytest.approx(threshold(LEAST_CHECKS * 2 / 0.1))


def test_a_change_before_the_last_window_is_found_at_its_end() -> None:
    """The newest edge counts: one window of five times the arrivals, or a twelfth of them, is an alarm.

    Negative control: a window like the others is none.
    """
    for factor in (1.0, 5.0, 1.0 / 12.0):
        rng = np.random.default_rng(31)
        watched = Watched.of(PAIR).see(PAIR, 20, rng)
        rate = PAIR["one"].arrival_rate
        assert rate is not None
        watched.see(with_class(PAIR, "one", arrival_rate=factor * rate), 1, rng)
        assert [alarm.kind for alarm in watched.alarms] == ([] if factor == 1.0 else ["arrival rate"])
        if watched.alarms:
            (alarm,) = watched.alarms
            assert alarm.departures == pytest.approx(alarm.raised, rel=0.2)
            assert alarm.time == pytest.approx(2000.0)
