"""How every figure looks, and how it is written to a file."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from corewise.errors import CorewiseError, InvalidFile, nearest
from corewise.model.files import write_bytes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "COLOUR_MAP",
    "FORMATS",
    "plain",
    "require_format",
    "require_matplotlib",
    "save_figure",
    "shortened",
    "styled",
]

COLOUR_MAP = "viridis"
"""Perceptually uniform, and the same to readers who do not tell red from green."""

FORMATS = ("png", "pdf", "svg")

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


def plain(text: str) -> str:
    """Return text that matplotlib shows as it is, dollar signs included."""
    return text.replace("$", r"\$")


def shortened(name: str, most: int = 24) -> str:
    """Return a name that fits beside an axis."""
    return name if len(name) <= most else f"{name[: most - 1].rstrip()}…"


def require_format(path: str | Path) -> str:
    """Return the format that the ending of `path` names."""
    ending = Path(path).suffix.lower().removeprefix(".")
    if ending not in FORMATS:
        raise InvalidFile(
            f"{path}: a figure must end in .{', .'.join(FORMATS)}{nearest(ending, list(FORMATS))}"
        )
    return ending


def save_figure(figure: Figure, path: str | Path) -> None:
    """Write a figure whole or not at all, in the format that the ending of `path` names."""
    content = io.BytesIO()
    with styled():
        figure.savefig(content, format=require_format(path))
    write_bytes(path, content.getvalue())
