"""Curves from measured throughputs: the library function, the verb and the figure."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest
import typer
from scipy.optimize import curve_fit, minimize_scalar
from scipy.stats import chi2
from typer.testing import CliRunner

import corewise as cw
from corewise.cli.fit import fit as fit_verb
from corewise.estimation.throughput.measured import CurveFit, fit_curve, groups_alike
from corewise.kit.arrays import Floats
from corewise.plots.measured import measured_curves

pytestmark = pytest.mark.slow

DATA = Path(__file__).parents[3] / "shared" / "data"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="the measured curves are not here")

WIDTHS = np.array([1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0, 48.0, 64.0])


def _free_usl(z: Floats, sigma: Floats, kappa: Floats) -> Floats:
    return z / (1.0 + sigma * (z - 1.0) + kappa * z * (z - 1.0))


def _held_usl(z: Floats, sigma: Floats, kappa: Floats) -> Floats:
    """The law at its peak from there on: its maximum over widths up to z, by the formula for where it is."""
    peak = np.sqrt((1.0 - sigma) / np.maximum(kappa, 1e-300))
    return _free_usl(np.minimum(z, np.maximum(peak, 1.0)), sigma, kappa)


# The formulas anew, with parameters as columns so that a whole grid of them is one array.
FORMULAS: dict[str, Callable[..., Floats]] = {
    "amdahl": lambda z, p: 1.0 / (1.0 - p + p / z),
    "power": lambda z, p: z**p,
    "gustafson": lambda z, p: 1.0 - p + p * z,
    "usl": _held_usl,
}


def naive_error(family: str, z: Floats, y: Floats, *parameters: Any) -> Floats:
    """Root mean square residual of log y at the best scale, for a column of parameters."""
    s = np.where(z <= 1.0, z, FORMULAS[family](np.maximum(z, 1.0), *parameters))
    gap = np.log(y) - np.log(s)
    return np.asarray(np.std(gap, axis=-1))


def by_family(fit: CurveFit) -> dict[str, Any]:
    return {candidate.family: candidate for candidate in fit.candidates}


# --- recovery ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "widths", [WIDTHS, WIDTHS[1:], np.append(WIDTHS, 0.5)], ids=["from 1", "from 2", "0.5"]
)
@pytest.mark.parametrize(
    ("curve", "family"),
    [
        *((cw.Amdahl(p), "amdahl") for p in (0.01, 0.3, 0.95, 0.9999)),
        *((cw.PowerLaw(p), "power") for p in (0.01, 0.5, 0.97)),
        *((cw.Gustafson(p), "gustafson") for p in (0.001, 0.4, 0.98)),
        *((cw.Usl(s, k), "usl") for s, k in ((0.05, 1e-3), (0.0, 0.02), (0.3, 1e-5), (0.5, 0.02))),
        (cw.Usl(0.1, 0.0), "amdahl"),  # the same curve, with fewer parameters
        (cw.PowerLaw(0.0), "amdahl"),
        (cw.Gustafson(1.0), "amdahl"),
    ],
    ids=repr,
)
def test_noise_free_curves_come_back(curve: cw.SpeedUp, family: str, widths: Floats) -> None:
    fit = fit_curve(widths, 7.0 * curve.rate(widths))
    assert fit.family == family
    assert fit.error < 1e-9
    assert fit.scale == pytest.approx(7.0, rel=1e-8)
    np.testing.assert_allclose(fit.curve.rate(WIDTHS), curve.rate(WIDTHS), rtol=1e-9)
    if family == curve.family:
        assert fit.parameters == pytest.approx(curve.parameters, rel=1e-6, abs=1e-9)
        at_zero = [name for name, value in curve.parameters.items() if value == 0.0]
        assert [fit.parameters[name] for name in at_zero] == [0.0] * len(at_zero)  # an edge is met exactly
    assert by_family(fit)[curve.family].error < 1e-9


def standardised(curve: cw.SpeedUp, noise: float, assumed: float, fits: int, seed: int) -> float:
    """Sum over seeded fits of the squared error of the estimate, in units of its covariance.

    The covariance is that of least squares with the scale as a further parameter, assumed² (J'J)⁻¹, with J by
    differences of the formulas above at the truth. It is close to exact for small noise.
    """
    truth = np.array(list(curve.parameters.values()))
    steps = 1e-6 * truth * np.eye(truth.size)
    columns = [
        np.log(FORMULAS[curve.family](WIDTHS, *(truth + h)) / FORMULAS[curve.family](WIDTHS, *(truth - h)))
        / (2.0 * h.sum())
        for h in steps
    ]
    jacobian = np.stack([np.ones(WIDTHS.size), *columns], axis=1)
    precision = np.linalg.inv(np.linalg.inv(jacobian.T @ jacobian)[1:, 1:]) / assumed**2
    rng = np.random.default_rng(seed)
    total = 0.0
    for _ in range(fits):
        y = 3.0 * curve.rate(WIDTHS) * np.exp(noise * rng.standard_normal(WIDTHS.size))
        found = fit_curve(WIDTHS, y, families=[curve.family])
        off = np.array(list(found.parameters.values())) - truth
        total += float(off @ precision @ off)
    return total


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("curve", "fits"),
    [(cw.Amdahl(0.9), 30), (cw.PowerLaw(0.6), 30), (cw.Gustafson(0.3), 30), (cw.Usl(0.1, 1e-3), 10)],
    ids=repr,
)
def test_noisy_estimates_scatter_as_least_squares_must(curve: cw.SpeedUp, fits: int) -> None:
    """The sum is χ² with one degree of freedom for each parameter and fit; a false alarm has chance 1e-6."""
    freedom = fits * len(curve.parameters)
    low, high = float(chi2.ppf(5e-7, freedom)), float(chi2.isf(5e-7, freedom))
    assert low < standardised(curve, 0.005, 0.005, fits, seed=11) < high
    # Negative control: three times the noise that is assumed.
    assert not low < standardised(curve, 0.015, 0.005, fits, seed=11) < high


# --- the optimum ------------------------------------------------------------------------------


def datasets() -> list[tuple[str, Floats, Floats]]:
    rng = np.random.default_rng(5)
    noise = rng.standard_normal
    few = np.array([2.0, 5.0, 9.0, 30.0])
    repeated = np.repeat(WIDTHS[::2], rng.integers(1, 5, 6))
    usl = cw.Usl(0.04, 5e-4).rate
    narrow = (
        np.array([1.0, 1.1, 1.2, 1.3, 37.3, 39.4, 51.2, 105.0, 108.4, 283.2, 471.2, 697.4]),
        np.array([0.993, 1.052, 1.155, 1.179, 2.72, 2.71, 2.821, 2.88, 2.927, 2.88, 2.866, 2.87]),
    )
    return [
        ("usl", WIDTHS, usl(WIDTHS) * np.exp(0.05 * noise(12))),
        ("repeated", repeated, usl(repeated) * np.exp(0.2 * noise(repeated.size))),
        ("superlinear", WIDTHS, WIDTHS**1.2 * np.exp(0.05 * noise(12))),
        ("falling", WIDTHS, _free_usl(WIDTHS, np.array(0.02), np.array(0.01)) * np.exp(0.05 * noise(12))),
        ("always falling", WIDTHS, WIDTHS**-0.5 * np.exp(0.05 * noise(12))),
        ("flat", WIDTHS, np.exp(0.05 * noise(12))),
        ("nothing but noise", WIDTHS, np.exp(noise(12))),
        ("nothing but noise, few", few, np.exp(noise(4))),
        ("linear", WIDTHS, WIDTHS * np.exp(0.02 * noise(12))),
        (
            "less than one core",
            np.append(WIDTHS, [0.25, 0.5]),
            np.exp(noise(14)) * np.append(WIDTHS, [0.25, 0.5]),
        ),
        ("many cores", WIDTHS**4, usl(WIDTHS) * np.exp(0.05 * noise(12))),
        # Where a search that starts badly ends at p = 0.107 (not 0.9997), at 0.602 (not 0.0024), at κ = 0, at
        # another peak between the same two widths.
        ("two minima, amdahl", np.array([1.0, 3, 9, 310]), np.array([0.55, 0.16, 0.01, 10.33])),
        (
            "two minima, gustafson",
            np.array([1.0, 13, 34, 71, 462]),
            np.array([0.01, 60.97, 0.24, 0.04, 0.81]),
        ),
        ("narrow valley, usl", *narrow),
        ("close widths, usl", np.array([1.2, 1.3, 1.8, 1.9]), np.array([1.017, 1.042, 1.03, 1.021])),
    ]


@pytest.mark.parametrize(("z", "y"), [pytest.param(z, y, id=name) for name, z, y in datasets()])
def test_no_point_of_a_fine_grid_is_better(z: Floats, y: Floats) -> None:
    """Against brute force over the whole range of parameters, by formulas of our own."""
    candidates = by_family(fit_curve(z, y))
    small = np.geomspace(1e-4 / z.max(), 1.0, 1000)
    line = np.concatenate([[0.0], small, 1.0 - small, np.linspace(0.0, 1.0, 2001)])[:, None]
    sigma = np.concatenate([np.linspace(0.0, 1.0, 301), np.geomspace(1e-4 / z.max(), 1.0, 100)])
    sigma = sigma[:, None, None]
    kappa = np.concatenate([[0.0], np.geomspace(1e-4 / z.max() ** 2, 1.0, 220)])[None, :, None]
    grids = {"amdahl": (line,), "power": (line,), "gustafson": (line,), "usl": (sigma, kappa)}
    assert candidates.keys() == grids.keys()
    for family, grid in grids.items():
        found = candidates[family]
        assert naive_error(family, z, y, *found.parameters.values()) == pytest.approx(found.error, rel=1e-9)
        brute = naive_error(family, z, y, *grid).min()
        assert found.error <= brute * (1.0 + 1e-9)
        assert brute <= found.error * 1.02  # the grid comes close enough to catch a merely local optimum


def test_units_and_order_do_not_matter() -> None:
    _, z, y = datasets()[0]
    fit = fit_curve(z, y)
    for factor in (1e-30, 3600.0, 1e30):
        other = fit_curve(z[::-1], factor * y[::-1])
        assert other.scale == pytest.approx(factor * fit.scale, rel=1e-9)
        assert other.error == pytest.approx(fit.error, rel=1e-9)
        assert [c.family for c in other.candidates] == [c.family for c in fit.candidates]
        for mine, theirs in zip(other.candidates, fit.candidates, strict=True):
            assert mine.parameters == pytest.approx(theirs.parameters, rel=1e-8, abs=1e-12)
        np.testing.assert_allclose(other.majorant.corners, fit.majorant.corners, rtol=1e-9)


def test_every_measurement_counts() -> None:
    """All of them twice change nothing but n; unequal numbers are among the data sets above."""
    _, z, y = datasets()[0]
    once = by_family(fit_curve(z, y))
    twice = by_family(fit_curve(np.tile(z, 2), np.tile(y, 2)))
    assert once.keys() == twice.keys()
    for family, candidate in once.items():
        assert twice[family].parameters == pytest.approx(candidate.parameters, rel=1e-8, abs=1e-12)
        assert twice[family].error == pytest.approx(candidate.error, rel=1e-9)
        assert twice[family].criterion != pytest.approx(candidate.criterion, rel=0.1)


def test_a_wrong_first_point_does_not_tilt_the_curve() -> None:
    """Why the scale is free: one core measured 20 % low moves p less than with the scale fixed to it."""
    y = cw.Amdahl(0.9).rate(WIDTHS)
    y[0] *= 0.8

    def fixed(p: float) -> float:
        return float(np.sum(np.log(y / y[0] / FORMULAS["amdahl"](WIDTHS, p)) ** 2))

    tilted = minimize_scalar(fixed, bounds=(0.0, 1.0), method="bounded").x
    free = by_family(fit_curve(WIDTHS, y))["amdahl"].parameters["p"]
    assert abs(free - 0.9) < 0.5 * abs(tilted - 0.9)


# --- the choice of the family -----------------------------------------------------------------


def test_the_criterion_is_that_of_bayes() -> None:
    _, z, y = datasets()[1]
    fit = fit_curve(z, y)
    criteria = [candidate.criterion for candidate in fit.candidates]
    assert criteria == sorted(criteria)
    for candidate in fit.candidates:
        error = naive_error(candidate.family, z, y, *candidate.parameters.values())
        unknowns = len(candidate.parameters) + 1
        expected = z.size * math.log(error**2) + unknowns * math.log(z.size)
        assert candidate.criterion == pytest.approx(expected, rel=1e-9)
    assert fit.curve == fit.candidates[0].curve
    assert (fit.scale, fit.error) == (fit.candidates[0].scale, fit.candidates[0].error)


def test_a_curve_through_as_many_points_as_unknowns_is_no_evidence() -> None:
    y = np.array([1.0, 3.0, 5.0])
    fit = fit_curve([1, 4, 16], y)
    assert by_family(fit)["usl"].error < 1e-9
    assert fit.candidates[-1].family == "usl"
    assert fit.candidates[-1].criterion == math.inf
    assert any("usl: a perfect fit would be no evidence" in note for note in fit.notes)
    # Measured twice over, with scatter, the same points are evidence.
    again = fit_curve([1, 4, 16] * 2, np.concatenate([y * 1.001, y / 1.001]))
    assert again.family == "usl"


def test_two_widths_leave_out_what_they_cannot_tell() -> None:
    fit = fit_curve([1, 4], [10.0, 25.0])
    assert [candidate.family for candidate in fit.candidates] == ["amdahl", "power", "gustafson"]
    assert fit.parameters["p"] == pytest.approx(0.8)  # 1/(1 − p + p/4) = 2.5
    assert by_family(fit)["power"].parameters["p"] == pytest.approx(math.log(2.5) / math.log(4))
    assert by_family(fit)["gustafson"].parameters["p"] == pytest.approx(0.5)
    assert "usl left out: with its scale it has 3 unknowns" in fit.notes[0]
    assert "usl left out" in str(fit)
    # One core and less are one width to a curve.
    assert len(fit_curve([0.5, 1, 4], [5.0, 10.0, 25.0]).candidates) == 3
    assert len(fit_curve([2, 4, 8], [5.0, 10.0, 15.0]).candidates) == 4


def test_close_calls_are_said() -> None:
    """Two widths, many measurements: every family passes through both means."""
    fit = fit_curve([1, 1, 4, 4], [9.9, 10.1, 24.8, 25.2])
    assert "the data hardly distinguish amdahl from power, gustafson: criterion within 2" in fit.notes
    # Nothing to tell apart where all families are the same line, or where one is far ahead.
    for y in (2.0 * WIDTHS, cw.Amdahl(0.9).rate(WIDTHS)):
        assert not any("hardly" in note for note in fit_curve(WIDTHS, y).notes)


def test_families_can_be_chosen() -> None:
    y = cw.Amdahl(0.9).rate(WIDTHS)
    assert fit_curve(WIDTHS, y, families=["power"]).family == "power"
    assert fit_curve(WIDTHS, y, families="usl").family == "usl"
    with pytest.raises(cw.errors.InvalidInput, match="unknown family 'amdal'; did you mean 'amdahl'"):
        fit_curve(WIDTHS, y, families=["amdal"])
    nothing: Any
    for nothing in ([], 5):
        with pytest.raises(
            cw.errors.InvalidInput, match="families must be some of amdahl, power, gustafson, usl, free, got"
        ):
            fit_curve(WIDTHS, y, families=nothing)
    with pytest.raises(cw.errors.InvalidInput, match="no information: usl left out"):
        fit_curve([1, 4], [1.0, 2.0], families=["usl"])


def test_a_peak_before_the_second_width_leaves_the_law_undetermined() -> None:
    """Peak at 1.6 cores: all that shows at 2, 3, … is its height, which many pairs (σ, κ) share."""
    y = cw.Usl(0.5, 0.2).rate(WIDTHS)
    fit = fit_curve(WIDTHS, y)
    assert fit.error < 1e-9
    assert any(note.startswith("usl: other parameters fit as well") for note in fit.notes)
    assert not any(
        "other parameters" in note for note in fit_curve(WIDTHS, cw.Usl(0.5, 0.02).rate(WIDTHS)).notes
    )


# --- the majorant -----------------------------------------------------------------------------


def assert_majorant(fit: CurveFit) -> None:
    """On or above every mean point up to s(z) = z, concave, and touching: no smaller one exists."""
    z = np.unique(fit.cores)
    mean = np.array([np.exp(np.mean(np.log(fit.throughput[fit.cores == width]))) for width in z])
    points = np.minimum(mean / fit.one_core, z)
    rates = fit.majorant.rate(z)
    assert np.all(rates >= points * (1.0 - 1e-12))
    at, s = fit.majorant.corners
    assert np.all(np.diff(np.append(np.diff(s) / np.diff(at), 0.0)) < 0.0)
    for corner, height in zip(at[1:], s[1:], strict=True):
        assert height == pytest.approx(points[z == corner][0], rel=1e-12)


@pytest.mark.parametrize(("z", "y"), [pytest.param(z, y, id=name) for name, z, y in datasets()])
def test_the_majorant_of_anything(z: Floats, y: Floats) -> None:
    assert_majorant(fit_curve(z, y))


def test_the_majorant_averages_and_says_what_one_core_is() -> None:
    fit = fit_curve([1, 1, 4, 4], [8.0, 2.0, 9.0, 16.0])  # geometric means 4 and 12
    assert fit.one_core_measured
    assert fit.one_core == pytest.approx(4.0)
    np.testing.assert_allclose(fit.majorant.corners, [[1.0, 4.0], [1.0, 3.0]])
    fit = fit_curve(WIDTHS[2:], 5.0 * cw.Amdahl(0.9).rate(WIDTHS[2:]))
    assert not fit.one_core_measured
    assert fit.one_core == pytest.approx(5.0)
    np.testing.assert_allclose(fit.majorant.rate(WIDTHS[2:]), cw.Amdahl(0.9).rate(WIDTHS[2:]), rtol=1e-9)


def test_what_no_curve_matches_is_noted() -> None:
    steep = fit_curve([1, 2, 4], [1.0, 3.0, 8.0])
    assert any("above linear speed-up, by 100.00% at 4 cores: not matched" in note for note in steep.notes)
    assert steep.parameters == {"p": 1.0}
    falling = fit_curve([1, 2, 4, 8], [1.0, 1.8, 1.5, 1.2])
    assert any("throughput falls beyond 2 cores" in note for note in falling.notes)
    assert "throughput falls" in str(falling)
    assert fit_curve(WIDTHS, cw.Amdahl(0.9).rate(WIDTHS)).notes == ()


def test_points_that_the_majorant_moves_are_noted() -> None:
    """Below the chord from (1, 1) to (4, 3) at two cores, where it is 5/3; the rest is concave."""
    fit = fit_curve([1, 2, 4, 8], [10.0, 11.0, 30.0, 40.0])
    (note,) = (note for note in fit.notes if "majorant moves" in note)
    assert note == "not concave: the majorant moves at 2 cores 1.1 → 1.667 (+51.52%)"
    ((cores, given, used),) = fit.majorant.moved
    assert cores == 2.0
    assert (given, used) == pytest.approx((1.1, 5.0 / 3.0))
    concave = fit_curve([1, 2, 4, 8], [10.0, 19.0, 30.0, 40.0])
    assert not any("moves" in note for note in concave.notes)


# --- bad calls --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cores", "throughput", "message"),
    [
        ([1, 2], [1.0, math.nan], "measurement 2: throughput must be finite, got nan"),
        ([1, 2], [1.0, 0.0], "measurement 2: throughput must be positive, got 0.0"),
        ([1, 2], [-1.0, 1.0], "measurement 1: throughput must be positive, got -1.0"),
        ([0, 2], [1.0, 1.0], "measurement 1: cores must be positive, got 0"),
        ([1, math.inf], [1.0, 1.0], "measurement 2: cores must be finite, got inf"),
        ([1, "2"], [1.0, 1.0], "measurement 2: cores must be a number, got '2'"),
        ([1, 1e13], [1.0, 1.0], "measurement 2: cores must lie in [1e-12, 1e+12], got 10000000000000.0"),
        ([1, 2], [1.0, 1e200], "measurement 2: throughput must lie in [1e-100, 1e+100], got 1e+200"),
        ([1, 2, 3], [1.0, 1.0], "3 numbers of cores but 2 throughputs"),
        (5, [1.0], "cores and throughput must be sequences, got 5, [1.0]"),
        ([], [], "no information: a curve needs at least two different numbers of cores"),
        ([4, 4, 4], [1.0, 2.0, 3.0], "no information"),
        ([0.5, 1.0], [1.0, 2.0], "one of them above 1; measured: 0.5, 1"),
    ],
)
def test_bad_measurements_are_named(cores: Any, throughput: Any, message: str) -> None:
    with pytest.raises(cw.errors.InvalidInput) as error:
        fit_curve(cores, throughput)
    assert message in str(error.value)


def test_a_fit_cannot_be_changed() -> None:
    fit = fit_curve([1, 2, 4], [1.0, 1.5, 2.0])
    with pytest.raises(AttributeError):
        fit.notes = ()  # type: ignore[misc]
    with pytest.raises(ValueError, match="read-only"):
        fit.cores[0] = 3.0


# --- measured curves --------------------------------------------------------------------------


def measured(path: str, **where: str) -> tuple[list[float], list[float]]:
    """Return the last two columns of the rows with those values."""
    with (DATA / path).open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if all(row[key] == where[key] for key in where)]
    pairs = [tuple(float(value) for value in list(row.values())[-2:]) for row in rows]
    return [z for z, _ in pairs], [y for _, y in pairs]


@needs_data
def test_the_ray_tracer_against_an_independent_fit() -> None:
    z, y = (np.array(column) for column in measured("usl/raytracer.csv"))

    def log_usl(z: Floats, scale: float, sigma: Floats, kappa: Floats) -> Floats:
        return np.asarray(scale + np.log(_free_usl(z, sigma, kappa)))

    theirs, _ = curve_fit(
        log_usl, z, np.log(y), p0=[3.0, 0.05, 1e-5], bounds=([-9, 0, 0], [9, 1, 1]), x_scale=[1, 0.1, 1e-5]
    )
    error = math.sqrt(np.mean((np.log(y) - log_usl(z, *theirs)) ** 2))
    found = by_family(fit_curve(z, y))["usl"]
    assert found.error <= error * (1.0 + 1e-9)
    # The peak lies beyond the data, so that our law, held there, is theirs.
    assert found.curve.peak > 64.0
    assert [math.log(found.scale), *found.parameters.values()] == pytest.approx(theirs.tolist(), rel=1e-2)
    assert found.error == pytest.approx(error, rel=1e-6)


@needs_data
def test_a_measured_curve_that_falls() -> None:
    fit = fit_curve(*measured("usl/specsdm91.csv"))
    assert fit.family == "usl"
    assert any("falls beyond 72 cores" in note for note in fit.notes)
    assert_majorant(fit)


@needs_data
@pytest.mark.parametrize("worker", ["k80", "p100_unconsolidated", "v100"])
@pytest.mark.parametrize(
    "job", ["ResNet-18 (batch size 16)", "Transformer (batch size 64)", "LM (batch size 5)"]
)
def test_measured_training_jobs(worker: str, job: str) -> None:
    where = {"source_file": "physical_cluster", "worker_type": worker, "job_type": job}
    z, y = measured("gavel-osdi20/isolated_throughputs.csv", **where)
    assert z == [1.0, 2.0, 4.0, 8.0]
    fit = fit_curve(z, y)
    assert len(fit.candidates) == 4
    assert_majorant(fit)
    for candidate in fit.candidates:
        error = naive_error(candidate.family, np.array(z), np.array(y), *candidate.parameters.values())
        assert candidate.error == pytest.approx(error, rel=1e-9)


# --- the verb ---------------------------------------------------------------------------------

APP = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)
APP.command()(fit_verb)

GOOD = "cores,throughput\n1,10\n2,18\n4,30\n8,44\n16,55\n"


@pytest.fixture(autouse=True)
def _in_an_empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write(text: str | bytes, name: str = "curve.csv") -> str:
    Path(name).write_bytes(text.encode() if isinstance(text, str) else text)
    return name


def succeed(*arguments: str) -> str:
    result = CliRunner().invoke(APP, arguments)
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    return result.stdout


def fail(*arguments: str) -> str:
    result = CliRunner().invoke(APP, arguments)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1, "one line"
    return result.stderr


def as_json(*arguments: str) -> dict[str, Any]:
    def refuse(constant: str) -> NoReturn:
        raise AssertionError(f"{constant} is not JSON")

    value = json.loads(succeed(*arguments, "--json"), parse_constant=refuse)
    assert isinstance(value, dict)
    return value


def test_json_says_what_the_library_says() -> None:
    result = as_json(write(GOOD))
    fit = fit_curve([1, 2, 4, 8, 16], [10, 18, 30, 44, 55])
    assert result["family"] == fit.family
    assert result["parameters"] == fit.parameters
    assert (result["scale"], result["error"], result["n"]) == (fit.scale, fit.error, 5)
    assert [c["family"] for c in result["candidates"]] == [c.family for c in fit.candidates]
    for mine, theirs in zip(result["candidates"], fit.candidates, strict=True):
        assert mine["parameters"] == theirs.parameters
        assert (mine["scale"], mine["error"]) == (theirs.scale, theirs.error)
        assert mine["criterion"] == theirs.criterion
    corners = np.array(result["majorant"]["points"]).T
    np.testing.assert_array_equal(corners, fit.majorant.corners)
    assert result["majorant"]["one_core"] == pytest.approx(10.0)
    assert result["majorant"]["one_core_measured"] is True
    assert result["majorant"]["moved"] == []
    assert result["notes"] == list(fit.notes)


def test_a_curve_that_is_bent_says_so() -> None:
    table = write("cores,x\n1,10\n2,11\n4,30\n8,40\n")
    assert as_json(table)["majorant"]["moved"] == [[2.0, pytest.approx(1.1), pytest.approx(5.0 / 3.0)]]
    flat = " ".join(succeed(table).split())
    assert "not concave: the majorant moves at 2 cores 1.1 → 1.667 (+51.52%)" in flat


KINDS = "type,cores,x\n" + "".join(
    f"{kind},{z},{scale * z / (1 + (1 - p) * (z - 1))}\n"
    for kind, p, scale in (("etl", 0.3, 100.0), ("web", 0.99, 4.0))
    for z in (1, 2, 4, 8, 16)
)
"""Two curves by Amdahl's law; as one they have a relative error of more than 100 %."""


@pytest.mark.parametrize("header", ["colour", "17"])
def test_a_table_of_several_kinds_is_not_fitted_as_one(header: str) -> None:
    table = write(KINDS.replace("type", header))
    assert fail(table).strip() == (
        f"error: curve.csv: rows with different '{header}' (etl, web) have different curves: say "
        f"--where {header}=etl to fit one of them, or --where '{header}=*' to fit all as one"
    )
    one, other, both = (as_json(table, "--where", f"{header}={kind}") for kind in ("etl", "web", "*"))
    assert one["parameters"]["p"] == pytest.approx(0.3)
    assert other["parameters"]["p"] == pytest.approx(0.99)
    assert (one["n"], both["n"]) == (5, 10)
    assert both["error"] > 1.0


@pytest.mark.parametrize("seed", range(4))
def test_repetitions_are_of_one_kind(seed: int) -> None:
    """Columns that number runs, name hosts or go with the cores; errors of 5 %."""
    rng = np.random.default_rng(seed)
    rows = [
        f"{z},{z / (1 + 0.1 * (z - 1)) * rng.lognormal(0.0, 0.05)},{run},host{rng.integers(2)},{2 * z},v2"
        for run in range(3)
        for z in (1, 2, 4, 8, 16)
    ]
    table = write("\n".join(["cores,x,run,host,threads_in_all,version", *rows]))
    assert as_json(table)["n"] == 15


def test_groups_that_tell_nothing_of_a_curve_are_left_aside() -> None:
    z, y = [1.0, 2.0, 4.0, 8.0] * 2, [1.0, 1.9, 3.2, 5.1, 10.0, 10.1, 10.2, 10.3]
    assert groups_alike(z, y, ["a"] * 4 + ["b"] * 4) < 1e-3
    assert groups_alike(z, y, ["a"] * 7 + ["b"]) == 1.0
    assert groups_alike(z[:4] * 2, y[:4] * 2, ["a", "b"] * 4) > 0.1


def test_what_has_no_criterion_is_null_in_json() -> None:
    assert [c["criterion"] for c in as_json(write("cores,x\n1,1\n4,3\n"))["candidates"]] == [None] * 3


def test_the_table_has_the_best_family_first_and_a_line_for_a_system_file() -> None:
    text = succeed(write(GOOD))
    fit = fit_curve([1, 2, 4, 8, 16], [10, 18, 30, 44, 55])
    assert text.startswith("curve.csv: 5 measurements on 1 to 16 cores\n")
    places = [text.index(f"\n  {c.family} ") for c in fit.candidates]
    assert places == sorted(places)
    assert f"{fit.error:.2%}" in text
    (line,) = (line for line in text.splitlines() if line.startswith("In a system file: "))
    system = (
        'cores = 4\n[[class]]\nname = "a"\narrival_rate = 1.0\nsize_rate = 1.0\n' + line.partition(": ")[2]
    )
    assert cw.load_system(write(system, "system.toml")).classes[0].speedup == fit.curve


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("Processors,Throughput\n1,10\n4,30\n16,55\n", ()),
        ("x,n\n10,1\n30,4\n55,16\n", ()),
        ("scale_factor,job,steps_per_second\n1,a,10\n4,a,30\n16,a,55\n", ()),
        ("num nodes,Speed-Up,cores\n0,10,1\n0,30,4\n0,55,16\n", ()),
        ("width,work\n1,10\n4,30\n16,55\n", ()),  # two columns, in order
        ("work,cores\n10,1\n30,4\n55,16\n", ()),  # two columns, one known
        ("rate,width\n10,1\n30,4\n55,16\n", ()),
        ("a,b,c\n9,10,1\n9,30,4\n9,55,16\n", ("--cores", "c", "--throughput", "b")),
        ("cores,seconds\n1,0.1\n4,0.033333333333333333\n16,0.018181818181818182\n", ("--time", "seconds")),
        ("cores,rate\n1,10\n4,7.5\n16,3.4375\n", ("--weak",)),
        (
            "cores,step_time\n1,0.1\n4,0.1333333333333333\n16,0.2909090909090909\n",
            ("--time", "step_time", "--weak"),
        ),
        ("kind,cores,x\na,1,10\nb,2,1\na,4,30\nb,bad,bad\na,16,55\n", ("--where", "kind=a")),
        (
            'kind,size,cores,x\n"a,=b",1,1,10\n"a,=b",1,4,30\nc,1,4,1\n"a,=b",2,4,1\n"a,=b",1,16,55\n',
            ("--where", "kind=a,=b", "--where", "size=1"),
        ),
        ("\ufeffcores , throughput\r\n1 ,\t10\r\n\r\n4,30\r\n16,55", ()),
    ],
)
def test_the_same_curve_however_it_is_written(text: str, options: tuple[str, ...]) -> None:
    result = as_json(write(text), *options)
    expected = fit_curve([1, 4, 16], [10, 30, 55])
    assert result["n"] == 3
    assert result["family"] == expected.family
    assert result["scale"] == pytest.approx(expected.scale, rel=1e-9)
    assert result["parameters"] == pytest.approx(expected.parameters, rel=1e-9)


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("", (), "curve.csv: empty"),
        ("\n \n", (), "curve.csv: empty"),
        ("cores,throughput\n", (), "nothing below the header cores,throughput"),
        ("1,10\n4,30\n", (), "line 1: no header: the first line must name the columns"),
        ("cores,throughput\n1,10\n4,many\n", (), "line 3: column 'throughput' must be a number, got 'many'"),
        ("cores,throughput\n1,10\n\n4,\n", (), "line 4: column 'throughput' must be a number, got ''"),
        ("cores,throughput\n1,10\n,\n", (), "line 3: column 'cores' must be a number, got ''"),
        ("cores,throughput\n1,nan\n4,30\n", (), "line 2: column 'throughput' must be finite, got nan"),
        ("cores,throughput\n1,10\ninf,30\n", (), "line 3: column 'cores' must be finite, got inf"),
        ("cores,throughput\n0,10\n4,30\n", (), "line 2: column 'cores' must be positive, got 0.0"),
        ("cores,throughput\n1,10\n4,-3\n", (), "line 3: column 'throughput' must be positive, got -3.0"),
        ("cores,throughput\n1,10\n4,0\n", (), "line 3: column 'throughput' must be positive, got 0.0"),
        ("cores,time\n1,10\n4,0\n", ("--time", "time"), "line 3: column 'time' must be positive, got 0.0"),
        ("cores,time\n1,1e-320\n4,1\n", ("--time", "time"), "line 2: throughput must be finite, got inf"),
        ("cores,throughput\n1,10\n4,1e300\n", (), "line 3: throughput must lie in [1e-100, 1e+100]"),
        ("cores,throughput\n1,10\n4\n", (), "line 3: 1 fields, but the header has 2"),
        ("cores,throughput\n1,10\n4,30,5\n", (), "line 3: 3 fields, but the header has 2"),
        ("cores,throughput\n4,10\n4,30\n", (), "curve.csv: no information: a curve needs at least two"),
        ("cores,throughput\n0.5,10\n1,30\n", (), "one of them above 1; measured: 0.5, 1"),
        ('cores,throughput\n1,"10\n4,30\n', (), "line 3: unexpected end of data"),
        ("cores,x,x\n1,1,1\n", (), "line 1: more than one column is called 'x'"),
        ("cores,gpus,x\n1,1,1\n", (), "which column is the cores? Say with --cores; columns: cores, gpus, x"),
        ("a,b,c\n1,2,3\n", (), "which column is the cores? Say with --cores; columns: a, b, c"),
        ("a,b,c\n1,2,3\n", ("--cores", "a"), "Say with --throughput or --time; columns: a, b, c"),
        ("cores,step_time\n1,2\n", (), "'step_time' looks like a time: say --time step_time"),
        (GOOD, ("--cores", "coers"), "--cores: no column 'coers'; did you mean 'cores'?"),
        (GOOD, ("--throughput", "zzz"), "--throughput: no column 'zzz'; known: cores, throughput"),
        (GOOD, ("--time", "troughput"), "--time: no column 'troughput'; did you mean 'throughput'?"),
        (GOOD, ("--cores", "throughput"), "column 'throughput' cannot be both cores and throughput"),
        (GOOD, ("--time", "cores", "--throughput", "cores"), "give --throughput or --time, not both"),
        (GOOD, ("--where", "cores"), "--where must be COLUMN=VALUE, got 'cores'"),
        (GOOD, ("--where", "coers=1"), "--where: no column 'coers'; did you mean 'cores'?"),
        (GOOD, ("--where", "cores=32"), "no row with cores = '32'"),
        (GOOD, ("--where", "cores=4"), "no information"),
        (GOOD, ("--plot", "curve.pgn"), "did you mean 'png'"),
        (GOOD, ("--plot", "missing/curve.png"), "there is no directory missing"),
        (b"\x89PNG\r\n\x1a\n\0\0", (), "curve.csv: a binary file, not CSV"),
        (b"cores,throughput\n1,\xff\n", (), "line 2: not UTF-8 text, byte 0xff"),
    ],
)
def test_bad_files_and_options_get_one_clear_line(
    text: str | bytes, options: tuple[str, ...], message: str
) -> None:
    assert message in fail(write(text), *options)
    assert not Path("curve.png").exists()


def test_a_missing_file_and_a_directory_are_named(tmp_path: Path) -> None:
    assert "nowhere.csv: cannot be read: no such file" in fail("nowhere.csv")
    assert "cannot be read: is a directory" in fail(str(tmp_path))


@needs_data
@pytest.mark.parametrize(
    ("path", "options", "n"),
    [
        ("usl/raytracer.csv", (), 11),
        ("usl/specsdm91.csv", (), 7),
        (
            "gavel-osdi20/isolated_throughputs.csv",
            ("--where", "worker_type=k80", "--where", "job_type=ResNet-18 (batch size 16)"),
            8,
        ),
        (
            "pollux-osdi21/cifar10-scalability.csv",
            ("--time", "step_time", "--weak", "--where", "local_bsz=32"),
            36,
        ),
    ],
)
def test_measured_files_need_few_options(path: str, options: tuple[str, ...], n: int) -> None:
    assert as_json(str(DATA / path), *options)["n"] == n


# --- the figure -------------------------------------------------------------------------------


def test_the_verb_draws() -> None:
    text = succeed(write(GOOD), "--plot", "curve.png")
    assert "Wrote the plot to curve.png." in text
    assert Path("curve.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")


def test_the_figure_shows_points_curves_and_majorant() -> None:
    fit = fit_curve([1, 1, 4, 16], [10.0, 12.0, 30.0, 55.0])
    axes = measured_curves(fit, title="costs $5").axes[0]
    lines = {str(line.get_label()): line for line in axes.get_lines()}
    xs, ys = ({key: np.asarray(line.get_data()[i], float) for key, line in lines.items()} for i in (0, 1))
    np.testing.assert_allclose(xs["measured"], [1, 1, 4, 16])
    np.testing.assert_allclose(ys["measured"], np.array([10.0, 12.0, 30.0, 55.0]) / fit.scale)
    z = xs["concave majorant"]
    np.testing.assert_allclose(ys["concave majorant"], fit.majorant.rate(z) * fit.one_core / fit.scale)
    np.testing.assert_allclose(ys["linear, $s(z) = z$"], z)
    for candidate in fit.candidates:
        (key,) = (key for key in lines if key.lower().startswith(candidate.family))
        np.testing.assert_allclose(ys[key], candidate.scale / fit.scale * candidate.curve.rate(z))
        assert (lines[key].get_linewidth() > 1.5) == (candidate is fit.candidates[0])
    assert len(lines) == 3 + len(fit.candidates)
    assert axes.get_xlabel() == "cores, $z$"
    assert axes.get_ylabel().startswith("speed-up, $s(z)$")


@pytest.mark.parametrize("factor", [1e-6, 1.0, 1e6])
def test_no_text_leaves_the_figure(factor: float) -> None:
    z = np.append(WIDTHS, 1e6)
    y = factor * np.append(_free_usl(WIDTHS, np.array(0.0123456), np.array(2.34567e-5)), 1e3)
    figure = measured_curves(fit_curve(z, y), title="A title")
    figure.draw_without_rendering()
    box = figure.get_tightbbox().extents
    width, height = figure.get_size_inches()
    assert box[0] >= 0.0
    assert box[1] >= 0.0
    assert box[2] <= width
    assert box[3] <= height


def test_a_clipped_majorant_says_so() -> None:
    labels = [
        line.get_label() for line in measured_curves(fit_curve([1, 2, 4], [1, 3, 9])).axes[0].get_lines()
    ]
    assert "concave majorant, at most linear" in labels


def test_only_a_fit_is_drawn() -> None:
    with pytest.raises(cw.errors.InvalidInput, match="expected what fit_curve returns, got 5"):
        measured_curves(5)  # type: ignore[arg-type]
