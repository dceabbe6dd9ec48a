"""The demonstration: its jobs, what is made of their response times, and that it leaves nothing behind."""

from __future__ import annotations

import math
import threading
from dataclasses import replace

import numpy as np
import pytest

import corewise as cw
from corewise.errors import CorewiseError, InvalidInput
from corewise.kit.arrays import Floats
from corewise.live.demo import demonstration
from corewise.live.demo.backends import BACKENDS, Backend, DemoJob, sleeping, true_system, workload
from corewise.live.demo.demonstration import ALL, Demonstration, Sample, as_contest, compared, demonstrate
from corewise.live.engines.base import Engine, Holding, Round
from tests.helpers.live_pools import solve_in_a_thread

SECONDS = 0.5  # too short to learn anything, which takes code that is compiled first


@pytest.fixture(autouse=True)
def _solving_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    solve_in_a_thread(monkeypatch)


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> Backend:
    """Short jobs on threads, so that a second has some of them."""
    backend = replace(BACKENDS["threads"], mean_size=0.2, rounds=4)
    monkeypatch.setattr(demonstration, "backend_named", lambda _name: backend)
    return backend


def test_the_system_is_the_one_that_is_promised() -> None:
    system = true_system(0.5)
    assert system.cores == 16.0
    assert system.load == pytest.approx(0.7)
    assert [one.speedup for one in system.classes] == [cw.Amdahl(0.1), cw.Amdahl(0.95)]
    short, long = system.size_rates
    assert (short / long, 1.0 / long) == pytest.approx((4.0, 0.5))
    assert len(set(system.arrival_rates)) == 1


def test_arrivals_are_those_of_the_system_and_of_the_seed() -> None:
    system = true_system(0.5)
    jobs = workload(system, 300.0, np.random.default_rng(5))
    assert jobs == workload(system, 300.0, np.random.default_rng(5))
    assert jobs != workload(system, 300.0, np.random.default_rng(6))
    assert [job.time for job in jobs] == sorted(job.time for job in jobs)
    for one in system.classes:
        assert one.arrival_rate is not None
        assert one.size_rate is not None
        sizes = [job.size * one.size_rate for job in jobs if job.job_class == one.name]
        expected = 300.0 * one.arrival_rate
        assert abs(len(sizes) - expected) < 5.0 * math.sqrt(expected)  # false alarm: 6e-7
        assert abs(np.mean(sizes) - 1.0) < 5.0 / math.sqrt(len(sizes))


def test_a_job_sleeps_on_all_its_cores_for_as_long_as_its_curve_says() -> None:
    holding, curve = Holding("job", 4), cw.Amdahl(0.5)
    rounds = sleeping(holding, 1.0, 0.4, curve)
    told: list[tuple[int, float, float]] = []
    for cores in (4, 2, 8, 1):
        holding.cores = cores
        try:
            given = next(rounds)
        except StopIteration:
            break
        assert isinstance(given, Round)
        (nap,) = {call.args[0] for call in given.calls}  # type: ignore[attr-defined]
        told.append((len(given.calls), nap, given.work))
    calls, naps, work = zip(*told, strict=True)
    assert calls == (4, 2, 8)
    assert naps == pytest.approx((0.4 * (0.5 + 0.5 / 4), 0.4 * (0.5 + 0.5 / 2), 0.2 * (0.5 + 0.5 / 8)))
    assert work == pytest.approx((1.0, 1.0, 0.5))


def test_gains_are_paired_by_job() -> None:
    jobs = [DemoJob(0.1 * k, "ab"[k % 2], 1.0) for k in range(200)]
    equi: Floats = np.array([1.0 + k % 7 for k in range(200)])
    corewise = np.where(np.arange(200) % 2, 0.5, 1.1) * equi
    found = compared(jobs, equi, corewise)
    assert list(found) == ["a", "b", ALL]
    assert found["a"].gain == pytest.approx(-0.1)
    assert found["b"].gain == pytest.approx(0.5)
    assert found["b"].interval == pytest.approx((0.5, 0.5))  # every job gains as much
    whole = found[ALL]
    assert whole.gain == pytest.approx(1.0 - corewise.sum() / equi.sum())
    assert whole.interval[0] < whole.gain < whole.interval[1]
    corewise[3] = np.nan  # not done yet
    fewer = compared(jobs, equi, corewise)
    assert fewer["b"].jobs == 99
    assert fewer["b"].equi == pytest.approx((equi[1::2].sum() - equi[3]) / 99)
    none = compared(jobs, equi, np.full(200, np.nan))[ALL]
    assert none.jobs == 0
    assert math.isnan(none.gain)


@pytest.mark.statistical
def test_the_interval_of_a_gain_covers_it() -> None:
    """95 % intervals of independent pairs miss some 5 %; more than 30 of 300 has a probability of 2e-4."""
    rng, jobs = np.random.default_rng(11), [DemoJob(0.0, "a", 1.0)] * 500

    def missed(truth: float) -> int:
        count = 0
        for _ in range(300):
            equi = rng.exponential(1.0, 500)
            low, high = compared(jobs, equi, 0.85 * equi * rng.uniform(0.5, 1.5, 500))[ALL].interval
            count += not low < truth < high
        return count

    assert missed(0.15) <= 30
    assert missed(0.25) > 100  # a wrong gain is found out


def checked(found: Demonstration, samples: list[Sample]) -> None:
    threads = {thread.name for thread in threading.enumerate()}
    assert not {name for name in threads if name.startswith("corewise")}
    whole = found.whole
    assert whole.jobs == sum(found.comparisons[name].jobs for name in ("etl", "training"))
    assert 0.0 < whole.equi < 5.0
    assert 0.0 < whole.corewise < 5.0
    assert tuple(samples) == found.history
    assert samples[-1].so_far == found.comparisons
    told = found.as_mapping()
    assert {"engine", "jobs", "equi", "corewise", "gain", "truth"} <= set(told)
    assert told["truth"] == {"etl": {"p": 0.1}, "training": {"p": 0.95}}
    assert told["gain"] == pytest.approx(
        1.0 - told["corewise"]["mean_response_time"] / told["equi"]["mean_response_time"]
    )
    assert [row["name"] for row in told["equi"]["classes"]] == ["etl", "training"]
    assert set(told["corewise"]["estimates"]) == {"etl", "training"}


def test_the_same_jobs_run_on_both_pools_at_once(backend: Backend) -> None:
    samples: list[Sample] = []
    said: list[str] = []
    found = demonstrate("threads", SECONDS, rng=1, say=said.append, watch=samples.append)
    checked(found, samples)
    assert found.whole.jobs == len(
        workload(true_system(backend.mean_size), SECONDS, np.random.default_rng(1))
    )
    assert all(sample.equi is not None and sample.corewise is not None for sample in samples)
    assert len(said) == 1
    contest = as_contest(found)
    assert len(contest.seconds) == len(samples)
    assert contest.gains[ALL][-1] == pytest.approx(found.whole.gain)


def test_or_one_after_the_other(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demonstration, "backend_named", lambda _name: replace(backend, at_once=False))
    samples: list[Sample] = []
    said: list[str] = []
    found = demonstrate("threads", SECONDS, rng=1, say=said.append, watch=samples.append)
    checked(found, samples)
    assert len(said) == 2
    first = [sample for sample in samples if sample.corewise is None]
    assert samples[: len(first)] == first
    assert all(sample.equi is None for sample in samples[len(first) :])
    assert len(as_contest(found).seconds) == len(samples) - len(first)


@pytest.mark.usefixtures("backend")
def test_an_interrupt_leaves_nothing_behind() -> None:
    def interrupt(_sample: Sample) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        demonstrate("threads", 60.0, rng=1, watch=interrupt)
    assert not [name for name in threading.enumerate() if name.name.startswith("corewise")]


def test_what_goes_wrong_in_a_job_ends_it(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(cores: int) -> Engine:
        engine = backend.make(cores)
        engine._workers._executor.shutdown()  # type: ignore[attr-defined]
        return engine

    monkeypatch.setattr(demonstration, "backend_named", lambda _name: replace(backend, make=broken))
    with pytest.raises(CorewiseError, match="cannot go on: the executor takes no calls"):
        demonstrate("threads", SECONDS, rng=1)


def test_bad_input_is_refused() -> None:
    with pytest.raises(InvalidInput, match="one of threads, dask, ray, got 'dsak'; did you mean 'dask'"):
        demonstrate("dsak")
    with pytest.raises(InvalidInput, match="seconds must be positive"):
        demonstrate(seconds=0.0)
    with pytest.raises(InvalidInput, match="no job arrives within 1e-09 seconds"):
        demonstrate(seconds=1e-9, rng=1)
