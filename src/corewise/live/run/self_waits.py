"""Waits that would never end: a job that waits for itself, or for the pool that runs it.

- Between two rounds a job is in the thread of its engine, which carries on all jobs: to wait there for any of
  them is to wait for itself.
- A call of a job, carried out by a thread of this process, is waited for by its job, and the job by `close`.
- In a process that was forked, such as a worker of an executor, there is a copy of the pool, but none of its
  threads: nothing in it ever answers.
"""

from __future__ import annotations

import os
import threading

from corewise.errors import CorewiseError
from corewise.live.engines.base import Engine, EngineThread, KnowsCalls

__all__ = ["SelfWaits"]


class SelfWaits:
    """Guard of a pool against waits that would never end.

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
