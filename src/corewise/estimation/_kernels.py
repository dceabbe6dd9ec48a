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
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

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
    left, right, floor = np.empty(64), np.empty(64), np.empty(64)
    left[0], right[0], floor[0], pending = 0.0, 1.0, value(family, x, departures, exposure, 0.0), 1
    while pending > 0:
        pending -= 1
        a, b, at_a = left[pending], right[pending], floor[pending]
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
        left[pending], right[pending], floor[pending] = middle, b, at_middle
        left[pending + 1], right[pending + 1], floor[pending + 1] = a, middle, at_a
        pending += 2
    return best, top, gap


@njit(cache=True)
def _crossing(
    family: int, x: Floats, departures: Floats, exposure: Floats, below: float, above: float, level: float
) -> float:
    """Return where ℓ reaches `level` between two points, where it is below it and not below it."""
    p = above
    while abs(above - below) > 1e-14:
        excess = value(family, x, departures, exposure, p) - level
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
    family: int, x: Floats, departures: Floats, exposure: Floats, outer: float, inner: float, level: float
) -> float:
    """Return the first point from `outer` (0 or 1) towards `inner` where ℓ reaches `level`; ℓ(inner) does.

    Stretches where ℓ cannot reach the level, by the bounds on its slope, are passed over; where it only
    rises, the crossing is bracketed, and found by Newton's method inside the bracket.
    """
    if value(family, x, departures, exposure, outer) >= level:
        return outer
    near, far = np.empty(64), np.empty(64)
    near[0], far[0], pending = outer, inner, 1
    while pending > 0:
        pending -= 1
        a, b = near[pending], far[pending]
        low, high, _ = ranges(family, x, departures, exposure, min(a, b), max(a, b))
        rise = high if b > a else -low  # the steepest rise on the way from a to b
        if value(family, x, departures, exposure, a) + max(rise, 0.0) * abs(b - a) < level:
            continue
        rises = low >= 0.0 if b > a else high <= 0.0
        if rises or abs(b - a) <= _NARROWEST:
            if value(family, x, departures, exposure, b) < level:
                continue
            return _crossing(family, x, departures, exposure, float(a), float(b), level)
        middle = 0.5 * (a + b)
        near[pending], far[pending] = middle, b
        near[pending + 1], far[pending + 1] = a, middle
        pending += 2
    return inner


@njit(cache=True)
def share_out(
    widths: Floats, departures: Floats, job_time: Floats, per_octave: int, left: Floats, spent: Floats
) -> None:
    """Add a table to `left` and `spent`, which are over the widths 2^(j/per_octave) from one core on.

    An entry goes to its two neighbours so that Σ D, Σ W, Σ z D and Σ z W stay what they are. Below one core,
    where s(z) = z, time at z cores counts as z times as much at one.
    """
    last = left.size - 1
    for k in range(widths.size):
        z = widths[k]
        if z <= 1.0:
            left[0] += departures[k]
            spent[0] += z * job_time[k]
            continue
        below = min(math.floor(math.log2(z) * per_octave), last - 1)
        low, high = 2.0 ** (below / per_octave), 2.0 ** ((below + 1) / per_octave)
        upper = min(max((z - low) / (high - low), 0.0), 1.0)
        left[below] += (1.0 - upper) * departures[k]
        spent[below] += (1.0 - upper) * job_time[k]
        left[below + 1] += upper * departures[k]
        spent[below + 1] += upper * job_time[k]


@njit(cache=True)
def append_bucket(
    sizes: Ints, rows: Floats, most: int, row: Floats, sizes_out: Ints, rows_out: Floats
) -> int:
    """Write the buckets with one more of size one, oldest first; return how many there are.

    Sizes are powers of two and do not rise, but for what may have been put before all others. Of each there
    are at most `most`: when there is one more, the two oldest become one of twice the size.
    """
    count = sizes.size
    sizes_out[:count] = sizes
    rows_out[:count] = rows
    sizes_out[count] = 1
    rows_out[count] = row
    count += 1
    newest = count - 1
    while True:
        before = newest
        while before >= 0 and sizes_out[before] == sizes_out[newest]:
            before -= 1
        if newest - before <= most:
            return count
        into = before + 1
        sizes_out[into] *= 2
        rows_out[into] += rows_out[into + 1]
        for k in range(into + 1, count - 1):
            sizes_out[k] = sizes_out[k + 1]
            rows_out[k] = rows_out[k + 1]
        count -= 1
        newest = into


@njit(cache=True)
def newton_step(information: Floats, score: Floats, step: Floats) -> float:
    """Write I⁻¹ U into `step` and return U' I⁻¹ U; both zero along what nothing is known of.

    By Cholesky factors of I, scaled to a unit diagonal, with a ridge of 1e-9 where it has several rows.
    """
    count = score.size
    if count == 1:
        step[0] = score[0] / information[0, 0] if information[0, 0] > 0.0 else 0.0
        return float(score[0] * step[0])
    scale, factor = np.empty(count), np.zeros((count, count))
    for i in range(count):
        scale[i] = math.sqrt(max(information[i, i], 1e-300))
    for i in range(count):
        for j in range(i + 1):
            rest = information[i, j] / (scale[i] * scale[j]) + (1e-9 if i == j else 0.0)
            for k in range(j):
                rest -= factor[i, k] * factor[j, k]
            factor[i, j] = math.sqrt(max(rest, 1e-300)) if i == j else rest / factor[j, j]
    for i in range(count):
        rest = score[i] / scale[i]
        for k in range(i):
            rest -= factor[i, k] * step[k]
        step[i] = rest / factor[i, i]
    square = 0.0
    for i in range(count):
        square += step[i] * step[i]
    for i in range(count - 1, -1, -1):
        rest = step[i]
        for k in range(i + 1, count):
            rest -= factor[k, i] * step[k]
        step[i] = rest / factor[i, i]
    for i in range(count):
        step[i] /= scale[i]
    return square


@njit(cache=True)
def two_rates(count: float, due: float, rest: float, rest_due: float) -> float:
    """Return how much more likely two Poisson counts are with a rate each than with one for both."""
    if not (due > 0.0 and rest_due > 0.0):
        return 0.0
    gain = 0.0
    if count > 0.0:
        gain += count * math.log(count / due)
    if rest > 0.0:
        gain += rest * math.log(rest / rest_due)
    if count + rest > 0.0:
        gain -= (count + rest) * math.log((count + rest) / (due + rest_due))
    return gain


@njit(cache=True)
def two_rates_each(sizes: Ints, rows: Floats, first: int, quiet: int, gains: Floats) -> None:
    """Write `two_rates` of the counts in each column after `first`, which is the time, for every split.

    Shape (columns, buckets − 1): a split is after a bucket. Zero if fewer than `quiet` checks came before it.
    """
    buckets, columns = gains.shape[1] + 1, gains.shape[0]
    for i in range(columns):
        time, whole = 0.0, 0.0
        for b in range(buckets):
            time += rows[b, first]
            whole += rows[b, first + 1 + i]
        count, passed, before = 0.0, 0.0, 0
        for b in range(buckets - 1):
            count += rows[b, first + 1 + i]
            passed += rows[b, first]
            before += sizes[b]
            gains[i, b] = 0.0
            if before >= quiet:
                gains[i, b] = two_rates(count, passed, whole - count, time - passed)


@njit(cache=True)
def bucket_sums(
    rows: Floats,
    first: int,
    rate: Floats,
    ratio: Floats,
    score: Floats,
    information: Floats,
    left: Floats,
    due: Floats,
) -> None:
    """Write what each bucket says at the reference: U and I, departures, and as many as were to be expected.

    Rows have departures at the nodes from column `first` on, and then job-time; `rate` is μ s, and `ratio` is
    ∂ log s/∂θ, at each node.
    """
    nodes, count = ratio.shape
    wanted = np.empty(nodes)
    for b in range(rows.shape[0]):
        seen, spent = rows[b, first : first + nodes], rows[b, first + nodes :]
        gone, expected = 0.0, 0.0
        for j in range(nodes):
            wanted[j] = rate[j] * spent[j]
            gone += seen[j]
            expected += wanted[j]
        left[b], due[b] = gone, expected
        for p in range(count):
            slope, bend = 0.0, 0.0
            for j in range(nodes):
                slope += (seen[j] - wanted[j]) * ratio[j, p]
                bend += wanted[j] * ratio[j, p] * ratio[j, p]
            score[b, p], information[b, p, p] = slope, bend
            for q in range(p):
                bend = 0.0
                for j in range(nodes):
                    bend += wanted[j] * ratio[j, p] * ratio[j, q]
                information[b, p, q] = information[b, q, p] = bend


@njit(cache=True)
def scan(
    sizes: Ints,
    rows: Floats,
    first: int,
    rate: Floats,
    ratio: Floats,
    spans: Ints,
    offsets: Floats,
    leads: Floats,
    span: int,
    quiet: int,
    by_curve: Floats,
    by_size: Floats,
    steps: Floats,
) -> tuple[float, float, float]:
    """Look at all buckets of a class at its reference; see `bucket_sums` for what they are.

    Written are, for a change after each bucket but the last, the quadratic model of G for the curve and G for
    the size rate, zero if fewer than `quiet` checks came before; how far each window of `spans` checks, and
    before them that of all, `leads` the one that is `span`, now that the newest bucket is held against what
    each had foretold by its offset from the reference; and the step from there to what each estimates now.
    Returned are the largest of both G, and U' I⁻¹ U of window `span`.
    """
    buckets, count = sizes.size, ratio.shape[1]
    score, information = np.empty((buckets, count)), np.empty((buckets, count, count))
    left, due = np.empty(buckets), np.empty(buckets)
    bucket_sums(rows, first, rate, ratio, score, information, left, due)
    told = np.zeros(offsets.shape[0])
    for k in range(offsets.shape[0]):
        for p in range(count):
            told[k] += score[-1, p] * offsets[k, p]
            for q in range(count):
                told[k] -= 0.5 * offsets[k, p] * information[-1, p, q] * offsets[k, q]
    for k in range(offsets.shape[0]):
        leads[k] = max(leads[k] + told[k] - told[span], 0.0)
    for b in range(buckets - 2, -1, -1):
        score[b] += score[b + 1]
        information[b] += information[b + 1]
        left[b] += left[b + 1]
        due[b] += due[b + 1]
    step, most_by_curve, most_by_size = np.zeros(count), 0.0, 0.0
    whole = newton_step(information[0], score[0], step) if count else 0.0
    before = 0
    for b in range(1, buckets):
        by_curve[b - 1] = by_size[b - 1] = 0.0
        before += sizes[b - 1]
        if before < quiet:
            continue
        by_size[b - 1] = two_rates(left[0] - left[b], due[0] - due[b], left[b], due[b])
        most_by_size = max(most_by_size, by_size[b - 1])
        if count:
            later = newton_step(information[b], score[b], step)
            early = newton_step(information[0] - information[b], score[0] - score[b], step)
            by_curve[b - 1] = 0.5 * (later + early - whole)
            most_by_curve = max(most_by_curve, by_curve[b - 1])
    if count == 0:
        return most_by_curve, most_by_size, 0.0
    square = newton_step(information[0], score[0], steps[0])
    age, b, of_span = 0, buckets, square
    for k in range(1, steps.shape[0]):
        while b > 0 and age < spans[k - 1]:
            b -= 1
            age += sizes[b]
        square = newton_step(information[b], score[b], steps[k])
        if k == span:
            of_span = square
    return most_by_curve, most_by_size, of_span
