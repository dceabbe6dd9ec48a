"""Intervals: how often the intervals of simulated means hold the exact mean.

    python benchmarks/intervals.py [--seeds 400] [--events 1000000] [--only KxC@LOAD …] [--json FILE]

Classes alike that share equally are one birth-death chain on the number of all jobs, however many there are:
the mean is known. EQUI itself is not simulated there, but Whittle gives classes alike the same. For two
classes that differ it is computed; for more the mean of all runs is taken, which is known far better than
that of one. A run is right, wrong or refused.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter

from rich.console import Console

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

import corewise as cw
from benchmarks.measure import Findings, Target, progress, table_of, targets_table
from corewise.studies.means import simulated_mean

CASES = (
    *((1, 64, load) for load in (0.5, 0.8, 0.95, 0.99, 0.995)),
    (1, 256, 0.9),
    *((4, 64, load) for load in (0.5, 0.95, 0.99, 0.995)),
    *((4, 1024, load) for load in (0.8, 0.95)),
    *((12, 16, load) for load in (0.8, 0.95)),
    *((12, 64, load) for load in (0.99, 0.995)),
    (12, 256, 0.9),
)
UNLIKE = ((2, 16, 0.8), (2, 16, 0.95), (4, 16, 0.9), (4, 64, 0.99), (12, 64, 0.9), (12, 256, 0.9))
WITHIN = (0.93, 0.97)


@dataclass
class Report(Findings):
    """Everything that was measured."""

    rows: list[dict[str, object]] = field(default_factory=list)


def alike(classes: int, cores: int, load: float) -> tuple[cw.System, float]:
    """Classes alike but for their arrival rates, and their mean number of jobs when they share equally."""
    curve, rates = cw.Amdahl(0.9), np.random.default_rng(classes).uniform(0.5, 1.5, classes)
    shares = load * cores * rates / rates.sum()
    system = cw.System(cores, [cw.JobClass(f"c{i}", float(r), 1.0, curve) for i, r in enumerate(shares)])
    jobs = np.arange(1.0, 40.0 * cores + 60.0 / (1.0 - load))
    steps = np.log(load * cores / (jobs * np.asarray(curve.rate(cores / jobs))))
    weights = np.append(0.0, np.cumsum(steps))
    chances = np.exp(weights - weights.max())
    return system, float(jobs @ chances[1:] / chances.sum())


def unlike(classes: int, cores: int, load: float) -> tuple[cw.System, float | None]:
    """Classes of unlike sizes and curves; two of them exactly."""
    rng = np.random.default_rng(classes + cores)
    rates, sizes, parts = rng.uniform([[0.5], [0.5], [0.05]], [[1.5], [2.0], [0.95]], (3, classes)).tolist()
    jobs = [cw.JobClass(f"c{i}", rates[i], sizes[i], cw.Amdahl(parts[i])) for i in range(classes)]
    system = cw.System(cores, jobs).at_load(load)
    return system, cw.evaluate(system, "whittle").mean_jobs if classes <= 2 else None


def covered(
    name: str, system: cw.System, policy: str, exact: float | None, chosen: argparse.Namespace
) -> dict[str, object]:
    """Count the runs that hold the mean."""
    means, intervals, began, simulated = [], [], perf_counter(), 0
    for seed in range(chosen.seeds):
        try:
            run = simulated_mean(system, policy, events=chosen.events, rng=seed)
        except cw.errors.NotSettled:
            continue
        means.append(run.mean_jobs)
        intervals.append(run.interval)
        simulated += run.events
    settled = len(means)
    mean = float(np.mean(means)) if exact is None and means else exact
    held = sum(low <= mean <= high for low, high in intervals) if mean is not None else 0
    widths = [0.5 * (high - low) for low, high in intervals]
    return {
        "system": name,
        "mean": mean,
        "settled": settled,
        "coverage": held / settled if settled else None,
        "half_width": float(np.median(widths)) / mean if mean is not None and settled else None,
        "spread": float(np.std(means)) / mean if mean is not None and settled else None,
        "events": simulated / settled if settled else None,
        "seconds": (perf_counter() - began) / chosen.seeds,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seeds", type=int, default=400)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--only", nargs="+", default=None, metavar="KxC@LOAD")
    parser.add_argument("--json", type=Path, metavar="FILE")
    chosen = parser.parse_args()
    report = Report()
    for kind, cases, policy in ((alike, CASES, "whittle"), (unlike, UNLIKE, "whittle")):
        for case in cases:
            name = f"{case[0]}x{case[1]}@{case[2]:g} {kind.__name__} {policy}"
            if chosen.only is not None and not any(name.startswith(f"{one} ") for one in chosen.only):
                continue
            system, exact = kind(*case)
            row = covered(name, system, policy, exact, chosen)
            progress(str(row))
            report.rows.append(row)
            coverage = row["coverage"]
            if isinstance(coverage, float):
                for at_least, bound in zip((True, False), WITHIN, strict=True):
                    report.targets.append(Target(name, coverage, bound, at_least, "covered"))
    table = table_of(
        f"95 % intervals over {chosen.seeds} seeds, {chosen.events:,} events asked for",
        ("", "mean", "settled", "covered", "± median", "spread", "events", "s a run"),
    )
    for row in report.rows:
        cells = [
            "–" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
            for value in row.values()
        ]
        table.add_row(*cells)
    console = Console()
    console.print(table, targets_table(report.targets))
    if chosen.json:
        report.write(chosen.json)
    return int(report.missed)


if __name__ == "__main__":
    sys.exit(main())
