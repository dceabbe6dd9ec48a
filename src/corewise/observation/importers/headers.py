"""Headers of tables: their columns, and which of them says what."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import replace

from corewise.errors import InvalidInput
from corewise.observation.importers.base import Roles

__all__ = ["header_of", "roles_among"]

_LONGEST = 1 << 20


def header_of(file: io.BufferedIOBase, delimiter: str) -> tuple[tuple[str, ...], io.BufferedIOBase]:
    """Return the columns that the first line of a file names, and the rest of the file."""
    head = b""
    while b"\n" not in head and len(head) < _LONGEST:
        more = file.read(_LONGEST)
        if not more:
            break
        head += more
    line, _, rest = head.partition(b"\n")
    if not line.strip():
        raise InvalidInput("empty, without even a header")
    text = line.decode(errors="replace").rstrip("\r")
    columns = text.split(delimiter) if delimiter == "|" else next(csv.reader([text], delimiter=delimiter))
    return tuple(column.strip() for column in columns), _Rest(rest, file)


class _Rest(io.BufferedIOBase):
    """What is left of a file after its first line."""

    def __init__(self, rest: bytes, file: io.BufferedIOBase) -> None:
        self._rest, self._file = rest, file

    def read(self, size: int | None = -1, /) -> bytes:
        """Read some of it."""
        if self._rest:
            first, self._rest = self._rest, b""
            return first
        return self._file.read(size)


def roles_among(columns: Sequence[str], aliases: Mapping[str, Sequence[str]], roles: Roles) -> Roles:
    """Return the roles for which one of some names is a column, the first that is."""
    bare = {column.lower().replace(" ", "_"): column for column in reversed(columns)}
    found = {}
    for role, names in aliases.items():
        column = next((bare[name.lower()] for name in names if name.lower() in bare), None)
        if column is not None:
            found[role] = column
    return replace(roles, **found)  # type: ignore[arg-type]
