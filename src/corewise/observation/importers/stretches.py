"""Stretches of jobs, and the events that they are: rows in order job by job, then in order of time.

A job may have several rows: Slurm writes one more each time that it resizes or requeues a job, and a table of
one's own may have a row for every change of width. Rows of one name follow each other. After one that says
*resized*, or nothing at all, the next is the same job with other cores. After any other the name is used
again: for a job that was requeued, whose work is lost, and which begins anew.

What is wrong with a row does not take the job away: it arrived, and is censored (as if cancelled) at the last
moment that can be believed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from corewise.kit.arrays import Bools, Floats, Ints
from corewise.observation.importers.outcomes import JobOutcome
from corewise.observation.importers.rows import JobRows, RowStatus
from corewise.observation.rows import NO_JOB, Columns, EventKind

__all__ = ["ObservationWindow", "Stretches", "events_of", "stretches_of", "ticks_of"]

_DIGITS = 15  # of a time: so many are read back as they were written
_MOST_DECIMALS = 9


@dataclass(frozen=True, eq=False)
class Stretches:
    """Stretches of jobs, those of one job after another.

    Attributes
    ----------
    row : ndarray of int
        The row that each comes from.
    first, last : ndarray of bool
        Whether it is the first, the last of its job.
    arrival, start, end : ndarray
        When the job arrived, and when the stretch began and ended; NaN where it did not.
    cores : ndarray
        What the job held meanwhile.
    outcome : ndarray of int8
        How the stretch ended: done, unfinished, resized; or still running, still waiting.
    again : ndarray of int
        How many jobs had the same name before.
    """

    row: Ints
    first: Bools
    last: Bools
    arrival: Floats
    start: Floats
    end: Floats
    cores: Floats
    outcome: NDArray[np.int8]
    again: Ints


def stretches_of(rows: JobRows, most_cores: float) -> tuple[Stretches, NDArray[np.int8]]:
    """Return the stretches that rows are, and the status of every row."""
    status = rows.status.copy()
    status[np.isnan(rows.submit) & np.isnan(rows.start) & (status == RowStatus.USED)] = RowStatus.NO_TIME
    row = _ordered(rows, np.flatnonzero(~np.isin(status, [v for v in RowStatus if v.drops])))
    key, outcome = rows.label_keys[row], rows.outcome[row].copy()
    start, end, cores = rows.start[row].copy(), rows.end[row].copy(), rows.cores[row]
    same = _shifted(key[1:] == key[:-1], row.size)
    goes_on = np.isin(outcome, (JobOutcome.RESIZED, JobOutcome.UNSAID))
    first = ~(same & _shifted(goes_on[:-1], row.size))
    later = np.flatnonzero(~first)
    start[later] = np.fmax(start[later], end[later - 1])  # Slurm repeats the first start
    end[later - 1] = np.fmin(end[later - 1], start[later])
    last = np.append(first[1:], True)[: row.size]
    _complete(start, end, cores, outcome, last)
    _mark(row, status, (start, end, cores, outcome), most_cores)
    kept = _cut(row, status, first, (start, end, outcome))
    again = _times_before(key, first)
    arrival = np.where(first, np.fmin(rows.submit[row], start), np.nan)
    arrival[first & np.isnan(arrival)] = rows.start[row][first & np.isnan(arrival)]
    first = first[kept]
    return Stretches(
        row[kept],
        first,
        np.append(first[1:], True)[: first.size],
        arrival[kept],
        start[kept],
        end[kept],
        cores[kept],
        outcome[kept],
        again[kept],
    ), status


def _shifted(flags: Bools, size: int) -> Bools:
    """Return what is said of the row before each; nothing of the first."""
    return np.asarray(np.concatenate([[False], flags])[:size], dtype=np.bool_)


def _ordered(rows: JobRows, kept: Ints) -> Ints:
    """Return rows in an order in which those of one name follow each other, from early to late."""
    key = np.sort(rows.label_keys[kept])
    if not np.any(key[1:] == key[:-1]):
        return kept
    ends = np.where(np.isnan(rows.end[kept]), np.inf, rows.end[kept])
    order = kept[np.lexsort((rows.line[kept], ends, rows.label_keys[kept]))]
    opens = np.flatnonzero(~_shifted(key[1:] == key[:-1], kept.size))
    earliest = np.minimum.reduceat(rows.line[order], opens)  # names come in the order of the file
    return np.asarray(order[np.argsort(np.repeat(earliest, np.diff(opens, append=kept.size)), kind="stable")])


def _complete(start: Floats, end: Floats, cores: Floats, outcome: NDArray[np.int8], last: Bools) -> None:
    """Write the outcome where a row says nothing of it, and forget times that it cannot have."""
    over, ran = ~np.isnan(end), ~np.isnan(start)
    unsaid = outcome == JobOutcome.UNSAID
    outcome[unsaid & ~last] = JobOutcome.RESIZED
    outcome[unsaid & last & over & ran] = JobOutcome.DONE
    outcome[unsaid & last & ~over & ran] = JobOutcome.RUNNING
    outcome[unsaid & last & ~ran] = JobOutcome.WAITING
    outcome[last & (outcome == JobOutcome.RESIZED)] = JobOutcome.UNFINISHED  # how it went on is unknown
    start[(outcome == JobOutcome.UNFINISHED) & ~(cores > 0.0)] = np.nan  # it never ran
    start[outcome == JobOutcome.WAITING] = np.nan
    end[(outcome == JobOutcome.RUNNING) | (outcome == JobOutcome.WAITING)] = np.nan


def _mark(
    row: Ints,
    status: NDArray[np.int8],
    columns: tuple[Floats, Floats, Floats, NDArray[np.int8]],
    most_cores: float,
) -> None:
    """Write what cannot be believed of each stretch."""
    start, end, cores, outcome = columns
    over, ran = ~np.isnan(end), ~np.isnan(start)
    runs = np.isin(outcome, (JobOutcome.DONE, JobOutcome.RUNNING, JobOutcome.RESIZED))
    ends = np.isin(outcome, (JobOutcome.DONE, JobOutcome.UNFINISHED, JobOutcome.RESIZED))
    for what, where in (
        (RowStatus.NO_START, runs & ~ran),
        (RowStatus.NO_END, ends & ~over),
        (RowStatus.BACKWARDS, ran & over & (end < start)),
        (RowStatus.BAD_CORES, ran & ~((cores > 0.0) & (cores < np.inf))),
        (RowStatus.TOO_MANY, ran & (cores > most_cores)),
    ):
        seen = row[where]
        status[seen[status[seen] == RowStatus.USED]] = what


def _cut(
    row: Ints,
    status: NDArray[np.int8],
    first: Bools,
    columns: tuple[Floats, Floats, NDArray[np.int8]],
) -> Bools:
    """Cut jobs short where a stretch cannot be believed; return which stretches are left."""
    start, end, outcome = columns
    bad: Bools = status[row] != RowStatus.USED
    if not bad.any():
        return ~bad
    seen_before: Ints = np.cumsum(bad) - bad
    after: Bools = seen_before > seen_before[first][np.cumsum(first) - 1]
    status[row[after & ~bad]] = RowStatus.CUT_BEFORE
    cut = bad & ~after
    outcome[cut] = JobOutcome.UNFINISHED
    end[cut], start[cut] = start[cut], np.nan
    return np.asarray(~after)


def _times_before(key: NDArray[np.uint64], first: Bools) -> Ints:
    """Return for each stretch how many jobs of the same name were there before its own."""
    opens = np.flatnonzero(first)
    fresh = ~_shifted(key[opens][1:] == key[opens][:-1], opens.size)
    nth = np.arange(opens.size)
    again = nth - np.maximum.accumulate(np.where(fresh, nth, 0))
    return np.asarray(again[np.cumsum(first) - 1])


# --- events -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ObservationWindow:
    """Window of observation in seconds, and the length of the unit that times are written in."""

    opens: float
    closes: float
    unit: float

    @property
    def decimals(self) -> int:
        """How many decimals times have."""
        whole = len(str(int((self.closes - self.opens) / self.unit)))
        return max(0, min(_MOST_DECIMALS, _DIGITS - whole))


def events_of(
    seen: Stretches, job: Ints, window: ObservationWindow, names: tuple[str, ...], job_class: Ints
) -> Columns:
    """Return the events of stretches in order of time, in a pool of infinitely many cores.

    A job arrives when it is submitted, with no cores until it starts. Its simultaneous rows come in the order
    in which they can happen: kinds of events are put one after another, and sorted by time without changing
    the order of equals.

    Parameters
    ----------
    seen : Stretches
        The stretches.
    job : ndarray of int
        The number of each one's job, −1 if it is left out.
    window : ObservationWindow
        When the observation opens and closes.
    names : tuple of str
        The classes.
    job_class : ndarray of int
        The class of each job.
    """
    opens, closes = window.opens, window.closes
    first, last = seen.first & (job >= 0), seen.last & (job >= 0)
    held = ~np.isnan(seen.start) & (job >= 0) & (seen.start <= closes)
    # A stretch that is over before the observation opens does not count; of one that is not, the rest does.
    held &= ~(seen.end <= opens) | (seen.start >= opens)
    begins = np.maximum(seen.start, opens)
    arrives = np.maximum(_of_first(seen.arrival, seen.first), opens)
    at_once = held & (begins == arrives)
    follows = np.append(held[1:] & ~seen.first[1:] & (seen.start[1:] == seen.end[:-1]), False)[: held.size]
    leaves_at = np.fmax(np.where(np.isnan(seen.end), -np.inf, seen.end), _of_first(seen.arrival, seen.first))
    over = np.isin(seen.outcome, (JobOutcome.DONE, JobOutcome.UNFINISHED))
    still = seen.end == seen.start
    parts = [_edge(EventKind.START, opens)]
    there = _of_first(seen.arrival, seen.first) < opens
    opening = _held_at_once(seen, at_once)
    for kind, some in ((EventKind.PRESENT, first & there), (EventKind.ARRIVAL, first & ~there)):
        parts.append(_rows(kind, job[some], arrives[some], opening[some]))
    gap = held & ~seen.last & ~follows & ~still & (seen.end <= closes)
    parts.append(_rows(EventKind.RESIZE, job[gap], seen.end[gap], np.zeros(int(gap.sum()))))
    grows = held & ~at_once & ~(still & ~seen.last)
    parts.append(_rows(EventKind.RESIZE, job[grows], begins[grows], seen.cores[grows]))
    ends = last & over & (leaves_at <= closes)
    kinds = np.where(seen.outcome[ends] == JobOutcome.DONE, EventKind.DEPARTURE, EventKind.CANCEL)
    parts.append(_rows(kinds, job[ends], leaves_at[ends], np.full(int(ends.sum()), np.nan)))
    parts.append(_edge(EventKind.END, closes))
    return _sorted(parts, window, names, job_class)


Part = tuple[NDArray[np.int8], Ints, Floats, Floats]


def _rows(kind: EventKind | Ints, job: Ints, at: Floats, cores: Floats) -> Part:
    return np.broadcast_to(np.asarray(kind, dtype=np.int8), job.shape), job, at, cores


def _edge(kind: EventKind, at: float) -> Part:
    return _rows(kind, np.array([-1]), np.array([at]), np.array([np.nan]))


def _of_first(values: Floats, first: Bools) -> Floats:
    """Return for each stretch the value of the first one of its job."""
    return np.asarray(values[first][np.cumsum(first) - 1]) if first.any() else values


def _held_at_once(seen: Stretches, at_once: Bools) -> Floats:
    """Return what a job holds when it arrives, at its first stretch: that of whichever begins then."""
    opening = np.zeros(seen.row.size)
    opens = np.flatnonzero(seen.first)
    which = np.flatnonzero(at_once)
    opening[opens[np.cumsum(seen.first)[which] - 1]] = seen.cores[which]  # the last of them counts
    return opening


def _sorted(parts: list[Part], window: ObservationWindow, names: tuple[str, ...], job_class: Ints) -> Columns:
    scale = 10.0**window.decimals / window.unit
    ticks = np.concatenate([np.rint((at - window.opens) * scale).astype(np.int64) for _, _, at, _ in parts])
    # The end comes last of its instant, whatever else happens then.
    order = np.argsort(ticks, kind="stable")
    kind, job, _, cores = (np.concatenate(column)[order] for column in zip(*parts, strict=True))
    classes = np.append(job_class, NO_JOB)[job]  # no job, −1, finds the last
    return Columns(names, np.inf, ticks[order] / 10.0**window.decimals, kind, classes, job, cores)


def ticks_of(time: Floats, decimals: int) -> Ints:
    """Return times as whole numbers of units of 10^−decimals, which they are up to rounding."""
    return np.rint(time * 10.0**decimals).astype(np.int64)
