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

**While few jobs are present** the price is below its long-run level, and a job that takes long completes
when arrivals have built the crowd up again. The long-run price ℓ̄ is that of the fluid, where widths of least
unit cost take all cores, Σ ρ_i z_i(ℓ̄)/s_i(z_i(ℓ̄)) = c, and a weight w below κ(ℓ̄) becomes

    w + F(θ R) (κ(ℓ̄) − w),    θ = h/(h + ℓ̄ z(ℓ̄)),

R the remaining work and F(r) the share of the long-run crowd that is there after every job has done the work
r: the distribution of the equilibrium remaining work of the job mix, 1 − E[X − r; X > r]/E[X]. θ is the rate
at which the fluid returns to its equilibrium, one less the elasticity of s at z(ℓ̄): the more parallelisable
the jobs, the slower, and the less matters the fluid price. In a crowd, at load 0, and where curves are so
parallelisable that the fluid needs hardly any job, nothing changes.

**Unknown remaining work**: a job is spread over bins of remaining work by its distribution, expected counts
by bin go through the recursion, and its weight is the mean of those of its bins.

**Exponential sizes** say nothing about single jobs, but mean sizes do about classes. Where these differ less
than the curves do (less than the square of κ at ℓ̄), classes are weighed by Whittle's index, κ at the price
that the jobs present pay; where jobs outnumber cores one core each, in order of h μ, the least parallelisable
first. That is within 0.03 % of the optimum for Examples 1 to 3 of the paper at loads of 0.5 to 0.95.
Elsewhere the recursion decides, by counts alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from corewise.kit.arrays import Floats, Ints
from corewise.model.system import System
from corewise.policies.jobs._kernels import (
    PER_OCTAVE,
    Bins,
    Crowd,
    Curves,
    batch_weights,
    cores_by_counts,
    crowd_price,
    lifts,
    revert,
    unit_costs,
)
from corewise.policies.jobs.curves import curve_of, packed
from corewise.policies.jobs.remaining import RemainingWork

__all__ = [
    "NO_CROWD",
    "Groups",
    "crowd_of",
    "lift_factor",
    "recursion_by_counts",
    "sizes_differ",
    "weights_of_groups",
]

_SLOPE, _MOST_LIFT = 0.6, 8.0
_LASTING = _MOST_LIFT / (_SLOPE + _MOST_LIFT)
"""The load from which on the lift is the same; the fluid of a higher one needs no finite price."""

_SMALL, _LARGE = -8, 12
"""Octaves of work, around mean sizes, over which a crowd is built up."""

NO_CROWD = Crowd(0.0, 0.0, np.zeros(1))
"""The crowd where no job is to come."""

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


def weights_of_groups(
    curves: Curves, groups: Groups, cores: float, factor: float, crowd: Crowd = NO_CROWD
) -> tuple[Floats, float]:
    """Return the weights of groups, lifted by a factor g of the last price, and that price."""
    order = np.argsort(-groups.remaining, kind="stable")
    kinds, costs = groups.kinds[order], groups.costs[order]
    weights = np.empty(order.size)
    price = batch_weights(curves, kinds, groups.counts[order], costs, cores, weights)
    if factor > 0.0:
        lifted = np.empty(order.size)
        lifts(curves, kinds, costs, price, price * (1.0 + factor), lifted)
        weights += lifted
        revert(curves, kinds, costs, groups.remaining[order] * costs, crowd, weights)
    found = np.empty(order.size)
    found[order] = weights
    return found, price


def crowd_of(system: System, load: float) -> Crowd:
    """Return the crowd in the long run; classes of unknown arrival rates bring equal shares of the work."""
    if load <= 0.0 or np.isnan(system.size_rates).any():
        return NO_CROWD
    means = 1.0 / system.size_rates
    brought = system.arrival_rates * means
    shares = np.ones(means.size) if np.isnan(brought).any() else brought
    shares = shares / shares.sum()
    work_rates = min(load, _LASTING) * system.cores * shares
    price = crowd_price(_curves(system), system.weights, work_rates, system.cores)
    first = math.floor(math.log2(means.min())) + _SMALL
    octaves = math.ceil(math.log2(means.max())) + _LARGE - first
    works = np.exp2(first + np.arange(octaves * PER_OCTAVE + 1) / PER_OCTAVE)
    built = np.zeros(works.size)
    for share, mean, job_class in zip(shares, means, system.classes, strict=True):
        beyond = job_class.sizes.survival(works / mean)
        with np.errstate(divide="ignore", invalid="ignore"):
            left = job_class.sizes.mean_residual(works / mean)
        built += share * (1.0 - np.where(beyond > 0.0, left * beyond, 0.0))
    return Crowd(price, float(first), built)


def _curves(system: System) -> Curves:
    """Return the curves of the classes, in their order."""
    return packed([curve_of(job_class.curve, system.cores) for job_class in system.classes])


def sizes_differ(system: System, load: float) -> bool:
    """Return whether mean sizes of classes differ by more than the square of κ at the long-run price."""
    price = crowd_of(system, load).price
    if not price > 0.0:
        return False
    kappa, means = np.empty(len(system.classes)), 1.0 / (system.size_rates * system.weights)
    unit_costs(_curves(system), np.arange(kappa.size), np.ones(kappa.size), price, kappa)
    return bool(means.max() / means.min() > (1.0 + _TIE) * (kappa.max() / kappa.min()) ** 2)


def recursion_by_counts(system: System, load: float, widest: float, counts: Ints) -> Floats:
    """Return the cores of classes whose jobs are alike, both of shape (classes, states), by the recursion."""
    works = [RemainingWork(job_class) for job_class in system.classes]
    chances = [work.probabilities(np.zeros(1))[0] for work in works]
    classes = np.repeat(np.arange(len(works)), [row.size for row in chances])
    costs, middles = system.weights[classes], np.concatenate([work.middles for work in works])
    order = np.argsort(-middles / costs, kind="stable")
    bins = Bins(classes[order], costs[order], middles[order], np.concatenate(chances)[order])
    out = np.zeros(counts.shape)
    crowd, factor = crowd_of(system, load), lift_factor(load)
    cores_by_counts(
        _curves(system), bins, crowd, factor, system.cores, widest, np.ascontiguousarray(counts), out
    )
    return out
