"""Calls of jobs on their way to a worker: how long each takes, and which thread here carries it out.

A call that closes its own pool, or waits for its own job, would wait for itself. To refuse that, a thread of
this process knows of which job it carries out a call. In another process there is no pool to close; what
travels there is the call and a clock.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import Any

from corewise.live.engines.base import Call

__all__ = ["CallsHere", "JobCall", "Timed", "TimedCall"]


@dataclass(frozen=True, slots=True, repr=False)
class Timed:
    """Answer of a call, and the seconds that the call took where it was carried out."""

    answer: Any
    seconds: float

    def __repr__(self) -> str:
        """Return the answer as it prints."""
        return repr(self.answer)


@dataclass(frozen=True, slots=True, repr=False)
class TimedCall:
    """Call whose answer says how long the call took."""

    call: Call

    def __repr__(self) -> str:
        """Return the call as it prints."""
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
        """The job of which this thread carries out a call; None if of none."""
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
        """Return the call as it prints."""
        return repr(self._call)

    def __reduce__(self) -> tuple[type[TimedCall], tuple[Call]]:
        """Return what travels to another process."""
        return TimedCall, (self._call,)

    def __call__(self) -> Timed:
        """Carry out the call."""
        return self._here.carry_out(self._job, self._call)
