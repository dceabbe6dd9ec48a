"""Mending: a log with wrong rows, read so that they do not mislead.

A row that cannot be used says, mostly, that something happened to a job. If it were only passed over, a job
whose departure is lost would stay to the end, hold cores, and make every other job of its class look slower.
So a job that is broken in the log is cut short: it is cancelled at the last row that can be believed, and
what comes later of it is not used. Censoring of this kind does not depend on the size of a job, and moves no
estimate; only a little data is lost.

- Times that run backwards: as few rows as possible are taken to be wrong (a longest nondecreasing
  subsequence), so that one time far ahead does not condemn all that follows.
- An end that is not the last row is none.
- Where a line cannot be read at all, nobody knows whose it was: jobs that are there to the end and have no
  row below it may be its, and are cut short as well. So are they where more cores are held than there are,
  which is what a departure leaves behind that is not in the log.
- If cores are those of classes, a job's last row is its arrival, so it is cut short at the wrong row instead,
  which comes at about the time at which it left.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from corewise.kit.arrays import Bools, Floats, Ints
from corewise.observation import _kernels
from corewise.observation.instants import settled
from corewise.observation.rows import NOBODY, STEPS, Columns, Event, Fault, dense, find_faults

__all__ = ["Mended", "mended"]

_ROUNDS = 50  # in which a row that was left out makes others impossible


class Mended(NamedTuple):
    """Mended rows: a possible record, what was wrong with each row of the log, and how many jobs were cut."""

    columns: Columns
    faults: NDArray[np.int8]
    cut: int


def mended(columns: Columns) -> Mended:
    """Return the rows of a log with what cannot be believed left out, and the jobs it was about cut short."""
    faults = _faults_of_time(columns)
    suspected = np.full(columns.job.size + 1, columns.job.size)  # where each job is taken to be broken
    guess = columns.cores.ndim == 1 or _guess_helps(columns, faults, suspected)
    cuts = _cuts(columns, faults, suspected, guess)
    for _ in range(_ROUNDS):
        if np.all(faults != Fault.NONE):
            return Mended(_taken(columns, faults == Fault.NONE), faults, 0)
        rows, source = _with_cuts(columns, faults == Fault.NONE, cuts)
        ordered, order = settled(rows)
        _, found = find_faults(ordered, lenient=True)
        wrong = np.flatnonzero(found)
        if not wrong.size:
            return Mended(ordered, faults, cuts.at.size)
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
    ordered, _ = settled(_with_cuts(columns, faults == Fault.NONE, _Cuts.none())[0])
    _, found = find_faults(ordered, lenient=True)
    return Mended(_taken(ordered, found == Fault.NONE), faults, 0)


def _guess_helps(columns: Columns, faults: NDArray[np.int8], suspected: Ints) -> bool:
    """Return whether jobs that nobody knows to be broken may be cut short: a class that holds cores has some.

    Cutting one that stayed makes the rows after it impossible, and more of them than jobs are cut.
    """
    wrong, made = [], []
    for guess in (True, False):
        found = faults.copy()
        cuts = _cuts(columns, found, suspected, guess)
        if np.all(found != Fault.NONE):
            return False
        ordered, _ = settled(_with_cuts(columns, found == Fault.NONE, cuts)[0])
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


class _Cuts(NamedTuple):
    """Jobs that are cut short: after which row, of which class and number."""

    at: Ints
    job_class: Ints
    job: Ints

    @classmethod
    def none(cls) -> _Cuts:
        """Return that nobody is."""
        nothing = np.empty(0, dtype=np.int64)
        return cls(nothing, nothing, nothing)

    def without(self, some: Ints) -> _Cuts:
        """Return the others."""
        kept = np.ones(self.at.size, dtype=np.bool_)
        kept[some] = False
        return _Cuts(self.at[kept], self.job_class[kept], self.job[kept])


def _faults_of_time(columns: Columns) -> NDArray[np.int8]:
    """Return the faults that can be told without those of other kinds: times, and ends that are none."""
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
    ends = good[event[good] == Event.END]
    faults[ends[ends != good[-1]] if good.size else ends] = Fault.EARLY_END
    return faults


def _cuts(columns: Columns, faults: NDArray[np.int8], suspected: Ints, guess: bool) -> _Cuts:
    """Return which jobs are to be cut short, and write that what comes later of them is not used."""
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
    owner = np.full(numbers.size, NOBODY)
    owner[job[kept & (columns.job_class >= 0)]] = columns.job_class[kept & (columns.job_class >= 0)]
    at = last[whose] if columns.cores.ndim == 1 else broken[whose]
    at = np.maximum(at, _opening(columns, faults))
    nameless = _nameless(columns, faults)
    return _Cuts(
        np.append(at, nameless),
        np.append(owner[whose], columns.job_class[nameless]),
        np.append(numbers[whose], np.full(nameless.size, NOBODY)),
    )


def _mark_lost(faults: NDArray[np.int8], first: Ints, gone: Ints, broken: Ints, job: Ints) -> None:
    """Take jobs that never leave to be broken at the first row below their last that is about nobody."""
    strange = np.append(first == job.size, True)[job]  # nobody, or a job of whom nothing is good
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
    """Return the wrong rows at which a job without a name left: one of its class is cut short there."""
    leaves = (faults != Fault.NONE) & (STEPS[columns.event] < 0) & (columns.job == NOBODY)
    real = leaves & (columns.job_class != NOBODY) & (columns.cores.ndim == 2)
    real &= ~np.isin(faults, (Fault.EMPTY_CLASS, Fault.AFTER_END, Fault.BACKWARDS))
    return np.flatnonzero(real)


def _opening(columns: Columns, faults: NDArray[np.int8]) -> int:
    """Return the last good row of those that open the observation, −1 if none does."""
    good = np.flatnonzero(faults == Fault.NONE)
    others = np.flatnonzero(columns.event[good] > Event.PRESENT)
    opens = good[: int(others[0]) if others.size else good.size]
    return int(opens[-1]) if opens.size else -1


def _with_cuts(columns: Columns, good: Bools, cuts: _Cuts) -> tuple[Columns, Ints]:
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
    event[cut] = Event.CANCEL
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
