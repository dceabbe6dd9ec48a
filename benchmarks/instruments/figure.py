"""How soon a change is found, against how rarely one is found that never was."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from benchmarks.instruments.detection import DelayCurve
from corewise.plots.style import class_colour, escaped, new_figure, shortened

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["delay_figure"]


def delay_figure(curve: DelayCurve) -> Figure:
    """Draw mean delays with two standard errors, and lines with the slope of the theory."""
    with new_figure(4.8, 3.6) as figure:
        from matplotlib.ticker import NullFormatter

        axes = figure.add_subplot()
        rows = (
            ("detector, which knows nothing", "o", curve.detector, curve.detector_stderr),
            ("CUSUM, which knows the change", "s", curve.cusum, curve.cusum_stderr),
        )
        middle = np.log(curve.between).mean()
        for i, (label, marker, means, errors) in enumerate(rows):
            slope = f"slope {curve.slopes[i]:.0f}"
            axes.errorbar(
                curve.between,
                means,
                yerr=2.0 * errors,
                fmt=marker,
                markersize=4,
                capsize=2,
                linewidth=0.8,
                color=class_colour(i),
                label=f"{label}: {slope}",
            )
            line = means.mean() + (np.log(curve.between) - middle) / curve.information
            axes.plot(curve.between, line, color=class_colour(i), linewidth=1.0)
        theory = f"slope 1/$I$ = {1.0 / curve.information:.0f}, through the mean of the points"
        axes.plot([], [], color="0.3", linewidth=1.0, label=theory)
        axes.set_xscale("log")
        axes.set_ylim(0.0, 1.4 * max(curve.detector.max(), curve.cusum.max()))  # room for the legend
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.set_xlabel(r"mean departures between false alarms, $\gamma$")
        axes.set_ylabel("mean delay (departures of all classes)")
        axes.set_title(f"change of the curve of class {escaped(shortened(curve.name))}", fontsize=9)
        axes.legend(frameon=False, loc="upper left", title="slopes in log $\\gamma$", alignment="left")
    return figure
