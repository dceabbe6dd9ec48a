"""Compiled loops over a box of states: sweeps for the relative values, and the whole-core split.

The layout is that of `corewise.analysis._kernels`; see `corewise.control.bellman` for the mathematics.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from corewise.analysis._kernels import advance

__all__ = ["apply_generator", "improve_whole", "sweep_values", "value_steps"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@njit(cache=True)
def value_steps(values: Floats, size_rates: Floats, strides: Ints, counts: Ints, offers: Floats) -> None:
    """Write ω_i = μ_i (V(n) − V(n − e_i)), what a class offers for speed; zero if it is absent."""
    for i in range(strides.size):
        stride = strides[i]
        for s in range(values.size):
            offers[i, s] = size_rates[i] * (values[s] - values[s - stride]) if counts[i, s] > 0 else 0.0


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
def _pull(
    values: Floats,
    rates: Floats,
    arrivals: Floats,
    shape: Ints,
    strides: Ints,
    digits: Ints,
    base: int,
    row: Floats,
) -> None:
    """Write into `row` Σ λ_i V(n + e_i) + δ_i V(n − e_i) over all classes but the last."""
    length = shape[-1]
    for j in range(length):
        row[j] = 0.0
    for i in range(shape.size - 1):
        stride = strides[i]
        if digits[i] < shape[i] - 1:
            for j in range(length):
                row[j] += arrivals[i] * values[base + j + stride]
        if digits[i] > 0:
            for j in range(length):
                row[j] += rates[i, base + j] * values[base + j - stride]


@njit(cache=True)
def sweep_values(
    values: Floats,
    rates: Floats,
    arrivals: Floats,
    inverse: Floats,
    cost: Floats,
    mean: float,
    shape: Ints,
    strides: Ints,
    sweeps: int,
) -> None:
    """Solve f − J + QV = 0 for V(n), state by state in order of rising counts, `sweeps` times."""
    length, last = shape[-1], shape.size - 1
    row = np.empty(length)
    digits = np.empty(last, dtype=np.int64)
    for _ in range(sweeps):
        digits[:] = 0
        for base in range(0, values.size, length):
            _pull(values, rates, arrivals, shape, strides, digits, base, row)
            for j in range(length - 1):
                row[j] += arrivals[last] * values[base + j + 1]
            for j in range(length):
                row[j] = (row[j] + cost[base + j] - mean) * inverse[base + j]
            held = 0.0
            for j in range(length):
                held = row[j] + rates[last, base + j] * inverse[base + j] * held
                values[base + j] = held
            advance(digits, shape)


@njit(cache=True)
def apply_generator(
    values: Floats,
    rates: Floats,
    arrivals: Floats,
    inverse: Floats,
    cost: Floats,
    shape: Ints,
    strides: Ints,
    out: Floats,
) -> None:
    """Write f + QV into `out`."""
    length, last = shape[-1], shape.size - 1
    row = np.empty(length)
    digits = np.zeros(last, dtype=np.int64)
    for base in range(0, values.size, length):
        _pull(values, rates, arrivals, shape, strides, digits, base, row)
        for j in range(length - 1):
            row[j] += arrivals[last] * values[base + j + 1]
        for j in range(1, length):
            row[j] += rates[last, base + j] * values[base + j - 1]
        for j in range(length):
            out[base + j] = row[j] + cost[base + j] - values[base + j] / inverse[base + j]
        advance(digits, shape)
