"""How fast is ``corewise.solve``, next to other solvers, in one run on one machine.

    python benchmarks/solve.py [--rounds N] [--json FILE]

Absolute times mean little on another machine; ratios taken side by side mean more. So every round times
corewise right before and after each peer, a ratio is taken within its round, and the median over rounds is
reported. Compilation and imports happen before the clocks start, for everybody; the garbage collector is
off while they run, for everybody. Exits with 1 if a target was missed; a peer that is not installed is
said so and left out.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import corewise as cw
from benchmarks.measure import Findings, Target, options, peak_megabytes, progress, timed
from benchmarks.peers import PEERS, Answer, Problem

EXACT = 0.650288814502
"""J* of Example 1 with any split of the cores; the best of 101 fractions lies 6.4e-7 above."""

FASTER_THAN = {"numpy": 100.0, "quantecon": 15.0, "mdpsolver": 100.0}
SMALL, LARGE, HUGE = 21, 58, 60
"""Capacities of the three-class boxes: 10 648, 205 379 and 226 981 states."""


@dataclass(frozen=True)
class Row:
    """One solver: seconds to build its input and to solve, and how many times slower than corewise."""

    name: str
    package: str
    mean_jobs: float
    error: float
    build_seconds: float
    solve_seconds: float
    seconds: float
    ratio: float


@dataclass
class Report(Findings):
    """Everything that was measured."""

    rows: list[Row] = field(default_factory=list)
    bounds: tuple[float, float] | None = None
    seconds_per_state: dict[int, float] = field(default_factory=dict)
    peak_megabytes: float = 0.0
    help_seconds: float = 0.0
    numpy_seconds: float = 0.0


def main() -> int:
    chosen = options(__doc__.partition("\n")[0], rounds=7)
    report = Report()
    # Memory first: a child's peak starts from the size of its parent, which is still small here.
    measure_memory(report)
    measure_peers(report, chosen.rounds)
    measure_scaling(report, chosen.rounds)
    measure_startup(report)
    return report.finish(chosen.json, lambda console: show(report, console))


def measure_peers(report: Report, rounds: int) -> None:
    """Example 1 on a 51 × 51 box, to 1e-9: corewise against every peer, a ratio per round."""
    problem = Problem()
    system = two_classes(problem)

    def ours() -> cw.results.Solution:
        return cw.solve(system, capacity=problem.capacity, tolerance=problem.tolerance)

    progress("warming up corewise")
    solution = ours()
    report.bounds = (float(solution.bounds[0]), float(solution.bounds[1]))
    peers = []
    for peer in PEERS:
        if not peer.installed:
            progress(f"{peer.name}: {peer.package} is not installed, left out (`make bench` installs it)")
            report.missing.append(peer.name)
            continue
        progress(f"warming up {peer.name}")
        peer.solve(problem)
        peers.append(peer)

    base: list[float] = []
    ratios: dict[str, list[float]] = {peer.name: [] for peer in peers}
    answers: dict[str, list[Answer]] = {peer.name: [] for peer in peers}
    for k in range(rounds):
        for peer in peers:
            progress(f"round {k + 1} of {rounds}: {peer.name}")
            around = [seconds for seconds, _ in timed(ours, 10)]
            answer = timed(partial(peer.solve, problem))[0][1]
            around += [seconds for seconds, _ in timed(ours, 10)]
            base += around
            ratios[peer.name].append((answer.build_seconds + answer.solve_seconds) / median(around))
            answers[peer.name].append(answer)

    own = Answer(float(solution.mean_jobs), 0.0, median(base))
    report.rows.append(row("corewise", "corewise", [own], [1.0]))
    report.rows += [row(peer.name, peer.package, answers[peer.name], ratios[peer.name]) for peer in peers]
    for package, bound in FASTER_THAN.items():
        found = [entry.ratio for entry in report.rows if entry.package == package]
        name = f"faster than {package}" + (" (its faster row)" if len(found) > 1 else "")
        report.targets.append(Target(name, min(found, default=None), bound, at_least=True, unit="×"))


def row(name: str, package: str, answers: list[Answer], ratios: list[float]) -> Row:
    """Medians over the rounds; the answer itself is the same in each."""
    return Row(
        name=name,
        package=package,
        mean_jobs=answers[0].mean_jobs,
        error=answers[0].mean_jobs - EXACT,
        build_seconds=median(answer.build_seconds for answer in answers),
        solve_seconds=median(answer.solve_seconds for answer in answers),
        seconds=median(answer.build_seconds + answer.solve_seconds for answer in answers),
        ratio=median(ratios),
    )


def measure_scaling(report: Report, rounds: int) -> None:
    """Three classes: time per state in a small and in a large box, side by side."""
    system = three_classes()
    progress("three classes: warming up")
    cw.solve(system, capacity=SMALL)
    per_state: dict[int, list[float]] = {SMALL: [], LARGE: []}
    growth = []
    for k in range(rounds):
        progress(f"three classes, round {k + 1} of {rounds}: {(LARGE + 1) ** 3} states")
        before = [seconds for seconds, _ in timed(lambda: cw.solve(system, capacity=SMALL), 5)]
        large = timed(lambda: cw.solve(system, capacity=LARGE))[0][0] / (LARGE + 1) ** 3
        after = [seconds for seconds, _ in timed(lambda: cw.solve(system, capacity=SMALL), 5)]
        small = median(before + after) / (SMALL + 1) ** 3
        per_state[SMALL].append(small)
        per_state[LARGE].append(large)
        growth.append(large / small)
    report.seconds_per_state = {(n + 1) ** 3: median(times) for n, times in per_state.items()}
    name = f"time per state, {(LARGE + 1) ** 3} to {(SMALL + 1) ** 3} states"
    report.targets.append(Target(name, median(growth), 2.0, at_least=False, unit="×"))


def measure_memory(report: Report) -> None:
    """Three classes, 226 981 states: peak resident memory of a fresh process."""
    progress(f"three classes: memory of {(HUGE + 1) ** 3} states, in a process of its own")
    code = "from benchmarks import solve; solve.cw.solve(solve.three_classes(), capacity=solve.HUGE)"
    report.peak_megabytes = peak_megabytes(code)
    name = f"memory for {(HUGE + 1) ** 3} states"
    report.targets.append(Target(name, report.peak_megabytes, 1000.0, at_least=False, unit="MB"))


def measure_startup(report: Report, rounds: int = 10) -> None:
    """``corewise --help`` against ``import numpy``, both as fresh processes of this interpreter."""
    script = Path(sysconfig.get_path("scripts")) / "corewise"
    commands = ([sys.executable, str(script), "--help"], [sys.executable, "-c", "import numpy"])

    def run(command: list[str]) -> float:
        return timed(lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL))[0][0]

    progress("start-up of the command line")
    for command in commands:
        run(command)
    pairs = [(run(commands[0]), run(commands[1])) for _ in range(rounds)]
    report.help_seconds = median(ours for ours, _ in pairs)
    report.numpy_seconds = median(theirs for _, theirs in pairs)
    ratio = median(ours / theirs for ours, theirs in pairs)
    name = "`corewise --help` against `import numpy`"
    report.targets.append(Target(name, ratio, 4.0, at_least=False, unit="×"))


def two_classes(problem: Problem) -> cw.System:
    """The system of a problem of the peers."""
    parts = zip(("one", "two"), problem.arrival_rates, problem.size_rates, problem.parallel, strict=True)
    classes = [
        cw.JobClass(name, arrival_rate=lam, size_rate=mu, speedup=cw.Amdahl(p)) for name, lam, mu, p in parts
    ]
    return cw.System(cores=problem.cores, classes=classes)


def three_classes() -> cw.System:
    parts = (("one", 1.0, 0.3), ("two", 1.5, 0.6), ("three", 1.5, 0.8))
    classes = [
        cw.JobClass(name, arrival_rate=lam, size_rate=2.5, speedup=cw.Amdahl(p)) for name, lam, p in parts
    ]
    return cw.System(cores=30, classes=classes)


def show(report: Report, console: Console) -> None:
    """The tables, for people."""
    table = Table(
        title="Example 1, 51 × 51 states, to 1e-9", caption="value, policy and modified policy iteration"
    )
    table.add_column("solver", no_wrap=True)
    for heading in ("build ms", "solve ms", "total ms", "ratio", "error"):
        table.add_column(heading, justify="right")
    for entry in report.rows:
        times = (entry.build_seconds, entry.solve_seconds, entry.seconds)
        milliseconds = (f"{1e3 * seconds:.2f}" for seconds in times)
        table.add_row(entry.name, *milliseconds, f"{entry.ratio:.1f}", f"{entry.error:+.1e}")
    for name in report.missing:
        table.add_row(name, "not installed")
    console.print(table)
    if report.bounds is not None:
        console.print(f"corewise's bounds: [{report.bounds[0]:.12f}, {report.bounds[1]:.12f}]", markup=False)
    for states, seconds in report.seconds_per_state.items():
        console.print(f"three classes, {states} states: {1e6 * seconds:.2f} µs a state")
    start = (("corewise --help", report.help_seconds), ("import numpy", report.numpy_seconds))
    console.print(", ".join(f"{name}: {1e3 * seconds:.0f} ms" for name, seconds in start))


if __name__ == "__main__":
    sys.exit(main())
