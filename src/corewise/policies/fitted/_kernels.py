"""Compiled values, offers and drifts of a fitted value function; see `corewise.policies.fitted.values`.

No kernel here counts references to arrays, so that those of one role come as one tuple.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from corewise.kit._kernels import njit_norefs
from corewise.kit.arrays import Bools, Floats, Ints
from corewise.policies.waterfill._kernels import Demands

__all__ = [
    "EXCESS",
    "INVERSE",
    "LINEAR",
    "LOGARITHM",
    "ROOT",
    "SATURATION",
    "SQUARED_EXCESS",
    "ZERO",
    "FittedArrays",
    "ValueArrays",
    "fitted_drift",
    "fitted_drifts",
    "fitted_offers",
    "function_of",
    "functions_of",
    "offers_of_states",
]


LINEAR, SATURATION, INVERSE, ROOT, LOGARITHM, ZERO, EXCESS, SQUARED_EXCESS = range(8)
RATE, LEAST, MOST = 0, 1, 2  # the columns of `guards`
ALONE, TIMES_ALL = np.int64(0), np.int64(1)  # the parts of `own`; literals would each have a version compiled


class ValueArrays(NamedTuple):
    """Fitted value function, as kernels take it.

    Attributes
    ----------
    shapes : ndarray, shape (F, 2)
        ``shapes[f]`` = (kind, scale): a function of the jobs of one class.
    own : ndarray, shape (2, K, F)
        How much of it there is for class i, alone and times all jobs.
    functions : ndarray, shape (B, 3)
        ``functions[b]`` = (kind, scale, base): a function of all jobs, and what it is multiplied with.
    slopes : ndarray, shape (B, K)
        The rest of that factor, per job of class i.
    products : ndarray, shape (A, 2, K)
        The two factors of a product, per job of class i.
    """

    shapes: Floats
    own: Floats
    functions: Floats
    slopes: Floats
    products: Floats


class FittedArrays(NamedTuple):
    """Decision by fitted values, as kernels take it; see `corewise.policies.fitted.rule`.

    Attributes
    ----------
    guards : ndarray, shape (K + 1, 3)
        (μ, least offer, most jobs) of each class, and in the last row (cores, 0, most jobs of all).
    values : ValueArrays
        V.
    demands, single : Demands
        What every class buys at a price for speed, and what if no job can use more than one core.
    """

    guards: Floats
    values: ValueArrays
    demands: Demands
    single: Demands


@njit_norefs
def function_of(kind: float, scale: float, jobs: float) -> float:
    """Return n, n/(n + a), 1/(n + a), √n, log(1 + n), 1{n = 0}, (n − a)₊ or its square."""
    if kind == LINEAR:
        return jobs
    if kind == SATURATION:
        return jobs / (jobs + scale)
    if kind == INVERSE:
        return 1.0 / (jobs + scale)
    if kind == ROOT:
        return math.sqrt(jobs)
    if kind == LOGARITHM:
        return math.log1p(jobs)
    if kind == ZERO:
        return 1.0 if jobs == 0.0 else 0.0
    excess = max(jobs - scale, 0.0)
    return excess if kind == EXCESS else excess * excess


@njit(cache=True, nogil=True)
def functions_of(functions: Floats, jobs: Floats, rows: Floats) -> None:
    """Write the values of every function, rows (kind, scale, …), for every number of jobs."""
    for b in range(functions.shape[0]):
        for s in range(jobs.size):
            rows[b, s] = function_of(functions[b, 0], functions[b, 1], jobs[s])


@njit_norefs
def own_sum(shapes: Floats, own: Floats, k: int, i: int, jobs: float) -> float:
    """Return the sum of the functions of class i alone, k = 0, or of those that are multiplied by N, k = 1.

    Indices and not a slice of `own`: that would be an array, counted in and out at every call.
    """
    total = 0.0
    for f in range(shapes.shape[0]):
        if own[k, i, f] != 0.0:
            total += own[k, i, f] * function_of(shapes[f, 0], shapes[f, 1], jobs)
    return total


@njit_norefs
def own_step(shapes: Floats, own: Floats, k: int, i: int, jobs: float) -> float:
    """Return what it rises by from n − 1 to n ≥ 1 jobs."""
    return float(own_sum(shapes, own, k, i, jobs) - own_sum(shapes, own, k, i, jobs - 1.0))


@njit_norefs
def nearest_seen(counts: Ints, guards: Floats, jobs: Floats) -> bool:
    """Write the jobs of the nearest state that was seen, and return whether it is another one.

    Counts are cut to the most of each class, then all in proportion to the most of all; but where there is a
    job, at least one is left.
    """
    cut = 0.0
    for i in range(counts.size):
        jobs[i] = min(float(counts[i]), guards[i, MOST])
        cut += jobs[i]
    factor, other = min(guards[counts.size, MOST] / max(cut, 1.0), 1.0), False
    for i in range(counts.size):
        if counts[i] > 0:
            jobs[i] = max(factor * jobs[i], 1.0)
            other |= jobs[i] != counts[i]
    return other


@njit_norefs
def fitted_offers(counts: Ints, guards: Floats, values: ValueArrays, jobs: Floats, offers: Floats) -> bool:
    """Write the offers ω_i = μ_i (V(n) − V(n − e_i)) of one state, guarded; zero for a class without jobs.

    `jobs` is room for as many numbers. Returns whether a job may hold at most one core, since the state is
    beyond those that were seen and there are as many jobs as cores.
    """
    classes = counts.size
    shapes, own, functions, slopes, products = values
    beyond = nearest_seen(counts, guards, jobs)
    total, present, common = 0.0, 0, 0.0
    for i in range(classes):
        total += jobs[i]
        present += counts[i]
        common += own_sum(shapes, own, TIMES_ALL, i, jobs[i])
        offers[i] = 0.0
    for b in range(functions.shape[0]):
        here = function_of(functions[b, 0], functions[b, 1], total)
        before = function_of(functions[b, 0], functions[b, 1], max(total - 1.0, 0.0))
        factor = functions[b, 2]
        for i in range(classes):
            factor += slopes[b, i] * jobs[i]
            offers[i] += before * slopes[b, i]
        common += (here - before) * factor
    for a in range(products.shape[0]):
        first, second = 0.0, 0.0
        for i in range(classes):
            first += products[a, 0, i] * jobs[i]
            second += products[a, 1, i] * jobs[i]
        for i in range(classes):
            g, m = products[a, 0, i], products[a, 1, i]
            offers[i] += first * m + second * g - g * m
    for i in range(classes):
        if counts[i] == 0:
            offers[i] = 0.0
            continue
        worth = common + offers[i] + own_step(shapes, own, ALONE, i, jobs[i])
        worth += (total - 1.0) * own_step(shapes, own, TIMES_ALL, i, jobs[i])
        offers[i] = max(guards[i, RATE] * worth, guards[i, LEAST])
    return bool(beyond and present >= guards[classes, RATE])


@njit(cache=True, nogil=True)
def offers_of_states(
    counts: Ints, guards: Floats, values: ValueArrays, offers: Floats, single: Bools
) -> None:
    """Do as `fitted_offers` for counts and offers of shape (K, states)."""
    n, jobs, out = (
        np.empty(counts.shape[0], dtype=np.int64),
        np.empty(counts.shape[0]),
        np.empty(counts.shape[0]),
    )
    for s in range(counts.shape[1]):
        for i in range(n.size):
            n[i] = counts[i, s]
        single[s] = fitted_offers(n, guards, values, jobs, out)
        for i in range(n.size):
            offers[i, s] = out[i]


@njit_norefs
def fitted_drift(counts: Ints, leaving: Floats, arrivals: Floats, values: ValueArrays) -> float:
    """Return (QV)(n) of one state: arrivals at rates λ, departures at rates `leaving`."""
    shapes, own, functions, slopes, products = values
    total, coming, going, drift = 0.0, 0.0, 0.0, 0.0
    for i in range(counts.size):
        total += counts[i]
        coming += arrivals[i]
        going += leaving[i]
    for i in range(counts.size):
        jobs = float(counts[i])
        up = own_step(shapes, own, ALONE, i, jobs + 1.0) + (total + 1.0) * own_step(
            shapes, own, TIMES_ALL, i, jobs + 1.0
        )
        drift += arrivals[i] * up + (coming - going) * own_sum(shapes, own, TIMES_ALL, i, jobs)
        if counts[i] > 0:
            down = own_step(shapes, own, ALONE, i, jobs) + (total - 1.0) * own_step(
                shapes, own, TIMES_ALL, i, jobs
            )
            drift -= leaving[i] * down
    for b in range(functions.shape[0]):
        kind, scale, factor = functions[b, 0], functions[b, 1], functions[b, 2]
        here, after = function_of(kind, scale, total), function_of(kind, scale, total + 1.0)
        before = function_of(kind, scale, max(total - 1.0, 0.0))
        for i in range(counts.size):
            factor += slopes[b, i] * counts[i]
            drift += slopes[b, i] * (after * arrivals[i] - before * leaving[i])
        drift += factor * (coming * (after - here) - going * (here - before))
    for a in range(products.shape[0]):
        first, second, first_drift, second_drift = 0.0, 0.0, 0.0, 0.0
        for i in range(counts.size):
            g, m, net = products[a, 0, i], products[a, 1, i], arrivals[i] - leaving[i]
            first += g * counts[i]
            second += m * counts[i]
            first_drift += g * net
            second_drift += m * net
            drift += g * m * (arrivals[i] + leaving[i])
        drift += first * second_drift + second * first_drift
    return drift


@njit(cache=True, nogil=True)
def fitted_drifts(
    counts: Ints, leaving: Floats, arrivals: Floats, values: ValueArrays, drifts: Floats
) -> None:
    """Do as `fitted_drift` for counts and departure rates of shape (K, states)."""
    n, d = np.empty(counts.shape[0], dtype=np.int64), np.empty(counts.shape[0])
    for s in range(counts.shape[1]):
        for i in range(n.size):
            n[i], d[i] = counts[i, s], leaving[i, s]
        drifts[s] = fitted_drift(n, d, arrivals, values)
