"""How well changes can be followed: the oracle, windows in hindsight, random walks, and exact averages.

Every number is checked against one that is made from the definition, step by step.
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import corewise as cw
from benchmarks.instruments.walks import fixed_windows, random_walk
from corewise.experiments.studies.learning import (
    Detections,
    LearningStudy,
    detections,
    learning_study,
    tracking_errors,
)
from corewise.experiments.studies.tracking import (
    ExactAverage,
    OracleMemory,
    exact_mean_jobs,
    oracle,
    squared_errors,
    true_values,
    windows_until,
)
from corewise.kit.arrays import Floats
from corewise.learning.memories import Everything, Memory

pytestmark = pytest.mark.slow

CLASSES = [cw.JobClass(name, 1.0, 1.5, cw.Amdahl(p)) for name, p in (("one", 0.3), ("two", 0.8))]
SYSTEM = cw.System(
    6,
    CLASSES,
    [
        cw.Change(100.0, "two", cw.Amdahl(0.5)),
        cw.Change(160.0, "one", cw.Amdahl(0.6)),
        cw.Change(161.0, "one", cw.Amdahl(0.7)),
    ],
)


def windows(count: int, system: cw.System = SYSTEM, departures: int = 40) -> list[cw.Statistics]:
    """What is seen of a changing system under EQUI, window by window."""
    plant = cw.SimulatedPlant(system, rng=3)
    return [plant.run(cw.Equi(), departures) for _ in range(count)]


def same(one: cw.results.ClassStatistics, other: cw.results.ClassStatistics) -> bool:
    pairs = ((one.widths, other.widths), (one.departures, other.departures), (one.job_time, other.job_time))
    return all(a.shape == b.shape and np.allclose(a, b, rtol=1e-12) for a, b in pairs)


# --- the oracle -----------------------------------------------------------------------------------


def test_the_oracle_forgets_the_class_that_changed_at_the_first_check_after_it() -> None:
    memory = OracleMemory(SYSTEM.changes)
    seen = windows(12)
    ends = np.cumsum([window.time for window in seen])
    assert ends[-1] > 200.0
    begin = {"one": 0, "two": 0}  # the first window that counts
    for k, (window, end) in enumerate(zip(seen, ends, strict=True)):
        memory = memory.remember(window)
        since = ends[k - 1] if k else 0.0
        for change in SYSTEM.changes:
            if since < change.time <= end:
                begin[change.name] = k + 1
        recalled = memory.recall()
        for name, first in begin.items():
            kept = [one[name] for one in seen[first : k + 1]]
            if kept:
                assert same(recalled[name], cw.results.ClassStatistics.total(kept))
            else:
                assert recalled[name].widths.size == 0
        assert recalled.time == pytest.approx(end)
        assert recalled.arrivals == sum(one.arrivals for one in seen[: k + 1])
    assert 0 < begin["two"] < begin["one"] < len(seen)


def test_without_changes_the_oracle_remembers_everything() -> None:
    told: Memory = OracleMemory(())
    everything: Memory = Everything()
    for window in windows(3):
        told, everything = told.remember(window), everything.remember(window)
    for one, other in zip(told.recall().classes, everything.recall().classes, strict=True):
        assert same(one, other)
        assert one.arrivals == other.arrivals


def test_the_oracle_can_go_on_later(tmp_path: Path) -> None:
    """Saved before the first change and resumed, it is told of all of them."""
    algorithm = oracle(SYSTEM, departures=40, steps=10)
    whole = [epoch.as_mapping() for epoch in cw.learn(cw.SimulatedPlant(SYSTEM, rng=5), algorithm)]
    begun = cw.learn(cw.SimulatedPlant(SYSTEM, rng=5), algorithm)
    for _ in range(4):
        next(begun)
    begun.save(tmp_path / "run")
    rest = cw.learn(cw.SimulatedPlant(SYSTEM, rng=9), algorithm, resume=tmp_path / "run")
    assert [epoch.as_mapping() for epoch in rest] == whole[4:]
    memory = algorithm.memory
    assert memory.of_parts(memory.parts).parts == ()


def test_the_oracle_learns_what_is_true_now() -> None:
    """Right after a change the last estimate stays; then it is made from what came after alone."""
    epochs = list(cw.learn(cw.SimulatedPlant(SYSTEM, rng=5), oracle(SYSTEM, departures=40, steps=10)))
    (at,) = [k for k, epoch in enumerate(epochs) if epoch.time >= 100.0][:1]
    assert not epochs[at].estimates["two"].informative
    assert epochs[at].estimates["one"].informative
    assert epochs[at].estimates["two"].value == epochs[at - 1].estimates["two"].value
    assert epochs[at + 1].estimates["two"].departures <= 40
    assert epochs[at + 1].estimates["one"].departures > 40


def test_what_is_no_window_is_refused() -> None:
    with pytest.raises(cw.errors.InvalidInput, match="a memory is of Statistics"):
        OracleMemory(()).remember("a window")  # type: ignore[arg-type]
    with pytest.raises(cw.errors.InvalidInput, match="nothing has been remembered yet"):
        OracleMemory(()).recall()
    with pytest.raises(cw.errors.InvalidSystem, match="expected a System"):
        oracle("paper:drift", steps=3)  # type: ignore[arg-type]


# --- errors ---------------------------------------------------------------------------------------


def test_squared_errors_are_those_of_a_fine_grid() -> None:
    """Each stretch between two estimates against a sum over many short steps."""
    times = np.array([20.0, 90.0, 130.0, 170.0, 200.0])
    estimates = np.random.default_rng(1).uniform(0.0, 1.0, (2, 5))
    found = squared_errors(SYSTEM, times, estimates)
    assert found.shape == (2, 4)
    for k in range(4):
        grid = times[k] + (np.arange(70_000) + 0.5) / 70_000 * (times[k + 1] - times[k])
        one = np.select([grid < 160.0, grid < 161.0], [0.3, 0.6], 0.7)
        two = np.where(grid < 100.0, 0.8, 0.5)
        for i, truth in enumerate((one, two)):
            assert found[i, k] == pytest.approx(np.mean((estimates[i, k] - truth) ** 2), rel=1e-4)


def test_true_values_are_those_in_force() -> None:
    at = np.array([[0.0, 99.9, 100.0], [160.0, 160.5, 161.0]])
    expected = [[[0.3] * 3, [0.8, 0.8, 0.5]], [[0.6, 0.6, 0.7], [0.5] * 3]]
    assert true_values(SYSTEM, at).tolist() == expected
    usl = cw.System(6, [cw.JobClass("a", 1.0, 1.5, cw.Usl(0.1, 0.01))])
    with pytest.raises(cw.errors.InvalidInput, match="class 'a': usl has not one parameter"):
        true_values(usl, at)


# --- windows in hindsight -------------------------------------------------------------------------


def brute_force(seen: list[cw.Statistics], length: int, system: cw.System) -> Floats:
    """The error of one window length: sum what it covers, estimate, compare with the truth, step by step."""
    ends = np.cumsum([window.time for window in seen])
    total, spans = np.zeros(2), 0.0
    last = {"one": 0.5, "two": 0.5}
    for k in range(0, len(seen) - 1, max(1, length // 8)):
        covered = seen[max(0, k + 1 - length) : k + 1]
        whole = covered[0]
        for window in covered[1:]:
            whole = whole + window
        for name, row in cw.estimate(whole, system).items():
            if row.informative:
                last[name] = row.value
        edges = [ends[k], *(c.time for c in system.changes if ends[k] < c.time < ends[k + 1]), ends[k + 1]]
        for low, high in pairwise(edges):
            truth = system.regime(low)
            for i, name in enumerate(("one", "two")):
                p = truth[name].speedup.parameters["p"]
                total[i] += (high - low) * (last[name] - p) ** 2
        spans += float(ends[k + 1] - ends[k])
    return total / spans


def test_fixed_windows_are_those_of_brute_force() -> None:
    system = random_walk(cw.System(6, CLASSES), sd=0.05, every=17.0, end=400.0, rng=2)
    seen = windows(40, system, departures=12)
    found = fixed_windows(seen, system)
    assert found.lengths.tolist() == [1, 2, 3, 4, 6, 8, 12, 16, 24, 32]
    expected = np.array([brute_force(seen, length, system) for length in found.lengths.tolist()])
    assert found.errors == pytest.approx(expected, rel=1e-6)
    assert found.best == pytest.approx(expected.min(axis=0), rel=1e-6)
    assert found.best_lengths.tolist() == found.lengths[expected.argmin(axis=0)].tolist()
    assert np.ptp(expected, axis=0).min() > 0.01  # they differ, so that to mix them up would be seen


def test_one_check_is_too_few_for_windows() -> None:
    with pytest.raises(cw.errors.InvalidInput, match="at least two checks are needed, got 1"):
        fixed_windows(windows(1), SYSTEM)


# --- random walks ---------------------------------------------------------------------------------


@pytest.mark.statistical
def test_a_random_walk_has_the_steps_that_were_asked_for() -> None:
    """Away from the ends steps are normal with the sd given: 4000 of them have theirs within 4.5 %, 4 sd.

    False alarm 6e-5. Negative control: not that of another sd. Close to the ends it is reflected.
    """
    alone = cw.System(6, [cw.JobClass("a", 1.0, 1.0, cw.Amdahl(0.5))])
    quiet = random_walk(alone, sd=1e-4, every=2.0, end=8e3, rng=4)
    assert len(quiet.changes) == 4000
    assert [change.time for change in quiet.changes[:3]] == [2.0, 4.0, 6.0]
    steps = np.diff([0.5, *(change.speedup.parameters["p"] for change in quiet.changes)])
    assert np.std(steps) == pytest.approx(1e-4, rel=0.045)
    assert np.std(steps) != pytest.approx(1.1e-4, rel=0.045)
    wild = random_walk(SYSTEM, sd=0.2, every=1.0, end=500.0, rng=4)
    values = np.array([change.speedup.parameters["p"] for change in wild.changes]).reshape(-1, 2)
    assert values.min() >= 0.05
    assert values.max() <= 0.95
    # It is in every quarter of the range about as often: reflected, not stuck at the ends.
    shares = np.histogram(values, 4, (0.05, 0.95))[0] / values.size
    assert shares.min() > 0.15
    assert [change.name for change in wild.changes[:4]] == ["one", "two", "one", "two"]


def test_a_walk_is_reflected_where_it_would_leave() -> None:
    """As the generator draws it until it passes an end; there it is as far inside as it would be outside."""
    steps = np.random.default_rng(8).normal(0.0, 0.15, (50, 1))[:, 0]
    free = 0.5 + np.cumsum(steps)
    (first,) = np.flatnonzero((free < 0.05) | (free > 0.95))[:1]
    system = cw.System(6, [cw.JobClass("a", 1.0, 1.0, cw.Amdahl(0.5))])
    walk = random_walk(system, sd=0.15, every=1.0, end=50.0, rng=8)
    values = np.array([change.speedup.parameters["p"] for change in walk.changes])
    assert first > 0
    assert values[:first] == pytest.approx(free[:first])
    assert values[first] == pytest.approx(0.1 - free[first] if free[first] < 0.05 else 1.9 - free[first])
    assert np.all(np.abs(np.diff(values)) <= np.abs(steps[1:]) + 1e-12)


def test_what_cannot_walk_is_refused() -> None:
    power = cw.System(6, [cw.JobClass("a", 1.0, 1.0, cw.PowerLaw(0.5))])
    with pytest.raises(cw.errors.InvalidInput, match="curves of Amdahl's law"):
        random_walk(power, sd=0.1, every=1.0, end=5.0)
    for name in ("sd", "every", "end"):
        chosen = {"sd": 0.1, "every": 1.0, "end": 5.0} | {name: 0.0}
        with pytest.raises(cw.errors.InvalidInput, match=f"{name} must be positive"):
            random_walk(SYSTEM, sd=chosen["sd"], every=chosen["every"], end=chosen["end"])


# --- exact performance ----------------------------------------------------------------------------


def test_the_average_is_the_sum_over_policies_and_truths() -> None:
    """J of each pair times how long it was in force, by hand; 130 falls between two changes."""
    best = cw.solve(SYSTEM).policy
    average = ExactAverage(SYSTEM)
    for until in (10.0, 60.0, 130.0):
        average.add(best, until)
    average.add(cw.Equi(), 200.0)
    truths = [SYSTEM.regime(at) for at in (0.0, 100.0, 160.0, 161.0)]
    spans: list[tuple[cw.Policy, int, float]] = [
        (best, 0, 100.0),
        (best, 1, 30.0),
        (cw.Equi(), 1, 30.0),
        (cw.Equi(), 2, 1.0),
        (cw.Equi(), 3, 39.0),
    ]
    area = sum(length * cw.evaluate(truths[which], policy).mean_jobs for policy, which, length in spans)
    assert average.mean_jobs == pytest.approx(area / 200.0, rel=1e-12)
    assert average.mean_jobs == pytest.approx(area / 200.0, rel=1e-12)  # to look does not change it
    with pytest.raises(cw.errors.InvalidInput, match="no policy has been in force yet"):
        _ = ExactAverage(SYSTEM).mean_jobs


def test_a_policy_that_cannot_keep_up_makes_the_average_infinite() -> None:
    classes = [cw.JobClass("one", 2.4, 1.0, cw.Amdahl(0.0)), cw.JobClass("two", 1.2, 1.0, cw.Amdahl(0.9))]
    average = ExactAverage(cw.System(4, classes))
    average.add(cw.Equi(), 1.0)
    assert math.isfinite(average.mean_jobs)
    average.add(cw.Priority(["one", "two"]), 2.0)
    assert average.mean_jobs == math.inf


def naive_area(policy: cw.Policy, since: float, until: float) -> float:
    """∫ J dt for one policy between two times."""
    edges = [since, *(c.time for c in SYSTEM.changes if since < c.time < until), until]
    return sum(
        (high - low) * cw.evaluate(SYSTEM.regime(low), policy).mean_jobs for low, high in pairwise(edges)
    )


@pytest.mark.parametrize(("inertia", "end"), [(0.0, 170.0), (0.5, 150.0), (0.5, 250.0)])
def test_the_average_of_a_run_is_the_naive_sum_over_its_windows(inertia: float, end: float) -> None:
    """Every window by itself, whether or not its policy is the one before; EQUI is the first.

    What comes after the end does not count; until there, the last policy stays.
    """
    algorithm = replace(oracle(SYSTEM, departures=40, steps=9), inertia=inertia)
    study = learning_study(SYSTEM, algorithm, n=2, rng=7, average_until=end)
    for stream, found in zip(np.random.default_rng(7).spawn(2), study.averages, strict=True):
        policy: cw.Policy = cw.Equi()
        area, since = 0.0, 0.0
        for epoch in cw.learn(cw.SimulatedPlant(SYSTEM, rng=stream), algorithm, diagnose=False):
            area += naive_area(policy, since, min(epoch.time, end))
            since, policy = min(epoch.time, end), epoch.policy
        area += naive_area(policy, since, end)
        assert found == pytest.approx(area / end, rel=1e-10)
    assert np.isnan(learning_study(SYSTEM, algorithm, n=1, rng=7).averages).all()
    with pytest.raises(cw.errors.InvalidInput, match="average_until must be positive"):
        learning_study(SYSTEM, algorithm, n=1, rng=7, average_until=0.0)


def test_the_mean_jobs_of_a_rule() -> None:
    """EQUI, and the optimum for every truth, which nothing is better than."""
    equi, best = (exact_mean_jobs(rule, SYSTEM, 180.0) for rule in (lambda _: cw.Equi(), best_of))
    assert equi == pytest.approx(naive_area(cw.Equi(), 0.0, 180.0) / 180.0, rel=1e-12)
    least = [cw.solve(SYSTEM.regime(at)).mean_jobs for at in (0.0, 100.0, 160.0, 161.0)]
    assert best == pytest.approx(np.dot(least, [100.0, 60.0, 1.0, 19.0]) / 180.0, rel=1e-8)
    assert best < equi


def best_of(truth: cw.System) -> cw.Policy:
    return cw.solve(truth).policy


# --- which changes were found ---------------------------------------------------------------------


def alarm(name: str, raised: int, departures: float, kind: str = "curve") -> cw.results.Alarm:
    sides = {"p": 0.5}
    at = (departures, departures)
    return cw.results.Alarm(name, kind, raised, departures, at, departures, at, sides, sides, 20.0, 15.0, 1e8)


def found_by(*alarms: cw.results.Alarm) -> Detections:
    """One run of 20 windows, each of 20 departures in 10 units of time: changes after 200, 320, 322."""
    shape = (1, 2, 20)
    study = LearningStudy(
        algorithm="adaptive",
        names=("one", "two"),
        windows=np.full(20, 20.0),
        departures=20.0 * np.arange(1.0, 21.0),
        times=10.0 * np.arange(1.0, 21.0)[None],
        estimates=np.zeros(shape),
        truths=np.zeros(shape),
        bounds=np.zeros(shape[1:]),
        mean_jobs=np.zeros((1, 20)),
        gaps=np.zeros((1, 20)),
        alarms=(alarms,),
    )
    return detections(study, SYSTEM)


def test_alarms_are_matched_with_the_last_change_of_their_class() -> None:
    seen = found_by(alarm("two", 240, 195.0, "speed"), alarm("two", 260, 195.0), alarm("one", 340, 330.0))
    np.testing.assert_array_equal(seen.delays, [[40.0, np.nan, 18.0]])  # one had changed twice by then
    assert seen.others.tolist() == [0.0]


def test_alarms_that_are_false_or_second_are_counted() -> None:
    seen = found_by(
        alarm("one", 60, 40.0),
        alarm("two", 220, 200.0, "arrival rate"),
        alarm("two", 240, 200.0, "size rate"),
        alarm("two", 300, 280.0),
    )
    np.testing.assert_array_equal(seen.delays, [[40.0, np.nan, np.nan]])
    assert seen.others.tolist() == [3.0]


def test_a_study_keeps_the_alarms_of_its_runs() -> None:
    """A jump from 0.2 to 0.9 is found by every run, and no other, and the oracle raises none."""
    classes = [cw.JobClass("a", 1.0, 1.0, cw.Amdahl(0.2))]
    system = cw.System(8, classes, [cw.Change(2000.0, "a", cw.Amdahl(0.9))])
    study = learning_study(system, cw.adaptive(system, departures=50, steps=70), n=3, rng=2)
    seen = detections(study, system)
    assert seen.delays.max() < 500.0
    assert seen.others.tolist() == [0.0] * 3
    told = learning_study(system, oracle(system, departures=50, steps=70), n=3, rng=2)
    assert told.alarms == ((),) * 3
    everything = cw.algorithm_1b(system, departures=50, steps=70)
    whole = learning_study(system, everything, n=3, rng=2)
    errors = [tracking_errors(one, system).mean() for one in (told, whole)]
    assert errors[0] < 0.2 * errors[1]


def test_windows_until_enough_have_left() -> None:
    assert windows_until(cw.schedules.Constant(200), 6e6) == 30_000
    assert windows_until(cw.schedules.Constant(200), 200.5) == 2
    sizes = [math.ceil(10 * k**0.75 - 1e-9) for k in range(1, 9)]
    assert windows_until(cw.schedules.Growing(10), sum(sizes)) == 8
    assert windows_until(cw.schedules.Growing(10), sum(sizes) + 1) == 9
