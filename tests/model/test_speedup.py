"""Curves: every family keeps the promises of `model/speedup.py`; what does not is refused by name."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import corewise as cw
from corewise.kit.arrays import Floats
from corewise.model.speedup import FAMILIES, _check_gradient, _check_shape, check_curve
from tests.helpers.curves import bent

Bounds = Mapping[str, tuple[float, float]]

ENDS = (0.0, 1e-9, 1e-3, 0.2, 0.5, 0.85, 0.999, 1 - 1e-6, 1.0)
USL = [(s, k) for s in (0.0, 0.05, 0.3, 0.9, 1.0) for k in (0.0, 1e-6, 1e-3, 0.02)]
BUILT_IN: list[cw.SpeedUp] = [
    *(family(p) for family in (cw.Amdahl, cw.PowerLaw, cw.Gustafson) for p in ENDS),
    *(cw.Usl(sigma, kappa) for sigma, kappa in USL),
]
TABLES: list[cw.SpeedUp] = [
    cw.Tabulated([(2, 1.5)]),
    bent((1, 1), (2, 1.9), (4, 3.1), (8, 4), (16, 3.5)),
    bent((3, 1), (5, 9), (7, 2)),
    cw.Tabulated([(0.5, 0.5), (100, 1.0001)]),
    cw.WholeCoreTable([0, 1, 1.9, 2.1, 3.6, 3.2, 5.0, 2.0]),
    cw.ByProgress([0.0, 0.2, 0.7], [cw.Amdahl(0.5), cw.Usl(0.05, 0.01), cw.WholeCoreTable([0, 1, 1.5, 1.2])]),
]
CORES = (0.4, 1.0, 1.001, 1.5, 3.0, 8.0, 64.0, 1000.0, 1e6)


def name_of(value: object) -> str:
    return repr(value) if isinstance(value, cw.SpeedUp) else ""


def system(curve: cw.SpeedUp, cores: float = 4.0) -> cw.System:
    return cw.System(cores, [cw.JobClass("batch", 0.5, 1.0, curve)])


# --- the families ---------------------------------------------------------------------------------


@pytest.mark.parametrize("curve", [*BUILT_IN, *TABLES], ids=name_of)
def test_every_family_has_the_shape_of_a_speedup(curve: cw.SpeedUp) -> None:
    """The check that `System` spares the families is run here over all of them."""
    assert type(curve) in FAMILIES.values()
    for cores in CORES:
        _check_shape(curve, cores)
        z = np.concatenate([[0.0], np.geomspace(1e-3, cores, 300)])
        assert np.all(curve.rate(z) <= z)
        assert np.array_equal(curve.rate(z[z <= 1.0]), z[z <= 1.0])
        assert np.all(np.diff(curve.rate(z)) >= -1e-12)
        assert np.all(np.diff(curve.slope(z)) <= 1e-12)
        assert np.all(curve.slope(z) >= 0.0)


@pytest.mark.parametrize("curve", BUILT_IN, ids=name_of)
def test_every_family_can_be_identified(curve: cw.SpeedUp) -> None:
    """But for the law that is flat from one core on, sigma = 1 with kappa above zero."""
    if isinstance(curve, cw.Usl) and curve.peak == 1.0:
        assert (curve.sigma, curve.kappa > 0.0) == (1.0, True)
        with pytest.raises(cw.errors.InvalidCurve, match="cannot be identified"):
            _check_gradient(curve, 8.0)
        return
    for cores in CORES:
        if cores >= 1.5:
            _check_gradient(curve, cores)


@settings(max_examples=60)
@given(
    st.sampled_from([cw.Amdahl, cw.PowerLaw, cw.Gustafson]),
    st.floats(0.0, 1.0),
    st.floats(1.01, 1e4),
)
def test_one_parameter_families_anywhere(family: Callable[[float], cw.SpeedUp], p: float, c: float) -> None:
    _check_shape(family(p), c)
    _check_gradient(family(p), c)


@pytest.mark.parametrize("curve", [*BUILT_IN, *TABLES], ids=name_of)
def test_the_slope_is_the_derivative_of_the_rate(curve: cw.SpeedUp) -> None:
    """Forward differences, since the slope is the one to the right; below one core it is one."""
    z = np.array([1.0, 1.25, 2.0, 3.7, 12.0, 90.0])
    step = 1e-6
    differences = (curve.rate(z + step) - curve.rate(z)) / step
    assert np.allclose(curve.slope(z), differences, rtol=2e-5, atol=2e-8)
    assert np.array_equal(curve.slope([0.0, 0.3, 0.999]), [1.0, 1.0, 1.0])


@pytest.mark.parametrize("curve", BUILT_IN, ids=name_of)
def test_the_gradient_is_the_derivative_in_the_parameters(curve: cw.SpeedUp) -> None:
    """Central differences, one-sided at the ends of the range; nothing is told up to one core."""
    z = np.array([1.1, 2.0, 3.7, 12.0])
    gradient = curve.gradient(z)
    assert gradient.shape == (4, len(curve.parameters))
    for k, (name, value) in enumerate(curve.parameters.items()):
        low, high = curve.bounds[name]
        up, down = min(value + 1e-7, high), max(value - 1e-7, low)
        moved = [curve.with_parameters(**{name: x}).rate(z) for x in (up, down)]
        differences = (moved[0] - moved[1]) / (up - down)
        if isinstance(curve, cw.Usl) and curve.sigma == 1.0:  # the peak is at one core on one side only
            continue
        assert np.allclose(gradient[:, k], differences, rtol=1e-4, atol=1e-6)
    assert not curve.gradient([0.0, 0.5, 1.0]).any()
    assert curve.gradient(np.ones((2, 3))).shape == (2, 3, len(curve.parameters))


def test_formulas_of_the_paper() -> None:
    z = np.array([0.5, 1.0, 2.0, 8.0])
    assert np.allclose(cw.Amdahl(0.8).rate(z), [0.5, 1.0, 1 / 0.6, 1 / 0.3], rtol=1e-15)
    assert np.allclose(cw.PowerLaw(0.5).rate(z), [0.5, 1.0, math.sqrt(2), math.sqrt(8)], rtol=1e-15)
    assert np.allclose(cw.Gustafson(0.25).rate(z), [0.5, 1.0, 1.25, 2.75], rtol=1e-15)
    assert np.allclose(cw.Usl(0.1, 0.01).rate(z), [0.5, 1.0, 2 / 1.12, 8 / 2.26], rtol=1e-15)


@pytest.mark.parametrize(("sigma", "kappa"), [(0.1, 0.01), (0.0, 0.04), (0.5, 0.005), (0.3, 1e-4)])
def test_usl_is_held_at_its_peak(sigma: float, kappa: float) -> None:
    """The bare law is largest at the square root of (1 - sigma)/kappa, and falls after it."""
    curve = cw.Usl(sigma, kappa)
    z = np.linspace(1.0, 4.0 * curve.peak, 20_001)
    bare = z / (1.0 + sigma * (z - 1.0) + kappa * z * (z - 1.0))
    assert curve.peak == pytest.approx(z[np.argmax(bare)], abs=2 * (z[1] - z[0]))
    assert bare[-1] < 0.95 * bare.max()
    assert np.allclose(curve.rate(z), np.maximum.accumulate(bare), rtol=1e-7)
    assert np.all(curve.rate(z[z >= curve.peak]) == curve.rate(curve.peak))
    assert not curve.slope(z[z >= curve.peak]).any()
    assert curve.slope(0.999 * curve.peak) > 0.0


@pytest.mark.parametrize(("sigma", "kappa"), [(0.6, 0.4), (0.5, 3.0), (1.0, 1e-3), (0.0, 1e300)])
def test_usl_with_its_peak_at_one_core_is_flat(sigma: float, kappa: float) -> None:
    curve = cw.Usl(sigma, kappa)
    assert curve.peak == 1.0
    assert np.array_equal(curve.rate([0.5, 1.0, 1.5, 50.0]), [0.5, 1.0, 1.0, 1.0])


@pytest.mark.parametrize("sigma", [0.0, 1e-6, 0.2, 0.5, 0.9, 1.0])
def test_usl_without_coherency_cost_is_amdahl(sigma: float) -> None:
    z = np.geomspace(0.1, 1000.0, 200)
    usl, amdahl = cw.Usl(sigma, 0.0), cw.Amdahl(1.0 - sigma)
    assert usl.peak == math.inf
    assert np.allclose(usl.rate(z), amdahl.rate(z), rtol=1e-13)
    assert np.allclose(usl.slope(z), amdahl.slope(z), rtol=1e-12)
    assert np.allclose(usl.gradient(z)[:, 0], -amdahl.gradient(z)[:, 0], rtol=1e-12)


@pytest.mark.parametrize("family", [cw.Amdahl, cw.PowerLaw, cw.Gustafson])
@pytest.mark.parametrize("p", [-1e-9, 1.0000001, math.nan, math.inf, True, "0.5", None])
def test_parameters_out_of_range_are_refused(family: Callable[[Any], cw.SpeedUp], p: object) -> None:
    with pytest.raises(cw.errors.InvalidCurve) as error:
        family(p)
    assert f"{family.family} p must" in str(error.value)  # type: ignore[attr-defined]
    assert repr(p) in str(error.value)


@pytest.mark.parametrize(
    ("sigma", "kappa", "named"), [(-0.1, 0, "sigma"), (1.1, 0, "sigma"), (0, -1, "kappa")]
)
def test_usl_names_the_parameter(sigma: float, kappa: float, named: str) -> None:
    with pytest.raises(cw.errors.InvalidCurve, match=rf"usl {named} must lie in \[0, .*got -?[\d.]+"):
        cw.Usl(sigma, kappa)


def test_parameters_and_other_ones() -> None:
    curve = cw.Usl(0.1, 0.01)
    assert curve.parameters == {"sigma": 0.1, "kappa": 0.01}
    assert curve.with_parameters(kappa=0.5) == cw.Usl(0.1, 0.5)
    assert cw.Tabulated([(2, 1.5)]).parameters == {}
    assert isinstance(cw.Amdahl(1).p, float)
    with pytest.raises(cw.errors.InvalidCurve, match="usl kappa must lie in"):
        curve.with_parameters(kappa=-0.5)


# --- measured points ------------------------------------------------------------------------------


def majorant(points: list[tuple[float, float]], z: Floats) -> Floats:
    """The least concave nondecreasing function above the clipped points, by trying every chord.

    (0, 0) and (1, 1) belong to the points; one far to the right, as high as the highest, makes it flat.
    """
    clipped = [(0.0, 0.0), (1.0, 1.0), *((a, min(a, b)) for a, b in points)]
    clipped.append((1e9, max(b for _, b in clipped)))
    best = np.zeros(z.shape)
    for a, b in clipped:
        for d, e in clipped:
            if d > a:
                on = (z >= a) & (z <= d)
                best[on] = np.maximum(best[on], b + (e - b) * (z[on] - a) / (d - a))
    return best


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.floats(1.0, 40.0), st.floats(0.01, 40.0)), min_size=1, max_size=8))
def test_tabulated_is_the_least_concave_majorant(points: list[tuple[float, float]]) -> None:
    points = [(round(z, 2), 1.0 if z < 1.005 else round(s, 2)) for z, s in points]
    curve = bent(*points)
    z = np.concatenate([np.linspace(0.0, 60.0, 481), [a for a, _ in points]])
    assert np.allclose(curve.rate(z), majorant(points, z), rtol=0, atol=1e-9)
    above = majorant(points, np.array([a for a, _ in points]))
    moved = sorted((a, b) for (a, b), s in zip(points, above.tolist(), strict=True) if abs(s - b) > 1e-8 * b)
    assert [(point.cores, point.given) for point in curve.moved] == moved
    assert all(curve.rate(a) >= min(a, b) - 1e-12 for a, b in points)
    _check_shape(curve, 50.0)


def test_tabulated_values() -> None:
    """Clipped at 2, below the chord at 3, corners at 4 and 8, flat from the highest on, though 16 falls."""
    curve = bent((2, 2.5), (3, 1.7), (4, 3.0), (8, 4.0), (16, 3.5))
    z = [0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 99.0]
    expected = [0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.0, 4.0, 4.0]
    assert np.allclose(curve.rate(z), expected, rtol=0, atol=1e-15)
    slopes = [1.0, 1.0, 1.0, 0.5, 0.5, 0.25, 0.25, 0.0, 0.0, 0.0, 0.0]
    assert np.allclose(curve.slope(z), slopes, rtol=0, atol=1e-15)
    assert curve.gradient(z).shape == (11, 0)


def test_points_that_move_are_said() -> None:
    """At 2 from above linear, at 3 from below the chord (2, 2) to (4, 3), at 16 to the highest."""
    points = [(2, 2.5), (3, 1.7), (4, 3.0), (8, 4.0), (16, 3.5)]
    with pytest.warns(cw.errors.CurveMoved) as told:
        curve = cw.Tabulated(points)
    assert [str(each.message) for each in told] == [
        "tabulated speed-up moved to its least concave majorant: at 3 cores 1.7 → 2.5 (+47.06%), "
        "at 2 cores 2.5 → 2 (-20.00%), at 16 cores 3.5 → 4 (+14.29%)"
    ]
    assert told[0].filename == __file__
    assert curve.moved == ((2.0, 2.5, 2.0), (3.0, 1.7, 2.5), (16.0, 3.5, 4.0))
    assert [point.change for point in curve.moved] == pytest.approx([-0.2, 0.8 / 1.7, 0.5 / 3.5])
    with pytest.warns(cw.errors.CurveMoved, match=r"at 7 cores 1 → 2 \(\+99.89%\), and 4 more$"):
        cw.Tabulated([(2, 1.9999), *((2 + k, 1.0 + 0.0001 * (10 - k)) for k in range(1, 10))])
    assert cw.Tabulated([(2, 1.8), (4, 3.0)]).moved == ()


def test_tabulated_takes_points_in_any_order_and_form() -> None:
    points = [(8, 4.0), (1, 1.0), (4, 3.0), (2, 1.8)]
    curve = cw.Tabulated(points)
    assert curve == cw.Tabulated(sorted(points)) == cw.Tabulated(np.array(points))  # type: ignore[arg-type]
    assert curve.points == ((1.0, 1.0), (2.0, 1.8), (4.0, 3.0), (8.0, 4.0))


@pytest.mark.parametrize("order", [1, -1])
def test_tabulated_takes_the_higher_of_two_values_at_one_width(order: int) -> None:
    points = [(2.0, 1.2), (2.0, 1.6), (4.0, 2.0), (4.0, 1.1)][::order]
    assert np.allclose(bent(*points).rate([2.0, 3.0, 4.0, 9.0]), [1.6, 1.8, 2.0, 2.0], atol=1e-15)


@pytest.mark.parametrize(
    ("points", "message"),
    [
        ([], "must be pairs .*got \\[\\]"),
        ("abc", "must be pairs .*got 'abc'"),
        (5, "must be pairs .*got 5"),
        (None, "must be pairs .*got None"),
        ([3], "must be pairs .*got 3"),
        (["23"], "must be pairs .*got '23'"),
        ([(2, 1.5, 1)], "must be pairs .*got \\(2, 1.5, 1\\)"),
        ([(2, 1.5), (0, 1)], "tabulated cores must be positive, got 0"),
        ([(-2, 1.5)], "tabulated cores must be positive, got -2"),
        ([(2, 0)], "tabulated speed-up at 2 cores must be positive, got 0"),
        ([(2, math.nan)], "tabulated speed-up at 2 cores must be finite, got nan"),
        ([(math.inf, 2)], "tabulated cores must be finite, got inf"),
        ([(2, True)], "tabulated speed-up at 2 cores must be a number, got True"),
        ([("2", 1.5)], "tabulated cores must be a number, got '2'"),
        ([(1, 130.0)], "at 1 cores must be 1 .*got 130; divide throughputs by the one at one core"),
        ([(0.5, 0.4)], r"at 0.5 cores must be 0.5 \(s\(z\) = z up to one core\), got 0.4$"),
    ],
)
def test_bad_points_are_named(points: Any, message: str) -> None:
    with pytest.raises(cw.errors.InvalidCurve, match=message):
        cw.Tabulated(points)


# --- a curve of one's own -------------------------------------------------------------------------


@dataclass(frozen=True)
class Logarithmic(cw.SpeedUp):
    """The example of the module's docstring."""

    p: float
    family: ClassVar[str] = "logarithmic"
    bounds: ClassVar[Bounds] = {"p": (0.0, 1.0)}

    def rate_above(self, z: Floats) -> Floats:
        return np.asarray(1.0 + self.p * np.log(z))


def test_derivatives_of_an_own_curve_come_by_themselves() -> None:
    curve = Logarithmic(0.6)
    z = np.array([0.5, 1.0, 2.0, 7.5])
    assert np.allclose(curve.rate(z), [0.5, 1.0, 1 + 0.6 * math.log(2), 1 + 0.6 * math.log(7.5)], rtol=1e-15)
    assert np.allclose(curve.slope(z), [1.0, 0.6, 0.3, 0.08], rtol=1e-6)
    assert np.allclose(curve.gradient(z)[:, 0], [0.0, 0.0, math.log(2), math.log(7.5)], rtol=1e-8)
    for p in (0.0, 1.0):  # at an end of the range the difference stays within it
        assert np.allclose(Logarithmic(p).gradient(z)[:, 0], curve.gradient(z)[:, 0], rtol=1e-8)
    with pytest.raises(cw.errors.InvalidCurve, match=r"logarithmic p must lie in \[0, 1\], got 1.5"):
        Logarithmic(1.5)


def test_an_own_curve_is_solved_and_agrees_with_its_points() -> None:
    """The chords of a fine table lie below the curve by at most 0.6 (dz)^2 / 8."""
    own = Logarithmic(0.6)
    z = np.linspace(1.0, 6.0, 201)

    def solved(curve: cw.SpeedUp) -> cw.results.Solution:
        other = cw.JobClass("other", 1.0, 2.0, cw.Amdahl(0.9))
        return cw.solve(cw.System(6.0, [cw.JobClass("own", 1.5, 1.0, curve), other]), capacity=12)

    exact, table = solved(own), solved(cw.Tabulated(list(zip(z, own.rate(z), strict=True))))
    assert exact.bounds[0] <= exact.mean_cost <= exact.bounds[1] + 1e-12
    assert exact.bounds[1] - exact.bounds[0] < 2e-9
    assert 0.0 < table.mean_cost - exact.mean_cost < 1e-4
    assert np.abs(table.policy.cores - exact.policy.cores).max() < 0.2
    assert abs(exact.mean_cost - solved(Logarithmic(0.5)).mean_cost) > 1e-2


@pytest.mark.parametrize("cores", [0.7, 1.0, 1 + 1e-4, 1 + 1e-6, 1 + 1e-9])
def test_an_own_curve_is_not_refused_for_rounding_near_one_core(cores: float) -> None:
    assert system(Logarithmic(0.6), cores).cores == cores


@dataclass(frozen=True)
class Broken(cw.SpeedUp):
    """A curve whose formula is given, one parameter p that it may or may not use."""

    formula: Callable[[Floats, float], Any]
    p: float = 0.5
    family: ClassVar[str] = "broken"
    bounds: ClassVar[Bounds] = {"p": (0.0, 1.0)}

    def rate_above(self, z: Floats) -> Floats:
        answer: Floats = self.formula(z, self.p)
        return answer


RULES: list[tuple[str, Callable[[Floats, float], Any], str]] = [
    (
        "below one core",
        lambda z, p: 0.9 + p * np.log(z),
        r"s\(z\) must be z up to one core, but s\(1\) = 0.9$",
    ),
    ("decreasing", lambda z, p: z ** (-p), "not nondecreasing, it falls after z = 1"),
    (
        "falls at the end",
        lambda z, p: 1 + p * (z - 1) * (5 - z) / 4,
        "not nondecreasing, it falls after z = 3.9",
    ),
    (
        "convex in the middle",
        lambda z, p: 1 + p * np.where(z < 2, 0.1 * (z - 1), 0.1 + 0.8 * (z - 2)),
        r"not concave, its slope rises near z = (1\.99|2)",
    ),
    ("nan", lambda z, p: np.where(z > 3, np.nan, 1 + p * np.log(z)), r"s\(3\.0\d*\) is not finite"),
    ("infinite", lambda z, p: np.where(z > 3, -np.inf, z**p), r"s\(3\.0\d*\) is not finite"),
    ("wrong shape", lambda z, p: np.ones((2, *z.shape)), r"rate\(\d+ widths\) has shape \(2, \d+\), not"),
    ("unused parameter", lambda z, p: z**0.3, "its parameters cannot be identified"),
    (
        "not Lipschitz",
        lambda z, p: 1 + 0.4 * np.log(z) if p == 0.5 else 1 + np.log(z) * np.inf,
        "not Lipschitz in its parameters",
    ),
]


@pytest.mark.parametrize(
    ("formula", "message"), [rule[1:] for rule in RULES], ids=[rule[0] for rule in RULES]
)
def test_a_curve_that_breaks_a_rule_is_refused(formula: Callable[[Floats, float], Any], message: str) -> None:
    """The message names the class, the family and where the rule is broken."""
    with pytest.raises(cw.errors.InvalidCurve, match=f"^class 'batch': broken: {message}"):
        system(Broken(formula))


def test_the_rules_are_looked_at_over_the_cores_of_the_system() -> None:
    """The same formula is a curve on two cores and none on four."""
    late = Broken(lambda z, p: 1 + p * np.minimum(np.log(z), np.where(z < 2.5, 9.0, 0.0)))
    check_curve(late, 2.0)
    with pytest.raises(cw.errors.InvalidCurve, match="broken: not nondecreasing"):
        check_curve(late, 4.0)
    change = cw.Change(5.0, "batch", late)
    with pytest.raises(cw.errors.InvalidCurve, match="class 'batch': broken: not nondecreasing"):
        cw.System(4.0, system(cw.Amdahl(0.5)).classes, [change])


def test_a_rate_that_exceeds_z_is_held_at_z() -> None:
    curve = Broken(lambda z, p: z ** (1.0 + p))
    assert np.array_equal(curve.rate([0.5, 2.0, 3.0]), [0.5, 2.0, 3.0])


@dataclass(frozen=True)
class Pair(cw.SpeedUp):
    """Two parameters of which only the sum matters."""

    p: float
    q: float
    bounds: ClassVar[Bounds] = {"p": (0.0, 0.5), "q": (0.0, 0.5)}

    def rate_above(self, z: Floats) -> Floats:
        return np.asarray(z ** (self.p + self.q))


def test_parameters_that_cannot_be_told_apart_are_refused() -> None:
    with pytest.raises(
        cw.errors.InvalidCurve, match="class 'batch': Pair: its parameters cannot be identified"
    ):
        system(Pair(0.2, 0.3))


@dataclass(frozen=True)
class Misnamed(cw.SpeedUp):
    """Bounds for a parameter that is not a field."""

    p: float
    bounds: ClassVar[Bounds] = {"q": (0.0, 1.0)}

    @property
    def q(self) -> float:
        return self.p

    def __post_init__(self) -> None:
        """Leave the parameter alone."""

    def rate_above(self, z: Floats) -> Floats:
        return np.asarray(z**self.p)


class Flat(Misnamed):
    """A gradient of the wrong shape."""

    bounds: ClassVar[Bounds] = {"p": (0.0, 1.0)}

    def gradient_above(self, z: Floats) -> Floats:
        return np.zeros(z.shape)


class Infinite(Flat):
    """A gradient that is not finite."""

    def gradient_above(self, z: Floats) -> Floats:
        return np.full((*z.shape, 1), np.inf)


@pytest.mark.parametrize(
    ("curve", "message"),
    [
        (Misnamed(0.5), "Misnamed: bounds name 'q', which is not a field of the curve"),
        (Flat(0.5), r"Flat: gradient of 64 widths has shape \(64, 64\), not \(64, 1\)"),
        (Infinite(0.5), "Infinite: not Lipschitz in its parameters, ds/dθ is not finite"),
    ],
    ids=["misnamed", "shape", "infinite"],
)
def test_a_bad_gradient_is_refused(curve: cw.SpeedUp, message: str) -> None:
    with pytest.raises(cw.errors.InvalidCurve, match=f"^class 'batch': {message}"):
        system(curve)


@pytest.mark.parametrize(
    ("curve", "limit"),
    [
        (cw.Amdahl(0.9), 10.0),
        (cw.Amdahl(1.0), math.inf),
        (cw.PowerLaw(0.0), 1.0),
        (cw.PowerLaw(0.001), math.inf),  # only twice as fast with 1e300 cores
        (cw.Gustafson(0.5), math.inf),
        (cw.Usl(0.0, 0.01), 10.0 / (1.0 + 9.0 * 0.1)),  # its peak is at ten cores
        (cw.Usl(0.1, 0.0), 10.0),
        (cw.Tabulated([(2, 1.8), (4, 3.0)]), 3.0),
    ],
)
def test_the_top_speed_is_the_limit_of_the_rate(curve: cw.SpeedUp, limit: float) -> None:
    assert curve.top_speed == pytest.approx(limit, rel=1e-12)
