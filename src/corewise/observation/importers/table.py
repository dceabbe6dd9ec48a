"""Tables of jobs: any CSV or Parquet file, by which column says what.

Columns are named by the user, or known by usual names. Formats that are CSV with a fixed header are tables
whose columns are known:

- *Pollux and AdaptDL workloads* (``name,time,application,num_replicas,batch_size``) are submissions alone:
  when each job came, and how many GPUs its user asked for, not how it went. Source: petuum/adaptdl,
  branch osdi21-artifact, ``benchmark/workloads``; A. Qiao et al., *Pollux* (OSDI 2021).
- *Philly-like extracts* (``timestamp,duration,num_gpus,…,cluster``) have submission, seconds of running and
  GPUs, and no waiting times. Source: the same, ``simulator/traces/philly.csv``, and siasosp23/artifacts;
  after M. Jeon et al., *Analysis of large-scale multi-tenant GPU clusters* (USENIX ATC 2019).
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from corewise.errors import InvalidInput
from corewise.kit.numbers import is_number
from corewise.observation.importers.base import LogSource, Roles, Wanted
from corewise.observation.importers.delimited import Delimited
from corewise.observation.importers.headers import header_of, roles_among
from corewise.observation.importers.rows import JobRows
from corewise.observation.text.fields import Layout, line_blocks

__all__ = ["CsvTable", "KnownTable", "ParquetTable"]

_ALIASES: Mapping[str, Sequence[str]] = {
    "submit": ("submit", "submit_time", "submitted", "submitted_at", "submission_time", "submission",
               "queued_at", "arrival", "arrival_time", "created", "created_at", "timestamp"),
    "start": ("start", "start_time", "started", "started_at", "begin", "begin_time"),
    "end": ("end", "end_time", "ended", "ended_at", "finish", "finish_time", "finished", "finished_at",
            "completed_at", "completion_time"),
    "wait": ("wait", "wait_time", "queue_time"),
    "duration": ("duration", "run_time", "runtime", "elapsed", "elapsed_time"),
    "cores": ("cores", "cpus", "alloccpus", "ncpus", "num_cores", "num_cpus", "gpus", "num_gpus",
              "processors", "procs", "slots", "nodes", "num_nodes"),
    "state": ("state", "status", "job_state", "outcome", "final_status"),
    "job": ("job", "job_id", "jobid", "id", "job_name", "name"),
}  # fmt: skip
_CLASSES = ("class", "job_class", "application", "app", "queue", "partition", "cluster", "vc")
_MARKS = ",;\t|"


@dataclass(frozen=True)
class KnownTable:
    """Importer of CSV files whose header is known."""

    name: str
    about: str
    header: tuple[str, ...]
    roles: Roles
    note: str = ""

    def recognises(self, head: bytes) -> bool:
        """Return whether a file that begins so is of the format."""
        columns = head.split(b"\n", 1)[0].decode(errors="replace").strip()
        return set(self.header) <= set(columns.split(","))

    def read(self, source: LogSource, wanted: Wanted) -> JobRows:
        """Return its rows about jobs."""
        with source.opened() as file:
            columns, rest = header_of(file, ",")
            roles = self.roles.overridden(wanted.roles, columns)
            roles = replace(roles, classes=tuple(c for c in roles.classes if c in columns))
            rows = Delimited(Layout(columns, roles.columns), roles, wanted).read(
                line_blocks(rest, quotes=True), first_line=2
            )
        return replace(rows, notes=(*rows.notes, self.note) if self.note else rows.notes)


@dataclass(frozen=True)
class CsvTable:
    """Importer of any delimited table with a header."""

    name: str = "csv"
    about: str = "any table with a header, by which column says what"

    def recognises(self, head: bytes) -> bool:
        """Return whether a file that begins so has a header of several columns."""
        line = head.split(b"\n", 1)[0].decode(errors="replace")
        mark = _mark(line)
        return bool(mark) and not any(is_number(field) for field in next(csv.reader([line], delimiter=mark)))

    def read(self, source: LogSource, wanted: Wanted) -> JobRows:
        """Return its rows about jobs."""
        head = source.head().split(b"\n", 1)[0].decode(errors="replace")
        mark = _mark(head) or ","
        with source.opened() as file:
            columns, rest = header_of(file, mark)
            roles = known_roles(columns, wanted)
            reader = Delimited(Layout(columns, roles.columns, mark), roles, wanted)
            return reader.read(line_blocks(rest, quotes=True), first_line=2)


@dataclass(frozen=True)
class ParquetTable:
    """Importer of Parquet files, by which column says what; it needs pyarrow."""

    name: str = "parquet"
    about: str = "a Parquet file, by which column says what"

    def recognises(self, head: bytes) -> bool:
        """Return whether a file that begins so is of the format."""
        return head.startswith(b"PAR1")

    def read(self, source: LogSource, wanted: Wanted) -> JobRows:
        """Return its rows about jobs; their lines are their places in the table."""
        try:
            from pyarrow import ArrowInvalid, parquet
        except ImportError:
            raise InvalidInput("Parquet files need pyarrow: pip install 'corewise[parquet]'") from None
        try:
            with parquet.ParquetFile(source.path) as file:
                columns = tuple(file.schema_arrow.names)
                roles = known_roles(columns, wanted)
                reader = Delimited(Layout(roles.columns, roles.columns), roles, wanted)
                return reader.read(_as_text(file, roles.columns))
        except ArrowInvalid as error:
            raise InvalidInput(f"not a Parquet file: {error}") from None


def _as_text(file: object, columns: Sequence[str]) -> Iterator[np.ndarray]:
    """Yield the batches of a Parquet file as lines of CSV."""
    from pyarrow import csv as arrow_csv

    options = arrow_csv.WriteOptions(include_header=False)
    for batch in file.iter_batches(1 << 18, columns=list(columns)):  # type: ignore[attr-defined]
        sink = io.BytesIO()
        arrow_csv.write_csv(batch.select(list(columns)), sink, options)
        yield np.frombuffer(sink.getvalue(), dtype=np.uint8)


def known_roles(columns: Sequence[str], wanted: Wanted) -> Roles:
    """Return which column says what: as named, or else by usual names."""
    if len(set(columns)) < len(columns):
        twice = next(column for column in columns if columns.count(column) > 1)
        raise InvalidInput(f"column {twice!r} is there {columns.count(twice)} times")
    classes = next(((c,) for c in columns if c.lower() in _CLASSES), ())
    roles = roles_among(columns, _ALIASES, Roles(classes=classes)).overridden(wanted.roles, columns)
    lacks = [
        what
        for what, said in (
            ("--submit or --start", roles.submit or roles.start),
            ("--end or --duration", roles.end or roles.duration),
            ("--cores", roles.cores),
        )
        if not said
    ]
    if lacks:
        raise InvalidInput(
            f"which column says what? Its columns are {', '.join(columns)}; name one for {', '.join(lacks)}"
        )
    return roles


def _mark(line: str) -> str:
    """Return what separates the fields of a header: whatever of the usual marks is there most."""
    return max(_MARKS, key=line.count) if any(mark in line for mark in _MARKS) else ""


POLLUX = KnownTable(
    "pollux",
    "Pollux and AdaptDL workloads: submissions alone",
    ("name", "time", "application", "num_replicas"),
    Roles(submit="time", cores="num_replicas", job="name", classes=("application",)),
    "submissions alone: the file says neither when jobs started nor when they ended",
)
PHILLY = KnownTable(
    "philly",
    "Philly-like CSV: timestamp, duration, num_gpus, cluster",
    ("timestamp", "duration", "num_gpus"),
    Roles(submit="timestamp", duration="duration", cores="num_gpus", classes=("cluster",)),
)
