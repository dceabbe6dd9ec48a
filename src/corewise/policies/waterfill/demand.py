r"""Demand functions: what a job buys at a price, by the shape of its curve.

The demand of a class at the relative price q = η/ω, the price over its offer, is the width that a job takes,

    z(q) = (widths of all pieces with slope > q) + (min(extra(q), limit) if q < start).

A *piece* is a straight part of the curve (all its width is bought at one price); the *tail* is the strictly
concave rest, in one of three forms:

    inverse square root   extra = a/√q + b          Amdahl, slope and index
    power                 extra = (a/q)^b − 1        power law, slope and index
    sampled               linear between nodes       any other curve

A class with `max_cores` has the demand of its curve, cut at that width: a tail has a *limit*, and at price
zero, where jobs take cores that do not make them faster, they hold `max_cores` and no more.

`marginal_shapes` price speed (ω s'(z) = η), `index_shapes` price cores by the Whittle index W(z) = ℓ. A
sampled tail is exact only at its nodes, which are crowded about kinks; the loss in value is of second order
in their distance, and `corewise.policies.waterfill.split.certified_split` bounds it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property, singledispatch

import numpy as np

from corewise.kit.arrays import Floats, Ints
from corewise.model.capped import Capped
from corewise.model.speedup import Amdahl, Gustafson, Piecewise, PowerLaw, SpeedUp, Usl
from corewise.model.system import System
from corewise.policies.waterfill._kernels import (
    CUT_ROOT,
    INVERSE_ROOT,
    LIMIT,
    MOST_CORES,
    NO_TAIL,
    POWER,
    SAMPLED,
    Demands,
    stride_of,
)

__all__ = ["Shapes", "index_shapes", "linear_width", "marginal_shapes"]

_NODES = 4097
_LINEAR = 1e-12
_STRAIGHT = 1e-12
"""By which share the slope of a straight piece may fall from node to node."""
_REFINEMENTS = 45


@dataclass(frozen=True)
class _Shape:
    """Demand function of one class: pieces and a tail, up to a limit; a job may hold `most` in all."""

    pieces: tuple[tuple[float, float], ...] = ()
    tail: float = NO_TAIL
    a: float = 0.0
    b: float = 0.0
    start: float = 0.0
    nodes: Floats = field(default_factory=lambda: np.empty((0, 2)))
    limit: float = math.inf
    most: float = math.inf


@dataclass(frozen=True, eq=False)
class Shapes:
    """Demand functions of all classes, as arrays for the kernels."""

    tails: Floats
    pieces: Floats
    nodes: Floats

    @cached_property
    def closed(self) -> bool:
        """Whether no class has more than a piece and an Amdahl tail, nor limits: then the level is closed."""
        plain = bool(np.all(self.tails[:, 0] <= INVERSE_ROOT))
        return plain and self.pieces.shape[1] == 1 and not self.limited

    @cached_property
    def closed_terms(self) -> tuple[Floats, Ints]:
        """The terms of closed shapes, row by row, and the order in which classes are tried for the level."""
        classes = len(self.tails)
        stride = stride_of(classes)
        terms = np.ascontiguousarray(np.concatenate([self.pieces[:, 0], self.tails[:, 1:4]], axis=1).T)
        return terms, np.arange(classes) * stride % classes

    @property
    def arrays(self) -> Demands:
        """The demands as kernels take them."""
        return Demands(self.tails, self.pieces, self.nodes)

    @property
    def most(self) -> Floats:
        """The cores that a job of each class may hold, infinite where nothing limits them."""
        return self.tails[:, MOST_CORES]

    @cached_property
    def limited(self) -> bool:
        """Whether jobs of some class may hold only so many cores."""
        return bool(np.any(self.most < np.inf))

    @cached_property
    def useful(self) -> Floats:
        """The cores that make a job of each class faster, of those that are priced; some may be infinite."""
        pieces = np.where(np.isfinite(self.pieces[..., 0]), self.pieces[..., 1], 0.0).sum(axis=1)
        return np.asarray(pieces + self.tails[:, LIMIT])

    @cached_property
    def sampled(self) -> bool:
        """Whether some class has a sampled tail, whose split is not exact."""
        return bool(np.any(self.tails[:, 0] == SAMPLED))


def linear_width(curve: SpeedUp, cores: float) -> float:
    """Return the width up to which s(z) = z, at least one core."""
    if isinstance(curve, Capped):
        return min(linear_width(curve.curve, cores), curve.most)
    if isinstance(curve, Amdahl | PowerLaw | Gustafson):
        return max(1.0, cores) if curve.p == 1.0 else 1.0
    if isinstance(curve, Usl):
        return max(1.0, cores) if curve.sigma == curve.kappa == 0.0 else 1.0
    if isinstance(curve, Piecewise):
        z, s = curve.corners
    else:
        z = _nodes(curve, cores)
        s = curve.rate(z)
    return float(z[s >= z * (1.0 - _LINEAR)].max(initial=1.0))


def marginal_shapes(system: System) -> Shapes:
    """Return the demand functions at a price for speed: ω s'(z) = η."""
    return _pack([_marginal(job_class.curve, system.cores) for job_class in system.classes], system.cores)


def index_shapes(system: System) -> Shapes:
    """Return the demand functions at a price for cores, above the part where s(z) = z: W(z) = ℓ."""
    return _pack([_index(job_class.curve, system.cores) for job_class in system.classes], system.cores)


@singledispatch
def _marginal(curve: SpeedUp, cores: float) -> _Shape:
    return _sampled_marginal(curve, cores)


def _sampled_marginal(curve: SpeedUp, cores: float) -> _Shape:
    z = _nodes(curve, cores)
    return _sampled(((1.0, 1.0),), z, curve.slope_above(z))


@_marginal.register
def _(curve: Amdahl, cores: float) -> _Shape:
    p = curve.p
    if p in (0.0, 1.0):
        return _straight(p, cores)
    return _Shape(((1.0, 1.0),), INVERSE_ROOT, a=np.sqrt(p) / (1.0 - p), b=-1.0 / (1.0 - p), start=p)


@_marginal.register
def _(curve: PowerLaw, cores: float) -> _Shape:
    p = curve.p
    if p in (0.0, 1.0):
        return _straight(p, cores)
    return _Shape(((1.0, 1.0),), POWER, a=p, b=1.0 / (1.0 - p), start=p)


@_marginal.register
def _(curve: Gustafson, cores: float) -> _Shape:
    return _straight(curve.p, cores)


@_marginal.register
def _(curve: Piecewise, cores: float) -> _Shape:  # noqa: ARG001
    z, s = curve.corners
    slopes = np.diff(s) / np.diff(z)
    return _Shape(((1.0, 1.0), *zip(slopes.tolist(), np.diff(z).tolist(), strict=True)))


@_marginal.register
def _(curve: Usl, cores: float) -> _Shape:
    if curve.kappa == 0.0:  # without coherency cost the law is Amdahl's
        return _marginal(Amdahl(1.0 - curve.sigma), cores)
    return _sampled_marginal(curve, cores)


@_marginal.register
def _(curve: Capped, cores: float) -> _Shape:
    return _cut(_marginal(curve.curve, min(cores, curve.most)), curve.most, curve.most)


@singledispatch
def _index(curve: SpeedUp, cores: float) -> _Shape:
    return _sampled_index(curve, cores)


def _sampled_index(curve: SpeedUp, cores: float) -> _Shape:
    z = _nodes(curve, cores)
    z = z[z >= linear_width(curve, cores)]
    slope, speed = curve.slope_above(z), curve.rate_above(z)
    lag = speed - z * slope
    index = slope / np.maximum(lag, _LINEAR * speed)
    return _sampled((), z, np.minimum.accumulate(index))


@_index.register
def _(curve: Amdahl, cores: float) -> _Shape:  # noqa: ARG001
    if curve.p in (0.0, 1.0):
        return _Shape()
    odds = curve.p / (1.0 - curve.p)
    return _Shape((), INVERSE_ROOT, a=np.sqrt(odds), b=-1.0, start=odds)


@_index.register
def _(curve: PowerLaw, cores: float) -> _Shape:  # noqa: ARG001
    if curve.p in (0.0, 1.0):
        return _Shape()
    odds = curve.p / (1.0 - curve.p)
    return _Shape((), POWER, a=odds, b=1.0, start=odds)


@_index.register
def _(curve: Usl, cores: float) -> _Shape:
    if curve.kappa == 0.0:
        return _index(Amdahl(1.0 - curve.sigma), cores)
    return _sampled_index(curve, cores)


@_index.register
def _(curve: Gustafson, cores: float) -> _Shape:
    if curve.p in (0.0, 1.0):
        return _Shape()
    return _Shape(((curve.p / (1.0 - curve.p), max(cores - 1.0, 0.0)),))


@_index.register
def _(curve: Piecewise, cores: float) -> _Shape:
    z, s = curve.corners
    first = z[:-1] >= linear_width(curve, cores)
    slopes = (np.diff(s) / np.diff(z))[first]
    indices = slopes / (s[:-1][first] - z[:-1][first] * slopes)
    return _Shape(tuple(zip(indices.tolist(), np.diff(z)[first].tolist(), strict=True)))


@_index.register
def _(curve: Capped, cores: float) -> _Shape:
    priced = curve.most - linear_width(curve, cores)
    return _cut(_index(curve.curve, min(cores, curve.most)), priced, curve.most)


def _cut(shape: _Shape, priced: float, most: float) -> _Shape:
    """Return a shape cut at so many cores that are priced; a job may hold `most` in all."""
    pieces = []
    for slope, width in sorted(shape.pieces, reverse=True):
        kept = min(width, priced)
        priced = max(priced - width, 0.0)
        if kept > 0.0:
            pieces.append((slope, kept))
    cut = replace(shape, pieces=tuple(pieces), most=most)
    if shape.tail in (NO_TAIL, SAMPLED):  # a sampled one was sampled no farther
        return cut
    return replace(cut, tail=CUT_ROOT if shape.tail == INVERSE_ROOT else shape.tail, limit=priced)


def _straight(slope: float, cores: float) -> _Shape:
    """Return the shape of a curve that is one straight line above one core."""
    if slope == 1.0:
        return _Shape(((1.0, max(cores, 1.0)),))
    return _Shape(((1.0, 1.0), (slope, max(cores - 1.0, 0.0)))) if slope > 0.0 else _Shape(((1.0, 1.0),))


def _nodes(curve: SpeedUp, cores: float) -> Floats:
    """Return widths from one core to all, or to the peak; closer together about a kink."""
    top = min(max(cores, 1.0), curve.useful_cores)
    if top == 1.0:
        return np.ones(1)
    z = np.geomspace(1.0, top, _NODES)
    slope = curve.slope_above(z)
    limit = 8.0 * (slope[0] - slope[-1]) / _NODES
    for _ in range(_REFINEMENTS):
        steep = np.flatnonzero(-np.diff(slope) > limit)
        middle = 0.5 * (z[steep] + z[steep + 1])
        new = (middle > z[steep]) & (middle < z[steep + 1])
        if not new.any() or z.size > 4 * _NODES:
            break
        z = np.insert(z, steep[new] + 1, middle[new])
        slope = np.insert(slope, steep[new] + 1, curve.slope_above(middle[new]))
    return z


def _sampled(pieces: tuple[tuple[float, float], ...], z: Floats, price: Floats) -> _Shape:
    """Return the shape with nodes at widths z whose prices fall; z counts from its first value.

    Where the price stays the same a curve is straight, and that is a piece: all of it is bought at once.
    Where it is zero a curve is flat, and nothing is bought.
    """
    falling = np.minimum.accumulate(np.maximum(price, 0.0))
    rising = np.count_nonzero(falling) + 1  # and the width from which on the curve is flat
    falling, z = falling[:rising], z[:rising]
    straight = falling[1:] >= falling[:-1] * (1.0 - _STRAIGHT)
    first = np.flatnonzero(np.diff(straight, prepend=False) & straight)
    last = np.flatnonzero(np.diff(straight, append=False) & straight) + 1
    runs = zip(falling[first].tolist(), (z[last] - z[first]).tolist(), strict=True)
    extra = np.append(0.0, np.cumsum(np.where(straight, 0.0, np.diff(z)))) if first.size else z - z[0]
    nodes = np.stack([falling, extra], axis=1)[::-1]
    limit = float(extra[-1])
    return _Shape((*pieces, *runs), SAMPLED, start=float(falling[0]), nodes=nodes, limit=limit)


def _pack(shapes: list[_Shape], cores: float) -> Shapes:
    """Return the shapes of all classes as arrays for the kernels."""
    pieces = np.zeros((len(shapes), max(1, *(len(shape.pieces) for shape in shapes)), 2))
    sampled = [shape for shape in shapes if len(shape.nodes)]
    nodes = np.zeros((len(sampled), max(1, *(len(shape.nodes) for shape in shapes)), 2))
    for row, shape in zip(nodes, sampled, strict=True):
        row[:] = shape.nodes[0]
        row[-len(shape.nodes) :] = shape.nodes
    pieces[..., 0] = np.inf
    for i, shape in enumerate(shapes):
        for k, (slope, width) in enumerate(shape.pieces):
            pieces[i, k] = _root(slope), width
    rows = iter(range(len(sampled)))
    tails = [
        (
            *(shape.tail, next(rows) if len(shape.nodes) else shape.a, shape.b, _root(shape.start), cores),
            *(0.0 if shape.tail == NO_TAIL else shape.limit, shape.most),
        )
        for shape in shapes
    ]
    return Shapes(np.array(tails, dtype=np.float64), pieces, nodes)


def _root(slope: float) -> float:
    return 1.0 / math.sqrt(slope) if slope > 0.0 else math.inf
