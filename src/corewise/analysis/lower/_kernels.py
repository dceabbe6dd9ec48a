"""Compiled loops of the lower bounds: what is bought at a price, one class that pays, and core-time.

For the mathematics see `corewise.analysis.lower.class_by_class` and `corewise.analysis.lower.core_time`.
Curves come as the slopes, widths and speeds of `corewise.analysis.lower.majorants`, a row each.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from corewise.kit.arrays import Floats, Ints

__all__ = ["certified_cells", "priced_class", "worst_mixes"]


_ROUNDING = 4e-15
"""What rounding may do to a sum of a few products, and to the choice of what is bought in it, relative to
the sum of their sizes: eighteen units in the last place, where six roundings and a near tie take twelve."""

_TIE = 1.0 - 1e-15
"""A piece that is worth its price but for rounding is bought: what this gives away is known."""

_IMPROVEMENTS = 60
_BISECTIONS = 40


@njit(cache=True)
def bought(slopes: Floats, least: float) -> int:
    """Return how many pieces have a slope above `least`; slopes fall."""
    low, high = 0, slopes.size
    while low < high:
        middle = (low + high) // 2
        if slopes[middle] > least:
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=True)
def _improve_priced(
    arrival: float,
    size: float,
    weight: float,
    price: float,
    cores: float,
    slopes: Floats,
    widths: Floats,
    speeds: Floats,
    capped: Floats,
    steps: Floats,
    held: Floats,
    rates: Floats,
) -> float:
    """Write the best cores in every state and the rates of departure they give; return the certificate.

    `steps` are V(n) − V(n − 1), `capped` the speeds on c/n cores. Rounding is on the safe side.
    """
    most = steps.size - 1
    low = weight * (most + 1.0)
    for n in range(most + 1):
        width, speed, worth = 0.0, 0.0, 0.0
        if n > 0 and steps[n] > 0.0:
            worth = size * steps[n]
            k = bought(slopes, _TIE * price / worth)
            width, speed = widths[k], speeds[k]
            if width > cores / n:
                width, speed = cores / n, capped[n]
        held[n] = n * width
        rates[n] = n * size * speed
        up = arrival * steps[n + 1] if n < most else 0.0
        gain = n * worth * speed
        value = weight * n + price * held[n] + up - gain
        low = min(low, value - _ROUNDING * (weight * n + price * held[n] + abs(up) + gain))
    return low


@njit(cache=True)
def _evaluate_priced(
    arrival: float, weight: float, price: float, held: Floats, rates: Floats, steps: Floats
) -> tuple[float, float, float]:
    """Write the steps of the values of a policy; return its mean cost, cores held, and probability of n = N.

    The steps are found upwards while departures are slower than arrivals, and downwards from N for the rest:
    so errors die out.
    """
    most = steps.size - 1
    term, mass, total, cores = 1.0, 1.0, price * held[0], held[0]
    for n in range(1, most + 1):
        if rates[n] <= 0.0:  # what is below is never seen again
            term, mass, total, cores = 1.0, 0.0, 0.0, 0.0
        else:
            term *= arrival / rates[n]
        mass += term
        total += term * (weight * n + price * held[n])
        cores += term * held[n]
        if term > 1e200:
            term, mass, total, cores = 1.0, mass / term, total / term, cores / term
    mean = total / mass
    turn = 1
    steps[1] = mean / arrival
    while turn < most and rates[turn] < arrival:
        steps[turn + 1] = (mean - weight * turn - price * held[turn] + rates[turn] * steps[turn]) / arrival
        turn += 1
    after = 0.0
    for n in range(most, turn, -1):
        if rates[n] > 0.0:
            after = (weight * n + price * held[n] - mean + arrival * after) / rates[n]
        steps[n] = after
    return mean, cores / mass, term / mass


@njit(cache=True)
def priced_class(
    arrival: float,
    size: float,
    weight: float,
    price: float,
    cores: float,
    slopes: Floats,
    widths: Floats,
    speeds: Floats,
    capped: Floats,
    steps: Floats,
) -> tuple[float, float, float]:
    """Return a bound on the mean cost of a class that pays for cores, those it holds, and P(n = N).

    Policy iteration from the steps given, which are replaced by better ones.
    """
    held, rates = np.empty(steps.size), np.empty(steps.size)
    best = _improve_priced(
        arrival, size, weight, price, cores, slopes, widths, speeds, capped, steps, held, rates
    )
    mean, used, edge = 0.0, 0.0, 0.0
    for _ in range(_IMPROVEMENTS):
        mean, used, edge = _evaluate_priced(arrival, weight, price, held, rates, steps)
        low = _improve_priced(
            arrival, size, weight, price, cores, slopes, widths, speeds, capped, steps, held, rates
        )
        best = max(best, low)
        if mean - best <= 1e-11 * mean:
            break
    return best, used, edge


@njit(cache=True)
def _dearest(
    backlog: float,
    worths: Floats,
    price: float,
    sizes: Floats,
    weights: Floats,
    needs: Floats,
    slopes: Floats,
    widths: Floats,
    speeds: Floats,
) -> tuple[float, int, int]:
    """Return the least (h − ψ)/b of the classes with b ≤ B, which class it is, and the pieces it buys."""
    least, kind, pieces = np.inf, 0, 0
    for i in range(worths.size):
        if needs[i] > backlog:
            continue
        k, surplus = 0, weights[i]
        worth = sizes[i] * worths[i]
        if worth > price:
            k = bought(slopes[i], _TIE * price / worth)
            surplus -= worth * speeds[i, k] - price * widths[i, k]
        if surplus < least * needs[i]:
            least, kind, pieces = surplus / needs[i], i, k
    return least, kind, pieces


@njit(cache=True)
def worst_mixes(
    points: Floats,
    worths: Floats,
    tail: bool,
    sizes: Floats,
    weights: Floats,
    needs: Floats,
    cores: float,
    slopes: Floats,
    widths: Floats,
    speeds: Floats,
    prices: Floats,
    kinds: Ints,
    jobs: Floats,
    rates: Floats,
) -> None:
    """Write the price of a core at every B, and the worst mix: two kinds, their jobs and speeds.

    The price is where demand crosses c, by bisection; the mix of what is worst on either side uses c cores.
    With `tail` the last point stands for all beyond it as well: the price is so high that more B is no
    cheaper, and there may be more jobs.
    """
    for g in range(points.size):
        beyond = tail and g == points.size - 1
        low, high = 0.0, 0.0
        for i in range(sizes.size):
            high = max(high, sizes[i] * worths[g, i])
        for _ in range(_BISECTIONS):
            price = 0.5 * (low + high)
            least, i, k = _dearest(points[g], worths[g], price, sizes, weights, needs, slopes, widths, speeds)
            if points[g] * widths[i, k] > cores * needs[i] or (beyond and least < 0.0):
                low = price
            else:
                high = price
        prices[g] = high
        excess = np.zeros(2)
        for side in range(2):
            price = low if side == 0 else high
            least, i, k = _dearest(points[g], worths[g], price, sizes, weights, needs, slopes, widths, speeds)
            kinds[g, side] = i
            rates[g, side] = speeds[i, k]
            jobs[g, side] = points[g] / needs[i]
            if beyond and least < 0.0 and widths[i, k] > 0.0:
                jobs[g, side] = max(jobs[g, side], cores / widths[i, k])
            excess[side] = jobs[g, side] * widths[i, k] - cores
        share = 1.0
        if excess[0] > 0.0 and excess[0] > excess[1]:
            share = min(excess[0] / (excess[0] - excess[1]), 1.0)
        jobs[g, 0] *= 1.0 - share
        jobs[g, 1] *= share


@njit(cache=True)
def _span(knots: Floats, curvature: Floats, low: float, high: float) -> tuple[float, float]:
    """Return the least and the largest curvature of U between two points; it is zero outside the knots."""
    j = np.searchsorted(knots, low, side="right") - 1
    least = curvature[j] if j >= 0 else 0.0
    largest = least
    while j + 1 < knots.size and knots[j + 1] < high:
        j += 1
        least, largest = min(least, curvature[j]), max(largest, curvature[j])
    return least, largest


@njit(cache=True)
def _least_in_cell(
    ends: Floats,
    worths: Floats,
    arriving: Floats,
    prices: tuple[float, float],
    falls: Floats,
    sizes: Floats,
    weights: Floats,
    needs: Floats,
    cores: float,
    slopes: Floats,
    widths: Floats,
    speeds: Floats,
) -> float:
    """Return the least that any class gives in a cell, if the price is linear in B there.

    A cell of no length stands for all B beyond it: there no class may gain from a larger B.
    """
    length = ends[1] - ends[0]
    least = np.inf
    for i in range(sizes.size):
        if needs[i] > ends[0] and needs[i] >= ends[1]:  # the next cell has it
            continue
        lower = np.inf
        for end in range(2):
            jobs, worth, price = ends[end] / needs[i], sizes[i] * worths[end, i], prices[end]
            gain, speed = 0.0, 0.0
            if worth > _TIE * price:
                k = bought(slopes[i], _TIE * price / worth)
                speed = speeds[i, k]
                gain = worth * speed - price * widths[i, k]
            if length == 0.0 and gain > weights[i]:
                return -np.inf
            value = arriving[end] + jobs * (weights[i] - gain) - price * cores
            terms = abs(arriving[end]) + jobs * (weights[i] + max(worth, 0.0) * speed) + price * cores
            lower = min(lower, value - _ROUNDING * terms)
        worth, cheap = sizes[i] * worths[1, i], min(prices)
        if length > 0.0 and worth > _TIE * cheap:  # with it, no less is bought than anywhere in the cell
            k = bought(slopes[i], _TIE * cheap / worth)
            dearer = 2.0 * widths[i, k] * max(prices[1] - prices[0], 0.0) / length
            bend = (dearer + ends[1] * sizes[i] * speeds[i, k] * falls[i]) / needs[i] * length * length / 8.0
            lower -= (1.0 + _ROUNDING) * bend
        least = min(least, lower)
    return least


@njit(cache=True)
def certified_cells(
    cells: Floats,
    worths: Floats,
    arriving: Floats,
    prices: Floats,
    arrivals: Floats,
    knots: Floats,
    curvature: Floats,
    sizes: Floats,
    weights: Floats,
    needs: Floats,
    cores: float,
    slopes: Floats,
    widths: Floats,
    speeds: Floats,
    bounds: Floats,
) -> None:
    """Write for every cell a bound that holds for all B in it.

    `cells` has their ends, and the others what belongs to these. The price is linear from one end to the
    other, or that of one end if this is better: it jumps where a class comes in. Rounding is on the safe
    side.
    """
    falls = np.empty(sizes.size)
    for g in range(cells.shape[0]):
        near, far = cells[g, 0], cells[g, 1]
        floor = _span(knots, curvature, near, far)[0]
        bend = 0.0
        for i in range(sizes.size):
            ahead = _span(knots, curvature, near + needs[i], far + needs[i])[1]
            behind = _span(knots, curvature, near - needs[i], far - needs[i])[1]
            bend += arrivals[i] * max(ahead - floor, 0.0)
            falls[i] = max(behind - floor, 0.0)
        best = -np.inf
        first, last = prices[g, 0], prices[g, 1]
        for pair in ((first, last), (first, first), (last, last)):
            least = _least_in_cell(
                cells[g],
                worths[g],
                arriving[g],
                pair,
                falls,
                sizes,
                weights,
                needs,
                cores,
                slopes,
                widths,
                speeds,
            )
            best = max(best, least)
        bounds[g] = best - (1.0 + _ROUNDING) * bend * (far - near) * (far - near) / 8.0
