"""Comparison of two pools on the same jobs: estimates, and mean response times."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from corewise.kit.arrays import Floats
from corewise.plots.style import class_colour, escaped, legend_below, new_figure, shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Contest", "contest_figure"]

_MARGIN = 0.02  # of an axis from 0 to 1


@dataclass(frozen=True)
class Contest:
    """Contest of two pools over the same jobs, as it was looked at from time to time.

    Attributes
    ----------
    seconds : ndarray
        When it was looked at.
    estimates : mapping
        By class a row for each look: the parameter and the ends of its interval of 95 %, or NaN.
    truth : mapping
        The true parameter of each class.
    gains : mapping
        By class, and over all of them: the share of the response time that was saved, up to each look.
    response_times : mapping
        By the same names, in the end: the mean under EQUI and under corewise.
    began : float or None
        When steering began.
    """

    seconds: Floats
    estimates: Mapping[str, Floats]
    truth: Mapping[str, float]
    gains: Mapping[str, Floats]
    response_times: Mapping[str, tuple[float, float]]
    began: float | None = None


def contest_figure(contest: Contest, title: str | None = None) -> Figure:
    """Draw what was learned, the gain up to each look, and mean response times in the end.

    Parameters
    ----------
    contest : Contest
        How it went.
    title : str, optional
        What to write above it.

    Returns
    -------
    matplotlib.figure.Figure
    """
    with new_figure(8.4, 3.0, title) as figure:
        learned, gained, times = figure.subplots(1, 3)
        _draw_estimates(learned, contest)
        _draw_gains(gained, contest)
        _draw_times(times, contest)
        for axes in (learned, gained):
            axes.set_xlabel("seconds")
            axes.set_xlim(0.0, float(contest.seconds[-1]))
            if contest.began is not None:
                axes.axvline(contest.began, color="0.7", linewidth=0.8, zorder=0)
        handles, labels = gained.get_legend_handles_labels()
        truth, _ = learned.get_legend_handles_labels()
        legend_below(
            figure, [*zip(labels, handles, strict=True), ("truth", truth[0])], columns=len(labels) + 1
        )
    return figure


def _draw_estimates(axes: Axes, contest: Contest) -> None:
    for i, (name, rows) in enumerate(contest.estimates.items()):
        axes.fill_between(
            contest.seconds, rows[:, 1], rows[:, 2], color=class_colour(i), alpha=0.2, linewidth=0.0
        )
        axes.plot(contest.seconds, rows[:, 0], color=class_colour(i), linewidth=1.2)
        axes.axhline(contest.truth[name], color="0.2", linewidth=0.8, linestyle="--", label="truth")
    axes.set_ylim(-_MARGIN, 1.0 + _MARGIN)
    axes.set_ylabel("parallel part $p$, learned (bands: 95 %)")


def _draw_gains(axes: Axes, contest: Contest) -> None:
    from matplotlib.ticker import PercentFormatter

    for i, (name, gains) in enumerate(contest.gains.items()):
        axes.plot(contest.seconds, gains, label=escaped(shortened(name)), **_look(i, contest))
    axes.axhline(0.0, color="0.7", linewidth=0.8, zorder=0)
    later = np.concatenate(
        [gains[contest.seconds >= 0.1 * contest.seconds[-1]] for gains in contest.gains.values()]
    )
    low, high = np.nanmin(later, initial=-0.05), np.nanmax(later, initial=0.05)
    axes.set_ylim(low - 0.1 * (high - low), high + 0.1 * (high - low))
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    axes.set_ylabel("response time saved so far")


def _draw_times(axes: Axes, contest: Contest) -> None:
    for i, (name, pair) in enumerate(contest.response_times.items()):
        look = _look(i, contest)
        axes.bar([i - 0.2, i + 0.2], pair, 0.36, color=["none", look["color"]], edgecolor=look["color"])
        for x, value in zip((i - 0.2, i + 0.2), pair, strict=True):
            axes.annotate(f"{value:.3f}", (x, value), ha="center", va="bottom", fontsize=7)
        axes.annotate(
            escaped(shortened(name, 12)), (i, 0.0), (0, -4), textcoords="offset points", ha="center", va="top"
        )
    axes.set_xticks([])
    axes.set_xlabel("EQUI (empty) and corewise (filled)", labelpad=16)
    axes.set_ylabel("mean response time, s")
    axes.margins(y=0.12)


def _look(i: int, contest: Contest) -> dict[str, Any]:
    """Return the look of a line: that of its class, or black for all of them."""
    whole = i >= len(contest.estimates)
    return {"color": "black" if whole else class_colour(i), "linewidth": 1.6 if whole else 1.2}
