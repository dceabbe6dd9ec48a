"""Bad calls from Python: the project's own error with the value in it, never a bare one nor a warning."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import corewise as cw
from corewise.policies.base import BoundPolicy

CURVE = cw.Amdahl(0.5)


def system_of(classes: int = 2, cores: float = 4.0, load: float = 0.25) -> cw.System:
    rate = load * cores / classes
    return cw.System(
        cores, [cw.JobClass("abcd"[i], rate, 1.0, cw.Amdahl(0.2 + 0.2 * i)) for i in range(classes)]
    )


SYSTEM = system_of()


# --- what is not a system, a policy, a solver, a solution ----------------------------------------


@pytest.mark.parametrize(
    "system", ["x", "paper:1", None, 5, cw.System, SYSTEM.classes], ids=lambda x: repr(x)[:20]
)
@pytest.mark.parametrize(
    "call",
    [
        cw.solve,
        cw.lower_bound,
        cw.compare,
        lambda system: cw.evaluate(system, cw.Equi()),
        lambda system: cw.fisher_information(system, cw.Equi()),
    ],
    ids=["solve", "lower_bound", "compare", "evaluate", "fisher_information"],
)
def test_what_is_not_a_system_is_refused(call: Callable[[Any], object], system: Any) -> None:
    with pytest.raises(cw.errors.InvalidInput) as error:
        call(system)
    assert f"expected a System, got {system!r}" in str(error.value)


@pytest.mark.parametrize(
    "policy",
    [
        cw.Equi(),
        cw.Fixed([0.5, 0.5]),
        cw.Priority(["a", "b"]),
        cw.Greedy(),
        cw.Whittle(),
        cw.WholeCores(cw.Equi()),
        cw.Equi().on(SYSTEM),
    ],
    ids=lambda policy: type(policy).__name__,
)
def test_a_policy_binds_to_systems_only(policy: cw.Policy) -> None:
    with pytest.raises(cw.errors.InvalidSystem, match="expected a System, got 'x'"):
        policy.on("x")  # type: ignore[arg-type]


@pytest.mark.parametrize("policy", [cw.Equi, cw.Whittle, None, 5, SYSTEM], ids=lambda x: repr(x)[:20])
@pytest.mark.parametrize(
    "call",
    [
        cw.evaluate,
        cw.fisher_information,
        lambda system, policy: cw.WholeCores(policy).on(system),
        lambda system, policy: cw.compare(system, [policy]),
    ],
    ids=["evaluate", "fisher_information", "WholeCores", "compare"],
)
def test_what_is_not_a_policy_is_refused(call: Callable[[Any, Any], object], policy: Any) -> None:
    with pytest.raises(cw.errors.InvalidPolicy) as error:
        call(SYSTEM, policy)
    assert f"expected a policy such as Equi(), got {policy!r}" in str(error.value)


@pytest.mark.parametrize(
    "start", ["x", 5, np.zeros(3), SYSTEM, cw.results.Solution], ids=lambda x: repr(x)[:20]
)
def test_a_start_is_a_solution(start: Any) -> None:
    with pytest.raises(cw.errors.InvalidInput, match=r"start must be an earlier Solution for \d class.* got"):
        cw.solve(SYSTEM, capacity=3, start=start)


@pytest.mark.parametrize("solver", ["policy iteration", cw.solvers.PolicyIteration, 5, cw.Equi()], ids=repr)
def test_a_solver_is_an_object(solver: Any) -> None:
    with pytest.raises(cw.errors.InvalidInput) as error:
        cw.solve(SYSTEM, capacity=3, solver=solver)
    assert f"solver must be an object such as PolicyIteration(), got {solver!r}" in str(error.value)


# --- numbers --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("capacity", "message"),
    [
        (0, "capacity must be at least 1, got 0"),
        (-1, "capacity must be at least 1, got -1"),
        (2.5, "capacity must be a whole number, got 2.5"),
        (3.5, "capacity must be a whole number, got 3.5"),
        (math.nan, "capacity must be a whole number, got nan"),
        (True, "capacity must be a whole number, got True"),
        ("3", "capacity must be a whole number, got '3'"),
        ([3], "capacity needs one number or 2, one for each class, got [3]"),
        ([3, 3, 3], "capacity needs one number or 2, one for each class, got [3, 3, 3]"),
        ([], "capacity needs one number or 2"),
        ([3, 0], "capacity must be at least 1, got 0"),
        ([3, None], "capacity must be a whole number, got None"),
        (["3", "3"], "capacity must be a whole number, got '3'"),
        (object, "capacity must be a whole number, got <class 'object'>"),
    ],
    ids=str,
)
@pytest.mark.parametrize(
    "call",
    [
        lambda capacity: cw.solve(SYSTEM, capacity=capacity),
        lambda capacity: cw.evaluate(SYSTEM, cw.Equi(), capacity=capacity),
        lambda capacity: cw.fisher_information(SYSTEM, cw.Equi(), capacity=capacity),
    ],
    ids=["solve", "evaluate", "fisher_information"],
)
def test_a_bad_capacity_is_named(call: Callable[[Any], object], capacity: Any, message: str) -> None:
    with pytest.raises(cw.errors.InvalidInput) as error:
        call(capacity)
    assert message in str(error.value)


def test_a_capacity_may_be_any_kind_of_whole_numbers() -> None:
    """NumPy's integers, an array, a range, a generator."""
    expected = cw.evaluate(SYSTEM, cw.Equi(), capacity=(3, 4)).mean_jobs
    for capacity in (np.array([3, 4]), range(3, 5), (n for n in (3, 4)), [np.int32(3), np.uint8(4)]):
        assert cw.evaluate(SYSTEM, cw.Equi(), capacity=capacity).mean_jobs == expected  # type: ignore[arg-type]
    same = cw.evaluate(SYSTEM, cw.Equi(), capacity=3).mean_jobs
    assert cw.evaluate(SYSTEM, cw.Equi(), capacity=np.int64(3)).mean_jobs == same  # type: ignore[arg-type]


def test_an_array_without_dimensions_is_one_number() -> None:
    expected = cw.evaluate(SYSTEM, cw.Equi(), capacity=3).mean_jobs
    assert cw.evaluate(SYSTEM, cw.Equi(), capacity=np.array(3)).mean_jobs == expected


@pytest.mark.parametrize(
    ("capacity", "states"),
    [
        (10**9, "1,000,000,002,000,000,001"),
        ((10**12, 9), "10,000,000,000,010"),
        (10**200, "states"),
        (10**3000, "states"),
    ],
    ids=["billion", "one class", "beyond floats", "beyond digits"],
)
def test_a_huge_box_says_how_many_states(capacity: Any, states: str) -> None:
    for call in (
        lambda: cw.solve(SYSTEM, capacity=capacity),
        lambda: cw.evaluate(SYSTEM, cw.Equi(), capacity=capacity),
    ):
        with pytest.raises(cw.errors.BoxTooLarge) as error:
            call()
        assert states in str(error.value)
        assert "Give a smaller capacity" in str(error.value)


@pytest.mark.parametrize(
    ("tolerance", "message"),
    [
        (0, "must be positive, got 0"),
        (-1e-9, "must be positive, got -1e-09"),
        (math.nan, "must be finite, got nan"),
        (math.inf, "must be finite, got inf"),
        (True, "must be a number, got True"),
        ("1e-9", "must be a number, got '1e-9'"),
        (None, "must be a number, got None"),
    ],
)
def test_a_bad_tolerance_is_named(tolerance: Any, message: str) -> None:
    with pytest.raises(cw.errors.InvalidInput) as error:
        cw.solve(SYSTEM, capacity=3, tolerance=tolerance)
    assert str(error.value) == f"tolerance {message}"


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (lambda n: cw.solvers.ModifiedPolicyIteration(sweeps=n), "sweeps"),
        (lambda n: cw.solvers.ModifiedPolicyIteration(rounds=n), "rounds"),
        (lambda n: cw.solvers.PolicyIteration(improvements=n), "improvements"),
        (lambda n: cw.solvers.PolicyIteration(sweeps=n), "sweeps"),
        (lambda n: cw.solvers.PolicyIteration(rounds=n), "rounds"),
        (lambda n: cw.solvers.RelativeValueIteration(rounds=n), "rounds"),
    ],
)
def test_solvers_count_in_whole_numbers(call: Callable[[Any], object], field: str) -> None:
    for value, message in (
        (0, "at least 1"),
        (-3, "at least 1"),
        (2.5, "a whole number"),
        (True, "a whole number"),
    ):
        with pytest.raises(cw.errors.InvalidInput) as error:
            call(value)
        assert str(error.value) == f"{field} must be {message}, got {value!r}"


@pytest.mark.parametrize("departures", [0, -1, math.nan, "100", True])
def test_information_of_no_departures_is_refused(departures: Any) -> None:
    told = cw.fisher_information(SYSTEM, cw.Equi(), capacity=8)["b"]
    with pytest.raises(cw.errors.InvalidInput, match="departures must be"):
        told.covariance(departures)


# --- systems and boxes that cannot be solved ------------------------------------------------------


@pytest.mark.parametrize(
    "call",
    [cw.solve, cw.lower_bound, lambda system: cw.evaluate(system, cw.Equi())],
    ids=["solve", "lower_bound", "evaluate"],
)
def test_an_unstable_system_says_its_load(call: Callable[[Any], object]) -> None:
    with pytest.raises(
        cw.errors.UnstableSystem, match=r"the load is 1\.25, and it must be below 1: work for 5 cores"
    ):
        call(system_of(load=1.25))


def test_whole_cores_need_a_whole_number() -> None:
    with pytest.raises(cw.errors.InvalidSystem, match=r"whole cores need a whole number of cores, got 2\.5"):
        cw.solve(system_of(cores=2.5), whole_cores=True)
    assert cw.solve(system_of(cores=2.5), capacity=4).policy.cores.shape == (2, 5, 5)


def test_policy_iteration_refuses_a_large_box_of_three_classes() -> None:
    with pytest.raises(cw.errors.BoxTooLarge) as error:
        cw.solve(system_of(3), capacity=29, solver=cw.solvers.PolicyIteration())
    assert "policy iteration would factorise a matrix over 27,000 states of 3 classes" in str(error.value)
    assert "use ModifiedPolicyIteration() or a smaller capacity" in str(error.value)


@pytest.mark.parametrize(
    ("solver", "message"),
    [
        (cw.solvers.ModifiedPolicyIteration(rounds=1), "modified policy iteration ended after 1 rounds"),
        (cw.solvers.RelativeValueIteration(rounds=3), "relative value iteration ended after 3 rounds"),
        (cw.solvers.PolicyIteration(improvements=1, rounds=1), "policy iteration ended after 1 rounds"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_solver_that_does_not_converge_raises(solver: Any, message: str) -> None:
    """Nothing returns a silent half-answer; the message says how far apart the bounds are."""
    hard = cw.System(
        8.0, [cw.JobClass("a", 3.6, 1.0, cw.Amdahl(0.3)), cw.JobClass("b", 28.8, 8.0, cw.Amdahl(0.9))]
    )
    with pytest.raises(cw.errors.NotConverged) as error:
        cw.solve(hard, capacity=20, solver=solver)
    assert message in str(error.value)
    assert float(str(error.value).split("bounds ")[1].split(" apart")[0]) > 1e-9


# --- a policy of one's own that is none -----------------------------------------------------------


def test_an_own_policy_is_evaluated() -> None:
    rule = cw.Equi().on(SYSTEM).decision
    own = BoundPolicy(SYSTEM, "own", lambda counts: 1.0 * rule(counts))
    expected = cw.evaluate(SYSTEM, cw.Equi(), capacity=5).mean_jobs
    assert cw.evaluate(SYSTEM, own, capacity=5).mean_jobs == expected


@pytest.mark.parametrize(
    "rule",
    [
        lambda counts: np.full(counts.shape, np.nan),
        lambda counts: np.full(counts.shape, -1.0),
        lambda counts: np.full(counts.shape, 100.0),
        lambda counts: np.zeros((1, 3)),
        lambda counts: None,
    ],
    ids=["nan", "negative", "too many", "shape", "None"],
)
def test_an_own_policy_that_is_no_split_is_refused(rule: Any) -> None:
    with pytest.raises(cw.CorewiseError):
        cw.evaluate(SYSTEM, BoundPolicy(SYSTEM, "own", rule), capacity=5)


# --- the tree -------------------------------------------------------------------------------------


def test_the_errors_form_one_tree() -> None:
    narrow = (cw.errors.InvalidCurve, cw.errors.InvalidSystem, cw.errors.InvalidPolicy, cw.errors.InvalidFile)
    assert all(issubclass(error, cw.errors.InvalidInput) for error in narrow)
    wide = (
        cw.errors.InvalidInput,
        cw.errors.UnstableSystem,
        cw.errors.UnstablePolicy,
        cw.errors.BoxTooLarge,
        cw.errors.NotConverged,
    )
    assert all(issubclass(error, cw.CorewiseError) for error in wide)
    assert [error for error in wide if issubclass(error, ValueError)] == [cw.errors.InvalidInput]


def test_a_message_is_one_short_line() -> None:
    """Whatever the value: a whole object, lines, what moves the cursor or turns the writing."""
    value = [{"a": list(range(1000))}] * 50
    with pytest.raises(cw.errors.InvalidSystem) as caught:
        cw.System(value, [])  # type: ignore[arg-type]
    assert str(caught.value).startswith("cores must be a number, got [{'a': [0, 1, 2")
    assert len(str(caught.value)) < 140
    with pytest.raises(cw.errors.InvalidSystem) as caught:
        cw.solve(value)  # type: ignore[arg-type]
    assert str(caught.value).startswith("expected a System, got [{'a': [0, 1, 2")
    assert len(str(caught.value)) <= 610
    assert len(str(cw.errors.InvalidInput("x" * 600))) == 600
    text = str(cw.errors.InvalidFile("a\n\n  b\r\nc\x1b[31m\u202ed\x9be\tf 日本 naïve 😀  g"))
    assert text == r"a b c\x1b[31m\u202ed\x9be\tf 日本 naïve 😀  g"
    again = pickle.loads(pickle.dumps(cw.errors.InvalidFile("two\nlines")))
    assert (type(again), str(again)) == (cw.errors.InvalidFile, "two lines")


def test_a_box_of_many_classes_is_named_by_its_first() -> None:
    classes = [cw.JobClass(f"{i}", 0.1, 1.0, cw.Amdahl(0.5)) for i in range(200)]
    with pytest.raises(cw.errors.BoxTooLarge) as caught:
        cw.evaluate(cw.System(400, classes), cw.Equi(), capacity=37)
    assert "a box of 38 × 38 × 38 × 38 × … (200 classes) = 10^315 states" in str(caught.value)


def test_a_policy_of_many_classes_that_needs_tables_says_so() -> None:
    classes = [cw.JobClass(f"{i}", 0.1, 1.0, cw.Amdahl(0.5)) for i in range(200)]
    with pytest.raises(cw.errors.BoxTooLarge) as caught:
        cw.simulate(cw.System(400, classes), cw.Fixed([0.005] * 200), departures=5, rng=1)
    assert str(caught.value).startswith(
        "200 classes with 0 jobs at the start need larger tables than there is"
    )
    assert "[0, 0" not in str(caught.value)


@pytest.mark.parametrize("weight", [1e308, 1e-308])
@pytest.mark.parametrize("call", [cw.solve, cw.lower_bound, lambda s: cw.evaluate(s, cw.Equi()), cw.compare])
def test_a_weight_out_of_scale_is_refused(call: Callable[[Any], object], weight: float) -> None:
    system = cw.System(
        4, [cw.JobClass("a", 1.0, 1.0, cw.Amdahl(0.5), weight), cw.JobClass("b", 1.0, 1.0, cw.Amdahl(0.2))]
    )
    with pytest.raises(cw.errors.InvalidSystem, match=r"class 'a': weight 1e.308 is out of scale"):
        call(system)


def test_a_load_beyond_all_numbers_is_refused_as_any_other() -> None:
    classes = [cw.JobClass(name, 1e9, 1e-300, CURVE) for name in "ab"]
    with pytest.raises(cw.errors.UnstableSystem, match="the load is inf, and it must be below 1"):
        cw.solve(cw.System(4, classes))
