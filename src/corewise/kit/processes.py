"""Processes of this machine to work with, which end when they are not wanted any more."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
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
        running, manager = list((executor._processes or {}).values()), executor._executor_manager_thread
        # First: its thread would else find a process dead and complain of calls that were cancelled.
        executor.shutdown(wait=False, cancel_futures=True)
        for process in running:
            process.terminate()
        if manager is not None:
            manager.join()  # type: ignore[attr-defined]  # a thread, whatever typeshed says


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Ignore Ctrl-C in the body, and have processes that are started in it ignore it for good."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _interrupted_later() -> Iterator[None]:
    """Put Ctrl-C off to the end of the body; processes that are started in it never hear of it.

    A process that is told by halves what it is to do complains. Blocking the signal is for the new ones,
    which take it over: other threads of this process still get it, and have Python tell the main one.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    heard: list[tuple[int, FrameType | None]] = []
    before = signal.signal(signal.SIGINT, lambda *about: heard.append(about))
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        signal.signal(signal.SIGINT, before)
        if heard and callable(before):
            before(*heard[0])


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
            with _interrupted_later():
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
        raise CorewiseError(f"the worker processes end as soon as they begin; {_why_dead()}") from None


def _why_dead() -> str:
    """Return what keeps worker processes from living: each of them imports the script that starts it."""
    script = getattr(sys.modules["__main__"], "__file__", None)
    if script is not None and not Path(script).exists():
        return f"each of them imports the script that starts it, and {script} cannot be: run it from a file"
    return 'a script that starts them must do so under if __name__ == "__main__", as each of them imports it'


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
