r"""Least squares on the logarithm of measured throughputs, global in each family of curves.

The sum of squares to make least is Σ_k (log y_k − log a − log s(z_k; θ))². For given θ the best log a is the
mean of log y_k − log s(z_k; θ), which leaves a search over θ alone. Measurements at the same width enter by
their number and mean: their scatter about it is the same for every curve.

One parameter: the derivative of the sum of squares is taken on a grid that is fine where curves are told
apart (within 1/z of both ends), every change of its sign from − to + is refined to rounding, and the ends are
added. The Universal Scalability Law: its edges κ = 0 (which is Amdahl's law) and σ = 0 in the same way, and
its inside by Gauss-Newton steps from every local minimum of the sum of squares as a function of κ, on a grid,
with the best σ for each. It is flat from σ + κ = 1 on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Self, TypeVar

import numpy as np

from corewise.errors import InvalidInput, NotConverged
from corewise.model import checks
from corewise.model.speedup import Amdahl, Array, SpeedUp, Usl

__all__ = ["Measurements", "best_of_family", "check_measurement"]

# Beyond these no machine and no unit is meant, and squares of them would leave the range of floats.
_CORES = (1e-12, 1e12)
_THROUGHPUT = (1e-100, 1e100)

Curve = TypeVar("Curve", bound=SpeedUp)


def check_measurement(cores: object, throughput: object) -> tuple[float, float]:
    """Return one measurement as two floats if both are positive and within reason."""
    z = checks.positive(cores, "cores")
    y = checks.positive(throughput, "throughput")
    return checks.within(z, *_CORES, "cores"), checks.within(y, *_THROUGHPUT, "throughput")


@dataclass(frozen=True)
class Measurements:
    """Measurements grouped by width: all that least squares needs to know."""

    cores: Array  # the different widths, increasing
    level: Array  # mean log throughput at each
    weight: Array  # number of measurements at each
    scatter: float  # sum of squares about those means
    measured_cores: Array
    measured_throughput: Array

    @classmethod
    def of(cls, cores: Iterable[float], throughput: Iterable[float]) -> Self:
        """Return the measurements grouped, or raise `InvalidInput` if they tell nothing of a curve."""
        try:
            lists = list(cores), list(throughput)
        except TypeError:
            raise InvalidInput(
                f"cores and throughput must be sequences, got {cores!r}, {throughput!r}"
            ) from None
        if len(lists[0]) != len(lists[1]):
            raise InvalidInput(f"{len(lists[0])} numbers of cores but {len(lists[1])} throughputs")
        pairs = []
        for i, pair in enumerate(zip(*lists, strict=True), start=1):
            try:
                pairs.append(check_measurement(*pair))
            except InvalidInput as error:
                raise InvalidInput(f"measurement {i}: {error}") from None
        table = np.array(pairs, dtype=np.float64).reshape(-1, 2).T
        table.setflags(write=False)
        z, y = table
        widths, index, weight = np.unique(z, return_inverse=True, return_counts=True)
        if widths.size < 2 or widths[-1] <= 1.0:
            listed = ", ".join(f"{width:g}" for width in widths[:5]) or "none"
            raise InvalidInput(
                f"no information: a curve needs at least two different numbers of cores, one of them above "
                f"1; measured: {listed}"
            )
        logs = np.log(y)
        level = np.bincount(index, weights=logs) / weight
        scatter = float(np.sum((logs - level[index]) ** 2))
        return cls(widths, level, weight.astype(np.float64), scatter, z, y)

    @cached_property
    def n(self) -> int:
        """The number of measurements."""
        return int(self.weight.sum())

    @property
    def widths(self) -> int:
        """The number of widths that differ in what they tell; s(z) = z up to one core, for every curve."""
        return int(np.unique(np.maximum(self.cores, 1.0)).size)

    def residuals(self, curve: SpeedUp) -> tuple[Array, float]:
        """Return the residuals at the best scale, one a width, and the logarithm of that scale."""
        gap = self.level - np.log(curve.rate(self.cores))
        scale = float(self.weight @ gap) / self.n
        return gap - scale, scale

    def squares(self, curve: SpeedUp) -> float:
        """Return the sum of squares, the scatter within widths aside."""
        return float(self.weight @ self.residuals(curve)[0] ** 2)

    def jacobian(self, curve: SpeedUp) -> Array:
        """Return the derivatives of the residuals, one row a width and one column a parameter."""
        relative = curve.gradient(self.cores) / curve.rate(self.cores)[:, None]
        mean: Array = self.weight @ relative / self.n
        return mean - relative

    def determines(self, curve: SpeedUp) -> bool:
        """Return whether a small change of any of its parameters shows at some of these widths."""
        columns = self.jacobian(curve)
        size = np.linalg.norm(columns, axis=0)
        if size.min() == 0.0:
            return False
        return bool(np.linalg.matrix_rank(columns / size, tol=1e-9) == size.size)


# --- search -----------------------------------------------------------------------------------


def best_of_family(data: Measurements, family: type[SpeedUp]) -> SpeedUp:
    """Return the curve of a family with the least sum of squares."""
    if family is Usl:
        return _search_usl(data)
    ((name, (low, high)),) = family.bounds.items()
    fine = np.geomspace(1e-3 / data.cores[-1], 0.5, 100)
    grid = low + (high - low) * np.concatenate([[0.0], fine, 1.0 - fine[-2::-1], [1.0]])
    return _search_line(data, lambda x: family(**{name: x}), 0, grid)


def _search_line(data: Measurements, curve_at: Callable[[float], Curve], column: int, grid: Array) -> Curve:
    """Return the best curve along one parameter: at an end of the grid, or where the derivative vanishes."""
    from scipy.optimize import brentq

    def slope(x: float) -> float:
        curve = curve_at(x)
        return float((data.weight * data.residuals(curve)[0]) @ data.jacobian(curve)[:, column])

    points = grid.tolist()
    slopes = [slope(x) for x in points]
    found = [points[0], points[-1]]
    closest = 1e-12 * (points[1] - points[0])
    for i in range(len(points) - 1):
        if slopes[i] < 0.0 <= slopes[i + 1]:
            found.append(brentq(slope, points[i], points[i + 1], xtol=closest, rtol=1e-15, maxiter=1000))
    return min((curve_at(x) for x in found), key=data.squares)


def _search_usl(data: Measurements) -> SpeedUp:
    """Return the best law: on an edge, or below a local minimum of the best σ for each κ of a grid."""
    widest = float(data.cores[-1])
    sigmas = np.concatenate([[0.0], np.geomspace(1e-3 / widest, 1.0, 24)])
    steps = math.ceil(math.log(1e3 * widest**2) / math.log(1.5))
    kappas = np.concatenate([[0.0], np.geomspace(1e-3 / widest**2, 1.0, steps)])
    no_coherency = 1.0 - best_of_family(data, Amdahl).parameters["p"]
    edges = [Usl(no_coherency, 0.0), _search_line(data, lambda kappa: Usl(0.0, kappa), 1, kappas)]
    best = min(edges, key=data.squares)
    profile = [_search_line(data, partial(Usl, kappa=kappa), 0, sigmas) for kappa in kappas.tolist()]
    padded = [math.inf, *(data.squares(curve) for curve in profile), math.inf]
    for i, start in enumerate(profile):
        lowest = padded[i + 1] <= min(padded[i], padded[i + 2])
        if not lowest or start.peak == 1.0:  # a flat curve is an end of the edge κ = 0
            continue
        curve = _descend_usl(data, start)
        # An edge is exact, while steps from the inside come as near to it as rounding lets them.
        if data.squares(curve) < data.squares(best) * (1.0 - 1e-9) - 1e-30:
            best = curve
    return best


def _descend_usl(data: Measurements, start: Usl) -> Usl:
    """Return the local minimum near a start; κ is in units of its start, as it may be tiny beside σ."""
    from scipy.optimize import least_squares

    unit = start.kappa or float(data.cores[-1]) ** -2
    root = np.sqrt(data.weight)

    def residuals(x: Array) -> Array:
        return root * data.residuals(Usl(x[0], x[1] * unit))[0]

    def jacobian(x: Array) -> Array:
        columns: Array = data.jacobian(Usl(x[0], x[1] * unit)) * [1.0, unit]
        return root[:, None] * columns

    result = least_squares(
        residuals,
        [start.sigma, start.kappa / unit],
        jac=jacobian,
        bounds=([0.0, 0.0], [1.0, 1.0 / unit]),
        x_scale="jac",
        xtol=1e-15,
        ftol=1e-15,
        gtol=1e-15,
        max_nfev=10_000,
    )
    if not result.success:
        raise NotConverged(f"least squares from {start}: {result.message}")
    return Usl(float(result.x[0]), float(result.x[1]) * unit)
