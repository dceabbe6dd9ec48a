"""Changes that are tracked: estimates beside a truth that does not stay what it is."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from corewise.errors import InvalidInput
from corewise.estimation.changes.alarms import RETRACTED
from corewise.experiments.figures.learning import names_of, run_of
from corewise.experiments.studies.learning import LearningStudy
from corewise.experiments.studies.tracking import only_parameter
from corewise.kit import checks
from corewise.kit.arrays import Floats
from corewise.model.job_class import Change
from corewise.model.system import System, require_system
from corewise.plots.lines import (
    DASHES,
    Marks,
    add_legend,
    class_line,
    class_marks,
    draw_truth,
    limits,
    stroke,
    true_steps,
    truth_mark,
)
from corewise.plots.style import add_panels, class_colour, escaped, new_figure, shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["changes_figure", "tracking_figure"]

_ESTIMATE = r"estimate, $\hat{p}_i$"
_MOST_CHANGES = 12  # with a panel each, a page can hold no more
_DASHES = (*DASHES[:2], *DASHES[3:], DASHES[2])  # dotted last, as the truth is
_ALARM: dict[str, Any] = {"linestyle": "none", "marker": "^", "markersize": 5.0, "markeredgewidth": 0.0}


def tracking_figure(
    studies: Mapping[str, LearningStudy], system: System, *, run: int = 0, title: str | None = None
) -> Figure:
    """Draw estimates against time while the true parameters change.

    Parameters
    ----------
    studies : mapping
        Studies of the same system, by what to call each; every one has a panel.
    system : System
        The true curves, and their changes.
    run : int, optional
        Which run of each, from 0.
    title : str, optional
        Printed above the panels.

    Returns
    -------
    matplotlib.figure.Figure

    Notes
    -----
    An estimate is drawn from the end of its window, when it is first known, to the end of the next.
    Paper: figure 6, with the changes of Table 2.
    """
    names = names_of(studies)
    _require_same(names, system)
    at = min(run_of(study, run) for study in studies.values())
    end = max(float(study.times[at, -1]) for study in studies.values())
    power = max(0, math.floor(math.log10(end)) - 1) if end >= 1e4 else 0
    unit = 10.0**power
    steps = [true_steps(system, name, end, partial(only_parameter, name)) for name in names]
    changes = sorted({change.time for change in system.changes if change.time <= end})
    scale = f"$\\times 10^{{{power}}}$, " if power else ""
    across = f"time ({scale}unit of the rates)"
    with new_figure(6.6, 1.9 * len(studies) + 0.9, title) as figure:
        panels = add_panels(figure, len(studies), 1, across, _ESTIMATE, sharey=True)
        for axes, (name, study) in zip(panels, studies.items(), strict=True):
            for time in changes:
                axes.axvline(time / unit, color="0.6", linewidth=0.6, zorder=1)
            known, found = study.times[at] / unit, study.estimates[at]
            for i, (since, true) in enumerate(steps):
                axes.plot(known, found[i], drawstyle="steps-post", linewidth=0.9, zorder=3, **class_line(i))
                draw_truth(axes, i, since / unit, true, "steps-post")
            axes.set_title(escaped(shortened(name, 60)), loc="left", fontsize=9)
        shown = [study.estimates[at] for study in studies.values()]
        panels[0].set_ylim(*limits([*shown, *(true for _, true in steps)]))
        panels[-1].set_xlim(0.0, end / unit)
        marks = class_marks(enumerate(names))
        marks.append(truth_mark())
        if changes:
            marks.append(("a curve changes", stroke(color="0.6", linewidth=0.6)))
        add_legend(figure, marks)
    return figure


def changes_figure(
    studies: Mapping[str, LearningStudy],
    system: System,
    *,
    span: tuple[float, float],
    run: int = 0,
    title: str | None = None,
) -> Figure:
    """Draw what becomes of the estimates of a class right after it changes, a panel for every change.

    Parameters
    ----------
    studies : mapping
        Studies of the same system, by what to call each; every one has a line in all panels.
    system : System
        The true curves, and their changes.
    span : tuple of float
        How long before and after a change to show.
    run : int, optional
        Which run of each, from 0.
    title : str, optional
        Printed above the panels.

    Returns
    -------
    matplotlib.figure.Figure

    Notes
    -----
    An estimate is drawn from the end of its window, when it is first known, to the end of the next. Triangles
    are alarms for the class of the panel, at the time they were raised.
    """
    names = names_of(studies)
    _require_same(names, system)
    at = min(run_of(study, run) for study in studies.values())
    before, after = (checks.positive(length, "span") for length in span)
    if not 0 < len(system.changes) <= _MOST_CHANGES:
        raise InvalidInput(
            f"a figure shows from 1 to {_MOST_CHANGES} changes, the system has {len(system.changes)}"
        )
    columns = min(2, len(system.changes))
    rows = math.ceil(len(system.changes) / columns)
    with new_figure(3.3 * columns, 1.9 * rows + 0.9, title) as figure:
        panels = add_panels(
            figure, len(system.changes), columns, "time since the change", _ESTIMATE, sharey=False
        )
        for axes, change in zip(panels, system.changes, strict=True):
            _draw_change(axes, studies, system, change, (at, before, after))
        marks: Marks = [
            (escaped(shortened(name, 40)), stroke(linewidth=1.2, **_study_line(j)))
            for j, name in enumerate(studies)
        ]
        marks.append(truth_mark())
        if any(any(study.alarms) for study in studies.values()):
            marks.append(("alarm raised", stroke(color="0.35", **_ALARM)))
        add_legend(figure, marks)
    return figure


def _draw_change(
    axes: Axes,
    studies: Mapping[str, LearningStudy],
    system: System,
    change: Change,
    view: tuple[int, float, float],
) -> None:
    """Draw all estimates of one class around one of its changes."""
    run, before, after = view
    i = system.index(change.name)
    value_of = partial(only_parameter, change.name)
    since, true = true_steps(system, change.name, change.time + after, value_of)
    shown: list[Floats] = []
    for j, study in enumerate(studies.values()):
        times, values = study.times[run] - change.time, study.estimates[run, i]
        first, last = np.searchsorted(times, [-before, after])
        part = slice(max(int(first) - 1, 0), int(last) + 1)
        look = _study_line(j)
        axes.plot(times[part], values[part], drawstyle="steps-post", linewidth=1.0, zorder=3, **look)
        shown.append(values[part])
        alarms = study.alarms[run] if study.alarms else ()
        raised = np.interp(
            [alarm.raised for alarm in alarms if alarm.name == change.name and alarm.kind != RETRACTED],
            study.departures,
            times,
        )
        for moment in raised[(raised > -before) & (raised < after)].tolist():
            edge: dict[str, Any] = {"transform": axes.get_xaxis_transform(), "clip_on": False, "zorder": 5}
            axes.plot([moment], [0.0], color=look["color"], **edge, **_ALARM)
    near = since[1:] > change.time - before
    draw_truth(axes, i, since - change.time, true, "steps-post")
    axes.set_xlim(-before, after)
    axes.set_ylim(*limits([*shown, true[:-1][near]]))
    where = int(np.flatnonzero(since <= change.time)[-1])
    name = escaped(shortened(change.name, 10))
    axes.set_title(
        f"class {name}: {true[where - 1]:g} → {true[where]:g} at $t$ = {change.time:g}",
        fontsize=8,
        color=class_colour(i),
    )


def _study_line(j: int) -> dict[str, Any]:
    """Return how the line of the study at position j looks; the paper's classes have the first colours."""
    return {"color": class_colour(2 + j), "linestyle": _DASHES[j]}


def _require_same(names: tuple[str, ...], system: System) -> None:
    """Raise `InvalidInput` unless studies of these classes are of this system."""
    require_system(system)
    if system.names != list(names):
        raise InvalidInput(
            f"the studies are of classes {', '.join(names)}; the system has {', '.join(system.names)}"
        )
