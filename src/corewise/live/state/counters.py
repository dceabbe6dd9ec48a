"""Books of a class: who came and went, and how long those who finished took."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Book"]

_COUNTS = ("arrived", "present", "finished", "ended", "responses")


@dataclass(slots=True)
class Book:
    """Book of a class.

    Attributes
    ----------
    arrived, present, finished, ended : int
        Jobs that arrived, were there before, finished, and left without having finished.
    responses : int
        How many response times were seen: those of jobs that arrived and finished.
    mean, squares : float
        Their mean, and the sum of their squared distances from it.
    marks : float
        Progress that jobs have told of.
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
    def total(cls, books: Sequence[Book]) -> Book:
        """Return the book of several classes together; their progress, each in its own unit, does not add."""
        counts = {name: sum(getattr(book, name) for book in books) for name in _COUNTS}
        number = counts["responses"]
        mean = sum(book.responses * book.mean for book in books) / number if number else 0.0
        squares = sum(book.squares + book.responses * (book.mean - mean) ** 2 for book in books)
        return cls(**counts, mean=mean, squares=squares, marks=math.nan)

    def open(self, *, counted: bool) -> None:
        """Write down a job that arrived, or that was there before."""
        self.arrived += counted
        self.present += not counted

    def close(self, response_time: float, *, finished: bool) -> None:
        """Write down a job that left; its response time is NaN if its arrival was not seen.

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
