"""Curves without a family: against other optimisers, brute force, and curves that are known."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, stats

import corewise as cw
from corewise.estimation.concave import SpeedBand
from corewise.estimation.free import FreeFit, band_of
from corewise.estimation.likelihood import likely_drop
from corewise.kit.arrays import Floats
from corewise.observation.statistics import ClassStatistics
from tests.estimation.test_estimate import drawn_table, one_class, table_of

MINIMIZE: Any = optimize.minimize
KINKED = cw.Tabulated([(4.0, 4.0), (16.0, 5.0)])
SIZE_RATE = pytest.mark.parametrize("size_rate", [1.5, None], ids=["known", "unknown"])


def other_optimum(table: ClassStatistics, size_rate: float | None) -> float:
    """The largest ℓ by another way: SLSQP over slopes between widths, which fall and are not negative."""
    at = np.unique(np.append(np.maximum(table.widths, 1.0), 1.0))
    steps = np.diff(at, prepend=0.0)

    def falling(slopes: Floats) -> Floats:
        return np.asarray(slopes[:-1] - slopes[1:])

    def loss(slopes: Floats) -> float:
        rates = np.interp(table.widths, np.append(0.0, at), np.append(0.0, np.cumsum(steps * slopes)))
        rates = np.maximum(rates, 1e-9)
        return float(table.job_time @ rates - table.departures @ np.log(rates))

    rate = size_rate or 1.0
    start = rate / np.arange(1, at.size + 1)
    conditions = [{"type": "ineq", "fun": falling}]
    if size_rate is not None:
        conditions.append({"type": "eq", "fun": lambda slopes: slopes[0] - size_rate})
    found = MINIMIZE(
        loss,
        start,
        method="SLSQP",
        bounds=[(0.0, 50.0)] * at.size,
        constraints=conditions,
        options={"maxiter": 1000, "ftol": 1e-12},
    )
    return -float(found.fun)


def value(fit: FreeFit, table: ClassStatistics) -> float:
    rates = fit.best_size_rate * fit.curve.rate(table.widths)
    return float(table.departures @ np.log(rates) - table.job_time @ rates)


@SIZE_RATE
@pytest.mark.parametrize("seed", range(4))
def test_another_optimiser_finds_nothing_better(size_rate: float | None, seed: int) -> None:
    table = drawn_table(cw.Amdahl(0.8), 1.5, seed)
    fit = FreeFit.of(table, size_rate)
    other = other_optimum(table, size_rate)
    assert value(fit, table) == pytest.approx(other, abs=2e-3)
    assert value(fit, table) > other - fit.gap - 1e-6


@SIZE_RATE
@given(seed=st.integers(0, 2**32), size=st.integers(1, 40), scale=st.sampled_from([0.1, 1.0, 100.0]))
def test_the_certificate_holds_and_the_curve_is_one(
    size_rate: float | None, seed: int, size: int, scale: float
) -> None:
    """Of any table: with zero departures, zero job-time, widths close to each other."""
    rng = np.random.default_rng(seed)
    widths = np.unique(np.round(rng.uniform(0.2, 20.0, size), 2))
    job_time = scale * rng.exponential(1.0, widths.size) * (rng.random(widths.size) < 0.9)
    departures = rng.poisson(job_time * np.sqrt(widths)) + (rng.random(widths.size) < 0.2)
    table = table_of(widths, departures, job_time)
    if not np.any(table.departures[widths > 1.0] > 0) or not np.any(job_time > 0):
        return
    fit = FreeFit.of(table, size_rate)
    assert fit.gap <= 0.01
    z = np.linspace(0.1, 25.0, 400)
    speed = fit.curve.rate(z)
    assert np.all(np.diff(speed) >= -1e-9)
    assert np.all(np.diff(speed, 2) <= 1e-7)
    assert np.allclose(speed[z <= 1.0], z[z <= 1.0])


def test_many_widths_are_condensed() -> None:
    rng = np.random.default_rng(1)
    widths = np.sort(rng.uniform(0.5, 40.0, 1000))
    job_time = np.full(1000, 20.0)
    fit = FreeFit.of(table_of(widths, rng.poisson(job_time * cw.PowerLaw(0.6).rate(widths)), job_time), 1.0)
    assert fit.widths.size < 200
    assert fit.curve.rate(widths) == pytest.approx(cw.PowerLaw(0.6).rate(widths), rel=0.1)


# --- intervals --------------------------------------------------------------------------------------


@SIZE_RATE
def test_intervals_by_brute_force(size_rate: float | None) -> None:
    """Two widths above one core: every concave curve on a grid, and the best size rate for each."""
    table = table_of([1.0, 2.0, 4.0], [12, 40, 60], [10.0, 16.0, 15.0])
    fit, drop = FreeFit.of(table, size_rate), likely_drop(0.95)
    two, four = np.meshgrid(np.linspace(1.0, 2.0, 401), np.linspace(1.0, 4.0, 601), indexing="ij")
    concave = (four >= two) & ((four - two) / 2.0 <= two - 1.0 + 1e-12)
    speed = np.stack([np.ones(two.shape), two, four])
    left, spent = table.departures, table.job_time
    served = np.tensordot(spent, speed, 1)
    rate = left.sum() / served if size_rate is None else np.full(two.shape, size_rate)
    values = np.tensordot(left, np.log(rate * speed), 1) - rate * served
    values[~concave] = -np.inf
    assert values.max() == pytest.approx(value(fit, table), abs=1e-3)
    likely = values >= values.max() - drop
    for z, speeds in ((2.0, two), (4.0, four)):
        low, high = fit.interval(z, drop)
        assert (low, high) == pytest.approx((speeds[likely].min(), speeds[likely].max()), abs=0.012)
    if size_rate is None:
        by_speed = np.tensordot(left, np.log(speed), 1)[concave]
        rates = np.linspace(0.5, 2.5, 2001)
        best = [np.max(by_speed + left.sum() * np.log(at) - at * served[concave]) for at in rates]
        ends = rates[np.array(best) >= values.max() - drop][[0, -1]]
        assert fit.size_rate_interval(drop) == pytest.approx(ends, abs=0.01)


@given(seed=st.integers(0, 2**32))
def test_a_concave_curve_within_the_intervals_is_within_the_band(seed: int) -> None:
    rng = np.random.default_rng(seed)
    slopes = np.sort(rng.uniform(0.0, 1.0, 20))[::-1]
    at = np.concatenate([[1.0], 1.0 + np.cumsum(rng.exponential(1.0, 20))])
    speed = np.concatenate([[1.0], 1.0 + np.cumsum(slopes * np.diff(at))])
    cores = np.sort(rng.uniform(1.0, at[-1], 4))
    truth = np.interp(cores, at, speed)
    band = SpeedBand(
        0.95,
        tuple(cores.tolist()),
        tuple((truth * rng.uniform(0.7, 1.0, 4)).tolist()),
        tuple((truth * rng.uniform(1.0, 1.4, 4)).tolist()),
    )
    z = np.linspace(0.1, 1.5 * at[-1], 200)
    low, high = band.at(z)
    curve = np.where(z <= 1.0, z, np.interp(z, at, speed))
    assert np.all(low <= curve + 1e-9)
    assert np.all(curve <= high + 1e-9)


@pytest.mark.statistical
def test_bands_hold_the_whole_curve() -> None:
    """Nominal 95 %, of 30 bands: fewer than 25 have a probability below 0.5 % if the promise is kept.

    As a negative control, bands at the level 0.5 without the correction for several widths must fail.
    """
    runs, least = 30, 25
    assert stats.binom.cdf(least - 1, runs, 0.95) < 0.005
    held = narrow = 0
    z = np.geomspace(1.0, 16.0, 60)
    for seed in range(runs):
        truth = KINKED if seed % 2 else cw.Amdahl(0.8)
        system = cw.System(16.0, [cw.JobClass("a", 1.0, 1.0, truth)]).at_load(0.5)
        fit = FreeFit.of(cw.simulate(system, cw.Equi(), departures=800, rng=seed).statistics["a"], 1.0)
        low, high = band_of(fit, 0.95).at(z)
        speed = truth.rate(z)
        held += bool(np.all((low <= speed + 1e-9) & (speed <= high + 1e-9)))
        ends = [fit.interval(width, likely_drop(0.5)) for width in (2.0, 4.0, 8.0)]
        at = truth.rate(np.array([2.0, 4.0, 8.0])).tolist()
        narrow += all(least <= s <= most for s, (least, most) in zip(at, ends, strict=True))
    assert held >= least
    assert narrow < least


# --- as an estimate ---------------------------------------------------------------------------------


def seen_of(truth: cw.SpeedUp, departures: int, seed: int = 1) -> tuple[cw.System, cw.Statistics]:
    system = cw.System(16.0, [cw.JobClass("a", 1.0, 1.0, truth)]).at_load(0.5)
    return system, cw.simulate(system, cw.Equi(), departures=departures, rng=seed).statistics


def test_a_free_curve_is_used_like_any_other(tmp_path: Path) -> None:
    system, seen = seen_of(KINKED, 20_000)
    found = cw.estimate(seen, system, family="free")
    row = found["a"]
    assert (row.family, row.certified, dict(row.parameters)) == ("free", True, {})
    assert isinstance(row.curve, cw.Tabulated)
    assert row.curve.rate([4.0, 16.0]) == pytest.approx([4.0, 5.0], rel=0.05)
    assert row.band is not None
    assert "flat beyond 16 cores" in str(row)
    applied = found.applied_to(system)
    cw.save_system(applied, tmp_path / "found.toml")
    assert cw.load_system(str(tmp_path / "found.toml")) == applied
    assert cw.solve(applied).mean_jobs == pytest.approx(cw.solve(system).mean_jobs, rel=0.1)


def test_the_data_choose_a_free_curve_where_no_family_is_right_and_only_there() -> None:
    system, seen = seen_of(KINKED, 20_000)
    chosen = cw.estimate(seen, system, family="auto")["a"]
    assert (chosen.family, chosen.candidates[0].family) == ("free", "free")
    assert math.fsum(candidate.weight for candidate in chosen.candidates) == pytest.approx(1.0)
    system, seen = seen_of(cw.Amdahl(0.8), 20_000)
    chosen = cw.estimate(seen, system, family="auto")["a"]
    assert chosen.family == "amdahl"
    assert "free" in [candidate.family for candidate in chosen.candidates]


def test_without_one_core_the_product_is_known_and_it_is_said() -> None:
    table = table_of([2.0, 4.0, 8.0], [150, 240, 300], [100.0, 100.0, 100.0])
    system = cw.System(16.0, [cw.JobClass("a", 1.0, 1.0, cw.Amdahl(0.5))])
    row = cw.estimate(one_class(table), system, family="free", unknown_size_rates=True)["a"]
    assert row.size_rate is not None
    assert row.curve is not None
    assert row.size_rate.value * row.curve.rate(table.widths) == pytest.approx([1.5, 2.4, 3.0], rel=1e-3)
    assert row.curve.rate(2.0) == pytest.approx(2.0)
    assert "the product of size rate and curve" in row.note


@pytest.mark.parametrize(
    ("table", "why"),
    [
        (table_of([2.0], [0], [3.0]), "no departures"),
        (table_of([0.5, 2.0], [3, 0], [3.0, 1.0]), "no job left while it held more than one core"),
    ],
)
def test_no_information(table: ClassStatistics, why: str) -> None:
    system = cw.System(16.0, [cw.JobClass("a", 1.0, 1.0, cw.Amdahl(0.5))])
    row = cw.estimate(one_class(table), system, family="free")["a"]
    assert (row.informative, row.note, row.curve) == (False, why, None)


# --- measured throughputs -----------------------------------------------------------------------------


def test_measured_throughputs_on_a_concave_curve_are_met() -> None:
    z = np.array([0.5, 1.0, 2.0, 4.0, 8.0, 16.0])
    fit = cw.fit_curve(z, 20.0 * KINKED.rate(z), family="free")
    assert (fit.family, fit.parameters) == ("free", {})
    assert fit.error < 1e-9
    assert fit.scale == pytest.approx(20.0)
    assert fit.curve.rate(z) == pytest.approx(KINKED.rate(z))


@pytest.mark.parametrize("seed", range(3))
def test_another_optimiser_finds_no_less_squares(seed: int) -> None:
    rng = np.random.default_rng(seed)
    z = np.array([1.0, 2.0, 3.0, 5.0, 8.0, 8.0, 12.0])
    y = cw.PowerLaw(0.7).rate(z) * np.exp(0.2 * rng.standard_normal(z.size))
    fit = cw.fit_curve(z, y, family="free")
    at = np.unique(z)
    steps = np.diff(at, prepend=0.0)

    def loss(slopes: Floats) -> float:
        rates = np.interp(z, at, np.cumsum(steps * slopes))
        return float(np.sum((np.log(y) - np.log(np.maximum(rates, 1e-9))) ** 2))

    found = MINIMIZE(
        loss,
        1.0 / np.arange(1, at.size + 1),
        method="SLSQP",
        bounds=[(0.0, 10.0)] * at.size,
        constraints=[{"type": "ineq", "fun": lambda slopes: slopes[:-1] - slopes[1:]}],
        options={"maxiter": 1000, "ftol": 1e-14},
    )
    assert fit.error**2 * z.size == pytest.approx(found.fun, abs=1e-6)


def test_family_and_families_exclude_each_other() -> None:
    with pytest.raises(cw.errors.InvalidInput, match="not both"):
        cw.fit_curve([1, 2], [1.0, 1.5], family="free", families=["amdahl"])
    with pytest.raises(cw.errors.InvalidInput, match="unknown family 'fre'; did you mean 'free'"):
        cw.fit_curve([1, 2], [1.0, 1.5], family="fre")
