"""What ``track.py`` has measured, and how it is told."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from rich.console import Console
from rich.table import Table

from benchmarks.measure import Findings


@dataclass(frozen=True)
class Followed:
    """How an algorithm did on a schedule: means over runs, and the ratios of errors to the adaptive's."""

    schedule: str
    algorithm: str
    runs: int
    errors: list[float]
    ratios: list[float]
    mean_jobs: float
    stderr: float


@dataclass(frozen=True)
class Found:
    """The alarms on a schedule: the true changes that were found, after how many departures, and the rest."""

    schedule: str
    change: str
    found: int
    median_delay: float | None


@dataclass(frozen=True)
class Still:
    """Both memories on the same data: the ratio of mean squared errors, and its standard error."""

    example: str
    name: str
    runs: int
    ratio: float
    stderr: float
    alarms: int


@dataclass(frozen=True)
class Walked:
    """A random walk: errors of the adaptive loop and of the best fixed window, and its length in checks."""

    step: float
    name: str
    error: float
    best: float
    length: int
    alarms: int


@dataclass
class Report(Findings):
    """Everything that was measured."""

    followed: list[Followed] = field(default_factory=list)
    found: list[Found] = field(default_factory=list)
    other_alarms: dict[str, float] = field(default_factory=dict)
    still: list[Still] = field(default_factory=list)
    walked: list[Walked] = field(default_factory=list)
    cost: dict[str, float] = field(default_factory=dict)


def show(report: Report, console: Console) -> None:
    if report.followed:
        rows = [
            (
                row.schedule,
                row.algorithm,
                str(row.runs or "exact"),
                " | ".join(f"{value:.3g}" for value in row.errors),
                " | ".join(f"{value:.2f}" for value in row.ratios),
                f"{row.mean_jobs:.7f}",
                f"{row.stderr:.1e}",
            )
            for row in report.followed
        ]
        errors = ("error, by class", "over adaptive's")
        headings: tuple[str, ...] = ("schedule", "algorithm", "runs", *errors, "mean jobs", "± se")
        console.print(listing("Squared error of p̂ over time, and mean jobs over the run", headings, rows))
        delays = [
            (seen.schedule, seen.change, str(seen.found), f"{seen.median_delay or math.nan:.0f}")
            for seen in report.found
        ]
        headings = ("schedule", "change", "found in runs", "median delay, departures")
        console.print(listing("Changes found by the adaptive algorithm", headings, delays))
        for schedule, count in report.other_alarms.items():
            console.print(f"{schedule}: {count:.3g} other alarms a run")
    if report.still:
        pairs = [
            (row.example, row.name, str(row.runs), f"{row.ratio:.4f}", f"{row.stderr:.4f}", str(row.alarms))
            for row in report.still
        ]
        headings = ("example", "class", "runs", "ratio", "± se", "alarms")
        console.print(listing("Nothing changes: squared error, adaptive over 1b", headings, pairs))
    if report.walked:
        walks = [
            (
                f"{row.step:g}",
                row.name,
                f"{row.error:.3g}",
                f"{row.best:.3g}",
                str(row.length),
                f"{row.error / row.best:.3f}",
                str(row.alarms),
            )
            for row in report.walked
        ]
        headings = ("step", "class", "error", "best window's", "checks in it", "ratio", "alarms")
        console.print(listing("Random walks", headings, walks))
    if report.cost:
        console.print(", ".join(f"{name} {value:.6g}" for name, value in report.cost.items()))


def listing(title: str, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """A table whose first two columns are words."""
    table = Table(title=title)
    for j, heading in enumerate(headings):
        table.add_column(heading, justify="left" if j < 2 else "right")
    for row in rows:
        table.add_row(*row)
    return table
