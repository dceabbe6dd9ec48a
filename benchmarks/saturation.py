"""How long does the exact optimum take near saturation, in how much memory, and how close are its bounds.

    python benchmarks/saturation.py [--rounds N] [--json FILE]

Two classes of unequal size on 16 cores at loads .7 to .999, and three on 8 and on 16 cores at loads .7 to .9.
Every system is solved in a process of its own, `rounds` times after a small one that has everything compiled;
seconds are of processor time, the least of the rounds, and memory is the peak of that process.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.measure import Findings, Target, options, progress, table_of

TWO = ((16.0, (1.0, 0.25), (0.35, 0.95)), (0.7, 0.9, 0.95, 0.99, 0.999))
THREE = [
    ((8.0, (1.0, 1.0, 1.0), (0.3, 0.6, 0.9)), (0.7, 0.8, 0.9)),
    ((16.0, (4.0, 1.0, 2.0), (0.3, 0.6, 0.9)), (0.7, 0.8, 0.9)),
]

SOLVE = """
import json, math, resource, sys, time
import corewise as cw
cores, sizes, fractions, load, rounds = json.loads(sys.argv[1])
rows = [cw.JobClass(f"k{i}", mu, mu, cw.Amdahl(p)) for i, (mu, p) in enumerate(zip(sizes, fractions))]
system = cw.System(cores, rows)
cw.solve(system.at_load(0.6)).mean_jobs
seconds = []
for _ in range(rounds):
    began = time.process_time()
    solution = cw.solve(system.at_load(load))
    solution.mean_jobs
    seconds.append(time.process_time() - began)
low, high = solution.bounds
print(json.dumps({
    "classes": len(sizes), "cores": cores, "load": load, "seconds": min(seconds),
    "gigabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    "states": math.prod(n + 1 for n in solution.capacity), "jobs": solution.mean_jobs, "apart": high - low,
}))
"""


@dataclass
class Report(Findings):
    """Everything that was measured."""

    rows: list[dict[str, float]] = field(default_factory=list)


def measured(
    system: tuple[float, tuple[float, ...], tuple[float, ...]], load: float, rounds: int
) -> dict[str, float]:
    """What a process of its own says of one system."""
    progress(f"{len(system[1])} classes, {system[0]:g} cores, load {load:g} ...")
    said = subprocess.run(
        [sys.executable, "-c", SOLVE, json.dumps([*system, load, rounds])],
        check=True,
        capture_output=True,
        text=True,
    )
    return dict(json.loads(said.stdout))


def main() -> None:
    chosen = options(__doc__.splitlines()[0], 1)
    report = Report()
    for system, loads in (TWO, *THREE):
        report.rows += [measured(system, load, chosen.rounds) for load in loads]
    of = {(row["classes"], row["cores"], row["load"]): row for row in report.rows}
    report.targets = [
        Target("two classes at .99", of[2, 16.0, 0.99]["seconds"], 10.0, at_least=False, unit="s"),
        *(
            Target(f"three classes at .9, {cores:g} cores", of[3, cores, 0.9][key], most, False, unit)
            for cores in (8.0, 16.0)
            for key, most, unit in (("seconds", 60.0, "s"), ("gigabytes", 4.0, "GB"))
        ),
    ]
    headings = (
        "classes",
        "cores",
        "load",
        "seconds",
        "GB",
        "states",
        "mean jobs",
        "bounds apart",
        "relative",
    )
    table = table_of("The exact optimum near saturation", headings)
    for row in report.rows:
        table.add_row(
            *(f"{row[key]:g}" for key in ("classes", "cores", "load")),
            f"{row['seconds']:.3g}",
            f"{row['gigabytes']:.2f}",
            f"{row['states']:,.0f}",
            f"{row['jobs']:.10g}",
            f"{row['apart']:.1e}",
            f"{row['apart'] / row['jobs']:.1e}",
        )
    sys.exit(report.finish(chosen.json, table, width=120))


if __name__ == "__main__":
    main()
