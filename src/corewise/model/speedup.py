r"""Speed-up curves: how fast a job runs on z cores.

A curve s(z; θ) says at what rate a job is served that holds z cores, in units of one core's rate.
Every curve satisfies, for all z in [0, c]:

- s(z) = z for z ≤ 1: less than one core is a share of one core, and there is nothing to parallelise;
- s is nondecreasing and concave, hence s(z) ≤ z: more cores never hurt, and help less and less;
- s is Lipschitz in its parameters θ, and another θ gives another curve (it can be identified).

A family is one formula for z ≥ 1. The rest (the part below one core, the likelihood, the best split of
the cores, the plots) follows from its rate, its slope in z and its gradient in the parameters.

To add a family, subclass `SpeedUp` as a frozen dataclass whose fields are its parameters::

    @dataclass(frozen=True)
    class Logarithmic(SpeedUp):
        p: float
        family: ClassVar[str] = "logarithmic"
        bounds: ClassVar[Mapping[str, tuple[float, float]]] = {"p": (0.0, 1.0)}

        def rate_above(self, z):
            return 1.0 + self.p * np.log(z)

`slope_above` and `gradient_above` may be given too; otherwise they are differences of the rate. A curve is
checked when a `System` is built with it, over the cores of that system, by `check_curve`.

What a curve cannot be, the speeds of a job can, and two curves know more of it. `WholeCoreTable` has its
speeds on whole cores, which need not be concave and may fall; as a curve it is their concave majorant.
`ByProgress` has another curve for each part of a job's work; as a curve it is the average over a job's life.

Paper: section 2.1, Examples 2.1 and 2.2, Assumption 2.2.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Self
from warnings import warn

import numpy as np
from numpy.typing import ArrayLike

from corewise.errors import CurveMoved, InvalidCurve
from corewise.kit import checks
from corewise.kit.arrays import Floats
from corewise.kit.values import as_plain, public_fields

__all__ = [
    "FAMILIES",
    "Amdahl",
    "ByProgress",
    "Gustafson",
    "MovedPoint",
    "Piecewise",
    "PowerLaw",
    "SpeedUp",
    "Tabulated",
    "Usl",
    "WholeCoreTable",
    "check_curve",
    "moved_points",
]


class SpeedUp(ABC):
    """A speed-up curve: the base of every family.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> import numpy as np
    >>> import corewise as cw
    >>> @dataclass(frozen=True)
    ... class Logarithmic(cw.SpeedUp):
    ...     p: float
    ...     family = "logarithmic"
    ...     bounds = {"p": (0.0, 1.0)}
    ...     def rate_above(self, z):
    ...         return 1.0 + self.p * np.log(z)
    >>> curve = Logarithmic(0.5)
    >>> curve.rate([0.5, 1.0, 4.0]).round(3)
    array([0.5  , 1.   , 1.693])
    >>> curve.slope([0.5, 1.0, 4.0]).round(3)
    array([1.   , 0.5  , 0.125])
    """

    family: ClassVar[str] = ""
    bounds: ClassVar[Mapping[str, tuple[float, float]]] = {}
    label: ClassVar[str] = ""
    """The family in figures; its name if it has no other."""
    code: ClassVar[int | None] = None
    """The number of the family in compiled code; None for a curve that is sampled there."""
    guess: ClassVar[Mapping[str, float]] = {}
    """The parameters of some curve of the family, where one is needed to stand for it."""

    @property
    def useful_cores(self) -> float:
        """The cores beyond which a job is known to be no faster; infinite if none are known."""
        return math.inf

    @property
    def top_speed(self) -> float:
        """The speed s(∞) of a job with any number of cores; infinite if more than floats can tell."""
        with np.errstate(over="ignore"):
            speed = float(self.rate(1e300))
        return math.inf if speed > 1e200 else speed

    @property
    def kinks(self) -> Floats:
        """The widths beyond one core at which the slope is known to jump."""
        return np.empty(0)

    @property
    def phases(self) -> tuple[tuple[float, SpeedUp], ...]:
        """From which fraction of a job's work on it has which curve; this one all along by default."""
        return ((0.0, self),)

    def at(self, fraction: float) -> SpeedUp:
        """Return the curve of a job that has done this fraction of its work."""
        phases = self.phases
        return phases[max(bisect_right([start for start, _ in phases], fraction), 1) - 1][1]

    def table(self, cores: int) -> Floats:
        """Return the speeds on 0, 1, …, `cores` whole cores; a table of a curve's own may fall."""
        return self.rate(np.arange(cores + 1.0))

    def __post_init__(self) -> None:
        """Check that every parameter lies within its bounds."""
        for name, (low, high) in self.bounds.items():
            value = checks.within(getattr(self, name), low, high, f"{self.family} {name}", InvalidCurve)
            object.__setattr__(self, name, value)

    def to_dict(self) -> dict[str, Any]:
        """Return the family and the fields of the curve as plain values, as a system file holds them."""
        return {"family": self.family, **as_plain(public_fields(self))}

    @property
    def parameters(self) -> dict[str, float]:
        """The parameters that estimation would find, by name."""
        return {name: getattr(self, name) for name in self.bounds}

    def with_parameters(self, **values: float) -> Self:
        """Return the curve of the same family with other parameters."""
        return replace(self, **values)  # type: ignore[type-var]

    @abstractmethod
    def rate_above(self, z: Floats) -> Floats:
        """Return s(z) for z ≥ 1."""

    def slope_above(self, z: Floats) -> Floats:
        """Return the right-hand slope ds/dz for z ≥ 1; by differences unless a family gives it.

        The step is a power of two near z · 1e-8, so that differences along straight pieces are exact. Give
        the slope of a curve with kinks: differences smear them.
        """
        step = np.exp2(np.floor(np.log2(z)) - 27.0)
        return (self.rate_above(z + step) - self.rate_above(z)) / step

    def gradient_above(self, z: Floats) -> Floats:
        """Return ds/dθ for z ≥ 1, one column a parameter; by differences unless a family gives it."""
        columns = []
        for name, (low, high) in self.bounds.items():
            value = getattr(self, name)
            step = 1e-6 * max(1.0, abs(value))
            up, down = min(value + step, high), max(value - step, low)
            above = self.with_parameters(**{name: up}).rate_above(z)
            below = self.with_parameters(**{name: down}).rate_above(z)
            columns.append((above - below) / (up - down))
        return np.stack(columns, axis=-1) if columns else np.zeros((*z.shape, 0))

    def rate(self, z: ArrayLike) -> Floats:
        """Return s(z), the service rate of a job that holds z cores."""
        width = np.asarray(z, dtype=np.float64)
        return np.minimum(width, self.rate_above(np.maximum(width, 1.0)))

    def slope(self, z: ArrayLike) -> Floats:
        """Return ds/dz, the gain from a little more; from the right where s has a kink."""
        width = np.asarray(z, dtype=np.float64)
        return np.where(width < 1.0, 1.0, self.slope_above(np.maximum(width, 1.0)))

    def gradient(self, z: ArrayLike) -> Floats:
        """Return ds/dθ, shape ``(*z.shape, number of parameters)``; zero up to one core."""
        width = np.asarray(z, dtype=np.float64)
        return np.where((width <= 1.0)[..., None], 0.0, self.gradient_above(np.maximum(width, 1.0)))


@dataclass(frozen=True)
class Amdahl(SpeedUp):
    """Amdahl's law: a fraction p of the work is parallel, s = 1 / (1 − p + p/z).  Paper: Example 2.1.

    Examples
    --------
    >>> import corewise as cw
    >>> curve = cw.Amdahl(0.9)
    >>> curve.rate([1, 2, 4, 8]).round(3)
    array([1.   , 1.818, 3.077, 4.706])
    >>> curve.parameters
    {'p': 0.9}
    >>> curve.with_parameters(p=0.5).rate([8]).round(3)
    array([1.778])
    """

    p: float
    family: ClassVar[str] = "amdahl"
    label: ClassVar[str] = "Amdahl"
    code: ClassVar[int | None] = 0
    guess: ClassVar[Mapping[str, float]] = {"p": 0.5}
    bounds: ClassVar[Mapping[str, tuple[float, float]]] = {"p": (0.0, 1.0)}

    def rate_above(self, z: Floats) -> Floats:
        """Return z / ((1 − p) z + p)."""
        return z / ((1.0 - self.p) * z + self.p)

    def slope_above(self, z: Floats) -> Floats:
        """Return p / ((1 − p) z + p)²."""
        return self.p / ((1.0 - self.p) * z + self.p) ** 2

    def gradient_above(self, z: Floats) -> Floats:
        """Return (1 − 1/z) s²."""
        return ((1.0 - 1.0 / z) * self.rate_above(z) ** 2)[..., None]


@dataclass(frozen=True)
class PowerLaw(SpeedUp):
    """The power law s = z^p.  Paper: Example 2.2.

    Examples
    --------
    >>> import corewise as cw
    >>> cw.PowerLaw(0.5).rate([1, 4, 16])
    array([1., 2., 4.])
    """

    p: float
    family: ClassVar[str] = "power"
    label: ClassVar[str] = "power law"
    code: ClassVar[int | None] = 1
    guess: ClassVar[Mapping[str, float]] = {"p": 0.5}
    bounds: ClassVar[Mapping[str, tuple[float, float]]] = {"p": (0.0, 1.0)}

    @property
    def top_speed(self) -> float:
        """Infinite for p > 0, however slowly the curve grows."""
        return math.inf if self.p > 0.0 else 1.0

    def rate_above(self, z: Floats) -> Floats:
        """Return z^p."""
        return z**self.p

    def slope_above(self, z: Floats) -> Floats:
        """Return p z^(p − 1)."""
        return self.p * z ** (self.p - 1.0)

    def gradient_above(self, z: Floats) -> Floats:
        """Return z^p log z."""
        return (z**self.p * np.log(z))[..., None]


@dataclass(frozen=True)
class Gustafson(SpeedUp):
    """Gustafson's law: work grows with the cores, s = 1 − p + p z.

    Examples
    --------
    >>> import corewise as cw
    >>> cw.Gustafson(0.75).rate([1, 2, 5])
    array([1.  , 1.75, 4.  ])
    """

    p: float
    family: ClassVar[str] = "gustafson"
    label: ClassVar[str] = "Gustafson"
    code: ClassVar[int | None] = 2
    guess: ClassVar[Mapping[str, float]] = {"p": 0.5}
    bounds: ClassVar[Mapping[str, tuple[float, float]]] = {"p": (0.0, 1.0)}

    def rate_above(self, z: Floats) -> Floats:
        """Return 1 + p (z − 1)."""
        return 1.0 + self.p * (z - 1.0)

    def slope_above(self, z: Floats) -> Floats:
        """Return p."""
        return np.full_like(z, self.p)

    def gradient_above(self, z: Floats) -> Floats:
        """Return z − 1."""
        return (z - 1.0)[..., None]


@dataclass(frozen=True)
class Usl(SpeedUp):
    """The Universal Scalability Law, held at its peak: s = z / (1 + σ(z − 1) + κ z(z − 1)).

    σ is contention, κ the cost of keeping cores coherent. For κ > 0 the curve peaks at z* = √((1 − σ)/κ) and
    falls after it; a job given more cores than z* leaves the rest unused, so s stays at its peak. With
    σ + κ ≥ 1 the peak is at one core.  Source: N. J. Gunther, *Guerrilla Capacity Planning* (2007).

    Examples
    --------
    >>> import corewise as cw
    >>> curve = cw.Usl(sigma=0.05, kappa=0.01)
    >>> round(curve.peak, 3)
    9.747
    >>> curve.rate([1, 4, 9, 100]).round(3)
    array([1.   , 3.15 , 4.245, 4.256])
    """

    sigma: float
    kappa: float
    family: ClassVar[str] = "usl"
    label: ClassVar[str] = "USL"
    code: ClassVar[int | None] = 3
    guess: ClassVar[Mapping[str, float]] = {"sigma": 0.1, "kappa": 0.01}
    bounds: ClassVar[Mapping[str, tuple[float, float]]] = {"sigma": (0.0, 1.0), "kappa": (0.0, math.inf)}

    @property
    def useful_cores(self) -> float:
        """The cores at the peak."""
        return self.peak

    @property
    def kinks(self) -> Floats:
        """The peak, from which on the curve is flat."""
        return np.array([self.peak])

    @property
    def peak(self) -> float:
        """The cores at which the speed-up is largest; infinite without coherency cost."""
        if self.kappa == 0.0:
            return math.inf
        return max(1.0, math.sqrt((1.0 - self.sigma) / self.kappa))

    def _divisor(self, z: Floats) -> Floats:
        return 1.0 + (z - 1.0) * (self.sigma + self.kappa * z)

    def rate_above(self, z: Floats) -> Floats:
        """Return z / (1 + σ(z − 1) + κ z(z − 1)) at min(z, z*)."""
        held = np.minimum(z, self.peak)
        return held / self._divisor(held)

    def slope_above(self, z: Floats) -> Floats:
        """Return (1 − σ − κ z²) / (…)² before the peak and zero from it."""
        held = np.minimum(z, self.peak)
        rising = np.maximum((1.0 - self.sigma) - self.kappa * held**2, 0.0) / self._divisor(held) ** 2
        return np.where(z < self.peak, rising, 0.0)

    def gradient_above(self, z: Floats) -> Floats:
        """Return the derivatives in σ and κ; at the peak its own movement has no first-order effect."""
        held = np.minimum(z, self.peak)
        in_sigma = -held * (held - 1.0) / self._divisor(held) ** 2
        return np.stack([in_sigma, held * in_sigma], axis=-1)


class MovedPoint(NamedTuple):
    """A measured point that a curve does not pass through.

    Attributes
    ----------
    cores : float
        Where.
    given, used : float
        The speed-up measured, and the curve's.
    """

    cores: float
    given: float
    used: float

    @property
    def change(self) -> float:
        """How far it was moved, as a fraction."""
        return self.used / self.given - 1.0


_ON_CURVE = 1e-9
"""Points as near to a curve as this, relatively, are on it."""


class Piecewise(SpeedUp):
    """Speed-up curve of straight pieces: the least concave majorant of points with (0, 0) and (1, 1)."""

    @property
    @abstractmethod
    def given(self) -> tuple[tuple[float, float], ...]:
        """The points (cores, speed-up), in order of the cores."""

    @property
    def kinks(self) -> Floats:
        """The widths of the corners."""
        return self.corners[0]

    @cached_property
    def corners(self) -> tuple[Floats, Floats]:
        """The corners (z, s) of the concave majorant from (1, 1) to its highest point."""
        hull: list[tuple[float, float]] = [(1.0, 1.0)]
        for z, measured in self.given:
            s = min(z, measured)
            if z <= 1.0 or s <= hull[-1][1]:
                continue
            while len(hull) > 1 and _rise(hull[-2], hull[-1]) <= _rise(hull[-1], (z, s)):
                hull.pop()
            hull.append((z, s))
        z, s = np.array(hull).T
        return z, s

    def rate_above(self, z: Floats) -> Floats:
        """Return the concave majorant at z."""
        return np.interp(z, *self.corners)

    def slope_above(self, z: Floats) -> Floats:
        """Return the slope of the piece to the right of z."""
        at, s = self.corners
        slopes = np.append(np.diff(s) / np.diff(at), 0.0)
        return slopes[np.searchsorted(at, z, side="right") - 1]

    def gradient_above(self, z: Floats) -> Floats:
        """Return no columns: nothing to estimate."""
        return np.zeros((*z.shape, 0))


@dataclass(frozen=True)
class Tabulated(Piecewise):
    """A curve through measured points (cores, speed-up).

    Points are clipped to s ≤ z, then replaced by their least concave majorant with (0, 0) and (1, 1), linear
    between its corners; from the highest point on the curve is flat. It has no parameters to estimate. Points
    that this moves are in `moved`, and a `corewise.errors.CurveMoved` warning says which and how far.

    Examples
    --------
    >>> import corewise as cw
    >>> cw.Tabulated([(2, 1.8), (4, 3.0)]).rate([2, 3, 8])
    array([1.8, 2.4, 3. ])
    """

    points: tuple[tuple[float, float], ...]
    family: ClassVar[str] = "tabulated"

    def __init__(self, points: Sequence[Sequence[float]]) -> None:
        pairs = []
        if isinstance(points, str) or not isinstance(points, Sequence | np.ndarray) or len(points) == 0:
            raise InvalidCurve(f"tabulated points must be pairs [cores, speed-up], got {points!r}")
        for point in points:
            if isinstance(point, str) or not isinstance(point, Sequence | np.ndarray) or len(point) != 2:
                raise InvalidCurve(f"tabulated points must be pairs [cores, speed-up], got {point!r}")
            z = checks.positive(point[0], "tabulated cores", InvalidCurve)
            s = checks.positive(point[1], f"tabulated speed-up at {z:g} cores", InvalidCurve)
            if z <= 1.0 and abs(s - z) > 1e-9:
                hint = "; divide throughputs by the one at one core" if z == 1.0 else ""
                raise InvalidCurve(
                    f"tabulated speed-up at {z:g} cores must be {z:g} (s(z) = z up to one core), "
                    f"got {s:g}{hint}"
                )
            pairs.append((z, s))
        object.__setattr__(self, "points", tuple(sorted(pairs)))
        if self.moved:
            moved = moved_points(self.moved)
            warn(f"tabulated speed-up moved to its least concave majorant: {moved}", CurveMoved, stacklevel=2)

    @cached_property
    def moved(self) -> tuple[MovedPoint, ...]:
        """The points that are not on the curve."""
        z, given = np.array(self.points).T
        used = self.rate(z)
        off = np.abs(used - given) > _ON_CURVE * given
        rows = np.column_stack([z, given, used])[off]
        return tuple(MovedPoint(*row) for row in rows.tolist())

    @property
    def given(self) -> tuple[tuple[float, float], ...]:
        """The points."""
        return self.points


def moved_points(moved: Iterable[MovedPoint], most: int = 5) -> str:
    """Return in words which points moved and how far, the farthest first."""
    farthest = sorted(moved, key=lambda point: -abs(point.change))
    words = [
        f"at {point.cores:g} cores {point.given:.4g} → {point.used:.4g} ({point.change:+.2%})"
        for point in farthest[:most]
    ]
    more = [f"and {len(farthest) - most} more"] if len(farthest) > most else []
    return ", ".join([*words, *more])


def _rise(left: tuple[float, float], right: tuple[float, float]) -> float:
    return (right[1] - left[1]) / (right[0] - left[0]) if right[0] > left[0] else math.inf


@dataclass(frozen=True)
class WholeCoreTable(Piecewise):
    """A table of speeds on whole cores, which need not be concave and may fall.

    Jobs on whole cores run at these speeds: decisions per job leave a width out that is not worth it, so that
    cores beyond the peak stay idle or go elsewhere. On shares of cores a job runs at the least concave
    majorant, which is flat from the peak on. On more cores than the table has, a job is as fast as on its
    last.

    Parameters
    ----------
    speeds : sequence of float
        s(0) = 0, s(1) = 1, s(2), …; one above its number of cores is cut to it, with a
        `corewise.errors.CurveMoved` warning.

    Examples
    --------
    >>> import corewise as cw
    >>> curve = cw.WholeCoreTable([0, 1, 1.9, 2.7, 3.6, 3.2])
    >>> curve.table(6)
    array([0. , 1. , 1.9, 2.7, 3.6, 3.2, 3.2])
    >>> curve.rate([3, 5]).round(3), curve.useful_cores
    (array([2.75, 3.6 ]), 4.0)
    """

    speeds: tuple[float, ...]
    family: ClassVar[str] = "whole-core-table"

    def __init__(self, speeds: Sequence[float]) -> None:
        if isinstance(speeds, str) or not isinstance(speeds, Sequence | np.ndarray) or len(speeds) < 2:
            raise InvalidCurve(
                f"whole-core-table speeds must be those on 0, 1, 2, … cores, two at least, "
                f"got {checks.shown(speeds)}"
            )
        found, moved = [], []
        for z, speed in enumerate(speeds):
            s = checks.within(speed, 0.0, math.inf, f"whole-core-table speed on {z} cores", InvalidCurve)
            if z <= 1 and s != z:
                hint = "; divide throughputs by the one at one core" if z else ""
                raise InvalidCurve(f"whole-core-table speed on {z} cores must be {z}, got {s:g}{hint}")
            if s > z * (1.0 + _ON_CURVE):
                moved.append(MovedPoint(float(z), s, float(z)))
            found.append(min(s, float(z)))
        object.__setattr__(self, "speeds", tuple(found))
        if moved:
            cut = moved_points(moved)
            warn(f"whole-core-table speed cut to the number of cores: {cut}", CurveMoved, stacklevel=2)

    @property
    def useful_cores(self) -> float:
        """The cores at the peak."""
        return float(self.corners[0][-1])

    @property
    def given(self) -> tuple[tuple[float, float], ...]:
        """The points of the table."""
        return tuple((float(z), s) for z, s in enumerate(self.speeds) if z)

    def table(self, cores: int) -> Floats:
        """Return the speeds on 0, 1, …, `cores` whole cores."""
        return np.array(self.speeds)[np.minimum(np.arange(cores + 1), len(self.speeds) - 1)]


_NODES = 513
"""Points on the average of curves by progress: between them it is off by some 1e-5."""


@dataclass(frozen=True)
class ByProgress(SpeedUp):
    r"""A curve that changes with progress: one for each part of a job's work.

    A job that has done the fraction f of its work runs by the last curve that begins at f or before; the
    work is measured on one core. As a curve it is that of a whole job at a constant width, with shares Δ_k of
    the work: 1/s(z) = Σ Δ_k/s_k(z). That is concave, as a harmonic mean of concave curves, and is what
    policies of classes go by. It has no parameters to estimate.

    Parameters
    ----------
    fractions : sequence of float
        Where each curve begins: the first at 0, the others at increasing fractions below one.
    curves : sequence of SpeedUp
        The curves, as many.

    Examples
    --------
    >>> import corewise as cw
    >>> curve = cw.ByProgress([0.0, 0.25], [cw.Amdahl(0.5), cw.Amdahl(0.9)])
    >>> curve.at(0.1), curve.at(0.25)
    (Amdahl(p=0.5), Amdahl(p=0.9))
    >>> curve.rate([1, 2, 4]).round(4)
    array([1.    , 1.6667, 2.5   ])
    """

    fractions: tuple[float, ...]
    curves: tuple[SpeedUp, ...]
    family: ClassVar[str] = "by-progress"
    label: ClassVar[str] = "by progress"

    def __init__(self, fractions: Sequence[float], curves: Sequence[SpeedUp]) -> None:
        for given, what in ((fractions, "fractions"), (curves, "curves")):
            if isinstance(given, str) or not isinstance(given, Sequence | np.ndarray) or len(given) == 0:
                raise InvalidCurve(
                    f"by-progress {what} must be a list, one for each part of the work, "
                    f"got {checks.shown(given)}"
                )
        if len(fractions) != len(curves):
            raise InvalidCurve(
                f"by-progress needs a fraction for each curve, got {len(fractions)} fractions "
                f"and {len(curves)} curves"
            )
        starts = [checks.within(start, 0.0, 1.0, "by-progress fraction", InvalidCurve) for start in fractions]
        if starts[0] != 0.0:
            raise InvalidCurve(f"by-progress fractions must begin with 0, got {starts[0]:g}")
        for before, start in zip(starts, [*starts[1:], 1.0], strict=True):
            if not before < start:
                raise InvalidCurve(
                    f"by-progress fractions must increase and be below 1, got {start:g} after {before:g}"
                    if start < 1.0
                    else f"by-progress fractions must be below 1, got {before:g}"
                )
        for curve in curves:
            if not isinstance(curve, SpeedUp) or isinstance(curve, ByProgress):
                raise InvalidCurve(
                    f"by-progress curves must be speed-up curves that stay as they are, got {curve!r}"
                )
        object.__setattr__(self, "fractions", tuple(starts))
        object.__setattr__(self, "curves", tuple(curves))

    @cached_property
    def shares(self) -> Floats:
        """The share of the work that is done by each curve."""
        return np.diff(self.fractions, append=1.0)

    @property
    def phases(self) -> tuple[tuple[float, SpeedUp], ...]:
        """From which fraction of a job's work on it has which curve."""
        return tuple(zip(self.fractions, self.curves, strict=True))

    @property
    def useful_cores(self) -> float:
        """The cores beyond which no part of a job is known to be faster."""
        return max(curve.useful_cores for curve in self.curves)

    @property
    def kinks(self) -> Floats:
        """The kinks of all the curves."""
        return np.unique(np.concatenate([curve.kinks for curve in self.curves]))

    def average(self, cores: float) -> Tabulated:
        """Return the curve of a whole job on up to so many cores as one that stays, through points on it."""
        z = np.append(self.kinks, np.geomspace(1.0, max(cores, 1.0), _NODES))
        z = np.unique(z[z <= max(cores, 1.0)])
        return Tabulated(list(zip(z.tolist(), self.rate(z).tolist(), strict=True)))

    def table(self, cores: int) -> Floats:
        """Return the speeds of a whole job on 0, 1, …, `cores` whole cores."""
        with np.errstate(divide="ignore"):
            paces = 1.0 / np.stack([curve.table(cores) for curve in self.curves])
        return np.asarray(1.0 / (self.shares @ paces))

    def rate_above(self, z: Floats) -> Floats:
        """Return 1/Σ Δ_k/s_k(z)."""
        total = sum(
            share / curve.rate_above(z) for share, curve in zip(self.shares, self.curves, strict=True)
        )
        return np.asarray(1.0 / total)

    def slope_above(self, z: Floats) -> Floats:
        """Return s² Σ Δ_k s_k'/s_k²."""
        total = sum(
            share * curve.slope_above(z) / curve.rate_above(z) ** 2
            for share, curve in zip(self.shares, self.curves, strict=True)
        )
        return np.asarray(self.rate_above(z) ** 2 * total)

    def gradient_above(self, z: Floats) -> Floats:
        """Return no columns: nothing to estimate."""
        return np.zeros((*z.shape, 0))


FAMILIES: dict[str, type[SpeedUp]] = {
    curve.family: curve for curve in (Amdahl, PowerLaw, Gustafson, Usl, Tabulated, WholeCoreTable, ByProgress)
}


def check_curve(curve: SpeedUp, cores: float) -> None:
    """Raise `InvalidCurve` unless `curve` is a speed-up curve on [0, `cores`].

    The families of this module satisfy the conditions by proof, and the tests run this check over them. Any
    other curve is looked at on a fine grid: finite, s(z) = z up to one core, nondecreasing, concave,
    below z, its gradient finite (Lipschitz) and of full rank (identifiable).
    """
    if isinstance(curve, ByProgress):
        for part in curve.curves:
            check_curve(part, cores)
    if type(curve) in FAMILIES.values():
        return
    _check_shape(curve, cores)
    if cores > 1.0 and curve.bounds:
        _check_gradient(curve, cores)


def _asked(curve: SpeedUp, what: str, z: Floats) -> Floats:
    """Return what a curve gives at several widths at once, or raise `InvalidCurve` if it cannot."""
    try:
        with np.errstate(all="ignore"):
            return np.asarray(getattr(curve, what)(z), dtype=np.float64)
    except (ArithmeticError, AttributeError, IndexError, TypeError, ValueError) as error:
        name = curve.family or type(curve).__name__
        raise InvalidCurve(
            f"{name}: {what}_above fails for an array of {z.size} widths ({error}); "
            f"write it with NumPy functions, such as np.log and np.where, not math.log and if"
        ) from error


def _check_shape(curve: SpeedUp, cores: float) -> None:
    name = curve.family or type(curve).__name__
    z = np.unique(np.concatenate([np.linspace(0.0, 1.0, 9), np.geomspace(1.0, max(cores, 1.0), 512)]))
    s = _asked(curve, "rate", z)
    if s.shape != z.shape:
        raise InvalidCurve(f"{name}: rate({z.shape[0]} widths) has shape {s.shape}, not {z.shape}")
    if not np.all(np.isfinite(s)):
        raise InvalidCurve(f"{name}: s({z[~np.isfinite(s)][0]:g}) is not finite")
    low = z <= 1.0
    off = np.abs(s - z)[low]
    if off.max() > 1e-9:
        at = z[low][off.argmax()]
        raise InvalidCurve(
            f"{name}: s(z) must be z up to one core, but s({at:g}) = {s[low][off.argmax()]:.12g}"
        )
    if (slopes := _asked(curve, "slope", z)).shape != z.shape:
        raise InvalidCurve(f"{name}: slope({z.shape[0]} widths) has shape {slopes.shape}, not {z.shape}")
    slopes = np.diff(s) / np.diff(z)
    if np.diff(s).min() < -1e-9:
        at = z[slopes.argmin()]
        raise InvalidCurve(f"{name}: not nondecreasing, it falls after z = {at:g}")
    rounding = 4.0 * np.finfo(np.float64).eps * z[1:] / np.diff(z)
    bend = np.diff(slopes) - rounding[1:] - rounding[:-1]
    if bend.size and bend.max() > 1e-7:
        raise InvalidCurve(f"{name}: not concave, its slope rises near z = {z[bend.argmax() + 1]:g}")


def _check_gradient(curve: SpeedUp, cores: float) -> None:
    name = curve.family or type(curve).__name__
    missing = [field for field in curve.bounds if field not in {f.name for f in fields(curve)}]  # type: ignore[arg-type]
    if missing:
        raise InvalidCurve(f"{name}: bounds name {missing[0]!r}, which is not a field of the curve")
    z = np.geomspace(1.0, cores, 65)[1:]
    gradient = _asked(curve, "gradient", z)
    if gradient.shape != (z.size, len(curve.bounds)):
        raise InvalidCurve(
            f"{name}: gradient of {z.size} widths has shape {gradient.shape}, "
            f"not {(z.size, len(curve.bounds))}"
        )
    if not np.all(np.isfinite(gradient)):
        raise InvalidCurve(f"{name}: not Lipschitz in its parameters, ds/dθ is not finite")
    scale = np.abs(gradient).max(axis=0)
    if np.any(scale == 0.0) or np.linalg.matrix_rank(gradient / scale, tol=1e-9) < len(curve.bounds):
        raise InvalidCurve(f"{name}: its parameters cannot be identified, different ones give the same curve")
