"""Sweeps under adversity: 200 runs on a real Dask cluster, a worker killed, the whole sweep interrupted.

The cluster is a scheduler and three workers, processes of their own on the loopback interface. The rows of a
sweep on local processes are what all others are held against: every column but the time a run took and who
did it must be the same, text for text. Then

- a Dask cluster does the same sweep;
- and again, and one of its workers is killed (SIGKILL) when a third of the rows are there;
- a local sweep loses a process in the same way;
- a sweep on the command line is interrupted (SIGINT) twice, and taken up again by the same command, locally
  and with Dask.

Prints what was found, and exits with 1 if a row was lost, doubled or changed.
"""

from __future__ import annotations

import argparse
import csv
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import corewise as cw
from benchmarks.clusters import PATIENCE, dask_cluster
from benchmarks.measure import Findings, Target, progress, table_of
from corewise.studies.sweeps.file import load_sweep

WORKERS = 3
SWEEP = """
seed = 2026
systems = ["paper:1", "paper:3"]
loads = [0.4, 0.7]

[[simulate]]
policies = ["equi", "greedy", "whittle", "optimal"]
departures = {departures}
seeds = 8

[[evaluate]]
policies = ["equi", "whittle"]

[[learn]]
algorithms = ["1a", "1b"]
departures = 100
steps = 5
seeds = 8
"""
"""4 systems × (4 policies × 8 seeds + 2 policies + 2 algorithms × 8 seeds) = 200 runs."""


@dataclass
class Sweeps(Findings):
    """What became of each sweep: rows, how many were lost, doubled and changed, and seconds."""

    sweeps: dict[str, dict[str, float]] = field(default_factory=dict)


def rows_of(file: Path) -> list[dict[str, str]]:
    """Return the rows of a file, without what depends on who computed them."""
    with file.open(newline="") as lines:
        return [
            {name: text for name, text in row.items() if name not in ("seconds", "worker")}
            for row in csv.DictReader(lines)
        ]


def workers_of(file: Path) -> int:
    with file.open(newline="") as lines:
        return len({row["worker"] for row in csv.DictReader(lines)})


def judged(found: Path, reference: Path, seconds: float) -> dict[str, float]:
    """Return how many rows were lost, doubled and changed against those of the reference."""
    rows, expected = rows_of(found), {row["key"]: row for row in rows_of(reference)}
    times = Counter(row["key"] for row in rows)
    return {
        "rows": len(rows),
        "lost": len(expected.keys() - times.keys()),
        "doubled": sum(times.values()) - len(times),
        "changed": sum(row != expected.get(row["key"]) for row in rows),
        "workers": workers_of(found),
        "seconds": seconds,
    }


def swept(
    file: Path,
    out: Path,
    *,
    dask: str | None,
    after: int | None = None,
    act: Callable[[], None] | None = None,
) -> float:
    """Carry out a sweep; do something when so many rows are there."""
    began = time.perf_counter()
    with cw.sweep(file, out=out, dask=dask, workers=None if dask else 2) as runs:
        for count, _ in enumerate(runs, start=1):
            if act and count == after:
                act()
    return time.perf_counter() - began


def interrupted(file: Path, out: Path, dask: str | None, stops: list[int]) -> float:
    """Carry out a sweep on the command line, interrupted whenever it has come to so many rows."""
    began = time.perf_counter()
    options = ["--dask", dask] if dask else ["--workers", "2"]
    command = [sys.executable, "-m", "corewise", "sweep", str(file), "--out", str(out), *options]
    for stop in [*stops, None]:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        while stop is not None and process.poll() is None and _lines(out) <= stop:
            time.sleep(0.05)
        if stop is not None:
            process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=10 * PATIENCE)
        if process.returncode != (0 if stop is None else 130):
            raise SystemExit(f"{command} ended with {process.returncode}: {said}")
        progress(f"  stopped with {_lines(out) - 1} rows" if stop else f"  ended with {_lines(out) - 1} rows")
    return time.perf_counter() - began


def _lines(file: Path) -> int:
    return file.read_bytes().count(b"\n") if file.exists() else 0


def kill_a_child() -> None:
    """Kill one of the worker processes that this process has started."""
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    for child in map(int, children):
        if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes():
            os.kill(child, signal.SIGKILL)
            return
    raise SystemExit("there is no worker process to kill")


def measure(folder: Path, departures: int) -> Sweeps:
    file = folder / "sweep.toml"
    file.write_text(SWEEP.format(departures=departures))
    total = len(load_sweep(file).trials)
    third = total // 3
    findings = Sweeps()
    reference = folder / "local.csv"

    def note(name: str, seconds: float, out: Path) -> None:
        findings.sweeps[name] = judged(out, reference, seconds)
        progress(f"{name}: {findings.sweeps[name]}")

    def out_of(name: str) -> Path:
        progress(f"{name} ...")
        return folder / f"{name.replace(' ', '-').replace(',', '')}.csv"

    note("local", swept(file, reference, dask=None), reference)
    name = "local, a process killed"
    out = out_of(name)
    note(name, swept(file, out, dask=None, after=third, act=kill_a_child), out)
    name = "local, interrupted twice"
    out = out_of(name)
    note(name, interrupted(file, out, None, [third, 2 * third]), out)
    with dask_cluster(folder, WORKERS) as cluster:
        name = "Dask"
        out = out_of(name)
        note(name, swept(file, out, dask=cluster.address), out)
        name = "Dask, interrupted twice"
        out = out_of(name)
        note(name, interrupted(file, out, cluster.address, [third, 2 * third]), out)
        name = "Dask, a worker killed"
        out = out_of(name)
        note(name, swept(file, out, dask=cluster.address, after=third, act=lambda: cluster.kill(0)), out)
    for name, found in findings.sweeps.items():
        for what in ("lost", "doubled", "changed"):
            findings.targets.append(Target(f"{name}: rows {what}", found[what], 0.0, False, "rows"))
        findings.targets.append(Target(f"{name}: rows", found["rows"], total, True, "rows"))
    return findings


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--departures", type=int, default=2_000_000, help="of every simulated run")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers to FILE as well")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        findings = measure(Path(folder), chosen.departures)
    columns = ("rows", "lost", "doubled", "changed", "workers", "seconds")
    table = table_of("Sweeps", ["", *columns])
    for name, found in findings.sweeps.items():
        table.add_row(name, *(f"{found[column]:.0f}" for column in columns))
    sys.exit(findings.finish(chosen.json, table))


if __name__ == "__main__":
    main()
