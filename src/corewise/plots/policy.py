"""Two-class policies as heat maps."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from corewise.errors import InvalidInput
from corewise.model.space import StateSpace
from corewise.model.system import System
from corewise.plots.style import COLOUR_MAP, escaped, legend_below, new_figure, panel_grid, shortened
from corewise.policies.base import Policy, bind, tabulate
from corewise.policies.tabular import Tabular

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["MOST_JOBS", "policy_heatmap", "policy_heatmaps", "require_two_classes", "usual_range"]

MOST_JOBS = 50  # beyond it single states are indistinguishable in print
_FEWEST_JOBS = 10


def require_two_classes(system: System) -> None:
    """Raise `InvalidInput` unless the system has the two classes that the axes need."""
    if not isinstance(system, System):
        raise InvalidInput(f"expected a System, got {system!r}")
    if len(system.classes) != 2:
        names = ", ".join(system.names)
        raise InvalidInput(f"a heat map needs two classes, the system has {len(system.classes)}: {names}")


def policy_heatmap(
    policy: Policy | str,
    system: System,
    *,
    capacity: int | Iterable[int] | None = None,
    title: str | None = None,
) -> Figure:
    """Draw the fraction of the cores that the first class holds in each state (n₁, n₂).

    Parameters
    ----------
    policy : Policy
        What to draw; bound to `system` unless it is bound already.
    system : System
        A system of two classes.
    capacity : int or two ints, optional
        The largest counts shown. By default somewhat more jobs than cores, at most 50, and within the box
        of a policy that has one.
    title : str, optional
        Printed above the axes.

    Returns
    -------
    matplotlib.figure.Figure
    """
    require_two_classes(system)
    space = StateSpace.of(usual_range(policy, system) if capacity is None else capacity, 2)
    shares = _shares(policy, system, space)
    with new_figure(4.2, 3.5, title) as figure:
        axes = figure.add_subplot()
        across, up = _axis_labels(system)
        axes.set_xlabel(across)
        axes.set_ylabel(up)
        _draw_shares(axes, shares, system.cores)
        _add_colour_bar(figure, system)
        _add_legend(figure)
    return figure


def policy_heatmaps(
    policies: Mapping[str, Policy],
    system: System,
    *,
    capacity: int | Iterable[int] | None = None,
    title: str | None = None,
) -> Figure:
    """Draw several policies side by side: the same states, the same colours, one colour bar.

    Parameters
    ----------
    policies : mapping
        What to draw, by what to write above each panel; bound to `system` unless bound already.
    system : System
        A system of two classes.
    capacity : int or two ints, optional
        The largest counts shown. By default what `policy_heatmap` would show of all of them.
    title : str, optional
        Printed above the panels.

    Returns
    -------
    matplotlib.figure.Figure

    Notes
    -----
    Paper: figures 4, 5, 7 and 8, part (b), the policies at the start and at the end of learning.
    """
    require_two_classes(system)
    if not isinstance(policies, Mapping) or not policies:
        raise InvalidInput(f"expected policies by their names, at least one, got {policies!r}")
    ranges = [usual_range(policy, system) for policy in policies.values()]
    space = StateSpace.of(np.min(ranges, axis=0).tolist() if capacity is None else capacity, 2)
    shares = [_shares(policy, system, space) for policy in policies.values()]
    across, up = (textwrap.fill(text, 30) for text in _axis_labels(system))
    with panel_grid(len(policies), across, up, title) as (figure, panels):
        for axes, name, share in zip(panels, policies, shares, strict=True):
            _draw_shares(axes, share, system.cores)
            axes.set_title(escaped(textwrap.fill(shortened(name, 60), 24)), fontsize=9)
        _fit_page(figure, title is not None)
        _add_colour_bar(figure, system)
        _add_legend(figure)
        layout = figure.get_layout_engine()
        assert layout is not None
        for _ in range(2):  # it needs some rounds to converge where panels have a fixed aspect
            layout.execute(figure)
    return figure


def _shares(policy: Policy | str, system: System, space: StateSpace) -> np.ma.MaskedArray[Any, Any]:
    """Return the fraction of the cores that the first class holds, masked where there are no jobs."""
    share = tabulate(bind(policy, system), space)[0] / system.cores
    return np.ma.masked_array(share, mask=space.counts.sum(axis=0) == 0).reshape(space.shape)


def _axis_labels(system: System) -> tuple[str, str]:
    first, second = (escaped(shortened(name)) for name in system.names)
    return f"jobs of class {first}, $n_1$", f"jobs of class {second}, $n_2$"


def _draw_shares(axes: Axes, shares: np.ma.MaskedArray[Any, Any], cores: float) -> None:
    """Draw one heat map on the scale that all share."""
    from matplotlib import colormaps
    from matplotlib.ticker import MaxNLocator

    right, top = (n - 0.5 for n in shares.shape)
    square = 0.5 <= right / top <= 2.0
    axes.imshow(
        shares.T,
        origin="lower",
        extent=(-0.5, right, -0.5, top),
        cmap=colormaps[COLOUR_MAP].with_extremes(bad="white"),
        vmin=0.0,
        vmax=1.0,
        interpolation="none",
        aspect="equal" if square else "auto",
    )
    _mark_full(axes, cores, right, top)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(integer=True))


def _fit_page(figure: Figure, titled: bool) -> None:
    """Choose a page so low that panels of a fixed aspect fill their rows, and lie close to one another."""
    axes = figure.axes[0]
    grid = axes.get_gridspec()
    assert grid is not None
    height = 2.1 if axes.get_aspect() == "auto" else 2.1 * axes.get_data_ratio()
    lines = max(panel.get_title().count("\n") for panel in figure.axes)
    page = grid.nrows * (height + 0.35 + 0.15 * lines) + (0.8 if titled else 0.6)
    figure.set_size_inches(2.5 * grid.ncols + 1.0, page)


def _add_colour_bar(figure: Figure, system: System) -> None:
    """Say beside all panels what their colours stand for."""
    panels = figure.axes
    bar = figure.colorbar(panels[0].images[0], ax=panels, ticks=[0.0, 0.25, 0.5, 0.75, 1.0], pad=0.02)
    first = escaped(shortened(system.names[0]))
    wide = 40 if figure.get_figheight() > 3.2 else 24  # letters that fit beside the bar
    bar.set_label(textwrap.fill(f"fraction of cores held by class {first}", wide))


def _add_legend(figure: Figure) -> None:
    """Say below all panels what their line stands for, if there is one, and the white state."""
    from matplotlib.patches import Patch

    empty = Patch(facecolor="white", edgecolor="0.6", linewidth=0.6)
    marks = [("no jobs", empty), *((str(line.get_label()), line) for line in figure.axes[0].lines)]
    legend_below(figure, marks, columns=2 if figure.get_figwidth() >= 4.0 else 1)


def usual_range(policy: Policy | str, system: System) -> tuple[int, int]:
    """Return counts that show where there are fewer jobs than cores, and where there are more."""
    most = min(MOST_JOBS, max(_FEWEST_JOBS, math.ceil(1.2 * system.cores)))
    box = policy.capacity if isinstance(policy, Tabular) else (most, most)
    return min(most, box[0]), min(most, box[1])


def _mark_full(axes: Axes, cores: float, right: float, top: float) -> None:
    """Draw the line where there are as many jobs as cores, if it crosses the axes."""
    left_end, right_end = max(-0.5, cores - top), min(right, cores + 0.5)
    if left_end >= right_end:
        return
    from matplotlib.patheffects import withStroke

    axes.plot(
        [left_end, right_end],
        [cores - left_end, cores - right_end],
        color="white",
        linewidth=1.0,
        path_effects=[withStroke(linewidth=2.0, foreground="black")],
        label=f"as many jobs as cores, $n_1 + n_2 = {cores:g}$",
        scalex=False,
        scaley=False,
    )
