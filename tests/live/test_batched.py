"""Progress in batches: all of it is told, before whatever happens to the job next."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from corewise.live.engines.rounds import BatchedProgress
from corewise.observation import events as happened


class Log(list[tuple[Any, ...]]):
    def __call__(
        self, kind: type[happened.Event], *values: Any, then: Callable[[], None] | None = None
    ) -> None:
        self.append((kind.kind, *values))
        if then is not None:
            then()


def test_progress_is_told_before_what_happens_next_and_none_is_lost() -> None:
    log, now, done = Log(), [0.0], list[str]()
    tell = BatchedProgress(log, lambda: now[0])
    for _ in range(3):
        tell(happened.Progress, "a", 1.0)
    tell(happened.Progress, "b", 0.5)
    assert log == []
    tell(happened.CoresHeld, "a", 2)
    tell(happened.PoolChanged, 7)
    tell(happened.Progress, "a", 1.0)
    tell(happened.JobFinished, "a", then=lambda: done.append("a"))
    tell(happened.JobFinished, "a")
    assert log == [
        ("progress", "a", 3.0),
        ("cores-held", "a", 2),
        ("pool-changed", 7),
        ("progress", "a", 1.0),
        ("job-finished", "a"),
        ("job-finished", "a"),
    ]
    assert done == ["a"]


def test_progress_is_told_now_and_then() -> None:
    log, now = Log(), [0.0]
    tell = BatchedProgress(log, lambda: now[0])
    for step in range(11):
        now[0] = 0.1 * step
        tell(happened.Progress, "a", 1.0)
    assert log == [("progress", "a", 6.0)]
