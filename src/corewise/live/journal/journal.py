r"""Journal of a live pool: its events, on disk before any of them is acted on.

Journal first, handle second, acknowledge third, instruct last. An event that `append` has answered for is on
the disk: SQLite in WAL mode with ``synchronous=FULL``. All that several threads append while the disk is busy
goes into one transaction, so that they share the wait. A batch is there whole or not at all. An id that is
there already changes nothing: a sender that is not sure that an event arrived sends it again.

Instructions are kept for people, and need not be waited for: those of the last events before a crash are what
replaying the events gives again.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import Any, ClassVar

from corewise.errors import InvalidFile, InvalidInput, JournalUnavailable
from corewise.kit.files import reason_of
from corewise.live.journal.store import InPlace, open_for_writing, sole_right, transaction
from corewise.live.state.instructions import Instruction, instruction_to_mapping
from corewise.observation.events import Event, event_body
from corewise.observation.journal import JournalReader, journal_errors, located

__all__ = ["Journal"]

_encoded = json.JSONEncoder(default=int).encode  # whole numbers of NumPy are whole numbers
_CHUNKS = (100, 10, 1)  # rows that are inserted at once
_PATIENCE = 0.05  # seconds that instructions wait for an event to be written with


@dataclass(frozen=True, slots=True, eq=False)
class _Write:
    """Something to write, and who waits for it, if anybody does."""

    act: Callable[[sqlite3.Connection], Any]
    done: Future[Any] | None


class Journal(JournalReader):
    """Journal of a live pool: `append` returns when what it was given is on the disk.

    All methods may be called from any thread.

    Parameters
    ----------
    path : str or path
        The file; it is made if there is none.
    about : mapping
        What a journal that is made is a journal of, as plain values: the configuration of the pool. One that
        is there keeps its own.

    Raises
    ------
    InvalidFile
        If another pool has it open; if it is a journal of another version, or no journal at all; if it cannot
        be read or written.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from corewise.observation.events import JobArrived
    >>> from corewise.live.journal.journal import Journal
    >>> with TemporaryDirectory() as folder, Journal.open(f"{folder}/pool.db", {"pool": "night"}) as journal:
    ...     arrival = JobArrived(0.5, "a1", "job 1", "etl")
    ...     journal.append([arrival], received=0.6), journal.append([arrival], received=0.7)
    ([1], [None])
    """

    durable: ClassVar[bool] = True

    def __init__(self, path: str | Path, about: Mapping[str, Any]) -> None:
        self._right = sole_right(located(path))
        try:
            self._writing = open_for_writing(located(path), about)
            try:
                super().__init__(path)
                self._in_place = InPlace(self.path)
            except BaseException:
                self._writing.close()
                raise
        except BaseException:
            self._right.close()
            raise
        self._gate, self._closed = Lock(), False
        self._turn = Lock()  # to use the connection that writes
        self._owed: list[_Write] = []  # instructions that could not be written yet, and why
        self._missed: str | None = None
        self._queue: SimpleQueue[_Write | None] = SimpleQueue()
        self._writer = Thread(target=self._write_groups, name=f"journal {self.path.name}", daemon=True)
        self._writer.start()

    @classmethod
    def open(cls, path: str | Path, about: Mapping[str, Any]) -> Journal:
        """Return the journal in a file, which is made if there is none."""
        return cls(path, about)

    @staticmethod
    def read(path: str | Path) -> JournalReader:
        """Return a reader of the journal in a file."""
        return JournalReader(path)

    # --- writing ------------------------------------------------------------------------------------

    def append(
        self, events: Iterable[Event], received: float, shared: Sequence[bool] | None = None
    ) -> list[int | None]:
        """Write a batch of events, all or none, and return when they are on the disk.

        `shared` says of each whether cores are shared behind it; by default they are behind all of them.

        Returns
        -------
        list of int or None
            The number of each event, None where its id was there already.
        """
        listed = list(events)
        flags = [True] * len(listed) if shared is None else shared
        rows = [
            (event.id, float(event.time), float(received), event.kind, _body(event), int(flag))
            for event, flag in zip(listed, flags, strict=True)
        ]
        numbers: list[int | None] = self._written(partial(_append, rows)) if rows else []
        return numbers

    def known(self, ids: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Return the events with these ids that are there, by id and as plain values.

        They are asked for where they were written, which has them in memory; a reader would have to read them
        again after every write.
        """
        with self._turn, journal_errors(self.path, "read"):
            return self._known(ids, lambda query, *values: self._writing.execute(query, values).fetchall())

    def record(self, event_seq: int, instructions: Sequence[Instruction]) -> None:
        """Keep what the controller made of an event, in the order of events; soon, and not waited for.

        If they cannot be written they go into the next transaction, before all else, so that there is no gap
        in them. Those that are lost with the process `replayed` makes good when the journal is opened again.
        """
        rows = [(event_seq, _encoded(instruction_to_mapping(one))) for one in instructions]
        if rows:
            self._put(_Write(partial(_record, rows), None))

    def last_instruction(self) -> int:
        """Return the number of the last instruction, once all are kept; 0 if there is none."""
        count = "SELECT coalesce(max(seq), 0) FROM instruction"
        return int(self._written(lambda to: to.execute(count).fetchone()[0]))

    def require_in_place(self) -> None:
        """Raise `JournalLost` if the file was removed or replaced since it was opened."""
        self._in_place.require()

    def put_policy(self, content: bytes) -> str:
        """Keep the bytes of a policy, and return the digest to find them by."""
        digest = sha256(content).hexdigest()
        self._written(
            lambda to: to.execute(
                "INSERT INTO policy VALUES (?, ?) ON CONFLICT DO NOTHING", (digest, content)
            )
        )
        return digest

    def put_snapshot(self, seq: int, content: bytes) -> None:
        """Keep the state after an event in the place of the last snapshot."""

        def act(to: sqlite3.Connection) -> None:
            to.execute("DELETE FROM snapshot")
            to.execute("INSERT INTO snapshot VALUES (?, ?)", (seq, content))

        self._written(act)

    def close(self) -> None:
        """Write what is to be written, and let the file and the right to write to it go."""
        with self._gate:
            if not self._closed:
                self._closed = True
                self._queue.put(None)
        self._writer.join()
        super().close()
        self._writing.close()  # after the reader: the last connection to go tidies up
        self._right.close()
        missed, self._missed = self._missed, None
        if missed is not None:
            raise InvalidFile(f"{missed} (instructions were not kept)")

    def _written(self, act: Callable[[sqlite3.Connection], Any]) -> Any:
        done: Future[Any] = Future()
        self._put(_Write(act, done))
        return done.result()

    def _put(self, write: _Write) -> None:
        with self._gate:
            if self._closed:
                raise InvalidInput(f"{self.path}: the journal is closed")
            self._queue.put(write)

    # --- the writer's thread ------------------------------------------------------------------------

    def _write_groups(self) -> None:
        last = False
        while not last:
            group, last = self._gathered()
            if group or (last and self._owed):
                self._commit(group)

    def _gathered(self) -> tuple[list[_Write], bool]:
        """Return what goes into the next transaction, and whether it is the last.

        All that is queued, as soon as a thread waits for some of it.
        """
        group: list[_Write] = []
        urgent = False
        while not (urgent and self._queue.empty()):
            try:
                write = self._queue.get(timeout=_PATIENCE if group else None)
            except Empty:
                break
            if write is None:
                return group, True
            group.append(write)
            urgent = urgent or write.done is not None
        return group, False

    def _commit(self, group: Sequence[_Write]) -> None:
        """Carry out a transaction, and answer all who wait for it.

        Whatever goes wrong is for those who wait, and the thread lives on. What is acknowledged is in the
        file that has the name of the journal.
        """
        group = [*self._owed, *group]
        try:
            with self._turn, journal_errors(self.path, "written"):
                answers = transaction(self._writing, [write.act for write in group])
        except Exception as error:
            own = self._as_own(error)
            self._owed = [write for write in group if write.done is None]
            self._missed = str(own) if self._owed else None
            _refuse(group, own)
            return
        self._owed, self._missed = [], None
        try:
            self._in_place.require()
        except InvalidFile as error:
            _refuse(group, error)
            return
        for write, answer in zip(group, answers, strict=True):
            if write.done is not None:
                write.done.set_result(answer)

    def _as_own(self, error: Exception) -> Exception:
        if isinstance(error, OSError):
            return JournalUnavailable(f"{self.path}: cannot be written: {reason_of(error)}")
        return error


def _refuse(group: Sequence[_Write], error: Exception) -> None:
    for write in group:
        if write.done is not None:  # an error for each: it is raised in several threads
            write.done.set_exception(type(error)(str(error)) if isinstance(error, InvalidFile) else error)


def _body(event: Event) -> str:
    """Return what an event says beyond its kind, time and id."""
    try:
        return _encoded(event_body(event))
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"{event.kind} {event.id!r} cannot be written: {error}") from None


def _append(rows: Sequence[tuple[Any, ...]], to: sqlite3.Connection) -> list[int | None]:
    insert = (
        "INSERT INTO event (id, time, received, kind, body, shared) VALUES {} ON CONFLICT (id) DO NOTHING"
    )
    made = {name: seq for seq, name in _inserted(to, f"{insert} RETURNING seq, id", rows)}
    return [made.pop(row[0], None) for row in rows]  # of two with one id the first is there


def _record(rows: Sequence[tuple[Any, ...]], to: sqlite3.Connection) -> None:
    _inserted(to, "INSERT INTO instruction (event_seq, body) VALUES {}", rows)


def _inserted(to: sqlite3.Connection, statement: str, rows: Sequence[tuple[Any, ...]]) -> list[Any]:
    """Insert rows by few statements, between which others may have Python's lock."""
    found: list[Any] = []
    begin = 0
    for size in _CHUNKS:
        values = ", ".join([f"({', '.join('?' * len(rows[0]))})"] * size)
        while len(rows) - begin >= size:
            chunk = rows[begin : begin + size]
            found += to.execute(statement.format(values), [value for row in chunk for value in row])
            begin += size
    return found
