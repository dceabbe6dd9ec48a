"""Figures of tracking show the truth as it changes, and what was made of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import corewise as cw
from corewise.experiments.figures.tracking import changes_figure, tracking_figure
from corewise.plots.style import class_colour
from tests.helpers.figures import TRUTH, assert_truth_of, legend, line
from tests.helpers.studies import drifting, study

pytestmark = pytest.mark.slow


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
