"""Rows of a record: what can happen, what can be wrong with a row, and the search for what is."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from corewise.kit.arrays import Floats, Ints
from corewise.observation import _kernels

__all__ = [
    "EVENT_NAMES",
    "NO_JOB",
    "STEPS",
    "Columns",
    "EventKind",
    "Fault",
    "Record",
    "dense",
    "find_faults",
    "in_words",
    "most_cores",
    "plainly_good",
]

NO_JOB = -1
"""The class of a row that is about none, and the number of a job that has no name."""


class EventKind(IntEnum):
    """Kind of event: what a row says happened.

    Examples
    --------
    >>> import corewise as cw
    >>> system = cw.load_system("paper:1")
    >>> run = cw.simulate(system, "equi", departures=2_000, rng=7, record=True)
    >>> cw.results.EventKind(run.path.event[0]).name
    'START'
    >>> int((run.path.event == cw.results.EventKind.DEPARTURE).sum())
    2000
    """

    START = 0
    PRESENT = 1
    ARRIVAL = 2
    DEPARTURE = 3
    RESIZE = 4
    END = 5
    CANCEL = 6


EVENT_NAMES = {event.name.lower(): int(event) for event in EventKind}
"""The kinds of events by their names in a log."""

STEPS = np.array([0, 1, 1, -1, 0, 0, -1])
"""By how much each `EventKind` changes the number of jobs."""


class Fault(IntEnum):
    """Kind of fault: what is wrong with a row, given the rows before it."""

    NONE = 0
    BACKWARDS = 1
    NO_CLASS = 2
    EMPTY_CLASS = 3
    NAMELESS = 4
    NOT_THERE = 5
    GONE = 6
    TWICE = 7
    OTHER_CLASS = 8
    NEGATIVE = 9
    TOO_MANY = 10
    HOLDS_ON = 11
    NO_CORES = 12
    LATE_START = 13
    LATE_PRESENT = 14
    AFTER_END = 15
    NOT_FINITE = 16
    NOT_ABOUT_JOBS = 17
    EARLY_END = 18
    BROKEN = 19

    @property
    def reason(self) -> str:
        """The fault in words."""
        return _REASONS[self]


_REASONS = {
    Fault.NONE: "nothing",
    Fault.BACKWARDS: "its time is before that of the row above",
    Fault.NO_CLASS: "it needs a class",
    Fault.EMPTY_CLASS: "no job of the class is present",
    Fault.NAMELESS: "it needs a job: the cores are those of the row's own job",
    Fault.NOT_THERE: "the job never arrived",
    Fault.GONE: "the job has left before",
    Fault.TWICE: "the job is present already",
    Fault.OTHER_CLASS: "the job belongs to another class",
    Fault.NEGATIVE: "it needs cores that are finite and not negative",
    Fault.TOO_MANY: "the cores held at this time sum to more than the pool",
    Fault.HOLDS_ON: "cores are held by a job that has left",
    Fault.NO_CORES: "the job leaves although it held no cores",
    Fault.LATE_START: "only the first row can be a start",
    Fault.LATE_PRESENT: "jobs present at the start must follow it at once",
    Fault.AFTER_END: "it comes after the end",
    Fault.NOT_FINITE: "its time must be finite",
    Fault.NOT_ABOUT_JOBS: "a start or an end is about no class and no job",
    Fault.EARLY_END: "an end that is not the last row",
    Fault.BROKEN: "the job is broken in the log above",
}

_SLACK = 1e-6
"""How far a sum of cores may exceed the pool, relative to the pool or to one core if that is more."""

_GLANCE = 2**18  # rows: of more, the compiled loop is quicker even if it has to be compiled
_MOST_SHOWN = 6  # classes in a message


class Columns(NamedTuple):
    """Unchecked columns of a `SamplePath`: of the right types and shapes, but rows may be faulty."""

    names: tuple[str, ...]
    pool: float
    time: Floats
    event: NDArray[np.int8]
    job_class: Ints
    job: Ints
    cores: Floats


class Record(Protocol):
    """Columns of a `SamplePath` whose rows were found to be without fault, and what follows from them."""

    @property
    def names(self) -> tuple[str, ...]:
        """The classes."""
        ...

    @property
    def time(self) -> Floats:
        """The time of each row."""
        ...

    @property
    def event(self) -> NDArray[np.int8]:
        """The kind of event of each row."""
        ...

    @property
    def job_class(self) -> Ints:
        """The position of the class of each row, or `NO_JOB`."""
        ...

    @property
    def job(self) -> Ints:
        """The number of the job of each row, or `NO_JOB`."""
        ...

    @property
    def cores(self) -> Floats:
        """The cores of every class, or of each row's own job."""
        ...

    @property
    def per_job(self) -> bool:
        """Whether cores are those of each row's own job."""
        ...

    @property
    def counts(self) -> Ints:
        """The jobs of each class after each row."""
        ...


def find_faults(columns: Columns, *, lenient: bool = False) -> tuple[int, NDArray[np.int8]]:
    """Return the first faulty row, or −1, and the `Fault` of each row up to it.

    If `lenient`, faulty rows are passed over, as if they were not there, and the rows without fault are a
    possible record; the row returned is −1.
    """
    names, pool, time, event, job_class, job, cores = columns
    per_job = cores.ndim == 1
    number = dense(job)[1] if int(job.max()) >= job.size else job
    known, classes = int(number.max()) + 1, len(names)
    faults = np.zeros(job.size, dtype=np.int8)
    if not per_job and job.size <= _GLANCE and plainly_good(columns, number):
        return -1, faults
    row = _kernels.check_rows(
        time,
        event,
        job_class,
        number,
        cores.reshape(job.size, -1),
        per_job,
        most_cores(pool),
        lenient,
        np.zeros(classes, dtype=np.int64),
        np.full(known, NO_JOB),
        np.zeros(known if per_job else classes),
        np.empty(job.size if per_job else 0),
        faults,
    )
    return int(row), faults


def plainly_good(columns: Columns, number: Ints) -> bool:
    """Return whether rows of class totals are without fault beyond doubt.

    An undamaged record is seen to be good at a glance, without the loop that finds what is wrong
    with which row, which has to be compiled. Where rounding could decide, the answer is no.
    """
    _, pool, time, event, job_class, _, cores = columns
    rows, about = np.arange(time.size), STEPS[event] != 0
    border = (event == EventKind.START) | (event == EventKind.END)
    opening = int(np.count_nonzero(event <= EventKind.PRESENT))
    in_order = (
        bool(np.all(np.isfinite(time)) and np.all(time[1:] >= time[:-1]))
        and not np.any(event[opening:] <= EventKind.PRESENT)
        and (opening == 0 or (event[0] == EventKind.START and time[0] == time[opening - 1]))
        and np.count_nonzero(event == EventKind.START) <= 1
        and not np.any(event[:-1] == EventKind.END)
        and not np.any(border & ((job_class >= 0) | (number >= 0)))
        and not np.any(about & (job_class < 0))
    )
    if not in_order or not np.all((cores >= 0.0) & (cores < np.inf)):
        return False
    counts = np.zeros(cores.shape, dtype=np.int64)
    counts[rows[about], job_class[about]] = STEPS[event[about]]
    np.cumsum(counts, axis=0, out=counts)
    left = np.flatnonzero(event == EventKind.DEPARTURE)
    cores_fit = (
        counts.min() >= 0
        and np.all(cores.sum(axis=1) <= 0.5 * (pool + most_cores(pool)))
        and not np.any((counts[opening:] == 0) & (cores[opening:] != 0.0))
        and not np.any(cores[left - 1, job_class[left]] == 0.0)
    )
    return bool(cores_fit) and _each_came_once(event, job_class, number)


def _each_came_once(event: NDArray[np.int8], job_class: Ints, number: Ints) -> bool:
    """Return whether every job that has a number came once, and left at most once, later and as it came."""
    steps = np.where(number >= 0, STEPS[event], 0)
    came, left = np.flatnonzero(steps > 0), np.flatnonzero(steps < 0)
    arrival = np.full(int(number.max()) + 1, number.size)
    arrival[number[came]] = came
    departures = np.bincount(number[left], minlength=1)
    return bool(
        np.array_equal(arrival[number[came]], came)
        and departures.max() <= 1
        and np.all(arrival[number[left]] < left)
        and np.array_equal(job_class[arrival[number[left]]], job_class[left])
    )


def most_cores(pool: float) -> float:
    """Return what a sum of cores may be at most: the pool, and a little for rounding."""
    return pool + _SLACK * max(1.0, pool)


def dense(job: Ints) -> tuple[Ints, Ints]:
    """Return the distinct job numbers, sorted, and the index of each row's among them, or `NO_JOB`."""
    numbers, places = np.unique(job, return_inverse=True)
    nameless = int(numbers[0] == NO_JOB)
    return numbers[nameless:], places - nameless


def in_words(columns: Columns, row: int, fault: Fault, job: str | None = None) -> tuple[str, str]:
    """Return what a row says and what is wrong with it; `job` is what to call its job, if not by number."""
    what = EventKind(columns.event[row]).name.lower()
    if columns.job[row] != NO_JOB:
        what += f" of job {job or columns.job[row]}"
    if columns.job_class[row] != NO_JOB:
        what += f" of class {columns.names[columns.job_class[row]]!r}"
    why = fault.reason
    if fault == Fault.HOLDS_ON:
        per_job = columns.cores.ndim == 1
        why += " (leave the field empty)" if per_job else " (a class without jobs holds none)"
    if fault == Fault.TOO_MANY:
        why += f" of {columns.pool:g}"
    if fault in (Fault.NEGATIVE, Fault.TOO_MANY, Fault.HOLDS_ON):
        why += f", got {_cores_shown(columns.names, columns.cores[row])}"
    return f"{what} at time {float(columns.time[row])!r}", why


def _cores_shown(names: tuple[str, ...], cores: Floats) -> str:
    if cores.ndim == 0:
        return "no cores" if np.isnan(cores) else f"{cores:.9g} for this job"
    held = [f"{x:.9g} for {name!r}" for name, x in zip(names, cores.tolist(), strict=True) if x != 0.0]
    return ", ".join(held[:_MOST_SHOWN]) + (", …" if len(held) > _MOST_SHOWN else "")
