"""Soak of a service: clocks that differ, readers that come and go, refused moves, a kill every minute.

    python benchmarks/soak.py [--minutes 30] [--quick] [--keep FOLDER] [--json FILE]
    python benchmarks/soak.py --only quiet --json quiet.json     # for --against quiet.json

One service on this machine is killed (SIGKILL) every minute and started again on the same journal and port,
while ten schedulers report the events of simulated jobs, each by its own clock, and follow instructions; the
last life of the service is longer, to see its memory. A quiet run of the same length comes first: other jobs
of the same workload (another seed, so that both runs are independent), no kill, no reader, no refusal, all
clocks right.

Times are compressed: a job takes 1.5 s on one core in the mean, where real ones take minutes, so that 30
minutes see some 11 000 departures; clocks that are 55 s off are then off by 37 mean jobs. They are no further
off since the service refuses events that are dated more than 60 s ahead. Exits with 1 if a target is missed.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import corewise as cw
from benchmarks.instruments.lossy_scheduler import Emulated
from benchmarks.instruments.skewed_schedulers import Answers, Happened, Readers, SkewedScheduler
from benchmarks.measure import Findings, Target, progress, table_of
from benchmarks.serve import Served
from corewise.live.client import Client

CORES = 16
TRUE = {"training": 0.95, "etl": 0.35}
SIZE = 1.5  # seconds of a mean job on one core
LOAD = 0.6
SCHEDULERS = 10
CLOCK = 55.0  # seconds that a clock is off at most
REFUSALS = 0.05
READERS = 20.0  # a second
BETWEEN_KILLS = 60.0  # seconds
GROWTH = 1.0  # MB a restart, and a minute, that memory may grow: ids and instructions are kept up to a number
YOUNG = (8.0, 20.0)  # seconds of age at which the memory of lives is compared
OLD = 480.0  # seconds that a life must last: instructions that are kept for clients fill up in its first half
ERRORS_APART = 3.0
POOL = f"""\
cores = {CORES}

[[class]]
name = "training"
speedup = {{ family = "amdahl", p = 0.5 }}

[[class]]
name = "etl"
speedup = {{ family = "amdahl", p = 0.5 }}

[control]
patience = 5.0
least_seen = 100
window = 50
"""


@dataclass
class Report(Findings):
    """Everything that was measured, of both runs."""

    choices: dict[str, Any] = field(default_factory=dict)
    runs: dict[str, dict[str, Any]] = field(default_factory=dict)


# --- the service, life after life ---------------------------------------------------------------


@dataclass
class Life:
    """Life of a service: how long it took to start, its memory by age, and the CPU of it and its solver."""

    began: float
    starting: float
    memory: list[tuple[float, float]] = field(default_factory=list)
    cpu: float = 0.0

    @property
    def lasted(self) -> float:
        """Its age when it was looked at last."""
        return self.memory[-1][0] if self.memory else 0.0

    def megabytes(self, first: float, last: float = math.inf) -> list[tuple[float, float]]:
        """Return the samples of memory between two ages."""
        return [row for row in self.memory if first <= row[0] <= last]


class Killable:
    """A service that is killed and started again on the same journal and port.

    Attributes
    ----------
    lives : list of Life
        Those so far.
    outages : list of (float, float)
        From when to when, by `time.monotonic`, nobody could answer.
    orphans : int
        Processes that outlived the service that had started them by more than ten seconds.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._log = (folder / "service.log").open("a")
        self.lives: list[Life] = []
        self.outages: list[tuple[float, float]] = []
        self.orphans = 0
        self.service = self._start(0)
        self._port = int(self.service.address.rsplit(":", 1)[1])

    def _start(self, port: int) -> Served:
        began = time.monotonic()
        service = Served(self._folder, POOL, port, self._log)
        if not service.address.startswith("http"):
            raise SystemExit(f"the service does not start:\n{self.log[-2000:]}")
        now = time.monotonic()
        self.lives.append(Life(now, now - began))
        return service

    def look(self) -> None:
        """Take down the memory and the CPU of the service."""
        life = self.lives[-1]
        life.memory.append((time.monotonic() - life.began, self.service.megabytes))
        life.cpu = sum(map(_cpu, (self.service.process.pid, *_descendants(self.service.process.pid))))

    def kill(self) -> None:
        """Kill the service with SIGKILL and start the next."""
        self.look()
        children = _descendants(self.service.process.pid)
        from_ = time.monotonic()
        self.service.kill()
        self.service = self._start(self._port)
        self.outages.append((from_, time.monotonic()))
        self.orphans += len(_still_there(children, from_ + 10.0))

    def stop(self) -> None:
        """End the service as an operator does."""
        self.look()
        children = _descendants(self.service.process.pid)
        self.service.stop()
        self.orphans += len(_still_there(children, time.monotonic() + 10.0))
        self._log.close()

    @property
    def log(self) -> str:
        """All that the services have logged."""
        return (self._folder / "service.log").read_text()

    def out(self, at: float) -> bool:
        """Return whether nobody could answer at a time; a request may come to grief a little later."""
        return any(first <= at <= last + 0.5 for first, last in self.outages)


def _descendants(pid: int) -> list[int]:
    found: list[int] = []
    with suppress(OSError):
        for row in Path(f"/proc/{pid}/task").glob("*/children"):
            for child in map(int, row.read_text().split()):
                found += [child, *_descendants(child)]
    return found


def _cpu(pid: int) -> float:
    with suppress(OSError, IndexError):
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return 0.0


def _still_there(pids: Iterable[int], until: float) -> list[int]:
    """Return which processes are there at a time, as soon as none is."""
    left = list(pids)
    while left := [pid for pid in left if Path(f"/proc/{pid}").exists()]:
        if time.monotonic() > until:
            break
        time.sleep(0.05)
    return left


# --- a run --------------------------------------------------------------------------------------


@dataclass
class Run:
    """What came of a run."""

    seconds: float
    service: Killable
    schedulers: list[SkewedScheduler]
    answers: Answers
    readers: Readers | None
    learned: dict[str, Any]
    report: dict[str, Any]
    own_cpu: float
    events: list[tuple[str, str, float, dict[str, Any]]]
    instructions: dict[int, tuple[str, int]]

    @property
    def happened(self) -> list[Happened]:
        return [row for scheduler in self.schedulers for row in scheduler.happened]


def classes() -> dict[str, Emulated]:
    """Return the classes of one scheduler's jobs: each class brings half of the work."""
    rate = LOAD * CORES / SIZE / len(TRUE) / SCHEDULERS
    return {name: Emulated(rate, 1.0 / SIZE, cw.Amdahl(p)) for name, p in TRUE.items()}


def run(folder: Path, minutes: float, last: float, seed: int, *, stormy: bool) -> Run:
    """Run a service for some minutes, kill it every minute if it is to be stormy, and for some more not."""
    service = Killable(folder)
    address, token = service.service.address, service.service.token
    answers = Answers()
    clocks = np.linspace(-CLOCK, CLOCK, SCHEDULERS) if stormy else np.zeros(SCHEDULERS)
    schedulers = [
        SkewedScheduler(
            address,
            token,
            number,
            classes(),
            clock=float(clock),
            refusals=REFUSALS if stormy else 0.0,
            seed=seed,
            answers=answers,
        )
        for number, clock in enumerate(clocks)
    ]
    readers = Readers(address, READERS, seed, answers) if stormy else None
    own, began = time.process_time(), time.monotonic()
    parties: list[SkewedScheduler | Readers] = [*schedulers, *([readers] if readers else [])]
    for party in parties:
        party.start()
    kills = began + BETWEEN_KILLS * np.arange(1, int(60.0 * minutes / BETWEEN_KILLS) + 1)
    pending = list(kills) if stormy else []
    while (now := time.monotonic()) < began + 60.0 * (minutes + last):
        if pending and now >= pending[0]:
            pending.pop(0)
            service.kill()
        service.look()
        if len(service.lives[-1].memory) % 30 == 0:
            sent = sum(len(scheduler.happened) for scheduler in schedulers)
            progress(f"{(now - began) / 60.0:.1f} min, {len(service.outages)} kills, {sent} events")
        time.sleep(1.0)
    for party in parties:
        party.over.set()
    for party in parties:
        party.join()
    seconds, own = time.monotonic() - began, time.process_time() - own
    client = Client(address, token, patience=5.0)
    learned, report = client.estimates()["classes"], client.report()
    service.stop()
    events, instructions = journal_of(folder / "pool.db")
    return Run(seconds, service, schedulers, answers, readers, learned, report, own, events, instructions)


def journal_of(path: Path) -> tuple[list[tuple[str, str, float, dict[str, Any]]], dict[int, tuple[str, int]]]:
    """Return the events of a journal in order, and its instructions to set cores by number."""
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as database:
        rows = database.execute("SELECT id, kind, time, body FROM event ORDER BY seq")
        events = [(name, kind, at, json.loads(body)) for name, kind, at, body in rows]
        told = {seq: json.loads(body) for seq, body in database.execute("SELECT seq, body FROM instruction")}
    set_cores = {seq: (row["job"], row["cores"]) for seq, row in told.items() if row["kind"] == "set-cores"}
    return events, set_cores


# --- what must hold -----------------------------------------------------------------------------


def held_at_most(rows: Iterable[Mapping[str, Any]]) -> int:
    """Return the most cores that were held at a time, given what happened in order."""
    held: dict[str, int] = {}
    total = most = 0
    for row in rows:
        if row["kind"] == "cores-held":
            total += row["cores"] - held.get(row["job"], 0)
            held[row["job"]] = row["cores"]
        elif row["kind"] == "job-finished":
            total -= held.pop(row["job"], 0)
        most = max(most, total)
    return most


def books(found: Run) -> dict[str, int]:
    """Return how what was acknowledged is in the journal, and how many cores were held."""
    there = Counter(name for name, *_ in found.events)
    content = {name: {"id": name, "kind": kind, "time": at, **body} for name, kind, at, body in found.events}
    acknowledged = [row.sent for row in found.happened if row.acknowledged]
    ours = {row.sent["id"] for row in found.happened}
    got = [row for scheduler in found.schedulers for row in scheduler.instructions]
    in_truth = [row.sent for row in sorted(found.happened, key=lambda row: row.at)]
    return {
        "happened": len(found.happened),
        "acknowledged": len(acknowledged),
        "lost": sum(row["id"] not in there for row in acknowledged),
        "twice": sum(number > 1 for number in there.values()),
        "otherwise": sum(not _says(content.get(row["id"]), row) for row in acknowledged),
        "not_sent": sum(name not in ours for name in there if name.startswith("s") and "-e" in name),
        "instructions": len(got),
        "instructions_otherwise": sum(found.instructions.get(n) != (job, cores) for n, job, cores in got),
        "held_by_journal": held_at_most({"kind": kind, **body} for _, kind, _, body in found.events),
        "held_in_truth": held_at_most(in_truth),
    }


def _says(there: Mapping[str, Any] | None, sent: Mapping[str, Any]) -> bool:
    """Return whether an event of a journal says all that was sent; defaults may be written out."""
    return there is not None and all(there.get(key) == value for key, value in sent.items())


def slope(rows: Sequence[tuple[float, float]]) -> float | None:
    """Return the median slope between two points (Theil and Sen); None if there are too few."""
    if len(rows) < 4:
        return None
    x, y = np.array(rows).T
    one, other = np.triu_indices(len(rows), 1)
    return float(np.median((y[other] - y[one]) / (x[other] - x[one])))


def memory(service: Killable) -> dict[str, float | None]:
    """Return how the memory of a service grows, over its restarts and within its longest life."""
    kept = [life.megabytes(*YOUNG) for life in service.lives]
    young = [(float(k), float(np.median([mb for _, mb in rows]))) for k, rows in enumerate(kept) if rows]
    longest = max(service.lives, key=lambda life: life.lasted)
    within = slope(longest.megabytes(longest.lasted / 2.0)) if longest.lasted >= OLD else None
    return {
        "first_mb": young[0][1],
        "last_mb": young[-1][1],
        "most_mb": max(mb for life in service.lives for _, mb in life.memory),
        "mb_a_restart": slope(young),
        "mb_a_minute": None if within is None else 60.0 * within,
        "longest_life_minutes": longest.lasted / 60.0,
    }


def estimate(learned: dict[str, Any] | None) -> tuple[float, float] | None:
    """Return the estimate of p and its standard error, by the interval if there is none; None if unknown."""
    if not learned:
        return None
    error = learned["stderrs"]["p"]
    if error is None:
        low, high = learned["intervals"]["p"]
        error = (high - low) / (2 * 1.96)
    return learned["parameters"]["p"], error


def facts(found: Run) -> dict[str, Any]:
    """Return all numbers of a run."""
    service = found.service
    outside = [row for row in found.answers.failed if not service.out(row[0])]
    estimates = {name: estimate(found.learned.get(name)) for name in TRUE}
    moves = sum(scheduler.moves for scheduler in found.schedulers)
    cpu = sum(life.cpu for life in service.lives)
    return {
        "minutes": found.seconds / 60.0,
        "kills": len(service.outages),
        "seconds_out": sum(last - first for first, last in service.outages),
        **books(found),
        "departures": sum(row.sent["kind"] == "job-finished" for row in found.happened),
        "open_jobs": sum(scheduler.open_jobs for scheduler in found.schedulers),
        "longest_wait": max(scheduler.waited for scheduler in found.schedulers),
        "moves": moves,
        "refused_moves": sum(scheduler.refused_moves for scheduler in found.schedulers),
        "readers": 0 if found.readers is None else found.readers.opened,
        "readers_that_read": 0 if found.readers is None else found.readers.read,
        "statuses": {str(status): number for status, number in sorted(found.answers.statuses.items())},
        "answers_4xx": len(found.answers.refused),
        "answers_5xx_outside": sum(status > 0 for _, status, _ in outside),
        "no_answer_outside": sum(status == 0 for _, status, _ in outside),
        "what_went_wrong": Counter(text for *_, text in outside).most_common(5)
        + Counter(found.answers.refused).most_common(5),
        "logged_errors": service.log.count('"level": "error"'),
        "orphans": service.orphans,
        "memory": memory(service),
        "lives": [
            {
                "starting_seconds": life.starting,
                "minutes": life.lasted / 60.0,
                "cpu": life.cpu,
                "megabytes_every_10_s": [mb for _, mb in life.memory[::10]],
            }
            for life in service.lives
        ],
        "estimates": {name: None if row is None else list(row) for name, row in estimates.items()},
        "rates": {
            name: {key: row[key]["value"] for key in ("arrival_rate", "size_rate") if row.get(key)}
            for name, row in found.learned.items()
            if row
        },
        "windows": found.report.get("windows"),
        "policy": found.report["policy"],
        "changes_reported": len(found.report["alarms"]),
        "alerts": dict(Counter(str(row.get("about")) for row in found.report["alerts"])),
        "cpu_service": cpu / found.seconds,
        "cpu_schedulers_and_readers": found.own_cpu / found.seconds,
    }


def judge(report: Report) -> None:
    """Hold the stormy run against the targets, and its estimates against those of the quiet one."""
    storm, quiet = report.runs["storm"], report.runs["quiet"]
    rows: list[tuple[str, float | None, float, bool, str]] = [
        ("(a) acknowledged events that are lost", storm["lost"], 0.0, False, ""),
        ("(a) … that are there twice", storm["twice"], 0.0, False, ""),
        ("(a) … that say something else", storm["otherwise"], 0.0, False, ""),
        ("(a) events that were never sent", storm["not_sent"], 0.0, False, ""),
        ("(a) instructions that the journal has otherwise", storm["instructions_otherwise"], 0.0, False, ""),
        ("(b) cores held, by the journal", storm["held_by_journal"], float(CORES), False, ""),
        ("(b) cores held, by the true times", storm["held_in_truth"], float(CORES), False, ""),
        ("(c) classes with an estimate", sum(map(bool, storm["estimates"].values())), len(TRUE), True, ""),
        *(
            (f"(c) p of {name}, from the quiet run", apart(storm, quiet, name), ERRORS_APART, False, "errors")
            for name in TRUE
        ),
        ("(d) memory, a restart", storm["memory"]["mb_a_restart"], GROWTH, False, "MB"),
        ("(d) memory, a minute of the last life", storm["memory"]["mb_a_minute"], GROWTH, False, "MB"),
        ("(d) memory, a minute of the quiet run", quiet["memory"]["mb_a_minute"], GROWTH, False, "MB"),
        ("(e) processes left over", storm["orphans"] + quiet["orphans"], 0.0, False, ""),
        ("(e) 5xx but during restarts", storm["answers_5xx_outside"], 0.0, False, ""),
        ("(e) no answer but during restarts", storm["no_answer_outside"], 0.0, False, ""),
        ("(e) events refused (4xx)", storm["answers_4xx"], 0.0, False, ""),
        ("(e) errors in the log", storm["logged_errors"], 0.0, False, ""),
    ]
    report.targets += [Target(*row) for row in rows]


def apart(one: dict[str, Any], other: dict[str, Any], name: str) -> float | None:
    """Return how far two independent estimates are apart, in standard errors √(a² + b²)."""
    first, second = one["estimates"][name], other["estimates"][name]
    if first is None or second is None:
        return None
    return float(abs(first[0] - second[0]) / math.hypot(first[1], second[1]))


# --- main ---------------------------------------------------------------------------------------


@contextmanager
def folder_for(kept: Path | None, name: str) -> Iterator[Path]:
    """Give a new folder, below one that is kept or one that is not."""
    if kept is not None:
        (kept / name).mkdir(parents=True)
        yield kept / name
        return
    with tempfile.TemporaryDirectory() as made:
        yield Path(made)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=30.0, help="with a kill every minute (default 30)")
    parser.add_argument("--last", type=float, help="minutes of the last life (default: a third of --minutes)")
    parser.add_argument("--quiet-minutes", type=float, help="of the quiet run (default: as long)")
    parser.add_argument("--only", choices=("quiet", "storm"), help="one run alone")
    parser.add_argument(
        "--against", type=Path, metavar="FILE", help="take the quiet run from a file of --json"
    )
    parser.add_argument("--quick", action="store_true", help="4 minutes of each, to check this program")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep journals and logs below FOLDER")
    parser.add_argument("--json", type=Path, metavar="FILE")
    chosen = parser.parse_args()
    minutes = 2.0 if chosen.quick else chosen.minutes
    last = 2.0 if chosen.quick else minutes / 3.0 if chosen.last is None else chosen.last
    quiet = minutes + last if chosen.quiet_minutes is None else chosen.quiet_minutes
    report = Report()
    report.choices = {
        "minutes": minutes,
        "last": last,
        "quiet_minutes": quiet,
        "seed": chosen.seed,
        "load_average_before": os.getloadavg()[0],
    }
    if chosen.against is not None:
        report.runs["quiet"] = json.loads(chosen.against.read_text())["runs"]["quiet"]
    for name, parts, stormy in (("quiet", (0.0, quiet), False), ("storm", (minutes, last), True)):
        if name in report.runs or chosen.only not in {None, name}:
            continue
        progress(f"{name}: {sum(parts):g} minutes")
        with folder_for(chosen.keep, name) as folder:
            report.runs[name] = facts(run(folder, *parts, chosen.seed + stormy, stormy=stormy))
    report.choices["load_average_after"] = os.getloadavg()[0]
    if len(report.runs) > 1:
        judge(report)
    return report.finish(chosen.json, lambda console: show(report, console), width=120)


def show(report: Report, console: Console) -> None:
    table = table_of("Soak", ("", *report.runs))
    some = next(iter(report.runs.values()))
    plain = [key for key, value in some.items() if isinstance(value, int | float | str)]
    for key in plain:
        cells = (run[key] for run in report.runs.values())
        table.add_row(
            key.replace("_", " "),
            *(f"{cell:,.4g}" if isinstance(cell, float) else str(cell) for cell in cells),
        )
    for name, truth in TRUE.items():
        table.add_row(
            f"p of {name}, in truth {truth}",
            *(_with_error(r["estimates"][name]) for r in report.runs.values()),
        )
    for key in some["memory"]:
        cells = (run["memory"][key] for run in report.runs.values())
        table.add_row(
            f"memory: {key.replace('_', ' ')}", *("–" if cell is None else f"{cell:.3g}" for cell in cells)
        )
    console.print(table)
    for name, found in report.runs.items():
        console.print(
            f"{name}: answers {found['statuses']}, alerts {found['alerts']}, rates {found['rates']}"
        )
        for text, number in found["what_went_wrong"]:
            console.print(f"  {number} times: {text}", markup=False)


def _with_error(row: Sequence[float] | None) -> str:
    return "–" if row is None else f"{row[0]:.4f} ± {row[1]:.4f}"


if __name__ == "__main__":
    sys.exit(main())
