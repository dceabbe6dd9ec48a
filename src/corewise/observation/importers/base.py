"""What an importer is: how a format is known by its content, and how its rows become rows about jobs."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from corewise.errors import InvalidFile, InvalidInput, nearest
from corewise.kit.encodings import opened_as_utf8
from corewise.kit.files import reason_of
from corewise.observation.importers.clock import TimeFormat
from corewise.observation.importers.outcomes import JobOutcome, vocabulary
from corewise.observation.importers.rows import JobRows

__all__ = ["Importer", "LogSource", "Roles", "Wanted"]

_HEAD = 64 * 1024  # bytes by which a format is known
_MAGIC: dict[bytes, Callable[[str], gzip.GzipFile | bz2.BZ2File | lzma.LZMAFile]] = {
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ": lzma.open,
}


@dataclass(frozen=True)
class Roles:
    """Roles of columns: which of them says what of a job; None where none does.

    Attributes
    ----------
    submit, start, end : str, optional
        When it was submitted, started, ended.
    wait, duration : str, optional
        How long it waited and ran, where start or end are not there.
    cores, state, job : str, optional
        The cores that it held, what became of it, and its name.
    classes : tuple of str
        Its class is what these columns say together.
    """

    submit: str | None = None
    start: str | None = None
    end: str | None = None
    wait: str | None = None
    duration: str | None = None
    cores: str | None = None
    state: str | None = None
    job: str | None = None
    classes: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are looked at."""
        named = [column for role, column in vars(self).items() if role != "classes" and column]
        return tuple(dict.fromkeys([*named, *self.classes]))

    def overridden(self, named: Roles, known: Sequence[str]) -> Roles:
        """Return the roles with those that the user has named instead; columns must be known."""
        for column in named.columns:
            if column not in known:
                raise InvalidInput(f"no column {column!r}{nearest(column, list(known))}")
        return replace(self, **{role: column for role, column in vars(named).items() if column})


@dataclass(frozen=True)
class Wanted:
    """What the user says of a log, where its format does not.

    Attributes
    ----------
    roles : Roles
        Columns by role, those that were named.
    pattern : str, optional
        A regular expression; what it finds in the text of a class (its first group, if it has one) is the
        class.
    nodes : path, optional
        A second file, for formats that need one.
    words : mapping
        What states mean.
    time_format : TimeFormat
        How times are written.
    """

    roles: Roles = field(default_factory=Roles)
    pattern: str | None = None
    nodes: str | None = None
    words: Mapping[str, JobOutcome] = field(default_factory=vocabulary)
    time_format: TimeFormat = field(default_factory=TimeFormat)


@dataclass(frozen=True)
class LogSource:
    """File to be imported, compressed or not, and the callback for the progress of reading it."""

    path: str
    progress: Callable[[float], None] = lambda _: None

    def head(self) -> bytes:
        """Return the beginning of what the file holds."""
        with self.opened() as file:
            return file.read(_HEAD)

    @contextmanager
    def opened(self) -> Iterator[io.BufferedIOBase]:
        """Open the file for reading what it holds as UTF-8; whatever goes wrong with it is `InvalidFile`."""
        try:
            with Path(self.path).open("rb") as raw:
                magic = raw.peek(8)
                opener = next((open_ for start, open_ in _MAGIC.items() if magic.startswith(start)), None)
                if opener is None:
                    yield _Counted(opened_as_utf8(raw), raw, self)
                else:
                    with opener(raw) as file:  # type: ignore[arg-type]
                        yield _Counted(opened_as_utf8(file), raw, self)
        except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
            raise InvalidFile(f"{self.path}: cannot be read: {reason_of(error)}") from error
        except ValueError as error:
            if isinstance(error, InvalidInput):
                raise
            raise InvalidFile(f"{self.path}: cannot be read: {reason_of(error)}") from error


class _Counted(io.BufferedIOBase):
    """A file that says how much of it has been read."""

    def __init__(self, file: io.BufferedIOBase, raw: io.BufferedReader, source: LogSource) -> None:
        self._file, self._raw, self._source = file, raw, source
        self._size = max(os.fstat(raw.fileno()).st_size, 1)

    def read(self, size: int | None = -1, /) -> bytes:
        """Read some of it."""
        content = self._file.read(size)
        self._source.progress(min(self._raw.tell() / self._size, 1.0))
        return content


class Importer(Protocol):
    """Importer of one format."""

    @property
    def name(self) -> str:
        """What the format is called."""
        ...

    @property
    def about(self) -> str:
        """The format in a few words."""
        ...

    def recognises(self, head: bytes) -> bool:
        """Return whether a file that begins so is of the format."""
        ...

    def read(self, source: LogSource, wanted: Wanted) -> JobRows:
        """Return its rows about jobs."""
        ...
