"""The database under a journal: who may write to it, how it is made, opened and copied, and its transactions.

Only one pool may write to a journal. Its right is a lock on an empty database beside the file, held as long
as the pool lives: it goes with the process however that ends, is not inherited by the processes that it
starts, and holds within one process as well.
"""

from __future__ import annotations

import json
import os
import sqlite3
import uuid
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from corewise.errors import InvalidFile, InvalidInput, JournalLost
from corewise.kit.files import reason_of
from corewise.observation.journal import (
    JOURNAL_FORMAT,
    JournalReader,
    connect_to_read,
    has_batches,
    journal_errors,
    located,
)

__all__ = [
    "InPlace",
    "copy_journal",
    "is_made",
    "open_for_writing",
    "sole_right",
    "transaction",
]

_OLDEST_SQLITE = (3, 37)  # the first with STRICT tables
_CACHE = 16_384  # KiB of the database in memory: ids of clients are spread over it

_SCHEMA = """
CREATE TABLE about (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE event (
    seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, time REAL NOT NULL, received REAL NOT NULL,
    kind TEXT NOT NULL, body TEXT NOT NULL, shared INTEGER NOT NULL DEFAULT 1
) STRICT;
CREATE TABLE instruction (seq INTEGER PRIMARY KEY, event_seq INTEGER NOT NULL, body TEXT NOT NULL) STRICT;
CREATE TABLE policy (digest TEXT PRIMARY KEY, body BLOB NOT NULL) STRICT;
CREATE TABLE snapshot (seq INTEGER PRIMARY KEY, body BLOB NOT NULL) STRICT;
"""


def sole_right(path: Path) -> sqlite3.Connection:
    """Return the exclusive right to write to a journal, held until it is closed."""
    is_made(path)  # what is no journal is refused before a lock is put beside it
    beside = Path(f"{path}-lock")
    with journal_errors(path, "written"):
        right = sqlite3.connect(beside, timeout=0.0, isolation_level=None, check_same_thread=False)
        try:
            right.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError as error:
            right.close()
            if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY:
                raise InvalidFile(f"{path}: another pool has this journal open") from None
            raise
    return right


def open_for_writing(path: Path, about: Mapping[str, Any]) -> sqlite3.Connection:
    """Return a connection to the journal, which is made if the file is new or empty."""
    if sqlite3.sqlite_version_info < _OLDEST_SQLITE:
        raise InvalidFile(f"{path}: a journal needs SQLite 3.37, and this is {sqlite3.sqlite_version}")
    made = is_made(path)
    with journal_errors(path, "written"):
        connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        try:
            (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
            if mode != "wal":
                raise InvalidFile(f"{path}: cannot be written: its file system has no shared memory")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute(f"PRAGMA cache_size = -{_CACHE}")
            transaction(connection, [_upgrade if made else partial(_make, about)])
        except BaseException:
            connection.close()
            raise
    return connection


def is_made(path: Path) -> bool:
    """Return whether a file is a journal, False if it is new or empty; refuse anything else."""
    with journal_errors(path, "read"):
        if not path.exists() or not path.stat().st_size:
            return False
        connection = connect_to_read(path)
        try:
            if connection.execute("SELECT count(*) FROM sqlite_schema").fetchone() == (0,):
                return False  # its maker was ended half-way
        finally:
            connection.close()
    JournalReader(path).close()
    return True


def transaction(
    connection: sqlite3.Connection, acts: Iterable[Callable[[sqlite3.Connection], Any]]
) -> list[Any]:
    """Carry out acts in one transaction; return what each returned."""
    if connection.in_transaction:  # a failing disk has kept the last one from being rolled back
        connection.execute("ROLLBACK")
    connection.execute("BEGIN IMMEDIATE")
    try:
        answers = [act(connection) for act in acts]
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return answers


def _make(about: Mapping[str, Any], to: sqlite3.Connection) -> None:
    for statement in _SCHEMA.strip().split(";\n"):
        to.execute(statement)
    facts = {**about, "format": JOURNAL_FORMAT, "identity": uuid.uuid4().hex}
    to.executemany("INSERT INTO about VALUES (?, ?)", [(key, _canonical(facts[key])) for key in facts])


def _upgrade(to: sqlite3.Connection) -> None:
    """Give a journal of an earlier version an identity, and room for batches; it had none."""
    if not has_batches(to):
        to.execute("ALTER TABLE event ADD COLUMN shared INTEGER NOT NULL DEFAULT 1")
    if not to.execute("SELECT count(*) FROM about WHERE key = 'identity'").fetchone()[0]:
        to.execute("INSERT INTO about VALUES ('identity', ?)", (_canonical(uuid.uuid4().hex),))


def _canonical(value: object) -> str:
    try:
        return json.dumps(value, sort_keys=True)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"what a journal is about must be plain values: {error}") from None


class InPlace:
    """Check that the files of an open journal are still those under its name.

    SQLite goes on writing to files that were removed or replaced, and all of it is gone at the next start.

    Parameters
    ----------
    path : Path
        The journal, which is open for writing.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        files = (path, Path(f"{path}-wal"), Path(f"{path}-lock"))
        self._files = {file: self._found(file) for file in files}

    def require(self) -> None:
        """Raise `JournalLost` if a file was removed or replaced."""
        for file, known in self._files.items():
            if self._found(file) != known:
                raise JournalLost(f"{self._path} was removed while it was open: {file} is another file")

    def _found(self, file: Path) -> tuple[int, int]:
        try:
            found = file.stat()
        except (FileNotFoundError, NotADirectoryError):
            raise JournalLost(f"{self._path} was removed while it was open: {file} is gone") from None
        except OSError as error:
            raise JournalLost(f"{self._path} is out of reach: {file}: {reason_of(error)}") from None
        return found.st_dev, found.st_ino


def copy_journal(path: str | Path, to: str | Path) -> int:
    """Copy a journal, which a pool may be writing to, to a new file; return how many events the copy has.

    The copy is as the journal was at one moment, is written whole or not at all, and has an identity of its
    own: after it is put in place of the journal, numbers of later instructions mean others.

    Raises
    ------
    InvalidFile
        If there is no journal, if the target exists, or if it cannot be written.
    """
    target = located(to)
    if target.exists():
        raise _taken(target)
    draft = target.with_name(f".{target.name[:100]}.{os.getpid()}.part")
    try:
        with JournalReader(path) as source, journal_errors(target, "written"):
            draft.touch(0o600, exist_ok=False)
            with closing(sqlite3.connect(draft, isolation_level=None)) as copy:
                source.copy_into(copy)
                identity = (_canonical(uuid.uuid4().hex),)
                copy.execute("INSERT OR REPLACE INTO about VALUES ('identity', ?)", identity)
                (events,) = copy.execute("SELECT count(*) FROM event").fetchone()
        with draft.open("rb") as file:
            os.fsync(file.fileno())
        _name(draft, target)
    except FileExistsError:
        raise _taken(target) from None
    except OSError as error:
        raise InvalidFile(f"{target}: cannot be written: {reason_of(error)}") from None
    finally:
        for end in ("", "-wal", "-shm"):
            Path(f"{draft}{end}").unlink(missing_ok=True)
    return int(events)


def _name(draft: Path, target: Path) -> None:
    """Give a file another name, which no file may have; by a link, if there are links in this file system."""
    try:
        os.link(draft, target)
    except FileExistsError:
        raise
    except OSError:
        draft.rename(target)


def _taken(target: Path) -> InvalidFile:
    return InvalidFile(f"{target}: a file is there already, and a backup overwrites nothing")
