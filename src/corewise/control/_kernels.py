"""Compiled loops over a box of states: sweeps for the relative values, and the whole-core split.

The layout is that of `corewise.analysis._kernels`; see `corewise.control.bellman` for the mathematics.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from corewise.analysis._kernels import advance
from corewise.kit._kernels import tiered
from corewise.kit.arrays import Floats, Ints

__all__ = ["EPSILON", "apply_generator", "improve_whole", "step_bracket", "sweep_values", "value_steps"]


EPSILON = float(np.finfo(np.float64).eps)
"""The rounding of a number of size one."""

u = np.uint64  # an unsigned index spares the test for a negative one, which keeps loops from vectorising


@tiered(lambda *args: 1.5 * args[-1].size)
@njit(cache=True)
def value_steps(
    values: Floats, size_rates: Floats, favours: Floats, strides: Ints, counts: Ints, offers: Floats
) -> None:
    """Write ω_i = μ_i (V(n) − V(n − e_i)), what a class offers for speed; zero if it is absent.

    Offers that differ by no more than their rounding are made equal, but for a trifle that `favours` decides:
    were rounding to decide, a class might be starved in one state and served in the next.
    """
    size = u(values.size)
    for i in range(strides.size):
        stride = u(strides[i])
        for s in range(stride):
            offers[i, s] = 0.0
        for s in range(stride, size):
            step = size_rates[i] * (values[s] - values[s - stride])
            offers[i, s] = step if counts[i, s] > 0 else 0.0
        for k in range(i):
            rounding = EPSILON * (size_rates[i] + size_rates[k])
            for s in range(size):
                if abs(offers[i, s] - offers[k, s]) <= rounding * abs(values[s]):
                    offers[i, s] = offers[k, s] * (favours[i] / favours[k])


@njit(cache=True)
def improve_whole(table: Floats, steps: Floats, counts: Ints, cores: Floats) -> None:
    """Move single cores between classes while that helps; `table[i, n, x]` is the rate of n jobs on x cores.

    Each class's rate is concave in its cores, so a split that no single move improves is the best.
    """
    classes, states = counts.shape
    for s in range(states):
        while True:
            gain, loss, to, away = -np.inf, np.inf, -1, -1
            for i in range(classes):
                n, x = counts[i, s], int(cores[i, s])
                if n == 0:
                    continue
                if x + 1 < table.shape[2]:
                    more = max(steps[i, s], 0.0) * (table[i, n, x + 1] - table[i, n, x])
                    if more > gain:
                        gain, to = more, i
                if x > 0:
                    less = max(steps[i, s], 0.0) * (table[i, n, x] - table[i, n, x - 1])
                    if less < loss:
                        loss, away = less, i
            if to < 0 or away < 0 or to == away or gain <= loss * (1.0 + 1e-12):
                break
            cores[to, s] += 1.0
            cores[away, s] -= 1.0


@njit(cache=True)
def sweep_values(
    values: Floats,
    shares: Floats,
    arrivals: Floats,
    inverse: Floats,
    gain: Floats,
    shape: Ints,
    strides: Ints,
    sweeps: int,
) -> None:
    """Solve f − J + QV = 0 for V(n), state by state in order of rising counts, `sweeps` times.

    With 1/out(n) = `inverse`, `gain` is (f − J)/out and `shares` is δ_i/out.
    """
    length, size, last = u(shape[-1]), u(values.size), shape.size - 1
    row = np.empty(shape[-1])
    digits = np.empty(last, dtype=np.int64)
    for _ in range(sweeps):
        digits[:] = 0
        base = u(0)
        while base < size:
            rate = arrivals[last]
            for j in range(length - u(1)):
                row[j] = gain[base + j] + rate * inverse[base + j] * values[base + j + u(1)]
            row[length - u(1)] = gain[base + length - u(1)]
            for i in range(last):
                stride, rate = u(strides[i]), arrivals[i]
                if digits[i] == 0:
                    for j in range(length):
                        row[j] += rate * inverse[base + j] * values[base + j + stride]
                elif digits[i] == shape[i] - 1:
                    for j in range(length):
                        row[j] += shares[i, base + j] * values[base + j - stride]
                else:
                    for j in range(length):
                        row[j] += (
                            rate * inverse[base + j] * values[base + j + stride]
                            + shares[i, base + j] * values[base + j - stride]
                        )
            # Two steps of the recursion at once: half as many additions have to wait for the one before.
            held, k = 0.0, u(0)
            while k + u(1) < length:
                here, ahead = shares[last, base + k], shares[last, base + k + u(1)]
                values[base + k] = row[k] + here * held
                held = (row[k + u(1)] + ahead * row[k]) + (ahead * here) * held
                values[base + k + u(1)] = held
                k = k + u(2)
            if k < length:
                values[base + k] = row[k] + shares[last, base + k] * held
            advance(digits, shape)
            base += length


@njit(cache=True)
def apply_generator(
    values: Floats,
    rates: Floats,
    arrivals: Floats,
    outflow: Floats,
    cost: Floats,
    shape: Ints,
    strides: Ints,
    out: Floats,
) -> None:
    """Write f + QV into `out`."""
    length, size, last = u(shape[-1]), u(values.size), shape.size - 1
    digits = np.zeros(last, dtype=np.int64)
    base = u(0)
    while base < size:
        for j in range(length):
            out[base + j] = cost[base + j] - values[base + j] * outflow[base + j]
        for i in range(last):
            stride, rate = u(strides[i]), arrivals[i]
            if digits[i] < shape[i] - 1:
                for j in range(length):
                    out[base + j] += rate * values[base + j + stride]
            if digits[i] > 0:
                for j in range(length):
                    out[base + j] += rates[i, base + j] * values[base + j - stride]
        rate = arrivals[last]
        for j in range(length - u(1)):
            out[base + j] += rate * values[base + j + u(1)]
        for j in range(u(1), length):
            out[base + j] += rates[last, base + j] * values[base + j - u(1)]
        advance(digits, shape)
        base += length


@njit(cache=True)
def step_bracket(
    departures: Floats, arrivals: Floats, cost: Floats, steps: Floats
) -> tuple[float, float, float]:
    """Return `bracket` of a birth-death chain by the steps of V: r(n) = f(n) + λ(n) d(n + 1) − δ(n) d(n)."""
    low, high, most = np.inf, -np.inf, 0.0
    for n in range(cost.size):
        up, down = arrivals[n] * steps[n + 1], departures[n] * steps[n]
        rounding = 4.0 * EPSILON * (abs(up) + abs(down) + cost[n])
        low = min(low, cost[n] + up - down - rounding)
        high = max(high, cost[n] + up - down + rounding)
        most = max(most, rounding)
    return low, high, 2.0 * most
