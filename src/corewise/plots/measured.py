"""Measured throughputs and the curves fitted to them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from corewise.errors import InvalidInput
from corewise.estimation.concave import FREE
from corewise.estimation.throughput.measured import CurveFit
from corewise.model.speedup import FAMILIES
from corewise.plots.style import class_colour, curve_shown, legend_below, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["measured_curves"]

# Each family has its own colour, and its own dashes for those who see no colours.
_DASHES: tuple[str | tuple[int, tuple[int, int]], ...] = ("-", "-.", ":", (0, (6, 1)), (0, (3, 1)))
_FITTED = (*(name for name, family in FAMILIES.items() if family.bounds), FREE)


def measured_curves(fit: CurveFit, *, title: str | None = None) -> Figure:
    """Draw measured points, the best curve of each family and the concave majorant.

    All are throughputs over one and the same throughput, the best curve's at one core, so that they compare;
    the measured speed-up over a measured point at one core differs by how far that point is off the curve.

    Parameters
    ----------
    fit : CurveFit
        What `fit_curve` returned.
    title : str, optional
        Printed above the axes.

    Returns
    -------
    matplotlib.figure.Figure
    """
    if not isinstance(fit, CurveFit):
        raise InvalidInput(f"expected what fit_curve returns, got {fit!r}")
    speedup = fit.throughput / fit.scale
    banded = fit.band if fit.family == FREE else None
    heights = [speedup.max(), fit.curve.rate(fit.cores.max()), *(banded.high if banded else ())]
    right, top = 1.04 * fit.cores.max(), 1.08 * max(heights)
    z = np.unique(np.concatenate([np.linspace(0.0, right, 400), [1.0], fit.majorant.corners[0]]))
    clipped = any(s > width for width, s in fit.majorant.points)
    with new_figure(4.8, 4.2, title) as figure:
        axes = figure.add_subplot()
        axes.plot(z, z, color="0.75", linewidth=0.8, label="linear, $s(z) = z$", zorder=1)
        if banded:
            low, high = banded.at(z)
            axes.fill_between(
                z,
                low,
                np.minimum(high, 2.0 * top),
                color=class_colour(_FITTED.index(FREE)),
                alpha=0.15,
                linewidth=0.0,
                label=f"{100.0 * banded.level:.4g} % band",
            )
        for candidate in reversed(fit.candidates):
            best, place = candidate is fit.candidates[0], _FITTED.index(candidate.family)
            axes.plot(
                z,
                candidate.scale / fit.scale * candidate.curve.rate(z),
                color=class_colour(place),
                linestyle="-" if best else _DASHES[place % len(_DASHES)],
                linewidth=2.0 if best else 0.9,
                zorder=2 if best else 3,  # thin lines over the thick one, where they coincide
                label=f"{curve_shown(candidate.family, candidate.parameters)} ({candidate.error:.1%})",
            )
        axes.plot(
            z,
            fit.one_core / fit.scale * fit.majorant.rate(z),
            color="0.25",
            linestyle="--",
            linewidth=1.0,
            zorder=3,
            label="concave majorant, at most linear" if clipped else "concave majorant",
        )
        axes.plot(
            fit.cores,
            speedup,
            linestyle="none",
            marker="o",
            markersize=4.0,
            markerfacecolor="white",
            markeredgecolor="black",
            markeredgewidth=0.9,
            zorder=5,
            label="measured",
        )
        axes.set_xlim(0.0, right)
        axes.set_ylim(0.0, top)
        axes.set_xlabel("cores, $z$")
        axes.set_ylabel("speed-up, $s(z)$\n(throughput / throughput at one core)")
        handles, labels = axes.get_legend_handles_labels()
        # Best first and the points before all, though they are drawn last to lie on top.
        marks = reversed([*zip(labels, handles, strict=True)])
        error = "in brackets: the relative error of the fit"
        legend_below(figure, marks, columns=2, title=error, title_fontsize="small")
    return figure
