"""Binding a policy can be a computation: it is done once, and a check does not need it; policies by name."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import corewise as cw
from corewise.control.improve import improved
from corewise.control.improve.improved import Improvement
from corewise.policies.base import bind, checked_policy

pytestmark = pytest.mark.slow

FIVE = cw.System(
    6, [cw.JobClass(f"class {i}", 0.5, 1.0 + 0.2 * i, cw.Amdahl(0.1 + 0.2 * i)) for i in range(5)]
)
TWO = cw.System(6, FIVE.classes[:2])
QUICK = cw.Improved(steps=1, events=1000)


@pytest.fixture
def improvements(monkeypatch: pytest.MonkeyPatch) -> list[cw.System]:
    """Return a list that fills with the systems for which the improvement is run."""
    systems: list[cw.System] = []
    real = improved.improve

    def counted(system: cw.System, **options: Any) -> Improvement:
        systems.append(system)
        return real(system, **options)

    monkeypatch.setattr(improved, "improve", counted)
    return systems


@pytest.mark.parametrize(
    "call",
    [
        lambda: cw.compare(FIVE, [QUICK], events=50_000, rng=1),
        lambda: cw.compare(TWO, [QUICK]),
        lambda: cw.evaluate(TWO, QUICK),
        lambda: cw.replicate(FIVE, QUICK, n=32, departures=20, rng=1),
        lambda: cw.replicate(FIVE, QUICK, n=32, departures=20, rng=1).runs[3].statistics,
        lambda: cw.simulate(FIVE, QUICK, departures=20, rng=1).statistics,
        lambda: cw.simulated_mean(FIVE, QUICK, events=50_000, rng=1),
    ],
    ids=["compare", "compare exactly", "evaluate", "replicate", "its statistics", "statistics", "mean"],
)
def test_a_policy_is_bound_once(call: Callable[[], object], improvements: list[cw.System]) -> None:
    call()
    assert len(improvements) == 1


def test_to_check_a_policy_does_not_bind_it(improvements: list[cw.System]) -> None:
    assert checked_policy(QUICK, FIVE) is QUICK
    cw.algorithm_1b(FIVE, policy=QUICK, first=QUICK)
    cw.algorithm_1b(FIVE, policy=cw.WholeCores(QUICK))
    assert improvements == []
    bind(QUICK, FIVE)
    assert improvements == [FIVE]  # the count can fail


def test_what_was_computed_is_sent_to_other_processes(improvements: list[cw.System]) -> None:
    bound = pickle.loads(pickle.dumps(QUICK.on(FIVE)))
    states = np.arange(20).reshape(4, 5)
    assert np.array_equal(bound.allocate(states), QUICK.on(FIVE).allocate(states))
    assert len(improvements) == 2


@pytest.mark.parametrize(
    ("name", "policy"),
    [
        ("equi", cw.Equi()),
        ("greedy", cw.Greedy()),
        ("whittle", cw.Whittle()),
        ("fixed:0.25,0.75", cw.Fixed([0.25, 0.75])),
        ("priority:class 1,class 0", cw.Priority(["class 1", "class 0"])),
        ("improved", cw.Improved()),
    ],
)
def test_policies_by_name(name: str, policy: cw.Policy) -> None:
    assert cw.evaluate(TWO, name) == cw.evaluate(TWO, policy)


def test_a_name_will_do_wherever_a_policy_is_taken() -> None:
    best = cw.solve(TWO)
    assert cw.evaluate(TWO, "optimal").mean_jobs == pytest.approx(best.mean_jobs, rel=1e-12)
    assert cw.evaluate(TWO, "optimal").policy == "optimal"
    assert [row.name for row in cw.compare(TWO, ["equi", cw.Whittle()]).rows] == [
        "optimal",
        "equi",
        "whittle",
    ]
    assert cw.simulate(TWO, "equi", departures=300, rng=4).mean_jobs == (
        cw.simulate(TWO, cw.Equi(), departures=300, rng=4).mean_jobs
    )
    assert cw.replicate(TWO, "equi", n=2, departures=50, rng=4).policy == "equi"
    assert cw.simulated_mean(FIVE, "whittle", events=50_000, rng=1).policy == "whittle"
    assert set(cw.fisher_information(TWO, "equi")) == {"class 0", "class 1"}
    algorithm = cw.algorithm_1b(TWO, policy="whittle", first="greedy")
    assert (algorithm.policy, algorithm.first) == (cw.Whittle(), cw.Greedy())


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("equ", "unknown policy 'equ', nor is it a file; did you mean 'equi'?"),
        ("fixed:1", "fixed:1 has 1 shares, the system has 2 classes"),
        ("priority:class 1", "class 'class 0' is missing"),
        ("nothing.npz", "nothing.npz: cannot be read"),
    ],
)
def test_a_name_that_is_none_is_refused(name: str, message: str) -> None:
    for call in (cw.evaluate, lambda system, policy: cw.compare(system, [policy])):
        with pytest.raises(cw.CorewiseError, match=message.replace("?", r"\?").replace(".", r"\.")):
            call(TWO, name)
