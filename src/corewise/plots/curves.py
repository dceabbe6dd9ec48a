"""Families of speed-up curves."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from corewise.errors import InvalidInput
from corewise.kit import checks
from corewise.kit.arrays import Floats
from corewise.model.speedup import SpeedUp, check_curve
from corewise.plots.style import COLOUR_MAP, curve_shown, escaped, panel_grid, shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["speedup_figure"]

_MOST = 12  # panels on a page, and curves with labels of their own in a panel
_LIGHTEST = 0.8  # of the colour map; what lies beyond does not show on white
_DARKER = 0.75  # letters are thinner than lines, and need more contrast
_LINEAR = 0.95  # a curve that keeps this share of a linear speed-up would press all others together
_LINE = 0.055  # the height of a label, as a share of the panel's


def speedup_figure(
    families: Mapping[str, Sequence[SpeedUp]], *, cores: float, title: str | None = None
) -> Figure:
    """Draw speed-up curves against the cores that a job holds, a panel for each family.

    Parameters
    ----------
    families : mapping
        Curves, by what to write above their panel; colours get lighter from the first to the last.
    cores : float
        Up to how many cores.
    title : str, optional
        Printed above the panels.

    Returns
    -------
    matplotlib.figure.Figure

    Notes
    -----
    All panels have one scale, on which the steepest curve that is not linear has room. A linear one leaves
    its panel at the top, and has its label there. Paper: figure 1.
    """
    right = checks.positive(cores, "cores")
    _require_curves(families, right)
    ends = np.array([float(curve.rate(right)) for curves in families.values() for curve in curves])
    top = 1.06 * float(ends[ends < _LINEAR * right].max(initial=0.0)) or right
    z = np.union1d(np.linspace(0.0, right, 401), min(1.0, right))
    with panel_grid(len(families), "cores per job, $z$", "speed-up, $s(z)$", title) as (figure, panels):
        from matplotlib import colormaps

        figure.set_figwidth(1.2 * figure.get_figwidth())  # room for the labels
        for axes, (name, curves) in zip(panels, families.items(), strict=True):
            colours = colormaps[COLOUR_MAP](np.linspace(0.0, _LIGHTEST, len(curves)))[:, :3]
            speeds = np.array([curve.rate(z) for curve in curves])
            for speed, colour in zip(speeds, colours, strict=True):
                axes.plot(z, speed, color=colour, linewidth=1.4)
            heading = escaped(textwrap.fill(shortened(name, 60), 30))
            axes.set_title(heading, fontsize=9, pad=15.0 if ends.max() > top else 6.0)
            _label(axes, z, speeds, _texts(curves), _DARKER * colours, top)
        panels[0].set_xlim(0.0, right)
        panels[0].set_ylim(0.0, top)
    return figure


def _require_curves(families: Mapping[str, Sequence[SpeedUp]], cores: float) -> None:
    """Raise `InvalidInput` unless there are some curves, and not more than a page can hold."""
    if not isinstance(families, Mapping) or not 1 <= len(families) <= _MOST:
        raise InvalidInput(f"expected one to {_MOST} lists of curves by their names, got {families!r}")
    for name, curves in families.items():
        if not isinstance(curves, Sequence) or not 1 <= len(curves) <= _MOST:
            raise InvalidInput(f"{name!r}: expected one to {_MOST} curves, got {curves!r}")
        for curve in curves:
            if not isinstance(curve, SpeedUp):
                raise InvalidInput(f"{name!r}: expected a SpeedUp curve, got {curve!r}")
            check_curve(curve, cores)


def _texts(curves: Sequence[SpeedUp]) -> list[str]:
    """Return the parameters of each curve; its family too where a panel shows several, or there are none."""
    shown = [curve_shown(curve.family, curve.parameters) for curve in curves]
    if len({curve.family for curve in curves}) > 1:
        return shown
    return [text.partition(", ")[2] or text for text in shown]


def _label(axes: Axes, z: Floats, speeds: Floats, texts: Sequence[str], colours: Floats, top: float) -> None:
    """Write beside the end of each curve what it is, or above where it leaves the panel."""
    look: dict[str, Any] = {"fontsize": 7, "textcoords": "offset points", "annotation_clip": False}
    inside = np.flatnonzero(speeds[:, -1] <= top)
    for i, height in zip(inside.tolist(), _spread(speeds[inside, -1], _LINE * top, top), strict=True):
        axes.annotate(texts[i], (z[-1], height), (4.0, 0.0), va="center", color=colours[i], **look)
    for i in np.flatnonzero(speeds[:, -1] > top).tolist():
        leaves = float(np.interp(top, speeds[i], z))
        axes.annotate(texts[i], (leaves, top), (0.0, 3.0), ha="center", color=colours[i], **look)


def _spread(heights: Floats, apart: float, top: float) -> Floats:
    """Return heights moved as little as keeps neighbours apart and all below the top."""
    order = np.argsort(heights, kind="stable")
    moved = heights[order]
    for i in range(1, moved.size):
        moved[i] = max(moved[i], moved[i - 1] + apart)
    for i in range(moved.size - 1, -1, -1):
        moved[i] = min(moved[i], top - apart * (moved.size - 1 - i))
    spread = np.empty_like(moved)
    spread[order] = moved
    return spread
