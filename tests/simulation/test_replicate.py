"""Replications: the same answer whoever computes them, intervals that cover, percentiles, and bad input."""

from __future__ import annotations

import math
import multiprocessing
import pickle
from collections.abc import Callable
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

import corewise as cw
from corewise.policies.base import BoundPolicy

SYSTEM = cw.System(
    5.0,
    [cw.JobClass("one", 2.0, 1.0, cw.Amdahl(0.7)), cw.JobClass("two", 1.5, 2.0, cw.PowerLaw(0.5))],
)
CHANGING = cw.System(SYSTEM.cores, SYSTEM.classes, [cw.Change(9.0, "one", cw.Amdahl(0.0))])


class Serial(Executor):
    """Does the work as soon as it is asked for."""

    def __init__(self, *, shipped: bool = False) -> None:
        self.shipped = shipped

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run a function now; if `shipped`, it and its result travel as they would to another process."""
        future: Future[Any] = Future()
        try:
            if self.shipped:
                fn, args, kwargs = pickle.loads(pickle.dumps((fn, args, kwargs)))
            result = fn(*args, **kwargs)
            future.set_result(pickle.loads(pickle.dumps(result)) if self.shipped else result)
        except BaseException as error:  # as executors do
            future.set_exception(error)
        return future


def contents(run: cw.results.Run) -> list[Any]:
    """What a run says, as values that are equal only bit for bit."""
    tables = [
        [seen.arrivals, seen.widths.tobytes(), seen.departures.tobytes(), seen.job_time.tobytes()]
        for seen in run.statistics.classes
    ]
    rows = [repr(row) for row in run.classes.values()]
    return [
        run.mean_jobs,
        run.events,
        run.time,
        run.state,
        run.visited.tobytes(),
        run.times.tobytes(),
        tables,
        rows,
    ]


def everything(done: cw.results.Replications) -> list[Any]:
    """All that replications say."""
    rows = [repr(row) for row in done.classes.values()]
    summary = [done.policy, done.mean_jobs, repr(done.interval), done.events, done.departures, rows]
    return [*summary, [contents(run) for run in done.runs], str(done), str(done.statistics)]


KINDS: list[dict[str, Any]] = [
    {"n": 40, "departures": 60},
    {"n": 7, "time": 12.0, "start": (3, 1)},
    {"n": 33, "departures": 60, "percentiles": (50, 95.0)},
    {"n": 1, "departures": 300},
]


# --- whoever computes them ------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("system", [SYSTEM, CHANGING], ids=["as ever", "changing"])
@pytest.mark.parametrize("kind", KINDS, ids="-".join)
def test_the_answer_does_not_depend_on_the_workers(system: cw.System, kind: dict[str, Any]) -> None:
    """Bit for bit: threads by default, one, seven, none, and as if in another process."""
    expected = everything(cw.replicate(system, cw.Whittle(), rng=5, **kind))
    for executor in (ThreadPoolExecutor(1), ThreadPoolExecutor(7), Serial(), Serial(shipped=True)):
        with executor:
            assert (
                everything(cw.replicate(system, cw.Whittle(), rng=5, executor=executor, **kind)) == expected
            )
    assert everything(cw.replicate(system, cw.Whittle(), rng=6, **kind)) != expected
    assert everything(cw.replicate(system, cw.Whittle(), rng=np.random.default_rng(5), **kind)) == expected


@pytest.mark.slow
def test_the_answer_is_the_same_from_other_processes() -> None:
    kind: dict[str, Any] = {"n": 40, "departures": 60, "percentiles": (50.0,), "rng": 5}
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as executor:
        found = everything(cw.replicate(SYSTEM, cw.Whittle(), executor=executor, **kind))
    assert found == everything(cw.replicate(SYSTEM, cw.Whittle(), **kind))


@pytest.mark.parametrize("system", [SYSTEM, CHANGING], ids=["as ever", "changing"])
def test_each_replication_is_a_run_of_its_own(system: cw.System) -> None:
    """The i-th is what `simulate` gives with the i-th stream; tables grown by one do not show in the next."""
    runs = cw.replicate(system, cw.Equi(), n=50, departures=150, rng=3).runs
    streams = np.random.default_rng(3).spawn(50)
    for run, stream in zip(runs, streams, strict=True):
        assert contents(run) == contents(cw.simulate(system, cw.Equi(), departures=150, rng=stream))
        assert run.path is None
    assert len({run.mean_jobs for run in runs}) == 50


def test_a_generator_gives_new_streams_every_time() -> None:
    rng = np.random.default_rng(4)
    first, second = (cw.replicate(SYSTEM, cw.Equi(), n=3, departures=20, rng=rng) for _ in range(2))
    assert everything(first) != everything(second)


def test_the_summary_is_that_of_the_runs() -> None:
    done = cw.replicate(SYSTEM, cw.Equi(), n=30, departures=80, rng=2, start=cw.results.State((2, 2), 4.0))
    times = np.array([run.time for run in done.runs])
    assert done.departures == 30 * 80
    assert done.events == sum(run.events for run in done.runs)
    assert done.statistics.departures == done.departures
    assert done.statistics.time == pytest.approx(times.sum())
    assert done.mean_jobs == pytest.approx(sum(row.mean_jobs for row in done.classes.values()))
    for name, row in done.classes.items():
        areas = np.array([run.classes[name].mean_jobs for run in done.runs]) * times
        assert row.mean_jobs == pytest.approx(areas.sum() / times.sum())
        own = [run.classes[name] for run in done.runs]
        spent = sum(each.mean_response_time * each.completed for each in own if each.completed)
        assert row.mean_response_time == pytest.approx(spent / sum(each.completed for each in own))
        assert row.interval[0] < row.mean_jobs < row.interval[1]
        assert row.percentiles == ()
        assert done.statistics[name].job_time.sum() == pytest.approx(areas.sum())
    assert all(run.state.time == pytest.approx(4.0 + run.time) for run in done.runs)
    assert "over 30 replications" in str(done)
    assert "departures           2,400 in" in str(done)


def test_overall_means_are_those_of_the_runs_together() -> None:
    """Over all jobs, and with the weights of the classes; both against sums over the runs."""
    weighted = cw.System(5.0, [replace(SYSTEM.classes[0], weight=3.0), SYSTEM.classes[1]])
    done = cw.replicate(weighted, cw.Equi(), n=6, departures=80, rng=2)
    assert done.time == pytest.approx(sum(run.time for run in done.runs))
    assert done.arrivals == sum(row.arrivals for run in done.runs for row in run.classes.values())
    spent = sum(run.mean_response_time * run.departures for run in done.runs)
    assert done.mean_response_time == pytest.approx(spent / done.departures)
    one, two = done.classes["one"], done.classes["two"]
    assert done.mean_cost == pytest.approx(3.0 * one.mean_jobs + two.mean_jobs)
    assert (one.departures + two.departures, one.arrivals + two.arrivals) == (done.departures, done.arrivals)


def test_one_replication_has_no_interval() -> None:
    done = cw.replicate(SYSTEM, cw.Equi(), n=1, departures=80, rng=2, percentiles=[50])
    assert all(math.isnan(end) for end in done.interval)
    assert done.mean_jobs == pytest.approx(done.runs[0].mean_jobs)
    assert all(math.isnan(end) for row in done.classes.values() for end in row.percentiles[0].interval)


def test_progress_goes_up_to_one() -> None:
    shares: list[float] = []
    cw.replicate(SYSTEM, cw.Equi(), n=50, departures=5, rng=1, progress=shares.append)
    assert shares == sorted(shares)
    assert (shares[-1], len(shares)) == (1.0, 32)


def test_what_goes_wrong_in_a_worker_comes_back() -> None:
    policy = BoundPolicy(SYSTEM, "generous", lambda counts: np.full(counts.shape, 4.0))
    for executor in (None, Serial()):
        with pytest.raises(cw.errors.InvalidPolicy):
            cw.replicate(SYSTEM, policy, n=5, departures=5, rng=1, executor=executor)


# --- other processes ------------------------------------------------------------------------------


def test_a_bound_policy_goes_to_other_processes_unless_it_has_a_local_function() -> None:
    equi, own = (
        cw.Equi().on(SYSTEM),
        BoundPolicy(SYSTEM, "own", lambda counts: cw.Equi().on(SYSTEM).decision(counts)),
    )
    with ProcessPoolExecutor(1) as executor:
        for policy in (equi, cw.WholeCores(cw.Whittle().on(SYSTEM))):
            there = cw.replicate(SYSTEM, policy, n=2, departures=5, rng=1, executor=executor)
            assert there.mean_jobs == cw.replicate(SYSTEM, policy, n=2, departures=5, rng=1).mean_jobs
        with pytest.raises(cw.errors.InvalidPolicy, match=r"cannot be sent to other processes.*rule itself"):
            cw.replicate(SYSTEM, own, n=2, departures=5, rng=1, executor=executor)
    assert cw.replicate(SYSTEM, own, n=2, departures=5, rng=1).departures == 10


POLICIES: dict[str, Callable[[], cw.Policy]] = {
    "equi": cw.Equi,
    "fixed": lambda: cw.Fixed([0.3, 0.7]),
    "priority": lambda: cw.Priority(["two", "one"]),
    "greedy": cw.Greedy,
    "whittle": cw.Whittle,
    "whole cores": lambda: cw.WholeCores(cw.Whittle()),
    "solved": lambda: cw.solve(SYSTEM, capacity=6).policy,
    "solved for whole cores": lambda: cw.solve(SYSTEM, capacity=6, whole_cores=True).policy,
}


@pytest.mark.parametrize("make", POLICIES.values(), ids=POLICIES.keys())
def test_rules_can_be_sent_also_after_they_were_used(make: Callable[[], cw.Policy]) -> None:
    """A solved policy too, once it had to answer for states outside its table."""
    window: dict[str, Any] = {"n": 3, "departures": 60, "rng": 1, "start": (9, 9)}
    policy = make()
    here = cw.replicate(SYSTEM, policy, **window)
    there = cw.replicate(SYSTEM, policy, executor=Serial(shipped=True), **window)
    assert everything(here) == everything(there)


def test_results_can_be_sent_and_stored() -> None:
    run = cw.simulate(SYSTEM, cw.Equi(), departures=50, rng=1, record=True)
    assert run.path is not None
    assert len(run.path.response_times["one"]) > 0  # remembered from here on
    again = pickle.loads(pickle.dumps(run))
    assert contents(again) == contents(run)
    assert again.path.time.tolist() == run.path.time.tolist()
    done = cw.replicate(SYSTEM, cw.Equi(), n=3, departures=50, rng=1)
    assert everything(pickle.loads(pickle.dumps(done))) == everything(done)


# --- intervals ------------------------------------------------------------------------------------

REPETITIONS = 400


def covered(intervals: list[tuple[float, float]], mean: float, factor: float = 1.0) -> float:
    """The share of intervals that cover a mean, each stretched about its middle."""
    low, high = np.array(intervals).T
    return float(np.mean(np.abs(mean - 0.5 * (low + high)) <= 0.5 * factor * (high - low)))


def assert_nominal(intervals: list[tuple[float, float]], mean: float) -> None:
    """95 % cover, within 4 binomial standard deviations; halved, they would cover 70 %, and do not pass."""
    slack = 4.0 * math.sqrt(0.95 * 0.05 / len(intervals))
    assert abs(covered(intervals, mean) - 0.95) < slack
    assert abs(covered(intervals, mean, 0.5) - 0.95) > slack


SPARE = cw.System(
    60.0,
    [cw.JobClass("one", 4.0, 1.0, cw.Amdahl(0.0)), cw.JobClass("two", 6.0, 2.0, cw.Amdahl(0.0))],
)
"""Cores to spare and no speed-up: counts are Poisson with means 4 and 3, and forget in one unit of time."""


@pytest.mark.statistical
@pytest.mark.parametrize("window", [{"time": 20.0}, {"departures": 190}], ids="".join)
def test_intervals_over_replications_cover(window: dict[str, Any]) -> None:
    """400 times 5 replications from the mean counts, from where the expected counts never move.

    False alarm 6e-5 for each of six; the negative control is in `assert_nominal`.
    """
    found = [
        cw.replicate(SPARE, cw.Whittle(), n=5, rng=seed, start=(4, 3), executor=Serial(), **window)
        for seed in range(REPETITIONS)
    ]
    assert_nominal([done.interval for done in found], 7.0)
    assert_nominal([done.classes["one"].interval for done in found], 4.0)
    assert_nominal([done.classes["two"].interval for done in found], 3.0)


@pytest.mark.statistical
@pytest.mark.parametrize("window", [{"time": 12_000.0}, {"departures": 12_000}], ids="".join)
def test_intervals_by_batch_means_cover(window: dict[str, Any]) -> None:
    """400 runs of M/M/1 at load 0.5 (p = 1), long enough for batches to be as good as independent.

    The mean number is ρ/(1 − ρ) = 1, and half of it is of either class. False alarm 6e-5 for each of four.
    """
    jobs = [cw.JobClass(name, 0.5, 1.0, cw.Amdahl(1.0)) for name in ("one", "two")]
    system = cw.System(2.0, jobs)
    found = [cw.simulate(system, cw.Equi(), rng=seed, **window) for seed in range(REPETITIONS)]
    assert_nominal([run.interval for run in found], 1.0)
    assert_nominal([run.classes["one"].interval for run in found], 0.5)


@pytest.mark.statistical
def test_percentiles_are_those_of_the_exponential_law() -> None:
    """Cores to spare, no speed-up: response times are Exp(μ), with percentiles −log(1 − q)/μ.

    5 standard errors of the mean over 40 replications, false alarm 1e-4 for the six together; negative
    control: percentiles for 8 % longer jobs.
    """
    percents = (10.0, 50.0, 95.0)
    done = cw.replicate(SPARE, cw.Equi(), n=40, departures=9000, rng=8, start=(4, 3), percentiles=percents)
    for name, row in done.classes.items():
        assert tuple(p.percent for p in row.percentiles) == percents
        for found in row.percentiles:
            exact = -math.log1p(-found.percent / 100.0) / SPARE[name].known_size_rate
            error = (found.interval[1] - found.interval[0]) / 2.0 / float(stats.t.ppf(0.975, 39))
            assert found.value == pytest.approx(sum(found.interval) / 2.0)
            assert abs(found.value - exact) < 5.0 * error
            assert abs(found.value - 1.08 * exact) > 5.0 * error
    assert ["time", "10", "%", "50", "%", "95", "%"] in [line.split() for line in str(done).splitlines()]


def test_percentiles_are_those_of_each_path() -> None:
    """By sorting the response times of the same runs, recorded one by one."""
    done = cw.replicate(SYSTEM, cw.Equi(), n=5, departures=150, rng=3, percentiles=[0, 25, 100])
    values = []
    for stream in np.random.default_rng(3).spawn(5):
        path = cw.simulate(SYSTEM, cw.Equi(), departures=150, rng=stream, record=True).path
        assert path is not None
        values.append(sorted(path.response_times["two"].tolist()))
    found = [p.value for p in done.classes["two"].percentiles]
    assert found[0] == pytest.approx(np.mean([times[0] for times in values]))
    assert found[2] == pytest.approx(np.mean([times[-1] for times in values]))
    assert found[1] == pytest.approx(np.mean([stats.scoreatpercentile(times, 25) for times in values]))


# --- bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"n": 0}, "n must be at least 1, got 0"),
        ({"n": -3}, "n must be at least 1, got -3"),
        ({"n": 2.5}, "n must be a whole number, got 2.5"),
        ({"n": True}, "n must be a whole number, got True"),
        ({"n": None}, "n must be a whole number, got None"),
        ({"percentiles": [-1]}, "percentile must lie in [0, 100], got -1"),
        ({"percentiles": [50, 100.5]}, "percentile must lie in [0, 100], got 100.5"),
        ({"percentiles": [math.nan]}, "percentile must be finite, got nan"),
        ({"percentiles": "95"}, "percentiles must be a list such as [50, 95], got '95'"),
        ({"percentiles": 95}, "got 95"),
    ],
    ids=repr,
)
def test_bad_replications(wrong: dict[str, Any], told: str) -> None:
    arguments = {"n": 2, "departures": 5, "rng": 1} | wrong
    with pytest.raises(cw.errors.InvalidInput) as error:
        cw.replicate(SYSTEM, cw.Equi(), **arguments)
    assert told in str(error.value)


def test_a_generator_that_cannot_spawn_is_refused() -> None:
    legacy = np.random.Generator(np.random.RandomState(3)._bit_generator)
    with pytest.raises(cw.errors.InvalidInput, match="rng cannot spawn"):
        cw.replicate(SYSTEM, cw.Equi(), n=2, departures=5, rng=legacy)


def test_an_unstable_system_is_simulated_all_the_same() -> None:
    busy = cw.System(1.0, [replace(job, arrival_rate=3.0) for job in SYSTEM.classes])
    done = cw.replicate(busy, cw.Equi(), n=3, time=30.0, rng=1)
    assert all(sum(run.state.counts) > 50 for run in done.runs)


def test_a_replication_without_a_job_of_a_class_does_not_spoil_its_percentiles() -> None:
    """The rare class comes in about a third of the windows."""
    jobs = [cw.JobClass("often", 1.0, 1.0, cw.Amdahl(0.5)), cw.JobClass("rarely", 0.01, 1.0, cw.Amdahl(0.5))]
    found = cw.replicate(cw.System(4, jobs), cw.Equi(), n=60, departures=40, percentiles=[50], rng=3)
    came = [run.classes["rarely"].departures for run in found.runs]
    assert 0 in came
    assert max(came) > 0
    assert found.classes["rarely"].percentiles[0].value > 0.0
    nobody = cw.replicate(cw.System(4, jobs), cw.Equi(), n=2, departures=1, percentiles=[50], rng=3)
    assert math.isnan(nobody.classes["rarely"].percentiles[0].value)
