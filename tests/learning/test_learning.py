"""The loop: windows, memories, what is known and what is not, the learner and its two rules, the plants."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq

import corewise as cw
from corewise.kit.arrays import Floats
from corewise.learning.algorithms import first_curve
from corewise.learning.gate import Decision, ExpectedImprovement
from corewise.learning.learner import Inference, InferenceRequest, Learner, infer
from corewise.learning.loop import Learning
from corewise.learning.memories import Memory
from corewise.policies.base import BoundPolicy

EXAMPLE = cw.load_system("paper:3")
MIXED = cw.System(
    6.0,
    [
        cw.JobClass("one", 0.9, 1.0, cw.Amdahl(0.7)),
        cw.JobClass("two", 0.8, 0.8, cw.PowerLaw(0.5), weight=2.0),
    ],
)
ALGORITHMS: list[Callable[..., cw.Algorithm]] = [cw.algorithm_1a, cw.algorithm_1b]
BOTH = pytest.mark.parametrize("algorithm", ALGORITHMS, ids=["1a", "1b"])
ALL = pytest.mark.parametrize("algorithm", [*ALGORITHMS, cw.adaptive], ids=["1a", "1b", "adaptive"])


def rows(epochs: Iterator[cw.results.Epoch]) -> list[str]:
    """Every number of every epoch, digit for digit."""
    return [json.dumps(epoch.as_mapping()) for epoch in epochs]


def seen_in(
    cores: float, jobs: int, time: float, departures: int, arrivals: int = 1
) -> cw.results.ClassStatistics:
    """What is seen of a class whose `jobs` hold `cores` between them for a while."""
    return cw.results.ClassStatistics(
        arrivals, np.array([cores / jobs]), np.array([float(departures)]), np.array([jobs * time])
    )


def window_of(*classes: cw.results.ClassStatistics, time: float = 10.0) -> cw.Statistics:
    return cw.Statistics(("one", "two"), time, classes)


NOTHING = cw.results.ClassStatistics(0, np.empty(0), np.empty(0), np.empty(0))


# --- schedules --------------------------------------------------------------------------------------


def root(power: int, of: int) -> int:
    """The least whole number whose power-th power is at least `of`: by whole numbers only."""
    least = math.isqrt(math.isqrt(of)) if power == 4 else math.isqrt(of)
    return least if least**power == of else least + 1


def test_windows_grow_as_in_the_paper() -> None:
    """N_k = ⌈first · k^0.75⌉, also where k is a fourth power and the ceiling must not go up by rounding."""
    for first in (1, 7, 100, 200):
        windows = cw.schedules.Growing(first)
        assert [windows.window(k) for k in range(1, 2001)] == [
            root(4, first**4 * k**3) for k in range(1, 2001)
        ]
    assert [cw.schedules.Growing(100).window(k) for k in (1, 16, 81, 256, 625)] == [
        100,
        800,
        2700,
        6400,
        12500,
    ]
    half = cw.schedules.Growing(100, 0.5)
    assert [half.window(k) for k in range(1, 2001)] == [root(2, 100**2 * k) for k in range(1, 2001)]
    # A computer has 32^0.8 = 16.000000000000004, and 27^(5/3) = 243.00000000000006.
    assert [cw.schedules.Growing(1, 0.8).window(b**5) for b in range(1, 20)] == [b**4 for b in range(1, 20)]
    assert [cw.schedules.Growing(1, 5 / 3).window(b**3) for b in range(1, 20)] == [b**5 for b in range(1, 20)]


def test_windows_of_the_papers_other_example() -> None:
    """N_k = N_1 ⌈√k⌉, and any other function."""
    windows = cw.schedules.Growing(30, growth=lambda k: math.ceil(math.sqrt(k)))
    assert [windows.window(k) for k in range(1, 1000)] == [30 * root(2, k) for k in range(1, 1000)]
    assert cw.schedules.Growing(10, growth=lambda k: 0.01).window(5) == 1
    assert cw.schedules.Growing(10, growth=lambda k: 1.01).window(5) == 11
    assert cw.schedules.Growing(10, power=3.0, growth=lambda k: 2).window(5) == 20


def test_windows_that_do_not_grow() -> None:
    assert {cw.schedules.Constant(70).window(k) for k in range(1, 100)} == {70}
    assert {cw.schedules.Growing(70, 0.0).window(k) for k in range(1, 100)} == {70}


@pytest.mark.parametrize("size", [1, 10**12, 10**12 + 1, 10**15 + 1, 2**53])
def test_windows_of_any_size_are_exact(size: int) -> None:
    for windows in (cw.schedules.Growing(size), cw.schedules.Growing(size, 0.0), cw.schedules.Constant(size)):
        assert windows.window(1) == size


def test_schedules_say_what_they_are() -> None:
    assert str(cw.schedules.Growing(100)) == "N_k = ⌈100 k^0.75⌉"
    assert str(cw.schedules.Growing(100, growth=math.sqrt)) == "N_k = ⌈100 g(k)⌉"
    assert str(cw.schedules.Constant(5)) == "N_k = 5"


SIZES: list[tuple[Any, str]] = [
    (0, "at least 1, got 0"),
    (-3, "at least 1, got -3"),
    (1.5, "whole number, got 1.5"),
    ("a", "whole number, got 'a'"),
    (None, "whole number, got None"),
    (True, "whole number, got True"),
    (10**19, "got 10000000000000000000"),
]


@pytest.mark.parametrize("schedule", [cw.schedules.Constant, cw.schedules.Growing])
@pytest.mark.parametrize(("size", "message"), SIZES)
def test_impossible_windows(schedule: Callable[[Any], Any], size: Any, message: str) -> None:
    with pytest.raises(cw.errors.InvalidInput, match=message):
        schedule(size)
    with pytest.raises(cw.errors.InvalidInput, match="k must be"):
        schedule(1).window(min(size, 0) if isinstance(size, int) and size is not True else size)


@pytest.mark.parametrize(
    ("power", "message"),
    [(-0.5, "not be negative.*got -0.5"), (math.nan, "got nan"), (math.inf, "got inf"), ("a", "got 'a'")],
)
def test_impossible_powers(power: Any, message: str) -> None:
    with pytest.raises(cw.errors.InvalidInput, match=message):
        cw.schedules.Growing(100, power)
    with pytest.raises(cw.errors.InvalidInput, match=message):
        cw.algorithm_1a(EXAMPLE, departures=100, steps=5, power=power)
    for algorithm in (cw.algorithm_1b, cw.adaptive):
        with pytest.raises(cw.errors.InvalidInput, match=message):
            algorithm(EXAMPLE, departures=100, steps=5, power=power)


@pytest.mark.parametrize(
    ("growth", "message"),
    [
        (3, "growth must be a function of k, got 3"),
        (lambda k: 0, r"growth\(2\) must be positive, got 0"),
        (lambda k: -k, r"growth\(2\) must be positive, got -2"),
        (lambda k: math.nan, r"growth\(2\) must be finite, got nan"),
        (lambda k: math.inf, r"growth\(2\) must be finite, got inf"),
        (lambda k: "x", r"growth\(2\) must be a number, got 'x'"),
        (lambda k: 1.0 / k, r"must not fall, but growth\(2\) = 0.5"),
        (lambda k: 1e17, r"window 2 would need 1e\+19 departures"),
    ],
)
def test_impossible_growth(growth: Any, message: str) -> None:
    with pytest.raises(cw.errors.InvalidInput, match=message):
        cw.schedules.Growing(100, growth=growth).window(2)
    with pytest.raises(cw.errors.InvalidInput, match=message.replace("2", "[12]", 1)):
        cw.algorithm_1a(EXAMPLE, departures=100, steps=2, growth=growth)


@pytest.mark.parametrize("power", [0.75, 400.0, 1e300])
def test_windows_beyond_all_counting(power: float) -> None:
    with pytest.raises(
        cw.errors.InvalidInput, match=r"window 1000000.* would need .* departures, more than 1e"
    ):
        cw.schedules.Growing(10**17, power).window(10**6)
    with pytest.raises(cw.errors.InvalidInput, match="would need"):
        cw.algorithm_1a(EXAMPLE, departures=10**17, steps=10**6, power=power)


# --- memories ---------------------------------------------------------------------------------------


def three_windows() -> list[cw.Statistics]:
    plant = cw.SimulatedPlant(EXAMPLE, rng=5)
    return [plant.run(policy, 40) for policy in (cw.Equi(), cw.Whittle(), cw.Fixed([0.3, 0.7]))]


def columns(seen: cw.Statistics) -> list[list[list[float]]]:
    return [[row.widths.tolist(), row.departures.tolist(), row.job_time.tolist()] for row in seen.classes]


def test_the_latest_window_is_remembered_alone() -> None:
    memory = cw.memories.Latest()
    for window in three_windows():
        memory = memory.remember(window)
        assert memory.recall() is window
        assert memory.parts == (window,)


def test_everything_is_the_sum_of_all_windows() -> None:
    """In any number of steps, whatever the policies were; and remembering changes no memory."""
    windows = three_windows()
    memories = [cw.memories.Everything()]
    for window in windows:
        memories.append(memories[-1].remember(window))
    for k, memory in enumerate(memories[1:], start=1):
        whole, found = cw.Statistics.total(windows[:k]), memory.recall()
        assert found.time == pytest.approx(whole.time, rel=1e-12)
        assert found.departures == 40 * k
        for one, other in zip(found.classes, whole.classes, strict=True):
            assert one.widths.tolist() == other.widths.tolist()
            assert one.departures.tolist() == other.departures.tolist()
            assert one.job_time == pytest.approx(other.job_time, rel=1e-12)
    assert memories[0].kept is None


def since_change() -> cw.memories.SinceChange:
    return cw.memories.SinceChange(cw.ChangeDetector(EXAMPLE, 1e6))


@pytest.mark.parametrize("kind", [cw.memories.Latest, cw.memories.Everything, since_change])
def test_a_memory_can_be_taken_apart_and_put_together(kind: Callable[[], Memory]) -> None:
    memory = kind()
    assert memory.of_parts(memory.parts).parts == ()
    for window in three_windows():
        memory = memory.remember(window)
    again = kind().of_parts(memory.parts)
    assert type(again) is type(memory)
    assert columns(again.recall()) == columns(memory.recall())


@pytest.mark.parametrize("kind", [cw.memories.Latest, cw.memories.Everything])
def test_bad_memories(kind: Any) -> None:
    with pytest.raises(cw.errors.InvalidInput, match="nothing has been remembered"):
        kind().recall()
    with pytest.raises(cw.errors.InvalidInput, match="got 'x'"):
        kind("x")
    for memory in (kind(), kind().remember(three_windows()[0])):
        with pytest.raises(cw.errors.InvalidInput, match="got 3"):
            memory.remember(3)
    with pytest.raises(cw.errors.InvalidInput, match="do not add"):
        cw.memories.Everything(three_windows()[0]).remember(cw.Statistics.empty(["other"]))


# --- what is known, and what is not -----------------------------------------------------------------


def liar(system: cw.System) -> cw.System:
    """The same cores, classes, rates and families; other parameters, and a change."""
    curves = {
        known.name: known.speedup.with_parameters(
            **{name: 0.5 * value + 0.01 for name, value in known.speedup.parameters.items()}
        )
        for known in system.classes
    }
    other = system.with_curves(curves)
    assert all(a != b for a, b in zip(other.classes, system.classes, strict=True))
    return cw.System(other.cores, other.classes, [cw.Change(5.0, system.names[0], system.classes[0].speedup)])


WITH_USL = MIXED.with_curves({"one": cw.Usl(0.1, 0.02)})


@pytest.mark.slow
@ALL
@pytest.mark.parametrize(
    ("system", "policy"),
    [(EXAMPLE, None), (MIXED, None), (MIXED, cw.Whittle()), (WITH_USL, cw.Whittle())],
    ids=["amdahl", "mixed", "mixed-whittle", "usl-whittle"],
)
def test_the_truth_does_not_leak(
    algorithm: Callable[..., cw.Algorithm], system: cw.System, policy: cw.Policy | None
) -> None:
    """An algorithm that is given other parameters of the same families does exactly the same."""
    options = {"departures": 60, "steps": 4, "policy": policy}
    honest, misled = (
        rows(cw.learn(cw.SimulatedPlant(system, rng=3), algorithm(known, **options)))
        for known in (system, liar(system))
    )
    assert honest == misled
    assert len(set(honest)) == 4


@ALL
def test_an_algorithm_keeps_no_parameters(algorithm: Callable[..., cw.Algorithm]) -> None:
    known = algorithm(liar(WITH_USL), departures=10, steps=1).system
    assert known.changes == ()
    assert known["one"].speedup == cw.Usl(0.5, 0.0)
    assert known["two"].speedup == cw.PowerLaw(0.5)
    assert [(c.name, c.arrival_rate, c.size_rate, c.weight) for c in known.classes] == [
        (c.name, c.arrival_rate, c.size_rate, c.weight) for c in MIXED.classes
    ]


def test_the_first_guess() -> None:
    for curve in (cw.Amdahl, cw.PowerLaw, cw.Gustafson):
        assert first_curve(curve(0.9)) == curve(0.5)
    table = cw.Tabulated([(4.0, 3.0)])
    assert first_curve(table) == table


class Sealed:
    """A plant whose truth may not be looked at."""

    def __init__(self, system: cw.System, rng: int) -> None:
        self.inside = cw.SimulatedPlant(system, rng=rng)
        self.sealed = False

    @property
    def truth(self) -> cw.System | None:
        assert not self.sealed
        return None

    def run(self, policy: cw.Policy, departures: int) -> cw.Statistics:
        return self.inside.run(policy, departures)


def test_without_the_truth_there_are_no_verdicts() -> None:
    algorithm = cw.algorithm_1b(EXAMPLE, departures=50, steps=3)
    plants: list[cw.Plant] = [cw.SimulatedPlant(EXAMPLE, rng=3), Sealed(EXAMPLE, 3)]
    judged, unknown = ([*cw.learn(plant, algorithm)] for plant in plants)
    assert all(epoch.mean_jobs is None and epoch.gap is None for epoch in unknown)
    assert all(epoch.mean_jobs is not None and epoch.gap is not None for epoch in judged)
    for one, other in zip(judged, unknown, strict=True):
        nothing = dict.fromkeys(("stable", "mean_jobs", "mean_cost", "gap"))
        assert {**one.as_mapping(), **nothing} == other.as_mapping()
    sealed = Sealed(EXAMPLE, 3)
    learning = cw.learn(sealed, algorithm, diagnose=False)
    sealed.sealed = True
    assert rows(learning) == rows(iter(unknown))


@pytest.mark.parametrize("chosen", [[2], {2, 9}, range(2, 3), np.array([2])], ids=type)
def test_some_epochs_are_judged(chosen: Any) -> None:
    algorithm = cw.algorithm_1b(EXAMPLE, departures=20, steps=3)
    epochs = [*cw.learn(cw.SimulatedPlant(EXAMPLE, rng=1), algorithm, diagnose=chosen)]
    assert [epoch.gap is None for epoch in epochs] == [True, False, True]
    assert [epoch.mean_jobs is None for epoch in epochs] == [True, False, True]


# --- verdicts ---------------------------------------------------------------------------------------


def test_an_epoch_says_how_good_its_policy_is() -> None:
    """Mean jobs without weights, cost and gap with them, under the truth and for the policy just adopted."""
    least = cw.solve(MIXED).mean_cost
    algorithm = cw.algorithm_1b(MIXED, departures=15, steps=4)
    epochs = [*cw.learn(cw.SimulatedPlant(MIXED, rng=2), algorithm)]
    for epoch in epochs:
        exact = cw.evaluate(MIXED, epoch.policy)
        assert exact.mean_cost != pytest.approx(exact.mean_jobs, rel=0.1)
        assert epoch.mean_jobs == pytest.approx(exact.mean_jobs, rel=1e-12)
        assert epoch.mean_cost == pytest.approx(exact.mean_cost, rel=1e-12)
        assert epoch.gap == pytest.approx(exact.mean_cost / least - 1.0, rel=1e-6, abs=1e-9)
        assert epoch.stable is True
    assert max(epoch.gap or 0.0 for epoch in epochs) > 1e-5


def test_a_policy_that_cannot_keep_up_is_infinitely_bad() -> None:
    """All cores go to the class that cannot use them while one of its jobs is there."""
    system = cw.System(
        4.0, [cw.JobClass("one", 2.4, 1.0, cw.Amdahl(0.0)), cw.JobClass("two", 1.2, 1.0, cw.Amdahl(0.9))]
    )
    policy = cw.Priority(["one", "two"])
    with pytest.raises(cw.errors.UnstablePolicy):
        cw.evaluate(system, policy)
    algorithm = cw.algorithm_1b(system, departures=50, steps=2, policy=policy)
    for epoch in cw.learn(cw.SimulatedPlant(system, rng=1), algorithm):
        assert epoch.mean_jobs == epoch.mean_cost == epoch.gap == math.inf
        assert epoch.stable is epoch.as_mapping()["stable"] is False
        assert "inf" in str(epoch)


def test_verdicts_follow_a_truth_that_changes() -> None:
    """The gap is to the optimum of the curves in force, not of those at the beginning."""
    system = cw.System(EXAMPLE.cores, EXAMPLE.classes, [cw.Change(45.0, "one", cw.Amdahl(0.95))])
    algorithm = cw.algorithm_1a(system, departures=60, steps=3)
    epochs = [*cw.learn(cw.SimulatedPlant(system, rng=4), algorithm)]
    assert epochs[0].time < 45.0 < epochs[1].time
    for epoch in epochs:
        now = EXAMPLE if epoch.time < 45.0 else EXAMPLE.with_curves({"one": cw.Amdahl(0.95)})
        exact = cw.evaluate(now, epoch.policy)
        assert epoch.mean_jobs == pytest.approx(exact.mean_jobs, rel=1e-12)
        assert epoch.gap == pytest.approx(exact.mean_cost / cw.solve(now).mean_cost - 1.0, abs=1e-9)


def test_an_epoch_as_text_and_as_plain_values() -> None:
    (epoch,) = cw.learn(cw.SimulatedPlant(EXAMPLE, rng=1), cw.algorithm_1a(EXAMPLE, departures=50, steps=1))
    estimate = epoch.estimates["one"]
    title, one, two, gap = str(epoch).splitlines()
    assert title == "Epoch 1, 50 departures"
    assert one.split() == ["one", "p", "=", f"{estimate.value:.2f}", "±", f"{estimate.stderr:.2f}"]
    assert two.split()[:3] == ["two", "p", "="]
    assert gap.split() == ["above", "the", "optimum", f"{epoch.gap:.4%}"]
    row = json.loads(json.dumps(epoch.as_mapping(), allow_nan=False))
    assert (row["k"], row["departures"], row["window"], row["time"]) == (1, 50, 50, epoch.time)
    assert row["estimates"]["one"] == {"p": estimate.value}
    assert row["stderr"]["one"] == {"p": estimate.stderr}
    assert row["interval"]["one"] == {"p": list(estimate.interval)}
    assert (row["informative"]["one"], row["at_boundary"]["one"]) == (True, False)
    assert (row["mean_jobs"], row["mean_cost"], row["gap"]) == (epoch.mean_jobs, epoch.mean_cost, epoch.gap)
    assert row["stable"] is True
    parts = epoch.seconds
    assert parts.total == parts.run + parts.estimate + parts.solve + parts.evaluate
    assert min(parts.run, parts.estimate, parts.solve, parts.evaluate) > 0.0


# --- the loop ---------------------------------------------------------------------------------------


class Spy(cw.SimulatedPlant):
    """A plant that remembers what it was asked to run."""

    def __init__(self, system: cw.System, rng: int) -> None:
        super().__init__(system, rng=rng)
        self.asked: list[tuple[cw.Policy, int]] = []

    def run(self, policy: cw.Policy, departures: int) -> cw.Statistics:
        self.asked.append((policy, departures))
        return super().run(policy, departures)


def test_the_next_window_is_under_the_policy_just_adopted() -> None:
    """π_{k+1} uses the data of window k; the first policy is EQUI."""
    plant = Spy(EXAMPLE, rng=1)
    epochs = [*cw.learn(plant, cw.algorithm_1a(EXAMPLE, departures=30, steps=4), diagnose=False)]
    assert [departures for _, departures in plant.asked] == [30, 51, 69, 85]
    assert [epoch.window for epoch in epochs] == [30, 51, 69, 85]
    assert [epoch.departures for epoch in epochs] == [30, 81, 150, 235]
    assert [epoch.k for epoch in epochs] == [1, 2, 3, 4]
    assert plant.asked[0][0] == cw.Equi()
    assert all(policy is epoch.policy for (policy, _), epoch in zip(plant.asked[1:], epochs[:3], strict=True))
    assert plant.state.time == pytest.approx(epochs[-1].time)


STATES = [(1, 1), (2, 1), (1, 3), (5, 4), (12, 9), (70, 3)]


def cores_of(answer: cw.results.Solution | cw.Policy, system: cw.System) -> list[list[float]]:
    """Who would hold what in some states."""
    policy = answer.policy if isinstance(answer, cw.results.Solution) else answer
    return [list(row) for row in policy.on(system).allocate(STATES).tolist()]


def is_best(answer: cw.results.Solution | cw.Policy, system: cw.System) -> bool:
    """Whether no policy costs less, to eight digits."""
    policy = answer.policy if isinstance(answer, cw.results.Solution) else answer
    return cw.evaluate(system, policy).mean_cost == pytest.approx(cw.solve(system).mean_cost, rel=1e-8)


def test_the_policy_is_the_optimum_at_the_estimates() -> None:
    for epoch in cw.learn(
        cw.SimulatedPlant(EXAMPLE, rng=1), cw.algorithm_1b(EXAMPLE, departures=80, steps=3)
    ):
        assert not any(found.at_boundary for found in epoch.estimates.values())
        believed = EXAMPLE.with_curves(epoch.estimates.curves)
        assert is_best(epoch.policy, believed)
        assert not is_best(epoch.policy, EXAMPLE)
        assert not is_best(cw.Equi(), believed)


def test_another_rule_in_place_of_the_optimum() -> None:
    """Bound to the estimates, not to the truth; good, but not the best."""
    algorithm = cw.algorithm_1b(EXAMPLE, departures=500, steps=4, policy=cw.Whittle())
    assert "then whittle at the estimates" in str(algorithm)
    for epoch in cw.learn(cw.SimulatedPlant(EXAMPLE, rng=1), algorithm):
        assert isinstance(epoch.policy, BoundPolicy)
        believed = EXAMPLE.with_curves(epoch.estimates.curves)
        assert epoch.policy.system == believed
        assert epoch.policy.system != EXAMPLE
        assert cores_of(epoch.policy, EXAMPLE) == cores_of(cw.Whittle().on(believed), EXAMPLE)
        assert epoch.gap is not None
        assert 1e-6 < epoch.gap < 0.01


def test_the_first_policy_can_be_chosen() -> None:
    for first in (cw.Fixed([0.2, 0.8]), cw.solve(EXAMPLE).policy, cw.Whittle()):
        plant = Spy(EXAMPLE, rng=1)
        next(cw.learn(plant, cw.algorithm_1b(EXAMPLE, departures=20, steps=1, first=first)))
        assert plant.asked[0][0] is first


@pytest.mark.parametrize("policy", [None, cw.Whittle()])
def test_a_first_guess_of_curves(policy: cw.Policy | None) -> None:
    """The first policy is what would be adopted for them; a class without a guess begins in the middle."""
    guess = EXAMPLE.with_curves({"one": cw.Amdahl(0.5), "two": cw.Amdahl(0.95)})
    first = {"two": cw.Amdahl(0.95)}
    learner = Learner(cw.algorithm_1b(EXAMPLE, departures=20, steps=1, first=first, policy=policy))
    if policy is None:
        assert is_best(learner.policy, guess)
    else:
        assert cores_of(learner.policy, EXAMPLE) == cores_of(policy.on(guess), EXAMPLE)
    _, found, estimates = inferred(learner, window_of(seen_in(20.0, 2, 9.0, 25), NOTHING))
    assert estimates["two"].value == 0.95
    assert found.plug_in["two"].speedup == cw.Amdahl(0.95)


def test_an_algorithm_in_a_line() -> None:
    line = str(cw.algorithm_1a(EXAMPLE, departures=100, steps=400))
    assert line == "Algorithm 1a: N_k = ⌈100 k^0.75⌉, 400 windows, then the optimum at the estimates"
    assert str(cw.algorithm_1b(EXAMPLE, departures=9, steps=None)) == (
        "Algorithm 1b: N_k = 9, then the optimum at the estimates"
    )
    assert "N_k = ⌈9 k^0.5⌉" in str(cw.algorithm_1b(EXAMPLE, departures=9, steps=4, power=0.5))


# --- the learner ------------------------------------------------------------------------------------


def inferred(
    learner: Learner, window: cw.Statistics
) -> tuple[InferenceRequest, Inference, cw.results.Estimates]:
    """The request at the end of a window, what is inferred from it, and the estimates therein."""
    request = learner.observe(window)
    assert request is not None
    found = infer(request)
    assert found.estimates is not None
    return request, found, found.estimates


@ALL
def test_a_learner_fed_by_hand(algorithm: Callable[..., cw.Algorithm]) -> None:
    """It has no plant and no randomness: the same windows give the same requests as the loop."""
    method = algorithm(MIXED, departures=30, steps=4)
    epochs = [*cw.learn(cw.SimulatedPlant(MIXED, rng=6), method, diagnose=False)]
    learner, plant = Learner(method), cw.SimulatedPlant(MIXED, rng=6)
    for epoch in epochs:
        assert not learner.done
        assert learner.wanted == epoch.window
        request, found, estimates = inferred(learner, plant.run(learner.policy, epoch.window))
        assert request.k == found.windows == epoch.k
        assert dict(estimates) == dict(epoch.estimates)
        learner.install(found, request.solve(found))
        assert learner.state.time == epoch.time
        assert learner.state.departures == epoch.departures
        assert cores_of(learner.policy, MIXED) == cores_of(epoch.policy, MIXED)
    assert learner.done


@given(seed=st.integers(0, 10**6), parts=st.integers(1, 6))
def test_parts_of_a_window_one_by_one(seed: int, parts: int) -> None:
    """However a window is handed over, the answer is that of the whole."""
    method = cw.algorithm_1b(MIXED, departures=12, steps=9)
    plant, whole, piecewise = cw.SimulatedPlant(MIXED, rng=seed), Learner(method), Learner(method)
    rng = np.random.default_rng(seed)
    for _ in range(2):
        cuts = sorted(rng.integers(0, 13, parts - 1).tolist())
        sizes = [size for size in np.diff([0, *cuts, 12]).tolist() if size]
        windows = [plant.run(cw.Equi(), size) for size in sizes]
        one = whole.observe(cw.Statistics.total(windows))
        answers = []
        for i, window in enumerate(windows):
            assert piecewise.wanted == 12 - sum(sizes[:i])
            answers.append(piecewise.observe(window))
        assert [answer is None for answer in answers] == [True] * (len(windows) - 1) + [False]
        other = answers[-1]
        assert one is not None
        assert other is not None
        for found, again in zip(infer(one).classes, infer(other).classes, strict=True):
            assert (found.informative, found.departures) == (again.informative, again.departures)
            assert found.parameters["p"] == pytest.approx(again.parameters["p"], abs=1e-9)
        assert whole.state.time == pytest.approx(piecewise.state.time, rel=1e-12)


def test_parts_of_no_length_count_too() -> None:
    """In a log with coarse times many things happen at once."""
    learner = Learner(cw.algorithm_1b(EXAMPLE, departures=4, steps=1))
    at_once = cw.results.ClassStatistics(2, np.array([5.0]), np.array([3.0]), np.zeros(1))
    assert learner.observe(window_of(at_once, NOTHING, time=0.0)) is None
    assert learner.wanted == 1
    _, _, estimates = inferred(learner, window_of(seen_in(20.0, 4, 1.0, 1), NOTHING, time=1.0))
    assert estimates["one"].departures == 4
    assert estimates["one"].arrival_rate.value == 3.0


def test_what_comes_after_a_request_belongs_to_the_next_window() -> None:
    """An inference may take its time; until it is installed, the last policy stays."""
    plant = cw.SimulatedPlant(EXAMPLE, rng=8)
    learner = Learner(cw.algorithm_1a(EXAMPLE, departures=40, steps=9, power=0.0))
    first = learner.observe(plant.run(learner.policy, 40))
    assert first is not None
    assert learner.policy == cw.Equi()
    assert learner.wanted == 40
    assert learner.observe(plant.run(learner.policy, 25)) is None
    assert learner.wanted == 15
    assert learner.policy == cw.Equi()
    found = infer(first)
    answer = cw.solve(found.plug_in)
    learner.install(found, answer)
    assert cores_of(learner.policy, EXAMPLE) == cores_of(answer, EXAMPLE)
    assert cores_of(learner.policy, EXAMPLE) != cores_of(cw.Equi(), EXAMPLE)
    second, _, estimates = inferred(learner, plant.run(learner.policy, 15))
    assert second.k == 2
    assert sum(found.departures for found in estimates.values()) == 40


def test_more_than_was_wanted_is_not_lost() -> None:
    learner = Learner(cw.algorithm_1b(EXAMPLE, departures=10, steps=2))
    request = learner.observe(cw.SimulatedPlant(EXAMPLE, rng=1).run(cw.Equi(), 37))
    assert request is not None
    assert learner.state.departures == 37
    assert learner.wanted == 10


# --- estimates at the end of their range, and no estimates ------------------------------------------

DROP = 1.920729410347062
"""Half the 95 % quantile of χ² with one degree of freedom."""


def log_likelihood(p: float, z: float, departures: int, job_time: float) -> float:
    """That of the paper's (3.5) for jobs of size rate one that held z cores each."""
    speed = 1.0 / (1.0 - p + p / z)
    return departures * math.log(speed) - job_time * speed


@pytest.mark.parametrize(("time", "departures", "end"), [(10.0, 3, 0.0), (0.5, 40, 1.0)])
@ALL
def test_an_estimate_at_the_end_of_its_range(
    algorithm: Callable[..., cw.Algorithm], time: float, departures: int, end: float
) -> None:
    """It is reported as it is and flagged; the policy is made for the middle of its interval."""
    learner = Learner(algorithm(EXAMPLE, departures=departures + 10, steps=5))
    window = window_of(seen_in(8.0, 2, time, departures), seen_in(12.0, 3, 4.0, 20))
    request, inference, estimates = inferred(learner, window)
    found = estimates["one"]
    assert (found.value, found.at_boundary, found.informative) == (end, True, True)

    def excess(p: float) -> float:
        numbers = (4.0, departures, 2 * time)
        return log_likelihood(p, *numbers) - log_likelihood(end, *numbers) + DROP

    other = brentq(excess, 0.0, 1.0, xtol=1e-14)
    assert found.interval == pytest.approx((min(end, other), max(end, other)), abs=1e-9)
    plug_in = inference.plug_in
    assert plug_in["one"].speedup.parameters["p"] == pytest.approx(0.5 * (end + other), abs=1e-9)
    two = estimates["two"]
    assert not two.at_boundary
    assert plug_in["two"].speedup.parameters["p"] == two.value
    assert is_best(request.solve(inference), plug_in)
    assert not is_best(request.solve(inference), EXAMPLE)
    learner.install(inference)
    assert learner.state.estimated["one"].speedup == cw.Amdahl(end)


@ALL
def test_without_information_the_last_estimate_stays(algorithm: Callable[..., cw.Algorithm]) -> None:
    """No departure, or never more than one core a job: flagged, and the policy's curve stays as well."""
    learner = Learner(algorithm(EXAMPLE, departures=5, steps=9))
    busy = seen_in(12.0, 3, 4.0, 20)
    crowded = seen_in(10.0, 20, 4.0, 20)

    class Found(NamedTuple):
        plug_in: cw.System
        estimates: cw.results.Estimates

    def observed(one: cw.results.ClassStatistics, two: cw.results.ClassStatistics) -> Found:
        _, found, estimates = inferred(learner, window_of(one, two))
        learner.install(found)
        return Found(found.plug_in, estimates)

    first = observed(busy, NOTHING)
    assert (first.estimates["two"].value, first.estimates["two"].informative) == (0.5, False)
    assert first.estimates["two"].curve == cw.Amdahl(0.5)
    assert "no departures; the last estimate stays" in first.estimates["two"].note
    assert math.isnan(first.estimates["two"].stderr)
    assert first.estimates["two"].interval == (0.0, 1.0)
    assert first.plug_in["two"].speedup == cw.Amdahl(0.5)

    second = observed(crowded, crowded)
    assert second.estimates["two"].value == 0.5
    assert "never held more than one core" in second.estimates["two"].note
    if isinstance(learner.algorithm.memory, cw.memories.Latest):
        assert not second.estimates["one"].informative
    assert second.estimates["one"].value == first.estimates["one"].value
    assert second.plug_in["one"] == first.plug_in["one"]

    third = observed(NOTHING, seen_in(8.0, 2, 0.5, 40))
    assert third.estimates["two"].informative
    fourth = observed(busy, NOTHING)
    assert fourth.estimates["two"].value == third.estimates["two"].value
    assert fourth.plug_in["two"] == third.plug_in["two"]
    if isinstance(learner.algorithm.memory, cw.memories.Latest):
        assert third.estimates["two"].at_boundary
        assert fourth.plug_in["two"].speedup != fourth.estimates["two"].curve
        assert not fourth.estimates["two"].informative


def test_a_curve_without_parameters_is_known() -> None:
    table = cw.Tabulated([(4.0, 3.0)])
    system = EXAMPLE.with_curves({"two": table})
    learner = Learner(cw.algorithm_1b(system, departures=20, steps=1))
    window = window_of(seen_in(12.0, 3, 4.0, 10), seen_in(12.0, 3, 4.0, 10))
    _, inference, estimates = inferred(learner, window)
    found = estimates["two"]
    assert (found.informative, dict(found.parameters)) == (False, {})
    assert "stays" not in found.note
    assert inference.plug_in["two"].speedup == table


@pytest.mark.slow
def test_an_interval_without_a_middle() -> None:
    """After few departures any κ of the Universal Scalability Law may do: its interval has no upper end."""
    system = cw.System(
        8.0, [cw.JobClass("one", 1.0, 1.0, cw.Usl(0.1, 0.02)), cw.JobClass("two", 0.8, 1.0, cw.Amdahl(0.6))]
    )
    algorithm = cw.algorithm_1a(system, departures=2, steps=9, policy=cw.Whittle())
    unbounded = 0
    for seed in range(3):
        for epoch in cw.learn(cw.SimulatedPlant(system, rng=seed), algorithm, diagnose=False):
            found = epoch.estimates["one"]
            unbounded += found.parameters["kappa"] == 0.0 and found.intervals["kappa"] == (0.0, math.inf)
            believed = epoch.policy.on(system).system["one"].speedup.parameters
            assert all(math.isfinite(value) for value in believed.values())
            if found.informative and found.parameters["sigma"] in (0.0, 1.0):
                assert believed["sigma"] == 0.5 * sum(found.intervals["sigma"])
    assert unbounded


def closeness(system: cw.System, epoch: cw.results.Epoch) -> float:
    """The largest distance of an estimate from the truth, in its standard errors."""
    return max(
        abs(value - system[name].speedup.parameters[p]) / found.stderrs[p]
        for name, found in epoch.estimates.items()
        for p, value in found.parameters.items()
    )


ZERO, ONE = cw.Amdahl(0.0), cw.Amdahl(1.0)
HARD: dict[str, tuple[cw.System, Any]] = {
    "guess 0": (EXAMPLE, {"one": ZERO, "two": ZERO}),
    "guess 1": (EXAMPLE, {"one": ONE, "two": ONE}),
    "priority": (EXAMPLE, cw.Priority(["one", "two"])),
    "p = 0": (EXAMPLE.with_curves({"one": ZERO}), None),
    "p = 1": (EXAMPLE.with_curves({"two": ONE}), None),
    "p = 0, 0": (EXAMPLE.with_curves({"one": ZERO, "two": ZERO}), {"one": ZERO, "two": ZERO}),
    "p = 1, 1": (EXAMPLE.with_curves({"one": ONE, "two": ONE}), {"one": ZERO, "two": ZERO}),
}


@pytest.mark.statistical
@ALL
@pytest.mark.parametrize("case", HARD)
def test_the_loop_never_freezes(algorithm: Callable[..., cw.Algorithm], case: str) -> None:
    """Whatever it begins with, and where the truth is at the end of its range.

    Estimates end within four standard errors: false alarm 6e-5 a class. Negative control: those of the first
    windows do not get to so small an error.
    """
    system, first = HARD[case]
    method = algorithm(system, departures=50, steps=25, first=first)
    epochs = [*cw.learn(cw.SimulatedPlant(system, rng=12), method, diagnose=False)]
    assert closeness(system, epochs[-1]) < 4.0
    for name in system.names:
        assert all(epoch.estimates[name].informative for epoch in epochs[5:])
        wide = max(epoch.estimates[name].stderr for epoch in epochs[:5])
        assert epochs[-1].estimates[name].stderr < 0.6 * wide


@pytest.mark.statistical
@ALL
@pytest.mark.parametrize("p", [0.4, 0.0])
def test_a_class_that_hardly_ever_comes(algorithm: Callable[..., cw.Algorithm], p: float) -> None:
    """α = 0.001: most windows say nothing about it, the loop goes on, and in the end it is known as well.

    Within four standard errors: false alarm 6e-5 a class.
    """
    system = cw.System(
        20.0,
        [cw.JobClass("one", 0.002, 1.0, cw.Amdahl(p)), cw.JobClass("two", 1.998, 1.0, cw.Amdahl(0.7))],
    )
    power = {"power": 2.0} if algorithm is cw.algorithm_1a else {}
    method = algorithm(system, departures=100, steps=40, **power)
    epochs = [*cw.learn(cw.SimulatedPlant(system, rng=12), method, diagnose=False)]
    silent = [not epoch.estimates["one"].informative for epoch in epochs]
    assert any(silent)
    for before, epoch, quiet in zip(epochs, epochs[1:], silent[1:], strict=False):
        if quiet:
            assert epoch.estimates["one"].value == before.estimates["one"].value
    last = next(epoch for epoch in reversed(epochs) if epoch.estimates["one"].informative)
    assert closeness(system, last) < 4.0
    assert last.estimates["one"].departures >= (100 if algorithm is cw.algorithm_1a else 1)


@pytest.mark.statistical
def test_three_classes_of_three_families() -> None:
    """Weights, unequal sizes, two parameters and none. Four standard errors: false alarm 6e-5 a parameter."""
    system = cw.System(
        8.0,
        [
            cw.JobClass("usl", 0.8, 1.0, cw.Usl(0.1, 0.02), weight=3.0),
            cw.JobClass("power", 0.6, 0.5, cw.PowerLaw(0.5)),
            cw.JobClass("table", 0.5, 2.0, cw.Tabulated([(4.0, 3.0)]), weight=0.5),
        ],
    )
    algorithm = cw.algorithm_1b(system, departures=6000, steps=2, policy=cw.Whittle())
    *_, last = cw.learn(cw.SimulatedPlant(system, rng=3), algorithm, diagnose=False)
    assert closeness(system, last) < 4.0
    assert max(last.estimates["usl"].stderrs.values()) < 0.05
    assert last.estimates["power"].stderr < 0.02


@dataclass(frozen=True)
class Logarithmic(cw.SpeedUp):
    """A family of one's own."""

    p: float
    family: ClassVar[str] = "logarithmic"
    bounds: ClassVar[Mapping[str, tuple[float, float]]] = {"p": (0.0, 1.0)}

    def rate_above(self, z: Floats) -> Floats:
        return 1.0 + self.p * np.log(z)


@pytest.mark.statistical
def test_a_family_of_ones_own() -> None:
    """Four standard errors: false alarm 6e-5 a class."""
    system = EXAMPLE.with_curves({"one": Logarithmic(0.6)})
    algorithm = cw.algorithm_1b(system, departures=500, steps=4, policy=cw.Whittle())
    *_, last = cw.learn(cw.SimulatedPlant(system, rng=3), algorithm, diagnose=False)
    assert isinstance(last.estimates["one"].curve, Logarithmic)
    assert closeness(system, last) < 4.0
    assert last.estimates["one"].stderr < 0.1


# --- a second implementation, from the raw log ------------------------------------------------------


def raw_log(per_job: bool) -> list[tuple[float, str, str, int, float]]:
    """A log as rows (time, event, class, job, cores of that job); jobs of a class hold different cores."""
    rng = np.random.default_rng(21)
    log: list[tuple[float, str, str, int, float]] = []
    here: dict[int, tuple[str, float]] = {}
    now, born = 0.0, 0
    while sum(event == "departure" for _, event, *_ in log) < 700:
        now += float(rng.exponential(0.1))
        if rng.uniform() < 6.0 / (6.0 + len(here)):
            name, cores = ("one", "two")[rng.integers(2)], float(rng.choice([0.5, 1.0, 1.5, 3.0, 7.0, 7.5]))
            here[born] = (name, cores)
            log.append((now, "arrival", name, born, cores))
            born += 1
            continue
        job = int(rng.choice(list(here)))
        name, cores = here[job]
        if rng.uniform() < 0.2:
            here[job] = (name, 2.0 * cores)
            log.append((now, "resize", name, job, 2.0 * cores))
        else:
            del here[job]
            log.append((now, "departure", name, job, math.nan))
    log.append((now + 5.0, "end", "", -1, math.nan))
    if per_job:
        return log
    # Class totals instead: every job of a class holds the same, so that the log has both forms.
    return [row for row in log if row[1] != "resize"]


NAMES = ("one", "two")


def as_path(log: list[tuple[float, str, str, int, float]], cores: Floats, pool: float = 1e4) -> cw.SamplePath:
    kinds = {event.name.lower(): int(event) for event in cw.results.EventKind}
    return cw.SamplePath(
        names=NAMES,
        pool=pool,
        time=np.array([row[0] for row in log]),
        event=np.array([kinds[row[1]] for row in log], dtype=np.int8),
        job_class=np.array([NAMES.index(row[2]) if row[2] else -1 for row in log]),
        job=np.array([row[3] for row in log]),
        cores=cores,
    )


Table = dict[str, dict[float, list[float]]]


def naive_windows(
    log: list[tuple[float, str, str, int, float]], totals: Mapping[str, float] | None, sizes: list[int]
) -> list[tuple[float, Table]]:
    """Cut a log after so many departures each, and count up D and W by width, job by job.

    With `totals` each class holds so many cores between its jobs, and the rows' own cores are ignored.
    """
    here: dict[int, list[Any]] = {}
    found: list[tuple[float, Table]] = []
    table: Table = {name: {} for name in NAMES}
    last, began, left = log[0][0], log[0][0], 0
    for time, event, name, job, cores in log:
        for kind, own in here.values():
            width = own if totals is None else totals[kind] / sum(k == kind for k, _ in here.values())
            table[kind].setdefault(width, [0.0, 0.0])[1] += time - last
        if event == "departure":
            kind, own = here[job]
            width = own if totals is None else totals[kind] / sum(k == kind for k, _ in here.values())
            table[name].setdefault(width, [0.0, 0.0])[0] += 1
            del here[job]
            left += 1
        elif event in ("arrival", "resize"):
            here[job] = [name, cores]
        last = time
        if event == "departure" and left == sizes[len(found)]:
            found.append((time - began, table))
            table, began, left = {name: {} for name in NAMES}, time, 0
            if len(found) == len(sizes):
                break
    return found


def naive_estimate(table: dict[float, list[float]], curve: cw.SpeedUp, size_rate: float) -> float:
    """The p with the largest likelihood (3.5), by its derivative: the best of a grid, then a root."""
    entries = [(z, *amounts) for z, amounts in table.items() if z > 1.0]

    def parts(p: float) -> tuple[float, float]:
        value, slope = 0.0, 0.0
        for z, departures, job_time in entries:
            if isinstance(curve, cw.Amdahl):
                speed = 1.0 / (1.0 - p + p / z)
                change = (1.0 - 1.0 / z) * speed * speed
            else:
                speed = z**p
                change = speed * math.log(z)
            value += departures * math.log(speed) - size_rate * job_time * speed
            slope += departures * change / speed - size_rate * job_time * change
        return value, slope

    grid = np.linspace(0.0, 1.0, 201).tolist()
    best = max(grid, key=lambda p: parts(p)[0])
    low, high = float(max(best - 0.005, 0.0)), float(min(best + 0.005, 1.0))
    if parts(low)[1] <= 0.0:
        return low
    if parts(high)[1] >= 0.0:
        return high
    return float(brentq(lambda p: parts(p)[1], low, high, xtol=1e-15, rtol=1e-14))


FAST = cw.System(
    1e4,
    [cw.JobClass("one", 2.0, 0.5, cw.Amdahl(0.5)), cw.JobClass("two", 2.0, 0.35, cw.PowerLaw(0.5))],
)
"""Known rates for the log by hand, such that most estimates lie inside their range."""


@pytest.mark.slow
@pytest.mark.parametrize("form", ["per job", "totals", "totals split"])
@BOTH
def test_a_second_implementation_on_a_log(algorithm: Callable[..., cw.Algorithm], form: str) -> None:
    """Windows cut by hand, tables by definition, likelihoods maximised by a root finder: 1e-9."""
    log = raw_log(form == "per job")
    totals = None if form == "per job" else {"one": 24.0, "two": 30.0}
    cores = np.array([row[4] for row in log])
    if totals is not None:
        present = np.cumsum(
            [
                [(row[2] == name) * {"arrival": 1, "departure": -1, "end": 0}[row[1]] for name in NAMES]
                for row in log
            ],
            axis=0,
        )
        cores = np.where(present > 0, list(totals.values()), 0.0)
    path = as_path(log, cores)
    path = path.split() if form == "totals split" else path
    method = algorithm(FAST, departures=40, steps=None, policy=cw.Equi(), sizes="exponential")
    epochs = [*cw.learn(cw.ReplayPlant(path), method)]
    windows = naive_windows(log, totals, [method.schedule.window(k) for k in range(1, 99)])
    assert len(epochs) == len(windows) == (17 if algorithm is cw.algorithm_1b else 6)
    seen: Table = {name: {} for name in NAMES}
    inside = 0
    for k, (epoch, (length, table)) in enumerate(zip(epochs, windows, strict=True), start=1):
        assert epoch.window == method.schedule.window(k)
        assert epoch.time == pytest.approx(sum(length for length, _ in windows[:k]), rel=1e-9)
        for name in NAMES:
            for width, (departures, job_time) in table[name].items():
                entry = seen[name].setdefault(width, [0.0, 0.0])
                entry[0] += departures
                entry[1] += job_time
            use = table[name] if algorithm is cw.algorithm_1a else seen[name]
            expected = naive_estimate(use, FAST[name].speedup, FAST[name].known_size_rate)
            assert epoch.estimates[name].value == pytest.approx(expected, abs=1e-9)
            assert epoch.estimates[name].departures == sum(left for left, _ in use.values())
            inside += 0.0 < expected < 1.0
    assert inside >= len(epochs)


# --- plants -----------------------------------------------------------------------------------------


def recorded(departures: int = 100, seed: int = 9) -> cw.SamplePath:
    path = cw.simulate(EXAMPLE, cw.Equi(), departures=departures, rng=seed, record=True).path
    assert path is not None
    return path


@pytest.mark.parametrize("form", ["totals", "per job"])
def test_a_log_is_cut_right_after_departures(form: str) -> None:
    path = cw.simulate(EXAMPLE, cw.Equi(), time=52.0, rng=10, record=True).path
    assert path is not None
    path = path.split() if form == "per job" else path
    leaves = path.time[path.event == cw.results.EventKind.DEPARTURE]
    assert leaves.size > 60
    assert leaves[-1] < path.end
    plant = cw.ReplayPlant(path)
    assert plant.truth is None
    done, clock = 0, path.start
    for size in (1, 2, 30, 7, leaves.size - 41):
        assert plant.left == leaves.size - done
        seen = plant.run(cw.Equi(), size)
        done += size
        assert seen.departures == size
        assert clock + seen.time == pytest.approx(leaves[done - 1], rel=1e-12)
        clock += seen.time
    # One is left: a window of one ends with it, and what comes after has no departure.
    last = plant.run(cw.Equi(), 1)
    assert (last.departures, plant.left) == (1, 0)
    assert clock + last.time == pytest.approx(leaves[-1], rel=1e-12)
    tail = plant.run(cw.Equi(), 5)
    assert tail.departures == 0
    assert tail.time == pytest.approx(path.end - leaves[-1], rel=1e-9)
    over = plant.run(cw.Equi(), 5)
    assert (over.departures, over.arrivals, over.time) == (0, 0, 0.0)


def test_a_log_that_ends_within_a_window() -> None:
    """What is left is read to the end, the loop stops, and says nothing of a window that is not full."""
    path = recorded()
    plant = cw.ReplayPlant(path)
    learning = cw.learn(plant, cw.algorithm_1b(EXAMPLE, departures=30, steps=None, policy=cw.Equi()))
    epochs = [*learning]
    assert [epoch.departures for epoch in epochs] == [30, 60, 90]
    assert plant.left == 0
    assert next(learning, None) is None
    assert all(epoch.gap is None for epoch in epochs)
    seen = [cw.ReplayPlant(path).run(cw.Equi(), size) for size in (90, 10**9)]
    assert seen[1].departures == 100
    assert seen[1].time == pytest.approx(path.duration)
    assert seen[0].time < seen[1].time


@pytest.mark.parametrize("departures", [0, 29])
def test_a_log_shorter_than_the_first_window(departures: int) -> None:
    path = recorded(29)
    if not departures:
        rows_ = int(np.flatnonzero(path.event == cw.results.EventKind.DEPARTURE)[0])
        names = ("time", "event", "job_class", "job", "cores")
        path = replace(path, **{name: getattr(path, name)[:rows_] for name in names})
    with pytest.raises(cw.errors.InvalidInput) as error:
        next(cw.learn(cw.ReplayPlant(path), cw.algorithm_1b(EXAMPLE, departures=30, steps=None)))
    assert f"came to its end after {departures} departures, and the first window has 30" in str(error.value)


class Stingy:
    """A plant that hands out a window in bits, and nothing any more after some departures."""

    truth = None

    def __init__(self, departures: int) -> None:
        self.inside, self.left = cw.SimulatedPlant(EXAMPLE, rng=2), departures

    def run(self, policy: cw.Policy, departures: int) -> cw.Statistics:
        size = min(departures, self.left, 7)
        self.left -= size
        return self.inside.run(policy, size) if size else cw.Statistics.empty(EXAMPLE.names)


def test_a_plant_that_yields_little_at_a_time() -> None:
    epochs = [*cw.learn(Stingy(70), cw.algorithm_1a(EXAMPLE, departures=20, steps=None, power=0.0))]
    assert [(epoch.departures, epoch.window) for epoch in epochs] == [(20, 20), (40, 20), (60, 20)]
    with pytest.raises(cw.errors.InvalidInput, match="end after 12 departures, and the first window has 20"):
        next(cw.learn(Stingy(12), cw.algorithm_1a(EXAMPLE, departures=20, steps=None)))


CHANGING = cw.System(
    EXAMPLE.cores,
    EXAMPLE.classes,
    [
        cw.Change(30.0, "one", cw.Amdahl(0.9)),
        cw.Change(60.0, "two", cw.Amdahl(0.1)),
        cw.Change(60.0, "one", cw.Amdahl(0.2)),
    ],
)


def test_the_truth_of_a_drifting_plant_changes_at_its_times() -> None:
    plant = cw.SimulatedPlant(CHANGING, rng=1)
    clock, regimes = 0.0, set()
    while clock < 100.0:
        expected = (0.4, 0.7) if clock < 30.0 else (0.9, 0.7) if clock < 60.0 else (0.2, 0.1)
        truth = plant.truth
        assert truth.changes == ()
        assert tuple(known.speedup.parameters["p"] for known in truth.classes) == expected
        regimes.add(expected)
        seen = plant.run(cw.Equi(), 3)
        assert seen.departures == 3
        clock += seen.time
        assert plant.state.time == pytest.approx(clock, rel=1e-12)
    assert len(regimes) == 3
    for time, p in ((math.nextafter(30.0, 0.0), 0.4), (30.0, 0.9), (60.0, 0.2)):
        start = cw.results.State((0, 0), time)
        assert cw.SimulatedPlant(CHANGING, start=start).truth["one"].speedup == cw.Amdahl(p)


@pytest.mark.parametrize("system", [EXAMPLE, CHANGING], ids=["steady", "changing"])
def test_a_simulated_plant_is_a_simulation_that_goes_on(system: cw.System) -> None:
    """Window after window it is `simulate` from where the last one ended, with one generator, bit for bit."""
    plant, generator = cw.SimulatedPlant(system, rng=4, start=(3, 1)), np.random.default_rng(4)
    state = cw.results.State((3, 1))
    policies: list[cw.Policy] = [cw.Equi(), cw.Whittle(), cw.Priority(["two", "one"])]
    for policy in policies * 3:
        run = cw.simulate(system, policy, departures=45, rng=generator, start=state)
        seen = plant.run(policy, 45)
        assert columns(seen) == columns(run.statistics)
        assert seen.time == run.statistics.time
        state = run.state
        assert (plant.state.counts, plant.state.time) == (state.counts, state.time)
    assert state.time > 60.0


@pytest.mark.statistical
def test_a_drifting_plant_is_tracked() -> None:
    """Windows after a change see the new curve: four standard errors, false alarm 6e-5 a class and regime.

    Negative control: the old curve is ruled out by as much.
    """
    regimes = [{"one": 0.4, "two": 0.7}, {"one": 0.9, "two": 0.7}, {"one": 0.9, "two": 0.2}]
    changes = [cw.Change(1000.0, "one", cw.Amdahl(0.9)), cw.Change(2000.0, "two", cw.Amdahl(0.2))]
    system = cw.System(EXAMPLE.cores, EXAMPLE.classes, changes)
    algorithm = cw.algorithm_1a(system, departures=900, steps=6, power=0.0)
    ends = [0.0]
    for epoch in cw.learn(cw.SimulatedPlant(system, rng=2), algorithm, diagnose=False):
        began, end = ends[-1], epoch.time
        ends.append(end)
        if any(began < change.time < end for change in changes):
            continue
        now = regimes[sum(change.time <= began for change in changes)]
        for name, found in epoch.estimates.items():
            assert abs(found.value - now[name]) < 4.0 * found.stderr
            for other in {regime[name] for regime in regimes} - {now[name]}:
                assert abs(found.value - other) > 4.0 * found.stderr
    assert ends[-1] > 2500.0


# --- changes ----------------------------------------------------------------------------------------


def log_of(system: cw.System, departures: int, seed: int) -> cw.SamplePath:
    path = cw.simulate(system, cw.Equi(), departures=departures, rng=seed, record=True).path
    assert path is not None
    return path


def test_while_nothing_changes_the_adaptive_one_estimates_as_1b_does() -> None:
    """From the same log: windows are kept by width, on a grid, which costs a small part of an error.

    A false alarm has a probability of 0.002.
    """
    path = log_of(MIXED, 20_000, 4)
    how: dict[str, Any] = {"departures": 200, "steps": None, "policy": cw.Equi()}
    watchful, simple = (
        [*cw.learn(cw.ReplayPlant(path), algorithm(MIXED, **how))]
        for algorithm in (cw.adaptive, cw.algorithm_1b)
    )
    assert len(watchful) == len(simple) == 100
    for one, other in zip(watchful, simple, strict=True):
        assert not one.alarms
        for name, found in one.estimates.items():
            assert found.departures == other.estimates[name].departures
            assert abs(found.value - other.estimates[name].value) < 0.01 * found.stderr
            assert found.stderr == pytest.approx(other.estimates[name].stderr, rel=0.01)


JUMP = cw.System(EXAMPLE.cores, EXAMPLE.classes, [cw.Change(2000.0, "two", cw.Amdahl(0.2))])
"""From 0.7 after about 4000 departures."""


class Counting(cw.SimulatedPlant):
    """A plant that notes how many jobs of each class leave in a window."""

    def __init__(self, system: cw.System, rng: int) -> None:
        super().__init__(system, rng=rng)
        self.left: list[list[float]] = []

    def run(self, policy: cw.Policy, departures: int) -> cw.Statistics:
        seen = super().run(policy, departures)
        self.left.append([float(table.departures.sum()) for table in seen.classes])
        return seen


def found_in(epochs: list[cw.results.Epoch]) -> set[tuple[str, float]]:
    return {(alarm.name, alarm.departures) for epoch in epochs for alarm in epoch.alarms}


@pytest.mark.statistical
def test_a_jump_is_found_and_only_its_class_forgets() -> None:
    """Estimates end within four standard errors: false alarm 6e-5 a class; a false change in 8000: 0.008.

    Negative control: Algorithm 1b, which forgets nothing, ends far from the truth.
    """
    how: dict[str, Any] = {"departures": 100, "steps": 80, "policy": cw.Whittle()}
    plant = Counting(JUMP, rng=5)
    found = [*cw.learn(plant, cw.adaptive(JUMP, between_alarms=1e6, **how), diagnose=False)]
    kept = [*cw.learn(cw.SimulatedPlant(JUMP, rng=5), cw.algorithm_1b(JUMP, **how), diagnose=False)]
    ((name, departures),) = found_in(found)
    before = [epoch for epoch in found if epoch.time <= 2000.0]
    at = before[-1].departures
    assert name == "two"
    assert abs(departures - at) <= 500
    assert all(not epoch.alarms for epoch in before)
    assert found[-1].alarms == ()
    last = JUMP.regime(math.inf)
    assert closeness(last, found[-1]) < 4.0
    assert closeness(last, kept[-1]) > 8.0
    assert closeness(JUMP.regime(0.0), before[-1]) < 4.0
    left = np.array(plant.left)
    assert found[-1].estimates["one"].departures == left[:, 0].sum()
    assert found[-1].estimates["two"].departures == left[int(departures) // 100 :, 1].sum()


class Turning:
    """A plant that is one system and later another: rates may change as well."""

    truth = None

    def __init__(self, before: cw.System, after: cw.System, departures: int, rng: int) -> None:
        self.plant, self.after, self.left = cw.SimulatedPlant(before, rng=rng), after, departures

    def run(self, policy: cw.Policy, departures: int) -> cw.Statistics:
        if self.left == 0:
            self.plant = cw.SimulatedPlant(self.after, rng=self.plant.rng, start=self.plant.state)
        self.left -= departures
        return self.plant.run(policy, departures)


def with_rates(system: cw.System, name: str, **rates: Any) -> cw.System:
    classes = [replace(known, **rates) if known.name == name else known for known in system.classes]
    return cw.System(system.cores, classes)


BUSY = EXAMPLE.at_load(0.4)


def turned(after: cw.System, windows: int, **how: Any) -> tuple[cw.results.Learning, list[cw.results.Epoch]]:
    """Return the loop around a plant that turns from `BUSY` into another after 4000 departures."""
    method = cw.adaptive(BUSY, departures=100, steps=windows, between_alarms=1e6, **how)
    learning = cw.learn(Turning(BUSY, after, 4000, rng=2), method)
    return learning, [*learning]


@pytest.mark.statistical
def test_a_change_of_the_arrival_rate_is_taken_into_account() -> None:
    """4000 arrivals later it is known to five standard errors, false alarm 6e-7; a false change: 0.008.

    Negative control: the old rate is farther away than that.
    """
    after = with_rates(BUSY, "one", arrival_rate=8.0)
    learning, epochs = turned(after, 80)
    ((alarm,),) = [epoch.alarms for epoch in epochs if epoch.alarms]
    assert (alarm.name, alarm.kind) == ("one", "arrival rate")
    assert alarm.departures == pytest.approx(4000, abs=300)
    assert alarm.before["arrival_rate"] == pytest.approx(5.2, rel=5.0 / math.sqrt(2600))
    believed = learning.learner.state.plug_in
    error = 5.0 * 8.0 / math.sqrt(4000 * 8.0 / 10.8)
    assert abs(believed.arrival_rates[0] - 8.0) < error < 8.0 - 5.2
    assert believed["two"].arrival_rate == BUSY["two"].arrival_rate  # what did not change is known
    assert believed.size_rates.tolist() == BUSY.size_rates.tolist()
    assert is_best(epochs[-1].policy, believed)
    assert not is_best(epochs[-1].policy, believed.at_load(BUSY.load))
    assert closeness(after, epochs[-1]) < 4.0
    assert sum(found.departures for found in epochs[-1].estimates.values()) == 8000  # no curve has changed


@pytest.mark.statistical
def test_a_change_of_the_size_rate_is_taken_into_account() -> None:
    """As above; and what was seen before goes on to tell about the curve, in the old unit of work."""
    after = with_rates(BUSY, "one", size_rate=1.7)
    learning, epochs = turned(after, 120)
    assert {(name, round(at, -3)) for name, at in found_in(epochs)} == {("one", 4000.0)}
    alarms = [alarm for epoch in epochs for alarm in epoch.alarms]
    assert alarms[-1].kind == "size rate"
    assert alarms[-1].before["size_rate"] == 1.0
    believed = learning.learner.state.plug_in
    error = 5.0 * 1.7 / math.sqrt(8000 * 0.65)
    assert abs(believed["one"].known_size_rate - 1.7) < error < 0.7
    assert believed["two"].size_rate == 1.0
    assert believed.arrival_rates.tolist() == BUSY.arrival_rates.tolist()
    assert is_best(epochs[-1].policy, believed)
    assert closeness(after, epochs[-1]) < 4.0
    assert epochs[-1].estimates["one"].departures == pytest.approx(12_000 * 0.65, abs=500)


@pytest.mark.parametrize(
    ("name", "rates", "message"),
    [
        ("one", {"arrival_rate": 1e-12}, "none of its jobs has arrived since"),
        ("two", {"arrival_rate": 1e-12}, "none of its jobs has arrived since"),
        ("two", {"size_rate": 1e-12}, "none of its jobs has left since"),
    ],
)
def test_a_class_that_comes_or_leaves_no_more_does_not_stop_the_loop(
    name: str, rates: Mapping[str, float], message: str
) -> None:
    """The alarm says what happened; the class keeps its estimate, and a rate above zero."""
    learning, epochs = turned(with_rates(BUSY, name, **rates), 43, policy=cw.Whittle())
    assert [epoch.k for epoch in epochs] == list(range(1, 44))
    ((alarm,),) = [epoch.alarms for epoch in epochs if epoch.alarms]
    assert (alarm.name, [*alarm.after.values()]) == (name, [0.0])
    assert message in str(alarm)
    believed = learning.learner.state.plug_in
    (rate,) = rates
    assert 0.0 < getattr(believed[name], rate) < 0.01 * getattr(BUSY[name], rate)
    assert epochs[-1].estimates[name].value == pytest.approx(epochs[39].estimates[name].value, abs=0.05)


@pytest.mark.slow
def test_more_work_than_there_are_cores_does_not_stop_the_loop() -> None:
    """The policy is then one that could keep up with less."""
    learning, epochs = turned(BUSY.at_load(1.2), 60, policy=cw.Whittle())
    assert [epoch.k for epoch in epochs] == list(range(1, 61))
    kinds = {(alarm.name, alarm.kind) for epoch in epochs for alarm in epoch.alarms}
    assert kinds == {("one", "arrival rate"), ("two", "arrival rate")}
    assert learning.learner.state.plug_in.load < 1.0
    assert learning.learner.state.estimated.load > 1.0


@pytest.mark.slow
def test_a_policy_is_made_anew_when_an_estimate_has_moved() -> None:
    """By more than some of its standard error since the last one was made; with no inertia every time.

    In window k an estimate moves by about 1/√k standard errors: the later, the more seldom.
    """
    counts = []
    for inertia in (0.0, 0.1, 0.5):
        method = cw.adaptive(EXAMPLE, departures=20, steps=300, policy=cw.Whittle(), inertia=inertia)
        learner, plant = Learner(method), cw.SimulatedPlant(EXAMPLE, rng=4)
        made_for: dict[str, float] = {}
        made = []
        while not learner.done:
            request, inference, estimates = inferred(learner, plant.run(learner.policy, 20))
            moved = [
                abs(found.value - made_for.get(name, math.inf)) > inertia * found.stderr
                for name, found in estimates.items()
            ]
            assert inference.reuse != (any(moved) or inertia == 0.0)
            if not inference.reuse:
                made.append(request.k)
                made_for = {name: curve.p for name, curve in amdahl_in(inference.plug_in).items()}
            else:
                assert request.last is learner.policy
                assert request.solve(inference) is learner.policy
            learner.install(inference, request.solve(inference))
        assert made[0] == 1
        counts.append([sum(low < k <= low + 100 for k in made) for low in (0, 200)])
    every, tenth, half = counts
    assert every == [100, 100]
    assert half[1] < tenth[1] < 60 < tenth[0] < 100
    assert half[1] < 10 < half[0] < 60


def amdahl_in(system: cw.System) -> dict[str, cw.Amdahl]:
    curves = {known.name: known.speedup for known in system.classes}
    return {name: curve for name, curve in curves.items() if isinstance(curve, cw.Amdahl)}


def test_a_change_is_found_in_a_log() -> None:
    path = log_of(JUMP, 8000, 6)
    method = cw.adaptive(EXAMPLE, departures=100, steps=None, policy=cw.Whittle())
    epochs = [*cw.learn(cw.ReplayPlant(path), method)]
    assert len(epochs) == 80
    assert {(name, round(at, -3)) for name, at in found_in(epochs)} == {("two", 4000.0)}
    assert closeness(JUMP.regime(math.inf), epochs[-1]) < 4.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"between_alarms": 0.0}, "between_alarms must be positive, got 0"),
        ({"between_alarms": math.nan}, "between_alarms must be finite, got nan"),
        ({"between_alarms": "x"}, "between_alarms must be a number, got 'x'"),
        ({"between_alarms": 9_999}, "at least 100 windows of 100 departures, got 9999"),
        ({"inertia": -0.1}, "inertia must .*got -0.1"),
        ({"inertia": math.nan}, "inertia must .*got nan"),
    ],
)
def test_bad_ways_to_adapt(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(cw.errors.InvalidInput, match=message):
        cw.adaptive(EXAMPLE, **{"departures": 100, "steps": 5, **arguments})
    cw.adaptive(EXAMPLE, departures=100, steps=5, between_alarms=10_000, inertia=0.0)


# --- bad input --------------------------------------------------------------------------------------


@pytest.mark.parametrize("system", [EXAMPLE, CHANGING], ids=["steady", "changing"])
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"system": "x"}, "expected a System, got 'x'"),
        ({"rng": "x"}, "rng must be a whole number, got 'x'"),
        ({"rng": -1}, "rng must be at least 0, got -1"),
        ({"start": (1,)}, r"start needs 2 numbers, one for each class, got \(1,\)"),
        ({"start": (1, -1)}, "start must be at least 0, got -1"),
        ({"start": cw.results.State((1, 1, 1))}, "start has 3 classes, the system 2"),
        ({"start": 5}, "got 5"),
    ],
)
def test_bad_plants(system: cw.System, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(cw.errors.InvalidInput, match=message):
        cw.SimulatedPlant(**{"system": system, **arguments})


@pytest.mark.parametrize("departures", [0, -1, 1.5, "a", None])
@pytest.mark.parametrize("plant", ["simulated", "replayed"])
def test_bad_windows_of_plants(plant: str, departures: Any) -> None:
    made: cw.Plant = cw.ReplayPlant(recorded()) if plant == "replayed" else cw.SimulatedPlant(EXAMPLE, rng=1)
    with pytest.raises(cw.errors.InvalidInput, match=f"departures.*{departures!r}"):
        made.run(cw.Equi(), departures)


def test_bad_policies_of_plants() -> None:
    plant = cw.SimulatedPlant(EXAMPLE, rng=1)
    for policy, message in (
        ("x", "unknown policy 'x'"),
        (cw.Equi, "got <class"),
        (cw.Fixed([1.0]), "1 shares"),
    ):
        with pytest.raises(cw.errors.InvalidPolicy, match=message):
            plant.run(policy, 5)  # type: ignore[arg-type]
    with pytest.raises(cw.errors.InvalidInput, match=r"expected a SamplePath.*got 'x'"):
        cw.ReplayPlant("x")  # type: ignore[arg-type]


@ALL
@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"system": "x"}, cw.errors.InvalidSystem, "expected a System, got 'x'"),
        ({"system": EXAMPLE.at_load(1.2)}, cw.errors.UnstableSystem, "the load is 1.2"),
        (
            {"system": EXAMPLE.without_rates(), "first": {"one": cw.Amdahl(0.3)}},
            cw.errors.InvalidInput,
            "a policy for curves needs all rates",
        ),
        ({"departures": 0}, cw.errors.InvalidInput, "at least 1, got 0"),
        ({"departures": 2.5}, cw.errors.InvalidInput, "whole number, got 2.5"),
        ({"steps": 0}, cw.errors.InvalidInput, "steps must be at least 1, got 0"),
        ({"steps": 1.5}, cw.errors.InvalidInput, "steps must be a whole number, got 1.5"),
        ({"power": None}, cw.errors.InvalidInput, "power must be a number, got None"),
        ({"policy": "x"}, cw.errors.InvalidPolicy, "unknown policy 'x'"),
        ({"policy": cw.Whittle}, cw.errors.InvalidPolicy, "got <class"),
        ({"policy": cw.Fixed([1.0])}, cw.errors.InvalidPolicy, "1 shares"),
        ({"first": "x"}, cw.errors.InvalidPolicy, "unknown policy 'x'"),
        ({"first": cw.Equi}, cw.errors.InvalidPolicy, "got <class"),
        ({"first": cw.Fixed([1.0])}, cw.errors.InvalidPolicy, "1 shares"),
        (
            {"first": {"oen": cw.Amdahl(0.1)}},
            cw.errors.InvalidSystem,
            "unknown class 'oen'; did you mean 'one'",
        ),
        ({"first": {"one": 0.3}}, cw.errors.InvalidSystem, "class 'one': speedup must be.*got 0.3"),
        (
            {"first": {"one": cw.PowerLaw(0.2)}},
            cw.errors.InvalidInput,
            "'one' has a curve of the family amdahl",
        ),
    ],
)
def test_bad_algorithms(
    algorithm: Callable[..., cw.Algorithm],
    arguments: dict[str, Any],
    error: type[cw.CorewiseError],
    message: str,
) -> None:
    usual = {"system": EXAMPLE, "departures": 10, "steps": 3}
    with pytest.raises(error, match=message):
        algorithm(**{**usual, **arguments})


@pytest.mark.parametrize(
    ("schedule", "memory", "message"),
    [
        (5, cw.memories.Latest(), "schedule must be one such as Constant.*got 5"),
        (cw.schedules.Constant, cw.memories.Latest(), "schedule must be.*got <class"),
        (cw.schedules.Constant(5), None, "memory must be one such as Latest.*got None"),
        (cw.schedules.Constant(5), cw.memories.Latest, "memory must be.*got <class"),
    ],
)
def test_bad_parts_of_algorithms(schedule: Any, memory: Any, message: str) -> None:
    with pytest.raises(cw.errors.InvalidInput, match=message):
        cw.Algorithm("mine", EXAMPLE, schedule, memory, 3)


METHOD = cw.algorithm_1b(EXAMPLE, departures=10, steps=2)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"plant": "x"}, cw.errors.InvalidInput, "expected a plant such as.*got 'x'"),
        ({"plant": cw.SimulatedPlant}, cw.errors.InvalidInput, "expected a plant such as.*got <class"),
        ({"algorithm": "1a"}, cw.errors.InvalidInput, "expected an algorithm such as.*got '1a'"),
        (
            {"algorithm": cw.algorithm_1a},
            cw.errors.InvalidInput,
            "expected an algorithm such as.*got <function",
        ),
        ({"resume": 3}, cw.errors.InvalidFile, "expected the path of a file, got 3"),
        ({"resume": "/nowhere/at all"}, cw.errors.InvalidFile, "/nowhere/at all: cannot be read"),
        ({"diagnose": "all"}, cw.errors.InvalidInput, "diagnose must be.*got 'all'"),
        ({"diagnose": None}, cw.errors.InvalidInput, "diagnose must be.*got None"),
        ({"diagnose": 3}, cw.errors.InvalidInput, "diagnose must be.*got 3"),
    ],
)
def test_bad_loops(arguments: dict[str, Any], error: type[cw.CorewiseError], message: str) -> None:
    with pytest.raises(error, match=message):
        cw.learn(**{"plant": cw.SimulatedPlant(EXAMPLE, rng=1), "algorithm": METHOD, **arguments})


def test_a_plant_of_another_system() -> None:
    fewer = cw.System(20.0, EXAMPLE.classes[:1])
    with pytest.raises(
        cw.errors.InvalidInput, match="the plant has classes one, the algorithm is for one, two"
    ):
        next(cw.learn(cw.SimulatedPlant(fewer, rng=1), METHOD))
    smaller = cw.System(10.0, EXAMPLE.classes)
    with pytest.raises(cw.errors.InvalidPolicy, match="for 20 cores, the system has 10"):
        [*cw.learn(cw.SimulatedPlant(smaller, rng=1), METHOD, diagnose=False)]


def test_bad_answers_to_a_learner() -> None:
    learner = Learner(METHOD)
    with pytest.raises(cw.errors.InvalidInput, match=r"expected an algorithm such as.*got 3"):
        Learner(3)  # type: ignore[arg-type]
    with pytest.raises(cw.errors.InvalidInput, match=r"expected Statistics.*got 'x'"):
        learner.observe("x")  # type: ignore[arg-type]
    with pytest.raises(cw.errors.InvalidInput, match="the plant has classes two, one, the"):
        learner.observe(cw.Statistics.empty(["two", "one"]))
    for answer, text in ((None, "got None"), (cw.Equi, "got <class"), (cw.Fixed([1.0]), "1 shares")):
        with pytest.raises(cw.errors.InvalidPolicy, match=text):
            learner.adopt(answer)  # type: ignore[arg-type]
    assert learner.policy == cw.Equi()


class Lying:
    """A plant that does not say what was seen."""

    truth = None

    def run(self, policy: cw.Policy, departures: int) -> Any:
        return "all is well"


def test_a_plant_that_yields_no_statistics() -> None:
    with pytest.raises(cw.errors.InvalidInput, match=r"expected Statistics.*got 'all is well'"):
        next(cw.learn(Lying(), METHOD))


# --- when the last policy will do -------------------------------------------------------------------


@dataclass(frozen=True)
class GivenRates:
    """A memory that always recalls the first window, and is given the arrival rate of class one."""

    rates: tuple[float, ...]
    first: cw.Statistics | None = None
    alarms: tuple[Any, ...] = ()

    @property
    def parts(self) -> tuple[Any, ...]:
        return ()

    def recall(self) -> cw.Statistics:
        assert self.first is not None
        return self.first

    def remember(self, window: cw.Statistics) -> GivenRates:
        return GivenRates(self.rates if self.first is None else self.rates[1:], self.first or window)

    def of_parts(self, parts: tuple[Any, ...]) -> GivenRates:
        return self

    def known(self, system: cw.System) -> cw.System:
        return with_rates(system, "one", arrival_rate=self.rates[0])


def test_a_policy_is_made_anew_when_a_rate_has_moved() -> None:
    """By more than a hundredth since the last was made, though no estimate has moved."""
    rate = EXAMPLE["one"].arrival_rate
    assert rate is not None
    factors = (1.0, 1.0, 1.5, 1.5, 1.495, 1.0, 1.009, 1.018)
    anew = [True, False, True, False, False, True, False, True]
    method = cw.Algorithm(
        "given rates",
        EXAMPLE,
        cw.schedules.Constant(200),
        GivenRates(tuple(factor * rate for factor in factors)),
        policy=cw.Whittle(),
        inertia=0.1,
    )
    learner, plant = Learner(method), cw.SimulatedPlant(EXAMPLE, rng=4)
    for factor, new in zip(factors, anew, strict=True):
        request, inference, _ = inferred(learner, plant.run(learner.policy, 200))
        assert inference.reuse != new
        last = learner.policy
        learner.install(inference, request.solve(inference))
        assert (learner.policy is last) != new
        if new:
            assert inference.plug_in["one"].arrival_rate == pytest.approx(factor * rate)


# --- the gate -----------------------------------------------------------------------------------------


class NeverAdopt:
    """A gate that keeps the policy in force."""

    def decide(self, improvement: ExpectedImprovement | None, unknown: Sequence[str] = ()) -> Decision:
        assert (improvement, unknown) == (None, ())  # a simulated loop does not compute them
        return "keep"


def test_a_policy_that_the_gate_refuses_is_not_adopted() -> None:
    """What is learned is installed all the same; without a gate every policy is adopted, as in the paper."""
    method = cw.algorithm_1b(EXAMPLE, departures=50, steps=3)
    open_loop, closed_loop = (
        [*Learning(cw.SimulatedPlant(EXAMPLE, rng=3), Learner(method), diagnose=False, gate=gate)]
        for gate in (NeverAdopt(), None)
    )
    assert [epoch.policy for epoch in open_loop] == [cw.Equi()] * 3
    assert cw.Equi() not in [epoch.policy for epoch in closed_loop]
    assert dict(open_loop[0].estimates) == dict(closed_loop[0].estimates)
    assert dict(open_loop[1].estimates) != dict(open_loop[0].estimates)
