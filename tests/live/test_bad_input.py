"""Bad input to a live pool: an error of the project's own, jobs go on, and the journal stays whole."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import corewise as cw
from corewise.errors import CorewiseError, InvalidFile, InvalidInput
from corewise.live.engines.base import Holding, Rounds
from corewise.live.engines.executor import ExecutorEngine
from corewise.live.journal.journal import Journal
from corewise.live.journal.verification import state_digest, verify_replay
from corewise.live.state.controller import Controller, Options
from corewise.observation import events as happened
from tests.helpers.engines import PATIENCE
from tests.helpers.live_pools import solve_in_a_thread

CLASSES = [
    cw.JobClass("one", arrival_rate=1.0, size_rate=2.0, speedup=cw.Amdahl(0.5)),
    cw.JobClass("two", arrival_rate=1.0, size_rate=2.0, speedup=cw.Amdahl(0.5)),
]


@pytest.fixture(autouse=True)
def _solving_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    solve_in_a_thread(monkeypatch)


def threads(cores: int = 4) -> ExecutorEngine:
    return ExecutorEngine(ThreadPoolExecutor(cores))


def steps(job: Holding, count: int = 2) -> Rounds:
    """As many rounds as are asked for; the result is how many had all their answers."""
    whole = 0
    for _ in range(count):
        width = job.cores
        whole += sum((yield [partial(int, "1")] * width)) == width
    return whole


def no_rounds(_job: Holding) -> Any:
    return [int]


def unknown_mode(pool: cw.LivePool) -> None:
    pool.set_mode("drive")  # type: ignore[arg-type]


def yielding(what: Any) -> Callable[[Holding], Rounds]:
    def rounds(_job: Holding) -> Rounds:
        yield what

    return rounds


def raising(_job: Holding) -> Rounds:
    yield [partial(divmod, 1, 0)]


def unlocked() -> Any:
    return threading.Lock()


def unwanted_rounds(pool: cw.LivePool) -> None:
    pool.run("one", 7)  # type: ignore[arg-type]


def waits_for_another(pool: cw.LivePool) -> None:
    """Run a job that begins another and waits for it, in the thread that would carry it on."""

    def rounds(_job: Holding) -> Rounds:
        yield [int]
        return pool.run("two", steps).result(PATIENCE)

    pool.run("one", rounds).result(PATIENCE)


def closes_its_pool(pool: cw.LivePool) -> None:
    """Run a job that closes the pool, which waits for all jobs."""

    def rounds(_job: Holding) -> Rounds:
        yield [int]
        pool.close()

    pool.run("one", rounds).result(PATIENCE)


def result(rounds: Callable[..., Rounds]) -> Callable[[cw.LivePool], object]:
    return lambda pool: pool.run("one", rounds).result(PATIENCE)


def cancelled(pool: cw.LivePool) -> None:
    pool.run("one", steps, 10**6).cancel()
    raise CorewiseError("given up")


BAD: list[tuple[str, Callable[[cw.LivePool], object], type[Exception], str]] = [
    (
        "unknown class",
        lambda pool: pool.run("tow", steps),
        InvalidInput,
        "unknown class 'tow'; did you mean 'two'",
    ),
    ("least above most", lambda pool: pool.run("one", steps, least=3, most=2), InvalidInput, "got 3 and 2"),
    (
        "least above the pool",
        lambda pool: pool.run("one", steps, least=9),
        InvalidInput,
        "needs 9 cores, and the pool has 4",
    ),
    ("limits of no class", lambda pool: pool.set_limits("own", 1, 2), InvalidInput, "unknown class 'own'"),
    ("limits the wrong way", lambda pool: pool.set_limits("one", 3, 2), InvalidInput, "got 3 and 2"),
    (
        "limits above the pool",
        lambda pool: pool.set_limits("one", 5),
        InvalidInput,
        "class 'one' cannot need 5 cores, as the pool has 4",
    ),
    (
        "unknown mode",
        unknown_mode,
        InvalidInput,
        "one of watch, steer, hold, got 'drive'",
    ),
    (
        "no rounds at all",
        lambda pool: pool.run("one", no_rounds),
        InvalidInput,
        "must be a generator function",
    ),
    ("rounds that are none", unwanted_rounds, InvalidInput, "must be a generator function.* got 7"),
    (
        "a job that waits for another",
        waits_for_another,
        CorewiseError,
        "a job cannot wait between two rounds",
    ),
    (
        "a job that closes its pool",
        closes_its_pool,
        CorewiseError,
        "a job cannot close a pool between two rounds",
    ),
    ("a round of nothing", result(yielding([])), InvalidInput, "round 1 of job 'one-1' has no calls"),
    (
        "a round that is none",
        result(yielding(7)),
        InvalidInput,
        "round 1 of job 'one-1' must be a list of calls",
    ),
    ("a call that is none", result(yielding([7])), InvalidInput, "must be a list of calls such as partial"),
    ("a job that raises", result(raising), ZeroDivisionError, "division"),
    ("a job that is cancelled", cancelled, CorewiseError, "given up"),
    ("no job to explain", lambda pool: pool.explain("x"), InvalidInput, "no job 'x' is there"),
]


@pytest.mark.parametrize(("act", "kind", "said"), [row[1:] for row in BAD], ids=[row[0] for row in BAD])
def test_it_is_said_jobs_go_on_and_the_journal_stays_whole(
    act: Callable[[cw.LivePool], object], kind: type[Exception], said: str, tmp_path: Path
) -> None:
    with cw.LivePool(CLASSES, threads(), tmp_path / "pool.db") as pool:
        with pytest.raises(kind, match=said):
            act(pool)
        assert pool.run("two", steps).result(PATIENCE) == 2
    with Journal.read(tmp_path / "pool.db") as journal:
        proof = verify_replay(journal)
    assert proof.missing == 0
    with cw.LivePool(CLASSES, threads(), tmp_path / "pool.db") as pool:
        assert pool.run("two", steps).result(PATIENCE) == 2


def test_results_that_cannot_be_sent_back_fail_their_job_alone(tmp_path: Path) -> None:
    with cw.LivePool(CLASSES, ExecutorEngine(None, 2), tmp_path / "pool.db") as pool:
        bad = pool.run("one", yielding([unlocked]))
        good = pool.run("two", steps)
        assert "pickle" in str(bad.exception(PATIENCE))
        assert good.result(PATIENCE) == 2
    with Journal.read(tmp_path / "pool.db") as journal:
        assert verify_replay(journal).events


def test_an_executor_that_is_shut_down_is_said_by_every_job(tmp_path: Path) -> None:
    executor = ThreadPoolExecutor(4)
    executor.shutdown()
    with cw.LivePool(CLASSES, ExecutorEngine(executor), tmp_path / "pool.db") as pool:
        error = pool.run("one", steps).exception(PATIENCE)
        assert isinstance(error, CorewiseError)
        assert "the executor takes no calls, it may have been shut down" in str(error)
    with Journal.read(tmp_path / "pool.db") as journal:
        assert verify_replay(journal).events


def test_two_pools_cannot_have_one_journal_and_the_first_goes_on(tmp_path: Path) -> None:
    with cw.LivePool(CLASSES, threads(), tmp_path / "pool.db") as pool:
        with pytest.raises(InvalidFile, match="another pool has this journal open"):
            cw.LivePool(CLASSES, threads(), tmp_path / "pool.db")
        assert pool.run("one", steps).result(PATIENCE) == 2


def test_a_journal_goes_on_otherwise_and_one_of_another_version_is_refused_and_left(tmp_path: Path) -> None:
    path = tmp_path / "pool.db"
    with cw.LivePool(CLASSES, threads(), path) as pool:
        pool.run("one", steps).result(PATIENCE)
    otherwise = {"algorithm": cw.algorithm_1b(cw.System(4, CLASSES))}, {"options": Options(least_seen=3)}
    for number, more in enumerate(otherwise, start=1):
        with cw.LivePool(CLASSES, threads(), path, **more) as pool:  # type: ignore[arg-type]
            assert pool.run("one", steps).result(PATIENCE) == 2
            assert pool.report().classes[0].finished == number + 1
    with Journal.read(path) as journal:
        before = verify_replay(journal)
    with sqlite3.connect(path) as to:
        to.execute("UPDATE about SET value = '\"corewise journal 9\"' WHERE key = 'format'")
    to.close()
    with pytest.raises(InvalidFile, match="has the format 'corewise journal 9'"):
        cw.LivePool(CLASSES, threads(), path)
    with sqlite3.connect(path) as to:
        to.execute("UPDATE about SET value = '\"corewise journal 1\"' WHERE key = 'format'")
    to.close()
    with Journal.read(path) as journal:
        assert verify_replay(journal) == before


def controller(lateness: float = 0.0) -> Controller:
    return Controller(
        cw.algorithm_1b(cw.System(4, CLASSES)),
        lambda _: cw.Equi(),
        mode="steer",
        options=Options(checked=True, lateness=lateness),
    )


EVENTS: list[happened.Event] = [
    happened.JobArrived(5.0, "1", "a", "one"),
    happened.CoresHeld(3.0, "2", "a", 4),  # by a clock that went back
    happened.JobArrived(4.0, "3", "b", "two"),
    happened.CoresHeld(6.0, "4", "a", 2),
    happened.CoresHeld(6.0, "5", "b", 2),
    happened.JobFinished(7.0, "6", "a"),
]


def test_a_clock_that_goes_back_is_absorbed() -> None:
    """A late event counts from when it happened, or from when its job came if it cannot have been there."""
    one, other = controller(10.0), controller(10.0)
    for event in EVENTS:
        one.handle(event)
    held, arrived = replace(EVENTS[1], time=5.0), EVENTS[2]
    for event in (arrived, EVENTS[0], held, *EVENTS[3:]):
        other.handle(event)
    assert one.time == 7.0
    for seen in (one, other):
        seen.tally.lateness = 0.0  # nothing is under way any more
        seen.tally.move_to(7.0)
    assert (one.tally.late, other.tally.late) == (1, 0)
    assert _counted(one) == _counted(other)


def _counted(seen: Controller) -> dict[str, Any]:
    """What was tallied, but for the numbers of the jobs and of the events that could not be."""
    values = seen.tally.snapshot()
    return values | {"late": None, "delay": None, "jobs": [row[1:] for row in values["jobs"]]}


def test_an_id_that_was_seen_changes_and_instructs_nothing(tmp_path: Path) -> None:
    one, other = controller(), controller()
    for event in EVENTS:
        assert one.handle(event) == other.handle(event)
        before = state_digest(one)
        assert one.handle(event) == []
        assert state_digest(one) == before
    with Journal.open(tmp_path / "pool.db", {}) as journal:
        assert journal.append(EVENTS, 0.0) == [1, 2, 3, 4, 5, 6]
        assert journal.append(EVENTS, 1.0) == [None] * 6
        assert journal.last == 6
