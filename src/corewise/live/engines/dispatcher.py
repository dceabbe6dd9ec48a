r"""The dispatcher: an engine over workers, one thread that owns all state of its jobs.

What happens in other threads, a call that is done or a job that is assigned other cores, is put on a queue
and nothing else: callbacks come in whatever thread an executor likes, and at times at once. The thread takes
from the queue and fills the cores. Gangs come first, as they need all their cores at once, so

    Σ_gangs held + Σ_bags in flight ≤ pool.

Bags use what they are assigned, and borrow what no gang holds or waits for.

When a worker dies, its call is carried out again, see `corewise.kit.workers`; one that kills its worker every
time fails its job.
"""

from __future__ import annotations

import heapq
import math
import signal
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from operator import attrgetter
from queue import Empty, SimpleQueue
from typing import Any

from corewise.errors import CorewiseError
from corewise.kit import checks
from corewise.kit.workers import ReliableCalls, WorkerCall, Workers
from corewise.live.engines.base import Bag, Call, EngineThread, Gang, JobSpec, ReportEvent, as_round
from corewise.live.engines.rounds import ROUND_TIMEOUT, BatchedProgress, CallsHere, JobCall, RoundTimes, Timed
from corewise.observation import events as happened

__all__ = ["BagQueue", "Dispatcher", "ElasticDispatcher", "RunningBag", "RunningGang", "RunningJob"]

_LOOK = 0.1  # seconds between two looks at the number of cores of a cluster
_SPARE = 64  # outdated entries of a queue that are kept at least

_Rank = tuple[int, int, int]


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
        Seconds that a round may last before `RoundOverdue` is reported.
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
        self._waiting_bags = BagQueue()
        self._closing = False
        self._broken: CorewiseError | None = None

    # --- from any thread ----------------------------------------------------------------------------

    @property
    def job_here(self) -> str | None:
        """The job whose call this thread carries out; None if there is none."""
        return self._calls_here.job

    def start(self, report: ReportEvent) -> None:
        """Start; events are reported from now on."""
        self.report: ReportEvent = BatchedProgress(report)
        self._workers.open()
        self._thread.start()

    def submit(self, job: JobSpec) -> None:
        """Take in a job; it begins when it is given cores."""
        self._inbox.put(partial(self._add, job))

    def set_cores(self, job: str, cores: int) -> None:
        """Have a job hold so many cores as soon as it can."""
        self._inbox.put(partial(self._set_cores, job, cores))

    def end(self, job: str) -> None:
        """Begin no more calls of a job."""
        self._inbox.put(partial(self._end, job))

    def change_pool(self, cores: int) -> None:
        """Have another number of cores; calls in flight go on."""
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
        """Wait for an action or for a round to be overdue, and carry out all actions that have come."""
        with suppress(Empty):
            self._inbox.get(timeout=self._timeout())()
            while True:
                self._inbox.get_nowait()()

    def _timeout(self) -> float | None:
        """Return the seconds until a round may be overdue."""
        if math.isinf(self._look_after):
            return None
        return min(max(self._look_after - time.perf_counter(), 0.0), threading.TIMEOUT_MAX)

    def _look_after_rounds(self) -> None:
        """Report rounds that are overdue."""
        now = time.perf_counter()
        if now < self._look_after:
            return
        gangs = [job for job in self._held if isinstance(job, RunningGang)]
        for gang in gangs:
            if gang.due <= now:
                gang.report_overdue()
        self._look_after = min((gang.due for gang in gangs), default=math.inf)

    def _break_down(self, error: BaseException) -> None:
        """Fail all jobs, and those that come, so that no caller waits for ever."""
        self._broken = CorewiseError(f"the engine has broken down: {error}")
        self._broken.__cause__ = error
        for job in list(self._jobs.values()):
            job.fail(self._broken)

    def _stop(self) -> None:
        self._closing = True
        for job in list(self._jobs.values()):
            job.end()

    def _add(self, job: JobSpec) -> None:
        assert isinstance(job, Gang | Bag)  # `require_kind` has checked it
        number = next(self._numbers)
        if isinstance(job, Gang):
            running: RunningJob = RunningGang(self, job, number)
        else:
            running = RunningBag(self, job, number)
        self._jobs[running.name] = running
        self.update(running)
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
            self.report(happened.PoolChanged, cores)

    def _fill(self) -> None:
        """Let gangs that wait for their cores begin, and begin calls of bags."""
        waiting = [gang for gang in self._growing if not gang.cores]
        for gang in sorted(waiting, key=attrgetter("number")):
            gang.step()
        if self._waiting_bags:
            self._begin_bag_calls()

    def _begin_bag_calls(self) -> None:
        """Begin calls of bags."""
        free = self.free + self._extra
        wanted = sum(gang.wants for gang in self._growing)
        while free > 0 and (bag := self._waiting_bags.first()) is not None:
            if bag.in_flight >= bag.assigned and free <= wanted:
                return
            bag.begin_call()
            free -= 1

    # --- what jobs ask for --------------------------------------------------------------------------

    @property
    def free(self) -> int:
        """The cores that no job holds or has borrowed."""
        return self.pool - self._taken

    def update(self, job: RunningJob) -> None:
        """Update the counts of a job whose cores or wants have changed."""
        self._set_held(job, job.cores)
        if isinstance(job, RunningBag):
            self._waiting_bags.update(job)
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
            self._waiting_bags.drop(job)
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


class ElasticDispatcher(Dispatcher):
    """Engine over workers that may come and go.

    Parameters
    ----------
    workers : Workers
        What carries out the calls.
    count_cores : callable
        Returns how many cores there are now; `OSError` or `ValueError` if the cluster does not answer.
    extra : int, optional
        How many calls of bags to have in flight beyond the cores.
    round_timeout : float, optional
        Seconds that a round may last before there is an alert.
    """

    def __init__(
        self,
        workers: Workers,
        count_cores: Callable[[], int],
        extra: int = 0,
        round_timeout: float = ROUND_TIMEOUT,
    ) -> None:
        super().__init__(workers, count_cores(), extra, round_timeout)
        self._count_cores = count_cores
        self._closed = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="corewise-watcher", daemon=True)

    def start(self, report: ReportEvent) -> None:
        """Start; events are reported from now on."""
        super().start(report)
        self._watcher.start()

    def close(self) -> None:
        """End all jobs, and whatever was started for them."""
        self._closed.set()
        if self._watcher.is_alive():
            self._watcher.join()
        super().close()

    def _watch(self) -> None:
        """Report when cores have come or gone, but not that there are none at all."""
        while not self._closed.wait(_LOOK):
            try:
                cores = self._count_cores()
            except (OSError, ValueError):  # no answer: the calls in flight will fail
                continue
            if cores:
                self.change_pool(cores)


# --- jobs at work -----------------------------------------------------------------------------------


@dataclass(eq=False, slots=True)
class Task(WorkerCall):
    """Call of a job."""

    job: RunningJob = field(kw_only=True)
    index: int = field(kw_only=True)
    """Its position among the calls of its round, or of its bag."""
    seconds: float | None = field(default=None, kw_only=True)
    """How long it took where it was carried out, if that is known."""


@dataclass(eq=False)
class RunningJob(ABC):
    """Job at work.

    Attributes
    ----------
    dispatcher : Dispatcher
        Its dispatcher.
    spec : Gang or Bag
        The job as it was submitted: its name, the cores it holds, its calls, and where its result is put.
    number : int
        Its rank by arrival.
    assigned : int
        The cores that it is assigned.
    in_flight : int
        Its calls that are being carried out.
    ending : bool
        Whether none of its calls is begun any more.
    """

    dispatcher: Dispatcher
    spec: Gang | Bag
    number: int
    assigned: int = 0
    in_flight: int = 0
    ending: bool = False

    @property
    def name(self) -> str:
        """Its name."""
        return self.spec.holding.name

    @property
    @abstractmethod
    def cores(self) -> int:
        """The cores that no other job can have: those it holds, or those it uses."""

    @abstractmethod
    def set_cores(self, cores: int) -> None:
        """Have it hold so many cores as soon as it can."""

    @abstractmethod
    def take(self, task: Task, answer: Any, error: BaseException | None) -> None:
        """Take in the outcome of a call."""

    @abstractmethod
    def end(self) -> None:
        """Begin none of its calls any more, and let it go when nothing is in flight."""

    def abandon(self) -> None:
        """Let it go as it is."""
        self.dispatcher.leave(self)
        self.dispatcher.report(
            happened.JobEnded, self.name, "cancelled", then=partial(_cancel, self.spec.future)
        )

    def _finish(self, result: Any) -> None:
        self.dispatcher.leave(self)
        self.dispatcher.report(
            happened.JobFinished, self.name, then=partial(_succeed, self.spec.future, result)
        )

    def fail(self, error: BaseException) -> None:
        """Let it go with an error."""
        self.dispatcher.leave(self)
        self.dispatcher.report(
            happened.JobEnded, self.name, "failed", then=partial(_fail, self.spec.future, error)
        )

    def _hold(self, cores: int) -> None:
        self.spec.holding.cores = cores
        self.dispatcher.update(self)
        self.dispatcher.report(happened.CoresHeld, self.name, cores)


@dataclass(eq=False)
class RunningGang(RunningJob):
    """Gang at work: it takes its width between rounds, holds all of it in a round, and never lends it."""

    spec: Gang

    def __post_init__(self) -> None:
        self._rounds = self.spec.rounds
        self._number = 0
        self._work = 0.0
        self._waiting: deque[Task] = deque()
        self._answers: list[Any] = []
        self._seconds: list[float | None] = []
        self._error: BaseException | None = None
        self._times = RoundTimes(self.dispatcher.round_timeout)
        self._timed = True

    @property
    def due(self) -> float:
        """When its round is overdue, if it is in one."""
        return self._times.due

    @property
    def cores(self) -> int:
        """The cores it holds, busy or not."""
        return self.spec.holding.cores

    @property
    def wants(self) -> int:
        """The cores that it is assigned and does not hold yet."""
        return 0 if self.ending else max(self.assigned - self.spec.holding.cores, 0)

    def set_cores(self, cores: int) -> None:
        """Take another width at the end of the round, or now."""
        self.assigned = cores
        self.dispatcher.update(self)
        self.step()

    def end(self) -> None:
        """Begin no call any more."""
        self.ending = True
        self.dispatcher.update(self)
        self._waiting.clear()
        self.step()

    def step(self) -> None:
        """Go on, if it is between two rounds."""
        if self.in_flight:
            return
        if self.ending:
            self.abandon()
            return
        self._take_width()
        if self.spec.holding.cores:
            self._begin(self._resume())

    def _resume(self) -> Callable[[], Any]:
        """Return how it goes on: with what a call has raised, with the answers, or for the first time."""
        error, self._error = self._error, None
        if error is not None:
            return partial(self._rounds.throw, error)
        return partial(self._rounds.send, self._answers) if self._number else partial(next, self._rounds)

    def abandon(self) -> None:
        """Let it go as it is."""
        self._close_rounds()
        self._report_short()
        super().abandon()

    def fail(self, error: BaseException) -> None:
        """Let it go with an error."""
        self._report_short()
        super().fail(error)

    def report_overdue(self) -> None:
        """Report that its round is overdue, once."""
        self._times.report()
        self.dispatcher.report(happened.RoundOverdue, self.name, self.spec.holding.cores, self._times.lasts)

    def _finish(self, result: Any) -> None:
        self._report_short()
        super()._finish(result)

    def _hold(self, cores: int) -> None:
        self._report_short()
        super()._hold(cores)

    def _report_short(self) -> None:
        """Report rounds that were short against their dispatch, before its width changes."""
        short = self._times.take_short()
        if short is not None:
            self.dispatcher.report(happened.ShortRounds, self.name, *short)

    def take(self, task: Task, answer: Any, error: BaseException | None) -> None:
        """Take in the outcome of a call, send the next one, or end the round."""
        self.in_flight -= 1
        if error is None:
            self._answers[task.index] = answer
            self._seconds[task.index] = None if task.losses else task.seconds
        else:
            self._error = self._error or error
            self._waiting.clear()
        if self._waiting:
            self._send_next()
        elif not self.in_flight:
            self._end_round()

    def _take_width(self) -> None:
        """Shrink to what it is assigned, or grow as far as cores are free; to begin it needs all of them."""
        held, free = self.spec.holding.cores, max(self.dispatcher.free, 0)
        width = min(self.assigned, held + free)
        if width != held and (held or width == self.assigned):
            self._hold(width)

    def _begin(self, resume: Callable[[], Any]) -> None:
        """Have the gang say what it wants to do next, and do it."""
        try:
            given = resume()
        except StopIteration as stopped:
            self._finish(stopped.value)
            return
        except BaseException as error:
            self.fail(error)
            return
        self._number += 1
        try:
            wanted = as_round(given, self.name, self._number)
        except Exception as error:
            self._close_rounds()
            self.fail(error)
            return
        self._work, self._answers = wanted.work, [None] * len(wanted.calls)
        self._waiting.extend(Task(call, job=self, index=index) for index, call in enumerate(wanted.calls))
        self._seconds = [None] * len(wanted.calls)
        self._times.begin()
        self.dispatcher.watch(self._times.due)
        for _ in range(min(self.spec.holding.cores, len(wanted.calls))):
            self._send_next()
        self._timed = not self.dispatcher.crowded

    def _send_next(self) -> None:
        self.in_flight += 1
        self.dispatcher.send(self._waiting.popleft())

    def _close_rounds(self) -> None:
        with suppress(BaseException):  # its last words are of no interest
            self._rounds.close()

    def _end_round(self) -> None:
        self._times.end(self.spec.holding.cores, self._seconds if self._timed else [None])
        if self.ending:
            self.abandon()
            return
        if self._error is None:
            self.dispatcher.report(happened.Progress, self.name, self._work)
        self.step()


@dataclass(eq=False)
class RunningBag(RunningJob):
    """Bag at work: its calls are begun up to what it is assigned, and beyond that on idle cores."""

    spec: Bag

    def __post_init__(self) -> None:
        self._next = 0
        self._answers: list[Any] = [None] * len(self.spec.calls)
        self._left = len(self.spec.calls)
        self._error: BaseException | None = None

    @property
    def cores(self) -> int:
        """The cores it uses: what it does not use others may have."""
        return self.in_flight

    @property
    def has_calls(self) -> bool:
        """Whether there are calls to begin."""
        return not self.ending and self._next < len(self.spec.calls)

    def set_cores(self, cores: int) -> None:
        """Count on so many cores from now on."""
        self.assigned = cores
        self.dispatcher.update(self)
        if self.spec.holding.cores != cores:
            self._hold(cores)

    def end(self) -> None:
        """Begin no call any more."""
        self.ending = True
        self.dispatcher.update(self)
        self._leave_if_idle()

    def begin_call(self) -> None:
        """Begin the next call."""
        self.in_flight += 1
        self._next += 1
        self.dispatcher.update(self)
        self.dispatcher.send(Task(self.spec.calls[self._next - 1], job=self, index=self._next - 1))

    def take(self, task: Task, answer: Any, error: BaseException | None) -> None:
        """Take in the outcome of a call."""
        self.in_flight -= 1
        self._left -= 1
        self._answers[task.index] = answer
        if error is not None and not self.ending:
            self._error, self.ending = error, True
        self.dispatcher.update(self)
        if not self._left and self._error is None:
            self._finish(self.spec.collect(self._answers))
        elif self.ending:
            self._leave_if_idle()

    def _leave_if_idle(self) -> None:
        if self.in_flight:
            return
        if self._error is not None:
            self.fail(self._error)
        else:
            self.abandon()


def _succeed(future: Future[Any], result: Any) -> None:
    if future.set_running_or_notify_cancel():
        future.set_result(result)


def _fail(future: Future[Any], error: BaseException) -> None:
    if future.set_running_or_notify_cancel():
        future.set_exception(error)


def _cancel(future: Future[Any]) -> None:
    future.cancel()
    future.set_running_or_notify_cancel()


class BagQueue:
    """Queue of bags that have calls to begin.

    First is the bag that lacks most of what it is assigned, then the one with fewest calls in flight, then
    the oldest. An entry of the heap that is not the last of its bag is outdated; those are passed over, and
    all of them dropped once they are more than the bags.
    """

    def __init__(self) -> None:
        self._ranks: dict[RunningBag, _Rank] = {}
        self._heap: list[tuple[_Rank, RunningBag]] = []

    def __len__(self) -> int:
        """Return how many bags have calls to begin."""
        return len(self._ranks)

    def update(self, bag: RunningBag) -> None:
        """Put a bag where it belongs now, or nowhere if it has no call to begin."""
        if not bag.has_calls:
            self._ranks.pop(bag, None)
            return
        rank = (min(bag.in_flight - bag.assigned, 0), bag.in_flight, bag.number)
        if self._ranks.get(bag) != rank:
            self._ranks[bag] = rank
            heapq.heappush(self._heap, (rank, bag))
        if len(self._heap) > 2 * len(self._ranks) + _SPARE:
            self._heap = [(rank, bag) for bag, rank in self._ranks.items()]
            heapq.heapify(self._heap)

    def drop(self, bag: RunningBag) -> None:
        """Forget a bag."""
        self._ranks.pop(bag, None)

    def first(self) -> RunningBag | None:
        """Return the bag whose call is to be begun next, None if none has one."""
        while self._heap:
            rank, bag = self._heap[0]
            if self._ranks.get(bag) == rank:
                return bag
            heapq.heappop(self._heap)
        return None
