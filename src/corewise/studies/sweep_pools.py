"""Who carries out the trials of a sweep: processes of this machine, or a Dask cluster.

Either is an executor of ``concurrent.futures``. A pool of processes breaks as a whole when one of them dies,
and is then replaced; Dask looks after its own workers.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from corewise.errors import CorewiseError, InvalidInput
from corewise.model import checks

__all__ = ["Pool", "dask_pool", "given_pool", "process_pool"]

_DASK_IN_FLIGHT = 1000  # enough to keep a large cluster busy between two looks at it
_LOCAL = "local"
_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


@dataclass(frozen=True)
class Pool:
    """Somewhere to send trials.

    Attributes
    ----------
    submit : callable
        Sends a call, and returns its future.
    in_flight : int
        How many to send before the first of them have come back.
    renew : callable or None
        Replaces the processes after one of them died; None if nobody here can.
    alone : callable or None
        Gives a pool of a single new process, for a trial that may be what they died of.
    """

    submit: Callable[..., Future[Any]]
    in_flight: int
    renew: Callable[[], None] | None = None
    alone: Callable[[], AbstractContextManager[Pool]] | None = None


@contextmanager
def given_pool(executor: Executor) -> Iterator[Pool]:
    """Use an executor that somebody else looks after."""
    if not isinstance(executor, Executor):
        raise InvalidInput(f"executor must be one of concurrent.futures, got {executor!r}")
    yield Pool(executor.submit, 2 * getattr(executor, "_max_workers", os.cpu_count() or 1))


# --- processes of this machine ----------------------------------------------------------------


@contextmanager
def process_pool(workers: int | None = None) -> Iterator[Pool]:
    """Start processes on this machine, as many as there are cores if not said otherwise."""
    count = os.cpu_count() or 1 if workers is None else checks.count(workers, "workers")
    with ExitStack() as stack:
        current = stack.enter_context(_processes(count))

        def submit(*call: Any) -> Future[Any]:
            return _submit(current, *call)

        def renew() -> None:
            nonlocal current
            _abandon(current)
            current = stack.enter_context(_processes(count))

        @contextmanager
        def alone() -> Iterator[Pool]:
            with _processes(1) as single:
                yield Pool(partial(_submit, single), 1)

        yield Pool(submit, 2 * count, renew, alone)


@contextmanager
def _processes(workers: int) -> Iterator[ProcessPoolExecutor]:
    """Give processes to work with; an interrupt reaches this one only, which then ends them at once."""
    context = multiprocessing.get_context("spawn")
    executor = ProcessPoolExecutor(workers, context, initializer=_begin)
    try:
        _require_alive(executor, workers)
        yield executor
    except BaseException:
        _abandon(executor)
        raise
    executor.shutdown()


def _require_alive(executor: ProcessPoolExecutor, workers: int) -> None:
    try:
        for future in [_submit(executor, os.getpid) for _ in range(workers)]:
            future.result()
    except BrokenExecutor:
        raise CorewiseError(
            "the worker processes end as soon as they begin; a script that calls sweep must do so under "
            'if __name__ == "__main__", as each of them imports it'
        ) from None


def _submit(executor: ProcessPoolExecutor, *call: Any) -> Future[Any]:
    with _one_thread_each():  # this may start a process
        return executor.submit(*call)


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Let processes that are started in the body do linear algebra in one thread each.

    There is a process for every core. And sums that are shared out to threads round in another way: rows
    would depend on how many cores a worker has. Dask does the same for its workers.
    """
    before = {name: os.environ.get(name) for name in _ONE_THREAD}
    os.environ.update(dict.fromkeys(_ONE_THREAD, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


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


def _abandon(executor: ProcessPoolExecutor) -> None:
    """End the processes at once: nobody will look at their work. A further Ctrl-C must not intervene."""
    with _uninterrupted():
        for process in list((executor._processes or {}).values()):
            process.terminate()
        executor.shutdown(cancel_futures=True)


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Ignore Ctrl-C in the body, and have processes that are started in it ignore it for good."""
    here = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGINT, signal.SIG_IGN) if here else None
    try:
        yield
    finally:
        if here:
            signal.signal(signal.SIGINT, before)


# --- Dask -------------------------------------------------------------------------------------


@contextmanager
def dask_pool(address: str, workers: int | None = None) -> Iterator[Pool]:
    """Use the Dask cluster whose scheduler is at `address`, or one on this machine if that is ``local``."""
    try:
        from distributed import Client, LocalCluster
    except ImportError:
        raise CorewiseError("a Dask cluster needs distributed: install corewise[dask]") from None
    if address != _LOCAL and workers is not None:
        raise InvalidInput(f"the Dask cluster at {address} has its own workers, got workers={workers!r}")
    with ExitStack() as stack:
        if address == _LOCAL:
            count = os.cpu_count() or 1 if workers is None else checks.count(workers, "workers")
            with _uninterrupted():
                cluster = stack.enter_context(
                    LocalCluster(
                        n_workers=count,
                        threads_per_worker=1,
                        processes=True,
                        host="127.0.0.1",
                        silence_logs=logging.ERROR,  # it warns of every run that an interrupt cuts short
                        # There is always a small server for health checks: on any free port, for us alone.
                        dashboard_address="127.0.0.1:0",
                        scheduler_kwargs={"dashboard": False},
                    )
                )
            client = stack.enter_context(Client(cluster, set_as_default=False))
        else:
            try:
                client = stack.enter_context(Client(address, set_as_default=False))
            except (OSError, ValueError) as error:
                raise CorewiseError(f"no Dask scheduler answers at {address}: {error}") from None
        executor = client.get_executor(pure=False)
        try:
            yield Pool(executor.submit, _DASK_IN_FLIGHT)
        finally:
            executor.shutdown(wait=False)  # whatever is unfinished is not wanted any more
