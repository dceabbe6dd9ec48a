"""Compiled water-filling; see `corewise.policies.waterfill` for the mathematics.

The price is carried as t = 1/√η, in which demand rises and Amdahl's is linear; class i, with offer ω_i, starts
to buy at t_i = 1/√ω_i. The demands of all classes come as three plain arrays, because a kernel that reads array
fields of a tuple counts references on every access, at many times the cost of the arithmetic:

- ``tails[i]`` = (kind, a, b, root, widest): the tail is bought from t = t_i · root on,
- ``pieces[i, k]`` = (root, width): a piece of slope m is bought at t = t_i · root, root = 1/√m,
- ``nodes[i, k]`` = (price, extra) of a sampled tail, prices rising.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

__all__ = ["INVERSE_ROOT", "NO_TAIL", "POWER", "SAMPLED", "split_closed_states", "split_states"]

NO_TAIL, INVERSE_ROOT, POWER, SAMPLED = 0.0, 1.0, 2.0, 3.0


@njit(cache=True)
def _curved(tails, nodes, i, ratio):
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
def _width(tails, pieces, nodes, i, start, t, most):
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
def _total(tails, pieces, nodes, counts, starts, t, most):
    total = 0.0
    for i in range(counts.size):
        if counts[i] > 0:
            total += counts[i] * _width(tails, pieces, nodes, i, starts[i], t, most)
    return total


@njit(cache=True)
def _settle(tails, pieces, nodes, counts, starts, t, budget, ranks, cores):
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
def _rise(tails, nodes, i, start, t):
    """Return d width / d log t of a class-i job, from its tail."""
    if tails[i, 0] == NO_TAIL or not start * tails[i, 3] < t:
        return 0.0
    if tails[i, 0] == INVERSE_ROOT:
        return tails[i, 1] * (t / start)
    return _curved(tails, nodes, i, t / start)[1]


@njit(cache=True)
def _spread(tails, nodes, counts, starts, t, rest, cores):
    """Hand out what rounding left of the budget where a little more or less costs nothing: along the tails."""
    rise = 0.0
    for i in range(counts.size):
        if counts[i] > 0:
            rise += counts[i] * _rise(tails, nodes, i, starts[i], t)
    if rise > 0.0:
        for i in range(counts.size):
            if counts[i] > 0:
                cores[i] += rest * (counts[i] * _rise(tails, nodes, i, starts[i], t) / rise)


@njit(cache=True)
def _curved_level(tails, pieces, nodes, counts, starts, low, high, budget):
    """Return t in (low, high) at which demand meets the budget: safeguarded Newton in its logarithm."""
    ceiling = high
    if math.isinf(ceiling):
        ceiling = 8.0 * low
        while _total(tails, pieces, nodes, counts, starts, ceiling, False) < budget:
            ceiling *= 8.0
    bottom, top = math.log(low), math.log(ceiling)
    u = 0.5 * (bottom + top)
    for _ in range(200):
        t = math.exp(u)
        total = _total(tails, pieces, nodes, counts, starts, t, False)
        if abs(total - budget) <= 1e-14 * budget:
            break
        if total < budget:
            bottom = u
        else:
            top = u
        if top - bottom <= 4e-16 * max(abs(top), 1.0):
            break
        rise = 0.0
        for i in range(counts.size):
            rise += counts[i] * _rise(tails, nodes, i, starts[i], t)
        step = u - total * math.log(total / budget) / rise if rise > 0.0 else top
        u = step if bottom < step < top else 0.5 * (bottom + top)
    return math.exp(u)


@njit(cache=True)
def _split(tails, pieces, nodes, counts, starts, budget, ranks, cores):
    """Write the best split of `budget` cores into `cores`."""
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
                return
            else:
                low = t
    if math.isinf(high) and (
        low == 0.0 or _total(tails, pieces, nodes, counts, starts, math.inf, False) <= budget
    ):
        _settle(tails, pieces, nodes, counts, starts, math.inf, budget, ranks, cores)
        return
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
        t = _curved_level(tails, pieces, nodes, counts, starts, low, high, budget)
    else:
        t = min(max((budget - constant) / factor, low), high)
    total = 0.0
    for i in range(counts.size):
        cores[i] = 0.0
        if counts[i] > 0:
            cores[i] = counts[i] * _width(tails, pieces, nodes, i, starts[i], t, False)
            total += cores[i]
    _spread(tails, nodes, counts, starts, t, budget - total, cores)


@njit(cache=True)
def split_states(tails, pieces, nodes, counts, offers, budget, ranks, cores):
    """Split the cores of every state; counts, offers and cores of shape (K, states)."""
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
            starts[i] = 1.0 / math.sqrt(offers[i, s]) if offers[i, s] > 0.0 else math.inf
            if n[i] > 0:
                present += 1
                only = i
        if present == 0 or budget[s] <= 0.0:
            continue
        if present == 1:
            cores[only, s] = budget[s]
            continue
        _split(tails, pieces, nodes, n, starts, budget[s], ranks, x)
        for i in range(classes):
            cores[i, s] = x[i]


@njit(cache=True)
def split_closed_states(tails, pieces, counts, offers, budget, cores):
    """Do as `split_states`, for classes with at most one piece and an Amdahl tail; ties in proportion.

    The same water level, written flat: this is the inner loop of the Bellman operator, and calls would cost
    twenty times the arithmetic.
    """
    classes, states = counts.shape
    n = np.empty(classes)
    starts, scale = np.empty(classes), np.empty(classes)
    for s in range(states):
        present = 0.0
        for i in range(classes):
            n[i] = counts[i, s]
            present += n[i]
            scale[i] = math.sqrt(offers[i, s]) if offers[i, s] > 0.0 else 0.0
            starts[i] = 1.0 / scale[i] if scale[i] > 0.0 else math.inf
        low, high, jump_at = 0.0, math.inf, -1.0
        left, jumps = budget[s], 0.0
        for event in range(2 * classes):
            i = event >> 1
            t = starts[i] * (pieces[i, 0, 0] if event & 1 == 0 else tails[i, 3])
            if n[i] == 0.0 or not low < t < high:
                continue
            least, jump = 0.0, 0.0
            for j in range(classes):
                at = starts[j] * pieces[j, 0, 0]
                if at < t:
                    least += n[j] * pieces[j, 0, 1]
                elif at == t:
                    jump += n[j] * pieces[j, 0, 1]
                if starts[j] * tails[j, 3] < t:
                    least += n[j] * (tails[j, 1] * (t * scale[j]) + tails[j, 2])
            if least > budget[s]:
                high = t
            elif least + jump >= budget[s]:
                jump_at, left, jumps = t, budget[s] - least, jump
                break
            else:
                low = t
        t = jump_at
        constant, factor = 0.0, 0.0
        if jump_at < 0.0:
            for j in range(classes):
                if starts[j] * pieces[j, 0, 0] <= low:
                    constant += n[j] * pieces[j, 0, 1]
                if starts[j] * tails[j, 3] <= low:
                    constant += n[j] * tails[j, 2]
                    factor += n[j] * tails[j, 1] * scale[j]
            if factor > 0.0:
                t = (budget[s] - constant) / factor
                left, jumps = 0.0, 0.0
            else:
                t = math.inf
                left, jumps = budget[s] - constant, present
        total = 0.0
        for j in range(classes):
            cores[j, s] = 0.0
            if n[j] == 0.0:
                continue
            at = starts[j] * pieces[j, 0, 0]
            x = 0.0
            if at < t:
                x = n[j] * pieces[j, 0, 1]
            elif at == t and jumps > 0.0 and not math.isinf(t):
                x = left * (n[j] * pieces[j, 0, 1] / jumps)
            if starts[j] * tails[j, 3] < t:
                x += n[j] * (tails[j, 1] * (t * scale[j]) + tails[j, 2])
            if math.isinf(t) and jumps > 0.0:
                x += left * (n[j] / jumps)
            cores[j, s] = x
            total += x
        if factor > 0.0:
            rest = (budget[s] - total) / factor
            for j in range(classes):
                if starts[j] * tails[j, 3] <= low:
                    cores[j, s] += rest * (n[j] * tails[j, 1] * scale[j])
