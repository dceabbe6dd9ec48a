"""How far policies are from the optimum, exactly, over random systems of two and three classes.

    python benchmarks/gaps.py                          # 300 systems
    python benchmarks/gaps.py --systems 500 --seed 7 --weights --json gaps.json

Two thirds have two classes (loads 0.1 to 0.95, 4 to 64 cores), the others three (loads 0.1 to 0.8, 4 to 16
cores). Curves are of all families, with p uniform on [0, 1], and one in eight at either end; sizes differ by
up to 10 : 1. Every policy is evaluated exactly and held against `solve`; unstable ones are counted apart. The
systems of a seed are always the same, however many are asked for.
"""

from __future__ import annotations

import argparse
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter

import numpy as np
from rich.console import Console

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import corewise as cw
from benchmarks.measure import Findings, Target, progress, table_of

POLICIES: list[cw.Policy] = [cw.Equi(), cw.Greedy(), cw.Whittle(), cw.Improved()]
MEAN, WORST = 0.03, 0.7  # per cent, for the improved policy


@dataclass(frozen=True)
class Row:
    """One system: how far above the optimum each policy is, as a fraction; None if it is unstable."""

    number: int
    system: str
    optimum: float
    gaps: dict[str, float | None]
    seconds: dict[str, float]


@dataclass
class Report(Findings):
    """All systems."""

    seed: int = 0
    weights: bool = False
    rows: list[Row] = field(default_factory=list)


def random_curve(rng: np.random.Generator, cores: int) -> cw.SpeedUp:
    """A curve of any family, with p on [0, 1] and both ends likely."""
    p = float(rng.choice([0.0, 1.0, rng.random()], p=[1 / 16, 1 / 16, 7 / 8]))
    match rng.integers(5):
        case 0:
            return cw.Amdahl(p)
        case 1:
            return cw.PowerLaw(p)
        case 2:
            return cw.Gustafson(p)
        case 3:
            return cw.Usl(1.0 - p, float(10 ** rng.uniform(-5, -2)))
    widths = 2.0 ** np.arange(1, int(np.log2(cores)) + 2)
    law = cw.Amdahl(p) if rng.random() < 0.5 else cw.PowerLaw(p)
    speeds = np.maximum(law.rate(widths) * rng.uniform(0.9, 1.0, widths.size), 1.0)
    return cw.Tabulated(list(zip(widths.tolist(), speeds.tolist(), strict=True)))


def random_system(number: int, seed: int, *, weights: bool = False) -> cw.System:
    """The system of that number; every third has three classes."""
    rng = np.random.default_rng([seed, number])
    classes, max_cores, most_load = (3, 16, 0.8) if number % 3 == 2 else (2, 64, 0.95)
    cores = round(float(np.exp(rng.uniform(np.log(4), np.log(max_cores)))))
    load = float(rng.uniform(0.1, most_load))
    sizes, parts = 10.0 ** rng.uniform(0, 1, classes), np.maximum(rng.dirichlet(np.full(classes, 1.5)), 1e-3)
    costs = 10.0 ** rng.uniform(0, 1, classes) if weights else np.ones(classes)
    rows = zip("abc", (parts * sizes).tolist(), sizes.tolist(), costs.tolist(), strict=False)
    jobs = [cw.JobClass(name, rate, mu, random_curve(rng, cores), h) for name, rate, mu, h in rows]
    return cw.System(cores, jobs).at_load(load)


def examine(number: int, seed: int, weights: bool) -> Row:
    """Evaluate all policies on one system."""
    system = random_system(number, seed, weights=weights)
    best = cw.solve(system).mean_cost
    gaps: dict[str, float | None] = {}
    seconds = {}
    for policy in POLICIES:
        start = perf_counter()
        bound = policy.on(system)
        seconds[policy.name] = perf_counter() - start
        try:
            gaps[policy.name] = cw.evaluate(system, bound).mean_cost / best - 1.0
        except cw.errors.UnstablePolicy:
            gaps[policy.name] = None
    return Row(number, str(system), best, gaps, seconds)


def tell(rows: list[Row], console: Console, worst: int) -> None:
    """Print the table of gaps and the systems that are hardest for the improved policy."""
    table = table_of(
        f"Gap to the optimum, {len(rows)} systems; median time to make the policy",
        ["", "mean %", "median %", "95th %", "worst %", "unstable", "seconds"],
    )
    for policy in POLICIES:
        found = np.array([gap for row in rows if (gap := row.gaps[policy.name]) is not None])
        shown = [found.mean(), np.median(found), np.quantile(found, 0.95), found.max()]
        time = np.median([row.seconds[policy.name] for row in rows])
        table.add_row(
            policy.name, *(f"{100 * gap:.4f}" for gap in shown), str(len(rows) - found.size), f"{time:.2f}"
        )
    console.print(table)
    for row in sorted(rows, key=improved_gap)[: -worst - 1 : -1]:
        told = ", ".join(
            f"{name} {'unstable' if gap is None else f'{100 * gap:.3f} %'}" for name, gap in row.gaps.items()
        )
        console.print(f"\nsystem {row.number}: {told}\n{row.system}", highlight=False)


def improved_gap(row: Row) -> float:
    gap = row.gaps["improved"]
    return np.inf if gap is None else gap


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--systems", type=int, default=300, metavar="N")
    parser.add_argument("--seed", type=int, default=0, metavar="S")
    parser.add_argument("--weights", action="store_true", help="costs of classes differ by up to 10 : 1")
    parser.add_argument("--worst", type=int, default=5, metavar="N", help="how many of the worst to show")
    parser.add_argument("--json", type=Path, metavar="FILE")
    chosen = parser.parse_args()
    rows: list[Row] = []
    with ProcessPoolExecutor(os.cpu_count()) as executor:
        tasks = [executor.submit(examine, k, chosen.seed, chosen.weights) for k in range(chosen.systems)]
        for k, task in enumerate(tasks):
            rows.append(task.result())
            if (k + 1) % 25 == 0:
                progress(f"{k + 1} systems")
    all_gaps = [improved_gap(row) for row in rows]
    targets = [
        Target("mean gap of improved", 100 * float(np.mean(all_gaps)), MEAN, False, "%"),
        Target("worst gap of improved", 100 * float(np.max(all_gaps)), WORST, False, "%"),
    ]
    report = Report([], targets, chosen.seed, chosen.weights, rows)
    return report.finish(chosen.json, lambda console: tell(rows, console, chosen.worst))


if __name__ == "__main__":
    raise SystemExit(main())
