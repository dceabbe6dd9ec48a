r"""Weights of jobs: what a unit of the work of each job is worth.

At the price ℓ of a core per unit of time a unit of work costs κ(ℓ) = min over z of (h + ℓ z)/s(z). *A unit of
a job's work is worth κ at the price that a core will have when the job completes.*

**The jobs present.** Try V = Σ w_k R_k for remaining works R, where job 1 completes last. The optimality
equation of a batch, min over z of Σ_{k≤m} (h_k − w_k s_k(z_k)) = 0 while m jobs are left, says that *the best
weighted speed of the m largest jobs is their cost*, for every m. By duality the least over ℓ of
ℓ c + Σ π_k(w_k, ℓ), with π(w, ℓ) = max over z of w s(z) − ℓ z, is Σ h_k. So

    w_m = max over ℓ of κ_m(ℓ; Σ_{k≤m} h_k − ℓ c − Σ_{k<m} π_k(w_k, ℓ)),
    κ(ℓ; x) = min over z of (x + ℓ z)/s(z):

a recursion, largest remaining work first, exact whenever jobs complete in that order; for power laws it is
heSRPT (Berg, Vesilo and Harchol-Balter 2020), on one server the shortest remaining time first. The prices
rise from step to step.

**Jobs to come** lift the price at which those present complete: with arrivals a pool drains at c (1 − load),
and everything present waits longer. Added to every weight is

    κ(ℓ (1 + g)) − κ(ℓ),    g = min(0.6 load/(1 − load), 8),

ℓ the last price of the recursion; 0.5 is what a price that rises linearly would give, 0.6 was found best on
Markov decision processes. No arrivals, no lift.

**Unknown remaining work**: a job is spread over bins of remaining work by its distribution, expected counts
by bin go through the recursion, and its weight is the mean of those of its bins.

**Exponential sizes** say nothing about single jobs: classes are then weighed by Whittle's index, κ at the
price that the jobs present pay; where jobs outnumber cores one core each, in order of h μ, the least
parallelisable first. That is within 0.03 % of the optimum for Examples 1 to 3 of the paper at loads of 0.5
to 0.95. Where mean sizes are 10 or 30 to 1 it was up to 0.9 and 1.3 % above it at load 0.7 and 0.2 % at 0.9,
the recursion 0.3 and 0.6 %.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from corewise.kit.arrays import Floats, Ints
from corewise.policies.jobs._kernels import Curves, batch_weights, index_price, lifts, unit_costs

__all__ = ["Groups", "index_weights", "lift_factor", "weights_of_groups"]

_SLOPE, _MOST_LIFT = 0.6, 8.0
_TIE = 1e-6
"""By which share of its weight a class comes after one that is otherwise alike."""


def lift_factor(load: float) -> float:
    """Return g, by which the price at completion is above the present one; `load` is the long-run load."""
    return _MOST_LIFT if load >= 1.0 else min(_SLOPE * load / (1.0 - load), _MOST_LIFT)


@dataclass(frozen=True, eq=False)
class Groups:
    """Groups of jobs with one curve and about the same remaining work.

    Attributes
    ----------
    kinds : ndarray of int
        The curve of each group.
    counts, costs : ndarray
        How many jobs there are, or are expected, and what one costs per unit of time.
    remaining : ndarray
        The work before them, in units of their cost.
    """

    kinds: Ints
    counts: Floats
    costs: Floats
    remaining: Floats


def weights_of_groups(curves: Curves, groups: Groups, cores: float, factor: float) -> tuple[Floats, float]:
    """Return the weights of groups, lifted by a factor g of the last price, and that price."""
    order = np.argsort(-groups.remaining, kind="stable")
    kinds, costs = groups.kinds[order], groups.costs[order]
    weights = np.empty(order.size)
    price = batch_weights(curves, kinds, groups.counts[order], costs, cores, weights)
    if factor > 0.0:
        lifted = np.empty(order.size)
        lifts(curves, kinds, costs, price, price * (1.0 + factor), lifted)
        weights += lifted
    found = np.empty(order.size)
    found[order] = weights
    return found, price


def index_weights(
    curves: Curves, kinds: Ints, costs: Floats, rates: Floats, ranks: Ints, cores: float
) -> tuple[Floats, float]:
    """Return the weights of jobs by Whittle's index, and the most cores that one may hold.

    `rates` are the size rates of their classes, `ranks` say who comes first among those alike.
    """
    if kinds.size >= cores:
        return costs * rates * (1.0 - _TIE * ranks), 1.0
    price = index_price(curves, kinds, costs, cores)
    weights = np.empty(kinds.size)
    unit_costs(curves, kinds, costs, price, weights)
    return weights, math.inf
