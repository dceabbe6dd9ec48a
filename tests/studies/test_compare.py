"""Policies side by side."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest

import corewise as cw
from corewise.studies import compare as comparing
from corewise.studies.means import simulated_mean


@pytest.fixture(scope="module")
def example() -> cw.results.Comparison:
    return cw.compare(cw.load_system("paper:2"))


def test_the_optimum_comes_first_and_nothing_beats_it(example: cw.results.Comparison) -> None:
    assert example.rows[0].name == "optimal"
    assert example.rows[0].gap == 0.0
    for row in example.rows:
        assert row.stable
        assert row.gap is not None
        assert row.gap >= -1e-8
        assert row.mean_cost is not None
        assert example.lower_bound is not None
        assert row.mean_cost >= example.lower_bound


def test_the_usual_policies_are_there(example: cw.results.Comparison) -> None:
    names = [row.name for row in example.rows]
    assert names == ["optimal", "equi", "greedy", "whittle", "priority:one,two", "priority:two,one"]


def test_rows_are_what_evaluate_and_solve_say(example: cw.results.Comparison) -> None:
    system = cw.load_system("paper:2")
    best = cw.solve(system)
    assert example.rows[0].mean_jobs == pytest.approx(best.mean_jobs, rel=1e-9)
    equi = cw.evaluate(system, cw.Equi())
    row = example.rows[1]
    assert (row.mean_jobs, row.mean_response_time, row.mean_cost) == (
        equi.mean_jobs,
        equi.mean_response_time,
        equi.mean_cost,
    )
    assert row.gap == pytest.approx(equi.mean_cost / best.mean_cost - 1.0, abs=1e-9)
    assert example.lower_bound == cw.lower_bound(system)


def test_equal_classes_make_equi_optimal() -> None:
    twins = cw.System(6, [cw.JobClass(name, 1.5, 1.0, cw.Amdahl(0.6)) for name in ("a", "b")])
    comparison = cw.compare(twins, [cw.Equi()])
    assert comparison.rows[1].gap == pytest.approx(0.0, abs=1e-8)


def test_an_unstable_policy_is_a_row_without_numbers() -> None:
    # Serial jobs at the head of the line hold all eight cores and use one each: there is at least one of them
    # for a share 1 - exp(-1.5) = 0.78 of the time, so the others get fewer than 8 * 0.22 cores, and need 3.3.
    system = cw.System(
        8, [cw.JobClass("serial", 1.5, 1.0, cw.Amdahl(0.0)), cw.JobClass("wide", 3.3, 1.0, cw.Amdahl(1.0))]
    )
    assert system.load == pytest.approx(0.6)
    comparison = cw.compare(system)
    row = next(row for row in comparison.rows if row.name == "priority:serial,wide")
    assert not row.stable
    assert (row.mean_jobs, row.mean_response_time, row.mean_cost, row.gap) == (None, None, None, None)
    assert "unstable" in str(comparison)
    assert all(other.stable for other in comparison.rows if other is not row)


def test_cost_not_number_decides_with_weights() -> None:
    system = cw.System(
        4,
        [
            cw.JobClass("dear", 1.0, 1.0, cw.Amdahl(0.5), weight=10.0),
            cw.JobClass("cheap", 1.0, 1.0, cw.Amdahl(0.9)),
        ],
    )
    comparison = cw.compare(system)
    best = comparison.rows[0]
    assert best.mean_cost is not None
    for row in comparison.rows[1:]:
        assert row.mean_cost is not None
        assert row.mean_cost >= best.mean_cost * (1 - 1e-8)
        assert row.gap == pytest.approx(row.mean_cost / best.mean_cost - 1.0, abs=1e-12)


@pytest.mark.parametrize(("classes", "priorities"), [(1, 0), (2, 2), (3, 0)])
def test_priority_is_shown_where_orders_are_few(classes: int, priorities: int) -> None:
    jobs = [cw.JobClass(f"c{i}", 0.2, 1.0, cw.Amdahl(i / 4)) for i in range(classes)]
    comparison = cw.compare(cw.System(4, jobs), capacity=4)
    assert sum(row.name.startswith("priority:") for row in comparison.rows) == priorities


def test_policies_can_be_chosen() -> None:
    comparison = cw.compare(cw.load_system("paper:2"), [cw.Fixed([0.5, 0.5]), cw.Whittle()], capacity=20)
    assert [row.name for row in comparison.rows] == ["optimal", "fixed:0.5,0.5", "whittle"]


def test_the_table_names_every_policy_and_the_bound(example: cw.results.Comparison) -> None:
    text = str(example)
    for row in example.rows:
        assert row.name in text
    assert f"{example.lower_bound:.8g}" in text
    assert max(len(line) for line in text.splitlines()) <= 80


def test_bad_calls_raise_our_own_errors() -> None:
    system = cw.load_system("paper:2")
    with pytest.raises(cw.errors.InvalidInput, match="'paper:2'"):
        cw.compare("paper:2")  # type: ignore[arg-type]
    with pytest.raises(cw.errors.InvalidPolicy, match="list of policies"):
        cw.compare(system, cw.Equi())  # type: ignore[arg-type]
    with pytest.raises(cw.errors.InvalidPolicy, match="unknown policy 'equally'"):
        cw.compare(system, ["equally"])
    with pytest.raises(cw.errors.InvalidPolicy, match="3 shares"):
        cw.compare(system, [cw.Fixed([0.2, 0.3, 0.5])])
    with pytest.raises(cw.errors.UnstableSystem, match="load"):
        cw.compare(cw.System(1, [cw.JobClass("a", 2.0, 1.0, cw.Amdahl(0.5))]))


def test_results_are_frozen(example: cw.results.Comparison) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        example.lower_bound = math.inf  # type: ignore[misc]


def test_the_certified_gap_is_that_of_the_upper_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the interval of the cost over the lower bound, however wide; the mean is not certain."""
    system = cw.System(4, [cw.JobClass(f"c{i}", 0.4, 1.0, cw.Amdahl(0.2 * i)) for i in range(4)])

    def wide(*asked: Any, **how: Any) -> Any:
        found = simulated_mean(*asked, **how)
        return dataclasses.replace(found, cost_interval=(0.9 * found.mean_cost, 1.5 * found.mean_cost))

    monkeypatch.setattr(comparing, "simulated_mean", wide)
    found = cw.compare(system, [cw.Equi()], simulate=True, events=50_000, rng=1)
    (row,) = found.rows
    assert row.mean_cost is not None
    assert found.lower_bound is not None
    assert row.cost_interval == (0.9 * row.mean_cost, 1.5 * row.mean_cost)
    assert row.gap is None  # it is not known
    upper, mean = (factor * row.mean_cost / found.lower_bound - 1.0 for factor in (1.5, 1.0))
    assert row.certified_gap == pytest.approx(upper)
    assert upper > mean + 0.4
