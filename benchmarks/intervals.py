"""Intervals: how often the intervals of simulated means hold the exact mean.

    python benchmarks/intervals.py [--seeds 400] [--events 1000000] [--only KxC@LOAD …] [--runs FILE]

Classes alike that share equally are one birth-death chain on the number of all jobs, however many there are:
the mean is known. EQUI itself is not simulated there, but Whittle gives classes alike the same. For two
classes that differ it is computed; for more the mean of all runs is taken, which is known far better than
that of one. A run is right, wrong or refused.

With ``--runs`` every run is added to a file as a line of JSON when it is done, and what is there already, for
the same system, seed and events, is not run again: rows that take hours can be interrupted, and added to.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from time import process_time

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

import corewise as cw
from benchmarks.measure import Findings, Target, progress, table_of
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


@dataclass
class Runs:
    """Runs by system, seed and events asked for: mean, both ends, events and seconds; none if refused."""

    file: Path | None
    done: dict[tuple[str, int, int], list[float] | None] = field(default_factory=dict)

    @classmethod
    def of(cls, file: Path | None) -> Runs:
        lines = file.read_text().splitlines() if file is not None and file.exists() else []
        rows = [json.loads(line) for line in lines]
        return cls(file, {(row["system"], row["seed"], row["asked"]): row["run"] for row in rows})

    def run(self, name: str, system: cw.System, policy: str, seed: int, events: int) -> list[float] | None:
        """Return a run, which is made if it is not there."""
        key = (name, seed, events)
        if key not in self.done:
            began = process_time()
            try:
                mean = simulated_mean(system, policy, events=events, rng=seed)
                run = [mean.mean_jobs, *mean.interval, float(mean.events), process_time() - began]
            except cw.errors.NotSettled:
                run = None
            self.done[key] = run
            if self.file is not None:
                with self.file.open("a") as lines:
                    lines.write(
                        json.dumps({"system": name, "seed": seed, "asked": events, "run": run}) + "\n"
                    )
        return self.done[key]


def covered(
    name: str, system: cw.System, policy: str, exact: float | None, chosen: argparse.Namespace
) -> dict[str, object]:
    """Count the runs that hold the mean."""
    runs = Runs.of(chosen.runs)
    found = [runs.run(name, system, policy, seed, chosen.events) for seed in range(chosen.seeds)]
    settled = np.array([run for run in found if run is not None]).reshape(-1, 5)
    means, lows, highs, events, seconds = settled.T
    known = bool(means.size)
    mean = float(means.mean()) if exact is None and known else exact
    held = int(np.count_nonzero((lows <= mean) & (mean <= highs))) if mean is not None else 0
    return {
        "system": name,
        "mean": mean,
        "settled": means.size,
        "coverage": held / means.size if known else None,
        "half_width": float(np.median(0.5 * (highs - lows))) / mean if mean is not None and known else None,
        "spread": float(np.std(means)) / mean if mean is not None and known else None,
        "events": float(events.mean()) if known else None,
        "seconds": float(seconds.mean()) if known else None,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seeds", type=int, default=400)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--only", nargs="+", default=None, metavar="KxC@LOAD")
    parser.add_argument("--kind", choices=("alike", "unlike"), default=None)
    parser.add_argument("--runs", type=Path, metavar="FILE")
    parser.add_argument("--json", type=Path, metavar="FILE")
    chosen = parser.parse_args()
    report = Report()
    for kind, cases, policy in ((alike, CASES, "whittle"), (unlike, UNLIKE, "whittle")):
        for case in cases:
            name = f"{case[0]}x{case[1]}@{case[2]:g} {kind.__name__} {policy}"
            if chosen.only is not None and not any(name.startswith(f"{one} ") for one in chosen.only):
                continue
            if chosen.kind not in (None, kind.__name__):
                continue
            system, exact = kind(*case)
            row = covered(name, system, policy, exact, chosen)
            progress(str(row))
            report.rows.append(row)
            coverage, spread, width = (row[what] for what in ("coverage", "spread", "half_width"))
            if isinstance(coverage, float) and isinstance(spread, float) and isinstance(width, float):
                for at_least, bound in zip((True, False), WITHIN, strict=True):
                    report.targets.append(Target(name, coverage, bound, at_least, "covered"))
                report.targets.append(Target(name, spread / width, 1.0, False, "spread over half width"))
    table = table_of(
        f"95 % intervals over {chosen.seeds} seeds, {chosen.events:,} events asked for",
        ("", "mean", "settled", "covered", "± median", "spread", "events", "CPU s a run"),
    )
    for row in report.rows:
        cells = [
            "–" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
            for value in row.values()
        ]
        table.add_row(*cells)
    return report.finish(chosen.json, table)


if __name__ == "__main__":
    sys.exit(main())
