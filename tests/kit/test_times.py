"""Times in words."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from corewise.kit.times import in_force_since, instant, is_date, spoken_duration


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0.0, "0 s"),
        (0.00035, "0.35 ms"),
        (0.35, "350 ms"),
        (4.23, "4.2 s"),
        (9.96, "10 s"),
        (59.4, "59 s"),
        (59.6, "60 s"),
        (60.0, "1 min"),
        (200.0, "3 min 20 s"),
        (3600.0, "1 h"),
        (7505.0, "2 h 5 min"),
        (86_400.0 + 61.0, "1 d"),
        (12.0 * 86_400.0 + 3.0 * 3600.0, "12 d 3 h"),
    ],
)
def test_a_duration_has_two_units_at_most(seconds: float, said: str) -> None:
    assert spoken_duration(seconds) == said


def test_seconds_since_1970_are_a_date_and_others_are_seconds() -> None:
    moment = datetime(2026, 11, 18, 2, 13, 36, 123_000, UTC)
    assert instant(moment.timestamp()) == "2026-11-18 02:13:36 UTC"
    assert instant(moment.timestamp(), milliseconds=True) == "2026-11-18 02:13:36.123 UTC"
    assert (instant(0.0), instant(125.34), instant(125.34, milliseconds=True)) == (
        "0.0 s",
        "125.3 s",
        "125.340 s",
    )
    assert [is_date(time) for time in (-1.0, 0.0, 1e8, 1.8e9, 1e12)] == [False, False, False, True, False]
    assert instant(1e12) == "1000000000000.0 s"  # what a wire lets through is no date of a calendar


def test_since_when_and_of_dates_for_how_long() -> None:
    began = datetime(2026, 11, 18, tzinfo=UTC).timestamp()
    assert in_force_since(began, began + 7505.0) == "since 2026-11-18 00:00:00 UTC, for 2 h 5 min"
    assert in_force_since(began, began - 1.0).endswith(", for 0 s")
    assert in_force_since(12.4, 99.0) == "since 12.4 s"
