"""Tables of whole cores that fall, and curves that change with progress."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import corewise as cw
from corewise.model.capped import Capped

FALLING = cw.WholeCoreTable([0, 1, 1.9, 2.7, 3.6, 3.2, 3.5])
CHANGING = cw.ByProgress([0.0, 0.25, 0.5], [cw.Amdahl(0.5), cw.PowerLaw(0.8), FALLING])


def system_of(curve: cw.SpeedUp, **given: Any) -> cw.System:
    return cw.System(8, [cw.JobClass("a", 2.0, 1.0, curve, **given)])


# --- tables of whole cores ----------------------------------------------------------------------------


def test_a_table_keeps_its_speeds_on_whole_cores() -> None:
    assert FALLING.table(8).tolist() == [0, 1, 1.9, 2.7, 3.6, 3.2, 3.5, 3.5, 3.5]
    assert FALLING.table(2).tolist() == [0, 1, 1.9]
    assert FALLING.useful_cores == 4.0


def test_on_shares_of_cores_it_is_its_majorant() -> None:
    """By hand: (3, 2.7) lies below the chord from (2, 1.9) to (4, 3.6), and nothing is above 3.6."""
    assert FALLING.rate([1.5, 2, 3, 4, 5, 6, 99]) == pytest.approx([1.45, 1.9, 2.75, 3.6, 3.6, 3.6, 3.6])


def test_another_curve_has_its_rates_as_a_table() -> None:
    curve = cw.Amdahl(0.7)
    assert np.array_equal(curve.table(5), curve.rate(np.arange(6)))
    assert np.array_equal(Capped(curve, 3.0).table(5), curve.rate([0, 1, 2, 3, 3, 3]))
    assert Capped(FALLING, 5.0).table(7).tolist() == [0, 1, 1.9, 2.7, 3.6, 3.2, 3.2, 3.2]


@pytest.mark.parametrize(
    ("speeds", "message"),
    [
        ([], r"two at least, got \[\]"),
        ([0], r"two at least, got \[0\]"),
        ("01", "two at least, got '01'"),
        (None, "two at least, got None"),
        ([0.1, 1], "speed on 0 cores must be 0, got 0.1"),
        ([0, 130, 240], "speed on 1 cores must be 1, got 130; divide throughputs by the one at one core"),
        ([0, 1, -1], r"speed on 2 cores must lie in \[0, infinity\), got -1"),
        ([0, 1, math.nan], "speed on 2 cores must be finite, got nan"),
        ([0, 1, "2"], "speed on 2 cores must be a number, got '2'"),
    ],
)
def test_bad_tables_are_named(speeds: Any, message: str) -> None:
    with pytest.raises(cw.errors.InvalidCurve, match=message):
        cw.WholeCoreTable(speeds)


def test_a_speed_above_the_number_of_cores_is_cut_and_said() -> None:
    with pytest.warns(
        cw.errors.CurveMoved, match=r"cut to the number of cores: at 2 cores 2.1 → 2 \(-4.76%\)$"
    ):
        curve = cw.WholeCoreTable([0, 1, 2.1, 2.9])
    assert curve.speeds == (0.0, 1.0, 2.0, 2.9)


# --- curves by progress -------------------------------------------------------------------------------


def test_each_part_begins_at_its_fraction() -> None:
    for fraction, k in (
        (0.0, 0),
        (0.2499, 0),
        (0.25, 1),
        (0.4999, 1),
        (0.5, 2),
        (1.0, 2),
        (-0.1, 0),
        (2.0, 2),
    ):
        assert CHANGING.at(fraction) is CHANGING.curves[k]
        assert Capped(CHANGING, 2.0).at(fraction) == Capped(CHANGING.curves[k], 2.0)
    assert cw.Amdahl(0.5).at(0.7) == cw.Amdahl(0.5)


@given(st.floats(1.0, 20.0), st.floats(0.01, 0.99))
def test_as_a_curve_it_is_that_of_a_whole_job(z: float, start: float) -> None:
    """A job of size one that holds z cores throughout: the time it takes, part by part."""
    first, second = cw.Amdahl(0.4), cw.Gustafson(0.9)
    took = start / first.rate(z) + (1.0 - start) / second.rate(z)
    assert cw.ByProgress([0.0, start], [first, second]).rate(z) == pytest.approx(1.0 / took, rel=1e-12)


def test_so_is_its_table() -> None:
    paces = [1 / curve.table(7)[1:] for curve in CHANGING.curves]
    assert CHANGING.table(7)[1:] == pytest.approx(1 / (0.25 * paces[0] + 0.25 * paces[1] + 0.5 * paces[2]))
    assert CHANGING.table(7)[0] == 0.0
    stuck = cw.ByProgress([0, 0.5], [cw.Amdahl(0.5), cw.WholeCoreTable([0, 1, 0])])
    assert stuck.table(2).tolist() == [0, 1, 0]


def test_its_average_stays() -> None:
    average = CHANGING.average(8)
    z = np.geomspace(1, 8, 1000)
    assert average.rate(z) == pytest.approx(CHANGING.rate(z), rel=2e-5)
    assert len(average.phases) == 1


@pytest.mark.parametrize(
    ("fractions", "curves", "message"),
    [
        ([], [], r"fractions must be a list.*got \[\]"),
        (0.0, [cw.Amdahl(0.5)], r"fractions must be a list.*got 0\.0"),
        ([0.0], "amdahl", "curves must be a list.*got 'amdahl'"),
        ([0.0, 0.5], [cw.Amdahl(0.5)], "got 2 fractions and 1 curves"),
        ([0.1], [cw.Amdahl(0.5)], r"must begin with 0, got 0\.1"),
        ([0.0, 0.5, 0.5], [cw.Amdahl(0.5)] * 3, r"must increase and be below 1, got 0\.5 after 0\.5"),
        ([0.0, 1.0], [cw.Amdahl(0.5)] * 2, "must be below 1, got 1$"),
        ([0.0, 1.5], [cw.Amdahl(0.5)] * 2, r"fraction must lie in \[0, 1\], got 1\.5"),
        ([0.0, math.nan], [cw.Amdahl(0.5)] * 2, "fraction must be finite, got nan"),
        ([0.0], [0.5], r"must be speed-up curves that stay as they are, got 0\.5"),
        ([0.0], [CHANGING], "must be speed-up curves that stay as they are, got ByProgress"),
    ],
)
def test_bad_curves_by_progress_are_named(fractions: Any, curves: Any, message: str) -> None:
    with pytest.raises(cw.errors.InvalidCurve, match=message):
        cw.ByProgress(fractions, curves)


def test_a_curve_of_ones_own_is_checked_within() -> None:
    class Convex(cw.SpeedUp):
        def rate_above(self, z: Any) -> Any:
            return 1.0 + 0.1 * (z - 1.0) ** 1.3

    with pytest.raises(cw.errors.InvalidCurve, match="class 'a': Convex: not concave"):
        system_of(cw.ByProgress([0.0], [Convex()]))

    class Own(cw.SpeedUp):
        def rate_above(self, z: Any) -> Any:
            return 1.0 + 0.5 * np.log(z)

    system = system_of(cw.ByProgress([0.0, 0.5], [cw.Amdahl(0.5), Own()]))
    with pytest.raises(cw.errors.InvalidCurve, match=r"a file can hold the families amdahl.*, not Own$"):
        cw.save_system(system, "never.toml")


# --- in a system --------------------------------------------------------------------------------------


def test_a_part_of_a_curve_that_is_wrong_in_a_file_is_named(tmp_path: Any) -> None:
    file = tmp_path / "system.toml"
    cw.save_system(system_of(CHANGING), file)
    file.write_text(file.read_text().replace('"power", p = 0.8', '"power", p = 8'))
    wanted = r"system.toml: class 'a': curve number 2: power p must lie in \[0, 1\], got 8$"
    with pytest.raises(cw.errors.InvalidFile, match=wanted):
        cw.load_system(file)


@pytest.mark.parametrize(
    ("ask", "verb"),
    [
        (cw.solve, "solve"),
        (lambda system: cw.evaluate(system, "equi"), "evaluate"),
        (lambda system: cw.plan(system, target=10.0), "plan"),
    ],
)
def test_exact_numbers_are_refused_for_curves_by_progress(ask: Any, verb: str) -> None:
    """They would be exact for jobs that all have the average curve, which these do not."""
    wanted = rf"^class 'a': {verb} is exact for curves that stay.*; simulate follows it$"
    with pytest.raises(cw.errors.InvalidSystem, match=wanted):
        ask(system_of(CHANGING))


def test_a_curve_by_progress_cannot_begin_at_a_time() -> None:
    with pytest.raises(cw.errors.InvalidSystem, match="change of class 'a' at 5: a curve by progress"):
        cw.System(8, [cw.JobClass("a", 2.0, 1.0, cw.Amdahl(0.5))], [cw.Change(5.0, "a", CHANGING)])


def test_policies_of_classes_go_by_the_average() -> None:
    two = [cw.JobClass("a", 1.0, 1.0, CHANGING), cw.JobClass("b", 1.0, 1.0, cw.Amdahl(0.9))]
    plain = [cw.JobClass("a", 1.0, 1.0, CHANGING.average(8)), two[1]]
    for policy in (cw.Whittle(), cw.Greedy()):
        found = [policy.on(cw.System(8, classes)).allocate([2, 2]) for classes in (two, plain)]
        assert found[0] == pytest.approx(found[1], abs=1e-2)
    assert cw.System(8, two).as_memoryless().memoryless


# --- the bound whatever the sizes ---------------------------------------------------------------------


def test_the_bound_takes_each_part_at_its_own_width() -> None:
    """Against the dual on a grid of prices and widths: max over prices of the cheapest parts' cost."""
    system = cw.System(4, [cw.JobClass("a", 1.5, 0.5, CHANGING), cw.JobClass("b", 0.4, 1.0, cw.Amdahl(0.9))])
    z = np.linspace(1.0, 4.0, 3001)
    prices = np.linspace(0.0, 3.0, 1501)[:, None]

    def least(curve: cw.SpeedUp) -> Any:
        return ((1.0 + prices * z) / curve.rate(z)).min(axis=1)

    parts = sum(share * least(curve) for share, curve in zip((0.25, 0.25, 0.5), CHANGING.curves, strict=True))
    dual = (3.0 * parts + 0.4 * least(cw.Amdahl(0.9)) - 4.0 * prices[:, 0]).max()
    bounds = cw.lower_bounds(system)
    assert list(bounds) == ["fixed widths"]
    assert bounds.best == pytest.approx(dual, rel=1e-4)
    average = cw.lower_bounds(system.as_memoryless())["fixed widths"]
    assert bounds.best < average - 1e-3  # which would not be a bound: a job may change its width on the way
