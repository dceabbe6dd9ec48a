r"""Least squares on the logarithm of measured throughputs, global in each family of curves.

The sum of squares to make least is Σ_k (log y_k − log a − log s(z_k; θ))². For given θ the best log a is the
mean of log y_k − log s(z_k; θ), which leaves a search over θ alone. Measurements at the same width enter by
their number and mean: their scatter about it is the same for every curve.

One parameter: the derivative of the sum of squares is taken on a grid that is fine where curves
differ (within 1/z of both ends), every change of its sign from − to + is refined to rounding, and grid and
roots are compared.

The Universal Scalability Law is searched by its peak z* = √((1 − σ)/κ), beyond which it is flat. For a given
z* it is a family of one parameter, 1/s being linear in σ as in Amdahl's law, and the best σ for each z*
leaves one parameter again, whose derivative is the partial one (envelope theorem). At κ = 0 it is Amdahl's
law itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple, Self

import numpy as np

from corewise.errors import InvalidInput
from corewise.kit import checks
from corewise.kit.arrays import Floats
from corewise.model.speedup import Amdahl, SpeedUp, Usl

__all__ = ["Measurements", "best_of_family", "check_measurement"]

# Beyond these no machine and no unit is meant, and squares of them would leave the range of floats.
_CORES = (1e-12, 1e12)
_THROUGHPUT = (1e-100, 1e100)


def check_measurement(cores: object, throughput: object) -> tuple[float, float]:
    """Return one measurement as two floats if both are positive and within reason."""
    z = checks.positive(cores, "cores")
    y = checks.positive(throughput, "throughput")
    return checks.within(z, *_CORES, "cores"), checks.within(y, *_THROUGHPUT, "throughput")


@dataclass(frozen=True)
class Measurements:
    """Sufficient statistics of measured throughputs for least squares: means of log throughput by width."""

    cores: Floats  # the different widths, increasing
    mean_log: Floats  # mean log throughput at each
    weight: Floats  # number of measurements at each
    scatter: float  # sum of squares about those means
    measured_cores: Floats
    measured_throughput: Floats

    @classmethod
    def of(cls, cores: Iterable[float], throughput: Iterable[float]) -> Self:
        """Return measurements grouped by width, or raise `InvalidInput` if they do not determine a curve."""
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
        mean_log = np.bincount(index, weights=logs) / weight
        scatter = float(np.sum((logs - mean_log[index]) ** 2))
        return cls(widths, mean_log, weight.astype(np.float64), scatter, z, y)

    @cached_property
    def n(self) -> int:
        """The number of measurements."""
        return int(self.weight.sum())

    @cached_property
    def rounding(self) -> float:
        """Bound on the rounding error of a sum of squares."""
        largest = max(1.0, float(np.abs(self.mean_log).max()))
        return self.n * (8.0 * float(np.finfo(np.float64).eps) * largest) ** 2

    @property
    def widths(self) -> int:
        """The number of informative widths; those up to one core count as one, as s(z) = z there."""
        return int(np.unique(np.maximum(self.cores, 1.0)).size)

    def residuals(self, curve: SpeedUp) -> tuple[Floats, float]:
        """Return the residuals at the best scale, one per width, and the logarithm of that scale."""
        gap = self.mean_log - np.log(curve.rate(self.cores))
        scale = float(self.weight @ gap) / self.n
        return gap - scale, scale

    def squares(self, curve: SpeedUp) -> float:
        """Return the sum of squares, the scatter within widths aside."""
        return float(self.weight @ self.residuals(curve)[0] ** 2)

    def jacobian(self, curve: SpeedUp) -> Floats:
        """Return the derivatives of the residuals, one row per width and one column per parameter."""
        relative = curve.gradient(self.cores) / curve.rate(self.cores)[:, None]
        mean: Floats = self.weight @ relative / self.n
        return mean - relative

    def determines(self, curve: SpeedUp) -> bool:
        """Return whether a small change of any of its parameters shows at some of these widths."""
        columns = self.jacobian(curve)
        size = np.linalg.norm(columns, axis=0)
        if size.min() == 0.0:
            return False
        return bool(np.linalg.matrix_rank(columns / size, tol=1e-9) == size.size)


# --- search -----------------------------------------------------------------------------------


class _Probe(NamedTuple):
    """A point of the search: a curve, its sum of squares, and half the derivative of that."""

    curve: SpeedUp
    squares: float
    slope: float


def best_of_family(data: Measurements, family: type[SpeedUp]) -> SpeedUp:
    """Return the least-squares fit: the curve of a family with the least sum of squares."""
    if family in _SEARCHES:
        return _SEARCHES[family](data)
    ((name, (low, high)),) = family.bounds.items()
    grid = low + (high - low) * _unit_grid(data, 100)
    return _least(data, lambda x: _probe(data, family(**{name: x}), [1.0]), grid).curve


def _best_usl(data: Measurements) -> SpeedUp:
    sigmas = _unit_grid(data, 12)

    def at_peak(log_peak: float) -> _Probe:
        # (1 − σ)/z*² is κ; along σ with the peak held, κ moves by −1/z*².
        factor = math.exp(-2.0 * log_peak)
        best = _least(
            data,
            lambda sigma: _probe(data, Usl(sigma, (1.0 - sigma) * factor), [1.0, -factor]),
            sigmas,
        )
        return _probe(data, best.curve, [0.0, -factor])

    amdahl = Usl(1.0 - best_of_family(data, Amdahl).parameters["p"], 0.0)
    return _preferred(
        data, [_probe(data, amdahl, [0.0, 0.0])], [_least(data, at_peak, _log_peaks(data))]
    ).curve


_SEARCHES: dict[type[SpeedUp], Callable[[Measurements], SpeedUp]] = {Usl: _best_usl}
"""Searches of the families that have other than one parameter."""


def _log_peaks(data: Measurements) -> Floats:
    """Return logarithms of peaks: several between neighbouring widths, where minima lie, and beyond them all.

    From 1e4 times the widest on, the curve differs from Amdahl's by less than 1e-8.
    """
    widths = np.unique(np.log(np.maximum(np.append(data.cores, 1.0), 1.0)))
    between = [
        np.linspace(lower, upper, max(4, math.ceil((upper - lower) / math.log(1.2))), endpoint=False)
        for lower, upper in pairwise(widths)
    ]
    closest = widths[-1] / 700.0  # hundreds of widths need no more
    inside = closest * np.unique(np.round(np.concatenate(between) / closest))
    return np.concatenate([inside[1:], widths[-1] + np.linspace(0.0, math.log(1e4), 13)])


def _unit_grid(data: Measurements, count: int) -> Floats:
    """Return points of [0, 1], the ends among them, that are dense near both, where wide jobs differ."""
    fine = np.geomspace(1e-3 / data.cores[-1], 0.5, count)
    return np.concatenate([[0.0], fine, 1.0 - fine[-2::-1], [1.0]])


def _probe(data: Measurements, curve: SpeedUp, direction: list[float]) -> _Probe:
    gap, _ = data.residuals(curve)
    weighted = data.weight * gap
    relative = curve.gradient(data.cores) @ direction / curve.rate(data.cores)
    return _Probe(curve, float(weighted @ gap), -float(weighted @ relative))


def _least(data: Measurements, probe: Callable[[float], _Probe], grid: Floats) -> _Probe:
    """Return the least sum of squares: on the grid, or where the derivative goes from − to + within it."""
    from scipy.optimize import brentq

    points = grid.tolist()
    probes = [probe(x) for x in points]
    closest = 1e-12 * (points[1] - points[0])
    inner = list(probes[1:-1])
    for i, (lower, upper) in enumerate(pairwise(probes)):
        if lower.slope < 0.0 < upper.slope:
            root = brentq(
                lambda x: probe(x).slope, points[i], points[i + 1], xtol=closest, rtol=1e-15, maxiter=1000
            )
            inner.append(probe(root))
    return _preferred(data, [probes[0], probes[-1]], inner)


def _preferred(data: Measurements, exact: list[_Probe], other: list[_Probe]) -> _Probe:
    """Return the least of all, or the least of the exact ones if rounding alone makes another less.

    An end of a range is met exactly, while a root comes as near to it as rounding lets it.
    """
    first, second = (min(probes, key=lambda probe: probe.squares) for probes in (exact, other))
    return first if first.squares <= second.squares * (1.0 + 1e-12) + data.rounding else second
