"""What figures of learning share: lines of classes and of studies, gaps, limits, legends."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from corewise.errors import InvalidInput
from corewise.kit import checks
from corewise.kit.arrays import Bools, Floats
from corewise.model.speedup import SpeedUp
from corewise.model.system import System
from corewise.plots.style import class_colour, escaped, legend_below, shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "DASHES",
    "Gaps",
    "Marks",
    "add_legend",
    "band_look",
    "class_line",
    "class_marks",
    "dots",
    "draw_band",
    "draw_estimates",
    "draw_gaps",
    "draw_truth",
    "inner_band",
    "limits",
    "patch",
    "stroke",
    "thinned",
    "true_steps",
    "truth_mark",
]

Marks = list[tuple[str, Any]]
"""What to explain in a legend: texts, and the marks they stand for; two texts may be the same."""

DASHES: tuple[Any, ...] = ("-", (0, (4, 1.5)), (0, (1, 1)), (0, (6, 1.5, 1, 1.5)), (0, (8, 2)), (0, (2, 3)))
"""Of as many studies as a panel can show."""

_HATCHES = ("", "/////", r"\\\\\\", ".....", "|||||", "-----")  # of the bands of as many studies
_BASELINE_DASHES: tuple[Any, ...] = ("--", "-.", ":")
_STUDY_COLOURS = tuple(class_colour(i) for i in (2, 3, 4, 5, 6, 0))  # the paper's classes have 0 and 1
_COLOURS = 7  # before those of classes repeat
_FEW = 40  # points that are seen one by one
_MANY = 80  # points that a line on a log scale shows without running together
_LEAST_GAP = 1e-8  # percent; what is less comes from rounding and from a finite box of states
_UNBOUNDED = 1e300  # stands for infinity where differences are taken
_ROUNDING: dict[str, Any] = {"facecolor": "none", "edgecolor": "0.6", "hatch": "//////", "linewidth": 0.0}
_LOST: dict[str, Any] = {"linestyle": "none", "marker": "^", "markersize": 5.0}
_DOT: dict[str, Any] = {"marker": "o", "markersize": 3.0}
_HOLLOW: dict[str, Any] = {**_DOT, "linestyle": "none", "markerfacecolor": "white", "markeredgewidth": 0.7}


class Gaps(NamedTuple):
    """Gaps to the optimum J/J* − 1, of shape (runs, epochs), after so many departures."""

    departures: Floats
    values: Floats


def class_line(i: int) -> dict[str, Any]:
    """Return how the line of the class at position i looks; dashes begin where colours repeat."""
    return {"color": class_colour(i), "linestyle": DASHES[i // _COLOURS % len(DASHES)]}


def dots(points: int) -> dict[str, Any]:
    """Return the marker of the points of a line, if they are few."""
    return dict(_DOT) if points <= _FEW else {}


def thinned(at: Floats) -> NDArray[np.intp]:
    """Return which of increasing points to draw on a log scale: the first, the last, and evenly between."""
    if at.size <= _MANY:
        return np.arange(at.size)
    return np.unique(np.searchsorted(at, np.geomspace(at[0], at[-1], _MANY)).clip(max=at.size - 1))


def stroke(**look: Any) -> Any:
    """Return a line for a legend."""
    from matplotlib.lines import Line2D

    return Line2D([], [], **look)


def patch(**look: Any) -> Any:
    """Return a band for a legend; grey, where those of a figure have colours."""
    from matplotlib.patches import Patch

    return Patch(**(look or band_look("0.35")))


def add_legend(figure: Figure, marks: Marks) -> None:
    """Say below the panels what the marks stand for, in two columns if they fit, on a page that grows."""
    texts = [text for text, _ in marks]
    half = math.ceil(len(texts) / 2)
    letters = sum(max(map(len, part), default=0) for part in (texts[:half], texts[half:]))
    columns = 2 if 0.065 * letters + 1.1 <= figure.get_figwidth() else 1
    rows = half if columns == 2 else len(texts)
    figure.set_figheight(figure.get_figheight() + 0.165 * max(0, rows - 2))
    legend_below(figure, marks, columns)


def class_marks(classes: Iterable[tuple[int, str]]) -> Marks:
    """Return what the colours of classes stand for, given their positions and names."""
    return [
        (f"estimate, class {escaped(shortened(name))}", stroke(linewidth=1.2, **class_line(i)))
        for i, name in classes
    ]


def band_look(colour: str, which: int = 0, bands: int = 1) -> dict[str, Any]:
    """Return how a band looks: plain, fainter if many share a panel, and hatched for later studies."""
    if not which:
        return {"color": colour, "alpha": min(0.2, 0.8 / bands), "linewidth": 0.0}
    return {
        "facecolor": "none",
        "edgecolor": _mixed(colour, 1.0, 0.5),
        "hatch": _HATCHES[which],
        "linewidth": 0.0,
    }


def draw_band(axes: Axes, at: Floats, edges: tuple[Floats, Floats], look: Mapping[str, Any]) -> None:
    """Draw a band, and upright lines where it is a single point wide."""
    known = ~np.isnan(edges[0] + edges[1])
    alone = _alone(known)
    wide = known & ~alone
    if wide.any():
        axes.fill_between(at, *edges, where=wide.tolist(), zorder=1, **look)
    if alone.any():
        colour, (low, high) = look.get("color", look.get("edgecolor")), edges
        axes.vlines(at[alone], low[alone], high[alone], color=colour, linewidth=0.8, zorder=1)


def draw_estimates(axes: Axes, i: int, at: Floats, values: Floats, kept: Bools) -> Marks:
    """Draw estimates of the class at position i, hollow where an earlier one was kept; return the legend."""
    found = np.where(kept, np.nan, values)
    single = np.flatnonzero(_alone(~np.isnan(found)))  # no line would show them
    marker = dots(at.size) or {**_DOT, "markevery": single.tolist()}
    axes.plot(at, found, linewidth=1.0, zorder=3, **class_line(i), **marker)
    if not kept.any():
        return []
    axes.plot(at[kept], values[kept], zorder=3, color=class_colour(i), **_HOLLOW)
    return [("no information: the last estimate stays", stroke(color="0.35", **_HOLLOW))]


def _alone(known: Bools) -> Bools:
    """Return which known points have no known neighbour."""
    beside = np.pad(known, 1)
    return known & ~beside[:-2] & ~beside[2:]


def inner_band(low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Return the edges of a band without its widest tenth, which may span the whole range early on."""
    known = np.flatnonzero(~np.isnan(low + high))
    order = known[np.argsort(high[known] - low[known], kind="stable")]
    inner = order[: order.size - order.size // 10]
    return low[inner], high[inner]


def _true_look(i: int) -> dict[str, Any]:
    """Return how the truth about the class at position i looks: dotted, darker than its estimates."""
    gap = 1 + i // _COLOURS % len(DASHES)
    return {"color": _mixed(class_colour(i), 0.0, 0.4), "linestyle": (0, (1, gap)), "linewidth": 1.3}


def _mixed(colour: str, grey: float, share: float) -> tuple[float, ...]:
    """Return a colour with that share of a grey in it, 0 being black and 1 white."""
    from matplotlib.colors import to_rgb

    return tuple((1.0 - share) * part + share * grey for part in to_rgb(colour))


def draw_truth(axes: Axes, i: int, at: Floats, values: Floats, steps: str) -> None:
    """Draw true values of the class at position i, which all figures show alike."""
    single: dict[str, Any] = {"marker": "_", "markersize": 12.0} if at.size == 1 else {}
    axes.plot(at, values, drawstyle=steps, zorder=4, **_true_look(i), **single)


def truth_mark() -> tuple[str, Any]:
    """Return what the dotted lines of all classes stand for."""
    return "true value, dotted in the class colour", stroke(**{**_true_look(0), "color": "0.25"})


def true_steps(
    system: System, name: str, end: float, value_of: Callable[[SpeedUp], float]
) -> tuple[Floats, Floats]:
    """Return when the curve of a class changes, and what is true of it from then on; the end comes last."""
    own = [change for change in system.changes if change.name == name and change.time <= end]
    values = [value_of(curve) for curve in (system[name].speedup, *(change.speedup for change in own))]
    return np.array([0.0, *(change.time for change in own), end]), np.array([*values, values[-1]])


def limits(values: Iterable[ArrayLike]) -> tuple[float, float]:
    """Return ends of an axis with all finite values inside."""
    everything = np.concatenate([np.ravel(np.asarray(part, dtype=np.float64)) for part in values])
    finite = everything[np.isfinite(everything)]
    if not finite.size:
        return 0.0, 1.0
    low, high = float(finite.min()), float(finite.max())
    margin = 0.04 * (high - low) or 0.04 * max(abs(high), 1.0)
    return low - margin, high + margin


def draw_gaps(
    axes: Axes,
    series: Mapping[str, Gaps],
    baseline: Mapping[str, float] | None = None,
    colours: Sequence[str] = _STUDY_COLOURS,
) -> Marks:
    """Draw median gaps in percent, what 80 % of the runs lie between, and other policies; return the legend.

    What is infinite lies at the upper edge, and what is rounding on top of a hatched strip.
    """
    if baseline is not None and not isinstance(baseline, Mapping):
        raise InvalidInput(f"expected the gaps of other policies by their names, got {baseline!r}")
    others = {name: 100.0 * checks.finite(gap, f"gap of {name!r}") for name, gap in (baseline or {}).items()}
    if len(others) > len(_BASELINE_DASHES):
        raise InvalidInput(f"a figure shows at most {len(_BASELINE_DASHES)} baselines, got {len(others)}")
    ranges = {name: _quantiles(name, gaps) for name, gaps in series.items()}
    seen = np.concatenate([*(found.ravel() for _, found in ranges.values()), [*others.values()]])
    finite = np.maximum(seen[np.isfinite(seen)], _LEAST_GAP)
    bottom, top = (0.5 * finite.min(), 2.0 * finite.max()) if finite.size else (1.0, 100.0)
    marks: Marks = []
    for i, (name, (at, found)) in enumerate(ranges.items()):
        look = {"color": colours[i], "linestyle": DASHES[i]}
        low, middle, high = np.minimum(found, top)
        if series[name].values.shape[0] > 1:
            draw_band(axes, at, (low, high), band_look(colours[i]))
        axes.plot(at, middle, linewidth=1.2, **look, **dots(at.size))
        marks.append((escaped(shortened(name, 40)), stroke(linewidth=1.2, **look)))
        lost = np.isinf(found[1])
        if lost.any():
            axes.plot(at[lost], middle[lost], clip_on=False, zorder=5, color=look["color"], **_LOST)
    if any(gaps.values.shape[0] > 1 for gaps in series.values()):
        middle = stroke(color="0.35", linewidth=1.2)
        marks.append(("median over runs; band: 10 % to 90 %", (patch(), middle)))
    for (name, value), dashes in zip(others.items(), _BASELINE_DASHES, strict=False):
        look = {"color": "0.3", "linestyle": dashes, "linewidth": 1.0}
        axes.axhline(max(value, _LEAST_GAP), zorder=1, **look)
        marks.append((f"{escaped(shortened(name, 40))}: {value:.3g} %", stroke(**look)))
    if any(np.isinf(found[1]).any() for _, found in ranges.values()):
        marks.append(("policy that cannot keep up", stroke(color="0.35", **_LOST)))
    if bottom < _LEAST_GAP:
        axes.axhspan(bottom, _LEAST_GAP, **_ROUNDING)
        marks.append(("rounding, below $10^{-8}$ %", patch(**_ROUNDING)))
    axes.set_yscale("log")
    axes.set_ylim(bottom, top)
    return marks


def _quantiles(name: str, gaps: Gaps) -> tuple[Floats, Floats]:
    """Return the departures at which gaps are known, and their 10 %, 50 % and 90 % points in percent."""
    known = np.flatnonzero(~np.isnan(gaps.values).all(axis=0))
    if not known.size:
        raise InvalidInput(f"no gap of {name!r} is known")
    values = gaps.values[:, known]
    if np.nanmin(values) < -1e-6:
        raise InvalidInput(f"a gap of {name!r} is {np.nanmin(values):g}; nothing is better than the optimum")
    percent = 100.0 * np.clip(values, _LEAST_GAP / 100.0, _UNBOUNDED)
    found = np.nanquantile(percent, (0.1, 0.5, 0.9), axis=0)
    found[found > 1e-9 * _UNBOUNDED] = math.inf
    return gaps.departures[known], found
