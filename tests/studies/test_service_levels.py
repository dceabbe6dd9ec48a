"""Service levels against closed forms, on the same jobs for every number of cores."""

from __future__ import annotations

import math

import pytest

import corewise as cw
from corewise.errors import CorewiseError, InvalidInput
from corewise.studies.service_levels import Level, parse_level, plan_levels

SERIAL = cw.System(
    50, [cw.JobClass("a", 2.0, 1.0, cw.Amdahl(0.0)), cw.JobClass("b", 1.0, 0.5, cw.Amdahl(0.0))]
)
"""Jobs that use one core each: with cores for all, each takes its size, which is exponential."""


@pytest.mark.statistical
def test_percentiles_of_jobs_that_never_wait_are_those_of_their_sizes() -> None:
    """Exact values −ln(0.05)/μ; each interval misses them with probability 0.05, the wider look 1e-4."""
    levels = [Level(95.0, "a", 5.0), Level(95.0, "b", 9.0), Level(None, None, 9.0)]
    (row,) = plan_levels(SERIAL, levels, policy="equi", cores=[50], rng=4).curve
    exact = -math.log(0.05), -2.0 * math.log(0.05), (2.0 * 1.0 + 1.0 * 2.0) / 3.0
    for found, value in zip(row.attained, exact, strict=True):
        low, high = found.interval
        assert abs(found.value - value) <= 2.0 * (high - low) / 2.0
        assert not low <= 1.2 * value <= high  # negative control
    assert row.met


@pytest.mark.statistical
def test_the_fewest_cores_for_a_mean_are_those_of_the_formula() -> None:
    """All jobs perfectly parallel: M/M/1, T = 1/(c − 3), which is at most 0.3 from 7 cores on."""
    straight = cw.System(
        5, [cw.JobClass("a", 2.0, 1.0, cw.Amdahl(1.0)), cw.JobClass("b", 1.0, 1.0, cw.PowerLaw(1.0))]
    )
    found = plan_levels(straight, [Level(None, None, 0.3)], policy="equi", price=2.0, rng=1)
    assert found.cores == 7
    prices = {row.cores: row.price for row in found.curve}
    assert prices[7] == 14.0
    listed = plan_levels(straight, [Level(None, None, 0.3)], policy="equi", cores=[2, 5, 8], rng=1)
    assert listed.cores == 8
    assert [row.met for row in listed.curve] == [False, False, True]
    assert math.isinf(listed.curve[0].attained[0].value)


def test_targets_are_read() -> None:
    assert parse_level("5") == Level(None, None, 5.0)
    assert parse_level("p99.5:a=2e1") == Level(99.5, "a", 20.0)
    assert parse_level("mean:a=3").statistic == "mean:a"
    for text in ("x", "p95:a", "q95=1", "p0=1", "p100=1", "mean=-1", "mean=nan", "p95:a=fast"):
        with pytest.raises(InvalidInput):
            parse_level(text)


def test_what_cannot_be_met_is_refused() -> None:
    with pytest.raises(InvalidInput, match="not met with 60 cores"):
        plan_levels(SERIAL, [Level(None, "a", 0.5)], policy="equi", max_cores=60, rng=1)
    with pytest.raises(InvalidInput, match="3 cores cannot keep up"):
        plan_levels(SERIAL, [Level(None, "a", 5.0)], cores=[2, 3], rng=1)
    with pytest.raises(CorewiseError, match="unknown class 'c'"):
        plan_levels(SERIAL, [Level(None, "c", 5.0)], rng=1)
    with pytest.raises(InvalidInput, match="needs a target"):
        plan_levels(SERIAL, [], rng=1)
