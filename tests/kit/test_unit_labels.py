"""Units of time in words."""

from __future__ import annotations

import pytest

import corewise as cw
from corewise.kit.unit_labels import rate_suffix, time_suffix, with_unit


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        ("mean response time", "mean response time (hours)"),
        ("response\ntime", "response\ntime (hours)"),
        ("arrival rate", "arrival rate (per hour)"),
        ("mean jobs", "mean jobs"),
    ],
)
def test_times_and_rates_have_their_unit(label: str, expected: str) -> None:
    assert with_unit(label, "hours") == expected
    assert with_unit(label, None) == label
    assert (time_suffix("hours"), rate_suffix("hours")) == (" hours", " per hour")
    assert time_suffix("hours", 1.0) == " hour"
    assert (time_suffix(None), rate_suffix(None)) == ("", "")


def test_a_notebook_says_the_unit_beside_times_and_rates() -> None:
    classes = [cw.JobClass("one", 1.0, 2.0, cw.Amdahl(0.5))]
    shown = cw.System(4, classes, unit="hours")._repr_html_()
    assert "arrival rate (per hour)" in shown
    assert "(per hour)" not in cw.System(4, classes)._repr_html_()
    told = cw.evaluate(cw.System(4, classes, unit="days"), "equi")
    assert "mean response time (days)" in told._repr_html_()
    assert f"{told.mean_response_time:.10g} days" in str(told)
