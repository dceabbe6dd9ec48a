"""Numbers written together with how sure they are."""

from __future__ import annotations

import math

import pytest

from corewise.kit.numbers import half_width, plus_minus, value_and_ends, value_with_interval

NONE = math.nan, math.nan


def test_half_of_an_interval() -> None:
    assert half_width((1.0, 4.0)) == 1.5


@pytest.mark.parametrize(
    ("value", "interval", "digits", "text"),
    [
        (12.3456789, (12.0, 12.5), 6, "12.3457 ± 0.25"),
        (12.3456789, (12.0, 12.5), 3, "12.3 ± 0.25"),
        (12.3456789, (12.3456789, 12.3456789), 8, "12.345679"),
        (12.3456789, NONE, 6, "12.3457"),
        (math.nan, NONE, 6, "-"),
    ],
)
def test_a_value_with_its_interval(
    value: float, interval: tuple[float, float], digits: int, text: str
) -> None:
    assert value_with_interval(value, interval, digits) == text


@pytest.mark.parametrize(
    ("value", "error", "figures", "text"),
    [
        (0.30123, 0.0123, 2, "0.301 ± 0.012"),
        (0.30123, 0.0123, 1, "0.30 ± 0.01"),
        (1234.5, 56.0, 2, "1234 ± 56"),
        (0.5, 1e-12, 2, "0.5 ± 1.0e-12"),
        (0.5, math.nan, 2, "0.5"),
        (0.5, math.inf, 2, "0.5"),
        (0.5, 0.0, 1, "0.5"),
    ],
)
def test_a_value_has_the_places_of_its_error(value: float, error: float, figures: int, text: str) -> None:
    assert plus_minus(value, error, figures) == text


def test_a_value_with_both_ends() -> None:
    assert value_and_ends(2.0, (1.5, 2.5)) == "2 (95 %: 1.5 to 2.5)"
    assert value_and_ends(2.0, NONE) == "2"
