"""Compiled sweeps for the price rule: what cores and work are worth, and what single jobs cost."""

from __future__ import annotations

import numpy as np
from numba import njit

from corewise.kit.arrays import Floats, Int, Ints

__all__ = ["Rates", "free_prices", "sweep"]

Rates = tuple[Floats, Floats, Floats]
"""λ and δ of each class, and μ s(u), the rate at which a job of each class leaves on u cores."""


@njit(cache=True)
def free_prices(
    steps: Floats, counts: Ints, cores: Ints, speeds: Floats, price: Floats, leaving: Floats
) -> None:
    """Fill in the price of a core in every state, and the rate at which jobs of each class leave.

    `steps` are V(n) − V(n − e_i), `speeds` the rates at which a job leaves by its width. Jobs of a class hold
    ⌊x/n⌋ or ⌈x/n⌉ cores. The price lies half-way between the offer for the last core that was given and the
    best offer for one more; an idle core is offered nothing.
    """
    classes, states = counts.shape
    widest = speeds.shape[1] - 1
    for s in range(states):
        last, more, held = np.inf, 0.0, np.int64(0)
        for i in range(classes):
            n = counts[i, s]
            held += cores[i, s]
            leaving[i, s] = 0.0
            if n == 0:
                continue
            low = cores[i, s] // n
            extra = cores[i, s] - low * n
            high = low + 1 if extra > 0 else low
            leaving[i, s] = (n - extra) * speeds[i, low] + extra * speeds[i, high]
            if high > 0:
                last = min(last, steps[i, s] * (speeds[i, high] - speeds[i, high - 1]))
            if low < widest:
                more = max(more, steps[i, s] * (speeds[i, low + 1] - speeds[i, low]))
        last = 0.0 if held < widest else last
        price[s] = 0.5 * (last + more) if last < np.inf else more


@njit(cache=True)
def _ahead(table: Floats, best: Floats, u: Int, around: Ints, flows: Floats) -> float:
    """Return the flow of cost-to-go into a job that holds u cores, where it may move at every event."""
    total = 0.0
    for k in range(around.size):
        if flows[k] > 0.0:
            total += flows[k] * min(table[around[k], u], best[around[k]])
    return total


@njit(cache=True)
def sweep(
    i: Int,
    rates: Rates,
    widths: Ints,
    worth: Floats,
    price: Floats,
    leaving: Floats,
    counts: Ints,
    space: tuple[Ints, Ints],
    tables: tuple[Floats, Floats, Floats, Floats, Floats],
    backwards: bool,
) -> float:
    """Update the costs-to-go of a class-i job in all states, in rising or falling order.

    `worth` is V(n) − V(n − e_i), `widths` are those it may hold, `tables` those of a job that runs, pauses
    and waits, and the least of the first two. Returns the largest change, relative to what a restart costs in
    the same state.
    """
    arrival_rates, pauses, work = rates
    capacity, strides = space
    running, paused, waiting, best_running, best_paused = tables
    classes, states = counts.shape
    pause, speed = pauses[i], work[i]
    around, flows = np.zeros(2 * classes, dtype=np.int64), np.zeros(2 * classes)
    largest = 0.0
    for step in range(states):
        s = states - 1 - step if backwards else step
        if counts[i, s] == 0:
            continue
        base = 0.0
        for k in range(classes):
            n = counts[k, s]
            around[k] = s + strides[k] if n < capacity[k] else s
            flows[k] = arrival_rates[k]
            around[classes + k] = s - strides[k] if n > 0 else s
            share = (n - 1.0) / n if k == i else 1.0
            flows[classes + k] = leaving[k, s] * share if n > 0 else 0.0
            base += flows[k] + flows[classes + k]
        value, core = worth[s], price[s]
        most = 0.0
        for u in widths:
            most = max(most, value * speed[u] - core * u)
        least_running, least_paused = np.inf, np.inf
        restart = best_paused[s]
        for u in widths:
            new = most - (value * speed[u] - core * u) + _ahead(running, best_paused, u, around, flows)
            new /= base + speed[u]
            if u > 0:
                largest = max(largest, abs(new - running[s, u]) / max(restart, 1e-300))
                least_running = min(least_running, new)
            running[s, u] = new
            if u == 0:
                continue
            if pause > 0.0:
                still = most + core * u + _ahead(paused, best_paused, u, around, flows)
                new = (pause * still + min(new, restart)) / (pause * base + 1.0)
            largest = max(largest, abs(new - paused[s, u]) / max(restart, 1e-300))
            paused[s, u] = new
            least_paused = min(least_paused, new)
        best_running[s], best_paused[s] = least_running, least_paused
        total = most
        for k in range(2 * classes):
            if flows[k] > 0.0:
                total += flows[k] * min(waiting[around[k]], best_running[around[k]])
        waiting[s] = total / base
    return largest
