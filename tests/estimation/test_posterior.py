"""Curves and size rates together: against integrals by brute force, and what is known of both."""

from __future__ import annotations

import math

import numpy as np
import pytest

import corewise as cw
from corewise.estimation import posterior
from corewise.estimation.posterior import posteriors_of
from corewise.estimation.unknown_rates import estimate_unknown, with_rates
from tests.estimation.test_estimate import drawn_table, one_class, table_of

AMDAHL, POWER = cw.Amdahl(0.5), cw.PowerLaw(0.5)


@pytest.mark.parametrize(
    "curve", [cw.Amdahl(0.6), cw.PowerLaw(0.6), cw.Gustafson(0.3)], ids=lambda c: c.family
)
@pytest.mark.parametrize("scale", [2.0, 40.0, 4000.0])
def test_one_class_by_brute_force(curve: cw.SpeedUp, scale: float) -> None:
    """The double integral over p and log μ, without the profile."""
    table = drawn_table(curve, 2.0, 3, scale)
    (found,) = posteriors_of([table], [curve])
    mean, sd = found.curve.parameters["p"], found.stderrs[0]
    p = np.linspace(max(0.0, mean - 7 * sd), min(1.0, mean + 7 * sd), 301)
    ends = [
        table.left / float(table.job_time @ curve.with_parameters(p=at).rate(table.widths))
        for at in p[[0, -1]]
    ]
    reach = 8.0 / math.sqrt(table.left)
    log_rate = np.linspace(math.log(min(ends)) - reach, math.log(max(ends)) + reach, 1501)
    logs = np.empty((p.size, log_rate.size))
    for k, value in enumerate(p.tolist()):
        speed = curve.with_parameters(p=value).rate(table.widths)
        by_width = table.departures @ np.log(speed)
        logs[k] = by_width + table.left * log_rate - np.exp(log_rate) * float(table.job_time @ speed)
    weight = np.exp(logs - logs.max())
    weight /= weight.sum()
    assert mean == pytest.approx(float(weight.sum(1) @ p), abs=0.02 * sd + 1e-4)
    assert sd == pytest.approx(math.sqrt(float(weight.sum(1) @ (p - mean) ** 2)), rel=0.03, abs=1e-4)
    served = float(table.job_time @ found.curve.rate(table.widths))
    assert found.size_rate.value == pytest.approx(table.left / served, rel=1.5 / table.left)


def test_two_classes_by_brute_force(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a spread of one: the integral over p and log μ of both, and over their common mean."""
    monkeypatch.setattr(posterior, "_SPREADS", (1.0,))
    tables = [
        table_of([0.5, 2.0, 8.0], [6, 9, 5], [8.0, 5.0, 2.0]),
        table_of([4.0, 8.0], [30, 40], [10.0, 9.0]),
    ]
    found = posteriors_of(tables, [AMDAHL, POWER])
    p = np.linspace(0.0, 1.0, 101)
    x = np.linspace(-4.0, 4.0, 161)
    likely = []
    for table, curve in zip(tables, (AMDAHL, POWER), strict=True):
        speeds = np.array([curve.with_parameters(p=value).rate(table.widths) for value in p.tolist()])
        logs = (np.log(speeds) @ table.departures)[:, None] + table.left * x
        logs = logs - (speeds @ table.job_time)[:, None] * np.exp(x)
        likely.append(np.exp(logs - logs.max()))
    # Two normal variables about a mean that may be anything differ by a normal one of twice the variance;
    # the mean is kept to the range in which the classes may be, which hardly matters.
    near = np.exp(-0.25 * (x[:, None] - x) ** 2)
    for i in (0, 1):
        prior = near @ likely[1 - i].sum(0)
        weight = (likely[i] * prior).sum(1)
        mean = float(weight @ p / weight.sum())
        assert found[i].curve.parameters["p"] == pytest.approx(mean, abs=0.02)


def test_equal_size_rates_help_each_other_and_different_ones_do_not() -> None:
    """One class shows its size rate on one core; the other is wide, and could be anything by itself."""
    plain = table_of([1.0, 4.0], [4000, 4000], [2000.0, 800.0])
    wide = table_of([7.9, 8.0], [3000, 3000], [600.0, 600.0])
    (alone,) = posteriors_of([wide], [AMDAHL])
    _, helped = posteriors_of([plain, wide], [AMDAHL, AMDAHL])
    assert alone.stderrs[0] > 0.2
    assert helped.stderrs[0] < 0.8 * alone.stderrs[0]
    assert helped.size_rate.value * helped.curve.rate(8.0) == pytest.approx(5.0, rel=0.05)
    both = table_of([1.0, 8.0], [20_000, 30_000], [2000.0, 1500.0])  # a size rate of 10, and it shows
    (mine,) = posteriors_of([both], [AMDAHL])
    _, kept = posteriors_of([plain, both], [AMDAHL, AMDAHL])
    assert kept.curve.parameters["p"] == pytest.approx(mine.curve.parameters["p"], abs=0.1 * mine.stderrs[0])
    assert kept.size_rate.value == pytest.approx(mine.size_rate.value, rel=2e-3)


def test_two_parameters_stay_inside_and_a_known_curve_has_a_size_rate() -> None:
    table = drawn_table(cw.Amdahl(1.0), 2.0, 4, 20.0)
    tabulated = cw.Tabulated([(1.0, 1.0), (30.0, 30.0)])
    usl, known = posteriors_of([table, table], [cw.Usl(0.1, 0.01), tabulated])
    assert 0.0 < usl.curve.parameters["sigma"] < 0.5
    assert usl.curve.parameters["kappa"] > 0.0
    for found in (usl, known):
        served = float(table.job_time @ found.curve.rate(table.widths))
        assert found.size_rate.value == pytest.approx(table.left / served, rel=0.01)
    assert (known.curve, known.stderrs) == (tabulated, ())


# --- what a loop makes of it --------------------------------------------------------------------------


def unknown(*curves: cw.SpeedUp) -> cw.System:
    return cw.System(8.0, [cw.JobClass(f"c{i}", speedup=curve) for i, curve in enumerate(curves)])


def test_what_was_not_seen_is_guessed_and_said() -> None:
    """One width, nobody who left, nobody at all: a rate for each, so that a policy can be made."""
    tables = (
        table_of([4.0], [50], [10.0], 60),
        table_of([2.0, 4.0], [0, 0], [3.0, 1.0], 4),
        table_of([], [], [], 0),
    )
    seen = cw.Statistics(("c0", "c1", "c2"), 20.0, tables)
    system = unknown(AMDAHL, AMDAHL, AMDAHL)
    found = estimate_unknown(seen, system, system)
    assert [row.informative for row in found.values()] == [False] * 3
    assert "jobs at one core or less, or at more widths, would" in found["c0"].note
    assert found["c1"].note == found["c2"].note == "no departures"
    made = with_rates(system, found, system, seen)
    served = [10.0 * AMDAHL.rate(4.0), 3.0 * AMDAHL.rate(2.0) + 1.0 * AMDAHL.rate(4.0)]
    assert made.size_rates == pytest.approx([50.0 / served[0], 0.5 / served[1], 50.0 / sum(served)])
    assert made.arrival_rates == pytest.approx([3.0, 0.2, 0.5 / 20.0])


def test_rates_that_are_known_stay() -> None:
    table = drawn_table(cw.Amdahl(0.6), 2.0, 3)
    seen = cw.Statistics(("c0", "c1"), 10.0, (table, table))
    known = cw.System(8.0, [cw.JobClass("c0", 1.0, 2.0, AMDAHL), cw.JobClass("c1", speedup=AMDAHL)])
    found = estimate_unknown(seen, known, known)
    made = with_rates(known, found, known, seen)
    assert (made["c0"].arrival_rate, made["c0"].size_rate) == (1.0, 2.0)
    assert (
        found["c0"].parameters
        == cw.estimate(one_class(table), cw.System(8.0, [cw.JobClass("a", 1.0, 2.0, AMDAHL)]))["a"].parameters
    )
    assert found["c0"].size_rate is None
    assert found["c1"].size_rate is not None


def test_estimate_finds_missing_size_rates() -> None:
    """As if they had been named; of a curve that is known the size rate alone."""
    table = drawn_table(cw.Amdahl(0.6), 2.0, 3)
    missing, given = (cw.System(8.0, [cw.JobClass("a", None, rate, AMDAHL)]) for rate in (None, 1.0))
    found = cw.estimate(one_class(table), missing)
    assert found["a"] == cw.estimate(one_class(table), given, unknown_size_rates=True)["a"]
    assert found.applied_to(missing)["a"].size_rate == found["a"].size_rate.value  # type: ignore[union-attr]
    tabulated = cw.Tabulated([(1.0, 1.0), (30.0, 10.0)])
    row = cw.estimate(one_class(table), cw.System(8.0, [cw.JobClass("a", speedup=tabulated)]))["a"]
    assert row.size_rate is not None
    assert row.size_rate.value == pytest.approx(
        table.left / float(table.job_time @ tabulated.rate(table.widths))
    )
