"""Mean response time against the number of cores."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from corewise.kit.unit_labels import with_unit
from corewise.plots.style import class_colour, escaped, legend_below, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from corewise.studies.plan import CapacityPlan

__all__ = ["capacity_figure"]

_TALLEST = 3.0
"""How many times the target is shown: close to saturation the curve has no end."""


def capacity_figure(plan: CapacityPlan) -> Figure:
    """Draw the curve of a plan, its target and limit, and the fewest cores that meet the target.

    Parameters
    ----------
    plan : CapacityPlan
        What `plan` returned. Simulated points have bars for their intervals of 95 %.

    Returns
    -------
    matplotlib.figure.Figure
    """
    cores = np.array([point.cores for point in plan.curve])
    times = np.array([point.mean_response_time for point in plan.curve])
    ends = np.array([point.interval for point in plan.curve])
    with new_figure(5.2, 3.4) as figure:
        from matplotlib.ticker import MaxNLocator

        axes = figure.add_subplot()
        bars = np.abs(ends - times[:, None]).T
        axes.errorbar(
            cores,
            times,
            yerr=None if plan.exact else bars,
            fmt="o-",
            color=class_colour(0),
            markersize=3.5,
            linewidth=1.0,
            capsize=2.0,
            label=f"policy {escaped(plan.policy)}{'' if plan.exact else ' (bars: 95 %)'}",
        )
        axes.plot(
            plan.cores,
            plan.mean_response_time,
            "o",
            color=class_colour(1),
            markersize=8,
            fillstyle="none",
            markeredgewidth=1.5,
            label=f"fewest that meet it: {plan.cores}",
        )
        axes.axhline(plan.target, color=class_colour(1), linewidth=1.0, linestyle="--", label="target")
        if plan.limit > 0.0:
            axes.axhline(plan.limit, color="0.4", linewidth=1.0, linestyle=":", label="infinitely many cores")
        left, right = cores.min(), cores.max()
        margin = 0.04 * max(right - left, 1)
        axes.set_xlim(left - margin, right + margin)
        if plan.least_cores - 0.5 > left - margin:
            axes.axvspan(
                left - margin,
                plan.least_cores - 0.5,
                color="0.92",
                linewidth=0.0,
                zorder=0,
                label="not enough under any policy",
            )
        axes.set_ylim(0.0, min(1.05 * float(ends.max()), _TALLEST * plan.target))
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_xlabel("cores")
        axes.set_ylabel(with_unit("mean response time", plan.unit))
        handles, labels = axes.get_legend_handles_labels()
        marks = sorted(zip(labels, handles, strict=True), key=lambda mark: not mark[0].startswith("policy "))
        legend_below(figure, marks, columns=2)  # the curve first
    return figure
