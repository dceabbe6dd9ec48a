"""A two-class policy as a heat map."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from corewise.errors import InvalidInput
from corewise.model.space import StateSpace
from corewise.model.system import System
from corewise.plots.style import COLOUR_MAP, plain, shortened, styled
from corewise.policies.base import Policy, bind, tabulate
from corewise.policies.tabular import Tabular

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["MOST_JOBS", "policy_heatmap", "require_two_classes", "usual_range"]

MOST_JOBS = 50  # beyond it single states can no longer be told apart in print
_FEWEST_JOBS = 10


def require_two_classes(system: System) -> None:
    """Raise `InvalidInput` unless the system has the two classes that the axes need."""
    if not isinstance(system, System):
        raise InvalidInput(f"expected a System, got {system!r}")
    if len(system.classes) != 2:
        names = ", ".join(system.names)
        raise InvalidInput(f"a heat map needs two classes, the system has {len(system.classes)}: {names}")


def policy_heatmap(
    policy: Policy,
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
        Printed above the axes; none by default, as a caption says more.

    Returns
    -------
    matplotlib.figure.Figure
        Free of pyplot; ``figure.savefig(path)`` writes it.
    """
    require_two_classes(system)
    bound = bind(policy, system)
    space = StateSpace.of(usual_range(policy, system) if capacity is None else capacity, 2)
    share = (tabulate(bound, space)[0] / system.cores).reshape(space.shape)
    shown = np.ma.masked_array(share, mask=space.counts.sum(axis=0).reshape(space.shape) == 0)
    with styled():
        from matplotlib import colormaps
        from matplotlib.figure import Figure
        from matplotlib.ticker import MaxNLocator

        figure = Figure(figsize=(4.2, 3.5 if title is None else 3.8), layout="constrained")
        axes = figure.add_subplot()
        right, top = (n + 0.5 for n in space.capacity)
        square = 0.5 <= right / top <= 2.0
        image = axes.imshow(
            shown.T,
            origin="lower",
            extent=(-0.5, right, -0.5, top),
            cmap=colormaps[COLOUR_MAP].with_extremes(bad="white"),
            vmin=0.0,
            vmax=1.0,
            interpolation="none",
            aspect="equal" if square else "auto",
        )
        _mark_full(axes, system.cores, right, top)
        first, second = (plain(shortened(name)) for name in system.names)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(MaxNLocator(integer=True))
        axes.set_xlabel(f"jobs of class {first}, $n_1$")
        axes.set_ylabel(f"jobs of class {second}, $n_2$")
        bar = figure.colorbar(image, ax=axes, ticks=[0.0, 0.25, 0.5, 0.75, 1.0], pad=0.02)
        bar.set_label(textwrap.fill(f"fraction of cores held by class {first}", 40))
        if title is not None:
            figure.suptitle(plain(title))
    return figure


def usual_range(policy: Policy, system: System) -> tuple[int, int]:
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
    axes.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), borderaxespad=0.2, frameon=False)
