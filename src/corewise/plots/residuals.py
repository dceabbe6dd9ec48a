"""Goodness of fit: residuals of a log against their distribution under the model."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from corewise.errors import InvalidInput
from corewise.estimation.residuals import GoodnessOfFit
from corewise.kit.arrays import Floats
from corewise.plots.lines import patch
from corewise.plots.style import (
    class_colour,
    escaped,
    legend_below,
    panel_grid,
    require_few_classes,
    shortened,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["residual_figure"]

_PIECES = 1000  # of a curve that a panel can show
_LEVEL = 0.95
_TESTS_A_LINE = 2
_BAND: dict[str, Any] = {"color": "0.5", "alpha": 0.2, "linewidth": 0.0}
_ACROSS = "share under the model, $1 - e^{-r}$"
_UP = "share of residuals up to $r$,\nless that under the model"


def residual_figure(fits: Mapping[str, GoodnessOfFit], *, names: Sequence[str] | None = None) -> Figure:
    """Draw how far the residuals of each class are from Exp(1), their distribution under the model.

    Parameters
    ----------
    fits : mapping
        What `goodness_of_fit` returned.
    names : sequence of str, optional
        All classes of the system, in order, so that each has the colour that it has in other figures, also if
        some are not in the mapping.

    Returns
    -------
    matplotlib.figure.Figure

    Notes ----- A P-P plot with its diagonal taken off, as deviations of a hundredth would not be seen beside
    it: the share of residuals up to r less 1 − exp(−r), over the latter. Under the model the whole curve
    stays within the band with probability 95 %, by the distribution of Kolmogorov's statistic (in the form of
    Stephens, 1970). With too few residuals to be tested there is no band. The tests of order and widths see
    what this curve does not show.
    """
    known = _known_names(fits, names)
    with panel_grid(len(fits), _ACROSS, _UP) as (figure, panels):
        for axes, (name, fit) in zip(panels, fits.items(), strict=True):
            colour = class_colour(known.index(name))
            axes.axhline(0.0, color="0.75", linewidth=0.8, zorder=1)
            if "law" in fit.p_values:
                edge = _kolmogorov_band(fit.residuals.size)
                axes.axhspan(-edge, edge, zorder=0, **_BAND)
            if fit.residuals.size:
                axes.plot(*_deviations(fit.residuals), color=colour, linewidth=1.0, zorder=3)
            axes.set_title(_title_of(fit), fontsize=8, color=colour)
            axes.set_xlim(0.0, 1.0)
            axes.set_xticks([0.0, 0.5, 1.0], ["0", "0.5", "1"])
        top = max(max(abs(end) for end in axes.get_ylim()) for axes in panels)
        panels[0].set_ylim(-top, top)
        legend_below(figure, [(f"{100 * _LEVEL:g} % band of Kolmogorov", patch(**_BAND))])
    return figure


def _known_names(fits: Mapping[str, GoodnessOfFit], names: Sequence[str] | None) -> list[str]:
    """Return all classes, in the order of their colours."""
    if not isinstance(fits, Mapping) or not all(isinstance(v, GoodnessOfFit) for v in fits.values()):
        raise InvalidInput(f"expected what goodness_of_fit returns, got {fits!r}")
    if not fits:
        raise InvalidInput("there is nothing to draw: no class was tested")
    require_few_classes(list(fits))
    known = list(fits if names is None else names)
    for name in fits:
        if name not in known:
            raise InvalidInput(f"a result is of class {name!r}; the names are {', '.join(known)}")
    return known


def _deviations(residuals: Floats) -> tuple[Floats, Floats]:
    """Return 1 − exp(−r) and the share of residuals up to r less it: before and after each residual.

    Of many, those that deviate most up and down in every thousandth part are kept, so that the largest is.
    """
    level = -np.expm1(-np.sort(residuals))
    count = level.size
    at = np.concatenate([[0.0], np.repeat(level, 2), [1.0]])
    share = np.concatenate([[0.0], np.repeat(np.arange(count + 1) / count, 2)[1:-1], [1.0]])
    above = share - at
    if at.size <= 4 * _PIECES:
        return at, above
    parts = np.array_split(np.arange(at.size), _PIECES)
    kept = np.unique([part[pick(above[part])] for part in parts for pick in (np.argmin, np.argmax)])
    return at[kept], above[kept]


def _kolmogorov_band(count: int) -> float:
    """Return what the largest deviation of `count` residuals stays below with probability 95 %."""
    from scipy.special import kolmogi

    root = math.sqrt(count)
    return float(kolmogi(1.0 - _LEVEL)) / (root + 0.12 + 0.11 / root)


def _title_of(fit: GoodnessOfFit) -> str:
    """Return the result of the tests as a title."""
    name = f"{escaped(shortened(fit.name, 18))}: {fit.residuals.size} departures"
    if math.isnan(fit.p_value):
        return f"{name}\ntoo few to test the model"
    result = "does not follow the model" if fit.doubtful else "no sign against the model"
    tests = [_p_shown(test, value) for test, value in fit.p_values.items()]
    lines = [", ".join(tests[k : k + _TESTS_A_LINE]) for k in range(0, len(tests), _TESTS_A_LINE)]
    listed = ",\n".join(lines)
    return f"{name}\n{result}, {_p_shown('$p$ =', fit.p_value)}\n({listed})"


def _p_shown(what: str, value: float) -> str:
    return f"{what} {value:.1g}" if value >= 1e-99 else f"{what.removesuffix(' =')} < 1e-99"
