"""Linear algebra in one thread, and long calls in another.

Products of a few hundred by a few thousand numbers gain little from more; on a machine that has other work to
do, threads that wait for each other made them up to forty times slower. And sums that are shared out to
threads round in another way, so that results would depend on the number of cores.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractContextManager
from functools import cache
from threading import Thread
from typing import TypeVar

from threadpoolctl import ThreadpoolController

__all__ = ["interruptible", "one_thread"]

T = TypeVar("T")


def one_thread() -> AbstractContextManager[object]:
    """Have linear algebra use one thread in the body, in the whole process: libraries know no other way."""
    found: AbstractContextManager[object] = _libraries().limit(limits=1, user_api="blas")
    return found


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

    Thread(target=run, daemon=True).start()
    return result.result()


@cache
def _libraries() -> ThreadpoolController:
    return ThreadpoolController()
