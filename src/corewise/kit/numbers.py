"""Numbers as text: whether a text is one, and how one is written together with how sure it is."""

from __future__ import annotations

import math

__all__ = ["half_width", "is_number", "plus_minus", "rounded", "value_and_ends", "value_with_interval"]

_MOST_PLACES = 8


def is_number(text: str) -> bool:
    """Return whether a text can be read as a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def half_width(interval: tuple[float, float]) -> float:
    """Return half the width of an interval."""
    return 0.5 * (interval[1] - interval[0])


def value_with_interval(value: float, interval: tuple[float, float], digits: int = 6) -> str:
    """Return a value to so many digits, ± half the width of its interval, if it has one."""
    half = half_width(interval)
    if math.isnan(value):
        return "-"
    return f"{value:.{digits}g} ± {half:.2g}" if half > 0.0 else f"{value:.{digits}g}"


def plus_minus(value: float, error: float, figures: int) -> str:
    """Return a value ± its error, both to the decimal places that give the error so many figures."""
    if not (math.isfinite(error) and error > 0.0):
        return f"{value:.4g}"
    places = max(0, figures - 1 - math.floor(math.log10(error)))
    if places > _MOST_PLACES:
        return f"{value:.3g} ± {error:.1e}"
    return f"{value:.{places}f} ± {error:.{places}f}"


def value_and_ends(value: float, interval: tuple[float, float]) -> str:
    """Return a value and the ends of its 95 % interval, if it has one."""
    low, high = interval
    return f"{value:.6g}" if math.isnan(low) else f"{value:.6g} (95 %: {low:.6g} to {high:.6g})"


def rounded(value: float) -> str:
    """Return a number as people write it, and a dash for NaN."""
    if math.isnan(value):
        return "–"
    if value == 0.0:
        return "0"
    if abs(value) >= 1e6 or abs(value) < 1e-3:
        return f"{value:.3g}"
    return f"{value:,.0f}" if abs(value) >= 1000.0 else f"{value:.3g}"
