"""Rows about jobs as columns, whatever the format that they come from, and what became of every row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from corewise.kit.arrays import Floats, Ints

__all__ = ["JobRows", "RowStatus"]


class RowStatus(IntEnum):
    """RowStatus on a row: what was made of it."""

    USED = 0
    STEP = 1
    BURST = 2
    FIELDS = 3
    NO_TIME = 4
    BAD_TIME = 5
    BAD_START = 6
    BAD_END = 7
    BACKWARDS = 8
    NO_END = 9
    NO_START = 10
    BAD_CORES = 11
    TOO_MANY = 12
    OUTSIDE = 13
    CUT_BEFORE = 14
    ARRAY = 15

    @property
    def reason(self) -> str:
        """The status in words."""
        return _REASONS[self]

    @property
    def drops(self) -> bool:
        """Whether nothing of the row is used."""
        return self in _DROPS


_REASONS = {
    RowStatus.USED: "used",
    RowStatus.STEP: "a step of a job, which has a row of its own",
    RowStatus.BURST: "a burst of a job, which has a row of its own",
    RowStatus.FIELDS: "not as many fields as there are columns",
    RowStatus.NO_TIME: "it says neither when the job was submitted nor when it started",
    RowStatus.BAD_TIME: "when the job was submitted cannot be read",
    RowStatus.BAD_START: "when the job started cannot be read",
    RowStatus.BAD_END: "when the job ended cannot be read",
    RowStatus.BACKWARDS: "the job ends before it starts",
    RowStatus.NO_END: "the job is said to be over, and no end is said",
    RowStatus.NO_START: "the job is said to be done, and no start is said",
    RowStatus.BAD_CORES: "the cores of a job that ran must be a number above zero",
    RowStatus.TOO_MANY: "more cores than there are",
    RowStatus.OUTSIDE: "over before the observation opens, or not yet there when it closes",
    RowStatus.CUT_BEFORE: "what went before of the same job cannot be believed",
    RowStatus.ARRAY: "an array of jobs that had not started, whose tasks cannot be counted",
}
_DROPS = frozenset(
    {
        RowStatus.STEP,
        RowStatus.BURST,
        RowStatus.FIELDS,
        RowStatus.NO_TIME,
        RowStatus.BAD_TIME,
        RowStatus.OUTSIDE,
        RowStatus.ARRAY,
    }
)
"""Of other rows the arrival is kept: the job is censored at the last moment that can be believed."""


@dataclass(frozen=True, eq=False)
class JobRows:
    """Rows about jobs: one a job, or one for each stretch of it.

    Attributes
    ----------
    line : ndarray of int
        The line of each row, from 1.
    submit, start, end : ndarray
        When it was submitted, started and ended, in seconds; NaN where that is not known.
    cores : ndarray
        The cores that it held from start to end.
    outcome : ndarray of int8
        An `JobOutcome`.
    job_class : ndarray of int
        The position of its class in `names`.
    names : tuple of str
        The classes.
    labels, label_ends, label_keys : ndarray
        The names of the jobs one after another, where each ends (with a zero before), and a number for each.
    status : ndarray of int8
        A `RowStatus`.
    clock : str
        ``"zoned"``, ``"local"`` or ``"numbers"``: how the times were written.
    zero : float
        What the number zero is, in seconds since 1970, if the file says so; else NaN.
    pool : float
        The cores there are, if the file says so; else NaN.
    notes : tuple of str
        What a user of the log should know.
    values : mapping
        The offending field of some rows, by line.
    said, words : ndarray of int, tuple of str
        What each row calls its state: the position in `words`, −1 for nothing.
    """

    line: Ints
    submit: Floats
    start: Floats
    end: Floats
    cores: Floats
    outcome: NDArray[np.int8]
    job_class: Ints
    names: tuple[str, ...]
    labels: NDArray[np.uint8]
    label_ends: Ints
    label_keys: NDArray[np.uint64]
    status: NDArray[np.int8]
    clock: str = "numbers"
    zero: float = float("nan")
    pool: float = float("nan")
    notes: tuple[str, ...] = ()
    values: Mapping[int, str] = field(default_factory=dict)
    said: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    words: tuple[str, ...] = ()
