"""Long calls of compiled code that Ctrl-C does not wait for."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

__all__ = ["interruptible", "still_at_work"]

T = TypeVar("T")

_NAME = "corewise-interruptible"
_LOOK = 0.2


def interruptible(work: Callable[[], T]) -> T:
    """Return what `work` returns; Ctrl-C does not wait for it, though it be one long call of compiled code.

    It then goes on in a thread of its own, until it is done or the process ends.
    """
    result: Future[T] = Future()

    def run() -> None:
        try:
            result.set_result(work())
        except BaseException as error:  # raised in the thread that asked
            result.set_exception(error)

    worker = threading.Thread(target=run, name=_NAME, daemon=True)
    worker.start()
    while worker.is_alive():  # a signal just before a wait without end would not be seen
        worker.join(_LOOK)
    return result.result()


def still_at_work() -> bool:
    """Return whether something that was interrupted goes on: Python cannot end in good order meanwhile."""
    return any(thread.name == _NAME for thread in threading.enumerate())
