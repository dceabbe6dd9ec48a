"""Progress in batches: rounds of milliseconds would else be thousands of events a second to write down.

What counts is the work between two widths, so it is told before a job changes its cores or ends; and now and
then in between, for whoever looks on.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from corewise.live.engines.base import Tell
from corewise.observation import events as happened

__all__ = ["BatchedProgress"]

_EVERY = 0.5  # seconds


class BatchedProgress:
    """Teller that keeps the progress of a job back until something else happens to it, or for half a second.

    Parameters
    ----------
    tell : Tell
        To whom to pass on what is told, in order.
    clock : callable, optional
        What time it is, in seconds.
    """

    def __init__(self, tell: Tell, clock: Callable[[], float] = time.monotonic) -> None:
        self._tell, self._clock = tell, clock
        self._kept: dict[str, tuple[float, float]] = {}  # work, and since when it is kept

    def __call__(
        self, kind: type[happened.Event], *values: Any, then: Callable[[], None] | None = None
    ) -> None:
        """Tell, sooner or later."""
        job = str(values[0]) if values else ""
        if kind is not happened.Progress:
            if job in self._kept:
                self._tell(happened.Progress, job, self._kept.pop(job)[0])
            self._tell(kind, *values, then=then)
            return
        work, since = self._kept.pop(job, (0.0, self._clock()))
        if self._clock() - since < _EVERY:
            self._kept[job] = (work + values[1], since)
        else:
            self._tell(happened.Progress, job, work + values[1])
