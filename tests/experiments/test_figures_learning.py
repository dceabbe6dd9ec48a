"""Figures of learning studies show the numbers that they are about."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

import corewise as cw
from corewise.experiments.figures.learning import error_figure, gap_figure, trajectory_figure
from corewise.experiments.figures.tracking import tracking_figure
from corewise.experiments.studies.learning import LearningStudy
from corewise.plots.style import class_colour
from tests.helpers.figures import TRUTH, assert_truth_of, bands, drawn_look, legend, line
from tests.helpers.studies import study

pytestmark = pytest.mark.slow

if TYPE_CHECKING:
    from matplotlib.figure import Figure


# --- trajectories -----------------------------------------------------------------------------


def test_a_trajectory_is_one_run_with_the_truth_and_the_band_around_it() -> None:
    made = study(epochs=50)
    (axes,) = trajectory_figure(made, run=2, title="Example 1").axes
    epochs = np.arange(1, 51)
    for i, true in enumerate((0.3, 0.8)):
        x, estimates = line(axes, 2 * i)
        np.testing.assert_array_equal(x, epochs)
        np.testing.assert_array_equal(estimates, made.estimates[2, i])
        assert axes.lines[2 * i].get_color() == class_colour(i)
        np.testing.assert_array_equal(line(axes, 2 * i + 1)[1], np.full(50, true))
        assert_truth_of(i, axes, 2 * i + 1)
        at, low, high = bands(axes)[i]
        sd = (2.0, 0.5)[i] / np.sqrt(100.0 * epochs)
        np.testing.assert_array_equal(at, epochs)
        np.testing.assert_allclose(low, np.maximum(true - 2.0 * sd, 0.0))
        np.testing.assert_allclose(high, np.minimum(true + 2.0 * sd, 1.0))
    figure = axes.get_figure()
    assert figure is not None
    assert figure.get_suptitle() == "Example 1"
    assert axes.get_xlabel() == "epoch, $k$"
    assert legend(figure) == [  # type: ignore[arg-type]
        "estimate, class one",
        "estimate, class two",
        TRUTH,
        "true value ± 2 Cramér–Rao sd",
    ]


def test_a_band_is_cut_where_parameters_end() -> None:
    made = study(epochs=4, bounds=np.full((2, 4), 0.2))
    first, second = bands(trajectory_figure(made).axes[0])
    assert first[1].tolist() == [0.0] * 4
    np.testing.assert_allclose(first[2], 0.7)
    np.testing.assert_allclose(second[1], 0.4)
    assert second[2].tolist() == [1.0] * 4


@pytest.mark.parametrize("extreme", [0.0, 1.0])
def test_estimates_at_an_end_of_the_range_are_seen(extreme: float) -> None:
    made = study(epochs=30)
    made.estimates[0, 0, 0] = extreme
    low, high = trajectory_figure(made).axes[0].get_ylim()
    assert low < made.estimates[0].min()
    assert high > made.estimates[0].max()
    assert high - low < 1.2


def test_limits_follow_the_estimates_and_all_but_the_widest_tenth_of_the_band() -> None:
    made = study(epochs=100)
    (axes,) = trajectory_figure(replace(made, estimates=made.truths)).axes
    bottom, top = axes.get_ylim()
    assert 0.3 - 4.0 / math.sqrt(100.0 * 10) + 0.02 > bottom
    assert bottom < 0.3 - 4.0 / math.sqrt(100.0 * 11) < bottom + 0.05
    assert top - 0.05 < 0.8 + 1.0 / math.sqrt(100.0 * 11) < top


def test_changing_curves_have_no_band_and_a_step_where_they_change() -> None:
    made = study(epochs=4, bounds=np.full((2, 4), np.nan))
    made.truths[0, 0] = [0.6, 0.6, 0.5, 0.5]
    figure = trajectory_figure(made)
    (axes,) = figure.axes
    assert line(axes, 1)[1].tolist() == [0.6, 0.6, 0.5, 0.5]
    assert axes.lines[1].get_drawstyle() == "steps-mid"
    assert not bands(axes)
    assert legend(figure)[-1] == TRUTH


def test_a_single_epoch_is_seen() -> None:
    (axes,) = trajectory_figure(study(epochs=1)).axes
    assert axes.lines[0].get_marker() == "o"
    assert axes.lines[1].get_marker() == "_"
    assert not bands(axes)
    segments = [bar.get_segments() for bar in axes.collections]  # type: ignore[attr-defined]
    np.testing.assert_allclose(segments[1], [[[1.0, 0.7], [1.0, 0.9]]])


# --- errors -----------------------------------------------------------------------------------


def test_errors_are_root_mean_squares_with_two_standard_errors() -> None:
    studies = {"1a": study(runs=8), "1b": study(runs=20, epochs=9, seed=2)}
    figure = error_figure(studies)
    assert len(figure.axes) == 2
    for i, axes in enumerate(figure.axes):
        assert axes.get_xscale() == axes.get_yscale() == "log"
        for j, (made, runs) in enumerate(zip(studies.values(), (8, 20), strict=True)):
            x, error = line(axes, 2 * j)
            np.testing.assert_array_equal(x, made.departures)
            for k in range(x.size):
                squares = [(made.estimates[run, i, k] - (0.3, 0.8)[i]) ** 2 for run in range(runs)]
                assert error[k] == pytest.approx(math.sqrt(math.fsum(squares) / runs))
            _, low, high = bands(axes)[j]
            np.testing.assert_allclose(np.log(error / low), 2.0 / math.sqrt(2.0 * runs))
            np.testing.assert_allclose(np.log(high / error), 2.0 / math.sqrt(2.0 * runs))
            np.testing.assert_allclose(line(axes, 2 * j + 1)[1], (2.0, 0.5)[i] / np.sqrt(made.departures))
            assert axes.lines[2 * j].get_linestyle() == axes.lines[2 * j + 1].get_linestyle()
            assert axes.lines[2 * j].get_linewidth() > axes.lines[2 * j + 1].get_linewidth()
        assert axes.lines[0].get_linestyle() != axes.lines[2].get_linestyle()
        assert axes.get_title() == f"class {('one', 'two')[i]}"
        assert axes.get_xlabel() == "departures so far, all classes"
        first, second = axes.collections
        assert not first.get_hatch()
        assert second.get_hatch()
        assert not np.size(second.get_facecolor())
    assert figure.axes[0].get_ylim() == figure.axes[1].get_ylim()
    assert legend(figure)[:2] == ["1a", "1b"]
    plain_one, hatched, _ = figure.legends[0].get_patches()
    assert not plain_one.get_hatch()
    assert hatched.get_hatch() == figure.axes[0].collections[1].get_hatch()
    assert "Cramér–Rao bound, in the same dashes" in legend(figure)


def test_of_many_epochs_those_are_drawn_that_lie_evenly_on_a_log_scale() -> None:
    made = study(epochs=5000)
    x, error = line(error_figure({"1b": made}).axes[0])
    assert 40 <= x.size <= 80
    assert (x[0], x[-1]) == (100.0, 500_000.0)
    np.testing.assert_array_equal(error, made.errors[0][(x / 100.0).astype(int) - 1])
    late = np.diff(np.log(x[x > 20_000.0]))
    assert late.max() < 1.5 * late.min()
    at, _ = line(gap_figure({"1b": made}).axes[0])
    np.testing.assert_array_equal(at, x)


def test_without_bounds_none_is_explained() -> None:
    figure = error_figure({"1a": study(bounds=np.full((2, 6), np.nan))})
    assert legend(figure) == ["1a", "± 2 standard errors"]


# --- gaps -------------------------------------------------------------------------------------


def test_gaps_are_medians_in_percent_with_the_middle_of_the_runs() -> None:
    made = study(runs=21)
    figure = gap_figure({"1b": made}, baseline={"EQUI": 0.012})
    (axes,) = figure.axes
    assert axes.get_xscale() == axes.get_yscale() == "log"
    assert axes.get_ylabel() == "gap to the optimum (%)"
    x, median = line(axes)
    np.testing.assert_array_equal(x, made.departures)
    ordered = 100.0 * np.sort(made.gaps, axis=0)  # of 21 runs the 3rd, the 11th and the 19th
    np.testing.assert_allclose(median, ordered[10])
    ((_, low, high),) = bands(axes)
    np.testing.assert_allclose(low, ordered[2])
    np.testing.assert_allclose(high, ordered[18])
    assert line(axes, 1)[1].tolist() == [1.2, 1.2]
    bottom, top = axes.get_ylim()
    assert bottom < low.min()
    assert top > 1.2
    assert legend(figure) == ["1b", "median over runs; band: 10 % to 90 %", "EQUI: 1.2 %"]


def test_a_single_run_is_a_line() -> None:
    made = study(runs=1)
    figure = gap_figure({"load 0.8": made})
    np.testing.assert_allclose(line(figure.axes[0])[1], 100.0 * made.gaps[0])
    assert not bands(figure.axes[0])
    assert legend(figure) == ["load 0.8"]


def test_gaps_that_were_not_computed_are_skipped() -> None:
    made = study(runs=3)
    made.gaps[:, [0, 2, 3]] = np.nan
    made.gaps[0, 4] = np.nan
    x, median = line(gap_figure({"1b": made}).axes[0])
    assert x.tolist() == [200.0, 500.0, 600.0]
    assert median[1] == pytest.approx(100.0 * made.gaps[1:, 4].mean())


def test_rounding_is_drawn_as_such() -> None:
    made = study(runs=1, epochs=4, gaps=np.array([[1e-3, 1e-15, 0.0, -1e-12]]))
    figure = gap_figure({"1b": made})
    np.testing.assert_allclose(line(figure.axes[0])[1], [0.1, 1e-8, 1e-8, 1e-8])
    assert "rounding, below $10^{-8}$ %" in legend(figure)
    assert 1e-9 < figure.axes[0].get_ylim()[0] < 1e-8
    with pytest.raises(cw.errors.InvalidInput, match=r"gap of '1b' is -0\.001; nothing is better"):
        gap_figure({"1b": study(gaps=np.full((3, 6), -1e-3))})


def test_policies_that_cannot_keep_up_lie_at_the_upper_edge() -> None:
    gaps = np.array([[np.inf, np.inf, 0.04], [np.inf, 0.01, 0.02], [np.inf, 0.03, 0.01]])
    figure = gap_figure({"1b": study(epochs=3, gaps=gaps)})
    (axes,) = figure.axes
    top = axes.get_ylim()[1]
    assert math.isfinite(top)
    assert top > 4.0
    assert line(axes)[1].tolist() == pytest.approx([top, 3.0, 2.0])
    assert bands(axes)[0][2][:2].tolist() == [top, top]
    assert [points.tolist() for points in line(axes, 1)] == [[100.0], [top]]
    assert axes.lines[1].get_marker() == "^"
    assert "policy that cannot keep up" in legend(figure)
    alone = gap_figure({"1b": study(gaps=np.full((3, 6), np.inf))}).axes[0]
    assert line(alone)[1].tolist() == [alone.get_ylim()[1]] * 6


def test_gaps_that_cannot_be_drawn_are_refused() -> None:
    with pytest.raises(cw.errors.InvalidInput, match="no gap of '1a' is known"):
        gap_figure({"1b": study(), "1a": study(gaps=np.full((3, 6), np.nan))})
    with pytest.raises(cw.errors.InvalidInput, match="gap of 'priority' must be finite, got inf"):
        gap_figure({"1b": study()}, baseline={"priority": math.inf})
    with pytest.raises(cw.errors.InvalidInput, match=r"gaps of other policies by their names, got 0\.012"):
        gap_figure({"1b": study()}, baseline=0.012)  # type: ignore[arg-type]
    with pytest.raises(cw.errors.InvalidInput, match="at most 3 baselines, got 4"):
        gap_figure({"1b": study()}, baseline=dict.fromkeys("abcd", 0.1))


# --- all of them ------------------------------------------------------------------------------


def _tracked(studies: dict[str, LearningStudy]) -> Figure:
    return tracking_figure(studies, cw.load_system("paper:1"))


@pytest.mark.parametrize("draw", [error_figure, gap_figure, _tracked])
def test_studies_that_do_not_belong_together_are_refused(draw: Callable[..., Figure]) -> None:
    with pytest.raises(cw.errors.InvalidInput, match=r"studies by their names, at least one, got \{\}"):
        draw({})
    with pytest.raises(cw.errors.InvalidInput, match="studies by their names"):
        draw([study()])
    with pytest.raises(cw.errors.InvalidInput, match="expected what learning_study returns, got None"):
        draw({"1a": None})
    with pytest.raises(cw.errors.InvalidInput, match="'1b' is of classes a, b; '1a' of one, two"):
        draw({"1a": study(), "1b": study(names=("a", "b"))})
    with pytest.raises(cw.errors.InvalidInput, match="at most 24 classes, got 25"):
        draw({"1a": study(names=[f"c{i}" for i in range(25)])})
    with pytest.raises(cw.errors.InvalidInput, match="at most 6 studies, got 7"):
        draw(dict.fromkeys("abcdefg", study()))


def test_runs_that_are_not_there_are_refused() -> None:
    with pytest.raises(
        cw.errors.InvalidInput, match="there is no run 3: the study has 3, and the first is 0"
    ):
        trajectory_figure(study(), run=3)
    with pytest.raises(cw.errors.InvalidInput, match="run must be at least 0, got -1"):
        trajectory_figure(study(), run=-1)
    with pytest.raises(cw.errors.InvalidInput, match="expected what learning_study returns"):
        trajectory_figure({"1a": study()})  # type: ignore[arg-type]


def test_classes_of_one_colour_have_different_dashes() -> None:
    (axes,) = trajectory_figure(study(names=[f"c{i}" for i in range(10)])).axes
    assert len({drawn_look(one) for one in axes.lines[::2]}) == 10
