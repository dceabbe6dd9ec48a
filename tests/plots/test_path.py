"""The figure of a path shows what happened when."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest

import corewise as cw
from corewise.kit.arrays import Floats
from corewise.observation.sample_path import NO_JOB, EventKind
from corewise.plots.path import path_figure
from corewise.plots.style import class_colour
from tests.helpers.figures import line
from tests.helpers.logs import recorded, three_classes

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def by_hand(cores: list[float] | list[list[float]], pool: float = 4.0) -> cw.SamplePath:
    """Return a path of two classes: a job is there, one of each class comes, two leave."""
    kinds = [
        EventKind.START,
        EventKind.PRESENT,
        EventKind.ARRIVAL,
        EventKind.ARRIVAL,
        EventKind.DEPARTURE,
        EventKind.DEPARTURE,
    ]
    return cw.SamplePath(
        ("a", "b"),
        pool,
        np.array([0.0, 0.0, 1.0, 2.5, 3.0, 5.0, 6.0]),
        np.array([*kinds, EventKind.END], dtype=np.int8),
        np.array([NO_JOB, 0, 1, 0, 0, 1, NO_JOB]),
        np.array([NO_JOB, 1, 2, 3, 1, 2, NO_JOB]),
        np.array(cores),
    )


def marks(axes: Axes) -> list[Floats]:
    """Return the departure epochs of each class that a strip shows."""
    return [np.array(ticks.get_positions()) for ticks in axes.collections]  # type: ignore[attr-defined]


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
        came, left = (
            path.time[mine & (path.event == kind)] for kind in (EventKind.ARRIVAL, EventKind.DEPARTURE)
        )
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
    moves = path.time[(path.event == EventKind.ARRIVAL) | (path.event == EventKind.DEPARTURE)]
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
        np.array([EventKind.START, EventKind.END], np.int8),
        np.array([NO_JOB, NO_JOB]),
        np.array([NO_JOB, NO_JOB]),
        np.zeros((2, 25)),
    )
    with pytest.raises(cw.errors.InvalidInput, match="at most 24 classes, got 25"):
        path_figure(many)
