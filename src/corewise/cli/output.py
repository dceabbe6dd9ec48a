"""Output of a verb: JSON for machines, a report for people."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from corewise.kit.jsonable import to_json
from corewise.kit.report import LINE, Report, Table, as_text, json_values

__all__ = ["emit", "print_facts", "print_json", "print_report", "print_table", "terminal_width"]


class HasReport(Protocol):
    """A result that says what it has to say in a report."""

    def report(self) -> Report:
        """Return title, facts, tables and notes."""


def emit(
    result: HasReport, as_json: bool, *facts: tuple[str, object], title: str | None = None, **values: object
) -> None:
    """Print a result: as JSON with further values, or its report with further facts and another title."""
    if as_json:
        print_json({**json_values(result), **values})
        return
    report = result.report().with_facts(*facts)
    print_report(report if title is None else replace(report, title=title))


def print_report(report: Report) -> None:
    """Print a report, folded to the width of the terminal."""
    print(as_text(report, terminal_width(), color=sys.stdout.isatty()))


def print_json(result: Mapping[str, object]) -> None:
    """Print one JSON object; what is not a finite number becomes null."""
    print(to_json(result), flush=True)


def print_facts(title: str, facts: Iterable[tuple[str, object]]) -> None:
    """Print a title and, below it, one named value per line."""
    print_report(Report(title, tuple(facts)))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, names: int = 1) -> None:
    """Print a table whose first columns are names and whose others are numbers."""
    print_report(Report("", tables=[Table(columns, list(rows), names)]))


def terminal_width() -> int:
    """Return how wide the terminal says that it is, or what is usual if that makes no sense."""
    from rich.console import Console

    width = Console().width
    return width if width > 0 else LINE
