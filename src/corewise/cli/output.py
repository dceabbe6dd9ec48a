"""What goes out: JSON for machines, facts and tables for people."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from corewise.errors import printable
from corewise.kit.jsonable import to_json
from corewise.kit.spoken import labelled, of_time

if TYPE_CHECKING:
    from corewise.analysis.performance import Performance
    from corewise.model.system import System

__all__ = [
    "box_of",
    "class_rows",
    "headline",
    "is_weighted",
    "print_classes",
    "print_facts",
    "print_json",
    "print_table",
    "terminal_width",
    "time_shown",
]


_WORD = 32  # characters of a word that is not folded
_NAME = 7  # characters of a name in a narrow table
_USUAL = 80  # columns
_SIDES = 8  # of a box that are named


def print_json(result: Mapping[str, object]) -> None:
    """Print one JSON object; what is not a finite number becomes null."""
    print(to_json(result), flush=True)


def print_facts(title: str, facts: Iterable[tuple[str, str]]) -> None:
    """Print a title and, below it, one named value per line."""
    from rich.table import Table

    rows = [(f"  {printable(name)}", printable(value)) for name, value in facts]
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for row in rows:
        grid.add_row(*row)
    words = [len(word) for _, value in rows for word in value.split()]
    least = max((len(name) for name, _ in rows), default=0) + 2 + min(max(words, default=0), _WORD)
    _print(printable(title), grid, width=max(terminal_width(), least))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]], *, names: int = 1) -> None:
    """Print a table whose first columns are names and whose others are numbers."""
    from rich import box
    from rich.table import Table

    cells = [columns, *([printable(cell) for cell in row] for row in rows)]
    least = _least_width(cells, names)
    if least > terminal_width():
        cells = [[*row[:names], *map(_in_pieces, row[names:])] for row in cells]
        least = _least_width(cells, names)
    table = Table(box=box.SIMPLE_HEAD)
    for i, column in enumerate(cells[0]):
        number = i >= names
        table.add_column(column, justify="right" if number else "left", overflow="fold", no_wrap=number)
    for row in cells[1:]:
        table.add_row(*row)
    _print(table, width=max(terminal_width(), least))


def _least_width(cells: Sequence[Sequence[str]], names: int) -> int:
    """Return how wide a table must be for numbers to stay in one piece; long names are folded."""
    widths = [
        max(len(line) for cell in column for line in cell.split("\n")) for column in zip(*cells, strict=True)
    ]
    return sum(widths[names:]) + sum(min(width, _NAME) for width in widths[:names]) + 3 * len(widths) + 1


def _in_pieces(cell: str) -> str:
    """Return a cell with its words, and the ends of an interval, one below the other."""
    return cell.replace(" ", "\n").replace("–", "–\n")


def headline(what: str, system: System) -> str:
    """Return a title that says what the numbers below it are about."""
    classes = "1 class" if len(system.classes) == 1 else f"{len(system.classes)} classes"
    regime = ""
    if system.changes:
        first = f"{system.changes[0].time:g}{of_time(system.unit)}"
        regime = f"; curves as they are before they change at time {first}"
    load = "rates not known" if math.isnan(system.load) else f"load {system.load:.4g}"
    return f"{what}: {system.cores:g} cores, {classes}, {load}{regime}"


def time_shown(value: str, unit: str | None) -> str:
    """Return a time that stands alone with its unit, or with what its unit is."""
    return f"{value} {unit or '(in the unit of time of the rates)'}"


def is_weighted(system: System) -> bool:
    """Return whether cost differs from the number of jobs."""
    return any(job_class.weight != 1.0 for job_class in system.classes)


def box_of(capacity: Sequence[int], blocking: bool, edge_probability: float) -> str:
    """Return which counts of jobs were looked at, and how likely their edge is."""
    counts = " x ".join(f"0..{n}" for n in capacity[:_SIDES]) + (" x ..." if len(capacity) > _SIDES else "")
    if blocking:
        lost = (
            "; what is lost costs nothing, so a larger capacity gives another answer"
            if edge_probability > 1e-9
            else ""
        )
        return (
            f"{counts}; an arrival beyond them is lost (probability at the edge {edge_probability:.1e}){lost}"
        )
    return (
        f"{counts}, chosen so that the rest does not matter (probability at the edge {edge_probability:.1e})"
    )


def class_rows(performance: Performance) -> list[dict[str, object]]:
    """Return what JSON says of every class."""
    return [
        {
            "name": c.name,
            "mean_jobs": c.mean_jobs,
            "mean_response_time": c.mean_response_time,
            "mean_cost": c.mean_cost,
            "beyond": c.edge_probability,
        }
        for c in performance.classes.values()
    ]


def print_classes(performance: Performance, weighted: bool) -> None:
    """Print mean number of jobs and response time of every class."""
    columns = ["class", "mean number of jobs", labelled("mean response time", performance.unit)]
    rows = [
        [c.name, f"{c.mean_jobs:.8g}", f"{c.mean_response_time:.8g}"] for c in performance.classes.values()
    ]
    rows.append(["all", f"{performance.mean_jobs:.8g}", f"{performance.mean_response_time:.8g}"])
    if weighted:
        columns.append("mean cost")
        costs = [*(c.mean_cost for c in performance.classes.values()), performance.mean_cost]
        for row, cost in zip(rows, costs, strict=True):
            row.append(f"{cost:.8g}")
    print_table(columns, rows)


def terminal_width() -> int:
    """Return how wide the terminal says that it is, or what is usual if that makes no sense."""
    from rich.console import Console

    width = Console().width
    return width if width > 0 else _USUAL


def _print(*renderables: object, width: int) -> None:
    from rich.console import Console

    # Names of classes are not markup, and colouring digits one by one helps nobody.
    console = Console(markup=False, highlight=False, emoji=False, width=width)
    with console.capture() as captured:
        console.print(*renderables, sep="\n")
    print("\n".join(line.rstrip() for line in captured.get().splitlines()))
