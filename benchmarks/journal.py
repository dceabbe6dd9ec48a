"""The journal: durable events a second, kills of its writer at random points, cuts of its log at every byte.

    python benchmarks/journal.py [--seconds S] [--kills N] [--cut-every N] [--seed N] [--json FILE]

Rates are those of batches one after the other and of 16 clients with an event each, beside a file that is
appended to and synchronised. The disk is shared with all who use it, so the best of three rounds counts. A
kill is at fault if something that was acknowledged is lost, something is there twice, a batch is there in
part, or replay does not give the instructions of a controller that was never killed. Power loss is not
tested. Some twenty minutes on a busy machine; exits with 1 if a target is missed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from threading import Thread

import numpy as np
from rich.console import Console

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.instruments.journal_kills import Victim, Writers, faults, said_by, told_by
from benchmarks.instruments.live_stream import ABOUT, stream
from benchmarks.instruments.wal import commits
from benchmarks.measure import Findings, Target, progress, table_of, targets_table
from corewise.live.journal.journal import Journal
from corewise.observation.events import CoresHeld, Event, JobArrived

BATCHES = (1, 10, 100, 1000)
CLIENTS = 16
ROUNDS = 3
JOBS, SEED = 150, 5
"""Of the stream that is written while the writer is killed."""
AT_ANY_TIME = 5
"""One kill in so many may fall while the journal is made, opened or replayed; the others fall under load."""


@dataclass
class Report(Findings):
    """Everything that was measured: events a second by batch, of the journal and of a file; kills; cuts."""

    journal: dict[str, float] = field(default_factory=dict)
    file: dict[str, float] = field(default_factory=dict)
    cpu_microseconds: dict[str, float] = field(default_factory=dict)
    replayed_rows: float = 0.0
    kills: int = 0
    kills_within_a_batch: int = 0
    faulty_kills: list[str] = field(default_factory=list)
    cuts: int = 0
    faulty_cuts: list[str] = field(default_factory=list)


# --- rates --------------------------------------------------------------------------------------


def held(numbers: Iterator[int], size: int) -> list[Event]:
    return [
        CoresHeld(float(k), str(k), f"job {k % 50}", k % 16) for k in (next(numbers) for _ in range(size))
    ]


def rate(work: Callable[[], int], seconds: float) -> tuple[float, float]:
    """Events a second, and CPU seconds an event, of work that is repeated for some time."""
    began, spent, done = time.perf_counter(), time.process_time(), 0
    while time.perf_counter() - began < seconds:
        done += work()
    return done / (time.perf_counter() - began), (time.process_time() - spent) / done


def measure_rates(report: Report, folder: Path, seconds: float) -> None:
    numbers = count()
    with Journal.open(folder / "rates.db", ABOUT) as journal, (folder / "plain").open("ab", 0) as plain:

        def append(size: int) -> int:
            journal.append(held(numbers, size), time.time())
            return size

        def write(size: int) -> int:
            plain.write(b"".join(f"{event}\n".encode() for event in held(numbers, size)))
            os.fdatasync(plain.fileno())
            return size

        for _ in range(ROUNDS):
            for size in BATCHES:
                name = f"batches of {size}"
                reached, cpu = rate(lambda size=size: append(size), seconds)  # type: ignore[misc]
                report.journal[name] = max(report.journal.get(name, 0.0), reached)
                report.cpu_microseconds[name] = min(report.cpu_microseconds.get(name, np.inf), 1e6 * cpu)
                reached, _ = rate(lambda size=size: write(size), seconds)  # type: ignore[misc]
                report.file[name] = max(report.file.get(name, 0.0), reached)
            name = f"{CLIENTS} clients × 1"
            reached = clients_rate(append, seconds)
            report.journal[name] = max(report.journal.get(name, 0.0), reached)
            progress(f"{name}: {reached:,.0f} events/s")
        began = time.perf_counter()
        report.replayed_rows = sum(1 for _ in journal.events()) / (time.perf_counter() - began)


def clients_rate(append: Callable[[int], int], seconds: float) -> float:
    """Events a second of clients that each wait for their own event."""
    done = [0] * CLIENTS
    began = time.perf_counter()

    def client(k: int) -> None:
        while time.perf_counter() - began < seconds:
            done[k] += append(1)

    threads = [Thread(target=client, args=(k,)) for k in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(done) / (time.perf_counter() - began)


# --- kills --------------------------------------------------------------------------------------


def measure_kills(report: Report, folder: Path, kills: int, seed: int) -> None:
    """Kill writers of one journal after the other, each until its stream is at its end."""
    told, rng = stream(JOBS, SEED), np.random.default_rng(seed)
    answers = told_by(told)
    victim = _new_victim(folder, 0)
    with Writers(JOBS, SEED) as writers:
        for k in range(kills):
            if said_by(victim).get("acknowledged", 0) == len(told):
                victim = _new_victim(folder, k)
            before = said_by(victim).get("sent", 0)
            pid = writers.start(replace(victim, seed=1000 * seed + k))
            if k % AT_ANY_TIME:
                wait_for_more(victim, before, len(told))
            time.sleep(rng.uniform(0.0, 0.03))
            writers.kill(pid)
            report.kills += 1
            sent, done = (said_by(victim).get(what, 0) for what in ("sent", "acknowledged"))
            report.kills_within_a_batch += sent > max(before, done)
            report.faulty_kills += [f"kill {k}: {fault}" for fault in faults(victim, told, answers)]
            if not (k + 1) % 50:
                progress(f"{k + 1} kills, {len(report.faulty_kills)} faults")


def wait_for_more(victim: Victim, before: int, last: int) -> None:
    """Wait until a writer has sent something, or all there is."""
    while (said := said_by(victim)).get("sent", 0) <= before and said.get("acknowledged", 0) < last:
        time.sleep(0.001)


def _new_victim(folder: Path, number: int) -> Victim:
    return Victim(folder / f"kills-{number}.db", folder / f"kills-{number}.said", 0)


# --- cuts ---------------------------------------------------------------------------------------


def measure_cuts(report: Report, folder: Path, every: int) -> None:
    """Cut the log of a journal at every byte of its last transactions: whole ones are left."""
    sizes = [40, 1, 30, 5]
    with Journal.open(folder / "cut.db", ABOUT) as journal:
        for k, size in enumerate(sizes):
            journal.append([JobArrived(0.0, f"{k}-{i}", f"job {k}-{i}", "small") for i in range(size)], 0.0)
        database, wal = ((folder / f"cut.db{end}").read_bytes() for end in ("", "-wal"))
    ends, there = commits(wal), np.cumsum(sizes).tolist()
    place = Path(tempfile.mkdtemp(dir="/dev/shm" if Path("/dev/shm").is_dir() else None)) / "cut.db"
    try:
        for cut in range(ends[-3], len(wal) + 1, every):
            expected = there[sum(end <= cut for end in ends) - 2]
            found = events_left(place, database, wal[:cut])
            report.cuts += 1
            if found != expected:
                report.faulty_cuts.append(f"cut at {cut}: {found} events, not {expected}")
    finally:
        shutil.rmtree(place.parent)
    progress(f"{report.cuts} cuts, {len(report.faulty_cuts)} faults")


def events_left(place: Path, database: bytes, wal: bytes) -> int | str:
    for path in place.parent.iterdir():
        path.unlink()
    place.write_bytes(database)
    Path(f"{place}-wal").write_bytes(wal)
    with closing(sqlite3.connect(f"{place.as_uri()}?mode=ro", uri=True)) as found:
        if found.execute("PRAGMA quick_check").fetchall() != [("ok",)]:
            return "not sound, and"
        return int(found.execute("SELECT count(*) FROM event").fetchone()[0])


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=2.0, help="for each rate, three times over (2)")
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--cut-every", type=int, default=1, metavar="BYTES", help="0: none")
    parser.add_argument("--seed", type=int, default=SEED, help="of when writers are killed")
    parser.add_argument("--folder", type=Path, help="on the disk to measure; a temporary one if not given")
    parser.add_argument("--json", type=Path, metavar="FILE")
    chosen = parser.parse_args()
    report = Report()
    with tempfile.TemporaryDirectory(dir=chosen.folder) as name:
        measure_rates(report, Path(name), chosen.seconds)
        if chosen.cut_every:
            measure_cuts(report, Path(name), chosen.cut_every)
        measure_kills(report, Path(name), chosen.kills, chosen.seed)
    report.targets = [
        Target("durable events, batches of 100", report.journal["batches of 100"], 5000.0, True, "/s"),
        Target(
            f"durable events, {CLIENTS} clients × 1",
            report.journal[f"{CLIENTS} clients × 1"],
            500.0,
            True,
            "/s",
        ),
        Target(f"faults after {report.kills} kills", float(len(report.faulty_kills)), 0.0, False, ""),
        Target(f"faults after {report.cuts} cuts", float(len(report.faulty_cuts)), 0.0, False, ""),
    ]
    table = table_of("Durable events a second", ("", "journal", "file, fdatasync", "CPU µs an event"))
    for label, reached in report.journal.items():
        beside = [report.file.get(label), report.cpu_microseconds.get(label)]
        table.add_row(label, f"{reached:,.0f}", *("" if x is None else f"{x:,.0f}" for x in beside))
    console = Console()
    console.print(table)
    console.print(f"{report.replayed_rows:,.0f} events a second are read back")
    console.print(f"{report.kills_within_a_batch} of {report.kills} kills fell while a batch was on its way")
    for fault in [*report.faulty_kills, *report.faulty_cuts][:20]:
        console.print(fault, markup=False)
    console.print(targets_table(report.targets))
    if chosen.json:
        report.write(chosen.json)
    return int(report.missed)


if __name__ == "__main__":
    sys.exit(main())
