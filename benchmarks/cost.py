"""How much processor time the learning loop takes, next to an earlier state of the sources.

    git worktree add ../before 6e454fb^         # before sizes of any law and unknown rates came in
    python benchmarks/cost.py ../before [--pairs 30] [--json FILE]

Example 1 with nothing unknown, Algorithm 1b, without exact verdicts. Each state has a process of its own that
has run the loop before and waits; they run in turn, one at a time, the first of a pair second in the next.
Exits with 1 if the target was missed: both the least and the median of the loop now, over those before.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles
from time import process_time

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.measure import ROOT, Findings, Target

MOST = 1.05
EPOCHS, WINDOW = 200, 100
STATES = ("before", "now")


@dataclass
class Report(Findings):
    """Seconds of processor time of every run, by state of the sources."""

    seconds: dict[str, list[float]] = field(default_factory=dict)


class Runner:
    """A process with one state of the sources, which runs the loop when it is asked to."""

    def __init__(self, sources: Path, files: ExitStack) -> None:
        command = [sys.executable, __file__, "--serve"]
        environment = {**os.environ, "PYTHONPATH": str(sources / "src"), "OMP_NUM_THREADS": "1"}
        self.process = files.enter_context(
            subprocess.Popen(
                command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.asked, self.answers = self.process.stdin, self.process.stdout
        self.sources = self.answers.readline().strip()

    def seconds(self) -> float:
        print("run", file=self.asked, flush=True)
        return float(self.answers.readline())


def serve() -> None:
    """Run the loop once for every line that comes in, and say how long it took."""
    import corewise as cw

    system = cw.load_system("paper:1")

    def loop(epochs: int) -> float:
        algorithm = cw.algorithm_1b(system, departures=WINDOW, steps=epochs)
        began = process_time()
        for _ in cw.learn(cw.SimulatedPlant(system, rng=7), algorithm, diagnose=False):
            pass
        return process_time() - began

    loop(EPOCHS)
    print(cw.__file__, flush=True)
    for _ in sys.stdin:
        print(loop(EPOCHS), flush=True)


def measure(before: Path, pairs: int) -> Report:
    """Return seconds of both states, in turn."""
    report = Report(seconds={name: [] for name in STATES})
    with ExitStack() as files:
        runners = dict(zip(STATES, (Runner(sources, files) for sources in (before, ROOT)), strict=True))
        if runners["before"].sources == runners["now"].sources:
            raise SystemExit(f"both states are {runners['now'].sources}")
        for pair in range(pairs):
            for name in STATES if pair % 2 else reversed(STATES):
                report.seconds[name].append(runners[name].seconds())
    then, now = (report.seconds[name] for name in STATES)
    for what, of in (("least", min), ("median", median)):
        report.targets.append(
            Target(f"{what} of {pairs} runs, over that before", of(now) / of(then), MOST, False, "times")
        )
    return report


def spread(seconds: Sequence[float]) -> str:
    low, middle, high = quantiles(seconds, n=4)
    return f"least {min(seconds):.4f} s, quartiles {low:.4f}, {middle:.4f}, {high:.4f} s"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("before", type=Path, nargs="?", help="a directory with the sources of before")
    parser.add_argument("--pairs", type=int, default=30)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers to FILE as well")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.serve:
        serve()
        return 0
    if chosen.before is None or not (chosen.before / "src" / "corewise").is_dir():
        parser.error(f"no sources of corewise in {chosen.before}")
    if chosen.pairs < 2:
        parser.error("--pairs must be at least 2")
    report = measure(chosen.before.resolve(), chosen.pairs)
    lines = [f"{name:7} {EPOCHS} epochs: {spread(report.seconds[name])}" for name in STATES]
    return report.finish(chosen.json, *lines)


if __name__ == "__main__":
    sys.exit(main())
