"""Small figures as SVG text: axes with units, lines, bands and whiskers, in colours that the page sets.

A page has to be read on a telephone and in the dark, without a script and without another file: so figures
are text that scales, and every colour is a variable of the page's own style.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape

from corewise.errors import printable
from corewise.kit.numbers import rounded

__all__ = ["Chart", "ticks"]

_WIDTH, _HEIGHT = 420.0, 260.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 56.0, 12.0, 12.0, 44.0


@dataclass
class Chart:
    """Chart with two axes, to which marks are added; `str` gives the SVG.

    Attributes
    ----------
    x, y : tuple of float
        The ends of the axes.
    labels : tuple of str
        What they show, with units.
    alt : str
        What the figure shows, for who cannot see it.
    left : float
        Room for what stands at the left.
    """

    x: tuple[float, float]
    y: tuple[float, float]
    labels: tuple[str, str]
    alt: str
    left: float = _LEFT
    height: float = _HEIGHT
    _marks: list[str] = field(default_factory=list)

    def at(self, x: float, y: float) -> tuple[float, float]:
        """Return where a point is on the figure."""
        (a, b), (c, d) = self.x, self.y
        across = (x - a) / (b - a) if b > a else 0.5
        up = (y - c) / (d - c) if d > c else 0.5
        wide, high = _WIDTH - self.left - _RIGHT, self.height - _TOP - _BOTTOM
        return self.left + wide * across, _TOP + high * (1.0 - up)

    def line(self, xs: Sequence[float], ys: Sequence[float], style: str) -> None:
        """Draw a line through points."""
        self._marks.append(f'<polyline points="{self._points(zip(xs, ys, strict=True))}" class="{style}"/>')

    def band(self, xs: Sequence[float], low: Sequence[float], high: Sequence[float], style: str) -> None:
        """Fill between two lines."""
        there, back = list(zip(xs, high, strict=True)), list(zip(xs, low, strict=True))[::-1]
        self._marks.append(f'<polygon points="{self._points([*there, *back])}" class="{style}"/>')

    def whisker(self, low: float, value: float, high: float, y: float, style: str) -> None:
        """Draw a value with its interval, along x."""
        (a, b), (c, _), (d, _) = self.at(low, y), self.at(value, y), self.at(high, y)
        self._marks.append(f'<line x1="{a:.1f}" x2="{d:.1f}" y1="{b:.1f}" y2="{b:.1f}" class="{style}"/>')
        self._marks.append(f'<circle cx="{c:.1f}" cy="{b:.1f}" r="5" class="{style} dot"/>')

    def text(self, x: float, y: float, text: str, anchor: str = "start", style: str = "") -> None:
        """Write a text just above a point."""
        a, b = self.at(x, y)
        b -= 5.0
        self._marks.append(
            f'<text x="{a:.1f}" y="{b:.1f}" text-anchor="{anchor}" class="{style}">'
            f"{escape(printable(text))}</text>"
        )

    def y_ticks(self, rows: Iterable[tuple[float, str]] | None = None) -> None:
        """Write numbers, or names, along y."""
        for value, text in rows if rows is not None else [(v, rounded(v)) for v in ticks(*self.y)]:
            (a, b), (c, _) = self.at(self.x[0], value), self.at(self.x[1], value)
            self._marks.append(f'<line x1="{a:.1f}" x2="{c:.1f}" y1="{b:.1f}" y2="{b:.1f}" class="grid"/>')
            self._marks.append(
                f'<text x="{a - 6:.1f}" y="{b + 4:.1f}" text-anchor="end">{escape(printable(text))}</text>'
            )

    def x_ticks(self) -> None:
        """Write numbers along x."""
        for value in ticks(*self.x):
            a, b = self.at(value, self.y[0])
            self._marks.append(
                f'<text x="{a:.1f}" y="{b + 16:.1f}" text-anchor="middle">{rounded(value)}</text>'
            )

    def _points(self, pairs: Iterable[tuple[float, float]]) -> str:
        placed = (self.at(x, y) for x, y in pairs)
        return " ".join(f"{a:.1f},{b:.1f}" for a, b in placed)

    def __str__(self) -> str:
        """Return the figure."""
        low, left = self.height - 8.0, self.left
        across, up = (escape(printable(label)) for label in self.labels)
        middle = 'text-anchor="middle" class="axis"'
        axes = f'<text x="{(left + _WIDTH - _RIGHT) / 2:.1f}" y="{low:.1f}" {middle}>{across}</text>'
        if up:
            height = (_TOP + self.height - _BOTTOM) / 2
            axes += f'<text transform="translate(13 {height:.1f}) rotate(-90)" {middle}>{up}</text>'
        return (
            f'<svg viewBox="0 0 {_WIDTH:g} {self.height:g}" role="img" '
            f'aria-label="{escape(printable(self.alt))}">'
            f"{axes}{''.join(self._marks)}</svg>"
        )


def ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Return round numbers between two, some five of them."""
    if not (math.isfinite(low) and math.isfinite(high)) or high <= low:
        return [low]
    step = 10.0 ** math.floor(math.log10((high - low) / most))
    step = next(step * k for k in (1, 2, 5, 10, 20) if (high - low) / (step * k) <= most)
    first = math.ceil(low / step - 1e-9)
    return [k * step for k in range(first, math.floor(high / step + 1e-9) + 1)]
