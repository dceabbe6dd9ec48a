"""What tests read off a figure."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.backend_bases import GraphicsContextBase, RendererBase
from matplotlib.colors import to_rgb

from corewise.kit.arrays import Floats
from corewise.plots.style import class_colour, save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D


TRUTH = "true value, dotted in the class colour"


def line(axes: Axes, which: int = 0) -> tuple[Floats, Floats]:
    x, y = axes.lines[which].get_data()
    return np.asarray(x, dtype=float), np.asarray(y, dtype=float)


def bands(axes: Axes) -> list[tuple[Floats, Floats, Floats]]:
    """Return abscissae, lower and upper edge of every band of a panel."""
    found = []
    for polygon in axes.collections:
        if type(polygon).__name__ == "FillBetweenPolyCollection" and polygon.get_paths():
            x, y = np.asarray(polygon.get_paths()[0].vertices).T
            at = np.unique(x)
            edges = np.array([(y[x == one].min(), y[x == one].max()) for one in at])
            found.append((at, edges[:, 0], edges[:, 1]))
    return found


def assert_truth_of(i: int, axes: Axes, which: int) -> None:
    """Check that a line is dotted, and of the colour of class i but darker."""
    shown, own = (np.array(to_rgb(colour)) for colour in (axes.lines[which].get_color(), class_colour(i)))
    np.testing.assert_allclose(np.cross(shown, own), 0.0, atol=1e-12)
    assert 0.3 * own.sum() < shown.sum() < 0.8 * own.sum()
    assert axes.lines[which].get_linestyle() not in ("-", "None")
    assert axes.lines[which].get_zorder() > axes.lines[which - 1].get_zorder()


class _Looks(RendererBase):
    """A renderer that keeps the colours and dashes of the lines that it is told to draw."""

    def __init__(self) -> None:
        super().__init__()
        self.looks: list[str] = []

    def draw_path(self, gc: GraphicsContextBase, *_: object) -> None:
        self.looks.append(repr((gc.get_rgb(), gc.get_dashes())))


def drawn_look(drawn: Line2D) -> str:
    """Return the colour and the dashes that a line is drawn with."""
    renderer = _Looks()
    drawn.draw(renderer)
    return renderer.looks[0]


def legend(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


def assert_fits_page(figure: Figure) -> None:
    """Check that nothing leaves the page, or meets another panel, the legend or the title.

    Everything is placed as drawing would, but not drawn; after that it stays where it is.
    """
    layout = figure.get_layout_engine()
    assert layout is not None
    layout.execute(figure)
    figure.set_layout_engine("none")
    page = figure.bbox.padded(1.0)
    boxes = [axes.get_tightbbox() for axes in figure.axes]
    boxes += [one.get_window_extent() for one in figure.legends]
    boxes += [text.get_window_extent() for text in figure.texts]
    for i, box in enumerate(boxes):
        assert box is not None
        assert page.containsx(box.x0)
        assert page.containsx(box.x1)
        assert page.containsy(box.y0)
        assert page.containsy(box.y1)
        assert not box.padded(-1.0).count_overlaps([other for other in boxes[i + 1 :] if other is not None])
    for axes in figure.axes:
        assert min(axes.bbox.width, axes.bbox.height) > 0.05 * figure.dpi


def assert_written(figure: Figure, file: Path) -> None:
    """Check that a figure can be written to such a file."""
    save_figure(figure, file)
    start = {".png": b"\x89PNG\r\n\x1a\n", ".pdf": b"%PDF", ".svg": b"<?xml"}[file.suffix]
    assert file.read_bytes().startswith(start)
    assert file.stat().st_size > 1000
