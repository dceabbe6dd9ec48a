"""The price of a core at which a dual bound is best."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["best_price"]

_PRICES = 120


def best_price(
    dual: Callable[[float], tuple[float, float]], guess: float, precision: float
) -> tuple[float, float]:
    """Return the price ℓ ≥ 0 at which a concave function is largest, and its largest value.

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
    left, right = dual(low), dual(high)
    best = max((low, left[0]), (high, right[0]), key=lambda found: found[1])
    for _ in range(_PRICES):
        if left[1] <= 0.0:
            break
        if right[1] > 0.0:  # not yet beyond the top
            low, left, price = high, right, 2.0 * high
        else:
            # Both tangents are nowhere below the function, so where they meet is no lower than its top.
            ahead = (right[0] - left[0] - right[1] * (high - low)) / (left[1] - right[1])
            if left[0] + left[1] * ahead - best[1] <= precision * abs(best[1]):
                break
            price = low + min(max(ahead, 0.01 * (high - low)), 0.99 * (high - low))
            if not low < price < high:
                break
        found = dual(price)
        best = max(best, (price, found[0]), key=lambda pair: pair[1])
        if found[1] > 0.0 and price < high:
            low, left = price, found
        else:
            high, right = price, found
    return best
