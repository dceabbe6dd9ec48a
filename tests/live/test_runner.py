"""The runner: journal first, handle second, acknowledge third, instruct last."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial

import corewise as cw
from corewise.live import events as happened
from corewise.live.controller import Controller, Options
from corewise.live.engines.base import JobSpec, Tell
from corewise.live.engines.workers import ExecutorWorkers
from corewise.live.instructions import Instruction
from corewise.live.ledger import InMemory
from corewise.live.runner import Runner

SYSTEM = cw.System(4, [cw.JobClass("one", arrival_rate=1.0, size_rate=2.0, speedup=cw.Amdahl(0.5))])


class Diary(InMemory):
    """What a ledger, a controller, a client and an engine do, in order."""

    pool = 4
    pause = 0.0

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def append(self, events: Iterable[happened.Event], received: float) -> list[int | None]:
        self.lines += [f"journal {event.kind}" for event in events]
        return super().append(events, received)

    def handle(
        self, controller: Controller, event: happened.Event, *, share: bool = True
    ) -> list[Instruction]:
        self.lines.append(f"handle {event.kind}")
        return Controller.handle(controller, event, share=share)

    def start(self, tell: Tell) -> None:
        self.tell = tell

    def submit(self, job: JobSpec) -> None: ...

    def set_cores(self, job: str, cores: int) -> None:
        self.lines.append(f"instruct {job} {cores}")

    def end(self, job: str) -> None: ...


@contextmanager
def running(diary: Diary, options: Options | None = None) -> Iterator[Runner]:
    controller = Controller(cw.algorithm_1b(SYSTEM), lambda _: cw.Equi(), mode="steer", options=options)
    controller.handle = partial(diary.handle, controller)  # type: ignore[method-assign]
    solver = ExecutorWorkers(ThreadPoolExecutor(1))
    runner = Runner(controller, diary, solver, diary)
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
