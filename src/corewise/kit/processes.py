"""Processes of this machine to work with, which end when they are not wanted any more."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor
from contextlib import contextmanager
from typing import Any

from corewise.errors import CorewiseError

__all__ = ["abandon", "processes", "uninterrupted"]

_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


@contextmanager
def processes(workers: int) -> Iterator[ProcessPoolExecutor]:
    """Give processes to work with; an interrupt reaches this one only, which then ends them at once."""
    executor = _Processes(workers, multiprocessing.get_context("spawn"), initializer=_begin)
    try:
        _require_alive(executor, workers)
        yield executor
    except BaseException:
        abandon(executor)
        raise
    executor.shutdown()


def abandon(executor: ProcessPoolExecutor) -> None:
    """End the processes at once: nobody will look at their work. A further Ctrl-C must not intervene."""
    with uninterrupted():
        for process in list((executor._processes or {}).values()):
            process.terminate()
        executor.shutdown(cancel_futures=True)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Ignore Ctrl-C in the body, and have processes that are started in it ignore it for good."""
    here = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGINT, signal.SIG_IGN) if here else None
    try:
        yield
    finally:
        if here:
            signal.signal(signal.SIGINT, before)


class _Processes(ProcessPoolExecutor):
    """Processes that do linear algebra in one thread each.

    There is a process for every core. And sums that are shared out to threads round in another way: results
    would depend on how many cores a worker has. Dask does the same for its workers.
    """

    def submit(self, call: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        """Send a call, which may start a process."""
        before = {name: os.environ.get(name) for name in _ONE_THREAD}
        os.environ.update(dict.fromkeys(_ONE_THREAD, "1"))
        try:
            return super().submit(call, *arguments, **named)
        finally:
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value


def _require_alive(executor: ProcessPoolExecutor, workers: int) -> None:
    try:
        for future in [executor.submit(os.getpid) for _ in range(workers)]:
            future.result()
    except BrokenExecutor:
        raise CorewiseError(
            "the worker processes end as soon as they begin; a script that starts them must do so under "
            'if __name__ == "__main__", as each of them imports it'
        ) from None


def _begin() -> None:
    """Prepare a worker process: Ctrl-C is its parent's business, and it does not outlive its parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End this process when its parent is gone: killed, it cannot say so, and its workers would stay."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
