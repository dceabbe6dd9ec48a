"""The handle of a job in a live pool: a future that runs callbacks, and refuses waits that would never end.

Waits that would never end are those of a job for itself, or for the pool that runs it:

- Between two rounds a job is in the thread of its engine, which all jobs share: to wait there for any of them
  is to wait for itself.
- A call of a job, carried out by a thread of this process, is waited for by its job, and the job by `close`.
- In a process that was forked, such as a worker of an executor, there is a copy of the pool, but none of its
  threads: nothing in it ever answers.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable, Generator, Iterator
from functools import partial
from queue import SimpleQueue
from typing import Any

from corewise.errors import CorewiseError
from corewise.live.engines.base import Engine, EngineThread, JobSpec, KnowsCalls
from corewise.live.state.explain import Explanation

__all__ = ["Callbacks", "LiveJob", "SelfWaits"]

_log = logging.getLogger("corewise.live")


class LiveJob:
    """Job of a live pool: what `LivePool.run` and `LivePool.map` return.

    It can be waited for as a future can, and awaited. Made by a pool, never by hand.

    Examples
    --------
    >>> import corewise as cw
    >>> from concurrent.futures import ThreadPoolExecutor
    >>> from functools import partial
    >>> engine = cw.live.engines.ExecutorEngine(ThreadPoolExecutor(2))
    >>> with cw.LivePool([cw.JobClass("etl", 1.0, 1.0, cw.Amdahl(0.5))], engine=engine) as pool:
    ...     job = pool.map("etl", partial(pow, 2), range(4))
    ...     print(job.result(timeout=60), job.done(), job.cancelled())
    [1, 2, 4, 8] True False
    """

    def __init__(
        self,
        job_class: str,
        spec: JobSpec,
        explain: Callable[[str], Explanation],
        callbacks: Callbacks,
        self_waits: SelfWaits,
    ) -> None:
        self.job_class = job_class
        self._holding, self._future, self._explain = spec.holding, spec.future, explain
        self._callbacks, self._self_waits = callbacks, self_waits

    def __repr__(self) -> str:
        """Return the job in a line."""
        state = f"{self.cores} cores" if not self.done() else "cancelled" if self.cancelled() else "done"
        return f"LiveJob({self.name!r}, {state})"

    @property
    def name(self) -> str:
        """What it is called."""
        return self._holding.name

    @property
    def cores(self) -> int:
        """The cores it holds now; none once it is done."""
        return 0 if self.done() else self._holding.cores

    def result(self, timeout: float | None = None) -> Any:
        """Return what the job returns, or raise what it raises; `TimeoutError` if that takes too long."""
        self._require_elsewhere()
        return self._future.result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Return what the job raises, or None if it returns."""
        self._require_elsewhere()
        return self._future.exception(timeout)

    def done(self) -> bool:
        """Return whether the job has come to an end."""
        return self._future.done()

    def cancel(self) -> bool:
        """Give the job up; return whether it was not too late.

        Nothing of it is begun any more. Calls that are being carried out come to their own end, and its cores
        are free then.
        """
        return self._future.cancel()

    def cancelled(self) -> bool:
        """Return whether the job was given up."""
        return self._future.cancelled()

    def add_done_callback(self, callback: Callable[[LiveJob], object]) -> None:
        """Have a function called with the job when it is done, in a thread that such functions share."""
        self._future.add_done_callback(lambda _: self._callbacks.call(partial(callback, self)))

    def explain(self) -> Explanation:
        """Return why it holds the cores that it holds, which prints as a sentence."""
        return self._explain(self.name)

    def __await__(self) -> Generator[Any, None, Any]:
        """Wait for the result without holding up others; if that is cancelled, so is the job."""
        self._require_elsewhere()
        return asyncio.wrap_future(self._future).__await__()

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the answers of a bag, in order, when all are there."""
        return iter(self.result())

    def _require_elsewhere(self) -> None:
        """Raise where a wait for the job would never end."""
        if not self.done():
            self._self_waits.require_awaitable(self.name)


class Callbacks:
    """Callbacks, called one after the other in a thread of their own.

    In the thread that answers for the pool they could ask it for nothing, not even to run another job: it
    would wait for itself.
    """

    def __init__(self) -> None:
        self._due: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="corewise-callbacks", daemon=True)
        self._gate, self._closed = threading.Lock(), False

    def call(self, function: Callable[[], object]) -> None:
        """Have a function called; at once, and here, if all else has ended."""
        with self._gate:
            if not self._closed:
                if self._thread.ident is None:
                    self._thread.start()
                self._due.put(function)
                return
        _call(function)

    def close(self) -> None:
        """Call what is to be called, and end; a callback that closes its pool does not wait for itself."""
        with self._gate:
            self._closed = True
            self._due.put(None)
        if self._thread.ident is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        while (function := self._due.get()) is not None:
            _call(function)


def _call(function: Callable[[], object]) -> None:
    try:
        function()
    except Exception:
        _log.exception("a callback has raised")


class SelfWaits:
    """Check of a pool for waits that would never end.

    Parameters
    ----------
    engine : Engine
        What runs the jobs of the pool.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine, self._process = engine, os.getpid()

    def require_own_process(self) -> None:
        """Raise in another process than the one in which the pool was opened."""
        if os.getpid() != self._process:
            raise CorewiseError(
                f"the pool runs in process {self._process} and cannot be reached from process {os.getpid()}, "
                "which carries out a call or was forked otherwise; return what the pool is to know"
            )

    def require_closable(self) -> None:
        """Raise where to close the pool would wait for itself."""
        self.require_own_process()
        way_out = "it would wait for itself; close it where it was opened, or in a callback of the job"
        if isinstance(threading.current_thread(), EngineThread):
            raise CorewiseError(f"a job cannot close a pool between two rounds: {way_out}")
        if (job := self._job_here()) is not None:
            raise CorewiseError(f"a call of job {job!r} cannot close the pool that carries it out: {way_out}")

    def require_awaitable(self, job: str) -> None:
        """Raise where to wait for a job that is not done would never end."""
        self.require_own_process()
        if isinstance(threading.current_thread(), EngineThread):
            raise CorewiseError(
                f"a job cannot wait between two rounds: no other gets on meanwhile, {job!r} neither"
            )
        if self._job_here() == job:
            raise CorewiseError(f"a call of job {job!r} cannot wait for that job: it would wait for itself")

    def _job_here(self) -> str | None:
        return self._engine.job_here if isinstance(self._engine, KnowsCalls) else None
