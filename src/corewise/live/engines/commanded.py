"""Engines over a cluster that is asked by its own commands: one thread owns all state and looks now and then.

A command may take long, or get no answer: so only this thread waits for one, and what it could not do
it tries again at the next look.
"""

from __future__ import annotations

import subprocess
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, MutableMapping, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any

from corewise.errors import CorewiseError
from corewise.live.engines.base import JobSpec, ReportEvent

__all__ = ["CommandedEngine", "carried_out", "give"]

_ANSWER = 30.0  # seconds that a command may take


def carried_out(
    command: Sequence[str], given: str | None = None, *, of: str = "it", server: str = "its server"
) -> tuple[int, str]:
    """Return the exit code of a command and what it printed, of one that failed also what it complained of.

    Parameters
    ----------
    command : sequence of str
        The command.
    given : str, optional
        What it reads.
    of, server : str, optional
        What it belongs to, and who should have answered, for people if there is no such command or no answer.
    """
    try:
        done = subprocess.run(
            command, input=given or "", capture_output=True, text=True, timeout=_ANSWER, check=False
        )
    except OSError as error:
        if isinstance(error, FileNotFoundError):
            raise CorewiseError(f"there is no command {command[0]!r}: is {of} installed here?") from None
        raise CorewiseError(f"{command[0]} cannot be run: {error.strerror}") from None
    except subprocess.TimeoutExpired:
        raise CorewiseError(f"{command[0]} has not answered in {_ANSWER:g} s: does {server} run?") from None
    return done.returncode, done.stdout if done.returncode == 0 else done.stdout + done.stderr


def give(future: Future[Any], outcome: object) -> None:
    """Set the result or the error of a job; of one that was cancelled, call its callbacks."""
    if future.set_running_or_notify_cancel():
        with suppress(InvalidStateError):
            if isinstance(outcome, BaseException):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)


class CommandedEngine(ABC):
    """Engine over a cluster that is asked by its commands.

    Parameters
    ----------
    name : str
        What to call its thread.
    pool : int
        The cores there are.
    every : float
        Seconds between two looks, while there is something to wait for.
    """

    pause: float | None = None

    def __init__(self, name: str, pool: int, every: float) -> None:
        self.pool = pool
        self._every = every
        self._inbox: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._go, name=f"corewise-{name}", daemon=True)
        self._closing = False

    def start(self, report: ReportEvent) -> None:
        """Start; events are reported from now on."""
        self._report = report
        self._thread.start()

    def submit(self, job: JobSpec) -> None:
        """Take in a job; it begins when it is given cores."""
        self._inbox.put(partial(self._add, job))

    def set_cores(self, job: str, cores: int) -> None:
        """Have a job hold so many cores, which is reported by `CoresHeld`."""
        self._inbox.put(partial(self._aim, job, cores))

    def end(self, job: str) -> None:
        """Give a job up; when nothing is left of it, `JobEnded` is reported."""
        self._inbox.put(partial(self._end, job, "cancelled"))

    def close(self) -> None:
        """End all jobs that were begun here; what was there before stays."""
        if self._thread.is_alive():
            self._inbox.put(None)
            self._thread.join()

    # --- the thread ---------------------------------------------------------------------------------

    @property
    @abstractmethod
    def _jobs(self) -> MutableMapping[str, Any]:
        """The jobs, by their names."""

    @abstractmethod
    def _add(self, job: JobSpec) -> None:
        """Take in a job."""

    @abstractmethod
    def _aim(self, name: str, cores: int) -> None:
        """Have a job hold so many cores."""

    @abstractmethod
    def _end(self, name: str, why: str) -> None:
        """Give a job up."""

    @abstractmethod
    def _waits(self) -> bool:
        """Return whether there is something to look for."""

    @abstractmethod
    def _look(self) -> None:
        """See what has become of what was asked for."""

    def _go(self) -> None:
        due = 0.0
        while not (self._closing and not self._jobs):
            waits = self._waits()
            with suppress(Empty):
                self._act(self._inbox.get(timeout=max(due - time.monotonic(), 0.0) if waits else None))
            if waits and time.monotonic() >= due:
                self._look()
                due = time.monotonic() + self._every

    def _act(self, act: Callable[[], None] | None) -> None:
        if act is not None:
            act()
            return
        self._closing = True
        for name in list(self._jobs):
            self._end(name, "cancelled")
