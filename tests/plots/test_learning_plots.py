"""Figures of learning, of several policies and of speed-up curves show the numbers that they are about."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from matplotlib.colors import to_rgb

import corewise as cw
from corewise.experiments.figures.learning import error_figure, gap_figure, trajectory_figure
from corewise.experiments.figures.tracking import changes_figure, tracking_figure
from corewise.experiments.studies.learning import LearningStudy
from corewise.kit.arrays import Floats
from corewise.learning.algorithms import algorithm_1b
from corewise.learning.epochs import changes_found
from corewise.learning.loop import learn
from corewise.learning.plant import SimulatedPlant
from corewise.plots.curves import speedup_figure
from corewise.plots.epochs import learn_figure
from corewise.plots.policy import policy_heatmap, policy_heatmaps
from corewise.plots.style import class_colour, save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


TRUTH = "true value, dotted in the class colour"


def study(
    runs: int = 3, epochs: int = 6, names: Sequence[str] = ("one", "two"), seed: int = 1, **changed: Any
) -> LearningStudy:
    """Return a study whose estimates scatter about 0.3 and 0.8 as their bounds say."""
    rng = np.random.default_rng(seed)
    count, shape = len(names), (runs, len(names), epochs)
    truths = np.broadcast_to(np.resize([0.3, 0.8], count)[:, None], shape).copy()
    windows = np.full(epochs, 100)
    departures = np.cumsum(windows)
    bounds = np.resize([2.0, 0.5], count)[:, None] / np.sqrt(departures)
    gaps = 10.0 ** rng.uniform(-5.0, -2.0, (runs, epochs))
    made = LearningStudy(
        algorithm="1b",
        names=tuple(names),
        windows=windows,
        departures=departures,
        times=np.cumsum(rng.gamma(100.0, 0.5, (runs, epochs)), axis=1),
        estimates=np.clip(truths + bounds * rng.normal(size=shape), 0.0, 1.0),
        truths=truths,
        bounds=bounds,
        mean_jobs=1.0 + gaps,
        gaps=gaps,
    )
    return replace(made, **changed)


def line(axes: Axes, which: int = 0) -> tuple[Floats, Floats]:
    x, y = axes.lines[which].get_data()
    return np.asarray(x, dtype=float), np.asarray(y, dtype=float)


def bands(axes: Axes) -> list[tuple[Floats, Floats, Floats]]:
    """Return abscissae, lower and upper edge of every band of a panel."""
    found = []
    for polygon in axes.collections:
        if type(polygon).__name__ == "FillBetweenPolyCollection" and polygon.get_paths():
            x, y = np.asarray(polygon.get_paths()[0].vertices).T
            at = np.unique(x)
            edges = np.array([(y[x == one].min(), y[x == one].max()) for one in at])
            found.append((at, edges[:, 0], edges[:, 1]))
    return found


def assert_truth_of(i: int, axes: Axes, which: int) -> None:
    """Check that a line is dotted, and of the colour of class i but darker."""
    shown, own = (np.array(to_rgb(colour)) for colour in (axes.lines[which].get_color(), class_colour(i)))
    np.testing.assert_allclose(np.cross(shown, own), 0.0, atol=1e-12)
    assert 0.3 * own.sum() < shown.sum() < 0.8 * own.sum()
    assert axes.lines[which].get_linestyle() not in ("-", "None")
    assert axes.lines[which].get_zorder() > axes.lines[which - 1].get_zorder()


def legend(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


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


# --- tracking ---------------------------------------------------------------------------------


def drifting(runs: int = 2, epochs: int = 300) -> LearningStudy:
    return study(runs, epochs, times=np.tile(np.linspace(1e4, 3e6, epochs), (runs, 1)))


def test_tracking_shows_the_steps_of_table_2() -> None:
    studies = {"latest": drifting(), "all": drifting(epochs=100)}
    figure = tracking_figure(studies, cw.load_system("paper:drift"), run=1)
    assert len(figure.axes) == 2
    # Paper: Table 2, in units of 10^5.
    table = {0: (0.6, 0.85), 6: (0.5, 0.85), 12: (0.5, 0.75), 18: (0.55, 0.75), 24: (0.55, 0.9)}
    for axes, (name, made) in zip(figure.axes, studies.items(), strict=True):
        upright = [one for one in axes.lines if np.ptp(np.asarray(one.get_xdata(), dtype=float)) == 0.0]
        at = [np.asarray(one.get_xdata(), dtype=float)[0] for one in upright]
        assert at == pytest.approx([6.0, 12.0, 18.0, 24.0])
        curves = [one for one in axes.lines if one not in upright]
        for i in range(2):
            x, y = (np.asarray(part, dtype=float) for part in curves[2 * i].get_data())
            np.testing.assert_allclose(x, made.times[1] / 1e5)
            np.testing.assert_array_equal(y, made.estimates[1, i])
            x, y = (np.asarray(part, dtype=float) for part in curves[2 * i + 1].get_data())
            assert x[-1] == pytest.approx(30.0)
            for start, values in table.items():
                for moment in (start, start + 5.9):
                    assert y[np.searchsorted(x, moment + 1e-9, side="right") - 1] == values[i]
            assert curves[2 * i].get_color() == class_colour(i)
            assert_truth_of(i, axes, axes.lines.index(curves[2 * i + 1]))
            assert {one.get_drawstyle() for one in curves} == {"steps-post"}
        assert axes.get_title(loc="left") == name
    assert figure.axes[0].get_ylim() == figure.axes[1].get_ylim()
    assert figure.axes[1].get_xlabel() == r"time ($\times 10^{5}$, unit of the rates)"
    assert legend(figure) == ["estimate, class one", "estimate, class two", TRUTH, "a curve changes"]


def test_changes_still_to_come_are_not_shown() -> None:
    made = study(times=np.tile(np.linspace(100.0, 7000.0, 6), (3, 1)))
    curve = cw.Amdahl(0.5)
    system = cw.load_system("paper:1")
    soon = cw.System(30, system.classes, [cw.Change(2000.0, "one", curve), cw.Change(9000.0, "two", curve)])
    (axes,) = tracking_figure({"1a": made}, soon).axes
    assert axes.get_xlabel() == "time (unit of the rates)"
    assert axes.get_xlim() == (0.0, 7000.0)
    assert len(axes.lines) == 5
    assert line(axes, 2)[0].tolist() == [0.0, 2000.0, 7000.0]
    assert line(axes, 4)[1].tolist() == [0.8, 0.8]
    assert "a curve changes" not in legend(tracking_figure({"1a": made}, system))


def test_what_cannot_be_tracked_is_refused() -> None:
    with pytest.raises(cw.errors.InvalidInput, match="studies are of classes a, b; the system has one, two"):
        tracking_figure({"1a": study(names=("a", "b"))}, cw.load_system("paper:1"))
    curves = [cw.JobClass(name, 1.0, 1.0, cw.Usl(0.1, 0.01)) for name in ("one", "two")]
    with pytest.raises(cw.errors.InvalidInput, match="class 'one': usl has not one parameter"):
        tracking_figure({"1a": study()}, cw.System(4, curves))
    with pytest.raises(cw.errors.InvalidInput, match="there is no run 3: the study has 3"):
        tracking_figure({"1a": study(runs=4), "1b": study(runs=3)}, cw.load_system("paper:1"), run=3)
    with pytest.raises(cw.errors.InvalidInput, match="expected a System"):
        tracking_figure({"1a": study()}, "paper:drift")  # type: ignore[arg-type]


def raised_for(name: str, raised: int) -> cw.results.Alarm:
    at, sides = (float(raised), float(raised)), {"p": 0.5}
    return cw.results.Alarm(name, "curve", raised, at[0], at, at[0], at, sides, sides, 20.0, 15.0, 1e8)


def test_every_change_has_a_panel_with_all_studies() -> None:
    """Estimates of the class that changed, by the time since; alarms for that class when they were raised."""
    epochs = 300
    found = ((), (raised_for("one", 6_100), raised_for("two", 12_100), raised_for("two", 29_000)))
    plain = drifting(epochs=epochs)
    studies = {"1a": plain, "adaptive": replace(drifting(epochs=epochs), alarms=found)}
    system = cw.load_system("paper:drift")
    figure = changes_figure(studies, system, span=(3e4, 9e4), run=1)
    titles = ["one: 0.6 → 0.5 at $t$ = 600000", "two: 0.85 → 0.75 at $t$ = 1.2e+06"]
    titles += ["one: 0.5 → 0.55 at $t$ = 1.8e+06", "two: 0.75 → 0.9 at $t$ = 2.4e+06"]
    assert [axes.get_title() for axes in figure.axes] == [f"class {title}" for title in titles]
    for axes, change, alarms in zip(figure.axes, system.changes, (1, 1, 0, 0), strict=True):
        i = system.index(change.name)
        assert axes.get_xlim() == (-3e4, 9e4)
        lines = [one for one in axes.lines if one.get_marker() in {"None", ""}]
        assert len(lines) == 3
        low, high = axes.get_ylim()
        for made, one in zip(studies.values(), lines, strict=False):
            x, y = (np.asarray(part, dtype=float) for part in one.get_data())
            # From the estimate in force at the left edge to the first beyond the right one.
            assert x[0] <= -3e4 <= x[1]
            assert x[-2] < 9e4 <= x[-1]
            first = int(np.flatnonzero(made.times[1] - change.time == x[0])[0])
            np.testing.assert_array_equal(y, made.estimates[1, i, first : first + y.size])
            assert low < y.min()
            assert y.max() < high
            assert one.get_drawstyle() == "steps-post"
        assert len({one.get_color() for one in lines[:2]}) == 2
        x, y = (np.asarray(part, dtype=float) for part in lines[2].get_data())
        curves = [system.at(change.time + since)[change.name].speedup for since in (-1.0, 1.0)]
        for since, curve in zip((-1.0, 1.0), curves, strict=True):
            assert y[np.searchsorted(x, since, side="right") - 1] == curve.parameters["p"]
        marks = [one for one in axes.lines if one not in lines]
        assert len(marks) == alarms
        if alarms:
            # Departure 100 k is at the end of window k, and windows are as long as each other.
            raised = next(row.raised for row in found[1] if row.name == change.name)
            moment = np.interp(raised, plain.departures, plain.times[1])
            assert np.asarray(marks[0].get_xdata(), dtype=float)[0] == pytest.approx(moment - change.time)
            assert marks[0].get_color() == lines[1].get_color()
    assert legend(figure) == ["1a", "adaptive", TRUTH, "alarm raised"]
    assert "alarm raised" not in legend(changes_figure({"1a": plain}, system, span=(1.0, 1.0)))


def test_changes_that_cannot_be_shown_are_refused() -> None:
    span = (1.0, 1.0)
    with pytest.raises(cw.errors.InvalidInput, match="from 1 to 12 changes, the system has 0"):
        changes_figure({"1a": study()}, cw.load_system("paper:1"), span=span)
    system = cw.load_system("paper:drift")
    many = cw.System(10, system.classes, [cw.Change(1.0, "one", cw.Amdahl(0.5))] * 13)
    with pytest.raises(cw.errors.InvalidInput, match="from 1 to 12 changes, the system has 13"):
        changes_figure({"1a": study()}, many, span=span)
    with pytest.raises(cw.errors.InvalidInput, match="span must be positive"):
        changes_figure({"1a": study()}, system, span=(1.0, 0.0))
    with pytest.raises(cw.errors.InvalidInput, match="studies are of classes a, b; the system has one, two"):
        changes_figure({"1a": study(names=("a", "b"))}, system, span=span)


# --- all studies ------------------------------------------------------------------------------


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
    looks = {(one.get_color(), repr(one._unscaled_dash_pattern)) for one in axes.lines[::2]}  # type: ignore[attr-defined]
    assert len(looks) == 10


# --- heat maps --------------------------------------------------------------------------------


def test_heat_maps_share_states_colours_and_one_bar() -> None:
    system = cw.load_system("paper:2")
    policies: dict[str, cw.Policy] = {"start": cw.Equi(), "end": cw.Whittle()}
    figure = policy_heatmaps(policies, system, capacity=(7, 5), title="Example 2")
    first, second, bar = figure.axes
    for axes, (name, policy) in zip((first, second), policies.items(), strict=True):
        (image,) = axes.images
        (alone,) = policy_heatmap(policy, system, capacity=(7, 5)).axes[0].images
        shown, expected = image.get_array(), alone.get_array()
        assert isinstance(shown, np.ma.MaskedArray)
        assert isinstance(expected, np.ma.MaskedArray)
        np.testing.assert_array_equal(shown.filled(-1.0), expected.filled(-1.0))
        assert image.get_clim() == (0.0, 1.0)
        assert image.get_cmap() == first.images[0].get_cmap()
        assert axes.get_title() == name
        assert axes.get_xlabel() == "jobs of class one, $n_1$"
    assert first.get_ylabel() == "jobs of class two, $n_2$"
    assert bar.get_ylabel().replace("\n", " ") == "fraction of cores held by class one"
    assert bar.get_ylim() == (0.0, 1.0)
    assert figure.get_suptitle() == "Example 2"
    assert legend(figure) == ["no jobs", "as many jobs as cores, $n_1 + n_2 = 10$"]
    (white,) = figure.legends[0].get_patches()
    assert (
        to_rgb(white.get_facecolor())
        == to_rgb(tuple(first.images[0].get_cmap().get_bad()))
        == (1.0, 1.0, 1.0)
    )
    beyond = policy_heatmaps(policies, system, capacity=3)
    assert legend(beyond) == ["no jobs"]


def test_heat_maps_stay_within_the_boxes_of_all_policies() -> None:
    system = cw.load_system("paper:2")
    solved = {str(box): cw.solve(system, capacity=box).policy for box in ((6, 9), (8, 4))}
    figure = policy_heatmaps({"start": cw.Equi(), **solved}, system)
    assert {tuple(axes.images[0].get_extent()) for axes in figure.axes[:3]} == {(-0.5, 6.5, -0.5, 4.5)}


@pytest.mark.parametrize("capacity", [(12, 12), (20, 12), (40, 4)])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_the_bar_is_as_high_as_the_panels_beside_it(count: int, capacity: tuple[int, int]) -> None:
    policies = {f"policy {i}": cw.Equi() for i in range(count)}
    figure = policy_heatmaps(policies, cw.load_system("paper:2"), capacity=capacity, title="A title")
    figure.draw_without_rendering()
    *panels, bar = [axes.get_window_extent() for axes in figure.axes]
    assert bar.y0 == pytest.approx(min(panel.y0 for panel in panels), abs=0.05 * bar.height)
    assert bar.y1 == pytest.approx(max(panel.y1 for panel in panels), abs=0.05 * bar.height)


def test_heat_maps_of_nothing_are_refused() -> None:
    system = cw.load_system("paper:2")
    with pytest.raises(cw.errors.InvalidInput, match=r"at least one, got \{\}"):
        policy_heatmaps({}, system)
    with pytest.raises(cw.errors.InvalidInput, match="policies by their names"):
        policy_heatmaps([cw.Equi()], system)  # type: ignore[arg-type]
    with pytest.raises(cw.errors.InvalidPolicy, match="expected a policy"):
        policy_heatmaps({"start": "equi"}, system)  # type: ignore[dict-item]
    one = cw.System(4, system.classes[:1])
    with pytest.raises(cw.errors.InvalidInput, match="two classes, the system has 1"):
        policy_heatmaps({"start": cw.Equi()}, one)


# --- speed-up curves --------------------------------------------------------------------------

FRACTIONS = (0.0, 0.25, 0.5, 0.75, 0.9, 1.0)


def figure_1(cores: float = 10.0) -> Figure:
    laws: dict[str, list[cw.SpeedUp]] = {
        "(a) Amdahl": [cw.Amdahl(p) for p in FRACTIONS],
        "(b) power": [cw.PowerLaw(p) for p in FRACTIONS],
    }
    return speedup_figure(laws, cores=cores)


def amdahl(z: Floats, p: float) -> Floats:
    return np.asarray(1.0 / (1.0 - p + p / z))


def power(z: Floats, p: float) -> Floats:
    return np.asarray(z**p)


def test_curves_are_those_of_the_paper() -> None:
    first, second = figure_1().axes
    for axes, law in ((first, amdahl), (second, power)):
        for one, p in zip(axes.lines, FRACTIONS, strict=True):
            z, speed = (np.asarray(part, dtype=float) for part in one.get_data())
            assert (z[0], z[-1]) == (0.0, 10.0)
            assert 1.0 in z
            np.testing.assert_array_equal(speed[z <= 1.0], z[z <= 1.0])
            np.testing.assert_allclose(speed[z > 1.0], law(z[z > 1.0], p))
        assert axes.get_xlabel() == "cores per job, $z$"
        assert {text.get_text() for text in axes.texts} == {f"$p$ = {p:.3g}" for p in FRACTIONS}
        assert len({tuple(one.get_color()) for one in axes.lines}) == 6
    assert first.get_title() == "(a) Amdahl"
    assert first.get_xlim() == second.get_xlim() == (0.0, 10.0)
    assert first.get_ylim() == second.get_ylim()
    assert 10.0**0.9 < first.get_ylim()[1] < 9.0  # linear curves leave at the top


@pytest.mark.parametrize("cores", [2.0, 10.0, 100.0])
def test_labels_are_at_their_curves_and_apart(cores: float) -> None:
    figure = figure_1(cores)
    figure.draw_without_rendering()
    for axes in figure.axes:
        top = axes.get_ylim()[1]
        boxes = {text.get_text(): text.get_window_extent() for text in axes.texts}
        for text, box in boxes.items():
            others = [other for name, other in boxes.items() if name != text]
            assert not box.count_overlaps(others)
        linear = next(text for text in axes.texts if text.get_text() == "$p$ = 1")
        assert linear.xy == pytest.approx((top, top))  # type: ignore[attr-defined]
        ends = [text.xy[1] for text in axes.texts if text is not linear]  # type: ignore[attr-defined]
        assert ends == sorted(ends)
        assert ends[0] == 1.0


def test_any_curves_can_be_drawn_together() -> None:
    curves: dict[str, list[cw.SpeedUp]] = {
        "USL": [cw.Usl(0.05, 0.0), cw.Usl(0.05, 0.01)],
        "mixed": [cw.Gustafson(0.5), cw.Tabulated([(1, 1), (4, 3)])],
    }
    first, second = speedup_figure(curves, cores=16).axes
    assert [text.get_text() for text in first.texts] == [
        r"$\sigma$ = 0.05, $\kappa$ = 0",
        r"$\sigma$ = 0.05, $\kappa$ = 0.01",
    ]
    assert [text.get_text() for text in second.texts] == ["Gustafson, $p$ = 0.5", "tabulated"]
    linear = speedup_figure({"linear": [cw.Amdahl(1.0)]}, cores=8).axes[0]
    assert linear.get_ylim() == (0.0, 8.0)


def test_curves_that_are_none_are_refused() -> None:
    with pytest.raises(cw.errors.InvalidInput, match=r"lists of curves by their names, got \{\}"):
        speedup_figure({}, cores=4)
    with pytest.raises(cw.errors.InvalidInput, match="'a': expected one to 12 curves"):
        speedup_figure({"a": []}, cores=4)
    with pytest.raises(cw.errors.InvalidInput, match=r"'a': expected a SpeedUp curve, got 0\.5"):
        speedup_figure({"a": [0.5]}, cores=4)  # type: ignore[list-item]
    with pytest.raises(cw.errors.InvalidInput, match="cores must be positive, got 0"):
        speedup_figure({"a": [cw.Amdahl(0.5)]}, cores=0)


# --- one run ----------------------------------------------------------------------------------


def row(
    k: int,
    departures: int,
    found: dict[str, dict[str, Any]],
    gap: float | None = None,
    silent: Sequence[str] = (),
) -> dict[str, Any]:
    """Return an epoch as plain values; `found` has (value, low, high) for each parameter.

    It says nothing about the classes that are `silent`.
    """
    return {
        "k": k,
        "departures": departures,
        "time": 10.0 * k,
        "estimates": {name: {p: at[0] for p, at in one.items()} for name, one in found.items()},
        "interval": {name: {p: list(at[1:]) for p, at in one.items()} for name, one in found.items()},
        "informative": {name: name not in silent for name in found},
        "gap": gap,
    }


def two(first: float, second: float) -> dict[str, dict[str, Any]]:
    return {
        "one": {"p": (first, first - 0.1, first + 0.2)},
        "two": {"p": (second, second - 0.05, second + 0.05)},
    }


def test_a_run_is_shown_with_its_intervals_and_its_gaps() -> None:
    system = cw.load_system("paper:1")
    epochs = list(learn(SimulatedPlant(system, rng=3), algorithm_1b(system, departures=50, steps=4)))
    for given in (epochs, [epoch.as_mapping() for epoch in epochs]):
        figure = learn_figure(given, system, truth=system)
        parameters, gaps = figure.axes
        for i, (name, true) in enumerate({"one": 0.3, "two": 0.8}.items()):
            x, values = line(parameters, 2 * i)
            assert x.tolist() == [50.0, 100.0, 150.0, 200.0]
            assert values.tolist() == [epoch.estimates[name].value for epoch in epochs]
            intervals = np.array([epoch.estimates[name].interval for epoch in epochs])
            np.testing.assert_array_equal(np.transpose(bands(parameters)[i][1:]), intervals)
            assert [part.tolist() for part in line(parameters, 2 * i + 1)] == [[0.0, 200.0], [true, true]]
            assert_truth_of(i, parameters, 2 * i + 1)
        exact = [100.0 * epoch.gap for epoch in epochs if epoch.gap is not None]
        np.testing.assert_allclose(line(gaps)[1], np.maximum(exact, 1e-8))
        assert gaps.get_yscale() == "log"
        assert gaps.get_xscale() == "linear"
        assert parameters.get_ylabel() == "estimate of $p$"
        assert gaps.get_ylabel() == "gap to the optimum\n(%)"
        assert legend(figure)[:4] == [
            "estimate, class one",
            "estimate, class two",
            "95 % interval",
            TRUTH,
        ]
        assert "gap to the optimum" not in legend(figure)  # its panel says so


def test_a_long_run_is_on_a_log_scale_and_without_truth_has_one_panel() -> None:
    system = cw.load_system("paper:1")
    rows = [row(k, 10 * 3**k, two(0.3, 0.7)) for k in range(1, 7)]
    figure = learn_figure(rows, system, title="A replayed log")
    (axes,) = figure.axes
    assert axes.get_xscale() == "log"
    assert len(axes.lines) == 2
    assert TRUTH not in legend(figure)
    assert figure.get_suptitle() == "A replayed log"
    assert learn_figure(rows[:5], system).axes[0].get_xscale() == "linear"


def test_parameters_of_one_name_share_a_panel() -> None:
    jobs = [
        cw.JobClass("batch", 3.0, 1.0, cw.Usl(0.05, 0.002)),
        cw.JobClass("web", 6.0, 2.0, cw.Tabulated([(1, 1), (4, 3.2)])),
        cw.JobClass("legacy", 2.0, 1.0, cw.Amdahl(0.4)),
    ]
    system = cw.System(16, jobs)
    rows = [
        row(
            k,
            100 * k,
            {
                "batch": {"sigma": (0.04, 0.0, 0.1), "kappa": (0.003, 0.0, math.inf if k < 3 else 0.01)},
                "web": {},
                "legacy": {"p": (math.nan if k == 1 else 0.5, 0.0, 1.0)},
            },
        )
        for k in (1, 2, 3, 4)
    ]
    figure = learn_figure(rows, system, truth=system)
    labels = [axes.get_ylabel() for axes in figure.axes]
    assert labels == ["estimate of sigma", "estimate of kappa", "estimate of $p$"]
    sigma, kappa, p = figure.axes
    assert [line(axes, 1)[1][0] for axes in figure.axes] == [0.05, 0.002, 0.4]
    assert sigma.lines[0].get_color() == kappa.lines[0].get_color() == class_colour(0)
    assert p.lines[0].get_color() == class_colour(2)
    assert np.isnan(line(p)[1]).tolist() == [True, False, False, False]
    assert 0.01 < kappa.get_ylim()[1] < 0.011
    assert legend(figure)[:2] == ["estimate, class batch", "estimate, class legacy"]


def changing(*changes: cw.Change) -> cw.System:
    system = cw.load_system("paper:1")
    return cw.System(system.cores, system.classes, changes)


def test_changes_of_the_truth_are_drawn_where_they_happen() -> None:
    """Epochs end at 10, 20, 30 and 40, after 100, 300, 400 and 1000 departures."""
    changes = [
        cw.Change(2.5, "one", cw.Amdahl(0.9)),
        cw.Change(11.0, "one", cw.Amdahl(0.1)),
        cw.Change(17.5, "one", cw.PowerLaw(0.6)),
        cw.Change(31.0, "two", cw.Amdahl(0.2)),
        cw.Change(40.0, "one", cw.Amdahl(0.5)),
        cw.Change(40.5, "one", cw.Amdahl(0.0)),
    ]
    rows = [row(k, at, two(0.3, 0.7)) for k, at in enumerate((100, 300, 400, 1000), start=1)]
    truth = changing(*changes)
    (axes,) = learn_figure(rows, truth, truth=truth).axes
    first, second = line(axes, 1), line(axes, 3)
    np.testing.assert_allclose(first[0], [0.0, 25.0, 120.0, 250.0, 1000.0, 1000.0])
    assert first[1].tolist() == [0.3, 0.9, 0.1, 0.6, 0.5, 0.5]
    np.testing.assert_allclose(second[0], [0.0, 460.0, 1000.0])
    assert second[1].tolist() == [0.8, 0.2, 0.2]
    assert {axes.lines[which].get_drawstyle() for which in (1, 3)} == {"steps-post"}
    assert axes.get_xlim()[0] == 0.0
    assert axes.get_ylim()[0] < 0.1


@pytest.mark.parametrize(("time", "at", "start"), [(1.0, 10.0, 5.0), (15.0, 10_050.0, 100.0)])
def test_on_a_log_scale_the_truth_begins_before_its_first_change(
    time: float, at: float, start: float
) -> None:
    truth = changing(cw.Change(time, "one", cw.Amdahl(0.9)))
    rows = [row(k, departures, two(0.3, 0.7)) for k, departures in ((1, 100), (2, 20_000))]
    (axes,) = learn_figure(rows, truth, truth=truth).axes
    assert axes.get_xscale() == "log"
    np.testing.assert_allclose(line(axes, 1)[0], [start, at, 20_000.0])
    assert line(axes, 1)[1].tolist() == [0.3, 0.9, 0.9]
    assert 0.0 < axes.get_xlim()[0] <= start


@pytest.mark.parametrize("epochs", [1, 5, 40, 99])
def test_all_estimates_and_nine_tenths_of_the_intervals_are_inside(epochs: int) -> None:
    system = cw.load_system("paper:1")
    rng = np.random.default_rng(epochs)
    middle, half = rng.uniform(0.45, 0.55, (2, epochs)), 0.4 * rng.random((2, epochs)) ** 8
    found = np.stack([middle, middle - half, middle + half], axis=-1)
    rows = [
        row(k + 1, 100 * (k + 1), {name: {"p": found[i, k]} for i, name in enumerate(system.names)})
        for k in range(epochs)
    ]
    (axes,) = learn_figure(rows, system).axes
    bottom, top = axes.get_ylim()
    assert bottom < middle.min()
    assert middle.max() < top
    inside = (bottom <= middle - half) & (middle + half <= top)
    assert (inside.mean(axis=1) >= 0.9).all()
    assert epochs < 40 or not inside.all()  # a few wide ones do not squeeze the rest


def test_epochs_without_information_are_hollow_and_have_no_interval() -> None:
    system = cw.load_system("paper:1")
    silent = {2, 3, 5}
    rows = [row(k, 100 * k, two(0.3, 0.7), silent=["one"] if k in silent else []) for k in range(1, 9)]
    figure = learn_figure(rows, system)
    (axes,) = figure.axes
    at, values = line(axes)
    assert at[np.isnan(values)].tolist() == [200.0, 300.0, 500.0]
    hollow = axes.lines[1]
    assert [np.asarray(part).tolist() for part in hollow.get_data()] == [[200.0, 300.0, 500.0], [0.3] * 3]
    assert hollow.get_markerfacecolor() == "white"
    assert hollow.get_linestyle() == "None"
    assert hollow.get_color() == class_colour(0)
    assert bands(axes)[0][0].tolist() == [600.0, 700.0, 800.0]
    (alone,) = (part for part in axes.collections if type(part).__name__ == "LineCollection")
    upright = np.array(alone.get_segments())  # type: ignore[attr-defined]
    np.testing.assert_allclose(upright, [[[at, 0.2], [at, 0.5]] for at in (100.0, 400.0)])
    assert not np.isnan(line(axes, 2)[1]).any()
    assert legend(figure).count("no information: the last estimate stays") == 1
    assert "no information: the last estimate stays" not in legend(learn_figure(rows[5:], system))


def test_single_estimates_between_silent_epochs_of_a_long_run_are_seen() -> None:
    system = cw.load_system("paper:1")
    rows = [row(k, 100 * k, two(0.3, 0.7), silent=["one"] if k in (6, 8) else []) for k in range(1, 61)]
    (axes,) = learn_figure(rows, system).axes
    assert axes.lines[0].get_marker() == "o"
    assert axes.lines[0].get_markevery() == [6]
    assert axes.lines[2].get_markevery() == []


def test_the_gap_of_a_run_is_shown_beside_those_of_other_policies() -> None:
    system = cw.load_system("paper:1")
    rows = [row(k, 100 * k, two(0.3, 0.7), gap=0.01 / k) for k in (1, 2, 3)]
    figure = learn_figure(rows, system, baseline={"EQUI": 0.0036, "Greedy": 0.5})
    _, gaps = figure.axes
    np.testing.assert_allclose(line(gaps)[1], [1.0, 0.5, 1.0 / 3.0])
    assert [line(gaps, which)[1].tolist() for which in (1, 2)] == [
        pytest.approx([v, v]) for v in (0.36, 50.0)
    ]
    assert gaps.get_ylim()[1] > 50.0
    assert legend(figure)[-2:] == ["EQUI: 0.36 %", "Greedy: 50 %"]
    with pytest.raises(cw.errors.InvalidInput, match=r"gaps of other policies by their names, got 0\.0036"):
        learn_figure(rows, system, baseline=0.0036)  # type: ignore[arg-type]
    unjudged = [row(1, 100, two(0.3, 0.7))]
    with pytest.raises(
        cw.errors.InvalidInput, match="nothing to compare a baseline with: no epoch has a gap"
    ):
        learn_figure(unjudged, system, baseline={"EQUI": 0.0036})


def alarm(name: str, kind: str, at: float, raised: int, statistic: float = 20.0) -> dict[str, Any]:
    """Return an alarm as plain values."""
    return {
        "name": name,
        "kind": kind,
        "raised": raised,
        "departures": at,
        "interval": [at - 30.0, at + 20.0],
        "time": 0.1 * at,
        "time_interval": [0.1 * at - 3.0, 0.1 * at + 2.0],
        "before": {"p": 0.3},
        "after": {"p": 0.1 + 0.001 * raised},
        "statistic": statistic,
        "threshold": 15.0,
        "between": 1e8,
    }


def alarming(*alarms: dict[str, Any]) -> list[dict[str, Any]]:
    """Return epochs of 100 departures with these alarms in them."""
    last = 1 + max((one["raised"] for one in alarms), default=0) // 100
    rows = [row(k, 100 * k, two(0.3, 0.7)) for k in range(1, last + 1)]
    return [{**at, "alarms": [one for one in alarms if one["raised"] == at["departures"]]} for at in rows]


def test_a_change_that_is_named_later_is_one_change() -> None:
    speed, named = alarm("one", "speed", 300.0, 500), alarm("one", "curve", 300.0, 700)
    renamed, other = alarm("one", "size rate", 300.0, 900), alarm("two", "speed", 300.0, 600)
    came = alarm("one", "arrival rate", 300.0, 800, statistic=16.0)
    again = alarm("one", "speed", 300.0, 1200, statistic=25.0)  # another one, in the same place
    assert changes_found(alarming()) == []
    assert changes_found([row(1, 100, two(0.3, 0.7))]) == []  # of before there were alarms
    assert changes_found(alarming(speed)) == [{**speed, "named": None}]
    assert changes_found(alarming(named)) == [{**named, "named": 700}]
    assert changes_found(alarming(speed, other, named, came)) == [
        {**named, "raised": 500, "named": 700},
        {**other, "named": None},
        {**came, "named": 800},
    ]
    assert changes_found(alarming(speed, named, came, renamed, again)) == [
        {**renamed, "raised": 500, "named": 900},
        {**came, "named": 800},
        {**again, "named": None},
    ]


def test_changes_that_were_found_are_marked() -> None:
    system = cw.load_system("paper:1")
    found = [alarm("two", "speed", 250.0, 500), alarm("two", "curve", 250.0, 700)]
    rows = alarming(*found, alarm("one", "arrival rate", 9000.0, 20_000))
    assert rows[-1]["departures"] > 100 * rows[0]["departures"]
    figure = learn_figure(rows, system)
    (axes,) = figure.axes
    assert axes.get_xscale() == "linear"  # although two decades are spanned: changes come at any time
    across = axes.get_xaxis_transform()
    marked = [part for part in axes.lines if part.get_transform() == across]
    looks = [(part.get_color(), part.get_marker(), part.is_dashed()) for part in marked]
    assert looks == [
        (class_colour(0), "None", True),
        (class_colour(0), "v", False),
        (class_colour(1), "None", False),
        (class_colour(1), "v", False),
    ]
    places = [np.unique(np.asarray(part.get_xdata(), dtype=float)).tolist() for part in marked]
    assert places == [[9000.0], [20_000.0], [250.0], [500.0]]
    spans = [(patch.get_x(), patch.get_width()) for patch in axes.patches]  # type: ignore[attr-defined]
    assert spans == [(8970.0, 50.0), (220.0, 50.0)]
    assert legend(figure)[-3:] == [
        "change, with 95 % interval",
        "when it was found",
        "change of the arrival rate",
    ]
    plain = learn_figure([{**at, "alarms": []} for at in rows], system)
    assert plain.axes[0].get_ylim() == axes.get_ylim()
    assert plain.axes[0].get_xscale() == "log"
    assert not any("change" in text for text in legend(plain))
    assert legend(learn_figure(alarming(*found), system))[-1] == "when it was found"


def test_changes_are_marked_where_their_class_is() -> None:
    jobs = [
        cw.JobClass("batch", 3.0, 1.0, cw.Usl(0.05, 0.002)),
        cw.JobClass("web", 6.0, 2.0, cw.Tabulated([(1, 1), (4, 3.2)])),
        cw.JobClass("legacy", 2.0, 1.0, cw.Amdahl(0.4)),
    ]
    estimates = {"batch": {"sigma": (0.1, 0.0, 0.2), "kappa": (0.1, 0.0, 0.2)}, "web": {}}
    epochs = [row(k, 100 * k, {**estimates, "legacy": {"p": (0.5, 0.4, 0.6)}}) for k in (1, 2, 3)]
    found = [alarm(name, "speed", 150.0, 200) for name in ("batch", "web", "legacy")]
    figure = learn_figure([epochs[0], {**epochs[1], "alarms": found}, epochs[2]], cw.System(16, jobs))
    for axes, i in zip(figure.axes, (0, 0, 2), strict=True):
        marks = [part for part in axes.lines if part.get_marker() == "v"]
        assert [part.get_color() for part in marks] == [class_colour(i)]
    assert legend(figure).count("when it was found") == 1


def test_very_many_changes_are_a_fringe() -> None:
    system = cw.load_system("paper:1")
    found = [alarm(("one", "two")[k % 2], "speed", 100.0 * k - 50.0, 100 * k) for k in range(1, 301)]
    few, many = (learn_figure(alarming(*part), system) for part in (found[:30], found))
    assert len(few.axes[0].patches) == 30
    (axes,) = many.axes
    assert len(axes.patches) == 0
    assert not any(part.get_marker() == "v" for part in axes.lines)
    fringes = [part for part in axes.collections if type(part).__name__ == "LineCollection"]
    for i, fringe in enumerate(fringes):
        ends = np.array(fringe.get_segments())  # type: ignore[attr-defined]
        own = [one["departures"] for one in found if one["name"] == system.names[i]]
        assert ends[:, 0, 0].tolist() == own
        assert (ends[:, :, 1].min(), ends[:, :, 1].max()) == (0.93, 1.0)
    assert len(fringes) == 2
    assert legend(many)[-1] == "change found"


@pytest.mark.parametrize("growth", [1.0, 1.0005], ids=["linear", "log"])
def test_of_very_many_epochs_those_are_drawn_that_stand_out(growth: float) -> None:
    system = cw.load_system("paper:1")
    rng = np.random.default_rng(3)
    values = rng.normal(0.5, 0.01, (2, 20_000))
    values[:, 12_345], values[:, 17_001] = 0.9, 0.1
    at = 1000 + np.cumsum(np.ceil(growth ** np.arange(20_000)).astype(int))
    gaps = rng.uniform(0.01, 0.02, 20_000)
    gaps[777] = 0.5
    rows = [
        row(k + 1, int(at[k]), two(*values[:, k]), gap=gaps[k] if k % 7 == 0 else None) for k in range(20_000)
    ]
    figure = learn_figure(rows, system)
    parameters, judged = figure.axes
    assert parameters.get_xscale() == ("linear" if growth == 1.0 else "log")
    for i in (0, 1):
        x, y = line(parameters, i)
        assert 1000 < x.size <= 1600
        known = dict(zip(at.tolist(), values[i].tolist(), strict=True))
        assert [known[departures] for departures in x] == y.tolist()
        assert (x[0], x[-1]) == (at[0], at[-1])
        assert {at[12_345], at[17_001]} <= set(x.tolist())
        assert bands(parameters)[i][0].tolist() == x.tolist()
        place = np.log(x) if growth > 1.0 else x
        assert np.diff(place).max() < 0.01 * (place[-1] - place[0])
    x, y = line(judged)
    assert x.size <= 1600
    assert y[x == at[777]] == 50.0


def test_epochs_that_are_none_are_refused() -> None:
    system = cw.load_system("paper:1")
    rows = [row(1, 100, two(0.3, 0.7))]
    with pytest.raises(cw.errors.InvalidInput, match="no epoch is over"):
        learn_figure([], system)
    with pytest.raises(cw.errors.InvalidInput, match="expected epochs that learn yields, got 3"):
        learn_figure([3], system)  # type: ignore[list-item]
    other = cw.System(4, [cw.JobClass("a", 1.0, 1.0, cw.Amdahl(0.5))])
    with pytest.raises(cw.errors.InvalidInput, match="epoch 1 is of classes one, two; the system has a"):
        learn_figure(rows, other)
    with pytest.raises(cw.errors.InvalidInput, match="the truth is of classes a; the system has one, two"):
        learn_figure(rows, system, truth=other)
    with pytest.raises(cw.errors.InvalidInput, match="no curve has a parameter"):
        learn_figure([row(1, 100, {"one": {}, "two": {}})], system)
    many = cw.System(4, [cw.JobClass(f"c{i}", 0.01, 1.0, cw.Amdahl(0.5)) for i in range(25)])
    with pytest.raises(cw.errors.InvalidInput, match="at most 24 classes, got 25"):
        learn_figure(rows, many)


# --- all --------------------------------------------------------------------------------------

NAMES = ["costs $5 or $6 each", "x" * 80, "a_b^c", "short", "five", *(f"class {i}" for i in range(19))]
STUDIES = ["Algorithm 1a: the latest window only, of $100", "y" * 80]


def _named(classes: int) -> tuple[cw.System, dict[str, LearningStudy]]:
    names = NAMES[:classes]
    system = cw.System(12, [cw.JobClass(name, 0.2, 1.0, cw.Amdahl(0.6)) for name in names])
    return system, {title: study(names=names, epochs=50, seed=i) for i, title in enumerate(STUDIES)}


def _trajectory_of(classes: int) -> Figure:
    return trajectory_figure(_named(classes)[1][STUDIES[0]], title="A title")


def _errors_of(classes: int) -> Figure:
    return error_figure(_named(classes)[1], title="A title")


def _gaps_of(classes: int) -> Figure:
    studies = _named(classes)[1]
    studies[STUDIES[0]].gaps[:, :5] = np.inf
    studies[STUDIES[1]].gaps[:, 5:] = 0.0
    return gap_figure(studies, baseline={"EQUI": 0.012, "z" * 80: 0.5}, title="A title")


def _tracking_of(classes: int) -> Figure:
    system, studies = _named(classes)
    return tracking_figure(studies, system, title="A title")


def _changes_of(classes: int) -> Figure:
    system, studies = _named(classes)
    changes = [cw.Change(10.0 * (k + 1), system.names[k % classes], cw.Amdahl(0.5)) for k in range(5)]
    changing = cw.System(12, system.classes, changes)
    return changes_figure(studies, changing, span=(20.0, 100.0), title="A title")


def _learn_of(classes: int) -> Figure:
    system, _ = _named(classes)
    found: dict[str, dict[str, Any]] = {name: {"p": (0.6, 0.5, 0.7)} for name in system.names}
    rows = [row(k, 100 * k, found, gap=0.01 / k) for k in range(1, 20)]
    return learn_figure(rows, system, truth=system, title="A title")


def _heat_of(classes: int) -> Figure:
    system, _ = _named(2)
    policies = dict(zip([*STUDIES, *NAMES], [cw.Equi()] * min(classes, 6), strict=False))
    return policy_heatmaps(policies, system, title="A title")


def _curves_of(classes: int) -> Figure:
    laws = {name: [cw.Amdahl(p) for p in FRACTIONS] for name in NAMES[: min(classes, 12)]}
    return speedup_figure(laws, cores=30, title="A title")


ALL = [_trajectory_of, _errors_of, _gaps_of, _tracking_of, _changes_of, _learn_of, _heat_of, _curves_of]


@pytest.mark.parametrize(
    ("draw", "classes"),
    [(draw, classes) for draw in ALL for classes in (1, 2, 5)]
    + [(draw, 24) for draw in (_trajectory_of, _tracking_of, _learn_of)],
)
def test_no_text_leaves_the_figure_or_meets_another_panel(
    draw: Callable[[int], Figure], classes: int
) -> None:
    figure = draw(classes)
    figure.draw_without_rendering()
    page = figure.bbox.padded(1.0)
    boxes = [axes.get_tightbbox() for axes in figure.axes]
    boxes += [one.get_window_extent() for one in figure.legends]
    boxes += [text.get_window_extent() for text in figure.texts]
    for i, box in enumerate(boxes):
        assert box is not None
        assert page.containsx(box.x0)
        assert page.containsx(box.x1)
        assert page.containsy(box.y0)
        assert page.containsy(box.y1)
        assert not box.padded(-1.0).count_overlaps([other for other in boxes[i + 1 :] if other is not None])
    for axes in figure.axes:
        assert min(axes.bbox.width, axes.bbox.height) > 0.05 * figure.dpi


@pytest.mark.parametrize("draw", ALL)
def test_figures_are_written(draw: Callable[[int], Figure], tmp_path: Path) -> None:
    save_figure(draw(2), tmp_path / "figure.pdf")
    assert (tmp_path / "figure.pdf").read_bytes().startswith(b"%PDF")


def test_pyplot_and_its_global_state_are_not_touched() -> None:
    program = (
        "import matplotlib, runpy, sys\n"
        f"draws = runpy.run_path({__file__!r})['ALL']\n"
        "settings = lambda: [matplotlib.rcParams[key] for key in ('font.size', 'savefig.dpi')]\n"
        "before = settings()\n"
        "for draw in draws:\n"
        "    draw(2)\n"
        "assert 'matplotlib.pyplot' not in sys.modules\n"
        "assert settings() == before\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
