"""Stretches of jobs: rows put in order job by job, and what cannot be believed cut short.

A job may have several rows: Slurm writes one more each time that it resizes or requeues a job, and a table of
one's own may have a row for every change of width. Rows of one name follow each other. After one that says
*resized*, or nothing at all, the next is the same job with other cores. After any other the name is used
again: for a job that was requeued, whose work is lost, and which begins anew.

What is wrong with a row does not take the job away: it arrived, and is cut short (as if cancelled) at the
last moment that can be believed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from corewise.kit.arrays import Bools, Floats, Ints
from corewise.observation.importers.outcomes import Outcome
from corewise.observation.importers.rows import JobRows, Verdict

__all__ = ["Stretches", "stretches_of"]


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
    """Return the stretches that rows are, and the verdict on every row."""
    verdict = rows.verdict.copy()
    verdict[np.isnan(rows.submit) & np.isnan(rows.start) & (verdict == Verdict.USED)] = Verdict.NO_TIME
    row = _ordered(rows, np.flatnonzero(~np.isin(verdict, [v for v in Verdict if v.drops])))
    key, outcome = rows.label_keys[row], rows.outcome[row].copy()
    start, end, cores = rows.start[row].copy(), rows.end[row].copy(), rows.cores[row]
    same = _shifted(key[1:] == key[:-1], row.size)
    goes_on = np.isin(outcome, (Outcome.RESIZED, Outcome.UNSAID))
    first = ~(same & _shifted(goes_on[:-1], row.size))
    later = np.flatnonzero(~first)
    start[later] = np.fmax(start[later], end[later - 1])  # Slurm repeats the first start
    end[later - 1] = np.fmin(end[later - 1], start[later])
    last = np.append(first[1:], True)[: row.size]
    _complete(start, end, cores, outcome, last)
    _judge(row, verdict, (start, end, cores, outcome), most_cores)
    kept = _cut(row, verdict, first, (start, end, outcome))
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
    ), verdict


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
    unsaid = outcome == Outcome.UNSAID
    outcome[unsaid & ~last] = Outcome.RESIZED
    outcome[unsaid & last & over & ran] = Outcome.DONE
    outcome[unsaid & last & ~over & ran] = Outcome.RUNNING
    outcome[unsaid & last & ~ran] = Outcome.WAITING
    outcome[last & (outcome == Outcome.RESIZED)] = Outcome.UNFINISHED  # nobody says how it went on
    start[(outcome == Outcome.UNFINISHED) & ~(cores > 0.0)] = np.nan  # it never ran
    start[outcome == Outcome.WAITING] = np.nan
    end[(outcome == Outcome.RUNNING) | (outcome == Outcome.WAITING)] = np.nan


def _judge(
    row: Ints,
    verdict: NDArray[np.int8],
    columns: tuple[Floats, Floats, Floats, NDArray[np.int8]],
    most_cores: float,
) -> None:
    """Write what cannot be believed of each stretch."""
    start, end, cores, outcome = columns
    over, ran = ~np.isnan(end), ~np.isnan(start)
    runs = np.isin(outcome, (Outcome.DONE, Outcome.RUNNING, Outcome.RESIZED))
    ends = np.isin(outcome, (Outcome.DONE, Outcome.UNFINISHED, Outcome.RESIZED))
    for what, where in (
        (Verdict.NO_START, runs & ~ran),
        (Verdict.NO_END, ends & ~over),
        (Verdict.BACKWARDS, ran & over & (end < start)),
        (Verdict.BAD_CORES, ran & ~((cores > 0.0) & (cores < np.inf))),
        (Verdict.TOO_MANY, ran & (cores > most_cores)),
    ):
        seen = row[where]
        verdict[seen[verdict[seen] == Verdict.USED]] = what


def _cut(
    row: Ints,
    verdict: NDArray[np.int8],
    first: Bools,
    columns: tuple[Floats, Floats, NDArray[np.int8]],
) -> Bools:
    """Cut jobs short where a stretch cannot be believed; return which stretches are left."""
    start, end, outcome = columns
    bad: Bools = verdict[row] != Verdict.USED
    if not bad.any():
        return ~bad
    seen_before: Ints = np.cumsum(bad) - bad
    after: Bools = seen_before > seen_before[first][np.cumsum(first) - 1]
    verdict[row[after & ~bad]] = Verdict.CUT_BEFORE
    cut = bad & ~after
    outcome[cut] = Outcome.UNFINISHED
    end[cut], start[cut] = start[cut], np.nan
    return np.asarray(~after)


def _times_before(key: NDArray[np.uint64], first: Bools) -> Ints:
    """Return for each stretch how many jobs of the same name were there before its own."""
    opens = np.flatnonzero(first)
    fresh = ~_shifted(key[opens][1:] == key[opens][:-1], opens.size)
    nth = np.arange(opens.size)
    again = nth - np.maximum.accumulate(np.where(fresh, nth, 0))
    return np.asarray(again[np.cumsum(first) - 1])
