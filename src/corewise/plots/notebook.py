"""The figure that a notebook shows."""

from __future__ import annotations

import io

from matplotlib.figure import Figure

__all__ = ["NotebookFigure"]

_SCREEN = 110.0  # dots per inch; a file for print has more


class NotebookFigure(Figure):
    """A matplotlib figure that a notebook shows as an image, though pyplot does not know it."""

    def _repr_png_(self) -> bytes:
        content = io.BytesIO()
        self.savefig(content, format="png", dpi=_SCREEN, bbox_inches="tight")
        return content.getvalue()
