"""A stretch of a path: who left when, how many jobs there were, and which cores they held."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from corewise.errors import InvalidInput
from corewise.kit import checks
from corewise.kit.arrays import Floats, Ints
from corewise.observation.rows import STEPS, dense
from corewise.observation.sample_path import EventKind, SamplePath
from corewise.plots.style import class_colour, escaped, new_figure, require_few_classes, shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["path_figure"]

_EVENTS = 80  # what a line as wide as the page shows without running together
_FEW = 3  # classes that leave room for tall panels


def path_figure(
    path: SamplePath,
    *,
    since: float | None = None,
    until: float | None = None,
    unit: str | None = None,
) -> Figure:
    """Draw the departures, the jobs and the cores of each class over a stretch of a path.

    Each class has a panel for its jobs and one for its cores, with the scale of the others, as curves that
    share a panel hide each other. In a path with the cores of each job, those of a class are their sum.

    Parameters
    ----------
    path : SamplePath
        What was recorded.
    since, until : float, optional
        The stretch to show. With one of them, as many events after or before it as stay legible (80 moments
        at which something happens); with none, those from the start. ``since=path.start, until=path.end``
        shows all.
    unit : str, optional
        What times are in.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    InvalidInput
        If the path lasts no time, or the stretch is not within it.

    Notes
    -----
    Paper: figure 2, the departure epochs of each class on one line; figure 3, between them the intervals on
    which the jobs n and the cores c of a class stay what they are.
    """
    if not isinstance(path, SamplePath):
        raise InvalidInput(f"expected a SamplePath, such as that of a recorded run, got {path!r}")
    require_few_classes(path.names)
    first, last = _stretch(path, since, until)
    at, jobs = _steps(path, path.counts, first, last)
    _, cores = _steps(path, _cores_by_class(path), first, last)
    count = len(path.names)
    lane = 0.85 if count <= _FEW else 0.55
    heights = [0.12 + 0.15 * count, *[lane] * (2 * count)]
    with new_figure(6.6, sum(heights) + 0.07 * count + 1.65) as figure:
        figure.set_layout_engine("constrained", h_pad=0.025)
        panels = figure.subplots(len(heights), sharex=True, height_ratios=heights)
        _draw_departures(panels[0], path, first, last)
        _draw_steps(panels[1 : 1 + count], path.names, at, jobs, "jobs")
        _draw_steps(panels[1 + count :], path.names, at, cores, "cores")
        for axes in panels[:-1]:
            axes.tick_params(bottom=False)
        margin = 0.005 * (last - first)  # so that what happens at the ends is seen
        panels[-1].set_xlim(first - margin, last + margin)
        panels[-1].set_xlabel(f"time ({unit or 'unit of the rates'})")
        figure.align_ylabels(panels[1:])
        figure.suptitle(_title(path, first, last))
    return figure


def _stretch(path: SamplePath, since: float | None, until: float | None) -> tuple[float, float]:
    """Return the ends of the stretch to show."""
    if path.duration <= 0.0:
        raise InvalidInput(f"the path lasts no time: it starts and ends at {path.start:g}")
    first = path.start if since is None else checks.within(since, path.start, path.end, "since")
    last = path.end if until is None else checks.within(until, path.start, path.end, "until")
    if first >= last:
        raise InvalidInput(f"the stretch must last some time, got since {first:g} until {last:g}")
    moments = np.unique(path.time[(path.time >= first) & (path.time <= last)])
    if until is None:
        last = float(moments[moments > first][:_EVENTS][-1])
    elif since is None:
        first = float(moments[moments < last][-_EVENTS:][0])
    return first, last


def _cores_by_class(path: SamplePath) -> Floats:
    """Return the cores of every class from each row to the next, shape (rows, K)."""
    if not path.per_job:
        return path.cores
    _, job = dense(path.job)
    rows = np.argsort(job, kind="stable")[np.count_nonzero(job < 0) :]  # job after job, each in order of time
    opens = np.diff(job[rows], prepend=-1) != 0
    owner = path.job_class[rows[opens]][np.cumsum(opens) - 1]  # later rows need not name the class
    held = np.where(STEPS[path.event[rows]] < 0, 0.0, path.cores[rows])
    cores = np.zeros((path.time.size, len(path.names)))
    cores[rows, owner] = held - np.where(opens, 0.0, np.roll(held, 1))
    return np.cumsum(cores, axis=0)


def _steps(
    path: SamplePath, values: Floats | Ints, first: float, last: float
) -> tuple[Floats, Floats | Ints]:
    """Return the moments of a stretch and the values from each to the next; the last pair closes it."""
    inside = np.unique(path.time[(path.time > first) & (path.time < last)])
    moments = np.concatenate([[first], inside])
    rows = np.searchsorted(path.time, moments, side="right") - 1
    return np.append(moments, last), values[np.append(rows, rows[-1])]


def _draw_departures(axes: Axes, path: SamplePath, first: float, last: float) -> None:
    """Mark the departure epochs, a line for each class."""
    leaves = (path.event == EventKind.DEPARTURE) & (path.time >= first) & (path.time <= last)
    count = len(path.names)
    axes.eventplot(
        [path.time[leaves & (path.job_class == i)] for i in range(count)],
        lineoffsets=range(count),
        linelengths=0.7,
        linewidths=0.9,
        colors=[class_colour(i) for i in range(count)],
    )
    axes.set_ylim(count - 0.4, -0.6)
    axes.yaxis.tick_right()
    axes.set_yticks(range(count), [escaped(shortened(name)) for name in path.names])
    for i, label in enumerate(axes.get_yticklabels()):
        label.set_color(class_colour(i))
    axes.tick_params(right=False)
    axes.set_title("departures", loc="left", fontsize="medium")


def _draw_steps(
    panels: Sequence[Axes],
    names: Sequence[str],
    at: Floats,
    values: Floats | Ints,
    what: str,
) -> None:
    """Draw a step curve for each class, all in the same scale."""
    from matplotlib.ticker import MaxNLocator

    top = max(float(values.max()), 1.0)
    for i, (axes, name) in enumerate(zip(panels, names, strict=True)):
        axes.plot(at, values[:, i], drawstyle="steps-post", color=class_colour(i), linewidth=1.2)
        axes.set_ylim(-0.08 * top, 1.12 * top)
        axes.yaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10], integer=True))
        axes.set_ylabel(what)
        axes.annotate(
            escaped(shortened(name)),
            (1.0, 0.5),
            xytext=(7.0, 0.0),
            xycoords="axes fraction",
            textcoords="offset points",
            va="center",
            color=class_colour(i),
            fontsize=8,
        )


def _title(path: SamplePath, first: float, last: float) -> str:
    """Return which stretch is shown, and of how much."""
    moves = path.time[(path.event == EventKind.ARRIVAL) | (path.event == EventKind.DEPARTURE)]
    shown = int(np.count_nonzero((moves >= first) & (moves <= last)))
    if shown == moves.size and first == path.start and last == path.end:
        return f"all {moves.size} arrivals and departures"
    digits = min(12, max(0, 2 - math.floor(math.log10(last - first))))  # that distinguish the ends
    ends = [f"{end:.{digits}f}" for end in (first, last, path.start, path.end)]
    return (
        f"{shown} of {moves.size} arrivals and departures\n"
        f"time {ends[0]} to {ends[1]} of {ends[2]} to {ends[3]}"
    )
