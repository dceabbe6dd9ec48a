"""Imported logs: the events that a file of another program comes down to, and an account of every row."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import IO

import numpy as np
from numpy.typing import NDArray

from corewise.kit.arrays import Ints
from corewise.kit.files import writing
from corewise.kit.report import Report, Reported, Table
from corewise.observation.importers import _kernels
from corewise.observation.importers.clock import shown_time
from corewise.observation.importers.rows import RowStatus
from corewise.observation.importers.stretches import ticks_of
from corewise.observation.rows import EVENT_NAMES, Columns
from corewise.observation.sample_path import SamplePath

__all__ = ["ImportedJobs", "ImportedLog", "RowAccount"]

_BLOCK_ROWS = 500_000  # written at a time
_SHOWN = 8  # classes in a table
_NUMBERS = 48  # bytes that a time, the cores and what separates fields may take


@dataclass(frozen=True, eq=False)
class ImportedJobs:
    """Jobs of an imported log: class, and where the name of each is."""

    job_class: Ints
    row: Ints
    again: Ints
    labels: NDArray[np.uint8]
    label_ends: Ints


@dataclass(frozen=True, eq=False)
class RowAccount:
    """Account of the rows of a file: what was made of each.

    Attributes
    ----------
    line : ndarray of int
        The line of each row.
    status : ndarray of int8
        A `RowStatus`.
    values : mapping
        The offending field, by line, of the first rows that have one.
    """

    line: Ints
    status: NDArray[np.int8]
    values: Mapping[int, str]

    @property
    def rows(self) -> int:
        """How many rows there were."""
        return self.line.size

    def count(self, *, drops: bool) -> dict[RowStatus, int]:
        """Return how many rows were dropped, or else censored, by reason."""
        counts = np.bincount(self.status, minlength=len(RowStatus))
        return {
            v: int(counts[v]) for v in RowStatus if counts[v] and v.drops is drops and v != RowStatus.USED
        }

    def lines(self) -> list[str]:
        """Return what is wrong with each row that was not used as it is."""
        order = np.flatnonzero(self.status != RowStatus.USED)
        return [
            f"line {line}: {RowStatus(status).reason}{_value(self.values.get(line))}"
            for line, status in zip(self.line[order].tolist(), self.status[order].tolist(), strict=True)
        ]


def _value(shown: str | None) -> str:
    return "" if shown is None else f" ({shown})"


@dataclass(frozen=True, eq=False, repr=False)
class ImportedLog(Reported):
    """Imported log: events in the per-job form, in order of time.

    Attributes
    ----------
    format : str
        The format that the file had.
    names : tuple of str
        The classes, those with most jobs first.
    pool : float
        The cores there are: as given, as the file says, or else the most that were held.
    peak : float
        The most cores that were held at a time.
    unit : str
        The unit of its times.
    origin : float or None
        When its time is zero, in seconds since 1970; None if that is unknown.
    notes : tuple of str
        What a user of it should know.
    account : RowAccount
        What was made of every row.
    """

    _repr_fields = ("format", "names", "jobs", "departures", "cancellations", "pool")
    _json_fields = (
        *("format", "rows=account.rows", "jobs", "dropped", "cut_short=censored", "events=rows"),
        *("departures", "unfinished=cancellations", "classes", "cores=pool", "most_held=peak", "unit"),
        *("time=duration", "origin", "notes"),
    )

    format: str
    names: tuple[str, ...]
    pool: float
    peak: float
    unit: str
    origin: float | None
    notes: tuple[str, ...]
    account: RowAccount
    _columns: Columns
    _decimals: int
    _jobs: ImportedJobs

    @property
    def rows(self) -> int:
        """The number of events."""
        return self._columns.time.size

    @property
    def jobs(self) -> int:
        """The number of jobs."""
        return self._jobs.row.size

    @property
    def duration(self) -> float:
        """How long the observation lasts, in its unit."""
        return float(self._columns.time[-1])

    def events(self, kind: str) -> int:
        """Return how many events there are of a kind, such as ``"departure"``."""
        return int(np.count_nonzero(self._columns.event == EVENT_NAMES[kind]))

    @property
    def departures(self) -> int:
        """The number of jobs that were done."""
        return self.events("departure")

    @property
    def cancellations(self) -> int:
        """The number of jobs that left unfinished."""
        return self.events("cancel")

    @property
    def jobs_by_class(self) -> Mapping[str, int]:
        """The number of jobs of each class."""
        counts = np.bincount(self._jobs.job_class, minlength=len(self.names))
        return dict(zip(self.names, counts.tolist(), strict=True))

    @property
    def classes(self) -> tuple[Mapping[str, object], ...]:
        """Name and number of jobs of each class."""
        return tuple({"name": name, "jobs": jobs} for name, jobs in self.jobs_by_class.items())

    @property
    def dropped(self) -> Mapping[str, int]:
        """How many rows were dropped, by reason."""
        return {status.name.lower(): rows for status, rows in self.account.count(drops=True).items()}

    @property
    def censored(self) -> Mapping[str, int]:
        """How many rows were censored, by reason."""
        return {status.name.lower(): rows for status, rows in self.account.count(drops=False).items()}

    def report(self) -> Report:
        """Return what was made of the rows, the jobs, and the number of them in the largest classes."""
        here = self.jobs - self.departures - self.cancellations
        done = f"{self.departures:,} done, {self.cancellations:,} left unfinished, {here:,} still there"
        opens = f", from {shown_time(self.origin)}" if self.origin is not None else ""
        facts: list[tuple[str, object]] = [
            ("format", self.format),
            ("rows", self.account.rows),
            *_reasons("dropped", self.account.count(drops=True)),
            *_reasons("censored", self.account.count(drops=False)),
            ("jobs", f"{self.jobs:,}: {done}"),
            ("time", f"{self.duration:,.6g} {self.unit}{opens}"),
            ("cores", f"{self.pool:g}, of which {self.peak:g} were held at most"),
            *(("note", note) for note in self.notes),
        ]
        if not self.departures:
            facts.append(("warning", "no job is done: nothing can be learned of curves from it"))
        by_class = list(self.jobs_by_class.items())
        rows = by_class[:_SHOWN]
        if len(by_class) > _SHOWN:
            rows.append((f"and {len(by_class) - _SHOWN} more", sum(jobs for _, jobs in by_class[_SHOWN:])))
        return Report("Imported log", facts, [Table(["class", "jobs"], rows)])

    @cached_property
    def path(self) -> SamplePath:
        """The events as a sample path; jobs are numbered."""
        return SamplePath(*self._columns)

    def save(self, file: str | os.PathLike[str]) -> None:
        """Write it as an event log, whole or not at all; compressed if its name ends in ``.gz``."""
        packed = str(file).endswith(".gz")
        with (
            writing(file) as target,
            gzip.GzipFile("", "wb", 6, target, 0) if packed else nullcontext(target) as out,
        ):
            self._write(out)

    def _write(self, out: IO[bytes] | gzip.GzipFile) -> None:
        out.write(b"time,event,class,job,cores\n")
        seen, jobs = self._columns, self._jobs
        ticks = ticks_of(seen.time, self._decimals)
        events, event_ends = _texts(list(EVENT_NAMES))
        names, name_ends = _texts([_quoted(name) for name in self.names])
        labels, label_ends = _safe_labels(jobs.labels, jobs.label_ends)
        longest = int(np.diff(label_ends).max(initial=0)) + int(np.diff(name_ends).max()) + 20
        buffer = np.empty(min(_BLOCK_ROWS, self.rows) * (_NUMBERS + longest), dtype=np.uint8)
        for begin in range(0, self.rows, _BLOCK_ROWS):
            part = slice(begin, begin + _BLOCK_ROWS)
            size = _kernels.write_lines(
                ticks[part], self._decimals, seen.event[part], seen.job[part], seen.cores[part],
                jobs.job_class, jobs.row, jobs.again,
                events, event_ends, names, name_ends, labels, label_ends, buffer,
            )  # fmt: skip
            out.write(buffer[:size].data)


def _reasons(what: str, counts: Mapping[RowStatus, int]) -> Iterator[tuple[str, str]]:
    """Yield how many rows there are of each reason, most first; the heading is not repeated."""
    for status, count in sorted(counts.items(), key=lambda found: -found[1]):
        yield what, f"{count:,}: {status.reason}"
        what = ""


def _texts(texts: list[str]) -> tuple[NDArray[np.uint8], Ints]:
    encoded = [text.encode() for text in texts]
    ends = np.cumsum([0, *map(len, encoded)])
    return np.frombuffer(b"".join(encoded), dtype=np.uint8), ends


def _quoted(name: str) -> str:
    """Return a name as a field of CSV."""
    return '"' + name.replace('"', '""') + '"' if set(name) & set(',"\r\n') or name != name.strip() else name


def _safe_labels(labels: NDArray[np.uint8], ends: Ints) -> tuple[NDArray[np.uint8], Ints]:
    """Return labels in which nothing needs quotes."""
    special = np.isin(labels, np.frombuffer(b',"\r\n', dtype=np.uint8))
    if not special.any():
        return labels, ends
    return np.where(special, np.uint8(ord("_")), labels), ends
