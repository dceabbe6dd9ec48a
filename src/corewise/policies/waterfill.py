r"""The concave split: who gets the cores when every job buys at one price.

The split that maximises Σ ω_i n_i s_i(x_i/n_i) with Σ x_i = c has a price η, the water level, at which every
job of class i takes a width z_i(η) with ω_i s_i'(z_i) = η. With ω_i = h_i μ_i that is the greedy split, with
ω_i = μ_i (V(n) − V(n − e_i)) the exact action of the Bellman equation; with the Whittle index in place of
the slope it is the Whittle policy. All three are this module, with other *shapes*.

The shape of a curve is its demand: the width that a job takes at the relative price q = η/ω,

    z(q) = (widths of all pieces with slope > q) + (extra(q) if q < start).

A *piece* is a straight part of the curve (all its width is bought at one price); the *tail* is the strictly
concave rest, in one of three forms:

    inverse square root   extra = a/√q + b          Amdahl, slope and index
    power                 extra = (a/q)^b − 1        power law, slope and index
    sampled               linear between nodes       any other curve

At a price where demand jumps, what is left of the cores is split in proportion to the jumps, or in a given
order. At price zero every class would take more, so no core is ever idle.

A sampled tail is exact only at its nodes; the loss in value is of second order in their distance. Where a
bound must hold regardless, `certified_split` measures that loss.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, singledispatch

import numpy as np
from numpy.typing import NDArray

from corewise.model.speedup import Amdahl, Array, Gustafson, PowerLaw, SpeedUp, Tabulated, Usl
from corewise.model.system import System
from corewise.policies import _kernels
from corewise.policies._kernels import INVERSE_ROOT, NO_TAIL, POWER, SAMPLED

__all__ = [
    "Shapes",
    "certified_split",
    "fill_in_order",
    "full_speeds",
    "index_shapes",
    "linear_width",
    "marginal_shapes",
    "ranked",
    "split",
]

_NODES = 4097
_LINEAR = 1e-12
_GOLDEN = 0.5 * (math.sqrt(5.0) - 1.0)
_REFINEMENTS = 45


@dataclass(frozen=True)
class _Shape:
    """The demand of one class: pieces in order of falling slope, then a tail."""

    pieces: tuple[tuple[float, float], ...] = ()
    tail: float = NO_TAIL
    a: float = 0.0
    b: float = 0.0
    start: float = 0.0
    nodes: Array = field(default_factory=lambda: np.empty((0, 2)))


@dataclass(frozen=True, eq=False)
class Shapes:
    """The demand of every class, as arrays for the kernels."""

    tails: Array
    pieces: Array
    nodes: Array

    @cached_property
    def closed(self) -> bool:
        """Whether every class has at most one piece and no tail but Amdahl's: then the level is closed."""
        return self.pieces.shape[1] == 1 and bool(np.all(self.tails[:, 0] <= INVERSE_ROOT))

    @cached_property
    def sampled(self) -> bool:
        """Whether some class has a sampled tail, whose split is not exact."""
        return bool(np.any(self.tails[:, 0] == SAMPLED))


def split(
    shapes: Shapes,
    counts: NDArray[np.int64],
    prices: Array,
    budget: Array,
    *,
    ranks: NDArray[np.int64] | None = None,
) -> Array:
    """Return the cores per class, shape (K, states).

    Parameters
    ----------
    shapes : Shapes
        The demand of each class, from `marginal_shapes` or `index_shapes`.
    counts : ndarray of int, shape (K, states)
        Jobs of each class.
    prices : ndarray, shape (K,) or (K, states)
        ω, what a class offers.
    budget : ndarray, shape (states,)
        The cores to share.
    ranks : ndarray of int, shape (K,), optional
        Who goes first where demand jumps; in proportion to the jumps if not given.
    """
    if ranks is None and shapes.closed:
        cores = np.empty(counts.shape)
        offers = _offers(prices, counts)
        _kernels.split_closed_states(shapes.tails, shapes.pieces, counts, offers, budget, cores)
        return cores
    return _split_with_levels(shapes, counts, prices, budget, ranks)[0]


def _offers(prices: Array, counts: NDArray[np.int64]) -> Array:
    if prices.shape == counts.shape:
        return prices
    return np.ascontiguousarray(np.broadcast_to(prices.reshape(len(counts), -1), counts.shape))


def _split_with_levels(
    shapes: Shapes,
    counts: NDArray[np.int64],
    prices: Array,
    budget: Array,
    ranks: NDArray[np.int64] | None,
) -> tuple[Array, Array]:
    """Return the cores per class and the price η of every state."""
    order = np.zeros(len(counts), dtype=np.int64) if ranks is None else ranks
    cores, levels = np.empty(counts.shape), np.empty(counts.shape[1])
    _kernels.split_states(
        shapes.tails,
        shapes.pieces,
        shapes.nodes,
        counts,
        _offers(prices, counts),
        budget,
        order,
        cores,
        levels,
    )
    return cores, levels


def certified_split(
    system: System, shapes: Shapes, counts: NDArray[np.int64], prices: Array
) -> tuple[Array, Array]:
    """Return the split of all cores, and for every state a bound on what a better one could add.

    For any price η ≥ 0, no split has more than η c + Σ n_i max_z (ω_i s_i(z) − η z). At the price of the
    split only sampled tails can fall short of that maximum. The bounds are empty for shapes without any;
    they are zero where one class takes all.
    """
    budget = np.full(counts.shape[1], system.cores)
    if not shapes.sampled:
        return split(shapes, counts, prices, budget), np.empty(0)
    cores, eta = _split_with_levels(shapes, counts, prices, budget, None)
    shared = np.flatnonzero((counts > 0).sum(axis=0) > 1)
    gap = np.zeros(counts.shape[1])
    for i in np.flatnonzero(shapes.tails[:, 0] == SAMPLED).tolist():
        job_class = system.classes[i]
        curve, jobs, offer = job_class.speedup, counts[i, shared], np.maximum(prices[i, shared], 0.0)
        width = cores[i, shared] / np.maximum(jobs, 1)
        here = offer * curve.rate(width) - eta[shared] * width
        best = _conjugate(curve, offer, eta[shared], system.cores)
        gap[shared] += jobs * np.maximum(best - here, 0.0)
    return cores, gap


def fill_in_order(wanted: Array, budget: Array, ranks: NDArray[np.int64]) -> Array:
    """Give each class what it wants, lowest rank first, while the budget lasts; shapes (K, states).

    Classes of one rank share in proportion to what they want.
    """
    given = np.empty(wanted.shape)
    _kernels.fill_states(wanted, budget, ranks, given)
    return given


def ranked(keys: Sequence[tuple[float, ...]]) -> NDArray[np.int64]:
    """Return the rank of each key in rising order; equal keys share a rank."""
    order = sorted(set(keys))
    return np.array([order.index(key) for key in keys], dtype=np.int64)


def full_speeds(system: System) -> list[float]:
    """Return s_i(c), how fast a job of each class runs on all cores: its parallelisability."""
    return [float(job_class.speedup.rate(system.cores)) for job_class in system.classes]


def linear_width(curve: SpeedUp, cores: float) -> float:
    """Return the width up to which s(z) = z, at least one core."""
    if isinstance(curve, Amdahl | PowerLaw | Gustafson):
        return max(1.0, cores) if curve.p == 1.0 else 1.0
    if isinstance(curve, Usl):
        return max(1.0, cores) if curve.sigma == curve.kappa == 0.0 else 1.0
    if isinstance(curve, Tabulated):
        z, s = curve.corners
    else:
        z = _nodes(curve, cores)
        s = curve.rate(z)
    return float(z[s >= z * (1.0 - _LINEAR)].max(initial=1.0))


def marginal_shapes(system: System) -> Shapes:
    """Return the demand at a price for speed: ω s'(z) = η."""
    return _pack([_marginal(job_class.speedup, system.cores) for job_class in system.classes], system.cores)


def index_shapes(system: System) -> Shapes:
    """Return the demand at a price for cores, above the part where s(z) = z: W(z) = ℓ."""
    return _pack([_index(job_class.speedup, system.cores) for job_class in system.classes], system.cores)


def _conjugate(curve: SpeedUp, offer: Array, eta: Array, cores: float) -> Array:
    """Return max over z in [0, c] of ω s(z) − η z, a concave function, by golden-section search."""

    def surplus(z: Array) -> Array:
        return np.asarray(offer * curve.rate(z) - eta * z)

    low, high = np.zeros(eta.shape), np.full(eta.shape, cores)
    best = np.maximum(surplus(low), surplus(high))
    for _ in range(80):
        left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
        at_left, at_right = surplus(left), surplus(right)
        best = np.maximum(best, np.maximum(at_left, at_right))
        rising = at_left < at_right
        low, high = np.where(rising, left, low), np.where(rising, high, right)
    return best


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
def _(curve: Tabulated, cores: float) -> _Shape:  # noqa: ARG001
    z, s = curve.corners
    slopes = np.diff(s) / np.diff(z)
    return _Shape(((1.0, 1.0), *zip(slopes.tolist(), np.diff(z).tolist(), strict=True)))


@_marginal.register
def _(curve: Usl, cores: float) -> _Shape:
    if curve.kappa == 0.0:  # without coherency cost the law is Amdahl's
        return _marginal(Amdahl(1.0 - curve.sigma), cores)
    return _sampled_marginal(curve, cores)


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
def _(curve: Tabulated, cores: float) -> _Shape:
    z, s = curve.corners
    first = z[:-1] >= linear_width(curve, cores)
    slopes = (np.diff(s) / np.diff(z))[first]
    indices = slopes / (s[:-1][first] - z[:-1][first] * slopes)
    return _Shape(tuple(zip(indices.tolist(), np.diff(z)[first].tolist(), strict=True)))


def _straight(slope: float, cores: float) -> _Shape:
    """Return the shape of a curve that is one straight line above one core."""
    if slope == 1.0:
        return _Shape(((1.0, max(cores, 1.0)),))
    return _Shape(((1.0, 1.0), (slope, max(cores - 1.0, 0.0)))) if slope > 0.0 else _Shape(((1.0, 1.0),))


def _nodes(curve: SpeedUp, cores: float) -> Array:
    """Return widths from one core to all, or to the peak; closer together about a kink."""
    top = min(max(cores, 1.0), curve.peak) if isinstance(curve, Usl) else max(cores, 1.0)
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


def _sampled(pieces: tuple[tuple[float, float], ...], z: Array, price: Array) -> _Shape:
    """Return the shape with nodes at widths z whose prices fall; z counts from its first value."""
    falling = np.minimum.accumulate(np.maximum(price, 0.0))
    nodes = np.stack([falling, z - z[0]], axis=1)[::-1]
    return _Shape(pieces, SAMPLED, start=float(falling[0]), nodes=nodes)


def _pack(shapes: list[_Shape], cores: float) -> Shapes:
    """Return the shapes of all classes as arrays for the kernels."""
    pieces = np.zeros((len(shapes), max(1, *(len(shape.pieces) for shape in shapes)), 2))
    nodes = np.zeros((len(shapes), max(1, *(len(shape.nodes) for shape in shapes)), 2))
    pieces[..., 0] = np.inf
    for i, shape in enumerate(shapes):
        for k, (slope, width) in enumerate(shape.pieces):
            pieces[i, k] = _root(slope), width
        if len(shape.nodes):
            nodes[i] = shape.nodes[0]
            nodes[i, -len(shape.nodes) :] = shape.nodes
    tails = [(shape.tail, shape.a, shape.b, _root(shape.start), cores) for shape in shapes]
    return Shapes(np.array(tails, dtype=np.float64), pieces, nodes)


def _root(slope: float) -> float:
    return 1.0 / math.sqrt(slope) if slope > 0.0 else math.inf
