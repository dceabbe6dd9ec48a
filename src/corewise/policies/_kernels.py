"""Compiled water-filling; see `corewise.policies.shapes` and `waterfill` for the mathematics.

The price is carried as t = 1/√η, in which demand rises and Amdahl's is linear; class i, with offer ω_i,
starts to buy at t_i = 1/√ω_i. The demands of all classes come as three plain arrays, because a kernel that
reads array fields of a tuple counts references on every access, at many times the cost of the arithmetic:

- ``tails[i]`` = (kind, a, b, root, widest): the tail is bought from t = t_i · root on,
- ``pieces[i, k]`` = (root, width): a piece of slope m is bought at t = t_i · root, root = 1/√m,
- ``nodes[i, k]`` = (price, extra) of a sampled tail, prices rising.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = [
    "INVERSE_ROOT",
    "NO_TAIL",
    "POWER",
    "SAMPLED",
    "fill_states",
    "split_closed_states",
    "split_states",
]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

u = np.uint64  # an unsigned index spares the test for a negative one

NO_TAIL, INVERSE_ROOT, POWER, SAMPLED = 0.0, 1.0, 2.0, 3.0


@njit(cache=True)
def fill_states(wanted: Floats, budget: Floats, ranks: Ints, given: Floats) -> None:
    """Serve the classes of every state by rank; see `corewise.policies.waterfill.fill_in_order`."""
    classes, states = wanted.shape[0], u(wanted.shape[1])
    for s in range(states):
        left = budget[s]
        for rank in range(classes):
            asked = 0.0
            for i in range(classes):
                if ranks[i] == rank:
                    asked += wanted[i, s]
            part = min(left / asked, 1.0) if asked > 0.0 else 0.0
            for i in range(classes):
                if ranks[i] == rank:
                    given[i, s] = part * wanted[i, s]
            left = max(left - asked, 0.0)


@njit(cache=True)
def _curved(tails: Floats, nodes: Floats, i: int, ratio: float) -> tuple[float, float]:
    """Return extra and d extra / d log t of a power or sampled tail at ratio = t / t_i."""
    price = 1.0 / (ratio * ratio)
    if tails[i, 0] == POWER:
        grown = math.exp(min(tails[i, 2] * math.log(tails[i, 1] / price), 600.0)) if price > 0.0 else math.inf
        return max(grown - 1.0, 0.0), 2.0 * tails[i, 2] * grown
    low, high = 0, nodes.shape[1] - 1
    if price <= nodes[i, low, 0]:
        return nodes[i, low, 1], 0.0
    while high - low > 1:
        middle = (low + high) // 2
        if nodes[i, middle, 0] <= price:
            low = middle
        else:
            high = middle
    fall = (nodes[i, high, 1] - nodes[i, low, 1]) / (nodes[i, high, 0] - nodes[i, low, 0])
    return nodes[i, low, 1] + fall * (price - nodes[i, low, 0]), -2.0 * fall * price


@njit(cache=True)
def _width(tails: Floats, pieces: Floats, nodes: Floats, i: int, start: float, t: float, most: bool) -> float:
    """Return the width a class-i job takes at t: the least, or the most where demand jumps."""
    width = 0.0
    for k in range(pieces.shape[1]):
        at = start * pieces[i, k, 0]
        if at < t or (most and at == t):
            width += pieces[i, k, 1]
    if tails[i, 0] != NO_TAIL and start * tails[i, 3] < t:
        if math.isinf(t):
            width += nodes[i, 0, 1] if tails[i, 0] == SAMPLED else tails[i, 4]
        elif tails[i, 0] == INVERSE_ROOT:
            width += max(tails[i, 1] * (t / start) + tails[i, 2], 0.0)
        else:
            width += _curved(tails, nodes, i, t / start)[0]
    if most and math.isinf(t):
        width += tails[i, 4]
    return width


@njit(cache=True)
def _total(
    tails: Floats, pieces: Floats, nodes: Floats, counts: Ints, starts: Floats, t: float, most: bool
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
    ranks: Ints,
    cores: Floats,
) -> None:
    """Give everybody the least demand at t, and share what is left of the budget over the jumps there."""
    left = budget
    for i in range(counts.size):
        cores[i] = 0.0
        if counts[i] > 0:
            cores[i] = counts[i] * _width(tails, pieces, nodes, i, starts[i], t, False)
            left -= cores[i]
    for rank in range(counts.size):
        jumps = 0.0
        for i in range(counts.size):
            if counts[i] > 0 and ranks[i] == rank:
                jumps += counts[i] * _width(tails, pieces, nodes, i, starts[i], t, True) - cores[i]
        if jumps <= 0.0 or left <= 0.0:
            continue
        part = min(left / jumps, 1.0)
        for i in range(counts.size):
            if counts[i] > 0 and ranks[i] == rank:
                most = counts[i] * _width(tails, pieces, nodes, i, starts[i], t, True)
                cores[i] += part * (most - cores[i])
        left -= part * jumps


@njit(cache=True)
def _rise(tails: Floats, nodes: Floats, i: int, start: float, t: float) -> float:
    """Return d width / d log t of a class-i job, from its tail."""
    if tails[i, 0] == NO_TAIL or not start * tails[i, 3] < t:
        return 0.0
    if tails[i, 0] == INVERSE_ROOT:
        return float(tails[i, 1] * (t / start))
    return _curved(tails, nodes, i, t / start)[1]


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
        while _total(tails, pieces, nodes, counts, starts, ceiling, False) < budget:
            ceiling *= 8.0
    bottom, top = math.log(low), math.log(ceiling)
    u = 0.5 * (bottom + top)
    for k in range(300):
        t = math.exp(u)
        total = _total(tails, pieces, nodes, counts, starts, t, False)
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
    under = _total(tails, pieces, nodes, counts, starts, below, False)
    over = _total(tails, pieces, nodes, counts, starts, above, False)
    share = (budget - under) / (over - under) if over > under else 0.0
    for i in range(counts.size):
        cores[i] = 0.0
        if counts[i] > 0:
            least = _width(tails, pieces, nodes, i, starts[i], below, False)
            most = _width(tails, pieces, nodes, i, starts[i], above, False)
            cores[i] = counts[i] * (least + share * (most - least))
    return above


@njit(cache=True)
def _split(
    tails: Floats,
    pieces: Floats,
    nodes: Floats,
    counts: Ints,
    starts: Floats,
    budget: float,
    ranks: Ints,
    cores: Floats,
) -> float:
    """Write the best split of `budget` cores into `cores`, and return its level t."""
    low, high = 0.0, math.inf
    for i in range(counts.size):
        if counts[i] == 0:
            continue
        for k in range(pieces.shape[1] + 1):
            t = starts[i] * (pieces[i, k, 0] if k < pieces.shape[1] else tails[i, 3])
            if not low < t < high:
                continue
            if _total(tails, pieces, nodes, counts, starts, t, False) > budget:
                high = t
            elif _total(tails, pieces, nodes, counts, starts, t, True) >= budget:
                _settle(tails, pieces, nodes, counts, starts, t, budget, ranks, cores)
                return float(t)
            else:
                low = t
    if math.isinf(high) and (
        low == 0.0 or _total(tails, pieces, nodes, counts, starts, math.inf, False) <= budget
    ):
        _settle(tails, pieces, nodes, counts, starts, math.inf, budget, ranks, cores)
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
            cores[i] = counts[i] * _width(tails, pieces, nodes, i, starts[i], t, False)
            total += cores[i]
    for i in range(counts.size):
        if counts[i] > 0:
            rise = counts[i] * _rise(tails, nodes, i, starts[i], t)
            cores[i] += (budget - total) * (rise / (factor * t))
    return float(t)


@njit(cache=True)
def split_states(
    tails: Floats,
    pieces: Floats,
    nodes: Floats,
    counts: Ints,
    offers: Floats,
    budget: Floats,
    ranks: Ints,
    cores: Floats,
    levels: Floats,
) -> None:
    """Split the cores of every state; counts, offers and cores of shape (K, states).

    `levels` becomes the price η of each state, zero where one class alone takes all.
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
            levels[s] = 0.0
            starts[i] = 1.0 / math.sqrt(offers[i, s]) if offers[i, s] > 0.0 else math.inf
            if n[i] > 0:
                present += 1
                only = i
        if present == 0 or budget[s] <= 0.0:
            continue
        if present == 1:
            cores[only, s] = budget[s]
            continue
        t = _split(tails, pieces, nodes, n, starts, budget[s], ranks, x)
        levels[s] = 1.0 / (t * t)
        for i in range(classes):
            cores[i, s] = x[i]


@njit(cache=True)
def split_closed_states(
    tails: Floats, pieces: Floats, counts: Ints, offers: Floats, budget: Floats, cores: Floats
) -> None:
    """Do as `split_states`, for classes with at most one piece and an Amdahl tail; ties in proportion.

    The same water level, written flat: this is the inner loop of the Bellman operator, and calls would cost
    many times the arithmetic.
    """
    classes, states = counts.shape[0], u(counts.shape[1])
    unit, width = pieces[:, 0, 0].copy(), pieces[:, 0, 1].copy()
    a, b, root = tails[:, 1].copy(), tails[:, 2].copy(), tails[:, 3].copy()
    n, scale, first, second = np.empty(classes), np.empty(classes), np.empty(classes), np.empty(classes)
    for s in range(states):
        have = budget[s]
        if have <= 0.0:
            for i in range(classes):
                cores[i, s] = 0.0
            continue
        present = 0.0
        for i in range(classes):
            n[i] = counts[i, s]
            present += n[i]
            scale[i] = math.sqrt(max(offers[i, s], 0.0))
            start = 1.0 / scale[i] if scale[i] > 0.0 else math.inf
            first[i], second[i] = start * unit[i], start * root[i]
        low, high, level = 0.0, math.inf, -1.0
        left, jumps = have, 0.0
        for event in range(2 * classes):
            i = event >> 1
            t = first[i] if event & 1 == 0 else second[i]
            if n[i] == 0.0 or t <= low or t >= high:
                continue
            least, jump = 0.0, 0.0
            for j in range(classes):
                if first[j] < t:
                    least += n[j] * width[j]
                elif first[j] == t:
                    jump += n[j] * width[j]
                if second[j] < t:
                    least += n[j] * (a[j] * (t * scale[j]) + b[j])
            if least > have:
                high = t
            elif least + jump >= have:
                level, left, jumps = t, have - least, jump
                break
            else:
                low = t
        factor = 0.0
        if level < 0.0:
            constant = 0.0
            for j in range(classes):
                if first[j] <= low:
                    constant += n[j] * width[j]
                if second[j] <= low:
                    constant += n[j] * b[j]
                    factor += n[j] * a[j] * scale[j]
            if factor > 0.0:
                level, left = (have - constant) / factor, 0.0
            else:
                level, left = math.inf, have - constant
        everywhere = math.isinf(level)
        total = 0.0
        for j in range(classes):
            x = 0.0
            if n[j] > 0.0:
                if first[j] < level:
                    x = n[j] * width[j]
                elif first[j] == level and jumps > 0.0:
                    x = left * (n[j] * width[j] / jumps)
                if everywhere:
                    x += left * (n[j] / present)
                elif second[j] < level:
                    x += n[j] * (a[j] * (level * scale[j]) + b[j])
            cores[j, s] = x
            total += x
        if factor > 0.0:
            rest = (have - total) / factor
            for j in range(classes):
                if second[j] <= low:
                    cores[j, s] += rest * (n[j] * a[j] * scale[j])
