r"""Job histories: when each job of a class held how many cores, in a form from which its work can be summed.

A job is a stretch of *segments*, times during which its cores did not change. Where the cores of a class are
shared equally, its jobs share segments too, and a job is the range of them between its arrival and its
departure. Where every job has cores of its own, the segments of one job follow those of the one that arrived
before it. Either way, with s the speed of a segment and A the running sum of s × span over all segments of
the class, the work that a job has attained is a difference of A; and since jobs are in order of arrival, the
place where successive jobs attain a given work only ever moves forward.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np

from corewise.kit.arrays import Bools, Floats, Ints
from corewise.observation.rows import NO_JOB, STEPS, EventKind, Record, dense

__all__ = ["JobHistories", "job_histories", "owners_of"]


@dataclass(frozen=True, eq=False)
class JobHistories:
    """Histories of the jobs of one class, in order of arrival.

    Attributes
    ----------
    widths : ndarray
        The different numbers of cores that a job held.
    place : ndarray of int
        Which of them it was in each segment.
    start, span : ndarray
        When each segment began, and how long it lasted.
    first, last : ndarray of int
        The segments of each job: from `first` on, before `last`.
    arrives, leaves : ndarray of int
        The rows at which each job came, and left; the number of rows if it was there at the end.
    number : ndarray of int
        The number of each job.
    truncated : ndarray of bool
        Whether it was present at the start, so that its attained work is unknown.
    cancelled : ndarray of bool
        Whether it left unfinished, so that its size is unknown.
    rows : int
        How many rows the record has.
    """

    widths: Floats
    place: Ints
    start: Floats
    span: Floats
    first: Ints
    last: Ints
    arrives: Ints
    leaves: Ints
    number: Ints
    truncated: Bools
    cancelled: Bools
    rows: int

    def __post_init__(self) -> None:
        for field in fields(self):
            column = getattr(self, field.name)
            if isinstance(column, np.ndarray):
                column.setflags(write=False)

    def capped(self, most: int | None) -> JobHistories:
        """Return the histories with the cores that jobs held and could not use left out."""
        return self if most is None else replace(self, widths=np.minimum(self.widths, most))

    @property
    def departed(self) -> Bools:
        """Whether each job was seen to be done."""
        return np.asarray((self.leaves < self.rows) & ~self.cancelled)

    @property
    def leaving(self) -> Ints:
        """The place among the widths of what each job held last."""
        return np.asarray(self.place[self.last - 1]) if self.place.size else np.zeros(0, dtype=np.int64)

    def sums(self, weights: Floats) -> Floats:
        """Return the integral over the life of each job of what has these values at the widths.

        Along the first axis of `weights` are the widths; further axes are kept.
        """
        flow = weights[self.place] * self.span.reshape(-1, *(1,) * (weights.ndim - 1))
        upto = np.concatenate([np.zeros((1, *weights.shape[1:])), np.cumsum(flow, axis=0)])
        return np.asarray(upto[self.last] - upto[self.first])


def job_histories(path: Record) -> tuple[JobHistories | None, ...]:
    """Return the histories of the jobs of each class; None where some job of it has no number."""
    comes = (path.event == EventKind.ARRIVAL) | (path.event == EventKind.PRESENT)
    about = comes | (STEPS[path.event] < 0)
    nameless = np.zeros(len(path.names), dtype=bool)
    nameless[path.job_class[about & (path.job == NO_JOB)]] = True
    owner = owners_of(path)
    made = _by_job if path.per_job else _by_class
    return tuple(None if nameless[i] else made(path, i, owner == i) for i in range(len(path.names)))


def owners_of(path: Record) -> Ints:
    """Return the class of each row's job, also where the row does not name it."""
    numbers, job = dense(path.job)
    named = (job >= 0) & (path.job_class >= 0)
    owner = np.full(numbers.size + 1, NO_JOB, dtype=np.int64)  # the last is that of no job
    owner[job[named]] = path.job_class[named]
    return owner[job]


def _by_class(path: Record, i: int, mine: Bools) -> JobHistories:
    """Return the histories where jobs of class i share its cores: a segment lasts until something changes."""
    rows, jobs = path.time.size, path.counts[:-1, i]
    held = np.divide(path.cores[:-1, i], jobs, out=np.zeros(rows - 1), where=jobs > 0)
    busy = jobs > 0
    before = np.concatenate([[False], busy[:-1]]) if rows > 1 else busy
    opens = busy & (mine[:-1] | ~before | (held != np.concatenate([[-1.0], held[:-1]])[: rows - 1]))
    at = np.flatnonzero(opens)
    upto = np.concatenate([[0], np.cumsum(opens)])  # the segments begun before each row
    lasted = np.where(busy, np.diff(path.time), 0.0)
    span = np.add.reduceat(lasted, at) if at.size else np.empty(0)
    comes, leaves = _ends(path, mine)
    last = upto[np.minimum(leaves, rows - 1)]
    return _histories(path, (held[at], path.time[at], span), (upto[comes], last), (comes, leaves))


def _by_job(path: Record, _: int, mine: Bools) -> JobHistories:
    """Return the histories where jobs have cores of their own: a segment lasts until the job's next row."""
    comes, leaves = _ends(path, mine)
    numbers, place = dense(path.job)
    rank = np.full(numbers.size + 1, NO_JOB, dtype=np.int64)
    rank[place[comes]] = np.arange(comes.size)
    row = np.flatnonzero(mine)
    row = row[np.argsort(rank[place[row]], kind="stable")]
    whose = rank[place[row]]
    goes_on = np.append(whose[1:] == whose[:-1], False)[: row.size]
    until = np.where(goes_on, np.append(path.time[row[1:]], path.time[-1])[: row.size], path.time[-1])
    held = STEPS[path.event[row]] >= 0
    row, whose, until = row[held], whose[held], until[held]
    first, last = (np.searchsorted(whose, np.arange(comes.size), side=side) for side in ("left", "right"))
    return _histories(
        path, (path.cores[row], path.time[row], until - path.time[row]), (first, last), (comes, leaves)
    )


def _ends(path: Record, mine: Bools) -> tuple[Ints, Ints]:
    """Return the rows at which the jobs of a class came and left, in order of arrival."""
    comes = np.flatnonzero(mine & ((path.event == EventKind.ARRIVAL) | (path.event == EventKind.PRESENT)))
    gone = np.flatnonzero(mine & (STEPS[path.event] < 0))
    numbers, place = dense(path.job)
    left = np.full(numbers.size + 1, path.time.size, dtype=np.int64)
    left[place[gone]] = gone
    return comes, left[place[comes]]


def _histories(
    path: Record,
    segments: tuple[Floats, Floats, Floats],
    jobs: tuple[Ints, Ints],
    ends: tuple[Ints, Ints],
) -> JobHistories:
    held, start, span = segments
    widths, place = np.unique(held, return_inverse=True)
    truncated = path.event[ends[0]] == EventKind.PRESENT
    cancelled = np.append(path.event == EventKind.CANCEL, False)[ends[1]]  # there at the end: the last
    return JobHistories(
        widths,
        place.astype(np.int64),
        start,
        span,
        *jobs,
        *ends,
        path.job[ends[0]],
        truncated,
        cancelled,
        path.time.size,
    )
