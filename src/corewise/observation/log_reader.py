"""The reader of event logs: blocks of lines come in, a path and complaints come out.

What is wrong with a line taken by itself is found when it is parsed, what is wrong with it after those before
it when all have been read; rows of one instant may come in any order. Only the columns are kept in memory,
never the text.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from io import BufferedIOBase
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corewise.errors import InvalidFile, InvalidInput
from corewise.kit.arrays import Ints
from corewise.model.system import System
from corewise.observation.instants import settled
from corewise.observation.log_blocks import PlainBlocks
from corewise.observation.log_lines import (
    Block,
    Header,
    Labels,
    is_simple,
    parse_block,
    parse_line,
    salvaged_line,
)
from corewise.observation.mending import mended
from corewise.observation.rows import NOBODY, Columns, Fault, find_faults, in_words
from corewise.observation.sample_path import SamplePath

__all__ = ["Reader"]

_BLOCK_BYTES = 8 * 2**20
_MUCH = 2**21  # bytes: of fewer, what compiled loops save is less than it takes to compile them
_MOST_REASONS = 10
_KEPT_NUMBERS = 2**20
"""Labels that are whole numbers below this, or below the number of rows, are kept as the numbers of jobs."""


@dataclass
class Reader:
    """Parser of an event log: takes in a file block by block, and keeps its columns.

    Attributes
    ----------
    name : str
        What to call the file.
    system : System
        Its classes are those of the log, its cores the pool.
    lenient : bool
        Whether to leave out what cannot be used, and to cut the jobs short that it is about.
    """

    name: str
    system: System
    lenient: bool
    _header: Header | None = None
    _plain: PlainBlocks | None = None
    _labels: Labels = field(default_factory=Labels)
    _columns: tuple[list[NDArray[Any]], ...] = field(default_factory=lambda: ([], [], [], [], []))
    _lines: int = 0  # so far
    _rowless: list[int] = field(default_factory=list)  # lines that gave no row: header, blank, skipped
    _said: dict[int, str] = field(default_factory=dict)  # why a line cannot be read
    _skipped: int = 0
    _cut: int = 0
    _reasons: tuple[str, ...] = ()

    def read(self, file: BufferedIOBase) -> None:
        """Parse a file."""
        for block in self._blocks(file):
            self._take(block)

    def finish(self) -> tuple[SamplePath, int, int, tuple[str, ...], int]:
        """Return the path, how many rows there were and were skipped, why, and how many jobs were cut."""
        if self._header is None:
            raise InvalidFile(f"{self.name}: empty, without even a header")
        time, event, job_class, label, cores = (_joined(column) for column in self._columns)
        rows = time.size
        if rows == 0:
            raise InvalidFile(f"{self.name}: no events")
        usable = Columns(
            tuple(self.system.names), self.system.cores, time, event, job_class, _numbers(label), cores
        )
        usable = self._mended(usable, label) if self.lenient else self._settled(usable, label)
        if not usable.time.size:
            raise InvalidFile(f"{self.name}: none of {rows} rows can be used; {self._reasons[0]}")
        return SamplePath._checked(usable), rows, self._skipped, self._reasons, self._cut

    # --- taking in lines

    def _blocks(self, file: BufferedIOBase) -> Iterator[bytes]:
        """Yield the file in blocks of whole lines; the one before is taken in when the next is asked for."""
        rest = b""
        while chunk := file.read(_BLOCK_BYTES):
            line = self._lines + 1
            if b"\0" in chunk:
                line += chunk.count(b"\n", 0, chunk.index(b"\0"))
                raise self._error(line, "a binary file, not an event log")
            if len(rest) > _BLOCK_BYTES:
                raise self._error(line, f"longer than {_BLOCK_BYTES // 2**20} MiB, not an event log")
            whole, end, tail = chunk.rpartition(b"\n")
            if end:
                yield rest + whole + end
            rest = tail if end else rest + tail
        if rest:
            yield rest

    def _take(self, block: bytes) -> None:
        if b"\r" in block:
            block = block.replace(b"\r\n", b"\n")
        while self._header is None and block:
            line, _, block = block.partition(b"\n")
            self._lines += 1
            self._rowless.append(self._lines)
            if line.strip():
                try:
                    self._header = Header.of(_decoded(line), self.system.names, self.lenient)
                    self._plain = PlainBlocks(self._header, self._labels)
                except InvalidInput as error:
                    raise self._error(self._lines, str(error)) from None
        if self._header is not None and block:
            rows = self._plain.parse(block) if self._plain and len(block) >= _MUCH else None
            rows = rows or self._rows_at_once(block, self._header)
            rows = rows or self._rows_one_by_one(block, self._header)
            columns: tuple[NDArray[Any], ...] = rows
            for column, values in zip(self._columns, columns, strict=True):
                column.append(values)
            self._lines += block.count(b"\n") + (not block.endswith(b"\n"))

    def _rows_at_once(self, block: bytes, header: Header) -> Block | None:
        try:
            text = block.decode().removesuffix("\n")
        except UnicodeDecodeError:
            return None
        lines = text.split("\n")
        filled = [line for line in lines if line] if "" in lines else lines
        rows = parse_block(filled, header, self._labels) if filled and is_simple(text) else None
        if rows is not None and len(filled) < len(lines):
            self._rowless += [self._lines + k for k, line in enumerate(lines, start=1) if not line]
        return rows

    def _rows_one_by_one(self, block: bytes, header: Header) -> Block:
        rows = []
        for number, line in enumerate(block.removesuffix(b"\n").split(b"\n"), start=self._lines + 1):
            if not line.strip():
                self._rowless.append(number)
                continue
            try:
                rows.append(parse_line(_decoded(line), header, self._labels))
            except InvalidInput as error:
                if not self.lenient:
                    raise self._error(number, str(error)) from None
                self._said[number] = str(error)
                rows.append(salvaged_line(line.decode(errors="replace"), header, self._labels))
        return Block.of(rows, header)

    # --- what is wrong

    def _settled(self, columns: Columns, label: Ints) -> Columns:
        """Return the rows, if need be in another order within instants; an impossible one is an error."""
        if find_faults(columns)[0] < 0:
            return columns
        columns, source = settled(columns)
        row, faults = find_faults(columns)
        if row < 0:
            return columns
        was = int(source[row])
        raise self._error(self._line(was), self._why(columns, row, Fault(faults[row]), int(label[was])))

    def _mended(self, columns: Columns, label: Ints) -> Columns:
        """Return the rows with what is wrong left out, and the jobs it was about cut short."""
        if find_faults(columns)[0] < 0:
            return columns
        found = mended(columns)
        bad = np.flatnonzero(found.faults)
        self._skipped, self._cut = bad.size, found.cut
        reasons = []
        for row in bad[:_MOST_REASONS].tolist():
            line = self._line(row)
            why = self._said.get(line) or self._why(columns, row, Fault(found.faults[row]), int(label[row]))
            reasons.append(f"line {line}: {why}")
        self._reasons = tuple(reasons)
        return found.columns

    def _line(self, row: int) -> int:
        """Return the line that a row is on."""
        rowless = np.array(self._rowless) - np.arange(1, len(self._rowless) + 1)  # rows before each
        return row + 1 + int(np.searchsorted(rowless, row, side="right"))

    def _why(self, columns: Columns, row: int, fault: Fault, label: int) -> str:
        job = repr(self._labels.text(label)) if label != NOBODY else None
        return ": ".join(in_words(columns, row, fault, job))

    def _error(self, line: int, why: str) -> InvalidFile:
        return InvalidFile(f"{self.name}, line {line}: {why}")


def _decoded(line: bytes) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        raise InvalidInput(f"not UTF-8 text, byte 0x{line[error.start]:02x}") from None


def _joined(column: list[NDArray[Any]]) -> NDArray[Any]:
    """Return the blocks of a column as one, and let go of them."""
    whole = np.concatenate(column) if column else np.empty(0)
    column.clear()
    whole.setflags(write=False)
    return whole


def _numbers(label: Ints) -> Ints:
    """Return the numbers of jobs for the codes of their `Labels`."""
    if label.size == 0 or (label.min() >= NOBODY and label.max() < max(label.size, _KEPT_NUMBERS)):
        return label
    if label.max() < 0:  # texts alone: they were coded in order of appearance
        return np.where(label < NOBODY, -2 - label, NOBODY)
    codes, first, places = np.unique(label, return_index=True, return_inverse=True)
    named = np.flatnonzero(codes != NOBODY)
    numbers = np.full(codes.size, NOBODY)
    numbers[named[np.argsort(first[named])]] = np.arange(named.size)
    return numbers[places]
