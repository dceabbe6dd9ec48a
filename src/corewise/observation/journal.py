"""Journals of live pools: SQLite databases, of which this is the reader, and the sample path of one.

    event         typed events in order of receipt; `id` is chosen by the sender, and unique; `shared` if
                  cores were shared after it: of a batch, after its last event
    instruction   the instructions that followed from an event
    policy        the policies that were adopted, by the SHA-256 of their bytes
    snapshot      the state of the controller after an event
    about         the format, an identity, and the configuration of the pool

A reader may open a journal at any time, also while a pool writes to it, and sees whole transactions. Rows
are read some thousands at a time, so that a writer never waits for a reader.

*As a sample path*, in the per-job form: events are admitted and tallied as in the live controller
(`corewise.observation.admission`, `corewise.observation.event_tally`), without a limit on how late they may
be reported, and every change that is counted becomes a row. An arrival holds no cores, `cores-held` is a
resize, `job-finished` a departure, `job-ended` a cancellation. What a journal says and a path cannot is put
so that departures, arrivals and job-time at every width above zero are what they were; time at width zero
says nothing about a curve:

- a job that leaves as its cores are withdrawn takes the last width it had in the same instant; one that never
  had any is said to be cancelled, since no job can be done without cores;
- a job that stood still for a move holds none for as long;
- a job that was there before holds none from the start until the journal speaks of it.

The pool of the path is the largest there was.
"""

from __future__ import annotations

import json
import math
import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from errno import EINVAL, EISDIR
from hashlib import sha256
from pathlib import Path
from threading import Lock
from types import MappingProxyType
from typing import Any, Self

import numpy as np

from corewise.errors import InvalidFile, InvalidInput, JournalUnavailable
from corewise.kit.files import reason_of, require_path
from corewise.model.system import System
from corewise.observation import events as happened
from corewise.observation.admission import (
    JobEnd,
    KnownJobs,
    has_overtaken,
    is_overtaken,
    keep_latest,
    require_possible,
)
from corewise.observation.event_tally import EventTally
from corewise.observation.events import Event, event_from_mapping
from corewise.observation.rows import NO_JOB, EventKind
from corewise.observation.sample_path import SamplePath

__all__ = [
    "JOURNAL_FORMAT",
    "JournalReader",
    "connect_to_read",
    "has_batches",
    "journal_errors",
    "located",
    "read_journal",
]

JOURNAL_FORMAT = "corewise journal 1"

_PAGE = 4096  # rows read at a time
_ASKED = 500  # ids in one query
_PASSING = frozenset(  # errors that may be over at the next try
    {
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_NOMEM,
    }
)


class JournalReader:
    """Reader of the journal of a live pool, which changes nothing.

    Parameters
    ----------
    path : str or path
        The file.

    Attributes
    ----------
    path : Path
        The file, with symbolic links resolved.
    about : mapping
        What it is a journal of.
    identity : str or None
        Which journal it is: made at random with it; None if an earlier version has made it.

    Raises
    ------
    InvalidFile
        If it cannot be read, is not a journal, or one of another version.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = located(path)
        self._lock = Lock()
        with journal_errors(self.path, "read"):
            self._reading = connect_to_read(self.path)
            try:
                about = _about(self._reading, self.path)
                self._batches = has_batches(self._reading)
            except BaseException:
                self._reading.close()
                raise
        identity = about.pop("identity", None)
        self.identity = None if identity is None else str(identity)
        self.about: Mapping[str, Any] = MappingProxyType(about)

    def __enter__(self) -> Self:
        """Return the journal."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()

    def close(self) -> None:
        """Let the file go."""
        with self._lock:
            self._reading.close()

    def events(self, after: int = 0) -> Iterator[tuple[int, Event]]:
        """Yield the events behind a number, each with its own, in the order in which they were taken in."""
        return ((seq, event) for seq, event, _ in self.steps(after))

    def steps(self, after: int = 0) -> Iterator[tuple[int, Event, bool]]:
        """Yield the events behind a number, each with its own and whether cores were shared behind it."""
        columns = f"seq, kind, time, id, body, {'shared' if self._batches else '1'}"
        for seq, kind, time, name, body, shared in self._pages("event", columns, after):
            values = self._decoded(body, f"event {seq}")
            try:
                event = event_from_mapping({"kind": kind, "time": time, "id": name, **values})
            except InvalidInput as error:
                raise InvalidFile(f"{self.path}: event {seq} cannot be read: {error}") from None
            yield seq, event, bool(shared)

    def known(self, ids: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Return the events with these ids that are there, by id and as plain values."""
        return self._known(ids, self._rows)

    def _known(
        self, ids: Sequence[str], rows: Callable[..., list[tuple[Any, ...]]]
    ) -> dict[str, dict[str, Any]]:
        """Return the events with these ids that a query finds, which is asked of so many at a time."""
        found: dict[str, dict[str, Any]] = {}
        for begin in range(0, len(ids), _ASKED):
            asked = ids[begin : begin + _ASKED]
            marks = ", ".join("?" * len(asked))
            query = f"SELECT id, kind, time, body FROM event WHERE id IN ({marks})"
            for name, kind, time, body in rows(query, *asked):
                values = self._decoded(body, f"event {name!r}")
                found[name] = {"kind": kind, "time": time, "id": name, **values}
        return found

    @property
    def last(self) -> int:
        """The number of the last event; 0 if there is none."""
        return int(self._rows("SELECT coalesce(max(seq), 0) FROM event")[0][0])

    @property
    def instructed(self) -> int:
        """The number of the last event whose instructions are there; 0 if none has any."""
        return int(self._rows("SELECT coalesce(max(event_seq), 0) FROM instruction")[0][0])

    def policy(self, digest: str) -> bytes:
        """Return the bytes of a policy."""
        found = self._rows("SELECT body FROM policy WHERE digest = ?", digest)
        if not found:
            raise InvalidFile(f"{self.path}: there is no policy {digest!r}")
        content = bytes(found[0][0])
        if sha256(content).hexdigest() != digest:
            raise InvalidFile(f"{self.path}: policy {digest!r} is damaged: it has another SHA-256")
        return content

    @property
    def snapshot_at(self) -> int:
        """The number of the event behind which the last snapshot was made; 0 if there is none."""
        return int(self._rows("SELECT coalesce(max(seq), 0) FROM snapshot")[0][0])

    def snapshot(self) -> tuple[int, bytes] | None:
        """Return the last snapshot and the number of the event behind which it was made, if there is one."""
        found = self._rows("SELECT seq, body FROM snapshot ORDER BY seq DESC LIMIT 1")
        return (int(found[0][0]), bytes(found[0][1])) if found else None

    def instruction_mappings(self, after: int = 0) -> Iterator[tuple[int, int, dict[str, Any]]]:
        """Yield the instructions behind a number: its own, that of its event, and plain values."""
        for seq, event, body in self._pages("instruction", "seq, event_seq, body", after):
            yield seq, event, self._decoded(body, f"instruction {seq}")

    def copy_into(self, target: sqlite3.Connection) -> None:
        """Copy everything into another database, as it is at this moment."""
        with self._lock:
            self._reading.backup(target)

    def _pages(self, table: str, columns: str, after: int) -> Iterator[tuple[Any, ...]]:
        query = f"SELECT {columns} FROM {table} WHERE seq > ? ORDER BY seq LIMIT {_PAGE}"
        while rows := self._rows(query, after):
            yield from rows
            after = rows[-1][0]

    def _rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        """Return what a query finds, all of it: a reader that stops half-way would keep the file growing."""
        with self._lock, journal_errors(self.path, "read"):
            return self._reading.execute(query, values).fetchall()

    def _decoded(self, body: str, what: str) -> dict[str, Any]:
        try:
            values = json.loads(body)
            if isinstance(values, dict):
                return values
        except ValueError:
            pass
        raise InvalidFile(f"{self.path}: {what} cannot be read: {body!r}")


def located(path: str | Path) -> Path:
    """Return where a file is, links resolved: two names of one journal are one journal."""
    require_path(path)
    try:
        place = Path(path).resolve()
        if place.is_dir():
            raise IsADirectoryError(EISDIR, "Is a directory")
        if place.exists() and not place.is_file():
            raise OSError(EINVAL, "Not a regular file")
    except (OSError, ValueError, RuntimeError) as error:  # a NUL in the name; a loop of links
        raise InvalidFile(f"{path}: cannot be read: {reason_of(error)}") from None
    return place


def connect_to_read(path: Path) -> sqlite3.Connection:
    """Return a connection that changes nothing.

    A journal at rest in a folder where nothing can be made is read as it lies: no process can write to it,
    and SQLite would want a log beside it.
    """
    own = {"effective_ids": True} if os.access in os.supports_effective_ids else {}
    at_rest = not os.access(path.parent, os.W_OK, **own) and not Path(f"{path}-wal").exists()
    query = "immutable=1" if at_rest else "mode=ro"
    return sqlite3.connect(
        f"{path.as_uri()}?{query}", uri=True, isolation_level=None, check_same_thread=False
    )


def has_batches(connection: sqlite3.Connection) -> bool:
    """Return whether a journal says of its events where batches end; before 0.3 it did not."""
    return any(row[1] == "shared" for row in connection.execute("PRAGMA table_info(event)"))


@contextmanager
def journal_errors(path: Path, what: str) -> Iterator[None]:
    """Turn errors of SQLite into `InvalidFile`, which names the file.

    An error that may be over at the next try, such as a full disk, is `JournalUnavailable`.
    """
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0)
        if code == sqlite3.SQLITE_NOTADB:
            raise InvalidFile(f"{path} is not a journal of corewise: {error}") from None
        kind = JournalUnavailable if code & 0xFF in _PASSING else InvalidFile
        raise kind(f"{path}: cannot be {what}: {_reason(path, what, error)}") from None


def _reason(path: Path, what: str, error: sqlite3.Error) -> str:
    """Return why, in the system's words where SQLite says no more than that it cannot."""
    if getattr(error, "sqlite_errorcode", 0) & 0xFF != sqlite3.SQLITE_CANTOPEN:
        return str(error)
    if not path.parent.is_dir() or (what == "read" and not path.exists()):
        return "no such file or directory"
    needed = os.R_OK if what == "read" else os.W_OK
    return str(error) if os.access(path if path.exists() else path.parent, needed) else "permission denied"


def _about(connection: sqlite3.Connection, path: Path) -> dict[str, Any]:
    """Return what a journal says about itself, if it is one."""
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    if "about" not in tables:
        raise InvalidFile(f"{path} is not a journal of corewise: it has no table 'about'")
    try:
        about = {key: json.loads(value) for key, value in connection.execute("SELECT key, value FROM about")}
    except (ValueError, TypeError, sqlite3.OperationalError) as error:
        raise InvalidFile(f"{path} is not a journal of corewise: {error}") from None
    found = about.pop("format", None)
    if found != JOURNAL_FORMAT:
        raise InvalidFile(f"{path} has the format {found!r}, not {JOURNAL_FORMAT!r}")
    return about


# --- a journal as a sample path -------------------------------------------------------------------


def read_journal(name: str, system: System) -> tuple[SamplePath, int]:
    """Return the path of a journal, and how many events it has."""
    with JournalReader(name) as journal:
        replay = _Replay(system, journal.about)
        events = 0
        for _, event in journal.events():
            replay.take(event)
            events += 1
    _require_classes(name, replay.about, system)
    if not events:
        raise InvalidFile(f"{name}: no events")
    try:
        return replay.path(), events
    except InvalidInput as error:
        raise InvalidFile(f"{name}: {error}") from None


def _require_classes(name: str, about: Mapping[str, Any], system: System) -> None:
    described = about.get("system")
    known = [row["name"] for row in described["class"]] if isinstance(described, Mapping) else system.names
    if sorted(known) != sorted(system.names):
        raise InvalidFile(
            f"{name} is a journal of classes {', '.join(known)}; the system has {', '.join(system.names)}"
        )


@dataclass(slots=True)
class _JournaledJob:
    """Job that is present: its number, when it arrived, and when it last reported what it holds."""

    number: int
    came: float
    held_at: float = -math.inf


class _Replay:
    """Replay of the events of a journal into a tally, whose changes are recorded as rows of a path."""

    def __init__(self, system: System, about: Mapping[str, Any]) -> None:
        self.about = about
        """The configuration of the pool, the latest."""
        self._system = system
        self._rows = _Rows()
        self._tally = EventTally(system.names, -math.inf, math.inf, self._rows)
        self._jobs: dict[str, _JournaledJob] = {}
        self._left: dict[str, float] = {}
        self._early: dict[str, JobEnd] = {}
        self._pool = self._largest = system.cores
        self._arrived = 0
        self._first, self._latest = math.inf, -math.inf

    def path(self) -> SamplePath:
        """Return the path of the events so far."""
        self._tally.finish()
        return self._rows.path(self._system.names, self._largest, self._first, self._latest)

    def take(self, event: Event) -> None:
        """Apply an event, unless it cannot have happened."""
        try:
            known = KnownJobs(self._jobs, self._left, self._early)
            require_possible(event, self._system, known, self._pool)
        except InvalidInput:
            return
        self._latest = max(self._latest, event.time)
        self._tally.move_to(self._latest)
        if isinstance(event, JobEnd) and event.job not in self._jobs:
            keep_latest(self._early, event.job, event)
            return
        self._first = min(self._first, event.time)
        match event:
            case happened.JobArrived():
                self._add(event, 0)
            case happened.JobPresent():
                self._add(event, event.held)
            case happened.JobFinished() | happened.JobEnded():
                self._remove(event, event.time)
            case happened.CoresHeld():
                self._hold(event)
            case happened.PoolChanged():
                self._resize(event.cores)
            case happened.PoolConfigured():
                before, self.about = self.about, event.configuration
                cores = self.about["system"]["cores"]
                if (before.get("system") or {}).get("cores") != cores:
                    self._resize(cores)

    def _add(self, event: happened.JobArrived | happened.JobPresent, held: int) -> None:
        job = self._jobs[event.job] = _JournaledJob(self._arrived, event.time)
        self._arrived += 1
        counted = isinstance(event, happened.JobArrived)
        self._tally.arrive(job.number, self._system.index(event.job_class), held, event.time, counted=counted)
        end = self._early.pop(event.job, None)
        if end is not None and has_overtaken(end.time, event.time):
            self._remove(end, max(end.time, event.time))

    def _remove(self, event: JobEnd, at: float) -> None:
        job = self._jobs.pop(event.job)
        self._tally.leave(job.number, at, finished=isinstance(event, happened.JobFinished))
        keep_latest(self._left, event.job, event.time)

    def _hold(self, event: happened.CoresHeld) -> None:
        job = self._jobs[event.job]
        lateness = (self.about.get("options") or {}).get("lateness") or 0.0
        if not is_overtaken(event.time, job.held_at, lateness):
            job.held_at = event.time
            self._tally.hold(job.number, event.cores, event.time, event.paused)

    def _resize(self, cores: float) -> None:
        self._pool = cores
        self._largest = max(self._largest, cores)


_Row = tuple[float, int, int, int, float]


class _Rows:
    """Rows of a path, from the changes that a tally has counted."""

    def __init__(self) -> None:
        self._rows: list[_Row] = []
        self._present: list[tuple[int, int]] = []
        self._held: dict[int | str, tuple[int, int]] = {}  # the class of each job, and its cores

    def begin(self, job: int | str, job_class: int, cores: int, at: float, *, counted: bool) -> None:
        """Record an arrival; a job that was there before holds its cores from now on."""
        self._held[job] = job_class, cores
        if not counted:
            self._present.append((int(job), job_class))
        self._add(at, EventKind.ARRIVAL if counted else EventKind.RESIZE, job, cores)

    def resize(self, job: int | str, cores: int, at: float, stood_still: float) -> None:
        """Record a resize, and before it the time that the job stood still."""
        job_class, held = self._held[job]
        if stood_still < at and held:
            self._add(stood_still, EventKind.RESIZE, job, 0.0)
        self._held[job] = job_class, cores
        self._add(at, EventKind.RESIZE, job, cores)

    def end(self, job: int | str, at: float, width: int) -> None:
        """Record a departure at the width that counts, or that a job holds nothing from now on."""
        if width and not self._held[job][1]:
            self._add(at, EventKind.RESIZE, job, width)
        if width:
            self._add(at, EventKind.DEPARTURE, job, math.nan)
        else:
            self._add(at, EventKind.RESIZE, job, 0.0)

    def _add(self, at: float, kind: EventKind, job: int | str, cores: float) -> None:
        self._rows.append((at, kind, self._held[job][0], int(job), cores))

    def path(self, names: Sequence[str], pool: float, opens: float, closes: float) -> SamplePath:
        """Return the path; rows of pauses and of late events find their place."""
        inner = sorted(self._rows, key=lambda row: row[0])
        start = (opens, EventKind.START, NO_JOB, NO_JOB, math.nan)
        present = [
            (opens, EventKind.PRESENT, job_class, job, 0.0) for job, job_class in sorted(self._present)
        ]
        end = (closes, EventKind.END, NO_JOB, NO_JOB, math.nan)
        time, event, job_class, job, cores = zip(*[start, *present, *inner, end], strict=True)
        return SamplePath(
            tuple(names),
            max(pool, _most_held(inner)),
            np.array(time),
            np.array(event, dtype=np.int8),
            np.array(job_class),
            np.array(job),
            np.array(cores),
        )


def _most_held(rows: Sequence[_Row]) -> float:
    """Return the most cores that were held at once."""
    held: dict[int, float] = {}
    now = most = 0.0
    for _, event, _, job, cores in rows:
        after = 0.0 if event == EventKind.DEPARTURE else cores
        now += after - held.get(job, 0.0)
        held[job] = after
        most = max(most, now)
    return most
