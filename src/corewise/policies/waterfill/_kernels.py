"""Compiled water-filling; see `corewise.policies.waterfill.demand` and `waterfill` for the mathematics.

The price is carried as t = 1/√η, in which demand rises and Amdahl's is linear; class i, with offer ω_i,
starts to buy at t_i = 1/√ω_i. The demands of all classes come as three plain arrays, because a kernel that
reads array fields of a tuple counts references on every access, at many times the cost of the arithmetic:

- ``tails[i]`` = (kind, a, b, root, all cores, limit, most): the tail is bought from t = t_i · root on, up to
  `limit` cores, and a job holds no more than `most` in all; both are infinite where nothing limits them,
- ``pieces[i, k]`` = (root, width): a piece of slope m is bought at t = t_i · root, root = 1/√m,
- ``nodes[r, k]`` = (price, extra) of a sampled tail, prices rising; a sampled tail has its row r as a.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from corewise.kit._kernels import tiered
from corewise.kit.arrays import Floats, Ints

__all__ = [
    "CUT_ROOT",
    "INVERSE_ROOT",
    "LIMIT",
    "MOST_CORES",
    "NO_TAIL",
    "POWER",
    "SAMPLED",
    "START",
    "Demands",
    "curved_tail",
    "split_closed_states",
    "split_near",
    "split_states",
    "stride_of",
]


u = np.uint64  # an unsigned index spares the test for a negative one

NO_TAIL, INVERSE_ROOT, POWER, SAMPLED, CUT_ROOT = 0.0, 1.0, 2.0, 3.0, 4.0  # the last: a limited inverse root
ALL, LIMIT, MOST_CORES, START = 4, 5, 6, 7  # columns of tails; the last one is there in levels only

UNIT, WIDTH, A, B, ROOT = 0, 1, 2, 3, 4  # the rows of closed terms: one piece, and an Amdahl tail
N, SCALE, FIRST, SECOND = 0, 1, 2, 3  # of the classes of a state: jobs, 1/t_i, and where they begin to buy

# Which of two demands: numba compiles a function once for every literal, and these are none.
LEAST, MOST = np.bool_(False), np.bool_(True)

# How often the slope of demand is followed, how often when the level lies between two places, how far.
_STEPS, _BETWEEN, _FAR = 6, 3, 10.0


class Demands(NamedTuple):
    """Demands of all classes, for kernels that count no references."""

    tails: Floats
    pieces: Floats
    nodes: Floats


@njit(cache=True)
def curved_tail(tails: Floats, nodes: Floats, i: int, ratio: float) -> tuple[float, float]:
    """Return extra and d extra / d log t of a tail that is not a plain inverse root, at ratio = t / t_i."""
    price = 1.0 / (ratio * ratio)
    if tails[i, 0] == POWER:
        grown = math.exp(min(tails[i, 2] * math.log(tails[i, 1] / price), 600.0)) if price > 0.0 else math.inf
        if grown - 1.0 >= tails[i, LIMIT]:
            return tails[i, LIMIT], 0.0
        return max(grown - 1.0, 0.0), 2.0 * tails[i, 2] * grown
    if tails[i, 0] == CUT_ROOT:
        grown = tails[i, 1] * ratio
        if grown + tails[i, 2] >= tails[i, LIMIT]:
            return tails[i, LIMIT], 0.0
        return max(grown + tails[i, 2], 0.0), grown
    row, low, high = int(tails[i, 1]), 0, nodes.shape[1] - 1
    if price <= nodes[row, low, 0]:
        return nodes[row, low, 1], 0.0
    if price >= nodes[row, high, 0]:  # several nodes may have the highest price: nothing to divide by
        return nodes[row, high, 1], 0.0
    while high - low > 1:
        middle = (low + high) // 2
        if nodes[row, middle, 0] <= price:
            low = middle
        else:
            high = middle
    fall = (nodes[row, high, 1] - nodes[row, low, 1]) / (nodes[row, high, 0] - nodes[row, low, 0])
    return nodes[row, low, 1] + fall * (price - nodes[row, low, 0]), -2.0 * fall * price


@njit(cache=True)
def _width(
    tails: Floats, pieces: Floats, nodes: Floats, i: int, start: float, t: float, most: bool | np.bool_
) -> float:
    """Return the width a class-i job takes at t: the least, or the most where demand jumps."""
    width = 0.0
    for k in range(pieces.shape[1]):
        at = start * pieces[i, k, 0]
        if at < t or (most and at == t):
            width += pieces[i, k, 1]
    if tails[i, 0] != NO_TAIL and start * tails[i, 3] < t:
        if math.isinf(t):
            extra = nodes[int(tails[i, 1]), 0, 1] if tails[i, 0] == SAMPLED else tails[i, ALL]
            width += min(extra, tails[i, LIMIT])
        elif tails[i, 0] == INVERSE_ROOT:
            width += max(tails[i, 1] * (t / start) + tails[i, 2], 0.0)
        else:
            width += curved_tail(tails, nodes, i, t / start)[0]
    if most and math.isinf(t):
        width = min(width + tails[i, ALL], tails[i, MOST_CORES])
    return width


@njit(cache=True)
def _total(
    tails: Floats,
    pieces: Floats,
    nodes: Floats,
    counts: Ints,
    starts: Floats,
    t: float,
    most: bool | np.bool_,
) -> float:
    total = 0.0
    for i in range(counts.size):
        if counts[i] > 0:
            total += counts[i] * _width(tails, pieces, nodes, i, starts[i], t, most)
    return total


@njit(cache=True)
def _settle(
    tails: Floats,
    pieces: Floats,
    nodes: Floats,
    counts: Ints,
    starts: Floats,
    t: float,
    budget: float,
    cores: Floats,
) -> None:
    """Give every job the least demand at t, and share what is left of the budget over the jumps there."""
    unallocated, jumps = budget, 0.0
    for i in range(counts.size):
        cores[i] = 0.0
        if counts[i] > 0:
            cores[i] = counts[i] * _width(tails, pieces, nodes, i, starts[i], t, LEAST)
            unallocated -= cores[i]
            jumps += counts[i] * _width(tails, pieces, nodes, i, starts[i], t, MOST) - cores[i]
    if unallocated > 0.0 and jumps > 0.0:
        part = min(unallocated / jumps, 1.0)
        for i in range(counts.size):
            if counts[i] > 0:
                most = counts[i] * _width(tails, pieces, nodes, i, starts[i], t, MOST)
                cores[i] += part * (most - cores[i])


@njit(cache=True)
def _rise(tails: Floats, nodes: Floats, i: int, start: float, t: float) -> float:
    """Return d width / d log t of a class-i job, from its tail."""
    if tails[i, 0] == NO_TAIL or not start * tails[i, 3] < t:
        return 0.0
    if tails[i, 0] == INVERSE_ROOT:
        return float(tails[i, 1] * (t / start))
    return curved_tail(tails, nodes, i, t / start)[1]


@njit(cache=True)
def _curved_split(
    tails: Floats,
    pieces: Floats,
    nodes: Floats,
    counts: Ints,
    starts: Floats,
    low: float,
    high: float,
    budget: float,
    cores: Floats,
) -> float:
    """Write the split at the t in (low, high) at which demand meets the budget: Newton in log t, safeguarded.

    A tail may be so nearly straight that demand leaps over the budget between two neighbouring numbers; the
    split is then taken between the demands on either side.
    """
    ceiling = high
    if math.isinf(ceiling):
        ceiling = 8.0 * low
        while _total(tails, pieces, nodes, counts, starts, ceiling, LEAST) < budget:
            ceiling *= 8.0
    bottom, top = math.log(low), math.log(ceiling)
    u = 0.5 * (bottom + top)
    for k in range(300):
        t = math.exp(u)
        total = _total(tails, pieces, nodes, counts, starts, t, LEAST)
        if abs(total - budget) <= 1e-14 * budget:
            bottom = top = u
            break
        if total < budget:
            bottom = u
        else:
            top = u
        if top - bottom <= 1e-16 * max(1.0, abs(top)):
            break
        rise = 0.0
        for i in range(counts.size):
            if counts[i] > 0:
                rise += counts[i] * _rise(tails, nodes, i, starts[i], t)
        # Newton's step, but every third time the middle: far out, where demand explodes, its steps are tiny.
        step = u - total * math.log(total / budget) / rise if rise > 0.0 and k % 3 < 2 else top
        u = step if bottom < step < top else 0.5 * (bottom + top)
    below, above = math.exp(bottom), math.exp(top)
    under = _total(tails, pieces, nodes, counts, starts, below, LEAST)
    over = _total(tails, pieces, nodes, counts, starts, above, LEAST)
    share = (budget - under) / (over - under) if over > under else 0.0
    for i in range(counts.size):
        cores[i] = 0.0
        if counts[i] > 0:
            least = _width(tails, pieces, nodes, i, starts[i], below, LEAST)
            most = _width(tails, pieces, nodes, i, starts[i], above, LEAST)
            cores[i] = counts[i] * (least + share * (most - least))
    return above


@tiered(lambda _: 1.0, most=1.0)
@njit(cache=True)
def stride_of(size: int) -> int:
    """Return a step with which every index is met, no few of them in a row rising or falling.

    The level is bracketed by trying break points; met in order of price, each would move one end of the
    bracket by one place, and met at random a few of them leave none to try.
    """
    step = max(1, int(0.618 * size))
    while math.gcd(step, size) > 1:
        step += 1
    return step


@njit(cache=True)
def _split(
    tails: Floats,
    pieces: Floats,
    nodes: Floats,
    counts: Ints,
    starts: Floats,
    budget: float,
    cores: Floats,
    low: float,
    high: float,
) -> float:
    """Write the best split of `budget` cores into `cores`, and return its level t, which is in (low, high).

    At `low` the most demand is below the budget, at `high` the least demand above it; zero and infinity will
    do if nothing is known.
    """
    stride = stride_of(counts.size)
    for j in range(counts.size):
        i = j * stride % counts.size
        if counts[i] == 0:
            continue
        for k in range(pieces.shape[1] + 1):
            t = starts[i] * (pieces[i, k, 0] if k < pieces.shape[1] else tails[i, 3])
            if not low < t < high:
                continue
            if _total(tails, pieces, nodes, counts, starts, t, LEAST) > budget:
                high = t
            elif _total(tails, pieces, nodes, counts, starts, t, MOST) >= budget:
                _settle(tails, pieces, nodes, counts, starts, t, budget, cores)
                return float(t)
            else:
                low = t
    if math.isinf(high) and (
        low == 0.0 or _total(tails, pieces, nodes, counts, starts, math.inf, LEAST) <= budget
    ):
        _settle(tails, pieces, nodes, counts, starts, math.inf, budget, cores)
        return math.inf
    constant, factor, curved = 0.0, 0.0, False
    for i in range(counts.size):
        if counts[i] > 0:
            for k in range(pieces.shape[1]):
                if starts[i] * pieces[i, k, 0] <= low:
                    constant += counts[i] * pieces[i, k, 1]
            if tails[i, 0] != NO_TAIL and starts[i] * tails[i, 3] <= low:
                if tails[i, 0] == INVERSE_ROOT:
                    constant += counts[i] * tails[i, 2]
                    factor += counts[i] * tails[i, 1] / starts[i]
                else:
                    curved = True
    if curved:
        return _curved_split(tails, pieces, nodes, counts, starts, low, high, budget, cores)
    t = min(max((budget - constant) / factor, low), high)
    total = 0.0
    for i in range(counts.size):
        cores[i] = 0.0
        if counts[i] > 0:
            cores[i] = counts[i] * _width(tails, pieces, nodes, i, starts[i], t, LEAST)
            total += cores[i]
    for i in range(counts.size):
        if counts[i] > 0:
            rise = counts[i] * _rise(tails, nodes, i, starts[i], t)
            cores[i] += (budget - total) * (rise / (factor * t))
    return float(t)


@njit(cache=True)
def split_near(
    tails: Floats,
    pieces: Floats,
    nodes: Floats,
    counts: Ints,
    starts: Floats,
    budget: float,
    cores: Floats,
    guess: float,
) -> float:
    """Split the cores of one state with two classes or more, and return the level; quick if near the guess.

    Offers ω come as the t at which a class begins to buy, 1/√ω. The slope of demand is followed from the
    guess; if demand jumps over the budget on the way, a bracket is left in which `_split` finds the jump.
    """
    t, low, high, between = guess, 0.0, math.inf, 0
    if not 0.0 < guess < math.inf:
        return _split(tails, pieces, nodes, counts, starts, budget, cores, low, high)
    for _ in range(_STEPS):
        total, rise = 0.0, 0.0
        for i in range(counts.size):
            cores[i] = 0.0
            if counts[i] > 0:
                start, held, slope = starts[i], 0.0, 0.0
                for k in range(pieces.shape[1]):
                    if start * pieces[i, k, 0] < t:
                        held += pieces[i, k, 1]
                if tails[i, 0] != NO_TAIL and start * tails[i, 3] < t:
                    if tails[i, 0] == INVERSE_ROOT:
                        slope = tails[i, 1] * (t / start)
                        held += max(slope + tails[i, 2], 0.0)
                    else:
                        extra, slope = curved_tail(tails, nodes, i, t / start)
                        held += extra
                cores[i] = counts[i] * held
                total += cores[i]
                rise += counts[i] * slope
        if abs(total - budget) <= 1e-13 * budget:
            return t
        if total > budget:
            high = min(high, t)
        else:
            low = max(low, t * (1.0 - 1e-14))  # the most demand there is no more than the least at t
        step = (budget - total) / rise if 0.0 < rise < math.inf else math.inf
        between += 1 if low > 0.0 and high < math.inf else 0
        if between > _BETWEEN or step > _FAR:
            break
        t *= 1.0 + max(step, -0.5)
    return _split(tails, pieces, nodes, counts, starts, budget, cores, low, high)


@njit(cache=True)
def split_states(
    tails: Floats,
    pieces: Floats,
    nodes: Floats,
    counts: Ints,
    offers: Floats,
    budget: Floats,
    cores: Floats,
    water_levels: Floats,
) -> None:
    """Split the cores of every state; counts, offers and cores of shape (K, states).

    `water_levels` becomes the price η of each state, zero where one class alone takes all it can use.
    """
    classes, states = counts.shape
    n = np.empty(classes, dtype=np.int64)
    starts = np.empty(classes)
    x = np.empty(classes)
    for s in range(states):
        present = 0
        only = 0
        for i in range(classes):
            n[i] = counts[i, s]
            cores[i, s] = 0.0
            water_levels[s] = 0.0
            starts[i] = 1.0 / math.sqrt(offers[i, s]) if offers[i, s] > 0.0 else math.inf
            if n[i] > 0:
                present += 1
                only = i
        if present == 0 or budget[s] <= 0.0:
            continue
        if present == 1:
            cores[only, s] = min(budget[s], n[only] * tails[only, MOST_CORES])
            continue
        t = _split(tails, pieces, nodes, n, starts, budget[s], x, 0.0, math.inf)
        water_levels[s] = 1.0 / (t * t)
        for i in range(classes):
            cores[i, s] = x[i]


@tiered(lambda *args: 8.0 * args[-1].size, most=0.045)
@njit(cache=True)
def split_closed_states(
    terms: Floats, tried: Ints, counts: Ints, offers: Floats, budget: Floats, cores: Floats
) -> None:
    """Do as `split_states`, for classes with at most one piece and an Amdahl tail; ties in proportion.

    The same water level, written flat: this is the inner loop of the Bellman operator, and calls would cost
    many times the arithmetic. Break points are tried in the order of classes `tried`.
    """
    classes, states = counts.shape[0], u(counts.shape[1])
    own = np.empty((4, classes))
    for s in range(states):
        have = budget[s]
        present = 0.0
        for i in range(classes):
            cores[i, s] = 0.0
            own[N, i] = counts[i, s]
            present += own[N, i]
            own[SCALE, i] = math.sqrt(max(offers[i, s], 0.0))
            start = 1.0 / own[SCALE, i] if own[SCALE, i] > 0.0 else math.inf
            own[FIRST, i] = start * terms[UNIT, i]
            own[SECOND, i] = start * terms[ROOT, i]
        if have <= 0.0:
            continue
        low, high, water_level = 0.0, math.inf, -1.0
        unallocated, jumps = have, 0.0
        for event in range(2 * classes):
            i = tried[event >> 1]
            t = own[FIRST + (event & 1), i]
            if own[N, i] == 0.0 or t <= low or t >= high:
                continue
            least, jump = 0.0, 0.0
            for j in range(classes):
                if own[FIRST, j] < t:
                    least += own[N, j] * terms[WIDTH, j]
                elif own[FIRST, j] == t:
                    jump += own[N, j] * terms[WIDTH, j]
                if own[SECOND, j] < t:
                    least += own[N, j] * (terms[A, j] * (t * own[SCALE, j]) + terms[B, j])
            if least > have:
                high = t
            elif least + jump >= have:
                water_level, unallocated, jumps = t, have - least, jump
                break
            else:
                low = t
        factor = 0.0
        if water_level < 0.0:
            constant = 0.0
            for j in range(classes):
                if own[FIRST, j] <= low:
                    constant += own[N, j] * terms[WIDTH, j]
                if own[SECOND, j] <= low:
                    constant += own[N, j] * terms[B, j]
                    factor += own[N, j] * terms[A, j] * own[SCALE, j]
            if factor > 0.0:
                water_level, unallocated = (have - constant) / factor, 0.0
            else:
                water_level, unallocated = math.inf, have - constant
        everywhere = water_level == math.inf
        total = 0.0
        for j in range(classes):
            x = 0.0
            if own[N, j] > 0.0:
                if own[FIRST, j] < water_level:
                    x = own[N, j] * terms[WIDTH, j]
                elif own[FIRST, j] == water_level and jumps > 0.0:
                    x = unallocated * (own[N, j] * terms[WIDTH, j] / jumps)
                if everywhere:
                    x += unallocated * (own[N, j] / present)
                elif own[SECOND, j] < water_level:
                    x += own[N, j] * (terms[A, j] * (water_level * own[SCALE, j]) + terms[B, j])
            cores[j, s] = x
            total += x
        if factor > 0.0:
            rest = (have - total) / factor
            for j in range(classes):
                if own[SECOND, j] <= low:
                    cores[j, s] += rest * (own[N, j] * terms[A, j] * own[SCALE, j])
