"""What a loop loses that knows no rates: exact gaps to the optimum, beside those of one that knows them.

    python benchmarks/unknown.py [--runs N] [--only SYSTEM …] [--json FILE]

Algorithm 1b on Examples 1-4 of the paper, at their own loads and at 0.7. Windows have 50 departures up to
300, then 100 up to 1000, then 500 up to 10 000. After every window the adopted policy is evaluated exactly
under the truth. The learner has the cores, the classes and the families of their curves; arrival rates, size
rates and parameters it finds.

Targets: a mean gap of at most 0.1 % after 10 000 departures; after the first 300 the mean gap never above
EQUI's; and no run above it in the end. How often single runs are above it on the way is shown as well: a few
hundred departures may mislead anybody. Exits with 1 if a target was missed.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

import corewise as cw
from benchmarks.measure import Findings, Target, progress, targets_table
from corewise.kit.arrays import Floats
from corewise.learning.algorithms import Algorithm
from corewise.learning.memories import Everything

LEVELS = (100, 300, 1000, 3000, 10_000)
SYSTEMS = tuple((f"paper:{k}", load) for k in range(1, 5) for load in (None, 0.7))
FIRST = 300
STEPS = 31


@dataclass(frozen=True)
class Steps:
    """Windows of 50, then 100, then 500 departures."""

    def window(self, k: int) -> int:
        """Return the number of departures in window k."""
        return 50 if k <= 6 else 100 if k <= 13 else 500


@dataclass
class Row:
    """The gaps of one system and one state of knowledge, by run and epoch."""

    system: str
    unknown: bool
    equi: float
    departures: list[int]
    gaps: list[list[float]]

    def at(self, departures: int) -> Floats:
        """Return the gaps of all runs after so many departures, in %."""
        return 100.0 * np.array(self.gaps)[:, self.departures.index(departures)]

    def later(self) -> tuple[list[int], Floats]:
        """Return the ends of the windows after the first 300 departures, and the gaps there over EQUI's."""
        kept = [k for k, n in enumerate(self.departures) if n > FIRST]
        return [self.departures[k] for k in kept], np.array(self.gaps)[:, kept] / self.equi

    def __str__(self) -> str:
        """Return the row in a line."""
        means = ", ".join(f"{self.at(n).mean():.3f}" for n in LEVELS)
        return f"{self.system}, rates {'unknown' if self.unknown else 'known'}: {means} %"


@dataclass
class Report(Findings):
    """Everything that was measured."""

    rows: list[Row] = field(default_factory=list)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=12)
    parser.add_argument("--only", nargs="*", metavar="SYSTEM", help="such as paper:1@0.7")
    parser.add_argument("--json", type=Path, metavar="FILE")
    chosen = parser.parse_args()
    report = Report()
    for name, load in SYSTEMS:
        label = name if load is None else f"{name}@{load:g}"
        if not chosen.only or label in chosen.only:
            for unknown in (True, False):
                report.rows.append(measured(label, name, load, unknown, chosen.runs))
                progress(str(report.rows[-1]))
    rows = [row for row in report.rows if row.unknown]
    later = [row.later()[1] for row in rows]
    report.targets += [
        Target(
            "mean gap after 10 000", max(float(row.at(LEVELS[-1]).mean()) for row in rows), 0.1, False, "%"
        ),
        Target("mean gap after 300 over EQUI's", max(float(x.mean(0).max()) for x in later), 1.0, False, ""),
        Target("any gap after 10 000 over EQUI's", max(float(x[:, -1].max()) for x in later), 1.0, False, ""),
    ]
    show(report)
    if chosen.json:
        report.write(chosen.json)
    return int(report.missed)


def measured(label: str, name: str, load: float | None, unknown: bool, runs: int) -> Row:
    """Return the gaps of some runs."""
    truth = cw.load_system(name)
    truth = truth if load is None else truth.at_load(load)
    known = truth.without_rates() if unknown else truth
    best, equi = cw.solve(truth).mean_cost, cw.evaluate(truth, cw.Equi()).mean_cost
    departures, gaps = [], []
    for seed in range(runs):
        algorithm = Algorithm("1b", known, Steps(), Everything(), STEPS)
        epochs = list(cw.learn(cw.SimulatedPlant(truth, rng=seed), algorithm))
        departures = [epoch.departures for epoch in epochs]
        gaps.append([float(epoch.gap or 0.0) for epoch in epochs])
    return Row(label, unknown, equi / best - 1.0, departures, gaps)


def show(report: Report) -> None:
    """Print the table and the targets."""
    table = Table(title="Gap to the optimum in %, mean (largest) of all runs")
    for column in ("system", "rates", *(f"{n:,}" for n in LEVELS), "EQUI", "above EQUI", "last"):
        table.add_column(column)
    for row in report.rows:
        cells = [f"{row.at(n).mean():.3f} ({row.at(n).max():.2f})" for n in LEVELS]
        ends, gaps = row.later()
        above = [n for n, column in zip(ends, gaps.T, strict=True) if column.max() > 1.0]
        verdict = (f"{100 * row.equi:.2f}", f"{(gaps > 1.0).mean():.1%}", str(max(above, default="-")))
        table.add_row(row.system, "unknown" if row.unknown else "known", *cells, *verdict)
    console = Console()
    console.print(table)
    console.print(targets_table(report.targets))


if __name__ == "__main__":
    sys.exit(main())
