"""Reader of event logs: a file goes in, a sample path and the faults of its rows come out.

A block of lines is parsed in one of two ways, which give the same values:

- *compiled loops*, for much plain text: printable ASCII without blanks or quotes, no line without fields. No
  object is made for a row, a field or a label;
- *the csv module*, for all else. It is the judge of what a line says, and goes line by line where something
  is wrong with the block, to say what.

A fault of a line taken by itself is found when it is parsed, a fault of a row given the rows before it when
all have been read; simultaneous rows may come in any order. Only the columns are kept in memory, never the
text.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from io import BufferedIOBase
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from corewise.errors import InvalidFile, InvalidInput, nearest
from corewise.kit.arrays import Floats, Ints
from corewise.observation.log_repair import repaired, with_ties_reordered
from corewise.observation.rows import EVENT_NAMES, NO_JOB, Columns, EventKind, Fault, find_faults, in_words
from corewise.observation.sample_path import SamplePath
from corewise.observation.text import _kernels
from corewise.observation.text.fields import Fields, Layout, ManyTexts, TextCodes, numbers

__all__ = [
    "Block",
    "ClassCodes",
    "Header",
    "Labels",
    "LogReader",
    "PlainBlocks",
    "parse_block",
    "parse_line",
]

_BLOCK_BYTES = 8 * 2**20
_MUCH = 2**21  # bytes: of fewer, what compiled loops save is less than it takes to compile them
_MOST_REASONS = 10
_MOST_CLASSES = 1000
_MOST_CORES = 1e9
_KEPT_NUMBERS = 2**20
"""Labels that are whole numbers below this, or below the number of rows, are kept as the numbers of jobs."""

_NEEDED = ("time", "event", "class", "job")
_DIGITS = 18  # any number of so many digits fits into 64 bits
_TENS = np.array([0, *(10**k for k in range(1, 19))])  # so many are at most a number as it has digits
_NEWLINE, _QUOTE = 10, 34
_PLAIN = np.zeros(256, dtype=np.bool_)
_PLAIN[33:127] = True
_PLAIN[[_NEWLINE, _QUOTE]] = True, False

LogRow = tuple[float, int, int, int, list[float]]


# --- header, classes and labels ---------------------------------------------------------------------


class ClassCodes:
    """Codes of class names, which are their positions.

    Parameters
    ----------
    names : sequence of str or None
        The classes; None for those that come up, in order of appearance.
    """

    def __init__(self, names: Sequence[str] | None) -> None:
        self.names: list[str] = list(names or ())
        self._fixed = names is not None
        self._codes = {"": NO_JOB, **{name: i for i, name in enumerate(self.names)}}

    def code(self, name: str) -> int:
        """Return the code of a class, `NO_JOB` for an empty name."""
        code = self._codes.get(name)
        if code is None:
            if self._fixed:
                raise InvalidInput(f"unknown class {_short(name)}{nearest(name, self.names)}")
            code = self._codes[name] = len(self.names)
            self.names.append(name)
        return code


@dataclass(frozen=True)
class Header:
    """Header of an event log: which column is where, and in which form the cores are given.

    Attributes
    ----------
    columns : tuple of str
        The columns of the file, in its order.
    classes : ClassCodes
        The classes.
    per_job : bool
        Whether the cores are those of each row's own job.
    """

    columns: tuple[str, ...]
    classes: ClassCodes
    per_job: bool

    @classmethod
    def of(cls, line: str, names: Sequence[str] | None, lenient: bool) -> Header:
        """Return the header that a line is; other columns are ignored if `lenient`, and else refused."""
        columns = tuple(column.strip() for column in _fields_of(line))
        totals = [column.removeprefix("cores:") for column in columns if column.startswith("cores:")]
        if names is None and "class" not in columns:
            raise InvalidInput(f"the header has no column 'class', but {', '.join(columns[:6])}")
        if names is None and totals:
            names = list(dict.fromkeys(totals))
        for name in totals:
            if names is not None and name not in names:
                raise InvalidInput(
                    f"column 'cores:{name}': unknown class {name!r}{nearest(name, list(names))}"
                )
        per_job = "cores" in columns
        if per_job and totals:
            raise InvalidInput(f"columns 'cores' and 'cores:{totals[0]}' exclude each other")
        header = cls(columns, ClassCodes(names), per_job or names is None)
        needed = [*_NEEDED, *header.cores]
        missing = [column for column in needed if column not in columns]
        if missing:
            raise InvalidInput(
                f"the header must name the columns {','.join(needed)}, and has no {', '.join(missing)}"
                f"{_hint(line, columns, missing)}"
            )
        for column in columns:
            if columns.count(column) > 1:
                raise InvalidInput(f"column {column!r} is there {columns.count(column)} times")
            if column not in needed and not lenient:
                raise InvalidInput(f"unknown column {column!r}; the columns are {','.join(needed)}")
        return header

    @property
    def cores(self) -> list[str]:
        """The columns of cores."""
        return ["cores"] if self.per_job else [f"cores:{name}" for name in self.classes.names]


def _hint(line: str, columns: Sequence[str], missing: Sequence[str]) -> str:
    """Return what is likely to be wrong with a header."""
    if "," not in line and (mark := next((mark for mark in ";\t" if mark in line), "")):
        return f"; fields seem to be separated by {mark!r}, and must be by ','"
    if {column.lower() for column in columns} & set(missing):
        return "; names are in lower case"
    return ""


class Labels:
    """Codes for the labels of jobs: a whole number has itself, no label −1, other texts −2, −3, and so on."""

    def __init__(self) -> None:
        self._codes: dict[str, int] = {}  # of texts that came one by one
        self._texts = ManyTexts()

    def code(self, label: str) -> int:
        """Return the code of one label, which may have blanks about it."""
        if _is_plain(label):
            return int(label)
        code = self._codes.get(label)
        if code is None:
            code = self._codes[label] = self._new_code(label)
        return code

    def _new_code(self, label: str) -> int:
        bare = label.strip()
        if not bare:
            return NO_JOB
        if bare != label:
            return self.code(bare)
        letters = np.frombuffer(label.encode(), dtype=np.uint8)
        return -2 - int(self._texts.of_spans(letters, np.array([0]), np.array([letters.size]))[0])

    def of_texts(self, texts: Sequence[str]) -> Ints:
        """Return the codes of many labels, at once if they are whole numbers or empty."""
        digits = "".join(texts)
        if digits.isascii() and digits.isdigit():
            filled = [text or NO_JOB for text in texts] if "" in texts else texts
            with suppress(OverflowError, ValueError):  # ValueError: more digits than Python reads
                codes = np.fromiter(map(int, filled), dtype=np.int64, count=len(texts))
                shortest = np.searchsorted(_TENS, codes, side="right").sum() == len(digits)
                if shortest and codes.max() < 10**_DIGITS:
                    return codes
        return _coded(texts, self.code)

    def of_fields(self, fields: Fields, name: str) -> Ints:
        """Return the codes of a column of plain text, in which nothing has blanks about it."""
        starts, ends = fields.column(name)
        codes = np.empty(starts.size, dtype=np.int64)
        _kernels.whole_numbers(fields.text, starts, ends, _DIGITS, codes)
        texts = np.flatnonzero(codes < NO_JOB)
        if texts.size:
            codes[texts] = -2 - self._texts.of_spans(fields.text, starts[texts], ends[texts])
        return codes

    def text(self, code: int) -> str:
        """Return the label of a code."""
        return str(code) if code >= 0 else self._texts.text(-2 - code)


def _is_plain(label: str) -> bool:
    """Whether a label is a whole number in its shortest form that fits into 64 bits."""
    return label.isdigit() and len(label) <= _DIGITS and label.isascii() and (label[0] != "0" or label == "0")


# --- rows -------------------------------------------------------------------------------------------


class Block(NamedTuple):
    """Block of parsed rows: the columns of a `SamplePath`, but for jobs the codes of their `Labels`."""

    time: Floats
    event: NDArray[np.int8]
    job_class: Ints
    label: Ints
    cores: Floats

    @classmethod
    def of(cls, rows: Sequence[LogRow], header: Header) -> Block:
        """Return rows as columns."""
        time, event, job_class, label, cores = zip(*rows, strict=True) if rows else ((),) * 5
        shape = (len(rows),) if header.per_job else (len(rows), len(header.classes.names))
        return cls(
            np.array(time, dtype=np.float64),
            np.array(event, dtype=np.int8),
            np.array(job_class, dtype=np.int64),
            np.array(label, dtype=np.int64),
            np.array(cores, dtype=np.float64).reshape(shape),
        )


class PlainBlocks:
    """Parser of blocks of plain text by compiled loops, which keeps the codes of texts between blocks."""

    def __init__(self, header: Header, labels: Labels) -> None:
        self._header, self._labels = header, labels
        self._layout = Layout(header.columns, (*_NEEDED, *header.cores), quotes=False)
        self._event_codes, self._class_codes = TextCodes(), TextCodes()

    def parse(self, block: bytes) -> Block | None:
        """Return the rows of a block, or None if it is for the csv module."""
        text = np.frombuffer(block, dtype=np.uint8)
        if not _PLAIN[text].all():
            return None
        fields = Fields.of(text, self._layout)
        if not fields.counts.size or np.any(fields.counts != len(self._layout.columns)):
            return None
        if fields.last != fields.counts.size:  # blank lines
            return None
        time, cores = _finite(fields, "time"), self._held(fields)
        if time is None or cores is None:
            return None
        event = self._event_codes.codes(fields, "event")
        job_class = self._class_codes.codes(fields, "class")
        try:
            events = np.array([EVENT_NAMES[text] for text in self._event_codes.texts], dtype=np.int8)
            classes = np.array(list(map(self._header.classes.code, self._class_codes.texts)), dtype=np.int64)
        except (KeyError, InvalidInput):
            return None
        return Block(time, events[event], classes[job_class], self._labels.of_fields(fields, "job"), cores)

    def _held(self, fields: Fields) -> Floats | None:
        if self._header.per_job:
            return _finite(fields, "cores", optional=True)
        names = self._header.cores
        columns = [column for name in names if (column := _finite(fields, name)) is not None]
        return np.stack(columns, axis=1) if len(columns) == len(names) else None


def _finite(fields: Fields, name: str, *, optional: bool = False) -> Floats | None:
    """Return a column of finite numbers, NaN where a field is empty if it may be, or None."""
    values, kinds = numbers(fields, name)
    fine = kinds == _kernels.NUMBER
    if optional:
        starts, ends = fields.column(name)
        fine |= starts == ends
    return values if fine.all() else None


def parse_block(text: str, header: Header, labels: Labels) -> Block | None:
    """Return the rows of lines that are not blank, or None if something is wrong with one of them."""
    try:
        columns = _split_columns(text, len(header.columns))
        if columns is None:
            return None
        fields = dict(zip(header.columns, columns, strict=True))
        time = _column_of_numbers(fields["time"])
        event = _coded(fields["event"], EVENT_NAMES.__getitem__).astype(np.int8)
        cores = [_column_of_cores(fields[name], optional=header.per_job) for name in header.cores]
        job_class = _coded(fields["class"], lambda text: header.classes.code(text.strip()))
    except (csv.Error, KeyError, ValueError, InvalidInput):
        return None
    label = labels.of_texts(fields["job"])
    return Block(time, event, job_class, label, cores[0] if header.per_job else np.stack(cores, axis=1))


def _split_columns(text: str, wide: int) -> Sequence[Sequence[str]] | None:
    """Return the columns of lines as the csv module sees them, or None if a line has not so many fields.

    Without quotes a field is what is between two commas, and `str.split` takes a third of the time: line
    breaks are made fields, which must come after every `wide` others.
    """
    if '"' not in text and "\r" not in text and not _has_long_lines(text):
        fields, breaks = text.replace("\n", ",\n,").split(","), text.count("\n")
        if len(fields) != wide + breaks * (wide + 1) or fields[wide :: wide + 1].count("\n") != breaks:
            return None
        return [fields[column :: wide + 1] for column in range(wide)]
    lines = text.split("\n")
    rows = list(csv.reader(lines, strict=True))
    if len(rows) != len(lines) or set(map(len, rows)) != {wide}:
        return None  # a quoted line break joins two lines
    return list(zip(*rows, strict=True))


def _has_long_lines(text: str) -> bool:
    """Whether a line may have a field that is too long for the csv module."""
    half = max(1, csv.field_size_limit() // 2)
    return any(text.find("\n", at, at + half) < 0 for at in range(0, len(text) - half, half))


def _coded(texts: Sequence[str], code: Callable[[str], int]) -> Ints:
    """Return the code of each text, which is asked for once, in order of appearance."""
    codes = {text: code(text) for text in dict.fromkeys(texts)}
    return np.fromiter(map(codes.__getitem__, texts), dtype=np.int64, count=len(texts))


def _column_of_numbers(texts: Sequence[str]) -> Floats:
    """Return finite numbers; raise `ValueError` at anything else."""
    if "_" in "".join(texts):  # Python would read 3_0 as 30
        raise ValueError
    values = np.fromiter(map(float, texts), dtype=np.float64, count=len(texts))
    if not np.isfinite(values).all():
        raise ValueError
    return values


def _column_of_cores(texts: Sequence[str], *, optional: bool) -> Floats:
    """Return finite numbers, NaN where a field is empty if it may be: few different ones, each read once."""
    different = list({*texts} - {""} if optional else {*texts})
    cores = dict(zip(different, _column_of_numbers(different).tolist(), strict=True))
    if optional:
        cores[""] = math.nan
    return np.fromiter(map(cores.__getitem__, texts), dtype=np.float64, count=len(texts))


def parse_line(line: str, header: Header, labels: Labels) -> LogRow:
    """Return one row; `InvalidInput` says what is wrong with it."""
    texts = [text.strip() for text in _fields_of(line)]
    if len(texts) != len(header.columns):
        fields_seen = "1 field" if len(texts) == 1 else f"{len(texts)} fields"
        raise InvalidInput(f"{fields_seen}, and the header has {len(header.columns)}")
    fields = dict(zip(header.columns, texts, strict=True))
    time = _number(fields["time"], "time")
    kind = fields["event"]
    if kind not in EVENT_NAMES:
        raise InvalidInput(f"unknown event {_short(kind)}{nearest(kind.lower(), list(EVENT_NAMES))}")
    job_class = header.classes.code(fields["class"])
    edge = kind in ("start", "end")
    if header.per_job:
        cores = [_number(fields["cores"], "cores") if fields["cores"] else math.nan]
    else:
        held = {column: fields[column] for column in header.cores}
        cores = [0.0 if edge and not text else _number(text, column) for column, text in held.items()]
    return time, EVENT_NAMES[kind], job_class, labels.code(fields["job"]), cores


def _salvaged_line(line: str, header: Header, labels: Labels) -> LogRow:
    """Return what is known of a line that cannot be read: its class and job, perhaps; its time is NaN."""
    texts = [text.strip() for text in line.split(",")]
    fields: Mapping[str, str] = {}
    if len(texts) == len(header.columns):
        fields = dict(zip(header.columns, texts, strict=True))
    try:
        job_class = header.classes.code(fields.get("class", ""))
    except InvalidInput:
        job_class = NO_JOB
    event = EVENT_NAMES.get(fields.get("event", ""), int(EventKind.RESIZE))
    cores = [math.nan] * len(header.cores)
    return math.nan, event, job_class, labels.code(fields.get("job", "")), cores


def _fields_of(line: str) -> list[str]:
    """Return the fields of a line of CSV."""
    try:
        return next(csv.reader([line], strict=True), [])
    except csv.Error as error:
        raise InvalidInput(f"not a line of CSV: {error}") from None


def _number(text: str, what: str) -> float:
    try:
        number = float(text.replace("_", "x"))  # Python would read 3_0 as 30
    except ValueError:
        dated = "; times are numbers, in the unit of the rates" if what == "time" and text.strip() else ""
        raise InvalidInput(f"{what} {_short(text)} is not a number{dated}") from None
    if not math.isfinite(number):
        raise InvalidInput(f"{what} {_short(text)} is not finite")
    return number


def _short(text: str) -> str:
    return repr(text if len(text) <= 40 else f"{text[:40]}…")


# --- the reader -------------------------------------------------------------------------------------


@dataclass
class LogReader:
    """Reader of one event log, block by block.

    Attributes
    ----------
    name : str
        The name of the file, for error messages.
    names : sequence of str or None
        The classes; None for those that the log names, in order of appearance.
    pool : float or None
        The cores of the pool; None for the most that were held at once.
    lenient : bool
        Whether to leave out rows that cannot be used, and to censor the jobs that they are about.
    """

    name: str
    names: Sequence[str] | None
    pool: float | None
    lenient: bool
    _header: Header | None = None
    _plain: PlainBlocks | None = None
    _labels: Labels = field(default_factory=Labels)
    _columns: tuple[list[NDArray[Any]], ...] = field(default_factory=lambda: ([], [], [], [], []))
    _lines: int = 0  # so far
    _rowless: list[int] = field(default_factory=list)  # lines that gave no row: header, blank, skipped
    _said: dict[int, str] = field(default_factory=dict)  # why a line cannot be read
    _skipped: int = 0
    _censored: int = 0
    _reasons: tuple[str, ...] = ()

    def read(self, file: BufferedIOBase) -> None:
        """Parse a file."""
        for block in self._blocks(file):
            self._take(block)

    def finish(self) -> tuple[SamplePath, int, int, tuple[str, ...], int]:
        """Return the path, how many rows there were and were skipped, why, and how many jobs are censored."""
        if self._header is None:
            if self.names is None:
                raise InvalidFile(f"{self.name}: not an event log: it is empty")
            raise InvalidFile(f"{self.name}: empty, without even a header")
        time, event, job_class, label, cores = (_joined(column) for column in self._columns)
        rows = time.size
        names = tuple(self._header.classes.names)
        if not names:
            raise InvalidFile(f"{self.name}: no row names a class")
        if rows == 0:
            raise InvalidFile(f"{self.name}: no events")
        pool = _MOST_CORES if self.pool is None else self.pool
        usable = Columns(names, pool, time, event, job_class, _numbers(label), cores)
        usable = self._repaired(usable, label) if self.lenient else self._reordered(usable, label)
        if not usable.time.size:
            raise InvalidFile(f"{self.name}: none of {rows} rows can be used; {self._reasons[0]}")
        path = SamplePath._checked(usable)
        if self.pool is None:
            path = self._with_pool(path)
        return path, rows, self._skipped, self._reasons, self._censored

    def _with_pool(self, path: SamplePath) -> SamplePath:
        """Return the path in a pool of as many cores as were held at once."""
        peak = float(path.total_cores()[1].max())
        if peak <= 0.0:
            raise InvalidFile(f"{self.name}: no job ever holds a core")
        return SamplePath(path.names, peak, path.time, path.event, path.job_class, path.job, path.cores)

    # --- lines

    def _blocks(self, file: BufferedIOBase) -> Iterator[bytes]:
        """Yield the file in blocks of whole lines; the one before is parsed when the next is asked for."""
        rest = b""
        while chunk := file.read(_BLOCK_BYTES):
            line = self._lines + 1
            if b"\0" in chunk:
                if self.names is None and self._header is None:
                    raise InvalidFile(f"{self.name}: not an event log: it is a binary file")
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
                    self._header = Header.of(_decoded(line), self.names, self.lenient)
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
            if self.names is None and len(self._header.classes.names) > _MOST_CLASSES:
                raise InvalidFile(
                    f"{self.name}: not an event log: it names more than {_MOST_CLASSES} classes"
                )

    def _rows_at_once(self, block: bytes, header: Header) -> Block | None:
        try:
            text = block.decode().removesuffix("\n")
        except UnicodeDecodeError:
            return None
        blank = []
        if not text or "\n\n" in text or "\n" in (text[0], text[-1]):
            lines = text.split("\n")
            blank = [self._lines + k for k, line in enumerate(lines, start=1) if not line]
            text = "\n".join(filter(None, lines))
        rows = parse_block(text, header, self._labels) if text else None
        if rows is not None:
            self._rowless += blank
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
                rows.append(_salvaged_line(line.decode(errors="replace"), header, self._labels))
        return Block.of(rows, header)

    # --- faults

    def _reordered(self, columns: Columns, label: Ints) -> Columns:
        """Return the rows, if need be with ties in another order; an impossible row is an error."""
        if find_faults(columns)[0] < 0:
            return columns
        columns, source = with_ties_reordered(columns)
        row, faults = find_faults(columns)
        if row < 0:
            return columns
        was = int(source[row])
        raise self._error(self._line(was), self._why(columns, row, Fault(faults[row]), int(label[was])))

    def _repaired(self, columns: Columns, label: Ints) -> Columns:
        """Return the rows without those that are wrong, and with the jobs that they are about censored."""
        if find_faults(columns)[0] < 0:
            return columns
        found = repaired(columns)
        bad = np.flatnonzero(found.faults)
        self._skipped, self._censored = bad.size, found.censored
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
        job = repr(self._labels.text(label)) if label != NO_JOB else None
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
    if label.size == 0 or (label.min() >= NO_JOB and label.max() < max(label.size, _KEPT_NUMBERS)):
        return label
    if label.max() < 0:  # texts alone: they were coded in order of appearance
        return np.where(label < NO_JOB, -2 - label, NO_JOB)
    codes, first, places = np.unique(label, return_index=True, return_inverse=True)
    named = np.flatnonzero(codes != NO_JOB)
    numbers_of = np.full(codes.size, NO_JOB)
    numbers_of[named[np.argsort(first[named])]] = np.arange(named.size)
    return numbers_of[places]
