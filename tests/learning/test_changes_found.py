"""Alarms of a run, as the changes that they are about."""

from __future__ import annotations

from corewise.learning.epochs import changes_found
from tests.helpers.epochs import alarm, alarming, row, two


def test_a_change_that_is_named_later_is_one_change() -> None:
    speed, named = alarm("one", "speed", 300.0, 500), alarm("one", "curve", 300.0, 700)
    renamed, other = alarm("one", "size rate", 300.0, 900), alarm("two", "speed", 300.0, 600)
    came = alarm("one", "arrival rate", 300.0, 800, statistic=16.0)
    again = alarm("one", "speed", 300.0, 1200, statistic=25.0)  # another one, in the same place
    assert changes_found(alarming()) == []
    assert changes_found([row(1, 100, two(0.3, 0.7))]) == []  # of before there were alarms
    assert changes_found(alarming(speed)) == [{**speed, "named": None}]
    assert changes_found(alarming(named)) == [{**named, "named": 700}]
    assert changes_found(alarming(speed, other, named, came)) == [
        {**named, "raised": 500, "named": 700},
        {**other, "named": None},
        {**came, "named": 800},
    ]
    assert changes_found(alarming(speed, named, came, renamed, again)) == [
        {**renamed, "raised": 500, "named": 900},
        {**came, "named": 800},
        {**again, "named": None},
    ]


def test_a_change_that_was_taken_back_is_none() -> None:
    speed, taken_back = alarm("one", "speed", 300.0, 500), alarm("one", "none", 300.0, 900)
    again = alarm("one", "speed", 800.0, 1200)
    assert changes_found(alarming(speed, taken_back)) == []
    assert changes_found(alarming(speed, taken_back, again)) == [{**again, "named": None}]
