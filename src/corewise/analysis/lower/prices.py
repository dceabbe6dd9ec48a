"""The dual problem of a lower bound: the price of a core at which it is best, and its value rounded down."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from corewise.kit.arrays import Floats

__all__ = ["ROUNDING", "TIE", "best_price", "rounded_down"]

ROUNDING = 4e-15
"""What rounding may do to a sum of a few products, and to the choice of what is bought in it, relative to
the sum of their sizes: eighteen units in the last place, where six roundings and a near tie take twelve."""

TIE = 1.0 - 1e-15
"""A piece that is worth its price but for rounding is bought: what this gives away is known."""

_PRICES = 120
_TERM = 4.0 * float(np.finfo(np.float64).eps)  # of a term: the few roundings by which it was made


def rounded_down(terms: Floats, spent: float) -> float:
    """Return a number that is at most the sum of `terms` and `spent`, each right to four roundings."""
    listed = [*terms.tolist(), spent]
    return math.fsum(listed) - _TERM * math.fsum(map(abs, listed))


def best_price(
    dual: Callable[[float], tuple[float, float]], guess: float, precision: float
) -> tuple[float, float]:
    """Maximise a concave dual function over the price ℓ ≥ 0 of a core; return the price and the maximum.

    Parameters
    ----------
    dual : callable
        The function of a price and its slope there, which is negative for large prices.
    guess : float
        A positive price to begin with.
    precision : float
        How far the value may be from the largest one, relative to it. Every price gives a bound, so if
        rounding does not allow it the best one found is returned.
    """
    low, high = 0.0, guess
    at_low, at_high = dual(low), dual(high)
    best = max((low, at_low[0]), (high, at_high[0]), key=lambda pair: pair[1])
    for _ in range(_PRICES):
        if at_low[1] <= 0.0:
            break
        if at_high[1] > 0.0:  # not yet beyond the top
            low, at_low, price = high, at_high, 2.0 * high
        else:
            # Both tangents are nowhere below the function, so where they meet is no lower than its top.
            ahead = (at_high[0] - at_low[0] - at_high[1] * (high - low)) / (at_low[1] - at_high[1])
            if at_low[0] + at_low[1] * ahead - best[1] <= precision * abs(best[1]):
                break
            price = low + min(max(ahead, 0.01 * (high - low)), 0.99 * (high - low))
            if not low < price < high:
                break
        at_price = dual(price)
        best = max(best, (price, at_price[0]), key=lambda pair: pair[1])
        if at_price[1] > 0.0 and price < high:
            low, at_low = price, at_price
        else:
            high, at_high = price, at_price
    return best
