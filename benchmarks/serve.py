"""The service: durable events a second over HTTP, memory, kills under load, lossy clients, Schemathesis.

    python benchmarks/serve.py [rates|million|kills|lossy|schema …] [--kills N] [--requests N] [--json FILE]

The service is a process of its own; clients are others on the same machine, so that both share its cores.
A kill is at fault if something that was acknowledged is lost or there twice, or if the allocation after the
restart is not the one that the journal's events lead to. Exits with 1 if a target is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from multiprocessing import get_context
from pathlib import Path
from threading import Event, Thread
from typing import IO, Any

import numpy as np
from rich.console import Console

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import corewise as cw
from benchmarks.instruments.lossy_scheduler import Emulated, LossyScheduler
from benchmarks.measure import ROOT, Findings, Target, progress, table_of
from corewise.learning.learner import infer
from corewise.live.client import Client
from corewise.live.journal.journal import Journal
from corewise.live.journal.pool_configuration import controller_of
from corewise.live.journal.replay import replayed

POOL = """\
cores = 64

[[class]]
name = "one"
speedup = { family = "amdahl", p = 0.5 }

[[class]]
name = "two"
speedup = { family = "amdahl", p = 0.5 }

[control]
least_seen = 1000000000
window = 100000

[service]
most_requests = 1000000.0
"""
CLIENTS = 16


@dataclass
class Report(Findings):
    """Everything that was measured."""

    rates: dict[str, dict[str, float]] = field(default_factory=dict)
    million: dict[str, float] = field(default_factory=dict)
    kills: dict[str, float] = field(default_factory=dict)
    lossy: dict[str, Any] = field(default_factory=dict)
    schema: dict[str, float] = field(default_factory=dict)


# --- a service ----------------------------------------------------------------------------------


class Served:
    """A service in a process of its own."""

    def __init__(self, folder: Path, text: str = POOL, port: int = 0, log: IO[str] | None = None) -> None:
        self.folder = folder
        (folder / "pool.toml").write_text(text)
        command = [sys.executable, "-m", "corewise", "serve", "pool.toml", "--journal", "pool.db"]
        self.process = subprocess.Popen(
            [*command, "--port", str(port)],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL if log is None else log,
            text=True,
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        self.address = line.split(" ", 1)[0]
        self.token = (folder / "pool.db.token").read_text().strip()

    @property
    def megabytes(self) -> float:
        """Resident memory of the service, without its solver."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return next(int(row.split()[1]) for row in status.splitlines() if row.startswith("VmRSS")) / 1024.0

    @property
    def cpu(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    @property
    def precise_cpu(self) -> float:
        """Seconds of CPU of all threads that live, to the microsecond."""
        rows = Path(f"/proc/{self.process.pid}/task").glob("*/schedstat")
        return sum(int(row.read_text().split()[0]) for row in rows) / 1e9

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@contextmanager
def served(folder: Path, text: str = POOL) -> Iterator[Served]:
    service = Served(folder, text)
    try:
        yield service
    finally:
        service.stop()


# --- rates --------------------------------------------------------------------------------------


def _client(address: str, token: str, number: int, batch: int, events: int, latencies: Any) -> None:
    """Tell events of jobs of one's own, a batch at a time, each as soon as the last is acknowledged."""
    connection = HTTPConnection(address.removeprefix("http://"), timeout=60.0)
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    life = _life(number)
    took = []
    first = time.time()
    for _ in range(events // batch):
        body = json.dumps([next(life) for _ in range(batch)])
        began = time.perf_counter()
        connection.request("POST", "/v1/events", body, headers)
        response = connection.getresponse()
        answer = response.read()
        took.append(time.perf_counter() - began)
        assert response.status == 200, answer
    latencies.put((first, time.time(), took))


def _life(number: int) -> Iterator[dict[str, Any]]:
    """Yield what happens to one job after another: it comes, holds cores some times, and leaves."""
    ids = iter(range(10**9))
    stem = f"{os.getpid()}-{number}"
    for k in range(10**9):
        job = {"job": f"{stem}-{k}"}
        kinds: list[dict[str, Any]] = [
            {"kind": "job-arrived", "job_class": ("one", "two")[k % 2]},
            *({"kind": "cores-held", "cores": cores} for cores in (4, 8, 2)),
            {"kind": "progress", "amount": 3.0},
            {"kind": "job-finished"},
        ]
        for more in kinds:
            yield {"id": f"{stem}-e{next(ids)}", **job, **more}


def load(service: Served, clients: int, batch: int, events: int) -> dict[str, float]:
    """Return rates and latencies of clients that tell so many events in all."""
    context = get_context("spawn")
    latencies = context.Queue()
    each = events // clients
    processes = [
        context.Process(target=_clients, args=(service.address, service.token, share, batch, each, latencies))
        for share in np.array_split(np.arange(clients), min(clients, 2))
    ]
    before = service.cpu
    for process in processes:
        process.start()
    told = [latencies.get() for _ in range(clients)]
    took = np.concatenate([row[2] for row in told])
    elapsed = max(row[1] for row in told) - min(row[0] for row in told)
    for process in processes:
        process.join()
    done = each // batch * batch * clients
    return {
        "events": done,
        "events_per_second": done / elapsed,
        "median_ms": 1e3 * float(np.median(took)),
        "p99_ms": 1e3 * float(np.percentile(took, 99)),
        "cpu_ms_per_request": 1e3 * (service.cpu - before) / len(took),
        "cpu_us_per_event": 1e6 * (service.cpu - before) / done,
    }


def _clients(address: str, token: str, numbers: Sequence[int], batch: int, each: int, latencies: Any) -> None:
    threads = [
        Thread(target=_client, args=(address, token, int(number), batch, each, latencies))
        for number in numbers
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def measure_rates(report: Report, folder: Path) -> None:
    with served(folder) as service:
        load(service, 2, 10, 2000)
        report.rates["batches of 100, 2 clients"] = load(service, 2, 100, 60_000)
        report.rates[f"single events, {CLIENTS} clients"] = load(service, CLIENTS, 1, 16_000)
    report.targets += [
        Target(f"durable events, {name}", row["events_per_second"], bound, True, "/s")
        for (name, row), bound in zip(report.rates.items(), (3000.0, 500.0), strict=True)
    ]


def measure_million(report: Report, folder: Path) -> None:
    with served(folder) as service:
        load(service, 2, 10, 2000)
        first = service.megabytes
        progress("a million events")
        row = load(service, 4, 100, 1_000_000)
        report.million = {**row, "megabytes_before": first, "megabytes_after": service.megabytes}
    report.targets.append(
        Target(
            "memory grown over a million events",
            report.million["megabytes_after"] - first,
            100.0,
            False,
            "MB",
        )
    )


# --- kills --------------------------------------------------------------------------------------


class Teller(Thread):
    """A client that tells of jobs one after the other, and again until it is answered."""

    def __init__(self, address: str, token: str, number: int) -> None:
        super().__init__(daemon=True)
        self._client = Client(address, token, patience=300.0, timeout=5.0)
        self._life = _life(number)
        self.acknowledged: list[str] = []
        self.over = Event()

    def run(self) -> None:
        from corewise.observation.events import event_from_mapping

        rng = random.Random(self.name)
        while not self.over.is_set():
            batch = [
                event_from_mapping({"time": time.time(), **next(self._life)})
                for _ in range(rng.randint(1, 8))
            ]
            self._client.tell(batch)
            self.acknowledged += [event.id for event in batch]


class Nursery:
    """Where services come from that are to be killed."""

    def __init__(self, folder: Path) -> None:
        script = ROOT / "benchmarks" / "instruments" / "quick_service.py"
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self._process = subprocess.Popen([sys.executable, str(script), str(folder)], **pipes)

    def bear(self, port: int) -> dict[str, Any]:
        """Return what the next service says of itself."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{port}\n")
        self._process.stdin.flush()
        said: dict[str, Any] = json.loads(self._process.stdout.readline())
        return said

    def close(self) -> None:
        self._process.communicate()


def measure_kills(report: Report, folder: Path, kills: int) -> None:
    rng = random.Random(7)
    (folder / "pool.toml").write_text(POOL)
    nursery = Nursery(folder)
    service = nursery.bear(0)
    address, token = service["address"], (folder / "pool.db.token").read_text().strip()
    port = int(address.rsplit(":", 1)[1])
    tellers = [Teller(address, token, number) for number in range(4)]
    for teller in tellers:
        teller.start()
    differing = 0
    for k in range(kills):
        _let_tell(tellers, rng.randint(1, 100))
        time.sleep(rng.uniform(0.0, 0.02))
        os.kill(service["process"], signal.SIGKILL)
        _wait_for(service["process"])
        before = _allocation_of(folder)
        service = nursery.bear(port)
        differing += service["rows"] != before
        if k % 20 == 19:
            progress(f"{k + 1} kills, {sum(len(teller.acknowledged) for teller in tellers)} acknowledged")
    for teller in tellers:
        teller.over.set()
    for teller in tellers:
        teller.join()
    os.kill(service["process"], signal.SIGTERM)
    nursery.close()
    with Journal.read(folder / "pool.db") as journal:
        there = Counter(event.id for _, event in journal.events())
    acknowledged = [name for teller in tellers for name in teller.acknowledged]
    report.kills = {
        "kills": kills,
        "acknowledged": len(acknowledged),
        "lost": sum(name not in there for name in acknowledged),
        "doubled": sum(count > 1 for count in there.values()),
        "differing": differing,
    }
    for what in ("lost", "doubled", "differing"):
        report.targets.append(Target(f"{what} after {kills} kills", report.kills[what], 0.0, False, ""))


def _let_tell(tellers: Sequence[Teller], events: int) -> None:
    """Wait until so many more events are acknowledged."""
    wanted = events + sum(len(teller.acknowledged) for teller in tellers)
    until = time.monotonic() + 30.0
    while sum(len(teller.acknowledged) for teller in tellers) < wanted and time.monotonic() < until:
        time.sleep(0.001)


def _wait_for(process: int) -> None:
    while Path(f"/proc/{process}").exists():
        time.sleep(0.002)


def _allocation_of(folder: Path) -> list[list[Any]]:
    """Return who holds and was told what, by the events in the journal."""
    with Journal.read(folder / "pool.db") as journal:
        controller = replayed(journal, lambda snapshot: controller_of(journal, snapshot))
        return [[job.name, job.held, job.assigned, job.target] for job in controller.jobs]


# --- a scheduler that loses things --------------------------------------------------------------

LOSSY = POOL.replace("cores = 64", "cores = 16").replace("window = 100000", "window = 100")


def measure_lossy(report: Report, folder: Path) -> None:
    classes = {"one": Emulated(5.0, 4.0, cw.Amdahl(0.1)), "two": Emulated(2.5, 1.0, cw.Amdahl(0.95))}
    with served(folder, LOSSY) as service:
        scheduler = LossyScheduler(service.address, service.token, classes, clients=8, loss=0.05)
        scheduler.run(120.0, drain=True)
        client = Client(service.address)
        found, jobs = client.report(), client.allocation()["jobs"]
    with Journal.read(folder / "pool.db") as journal:
        lossy = replayed(journal, lambda snapshot: controller_of(journal, snapshot))
        ordered = controller_of(journal)
        ordered.mode = "steer"
    for event in scheduler.happened:
        ordered.handle(event)
    wanted = ordered.report().as_mapping()
    off: dict[str, dict[str, Any]] = {}
    rows = zip(
        found["classes"],
        wanted["classes"],
        infer(lossy.inference_request()).classes,
        infer(ordered.inference_request()).classes,
        strict=True,
    )
    for one, other, learned, in_order in rows:
        low, high = in_order.intervals["p"]
        difference = learned.parameters["p"] - in_order.parameters["p"]
        off[one["name"]] = {
            "p": learned.parameters["p"],
            "in_order": in_order.parameters["p"],
            "interval": [low, high],
            "difference_in_standard_errors": difference / ((high - low) / (2 * 1.96)),
            "departures": [one["finished"], other["finished"]],
            "response": [one["responses"]["mean"], other["responses"]["mean"]],
        }
    same = [(row["job"], row["told"]) for row in jobs] == [(job.name, job.assigned) for job in ordered.jobs]
    report.lossy = {
        "requests": scheduler.requests,
        "mishaps": scheduler.mishaps,
        "classes": off,
        "same": same,
    }
    worst = max(abs(row["difference_in_standard_errors"]) for row in off.values())
    report.targets.append(Target("estimates, lossy against in order", worst, 0.25, False, "standard errors"))
    report.targets.append(Target("allocation the same", float(same), 1.0, True, ""))


# --- whatever the description allows, and what it does not --------------------------------------


CHECKS = (
    "not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,"
    "response_schema_conformance,negative_data_rejection"
)


TAKING = 4  # operations that take something: of the others there are few different requests


def measure_schema(report: Report, folder: Path, requests: int) -> None:
    with served(folder) as service:
        # A long poll waits for as long as it is asked to, so of those there are few; streams have no end.
        examples = requests // TAKING
        parts = (
            (examples, ["--include-path", "/v1/events"]),
            (examples, ["--exclude-path-regex", "stream|instructions|events$"]),
            (20, ["--include-path", "/v1/instructions"]),
        )
        with ThreadPoolExecutor(len(parts)) as pool:
            codes = list(pool.map(lambda part: schemathesis(service, *part), parts))
        connection = HTTPConnection(service.address.removeprefix("http://"))
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
    rows = [row for row in text.splitlines() if row.startswith("corewise_http_requests_total")]
    statuses = {row.split('"')[1]: float(row.rsplit(" ", 1)[1]) for row in rows}
    report.schema = {**statuses, "requests": sum(statuses.values())}
    broken = sum(count for status, count in statuses.items() if status.startswith("5"))
    report.targets += [
        Target("requests of Schemathesis", report.schema["requests"], float(requests), True, ""),
        Target("of them answered with 5xx", broken, 0.0, False, ""),
        Target("exit code of Schemathesis", float(max(codes)), 0.0, False, ""),
    ]


def schemathesis(service: Served, examples: int, paths: Sequence[str]) -> int:
    """Run Schemathesis against a service; return its exit code."""
    command = [
        str(Path(sys.executable).with_name("schemathesis")),
        "run",
        f"{service.address}/openapi.json",
        *("--header", f"Authorization: Bearer {service.token}"),
        *("--max-examples", str(max(examples, 1))),
        *("--phases", "coverage,fuzzing"),
        *("--checks", CHECKS),
        *("--request-timeout", "60", "--generation-database", "none", "--seed", "1"),
        *paths,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    progress(done.stdout[-2500:] + done.stderr[-500:])
    return done.returncode


PARTS = ("rates", "million", "kills", "lossy", "schema")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)} (all)")
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--requests", type=int, default=20_000, help="of Schemathesis")
    parser.add_argument("--json", type=Path, metavar="FILE")
    chosen = parser.parse_args()
    report = Report()
    for part in chosen.parts or PARTS:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            match part:
                case "rates":
                    measure_rates(report, folder)
                case "million":
                    measure_million(report, folder)
                case "kills":
                    measure_kills(report, folder, chosen.kills)
                case "lossy":
                    measure_lossy(report, folder)
                case "schema":
                    measure_schema(report, folder, chosen.requests)
                case _:
                    parser.error(f"unknown part {part!r}; known: {', '.join(PARTS)}")
    return report.finish(chosen.json, lambda console: show(report, console), width=120)


def show(report: Report, console: Console) -> None:
    if report.rates or report.million:
        table = table_of(
            "Over HTTP", ("", "events/s", "median ms", "p99 ms", "CPU ms a request", "CPU µs an event")
        )
        rows = {
            **report.rates,
            **({"a million, batches of 100, 4 clients": report.million} if report.million else {}),
        }
        for label, row in rows.items():
            keys = ("events_per_second", "median_ms", "p99_ms", "cpu_ms_per_request", "cpu_us_per_event")
            table.add_row(label, *(f"{row[key]:,.4g}" for key in keys))
        console.print(table)
    for facts in (report.million, report.kills, report.lossy, report.schema):
        if facts:
            console.print_json(data=facts)


if __name__ == "__main__":
    sys.exit(main())
