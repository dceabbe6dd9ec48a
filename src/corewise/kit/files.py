"""Files, whole or not at all: reading and writing their bytes."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from corewise.errors import CorewiseError, InvalidFile, nearest
from corewise.kit.encodings import as_utf8
from corewise.kit.numbers import is_number

__all__ = ["read_bytes", "read_column", "read_text", "reason_of", "require_path", "write_bytes", "writing"]

# Nothing that is read whole comes near this; an endless device or a disk image named by mistake does.
_MOST_BYTES = 64 * 2**20


def read_bytes(path: str | os.PathLike[str]) -> bytes:
    """Return what a file holds; whatever prevents it becomes `InvalidFile`."""
    require_path(path)
    try:
        with Path(path).open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
    except (OSError, ValueError) as error:  # ValueError: a path with a NUL in it
        raise InvalidFile(f"{os.fspath(path)}: cannot be read: {reason_of(error)}") from error
    if len(content) > _MOST_BYTES:
        raise InvalidFile(f"{os.fspath(path)}: too large, more than {_MOST_BYTES // 2**20} MiB")
    return content


def read_text(path: str | os.PathLike[str]) -> str:
    """Return the text of a file in UTF-8, or in UTF-16 with a byte-order mark.

    Whatever prevents reading becomes `InvalidFile`; what is not text raises `UnicodeDecodeError`.
    """
    return as_utf8(read_bytes(path)).decode()


def read_column(path: str | os.PathLike[str], column: str | None = None) -> list[float]:
    """Return the numbers in a column of a CSV file, or its only one; whatever prevents it is `InvalidFile`.

    The first row may be a header; it must be if a column is asked for.
    """
    name = os.fspath(path)
    try:
        rows = [row for row in csv.reader(read_text(path).splitlines()) if row]
    except (UnicodeDecodeError, csv.Error) as error:
        raise InvalidFile(f"{name}: not a table of numbers: {reason_of(error)}") from None
    if not rows:
        raise InvalidFile(f"{name}: an empty file, where numbers were expected")
    header = [cell.strip() for cell in rows[0]]
    if column is not None and column not in header:
        raise InvalidFile(f"{name}: no column {column!r}{nearest(column, header)}")
    if column is None and len(header) > 1:
        raise InvalidFile(f"{name}: which of the columns {', '.join(header)}?")
    place = 0 if column is None else header.index(column)
    begin = 1 if column is not None or not is_number(header[0]) else 0
    values = []
    for line, row in enumerate(rows[begin:], start=begin + 1):
        cell = row[place] if place < len(row) else ""
        if not is_number(cell):
            raise InvalidFile(f"{name}: row {line} has {cell!r} where a number was expected")
        values.append(float(cell))
    return values


def write_bytes(path: str | os.PathLike[str], content: bytes) -> None:
    """Write a file whole or not at all; whatever prevents it becomes `InvalidFile`."""
    with writing(path) as file:
        file.write(content)


@contextmanager
def writing(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a file that is written whole or not at all; whatever prevents it becomes `InvalidFile`.

    The content goes to a temporary file beside the target, which takes its name when all is written. A target
    that is not a regular file (a terminal, a pipe) is written to directly.
    """
    require_path(path)
    try:
        target = Path(path).resolve()
        if target.exists() and not target.is_file():
            with target.open("wb") as device:
                yield device
            return
        draft = target.with_name(f".{target.name[:100]}.{os.getpid()}.part")
        try:
            with draft.open("wb") as file:
                yield file
            draft.replace(target)
        finally:
            draft.unlink(missing_ok=True)
    except (OSError, ValueError, RuntimeError) as error:  # RuntimeError: a loop of symbolic links
        if isinstance(error, CorewiseError):
            raise
        raise InvalidFile(f"{os.fspath(path)}: cannot be written: {reason_of(error)}") from error


def require_path(path: object) -> None:
    """Raise `InvalidFile` unless `path` is the path of a file."""
    if not isinstance(path, str | os.PathLike):
        raise InvalidFile(f"expected the path of a file, got {path!r}")


def reason_of(error: Exception) -> str:
    """Return why the system refused, in a few words."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return str(error)
