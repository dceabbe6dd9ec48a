"""Output of a verb: JSON for machines, a report for people."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol

from corewise.kit.jsonable import to_json
from corewise.kit.report import LINE, Report, as_text, json_values

__all__ = ["emit", "print_json", "print_report", "terminal_width"]


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
    # A process that was started without standard output has none; print then writes nothing.
    color = sys.stdout is not None and sys.stdout.isatty()
    print(as_text(report, terminal_width(), color=color))


def print_json(result: Mapping[str, object]) -> None:
    """Print one JSON object; what is not a finite number becomes null."""
    print(to_json(result), flush=True)


def terminal_width() -> int:
    """Return how wide the terminal says that it is, or what is usual if that makes no sense."""
    from rich.console import Console

    width = Console().width
    return width if width > 0 else LINE
