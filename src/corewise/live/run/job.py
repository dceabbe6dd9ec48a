"""The handle of a job in a live pool, in the manner of a future."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future
from functools import partial
from typing import Any

from corewise.live.engines.base import Holding
from corewise.live.run.callbacks import Callbacks
from corewise.live.run.self_waits import SelfWaits
from corewise.live.state.explain import Explanation

__all__ = ["LiveJob"]


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
        holding: Holding,
        future: Future[Any],
        explain: Callable[[str], Explanation],
        callbacks: Callbacks,
        self_waits: SelfWaits,
    ) -> None:
        self.job_class = job_class
        self._holding, self._future, self._explain = holding, future, explain
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
