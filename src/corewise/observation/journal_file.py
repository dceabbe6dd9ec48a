"""Journals of live pools as files: SQLite databases, of which this is the reading half.

    event         what happened, in the order in which it was taken in; `id` is its sender's, and unique;
                  `shared` if cores were shared behind it: of a batch, that is its last event
    instruction   what the controller made of it
    policy        the policies that were adopted, by the SHA-256 of their bytes
    snapshot      the state of the controller after an event
    about         the format, an identity, and what the journal is a journal of

A reader may look at a journal at any time, also while a pool writes to it, and sees whole transactions. Rows
are read some thousands at a time, so that nobody waits for a reader.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from errno import EINVAL, EISDIR
from pathlib import Path
from threading import Lock
from types import MappingProxyType
from typing import Any, Self

from corewise.errors import InvalidFile, JournalUnavailable
from corewise.kit.files import reason_of, require_path

__all__ = [
    "JOURNAL_FORMAT",
    "SQLITE_HEAD",
    "JournalFile",
    "connect_to_read",
    "has_batches",
    "journal_errors",
    "located",
]

SQLITE_HEAD = b"SQLite format 3\0"
"""The first bytes of every SQLite database."""

JOURNAL_FORMAT = "corewise journal 1"

_PAGE = 4096  # rows read at a time
_PASSING = frozenset(  # errors that may be over at the next try
    {
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_NOMEM,
    }
)


class JournalFile:
    """Journal of a live pool, opened for reading.

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

    def event_mappings(self, after: int = 0) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield the events behind a number, each with its own and as plain values."""
        return ((seq, mapping) for seq, mapping, _ in self.event_rows(after))

    def event_rows(self, after: int = 0) -> Iterator[tuple[int, dict[str, Any], bool]]:
        """Yield the events behind a number, each with its own, and whether cores were shared behind it."""
        columns = f"seq, kind, time, id, body, {'shared' if self._batches else '1'}"
        for seq, kind, time, name, body, shared in self._pages("event", columns, after):
            values = self._decoded(body, f"event {seq}")
            yield seq, {"kind": kind, "time": time, "id": name, **values}, bool(shared)

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

    A journal at rest in a folder where nothing can be made is read as it lies: nobody else can write to it,
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
