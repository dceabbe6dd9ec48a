"""The engine over executors: gangs, bags, and what becomes of them when something goes wrong."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from corewise.errors import CorewiseError, InvalidInput
from corewise.live.engines.base import Bag, Gang, Holding, Round, Rounds
from corewise.live.engines.dispatcher import RunningBag, RunningGang
from corewise.live.engines.executor import ExecutorEngine
from tests.helpers.engines import PATIENCE, Log


@contextmanager
def running(executor: Executor | None, cores: int, extra: int = 0) -> Iterator[tuple[ExecutorEngine, Log]]:
    engine, log = ExecutorEngine(executor, cores, extra=extra), Log()
    engine.start(log.tell)
    try:
        yield engine, log
    finally:
        engine.close()


def gang(engine: ExecutorEngine, name: str, rounds: Callable[[Holding], Rounds], cores: int) -> Gang:
    holding = Holding(name)
    job = Gang(holding, rounds(holding))
    engine.submit(job)
    engine.set_cores(name, cores)
    return job


def squares(job: Holding, count: int = 3) -> Rounds:
    answers = []
    for k in range(count):
        answers.append((yield [partial(pow, k, 2) for _ in range(job.cores)]))
    return answers


def test_a_gang_is_told_its_width_and_sent_its_answers() -> None:
    with running(ThreadPoolExecutor(4), 4) as (engine, log):
        job = gang(engine, "a", squares, 2)
        assert job.future.result(PATIENCE) == [[0, 0], [1, 1], [4, 4]]
        progress = [("progress", "a", 3.0)]
        assert log.of("a") == [("cores-held", "a", 2), *progress, ("job-finished", "a")]


class Gate:
    """A call that waits until it may go on, and counts how many are in it."""

    def __init__(self) -> None:
        self.inside, self.most, self.counter = 0, 0, threading.Condition()
        self.open = threading.Event()

    def __call__(self) -> None:
        with self.counter:
            self.inside += 1
            self.most = max(self.most, self.inside)
            self.counter.notify_all()
        self.open.wait(PATIENCE)
        with self.counter:
            self.inside -= 1

    def wait_until_inside(self, count: int) -> None:
        with self.counter:
            assert self.counter.wait_for(lambda: self.inside == count, PATIENCE)


def test_calls_beyond_the_width_wait_and_the_width_changes_between_rounds() -> None:
    gates = [Gate(), Gate()]

    def rounds(job: Holding) -> Rounds:
        yield [gates[0]] * 5
        yield Round([gates[1]] * job.cores, work=2.5)

    with running(ThreadPoolExecutor(8), 8) as (engine, log):
        job = gang(engine, "a", rounds, 2)
        gates[0].wait_until_inside(2)
        engine.set_cores("a", 4)
        gates[0].open.set()
        gates[1].wait_until_inside(4)
        assert gates[0].most == 2
        assert job.holding.cores == 4
        gates[1].open.set()
        job.future.result(PATIENCE)
        held = [
            ("cores-held", "a", 2),
            ("progress", "a", 1.0),
            ("cores-held", "a", 4),
            ("progress", "a", 2.5),
        ]
        assert log.of("a") == [*held, ("job-finished", "a")]


def test_a_gang_waits_until_all_its_cores_are_there() -> None:
    gate = Gate()

    def rounds(_job: Holding) -> Rounds:
        yield [gate]

    with running(ThreadPoolExecutor(4), 4) as (engine, log):
        first = gang(engine, "first", rounds, 3)
        gate.wait_until_inside(1)
        second = gang(engine, "second", squares, 2)
        engine.set_cores("second", 2)
        gate.open.set()
        assert second.future.result(PATIENCE)
        first.future.result(PATIENCE)
        assert log.told.index(("job-finished", "first")) < log.told.index(("cores-held", "second", 2))


def test_a_job_that_raises_fails_alone_and_may_catch_what_was_raised() -> None:
    def divide(by: int) -> float:
        return 1 / by

    def careless(_job: Holding) -> Rounds:
        yield [partial(divide, 0)]

    def careful(_job: Holding) -> Rounds:
        try:
            yield [partial(divide, 0), partial(divide, 1)]
        except ZeroDivisionError:
            return (yield [partial(divide, 2)])

    with running(ThreadPoolExecutor(4), 4) as (engine, log):
        jobs = [
            gang(engine, name, rounds, 1)
            for name, rounds in (("a", careless), ("b", careful), ("c", squares))
        ]
        assert isinstance(jobs[0].future.exception(PATIENCE), ZeroDivisionError)
        assert jobs[1].future.result(PATIENCE) == [0.5]
        assert jobs[2].future.result(PATIENCE) == [[0], [1], [4]]
        assert log.of("a")[-1] == ("job-ended", "a", "failed")


def test_a_job_that_is_left_without_cores_as_a_call_raises_goes_on_when_it_has_some() -> None:
    gate = Gate()

    def fail() -> None:
        gate()
        raise ArithmeticError

    def rounds(job: Holding) -> Rounds:
        try:
            yield [fail]
        except ArithmeticError:
            return (yield [partial(pow, 3, 2)] * job.cores)

    with running(ThreadPoolExecutor(4), 4) as (engine, log):
        job = gang(engine, "a", rounds, 2)
        gate.wait_until_inside(1)
        engine.set_cores("a", 0)
        gate.open.set()
        log.wait_for("cores-held", "a", 0)
        assert not job.future.done()
        engine.set_cores("a", 3)
        assert job.future.result(PATIENCE) == [9, 9, 9]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([], "round 1 of job 'a' has no calls"),
        (7, "must be a list of calls"),
        ([7], "must be a list of calls"),
    ],
)
def test_rounds_that_are_none_are_refused(given: Any, said: str) -> None:
    closed = []

    def rounds(_job: Holding) -> Rounds:
        try:
            yield given
        finally:
            closed.append(True)

    with running(ThreadPoolExecutor(1), 1) as (engine, log):
        error = gang(engine, "a", rounds, 1).future.exception(PATIENCE)
    assert isinstance(error, InvalidInput)
    assert said in str(error)
    assert closed
    assert log.told[-1] == ("job-ended", "a", "failed")


def test_a_job_that_is_ended_lets_what_is_in_flight_end_and_begins_nothing() -> None:
    gate = Gate()

    def rounds(_job: Holding) -> Rounds:
        yield [gate] * 3

    with running(ThreadPoolExecutor(4), 4) as (engine, log):
        job = gang(engine, "a", rounds, 2)
        gate.wait_until_inside(2)
        engine.end("a")
        engine.end("a")
        other = gang(engine, "b", squares, 2)
        assert other.future.result(PATIENCE)
        assert log.of("a") == [("cores-held", "a", 2)]
        gate.open.set()
        with pytest.raises(CancelledError):
            job.future.result(PATIENCE)
        assert log.of("a")[-1] == ("job-ended", "a", "cancelled")
        assert gate.most == 2


def test_a_bag_borrows_idle_cores_and_gives_them_back_to_a_gang() -> None:
    gates = [Gate() for _ in range(8)]

    def rounds(_job: Holding) -> Rounds:
        yield [gates[0]] * 3

    with running(ThreadPoolExecutor(4), 4) as (engine, log):
        bag = Bag(Holding("bag"), [*gates[1:5], *([partial(pow, 2, 2)] * 20), *gates[5:8]])
        engine.submit(bag)
        engine.set_cores("bag", 1)
        for gate in gates[1:5]:
            gate.wait_until_inside(1)  # four at once, three of them on cores of others
        gang(engine, "gang", rounds, 3)
        for gate in gates[1:5]:
            gate.open.set()
        gates[0].wait_until_inside(3)
        for gate in gates[5:8]:
            gate.open.set()
        gates[0].open.set()
        assert bag.future.result(PATIENCE)[4:24] == [4] * 20
        assert ("cores-held", "bag", 1) in log.told


def test_the_calls_in_flight_never_exceed_the_cores() -> None:
    gate = Gate()
    gate.open.set()
    with running(ThreadPoolExecutor(16), 4) as (engine, _):

        def rounds(job: Holding) -> Rounds:
            for _ in range(10):
                yield [gate] * job.cores

        jobs = [gang(engine, str(number), rounds, 2) for number in range(5)]
        bag = Bag(Holding("bag"), [gate] * 50)
        engine.submit(bag)
        engine.set_cores("bag", 1)
        for future in (*(job.future for job in jobs), bag.future):
            future.result(PATIENCE)
    assert 1 <= gate.most <= 4


def test_an_executor_that_is_shut_down_is_said_so() -> None:
    executor = ThreadPoolExecutor(1)
    executor.shutdown()
    with running(executor, 1) as (engine, _):
        error = gang(engine, "a", squares, 1).future.exception(PATIENCE)
    assert isinstance(error, CorewiseError)
    assert "shut down" in str(error)


def test_no_thread_is_left_behind() -> None:
    before = threading.active_count()
    with running(ThreadPoolExecutor(4), 4) as (engine, _):
        gang(engine, "a", squares, 2).future.result(PATIENCE)
        gang(engine, "never given cores", squares, 0)
    assert threading.active_count() == before


@pytest.mark.parametrize("executor", ["threads", None])
def test_bad_arguments_are_refused(executor: Any) -> None:
    with pytest.raises(
        InvalidInput, match="executor must be one of concurrent.futures" if executor else "cores"
    ):
        ExecutorEngine(executor, 0)


# --- processes --------------------------------------------------------------------------------------


def processes(count: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(count, get_context("spawn"))


def die(flag: str, times: int = 1) -> int:
    """End the worker process, the first few times."""
    path = Path(flag)
    seen = len(path.read_bytes()) if path.exists() else 0
    if seen < times:
        with path.open("ab") as file:
            file.write(b"x")
        time.sleep(0.2)  # for the others to be in flight
        os.kill(os.getpid(), signal.SIGKILL)
    return seen


class Unpicklable(Exception):
    """An error that cannot be made anew from what it was made with."""

    def __init__(self, one: int, other: int) -> None:
        super().__init__(f"{one} and {other}")


def complain() -> None:
    raise Unpicklable(1, 2)


def single(call: Callable[[], Any], _job: Holding) -> Rounds:
    return (yield [call])


@pytest.mark.slow
def test_what_was_in_flight_in_a_pool_that_broke_runs_again_and_a_call_that_kills_fails_alone(
    tmp_path: Path,
) -> None:
    once, always = str(tmp_path / "once"), str(tmp_path / "always")
    with running(processes(2), 2) as (engine, log):
        victim = gang(engine, "victim", partial(single, partial(die, once)), 1)
        other = gang(engine, "other", partial(squares, count=20), 1)
        assert victim.future.result(PATIENCE) == [1]
        assert other.future.result(PATIENCE) == [[k * k] for k in range(20)]
        killer = gang(engine, "killer", partial(single, partial(die, always, 100)), 1)
        long = gang(engine, "long", partial(single, partial(time.sleep, 0.3)), 1)
        error = killer.future.exception(PATIENCE)
        assert isinstance(error, CorewiseError)
        assert "a call of job 'killer' ended its worker 4 times" in str(error)
        assert long.future.result(PATIENCE) == [None]
        failed = [told for told in log.told if told[0] == "job-ended"]
        assert failed == [("job-ended", "killer", "failed")]


def test_what_cannot_be_sent_between_processes_is_said_so_and_fails_alone() -> None:
    with running(None, 1) as (engine, _):
        call = gang(engine, "call", partial(single, lambda: 1), 1).future.exception(PATIENCE)
        answer = gang(engine, "answer", partial(single, threading.Lock), 1).future.exception(PATIENCE)
        error = gang(engine, "error", partial(single, complain), 1).future.exception(PATIENCE)
        assert gang(engine, "good", squares, 1).future.result(PATIENCE) == [[0], [1], [4]]
    assert isinstance(call, InvalidInput)
    assert "cannot be sent to another process" in str(call)
    assert isinstance(answer, InvalidInput)
    assert "cannot be sent back" in str(answer)
    assert isinstance(error, CorewiseError)
    assert str(error) == "Unpicklable: 1 and 2"
    assert "in complain" in error.__notes__[0]


def test_cores_that_are_taken_are_counted_as_jobs_come_and_go() -> None:
    """What is counted as it changes is what the definition gives, at every step of a busy engine."""
    seen: list[int] = []
    with running(ThreadPoolExecutor(4), 4) as (engine, _):
        fill = engine._fill

        def checked() -> None:
            fill()
            jobs = list(engine._jobs.values())
            assert engine.free == engine.pool - sum(job.cores for job in jobs)
            assert set(engine._held) == {job for job in jobs if job.cores}
            growing = {job for job in jobs if isinstance(job, RunningGang) and job.wants}
            assert set(engine._growing) == growing
            waiting = [job for job in jobs if isinstance(job, RunningBag) and job.has_calls]
            assert len(engine._waiting_bags) == len(waiting)
            seen.append(len(jobs))

        engine._fill = checked  # type: ignore[method-assign]
        gangs = [gang(engine, f"gang {k}", squares, 1 + k % 3) for k in range(12)]
        bags = []
        for k in range(12):
            bag = Bag.of(Holding(f"bag {k}"), partial(pow, 2), [(n,) for n in range(5)], 1)
            bags.append(bag)
            engine.submit(bag)
            engine.set_cores(bag.holding.name, k % 2)
        engine.end("gang 7")
        engine.end("bag 7")
        for future in [job.future for job in gangs if job is not gangs[7]]:
            future.result(PATIENCE)
        for future in [job.future for job in bags if job is not bags[7]]:
            future.result(PATIENCE)
        assert max(seen) > 1
        assert engine._broken is None
        assert engine.free == 4
