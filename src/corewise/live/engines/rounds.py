r"""Measurement of the rounds of a gang: calls with a clock, times of rounds, and progress in batches.

A round on z cores whose calls take t₁, t₂, … where they are carried out, each begun by the first core that is
free, takes their makespan T, and beyond that D for dispatching: sending, waiting for a worker, and taking the
answers in. What is seen of the job is T + D. With D = T(1)/2 on any number of cores a p of 0.9 looks like one
of 0.6, and D grows with z, as there is more to send: where D > T/2 a round measures the dispatcher. One
that happens to wait says little, so what counts is whether most rounds of a job are so.

A round is overdue beyond the timeout of its engine, or once it has lasted twenty times as long as every
earlier round of its job. Beyond the timeout a job is reported once: if its rounds are that long, it is known.

A call that closes its own pool, or waits for its own job, would wait for itself. To refuse that, a thread of
this process knows the job whose call it carries out. In another process there is no pool to close; the call
is sent there with a clock.
"""

from __future__ import annotations

import heapq
import math
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from corewise.live.engines.base import Call, ReportEvent
from corewise.observation import events as happened

__all__ = [
    "ROUND_TIMEOUT",
    "BatchedProgress",
    "CallsHere",
    "JobCall",
    "RoundTimes",
    "Timed",
    "TimedCall",
    "makespan",
]

ROUND_TIMEOUT = 60.0
"""Seconds that a round may last before there is an alert, if not said otherwise."""

_TIMES, _LEAST = 20.0, 10.0  # an unusual round: so many times as long as any before, and so many seconds
_SHORT = 0.25  # seconds: a longer round is not short, whatever it was spent on
_EVERY = 0.5  # seconds for which progress is kept back
_DISPATCH = 0.5  # of the time of its calls: a round that takes more to dispatch is short


def makespan(seconds: Iterable[float], cores: int) -> float:
    """Return how long calls take in this order, each on the first of the cores that is free."""
    free = [0.0] * cores
    for lasts in seconds:
        heapq.heapreplace(free, free[0] + lasts)
    return max(free)


class RoundTimes:
    """Times of the rounds of a gang.

    Parameters
    ----------
    timeout : float
        Seconds after which a round is overdue.
    clock : callable, optional
        Returns the time in seconds.
    """

    def __init__(self, timeout: float, clock: Callable[[], float] = time.perf_counter) -> None:
        self._timeout, self._clock = timeout, clock
        self._began = math.nan
        self._longest = 0.0
        self._reported_once = False
        self._rounds = self._short = 0
        self._working = self._dispatching = 0.0
        self.due = math.inf
        """When the round that is under way is overdue; never, if that was reported or there is none."""

    @property
    def lasts(self) -> float:
        """The seconds that the round has lasted."""
        return self._clock() - self._began

    def begin(self) -> None:
        """Begin a round."""
        self._began = self._clock()
        unusual = max(_TIMES * self._longest, _LEAST) if self._longest else math.inf
        self.due = self._began + (unusual if self._reported_once else min(unusual, self._timeout))

    def report(self) -> None:
        """Count the round as reported."""
        self._reported_once, self.due = True, math.inf

    def end(self, cores: int, seconds: Sequence[float | None]) -> None:
        """End a round on so many cores, whose calls took so many seconds each, None if that is not known."""
        lasted, self.due = self.lasts, math.inf
        self._longest = max(self._longest, lasted)
        known = [one for one in seconds if one is not None]
        if len(known) < len(seconds):
            return
        working = makespan(known, cores)
        dispatching = max(lasted - working, 0.0)
        self._rounds += 1
        self._working += working
        self._dispatching += dispatching
        self._short += lasted <= _SHORT and dispatching > _DISPATCH * working

    def take_short(self) -> tuple[int, float, float] | None:
        """Return and forget the rounds so far, if most were short: seconds of work and of dispatching."""
        found = (self._rounds, self._working, self._dispatching) if 2 * self._short > self._rounds else None
        self._rounds = self._short = 0
        self._working = self._dispatching = 0.0
        return found


# --- calls with a clock -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, repr=False)
class Timed:
    """Answer of a call, and the seconds that the call took where it was carried out."""

    answer: Any
    seconds: float

    def __repr__(self) -> str:
        """Return the repr of the answer."""
        return repr(self.answer)


@dataclass(frozen=True, slots=True, repr=False)
class TimedCall:
    """Call whose answer says how long the call took."""

    call: Call

    def __repr__(self) -> str:
        """Return the repr of the call."""
        return repr(self.call)

    def __call__(self) -> Timed:
        """Carry out the call."""
        began = time.perf_counter()
        answer = self.call()
        return Timed(answer, time.perf_counter() - began)


class CallsHere:
    """Calls that threads of this process carry out for one engine."""

    def __init__(self) -> None:
        self._threads = threading.local()

    @property
    def job(self) -> str | None:
        """The job whose call this thread carries out; None if there is none."""
        job: str | None = getattr(self._threads, "job", None)
        return job

    def carry_out(self, job: str, call: Call) -> Timed:
        """Carry out a call of a job in this thread."""
        before, self._threads.job = self.job, job
        try:
            return TimedCall(call)()
        finally:
            self._threads.job = before


class JobCall:
    """Call of a job as an executor is given it: in a thread of this process it knows its job.

    Packed for another process, or unpacked there, it is a `TimedCall`.

    Parameters
    ----------
    here : CallsHere
        The calls of the engine.
    job : str
        The job.
    call : callable
        The call.
    """

    def __init__(self, here: CallsHere, job: str, call: Call) -> None:
        self._here, self._job, self._call = here, job, call

    def __repr__(self) -> str:
        """Return the repr of the call."""
        return repr(self._call)

    def __reduce__(self) -> tuple[type[TimedCall], tuple[Call]]:
        """Return how to make it in another process."""
        return TimedCall, (self._call,)

    def __call__(self) -> Timed:
        """Carry out the call."""
        return self._here.carry_out(self._job, self._call)


# --- progress in batches ----------------------------------------------------------------------------


class BatchedProgress:
    """Reports that keep the progress of a job back until another event of the job, or for half a second.

    Rounds of milliseconds would else be thousands of events per second to write. What counts is the work
    between two widths, so progress is reported before a job changes its cores or ends.

    Parameters
    ----------
    report : ReportEvent
        Where to pass events on, in order.
    clock : callable, optional
        Returns the time in seconds.
    """

    def __init__(self, report: ReportEvent, clock: Callable[[], float] = time.monotonic) -> None:
        self._report, self._clock = report, clock
        self._kept: dict[str, tuple[float, float]] = {}  # work, and since when it is kept

    def __call__(
        self, kind: type[happened.Event], *values: Any, then: Callable[[], None] | None = None
    ) -> None:
        """Report an event, sooner or later."""
        job = str(values[0]) if values else ""
        if kind is not happened.Progress:
            if job in self._kept:
                self._report(happened.Progress, job, self._kept.pop(job)[0])
            self._report(kind, *values, then=then)
            return
        work, since = self._kept.pop(job, (0.0, self._clock()))
        if self._clock() - since < _EVERY:
            self._kept[job] = (work + values[1], since)
        else:
            self._report(happened.Progress, job, work + values[1])
