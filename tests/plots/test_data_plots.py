"""Figures of paths, estimates and residuals show the numbers that they are about."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from scipy import stats

import corewise as cw
from corewise.estimation.band import observed_speeds
from corewise.kit.arrays import Floats
from corewise.observation.sample_path import NOBODY, Event
from corewise.plots.estimates import estimate_figure
from corewise.plots.path import path_figure
from corewise.plots.residuals import residual_figure
from corewise.plots.style import class_colour, save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def three_classes() -> cw.System:
    return cw.System(
        16,
        [
            cw.JobClass("batch", 3.0, 1.0, cw.Usl(0.05, 0.002)),
            cw.JobClass("web", 6.0, 2.0, cw.Tabulated([(1, 1), (4, 3.2), (16, 7)])),
            cw.JobClass("legacy", 2.0, 1.0, cw.Amdahl(0.4)),
        ],
    )


def recorded(system: cw.System, departures: int = 1000, seed: int = 3) -> cw.SamplePath:
    path = cw.simulate(system, cw.Equi(), departures=departures, rng=seed, record=True).path
    assert path is not None
    return path


def by_hand(cores: list[float] | list[list[float]], pool: float = 4.0) -> cw.SamplePath:
    """Return a path of two classes: a job is there, one of each class comes, two leave."""
    kinds = [Event.START, Event.PRESENT, Event.ARRIVAL, Event.ARRIVAL, Event.DEPARTURE, Event.DEPARTURE]
    return cw.SamplePath(
        ("a", "b"),
        pool,
        np.array([0.0, 0.0, 1.0, 2.5, 3.0, 5.0, 6.0]),
        np.array([*kinds, Event.END], dtype=np.int8),
        np.array([NOBODY, 0, 1, 0, 0, 1, NOBODY]),
        np.array([NOBODY, 1, 2, 3, 1, 2, NOBODY]),
        np.array(cores),
    )


def line(axes: Axes, which: int = 0) -> tuple[Floats, Floats]:
    x, y = axes.lines[which].get_data()
    return np.asarray(x, dtype=float), np.asarray(y, dtype=float)


def marks(axes: Axes) -> list[Floats]:
    """Return the departure epochs of each class that a strip shows."""
    return [np.array(ticks.get_positions()) for ticks in axes.collections]  # type: ignore[attr-defined]


# --- paths ------------------------------------------------------------------------------------


def test_a_small_path_is_drawn_as_it_is() -> None:
    totals = [[0, 0], [4, 0], [3, 1], [2, 2], [1, 3], [4, 0], [0, 0]]
    figure = path_figure(by_hand([list(map(float, row)) for row in totals]))
    strip, jobs_a, jobs_b, cores_a, cores_b = figure.axes
    assert [ticks.tolist() for ticks in marks(strip)] == [[3.0], [5.0]]
    for axes, values in (
        (jobs_a, [1, 1, 2, 1, 1, 1]),
        (jobs_b, [0, 1, 1, 1, 0, 0]),
        (cores_a, [4, 3, 2, 1, 4, 4]),
        (cores_b, [0, 1, 2, 3, 0, 0]),
    ):
        assert axes.lines[0].get_drawstyle() == "steps-post"
        x, y = line(axes)
        assert x.tolist() == [0.0, 1.0, 2.5, 3.0, 5.0, 6.0]
        assert y.tolist() == values
    assert [axes.get_ylabel() for axes in figure.axes[1:]] == ["jobs", "jobs", "cores", "cores"]
    assert cores_b.get_xlabel() == "time (unit of the rates)"
    assert figure.get_suptitle() == "all 4 arrivals and departures"
    assert [label.get_text() for label in strip.get_yticklabels()] == ["a", "b"]
    assert [axes.texts[0].get_text() for axes in figure.axes[1:]] == ["a", "b", "a", "b"]
    for i, axes in enumerate((jobs_a, jobs_b)):
        assert axes.lines[0].get_color() == figure.axes[3 + i].lines[0].get_color() == class_colour(i)
    assert jobs_a.get_ylim() == jobs_b.get_ylim()
    assert cores_a.get_ylim() == cores_b.get_ylim()


def test_cores_of_jobs_are_added_up_by_class() -> None:
    nan = math.nan
    figure = path_figure(by_hand([nan, 2.0, 0.5, 1.25, nan, nan, nan]))
    *_, cores_a, cores_b = figure.axes
    assert line(cores_a)[1].tolist() == [2.0, 2.0, 3.25, 1.25, 1.25, 1.25]
    assert line(cores_b)[1].tolist() == [0.0, 0.5, 0.5, 0.5, 0.0, 0.0]


def test_both_forms_of_a_path_look_the_same() -> None:
    path = recorded(three_classes(), departures=300)
    whole, split = (
        path_figure(form, since=path.start, until=path.end).axes[1:] for form in (path, path.split())
    )
    assert len(whole) == len(split) == 6
    for a, b in zip(whole, split, strict=True):
        np.testing.assert_array_equal(line(a)[0], line(b)[0])
        np.testing.assert_allclose(line(a)[1], line(b)[1], atol=1e-9)


def test_curves_are_right_at_any_time() -> None:
    """Jobs are those that came less those that left; cores of EQUI are in proportion to them."""
    system = three_classes()
    path = recorded(system)
    figure = path_figure(path, since=20.0, until=40.0)
    jobs = np.zeros((3, 200))
    times = np.random.default_rng(1).uniform(20.0, 40.0, 200)
    for i in range(3):
        mine = path.job_class == i
        came, left = (path.time[mine & (path.event == kind)] for kind in (Event.ARRIVAL, Event.DEPARTURE))
        jobs[i] = [np.sum(came <= t) - np.sum(left <= t) for t in times]
        inside = left[(left >= 20.0) & (left <= 40.0)]
        np.testing.assert_array_equal(marks(figure.axes[0])[i], inside)
        assert inside.size > 5
    for i in range(3):
        for axes, expected in (
            (figure.axes[1 + i], jobs[i]),
            (figure.axes[4 + i], 16.0 * jobs[i] / np.maximum(jobs.sum(axis=0), 1.0)),
        ):
            x, y = line(axes)
            np.testing.assert_allclose(y[np.searchsorted(x, times, side="right") - 1], expected, atol=1e-12)


def test_a_long_path_shows_a_stretch_and_says_which() -> None:
    path = recorded(cw.load_system("paper:1"))
    moves = path.time[(path.event == Event.ARRIVAL) | (path.event == Event.DEPARTURE)]
    first = path_figure(path)
    x, _ = line(first.axes[1])
    assert x[0] == path.start
    assert x[-1] == moves[79]
    assert 10.0 <= moves[79] < 100.0  # so that tenths tell the ends apart
    assert first.get_suptitle() == (
        f"80 of {moves.size} arrivals and departures\ntime 0.0 to {moves[79]:.1f} of 0.0 to {path.end:.1f}"
    )
    since = line(path_figure(path, since=50.0).axes[1])[0]
    assert since[0] == 50.0
    assert np.sum((moves > 50.0) & (moves <= since[-1])) == 80
    until = line(path_figure(path, until=50.0).axes[1])[0]
    assert until[-1] == 50.0
    assert np.sum((moves >= until[0]) & (moves < 50.0)) == 80


def test_moments_with_many_rows_count_once() -> None:
    """In the per-job form an arrival is followed by a row for each job that makes room."""
    path = recorded(three_classes())
    ends = [line(path_figure(form).axes[1])[0][-1] for form in (path, path.split())]
    assert ends[0] == ends[1]


def test_paths_that_cannot_be_drawn_are_refused() -> None:
    path = recorded(cw.load_system("paper:1"), departures=100)
    with pytest.raises(cw.errors.InvalidInput, match=r"since must lie in \[0, .*got 1000\.5"):
        path_figure(path, since=1000.5)
    with pytest.raises(cw.errors.InvalidInput, match="until must lie in"):
        path_figure(path, until=-1.0)
    with pytest.raises(cw.errors.InvalidInput, match="since 3 until 2"):
        path_figure(path, since=3.0, until=2.0)
    with pytest.raises(cw.errors.InvalidInput, match=r"expected a SamplePath.*None"):
        path_figure(None)  # type: ignore[arg-type]
    moment = cw.SamplePath(
        ("a",), 1.0, np.array([2.0]), np.array([2], np.int8), np.array([0]), np.array([1]), np.array([[1.0]])
    )
    with pytest.raises(cw.errors.InvalidInput, match="lasts no time: it starts and ends at 2"):
        path_figure(moment)
    many = cw.SamplePath(
        tuple(f"c{i}" for i in range(25)),
        1.0,
        np.array([0.0, 1.0]),
        np.array([Event.START, Event.END], np.int8),
        np.array([NOBODY, NOBODY]),
        np.array([NOBODY, NOBODY]),
        np.zeros((2, 25)),
    )
    with pytest.raises(cw.errors.InvalidInput, match="at most 24 classes, got 25"):
        path_figure(many)


# --- estimates --------------------------------------------------------------------------------


def estimated(
    system: cw.System, departures: int = 2000, seed: int = 3, family: str | None = None
) -> tuple[cw.Statistics, cw.results.Estimates]:
    statistics = cw.simulate(system, cw.Equi(), departures=departures, rng=seed).statistics
    return statistics, cw.estimate(statistics, system, family=family)


def table(arrivals: int, rows: list[tuple[float, float, float]]) -> cw.Statistics:
    widths, departures, job_time = np.array(rows).T.copy()
    seen = cw.results.ClassStatistics(arrivals, widths, departures, job_time)
    return cw.Statistics(("only",), 100.0, (seen,))


def one_class(size_rate: float = 2.0, curve: cw.SpeedUp | None = None) -> cw.System:
    return cw.System(8, [cw.JobClass("only", 1.0, size_rate, curve or cw.Amdahl(0.5))])


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
        cw.errors.InvalidInput, match="the statistics are of classes one, two; the system has only"
    ):
        estimate_figure(statistics, other, estimates)
    with pytest.raises(
        cw.errors.InvalidInput, match="the estimates are of classes only; the system has one, two"
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


# --- residuals --------------------------------------------------------------------------------


def verdict(residuals: Floats, name: str = "only", p_value: float = 0.3) -> cw.results.GoodnessOfFit:
    return cw.results.GoodnessOfFit(name, residuals, {"law": p_value, "order": 0.5}, p_value)


@pytest.mark.parametrize("count", [20, 300, 1500, 20_000])
def test_the_farthest_deviation_is_the_statistic_of_kolmogorov_and_smirnov(count: int) -> None:
    residuals = np.random.default_rng(count).exponential(size=count)
    (axes,) = residual_figure({"only": verdict(residuals)}).axes
    x, y = line(axes, 1)
    assert y.max() == pytest.approx(stats.kstest(residuals, "expon", alternative="greater").statistic)
    assert -y.min() == pytest.approx(stats.kstest(residuals, "expon", alternative="less").statistic)
    assert np.all(np.diff(x) >= 0.0)
    assert x.size <= 4100
    (span,) = axes.patches
    edges = span.get_extents().transformed(axes.transData.inverted()).intervaly
    exact = stats.kstwo.ppf(0.95, count)
    np.testing.assert_allclose(edges, [-exact, exact], rtol=0.02)


def test_a_log_that_does_not_fit_is_seen_and_said() -> None:
    """Against the true curves residuals stay in the band; against a wrong one those of its class do not."""
    system = cw.load_system("paper:2")
    path = recorded(system, departures=2000)
    right = cw.goodness_of_fit(path, system)
    wrong = cw.goodness_of_fit(path, system.with_curves({"two": cw.Amdahl(0.1)}))
    for verdicts, follows in ((right, True), (wrong, False)):
        one, two = residual_figure(verdicts).axes
        assert "no sign against the model" in one.get_title()
        assert ("no sign against" if follows else "does not follow the model") in two.get_title()
        edge = stats.kstwo.ppf(0.95, verdicts["two"].residuals.size)
        assert (np.abs(line(two, 1)[1]).max() < edge) == follows
        assert one.get_ylim() == two.get_ylim()
    assert two.get_xlabel() == "share under the model, $1 - e^{-r}$"
    assert one.get_ylabel() == "share of residuals up to $r$,\nless that under the model"


def test_classes_keep_their_colours_when_some_have_no_verdict() -> None:
    residuals = np.random.default_rng(1).exponential(size=50)
    verdicts = {"two": verdict(residuals, "two")}
    assert residual_figure(verdicts).axes[0].lines[1].get_color() == class_colour(0)
    (axes,) = residual_figure(verdicts, names=["one", "two"]).axes
    assert axes.lines[1].get_color() == class_colour(1)
    with pytest.raises(cw.errors.InvalidInput, match="class 'two'; the names are one, three"):
        residual_figure(verdicts, names=["one", "three"])


def test_few_residuals_and_tiny_p_values_are_said_as_they_are() -> None:
    few = cw.results.GoodnessOfFit("few", np.array([0.3, 1.2]), {}, math.nan)
    none = cw.results.GoodnessOfFit("none", np.empty(0), {}, math.nan)
    sure = verdict(np.linspace(5.0, 6.0, 40), "sure", p_value=0.0)
    titles = [axes.get_title() for axes in residual_figure({v.name: v for v in (few, none, sure)}).axes]
    assert titles[0] == "few: 2 departures\ntoo few to test the model"
    assert titles[1] == "none: 0 departures\ntoo few to test the model"
    assert titles[2].endswith("does not follow the model, $p$ < 1e-99\n(law < 1e-99, order 0.5)")


def test_verdicts_that_are_none_are_refused() -> None:
    with pytest.raises(cw.errors.InvalidInput, match="no class has a verdict"):
        residual_figure({})
    with pytest.raises(cw.errors.InvalidInput, match="expected what goodness_of_fit returns"):
        residual_figure({"one": 0.3})  # type: ignore[dict-item]


# --- all --------------------------------------------------------------------------------------


def _path_of(system: cw.System) -> Figure:
    return path_figure(recorded(system, departures=200))


def _estimate_of(system: cw.System) -> Figure:
    statistics, estimates = estimated(system, 400)
    return estimate_figure(statistics, system, estimates, truth=system)


def _residuals_of(system: cw.System) -> Figure:
    return residual_figure(cw.goodness_of_fit(recorded(system, departures=200), system))


@pytest.mark.parametrize("draw", [_path_of, _estimate_of, _residuals_of])
@pytest.mark.parametrize("classes", [1, 2, 3, 5])
def test_no_text_leaves_the_figure_or_meets_another_panel(
    draw: Callable[[cw.System], Figure], classes: int
) -> None:
    names = ["costs $5 or $6 each", "x" * 80, "a_b^c", "short", "five"][:classes]
    system = cw.System(12, [cw.JobClass(name, 0.5, 1.0, cw.Amdahl(0.6)) for name in names])
    figure = draw(system)
    figure.draw_without_rendering()
    page = figure.bbox.padded(1.0)
    boxes = []
    for axes in figure.axes:
        box = axes.get_tightbbox()
        assert box is not None
        assert page.containsx(box.x0)
        assert page.containsx(box.x1)
        assert page.containsy(box.y0)
        assert page.containsy(box.y1)
        boxes.append(box.padded(-1.0))
    boxes += [legend.get_window_extent() for legend in figure.legends]
    for i, box in enumerate(boxes):
        assert not box.count_overlaps(boxes[i + 1 :])


@pytest.mark.parametrize("ending", ["png", "pdf", "svg"])
@pytest.mark.parametrize("draw", [_path_of, _estimate_of, _residuals_of])
def test_figures_are_written(draw: Callable[[cw.System], Figure], ending: str, tmp_path: Path) -> None:
    file = tmp_path / f"figure.{ending}"
    save_figure(draw(cw.load_system("paper:1")), file)
    start = {"png": b"\x89PNG\r\n\x1a\n", "pdf": b"%PDF", "svg": b"<?xml"}[ending]
    assert file.read_bytes().startswith(start)


def test_pyplot_and_its_global_state_are_not_touched() -> None:
    program = (
        "import sys, corewise as cw, matplotlib\n"
        "from corewise.plots.estimates import estimate_figure\n"
        "from corewise.plots.path import path_figure\n"
        "from corewise.plots.residuals import residual_figure\n"
        "settings = lambda: [matplotlib.rcParams[key] for key in ('font.size', 'savefig.dpi')]\n"
        "before = settings()\n"
        "system = cw.load_system('paper:1')\n"
        "run = cw.simulate(system, cw.Equi(), departures=200, rng=1, record=True)\n"
        "path_figure(run.path)\n"
        "estimate_figure(run.statistics, system, cw.estimate(run.statistics, system))\n"
        "residual_figure(cw.goodness_of_fit(run.path, system))\n"
        "assert 'matplotlib.pyplot' not in sys.modules\n"
        "assert settings() == before\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
