"""Job classes and systems: what is refused, in which words, and what a system knows of itself."""

from __future__ import annotations

import math
import re
from dataclasses import FrozenInstanceError, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import corewise as cw
from corewise.errors import InvalidInput, InvalidSystem

CURVE = cw.Amdahl(0.5)
HUGE = 10**5000  # more digits than Python prints

BAD_NUMBERS: list[tuple[Any, str]] = [
    (-1, "must be positive, got -1"),
    (0, "must be positive, got 0"),
    (-0.0, "must be positive, got -0.0"),
    (math.nan, "must be finite, got nan"),
    (math.inf, "must be finite, got inf"),
    (-math.inf, "must be finite, got -inf"),
    (True, "must be a number, got True"),
    (np.bool_(True), "must be a number, got np.True_"),
    ("2", "must be a number, got '2'"),
    (None, "must be a number, got None"),
    (1j, "must be a number, got 1j"),
    ([2], "must be a number, got [2]"),
    (np.array([2.0]), "must be a number, got array([2.])"),
    (10**400, "must be finite, got 1000"),
]
IDS = [repr(value)[:20] for value, _ in BAD_NUMBERS]


def two(**values: Any) -> cw.System:
    """Two classes, with some fields of the second replaced."""
    second = cw.JobClass("second", 1.0, 2.0, cw.PowerLaw(0.7), 3.0)
    return cw.System(4, [cw.JobClass("first", 0.5, 1.0, CURVE), replace(second, **values)])


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        (field, value, message)
        for field in ("arrival_rate", "size_rate", "weight")
        for value, message in BAD_NUMBERS
        if field == "weight" or value is not None  # None: a rate that is not known
    ],
)
def test_a_bad_number_is_named_with_its_class(field: str, value: object, message: str) -> None:
    with pytest.raises(cw.errors.InvalidSystem) as error:
        two(**{field: value})
    assert f"class 'second': {field} {message}" in str(error.value)


@pytest.mark.parametrize(("value", "message"), BAD_NUMBERS, ids=IDS)
def test_a_bad_number_of_cores_is_named(value: Any, message: str) -> None:
    with pytest.raises(cw.errors.InvalidSystem) as error:
        cw.System(value, two().classes)
    assert f"cores {message}" in str(error.value)


@pytest.mark.parametrize("field", ["arrival_rate", "size_rate", "weight"])
def test_an_integer_too_long_to_print_is_refused_all_the_same(field: str) -> None:
    with pytest.raises(cw.errors.InvalidSystem, match=f"class 'second': {field} must be finite"):
        two(**{field: HUGE})


def test_any_real_number_will_do() -> None:
    """Integers, fractions and NumPy's numbers become floats."""
    job_class = cw.JobClass("one", np.int64(2), Fraction(1, 4), CURVE, np.float32(0.5))  # type: ignore[arg-type]
    assert (job_class.arrival_rate, job_class.size_rate, job_class.weight) == (2.0, 0.25, 0.5)
    assert all(type(v) is float for v in (job_class.arrival_rate, job_class.size_rate, job_class.weight))
    assert type(cw.System(3, [job_class]).cores) is float


@pytest.mark.parametrize("name", ["", "  ", None, 5, b"one", ["one"]])
def test_a_class_needs_a_name(name: Any) -> None:
    with pytest.raises(cw.errors.InvalidSystem) as error:
        two(name=name)
    assert str(error.value) == f"a class needs a name that is not empty, got {name!r}"


@pytest.mark.parametrize("name", ["a,b", "a:b", "a\nb", "a\rb", "a\tb", " a", "a "])
def test_a_name_keeps_clear_of_the_marks_of_the_command_line(name: str) -> None:
    with pytest.raises(cw.errors.InvalidSystem) as error:
        two(name=name)
    assert repr(name) in str(error.value)
    assert "comma" in str(error.value)


def test_names_differ() -> None:
    with pytest.raises(cw.errors.InvalidSystem, match="class name 'first' is used twice"):
        two(name="first")


@pytest.mark.parametrize("speedup", [0.5, None, "amdahl", cw.Amdahl, {"p": 0.5}])
def test_a_class_needs_a_curve(speedup: object) -> None:
    with pytest.raises(cw.errors.InvalidSystem) as error:
        two(speedup=speedup)
    assert str(error.value) == f"class 'second': speedup must be a SpeedUp curve, got {speedup!r}"


@pytest.mark.parametrize(
    ("classes", "message"),
    [
        ([], "a system needs at least one class, got none"),
        (iter(()), "a system needs at least one class, got none"),
        ("ab", "classes must be a list of JobClass, got 'ab'"),
        (None, "classes must be a list of JobClass, got None"),
        (7, "classes must be a list of JobClass, got 7"),
        (two().classes[0], "classes must be a list of JobClass, got JobClass(name='first'"),
        ([CURVE], "classes must be JobClass objects, got Amdahl(p=0.5)"),
        (["first"], "classes must be JobClass objects, got 'first'"),
        ([two().classes[0], None], "classes must be JobClass objects, got None"),
    ],
    ids=["none", "empty", "text", "None", "number", "bare", "curve", "names", "second"],
)
def test_bad_classes_are_refused(classes: Any, message: str) -> None:
    with pytest.raises(cw.errors.InvalidSystem) as error:
        cw.System(4, classes)
    assert message in str(error.value)


# --- what a system knows --------------------------------------------------------------------------


def test_the_load_is_the_work_per_core() -> None:
    system = two()
    assert [job_class.work_rate for job_class in system.classes] == [0.5, 0.5]
    assert system.load == 0.25
    assert cw.System(0.5, system.classes).load == 2.0
    assert two(arrival_rate=1e-90).load == pytest.approx(0.125, rel=1e-15)


def test_vectors_are_in_the_order_of_the_classes() -> None:
    system = two()
    assert system.names == ["first", "second"]
    assert system.arrival_rates.tolist() == [0.5, 1.0]
    assert system.size_rates.tolist() == [1.0, 2.0]
    assert system.weights.tolist() == [1.0, 3.0]
    assert system["second"].speedup == cw.PowerLaw(0.7)
    assert str(system).splitlines()[0] == "4 cores, 2 classes, load 0.25"
    assert str(system).splitlines()[2] == "  second: λ = 1, μ = 2, power(p=0.7), weight 3"


@pytest.mark.parametrize(("rate", "load"), [(7.0, "1"), (7.5, "1.0625"), (19.0, "2.5")])
def test_an_unstable_system_says_its_load(rate: float, load: str) -> None:
    system = two(arrival_rate=rate)
    with pytest.raises(cw.errors.UnstableSystem) as error:
        system.require_stable()
    assert f"the load is {load}, and it must be below 1" in str(error.value)
    assert f"work for {0.5 + rate / 2:g} cores arrives, and there are 4" in str(error.value)


def test_a_load_just_below_one_is_stable() -> None:
    two(arrival_rate=7.0 * (1 - 1e-12)).require_stable()


@pytest.mark.parametrize(
    ("arrival", "size"), [(1e101, 1.0), (1e-101, 1.0), (1.0, 1e101), (1.0, 1e-101), (1.0, 1e99)]
)
def test_rates_out_of_scale_are_refused(arrival: float, size: float) -> None:
    """Their sums and products would overflow; with 40 cores 1e99 is too fast as well."""
    job_class = cw.JobClass("second", arrival, size, CURVE)
    system = cw.System(40, [two().classes[0], job_class])
    with pytest.raises(cw.errors.InvalidSystem) as error:
        cw.evaluate(system, cw.Equi(), capacity=2)
    assert f"class 'second': arrival_rate {arrival:g} and size_rate {size:g} are out of scale" in str(
        error.value
    )


def test_a_load_of_very_large_rates_is_a_number() -> None:
    classes = [cw.JobClass(name, 1e99, 1.0, CURVE) for name in ("first", "second")]
    with pytest.raises(cw.errors.UnstableSystem, match=r"the load is 5e\+98"):
        cw.System(4, classes).require_stable()


def test_a_system_is_a_value() -> None:
    system = two()
    assert system == two()
    assert hash(system) == hash(two())
    assert system != two(weight=4.0)
    with pytest.raises(FrozenInstanceError):
        system.cores = 5.0  # type: ignore[misc]


@pytest.mark.parametrize(
    ("name", "hint"),
    [("secund", "did you mean 'second'?"), ("x", "known: first, second"), (5, "known: first")],
)
def test_an_unknown_class_is_answered_with_the_nearest(name: Any, hint: str) -> None:
    with pytest.raises(cw.errors.InvalidSystem) as error:
        two()[name]
    assert str(error.value).startswith(f"unknown class {name!r}; {hint}")


def test_with_curves_replaces_those_named_and_nothing_else() -> None:
    system = cw.System(4, two().classes, [cw.Change(9.0, "first", cw.Amdahl(0.1))])
    other = system.with_curves({"second": cw.Amdahl(0.2)})
    assert other["second"] == replace(system["second"], speedup=cw.Amdahl(0.2))
    assert other["first"] is system["first"] or other["first"] == system["first"]
    assert other.changes == system.changes
    assert system["second"].speedup == cw.PowerLaw(0.7)
    assert system.with_curves({}) == system
    assert other.with_curves({"second": other["second"].speedup}) is other
    with pytest.raises(cw.errors.InvalidSystem, match="unknown class 'secnd'; did you mean 'second'"):
        system.with_curves({"secnd": CURVE})
    with pytest.raises(
        cw.errors.InvalidSystem, match=r"class 'second': speedup must be a SpeedUp curve, got 0\.3"
    ):
        system.with_curves({"second": 0.3})  # type: ignore[dict-item]


@pytest.mark.parametrize("curves", [["second"], 5, None])
def test_with_curves_needs_a_mapping(curves: Any) -> None:
    with pytest.raises(cw.errors.InvalidSystem):
        two().with_curves(curves)


# --- changes --------------------------------------------------------------------------------------


def test_changes_are_kept_in_order_of_time() -> None:
    changes = [cw.Change(time, name, CURVE) for time, name in ((1, "first"), (1, "second"), (2.5, "first"))]
    assert cw.System(4, two().classes, changes).changes == tuple(changes)
    assert cw.System(4, two().classes, iter(changes)).changes == tuple(changes)
    with pytest.raises(cw.errors.InvalidSystem, match=r"changes must be in order of time, got 1 after 2\.5"):
        cw.System(4, two().classes, changes[::-1])


def test_a_change_of_an_unknown_class_suggests_the_nearest() -> None:
    with pytest.raises(cw.errors.InvalidSystem, match="unknown class 'frist'; did you mean 'first'"):
        cw.System(4, two().classes, [cw.Change(1.0, "frist", CURVE)])


@pytest.mark.parametrize(("time", "message"), BAD_NUMBERS, ids=IDS)
def test_the_time_of_a_change_is_a_positive_number(time: Any, message: str) -> None:
    with pytest.raises(cw.errors.InvalidSystem) as error:
        cw.Change(time, "first", CURVE)
    assert f"change of class 'first': time {message}" in str(error.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (5, "changes must be a list of Change, got 5"),
        ("first", "changes must be a list of Change, got 'first'"),
        (cw.Change(1.0, "first", CURVE), "changes must be a list of Change, got Change(time=1.0"),
        ([CURVE], "changes must be Change objects, got Amdahl(p=0.5)"),
    ],
    ids=["number", "text", "bare", "curve"],
)
def test_bad_changes_are_refused(changes: Any, message: str) -> None:
    with pytest.raises(cw.errors.InvalidSystem) as error:
        cw.System(4, two().classes, changes)
    assert message in str(error.value)


def test_a_change_needs_a_curve() -> None:
    with pytest.raises(
        cw.errors.InvalidSystem, match="change of class 'first': speedup must be a SpeedUp curve"
    ):
        cw.Change(1.0, "first", 0.5)  # type: ignore[arg-type]


def test_an_unknown_arrival_rate_is_refused_where_it_is_needed() -> None:
    system = two(arrival_rate=None)
    assert math.isnan(system.load)
    assert math.isnan(system.arrival_rates[1])
    assert "λ = not known" in str(system)
    for use in (cw.solve, cw.lower_bound, lambda s: cw.simulate(s, cw.Equi(), departures=1)):
        with pytest.raises(cw.errors.InvalidSystem, match="class 'second': its arrival_rate is not known"):
            use(system)
    with pytest.raises(cw.errors.InvalidSystem, match="not known"):
        cw.evaluate(system, cw.Equi(), capacity=5)


def test_the_unit_of_time_survives_everything_that_makes_a_system_of_another() -> None:
    classes = [cw.JobClass("a", 1.0, 2.0, cw.Amdahl(0.5)), cw.JobClass("b", 1.0, 3.0, cw.Amdahl(0.2))]
    system = cw.System(4, classes, [cw.Change(5.0, "a", cw.Amdahl(0.9))], unit="hours")
    run = cw.simulate(system.regime(0.0), "equi", departures=200, rng=1)
    made = {
        "at_load": system.at_load(0.3),
        "with_curves": system.with_curves({"a": cw.Amdahl(0.1)}),
        "without_rates": system.without_rates(),
        "as_memoryless": system.as_memoryless(),
        "at": system.at(6.0),
        "regime": system.regime(6.0),
        "applied_to": cw.estimate(run.statistics, system).applied_to(system),
        "algorithm": cw.algorithm_1b(system, departures=100, steps=1).system,
        "plan": cw.plan(system.regime(0.0), target=0.6).system,
    }
    assert {name: one.unit for name, one in made.items()} == dict.fromkeys(made, "hours")
    assert run.unit == "hours"
    assert "load 0.2083, rates per hour" in str(system)
    assert cw.System(4, classes) != cw.System(4, classes, unit="hours")


@pytest.mark.parametrize(("unit", "hint"), [("hour", "; did you mean 'hours'"), (3600, ""), ("", "")])
def test_an_unknown_unit_is_refused(unit: object, hint: str) -> None:
    with pytest.raises(InvalidInput, match=re.escape(f"unknown unit of time {unit!r}{hint}")):
        cw.System(4, [cw.JobClass("a", 1.0, 2.0, cw.Amdahl(0.5))], unit=unit)  # type: ignore[arg-type]


def test_a_class_needs_its_curve_but_no_rates() -> None:
    known = cw.JobClass("a", speedup=cw.Amdahl(0.5))
    assert known == cw.JobClass("a", None, None, cw.Amdahl(0.5))
    with pytest.raises(InvalidSystem, match="class 'a': speedup must be a SpeedUp curve, got None"):
        cw.JobClass("a", 1.0, 2.0)
