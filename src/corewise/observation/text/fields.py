"""Columns of a delimited text, block by block: numbers, times and texts as arrays.

Lines are taken in as bytes and never become objects; only what needs a closer look does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import BufferedIOBase
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from corewise.errors import InvalidInput
from corewise.kit.arrays import Floats, Ints
from corewise.observation.text import _kernels

__all__ = [
    "Fields",
    "Kinds",
    "Layout",
    "ManyTexts",
    "TextCodes",
    "TextPool",
    "line_blocks",
    "numbers",
    "times",
]

_BLOCK_BYTES = 16 * 2**20
_FIRST_SLOTS = 1024
_NEWLINE, _QUOTE = 10, 34

Kinds = NDArray[np.int8]
"""What each field of a column is: `_kernels.BAD` and so on."""


@dataclass(frozen=True)
class Layout:
    """Layout of a delimited text.

    Attributes
    ----------
    columns : tuple of str
        The columns, in the order of the text.
    wanted : tuple of str
        Those that are looked at.
    delimiter : str
        What is between fields; a blank stands for any number of blanks.
    quotes : bool
        Whether a field may be in double quotes.
    comment : str
        What lines begin with that are passed over, if there are any.
    """

    columns: tuple[str, ...]
    wanted: tuple[str, ...]
    delimiter: str = ","
    quotes: bool = True
    comment: str = ""


class Fields(NamedTuple):
    """Fields of some lines: where they are in the text, the wanted columns only."""

    layout: Layout
    text: NDArray[np.uint8]
    starts: Ints
    ends: Ints
    counts: Ints
    begins: Ints
    lines: Ints
    last: int

    @classmethod
    def of(cls, text: NDArray[np.uint8], layout: Layout) -> Fields:
        """Return the fields of a text; lines are counted from 0, `last` is how many there are."""
        most = int(np.count_nonzero(text == _NEWLINE)) + 1
        wide = len(layout.wanted)
        place = np.array([layout.wanted.index(c) if c in layout.wanted else -1 for c in layout.columns])
        starts, ends = np.zeros((2, most, wide), dtype=np.int64)
        counts, lines, begins = (
            np.zeros(most, np.int64),
            np.zeros(most, np.int64),
            np.zeros(most + 1, np.int64),
        )
        comment = ord(layout.comment) if layout.comment else -1
        rows, last = _kernels.split_fields(
            text, ord(layout.delimiter), layout.quotes, comment, place, starts, ends, counts, begins, lines
        )
        kept = slice(0, int(rows))
        return cls(
            layout, text, starts[kept], ends[kept], counts[kept], begins[: rows + 1], lines[kept], int(last)
        )

    def column(self, name: str) -> tuple[Ints, Ints]:
        """Return where the fields of a column begin and end."""
        k = self.layout.wanted.index(name)
        return np.ascontiguousarray(self.starts[:, k]), np.ascontiguousarray(self.ends[:, k])

    def shown(self, name: str, row: int) -> str:
        """Return one field as a text."""
        k = self.layout.wanted.index(name)
        return bytes(self.text[self.starts[row, k] : self.ends[row, k]]).decode(errors="replace").strip()


def line_blocks(file: BufferedIOBase, quotes: bool, size: int = _BLOCK_BYTES) -> Iterator[NDArray[np.uint8]]:
    """Yield a file in blocks of whole lines; a line may go on within quotes."""
    rest = b""
    while chunk := file.read(size):
        if b"\0" in chunk:
            raise InvalidInput("a binary file, not a log")
        cut = chunk.rfind(b"\n") + 1
        block = rest + chunk[:cut]
        if not cut or (quotes and block.count(b'"') % 2):
            rest += chunk
            if len(rest) > 4 * size:
                raise InvalidInput("no end of a line, or of quotes, within a long stretch: not a log")
            continue
        rest = chunk[cut:]
        yield np.frombuffer(block, dtype=np.uint8)
    if rest:
        yield np.frombuffer(rest, dtype=np.uint8)


def numbers(fields: Fields, name: str) -> tuple[Floats, Kinds]:
    """Return a column of numbers, NaN where there is none, and what each field is."""
    return _read(fields, name, _kernels.read_numbers)


def times(fields: Fields, name: str) -> tuple[Floats, Kinds]:
    """Return a column of times in seconds, NaN where there is none, and what each field is."""
    return _read(fields, name, _kernels.read_times)


def _read(fields: Fields, name: str, reader: object) -> tuple[Floats, Kinds]:
    starts, ends = fields.column(name)
    values, kinds = np.empty(starts.size), np.empty(starts.size, dtype=np.int8)
    reader(fields.text, starts, ends, values, kinds)  # type: ignore[operator]  # a compiled function
    long = np.flatnonzero(kinds == _kernels.LONG)
    if long.size:
        source = fields.text.tobytes()
        spans = zip(starts[long].tolist(), ends[long].tolist(), strict=True)
        values[long] = [float(source[begin:end]) for begin, end in spans]
        kinds[long] = np.where(np.isfinite(values[long]), _kernels.NUMBER, _kernels.BAD)
    return values, kinds


class TextCodes:
    """Codes of the different texts of a column, in order of appearance."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._known = 0
        self._keys = np.zeros(_FIRST_SLOTS, dtype=np.uint64)
        self._codes = np.full(_FIRST_SLOTS, -1, dtype=np.int64)

    def codes(self, fields: Fields, name: str) -> Ints:
        """Return the code of every field of a column."""
        return self.of_spans(fields.text, *fields.column(name))

    def of_spans(self, text: NDArray[np.uint8], starts: Ints, ends: Ints) -> Ints:
        """Return the code of every text between these places."""
        hashes, found = np.empty(starts.size, dtype=np.uint64), np.empty(starts.size, dtype=np.int64)
        _kernels.hash_texts(text, starts, ends, hashes)
        rows, done = np.empty(starts.size, dtype=np.int64), 0
        while done < starts.size:
            before = self._known
            self._known = _kernels.code_texts(
                hashes[done:], self._keys, self._codes, before, rows, found[done:]
            )
            fresh = rows[: self._known - before] + done
            if fresh.size:
                self._remember(text, starts[fresh], ends[fresh])
            open_rows = np.flatnonzero(found[done:] < 0)
            if not open_rows.size:
                break
            done += int(open_rows[0])
            self._grow()
        return found

    def _remember(self, text: NDArray[np.uint8], starts: Ints, ends: Ints) -> None:
        spans = zip(starts.tolist(), ends.tolist(), strict=True)
        self.texts += [bytes(text[begin:end]).decode(errors="replace").strip() for begin, end in spans]

    def _grow(self) -> None:
        keys, codes = self._keys[self._codes >= 0], self._codes[self._codes >= 0]
        size = 4 * self._keys.size
        order = np.argsort(codes)
        self._keys, self._codes = np.zeros(size, dtype=np.uint64), np.full(size, -1, dtype=np.int64)
        scratch = np.empty(keys.size, dtype=np.int64)
        _kernels.code_texts(keys[order], self._keys, self._codes, 0, scratch, np.empty(keys.size, np.int64))


class ManyTexts(TextCodes):
    """Codes of so many different texts that they are kept as bytes one after another, not as objects."""

    def __init__(self) -> None:
        super().__init__()
        self._copies: list[NDArray[np.uint8]] = []
        self._offsets: list[Ints] = []

    def _remember(self, text: NDArray[np.uint8], starts: Ints, ends: Ints) -> None:
        copy = np.empty(int((ends - starts).sum()), dtype=np.uint8)
        offsets = np.empty(starts.size + 1, dtype=np.int64)
        _kernels.copy_texts(text, starts, ends, copy, offsets)
        self._copies.append(copy[: offsets[-1]])
        self._offsets.append(offsets)

    def text(self, code: int) -> str:
        """Return the text of a code."""
        for copy, offsets in zip(self._copies, self._offsets, strict=True):
            if code < offsets.size - 1:
                return bytes(copy[offsets[code] : offsets[code + 1]]).decode()
            code -= offsets.size - 1
        raise IndexError(code)


class TextPool:
    """Texts of a column, one after another, and a number for each by which equal ones are known."""

    def __init__(self) -> None:
        self._copies: list[NDArray[np.uint8]] = []
        self._sizes: list[Ints] = []
        self._hashes: list[NDArray[np.uint64]] = []

    def add(self, fields: Fields, name: str) -> None:
        """Take in a column of some lines."""
        starts, ends = fields.column(name)
        copy = np.empty(int((ends - starts).sum()), dtype=np.uint8)
        offsets, hashes = np.empty(starts.size + 1, dtype=np.int64), np.empty(starts.size, dtype=np.uint64)
        _kernels.copy_texts(fields.text, starts, ends, copy, offsets)
        _kernels.hash_texts(fields.text, starts, ends, hashes)
        self._copies.append(copy[: offsets[-1]].copy())
        self._sizes.append(np.diff(offsets).astype(np.int32))
        self._hashes.append(hashes)

    def gathered(self) -> tuple[NDArray[np.uint8], Ints, NDArray[np.uint64]]:
        """Return the texts, where each begins (and one more for the end), and their numbers."""
        sizes = _joined(self._sizes, np.int32)
        offsets = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
        return _joined(self._copies, np.uint8), offsets, _joined(self._hashes, np.uint64)


def _joined(parts: Sequence[NDArray[Any]], kind: type) -> NDArray[Any]:
    return np.concatenate(parts) if parts else np.empty(0, dtype=kind)
