"""Event logs: CSV on disk to a `SamplePath` and back.

A log has one row per event, in order of time, in one of two forms. Either every row has the cores of every
class, shared equally by its jobs from this event until the next::

    time,event,class,job,cores:one,cores:two
    0.0,start,,,0.0,0.0
    0.0,present,one,0,30.0,0.0
    0.41,arrival,two,1,10.0,20.0
    0.97,departure,one,0,0.0,30.0
    1.5,end,,,0.0,30.0

or a row has the cores of its own job, and then every row about a job names it::

    time,event,class,job,cores
    0.0,start,,,
    0.0,present,one,0,30.0
    0.41,arrival,two,1,20.0
    0.41,resize,one,0,10.0
    0.97,departure,one,0,
    0.97,resize,two,1,30.0
    1.5,end,,,

`start`, `present` and `end` may be missing: the log then opens at its first row with an empty system, and
closes at its last. Numbers are written so that they come back bit for bit.
"""

from __future__ import annotations

import gzip
import io
import os
import zlib
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from math import isnan
from pathlib import Path

from corewise.errors import InvalidFile, InvalidInput
from corewise.kit.encodings import opened_as_utf8
from corewise.kit.files import reason_of, require_path, write_bytes
from corewise.kit.report import Summarised
from corewise.kit.values import ByValue
from corewise.model.job_class import JobClass
from corewise.model.speedup import Amdahl
from corewise.model.system import System, require_system
from corewise.observation.log_reader import LogReader
from corewise.observation.rows import EVENT_NAMES
from corewise.observation.sample_path import NO_JOB, SamplePath
from corewise.observation.statistics import Statistics

__all__ = ["EventLog", "load_events", "load_unknown_log", "save_events"]

_BLOCK_ROWS = 50_000  # written at a time
_SQLITE_HEAD = b"SQLite format 3\0"  # the first bytes of every database


@dataclass(frozen=True, eq=False, repr=False)
class EventLog(ByValue, Summarised):
    """Event log: the sample path that was read from a file, and the rows that were skipped.

    Attributes
    ----------
    path : SamplePath
        The record.
    rows : int
        The rows of the file, without its header and blank lines.
    skipped : int
        How many of them could not be used.
    reasons : tuple of str
        Why, for the first few, with their lines.
    censored : int
        How many jobs are censored where the log is wrong about them.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import corewise as cw
    >>> system = cw.load_system("paper:1")
    >>> run = cw.simulate(system, "equi", departures=100, rng=7, record=True)
    >>> with TemporaryDirectory() as folder:
    ...     cw.save_events(run.path, Path(folder) / "log.csv")
    ...     log = cw.load_events(Path(folder) / "log.csv", system)
    >>> log.rows == run.path.time.size, log.skipped, log.reasons
    (True, 0, ())
    >>> log.statistics.departures
    100
    """

    _json_fields = (
        *("rows", "skipped", "skipped_reasons=reasons", "cut_short=censored", "warning"),
        *("arrivals=path.arrivals", "departures=path.departures", "time=path.duration"),
    )

    path: SamplePath
    rows: int
    skipped: int
    reasons: tuple[str, ...]
    censored: int = 0

    @property
    def statistics(self) -> Statistics:
        """The sufficient statistics of the path."""
        return self.path.statistics

    @property
    def warning(self) -> str | None:
        """What was done about rows that cannot be used; None if there are none."""
        done = "jobs that such rows are about are censored there, as if they were cancelled"
        return f"{self.censored:,} {done}" if self.skipped else None

    def __str__(self) -> str:
        """Return the record in one line, and what was skipped in some more."""
        if not self.skipped:
            return str(self.path)
        more = ["  …"] if self.skipped > len(self.reasons) else []
        censored = f", {self.censored} jobs censored there" if self.censored else ""
        lines = [
            f"{self.skipped} of {self.rows} rows skipped{censored}",
            *(f"  {reason}" for reason in self.reasons),
        ]
        return "\n".join([str(self.path), *lines, *more])

    def _summary(self) -> Mapping[str, object]:
        path = self.path
        counts = {"classes": path.names, "arrivals": path.arrivals, "departures": path.departures}
        return {"rows": self.rows, "skipped": self.skipped, **counts}

    def _content(self) -> Mapping[str, object]:
        return self.path._content()


def load_events(path: str | os.PathLike[str], system: System, *, lenient: bool = False) -> EventLog:
    """Read an event log from a CSV file, or the journal of a live pool as one.

    Columns may come in any order. Labels of jobs may be any text. If all are whole numbers below a million or
    the number of rows, they are the numbers of the jobs; else jobs are numbered in order of appearance.

    Parameters
    ----------
    path : str or path
        A CSV file in UTF-8, or in UTF-16 with a byte-order mark, compressed if its name ends in ``.gz``; or
        a journal, also of a pool that runs.
    system : System
        Its classes are those of the log, its cores the pool.
    lenient : bool, optional
        Whether to leave out and count rows that cannot be used, and to ignore unknown columns. A job that
        such a row is about is censored at its last good one, as if cancelled, so that it does not mislead.

    Raises
    ------
    InvalidFile
        If the file cannot be read or is not an event log of the system; the message names the line and the
        value. If `lenient`, only if no row can be used, or the header or the file as a whole is wrong.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import corewise as cw
    >>> system = cw.load_system("paper:1")
    >>> run = cw.simulate(system, "equi", departures=100, rng=7, record=True)
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder) / "log.csv"
    ...     cw.save_events(run.path, file)
    ...     log = cw.load_events(file, system)
    >>> log.path == run.path, log.skipped
    (True, 0)
    """
    require_system(system)
    require_path(path)
    name = os.fspath(path)
    # A journal in use must not be opened as any file is: closing that would undo the locks of its owner.
    if Path(f"{name}-wal").exists():
        return _read_journal(name, system)
    return _read_log(LogReader(name, system.names, system.cores, lenient), system)


def load_unknown_log(
    path: str | os.PathLike[str], *, cores: float | None = None, lenient: bool = False
) -> EventLog:
    """Read an event log without a system: its classes are those that it names.

    Parameters
    ----------
    path : str or path
        An event log in CSV, compressed if its name ends in ``.gz``.
    cores : float, optional
        The cores of the pool. By default the most that were held at once.
    lenient : bool, optional
        See `load_events`.
    """
    require_path(path)
    name = os.fspath(path)
    if Path(name).is_dir():
        raise InvalidFile(f"{name}: is a directory, not an event log")
    log = _read_log(LogReader(name, None, cores, lenient))
    try:
        for known in log.path.names:
            JobClass(known, speedup=Amdahl(0.5))
    except InvalidInput as error:
        raise InvalidFile(f"{name}: {error}") from None
    return log


def _read_journal(name: str, system: System) -> EventLog:
    """Return the log in a journal, whose reader is imported where there is one: it takes a while."""
    from corewise.observation.journal import read_journal

    return EventLog(*read_journal(name, system), 0, ())


def _read_log(reader: LogReader, system: System | None = None) -> EventLog:
    """Return the log in a file, which may be a journal if the system is known."""
    try:
        with _opened(reader.name) as file:
            if system is not None and file.peek(len(_SQLITE_HEAD)).startswith(_SQLITE_HEAD):
                return _read_journal(reader.name, system)
            reader.read(file)
    except (OSError, EOFError, zlib.error) as error:
        raise InvalidFile(f"{reader.name}: cannot be read: {reason_of(error)}") from error
    return EventLog(*reader.finish())


def _opened(name: str) -> io.BufferedReader | gzip.GzipFile:
    """Return a log to be read as UTF-8, unpacked on the way if its name says that it is packed."""
    try:
        return opened_as_utf8(gzip.open(name) if name.endswith(".gz") else Path(name).open("rb"))
    except ValueError as error:  # a NUL in the name
        raise InvalidFile(f"{name}: cannot be read: {reason_of(error)}") from error


def save_events(path: SamplePath, file: str | os.PathLike[str], *, per_job: bool = False) -> None:
    """Write a path as an event log that `load_events` reads back with the same columns.

    Parameters
    ----------
    path : SamplePath
        The record. It is written in its own form.
    file : str or path
        Where to; compressed if its name ends in ``.gz``. It is written whole or not at all.
    per_job : bool, optional
        Whether to write class totals in the per-job form, see `SamplePath.split`.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import corewise as cw
    >>> path = cw.simulate(cw.load_system("paper:1"), "equi", departures=1, rng=7, record=True).path
    >>> with TemporaryDirectory() as folder:
    ...     cw.save_events(path, Path(folder) / "log.csv")
    ...     print((Path(folder) / "log.csv").read_text().splitlines()[0])
    time,event,class,job,cores:one,cores:two
    """
    if not isinstance(path, SamplePath):
        raise InvalidInput(f"expected a SamplePath, got {path!r}")
    record = path.split() if per_job else path
    names = [_written(name) for name in record.names]
    cores = ["cores"] if record.per_job else [_written(f"cores:{name}") for name in record.names]
    stream = io.BytesIO()
    packed = str(file).endswith(".gz")
    with gzip.GzipFile("", "wb", 6, stream, 0) if packed else nullcontext(stream) as out:
        out.write(f"time,event,class,job,{','.join(cores)}\n".encode())
        for first in range(0, record.time.size, _BLOCK_ROWS):
            out.write(_csv(record, slice(first, first + _BLOCK_ROWS), names))
    write_bytes(file, stream.getvalue())


def _csv(record: SamplePath, rows: slice, names: list[str]) -> bytes:
    """Return some rows as lines; floats by repr, so that they come back bit for bit."""
    classes, events = [*names, ""], list(EVENT_NAMES)
    held = record.cores[rows, None] if record.per_job else record.cores[rows]
    columns = [
        map(repr, record.time[rows].tolist()),
        map(events.__getitem__, record.event[rows].tolist()),
        map(classes.__getitem__, record.job_class[rows].tolist()),  # no class, −1, finds the last
        ("" if job == NO_JOB else str(job) for job in record.job[rows].tolist()),
        *(["" if isnan(x) else repr(x) for x in column.tolist()] for column in held.T),
    ]
    return ("\n".join(map(",".join, zip(*columns, strict=True))) + "\n").encode()


def _written(name: str) -> str:
    """Return a name as a field of CSV."""
    try:
        name.encode()
    except UnicodeEncodeError:
        raise InvalidInput(f"class name {name!r} cannot be written as UTF-8") from None
    if "\0" in name:
        raise InvalidInput(f"class name {name!r} cannot be written: it has a NUL in it")
    return '"' + name.replace('"', '""') + '"' if '"' in name else name
