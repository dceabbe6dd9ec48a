"""Counters of a class: arrivals, departures, and the response times of jobs that finished."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["JobCounters"]

_COUNTS = ("arrived", "present", "finished", "ended", "responses")


@dataclass(slots=True)
class JobCounters:
    """Counters of the jobs of a class.

    Attributes
    ----------
    arrived, present, finished, ended : int
        Jobs that arrived, were there before, finished, and left without having finished.
    responses : int
        How many response times were seen: those of jobs that arrived and finished.
    mean, squares : float
        Their mean, and the sum of their squared distances from it.
    marks : float
        Progress that jobs have reported.
    """

    arrived: int = 0
    present: int = 0
    finished: int = 0
    ended: int = 0
    responses: int = 0
    mean: float = 0.0
    squares: float = 0.0
    marks: float = 0.0

    @classmethod
    def total(cls, rows: Sequence[JobCounters]) -> JobCounters:
        """Return the counters of several classes together; progress, in a unit per class, does not add."""
        counts = {name: sum(getattr(row, name) for row in rows) for name in _COUNTS}
        number = counts["responses"]
        mean = sum(row.responses * row.mean for row in rows) / number if number else 0.0
        squares = sum(row.squares + row.responses * (row.mean - mean) ** 2 for row in rows)
        return cls(**counts, mean=mean, squares=squares, marks=math.nan)

    def open(self, *, counted: bool) -> None:
        """Count a job that arrived, or that was there before."""
        self.arrived += counted
        self.present += not counted

    def close(self, response_time: float, *, finished: bool) -> None:
        """Count a job that left; its response time is NaN if its arrival was not seen.

        A negative one says that the clock was set back in between: it is none.
        """
        self.finished += finished
        self.ended += not finished
        if not finished or not response_time >= 0.0:
            return
        self.responses += 1
        off = response_time - self.mean
        self.mean += off / self.responses
        self.squares += off * (response_time - self.mean)

    @property
    def stderr(self) -> float:
        """The standard error of the mean, as if response times were independent; NaN below two."""
        if self.responses < 2:  # one says nothing about spread
            return math.nan
        return math.sqrt(self.squares / (self.responses - 1) / self.responses)
