"""The Standard Workload Format (SWF) of the Parallel Workloads Archive.

One line a job of 18 numbers with blanks between them, −1 where nothing is known; header lines begin with
``;``.
A job waits for field 3 seconds after it was submitted (field 2), and runs for field 4 seconds on field 5
processors. Field 11 is its status: 1 completed, 0 failed, 5 cancelled; 2, 3 and 4 are bursts of a job that
has a line of its own. A class is a user (field 12) and an application (field 14).

Source: version 2.2, https://www.cs.huji.ac.il/labs/parallel/workload/swf.html; S. J. Chapin et al.,
*Benchmarks and standards for the evaluation of parallel job schedulers* (JSSPP 1999).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from corewise.kit.arrays import Floats
from corewise.observation.importers.base import LogSource, Roles, Wanted
from corewise.observation.importers.delimited import Delimited
from corewise.observation.importers.outcomes import JobOutcome
from corewise.observation.importers.rows import JobRows, RowStatus
from corewise.observation.text.fields import Layout, line_blocks

__all__ = ["Swf"]

_COLUMNS = (
    "job", "submit", "wait", "run", "processors", "cpu", "memory", "requested_processors", "requested_time",
    "requested_memory", "status", "user", "group", "application", "queue", "partition", "preceding", "think",
)  # fmt: skip
_ROLES = Roles(
    submit="submit", wait="wait", duration="run", cores="processors", state="status", job="job",
    classes=("user", "application"),
)  # fmt: skip
_STATUS = {
    "1": JobOutcome.DONE,
    "0": JobOutcome.UNFINISHED,
    "5": JobOutcome.UNFINISHED,
    "-1": JobOutcome.UNSAID,
    "2": JobOutcome.RESIZED,
    "3": JobOutcome.DONE,
    "4": JobOutcome.UNFINISHED,
}
_LINE = re.compile(rb"[ \t]*-?\d+(?:[ \t]+-?[\d.]+(?:[eE][+-]?\d+)?){10,}[ \t\r]*")
_BURSTS = ("2", "3", "4")


@dataclass(frozen=True)
class Swf:
    """Importer of the Standard Workload Format."""

    name: str = "swf"
    about: str = "Standard Workload Format (Parallel Workloads Archive)"

    def recognises(self, head: bytes) -> bool:
        """Return whether a file that begins so is of the format."""
        lines = [line for line in head.split(b"\n")[:-1] or [head] if line.strip()]
        body = [line for line in lines if not line.lstrip().startswith(b";")]
        if not body:
            return any(re.match(rb";\s*(Version|MaxJobs|UnixStartTime)\s*:", line) for line in lines)
        return all(_LINE.fullmatch(line) for line in body[:20])

    def read(self, source: LogSource, wanted: Wanted) -> JobRows:
        """Return its rows about jobs."""
        head = source.head().decode(errors="replace")
        roles = _ROLES.overridden(wanted.roles, _COLUMNS)
        layout = Layout(_COLUMNS, roles.columns, " ", quotes=False, comment=";")
        words = {**wanted.words, **_STATUS}
        reader = Delimited(layout, roles, replace(wanted, words=words), negative_is_missing=True)
        with source.opened() as file:
            rows = reader.read(line_blocks(file, quotes=False))
        end, start = _left_while_waiting(rows)
        return replace(
            rows,
            start=start,
            end=end,
            status=_without_bursts(rows),
            zero=_header_number(head, "UnixStartTime"),
            pool=_header_number(head, "MaxProcs", "MaxNodes"),
        )


def _left_while_waiting(rows: JobRows) -> tuple[Floats, Floats]:
    """Return ends and starts, where a job that was cancelled before it ran ends when it no longer waits."""
    waited = (rows.outcome == JobOutcome.UNFINISHED) & np.isnan(rows.end)
    return np.where(waited, rows.start, rows.end), np.where(waited, np.nan, rows.start)


def _without_bursts(rows: JobRows) -> NDArray[np.int8]:
    """Return the status of the rows, with bursts left out of jobs that have a line for all of them."""
    burst = np.isin(rows.said, [k for k, text in enumerate(rows.words) if text in _BURSTS])
    if not burst.any():
        return rows.status
    whole = np.isin(rows.label_keys, rows.label_keys[~burst])
    return np.where(burst & whole, RowStatus.BURST, rows.status).astype(np.int8)


def _header_number(head: str, *names: str) -> float:
    """Return what the header says under the first of some names, or NaN."""
    for name in names:
        found = re.search(rf"^;\s*{name}:\s*(\d+)\s*$", head, re.MULTILINE)
        if found and float(found.group(1)) > 0:
            return float(found.group(1))
    return float("nan")
