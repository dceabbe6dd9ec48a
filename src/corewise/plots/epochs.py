"""One run of the loop, epoch by epoch."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from corewise.errors import InvalidInput
from corewise.learning.epochs import Epoch
from corewise.model.speedup import Array
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
    true_steps,
    truth_mark,
    write_title,
)
from corewise.plots.style import class_colour, plain, require_few_classes, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["learn_figure"]

Row = Mapping[str, Any]

_GAP = "gap to the optimum"


def learn_figure(
    epochs: Iterable[Epoch | Row],
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
        Printed above the panels; none by default, as a caption says more.

    Returns
    -------
    matplotlib.figure.Figure
        Free of pyplot; ``figure.savefig(path)`` writes it.

    Notes
    -----
    Parameters of one name share a panel. Classes whose curves have none are left out. Departures are on a log
    scale if they span more than two decades. All estimates are inside the axes, and of each class's intervals
    all but the widest tenth. Where an epoch said nothing about a class, the mark is hollow and without an
    interval. The truth changes in time; between the ends of two windows it is drawn as if departures came
    evenly.
    """
    rows = _rows(epochs, system, truth)
    at = _column(row["departures"] for row in rows)
    gaps = _column(row["gap"] for row in rows)
    parameters = list(dict.fromkeys(p for row in rows for found in row["estimates"].values() for p in found))
    if not parameters:
        raise InvalidInput("there is nothing to draw: no curve has a parameter")
    judged = not np.isnan(gaps).all()
    if baseline and not judged:
        raise InvalidInput("there is nothing to compare a baseline with: no epoch has a gap")
    count = len(parameters) + judged
    with styled():
        from matplotlib.figure import Figure

        size = 1.9 * count + (1.3 if title is None else 1.6)
        figure = Figure(figsize=(5.4, size), layout="constrained")
        panels = figure.subplots(count, sharex=True, squeeze=False)[:, 0]
        marks = class_marks(
            (i, name) for i, name in enumerate(system.names) if any(row["estimates"][name] for row in rows)
        )
        for axes, parameter in zip(panels, parameters, strict=False):
            told = {text for text, _ in marks}
            shown = _draw_parameter(axes, parameter, rows, system, truth)
            marks += [(text, mark) for text, mark in shown if text not in told]
        if judged:
            marks += draw_gaps(panels[-1], {_GAP: Gaps(at, gaps[None])}, baseline, colours=["0.25"])[1:]
            panels[-1].set_ylabel(f"{_GAP}\n(%)")
        if _spans_decades(at):
            panels[-1].set_xscale("log")
        else:
            panels[-1].set_xlim(left=0.0)
        panels[-1].set_xlabel("departures so far, all classes")
        figure.align_ylabels(panels)
        add_legend(figure, marks)
        write_title(figure, title)
    return figure


def _rows(epochs: Iterable[Epoch | Row], system: System, truth: System | None) -> list[Row]:
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


def _column(values: Iterable[float | None]) -> Array:
    """Return numbers, NaN where there is none."""
    return np.array([math.nan if value is None else value for value in values], dtype=np.float64)


def _spans_decades(at: Array) -> bool:
    return bool(at[-1] > 100.0 * at[0])


def _draw_parameter(
    axes: Axes, parameter: str, rows: Sequence[Row], system: System, truth: System | None
) -> Marks:
    """Draw a parameter of all classes that have it; return what the legend says beyond the classes."""
    at = _column(row["departures"] for row in rows)
    shown: list[Array] = []
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
        draw_band(axes, at, (low, np.minimum(high, 1e300)), look)
        marks += draw_estimates(axes, i, at, value, kept)
        if truth is not None:
            since, true = _true_course(truth, name, parameter, rows)
            draw_truth(axes, i, since, true, "steps-post")
            shown.append(true)
    axes.set_ylim(*limits(shown))
    axes.set_ylabel(f"estimate of {plain(parameter) if len(parameter) > 1 else f'${parameter}$'}")
    return list(dict(marks).items())


def _true_course(truth: System, name: str, parameter: str, rows: Sequence[Row]) -> tuple[Array, Array]:
    """Return after how many departures a true parameter changes, and to what."""
    times, at = (_column([0.0, *(row[key] for row in rows)]) for key in ("time", "departures"))
    changes, values = true_steps(
        truth, name, float(times[-1]), lambda curve: curve.parameters.get(parameter, math.nan)
    )
    since = np.interp(changes, times, at)
    if _spans_decades(at[1:]):  # zero is no place on a log scale, but an early change must be seen
        since = np.maximum(since, min(at[1], *(0.5 * since[since > 0.0])))
    return since, values
