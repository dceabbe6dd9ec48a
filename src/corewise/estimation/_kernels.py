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

from corewise.kit.arrays import Floats

AMDAHL, POWER, GUSTAFSON = 0, 1, 2

_NARROWEST = 1e-11
"""Intervals are not halved below this: what they might still hide is reported as the gap."""


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


@njit(cache=True)
def value(family: int, x: Floats, departures: Floats, exposure: Floats, p: float) -> float:
    """Return ℓ(p)."""
    total = 0.0
    for k in range(x.size):
        log_s, s = speed(family, x[k], p)
        total += departures[k] * log_s - exposure[k] * s
    return total


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
        if abs(ahead - p) <= 1e-16 + 2e-16 * p or high - low <= 4e-16:
            return ahead
        p = ahead
    return p


@njit(cache=True)
def global_maximum(
    family: int, x: Floats, departures: Floats, exposure: Floats
) -> tuple[float, float, float]:
    """Return the p in [0, 1] that maximises ℓ, its ℓ, and by how much ℓ might be larger elsewhere."""
    best, top, gap = 0.0, value(family, x, departures, exposure, 0.0), 0.0
    end = value(family, x, departures, exposure, 1.0)
    if end > top:
        best, top = 1.0, end
    lower, upper, value_at_lower = np.empty(64), np.empty(64), np.empty(64)
    lower[0], upper[0], value_at_lower[0], pending = 0.0, 1.0, value(family, x, departures, exposure, 0.0), 1
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


@njit(cache=True)
def outermost(
    family: int, x: Floats, departures: Floats, exposure: Floats, outer: float, inner: float, floor: float
) -> float:
    """Return the first point from `outer` (0 or 1) towards `inner` where ℓ reaches `floor`; ℓ(inner) does.

    Stretches where ℓ cannot reach the level, by the bounds on its slope, are passed over; where it only
    rises, the crossing is bracketed, and found by Newton's method inside the bracket.
    """
    if value(family, x, departures, exposure, outer) >= floor:
        return outer
    near, far = np.empty(64), np.empty(64)
    near[0], far[0], pending = outer, inner, 1
    while pending > 0:
        pending -= 1
        a, b = near[pending], far[pending]
        low, high, _ = ranges(family, x, departures, exposure, min(a, b), max(a, b))
        rise = high if b > a else -low  # the steepest rise on the way from a to b
        if value(family, x, departures, exposure, a) + max(rise, 0.0) * abs(b - a) < floor:
            continue
        rises = low >= 0.0 if b > a else high <= 0.0
        if rises or abs(b - a) <= _NARROWEST:
            if value(family, x, departures, exposure, b) < floor:
                continue
            return _crossing(family, x, departures, exposure, float(a), float(b), floor)
        middle = 0.5 * (a + b)
        near[pending], far[pending] = middle, b
        near[pending + 1], far[pending + 1] = a, middle
        pending += 2
    return inner
