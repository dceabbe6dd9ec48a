"""Repair of event logs: simultaneous rows in another order, and wrong rows left out so that none misleads.

*Ties.* Rows of one instant happen together, so a log may have them in any order. A log is read in its own
order if that is possible. If it is not, the rows of every instant are put in the order in which they can
happen: those that open the observation, then arrivals, resizes, departures and cancellations, and the end
last. If cores are those of classes, jobs that were present before leave before others arrive, and the totals
of the last row are what the instant leaves behind; totals on the way to it are held for no time, and a class
that is empty in passing holds none.

*Wrong rows.* A row that cannot be used says, mostly, that something happened to a job. If it were only passed
over, a job whose departure is lost would stay to the end, hold cores, and make every other job of its class
look slower. So a job with a wrong row is censored: it is cancelled at the last row that can be believed, and
what comes later of it is not used. Censoring of this kind does not depend on the size of a job, and moves no
estimate; only a little data is lost.

- Times that run backwards: as few rows as possible are taken to be wrong (a longest nondecreasing
  subsequence), so that one time far ahead does not condemn all that follows.
- An end that is not the last row is none.
- Where a line cannot be read at all, its job is unknown: jobs that are present to the end and have no row
  below it may be its, and are censored as well. So are they where more cores are held than there are, which
  is what a departure leaves behind that is not in the log.
- If cores are those of classes, a job's last row is its arrival, so it is censored at the wrong row instead,
  which comes at about the time at which it left.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from corewise.kit.arrays import Bools, Floats, Ints
from corewise.observation import _kernels
from corewise.observation.rows import NO_JOB, STEPS, Columns, EventKind, Fault, dense, find_faults, most_cores

__all__ = ["Repaired", "repaired", "with_ties_reordered"]

_RANKS = np.array([0, 1, 3, 5, 4, 6, 5])
"""The place of each `EventKind` within an instant."""

_FIRST_TO_LEAVE = 2
"""The place at which jobs that were there before leave, if cores are those of classes."""

_ROUNDS = 50  # in which a row that was left out makes others impossible


# --- ties -------------------------------------------------------------------------------------------


def with_ties_reordered(columns: Columns) -> tuple[Columns, Ints]:
    """Return the rows of every instant in an order that is possible, and which row each one was.

    Instants that are impossible in that order stay as they are.
    """
    instant = np.concatenate([[0], np.cumsum(columns.time[1:] != columns.time[:-1])])
    ordered, _ = _in_order(columns, instant, np.ones(instant[-1] + 1, dtype=np.bool_))
    _, faults = find_faults(ordered, lenient=True)
    return _in_order(columns, instant, np.bincount(instant, faults != Fault.NONE) == 0)


def _in_order(columns: Columns, instant: Ints, chosen: Bools) -> tuple[Columns, Ints]:
    """Return the rows with some instants in the order of ranks, and which row each one was."""
    rank = np.where(chosen[instant], _ranks(columns, instant), 0)
    order = np.lexsort((rank, instant))
    names, pool, time, event, job_class, job, cores = columns
    moved = Columns(names, pool, time, event[order], job_class[order], job[order], cores[order])
    if cores.ndim == 2:
        in_itself = np.all(moved.cores >= 0.0, axis=1) & (moved.cores.sum(axis=1) <= most_cores(pool))
        rows = np.flatnonzero(chosen[instant] & in_itself)  # what is wrong in itself stays so
        moved.cores[rows] = _totals(columns, moved, instant, rank[order])[rows]
    return moved, order


def _ranks(columns: Columns, instant: Ints) -> Ints:
    """Return the place of every row within its instant."""
    rank = _RANKS[columns.event]
    if columns.cores.ndim == 2:
        leaves = np.flatnonzero(STEPS[columns.event] < 0)
        rank[leaves[~_only_came_now(columns, instant, leaves)]] = _FIRST_TO_LEAVE
    return rank


def _only_came_now(columns: Columns, instant: Ints, leaves: Ints) -> Bools:
    """Return which of the rows at which jobs leave are of jobs that arrive in the same instant.

    Jobs without a name leave in the order of their arrival: those that were there before go first.
    """
    known, number = np.unique(columns.job, return_inverse=True)
    arrives = columns.event == EventKind.ARRIVAL
    came = np.full(known.size, -1)
    came[number[arrives]] = instant[arrives]
    found: Bools = came[number[leaves]] == instant[leaves]
    nameless = columns.job[leaves] == NO_JOB
    if np.any(nameless):
        first = np.searchsorted(instant, instant[leaves])  # row of each one's instant
        for i in range(len(columns.names)):
            own = np.where(columns.job_class == i, STEPS[columns.event], 0)
            there = np.concatenate([[0], np.cumsum(own)])
            left = np.concatenate([[0], np.cumsum(own < 0)])
            mine = nameless & (columns.job_class[leaves] == i)
            nth = left[leaves[mine] + 1] - left[first[mine]]
            found[mine] = nth > there[first[mine]]
    return found


def _totals(columns: Columns, moved: Columns, instant: Ints, rank: Ints) -> Floats:
    """Return the cores of every class after each moved row: the last totals of its instant in the file.

    Before the last of its jobs from before has left, the totals are still those before the instant. A class
    that is empty in passing holds none; what the instant leaves behind is not touched.
    """
    ends = np.flatnonzero(np.diff(instant, append=instant[-1] + 1))
    says = np.where(columns.event != EventKind.END, np.arange(instant.size), -1)
    last = np.maximum.accumulate(says)[ends]
    totals = columns.cores[np.where(instant[last] == instant[ends], last, ends)]
    passing = np.ones(instant.size, dtype=np.bool_)
    passing[ends] = False
    still = passing & (rank == _FIRST_TO_LEAVE) & (instant > 0)
    own = moved.job_class[:, None] == np.arange(len(moved.names))
    empty = np.cumsum(np.where(own, STEPS[moved.event][:, None], 0), axis=0) == 0
    return np.where(empty & passing[:, None], 0.0, totals[instant - still])


# --- wrong rows -------------------------------------------------------------------------------------


class Repaired(NamedTuple):
    """Repaired rows: a possible record, the fault of each row of the log, and how many jobs are censored."""

    columns: Columns
    faults: NDArray[np.int8]
    censored: int


def repaired(columns: Columns) -> Repaired:
    """Return the rows of a log without those that are wrong, and with the jobs they are about censored."""
    faults = _faults_of_time(columns)
    suspected = np.full(columns.job.size + 1, columns.job.size)  # where each job is taken to be broken
    guess = columns.cores.ndim == 1 or _guess_helps(columns, faults, suspected)
    cuts = _cuts(columns, faults, suspected, guess)
    for _ in range(_ROUNDS):
        if np.all(faults != Fault.NONE):
            return Repaired(_taken(columns, faults == Fault.NONE), faults, 0)
        rows, source = _with_cuts(columns, faults == Fault.NONE, cuts)
        ordered, order = with_ties_reordered(rows)
        _, found = find_faults(ordered, lenient=True)
        wrong = np.flatnonzero(found)
        if not wrong.size:
            return Repaired(ordered, faults, cuts.at.size)
        where = source[order[wrong]]
        if not (where >= 0).any():  # only cuts are left that are impossible
            cuts = cuts.without(-1 - where)
            continue
        kind, where = found[wrong][where >= 0], where[where >= 0]
        excess = np.flatnonzero(kind == Fault.TOO_MANY)
        if columns.cores.ndim == 1 and excess.size:
            # What is wrong before may be why, and so may a job be that has never left.
            earlier = where < where[excess[0]]
            if not earlier.any() and _suspect(columns, faults, suspected, int(where[excess[0]])):
                where, kind = where[:0], kind[:0]
            elif earlier.any():
                where, kind = where[earlier], kind[earlier]
        faults[where] = kind
        guess = columns.cores.ndim == 1 or _guess_helps(columns, faults, suspected)
        cuts = _cuts(columns, faults, suspected, guess)
    ordered, _ = with_ties_reordered(_with_cuts(columns, faults == Fault.NONE, _Censorings.none())[0])
    _, found = find_faults(ordered, lenient=True)
    return Repaired(_taken(ordered, found == Fault.NONE), faults, 0)


def _guess_helps(columns: Columns, faults: NDArray[np.int8], suspected: Ints) -> bool:
    """Return whether jobs that are not known to be wrong may be censored: a class that holds cores has some.

    Cutting one that stayed makes the rows after it impossible, and more of them than jobs are cut.
    """
    wrong, made = [], []
    for guess in (True, False):
        found = faults.copy()
        cuts = _cuts(columns, found, suspected, guess)
        if np.all(found != Fault.NONE):
            return False
        ordered, _ = with_ties_reordered(_with_cuts(columns, found == Fault.NONE, cuts)[0])
        wrong.append(int(np.count_nonzero(find_faults(ordered, lenient=True)[1])))
        made.append(cuts.at.size)
    return wrong[0] - wrong[1] <= made[0] - made[1]


def _suspect(columns: Columns, faults: NDArray[np.int8], suspected: Ints, row: int) -> bool:
    """Suspect the jobs that never leave and have no row from this one on; return whether any are new."""
    numbers, job = dense(columns.job)
    kept = (faults == Fault.NONE) & (job >= 0)
    last = np.full(numbers.size, columns.job.size)
    last[job[kept]] = np.flatnonzero(kept)  # the last of them stays
    stays = np.ones(numbers.size, dtype=np.bool_)
    stays[job[kept & (STEPS[columns.event] < 0)]] = False
    new = np.flatnonzero(stays & (last < row) & (suspected[: numbers.size] == columns.job.size))
    suspected[new] = row
    return bool(new.size)


class _Censorings(NamedTuple):
    """Jobs that are censored: after which row, of which class and number."""

    at: Ints
    job_class: Ints
    job: Ints

    @classmethod
    def none(cls) -> _Censorings:
        """Return that no job is censored."""
        nothing = np.empty(0, dtype=np.int64)
        return cls(nothing, nothing, nothing)

    def without(self, some: Ints) -> _Censorings:
        """Return the others."""
        kept = np.ones(self.at.size, dtype=np.bool_)
        kept[some] = False
        return _Censorings(self.at[kept], self.job_class[kept], self.job[kept])


def _faults_of_time(columns: Columns) -> NDArray[np.int8]:
    """Return the faults that can be found without those of other kinds: times, and ends that are none."""
    time, event = columns.time, columns.event
    faults = np.zeros(time.size, dtype=np.int8)
    finite = np.isfinite(time)
    faults[~finite] = Fault.NOT_FINITE
    rows = np.flatnonzero(finite)
    if np.any(np.diff(time[rows]) < 0.0):
        kept = np.zeros(rows.size, dtype=np.bool_)
        # Backwards: of two rows that exclude each other, the one below is taken to be wrong.
        _kernels.longest_rising(-time[rows][::-1], np.empty((2, rows.size), dtype=np.int64), kept)
        faults[rows[~kept[::-1]]] = Fault.BACKWARDS
    good = np.flatnonzero(faults == Fault.NONE)
    ends = good[event[good] == EventKind.END]
    faults[ends[ends != good[-1]] if good.size else ends] = Fault.EARLY_END
    return faults


def _cuts(columns: Columns, faults: NDArray[np.int8], suspected: Ints, guess: bool) -> _Censorings:
    """Return which jobs are to be censored, and write that what comes later of them is not used."""
    numbers, job = dense(columns.job)
    row = np.arange(job.size)
    good, named = faults == Fault.NONE, job >= 0
    first, last, broken = (np.full(numbers.size, end) for end in (job.size, -1, job.size))
    kept = good & named
    np.minimum.at(first, job[kept], row[kept])
    bad = np.flatnonzero(~good & named)
    np.minimum.at(broken, job[bad[bad > first[job[bad]]]], bad[bad > first[job[bad]]])
    gone = np.full(numbers.size, job.size)
    leaves = np.flatnonzero(kept & (STEPS[columns.event] < 0))
    gone[job[leaves]] = leaves
    broken = np.minimum(broken, suspected[: numbers.size])
    if guess:
        _mark_lost(faults, first, gone, broken, job)
    whose = np.flatnonzero((broken < gone) & (first < job.size))
    later = named & (row > np.append(np.where(broken < gone, broken, job.size), job.size)[job])
    faults[later & good] = Fault.BROKEN
    kept &= ~later
    np.maximum.at(last, job[kept], row[kept])
    owner = np.full(numbers.size, NO_JOB)
    owner[job[kept & (columns.job_class >= 0)]] = columns.job_class[kept & (columns.job_class >= 0)]
    at = last[whose] if columns.cores.ndim == 1 else broken[whose]
    at = np.maximum(at, _opening(columns, faults))
    nameless = _nameless(columns, faults)
    return _Censorings(
        np.append(at, nameless),
        np.append(owner[whose], columns.job_class[nameless]),
        np.append(numbers[whose], np.full(nameless.size, NO_JOB)),
    )


def _mark_lost(faults: NDArray[np.int8], first: Ints, gone: Ints, broken: Ints, job: Ints) -> None:
    """Take jobs that never leave to be broken at the first row below their last that has no known job."""
    strange = np.append(first == job.size, True)[job]  # no job, or one of which no row is good
    lost = np.flatnonzero((faults != Fault.NONE) & strange)
    if not lost.size:
        return
    last = np.full(first.size, -1)
    kept = (faults == Fault.NONE) & (job >= 0)
    np.maximum.at(last, job[kept], np.flatnonzero(kept))
    stays = np.flatnonzero((gone == job.size) & (first < job.size))
    place = np.searchsorted(lost, last[stays])
    some = place < lost.size
    broken[stays[some]] = np.minimum(broken[stays[some]], lost[place[some]])


def _nameless(columns: Columns, faults: NDArray[np.int8]) -> Ints:
    """Return the wrong rows at which a job without a name left: one of its class is censored there."""
    leaves = (faults != Fault.NONE) & (STEPS[columns.event] < 0) & (columns.job == NO_JOB)
    real = leaves & (columns.job_class != NO_JOB) & (columns.cores.ndim == 2)
    real &= ~np.isin(faults, (Fault.EMPTY_CLASS, Fault.AFTER_END, Fault.BACKWARDS))
    return np.flatnonzero(real)


def _opening(columns: Columns, faults: NDArray[np.int8]) -> int:
    """Return the last good row of those that open the observation, −1 if none does."""
    good = np.flatnonzero(faults == Fault.NONE)
    others = np.flatnonzero(columns.event[good] > EventKind.PRESENT)
    opens = good[: int(others[0]) if others.size else good.size]
    return int(opens[-1]) if opens.size else -1


def _with_cuts(columns: Columns, good: Bools, cuts: _Censorings) -> tuple[Columns, Ints]:
    """Return the good rows with a cancellation after each cut, and which row each was; −1, −2, … for cuts."""
    rows = np.flatnonzero(good)
    before = np.searchsorted(rows, cuts.at, side="right") - 1
    usable = before >= 0
    which = np.flatnonzero(usable)
    after = rows[before[usable]] if rows.size else np.empty(0, dtype=np.int64)
    order = np.lexsort((np.append(np.zeros(rows.size), np.ones(which.size)), np.append(rows, after)))
    source = np.append(rows, -1 - which)[order]
    of = np.append(rows, after)[order]  # the row that each has its time and totals from
    cut = source < 0
    event = columns.event[of].copy()
    job_class, job = columns.job_class[of].copy(), columns.job[of].copy()
    cores = columns.cores[of].copy()
    event[cut] = EventKind.CANCEL
    job_class[cut], job[cut] = cuts.job_class[-1 - source[cut]], cuts.job[-1 - source[cut]]
    if cores.ndim == 1:
        cores[cut] = np.nan
    else:
        _empty(cores, event, job_class, cut)
    return columns._replace(
        time=columns.time[of], event=event, job_class=job_class, job=job, cores=cores
    ), source


def _empty(cores: Floats, event: NDArray[np.int8], job_class: Ints, cut: Bools) -> None:
    """Let a class that a cut leaves without jobs hold none."""
    for i in range(cores.shape[1]):
        there = np.cumsum(np.where(job_class == i, STEPS[event], 0))
        cores[cut & (there <= 0), i] = 0.0


def _taken(columns: Columns, kept: Bools) -> Columns:
    names, pool, time, event, job_class, job, cores = columns
    return Columns(names, pool, time[kept], event[kept], job_class[kept], job[kept], cores[kept])
