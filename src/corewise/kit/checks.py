"""Checks of single values, with the offending value in the message."""

from __future__ import annotations

import math
from numbers import Integral, Real

from corewise.errors import InvalidInput
from corewise.kit.report import cut

__all__ = ["count", "finite", "number_in", "positive", "shown", "whole", "within"]

_LONGEST = 100  # characters of a value
_EXACT = 2.0**53  # beyond it floating-point numbers skip whole ones


def shown(value: object) -> str:
    """Return what to print of a value in a message: of a long one, its beginning."""
    try:
        return cut(repr(value), _LONGEST)
    except ValueError:  # an integer with more digits than Python prints
        return "an integer of thousands of digits"


def number_in(value: object) -> object:
    """Return the number in an array without dimensions or a NumPy scalar; any other value as it is."""
    return value.item() if hasattr(value, "item") and getattr(value, "ndim", None) == 0 else value


def finite(value: object, what: str, error: type[InvalidInput] = InvalidInput) -> float:
    """Return `value` as a float if it is a finite real number; a boolean or a string is not."""
    if type(value) is float and math.isfinite(value):
        return value
    given = number_in(value)
    if isinstance(given, bool) or not isinstance(given, Real):
        raise error(f"{what} must be a number, got {shown(value)}")
    try:
        number = float(given)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise error(f"{what} must be finite, got {shown(value)}")
    return number


def positive(value: object, what: str, error: type[InvalidInput] = InvalidInput) -> float:
    """Return `value` as a float if it is a finite number above zero."""
    number = finite(value, what, error)
    if number <= 0:
        raise error(f"{what} must be positive, got {shown(value)}")
    return number


def within(
    value: object, low: float, high: float, what: str, error: type[InvalidInput] = InvalidInput
) -> float:
    """Return `value` as a float if it lies in [`low`, `high`]."""
    number = finite(value, what, error)
    if not low <= number <= high:
        top = "infinity)" if math.isinf(high) else f"{high:g}]"
        raise error(f"{what} must lie in [{low:g}, {top}, got {shown(value)}")
    return number


def count(value: object, what: str, error: type[InvalidInput] = InvalidInput, least: int = 1) -> int:
    """Return `value` as an int if it is an integer of at least `least`; a float is none, see `whole`."""
    if type(value) is int and value >= least:
        return value
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise error(f"{what} must be a whole number, got {shown(value)}")
    number = int(value)
    if number < least:
        raise error(f"{what} must be at least {least}, got {shown(value)}")
    return number


def whole(value: object, what: str, error: type[InvalidInput] = InvalidInput, least: int = 1) -> int:
    """Return `value` as an int if it is a whole number of at least `least`; 1e6 is one, too."""
    given = number_in(value)
    if isinstance(given, float) and given.is_integer() and abs(given) <= _EXACT:
        return count(int(given), what, error, least)
    return count(given, what, error, least)
