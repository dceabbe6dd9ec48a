"""The runner: journal first, handle second, acknowledge third, instruct last."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial

import pytest

import corewise as cw
from corewise.errors import CorewiseError, JournalLost, JournalUnavailable
from corewise.kit.workers import ExecutorWorkers
from corewise.live.engines.base import JobSpec, ReportEvent
from corewise.live.journal.event_store import InMemory
from corewise.live.run import runner as runner_module
from corewise.live.run.runner import Runner
from corewise.live.state.controller import Controller, Options
from corewise.live.state.instructions import Instruction
from corewise.observation import events as happened
from tests.helpers.waiting import until

SYSTEM = cw.System(4, [cw.JobClass("one", arrival_rate=1.0, size_rate=2.0, speedup=cw.Amdahl(0.5))])


class Diary(InMemory):
    """What an event store, a controller, a client and an engine do, in order."""

    pool = 4
    pause = 0.0

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.full: Exception | None = None

    def append(
        self, events: Iterable[happened.Event], received: float, shared: Sequence[bool] | None = None
    ) -> list[int | None]:
        if self.full is not None:
            raise self.full
        self.lines += [f"journal {event.kind}" for event in events]
        return super().append(events, received, shared)

    def handle(
        self, controller: Controller, event: happened.Event, *, share: bool = True
    ) -> list[Instruction]:
        self.lines.append(f"handle {event.kind}")
        return Controller.handle(controller, event, share=share)

    def start(self, report: ReportEvent) -> None:
        self.report = report

    def submit(self, job: JobSpec) -> None: ...

    def set_cores(self, job: str, cores: int) -> None:
        self.lines.append(f"instruct {job} {cores}")

    def end(self, job: str) -> None: ...


@contextmanager
def running(diary: Diary, options: Options | None = None, give_up: float = math.inf) -> Iterator[Runner]:
    controller = Controller(cw.algorithm_1b(SYSTEM), lambda _: cw.Equi(), mode="steer", options=options)
    controller.handle = partial(diary.handle, controller)  # type: ignore[method-assign]
    solver = ExecutorWorkers(ThreadPoolExecutor(1))
    runner = Runner(controller, diary, solver, diary, give_up=give_up)
    runner.start()
    try:
        yield runner
    finally:
        runner.close()
        solver.close()


def test_nothing_is_acted_upon_before_it_is_safe() -> None:
    diary = Diary()

    def acknowledged() -> None:
        diary.lines.append("acknowledge")

    with running(diary) as runner:
        runner.request(happened.JobArrived, "a", "one", then=acknowledged)
        runner.request(happened.CoresHeld, "a", 4, then=acknowledged)
    assert diary.lines == [
        "journal job-arrived",
        "handle job-arrived",
        "acknowledge",
        "instruct a 4",
        "journal cores-held",
        "handle cores-held",
        "acknowledge",
        "journal tick",
        "handle tick",
    ]


def test_an_engine_that_does_not_follow_is_told_of_once() -> None:
    diary, told = Diary(), threading.Event()
    with running(diary, Options(patience=0.01)) as runner:
        runner.request(happened.JobArrived, "a", "one")
        for _ in range(1000):
            told.wait(0.005)
            if runner.alerts:
                break
        told.wait(0.05)
        assert [alert.text for alert in runner.alerts] == ["job 'a' was told 4 cores and still holds 0"]


# --- callers that go away or fail -------------------------------------------------------------------


def test_a_question_that_is_cancelled_concerns_nobody() -> None:
    diary, free = Diary(), threading.Event()
    with running(diary) as runner:
        blocking = runner.asked(lambda _: free.wait(30.0))
        asked: list[str] = []
        cancelled = runner.asked(lambda _: asked.append("it"))
        assert cancelled.cancel()
        free.set()
        assert blocking.result(30.0)
        runner.request(happened.JobArrived, "a", "one")
        assert asked == []
        assert runner.ask(lambda controller: list(controller.jobs.by_name)) == ["a"]


def test_a_question_that_is_cancelled_while_it_is_answered_concerns_nobody() -> None:
    """The race of a reader that goes away: it gives up between the question and the answer."""
    diary = Diary()
    with running(diary) as runner:
        futures: list[Future[None]] = []
        given = threading.Event()

        def leave(_: Controller) -> None:
            given.wait(30.0)
            futures[0].cancel()

        futures.append(runner.asked(leave))
        given.set()
        assert futures[0].result(30.0) is None
        runner.request(happened.JobArrived, "a", "one")
        assert not runner.failed


def test_what_is_submitted_is_taken_in_though_nobody_waits_for_it() -> None:
    diary = Diary()
    with running(diary) as runner:
        free = threading.Event()
        runner.asked(lambda _: free.wait(30.0))
        told = runner.submit([happened.JobArrived(0.0, "mine", "a", "one")])
        assert not told.cancel()
        free.set()
        assert told.result(30.0) == [1]


def test_a_caller_that_fails_when_it_is_answered_concerns_no_other(caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> None:
        raise RuntimeError("mine")

    diary = Diary()
    with running(diary) as runner, caplog.at_level(logging.ERROR, logger="corewise.live"):
        with pytest.raises(RuntimeError, match="mine"):
            runner.request(happened.JobArrived, "a", "one", then=fail)
        runner.report(happened.JobArrived, "b", "one", then=fail)
        runner.request(happened.JobArrived, "c", "one")
        assert not runner.failed
        assert runner.ask(lambda controller: list(controller.jobs.by_name)) == ["a", "b", "c"]
    assert "an answer could not be given" in caplog.text


# --- a journal that cannot be written ---------------------------------------------------------------


def test_events_are_taken_in_again_when_the_journal_can_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of callers are refused meanwhile, those of the engine wait, in their order and before others."""
    monkeypatch.setattr(runner_module, "_RETRY", 0.01)
    diary = Diary()
    with running(diary) as runner:
        runner.request(happened.JobArrived, "a", "one")
        diary.full = JournalUnavailable("pool.db: cannot be written: disk full")
        runner.report(happened.CoresHeld, "a", 4, then=lambda: diary.lines.append("acknowledge held"))
        with pytest.raises(CorewiseError, match=r"events are refused for now: .*disk full") as refused:
            runner.request(happened.JobArrived, "b", "one")
        assert not isinstance(refused.value, ValueError)  # nothing is wrong with the event
        runner.report(happened.JobFinished, "a", then=lambda: diary.lines.append("acknowledge end"))
        with pytest.raises(CorewiseError, match="disk full"):
            runner.submit([happened.JobArrived(0.0, "mine", "c", "one")]).result(30.0)
        assert runner.ask(lambda controller: [job.held for job in controller.jobs]) == [0]
        assert not runner.failed
        before = len(diary.lines)
        diary.full = None
        until(lambda: "acknowledge end" in diary.lines)
        runner.request(happened.JobArrived, "b", "one")
        kinds = [line for line in diary.lines[before:] if "acknowledge" in line or line.startswith("handle")]
    assert [line for line in kinds if "tick" not in line] == [
        "handle cores-held",
        "handle job-finished",
        "acknowledge held",
        "acknowledge end",
        "handle job-arrived",
    ]


def test_a_journal_that_cannot_be_written_for_too_long_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner_module, "_RETRY", 0.01)
    monkeypatch.setattr(runner_module, "_LOOK", 0.01)
    diary = Diary()
    with running(diary, give_up=0.05) as runner:
        diary.full = JournalUnavailable("disk full")
        runner.report(happened.JobArrived, "a", "one")
        until(lambda: runner.failed)
        with pytest.raises(CorewiseError, match="the pool cannot go on: disk full"):
            runner.request(happened.JobArrived, "b", "one")


def test_a_journal_that_is_lost_ends_it_also_when_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    def lost() -> None:
        raise JournalLost("pool.db was removed while it was open")

    monkeypatch.setattr(runner_module, "_LOOK", 0.01)
    diary = Diary()
    monkeypatch.setattr(Diary, "durable", True)
    with running(diary) as runner:
        monkeypatch.setattr(diary, "require_in_place", lost)
        until(lambda: runner.failed)
        with pytest.raises(CorewiseError, match=r"cannot go on: pool\.db was removed"):
            runner.request(happened.JobArrived, "a", "one")


def test_an_error_in_the_code_ends_it_and_everybody_is_answered() -> None:
    def fail(event: happened.Event, *, share: bool = True) -> list[Instruction]:
        raise RuntimeError("a mistake")

    diary = Diary()
    with running(diary) as runner:
        runner._controller.handle = fail  # type: ignore[method-assign]
        for _ in range(2):
            with pytest.raises(CorewiseError, match="the pool cannot go on: a mistake"):
                runner.request(happened.JobArrived, "a", "one")
        assert runner.failed
