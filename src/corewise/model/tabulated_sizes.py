"""Size distributions given by tables: measured sizes, and estimated hazards."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from corewise.errors import InvalidSystem
from corewise.kit import checks
from corewise.kit.arrays import Floats
from corewise.model.sizes import SizeLaw, attained_work

__all__ = ["Empirical", "PiecewiseExponential"]


@dataclass(frozen=True, repr=False)
class Empirical(SizeLaw):
    """Empirical distribution of given sizes, each as likely as any other; they are scaled to mean one.

    In a system file either ``values = [...]``, or ``file = "sizes.csv"`` with ``column = "size"``.

    Examples
    --------
    >>> import corewise as cw
    >>> sizes = cw.sizes.Empirical([1.0, 1.0, 4.0])
    >>> sizes.cv2
    0.5
    >>> sizes.survival([0.4, 1.0, 2.0]).round(3)
    array([1.   , 0.333, 0.   ])
    """

    values: tuple[float, ...]
    law: ClassVar[str] = "empirical"

    def __init__(self, values: Iterable[float]) -> None:
        if isinstance(values, str | bytes) or not isinstance(values, Iterable):
            raise InvalidSystem(f"empirical sizes: values must be numbers, got {checks.shown(values)}")
        try:
            given = np.array(list(values), dtype=np.float64)
        except (TypeError, ValueError):
            raise InvalidSystem(
                f"empirical sizes: values must be numbers, got {checks.shown(values)}"
            ) from None
        if given.ndim != 1 or not given.size:
            raise InvalidSystem("empirical sizes: at least one size is needed, got none")
        wrong = given[~((given > 0.0) & np.isfinite(given))]
        if wrong.size:
            raise InvalidSystem(f"empirical sizes: every size must be positive and finite, got {wrong[0]:g}")
        object.__setattr__(self, "values", tuple((np.sort(given) / given.mean()).tolist()))

    @cached_property
    def _sorted(self) -> Floats:
        return np.array(self.values)

    @cached_property
    def _sums_from(self) -> Floats:
        """The sum of the sizes from each one on, zero at the end."""
        return np.append(np.cumsum(self._sorted[::-1])[::-1], 0.0)

    @property
    def cv2(self) -> float:
        """The squared coefficient of variation."""
        return float(self._sorted.var())

    @property
    def largest(self) -> float:
        """The largest of the values."""
        return float(self._sorted[-1])

    def draw(self, rng: np.random.Generator, count: int) -> Floats:
        """Return independent draws."""
        return self._sorted[rng.integers(self._sorted.size, size=count)]

    def _above(self, x: Floats) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Return the position of the first size above x, and how many there are."""
        first = np.searchsorted(self._sorted, x, side="right")
        return first, np.asarray(self._sorted.size - first)

    def survival(self, x: ArrayLike) -> Floats:
        """Return the share of sizes above x."""
        return np.asarray(self._above(attained_work(x))[1] / self._sorted.size)

    def mean_residual(self, x: ArrayLike) -> Floats:
        """Return the mean of the sizes above x, less x."""
        attained = attained_work(x)
        first, above = self._above(attained)
        mean = self._sums_from[first] / np.maximum(above, 1)
        return np.where(above > 0, np.maximum(mean - attained, 0.0), 0.0)


@dataclass(frozen=True, repr=False)
class PiecewiseExponential(SizeLaw):
    """Piecewise exponential distribution: a constant hazard from each edge to the next, and after the last.

    The estimate of a size distribution by strata of attained work. It is scaled to mean one.

    Parameters
    ----------
    edges : sequence of float
        Where the bins of attained work begin, increasing from zero.
    hazards : sequence of float
        The hazard of each bin; that of the last must be positive.

    Examples
    --------
    >>> import corewise as cw
    >>> sizes = cw.sizes.PiecewiseExponential(edges=[0.0, 1.0], hazards=[2.0, 0.5])
    >>> round(float(sizes.cv2), 3)
    2.887
    >>> sizes.survival([0.5, 1.0, 4.0]).round(3)
    array([0.495, 0.245, 0.055])
    """

    edges: tuple[float, ...]
    hazards: tuple[float, ...]
    law: ClassVar[str] = "piecewise-exponential"

    def __init__(self, edges: Iterable[float], hazards: Iterable[float]) -> None:
        try:
            begin, hazard = (np.array(list(column), dtype=np.float64) for column in (edges, hazards))
        except (TypeError, ValueError):
            raise InvalidSystem(
                f"piecewise-exponential sizes: edges and hazards must be numbers, got {checks.shown(edges)}"
            ) from None
        if begin.ndim != 1 or begin.shape != hazard.shape or not begin.size:
            raise InvalidSystem(
                f"piecewise-exponential sizes: one hazard an edge, got {hazard.size} for {begin.size}"
            )
        if begin[0] != 0.0 or not np.all(np.diff(begin) > 0.0) or not np.isfinite(begin[-1]):
            raise InvalidSystem(
                f"piecewise-exponential sizes: edges must increase from zero, "
                f"got {checks.shown(begin.tolist())}"
            )
        if not np.all((hazard >= 0.0) & np.isfinite(hazard)) or hazard[-1] <= 0.0:
            raise InvalidSystem(
                f"piecewise-exponential sizes: no hazard may be negative and the last must be positive, "
                f"got {checks.shown(hazard.tolist())}"
            )
        mean = float(_tail_integrals(begin, hazard)[0])
        if not math.isclose(mean, 1.0, rel_tol=1e-13):  # what has mean one stays as it is, bit for bit
            begin, hazard = begin / mean, hazard * mean
        object.__setattr__(self, "edges", tuple(begin.tolist()))
        object.__setattr__(self, "hazards", tuple(hazard.tolist()))

    @cached_property
    def _bins(self) -> tuple[Floats, Floats, Floats, Floats]:
        """Edges, hazards, the integrated hazard at each edge, and m there."""
        edges, hazards = np.array(self.edges), np.array(self.hazards)
        passed = np.concatenate([[0.0], np.cumsum(hazards[:-1] * np.diff(edges))])
        return edges, hazards, passed, _tail_integrals(edges, hazards)

    @property
    def cv2(self) -> float:
        """The squared coefficient of variation: E[X²] is twice the integral of P(X > x) m(x)."""
        edges, hazards, passed, residual = self._bins
        second = 0.0
        bins = zip(
            passed, np.append(np.diff(edges), np.inf), hazards, np.append(residual[1:], 0.0), strict=True
        )
        for begin, width, hazard, beyond in bins:
            if hazard * width < 1e-12:
                inside = width * (beyond + 0.5 * width)
            elif math.isinf(width):
                inside = 1.0 / hazard**2
            else:
                left = math.exp(-hazard * width)
                inside = (1.0 - left) / hazard**2 + width * left * (beyond - 1.0 / hazard)
            second += 2.0 * math.exp(-begin) * inside
        return second - 1.0

    def _bin_of(self, x: Floats) -> Floats:
        return np.maximum(np.searchsorted(self._bins[0], x, side="right") - 1, 0)

    def draw(self, rng: np.random.Generator, count: int) -> Floats:
        """Return independent draws: where the integrated hazard reaches an exponential variable."""
        return self.draw_residual(rng, np.zeros(count))

    def draw_residual(self, rng: np.random.Generator, attained: Floats) -> Floats:
        """Return draws of X − a given X > a, one for each attained work a."""
        edges, hazards, passed, _ = self._bins
        b = self._bin_of(attained)
        reached = passed[b] + hazards[b] * (attained - edges[b]) + rng.standard_exponential(attained.size)
        last = np.searchsorted(passed, reached, side="right") - 1
        return np.asarray(edges[last] + (reached - passed[last]) / hazards[last] - attained)

    def survival(self, x: ArrayLike) -> Floats:
        """Return e to minus the integrated hazard."""
        edges, hazards, passed, _ = self._bins
        attained = attained_work(x)
        b = self._bin_of(attained)
        return np.asarray(np.exp(-passed[b] - hazards[b] * (attained - edges[b])))

    def mean_residual(self, x: ArrayLike) -> Floats:
        """Return the integral of the survival function beyond x, divided by it."""
        edges, hazards, _, residual = self._bins
        attained = attained_work(x)
        b = self._bin_of(attained)
        until = np.append(edges[1:], np.inf)[b] - attained
        return _residual_before(until, hazards[b], np.append(residual[1:], 0.0)[b])


def _tail_integrals(edges: Floats, hazards: Floats) -> Floats:
    """Return the mean residual at each edge of a piecewise exponential distribution, the last one first."""
    residual = np.empty(edges.size)
    residual[-1] = 1.0 / hazards[-1]
    for b in range(edges.size - 2, -1, -1):
        width = np.array(edges[b + 1] - edges[b])
        residual[b] = _residual_before(width, hazards[b : b + 1], residual[b + 1 : b + 2])[0]
    return residual


def _residual_before(until: Floats, hazard: Floats, beyond: Floats) -> Floats:
    """Return the mean residual at a distance before an edge, given the hazard until then and m there."""
    product = hazard * until
    with np.errstate(divide="ignore", invalid="ignore"):
        spent = np.where(product > 1e-12, -np.expm1(-product) / hazard, until)
        return np.asarray(np.where(np.isinf(until), 1.0 / hazard, spent + np.exp(-product) * beyond))
