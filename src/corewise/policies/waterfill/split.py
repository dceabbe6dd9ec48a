r"""Water-filling: the optimal concave split of the cores, in which every job buys at one price.

The split that maximises Σ ω_i n_i s_i(x_i/n_i) with Σ x_i = c has a price η, the water level, at which every
job of class i takes a width z_i(η) with ω_i s_i'(z_i) = η. With ω_i = h_i μ_i that is the greedy split, with
ω_i = μ_i (V(n) − V(n − e_i)) the exact action of the Bellman equation; with the Whittle index in place of the
slope it is the Whittle policy. Demands are `corewise.policies.waterfill.demand`. Where ω does not depend on
the state, a split is a list of steps (`corewise.policies.waterfill.levels.steps`), and this module is for
where it does.

At a price where demand jumps, what is left of the cores is split in proportion to the jumps. At price zero
every job would take more, up to its `max_cores`: a core is idle only if all jobs hold as many as they may.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from corewise.kit.arrays import Floats, Ints
from corewise.model.speedup import SpeedUp
from corewise.model.system import System
from corewise.policies.waterfill import _kernels
from corewise.policies.waterfill._kernels import SAMPLED
from corewise.policies.waterfill.demand import Shapes

__all__ = ["certified_split", "full_speeds", "priced_split", "ranked", "split"]

_GOLDEN = 0.5 * (math.sqrt(5.0) - 1.0)


def split(shapes: Shapes, counts: Ints, prices: Floats, budget: Floats) -> Floats:
    """Return the optimal split: cores per class, shape (K, states).

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
    """
    if not shapes.closed:
        return priced_split(shapes, counts, prices, budget)[0]
    cores = np.empty(counts.shape)
    offers = _offers(prices, counts)
    _kernels.split_closed_states(*shapes.closed_terms, counts, offers, budget, cores)
    return cores


def priced_split(shapes: Shapes, counts: Ints, prices: Floats, budget: Floats) -> tuple[Floats, Floats]:
    """Return the optimal split for shapes of any kind, and the water level, the price η, of every state."""
    cores, water_levels = np.empty(counts.shape), np.empty(counts.shape[1])
    _kernels.split_states(*shapes.arrays, counts, _offers(prices, counts), budget, cores, water_levels)
    return cores, water_levels


def _offers(prices: Floats, counts: Ints) -> Floats:
    if prices.shape == counts.shape:
        return prices
    return np.ascontiguousarray(np.broadcast_to(prices.reshape(len(counts), -1), counts.shape))


def certified_split(system: System, shapes: Shapes, counts: Ints, prices: Floats) -> tuple[Floats, Floats]:
    """Return the split of all cores, and for every state a bound on what a better one could add.

    For any price η ≥ 0, no split has more than η c + Σ n_i max_z (ω_i s_i(z) − η z). At the price of the
    split only sampled tails can fall short of that maximum. The bounds are empty for shapes without any;
    they are zero where one class takes all it can use.
    """
    budget = np.full(counts.shape[1], system.cores)
    if not shapes.sampled:
        return split(shapes, counts, prices, budget), np.empty(0)
    cores, eta = priced_split(shapes, counts, prices, budget)
    shared = np.flatnonzero((counts > 0).sum(axis=0) > 1)
    gap = np.zeros(counts.shape[1])
    for i in np.flatnonzero(shapes.tails[:, 0] == SAMPLED).tolist():
        job_class = system.classes[i]
        curve, jobs, offer = job_class.curve, counts[i, shared], np.maximum(prices[i, shared], 0.0)
        width = cores[i, shared] / np.maximum(jobs, 1)
        here = offer * curve.rate(width) - eta[shared] * width
        best = _conjugate(curve, offer, eta[shared], system.cores)
        gap[shared] += jobs * np.maximum(best - here, 0.0)
    return cores, gap


def ranked(keys: Sequence[tuple[float, ...]]) -> Ints:
    """Return the rank of each key in rising order; equal keys share a rank."""
    order = sorted(set(keys))
    return np.array([order.index(key) for key in keys], dtype=np.int64)


def full_speeds(system: System) -> list[float]:
    """Return s_i(c), how fast a job of each class runs on all cores: its parallelisability."""
    return [float(job_class.curve.rate(system.cores)) for job_class in system.classes]


def _conjugate(curve: SpeedUp, offer: Floats, eta: Floats, cores: float) -> Floats:
    """Return max over z in [0, c] of ω s(z) − η z, a concave function, by golden-section search."""

    def surplus(z: Floats) -> Floats:
        return np.asarray(offer * curve.rate(z) - eta * z)

    low, high = np.zeros(eta.shape), np.full(eta.shape, cores)
    best = np.maximum(surplus(low), surplus(high))
    for _ in range(80):
        lower, upper = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
        at_lower, at_upper = surplus(lower), surplus(upper)
        best = np.maximum(best, np.maximum(at_lower, at_upper))
        rising = at_lower < at_upper
        low, high = np.where(rising, lower, low), np.where(rising, high, upper)
    return best
