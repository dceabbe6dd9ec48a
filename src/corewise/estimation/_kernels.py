r"""The likelihood of the closed one-parameter families, compiled, and its certified global maximum.

Each family is a formula in p and one number x for each width z > 1:

    amdahl      s = 1/(1 − p x),  x = 1 − 1/z
    power       s = exp(p x),     x = log z
    gustafson   s = 1 + p x,      x = z − 1

With D departures and the exposure E = μ W at each x,

    ℓ(p) = Σ D log s − E s,    ℓ' = Σ D r − E g,    ℓ'' = Σ D r' − E g',    r = (log s)',  g = s'.

Each of log s, s, r, g, r' and g' is monotone in p for every x. So on an interval [a, b] the larger and the
smaller of their values at the two ends bound each sum, and with them ℓ' and ℓ'' from both sides. An interval
is done with when ℓ' keeps its sign (its maximum is at an end), when ℓ'' < 0 (Newton finds the only maximum),
or when ℓ cannot exceed the best value found; otherwise it is halved.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from corewise.kit._kernels import tiered
from corewise.kit.arrays import Floats

AMDAHL, POWER, GUSTAFSON = 0, 1, 2

_NARROWEST = 1e-11
"""Intervals are not halved below this: what they might still hide is reported as the gap."""
_LAST_STEP = 1e-10
"""A step of Newton's method after which what is left, about its square, is rounding."""


@njit(cache=True)
def speed(family: int, x: float, p: float) -> tuple[float, float]:
    """Return log s and s."""
    if family == AMDAHL:
        rest = 1.0 - p * x
        return -math.log(rest), 1.0 / rest
    if family == POWER:
        return p * x, math.exp(p * x)
    return math.log1p(p * x), 1.0 + p * x


@njit(cache=True)
def slopes(family: int, x: float, p: float) -> tuple[float, float, float, float]:
    """Return r = (log s)', g = s', r' and g'."""
    if family == AMDAHL:
        s = 1.0 / (1.0 - p * x)
        r = x * s
        return r, r * s, r * r, 2.0 * r * r * s
    if family == POWER:
        s = math.exp(p * x)
        return x, x * s, 0.0, x * x * s
    r = x / (1.0 + p * x)
    return r, x, -r * r, 0.0


@tiered(lambda *args: 0.6 * args[1].size)
@njit(cache=True)
def value(family: int, x: Floats, departures: Floats, exposure: Floats, p: float) -> float:
    """Return ℓ(p)."""
    total = 0.0
    for k in range(x.size):
        log_s, s = speed(family, x[k], p)
        total += departures[k] * log_s - exposure[k] * s
    return total


@tiered(lambda *args: float(args[1].size))
@njit(cache=True)
def derivatives(
    family: int, x: Floats, departures: Floats, exposure: Floats, p: float
) -> tuple[float, float]:
    """Return ℓ'(p) and ℓ''(p)."""
    first, second = 0.0, 0.0
    for k in range(x.size):
        r, g, r_slope, g_slope = slopes(family, x[k], p)
        first += departures[k] * r - exposure[k] * g
        second += departures[k] * r_slope - exposure[k] * g_slope
    return first, second


@njit(cache=True)
def ranges(
    family: int, x: Floats, departures: Floats, exposure: Floats, a: float, b: float
) -> tuple[float, float, float]:
    """Return a lower and an upper bound on ℓ' and an upper bound on ℓ'' over [a, b]."""
    low, high, bend = 0.0, 0.0, 0.0
    for k in range(x.size):
        ra, ga, ra_slope, ga_slope = slopes(family, x[k], a)
        rb, gb, rb_slope, gb_slope = slopes(family, x[k], b)
        low += departures[k] * min(ra, rb) - exposure[k] * max(ga, gb)
        high += departures[k] * max(ra, rb) - exposure[k] * min(ga, gb)
        bend += departures[k] * max(ra_slope, rb_slope) - exposure[k] * min(ga_slope, gb_slope)
    return low, high, bend


@njit(cache=True)
def climb(family: int, x: Floats, departures: Floats, exposure: Floats, a: float, b: float) -> float:
    """Return the maximum of ℓ on [a, b], where it is concave: Newton, kept inside a shrinking bracket."""
    if derivatives(family, x, departures, exposure, a)[0] <= 0.0:
        return a
    if derivatives(family, x, departures, exposure, b)[0] >= 0.0:
        return b
    low, high, p = a, b, 0.5 * (a + b)
    for _ in range(200):
        first, second = derivatives(family, x, departures, exposure, p)
        if first > 0.0:
            low = p
        elif first < 0.0:
            high = p
        else:
            return p
        ahead = p - first / second if second < 0.0 else p
        if not low < ahead < high:
            ahead = 0.5 * (low + high)
        elif abs(ahead - p) <= _LAST_STEP:
            return ahead
        if high - low <= 4e-16:
            return ahead
        p = ahead
    return p


@tiered(lambda *args: 60.0 * args[1].size)
@njit(cache=True)
def global_maximum(
    family: int, x: Floats, departures: Floats, exposure: Floats
) -> tuple[float, float, float]:
    """Return the p in [0, 1] that maximises ℓ, its ℓ, and by how much ℓ might be larger elsewhere."""
    start = value(family, x, departures, exposure, 0.0)
    end = value(family, x, departures, exposure, 1.0)
    best, top, gap = (1.0, end, 0.0) if end > start else (0.0, start, 0.0)
    lower, upper, value_at_lower = np.empty(64), np.empty(64), np.empty(64)
    lower[0], upper[0], value_at_lower[0], pending = 0.0, 1.0, start, 1
    while pending > 0:
        pending -= 1
        a, b, at_a = lower[pending], upper[pending], value_at_lower[pending]
        low, high, bend = ranges(family, x, departures, exposure, a, b)
        if low >= 0.0 or high <= 0.0:
            continue  # monotone: its ends have been looked at
        if at_a + high * (b - a) <= top:
            continue
        if bend < 0.0:
            peak = climb(family, x, departures, exposure, a, b)
            summit = value(family, x, departures, exposure, peak)
            if summit > top:
                best, top = peak, summit
            continue
        if b - a <= _NARROWEST:
            gap = max(gap, at_a + high * (b - a) - top)
            continue
        middle = 0.5 * (a + b)
        at_middle = value(family, x, departures, exposure, middle)
        if at_middle > top:
            best, top = middle, at_middle
        lower[pending], upper[pending], value_at_lower[pending] = middle, b, at_middle
        lower[pending + 1], upper[pending + 1], value_at_lower[pending + 1] = a, middle, at_a
        pending += 2
    return best, top, gap


@njit(cache=True)
def _crossing(
    family: int, x: Floats, departures: Floats, exposure: Floats, below: float, above: float, floor: float
) -> float:
    """Return where ℓ reaches `floor` between two points, where it is below it and not below it."""
    p = above
    while abs(above - below) > 1e-14:
        excess = value(family, x, departures, exposure, p) - floor
        if excess >= 0.0:
            above = p
        else:
            below = p
        first, _ = derivatives(family, x, departures, exposure, p)
        ahead = p - excess / first if first != 0.0 else below
        if not min(below, above) < ahead < max(below, above):
            ahead = 0.5 * (below + above)
        if abs(ahead - p) <= 1e-15:
            return ahead
        p = ahead
    return above


@tiered(lambda *args: 40.0 * args[1].size)
@njit(cache=True)
def outermost(
    family: int, x: Floats, departures: Floats, exposure: Floats, outer: float, inner: float, floor: float
) -> float:
    """Return the first point from `outer` (0 or 1) towards `inner` where ℓ reaches `floor`; ℓ(inner) does.

    Stretches where ℓ cannot reach the level, by the bounds on its slope, are passed over; where it only
    rises, or is concave and reaches the level at the far end, it crosses the level once, and Newton's method
    finds the place inside the bracket.
    """
    start = value(family, x, departures, exposure, outer)
    if start >= floor:
        return outer
    near, far, at_near, reached = np.empty(64), np.empty(64), np.empty(64), np.empty(64, dtype=np.bool_)
    near[0], far[0], at_near[0], reached[0], pending = outer, inner, start, True, 1
    while pending > 0:
        pending -= 1
        a, b, at_a = near[pending], far[pending], at_near[pending]
        low, high, bend = ranges(family, x, departures, exposure, min(a, b), max(a, b))
        rise = high if b > a else -low  # the steepest rise on the way from a to b
        if at_a + max(rise, 0.0) * abs(b - a) < floor:
            continue
        rises = low >= 0.0 if b > a else high <= 0.0
        if reached[pending] and (rises or bend < 0.0 or abs(b - a) <= _NARROWEST):
            return _crossing(family, x, departures, exposure, float(a), float(b), floor)
        if rises or abs(b - a) <= _NARROWEST:
            continue
        middle = 0.5 * (a + b)
        at_middle = value(family, x, departures, exposure, middle)
        if at_middle < floor:
            near[pending], far[pending], at_near[pending] = middle, b, at_middle
            pending += 1
            reached[pending] = False
        else:
            reached[pending] = True
        near[pending], far[pending], at_near[pending] = a, middle, at_a
        pending += 1
    return inner
