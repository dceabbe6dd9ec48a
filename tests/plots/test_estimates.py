"""The figure of estimates shows curves, bands and what was observed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from scipy import stats

import corewise as cw
from corewise.estimation.band import observed_speeds
from corewise.kit.arrays import Floats
from corewise.plots.estimates import estimate_figure
from tests.helpers.figures import line
from tests.helpers.logs import estimated, three_classes

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def one_class(size_rate: float = 2.0, curve: cw.SpeedUp | None = None) -> cw.System:
    return cw.System(8, [cw.JobClass("only", 1.0, size_rate, curve or cw.Amdahl(0.5))])


def table(arrivals: int, rows: list[tuple[float, float, float]]) -> cw.Statistics:
    widths, departures, job_time = np.array(rows).T.copy()
    seen = cw.results.ClassStatistics(arrivals, widths, departures, job_time)
    return cw.Statistics(("only",), 100.0, (seen,))


def band(axes: Axes) -> tuple[Floats, Floats, Floats]:
    """Return widths, lower and upper edge of the band of a panel."""
    (polygon,) = [found for found in axes.collections if type(found).__name__ == "FillBetweenPolyCollection"]
    z = line(axes, 1)[0]
    x, y = np.asarray(polygon.get_paths()[0].vertices).T
    edges = np.array([y[x == at][[0, -1]] for at in z])
    return z, edges.min(axis=1), edges.max(axis=1)


def scattered(axes: Axes) -> Floats:
    (points,) = [found for found in axes.collections if type(found).__name__ == "PathCollection"]
    return np.asarray(points.get_offsets())


def test_the_curve_and_its_band_are_those_of_the_profile_interval() -> None:
    system = cw.load_system("paper:1")
    statistics, estimates = estimated(system)
    figure = estimate_figure(statistics, system, estimates, truth=system)
    assert len(figure.axes) == 2
    for axes, (name, true) in zip(figure.axes, {"one": 0.3, "two": 0.8}.items(), strict=True):

        def amdahl(p: float, z: Floats) -> Floats:
            return np.minimum(z, 1.0 / (1.0 - p + p / np.maximum(z, 1.0)))

        z, curve = line(axes, 1)
        np.testing.assert_allclose(curve, amdahl(estimates[name].value, z), rtol=1e-12)
        _, low, high = band(axes)
        np.testing.assert_allclose(low, amdahl(estimates[name].interval[0], z), rtol=1e-6)
        np.testing.assert_allclose(high, amdahl(estimates[name].interval[1], z), rtol=1e-6)
        np.testing.assert_allclose(line(axes, 2)[1], amdahl(true, z), rtol=1e-12)
        title = axes.get_title()
        assert f"{name}: {statistics[name].left} departures" in title
        assert f"Amdahl, $p$ = {estimates[name].value:.3g}" in title
        assert axes.get_xlabel() == "cores per job, $z$"
    assert figure.axes[0].get_ylabel() == "speed-up, $s(z)$"
    assert figure.axes[0].get_ylim() == figure.axes[1].get_ylim()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sigma", "kappa", "departures", "seed"),
    [(0.05, 0.002, 4000, 3), (0.3, 0.03, 600, 5), (0.2, 0.0, 500, 2)],
)
def test_the_band_of_two_parameters_is_the_range_over_all_likely_ones(
    sigma: float, kappa: float, departures: int, seed: int
) -> None:
    """A grid over the box of the intervals, with the likelihood written out; also at the bound κ = 0."""
    system = cw.System(16, [cw.JobClass("only", 4.0, 1.0, cw.Usl(sigma, kappa))])
    statistics, estimates = estimated(system, departures, seed)
    z, low, high = band(estimate_figure(statistics, system, estimates).axes[0])
    seen, found = statistics["only"], estimates["only"]

    def usl(a: Floats, b: Floats, widths: Floats) -> Floats:
        peak = np.sqrt(np.maximum(1.0 - a, 0.0) / np.maximum(b, 1e-300))
        held = np.minimum(np.maximum(widths, 1.0), np.maximum(peak, 1.0))
        return np.minimum(widths, held / (1.0 + a * (held - 1.0) + b * held * (held - 1.0)))

    axes = [np.linspace(*found.intervals[name], 201) for name in ("sigma", "kappa")]
    a, b = (grid.ravel()[:, None] for grid in np.meshgrid(*axes))
    speed = usl(a, b, seen.widths)
    value = np.log(speed) @ seen.departures - speed @ seen.job_time
    likely = value >= found.log_likelihood - stats.chi2.ppf(0.95, 1) / 2.0
    assert 500 < likely.sum() < 201**2
    curves = usl(a[likely], b[likely], z)
    width = np.maximum(curves.max(axis=0) - curves.min(axis=0), 1e-6)
    # The grid is inside the set and misses up to a step at its edge.
    for error in ((curves.min(axis=0) - low) / width, (high - curves.max(axis=0)) / width):
        assert error.min() > -0.01
        assert error.max() < 0.04


def test_points_are_departures_over_exposure_with_exact_poisson_bars() -> None:
    rows = [(0.5, 30.0, 29.0), (2.0, 25.0, 8.0), (4.0, 40.0, 9.0), (8.0, 100.0, 20.0)]
    statistics, system = table(195, rows), one_class()
    axes = estimate_figure(statistics, system, cw.estimate(statistics, system)).axes[0]
    expected = np.array([(z, left / (2.0 * spent)) for z, left, spent in rows])
    np.testing.assert_allclose(scattered(axes), expected, rtol=1e-12)
    (bars,) = [found for found in axes.collections if type(found).__name__ == "LineCollection"]
    for (z, left, spent), (bottom, top) in zip(rows, bars.get_segments(), strict=True):  # type: ignore[attr-defined]
        garwood = (
            np.array([stats.chi2.ppf(0.025, 2 * left), stats.chi2.ppf(0.975, 2 * left + 2)]) / 4.0 / spent
        )
        np.testing.assert_allclose([bottom, top], [[z, garwood[0]], [z, garwood[1]]], rtol=1e-9)


def test_widths_with_few_departures_share_a_point() -> None:
    rows = [(2.0, 5.0, 2.0), (2.1, 9.0, 3.0), (2.2, 8.0, 4.0), (4.0, 60.0, 15.0), (5.0, 3.0, 1.0)]
    statistics, system = table(85, rows), one_class(1.0)
    points = scattered(estimate_figure(statistics, system, cw.estimate(statistics, system)).axes[0])
    mean = (2.0 * 2.0 + 2.1 * 3.0 + 2.2 * 4.0) / 9.0
    np.testing.assert_allclose(points, [[mean, 22.0 / 9.0], [65.0 / 16.0, 63.0 / 16.0]], rtol=1e-12)


def test_many_widths_become_few_points_that_leave_nothing_out() -> None:
    rng = np.random.default_rng(2)
    widths = np.sort(rng.uniform(1.01, 30.0, 3000))
    left, spent = rng.poisson(2.0, 3000).astype(float), rng.uniform(0.5, 1.0, 3000)
    seen = cw.results.ClassStatistics(6000, widths, left, spent)
    points = observed_speeds(seen, 1.0, 0.95)
    assert 8 <= points.width.size <= 40
    assert np.all(np.diff(points.width) > 0.0)
    assert points.departures.min() >= 20.0
    assert points.departures.sum() == left.sum()
    exposure = points.departures / points.speed
    assert exposure.sum() == pytest.approx(spent.sum())
    assert exposure @ points.width == pytest.approx(spent @ widths)


def test_a_class_without_information_says_why() -> None:
    system = cw.System(
        1, [cw.JobClass("a", 0.2, 1.0, cw.Amdahl(0.5)), cw.JobClass("b", 1e-7, 1.0, cw.Amdahl(0.5))]
    )
    statistics, estimates = estimated(system, 500)
    first, second = estimate_figure(statistics, system, estimates).axes
    assert "no information: its jobs never held\nmore than one core" in first.get_title()
    assert "no information: no departures" in second.get_title()
    for axes in (first, second):
        assert len(axes.lines) == 1  # the diagonal
    assert np.all(scattered(first)[:, 0] <= 1.0)


def test_a_curve_without_parameters_is_drawn_as_given() -> None:
    system = three_classes()
    statistics, estimates = estimated(system)
    figure = estimate_figure(statistics, system, estimates)
    axes = figure.axes[1]
    assert "no information: a tabulated curve has\nno parameters to estimate" in axes.get_title()
    z, given = line(axes, 1)
    np.testing.assert_allclose(given, np.interp(z, [0.0, 1.0, 4.0, 16.0], [0.0, 1.0, 3.2, 7.0]), rtol=1e-12)
    assert "curve as given" in [text.get_text() for text in figure.legends[0].get_texts()]


def test_an_estimate_at_the_boundary_is_called_so_and_has_a_band_on_one_side() -> None:
    statistics, system = table(80, [(2.0, 30.0, 20.0), (8.0, 30.0, 18.0)]), one_class()
    estimates = cw.estimate(statistics, system)
    assert estimates["only"].at_boundary
    axes = estimate_figure(statistics, system, estimates).axes[0]
    assert "at the boundary" in axes.get_title()
    z, low, high = band(axes)
    np.testing.assert_array_equal(low, np.minimum(z, 1.0))
    assert np.all(high[z > 1.0] > 1.0)


def test_an_estimated_size_rate_scales_the_points() -> None:
    rows = [(1.0, 100.0, 25.0), (4.0, 100.0, 10.0)]
    statistics, system = table(200, rows), one_class(1.0)
    estimates = cw.estimate(statistics, system, unknown_size_rates=True)
    axes = estimate_figure(statistics, system, estimates).axes[0]
    # Two widths and two unknowns: both fit exactly, μ = 100/25.
    np.testing.assert_allclose(scattered(axes), [[1.0, 1.0], [4.0, 2.5]], rtol=1e-6)
    assert "size rate 4, estimated" in axes.get_title()


@pytest.mark.parametrize("level", [0.5, 0.99])
def test_the_level_is_that_of_the_band(level: float) -> None:
    system = one_class()
    statistics, _ = estimated(system)
    estimates = cw.estimate(statistics, system, level=level)
    figure = estimate_figure(statistics, system, estimates, level=level)
    z, low, _ = band(figure.axes[0])
    np.testing.assert_allclose(low, cw.Amdahl(estimates["only"].interval[0]).rate(z), rtol=1e-6)
    assert f"{100 * level:g} % band, at each width" in [t.get_text() for t in figure.legends[0].get_texts()]


def test_estimates_of_something_else_are_refused() -> None:
    system = cw.load_system("paper:1")
    statistics, estimates = estimated(system)
    other = one_class()
    with pytest.raises(
        cw.errors.InvalidInput, match="statistics are of classes one, two; the system has only"
    ):
        estimate_figure(statistics, other, estimates)
    with pytest.raises(
        cw.errors.InvalidInput, match="estimates are of classes only; the system has one, two"
    ):
        estimate_figure(statistics, system, estimated(other)[1])
    with pytest.raises(cw.errors.InvalidInput, match="the truth is of classes only; the system has one, two"):
        estimate_figure(statistics, system, estimates, truth=other)
    with pytest.raises(cw.errors.InvalidInput, match=r"class 'one': the estimate .* was not made from these"):
        estimate_figure(estimated(system, seed=4)[0], system, estimates)
    faster = cw.System(system.cores, [replace(job, size_rate=3.0) for job in system.classes])
    with pytest.raises(cw.errors.InvalidInput, match=r"class 'one': the estimate .* with this system"):
        estimate_figure(statistics, faster, estimates)
    with pytest.raises(cw.errors.InvalidInput, match="expected what estimate returns"):
        estimate_figure(statistics, system, dict(estimates))  # type: ignore[arg-type]
    with pytest.raises(cw.errors.InvalidInput, match="expected Statistics"):
        estimate_figure(None, system, estimates)  # type: ignore[arg-type]
    with pytest.raises(cw.errors.InvalidInput, match=r"level must lie in \[0\.5"):
        estimate_figure(statistics, system, estimates, level=95.0)
