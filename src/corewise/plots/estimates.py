"""Estimated curves over what was observed."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from corewise.errors import InvalidInput
from corewise.estimation.band import Speeds, observed_speeds, speed_band
from corewise.estimation.estimates import Estimate, Estimates
from corewise.estimation.likelihood import Likelihood
from corewise.kit import checks
from corewise.kit.arrays import Floats
from corewise.kit.unit_labels import rate_suffix
from corewise.model.job_class import JobClass
from corewise.model.system import System, require_system
from corewise.observation.statistics import ClassStatistics, Statistics
from corewise.plots.lines import patch, stroke
from corewise.plots.style import (
    class_colour,
    curve_shown,
    escaped,
    legend_below,
    panel_grid,
    require_few_classes,
    shortened,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["estimate_figure"]

_GIVEN: dict[str, Any] = {"color": "0.35", "linestyle": "--", "linewidth": 1.0}
_TRUE: dict[str, Any] = {"color": "black", "linestyle": ":", "linewidth": 1.2}


def estimate_figure(
    statistics: Statistics,
    system: System,
    estimates: Estimates,
    *,
    truth: System | None = None,
    level: float = 0.95,
) -> Figure:
    """Draw the estimated speed-up curve of each class, with its band, over the observed points.

    Parameters
    ----------
    statistics : Statistics
        What was seen.
    system : System
        What was known.
    estimates : Estimates
        What `estimate` made of both.
    truth : System, optional
        The system that was simulated, to draw its curves as well.
    level : float, optional
        The level of bands and error bars.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    InvalidInput
        If the arguments are not of the same classes, or the estimates not of these statistics.

    Notes
    -----
    A point stands for neighbouring widths that at least 20 jobs left at (or four, if those are all): D
    departures in a job-time W show the speed D/(μW), drawn at the mean width. Where μ was estimated too, it
    is that estimate. Widths far below one core, which say nothing about the curve, are left out. Bars are
    exact intervals of a Poisson count, the band is the profile-likelihood interval of s(z) at each width z;
    see `corewise.estimation.band`.
    """
    confidence = checks.within(level, 0.5, 1.0 - 1e-9, "level")
    _require_match(statistics, system, estimates, truth)
    observed = [
        _observed(table, job_class, estimates[job_class.name], confidence)
        for table, job_class in zip(statistics.classes, system.classes, strict=True)
    ]
    z = _abscissae(observed, system.cores)
    with panel_grid(len(system.classes), "cores per job, $z$", "speed-up, $s(z)$") as (figure, panels):
        for i, (axes, job_class) in enumerate(zip(panels, system.classes, strict=True)):
            found, colour = estimates[job_class.name], class_colour(i)
            axes.axline((1.0, 1.0), (2.0, 2.0), color="0.75", linewidth=0.8, zorder=1)
            _draw_points(axes, observed[i], z[0], colour)
            if found.curve is not None:
                likelihood = _likelihood(statistics.classes[i], job_class, found)
                band = _band(likelihood, found, z, confidence)
                axes.fill_between(z, *band, color=colour, alpha=0.2, linewidth=0.0, zorder=2)
                axes.plot(z, found.curve.rate(z), color=colour, linewidth=1.5, zorder=3)
            elif not job_class.speedup.bounds:
                axes.plot(z, job_class.speedup.rate(z), zorder=3, **_GIVEN)
            if truth is not None:
                axes.plot(z, truth.classes[i].speedup.rate(z), zorder=4, **_TRUE)
            _write(axes, found, colour, system.unit)
        _scale(panels, z)
        _add_legend(figure, system, estimates, truth, confidence)
    return figure


def _require_match(
    statistics: Statistics, system: System, estimates: Estimates, truth: System | None
) -> None:
    """Raise `InvalidInput` unless all arguments are about the same classes and the same data."""
    require_system(system)
    require_few_classes(system.names)
    if not isinstance(statistics, Statistics):
        raise InvalidInput(f"expected Statistics, such as those of a run, got {statistics!r}")
    if not isinstance(estimates, Estimates):
        raise InvalidInput(f"expected what estimate returns, got {estimates!r}")
    if truth is not None:
        require_system(truth)
    others = {
        "the statistics are": list(statistics.names),
        "the estimates are": list(estimates),
        "the truth is": system.names if truth is None else truth.names,
    }
    for what, names in others.items():
        if names != system.names:
            raise InvalidInput(
                f"{what} of classes {', '.join(names)}; the system has {', '.join(system.names)}"
            )
    for job_class, table in zip(system.classes, statistics.classes, strict=True):
        found = estimates[job_class.name]
        if found.departures != table.left or not _is_of(found, _likelihood(table, job_class, found)):
            raise InvalidInput(
                f"class {job_class.name!r}: the estimate ({found.departures} departures) was not made from "
                f"these statistics ({table.left} departures) with this system"
            )


def _likelihood(table: ClassStatistics, job_class: JobClass, found: Estimate) -> Likelihood:
    """Return the likelihood that an estimate maximises."""
    return Likelihood(
        table, found.curve or job_class.speedup, None if found.size_rate else job_class.size_rate
    )


def _is_of(found: Estimate, likelihood: Likelihood) -> bool:
    """Return whether an estimate has the likelihood that it says."""
    if found.curve is None:
        return True
    return math.isclose(
        likelihood.value(_parameters(found)), found.log_likelihood, rel_tol=1e-6, abs_tol=1e-6
    )


def _parameters(found: Estimate) -> Floats:
    return np.array(list(found.parameters.values()))


def _observed(table: ClassStatistics, job_class: JobClass, found: Estimate, level: float) -> Speeds:
    """Return the speeds at which jobs were seen to leave, of groups of widths with enough departures."""
    size_rate = found.size_rate.value if found.size_rate else job_class.known_size_rate
    return observed_speeds(table, size_rate, level)


def _abscissae(observed: Sequence[Speeds], cores: float) -> Floats:
    """Return widths over the range that was observed; what lies above one core has at least half of it."""
    widths = np.concatenate([seen.width for seen in observed])
    right = max(2.0, float(widths.max(initial=0.0)) or cores)
    left = max(1.0 / right, float(widths.min(initial=1.0)))
    return np.unique(np.append(np.geomspace(left / 1.1, right * 1.1, 300), 1.0))


def _band(likelihood: Likelihood, found: Estimate, z: Floats, level: float) -> tuple[Floats, Floats]:
    """Return the edges of the band; the intervals of the parameters say how far to look."""
    if found.band is not None:
        return found.band.at(z)
    best = _parameters(found)
    low, high = np.array(list(found.intervals.values())).T
    lengths = np.where(np.isfinite(high - low) & (high > low), high - low, 1.0)
    return speed_band(likelihood, best, lengths, z, level)


def _draw_points(axes: Axes, seen: Speeds, left: float, colour: str) -> None:
    """Draw observed speeds with error bars; the area of a point grows with its departures."""
    shown = seen.width >= left
    if not shown.any():
        return
    width, speed, low, high, departures = (column[shown] for column in seen)
    axes.vlines(width, low, high, color=colour, linewidth=0.7, zorder=5)
    axes.scatter(
        width,
        speed,
        s=6.0 + 44.0 * departures / departures.max(),
        facecolor="white",
        edgecolor=colour,
        linewidth=0.8,
        zorder=6,
    )


def _write(axes: Axes, found: Estimate, colour: str, unit: str | None) -> None:
    """Write above a panel what was estimated, or why nothing was."""
    lines = [f"{escaped(shortened(found.name, 18))}: {found.departures} departures"]
    if found.curve is None:
        lines += textwrap.wrap(f"no information: {escaped(found.note)}", 38)
    else:
        lines.append(curve_shown(found.family, found.parameters))
    if found.at_boundary:
        lines.append("at the boundary of its range")
    if found.size_rate:
        lines.append(f"size rate {found.size_rate.value:.4g}{rate_suffix(unit)}, estimated")
    axes.set_title("\n".join(lines), fontsize=8, color=colour)


def _scale(panels: Sequence[Axes], z: Floats) -> None:
    """Make the axes logarithmic."""
    from matplotlib.ticker import NullLocator, StrMethodFormatter

    for axes in panels:
        axes.set_xscale("log", base=2)
        axes.set_yscale("log", base=2)
        axes.set_xlim(z[0], z[-1])
    for axes in panels:
        for axis, limits in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
            axis.set_ticks(_ticks(*limits))
            axis.set_major_formatter(StrMethodFormatter("{x:g}"))
            axis.set_minor_locator(NullLocator())


def _ticks(low: float, high: float) -> Floats:
    """Return three to six powers of two, or evenly spaced numbers where there are fewer of them."""
    from matplotlib.ticker import MaxNLocator

    powers = np.arange(math.ceil(math.log2(low)), math.floor(math.log2(high)) + 1)
    if powers.size >= 3:
        return np.asarray(np.exp2(powers[powers % math.ceil(powers.size / 6) == 0]))
    ticks = np.asarray(MaxNLocator(4).tick_values(low, high))
    return ticks[(ticks >= low) & (ticks <= high)]


def _add_legend(
    figure: Figure, system: System, estimates: Estimates, truth: System | None, level: float
) -> None:
    """Say what the marks stand for, in grey where a panel has the colour of its class."""
    from matplotlib.collections import LineCollection
    from matplotlib.container import ErrorbarContainer

    point = stroke(color="0.35", linestyle="none", marker="o", markerfacecolor="white", markersize=5.0)
    bar = LineCollection([], colors="0.35", linewidths=0.7)
    marks: dict[str, Any] = {
        f"observed, {100 * level:.4g} % bar,\narea by departures": ErrorbarContainer(
            (point, (), (bar,)), has_yerr=True
        )
    }
    if estimates.curves:
        marks["estimated curve"] = stroke(color="0.35", linewidth=1.5)
        marks[f"{100 * level:.4g} % band, at each width"] = patch()
    if any(estimates[job.name].curve is None and not job.speedup.bounds for job in system.classes):
        marks["curve as given"] = stroke(**_GIVEN)
    if truth is not None:
        marks["true curve"] = stroke(**_TRUE)
    marks["linear, $s(z) = z$"] = stroke(color="0.75", linewidth=0.8)
    legend_below(figure, marks.items(), columns=2 if len(system.classes) in (1, 2, 4) else 3)
