"""Policies side by side on recorded jobs, with whole cores and sizes that policies see."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import corewise as cw

SYSTEM = cw.load_system("day:gpu")
DAY = cw.Trace.gpu_day()
MORNING = cw.Trace(DAY.time[:25], DAY.job_class[:25], DAY.size[:25])
POLICIES = ("equi", "job-index:0")


@pytest.fixture(scope="module")
def compared() -> cw.results.Comparison:
    return cw.compare(SYSTEM, POLICIES, jobs=MORNING, whole=True, known_sizes=True)


def test_rows_are_those_of_simulate(compared: cw.results.Comparison) -> None:
    for name, row in zip(POLICIES, compared.rows, strict=True):
        run = cw.simulate(SYSTEM, name, jobs=MORNING, whole=True, known_sizes=True)
        assert (row.mean_response_time, row.mean_jobs) == (run.mean_response_time, run.mean_jobs)
        assert row.makespan == run.time
        assert row.resizes_per_job == run.resizes / 25  # type: ignore[operator]
        path = cw.simulate(SYSTEM, name, jobs=MORNING, whole=True, known_sizes=True, record=True).path
        assert path is not None
        times = np.concatenate(list(path.response_times.values()))
        assert row.percentile_99 is not None
        assert np.percentile(times, 99, method="lower") <= row.percentile_99 <= 1.006 * times.max()


def test_above_the_best_is_by_what_all_jobs_took(compared: cw.results.Comparison) -> None:
    """Not by the mean number of jobs, which is over a window that ends with the last of them."""
    times = [row.mean_response_time or np.nan for row in compared.rows]
    assert [row.above_best for row in compared.rows] == pytest.approx(
        [time / min(times) - 1 for time in times]
    )
    assert compared.rows[1].above_best == 0.0 < compared.rows[0].above_best  # type: ignore[operator]


def test_there_is_no_bound_and_the_report_says_why(compared: cw.results.Comparison) -> None:
    assert compared.lower_bound is None
    assert not compared.exact
    text = str(compared)
    assert "25, the same under every policy; nothing is random" in text
    assert "none: it is of the long run, and these jobs end" in text
    assert compared.to_dict()["rows"][1]["name"] == "job-index:0"


def test_by_default_job_index_is_among_the_policies() -> None:
    few = cw.Trace(MORNING.time[:3], MORNING.job_class[:3], MORNING.size[:3])
    found = cw.compare(SYSTEM, jobs=few)
    assert [row.name for row in found.rows] == ["equi", "greedy", "whittle", "job-index"]
    assert all(row.resizes_per_job is None for row in found.rows)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"jobs": MORNING, "simulate": False}, "jobs, whole or known_sizes nothing is exact"),
        ({"whole": True, "capacity": 5}, "jobs, whole or known_sizes nothing is exact"),
        ({"whole": True, "moving_costs": True}, "moving_costs is another way to hold whole cores"),
        ({"jobs": "jobs.csv"}, "jobs must be a Trace, got 'jobs.csv'"),
        ({"jobs": cw.Trace([0.0], ["imges"], [1.0])}, "unknown class 'imges'; did you mean 'images'"),
    ],
)
def test_what_cannot_be_compared(given: dict[str, Any], message: str) -> None:
    with pytest.raises(cw.errors.InvalidInput, match=message):
        cw.compare(SYSTEM, **given)


def test_replications_hold_whole_cores_too() -> None:
    """A pool of three cores and jobs that need two: one runs at a time, whatever EQUI would share."""
    system = cw.System(3, [cw.JobClass("a", 0.2, 1.0, cw.Amdahl(1.0), min_cores=2, max_cores=2)])
    runs = cw.replicate(system, "equi", n=3, departures=300, rng=5, whole=True)
    assert runs.runs[0].resizes is not None
    one = cw.simulate(system, "equi", departures=300, rng=np.random.default_rng(5).spawn(3)[0], whole=True)
    assert runs.runs[0].mean_jobs == pytest.approx(one.mean_jobs, rel=1e-9)
    # M/M/1 with rate 2 at arrival rate 0.2: 1/9 jobs in the mean; within 5 standard errors of some 900 jobs.
    assert runs.mean_jobs == pytest.approx(1 / 9, abs=5 * 0.15 / np.sqrt(900))


def test_known_sizes_are_seen_by_policies_per_job_alone() -> None:
    """Shortest first on one core: with sizes known the mean response time is that of SRPT, else not."""
    sizes = cw.sizes.Hyperexponential(4.0)
    system = cw.System(1, [cw.JobClass("a", 0.7, 1.0, cw.Amdahl(0.0), sizes=sizes)])
    jobs = cw.Trace([0.0, 0.0, 0.0], ["a", "a", "a"], [3.0, 1.0, 2.0])
    found = cw.compare(system, ["equi", "job-index:0"], jobs=jobs, known_sizes=True)
    assert found.rows[1].mean_response_time == pytest.approx((1 + 3 + 6) / 3, rel=1e-9)
    assert found.rows[0].mean_response_time == pytest.approx((3 + 5 + 6) / 3, rel=1e-9)
    assert replace(found, rows=()).beside_best
