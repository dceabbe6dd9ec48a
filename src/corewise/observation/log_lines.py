"""Lines of an event log as columns: a fast way for blocks of them, and a careful one that says what is wrong.

NumPy's reader in C parses a block at once into fixed-width fields, wide enough that a text which was cut off
can be told from one that is known. Where it refuses, or something in the block is unusual, the block goes
line by line through the csv module instead; both ways give the same values.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from corewise.errors import InvalidInput, nearest
from corewise.kit.arrays import Floats, Ints
from corewise.observation.rows import NOBODY, Event
from corewise.observation.text import _kernels
from corewise.observation.text.fields import Fields, ManyTexts

__all__ = [
    "EVENTS",
    "Block",
    "Header",
    "Labels",
    "columns_of",
    "fields_of",
    "is_simple",
    "parse_block",
    "parse_line",
    "salvaged_line",
]

EVENTS = {event.name.lower(): int(event) for event in Event}
"""What the events are called in a log."""

_NEEDED = ("time", "event", "class", "job")
_LABEL_WIDTHS = (16, 40)  # of job labels; a block with longer ones is read line by line
_NUMBER_WIDTH = 32  # of a number that may be missing; longer ones are read line by line
_QUOTED = re.compile(r'(?:^|,)"[^"\n]*"(?=,|$)', re.MULTILINE)
_DIGITS = 18  # any number of so many digits fits into 64 bits


LogRow = tuple[float, int, int, int, list[float]]


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
        shape = (len(rows),) if header.per_job else (len(rows), len(header.names))
        return cls(
            np.array(time, dtype=np.float64),
            np.array(event, dtype=np.int8),
            np.array(job_class, dtype=np.int64),
            np.array(label, dtype=np.int64),
            np.array(cores, dtype=np.float64).reshape(shape),
        )


@dataclass(frozen=True)
class Header:
    """Header of an event log: which column is where, and in which form the cores are given.

    Attributes
    ----------
    columns : tuple of str
        The columns of the file, in its order.
    names : tuple of str
        The classes of the system.
    per_job : bool
        Whether the cores are those of each row's own job.
    """

    columns: tuple[str, ...]
    names: tuple[str, ...]
    per_job: bool

    @classmethod
    def of(cls, line: str, names: Sequence[str], lenient: bool) -> Header:
        """Return the header that a line is; other columns are ignored if `lenient`, and else refused."""
        columns = columns_of(line)
        totals = [column.removeprefix("cores:") for column in columns if column.startswith("cores:")]
        for name in totals:
            if name not in names:
                raise InvalidInput(
                    f"column 'cores:{name}': unknown class {name!r}{nearest(name, list(names))}"
                )
        per_job = "cores" in columns
        if per_job and totals:
            raise InvalidInput(f"columns 'cores' and 'cores:{totals[0]}' exclude each other")
        cores = ["cores"] if per_job else [f"cores:{name}" for name in names]
        needed = [*_NEEDED, *cores]
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
        return cls(columns, tuple(names), per_job)

    def dtype(self, label_width: int) -> list[tuple[str, str]]:
        """Return the fields of a row for NumPy's reader."""
        kinds = {
            "time": "f8",
            "event": f"U{max(map(len, EVENTS)) + 1}",
            "class": f"U{max(map(len, self.names)) + 1}",
            "job": f"U{label_width}",
            "cores": f"U{_NUMBER_WIDTH}",
            **{f"cores:{name}": "f8" for name in self.names},
        }
        return [(f"f{k}", kinds.get(column, "U1")) for k, column in enumerate(self.columns)]

    def place(self, column: str) -> int:
        """Return where a column is."""
        return self.columns.index(column)


class Labels:
    """Codes for the labels of jobs: a whole number has itself, no label −1, other texts −2, −3, and so on."""

    def __init__(self) -> None:
        self.width = _LABEL_WIDTHS[0]  # in which a block is tried first
        self._texts = _Texts()

    def code(self, label: str) -> int:
        """Return the code of one label."""
        return int(label) if _is_plain(label) else self._texts[label]

    def codes(self, labels: NDArray[np.str_]) -> Ints:
        """Return the codes of labels of a fixed width, whole numbers all at once."""
        letters = labels.view(np.uint32).reshape(labels.size, -1)[:, : _DIGITS + 1].T.copy()
        digits = letters - np.uint32(ord("0"))  # what is below '0' becomes large
        blank = letters == 0
        plain = np.all(blank | (digits < 10), axis=0) & ((digits[0] > 0) | blank[1])
        plain &= blank[-1]
        codes = np.zeros(labels.size, dtype=np.int64)
        for k in range(len(letters) - 1):
            codes = np.where(blank[k], codes, 10 * codes + digits[k])
        codes[blank[0]] = NOBODY
        codes[~plain] = list(map(self._texts.__getitem__, labels[~plain].tolist()))
        return codes

    def of_fields(self, fields: Fields, name: str) -> Ints:
        """Return the codes of a column of plain text, in which nothing has blanks about it."""
        starts, ends = fields.column(name)
        codes = np.empty(starts.size, dtype=np.int64)
        _kernels.whole_numbers(fields.text, starts, ends, _DIGITS, codes)
        texts = np.flatnonzero(codes < NOBODY)
        if texts.size:
            codes[texts] = -2 - self._texts.coded.of_spans(fields.text, starts[texts], ends[texts])
        return codes

    def text(self, code: int) -> str:
        """Return the label of a code."""
        return str(code) if code >= 0 else self._texts.coded.text(-2 - code)


class _Texts(dict[str, int]):
    """The codes of labels, also of those with blanks about them; looking one up gives it a code.

    All texts are in `coded`; here are only those that came one by one.
    """

    def __init__(self) -> None:
        super().__init__()
        self.coded = ManyTexts()

    def __missing__(self, label: str) -> int:
        bare = label.strip()
        if not bare:
            code = NOBODY
        elif _is_plain(bare):
            code = int(bare)
        elif bare != label:
            code = self[bare]
        else:
            letters = np.frombuffer(label.encode(), dtype=np.uint8)
            code = -2 - int(self.coded.of_spans(letters, np.array([0]), np.array([letters.size]))[0])
        self[label] = code
        return code


def _is_plain(label: str) -> bool:
    """Whether a label is a whole number in its shortest form that fits into 64 bits."""
    return len(label) <= _DIGITS and label.isascii() and label.isdigit() and (label[0] != "0" or label == "0")


# --- a block at once --------------------------------------------------------------------------


def is_simple(text: str) -> bool:
    """Whether NumPy's reader is sure to see the same fields as the csv module: it is laxer about quotes."""
    return "\r" not in text and ('"' not in text or text.count('"') == 2 * len(_QUOTED.findall(text)))


def parse_block(lines: list[str], header: Header, labels: Labels) -> Block | None:
    """Return the rows of lines without a fault that are not blank, or None if they need a closer look."""
    for width in _LABEL_WIDTHS[_LABEL_WIDTHS.index(labels.width) :]:
        labels.width = width
        try:
            table = np.loadtxt(
                lines,
                header.dtype(width),
                comments=None,
                delimiter=",",
                ndmin=1,
                quotechar='"',
                encoding="utf-8",
            )
        except ValueError:
            return None
        if table.size != len(lines):  # a quoted line break joins two lines
            return None
        label = np.ascontiguousarray(table[f"f{header.place('job')}"])
        if not label.view(np.uint32).reshape(label.size, -1)[:, -1].any():
            return _columns(table, label, header, labels)
    return None


def _columns(
    table: NDArray[np.void], label: NDArray[np.str_], header: Header, labels: Labels
) -> Block | None:
    def column(name: str) -> NDArray[np.generic]:
        return np.ascontiguousarray(table[f"f{header.place(name)}"])

    time = column("time").astype(np.float64, copy=False)
    event = _known(column("event"), EVENTS)
    classes = {"": NOBODY, **{name: i for i, name in enumerate(header.names)}}
    job_class = _known(column("class"), classes)
    if header.per_job:
        cores = _numbers_or_nothing(column("cores").tolist())
    else:
        cores = np.stack([table[f"f{header.place(f'cores:{name}')}"] for name in header.names], axis=1)
    if event is None or job_class is None or cores is None:
        return None
    if not np.isfinite(time).all() or (not header.per_job and not np.isfinite(cores).all()):
        return None
    return Block(time, event.astype(np.int8), job_class, labels.codes(label), cores)


def _known(column: NDArray[np.generic], codes: dict[str, int]) -> Ints | None:
    """Return the code of each text, or None if one has none."""
    texts = np.array(sorted(codes))
    place = np.minimum(np.searchsorted(texts, column), texts.size - 1)
    if not np.array_equal(texts[place], column):
        return None
    return np.array([codes[text] for text in texts.tolist()])[place]


def _numbers_or_nothing(texts: list[str]) -> Floats | None:
    """Return finite numbers, NaN where there is none, or None if one is something else."""
    if max(map(len, texts)) == _NUMBER_WIDTH:
        return None
    try:
        numbers = np.array([float(text.replace("_", "x")) if text else math.nan for text in texts])
    except ValueError:
        return None
    return numbers if np.count_nonzero(~np.isfinite(numbers)) == texts.count("") else None


# --- line by line -----------------------------------------------------------------------------


def parse_line(line: str, header: Header, labels: Labels) -> LogRow:
    """Return one row; `InvalidInput` says what is wrong with it."""
    texts = [text.strip() for text in fields_of(line)]
    if len(texts) != len(header.columns):
        fields_seen = "1 field" if len(texts) == 1 else f"{len(texts)} fields"
        raise InvalidInput(f"{fields_seen}, and the header has {len(header.columns)}")
    fields = dict(zip(header.columns, texts, strict=True))
    time = _number(fields["time"], "time")
    kind, name = fields["event"], fields["class"]
    if kind not in EVENTS:
        raise InvalidInput(f"unknown event {_short(kind)}{nearest(kind.lower(), list(EVENTS))}")
    if name and name not in header.names:
        raise InvalidInput(f"unknown class {_short(name)}{nearest(name, list(header.names))}")
    job_class = header.names.index(name) if name else NOBODY
    edge = kind in ("start", "end")
    if header.per_job:
        cores = [_number(fields["cores"], "cores") if fields["cores"] else math.nan]
    else:
        held = {f"cores:{known}": fields[f"cores:{known}"] for known in header.names}
        cores = [0.0 if edge and not text else _number(text, column) for column, text in held.items()]
    return time, EVENTS[kind], job_class, labels.code(fields["job"]), cores


def salvaged_line(line: str, header: Header, labels: Labels) -> LogRow:
    """Return what can be said of a line that cannot be read: whose it is, perhaps; its time is NaN."""
    texts = [text.strip() for text in line.split(",")]
    fields = dict(zip(header.columns, texts, strict=False)) if len(texts) == len(header.columns) else {}
    name, kind = fields.get("class", ""), fields.get("event", "")
    cores = [math.nan] * (1 if header.per_job else len(header.names))
    job_class = header.names.index(name) if name in header.names else NOBODY
    return math.nan, EVENTS.get(kind, int(Event.RESIZE)), job_class, labels.code(fields.get("job", "")), cores


def _hint(line: str, columns: Sequence[str], missing: Sequence[str]) -> str:
    """Return what is likely to be wrong with a header."""
    if "," not in line and (mark := next((mark for mark in ";\t" if mark in line), "")):
        return f"; fields seem to be separated by {mark!r}, and must be by ','"
    if {column.lower() for column in columns} & set(missing):
        return "; names are in lower case"
    return ""


def columns_of(line: str) -> tuple[str, ...]:
    """Return the columns that a header names."""
    return tuple(column.strip() for column in fields_of(line))


def fields_of(line: str) -> list[str]:
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
