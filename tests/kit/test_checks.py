"""Numbers as they are given: of Python or of NumPy, with or without a point, as long as they are numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import pytest

import corewise as cw
from corewise.errors import InvalidCurve, InvalidInput
from corewise.kit import checks
from corewise.kit.arrays import Floats


@pytest.mark.parametrize(
    "value",
    [0.5, np.float64(0.5), np.float32(0.5), np.array(0.5), np.array(0.5, np.float32), Fraction(1, 2)],
    ids=repr,
)
def test_a_number_is_a_number(value: object) -> None:
    found = checks.positive(value, "p")
    assert found == 0.5
    assert type(found) is float


@pytest.mark.parametrize(
    "value",
    [3, 3.0, np.int64(3), np.uint8(3), np.float64(3), np.float32(3), np.array(3), np.array(3.0)],
    ids=repr,
)
def test_a_whole_number_is_one_with_a_point_too(value: object) -> None:
    found = checks.whole(value, "n")
    assert found == 3
    assert type(found) is int


@pytest.mark.parametrize(
    "value",
    [
        True,
        np.True_,
        np.array(True),
        "3",
        np.array("3"),
        None,
        [3],
        np.array([3.0]),
        3 + 0j,
        np.array(3j),
        pytest.param(object(), id="object"),
    ],
    ids=repr,
)
def test_what_is_no_number_is_refused(value: object) -> None:
    with pytest.raises(InvalidInput, match="n must be a number"):
        checks.finite(value, "n")
    with pytest.raises(InvalidInput, match="n must be a whole number"):
        checks.whole(value, "n")


@pytest.mark.parametrize("value", [2.5, math.nan, math.inf, 1e300, 2.0**53 + 2, np.array(0.5)], ids=repr)
def test_what_is_not_whole_is_refused(value: object) -> None:
    with pytest.raises(InvalidInput, match="n must be a whole number"):
        checks.whole(value, "n")


def test_an_integer_for_machines_has_no_point() -> None:
    """Events and files are checked as they are, and kept so."""
    assert checks.count(np.int64(3), "n") == 3
    with pytest.raises(InvalidInput, match=r"n must be a whole number, got 3\.0"):
        checks.count(3.0, "n")


def system(**given: Any) -> cw.System:
    one = cw.JobClass("one", np.array(1.0), np.float32(1.0), cw.Amdahl(np.array(0.5)), weight=np.int64(1))  # type: ignore[arg-type]
    two = cw.JobClass("two", 1, 1, cw.Tabulated(np.array([[2, 1.5], [4, 2.0]])), max_cores=4.0)  # type: ignore[arg-type]
    return cw.System(np.array(8), [one, two], **given)  # type: ignore[arg-type]


def test_numbers_of_all_kinds_are_taken_everywhere() -> None:
    pool = system()
    assert pool.cores == 8.0
    assert type(pool.classes[1].max_cores) is int
    solution = cw.solve(pool, capacity=np.array(9), tolerance=np.array(1e-6))  # type: ignore[arg-type]
    assert solution == cw.solve(pool, capacity=9.0, tolerance=1e-6)  # type: ignore[arg-type]
    assert solution == cw.solve(pool, capacity=np.array([9.0, 9.0]), tolerance=1e-6)
    run = cw.simulate(pool, "equi", departures=1e3, rng=np.array(7))  # type: ignore[arg-type]
    assert run == cw.simulate(pool, "equi", departures=1000, rng=7)
    assert run == cw.simulate(pool, "equi", departures=np.array(1000), rng=7.0)  # type: ignore[arg-type]
    timed = cw.simulate(pool, "equi", time=np.array(50), rng=7, start=np.array([1.0, 2.0]))  # type: ignore[arg-type]
    assert timed == cw.simulate(pool, "equi", time=50.0, rng=7, start=(1, 2))
    runs = cw.replicate(pool, "equi", n=3.0, departures=1e2, rng=1, percentiles=np.array([50]))  # type: ignore[arg-type]
    assert len(runs.runs) == 3
    plant = cw.SimulatedPlant(pool, rng=1)
    algorithm = cw.algorithm_1b(pool, departures=np.array(100), steps=2.0, policy="whittle")  # type: ignore[arg-type]
    assert len([*cw.learn(plant, algorithm, diagnose=False)]) == 2
    solver = cw.solvers.ModifiedPolicyIteration(sweeps=16.0, rounds=np.array(2000))  # type: ignore[arg-type]
    assert solver == cw.solvers.ModifiedPolicyIteration()
    assert cw.solve(pool, capacity=9, solver=solver).mean_jobs == pytest.approx(solution.mean_jobs, rel=1e-5)
    assert cw.Fixed(np.array([0.5, 0.5])) == cw.Fixed([0.5, 0.5])
    assert cw.plan(pool, target=np.array(2.0), policy="equi", rng=1.0).cores >= 1  # type: ignore[arg-type]


def test_a_random_state_is_told_what_to_give_instead() -> None:
    with pytest.raises(InvalidInput, match=r"got a RandomState, .* give numpy\.random\.default_rng\(seed\)"):
        cw.simulate(system(), "equi", departures=100, rng=np.random.RandomState(1))  # type: ignore[arg-type]
    for wrong in ("1", -1, 1.5, True, np.array([1, 2])):
        with pytest.raises(InvalidInput, match="rng must be"):
            cw.simulate(system(), "equi", departures=100, rng=wrong)  # type: ignore[arg-type]


# --- own curves that take one number ------------------------------------------------------------------


@dataclass(frozen=True)
class Scalar(cw.SpeedUp):
    p: float
    family: ClassVar[str] = "scalar"
    bounds: ClassVar[dict[str, tuple[float, float]]] = {"p": (0.0, 1.0)}

    def rate_above(self, z: Floats) -> Floats:
        return 1.0 + self.p * math.log(z)  # type: ignore[return-value]


@dataclass(frozen=True)
class Branching(Scalar):
    family: ClassVar[str] = "branching"

    def rate_above(self, z: Floats) -> Floats:
        return z if z < 2.0 else np.sqrt(2.0 * z)


@dataclass(frozen=True)
class ScalarSlope(Scalar):
    family: ClassVar[str] = "slope"

    def rate_above(self, z: Floats) -> Floats:
        return np.asarray(1.0 + self.p * np.log(z))

    def slope_above(self, z: Floats) -> Floats:
        return self.p / math.exp(z)  # type: ignore[return-value]


@dataclass(frozen=True)
class ScalarGradient(ScalarSlope):
    family: ClassVar[str] = "gradient"
    slope_above = cw.SpeedUp.slope_above

    def gradient_above(self, z: Floats) -> Floats:
        return math.log(z)  # type: ignore[return-value]


@pytest.mark.parametrize("kind", [Scalar, Branching, ScalarSlope, ScalarGradient])
def test_a_curve_that_takes_one_number_is_named(kind: type[Scalar]) -> None:
    what = {"slope": "slope", "gradient": "gradient"}.get(kind.family, "rate")
    with pytest.raises(
        InvalidCurve, match=f"class 'a': {kind.family}: {what}_above fails for an array of .* widths"
    ):
        cw.System(8, [cw.JobClass("a", 1.0, 1.0, kind(0.5))])
