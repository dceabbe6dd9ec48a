"""Compiled loops over a box of states: Gauss-Seidel sweeps for the stationary distribution.

States are in C order; a row is a run of states along the last class. Terms of the other classes are added
to a whole row at once, which the compiler vectorises; only the last class is a recursion. Arrays over classes
and states are class-major. See `corewise.analysis.chain` for the mathematics.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = ["advance", "flow_imbalance", "rebalance", "sweep_distribution"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

u = np.uint64  # an unsigned index spares the test for a negative one, which keeps loops from vectorising

_SMALLEST_FACTOR = 1e-6
"""A total far from balance is not wiped out: later sweeps may need its shape."""


@njit(cache=True)
def advance(digits: Ints, shape: Ints) -> None:
    """Step the counts of all classes but the last to the next row."""
    for i in range(shape.size - 2, -1, -1):
        digits[i] += 1
        if digits[i] < shape[i]:
            return
        digits[i] = 0


@njit(cache=True)
def _inflow(
    prob: Floats,
    rates: Floats,
    arrivals: Floats,
    shape: Ints,
    strides: Ints,
    digits: Ints,
    base: u,
    row: Floats,
) -> None:
    """Write into `row` the flow into each state of a row from events of all classes but the last."""
    length = u(shape[-1])
    for j in range(length):
        row[j] = 0.0
    for i in range(shape.size - 1):
        stride, rate = u(strides[i]), arrivals[i]
        if digits[i] > 0:
            for j in range(length):
                row[j] += rate * prob[base + j - stride]
        if digits[i] < shape[i] - 1:
            for j in range(length):
                row[j] += rates[i, base + j + stride] * prob[base + j + stride]


@njit(cache=True)
def sweep_distribution(
    prob: Floats, rates: Floats, arrivals: Floats, inverse: Floats, shape: Ints, strides: Ints
) -> None:
    """Set π(n) to its inflow over its outflow, state by state."""
    length, size, last = u(shape[-1]), u(prob.size), shape.size - 1
    row = np.empty(shape[-1])
    digits = np.zeros(last, dtype=np.int64)
    base = u(0)
    while base < size:
        _inflow(prob, rates, arrivals, shape, strides, digits, base, row)
        for j in range(length - u(1)):
            row[j] += rates[last, base + j + u(1)] * prob[base + j + u(1)]
        for j in range(length):
            row[j] *= inverse[base + j]
        rate, held = arrivals[last], 0.0
        for j in range(length):
            held = row[j] + rate * inverse[base + j] * held
            prob[base + j] = held
        advance(digits, shape)
        base += length


@njit(cache=True)
def flow_imbalance(
    prob: Floats, rates: Floats, arrivals: Floats, inverse: Floats, shape: Ints, strides: Ints
) -> float:
    """Return Σ |inflow − outflow| over Σ outflow: zero for the stationary distribution."""
    length, size, last = u(shape[-1]), u(prob.size), shape.size - 1
    row = np.empty(shape[-1])
    digits = np.zeros(last, dtype=np.int64)
    off, total = 0.0, 0.0
    base = u(0)
    while base < size:
        _inflow(prob, rates, arrivals, shape, strides, digits, base, row)
        for j in range(length - u(1)):
            row[j] += rates[last, base + j + u(1)] * prob[base + j + u(1)]
        for j in range(u(1), length):
            row[j] += arrivals[last] * prob[base + j - u(1)]
        for j in range(length):
            out = prob[base + j] / inverse[base + j]
            off += abs(row[j] - out)
            total += out
        advance(digits, shape)
        base += length
    return off / total


@njit(cache=True)
def rebalance(prob: Floats, rates: Floats, arrivals: Floats, shape: Ints, up: Floats, down: Floats) -> None:
    """Scale π so that the flows between successive totals balance; `up`, `down` are scratch arrays.

    Every event moves the total by one, so the chain of totals is a birth-death chain, solved by its product
    form; within a total π keeps its shape.
    """
    length, last = shape[-1], shape.size - 1
    digits = np.zeros(last, dtype=np.int64)
    totals = shape.sum() - shape.size + 1
    mass = np.zeros(totals)
    up[:] = 0.0
    down[:] = 0.0
    for base in range(0, prob.size, length):
        rest, joining = 0, 0.0
        for i in range(last):
            rest += digits[i]
            if digits[i] < shape[i] - 1:
                joining += arrivals[i]
        for j in range(length):
            flow = joining + arrivals[last] if j < length - 1 else joining
            mass[rest + j] += prob[base + j]
            up[rest + j] += flow * prob[base + j]
        for i in range(shape.size):
            for j in range(length):
                down[rest + j] += rates[i, base + j] * prob[base + j]
        advance(digits, shape)
    factors = down
    highest, log_factor = 0.0, 0.0
    factors[0] = 0.0
    for total in range(1, totals):
        if up[total - 1] > 0.0 and down[total] > 0.0:
            log_factor += math.log(up[total - 1] / down[total])
        factors[total] = log_factor
        highest = max(highest, log_factor)
    whole = 0.0
    for total in range(totals):
        factors[total] = max(math.exp(factors[total] - highest), _SMALLEST_FACTOR)
        whole += factors[total] * mass[total]
    digits[:] = 0
    for base in range(0, prob.size, length):
        rest = 0
        for i in range(last):
            rest += digits[i]
        for j in range(length):
            prob[base + j] *= factors[rest + j] / whole
        advance(digits, shape)
