"""Delimited tables of jobs, block by block, as rows about jobs: what most formats come down to."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from corewise.errors import InvalidInput
from corewise.kit.arrays import Bools, Floats, Ints
from corewise.observation.importers.base import Roles, Wanted
from corewise.observation.importers.outcomes import outcome_of
from corewise.observation.importers.rows import JobRows, RowStatus
from corewise.observation.text import _kernels
from corewise.observation.text.fields import Fields, Kinds, Layout, TextCodes, TextPool, numbers, times

__all__ = ["Delimited"]

_MOST_VALUES = 1000  # offending fields that are kept
_NO_CLASS, _OTHER = "all", "other"
_NOT_IN_NAMES = str.maketrans(dict.fromkeys(",:\n\r\t", "_"))
_CLOCKS = {_kernels.NUMBER: "numbers", _kernels.LOCAL: "local", _kernels.ZONED: "zoned"}
_SPOKEN = {
    "numbers": "a number",
    "local": "a time without a zone",
    "zoned": "a time with a zone",
}
_SINCE_1970 = {"seconds": 1e8, "milliseconds": 1e11, "microseconds": 1e14, "nanoseconds": 1e17}
"""Numbers from these on, and below a thousand times as many, are of the years 1973 to 5138 in each unit."""

_TIMES = ("submit", "start", "end")
_LENGTHS = ("wait", "duration")


@dataclass
class Delimited:
    """Reader of a delimited table: takes in blocks of lines, and gives rows about jobs.

    Attributes
    ----------
    layout : Layout
        How the text is laid out.
    roles : Roles
        Which column says what.
    wanted : Wanted
        What the user says.
    negative_is_missing : bool
        Whether a number below zero means that nothing is known (SWF's −1).
    most_fields : int
        How many fields a line may have at most, if more than there are columns.
    mend : callable, optional
        What makes the right number of fields of the wrong one, or None.
    """

    layout: Layout
    roles: Roles
    wanted: Wanted
    negative_is_missing: bool = False
    most_fields: int = 0
    mend: Callable[[list[str]], list[str] | None] | None = None
    _parts: list[_Part] = field(default_factory=list)
    _labels: TextPool = field(default_factory=TextPool)
    _states: TextCodes = field(default_factory=TextCodes)
    _classes: list[TextCodes] = field(default_factory=list)
    _clocks: dict[str, tuple[int, str]] = field(default_factory=dict)
    _units: dict[str, tuple[int, str]] = field(default_factory=dict)
    _values: dict[int, str] = field(default_factory=dict)
    _notes: list[str] = field(default_factory=list)
    _lines: int = 0
    _unsaid: int = 0

    def __post_init__(self) -> None:
        self._classes = [TextCodes() for _ in self.roles.classes]

    def read(self, blocks: Iterable[NDArray[np.uint8]], first_line: int = 1) -> JobRows:
        """Return the rows of blocks of lines; the first of them is the line of that number."""
        self._lines = first_line
        for block in blocks:
            fields = Fields.of(block, self.layout)
            wrong = self._wrong(fields)
            mended = self._mended(fields, wrong) if self.mend and wrong.any() else {}
            if mended:
                fields = _replaced(fields, mended)
                wrong = self._wrong(fields)
            self._take(fields, wrong)
            self._lines += fields.last
        return self._gathered()

    def _wrong(self, fields: Fields) -> Bools:
        columns = len(self.layout.columns)
        return (fields.counts < columns) | (fields.counts > max(columns, self.most_fields))

    def _mended(self, fields: Fields, wrong: Bools) -> dict[int, list[str]]:
        assert self.mend is not None
        found = {}
        for row in np.flatnonzero(wrong).tolist():
            line = bytes(fields.text[fields.begins[row] : fields.begins[row + 1]]).decode(errors="replace")
            mended = self.mend(line.split("\n", 1)[0].rstrip("\r").split(self.layout.delimiter))
            if mended is not None:
                found[row] = mended
        return found

    # --- a block

    def _take(self, fields: Fields, wrong: Bools) -> None:
        rows = fields.lines.size
        line = fields.lines + self._lines
        status = np.where(wrong, RowStatus.FIELDS, RowStatus.USED).astype(np.int8)
        good = ~wrong
        moments: dict[str, Floats] = {}
        for role in (*_TIMES, *_LENGTHS):
            name = getattr(self.roles, role)
            if name is None:
                moments[role] = np.full(rows, np.nan)
                continue
            written = self.wanted.time_format
            values, kinds = written.times(fields, name) if role in _TIMES else times(fields, name)
            if self.negative_is_missing or role in _LENGTHS:
                self._drop_negative(values, kinds)
            if role in _TIMES:
                self._note_clock(kinds, good, line, fields, name)
                self._note_units(values, good & (kinds == _kernels.NUMBER), line, fields, name)
            if written.scale is not None:
                values = np.where(kinds == _kernels.NUMBER, written.scale * values, values)
            self._mark(status, _BAD[role], good & (kinds == _kernels.BAD), line, fields, name)
            moments[role] = values
        start = np.where(np.isnan(moments["start"]), moments["submit"] + moments["wait"], moments["start"])
        if self.roles.end is None:
            # It ran, and how long it waited is unknown.
            unsaid = np.isnan(start) & (moments["duration"] >= 0.0)
            start = np.where(unsaid, moments["submit"], start)
            self._unsaid += int(np.count_nonzero(unsaid))
        end = np.where(np.isnan(moments["end"]), start + moments["duration"], moments["end"])
        cores = np.full(rows, np.nan)
        if self.roles.cores is not None:
            cores, kinds = numbers(fields, self.roles.cores)
            self._mark(
                status, RowStatus.BAD_CORES, good & (kinds == _kernels.BAD), line, fields, self.roles.cores
            )
        states = np.full(rows, -1)
        if self.roles.state is not None:
            states = self._states.codes(fields, self.roles.state)
            states[wrong] = -1
        classes = [
            codes.codes(fields, name) for codes, name in zip(self._classes, self.roles.classes, strict=True)
        ]
        if self.roles.job is not None:
            self._labels.add(fields, self.roles.job)
        self._parts.append(_Part(line, moments["submit"], start, end, cores, states, classes, status))

    @staticmethod
    def _drop_negative(values: Floats, kinds: Kinds) -> None:
        below = (kinds == _kernels.NUMBER) & (values < 0.0)
        values[below], kinds[below] = np.nan, _kernels.MISSING

    def _note_clock(self, kinds: Kinds, good: Bools, line: Ints, fields: Fields, name: str) -> None:
        for kind, clock in _CLOCKS.items():
            if clock not in self._clocks:
                seen = np.flatnonzero(good & (kinds == kind))
                if seen.size:
                    self._clocks[clock] = (int(line[seen[0]]), fields.shown(name, int(seen[0])))

    def _note_units(self, values: Floats, numbers: Bools, line: Ints, fields: Fields, name: str) -> None:
        """Note where the first number is that looks like seconds since 1970, milliseconds, and so on."""
        for unit, least in _SINCE_1970.items():
            if unit not in self._units:
                seen = np.flatnonzero(numbers & (values >= least) & (values < 1000.0 * least))
                if seen.size:
                    self._units[unit] = (int(line[seen[0]]), fields.shown(name, int(seen[0])))

    def _require_one_unit(self) -> None:
        """Raise `InvalidInput` if times are numbers of two units, or of another than seconds."""
        found = sorted(self._units.items(), key=lambda found: found[1])
        if len(found) > 1:
            (one, (line, text)), (other, (beside, shown)) = found[0], found[1]
            raise InvalidInput(
                f"line {beside}: {shown!r} looks like {other} since 1970, where line {line} has {text!r}, "
                f"which looks like {one}: all times must be in one unit"
            )
        if found and found[0][0] != "seconds" and self.wanted.time_format.scale is None:
            unit, (line, text) = found[0]
            raise InvalidInput(
                f"line {line}: {text!r} looks like {unit} since 1970: give --time-format {unit}, or seconds "
                f"if it is"
            )

    def _mark(
        self, status: NDArray[np.int8], what: RowStatus, where: Bools, line: Ints, fields: Fields, name: str
    ) -> None:
        status[where & (status == RowStatus.USED)] = what
        for row in np.flatnonzero(where)[: max(_MOST_VALUES - len(self._values), 0)].tolist():
            self._values.setdefault(int(line[row]), f"{name} {fields.shown(name, row)[:40]!r}")

    # --- all of them

    def _gathered(self) -> JobRows:
        if not self._parts:
            raise InvalidInput("no rows")
        if len(self._clocks) > 1:
            first, second = sorted(self._clocks.items(), key=lambda found: found[1])[:2]
            raise InvalidInput(
                f"line {second[1][0]}: {second[1][1]!r} is {_SPOKEN[second[0]]}, where line {first[1][0]} "
                f"has {_SPOKEN[first[0]]}, {first[1][1]!r}; how far they are apart is unknown"
            )
        self._require_one_unit()
        line, submit, start, end, cores, states, status = (
            np.concatenate([getattr(part, name) for part in self._parts])
            for name in ("line", "submit", "start", "end", "cores", "states", "status")
        )
        classes = [
            np.concatenate([part.classes[k] for part in self._parts]) for k in range(len(self._classes))
        ]
        self._parts.clear()
        names, job_class = self._named(classes, line.size)
        if self._unsaid:
            self._notes.append(f"{self._unsaid} rows say no waiting time: taken to start when submitted")
        labels = self._labels.gathered() if self.roles.job is not None else _numbered(line)
        return JobRows(
            line, submit, start, end, cores, self._outcomes(states), job_class, names, *labels, status,
            clock=next(iter(self._clocks), "numbers"), values=self._values,
            said=states, words=tuple(self._states.texts), notes=tuple(self._notes),
        )  # fmt: skip

    def _outcomes(self, states: Ints) -> NDArray[np.int8]:
        meaning = [int(outcome_of(text, self.wanted.words)) for text in self._states.texts]
        return np.array([*meaning, int(outcome_of("", self.wanted.words))], dtype=np.int8)[states]

    def _named(self, classes: Sequence[Ints], rows: int) -> tuple[tuple[str, ...], Ints]:
        """Return the names of the classes that columns make together, and which each row has."""
        if not classes:
            return (_NO_CLASS,), np.zeros(rows, dtype=np.int64)
        joint = classes[0]
        for codes, column in zip(self._classes[1:], classes[1:], strict=True):
            joint = joint * len(codes.texts) + column
        keys, place = np.unique(joint, return_inverse=True)
        texts = []
        for key in keys.tolist():
            parts, rest = [], key
            for codes in reversed(self._classes[1:]):
                rest, code = divmod(rest, len(codes.texts))
                parts.append(codes.texts[code])
            texts.append("/".join(part for part in (self._classes[0].texts[rest], *reversed(parts)) if part))
        found = [_matched(text, self.wanted.pattern) for text in texts]
        names = tuple(dict.fromkeys(found))
        return names, np.array([names.index(name) for name in found], dtype=np.int64)[place]


@dataclass(frozen=True)
class _Part:
    """Columns of one block."""

    line: Ints
    submit: Floats
    start: Floats
    end: Floats
    cores: Floats
    states: Ints
    classes: list[Ints]
    status: NDArray[np.int8]


_BAD: Mapping[str, RowStatus] = {
    "submit": RowStatus.BAD_TIME,
    "start": RowStatus.BAD_START,
    "wait": RowStatus.BAD_START,
    "end": RowStatus.BAD_END,
    "duration": RowStatus.BAD_END,
}


def _matched(text: str, pattern: str | None) -> str:
    """Return the class that a pattern finds in a text."""
    if pattern is not None:
        found = re.search(pattern, text)
        text = "" if found is None else (found.group(1) if found.re.groups else found.group()) or ""
    return text.translate(_NOT_IN_NAMES).strip() or _OTHER


def _replaced(fields: Fields, mended: Mapping[int, list[str]]) -> Fields:
    """Return the fields with some rows written anew."""
    separator = "\x1f"
    written = "\n".join(separator.join(row) for row in mended.values()).encode()
    layout = replace(fields.layout, delimiter=separator, quotes=False, comment="")
    new, rows, shift = (
        Fields.of(np.frombuffer(written, dtype=np.uint8), layout),
        list(mended),
        fields.text.size,
    )
    starts, ends, counts = fields.starts.copy(), fields.ends.copy(), fields.counts.copy()
    starts[rows], ends[rows], counts[rows] = new.starts + shift, new.ends + shift, new.counts
    text = np.concatenate([fields.text, new.text])
    text.setflags(write=False)  # as the text of any block: a kernel is compiled for each kind
    return fields._replace(text=text, starts=starts, ends=ends, counts=counts)


def _numbered(line: Ints) -> tuple[NDArray[np.uint8], Ints, NDArray[np.uint64]]:
    """Return labels for jobs without a name: the lines that they are on."""
    texts = line.astype("S20")
    sizes = np.char.str_len(texts)
    letters = texts.view(np.uint8).reshape(line.size, -1)
    labels = letters[letters > 0]
    return labels, np.concatenate([[0], np.cumsum(sizes)]), line.astype(np.uint64)
