"""What the benchmarks share: clocks, targets, peak memory, and how results are told."""

from __future__ import annotations

import argparse
import gc
import json
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import perf_counter
from typing import TypeVar

from rich.console import Console, RenderableType
from rich.table import Table

ROOT = Path(__file__).resolve().parents[1]

T = TypeVar("T")


@dataclass(frozen=True)
class Target:
    """Something that must hold, and the number that decides it; no number: it could not be measured."""

    name: str
    value: float | None
    bound: float
    at_least: bool
    unit: str

    @property
    def met(self) -> bool | None:
        if self.value is None:
            return None
        return self.value >= self.bound if self.at_least else self.value <= self.bound


@dataclass
class Findings:
    """What every benchmark ends with: targets, and the names of peers that could not take part."""

    missing: list[str] = field(default_factory=list)
    targets: list[Target] = field(default_factory=list)

    @property
    def missed(self) -> bool:
        return any(target.met is False for target in self.targets)

    def write(self, file: Path) -> None:
        """Write everything as JSON."""
        content = {**asdict(self), "targets": [{**asdict(t), "met": t.met} for t in self.targets]}
        file.write_text(json.dumps(content, indent=2, allow_nan=False) + "\n")

    def finish(
        self, file: Path | None, *shown: RenderableType | Callable[[Console], None], width: int = 0
    ) -> int:
        """Print what was found and the targets, and write it as JSON if there is a file for it.

        Returns the exit code: 1 if a target was missed.

        Parameters
        ----------
        file : path or None
            Where to write.
        *shown
            Tables and lines, or what prints some to a console.
        width : int, optional
            Columns that it needs, however narrow the terminal is.
        """
        console = Console(width=max(Console().width, width))
        for part in (*shown, *([targets_table(self.targets)] if self.targets else [])):
            if callable(part):
                part(console)
            else:
                console.print(part)
        if file is not None:
            self.write(file)
        return int(self.missed)


def options(description: str, rounds: int) -> argparse.Namespace:
    """Return ``rounds`` and ``json`` of the command line."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument(
        "--rounds", type=int, default=rounds, help=f"rounds of every comparison (default {rounds})"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers to FILE as well")
    chosen = parser.parse_args()
    if chosen.rounds < 1:
        parser.error("--rounds must be at least 1")
    return chosen


def timed(work: Callable[[], T], times: int = 1) -> list[tuple[float, T]]:
    """Seconds and result of each of some calls in a row, without the garbage collector, as `timeit` does."""
    measured = []
    gc.collect()
    gc.disable()
    try:
        for _ in range(times):
            began = perf_counter()
            result = work()
            measured.append((perf_counter() - began, result))
    finally:
        gc.enable()
    return measured


def peak_megabytes(code: str, arguments: Sequence[str] = ()) -> float:
    """Peak resident memory of a fresh process that runs `code`, which may import ``benchmarks``.

    A child's peak starts from the size of its parent: measure memory before anything else.
    """
    program = (
        "import resource, sys; sys.path.insert(0, sys.argv.pop(1))\n"
        f"{code}\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    command = [sys.executable, "-c", program, str(ROOT), *arguments]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    unit = 1 if sys.platform == "darwin" else 1024  # bytes there, kibibytes elsewhere
    return int(done.stdout) * unit / 1e6


def table_of(title: str, headings: Sequence[str]) -> Table:
    """An empty table; all columns with a heading are numbers."""
    table = Table(title=title)
    for heading in headings:
        table.add_column(heading, justify="right" if heading else "left", no_wrap=True)
    return table


def targets_table(targets: Iterable[Target]) -> Table:
    """Targets and verdicts, for people."""
    table = Table(title="Targets")
    for heading in ("target", "bound", "measured", ""):
        table.add_column(heading, justify="left" if heading == "target" else "right")
    verdicts = {True: "met", False: "[bold red]MISSED[/]", None: "not measured"}
    for target in targets:
        sign = "≥" if target.at_least else "≤"
        value = "–" if target.value is None else f"{target.value:.2f}"
        table.add_row(target.name, f"{sign} {target.bound:g} {target.unit}", value, verdicts[target.met])
    return table


def progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
