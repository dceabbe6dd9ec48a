r"""Slurm's accounting: what ``sacct`` prints with ``--parsable2`` or ``--json``, and job completion logs.

Ask it for whole jobs and for what became of them before (``-X`` no steps, ``-D`` the records of jobs before
they were resized or requeued)::

    sacct -a -X -D -P -S 2026-01-01 -E 2026-02-01 \
        --format=JobID,JobName,User,Partition,State,Submit,Start,End,AllocCPUS
    sacct -a -X -D -S 2026-01-01 -E 2026-02-01 --json

With ``--parsable2`` fields have ``|`` between them and no quotes, so that a ``|`` in the name of a job makes
one field too many: surplus ones belong to the name. When a job is resized its record ends with the state
``RESIZING``, and the next has the same start; when it is requeued (``REQUEUED``) it begins anew. Steps
(``12.batch``) are left out. Times have no zone: they are local to the cluster, or seconds since 1970 with
``SLURM_TIME_FORMAT=%s`` and in JSON. The tasks of a job array that have not started have one row together,
``12_[3-10%2]``: each task becomes a job of its own, ``12_3`` and so on. Classes are users and partitions,
unless other columns are named.

Sources: https://slurm.schedmd.com/sacct.html; https://slurm.schedmd.com/jobcomp_filetxt.html is the plugin
behind ``JobCompType=jobcomp/filetxt``; recorded from Slurm 22.05.8.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from corewise.errors import InvalidInput
from corewise.observation.importers.base import LogSource, Roles, Wanted
from corewise.observation.importers.delimited import Delimited
from corewise.observation.importers.headers import header_of, roles_among
from corewise.observation.importers.records import read_records
from corewise.observation.importers.rows import JobRows, RowStatus
from corewise.observation.text import _kernels
from corewise.observation.text.fields import Layout, line_blocks

__all__ = ["SlurmCompletions", "SlurmJson", "SlurmTable"]

_ALIASES: Mapping[str, Sequence[str]] = {
    "submit": ("Submit", "SubmitTime"),
    "start": ("Start", "StartTime"),
    "end": ("End", "EndTime"),
    "cores": ("AllocCPUS", "NCPUS", "ReqCPUS"),
    "state": ("State", "JobState"),
    "job": ("JobID", "JobIDRaw"),
}
_CLASSES = ("User", "Partition")
_NAME = "JobName"
_ARRAY = re.compile(rb"(?P<job>.+)_\[(?P<tasks>[^\]%]+)(?:%\d+)?\]")
_SPAN = re.compile(rb"(?P<first>\d{1,10})(?:-(?P<last>\d{1,10})(?::(?P<step>\d{1,10}))?)?")
_MOST_TASKS = 1_000_000  # of all arrays of a file


@dataclass(frozen=True)
class SlurmTable:
    """Importer of what ``sacct --parsable2`` prints."""

    name: str = "sacct"
    about: str = "Slurm: sacct --parsable2"

    def recognises(self, head: bytes) -> bool:
        """Return whether a file that begins so is of the format."""
        columns = head.split(b"\n", 1)[0].strip().split(b"|")
        return len(columns) > 3 and b"State" in columns and bool({b"JobID", b"JobIDRaw"} & set(columns))

    def read(self, source: LogSource, wanted: Wanted) -> JobRows:
        """Return its rows about jobs."""
        with source.opened() as file:
            columns, rest = header_of(file, "|")
            roles = roles_among(columns, _ALIASES, Roles(classes=tuple(c for c in _CLASSES if c in columns)))
            roles = roles.overridden(wanted.roles, columns)
            layout = Layout(columns, roles.columns, "|", quotes=False)
            reader = Delimited(layout, roles, wanted, mend=_mender(columns))
            rows = reader.read(line_blocks(rest, quotes=False), first_line=2)
        return without_steps(with_tasks(rows))


def _mender(columns: Sequence[str]) -> Any:
    """Return what puts surplus fields back into the name of a job."""
    if _NAME not in columns:
        return None
    at, many = columns.index(_NAME), len(columns)

    def mend(fields: list[str]) -> list[str] | None:
        surplus = len(fields) - many
        if surplus < 1:
            return None
        return [*fields[:at], "|".join(fields[at : at + surplus + 1]), *fields[at + surplus + 1 :]]

    return mend


def with_tasks(rows: JobRows) -> JobRows:
    """Return the rows with one for each task of an array that has not started, ``12_[3-10%2]``."""
    brackets = np.concatenate([[0], np.cumsum(rows.labels == ord("["))])
    begins, ends = rows.label_ends[:-1], rows.label_ends[1:]
    arrays = np.flatnonzero((brackets[ends] > brackets[begins]) & (rows.status == RowStatus.USED))
    if not arrays.size:
        return rows
    counts, status = np.ones(ends.size, dtype=np.int64), rows.status.copy()
    named: dict[int, list[bytes]] = {}
    for row in arrays.tolist():
        tasks = _tasks(bytes(rows.labels[begins[row] : ends[row]]), _MOST_TASKS - int(counts[arrays].sum()))
        if tasks:
            named[row], counts[row] = tasks, len(tasks)
        else:
            status[row] = RowStatus.ARRAY
    place = np.repeat(np.arange(ends.size), counts)
    sizes = np.diff(rows.label_ends)[place]
    pieces, upto = [], 0
    for row, tasks in named.items():
        pieces += [rows.labels[upto : begins[row]], np.frombuffer(b"".join(tasks), dtype=np.uint8)]
        sizes[np.searchsorted(place, row) :][: len(tasks)] = [len(task) for task in tasks]
        upto = ends[row]
    labels = np.concatenate([*pieces, rows.labels[upto:]])
    label_ends = np.concatenate([[0], np.cumsum(sizes)])
    keys = np.empty(place.size, dtype=np.uint64)
    _kernels.hash_texts(labels, label_ends[:-1], label_ends[1:], keys)
    count = sum(map(len, named.values()))
    arrays_are = "1 row is an array" if len(named) == 1 else f"{len(named)} rows are arrays"
    note = f"{arrays_are} of {count} tasks that had not started: each task counts as a row, and as a job"
    columns = {
        name: getattr(rows, name)[place]
        for name in ("line", "submit", "start", "end", "cores", "outcome", "job_class", "said")
    }
    return replace(
        rows,
        **columns,
        labels=labels,
        label_ends=label_ends,
        label_keys=keys,
        status=status[place],
        notes=(*rows.notes, note) if named else rows.notes,
    )


def _tasks(label: bytes, most: int) -> list[bytes]:
    """Return the labels of the tasks that ``12_[1-3,7,9-20:2%4]`` stands for; none if they are too many."""
    found = _ARRAY.fullmatch(label)
    if found is None:
        return []
    numbers: list[int] = []
    for part in found["tasks"].split(b","):
        span = _SPAN.fullmatch(part)
        if span is None:
            return []
        first, last, step = int(span["first"]), int(span["last"] or span["first"]), int(span["step"] or 1)
        several = range(first, last + 1, max(step, 1))
        if len(numbers) + len(several) > most:
            return []
        numbers += several
    return [b"%s_%d" % (found["job"], number) for number in numbers]


def without_steps(rows: JobRows) -> JobRows:
    """Return the rows with those of steps marked: their names have a point."""
    points = np.concatenate([[0], np.cumsum(rows.labels == ord("."))])
    steps = (points[rows.label_ends[1:]] > points[rows.label_ends[:-1]]) & (rows.status == RowStatus.USED)
    return replace(rows, status=np.where(steps, RowStatus.STEP, rows.status).astype(np.int8))


@dataclass(frozen=True)
class SlurmJson:
    """Importer of what ``sacct --json`` prints."""

    name: str = "sacct-json"
    about: str = "Slurm: sacct --json"

    def recognises(self, head: bytes) -> bool:
        """Return whether a file that begins so is of the format."""
        return head.lstrip().startswith(b"{") and b'"jobs"' in head and (b"Slurm" in head or b"slurm" in head)

    def read(self, source: LogSource, wanted: Wanted) -> JobRows:
        """Return its rows about jobs; their lines are their places in the list of jobs."""
        with source.opened() as file:
            try:
                jobs = json.loads(file.read())["jobs"]
                records = [_record(job) for job in jobs]
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise InvalidInput(f"not what sacct --json prints: {error!r}") from None
        return with_tasks(read_records(records, Roles(**_JSON, classes=_CLASSES), wanted))


_JSON = {role: names[0] for role, names in _ALIASES.items()}


def _record(job: Mapping[str, Any]) -> dict[str, str]:
    times, state = job["time"], job["state"]["current"]
    allocated = job.get("tres", {}).get("allocated") or []
    cores = next((one["count"] for one in allocated if one.get("type") == "cpu"), None)
    array = job.get("array") or {}
    task, tasks = _plain(array.get("task_id")), str(array.get("task") or "")
    task = task or (f"[{tasks}]" if tasks else "")
    label = f"{_plain(array.get('job_id'))}_{task}" if task else str(job["job_id"])
    return {
        "JobID": label,
        "JobName": str(job.get("name", "")),
        "User": str(job.get("user") or (job.get("association") or {}).get("user") or ""),
        "Account": str(job.get("account", "")),
        "Partition": str(job.get("partition", "")),
        "State": " ".join(state) if isinstance(state, list) else str(state),
        "Submit": _moment(times.get("submission")),
        "Start": _moment(times.get("start")),
        "End": _moment(times.get("end")),
        "AllocCPUS": _plain(cores) or _plain((job.get("required") or {}).get("CPUs")),
    }


def _plain(value: Any) -> str:
    """Return a number as a text, also where it is wrapped as {"set": …, "number": …}; nothing for none."""
    if isinstance(value, Mapping):
        value = value.get("number") if value.get("set") else None
    return "" if value is None else str(value)


def _moment(value: Any) -> str:
    text = _plain(value)
    return "" if text == "0" else text


@dataclass(frozen=True)
class SlurmCompletions:
    """Importer of the job completion log that ``jobcomp/filetxt`` writes."""

    name: str = "jobcomp"
    about: str = "Slurm: job completion log (jobcomp/filetxt)"

    def recognises(self, head: bytes) -> bool:
        """Return whether a file that begins so is of the format."""
        return head.startswith(b"JobId=") and b" JobState=" in head and b" ProcCnt=" in head

    def read(self, source: LogSource, wanted: Wanted) -> JobRows:
        """Return its rows about jobs."""
        with source.opened() as file:
            lines = file.read().decode(errors="replace").splitlines()
        return read_records([_completion(line) for line in lines], _COMPLETION, wanted)


_COMPLETION = Roles(
    submit="SubmitTime", start="StartTime", end="EndTime", cores="ProcCnt", state="JobState", job="JobId",
    classes=("UserId", "Partition"),
)  # fmt: skip
_PAIR = re.compile(r"(\w+)=(.*?)(?=\s\w+=|\s*$)")


def _completion(line: str) -> dict[str, str]:
    return dict(_pairs(line))


def _pairs(line: str) -> Iterable[tuple[str, str]]:
    for key, value in _PAIR.findall(line):
        yield key, value.split("(")[0] if key == "UserId" else value.strip()
