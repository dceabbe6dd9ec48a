"""One run of the loop, epoch by epoch."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from corewise.errors import InvalidInput
from corewise.kit.arrays import Floats
from corewise.learning.epochs import Epoch, changes_found
from corewise.model.system import System, require_system
from corewise.plots.lines import (
    Gaps,
    Marks,
    add_legend,
    band_look,
    class_marks,
    draw_band,
    draw_estimates,
    draw_gaps,
    draw_truth,
    inner_band,
    limits,
    patch,
    stroke,
    true_steps,
    truth_mark,
)
from corewise.plots.style import class_colour, escaped, new_figure, require_few_classes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["learn_figure"]

EpochRow = Mapping[str, Any]

_GAP = "gap to the optimum"
_MOST = 1500  # epochs that are drawn one by one
_PARTS = 500  # of the axis, if there are more
_FEW_CHANGES = 30  # that are seen one by one
_FOUND: dict[str, Any] = {"linestyle": "none", "marker": "v", "markersize": 4.0, "markeredgewidth": 0.0}
_UPRIGHT: dict[str, Any] = {"linestyle": "none", "marker": "|", "markersize": 9.0, "markeredgewidth": 0.7}
_DASHED = (0, (4, 2))  # a change of the arrival rate, which is none of the curve


def learn_figure(
    epochs: Iterable[Epoch | EpochRow],
    system: System,
    *,
    truth: System | None = None,
    baseline: Mapping[str, float] | None = None,
    title: str | None = None,
) -> Figure:
    """Draw what one run found: every parameter with its 95 % interval, and the gap where it is known.

    Parameters
    ----------
    epochs : iterable of Epoch
        What `learn` yielded; rows that `Epoch.as_mapping` gives will do, such as those of a resumed run.
    system : System
        The classes.
    truth : System, optional
        The true curves, which may change.
    baseline : mapping, optional
        Gaps J/J* − 1 of other policies, such as EQUI, as horizontal lines beside those of the run.
    title : str, optional
        Printed above the panels.

    Returns
    -------
    matplotlib.figure.Figure

    Notes
    -----
    Parameters of one name share a panel. Classes whose curves have none are left out. Departures are on a log
    scale if they span more than two decades and no change was found. All estimates are inside the axes, and
    of each class's intervals all but the widest tenth. Where an epoch said nothing about a class, the mark is
    hollow and without an interval. Of very many epochs those are drawn at which an estimate is highest or
    lowest among its neighbours, and some between. The truth changes in time; between the ends of two windows
    it is drawn as if departures came evenly.

    A change that was found is an upright line in the colour of its class, on a band that is its 95 %
    interval, with a mark at the upper edge where it was found. Very many are short lines at the upper edge.
    """
    rows = _rows(epochs, system, truth)
    at = _column(row["departures"] for row in rows)
    gaps = _column(row["gap"] for row in rows)
    changes = changes_found(rows)
    log = _spans_decades(at) and not changes
    parameters = list(dict.fromkeys(p for row in rows for found in row["estimates"].values() for p in found))
    if not parameters:
        raise InvalidInput("there is nothing to draw: no curve has a parameter")
    evaluated = not np.isnan(gaps).all()
    if baseline and not evaluated:
        raise InvalidInput("there is nothing to compare a baseline with: no epoch has a gap")
    count = len(parameters) + evaluated
    with new_figure(5.4, 1.9 * count + 1.3, title) as figure:
        panels = figure.subplots(count, sharex=True, squeeze=False)[:, 0]
        marks = class_marks(
            (i, name) for i, name in enumerate(system.names) if any(row["estimates"][name] for row in rows)
        )
        for axes, parameter in zip(panels, parameters, strict=False):
            listed = {text for text, _ in marks}
            shown = _draw_parameter(axes, parameter, rows, system, truth, log=log)
            shown += _draw_changes(axes, parameter, changes, system)
            marks += [(text, mark) for text, mark in shown if text not in listed]
        if evaluated:
            kept = _drawn(at, gaps, log)
            series = {_GAP: Gaps(at[kept], gaps[None, kept])}
            marks += draw_gaps(panels[-1], series, baseline, colours=["0.25"])[1:]
            panels[-1].set_ylabel(f"{_GAP}\n(%)")
        if log:
            panels[-1].set_xscale("log")
        else:
            panels[-1].set_xlim(left=0.0)
        panels[-1].set_xlabel("departures so far, all classes")
        figure.align_ylabels(panels)
        add_legend(figure, marks)
    return figure


def _rows(epochs: Iterable[Epoch | EpochRow], system: System, truth: System | None) -> list[EpochRow]:
    """Return the epochs as plain values, if they are of this system."""
    require_system(system)
    require_few_classes(system.names)
    if truth is not None:
        require_system(truth)
        _require_names("the truth", truth.names, system)
    rows = [epoch.as_mapping() if isinstance(epoch, Epoch) else epoch for epoch in epochs]
    if not rows:
        raise InvalidInput("there is nothing to draw: no epoch is over")
    for row in rows:
        if not isinstance(row, Mapping):
            raise InvalidInput(f"expected epochs that learn yields, got {row!r}")
        _require_names(f"epoch {row['k']}", list(row["estimates"]), system)
    return rows


def _require_names(what: str, names: Sequence[str], system: System) -> None:
    if list(names) != system.names:
        raise InvalidInput(
            f"{what} is of classes {', '.join(names)}; the system has {', '.join(system.names)}"
        )


def _column(values: Iterable[float | None]) -> Floats:
    """Return numbers, NaN where there is none."""
    return np.array([math.nan if value is None else value for value in values], dtype=np.float64)


def _spans_decades(at: Floats) -> bool:
    return bool(at[-1] > 100.0 * at[0])


def _draw_parameter(
    axes: Axes, parameter: str, rows: Sequence[EpochRow], system: System, truth: System | None, *, log: bool
) -> Marks:
    """Draw a parameter of all classes that have it; return what the legend says beyond the classes."""
    at = _column(row["departures"] for row in rows)
    shown: list[Floats] = []
    marks: Marks = [("95 % interval", patch())]
    if truth is not None:
        marks.append(truth_mark())
    for i, name in enumerate(system.names):
        if not any(parameter in row["estimates"][name] for row in rows):
            continue
        value = _column(row["estimates"][name].get(parameter) for row in rows)
        kept = np.array([not row["informative"][name] for row in rows])
        low, high = (
            _column(row["interval"][name].get(parameter, (None, None))[end] for row in rows) for end in (0, 1)
        )
        low[kept] = high[kept] = np.nan
        shown += [value, *inner_band(low, high)]
        look = band_look(class_colour(i), bands=len(system.names))
        some = _drawn(at, np.where(kept, np.nan, value), log)
        draw_band(axes, at[some], (low[some], np.minimum(high, 1e300)[some]), look)
        marks += draw_estimates(axes, i, at[some], value[some], kept[some])
        if truth is not None:
            since, true = _true_course(truth, name, parameter, rows, log=log)
            draw_truth(axes, i, since, true, "steps-post")
            shown.append(true)
    axes.set_ylim(*limits(shown))
    axes.set_ylabel(f"estimate of {escaped(parameter) if len(parameter) > 1 else f'${parameter}$'}")
    return list(dict(marks).items())


def _drawn(at: Floats, values: Floats, log: bool) -> NDArray[np.intp]:
    """Return which points to draw: of many, in every part of the axis the first, the lowest, the highest."""
    if at.size <= _MOST:
        return np.arange(at.size)
    place = np.log(at) if log else at
    part = np.floor(_PARTS * (place - place[0]) / (place[-1] - place[0]))
    first = np.flatnonzero(np.diff(part, prepend=-1.0))
    ends = [np.lexsort((side, part))[first] for side in (values, -values)]  # NaN comes last in both
    return np.unique(np.concatenate([first, *ends, [at.size - 1]]))


def _draw_changes(axes: Axes, parameter: str, changes: Sequence[Mapping[str, Any]], system: System) -> Marks:
    """Mark the changes of the classes that have a parameter; return what the legend says of them."""
    few, upright = len(changes) <= _FEW_CHANGES, axes.get_xaxis_transform()
    marks: Marks = []
    for i, job_class in enumerate(system.classes):
        own = [change for change in changes if change["name"] == job_class.name]
        if parameter not in job_class.speedup.bounds or not own:
            continue
        colour = class_colour(i)
        at = [change["departures"] for change in own]
        if not few:
            axes.vlines(at, 0.93, 1.0, color=colour, linewidth=0.5, transform=upright)
            marks.append(("change found", stroke(color="0.35", **_UPRIGHT)))
            continue
        for change in own:
            dashes = _DASHED if change["kind"] == "arrival rate" else "-"
            axes.axvspan(*change["interval"], color=colour, alpha=0.15, linewidth=0.0, zorder=0.5)
            axes.axvline(change["departures"], color=colour, linewidth=0.7, linestyle=dashes, zorder=2)
        raised = [change["raised"] for change in own]
        axes.plot(
            raised, [1.0] * len(own), color=colour, transform=upright, clip_on=False, zorder=5, **_FOUND
        )
        marks += [("change, with 95 % interval", (patch(), stroke(color="0.35", **_UPRIGHT)))]
        marks += [("when it was found", stroke(color="0.35", **_FOUND))]
        if any(change["kind"] == "arrival rate" for change in own):
            dashed = stroke(color="0.35", linewidth=0.7, linestyle=_DASHED)
            marks += [("change of the arrival rate", dashed)]
    return list(dict(marks).items())


def _true_course(
    truth: System, name: str, parameter: str, rows: Sequence[EpochRow], *, log: bool
) -> tuple[Floats, Floats]:
    """Return after how many departures a true parameter changes, and to what."""
    times, at = (_column([0.0, *(row[key] for row in rows)]) for key in ("time", "departures"))
    changes, values = true_steps(
        truth, name, float(times[-1]), lambda curve: curve.parameters.get(parameter, math.nan)
    )
    since = np.interp(changes, times, at)
    if log:  # zero is no place on a log scale, but an early change must be seen
        since = np.maximum(since, min(at[1], *(0.5 * since[since > 0.0])))
    return since, values
