"""How every figure looks, and how it is written to a file."""

from __future__ import annotations

import io
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from corewise.errors import CorewiseError, InvalidFile, InvalidInput, nearest, printable
from corewise.kit.files import write_bytes
from corewise.model.speedup import FAMILIES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "COLOUR_MAP",
    "FORMATS",
    "add_panels",
    "class_colour",
    "curve_shown",
    "escaped",
    "figure_bytes",
    "legend_below",
    "new_figure",
    "panel_grid",
    "require_few_classes",
    "require_format",
    "require_matplotlib",
    "save_figure",
    "shortened",
    "styled",
    "write_title",
]

COLOUR_MAP = "viridis"
"""Perceptually uniform, and the same to red-green colour-blind readers."""

FORMATS = ("png", "pdf", "svg")

# Okabe and Ito's colours, distinct for red-green colour-blind readers
# (https://jfly.uni-koeln.de/color); the paper's blue and red come first.
_CLASS_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_MOST_CLASSES = 24  # with a panel each, a page can hold no more
_TITLE = 0.3  # inches of a page for a title
_SYMBOLS = {"p": "p", "sigma": r"\sigma", "kappa": r"\kappa"}

_STYLE: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.labelsize": 9,
    "figure.titlesize": 10,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "legend.fontsize": 8,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.direction": "out",
    "ytick.direction": "out",
    "figure.dpi": 300,
    "savefig.dpi": 300,
    "savefig.bbox": "tight",
    "savefig.pad_inches": 0.03,
    "pdf.fonttype": 42,  # text stays text in the files that journals take
    "svg.fonttype": "none",
}


def require_matplotlib() -> None:
    """Raise an error that says what to install if matplotlib is missing."""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError:
        raise CorewiseError("figures need matplotlib: install corewise[plot]") from None


@contextmanager
def styled() -> Iterator[None]:
    """Draw in the house style within the body, leaving matplotlib's own settings as they were."""
    require_matplotlib()
    from matplotlib import rc_context

    with rc_context(_STYLE):
        yield


def escaped(text: str) -> str:
    """Return text that matplotlib shows as it is, dollar signs included; control characters spelt out."""
    return printable(text).replace("$", r"\$")


def shortened(name: str, most: int = 24) -> str:
    """Return a name that fits beside an axis."""
    return name if len(name) <= most else f"{name[: most - 1].rstrip()}…"


def class_colour(i: int) -> str:
    """Return the colour of the class at position i, the same in every figure."""
    return _CLASS_COLOURS[i % len(_CLASS_COLOURS)]


def require_few_classes(names: Sequence[str]) -> None:
    """Raise `InvalidInput` if there are more classes than panels fit on a page."""
    if len(names) > _MOST_CLASSES:
        raise InvalidInput(f"a figure shows at most {_MOST_CLASSES} classes, got {len(names)}")


@contextmanager
def new_figure(width: float, height: float, title: str | None = None) -> Iterator[Figure]:
    """Draw on a new figure in the house style: its size in inches, and room for a title if there is one."""
    with styled():
        from corewise.plots.notebook import NotebookFigure

        room = 0.0 if title is None else _TITLE
        size = (width, round(height + room, 6))  # 3.4 + 0.3 is 3.7, as pixels are whole
        figure = NotebookFigure(figsize=size, layout="constrained")
        write_title(figure, title)
        yield figure


def write_title(figure: Figure, title: str | None) -> None:
    """Write a title above the panels, if there is one."""
    if title is not None:
        figure.suptitle(escaped(title))


@contextmanager
def panel_grid(
    count: int, across: str, up: str, title: str | None = None
) -> Iterator[tuple[Figure, list[Axes]]]:
    """Draw on a new figure with panels of one scale, row by row, whose axes say what they show."""
    columns = {1: 1, 2: 2, 4: 2}.get(count, 3)
    rows = math.ceil(count / columns)
    with new_figure(max(2.6 * columns, 4.0), 2.5 * rows + 0.9) as figure:
        write_title(figure, title)  # the panels make room
        yield figure, add_panels(figure, count, columns, across, up, sharey=True)


def add_panels(figure: Figure, count: int, columns: int, across: str, up: str, *, sharey: bool) -> list[Axes]:
    """Return new panels, row by row, over one range of x; those at the edges say what the axes show."""
    grid = figure.subplots(math.ceil(count / columns), columns, sharex=True, sharey=sharey, squeeze=False)
    for axes in grid[:, 0]:
        axes.set_ylabel(up)
    panels: list[Axes] = grid.ravel().tolist()
    for spare in panels[count:]:
        spare.remove()
    for axes in panels[max(0, count - columns) : count]:  # the last row, and those above a spare one
        axes.tick_params(labelbottom=True)
        axes.set_xlabel(across)
    return panels[:count]


def legend_below(figure: Figure, marks: Iterable[tuple[str, Any]], columns: int = 1, **look: Any) -> None:
    """Say below the panels what the marks stand for; two texts may be the same."""
    texts, handles = zip(*marks, strict=True)
    figure.legend(handles, texts, loc="outside lower center", ncols=columns, frameon=False, **look)


def curve_shown(family: str, parameters: Mapping[str, float]) -> str:
    """Return what to call a curve: its family and its parameters."""
    values = [
        f"${_SYMBOLS[name]}$ = {value:.3g}" if name in _SYMBOLS else f"{escaped(name)} = {value:.3g}"
        for name, value in parameters.items()
    ]
    label = FAMILIES[family].label if family in FAMILIES else ""
    return ", ".join([escaped(label or family), *values])


def require_format(path: str | Path) -> str:
    """Return the format that the ending of `path` names."""
    ending = Path(path).suffix.lower().removeprefix(".")
    if ending not in FORMATS:
        raise InvalidFile(
            f"{path}: a figure must end in .{', .'.join(FORMATS)}{nearest(ending, list(FORMATS))}"
        )
    return ending


def figure_bytes(figure: Figure, kind: str = "png") -> bytes:
    """Return a figure as the content of a file of that format."""
    content = io.BytesIO()
    with styled():
        figure.savefig(content, format=kind)
    return content.getvalue()


def save_figure(figure: Figure, path: str | Path) -> None:
    """Write a figure whole or not at all, in the format that the ending of `path` names."""
    write_bytes(path, figure_bytes(figure, require_format(path)))
