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
    TRUE,
    Gaps,
    add_legend,
    class_line,
    class_marks,
    dots,
    draw_band,
    draw_gaps,
    draw_truth,
    limits,
    patch,
    stroke,
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
    epochs: Iterable[Epoch | Row], system: System, *, truth: System | None = None, title: str | None = None
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
    title : str, optional
        Printed above the panels; none by default, as a caption says more.

    Returns
    -------
    matplotlib.figure.Figure
        Free of pyplot; ``figure.savefig(path)`` writes it.

    Notes
    -----
    Parameters of one name share a panel. Classes whose curves have none are left out. Departures are on a log
    scale if they span more than two decades.
    """
    rows = _rows(epochs, system, truth)
    at = _column(row["departures"] for row in rows)
    gaps = _column(row["gap"] for row in rows)
    parameters = list(dict.fromkeys(p for row in rows for found in row["estimates"].values() for p in found))
    if not parameters:
        raise InvalidInput("there is nothing to draw: no curve has a parameter")
    judged = not np.isnan(gaps).all()
    count = len(parameters) + judged
    with styled():
        from matplotlib.figure import Figure

        size = 1.9 * count + (1.3 if title is None else 1.6)
        figure = Figure(figsize=(5.4, size), layout="constrained")
        panels = figure.subplots(count, sharex=True, squeeze=False)[:, 0]
        true = None if truth is None else [truth.at(row["time"]) for row in rows]
        for axes, parameter in zip(panels, parameters, strict=False):
            _draw_parameter(axes, parameter, rows, system, true)
        marks = class_marks(
            (i, name) for i, name in enumerate(system.names) if any(row["estimates"][name] for row in rows)
        )
        marks.append(("95 % interval", patch()))
        if truth is not None:
            marks.append(("true value", stroke(**TRUE)))
        if judged:
            marks += draw_gaps(panels[-1], {_GAP: Gaps(at, gaps[None])}, colours=["0.25"])[1:]
            panels[-1].set_ylabel(f"{_GAP}\n(%)")
        if at[-1] > 100.0 * at[0]:
            panels[-1].set_xscale("log")
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


def _draw_parameter(
    axes: Axes, parameter: str, rows: Sequence[Row], system: System, truth: Sequence[System] | None
) -> None:
    """Draw a parameter of all classes that have it; the limits are those of values and later intervals."""
    at = _column(row["departures"] for row in rows)
    shown: list[Array] = []
    for i, name in enumerate(system.names):
        if not any(parameter in row["estimates"][name] for row in rows):
            continue
        value = _column(row["estimates"][name].get(parameter) for row in rows)
        low, high = (
            _column(row["interval"][name].get(parameter, (None, None))[end] for row in rows) for end in (0, 1)
        )
        shown += [value, low[at.size // 2 :], high[at.size // 2 :]]
        draw_band(axes, at, (low, np.minimum(high, 1e300)), class_colour(i), len(system.names))
        axes.plot(at, value, linewidth=1.0, zorder=3, **class_line(i), **dots(at.size))
        if truth is not None:
            true = _column(regime[name].speedup.parameters.get(parameter) for regime in truth)
            draw_truth(axes, at, true, "steps-mid")
            shown.append(true)
    axes.set_ylim(*limits(shown))
    axes.set_ylabel(f"estimate of {plain(parameter) if len(parameter) > 1 else f'${parameter}$'}")
