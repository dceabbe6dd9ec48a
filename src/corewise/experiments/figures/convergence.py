"""The error of the estimates against the length of the observation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from corewise.experiments.studies.convergence import Convergence
from corewise.plots.style import class_colour, escaped, new_figure, shortened

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["convergence_figure"]

_MARKERS = "osD^vP"


def convergence_figure(study: Convergence) -> Figure:
    """Draw errors on log scales, with two standard errors, and the Cramér-Rao bounds as lines."""
    with new_figure(4.8, 3.6) as figure:
        from matplotlib.ticker import NullFormatter

        axes = figure.add_subplot()
        spread = np.exp(2.0 / np.sqrt(2.0 * study.replications))
        for i, name in enumerate(study.names):
            colour, errors = class_colour(i), study.errors[i]
            slope = f"slope {study.slopes[i]:.3f} ± {study.slope_stderr:.3f}".replace("-", "−")
            axes.errorbar(
                study.departures,
                errors,
                yerr=[errors - errors / spread, errors * spread - errors],
                fmt=_MARKERS[i % len(_MARKERS)],
                markersize=4,
                capsize=2,
                linewidth=0.8,
                color=colour,
                label=f"class {escaped(shortened(name))}: {slope}",
            )
            axes.plot(study.departures, study.bounds[i], color=colour, linewidth=1.0)
        axes.plot([], [], color="0.3", linewidth=1.0, label="Cramér–Rao bound, slope −1/2")
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.set_xlabel("departures observed, all classes")
        axes.set_ylabel("root mean square error of the estimate")
        axes.legend(frameon=False, loc="lower left")
    return figure
