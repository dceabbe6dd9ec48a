r"""Times of the rounds of a gang: which of them do not end, and which are shorter than their dispatch.

A round on z cores whose calls take t₁, t₂, … where they are carried out, each begun by the first core that is
free, takes their makespan T, and beyond that D for dispatching: sending, waiting for a worker, and taking the
answers in. What is seen of the job is T + D. With D = T(1)/2 on any number of cores a p of 0.9 looks like one
of 0.6, and D grows with z, as there is more to send: where D > T/2 a round tells about the dispatcher. One
that happens to wait says little, so what counts is whether most rounds of a job are so.

A round is overdue beyond the timeout of its engine, or once it has lasted twenty times as long as every
earlier round of its job. Beyond the timeout a job is told of once: if its rounds are that long, it is known.
"""

from __future__ import annotations

import heapq
import math
import time
from collections.abc import Callable, Iterable, Sequence

__all__ = ["ROUND_TIMEOUT", "RoundTimes", "makespan"]

ROUND_TIMEOUT = 60.0
"""Seconds that a round may last before there is an alert, if not said otherwise."""

_TIMES, _LEAST = 20.0, 10.0  # an unusual round: so many times as long as any before, and so many seconds
_SHORT = 0.25  # seconds: a longer round is not short, whatever it was spent on
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
        self._told_once = False
        self._rounds = self._short = 0
        self._working = self._dispatching = 0.0
        self.due = math.inf
        """When the round that is under way is overdue; never, if that was told or there is none."""

    @property
    def lasts(self) -> float:
        """The seconds that the round has lasted."""
        return self._clock() - self._began

    def begin(self) -> None:
        """Begin a round."""
        self._began = self._clock()
        unusual = max(_TIMES * self._longest, _LEAST) if self._longest else math.inf
        self.due = self._began + (unusual if self._told_once else min(unusual, self._timeout))

    def tell(self) -> None:
        """Count the round as told of."""
        self._told_once, self.due = True, math.inf

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
