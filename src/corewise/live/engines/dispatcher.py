r"""The dispatcher: one thread that owns all that an engine knows of its jobs.

Whatever happens elsewhere, a call that is done or a job that is told other cores, is put on a queue and
nothing else: callbacks come in whatever thread an executor likes, and at times at once. The thread takes from
the queue and fills the cores. Gangs come first, as they need all their cores at once, so

    Σ_gangs held + Σ_bags in flight ≤ pool.

Bags use what they were told, and borrow what no gang holds or waits for.

When a worker dies, its call is carried out again, see `corewise.kit.workers`; one that kills its worker every
time fails its job.
"""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from functools import partial
from itertools import count
from operator import attrgetter
from queue import Empty, SimpleQueue
from typing import Any

from corewise.errors import CorewiseError
from corewise.kit import checks
from corewise.kit.workers import ReliableCalls, Workers
from corewise.live.engines.base import Bag, Call, EngineThread, Gang, JobSpec, Tell
from corewise.live.engines.batched import BatchedProgress
from corewise.live.engines.calls import CallsHere, JobCall, Timed
from corewise.live.engines.hungry import HungryBags
from corewise.live.engines.rounds import ROUND_TIMEOUT
from corewise.live.engines.running import RunningBag, RunningGang, RunningJob, Task
from corewise.observation import events as happened

__all__ = ["Dispatcher"]


class Dispatcher:
    """Engine over workers: a thread that feeds them the calls of all jobs.

    Parameters
    ----------
    workers : Workers
        What carries out the calls.
    cores : int
        How many at once.
    extra : int, optional
        How many calls of bags to have in flight beyond that, so that a worker finds its next one waiting.
    round_timeout : float, optional
        Seconds that a round may last before `RoundOverdue` is told.
    """

    pause: float | None = 0.0
    """A gang changes its width between rounds, and stands still for nothing."""

    def __init__(
        self, workers: Workers, cores: int, extra: int = 0, round_timeout: float = ROUND_TIMEOUT
    ) -> None:
        self.pool = checks.count(cores, "cores")
        self._extra = checks.count(extra, "extra", least=0)
        self.round_timeout = checks.positive(round_timeout, "round_timeout")
        self._look_after = math.inf  # when a round may be overdue
        self._workers = workers
        self._calls_here = CallsHere()
        self._calls = ReliableCalls[Task](
            workers, lambda *done: self._inbox.put(partial(self._done, *done)), self._packed
        )
        self._inbox: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._thread = EngineThread(target=self._run, name="corewise-dispatcher", daemon=True)
        self._jobs: dict[str, RunningJob] = {}
        self._numbers = count(1)
        self._held: dict[RunningJob, int] = {}  # cores of those that hold or use some
        self._taken = 0  # their sum
        self._growing: dict[RunningGang, None] = {}
        self._hungry = HungryBags()
        self._closing = False
        self._broken: CorewiseError | None = None

    # --- from any thread ----------------------------------------------------------------------------

    @property
    def job_here(self) -> str | None:
        """The job of which this thread carries out a call; None if of none."""
        return self._calls_here.job

    def start(self, tell: Tell) -> None:
        """Begin; what happens from now on is told."""
        self.tell: Tell = BatchedProgress(tell)
        self._workers.open()
        self._thread.start()

    def submit(self, job: JobSpec) -> None:
        """Take in a job; it begins when it is given cores."""
        self._inbox.put(partial(self._add, job))

    def set_cores(self, job: str, cores: int) -> None:
        """Have a job hold so many cores as soon as it can."""
        self._inbox.put(partial(self._set_cores, job, cores))

    def end(self, job: str) -> None:
        """Feed a job no more."""
        self._inbox.put(partial(self._end, job))

    def change_pool(self, cores: int) -> None:
        """Have another number of cores; what is in flight stays so."""
        self._inbox.put(partial(self._change_pool, checks.count(cores, "cores")))

    def close(self) -> None:
        """End all jobs, wait for what is in flight, and end the workers."""
        try:
            if self._thread.is_alive():
                self._inbox.put(self._stop)
                self._thread.join()
        finally:
            self._workers.close()

    # --- the thread ---------------------------------------------------------------------------------

    def _run(self) -> None:
        # Processes that are started from here take this over: Ctrl-C is the main thread's business.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        while not self._closing or (self._jobs and not self._workers.interruptible):
            try:
                self._take_in()
                self._look_after_rounds()
                self._fill()
            except BaseException as error:
                self._break_down(error)
        for job in list(self._jobs.values()):
            job.abandon()

    def _take_in(self) -> None:
        """Wait for something to happen or for a round to be overdue, and take in all that has happened."""
        with suppress(Empty):
            self._inbox.get(timeout=self._patience())()
            while True:
                self._inbox.get_nowait()()

    def _patience(self) -> float | None:
        """Return the seconds until a round may be overdue."""
        if math.isinf(self._look_after):
            return None
        return min(max(self._look_after - time.perf_counter(), 0.0), threading.TIMEOUT_MAX)

    def _look_after_rounds(self) -> None:
        """Tell of rounds that are overdue."""
        now = time.perf_counter()
        if now < self._look_after:
            return
        gangs = [job for job in self._held if isinstance(job, RunningGang)]
        for gang in gangs:
            if gang.due <= now:
                gang.tell_overdue()
        self._look_after = min((gang.due for gang in gangs), default=math.inf)

    def _break_down(self, error: BaseException) -> None:
        """Fail all jobs, and those that come: nobody shall wait for ever."""
        self._broken = CorewiseError(f"the engine has broken down: {error}")
        self._broken.__cause__ = error
        for job in list(self._jobs.values()):
            job.fail(self._broken)

    def _stop(self) -> None:
        self._closing = True
        for job in list(self._jobs.values()):
            job.end()

    def _add(self, job: JobSpec) -> None:
        assert isinstance(job, Gang | Bag)  # whoever submits has looked
        number = next(self._numbers)
        if isinstance(job, Gang):
            running: RunningJob = RunningGang(self, job.holding, job.future, number=number, gang=job)
        else:
            running = RunningBag(self, job.holding, job.future, number=number, bag=job)
        self._jobs[running.name] = running
        self.count(running)
        if self._broken is not None:
            running.fail(self._broken)
        elif self._closing or job.future.cancelled():
            running.end()

    def _set_cores(self, name: str, cores: int) -> None:
        if name in self._jobs:
            self._jobs[name].set_cores(cores)

    def _end(self, name: str) -> None:
        if name in self._jobs:
            self._jobs[name].end()

    def _change_pool(self, cores: int) -> None:
        if cores != self.pool:
            self.pool = cores
            self.tell(happened.PoolChanged, cores)

    def _fill(self) -> None:
        """Let gangs that wait for their cores begin, and feed the bags."""
        waiting = [gang for gang in self._growing if not gang.cores]
        for gang in sorted(waiting, key=attrgetter("number")):
            gang.step()
        if self._hungry:
            self._feed()

    def _feed(self) -> None:
        """Begin calls of bags."""
        free = self.free + self._extra
        wanted = sum(gang.wants for gang in self._growing)
        while free > 0 and (bag := self._hungry.first()) is not None:
            if bag.in_flight >= bag.told and free <= wanted:
                return
            bag.feed()
            free -= 1

    # --- what jobs ask for --------------------------------------------------------------------------

    @property
    def free(self) -> int:
        """The cores that nobody holds or has borrowed."""
        return self.pool - self._taken

    def count(self, job: RunningJob) -> None:
        """Take note of what a job holds and wants, which has changed."""
        self._set_held(job, job.cores)
        if isinstance(job, RunningBag):
            self._hungry.update(job)
        elif isinstance(job, RunningGang) and job.wants:
            self._growing[job] = None
        elif isinstance(job, RunningGang):
            self._growing.pop(job, None)

    def _set_held(self, job: RunningJob, cores: int) -> None:
        self._taken += cores - self._held.pop(job, 0)
        if cores:
            self._held[job] = cores

    @property
    def crowded(self) -> bool:
        """Whether more calls are in flight than there are cores, so that some wait for a worker."""
        return self._calls.in_flight > self.pool

    def watch(self, due: float) -> None:
        """Look after rounds once it is so late, by the clock of rounds."""
        self._look_after = min(self._look_after, due)

    def leave(self, job: RunningJob) -> None:
        """Forget a job."""
        del self._jobs[job.name]
        self._set_held(job, 0)
        if isinstance(job, RunningBag):
            self._hungry.drop(job)
        elif isinstance(job, RunningGang):
            self._growing.pop(job, None)

    def send(self, task: Task) -> None:
        """Carry out a call."""
        self._calls.send(task)

    # --- calls --------------------------------------------------------------------------------------

    def _packed(self, task: Task) -> Call:
        return (
            JobCall(self._calls_here, task.job.name, task.call) if self._workers.have_corewise else task.call
        )

    def _done(self, task: Task, future: Future[Any]) -> None:
        """Take in the outcome of a call."""
        outcome = self._calls.settle(task, future, retry=not (task.job.ending or self._closing))
        if outcome is None:
            return
        answer, error = outcome.answer, outcome.error
        if isinstance(answer, Timed):
            answer, task.seconds = answer.answer, answer.seconds
        if outcome.lost:
            error = CorewiseError(
                f"a call of job {task.job.name!r} ended its worker {task.losses} times: "
                f"{checks.shown(task.call)}"
            )
            error.__cause__ = outcome.error
        elif isinstance(error, CancelledError):
            error = CorewiseError(f"a call of job {task.job.name!r} was cancelled by its executor")
        if self._jobs.get(task.job.name) is task.job:
            task.job.take(task, answer, error)
