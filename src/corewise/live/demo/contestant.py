"""A contestant of a demonstration: a pool, and how the jobs fare in it."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from functools import partial

import numpy as np

from corewise.errors import CorewiseError
from corewise.kit.arrays import Floats
from corewise.live.demo.workload import DemoJob, napping
from corewise.live.run.job import LiveJob
from corewise.live.run.pool import LivePool
from corewise.live.state.report import Report
from corewise.model.system import System

__all__ = ["Contestant"]


class Contestant:
    """Contestant of a demonstration: it is given jobs as they arrive, and their response times are noted.

    Parameters
    ----------
    pool : LivePool
        What runs the jobs.
    jobs : sequence of DemoJob
        Which, in order of arrival.
    truth : System
        How they scale.
    grain : float
        The work of a round, in seconds on one core.
    """

    def __init__(self, pool: LivePool, jobs: Sequence[DemoJob], truth: System, grain: float) -> None:
        self._pool, self._jobs, self._truth, self._grain = pool, jobs, truth, grain
        self._times: list[float] = [np.nan] * len(jobs)
        self._left, self._lock = len(jobs), threading.Lock()
        self._over, self._given_up = threading.Event(), threading.Event()
        self._error: BaseException | None = None
        self._feeder = threading.Thread(target=self._feed, name="corewise-demo-arrivals", daemon=True)

    @property
    def response_times(self) -> Floats:
        """Of every job, in seconds; NaN where it is not done."""
        return np.array(self._times)

    @property
    def report(self) -> Report:
        """What the pool says of itself."""
        return self._pool.report()

    def start(self, began: float) -> None:
        """Let jobs arrive, by a clock that stood at `began` when the first could have."""
        self._began = began
        if not self._jobs:
            self._over.set()
        self._feeder.start()

    def wait(self, timeout: float) -> bool:
        """Return whether all jobs are done within a time; raise what has gone wrong."""
        over = self._over.wait(timeout)
        if self._error is not None:
            raise CorewiseError(f"the demonstration cannot go on: {self._error}") from self._error
        return over

    def give_up(self) -> None:
        """Let no more jobs arrive."""
        self._given_up.set()
        if self._feeder.is_alive():
            self._feeder.join()

    def _feed(self) -> None:
        try:
            for number, job in enumerate(self._jobs):
                if self._given_up.wait(max(self._began + job.time - time.monotonic(), 0.0)):
                    return
                curve = self._truth[job.job_class].speedup
                handle = self._pool.run(job.job_class, napping, job.size, self._grain, curve)
                handle.add_done_callback(partial(self._done, number))
        except BaseException as error:
            self._fail(error)

    def _done(self, number: int, handle: LiveJob) -> None:
        """Note the response time of a job, from when it should have arrived."""
        now = time.monotonic()
        if handle.cancelled() or handle.exception() is not None:
            self._fail(handle.exception() if not handle.cancelled() else CorewiseError("it was closed"))
            return
        self._times[number] = now - self._began - self._jobs[number].time
        with self._lock:
            self._left -= 1
            if not self._left:
                self._over.set()

    def _fail(self, error: BaseException | None) -> None:
        self._error = error
        self._over.set()
