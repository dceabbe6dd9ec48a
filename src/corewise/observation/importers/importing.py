"""Importing: a log that another program wrote becomes an event log, and every row is accounted for."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from corewise.errors import InvalidFile, InvalidInput, nearest
from corewise.kit.arrays import Bools, Ints
from corewise.kit.files import require_path
from corewise.model.units import UNITS
from corewise.observation.importers import _kernels
from corewise.observation.importers.base import Importer, LogSource
from corewise.observation.importers.clock import TimeFormat, at_time, to_utc, zone_named
from corewise.observation.importers.elastisim import ElastiSim
from corewise.observation.importers.imported import ImportedJobs, ImportedLog, RowAccount
from corewise.observation.importers.options import ImportOptions
from corewise.observation.importers.outcomes import JobOutcome
from corewise.observation.importers.rows import JobRows, RowStatus
from corewise.observation.importers.slurm import SlurmCompletions, SlurmJson, SlurmTable
from corewise.observation.importers.stretches import (
    ObservationWindow,
    Stretches,
    events_of,
    stretches_of,
    ticks_of,
)
from corewise.observation.importers.swf import Swf
from corewise.observation.importers.table import PHILLY, POLLUX, CsvTable, ParquetTable

__all__ = ["IMPORTERS", "import_log"]

_MOST_CORES = 999_999.0
"""A job that is said to hold more cores is not believed, unless the pool is said to be larger."""

IMPORTERS: dict[str, Importer] = {
    importer.name: importer
    for importer in (
        SlurmTable(), SlurmJson(), SlurmCompletions(), Swf(), POLLUX, PHILLY, ElastiSim(), ParquetTable(),
        CsvTable(),
    )
}  # fmt: skip
"""Every importer by its name; the first that recognises a file is taken, so the most general comes last."""

_OTHER = "other"
_DATE = re.compile(r"\d{1,4}\s?[./-]\s?\d{1,2}[./-]\s?\d{1,4}|\d[ -][A-Za-z]{3}|[A-Za-z]{3,} \d")
_EXAMPLE = "'%d.%m.%Y %H:%M:%S'"


def import_log(
    path: str | os.PathLike[str],
    options: ImportOptions | None = None,
    *,
    progress: Callable[[float], None] = lambda _: None,
) -> ImportedLog:
    """Return the log that another program wrote, as events.

    Parameters
    ----------
    path : str or path
        The file, compressed or not; its format is known by its content.
    options : ImportOptions, optional
        What its format does not say.
    progress : callable, optional
        Called with the part of the file that has been read, from 0 to 1.

    Raises
    ------
    InvalidFile
        If it cannot be read, is of no format that is known, or none of its rows can be used.
    """
    require_path(path)
    name, how = os.fspath(path), options or ImportOptions()
    if Path(name).is_dir():
        raise InvalidFile(f"{name}: a directory, not a log")
    source = LogSource(name, progress)
    try:
        importer = _importer_for(source, how.format)
        rows = _in_utc(importer.read(source, how.wanted), how)
        return _assembled(rows, importer.name, how)
    except InvalidFile:
        raise
    except InvalidInput as error:
        raise InvalidFile(f"{name}: {error}") from None


def _importer_for(source: LogSource, name: str | None = None) -> Importer:
    """Return the importer of a name, or the one that recognises a file."""
    if name is not None:
        if name not in IMPORTERS:
            raise InvalidInput(f"unknown format {name!r}{nearest(name, list(IMPORTERS))}")
        return IMPORTERS[name]
    head = source.head()
    if not head.strip():
        raise InvalidInput("an empty file, not a log")
    for importer in IMPORTERS.values():
        if importer.recognises(head):
            return importer
    raise InvalidInput(f"not a log of a format that is known: {', '.join(IMPORTERS)}")


def _in_utc(rows: JobRows, how: ImportOptions) -> JobRows:
    """Return the rows with local times as times of UTC, if their zone is known."""
    if how.zone is None:
        return rows
    zone = zone_named(how.zone)
    if rows.clock != "local":
        return rows
    submit = to_utc(rows.submit, zone)
    start = to_utc(rows.start, zone, submit)
    end = to_utc(rows.end, zone, np.where(np.isnan(start), submit, start))
    return replace(rows, submit=submit, start=start, end=end, clock="zoned")


def _assembled(rows: JobRows, name: str, how: ImportOptions) -> ImportedLog:
    said = how.pool if how.pool is not None else rows.pool
    most = float(np.fmax(_MOST_CORES, said)) if how.pool is None else said
    seen, status = stretches_of(rows, most)
    if not np.any(status == RowStatus.USED):
        raise InvalidInput(_useless(RowAccount(rows.line, status, rows.values), how))
    window = _window(seen, rows, how)
    inside = _inside(seen, window)
    status[seen.row[~inside]] = RowStatus.OUTSIDE
    account = RowAccount(rows.line, status, rows.values)
    if not inside.any():
        raise InvalidInput("no job is there between --since and --until")
    job = np.where(inside, np.cumsum(seen.first & inside) - 1, -1)
    opens = seen.first & inside
    job_class, names = _largest(rows.job_class[seen.row[opens]], rows.names, how.most_classes)
    columns = events_of(seen, job, window, names, job_class)
    jobs = ImportedJobs(job_class, seen.row[opens], seen.again[opens], rows.labels, rows.label_ends)
    ticks = ticks_of(columns.time, window.decimals)
    peak = float(_kernels.most_held(ticks, columns.job, columns.cores, np.zeros(jobs.row.size)))
    pool = max(peak, said) if said > 0.0 else max(peak, 1.0)
    notes = (*rows.notes, *_dates(account, how), *_notes(rows, seen, how, peak, said))
    return ImportedLog(
        name, names, pool, peak, how.unit, _origin(rows, window), notes, account,
        columns._replace(pool=pool), window.decimals, jobs,
    )  # fmt: skip


def _window(seen: Stretches, rows: JobRows, how: ImportOptions) -> ObservationWindow:
    """Return when the observation opens and closes."""
    moments = (seen.arrival, seen.start, seen.end)
    ends = [_asked(how.since, "--since", rows, how), _asked(how.until, "--until", rows, how)]
    opens = float(np.nanmin(seen.arrival)) if ends[0] is None else ends[0]
    closes = (
        max(float(np.nanmax(m)) for m in moments if not np.all(np.isnan(m))) if ends[1] is None else ends[1]
    )
    if not closes >= opens:
        raise InvalidInput(f"the observation would close ({closes:g}) before it opens ({opens:g})")
    return ObservationWindow(opens, closes, UNITS[how.unit])


def _asked(text: str | None, option: str, rows: JobRows, how: ImportOptions) -> float | None:
    """Return the time that an option asks for, on the clock of the rows."""
    if text is None:
        return None
    value, clock = at_time(text, option, TimeFormat(how.time_format))
    if clock == "local" and how.zone is not None:
        value, clock = float(to_utc(np.array([value]), zone_named(how.zone))[0]), "zoned"
    if clock == "zoned" and rows.clock == "numbers":  # seconds since 1970, or since what the file says
        return value - (0.0 if math.isnan(rows.zero) else rows.zero)
    if clock != rows.clock:
        raise InvalidInput(f"{option} {text!r} must be written as the times of the file are")
    return value


def _inside(seen: Stretches, window: ObservationWindow) -> Bools:
    """Return which stretches are of jobs that are there while the observation lasts."""
    which = np.cumsum(seen.first) - 1
    arrival = seen.arrival[seen.first]
    stays = np.isnan(seen.end[seen.last]) & (seen.outcome[seen.last] != JobOutcome.UNFINISHED)
    leaves = np.where(stays, np.inf, seen.end[seen.last])
    leaves = np.fmax(leaves, arrival)
    there = (arrival <= window.closes) & ((leaves > window.opens) | (arrival >= window.opens))
    return np.asarray(there[which])


def _largest(codes: Ints, names: tuple[str, ...], most: int) -> tuple[Ints, tuple[str, ...]]:
    """Return the classes with most jobs, as so many names, the others as one."""
    counts = np.bincount(codes, minlength=len(names))
    order = np.argsort(-counts, kind="stable")
    order = order[counts[order] > 0]
    kept = order if order.size <= most else order[: most - 1]
    kept = kept[[names[i] != _OTHER for i in kept]] if order.size > most else kept
    chosen = [names[i] for i in kept.tolist()]
    place = np.full(len(names), len(chosen))
    place[kept] = np.arange(kept.size)
    return place[codes], (*chosen, _OTHER) if kept.size < order.size else tuple(chosen)


def _origin(rows: JobRows, window: ObservationWindow) -> float | None:
    """Return when the observation opens in seconds since 1970, if that is known."""
    if rows.clock == "zoned":
        return window.opens
    if rows.clock == "numbers" and not math.isnan(rows.zero):
        return window.opens + rows.zero
    return window.opens if rows.clock == "numbers" and window.opens > 1e8 else None


def _notes(rows: JobRows, seen: Stretches, how: ImportOptions, peak: float, said: float) -> list[str]:
    notes = []
    if rows.clock == "local" and how.zone is None:
        notes.append("times are without a zone, taken as they are; --zone accounts for changes of the clock")
    if peak > said * (1.0 + 1e-6):
        notes.append(f"up to {peak:g} cores are held at a time, and there are said to be {said:g}")
    again = int(np.count_nonzero(seen.again[seen.first]))
    if again:
        notes.append(
            f"{again} jobs have the name of one before (requeued, or a name used again): each its own job"
        )
    return notes


def _dates(account: RowAccount, how: ImportOptions) -> list[str]:
    """Return which field is most likely a date that is written in an unusual way."""
    unread = np.isin(account.status, (RowStatus.BAD_TIME, RowStatus.BAD_START, RowStatus.BAD_END))
    for line in account.line[unread].tolist():
        shown = account.values.get(line, "")
        if not how.time_format and _DATE.search(shown):
            return [f"line {line}: {shown} looks like a date: --time-format says how, such as {_EXAMPLE}"]
        if how.time_format and "%" in how.time_format and shown:
            return [f"line {line}: {shown} is not written as --time-format {how.time_format!r} says"]
    return []


def _useless(account: RowAccount, how: ImportOptions) -> str:
    """Return that no row can be used, and why not the first."""
    if not account.rows:
        return "no rows"
    return "; ".join([f"none of {account.rows} rows can be used", account.lines()[0], *_dates(account, how)])
