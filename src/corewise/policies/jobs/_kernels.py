r"""Compiled arithmetic of decisions per job: curves at a price, weights of jobs, shares and whole cores.

A set of curves comes as a tuple of arrays (`Curves`): Amdahl's law and the power law in closed form up to a
limit, every other curve by the corners of its concave majorant. At the relative price q = ℓ/w, the price of
a core over the weight of a unit of work, a job demands the width that maximises s(z) − q z.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from corewise.kit._kernels import njit_norefs, tiered
from corewise.kit.arrays import Floats, Int, Ints

__all__ = [
    "AMDAHL",
    "CORNERS",
    "POWER",
    "Bins",
    "Crowd",
    "Curves",
    "batch_weights",
    "concave_corners",
    "cores_by_counts",
    "crowd_price",
    "demand",
    "greedy_widths",
    "index_price",
    "knapsack",
    "knapsack_table",
    "lifts",
    "read_widths",
    "revert",
    "unit_costs",
    "water_fill",
]

AMDAHL, POWER, CORNERS = range(3)

Curves = tuple[Ints, Floats, Floats, Ints, Floats, Floats]
"""Form, parameter and limit of each curve; where its corners begin (one more than curves); their widths and
speeds, from (0, 0) on, concave."""


class Crowd(NamedTuple):
    """The crowd of jobs in the long run: its price of a core, and how soon arrivals build it up.

    Attributes
    ----------
    price : float
        The price; zero if no job is to come.
    first : float
        The first amount of work, as its logarithm to base two.
    built : ndarray
        The share of the crowd that is there after every job has done so much work, four per octave.
    """

    price: float
    first: float
    built: Floats


class Bins(NamedTuple):
    """Bins of remaining work of all classes, the largest first.

    Attributes
    ----------
    classes : ndarray of int
        The class of each bin, whose curve has the same position.
    costs, works : ndarray
        The cost of a job per unit of time, and the work before it.
    probabilities : ndarray
        The probability that a job of the class is in the bin.
    """

    classes: Ints
    costs: Floats
    works: Floats
    probabilities: Floats


PER_OCTAVE = 4
"""Entries of `Crowd.built` per octave of work."""

_ITERATIONS = 100
RARE = 1e-9
"""Expected jobs of a bin below which it is left out."""

_MARGINAL = 32
"""Jobs without cores that a repair looks at."""

_PRICES = 50

_TIE = 1e-12
"""Of a value: by how much another has to be above it to be better, relatively: sums are rounded."""

_STEPS = 12
"""Of Newton's method, before a bracket is used."""

_CLOSE = 1e-7
"""Of a price: a step this short is the last one. Weights are flat there, and off by its square."""

_GAP = 1e-12
"""Of a weight: by how much it may be below the best one, relatively."""


@njit_norefs
def _piece(starts: Ints, widths: Floats, i: Int, z: float) -> int:
    """Return the corner of curve i at which the piece begins that ends at z or beyond, or its last piece."""
    low, high = starts[i], starts[i + 1] - 2
    while low < high:
        middle = (low + high) // 2
        if widths[middle + 1] < z:
            low = middle + 1
        else:
            high = middle
    return int(low)


@njit_norefs
def _speed(curves: Curves, i: Int, z: float) -> float:
    """Return s(z) on the concave majorant, at most at the limit of the curve."""
    forms, parameters, limits, starts, widths, speeds = curves
    z = min(z, limits[i])
    if forms[i] == CORNERS:
        k = _piece(starts, widths, i, z)
        share = (z - widths[k]) / (widths[k + 1] - widths[k])
        return float(speeds[k] + min(share, 1.0) * (speeds[k + 1] - speeds[k]))
    if z <= 1.0:
        return float(z)
    p = parameters[i]
    return float(z / ((1.0 - p) * z + p)) if forms[i] == AMDAHL else float(z**p)


@njit_norefs
def _left_slope(curves: Curves, i: Int, z: float) -> float:
    """Return the slope of s to the left of z; zero beyond the limit."""
    forms, parameters, limits, starts, widths, speeds = curves
    if z > limits[i]:
        return 0.0
    if forms[i] == CORNERS:
        k = _piece(starts, widths, i, z)
        return float((speeds[k + 1] - speeds[k]) / (widths[k + 1] - widths[k]))
    if z <= 1.0:
        return 1.0
    p = parameters[i]
    return float(p / ((1.0 - p) * z + p) ** 2) if forms[i] == AMDAHL else float(p * z ** (p - 1.0))


@njit_norefs
def demand(curves: Curves, i: Int, q: float) -> float:
    """Return the width that maximises s(z) − q z, the widest one where there are several."""
    forms, parameters, limits, starts, widths, speeds = curves
    if forms[i] == CORNERS:
        low, high = starts[i], starts[i + 1] - 1
        while low < high:
            middle = (low + high) // 2
            if speeds[middle + 1] - speeds[middle] >= q * (widths[middle + 1] - widths[middle]):
                low = middle + 1
            else:
                high = middle
        return float(widths[low])
    if q > 1.0:
        return 0.0
    p, limit = parameters[i], limits[i]
    if q > p:
        return 1.0
    if forms[i] == AMDAHL:
        if q * ((1.0 - p) * limit + p) ** 2 <= p:
            return float(limit)
        return float((math.sqrt(p / q) - p) / (1.0 - p))
    if q * limit <= p * limit**p:
        return float(limit)
    return float((p / q) ** (1.0 / (1.0 - p)))


@njit_norefs
def _cheapest(curves: Curves, i: Int, price: float, cost: float) -> float:
    """Return the width that minimises (cost + price z)/s(z), for a positive cost."""
    forms, parameters, limits, starts, widths, speeds = curves
    if forms[i] == CORNERS:
        low, high = starts[i] + 1, starts[i + 1] - 1
        while low < high:
            middle = (low + high) // 2
            rise, run = speeds[middle + 1] - speeds[middle], widths[middle + 1] - widths[middle]
            if rise * (cost + price * widths[middle]) >= price * run * speeds[middle]:
                low = middle + 1
            else:
                high = middle
        return float(widths[low])
    p, limit = parameters[i], limits[i]
    if forms[i] == AMDAHL:
        best = math.sqrt(cost * p / (price * (1.0 - p))) if price * (1.0 - p) > 0.0 else limit
    else:
        best = cost * p / (price * (1.0 - p)) if price * (1.0 - p) > 0.0 else limit
    return float(min(max(best, 1.0), limit))


@njit_norefs
def _unit_cost(curves: Curves, i: Int, price: float, cost: float) -> float:
    """Return κ, the least of (cost + price z)/s(z): what a unit of work costs at that price."""
    z = _cheapest(curves, i, price, cost)
    return float((cost + price * z) / _speed(curves, i, z))


@tiered(lambda _, kinds, *__: 4.0 * kinds.size)
@njit_norefs
def unit_costs(curves: Curves, kinds: Ints, costs: Floats, price: float, out: Floats) -> None:
    """Fill `out` with κ of every group at a price."""
    for g in range(kinds.size):
        out[g] = _unit_cost(curves, kinds[g], price, costs[g])


@njit_norefs
def lifts(curves: Curves, kinds: Ints, costs: Floats, low: float, high: float, out: Floats) -> None:
    """Fill `out` with what κ of every group rises by from one price to another."""
    for g in range(kinds.size):
        rise = _unit_cost(curves, kinds[g], high, costs[g]) - _unit_cost(curves, kinds[g], low, costs[g])
        out[g] = max(rise, 0.0)


@njit_norefs
def _built(crowd: Crowd, work: float) -> float:
    """Return the share of the long-run crowd that is there after every job has done so much work."""
    if not work > 0.0:
        return 0.0
    place = PER_OCTAVE * (math.log2(work) - crowd.first)
    if place <= 0.0:
        return float(crowd.built[0] * 2.0 ** (place / PER_OCTAVE))
    k = int(place)
    if k >= crowd.built.size - 1:
        return float(crowd.built[crowd.built.size - 1])
    return float(crowd.built[k] + (place - k) * (crowd.built[k + 1] - crowd.built[k]))


@njit_norefs
def revert(curves: Curves, kinds: Ints, costs: Floats, works: Floats, crowd: Crowd, weights: Floats) -> None:
    """Raise `weights` of groups towards κ at the long-run price, as far as its crowd is built up by then.

    A group has that much work before each of its jobs.
    """
    if not crowd.price > 0.0:
        return
    for g in range(kinds.size):
        z = _cheapest(curves, kinds[g], crowd.price, costs[g])
        total = costs[g] + crowd.price * z
        level = total / _speed(curves, kinds[g], z)
        if level > weights[g]:
            weights[g] += _built(crowd, works[g] * costs[g] / total) * (level - weights[g])


@tiered(lambda _, costs, *__: 600.0 * costs.size)
@njit_norefs
def crowd_price(curves: Curves, costs: Floats, work_rates: Floats, cores: float) -> float:
    """Return the price at which work that arrives at such rates takes all cores, each at its least unit cost.

    Zero if no price does.
    """
    low, high = 0.0, 0.0
    for i in range(costs.size):
        high = max(high, costs[i])
    high *= 1e9
    for step in range(_ITERATIONS):
        price = high if step == 0 else (0.5 * (low + high) if low > 0.0 else 1e-3 * high)
        if step > 0 and not low < price < high:
            break
        wanted = 0.0
        for i in range(costs.size):
            z = _cheapest(curves, i, price, costs[i])
            wanted += work_rates[i] * z / _speed(curves, i, z)
        if wanted > cores:
            if step == 0:
                return 0.0
            low = price
        else:
            high = price
    return high


@njit_norefs
def index_price(curves: Curves, kinds: Ints, costs: Floats, cores: float) -> float:
    """Return the price at which all jobs together buy the cores there are, each at its least unit cost."""
    low, high = 0.0, 0.0
    for g in range(kinds.size):
        high = max(high, costs[g])
    high *= 1e9
    for _ in range(_ITERATIONS):
        price = 0.5 * (low + high) if low > 0.0 else 1e-3 * high
        if not low < price < high:
            break
        wanted = 0.0
        for g in range(kinds.size):
            wanted += _cheapest(curves, kinds[g], price, costs[g])
        if wanted > cores:
            low = price
        else:
            high = price
    return high


@njit_norefs
def _taken(curves: Curves, i: Int, q: float) -> tuple[float, float, float]:
    """Return the width of a job at a relative price, its speed, and −q times the slope of the width in q."""
    forms, parameters, limits = curves[:3]
    if forms[i] == CORNERS:
        z = demand(curves, i, q)
        return z, _speed(curves, i, z), 0.0
    if q > 1.0:
        return 0.0, 0.0, 0.0
    p, limit = parameters[i], limits[i]
    if q > p:
        return 1.0, 1.0, 0.0
    if forms[i] == AMDAHL:
        root = math.sqrt(p / q) if q > 0.0 else math.inf
        z = (root - p) / (1.0 - p)
        if z < limit:
            return z, z / root, 0.5 * root / (1.0 - p)
    else:
        z = (p / q) ** (1.0 / (1.0 - p)) if q > 0.0 else math.inf
        if z < limit:
            return z, z * q / p, z / (1.0 - p)
    return float(limit), _speed(curves, i, limit), 0.0


@njit_norefs
def _at_price(
    curves: Curves,
    kinds: Ints,
    counts: Floats,
    weights: Floats,
    g: Int,
    price: float,
    total: float,
    cores: float,
) -> tuple[float, float, float, float]:
    """Return the weight of group g at a price, its slope in the price, and the demand of groups up to g.

    And −1 times the price times the slope of the demand, zero if that is not known. Groups before g have
    their weights; `total` is the cost of all jobs up to g. A weight of zero says that the price is out of
    range: then only the demand of the groups before counts.
    """
    surplus, wanted, falls = 0.0, 0.0, 0.0
    for k in range(g):
        if counts[k] > 0.0:
            z, speed, fall = _taken(curves, kinds[k], price / weights[k])
            surplus += counts[k] * (weights[k] * speed - price * z)
            wanted += counts[k] * z
            falls += counts[k] * fall
    cost = (total - price * cores - surplus) / counts[g]
    if cost <= 0.0:
        return 0.0, 0.0, wanted, 0.0
    z = _cheapest(curves, kinds[g], price, cost)
    if 1.0 < z < curves[2][kinds[g]] and curves[0][kinds[g]] != CORNERS:
        power = 0.5 if curves[0][kinds[g]] == AMDAHL else 1.0
        falls += counts[g] * power * z * (1.0 + price * (cores - wanted) / (counts[g] * cost))
    speed = _speed(curves, kinds[g], z)
    wanted += counts[g] * z
    return (cost + price * z) / speed, (wanted - cores) / (counts[g] * speed), wanted, falls


@njit_norefs
def _newton_price(price: float, wanted: float, falls: float, cores: float) -> float:
    """Return where demand is the cores if it is straight in 1/√price, as that of Amdahl's law is."""
    root = 1.0 - 0.5 * (wanted - cores) / falls
    return price / (root * root) if root > 0.1 else 100.0 * price


@njit_norefs
def _last_drop(
    counts: Floats, weights: Floats, g: Int, low: float, high: float, otherwise: float
) -> tuple[float, float]:
    """Return the highest price in between at which jobs give up their one core, and how many; or another."""
    at, drop = otherwise, 0.0
    for k in range(g - 1, -1, -1):
        if counts[k] > 0.0 and low < weights[k] < high and (drop == 0.0 or weights[k] >= at):
            drop = drop + counts[k] if weights[k] == at else counts[k]
            at = weights[k]
    return at, drop


@njit_norefs
def _next_weight(
    curves: Curves,
    kinds: Ints,
    counts: Floats,
    weights: Floats,
    g: Int,
    total: float,
    cores: float,
    before: float,
    step: float,
) -> tuple[float, float]:
    """Return the weight of group g, the largest over all prices, and the largest price that gives it.

    The weight is concave in the price, and the best price, at which all cores are wanted, is no lower than
    that of the step before. Newton's steps find it where demand is smooth, or at prices at which jobs give up
    their one core. Elsewhere tangents at both ends of a bracket bound the weight, and the root of its slope
    between them is near the price; where neither halves the bracket in three steps, it is halved.
    """
    low = before
    at_low, slope_low, wanted, falls = _at_price(curves, kinds, counts, weights, g, low, total, cores)
    best = at_low
    if wanted < cores:
        return best, low
    top = total / cores
    high, at_high, slope_high, price = top, 0.0, 0.0, low
    for _ in range(_STEPS):
        if not falls > 0.0:
            break
        closer = _newton_price(price, wanted, falls, cores)
        if abs(closer - price) <= _CLOSE * price:
            return best, closer
        drop = 0.0
        if not low < closer < high or high < top:  # demand may drop between them: look there first
            closer, drop = _last_drop(counts, weights, g, low, high, closer)
        if not low < closer < high:
            break
        price = closer
        value, slope, wanted, falls = _at_price(curves, kinds, counts, weights, g, price, total, cores)
        best = max(best, value)
        if value == 0.0 or wanted < cores:
            high, at_high, slope_high = price, value, slope
            if value == 0.0:
                break
        else:
            low, at_low, slope_low = price, value, slope
            wanted -= drop
            if wanted < cores:
                return best, price
    if high == top:
        high = min(low + step, top)
        for _ in range(_ITERATIONS):  # until demand is below the cores
            at_high, slope_high, wanted, _ = _at_price(curves, kinds, counts, weights, g, high, total, cores)
            best = max(best, at_high)
            if at_high == 0.0 or wanted < cores or high >= top:
                break
            low, at_low, slope_low = high, at_high, slope_high
            step *= 2.0
            high = min(low + step, top)
    width = high - low
    for k in range(_ITERATIONS):
        ahead = 0.5 * (high - low)
        if at_high > 0.0 and slope_low > slope_high:
            ahead = (at_high - at_low - slope_high * (high - low)) / (slope_low - slope_high)
            flat = slope_low * (high - low) <= _GAP * best
            if at_low + slope_low * ahead - best <= _GAP * best:
                if not flat:
                    break
            elif k % 3 == 2 and high - low > 0.5 * width:
                ahead = 0.5 * (high - low)
            elif not flat and k % 2 == 0:
                ahead = (high - low) * slope_low / (slope_low - slope_high)
        if k % 3 == 2:
            width = high - low
        price = low + ahead
        if not low < price < high:
            break
        value, slope, wanted, _ = _at_price(curves, kinds, counts, weights, g, price, total, cores)
        best = max(best, value)
        if value > 0.0 and wanted >= cores:
            low, at_low, slope_low = price, value, slope
        else:
            high, at_high, slope_high = price, value, slope
    return best, high if at_high > at_low * (1.0 - _GAP) else low


@njit_norefs
def batch_weights(
    curves: Curves, kinds: Ints, counts: Floats, costs: Floats, cores: float, weights: Floats
) -> float:
    """Fill `weights` of groups of jobs, which come by remaining work, largest first; return the last price.

    Each weight is such that the best weighted speed of all groups up to it is their cost per unit of time.
    """
    price, before, total, first = 0.0, 0.0, 0.0, True
    for g in range(kinds.size):
        if counts[g] <= 0.0:
            weights[g] = 0.0
            continue
        total += counts[g] * costs[g]
        if first:
            first = False
            z = cores / counts[g]
            weights[g] = costs[g] / _speed(curves, kinds[g], z)
            price = weights[g] * _left_slope(curves, kinds[g], z)
            continue
        step = max(2.0 * (price - before), 0.5 * counts[g] * costs[g] / cores)
        before = price
        weights[g], price = _next_weight(curves, kinds, counts, weights, g, total, cores, price, step)
    return price


@njit_norefs
def _fill_at(curves: Curves, kinds: Ints, weights: Floats, caps: Floats, price: float, out: Floats) -> None:
    """Fill `out` with what jobs of each group demand at a price, at most their caps."""
    for g in range(kinds.size):
        out[g] = 0.0
        if weights[g] > 0.0:
            out[g] = min(demand(curves, kinds[g], price / weights[g]), caps[g])


@njit_norefs
def _demand_at(
    curves: Curves, kinds: Ints, counts: Floats, weights: Floats, caps: Floats, price: float
) -> tuple[float, float]:
    """Return what all jobs demand at a price, at most their caps, and −1 times the price times its slope."""
    wanted, falls = 0.0, 0.0
    for g in range(kinds.size):
        if weights[g] > 0.0:
            z, _, fall = _taken(curves, kinds[g], price / weights[g])
            if z < caps[g]:
                wanted += counts[g] * z
                falls += counts[g] * fall
            else:
                wanted += counts[g] * caps[g]
    return wanted, falls


@njit_norefs
def _first_price(curves: Curves, kinds: Ints, counts: Floats, weights: Floats, cores: float) -> float:
    """Return about what a core costs: the mean worth of a little more of one where all jobs hold the same."""
    jobs, worth = 0.0, 0.0
    for g in range(kinds.size):
        jobs += counts[g]
    for g in range(kinds.size):
        worth += counts[g] * weights[g] * _left_slope(curves, kinds[g], max(cores / jobs, 1.0))
    return worth / jobs


@njit_norefs
def _cores_held(counts: Floats, widths: Floats) -> float:
    """Return the cores that groups hold, added one by one: NumPy's sums are rounded in another order."""
    total = 0.0
    for g in range(counts.size):
        total += counts[g] * widths[g]
    return total


@njit(cache=True)
def water_fill(
    curves: Curves, kinds: Ints, counts: Floats, weights: Floats, caps: Floats, cores: float, out: Floats
) -> float:
    """Fill `out` with the widths that maximise the weighted speed of all groups; return the price of a core.

    Groups that are tied at the price, up to rounding, share what is left in proportion to what they would
    take.
    """
    low, high = 0.0, 0.0
    for g in range(kinds.size):
        high = max(high, weights[g] * _left_slope(curves, kinds[g], 0.0))
    _fill_at(curves, kinds, weights, caps, 0.0, out)
    if _cores_held(counts, out) <= cores:
        return 0.0
    price = _first_price(curves, kinds, counts, weights, cores)
    for _ in range(_ITERATIONS):
        if not low < price < high:
            price = 0.5 * (low + high)
        if not high - low > 0.1 * _TIE * high:
            break
        wanted, falls = _demand_at(curves, kinds, counts, weights, caps, price)
        if wanted > cores:
            low = price
        else:
            high = price
        if falls > 0.0:
            closer = _newton_price(price, wanted, falls, cores)
            if abs(closer - price) <= 0.5 * _TIE * price:
                low, high = price, price
            price = closer
        else:
            price = 0.0
    more = np.empty(kinds.size)
    _fill_at(curves, kinds, weights, caps, low * (1.0 - _TIE), more)
    _fill_at(curves, kinds, weights, caps, high * (1.0 + _TIE), out)
    over, under = _cores_held(counts, more), _cores_held(counts, out)
    share = min(max((cores - under) / (over - under), 0.0), 1.0) if over > under else 0.0
    out += share * (more - out)
    return high


@tiered(lambda _, bins, *rest: 2000.0 * bins.classes.size * rest[-1].shape[1])
@njit(cache=True)
def cores_by_counts(
    curves: Curves,
    bins: Bins,
    crowd: Crowd,
    factor: float,
    cores: float,
    widest: float,
    counts: Ints,
    out: Floats,
) -> None:
    """Fill `out` with the cores of classes by the counts of their jobs, both of shape (classes, states).

    For jobs that are told apart by their classes alone: every job of a class has the weight of its mean bin,
    and holds at most `widest` times the equal share, or one core.
    """
    size, classes = bins.classes.size, counts.shape[0]
    expected, weights, lifted = np.empty(size), np.empty(size), np.zeros(size)
    each, mean, caps, present = np.arange(classes), np.empty(classes), np.empty(classes), np.empty(classes)
    for k in range(counts.shape[1]):
        total = 0.0
        for i in range(classes):
            mean[i], present[i] = 0.0, float(counts[i, k])
            total += present[i]
        if total == 0.0:
            out[:, k] = 0.0
            continue
        for g in range(size):
            expected[g] = present[bins.classes[g]] * bins.probabilities[g]
            if expected[g] < RARE:
                expected[g] = 0.0
        price = batch_weights(curves, bins.classes, expected, bins.costs, cores, weights)
        lifts(curves, bins.classes, bins.costs, price, price * (1.0 + factor), lifted)
        weights += lifted
        revert(curves, bins.classes, bins.costs, bins.works, crowd, weights)
        for g in range(size):
            if expected[g] > 0.0:
                mean[bins.classes[g]] += bins.probabilities[g] * weights[g]
        caps[:] = max(1.0, widest * cores / total)
        water_fill(curves, each, present, mean, caps, cores, lifted[:classes])
        for i in range(classes):
            out[i, k] = present[i] * lifted[i]


@njit(cache=True)
def knapsack_table(values: Floats, pool: Int, best: Floats, taken: Ints) -> None:
    """Fill the table of a knapsack: what each job takes of every number of cores, and the best total values.

    `values` has a row per job and a column per width, from none on, and minus infinity where a width is not
    allowed; `best` comes with the values of every number of cores without any job. Of widths that are as
    good, up to rounding, the narrowest is taken.
    """
    jobs, columns = values.shape
    after = np.empty(pool + 1)
    for j in range(jobs):
        for x in range(pool + 1):
            top, at = -np.inf, np.int64(0)
            for u in range(min(x, columns - 1) + 1):
                value = best[x - u] + values[j, u]
                if value > top and value - top > _TIE * abs(value):
                    top, at = value, np.int64(u)
            after[x] = top
            taken[j, x] = at
        best[:] = after


@njit(cache=True)
def read_widths(taken: Ints, used: Int, out: Ints) -> None:
    """Fill `out` with the widths of jobs that use so many cores together, by the table of a knapsack."""
    for j in range(len(taken) - 1, -1, -1):
        out[j] = taken[j, used]
        used -= out[j]


@njit(cache=True)
def knapsack(values: Floats, pool: Int, out: Ints) -> float:
    """Fill `out` with the widths of the largest total value within the pool; return that value.

    For `values` see `knapsack_table`. Of totals that are as good the one of the fewest cores is taken.
    """
    best = np.zeros(pool + 1)
    taken = np.zeros((len(values), pool + 1), dtype=np.int64)
    knapsack_table(values, pool, best, taken)
    used = np.int64(0)
    for x in range(pool + 1):
        if best[x] - best[used] > _TIE * abs(best[x]):
            used = np.int64(x)
    read_widths(taken, used, out)
    return float(best[used])


@tiered(lambda speeds, *_: 1.0 * speeds.size)
@njit(cache=True)
def concave_corners(
    speeds: Floats, lows: Ints, highs: Ints, starts: Ints, widths: Floats, heights: Floats
) -> None:
    """Fill the corners of the least concave majorant of tables of whole cores, one row of `speeds` each.

    A job holds none, or from `lows` to `highs` cores; of a table that falls the majorant ends at its peak.
    `starts` has a place more than there are rows.
    """
    at = np.int64(0)
    for j in range(speeds.shape[0]):
        first = at
        starts[j] = first
        widths[at], heights[at] = 0.0, 0.0
        for u in range(max(lows[j], 1), highs[j] + 1):
            if speeds[j, u] <= heights[at]:
                continue
            while at > first:
                rise, run = heights[at] - heights[at - 1], widths[at] - widths[at - 1]
                if rise * (u - widths[at]) > (speeds[j, u] - heights[at]) * run:
                    break
                at -= 1
            at += 1
            widths[at], heights[at] = float(u), speeds[j, u]
        at += 1
    starts[speeds.shape[0]] = at


@njit(cache=True)
def _best_step(values: Floats, j: Int, u: Int, free: Int) -> tuple[int, float]:
    """Return the width from none to u + free that is worth most to job j, and what it gains over u."""
    at, top = u, values[j, u]
    for v in range(min(u + free, values.shape[1] - 1) + 1):
        if values[j, v] > top:
            at, top = np.int64(v), values[j, v]
    return int(at), float(top - values[j, u])


@njit(cache=True)
def _corners_at(curves: Curves, price: float, out: Ints) -> int:
    """Fill `out` with the widths that jobs demand at a price, a curve of corners each; return their sum."""
    total = np.int64(0)
    for j in range(out.size):
        out[j] = np.int64(demand(curves, j, price))
        total += out[j]
    return int(total)


@njit(cache=True)
def greedy_widths(values: Floats, pool: Int, out: Ints) -> float:
    """Fill `out` with widths of a large total value: a price for cores on the concave majorants, then repair.

    At the least price at which cores suffice jobs take what they demand. Then next pieces of majorants are
    taken by value per core while they fit, cores that are left go to the step that gains most, and a job
    gives up cores for another as long as that gains: among jobs that hold cores and those that came next.
    """
    jobs, columns = values.shape
    starts = np.empty(jobs + 1, dtype=np.int64)
    widths, heights = np.empty(jobs * columns + 1), np.empty(jobs * columns + 1)
    base = np.ascontiguousarray(values[:, 0])
    lows, highs = np.ones(jobs, dtype=np.int64), np.full(jobs, columns - 1, dtype=np.int64)
    concave_corners(values - base.reshape(jobs, 1), lows, highs, starts, widths, heights)
    curves = (np.full(jobs, CORNERS, dtype=np.int64), base, base, starts, widths, heights)
    low, high = 0.0, 1.0
    while _corners_at(curves, high, out) > pool:
        low, high = high, 2.0 * high
    for _ in range(_PRICES):
        price = 0.5 * (low + high)
        if _corners_at(curves, price, out) > pool:
            low = price
        else:
            high = price
    free = np.int64(pool - _corners_at(curves, high, out))
    density, owner, end = np.zeros(jobs), np.arange(jobs), np.zeros(jobs, dtype=np.int64)
    for j in range(jobs):
        k = starts[j]
        while k < starts[j + 1] - 1 and widths[k] < out[j]:
            k += 1
        if k < starts[j + 1] - 1:
            density[j] = (heights[k + 1] - heights[k]) / (widths[k + 1] - widths[k])
            end[j] = np.int64(widths[k + 1])
    near, left = out > 0, _MARGINAL
    for j in np.argsort(-density, kind="mergesort"):
        if density[j] > 0.0 and end[j] - out[j] <= free:
            free -= end[j] - out[j]
            out[j] = end[j]
            near[j] = True
        elif left > 0:
            left -= 1
            near[j] = True
    _repair(values, owner[near], free, out)
    total = 0.0
    for j in range(jobs):
        total += values[j, out[j]]
    return total


@njit(cache=True)
def _best_gain(values: Floats, near: Ints, out: Ints, giver: Int, room: Int, least: float) -> tuple[int, int]:
    """Return which job but one gains most, above `least`, by a step within the room, and to which width."""
    best, who, width = least, -1, 0
    for j in near:
        if j != giver:
            at, gain = _best_step(values, j, out[j], room)
            if gain > best:
                best, who, width = gain, int(j), at
    return who, width


@njit(cache=True)
def _repair(values: Floats, near: Ints, free: Int, out: Ints) -> None:
    """Improve widths by single steps within the free cores, and by steps that one other job pays for."""
    for _ in range(4 * near.size):
        who, width = _best_gain(values, near, out, -1, free, 0.0)
        if who < 0:
            break
        free += out[who] - width
        out[who] = width
    for giver in near:
        for less in range(out[giver] - 1, max(out[giver] - 5, -1), -1):
            lost = values[giver, out[giver]] - values[giver, less]
            released = out[giver] - less
            who, width = _best_gain(values, near, out, giver, free + released, lost)
            if who >= 0:
                free += released + out[who] - width
                out[giver], out[who] = less, width
                break
