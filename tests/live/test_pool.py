"""The live pool: jobs and their handles, bad input, modes, journals, and its end."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

import corewise as cw
from corewise.errors import CorewiseError, InvalidFile, InvalidInput
from corewise.learning.gate import ExpectedImprovement
from corewise.live.engines.base import Holding, Rounds
from corewise.live.engines.executor import ExecutorEngine
from corewise.live.journal.journal import Journal
from corewise.live.run.job import LiveJob
from corewise.live.state.controller import Controller, Options
from corewise.observation.events import JobEnded
from tests.helpers.commands import start
from tests.helpers.engines import listening
from tests.helpers.live_pools import solve_in_a_thread

PATIENCE = 180.0  # seconds until a test that waits for something gives up, on a busy machine
CLASSES = [
    cw.JobClass("one", arrival_rate=1.0, size_rate=2.0, speedup=cw.Amdahl(0.5)),
    cw.JobClass("two", arrival_rate=1.0, size_rate=2.0, speedup=cw.Amdahl(0.5)),
]


@pytest.fixture(autouse=True)
def _solving_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    solve_in_a_thread(monkeypatch)


def threads(cores: int = 4) -> ExecutorEngine:
    return ExecutorEngine(ThreadPoolExecutor(cores))


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end
        time.sleep(0.001)


def steps(job: Holding, count: int, call: Callable[[], Any]) -> Rounds:
    widths = []
    for _ in range(count):
        widths.append(job.cores)
        yield [call] * job.cores
    return widths


def failing(_job: Holding) -> Rounds:
    yield [partial(divmod, 1, 0)]


def test_a_job_is_waited_for_like_a_future() -> None:
    with cw.LivePool(CLASSES, threads()) as pool:
        go = threading.Event()
        job = pool.run("one", steps, 2, partial(go.wait, PATIENCE), name="mine")
        until(lambda: job.cores == 4)
        assert (job.name, job.job_class, job.done()) == ("mine", "one", False)
        with pytest.raises(TimeoutError):
            job.result(timeout=0.01)
        assert "mine" in repr(job)
        assert "EQUI" in str(job.explain()).upper()
        seen: list[object] = []
        job.add_done_callback(seen.append)
        go.set()
        assert job.result(PATIENCE) == [4, 4]
        assert (job.done(), job.cores, job.exception()) == (True, 0, None)
        until(lambda: seen == [job])
        failed = pool.run("one", failing)
        with pytest.raises(ZeroDivisionError):
            failed.result(PATIENCE)
        with pytest.raises(InvalidInput, match="no job 'mine' is there"):
            job.explain()


def test_a_callback_may_ask_the_pool_and_run_another_job(caplog: pytest.LogCaptureFixture) -> None:
    with cw.LivePool(CLASSES, threads()) as pool:
        go, seen = threading.Event(), list[Any]()

        def follow(job: LiveJob) -> None:
            seen.append(pool.report().pool)
            after = pool.run("two", steps, 1, int, name="after")
            after.add_done_callback(lambda job: seen.append(job.name))
            raise ValueError(job.name)

        job = pool.run("one", steps, 1, partial(go.wait, PATIENCE), name="before")
        job.add_done_callback(follow)
        go.set()
        until(lambda: seen == [4, "after"])
        job.add_done_callback(lambda job: seen.append(job.done()))  # it is done: at once
        until(lambda: seen[2:] == [True])
    assert "a callback has raised" in caplog.text
    assert "ValueError: before" in caplog.text
    job.add_done_callback(lambda job: seen.append(job.name))  # nothing is left of the pool
    assert seen[3:] == ["before"]


def test_a_callback_may_close_its_pool() -> None:
    pool = cw.LivePool(CLASSES, threads())
    closed = threading.Event()

    def close(_job: LiveJob) -> None:
        pool.close()
        closed.set()

    pool.run("one", steps, 1, int).add_done_callback(close)
    assert closed.wait(PATIENCE)
    until(lambda: not any(thread.name.startswith("corewise") for thread in threading.enumerate()))


@pytest.mark.parametrize("wait_for_jobs", [True, False])
def test_a_call_cannot_close_its_pool_for_which_it_would_wait_for_ever(wait_for_jobs: bool) -> None:
    def rounds(_job: Holding, pool: cw.LivePool) -> Rounds:
        yield [partial(pool.close, wait_for_jobs=wait_for_jobs)]

    def left(_item: int) -> None:
        with pool:
            pass

    with cw.LivePool(CLASSES, threads()) as pool:
        for job in (pool.run("one", rounds, pool, name="mine"), pool.map("two", left, range(2))):
            with pytest.raises(
                CorewiseError, match="cannot close the pool that carries it out: it would wait"
            ):
                job.result(PATIENCE)
        assert pool.run("one", steps, 1, int).result(PATIENCE) == [4]  # it is open


def test_a_call_may_close_another_pool_and_one_that_is_closed() -> None:
    def other() -> list[int]:
        with cw.LivePool(CLASSES, threads(2)) as inner:
            found: list[int] = inner.run("one", steps, 1, int).result(PATIENCE)
        inner.close()
        return found

    with cw.LivePool(CLASSES, threads()) as pool:
        assert pool.map("one", lambda _: other(), [0]).result(PATIENCE) == [[2]]


@pytest.mark.parametrize(
    "wait", [LiveJob.result, LiveJob.exception, list, lambda job: asyncio.run(_await(job))]
)
def test_a_call_cannot_wait_for_its_own_job(wait: Callable[[LiveJob], Any]) -> None:
    known: list[LiveJob] = []
    there = threading.Event()

    def rounds(_job: Holding) -> Rounds:
        there.wait(PATIENCE)
        yield [lambda: wait(known[0])]

    with cw.LivePool(CLASSES, threads()) as pool:
        known.append(pool.run("one", rounds, name="mine"))
        there.set()
        with pytest.raises(CorewiseError, match="a call of job 'mine' cannot wait for that job"):
            known[0].result(PATIENCE)


async def _await(job: LiveJob) -> Any:
    return await job


def test_a_call_may_wait_for_another_job_that_gets_cores() -> None:
    with cw.LivePool(CLASSES, threads()) as pool:

        def call() -> Any:
            return pool.run("two", steps, 1, int).result(PATIENCE)

        def rounds(_job: Holding) -> Rounds:
            return (yield [call])

        assert pool.run("one", rounds, most=1).result(PATIENCE) == [[3]]


@pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning")
def test_a_forked_process_cannot_reach_the_pool() -> None:
    """Its threads are not there: it would wait for ever."""
    with cw.LivePool(CLASSES, threads()) as pool:
        job = pool.run("one", steps, 10**9, partial(time.sleep, 0.001))
        for act in (pool.close, pool.report, job.result, partial(pool.run, "one", steps, 1, int)):
            assert "cannot be reached from process" in in_a_fork(act)
        job.cancel()


def in_a_fork(act: Callable[[], object]) -> str:
    """What an action raises in a forked process."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        text = "nothing"
        try:
            signal.alarm(30)
            act()
        except BaseException as error:
            text = str(error)
        os.write(write, text.encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return text


def test_what_is_no_engine_is_refused_with_what_would_be_one() -> None:
    with pytest.raises(InvalidInput, match=r"ExecutorEngine\(executor\) is one"):
        cw.LivePool(CLASSES, ThreadPoolExecutor(1))  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="or like them, got 4"):
        cw.LivePool(CLASSES, 4)  # type: ignore[arg-type]


def test_jobs_can_be_awaited() -> None:
    async def both(pool: cw.LivePool) -> list[Any]:
        return list(await asyncio.gather(pool.run("one", steps, 1, int), pool.map("two", abs, [-3, 3])))

    with cw.LivePool(CLASSES, threads()) as pool:
        assert asyncio.run(both(pool))[1] == [3, 3]


def test_a_bag_gives_its_answers_in_order_whatever_its_chunks() -> None:
    with cw.LivePool(CLASSES, threads()) as pool:
        assert list(pool.map("two", pow, range(7), [2] * 7, chunksize=3)) == [k * k for k in range(7)]
        assert pool.map("two", abs, []).result() == []
        with pytest.raises(TypeError):
            pool.map("two", abs, [1, "x"]).result(PATIENCE)


def test_a_job_that_is_cancelled_gives_its_cores_to_the_others() -> None:
    with cw.LivePool(CLASSES, threads()) as pool:
        go = threading.Event()
        job = pool.run("one", steps, 10**9, partial(go.wait, PATIENCE))
        until(lambda: job.cores == 4)
        assert job.cancel()
        with pytest.raises(CancelledError):
            job.result(PATIENCE)
        other = pool.run("one", steps, 1, int)
        assert other.cores == 0
        go.set()
        assert other.result(PATIENCE) == [4]
        assert not other.cancel()
        assert job.cancelled()


def test_jobs_share_the_pool_and_follow_when_it_shrinks_and_grows() -> None:
    engine = threads(4)
    with cw.LivePool(CLASSES, engine) as pool:
        jobs = [pool.run(name, steps, 10**9, partial(time.sleep, 0.001)) for name in ("one", "two")]
        until(lambda: [job.cores for job in jobs] == [2, 2])
        engine.change_pool(2)
        until(lambda: [job.cores for job in jobs] == [1, 1])
        engine.change_pool(3)
        until(lambda: sum(job.cores for job in jobs) == 3)
        assert pool.cores == 3
        pool.set_limits("one", most=1)
        until(lambda: [job.cores for job in jobs] == [1, 2])
        for job in jobs:
            job.cancel()


def test_watch_shares_equally_and_can_be_left_and_entered() -> None:
    with cw.LivePool(CLASSES, threads(), mode="watch") as pool:
        jobs = [pool.run(name, steps, 10**9, partial(time.sleep, 0.001)) for name in ("one", "two")]
        until(lambda: [job.cores for job in jobs] == [2, 2])
        pool.set_mode("steer")
        jobs[0].cancel()
        until(lambda: jobs[1].cores == 4)
        pool.set_mode("watch")
        third = pool.run("one", steps, 1, int)
        assert third.result(PATIENCE) == [2]
        jobs[1].cancel()


@pytest.mark.parametrize("rule", [None, "whittle"])
def test_what_is_learned_is_adopted(rule: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    sure = (0.1, 0.2, 0.3)  # of a gain that these jobs, which do nothing, cannot show
    found = ExpectedImprovement(sure, sure, sure)
    monkeypatch.setattr("corewise.learning.solving.expected_improvement", lambda *_: found)
    monkeypatch.setattr(
        "corewise.observation.progress.ProgressTally.too_short", lambda _: ()
    )  # nor are their rounds long enough
    known = cw.System(4, CLASSES)
    learning = cw.algorithm_1b(known, departures=40, policy=rule)
    with cw.LivePool(known, threads(), algorithm=learning, options=Options(least_seen=10)) as pool:
        for _ in range(20):
            jobs = [pool.run(name, steps, 2, int) for name in ("one", "two")]
            for job in jobs:
                job.result(PATIENCE)
        until(lambda: pool._runner.ask(_adopted))
        assert pool.run("one", steps, 1, int).result(PATIENCE) == [4]


def _adopted(controller: Controller) -> bool:
    return controller.adopted is not None


def test_a_solver_that_fails_leaves_the_policy_and_alerts(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(*_: object) -> None:
        raise CorewiseError("no")

    monkeypatch.setattr("corewise.live.run.runner.solve_request", answer)
    known = cw.System(4, CLASSES)
    with cw.LivePool(known, threads(), algorithm=cw.algorithm_1b(known, departures=2)) as pool:
        for name in ("one", "two"):
            pool.run(name, steps, 1, int).result(PATIENCE)
        until(lambda: bool(pool.alerts))
        assert "came to nothing, the policy stays: CorewiseError: no" in pool.alerts[0].text


@pytest.mark.parametrize(
    ("act", "said"),
    [
        (lambda pool: pool.run("three", steps, 1, int), "unknown class 'three'"),
        (lambda pool: pool.run("one", steps, 1, int, least=5), "needs 5 cores, and the pool has 4"),
        (lambda pool: pool.run("one", steps, 1, int, least=3, most=2), "least must be at most most"),
        (lambda pool: pool.run("one", steps, 1, int, name=""), "job must be a line of 1 to 200 characters"),
        (lambda pool: pool.run("one", len, name="x"), "has no len"),
        (lambda pool: pool.run("one", lambda _: [int]), "rounds must be a generator function"),
        (lambda pool: pool.map("one", abs, [1], chunksize=0), "chunksize"),
        (lambda pool: pool.set_mode("drive"), "mode must be one of"),
    ],
)
def test_bad_input_is_refused_and_the_pool_goes_on(act: Callable[[cw.LivePool], object], said: str) -> None:
    with cw.LivePool(CLASSES, threads()) as pool:
        with pytest.raises((InvalidInput, TypeError), match=said):
            act(pool)
        assert pool.run("one", steps, 1, int).result(PATIENCE) == [4]


def test_a_name_is_used_by_one_job_at_a_time_and_none_after_the_pool_is_closed() -> None:
    with cw.LivePool(CLASSES, threads()) as pool:
        go = threading.Event()
        job = pool.run("one", steps, 1, partial(go.wait, PATIENCE), name="a")
        with pytest.raises(InvalidInput, match="job 'a' is there already"):
            pool.run("two", steps, 1, int, name="a")
        go.set()
        job.result(PATIENCE)
        assert pool.run("two", steps, 1, int, name="a").result(PATIENCE) == [4]
    pool.close()
    with pytest.raises(CorewiseError, match="the pool is closed"):
        pool.run("one", steps, 1, int)


def test_a_system_of_another_size_is_refused() -> None:
    with pytest.raises(InvalidInput, match="the system has 8 cores, and the engine 4"):
        cw.LivePool(cw.System(8, CLASSES), threads())


def checked_rounds(job: Holding, count: int, busy: Busy, fails: bool) -> Rounds:
    total = 0
    for step in range(count):
        width = job.cores
        total += sum((yield [partial(busy, k, step) for k in range(width)]))
        if fails and step == count // 2:
            raise ArithmeticError("as it must")
    return total


class Busy:
    """A short call that notes how many are being carried out at once."""

    def __init__(self) -> None:
        self.now, self.most, self._lock = 0, 0, threading.Lock()

    def __call__(self, first: int, step: int) -> int:
        with self._lock:
            self.now += 1
            self.most = max(self.most, self.now)
        time.sleep(0.001)
        with self._lock:
            self.now -= 1
        return step if first == 0 else 0


def test_whatever_becomes_of_some_jobs_the_others_finish_right() -> None:
    """Jobs that raise, are cancelled or limited, bags, a pool that changes: all invariants, all results."""
    rng, busy, engine = Random(20261117), Busy(), ExecutorEngine(ThreadPoolExecutor(8))
    good, wrong, cancelled, bags = kinds = [list[tuple[int, LiveJob]]() for _ in range(4)]
    with cw.LivePool(CLASSES, engine, options=Options(checked=True)) as pool:
        for number in range(120):
            name, count, kind = rng.choice(("one", "two")), rng.randint(1, 8), number % 4
            if kind == 3:
                job = pool.map(name, busy, [0] * count, range(count))
            else:
                least, most = rng.choice((None, 1, 2)), rng.choice((None, 3))
                job = pool.run(name, checked_rounds, count, busy, kind == 1, least=least, most=most)
            kinds[kind].append((count, job))
            if kind == 2:
                job.cancel()
            if number % 10 == 0:
                engine.change_pool(rng.randint(3, 8))
            time.sleep(rng.expovariate(500.0))
    assert [job.result() for _, job in good] == [count * (count - 1) // 2 for count, _ in good]
    assert [job.result() for _, job in bags] == [list(range(count)) for count, _ in bags]
    assert all(isinstance(job.exception(), ArithmeticError) for _, job in wrong)
    assert sum(job.cancelled() for _, job in cancelled) > 10
    assert 2 <= busy.most <= 8


# --- the end ----------------------------------------------------------------------------------------


def test_an_error_in_the_body_gives_up_the_jobs_and_leaves_no_thread() -> None:
    before = threading.active_count()
    jobs = []

    def body() -> None:
        with cw.LivePool(CLASSES, threads()) as pool:
            jobs.append(pool.run("one", steps, 10**9, partial(time.sleep, 0.001)))
            until(lambda: jobs[0].cores == 4)
            raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        body()
    assert jobs[0].cancelled()
    assert threading.active_count() == before


def test_a_full_disk_fails_the_jobs_and_hangs_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with cw.LivePool(CLASSES, threads(), tmp_path / "pool.db") as pool:
        job = pool.run("one", steps, 10**9, partial(time.sleep, 0.001))

        def full(*_: object) -> None:
            raise InvalidFile("pool.db: cannot be written: no space left on device")

        monkeypatch.setattr(Journal, "append", full)
        with pytest.raises(CorewiseError, match=r"cannot go on: .* cannot be written"):
            job.result(PATIENCE)
        with pytest.raises(CorewiseError, match="no space left"):
            pool.run("one", steps, 1, int)


def test_a_pool_goes_on_when_a_full_disk_has_room_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("corewise.live.run.runner._RETRY", 0.02)
    with cw.LivePool(CLASSES, threads(), tmp_path / "pool.db") as pool:
        go = threading.Event()
        job = pool.run("one", steps, 1, go.wait)
        until(lambda: job.cores > 0)
        with monkeypatch.context() as full:
            full.setattr(
                "corewise.live.journal.journal.transaction",
                lambda *_: (_ for _ in ()).throw(OSError("disk full")),
            )
            with pytest.raises(CorewiseError, match=r"refused for now: .*disk full"):
                pool.run("one", steps, 1, int)
            go.set()
            with pytest.raises(TimeoutError):  # its end is not safe
                job.result(0.2)
        job.result(PATIENCE)
        pool.run("two", steps, 1, int).result(PATIENCE)
    with Journal.read(tmp_path / "pool.db") as journal:
        kinds = [event.kind for _, event in journal.events()]
    assert kinds.count("job-finished") == kinds.count("job-arrived") == 2


def test_a_disk_that_stays_full_fails_the_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("runner._RETRY", 0.02), ("runner._LOOK", 0.02), ("pool._GIVE_UP", 0.1)):
        monkeypatch.setattr(f"corewise.live.run.{name}", value)
    with cw.LivePool(CLASSES, threads(), tmp_path / "pool.db") as pool:
        job = pool.run("one", steps, 10**9, partial(time.sleep, 0.001))
        until(lambda: job.cores > 0)
        assert isinstance(pool._store, Journal)
        assert pool._store.last_instruction() > 0  # nothing is left to be written
        monkeypatch.setattr(
            "corewise.live.journal.journal.transaction",
            lambda *_: (_ for _ in ()).throw(OSError("disk full")),
        )
        with pytest.raises(CorewiseError, match=r"cannot go on: .*disk full"):
            job.result(PATIENCE)


def test_a_journal_that_is_removed_fails_the_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("corewise.live.run.runner._LOOK", 0.02)
    with cw.LivePool(CLASSES, threads(), tmp_path / "pool.db") as pool:
        job = pool.run("one", steps, 10**9, partial(time.sleep, 0.001))
        (tmp_path / "pool.db").unlink()
        with pytest.raises(CorewiseError, match=r"cannot go on: .*was removed while it was open"):
            job.result(PATIENCE)
        with pytest.raises(CorewiseError, match="was removed while it was open"):
            pool.run("one", steps, 1, int)


def test_a_job_that_the_engine_does_not_take_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = threads()
    with cw.LivePool(CLASSES, engine) as pool:
        with monkeypatch.context() as broken:
            broken.setattr(type(engine), "submit", lambda *_: (_ for _ in ()).throw(RuntimeError("mine")))
            with pytest.raises(RuntimeError, match="mine"):
                pool.run("one", steps, 1, int)
        until(lambda: pool.report().jobs == 0)
        pool.run("one", steps, 1, int).result(PATIENCE)


def test_a_journal_is_continued_and_jobs_that_were_lost_are_said_so(tmp_path: Path) -> None:
    path = tmp_path / "pool.db"
    with cw.LivePool(CLASSES, threads(), path) as pool:
        first = pool.run("one", steps, 3, int)
        assert first.name == "one-1"
        first.result(PATIENCE)  # it is over before the other, whose end is forgotten, begins
        with pytest.raises(InvalidFile, match="another pool has this journal open"):
            cw.LivePool(CLASSES, threads(), path)
        lost = pool.run("two", steps, 1, int)
        lost.result(PATIENCE)
    with Journal.read(path) as journal:
        last, ended = [
            (seq, event) for seq, event in journal.events() if getattr(event, "job", "") == "two-2"
        ][-1]
        before = len(list(journal.events()))
        assert ended.kind == "job-finished"
    _forget_from(path, last)  # as if it had been killed just before
    with cw.LivePool(CLASSES, threads(), path) as pool:
        assert pool._runner.ask(lambda controller: [book.finished for book in controller.counters]) == [1, 0]
        assert pool.run("one", steps, 1, int).name == "one-3"
    with Journal.read(path) as journal:
        events = [event for _, event in journal.events()]
    assert len(events) > before
    assert [event.why for event in events if isinstance(event, JobEnded)] == ["lost"]
    assert [event.time for event in events] == sorted(event.time for event in events)
    with cw.LivePool(CLASSES[1::-1], threads(), path) as pool:  # in another order
        assert [(row.name, row.finished) for row in pool.report().classes] == [("two", 0), ("one", 2)]


def _forget_from(path: Path, seq: int) -> None:
    import sqlite3

    connection = sqlite3.connect(path)
    with connection:
        connection.execute("DELETE FROM event WHERE seq >= ?", (seq,))
        connection.execute("DELETE FROM instruction WHERE event_seq >= ?", (seq,))
    connection.close()


SCRIPT = """
import time
from functools import partial
import corewise as cw

def rounds(job):
    while True:
        yield [partial(time.sleep, 600)] * job.cores

if __name__ == "__main__":
    job_class = cw.JobClass("one", arrival_rate=1.0, size_rate=2.0, speedup=cw.Amdahl(0.5))
    with cw.LivePool(cw.System(2, [job_class]), journal="pool.db") as pool:
        job = pool.run("one", rounds)
        while not job.cores:
            time.sleep(0.01)
        print("ready", flush=True)
        job.result()
"""


def members(session: int) -> list[int]:
    """The processes of a session."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[3]) == session and fields[0] != "Z":
                found.append(int(entry.name))
    return found


@pytest.mark.slow
def test_ctrl_c_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    script = start(
        "script.py",
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert script.stdout is not None
        assert script.stdout.readline() == "ready\n"
        assert len(members(script.pid)) >= 4  # itself, two workers, the solver
        assert not listening(script.pid)
        os.killpg(script.pid, signal.SIGINT)
        _, errors = script.communicate(timeout=PATIENCE)
        assert script.returncode == -signal.SIGINT
        assert errors.count("Traceback") == 1
        assert errors.rstrip().endswith("KeyboardInterrupt")
        until(lambda: not members(script.pid))
        with Journal.read(tmp_path / "pool.db") as journal:
            kinds = [event.kind for _, event in journal.events()]
        assert kinds[-2:] == ["job-ended", "tick"]
    finally:
        script.kill()
        script.wait()
