"""Compiled loops of change detection: buckets of statistics, and likelihood ratios at all their edges."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from corewise.kit.arrays import Floats, Ints


@njit(cache=True)
def share_out(
    widths: Floats, departures: Floats, job_time: Floats, per_octave: int, departed: Floats, spent: Floats
) -> None:
    """Add the statistics of a class to `departed` and `spent`, over the widths 2^(j/per_octave) ≥ 1.

    An entry goes to its two neighbours so that Σ D, Σ W, Σ z D and Σ z W stay what they are. Below one core,
    where s(z) = z, time at z cores counts as z times as much at one.
    """
    last = departed.size - 1
    for k in range(widths.size):
        z = widths[k]
        if z <= 1.0:
            departed[0] += departures[k]
            spent[0] += z * job_time[k]
            continue
        below = min(math.floor(math.log2(z) * per_octave), last - 1)
        low, high = 2.0 ** (below / per_octave), 2.0 ** ((below + 1) / per_octave)
        upper = min(max((z - low) / (high - low), 0.0), 1.0)
        departed[below] += (1.0 - upper) * departures[k]
        spent[below] += (1.0 - upper) * job_time[k]
        departed[below + 1] += upper * departures[k]
        spent[below + 1] += upper * job_time[k]


@njit(cache=True)
def append_bucket(
    sizes: Ints, rows: Floats, most: int, row: Floats, sizes_out: Ints, rows_out: Floats
) -> int:
    """Write the buckets with one more of size one, oldest first; return how many there are.

    Sizes are powers of two and do not rise, but for what may have been put before all others. Of each there
    are at most `most`: when there is one more, the two oldest become one of twice the size.
    """
    count, columns = sizes.size + 1, row.size
    for k in range(count - 1):
        sizes_out[k] = sizes[k]
        for j in range(columns):
            rows_out[k, j] = rows[k, j]
    newest = count - 1
    sizes_out[newest] = 1
    for j in range(columns):
        rows_out[newest, j] = row[j]
    while True:
        before = newest
        while before >= 0 and sizes_out[before] == sizes_out[newest]:
            before -= 1
        if newest - before <= most:
            return count
        into = before + 1
        sizes_out[into] *= 2
        for j in range(columns):
            rows_out[into, j] += rows_out[into + 1, j]
        for k in range(into + 1, count - 1):
            sizes_out[k] = sizes_out[k + 1]
            for j in range(columns):
                rows_out[k, j] = rows_out[k + 1, j]
        count -= 1
        newest = into


@njit(cache=True)
def newton_step(information: Floats, score: Floats, step: Floats) -> float:
    """Write I⁻¹ U into `step` and return U' I⁻¹ U; both zero in directions without information.

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
    """Return the log-likelihood ratio of two Poisson counts: a rate each against one rate for both."""
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
def two_rates_each(sizes: Ints, rows: Floats, first: int, min_checks_before: int, gains: Floats) -> None:
    """Write the likelihood ratio `two_rates` of each column after `first`, the time, for every split.

    Shape (columns, buckets − 1): a split is after a bucket. Zero if fewer than `min_checks_before`
    checks came before it.
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
            if before >= min_checks_before:
                gains[i, b] = two_rates(count, passed, whole - count, time - passed)


@njit(cache=True)
def bucket_sums(
    rows: Floats,
    first: int,
    rate: Floats,
    ratio: Floats,
    score: Floats,
    information: Floats,
    departed: Floats,
    due: Floats,
) -> None:
    """Write the score U, the information I, departures and expected departures of each bucket.

    All at the reference curve.

    Rows have departures at the nodes from column `first` on, and then job-time; `rate` is μ s, and `ratio` is
    ∂ log s/∂θ, at each node.
    """
    nodes, count = ratio.shape
    wanted = np.empty(nodes)
    for b in range(rows.shape[0]):
        gone, expected = 0.0, 0.0
        for j in range(nodes):
            wanted[j] = rate[j] * rows[b, first + nodes + j]
            gone += rows[b, first + j]
            expected += wanted[j]
        departed[b], due[b] = gone, expected
        for p in range(count):
            slope, bend = 0.0, 0.0
            for j in range(nodes):
                slope += (rows[b, first + j] - wanted[j]) * ratio[j, p]
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
    window_lengths: Ints,
    offsets: Floats,
    window_leads: Floats,
    window_index: int,
    min_checks_before: int,
    by_curve: Floats,
    by_size: Floats,
    steps: Floats,
) -> tuple[float, float, float]:
    """Scan all buckets of a class for a change: likelihood ratios at every edge, from its reference curve.

    Written are, for a change after each bucket but the last, the quadratic model of G for the curve and G for
    the size rate, zero if fewer than `min_checks_before` checks came before; `window_leads`, the lead in
    log-likelihood of the predictions of each window over those of the one in force, `window_index`, after the
    newest bucket; and the step from the reference to what each estimates now. A window predicts by its offset
    from the reference. Windows are all buckets, and then the latest `window_lengths` checks. Returned are the
    largest of both G, and U' I⁻¹ U of the window in force.
    """
    buckets, count = sizes.size, ratio.shape[1]
    score, information = np.empty((buckets, count)), np.empty((buckets, count, count))
    departed, due = np.empty(buckets), np.empty(buckets)
    bucket_sums(rows, first, rate, ratio, score, information, departed, due)
    gains = np.empty(offsets.shape[0])
    for k in range(offsets.shape[0]):
        gains[k] = 0.0
        for p in range(count):
            gains[k] += score[-1, p] * offsets[k, p]
            for q in range(count):
                gains[k] -= 0.5 * offsets[k, p] * information[-1, p, q] * offsets[k, q]
    for k in range(offsets.shape[0]):
        window_leads[k] = max(window_leads[k] + gains[k] - gains[window_index], 0.0)
    for b in range(buckets - 2, -1, -1):
        for p in range(count):
            score[b, p] += score[b + 1, p]
            for q in range(count):
                information[b, p, q] += information[b + 1, p, q]
        departed[b] += departed[b + 1]
        due[b] += due[b + 1]
    step, most_by_curve, most_by_size = np.empty(count), 0.0, 0.0
    early_score, early_information = np.empty(count), np.empty((count, count))
    whole = newton_step(information[0], score[0], step) if count else 0.0
    before = 0
    for b in range(1, buckets):
        by_curve[b - 1] = by_size[b - 1] = 0.0
        before += sizes[b - 1]
        if before < min_checks_before:
            continue
        by_size[b - 1] = two_rates(departed[0] - departed[b], due[0] - due[b], departed[b], due[b])
        most_by_size = max(most_by_size, by_size[b - 1])
        if count:
            later = newton_step(information[b], score[b], step)
            for p in range(count):
                early_score[p] = score[0, p] - score[b, p]
                for q in range(count):
                    early_information[p, q] = information[0, p, q] - information[b, p, q]
            early = newton_step(early_information, early_score, step)
            by_curve[b - 1] = 0.5 * (later + early - whole)
            most_by_curve = max(most_by_curve, by_curve[b - 1])
    if count == 0:
        return most_by_curve, most_by_size, 0.0
    square = newton_step(information[0], score[0], steps[0])
    age, b, of_window = 0, buckets, square
    for k in range(1, steps.shape[0]):
        while b > 0 and age < window_lengths[k - 1]:
            b -= 1
            age += sizes[b]
        square = newton_step(information[b], score[b], steps[k])
        if k == window_index:
            of_window = square
    return most_by_curve, most_by_size, of_window
