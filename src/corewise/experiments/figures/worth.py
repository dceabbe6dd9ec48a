"""What policies cost above the optimum, case by case."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from corewise.errors import InvalidInput
from corewise.plots.style import class_colour, escaped, legend_below, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["worth_figure"]

_MARKERS = "osD^vP"
_LEAST = 1e-8  # in per cent: less is rounding


def worth_figure(gaps: Mapping[str, Mapping[str, float]]) -> Figure:
    """Draw the gap to the optimum, in per cent on a log scale, of several policies in several cases.

    Parameters
    ----------
    gaps : mapping
        J/J* − 1 by policy, for each case; infinite where a policy cannot keep up, which is drawn at the upper
        edge.

    Returns
    -------
    matplotlib.figure.Figure
    """
    cases = list(gaps)
    policies = list(next(iter(gaps.values()), {}))
    if not policies or any(list(row) != policies for row in gaps.values()):
        raise InvalidInput("every case needs the gaps of the same policies, at least one")
    if len(policies) > len(_MARKERS):
        raise InvalidInput(f"a figure shows at most {len(_MARKERS)} policies, got {len(policies)}")
    percent = 100.0 * np.array([[gaps[case][policy] for policy in policies] for case in cases])
    finite = np.maximum(percent[np.isfinite(percent)], _LEAST)
    top = 10.0 ** (math.ceil(math.log10(finite.max(initial=1.0))) + 0.3)
    with new_figure(5.6, 3.6) as figure:
        axes = figure.add_subplot()
        for j, policy in enumerate(policies):
            shown = np.where(np.isfinite(percent[:, j]), np.maximum(percent[:, j], _LEAST), top)
            at = np.arange(len(cases)) + 0.12 * (j - 0.5 * (len(policies) - 1))
            look: dict[str, Any] = {"color": class_colour(j), "markersize": 5, "label": escaped(policy)}
            axes.plot(at, shown, _MARKERS[j], clip_on=False, **look)
        axes.set_yscale("log")
        axes.set_ylim(10.0 ** math.floor(math.log10(finite.min(initial=1.0))), top)
        axes.set_xlim(-0.5, len(cases) - 0.5)
        axes.set_xticks(range(len(cases)), [escaped(case) for case in cases])
        axes.grid(axis="y", color="0.9", linewidth=0.6)
        axes.set_axisbelow(True)
        axes.set_ylabel("mean jobs above the optimum (%)")
        if np.isinf(percent).any():
            axes.set_xlabel("marks on the upper edge: cannot keep up")
        legend_below(figure, zip(map(escaped, policies), axes.lines, strict=True), columns=3)
    return figure
