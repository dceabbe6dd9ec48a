"""Blocks of an event log through compiled loops: no object for a row, a field or a label.

They take plain text only: printable ASCII without blanks or quotes, no line without fields. Whatever else a
block holds, and whatever may be wrong with it, goes through `corewise.observation.log_lines` instead, which
gives the same values.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from corewise.kit.arrays import Floats, Ints
from corewise.observation.log_lines import EVENTS, Block, Header, Labels
from corewise.observation.rows import NOBODY
from corewise.observation.text import _kernels
from corewise.observation.text.fields import Fields, Layout, TextCodes, numbers

__all__ = ["PlainBlocks"]

_NEWLINE, _QUOTE = 10, 34
_PLAIN = np.zeros(256, dtype=np.bool_)
_PLAIN[33:127] = True
_PLAIN[[_NEWLINE, _QUOTE]] = True, False


class PlainBlocks:
    """Parser of blocks of plain text, which knows the texts that it has seen."""

    def __init__(self, header: Header, labels: Labels) -> None:
        cores = ["cores"] if header.per_job else [f"cores:{name}" for name in header.names]
        self._layout = Layout(header.columns, ("time", "event", "class", "job", *cores), quotes=False)
        self._cores, self._labels, self._per_job = cores, labels, header.per_job
        self._classes: dict[str, int] = {"": NOBODY, **{name: i for i, name in enumerate(header.names)}}
        self._event_codes, self._class_codes = TextCodes(), TextCodes()

    def parse(self, block: bytes) -> Block | None:
        """Return the rows of a block, or None if it needs a closer look."""
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
        event = _coded(self._event_codes, fields, "event", EVENTS)
        job_class = _coded(self._class_codes, fields, "class", self._classes)
        if event is None or job_class is None:
            return None
        return Block(time, event.astype(np.int8), job_class, self._labels.of_fields(fields, "job"), cores)

    def _held(self, fields: Fields) -> Floats | None:
        if self._per_job:
            return _finite(fields, "cores", optional=True)
        columns = [column for name in self._cores if (column := _finite(fields, name)) is not None]
        return np.stack(columns, axis=1) if len(columns) == len(self._cores) else None


def _finite(fields: Fields, name: str, *, optional: bool = False) -> Floats | None:
    """Return a column of finite numbers, NaN where a field is empty if it may be, or None."""
    values, kinds = numbers(fields, name)
    fine = kinds == _kernels.NUMBER
    if optional:
        starts, ends = fields.column(name)
        fine |= starts == ends
    return values if fine.all() else None


def _coded(codes: TextCodes, fields: Fields, name: str, known: Mapping[str, int]) -> Ints | None:
    """Return what each text of a column stands for, or None if one is not known."""
    found = codes.codes(fields, name)
    if any(text not in known for text in codes.texts):
        return None
    meaning: NDArray[np.int64] = np.array([known[text] for text in codes.texts], dtype=np.int64)
    return meaning[found]
