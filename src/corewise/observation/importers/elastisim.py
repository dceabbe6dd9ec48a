"""ElastiSim's job output: what its ``job_statistics`` and ``node_utilization`` files say together.

Job statistics have one row a job (ID, Type, Submit Time, Start Time, End Time, Wait Time, Makespan,
Turnaround Time, Status; ``completed`` or ``killed``), and no number of nodes. That is in the node utilisation
file: one row for each change of a node (Time, Node, State, Running jobs, Expected jobs), from which the nodes
of a job at any time are counted. So malleable jobs come with their resizes.

Sources: https://elastisim.github.io/simulation-results.html; T. Özden et al., *ElastiSim: A batch-system
simulator for malleable workloads* (ICPP 2022).
"""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from corewise.errors import InvalidInput
from corewise.observation.importers.base import LogSource, Roles, Wanted
from corewise.observation.importers.records import read_records
from corewise.observation.importers.rows import JobRows

__all__ = ["ElastiSim"]

_HEADER = ("ID", "Type", "Submit Time", "Start Time", "End Time", "Status")
_NODES = ("Time", "Node", "State", "Running jobs")
_BESIDE = "node_utilization.csv"
_ROLES = Roles(
    submit="Submit Time", start="Start Time", end="End Time", cores="Nodes", state="Status", job="ID",
    classes=("Type",),
)  # fmt: skip
Record = dict[str, str]


@dataclass(frozen=True)
class ElastiSim:
    """Importer of ElastiSim's job statistics."""

    name: str = "elastisim"
    about: str = "ElastiSim: job statistics, with the node utilisation beside them"

    def recognises(self, head: bytes) -> bool:
        """Return whether a file that begins so is of the format."""
        columns = head.split(b"\n", 1)[0].decode(errors="replace").strip().split(",")
        return set(_HEADER) <= set(columns)

    def read(self, source: LogSource, wanted: Wanted) -> JobRows:
        """Return its rows about jobs, one for each width of a job; their lines are their places."""
        jobs = _records(source, _HEADER)
        if not jobs:
            raise InvalidInput("no jobs")
        if "Nodes" not in jobs[0]:
            jobs = _with_nodes(jobs, _records(LogSource(_nodes_beside(source, wanted)), _NODES))
        return read_records(jobs, _ROLES, wanted)


def _nodes_beside(source: LogSource, wanted: Wanted) -> str:
    if wanted.nodes is not None:
        return wanted.nodes
    beside = Path(source.path).with_name(_BESIDE)
    if not beside.is_file():
        raise InvalidInput(
            "job statistics do not say how many nodes a job had: name the node utilisation file with "
            f"--nodes, or put it beside as {_BESIDE}"
        )
    return str(beside)


def _records(source: LogSource, needed: Sequence[str]) -> list[Record]:
    with source.opened() as file:
        lines = file.read().decode(errors="replace").splitlines()
    reader = csv.DictReader(lines)
    missing = [column for column in needed if column not in (reader.fieldnames or ())]
    if missing:
        raise InvalidInput(f"{source.path}: no column {missing[0]!r}, which ElastiSim writes")
    return [{key: value or "" for key, value in row.items() if key} for row in reader]


def _with_nodes(jobs: Sequence[Record], changes: Sequence[Record]) -> list[Record]:
    """Return a record for every width that a job had."""
    widths = _widths(changes)
    records = []
    for job in jobs:
        started = [(at, width) for at, width in widths[job["ID"]] if width > 0]
        if not started:
            records.append({**job, "Nodes": ""})
            continue
        ends = [at for at, _ in widths[job["ID"]][1:]] + [float(job["End Time"] or "nan")]
        spans = [(at, width, end) for (at, width), end in zip(widths[job["ID"]], ends, strict=True) if width]
        for k, (at, width, end) in enumerate(spans):
            last = k == len(spans) - 1
            records.append({
                **job,
                "Start Time": repr(at),
                "End Time": job["End Time"] if last else repr(end),
                "Nodes": str(width),
                "Status": job["Status"] if last else "resized",
            })  # fmt: skip
    return records


def _widths(changes: Sequence[Record]) -> Mapping[str, list[tuple[float, int]]]:
    """Return when the number of nodes of each job changed, and to what."""
    on_node: dict[str, set[str]] = {}
    moves: dict[str, dict[float, int]] = defaultdict(lambda: defaultdict(int))
    for row in changes:
        try:
            at = float(row["Time"])
        except ValueError:
            raise InvalidInput(f"the time {row['Time']!r} of a node is not a number") from None
        now = {job for job in row["Running jobs"].split(";") if job.strip()}
        before = on_node.get(row["Node"], set())
        for job in now - before:
            moves[job][at] += 1
        for job in before - now:
            moves[job][at] -= 1
        on_node[row["Node"]] = now
    widths: dict[str, list[tuple[float, int]]] = defaultdict(list)
    for job, steps in moves.items():
        total = 0
        for at in sorted(steps):
            if steps[at]:
                total += steps[at]
                widths[job].append((at, total))
    return widths
