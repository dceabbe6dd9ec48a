"""Simulation with moving costs: by hand on recorded jobs, by closed forms, and what it says to `estimate`."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import corewise as cw
from corewise.errors import InvalidInput, UnstablePolicy
from corewise.observation.statistics import ClassStatistics, Statistics
from tests.helpers import naive


def linear(pause: float, **given: object) -> cw.System:
    one = cw.JobClass("a", 1.0, 1.0, cw.Amdahl(1.0), resize_pause=pause, **given)  # type: ignore[arg-type]
    return cw.System(2, [one])


def trace(*rows: tuple[float, float]) -> cw.Trace:
    times, sizes = zip(*rows, strict=True)
    return cw.Trace(times, ["a"] * len(rows), sizes)


def test_a_resized_job_stands_still() -> None:
    """On 2 cores, p = 1: job 1 (size 2) runs on both until job 2 (size 0.5) comes at 0.25, and pauses 0.1.

    It has 1.5 left, job 2 leaves at 0.75; by then job 1 has done 0.4. It grows at 0.75, pauses 0.1, and has
    1.1 to do on two cores: it leaves at 0.75 + 0.1 + 0.55 = 1.4.
    """
    run = cw.simulate(linear(0.1), "equi", moving_costs=True, jobs=trace((0.0, 2.0), (0.25, 0.5)))
    assert run.time == pytest.approx(1.4)
    assert run.mean_response_time == pytest.approx((1.4 + 0.5) / 2)
    assert run.resizes == 2
    assert run.resizes_per_event == 0.5
    table = run.statistics["a"]
    assert table.widths.tolist() == [1.0, 2.0]
    assert table.departures.tolist() == [1.0, 1.0]
    assert table.job_time.tolist() == pytest.approx([0.4 + 0.5, 0.25 + 0.55])  # no pause in it


def test_a_pause_begins_anew() -> None:
    """Job 2 (size 0.05) leaves within the pause of job 1, which grows and pauses from then on."""
    run = cw.simulate(linear(0.1), "equi", moving_costs=True, jobs=trace((0.0, 2.0), (0.25, 0.05)))
    assert run.time == pytest.approx(0.3 + 0.1 + 1.5 / 2)


def test_first_cores_are_free_and_held_widths_stay() -> None:
    run = cw.simulate(linear(0.1), "held", moving_costs=True, jobs=trace((0.0, 2.0), (0.25, 0.5)))
    assert run.time == pytest.approx(1.0 + 0.25)
    assert run.resizes == 0


def test_limits_are_kept() -> None:
    """With least 2 of 2 cores jobs run one after the other; with most 1 each has its own core."""
    jobs = trace((0.0, 2.0), (0.25, 0.5))
    one_by_one = cw.simulate(linear(0.1, min_cores=2), "equi", moving_costs=True, jobs=jobs)
    assert one_by_one.time == pytest.approx(1.25)
    assert one_by_one.mean_response_time == pytest.approx((1.0 + 1.0) / 2)
    apart = cw.simulate(linear(0.1, max_cores=1), "equi", moving_costs=True, jobs=jobs)
    assert apart.time == pytest.approx(2.0)
    assert apart.resizes == 0


@pytest.mark.statistical
@pytest.mark.parametrize("policy", ["equi", "held", "priced"])
def test_one_core_a_job_is_the_many_server_queue(policy: str) -> None:
    """With most 1 nobody moves: M/M/c by Erlang's formula, within four standard errors (false alarm 1e-4)."""
    one = cw.JobClass("a", 2.8, 1.0, cw.Amdahl(0.9), max_cores=1, resize_pause=1.0)
    run = cw.simulate(cw.System(4, [one]), policy, moving_costs=True, departures=100_000, rng=2)
    error = (run.interval[1] - run.interval[0]) / 4.2
    assert abs(run.mean_jobs - naive.erlang_c(4, 0.7)) < 4.0 * error
    assert run.resizes == 0
    wrong = naive.erlang_c(4, 0.68)
    assert abs(run.mean_jobs - wrong) > 4.0 * error


@pytest.mark.statistical
def test_jobs_that_use_all_cores_are_a_single_server() -> None:
    """p = 1, no pause: M/M/1 with rate cμ under any rule that leaves no core idle."""
    classes = [cw.JobClass(name, 0.9, 1.0, cw.Amdahl(1.0)) for name in "ab"]
    run = cw.simulate(cw.System(3, classes), "equi", moving_costs=True, departures=200_000, rng=4)
    error = (run.interval[1] - run.interval[0]) / 4.2
    assert abs(run.mean_jobs - 0.6 / 0.4) < 4.0 * error


def paused_system() -> cw.System:
    classes = [
        cw.JobClass(name, 1.6, 1.0, cw.Amdahl(p), resize_pause=0.2) for name, p in (("a", 0.3), ("b", 0.8))
    ]
    return cw.System(8, classes)


def with_pauses_counted(run: cw.results.Run) -> Statistics:
    """The statistics as they would be if jobs that stand still counted at the widths they hold."""
    classes = []
    for row, table in zip(run.classes.values(), run.statistics.classes, strict=True):
        there = row.mean_jobs * run.time
        factor = there / float(table.job_time.sum())
        classes.append(
            ClassStatistics(table.arrivals, table.widths, table.departures, factor * table.job_time)
        )
    return replace(run.statistics, classes=tuple(classes))


@pytest.mark.statistical
def test_estimates_do_not_see_pauses() -> None:
    """p̂ within four standard errors (false alarm 6e-5 each); with pauses counted it is far off."""
    system = paused_system()
    run = cw.simulate(system, "equi", moving_costs=True, departures=40_000, rng=6)
    right, wrong = (cw.estimate(seen, system) for seen in (run.statistics, with_pauses_counted(run)))
    for name, p in (("a", 0.3), ("b", 0.8)):
        assert abs(right[name].value - p) < 4.0 * right[name].stderr
    assert abs(wrong["b"].value - 0.8) > 10.0 * right["b"].stderr


def test_the_jobs_of_a_seed_are_the_same_under_every_rule() -> None:
    runs = [
        cw.simulate(paused_system(), policy, moving_costs=True, time=300.0, rng=5)
        for policy in ("equi", "held", "priced")
    ]
    assert len({run.arrivals for run in runs}) == 1
    again = cw.simulate(paused_system(), "priced", moving_costs=True, time=300.0, rng=5)
    assert again.mean_jobs == runs[2].mean_jobs
    assert all(math.isclose(run.time, 300.0) for run in runs)


def test_growing_tables_do_not_matter() -> None:
    """A burst of 200 jobs at once: room and tables grow, and all of them leave."""
    burst = trace(*[(0.0, 1.0)] * 200)
    run = cw.simulate(linear(0.0), "equi", moving_costs=True, jobs=burst)
    assert run.departures == 200
    assert run.time == pytest.approx(100.0)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"record": True}, "keeps no events"),
        ({"start": [1]}, "begins empty"),
    ],
)
def test_what_is_not_kept_is_refused(given: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        cw.simulate(linear(0.1), "equi", moving_costs=True, departures=10, **given)  # type: ignore[arg-type]


def test_changes_and_attained_work_are_refused() -> None:
    changing = cw.System(2, linear(0.1).classes, [cw.Change(5.0, "a", cw.Amdahl(0.5))])
    with pytest.raises(InvalidInput, match="curves that stay"):
        cw.simulate(changing, "equi", moving_costs=True, departures=10)
    law = cw.sizes.Hyperexponential(cv2=4)
    general = cw.System(2, [replace(linear(0.1).classes[0], sizes=law)])
    with pytest.raises(InvalidInput, match="attained work"):
        cw.simulate(general, "residual", moving_costs=True, departures=10)
    run = cw.simulate(general, "priced", moving_costs=True, departures=1000, rng=1)
    assert run.departures == 1000


def test_what_does_not_keep_up_is_said() -> None:
    one = cw.JobClass("a", 8.0, 1.0, cw.Amdahl(0.0), min_cores=8)
    with pytest.raises(UnstablePolicy, match=r"equi does not keep up: \d+ jobs"):
        cw.simulate(cw.System(8, [one]), "equi", moving_costs=True, departures=100_000, rng=1)


def test_free_runs_have_no_resizes() -> None:
    run = cw.simulate(linear(0.1), "equi", departures=1000, rng=1)
    assert run.resizes is None
    assert np.isnan(run.resizes_per_event)


def test_policies_are_compared_on_the_same_jobs() -> None:
    found = cw.compare(paused_system(), moving_costs=True, events=20_000, rng=3)
    rows = {row.name: row for row in found.rows}
    assert list(rows) == ["equi", "optimal", "held", "priced"]
    assert rows["priced"].above_best == 0.0
    assert rows["optimal"].above_best is not None
    assert rows["optimal"].above_best > 0.05
    assert found.lower_bound is not None
    assert all(row.mean_jobs is not None and row.mean_jobs > found.lower_bound for row in found.rows)
    assert "best here" in str(found)
    with pytest.raises(InvalidInput, match="nothing is exact"):
        cw.compare(paused_system(), moving_costs=True, simulate=False)
