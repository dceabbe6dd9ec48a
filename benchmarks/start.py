"""Start: what the first run of each verb costs, when nothing is compiled yet, and what the next one does.

    python benchmarks/start.py [--python PYTHON] [--only VERB …] [--times N] [--json FILE]

Each verb runs twice in a fresh folder for compiled code: the first compiles, the second finds it there. What
counts is CPU time, since a wall clock measures the neighbours as well, and the least of several times, since
neighbours slow down a processor, too. ``--python`` is that of another
environment, such as the one of the version before.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.measure import Findings, progress, table_of

FOUR = "cores = 16\n" + "".join(
    f'[[class]]\nname = "{name}"\narrival_rate = 2.0\nsize_rate = {rate}\n'
    f'speedup = {{ family = "amdahl", p = {p} }}\n'
    for name, rate, p in (("a", 1.0, 0.5), ("b", 0.8, 0.7), ("c", 1.5, 0.9), ("d", 2.0, 0.3))
)
SWEEP = 'systems = ["paper:1"]\nseeds = 2\n[[simulate]]\npolicies = ["equi"]\ndepartures = 1000\n'
VERBS = {
    "--help": "--help",
    "solve": "solve paper:1",
    "evaluate": "evaluate paper:1 --policy whittle",
    "compare": "compare paper:1",
    "compare, four classes": "compare four.toml --events 50000",
    "simulate": "simulate paper:1 --policy equi --departures 10000 --seed 1 --events run.csv",
    "estimate": "estimate paper:1 run.csv",
    "learn": "learn paper:1 --seed 1",
    "learn, adaptive": "learn paper:1 --algorithm adaptive --seed 1",
    "plan": "plan paper:1 --target 0.5",
    "sweep": "sweep sweep.toml --workers 1",
}


@dataclass
class Report(Findings):
    """Everything that was measured: seconds of CPU by verb, first run and second."""

    seconds: dict[str, tuple[float, float]] = field(default_factory=dict)


def cpu_seconds(python: Path, command: str, folder: Path, compiled: Path) -> float:
    """CPU time of one command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [python, "-m", "corewise", *command.split()],
        cwd=folder,
        env={**os.environ, "NUMBA_CACHE_DIR": str(compiled)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        check=False,
        text=True,
    )
    if done.returncode:
        raise SystemExit(f"corewise {command}: {done.stderr}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def pair(python: Path, verb: str, folder: Path, compiled: Path) -> tuple[float, float]:
    """CPU time of a verb when nothing is compiled, and of the same command after that."""
    runs = []
    for _ in range(2):
        (folder / "sweep.csv").unlink(missing_ok=True)
        runs.append(cpu_seconds(python, VERBS[verb], folder, compiled))
    return runs[0], runs[1]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--python", type=Path, default=Path(sys.executable))
    parser.add_argument("--only", nargs="+", default=list(VERBS), choices=list(VERBS), metavar="VERB")
    parser.add_argument("--times", type=int, default=1, metavar="N")
    parser.add_argument("--json", type=Path, metavar="FILE")
    chosen = parser.parse_args()
    python, report = chosen.python.absolute(), Report()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "four.toml").write_text(FOUR)
        (folder / "sweep.toml").write_text(SWEEP)
        for verb in chosen.only:
            if verb == "estimate":
                cpu_seconds(python, VERBS["simulate"], folder, folder / "other")
            first, second = (
                min(seconds)
                for seconds in zip(
                    *(pair(python, verb, folder, folder / f"{verb} {k}") for k in range(chosen.times)),
                    strict=True,
                )
            )
            report.seconds[verb] = (first, second)
            progress(f"{verb}: {first:.2f} s, then {second:.2f} s")
    table = table_of("Seconds of CPU", ("", "first run", "next run"))
    for verb, (first, second) in report.seconds.items():
        table.add_row(verb, f"{first:.2f}", f"{second:.2f}")
    Console().print(table)
    if chosen.json:
        report.write(chosen.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
