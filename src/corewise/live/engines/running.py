"""Jobs at work in an engine: a gang between and within its rounds, a bag with its calls in flight.

All of this is done by the one thread of a dispatcher.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from corewise.kit.workers import WorkerCall
from corewise.live.engines.base import Bag, Gang, Holding, Tell, as_round
from corewise.live.engines.rounds import RoundTimes
from corewise.observation import events as happened

__all__ = ["Desk", "RunningBag", "RunningGang", "RunningJob", "Task"]


@dataclass(eq=False, slots=True)
class Task(WorkerCall):
    """Call of a job."""

    job: RunningJob = field(kw_only=True)
    index: int = field(kw_only=True)
    """Its position among the calls of its round, or of its bag."""
    seconds: float | None = field(default=None, kw_only=True)
    """How long it took where it was carried out, if that is known."""


class Desk(Protocol):
    """What a job at work asks of its dispatcher."""

    tell: Tell
    round_timeout: float

    @property
    def free(self) -> int:
        """The cores that nobody holds or has borrowed."""
        ...

    @property
    def crowded(self) -> bool:
        """Whether more calls are in flight than there are cores, so that some wait for a worker."""
        ...

    def watch(self, due: float) -> None:
        """Look after rounds once it is so late, by the clock of rounds."""
        ...

    def send(self, task: Task) -> None:
        """Carry out a call; `RunningJob.take` is told the answer."""
        ...

    def count(self, job: RunningJob) -> None:
        """Take note of what a job holds and wants, which has changed."""
        ...

    def leave(self, job: RunningJob) -> None:
        """Forget a job."""
        ...


@dataclass(eq=False)
class RunningJob(ABC):
    """Job at work.

    Attributes
    ----------
    desk : Desk
        Its dispatcher.
    holding : Holding
        Its name, and the cores it holds.
    future : Future
        Where its result is put.
    told : int
        The cores it was told to hold.
    in_flight : int
        Its calls that are being carried out.
    ending : bool
        Whether it is fed no more.
    number : int
        Its rank by arrival.
    """

    desk: Desk
    holding: Holding
    future: Future[Any]
    told: int = 0
    in_flight: int = 0
    ending: bool = False
    number: int = 0

    @property
    def name(self) -> str:
        """What it is called."""
        return self.holding.name

    @property
    @abstractmethod
    def cores(self) -> int:
        """The cores that nobody else can have: those it holds, or those it uses."""

    @abstractmethod
    def set_cores(self, cores: int) -> None:
        """Have it hold so many cores as soon as it can."""

    @abstractmethod
    def take(self, task: Task, answer: Any, error: BaseException | None) -> None:
        """Take in what became of a call."""

    @abstractmethod
    def end(self) -> None:
        """Feed it no more, and let it go when nothing is in flight."""

    def abandon(self) -> None:
        """Let it go as it is."""
        self.desk.leave(self)
        self.desk.tell(happened.JobEnded, self.name, "cancelled", then=partial(_cancel, self.future))

    def _finish(self, result: Any) -> None:
        self.desk.leave(self)
        self.desk.tell(happened.JobFinished, self.name, then=partial(_succeed, self.future, result))

    def fail(self, error: BaseException) -> None:
        """Let it go with an error."""
        self.desk.leave(self)
        self.desk.tell(happened.JobEnded, self.name, "failed", then=partial(_fail, self.future, error))

    def _hold(self, cores: int) -> None:
        self.holding.cores = cores
        self.desk.count(self)
        self.desk.tell(happened.CoresHeld, self.name, cores)


@dataclass(eq=False)
class RunningGang(RunningJob):
    """Gang at work: it takes its width between rounds, holds all of it in a round, and never lends it."""

    gang: Gang = field(kw_only=True)

    def __post_init__(self) -> None:
        self._rounds = self.gang.rounds
        self._number = 0
        self._work = 0.0
        self._waiting: deque[Task] = deque()
        self._answers: list[Any] = []
        self._seconds: list[float | None] = []
        self._error: BaseException | None = None
        self._times = RoundTimes(self.desk.round_timeout)
        self._timed = True

    @property
    def due(self) -> float:
        """When its round is overdue, if it is in one."""
        return self._times.due

    @property
    def cores(self) -> int:
        """The cores it holds, busy or not."""
        return self.holding.cores

    @property
    def wants(self) -> int:
        """The cores that it was told to hold and does not yet."""
        return 0 if self.ending else max(self.told - self.holding.cores, 0)

    def set_cores(self, cores: int) -> None:
        """Take another width at the end of the round, or now."""
        self.told = cores
        self.desk.count(self)
        self.step()

    def end(self) -> None:
        """Begin no call any more."""
        self.ending = True
        self.desk.count(self)
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
        if self.holding.cores:
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
        self._tell_short()
        super().abandon()

    def fail(self, error: BaseException) -> None:
        """Let it go with an error."""
        self._tell_short()
        super().fail(error)

    def tell_overdue(self) -> None:
        """Tell that its round does not end, once."""
        self._times.tell()
        self.desk.tell(happened.RoundOverdue, self.name, self.holding.cores, self._times.lasts)

    def _finish(self, result: Any) -> None:
        self._tell_short()
        super()._finish(result)

    def _hold(self, cores: int) -> None:
        self._tell_short()
        super()._hold(cores)

    def _tell_short(self) -> None:
        """Tell of rounds that were short against their dispatch, before its width changes."""
        short = self._times.take_short()
        if short is not None:
            self.desk.tell(happened.ShortRounds, self.name, *short)

    def take(self, task: Task, answer: Any, error: BaseException | None) -> None:
        """Take in what became of a call, send the next one, or end the round."""
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
        """Shrink to what it was told, or grow as far as cores are free; to begin it needs all of them."""
        held, free = self.holding.cores, max(self.desk.free, 0)
        width = min(self.told, held + free)
        if width != held and (held or width == self.told):
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
        self.desk.watch(self._times.due)
        for _ in range(min(self.holding.cores, len(wanted.calls))):
            self._send_next()
        self._timed = not self.desk.crowded

    def _send_next(self) -> None:
        self.in_flight += 1
        self.desk.send(self._waiting.popleft())

    def _close_rounds(self) -> None:
        with suppress(BaseException):  # nobody has asked what it has to say at its end
            self._rounds.close()

    def _end_round(self) -> None:
        self._times.end(self.holding.cores, self._seconds if self._timed else [None])
        if self.ending:
            self.abandon()
            return
        if self._error is None:
            self.desk.tell(happened.Progress, self.name, self._work)
        self.step()


@dataclass(eq=False)
class RunningBag(RunningJob):
    """Bag at work: it is fed by its dispatcher, up to what it was told and beyond that with idle cores."""

    bag: Bag = field(kw_only=True)

    def __post_init__(self) -> None:
        self._next = 0
        self._answers: list[Any] = [None] * len(self.bag.calls)
        self._left = len(self.bag.calls)
        self._error: BaseException | None = None

    @property
    def cores(self) -> int:
        """The cores it uses: what it does not use others may have."""
        return self.in_flight

    @property
    def hungry(self) -> bool:
        """Whether there are calls to begin."""
        return not self.ending and self._next < len(self.bag.calls)

    def set_cores(self, cores: int) -> None:
        """Count on so many cores from now on."""
        self.told = cores
        self.desk.count(self)
        if self.holding.cores != cores:
            self._hold(cores)

    def end(self) -> None:
        """Begin no call any more."""
        self.ending = True
        self.desk.count(self)
        self._leave_if_idle()

    def feed(self) -> None:
        """Begin the next call."""
        self.in_flight += 1
        self._next += 1
        self.desk.count(self)
        self.desk.send(Task(self.bag.calls[self._next - 1], job=self, index=self._next - 1))

    def take(self, task: Task, answer: Any, error: BaseException | None) -> None:
        """Take in what became of a call."""
        self.in_flight -= 1
        self._left -= 1
        self._answers[task.index] = answer
        if error is not None and not self.ending:
            self._error, self.ending = error, True
        self.desk.count(self)
        if not self._left and self._error is None:
            self._finish(self.bag.collect(self._answers))
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
