"""Sample paths: the columnar record of arrivals, departures and the cores held in between.

A path is a table with one row per event, times nondecreasing. A row says what happened, to which class and
job, and which cores are held from then until the next row, in one of two forms:

- *totals*: the cores of every class, shared equally by its jobs (what a simulation records);
- *per job*: the cores of the row's own job, so that jobs of one class may hold different numbers.

The observation opens with the first row and closes with the last. Jobs that are there when it opens follow a
`START` row as `PRESENT`; without a `START` row the system is empty at first.

Paper: section 3, the departures and the events between them; figures 2 and 3.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from corewise.errors import InvalidInput
from corewise.kit import checks
from corewise.kit.arrays import Floats, Ints
from corewise.kit.frozen import FrozenMapping
from corewise.kit.report import Summarised
from corewise.kit.values import ByValue
from corewise.observation import _kernels
from corewise.observation.histories import JobHistories, job_histories, owners_of
from corewise.observation.rows import NO_JOB, STEPS, Columns, EventKind, Fault, dense, find_faults, in_words
from corewise.observation.statistics import Statistics

__all__ = ["NO_JOB", "EventKind", "Fault", "SamplePath"]

Number = TypeVar("Number", bound=np.generic)


@dataclass(frozen=True, eq=False, repr=False)
class SamplePath(ByValue, Summarised):
    """Sample path: the arrivals and departures of jobs, and the cores they held, row by row.

    Every row is checked against those before it when the path is made; see `Fault`. Columns are kept as
    contiguous arrays that cannot be written to.

    Attributes
    ----------
    names : tuple of str
        The classes.
    pool : float
        The cores there are.
    time : ndarray
        When each row happened.
    event : ndarray of int8
        What happened, an `EventKind`.
    job_class : ndarray of int64
        The position of the class in `names`, or `NO_JOB`.
    job : ndarray of int64
        The number of the job, or `NO_JOB` if it has no name. A number is used for one job only.
    cores : ndarray
        The cores of every class from this row to the next, shape (rows, K); or, in the per-job form, those of
        the row's own job, shape (rows,), NaN where a row has none (start, end, departure, cancel).

    Raises
    ------
    InvalidInput
        If columns do not fit together, or a row is impossible; rows are counted from 0.

    Examples
    --------
    >>> import corewise as cw
    >>> system = cw.load_system("paper:1")
    >>> run = cw.simulate(system, "equi", departures=2_000, rng=7, record=True)
    >>> path = run.path
    >>> path.names, path.departures
    (('one', 'two'), 2000)
    >>> path.counts[:3].tolist()
    [[0, 0], [0, 1], [0, 2]]
    >>> path.response_times["two"].size
    1321
    """

    names: tuple[str, ...]
    pool: float
    time: Floats
    event: NDArray[np.int8]
    job_class: Ints
    job: Ints
    cores: Floats

    def __post_init__(self) -> None:
        """Check that the record is possible."""
        names = _distinct_names(self.names)
        pool = checks.positive(self.pool, "the pool")
        time = _column(self.time, "time", np.float64)
        rows = time.size
        if time.ndim != 1 or rows == 0:
            raise InvalidInput(f"a path needs one time a row and at least one row, got shape {time.shape}")
        cores = _column(self.cores, "cores", np.float64)
        if cores.shape not in ((rows,), (rows, len(names))):
            raise InvalidInput(
                f"cores must have shape ({rows}, {len(names)}), or ({rows},) if they are those of each row's "
                f"own job, got {cores.shape}"
            )
        event = _codes(self.event, "event", np.int8, rows, (0, len(EventKind) - 1))
        job_class = _codes(self.job_class, "class", np.int64, rows, (NO_JOB, len(names) - 1))
        job = _codes(self.job, "job", np.int64, rows, (NO_JOB, np.iinfo(np.int64).max))
        columns = Columns(names, pool, time, event, job_class, job, cores)
        for name, value in columns._asdict().items():
            object.__setattr__(self, name, value)
        row, faults = find_faults(columns)
        if row >= 0:
            what, why = in_words(columns, row, Fault(faults[row]))
            raise InvalidInput(f"row {row} ({what}): {why}")
        self._require_finite_duration()

    @classmethod
    def _checked(cls, columns: Columns) -> SamplePath:
        """Return the path of columns in which `find_faults` has found no fault, without looking again."""
        path = object.__new__(cls)
        for name, value in columns._asdict().items():
            kept = value
            if isinstance(value, np.ndarray):
                kept = np.ascontiguousarray(value)
                kept.setflags(write=False)
            object.__setattr__(path, name, kept)
        path._require_finite_duration()
        return path

    def _require_finite_duration(self) -> None:
        if not math.isfinite(self.duration):
            raise InvalidInput(f"times from {self.start:g} to {self.end:g} are too far apart")

    def __str__(self) -> str:
        """Return what was seen in one line."""
        form = "per job" if self.per_job else "per class"
        unfinished = f", {self.cancellations} unfinished," if self.cancellations else ""
        return (
            f"{self.time.size} rows from {self.start:g} to {self.end:g}: {self.arrivals} arrivals, "
            f"{self.departures} departures{unfinished} of classes {', '.join(self.names)}; "
            f"{self.pool:g} cores, {form}"
        )

    @property
    def per_job(self) -> bool:
        """Whether cores are those of each row's own job."""
        return self.cores.ndim == 1

    @property
    def start(self) -> float:
        """When the observation opens."""
        return float(self.time[0])

    @property
    def end(self) -> float:
        """When the observation closes."""
        return float(self.time[-1])

    @property
    def duration(self) -> float:
        """How long the observation lasts."""
        return self.end - self.start

    @property
    def arrivals(self) -> int:
        """The number of arrivals; jobs present at the start arrived before."""
        return int(np.count_nonzero(self.event == EventKind.ARRIVAL))

    @property
    def departures(self) -> int:
        """The number of departures."""
        return int(np.count_nonzero(self.event == EventKind.DEPARTURE))

    @property
    def cancellations(self) -> int:
        """The number of jobs that left unfinished: failed, cancelled or lost."""
        return int(np.count_nonzero(self.event == EventKind.CANCEL))

    @cached_property
    def counts(self) -> Ints:
        """The jobs of each class after each row, shape (rows, K)."""
        counts = np.zeros((self.time.size, len(self.names)), dtype=np.int64)
        steps = STEPS[self.event]
        moves = np.flatnonzero(steps)
        counts[moves, self.job_class[moves]] = steps[moves]
        np.cumsum(counts, axis=0, out=counts)
        counts.setflags(write=False)
        return counts

    @cached_property
    def statistics(self) -> Statistics:
        """The sufficient statistics of the path; the open intervals at its end are included."""
        return Statistics.of(self)

    @cached_property
    def owners(self) -> Ints:
        """The class of each row's job, also where the row does not name it."""
        return owners_of(self)

    @cached_property
    def histories(self) -> tuple[JobHistories | None, ...]:
        """The histories of the jobs of each class; None where some job of it has no number."""
        return job_histories(self)

    @cached_property
    def response_times(self) -> Mapping[str, Floats]:
        """The response times, by class and in order of departure, of jobs seen to arrive and to leave."""
        leaves = np.flatnonzero(self.event == EventKind.DEPARTURE)
        self._require_numbers(leaves, "response times")
        arrives = np.flatnonzero((self.event == EventKind.ARRIVAL) & (self.job != NO_JOB))
        _, number = dense(self.job)
        arrived = np.full(int(number.max()) + 1, np.nan)
        arrived[number[arrives]] = self.time[arrives]
        spent = self.time[leaves] - arrived[number[leaves]]
        seen = ~np.isnan(spent)
        times = {}
        for i, name in enumerate(self.names):
            times[name] = spent[seen & (self.job_class[leaves] == i)]
            times[name].setflags(write=False)
        return FrozenMapping(times)

    def total_cores(self) -> tuple[Floats, Floats]:
        """Return the distinct times of the path, and the cores that all jobs together hold from each on."""
        last = np.append(self.time[1:] != self.time[:-1], True)  # simultaneous rows belong together
        if not self.per_job:
            return self.time[last], self.cores.sum(axis=1)[last]
        held = np.where(np.isnan(self.cores), 0.0, self.cores)
        order = np.argsort(self.job, kind="stable")
        job, own = self.job[order], held[order]
        same = np.append(False, (job[1:] == job[:-1]) & (job[1:] != NO_JOB))
        change = np.empty(held.size)
        change[order] = np.where(job == NO_JOB, 0.0, own - np.where(same, np.append(0.0, own[:-1]), 0.0))
        return self.time[last], np.cumsum(change)[last]

    def split(self) -> SamplePath:
        """Return the path in the per-job form.

        After each row of class totals, every other job whose cores changed has a `RESIZE` row of its own. The
        jobs present at the start hold from their first row what they hold when the opening is over. A resize
        of nothing that opens or closes the observation becomes `START` or `END`. All jobs need numbers.
        """
        if self.per_job:
            return self
        self._require_numbers(np.flatnonzero(STEPS[self.event]), "rows of each job")
        rows, classes = self.counts.shape
        widths = np.divide(self.cores, self.counts, out=np.zeros(self.cores.shape), where=self.counts > 0)
        opening = int(np.count_nonzero(self.event <= EventKind.PRESENT))
        widths[:opening] = widths[opening - 1]
        if self.event[-1] == EventKind.END:
            widths[-1] = widths[max(rows - 2, 0)]
        numbers, job = dense(self.job)
        most = rows + int(np.sum(self.counts[1:] * (widths[1:] != widths[:-1])))
        kinds, whose, own = np.empty(most, np.int8), np.empty((3, most), np.int64), np.empty(most)
        vacant = np.full((2, max(classes, numbers.size)), NO_JOB)
        size = _kernels.split_rows(
            self.event, self.job_class, job, widths, vacant, vacant.copy(), kinds, whose, own
        )
        row, job_class, place = whose[:, :size]
        named = np.append(numbers, NO_JOB)[place]  # no job, −1, finds the last
        return SamplePath(self.names, self.pool, self.time[row], kinds[:size], job_class, named, own[:size])

    def recent(self, jobs: int) -> SamplePath:
        """Return the part from about the arrival of the last so many jobs on; all of it if it has no more.

        It opens at the instant before, with the jobs that are present then. All jobs need numbers.
        """
        comes = np.flatnonzero(self.event == EventKind.ARRIVAL)
        if comes.size <= jobs:
            return self
        moves = np.flatnonzero(STEPS[self.event])
        if np.any(self.job[moves] == NO_JOB):
            raise InvalidInput("a part of a record needs the number of every job")
        cut = int(
            np.searchsorted(self.time, self.time[comes[-jobs]], side="left")
        )  # rows of one instant stay together
        if cut == 0:
            return self
        job_class, job, cores = _present_before(self, moves[moves < cut], cut)
        opening = job.size + 1
        time = np.concatenate([np.full(opening, self.time[cut - 1]), self.time[cut:]])
        event = np.concatenate(
            [[EventKind.START], np.full(job.size, EventKind.PRESENT), self.event[cut:]]
        ).astype(np.int8)
        held = cores if self.per_job else np.zeros((opening, self.cores.shape[1]))
        if not self.per_job:
            held[-1] = self.cores[cut - 1]  # what is on the way to it is held for no time
        return SamplePath(
            self.names,
            self.pool,
            time,
            event,
            np.concatenate([[NO_JOB], job_class, self.job_class[cut:]]),
            np.concatenate([[NO_JOB], job, self.job[cut:]]),
            np.concatenate([held, self.cores[cut:]]),
        )

    def _require_numbers(self, rows: NDArray[np.intp], what: str) -> None:
        nameless = rows[self.job[rows] == NO_JOB]
        if nameless.size:
            event = EventKind(self.event[nameless[0]]).name.lower()
            raise InvalidInput(
                f"{what} need the number of every job, and row {nameless[0]} ({event}) has none"
            )

    def _summary(self) -> Mapping[str, object]:
        return {
            "classes": self.names,
            "time": (self.start, self.end),
            "arrivals": self.arrivals,
            "departures": self.departures,
        }

    def _content(self) -> dict[str, object]:
        """Return one row for each event; a row without a class, a job or cores has none there."""
        kinds, names = np.array([kind.name.lower() for kind in EventKind]), np.array([*self.names, None])
        job = self.job.astype(object)
        job[self.job == NO_JOB] = None
        whose = {"time": self.time, "event": kinds[self.event], "class": names[self.job_class], "job": job}
        if self.per_job:
            return {**whose, "cores": self.cores}
        return {**whose, **{f"cores.{name}": self.cores[:, i] for i, name in enumerate(self.names)}}


def _present_before(path: SamplePath, moves: Ints, cut: int) -> tuple[Ints, Ints, Floats]:
    """Return class, number and cores of the jobs present before a row; cores begin with those of no job."""
    numbers, place = dense(path.job[:cut])
    there = np.zeros(numbers.size, dtype=np.int64)
    np.add.at(there, place[moves], STEPS[path.event[moves]])
    own = np.flatnonzero(there > 0)
    arrived = np.full(numbers.size, -1)
    comes = moves[STEPS[path.event[moves]] > 0]
    arrived[place[comes]] = comes
    order = np.argsort(arrived[own], kind="stable")
    own = own[order]
    last = np.full(numbers.size, -1)
    last[place[place >= 0]] = np.flatnonzero(place >= 0)  # of several the last one stays
    cores = np.append(np.nan, path.cores[last[own]]) if path.per_job else np.empty(0)
    return path.job_class[arrived[own]], numbers[own], cores


def _distinct_names(names: object) -> tuple[str, ...]:
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise InvalidInput(f"names must be those of the classes, got {names!r}")
    known = tuple(names)
    if not known or not all(isinstance(name, str) and name for name in known):
        raise InvalidInput(f"names must be those of the classes, at least one, got {names!r}")
    if len(set(known)) < len(known):
        raise InvalidInput(f"names must differ, got {names!r}")
    return known


def _column(values: object, what: str, kind: type[Number]) -> NDArray[Number]:
    """Return values as a contiguous array that cannot be written to, also not by the caller."""
    try:
        column = np.ascontiguousarray(values, dtype=kind)
    except (TypeError, ValueError, OverflowError):
        raise InvalidInput(f"{what} must be numbers, got {type(values).__name__}") from None
    if isinstance(values, np.ndarray) and column.flags.writeable and np.may_share_memory(values, column):
        column = column.copy()
    column.setflags(write=False)
    return column


def _codes(
    values: object, what: str, kind: type[Number], rows: int, bounds: tuple[int, int]
) -> NDArray[Number]:
    """Return whole numbers within bounds as a column."""
    given = np.asarray(values)
    if given.dtype.kind not in "iu" or given.shape != (rows,):
        raise InvalidInput(f"{what} must be {rows} whole numbers, got {given.dtype} of shape {given.shape}")
    wrong = np.flatnonzero((given < bounds[0]) | (given > bounds[1]))
    if wrong.size:
        raise InvalidInput(
            f"row {wrong[0]}: {what} must lie in [{bounds[0]}, {bounds[1]}], got {given[wrong[0]]}"
        )
    return _column(values, what, kind)
