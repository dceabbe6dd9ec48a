r"""One decision per job, compiled: from arrays of jobs to shares or whole cores.

`JobLevels.allocate_jobs` and the simulator make it in the same way. Jobs of known remaining work go through
the recursion of `corewise.policies.jobs.weights` one by one while they are few, otherwise by class and
quarter octave of remaining work; jobs of unknown remaining work by class and bin. So the recursion takes a
time that depends on the groups, not on the jobs.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from corewise.kit._kernels import tiered
from corewise.kit.arrays import Bools, Floats, Int, Ints
from corewise.policies.jobs._kernels import (
    RARE,
    Crowd,
    Curves,
    batch_weights,
    greedy_widths,
    index_price,
    knapsack,
    lifts,
    revert,
    unit_costs,
    water_fill,
)

__all__ = [
    "FIRST_OCTAVE",
    "IndexRule",
    "JobList",
    "Residuals",
    "decide",
    "job_weights",
    "widths_of_most_value",
]

FIRST_OCTAVE = -10
"""The octave of attained work, in mean sizes, from which on `Residuals` have nodes, beside that of none."""

_SORTED = 512
"""Numbers up to which insertion sort is the quicker one."""
_TIE = 1e-6
"""By which share of its weight a class comes after one that is otherwise alike."""
_FIRST = 1e6
"""What a core is worth to a job that has waited too long, over all that the others could gain."""
_EXACT_JOBS, _EXACT_CORES = 20, 64
"""Up to so many jobs, or so many cores, the knapsack is solved exactly."""


class Residuals(NamedTuple):
    """Remaining work of jobs that do not say it, by class, node of attained work and bin.

    Attributes
    ----------
    parts : ndarray of int
        The nodes per octave of attained work, by class.
    nodes : ndarray of int
        The nodes of each class: none, then those from 2^`FIRST_OCTAVE` mean sizes on.
    starts : ndarray of int
        Where the probabilities of a class begin.
    probabilities : ndarray
        The probability of each bin at each node of each class.
    first_bins : ndarray of int
        Where the bins of each class begin, one more than classes.
    middles : ndarray
        The work in the middle of each bin.
    """

    parts: Ints
    nodes: Ints
    starts: Ints
    probabilities: Floats
    first_bins: Ints
    middles: Floats


class IndexRule(NamedTuple):
    """What decides beside the jobs.

    Attributes
    ----------
    cores : float
        The cores there are.
    costs, size_rates : ndarray
        The weight and the size rate of each class.
    ranks : ndarray of int
        Who comes first of classes that are otherwise alike.
    alike : ndarray
        The size of the jobs of a class if all have the same, else NaN.
    factor : float
        By how much the price at completion is above the present one.
    widest : float
        How many times the equal share a job may hold.
    longest_wait : float
        After how long without a core a job comes first.
    one_by_one : int
        Jobs of known remaining work up to which they go through the recursion one by one.
    by_class : bool
        Whether jobs of unknown remaining work are told apart by their classes alone.
    crowd : Crowd
        The crowd of jobs in the long run.
    residuals : Residuals
        The remaining work of jobs that do not say it.
    """

    cores: float
    costs: Floats
    size_rates: Floats
    ranks: Ints
    alike: Floats
    factor: float
    widest: float
    longest_wait: float
    one_by_one: int
    by_class: bool
    crowd: Crowd
    residuals: Residuals


class JobList(NamedTuple):
    """Jobs of a decision.

    Attributes
    ----------
    classes, kinds : ndarray of int
        The class and the curve of each; all jobs with one curve are of one class.
    attained, remaining : ndarray
        The work done and the work left, NaN if that is not known.
    held, waited : ndarray
        The cores it holds, and for how long it has held none.
    lows, highs : ndarray
        The fewest and the most cores it may hold, if any.
    moves : ndarray of bool
        Whether other cores than those it holds cost it a pause.
    """

    classes: Ints
    kinds: Ints
    attained: Floats
    remaining: Floats
    held: Floats
    waited: Floats
    lows: Floats
    highs: Floats
    moves: Bools


@njit(cache=True, error_model="numpy")
def _node(rule: IndexRule, i: Int, attained: float) -> tuple[int, float]:
    """Return the node of class i below an attained work, and the share of the node above it."""
    table = rule.residuals
    done = attained * rule.size_rates[i]
    if not done > 0.0:
        return 0, 0.0
    if done < 2.0**FIRST_OCTAVE:
        return 0, float(done / 2.0**FIRST_OCTAVE)
    part, octave = math.frexp(done)  # done = part 2^octave, part from 1/2 to 1
    place = (octave - 1 - FIRST_OCTAVE + 2.0 * part - 1.0) * table.parts[i]
    k = int(place)
    if k >= table.nodes[i] - 2:
        return int(table.nodes[i] - 2), 1.0
    return k + 1, place - k


@njit(cache=True, error_model="numpy")
def _sort_by_work(order: Ints, left: Floats) -> None:
    """Sort positions by the work left, the largest first; of those with equal work the order stays."""
    n = order.size
    if n > _SORTED:
        keys = np.empty(n)
        for k in range(n):
            keys[k] = -left[order[k]]
        order[:] = order[np.argsort(keys, kind="mergesort")]
        return
    for k in range(1, n):
        g = order[k]
        at = k
        while at > 0 and left[order[at - 1]] < left[g]:
            order[at] = order[at - 1]
            at -= 1
        order[at] = g


@njit(cache=True, error_model="numpy")
def _known_order(held: Floats, known: Floats) -> Ints:
    """Return the jobs of known remaining work, those that hold least first, the last listed first.

    Of jobs with equal work the one that holds most is to complete first.
    """
    sure = np.flatnonzero(~np.isnan(known))[::-1].copy()
    if sure.size > _SORTED:
        return sure[np.argsort(held[sure], kind="mergesort")]
    for k in range(1, sure.size):
        j = sure[k]
        at = k
        while at > 0 and held[sure[at - 1]] > held[j]:
            sure[at] = sure[at - 1]
            at -= 1
        sure[at] = j
    return sure


@njit(cache=True, error_model="numpy")
def _binned(sure: Ints, classes: Ints, left: Floats, member: Ints) -> tuple[Ints, Floats, Floats]:
    """Return groups of jobs of a class within a quarter octave of work: their first job, number and work.

    `member` is filled with the group of every job of `sure`, and groups come by class and work.
    """
    n = sure.size
    bins, keys = np.empty(n), np.empty(n)
    for k in range(n):
        bins[k] = np.rint(4.0 * np.log2(max(left[sure[k]], 1e-300)))
        keys[k] = classes[sure[k]] * 2.0**16 + bins[k]
    order = np.argsort(keys, kind="mergesort")
    first, counts, work = np.empty(n, dtype=np.int64), np.empty(n), np.empty(n)
    groups, before = np.int64(0), np.nan
    for k in order:
        if keys[k] != before:
            before = keys[k]
            first[groups], counts[groups], work[groups] = sure[k], 0.0, 2.0 ** (0.25 * bins[k])
            groups += 1
        counts[groups - 1] += 1.0
        member[sure[k]] = groups - 1
    return first[:groups], counts[:groups], work[:groups]


@njit(cache=True, error_model="numpy")
def _expected(
    rule: IndexRule, jobs: JobList, known: Floats, kinds: Int, at: Ints, below: Ints, upper: Floats
) -> Floats:
    """Return the expected jobs of unknown remaining work by curve and bin.

    `at` is filled with where the bins of each curve begin, −1 if no such job has it; `below` and `upper` with
    the place of every job in the table of its class.
    """
    table, size = rule.residuals, np.int64(0)
    owner = np.full(kinds, -1)
    for j in range(known.size):
        if np.isnan(known[j]):
            owner[jobs.kinds[j]] = jobs.classes[j]
    for kind in range(kinds):
        at[kind] = -1
        if owner[kind] >= 0:
            at[kind] = size
            size += table.first_bins[owner[kind] + 1] - table.first_bins[owner[kind]]
    expected = np.zeros(size)
    for j in range(known.size):
        if np.isnan(known[j]):
            i = jobs.classes[j]
            k, share = _node(rule, i, jobs.attained[j])
            bins = table.first_bins[i + 1] - table.first_bins[i]
            below[j], upper[j] = table.starts[i] + k * bins, share
            first = at[jobs.kinds[j]]
            for b in range(bins):
                low, high = table.probabilities[below[j] + b], table.probabilities[below[j] + bins + b]
                expected[first + b] += low + share * (high - low)
    return expected


@njit(cache=True, error_model="numpy")
def _weigh(rule: IndexRule, curves: Curves, jobs: JobList, known: Floats, weights: Floats) -> None:
    """Fill `weights` with those of jobs by the recursion, known remaining work or NaN given."""
    table, n, kinds = rule.residuals, known.size, curves[0].size
    left, member = np.empty(n), np.empty(n, dtype=np.int64)
    for j in range(n):
        left[j] = known[j] / rule.costs[jobs.classes[j]]
    sure = _known_order(jobs.held, known)
    if sure.size > rule.one_by_one:
        firsts, counted, works = _binned(sure, jobs.classes, left, member)
    else:
        firsts, counted, works = sure, np.ones(sure.size), left[sure]
        for k in range(sure.size):
            member[sure[k]] = k
    at, below, upper = np.empty(kinds, dtype=np.int64), np.zeros(n, dtype=np.int64), np.zeros(n)
    expected = _expected(rule, jobs, known, kinds, at, below, upper)
    size = firsts.size
    for b in range(expected.size):
        if expected[b] > RARE:
            size += 1
    kind_of, counts, costs = np.empty(size, dtype=np.int64), np.empty(size), np.empty(size)
    work, group_of = np.empty(size), np.full(expected.size, -1)
    for k in range(firsts.size):
        j = firsts[k]
        kind_of[k], counts[k], work[k] = jobs.kinds[j], counted[k], works[k]
        costs[k] = rule.costs[jobs.classes[j]]
    g, owner = firsts.size, np.full(kinds, -1)
    for j in range(n):
        if np.isnan(known[j]):
            owner[jobs.kinds[j]] = jobs.classes[j]
    for kind in range(kinds):
        if at[kind] < 0:
            continue
        i = owner[kind]
        for b in range(table.first_bins[i + 1] - table.first_bins[i] - 1, -1, -1):
            if expected[at[kind] + b] > RARE:
                kind_of[g], counts[g], costs[g] = kind, expected[at[kind] + b], rule.costs[i]
                work[g] = table.middles[table.first_bins[i] + b] / rule.costs[i]
                group_of[at[kind] + b] = g
                g += 1
    order = np.arange(size)
    _sort_by_work(order, work)
    sorted_kinds, sorted_costs = kind_of[order], costs[order]
    found, worth = np.empty(size), np.empty(size)
    price = batch_weights(curves, sorted_kinds, counts[order], sorted_costs, rule.cores, found)
    if rule.factor > 0.0:
        lifts(curves, sorted_kinds, sorted_costs, price, price * (1.0 + rule.factor), worth)
        found += worth
        revert(curves, sorted_kinds, sorted_costs, work[order] * sorted_costs, rule.crowd, found)
    for k in range(size):
        worth[order[k]] = found[k]
    for j in range(n):
        if not np.isnan(known[j]):
            weights[j] = worth[member[j]]
            continue
        i, total = jobs.classes[j], 0.0
        bins = table.first_bins[i + 1] - table.first_bins[i]
        for b in range(bins):
            g = group_of[at[jobs.kinds[j]] + b]
            if g >= 0:
                low, high = table.probabilities[below[j] + b], table.probabilities[below[j] + bins + b]
                total += (low + upper[j] * (high - low)) * worth[g]
        weights[j] = total


@njit(cache=True, error_model="numpy")
def job_weights(rule: IndexRule, curves: Curves, jobs: JobList, weights: Floats, caps: Floats) -> None:
    """Fill `weights` with what a unit of work of each job is worth, and `caps` with the most it may hold."""
    n, most, blind = jobs.classes.size, math.inf, rule.by_class
    known = jobs.remaining.copy()
    for j in range(n):
        size = rule.alike[jobs.classes[j]]
        if np.isnan(known[j]) and not np.isnan(size):
            known[j] = max(size - jobs.attained[j], 0.0)
        blind = blind and np.isnan(known[j])
    if not blind:
        _weigh(rule, curves, jobs, known, weights)
    elif n >= rule.cores:
        most = 1.0
        for j in range(n):
            i = jobs.classes[j]
            weights[j] = rule.costs[i] * rule.size_rates[i] * (1.0 - _TIE * rule.ranks[i])
    else:
        costs = rule.costs[jobs.classes]
        price = index_price(curves, jobs.kinds, costs, rule.cores)
        unit_costs(curves, jobs.kinds, costs, price, weights)
    gate = min(max(1.0, rule.widest * rule.cores / n), most)
    for j in range(n):
        caps[j] = min(max(min(gate, jobs.highs[j]), jobs.lows[j]), max(rule.cores, 1.0))


@njit(cache=True, error_model="numpy")
def _overdue(rule: IndexRule, jobs: JobList) -> Ints:
    """Return the jobs that have waited too long, the longest first, as many as there are cores."""
    late = np.empty(jobs.classes.size, dtype=np.int64)
    count = np.int64(0)
    for j in range(jobs.classes.size):
        if jobs.held[j] == 0.0 and jobs.waited[j] >= rule.longest_wait:
            late[count] = j
            count += 1
    found = late[:count]
    if count > 1:
        found = found[np.argsort(-jobs.waited[found], kind="mergesort")]
    return found[: max(int(rule.cores), 1)]


@njit(cache=True, error_model="numpy")
def _shares(
    rule: IndexRule, curves: Curves, jobs: JobList, weights: Floats, caps: Floats, out: Floats
) -> None:
    """Fill `out` with the cores of every job, any share of one.

    A job that needs several cores gets them all, or none: the one nearest to them first.
    """
    ones, worth = np.ones(out.size), weights.copy()
    for j in _overdue(rule, jobs):
        worth[j] = weights.max() * _FIRST
    while True:
        water_fill(curves, jobs.kinds, ones, worth, caps, rule.cores, out)
        worst, lowest = -1, 1.0 - 1e-12
        for j in range(out.size):
            if 0.0 < out[j] < lowest * jobs.lows[j]:
                worst, lowest = j, out[j] / jobs.lows[j]
        if worst < 0:
            return
        worth[worst] = 0.0


@tiered(lambda speeds, kinds, *_: 0.2 * kinds.size * speeds.shape[1] ** 2)
@njit(cache=True, error_model="numpy")
def widths_of_most_value(
    speeds: Floats,
    kinds: Ints,
    weights: Floats,
    held: Floats,
    lost: Floats,
    lows: Floats,
    caps: Floats,
    first: Ints,
    pool: Int,
    out: Ints,
) -> None:
    """Fill `out` with the whole cores of every job; see `corewise.policies.jobs.widths`.

    `speeds` has a row per curve, `lost` the share of its value that a job loses at a width other than the one
    it holds; `first` are jobs that come before all others.
    """
    n, widest, highest = kinds.size, 1.0, 0.0
    for j in range(n):
        widest = max(widest, caps[j])
    columns = min(int(widest), pool) + 1
    values = np.full((n, columns), -np.inf)
    for j in range(n):
        values[j, 0] = 0.0
        for u in range(max(int(lows[j]), 1), min(int(max(caps[j], 1.0)), columns - 1) + 1):
            value = weights[j] * speeds[kinds[j], u]
            highest = max(highest, value)
            values[j, u] = value if u == held[j] else value * (1.0 - lost[j])
    for j in first:
        values[j, 1:] += _FIRST * max(highest * n, 1.0)
    if n < _EXACT_JOBS or pool <= _EXACT_CORES:
        knapsack(values, pool, out)
    else:
        greedy_widths(values, pool, out)


def _steps(rule: IndexRule, curves: Curves, speeds: Floats, jobs: JobList, *__: object) -> float:
    """Return how many microseconds the source of a decision takes, about."""
    groups = min(jobs.classes.size, rule.one_by_one) + 8 * curves[0].size
    return 40.0 * groups * groups + 0.2 * jobs.classes.size * speeds.size


@tiered(_steps)
@njit(cache=True, error_model="numpy")
def decide(
    rule: IndexRule, curves: Curves, speeds: Floats, jobs: JobList, lost: float, pool: Int, out: Floats
) -> None:
    """Fill `out` with the cores of every job: whole ones of a pool, or any share of one if that is zero.

    `speeds` has a row of whole cores per curve; `lost` is the share of its value that a job loses that moves.
    """
    n = jobs.classes.size
    if n == 0:
        return
    weights, caps = np.empty(n), np.empty(n)
    job_weights(rule, curves, jobs, weights, caps)
    if pool == 0:
        _shares(rule, curves, jobs, weights, caps, out)
        return
    losses, whole = np.zeros(n), np.zeros(n, dtype=np.int64)
    for j in range(n):
        if jobs.moves[j]:
            losses[j] = lost
    first = _overdue(rule, jobs)
    widths_of_most_value(speeds, jobs.kinds, weights, jobs.held, losses, jobs.lows, caps, first, pool, whole)
    for j in range(n):
        out[j] = whole[j]
