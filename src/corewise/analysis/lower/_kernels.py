"""Compiled loops of the lower bounds: one class that pays for its cores.

For the mathematics see `corewise.analysis.lower.class_by_class`. Curves come as the slopes, widths and speeds
of `corewise.analysis.lower.majorants`, a row each.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from corewise.analysis.lower.prices import ROUNDING, TIE
from corewise.kit._kernels import tiered
from corewise.kit.arrays import Floats

__all__ = ["priced_class"]


_IMPROVEMENTS = 60


@njit(cache=True)
def bought(slopes: Floats, least: float) -> int:
    """Return how many pieces have a slope above `least`; slopes fall."""
    low, high = 0, slopes.size
    while low < high:
        middle = (low + high) // 2
        if slopes[middle] > least:
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=True)
def _improve_priced(
    arrival: float,
    size: float,
    weight: float,
    price: float,
    cores: float,
    slopes: Floats,
    widths: Floats,
    speeds: Floats,
    capped: Floats,
    steps: Floats,
    held: Floats,
    rates: Floats,
) -> float:
    """Write the best cores in every state and the rates of departure they give; return the certificate.

    `steps` are V(n) − V(n − 1), `capped` the speeds on c/n cores. Rounding is on the safe side.
    """
    most = steps.size - 1
    low = weight * (most + 1.0)
    for n in range(most + 1):
        width, speed, worth = 0.0, 0.0, 0.0
        if n > 0 and steps[n] > 0.0:
            worth = size * steps[n]
            k = bought(slopes, TIE * price / worth)
            width, speed = widths[k], speeds[k]
            if width > cores / n:
                width, speed = cores / n, capped[n]
        held[n] = n * width
        rates[n] = n * size * speed
        up = arrival * steps[n + 1] if n < most else 0.0
        gain = n * worth * speed
        value = weight * n + price * held[n] + up - gain
        low = min(low, value - ROUNDING * (weight * n + price * held[n] + abs(up) + gain))
    return low


@njit(cache=True)
def _evaluate_priced(
    arrival: float, weight: float, price: float, held: Floats, rates: Floats, steps: Floats
) -> tuple[float, float, float]:
    """Write the steps of the values of a policy; return its mean cost, cores held, and probability of n = N.

    The steps are found upwards while departures are slower than arrivals, and downwards from N for the rest:
    so errors die out.
    """
    most = steps.size - 1
    term, mass, total, cores = 1.0, 1.0, price * held[0], held[0]
    for n in range(1, most + 1):
        if rates[n] <= 0.0:  # what is below is never seen again
            term, mass, total, cores = 1.0, 0.0, 0.0, 0.0
        else:
            term *= arrival / rates[n]
        mass += term
        total += term * (weight * n + price * held[n])
        cores += term * held[n]
        if term > 1e200:
            term, mass, total, cores = 1.0, mass / term, total / term, cores / term
    mean = total / mass
    turn = 1
    steps[1] = mean / arrival
    while turn < most and rates[turn] < arrival:
        steps[turn + 1] = (mean - weight * turn - price * held[turn] + rates[turn] * steps[turn]) / arrival
        turn += 1
    after = 0.0
    for n in range(most, turn, -1):
        if rates[n] > 0.0:
            after = (weight * n + price * held[n] - mean + arrival * after) / rates[n]
        steps[n] = after
    return mean, cores / mass, term / mass


@tiered(lambda *args: 10.0 * args[-1].size)
@njit(cache=True)
def priced_class(
    arrival: float,
    size: float,
    weight: float,
    price: float,
    cores: float,
    slopes: Floats,
    widths: Floats,
    speeds: Floats,
    capped: Floats,
    steps: Floats,
) -> tuple[float, float, float]:
    """Return a bound on the mean cost of a class that pays for cores, those it holds, and P(n = N).

    Policy iteration from the steps given, which are replaced by better ones.
    """
    held, rates = np.empty(steps.size), np.empty(steps.size)
    best = _improve_priced(
        arrival, size, weight, price, cores, slopes, widths, speeds, capped, steps, held, rates
    )
    mean, used, edge = 0.0, 0.0, 0.0
    for _ in range(_IMPROVEMENTS):
        mean, used, edge = _evaluate_priced(arrival, weight, price, held, rates, steps)
        low = _improve_priced(
            arrival, size, weight, price, cores, slopes, widths, speeds, capped, steps, held, rates
        )
        best = max(best, low)
        if mean - best <= 1e-11 * mean:
            break
    return best, used, edge
