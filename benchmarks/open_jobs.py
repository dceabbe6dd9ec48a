"""Many open jobs: time of a batch of 1000 events, of a single event and of a read.

    python benchmarks/open_jobs.py [--jobs N] [--cores N] [--json FILE]

A service and a controller take in the same events. The service is a process of its own on this machine, with
a journal on its disk; the controller is an object of this process, without clock, journal or HTTP. Times of
the service are those that a client waits; CPU is that of the service alone, which is what an idle core would
take. A target is held against the median. Exits with 1 if a target is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.measure import Findings, Target, progress, table_of, timed
from benchmarks.serve import POOL, Served, served
from corewise.learning.algorithms import live_algorithm
from corewise.live.client import Client
from corewise.live.service.pool_file import load_pool
from corewise.live.service.wire import allocation
from corewise.live.state.controller import Controller
from corewise.observation import events as happened

BATCH = 1000  # events: what one request may hold
SINGLES = 50  # single events of each kind
READS = 20
BATCH_TARGET, SINGLE_TARGET = 1000.0, 5.0  # milliseconds


@dataclass
class Report(Findings):
    """Milliseconds by what was done: of the service, its CPU, and of the controller."""

    jobs: int = 0
    cores: int = 0
    load: float = 0.0
    rows: dict[str, dict[str, dict[str, float]]] = field(default_factory=dict)


# --- what takes events in -----------------------------------------------------------------------


Reads = dict[str, Callable[[], object]]


class Subject(Protocol):
    """What is measured: it takes events in, and answers questions."""

    name: str
    reads: Reads

    def now(self) -> float:
        """Return the time to date an event by."""
        ...

    def take(self, events: Sequence[happened.Event]) -> None:
        """Take in a batch."""
        ...

    def cpu(self) -> float:
        """Return the seconds of CPU that it has used."""
        ...


class ServedPool:
    """A service, as its client sees it."""

    name = "served"

    def __init__(self, service: Served) -> None:
        self._service = service
        self._client = Client(service.address, service.token, patience=0.0, timeout=600.0)
        self.reads: Reads = {"report": self._client.report, "allocation": self._client.allocation}

    def now(self) -> float:
        return time.time()

    def take(self, events: Sequence[happened.Event]) -> None:
        answer = self._client.tell(events)
        assert answer["accepted"] == len(events), answer

    def cpu(self) -> float:
        return self._service.precise_cpu


class BareController:
    """A controller without clock, journal or HTTP."""

    name = "controller"

    def __init__(self, pool: Path) -> None:
        made = load_pool(pool)
        self._controller = Controller(
            live_algorithm(made.system, made.window), _no_policy, mode="steer", options=made.options
        )
        self._time = count(1)
        self.reads: Reads = {
            "report": lambda: json.dumps(self._controller.report().as_mapping(), default=str),
            "allocation": lambda: json.dumps(allocation(self._controller), default=str),
        }

    def now(self) -> float:
        return 1e-3 * next(self._time)

    def take(self, events: Sequence[happened.Event]) -> None:
        for event in events:
            self._controller.handle(event, share=event is events[-1])

    def cpu(self) -> float:
        return time.process_time()


def _no_policy(digest: str) -> Any:
    raise AssertionError(f"nothing is adopted here, but policy {digest} is asked for")


# --- events -------------------------------------------------------------------------------------


class Sender:
    """Maker of events of jobs that come, hold cores, progress and leave, the oldest first."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._ids, self._numbers = count(1), count(1)
        self._open: list[str] = []

    def arrivals(self, number: int) -> list[happened.Event]:
        """Return so many arrivals, of both classes in turn."""
        made = []
        for k in (next(self._numbers) for _ in range(number)):
            self._open.append(f"job-{k}")
            made.append(self._event(happened.JobArrived, f"job-{k}", ("one", "two")[k % 2]))
        return made

    def mixed(self, number: int) -> list[happened.Event]:
        """Return so many events, of which a job after the other holds a core, progresses and finishes."""
        lives = (event for job in self._open[:number] for event in self._life(job))
        made = [next(lives) for _ in range(number)]
        self._open = self._open[number // 3 :]
        return made

    def _life(self, job: str) -> Iterator[happened.Event]:
        yield self._event(happened.CoresHeld, job, 1)
        yield self._event(happened.Progress, job, 3.0)
        yield self._event(happened.JobFinished, job)

    def single(self, kind: type[happened.Event]) -> happened.Event:
        """Return one event: of arrivals a new job's, of the others the oldest job's."""
        if kind is happened.JobArrived:
            return self.arrivals(1)[0]
        job = self._open.pop(0) if kind is happened.JobFinished else self._open[0]
        values = {happened.CoresHeld: (1,), happened.Progress: (3.0,)}.get(kind, ())
        return self._event(kind, job, *values)

    def _event(self, kind: type[happened.Event], *values: object) -> happened.Event:
        return kind(self._subject.now(), f"e{next(self._ids)}", *values)


SINGLE = {
    "arrival": happened.JobArrived,
    "cores-held": happened.CoresHeld,
    "progress": happened.Progress,
    "finish": happened.JobFinished,
}


# --- measurement --------------------------------------------------------------------------------


def measure(subject: Subject, jobs: int) -> dict[str, dict[str, float]]:
    """Return milliseconds by what was done, once so many jobs are open."""
    sender = Sender(subject)
    rows: dict[str, dict[str, float]] = {}

    def clock(label: str, works: Sequence[Callable[[], object]]) -> None:
        before = subject.cpu()
        took = [1e3 * seconds for work in works for seconds, _ in timed(work)]
        rows[label] = {
            "median_ms": float(np.median(took)),
            "max_ms": max(took),
            "cpu_ms": 1e3 * (subject.cpu() - before) / len(took),
        }
        progress(f"{subject.name}: {label}: {rows[label]['median_ms']:.4g} ms, at most {max(took):.4g}")

    def batch(events: Sequence[happened.Event]) -> Callable[[], object]:
        return lambda: subject.take(events)

    for first in range(0, jobs, BATCH):
        label = f"arrivals {first + 1:,} to {min(first + BATCH, jobs):,}"
        clock(label, [batch(sender.arrivals(min(BATCH, jobs - first)))])
    clock(MIXED, [batch(sender.mixed(BATCH))])
    subject.take(sender.arrivals(BATCH // 3))  # as many are open as before
    for label, kind in SINGLE.items():
        clock(f"single {label}", [batch([sender.single(kind)]) for _ in range(SINGLES)])
    for label, read in subject.reads.items():
        clock(f"read of the {label}", [read] * READS)
    return rows


MIXED = f"{BATCH:,} of cores-held, progress, finish"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--jobs", type=int, default=10_000, help="that are open (default 10 000)")
    parser.add_argument("--cores", type=int, default=64, help="of the pool (default 64)")
    parser.add_argument("--json", type=Path, metavar="FILE")
    chosen = parser.parse_args()
    if chosen.jobs < 2 * BATCH:
        parser.error(f"--jobs must be at least {2 * BATCH}, got {chosen.jobs}")
    report = Report(jobs=chosen.jobs, cores=chosen.cores, load=os.getloadavg()[0])
    text = POOL.replace("cores = 64", f"cores = {chosen.cores}")
    with tempfile.TemporaryDirectory() as name, served(Path(name), text) as service:
        report.rows["served"] = measure(ServedPool(service), chosen.jobs)
        report.rows["controller"] = measure(BareController(Path(name) / "pool.toml"), chosen.jobs)
    for subject, rows in report.rows.items():
        last = [label for label in rows if label.startswith("arrivals")][-1]
        singles = max(rows[f"single {label}"]["median_ms"] for label in SINGLE)
        report.targets += [
            Target(f"{subject}: last {BATCH:,} arrivals", rows[last]["median_ms"], BATCH_TARGET, False, "ms"),
            Target(f"{subject}: {MIXED}", rows[MIXED]["median_ms"], BATCH_TARGET, False, "ms"),
            Target(f"{subject}: slowest single event, median", singles, SINGLE_TARGET, False, "ms"),
        ]
    return report.finish(chosen.json, shown(report), width=120)


def shown(report: Report) -> Table:
    """Return the table: the first and the last batch of arrivals, and all else."""
    table = table_of(
        f"{report.jobs:,} open jobs on {report.cores} cores, ms, at a load average of {report.load:.1f}",
        ("", "served: median", "max", "its CPU", "controller: median", "max "),
    )
    served_rows, bare = report.rows["served"], report.rows["controller"]
    arrivals = [label for label in bare if label.startswith("arrivals")]
    for label, row in served_rows.items():
        if label not in arrivals[1:-1]:
            cells = [row["median_ms"], row["max_ms"], row["cpu_ms"]]
            cells += [bare[label]["median_ms"], bare[label]["max_ms"]]
            table.add_row(label, *(f"{cell:,.1f}" if cell >= 10.0 else f"{cell:.2f}" for cell in cells))
    return table


if __name__ == "__main__":
    sys.exit(main())
