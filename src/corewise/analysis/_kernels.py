"""Compiled loops over a box of states: Gauss-Seidel sweeps, levels of work, and birth-death recursions.

States are in C order; a row is a run of states along the last class. Terms of the other classes are added
to a whole row at once, which the compiler vectorises; only the last class is a recursion. Arrays over classes
and states are class-major. See `corewise.analysis.chain` for the mathematics, and `corewise.analysis.work`
for that of the levels.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from corewise.kit.arrays import Floats, Ints

__all__ = [
    "add_levels",
    "advance",
    "birth_death_distribution",
    "birth_death_steps",
    "flow_imbalance",
    "level_equations",
    "level_sums",
    "relax",
    "scale_levels",
]


u = np.uint64  # an unsigned index spares the test for a negative one, which keeps loops from vectorising

_SMALLEST_FACTOR = 1e-6
"""A total far from balance is not wiped out: later sweeps may need its shape."""

_MOST_CHANGE = 10.0
"""The most by which balancing the levels of work changes a probability at a time, up or down."""


@njit(cache=True)
def advance(digits: Ints, shape: Ints) -> None:
    """Step the counts of all classes but the last to the next row."""
    for i in range(shape.size - 2, -1, -1):
        digits[i] += 1
        if digits[i] < shape[i]:
            return
        digits[i] = 0


@njit(cache=True)
def _row_level(digits: Ints, steps: Floats) -> float:
    """Return the level of the first state of a row."""
    level = 0.0
    for i in range(digits.size):
        level += digits[i] * steps[i]
    return level


@njit(cache=True)
def _between(nodes: Floats, place: float) -> float:
    """Return the piecewise linear function through nodes at 0, 1, …, at a place between two of them."""
    k = int(place)
    return float(nodes[k] + (place - k) * (nodes[k + 1] - nodes[k]))


@njit(cache=True)
def _inflow(
    prob: Floats,
    rates: Floats,
    arrivals: Floats,
    shape: Ints,
    strides: Ints,
    digits: Ints,
    base: u,
    row: Floats,
) -> None:
    """Write into `row` the flow into each state of a row from events of all classes but the last."""
    length = u(shape[-1])
    for j in range(length):
        row[j] = 0.0
    for i in range(shape.size - 1):
        stride, rate = u(strides[i]), arrivals[i]
        if digits[i] > 0:
            for j in range(length):
                row[j] += rate * prob[base + j - stride]
        if digits[i] < shape[i] - 1:
            for j in range(length):
                row[j] += rates[i, base + j + stride] * prob[base + j + stride]


@njit(cache=True)
def _sweep(
    prob: Floats, rates: Floats, arrivals: Floats, inverse: Floats, shape: Ints, strides: Ints
) -> None:
    """Set π(n) to its inflow over its outflow, state by state."""
    length, size, last = u(shape[-1]), u(prob.size), shape.size - 1
    row = np.empty(shape[-1])
    digits = np.zeros(last, dtype=np.int64)
    base = u(0)
    while base < size:
        _inflow(prob, rates, arrivals, shape, strides, digits, base, row)
        for j in range(length - u(1)):
            row[j] += rates[last, base + j + u(1)] * prob[base + j + u(1)]
        for j in range(length):
            row[j] *= inverse[base + j]
        # Two steps of the recursion at once: half as many additions have to wait for the one before.
        rate, held, k = arrivals[last], 0.0, u(0)
        while k + u(1) < length:
            here, ahead = rate * inverse[base + k], rate * inverse[base + k + u(1)]
            prob[base + k] = row[k] + here * held
            held = (row[k + u(1)] + ahead * row[k]) + (ahead * here) * held
            prob[base + k + u(1)] = held
            k = k + u(2)
        if k < length:
            prob[base + k] = row[k] + rate * inverse[base + k] * held
        advance(digits, shape)
        base += length


@njit(cache=True)
def flow_imbalance(
    prob: Floats, rates: Floats, arrivals: Floats, outflow: Floats, shape: Ints, strides: Ints
) -> float:
    """Return Σ |inflow − outflow| over Σ outflow: zero for the stationary distribution."""
    length, size, last = u(shape[-1]), u(prob.size), shape.size - 1
    row = np.empty(shape[-1])
    digits = np.zeros(last, dtype=np.int64)
    off, total = 0.0, 0.0
    base = u(0)
    while base < size:
        _inflow(prob, rates, arrivals, shape, strides, digits, base, row)
        for j in range(length - u(1)):
            row[j] += rates[last, base + j + u(1)] * prob[base + j + u(1)]
        for j in range(u(1), length):
            row[j] += arrivals[last] * prob[base + j - u(1)]
        for j in range(length):
            out = prob[base + j] * outflow[base + j]
            off += abs(row[j] - out)
            total += out
        advance(digits, shape)
        base += length
    return off / total


@njit(cache=True)
def _rebalance(
    prob: Floats, outflow: Floats, arrivals: Floats, shape: Ints, mass: Floats, up: Floats, down: Floats
) -> None:
    """Scale π so that the flows between successive totals balance; the last three arrays are scratch.

    Every event moves the total by one, so the chain of totals is a birth-death chain, solved by its product
    form; within a total π keeps its shape.
    """
    length, size, last = u(shape[-1]), u(prob.size), shape.size - 1
    digits = np.zeros(last, dtype=np.int64)
    for total in range(mass.size):
        mass[total], up[total], down[total] = 0.0, 0.0, 0.0
    base = u(0)
    while base < size:
        rest, joining = u(0), arrivals[last]
        for i in range(last):
            rest += u(digits[i])
            if digits[i] < shape[i] - 1:
                joining += arrivals[i]
        for j in range(length):
            mass[rest + j] += prob[base + j]
            up[rest + j] += joining * prob[base + j]
            down[rest + j] += prob[base + j] * (outflow[base + j] - joining)
        edge = length - u(1)
        up[rest + edge] -= arrivals[last] * prob[base + edge]
        down[rest + edge] += arrivals[last] * prob[base + edge]
        advance(digits, shape)
        base += length
    factors = down
    highest, log_factor = 0.0, 0.0
    factors[0] = 0.0
    for total in range(1, mass.size):
        if up[total - 1] > 0.0 and down[total] > 0.0:
            log_factor += math.log(up[total - 1] / down[total])
        factors[total] = log_factor
        highest = max(highest, log_factor)
    whole = 0.0
    for total in range(mass.size):
        factors[total] = max(math.exp(factors[total] - highest), _SMALLEST_FACTOR)
        whole += factors[total] * mass[total]
    for total in range(mass.size):
        factors[total] /= whole
    base = u(0)  # and the digits are back at zero
    while base < size:
        rest = u(0)
        for i in range(last):
            rest += u(digits[i])
        for j in range(length):
            prob[base + j] *= factors[rest + j]
        advance(digits, shape)
        base += length


@njit(cache=True)
def relax(
    prob: Floats,
    rates: Floats,
    arrivals: Floats,
    outflow: Floats,
    inverse: Floats,
    shape: Ints,
    strides: Ints,
    by_totals: bool,
    cycles: int,
    rounds: int,
    target: float,
    floor: float,
    best: float,
    stalled: int,
) -> tuple[bool, float, int]:
    """Relax π for up to `rounds` rounds; return whether it has converged, its best imbalance, and since when.

    A round is some cycles of two sweeps and, if so wanted, one balance between totals. `outflow` is the total
    rate out of each state, and `inverse` one over it. π has converged at an imbalance of at most `target`, or
    if one of at most `floor` has not fallen for long: then it is as low as rounding lets it be. Without a
    round to go it is not measured; nor is it where the target is negative.
    """
    totals = 1
    for i in range(shape.size):
        totals += shape[i] - 1
    mass, up, down = np.empty(totals), np.empty(totals), np.empty(totals)
    for _ in range(rounds):
        if target >= 0.0:
            off = flow_imbalance(prob, rates, arrivals, outflow, shape, strides)
            stalled = stalled + 1 if off > 0.9 * best else 0
            best = min(best, off)
            if off <= target or (stalled >= 5 and best <= floor):
                return True, best, stalled
        for sweep in range(2 * cycles):
            _sweep(prob, rates, arrivals, inverse, shape, strides)
            if by_totals and sweep & 1:
                _rebalance(prob, outflow, arrivals, shape, mass, up, down)
    return False, best, stalled


@njit(cache=True)
def birth_death_distribution(departures: Floats, arrival: float) -> Floats:
    """Return the stationary distribution of a birth-death chain, by its product form outwards from the mode.

    Every step is one multiplication, so a probability is exact to as many roundings as it is states away.
    """
    size = departures.size
    height, highest, mode = 0.0, 0.0, 0
    for n in range(1, size):
        if departures[n] <= 0.0:  # never left downwards: nothing below is ever seen again
            height, highest, mode = 0.0, 0.0, n
            continue
        height += math.log(arrival / departures[n])
        if height > highest:
            highest, mode = height, n
    prob = np.zeros(size)
    prob[mode] = 1.0
    for n in range(mode, 0, -1):
        prob[n - 1] = prob[n] * (departures[n] / arrival)
    for n in range(mode + 1, size):
        prob[n] = prob[n - 1] * (arrival / departures[n])
    prob /= prob.sum()
    return prob


@njit(cache=True)
def birth_death_steps(departures: Floats, arrival: float, cost: Floats, mean: float) -> Floats:
    """Return d(n) = V(n) − V(n − 1) of a birth-death chain, and a zero at the end.

    The equations are λ d(n + 1) = δ(n) d(n) + J − f(n). They are solved upwards while f(n) ≤ J and downwards
    from the top where f(n) > J: all terms are then positive, and nothing cancels.
    """
    size = departures.size
    steps = np.zeros(size + 1)
    above = 0
    while above + 1 < size and cost[above] <= mean:
        steps[above + 1] = (departures[above] * steps[above] + (mean - cost[above])) / arrival
        above += 1
    for n in range(size - 1, above, -1):
        steps[n] = (arrival * steps[n + 1] + (cost[n] - mean)) / departures[n]
    return steps


@njit(cache=True)
def level_equations(
    prob: Floats, rates: Floats, arrivals: Floats, shape: Ints, steps: Floats, top: float, band: Floats
) -> None:
    """Add up B_kl = Σ_n π(n) φ_k(n) (Q φ_l)(n) for the hat functions φ of the level.

    `band[h + k − l, l]` is B_kl, with h the half width of the band; `steps` is how many levels a job is, and
    what is above the level `top` counts as being there.
    """
    length, size, last = u(shape[-1]), u(prob.size), shape.size - 1
    half = band.shape[0] // 2
    digits = np.zeros(last, dtype=np.int64)
    base = u(0)
    while base < size:
        start = _row_level(digits, steps)
        for j in range(length):
            weight = prob[base + j]
            place = min(start + j * steps[last], top)
            k = int(place)
            upper = place - k
            lower_weight, upper_weight = weight * (1.0 - upper), weight * upper
            out = 0.0
            for i in range(shape.size):
                count = digits[i] if i < last else int(j)
                for way in range(2):
                    if way == 0:
                        if count == shape[i] - 1:
                            continue
                        rate, to = arrivals[i], min(place + steps[i], top)
                    else:
                        if count == 0:
                            continue
                        rate, to = rates[i, base + j], max(place - steps[i], 0.0)
                    out += rate
                    m = int(to)
                    share = to - m
                    near, far = rate * (1.0 - share), rate * share
                    band[half + k - m, m] += lower_weight * near
                    band[half + k - m - 1, m + 1] += lower_weight * far
                    band[half + k - m + 1, m] += upper_weight * near
                    band[half + k - m, m + 1] += upper_weight * far
            band[half, k] -= lower_weight * out * (1.0 - upper)
            band[half - 1, k + 1] -= lower_weight * out * upper
            band[half + 1, k] -= upper_weight * out * (1.0 - upper)
            band[half, k + 1] -= upper_weight * out * upper
        advance(digits, shape)
        base += length


@njit(cache=True)
def level_sums(
    prob: Floats, drift: Floats, mean: float, shape: Ints, steps: Floats, top: float, sums: Floats
) -> None:
    """Add up Σ_n π(n) φ_k(n) (r(n) − J) for the hat functions φ of the level; without a drift r, of one."""
    length, size, last = u(shape[-1]), u(prob.size), shape.size - 1
    digits = np.zeros(last, dtype=np.int64)
    base = u(0)
    while base < size:
        start = _row_level(digits, steps)
        for j in range(length):
            weight = prob[base + j]
            if drift.size > 0:
                weight *= drift[base + j] - mean
            place = min(start + j * steps[last], top)
            k = int(place)
            sums[k] += weight * (1.0 - (place - k))
            sums[k + 1] += weight * (place - k)
        advance(digits, shape)
        base += length


@njit(cache=True)
def add_levels(values: Floats, levels: Floats, shape: Ints, steps: Floats, top: float) -> None:
    """Add to V a piecewise linear function of the level."""
    length, size, last = u(shape[-1]), u(values.size), shape.size - 1
    digits = np.zeros(last, dtype=np.int64)
    base = u(0)
    while base < size:
        start = _row_level(digits, steps)
        for j in range(length):
            values[base + j] += _between(levels, min(start + j * steps[last], top))
        advance(digits, shape)
        base += length


@njit(cache=True)
def scale_levels(prob: Floats, factors: Floats, shape: Ints, steps: Floats, top: float) -> None:
    """Multiply π by a piecewise linear function of the level, within limits, and norm it."""
    length, size, last = u(shape[-1]), u(prob.size), shape.size - 1
    digits = np.zeros(last, dtype=np.int64)
    base, whole = u(0), 0.0
    while base < size:
        start = _row_level(digits, steps)
        for j in range(length):
            factor = _between(factors, min(start + j * steps[last], top))
            prob[base + j] *= min(max(factor, 1.0 / _MOST_CHANGE), _MOST_CHANGE)
            whole += prob[base + j]
        advance(digits, shape)
        base += length
    for s in range(size):
        prob[s] /= whole
