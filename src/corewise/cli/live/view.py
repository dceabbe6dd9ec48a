"""What is seen while a demonstration runs: a picture of both pools, or plain lines without a terminal."""

from __future__ import annotations

import logging
import math
import sys
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING

from corewise.cli.waiting import on_a_terminal, waiting

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live

    from corewise.estimation.class_estimate import ClassEstimate
    from corewise.live.demo.demonstration import ArmComparison, Sample
    from corewise.live.state.report import ClassReport, Report

__all__ = ["View", "picture"]

_BETWEEN = 10.0  # seconds between two plain lines
_RULER = 40  # characters from p = 0 to p = 1


class View:
    """View of a demonstration, on stderr.

    Parameters
    ----------
    engine : str
        What runs the jobs.
    seconds : float
        How long jobs arrive.
    """

    def __init__(self, engine: str, seconds: float) -> None:
        self._engine, self._seconds = engine, seconds
        self._stack, self._quiet = ExitStack(), ExitStack()
        self._live: Live | None = None
        self._spoken = 0.0

    def __enter__(self) -> View:
        """Return the view; alerts of the pools, which are in their reports, do not write across it."""
        log, nowhere = logging.getLogger("corewise.live"), logging.NullHandler()
        log.addHandler(nowhere)
        self._quiet.callback(log.removeHandler, nowhere)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Wipe it away."""
        self._stack.__exit__(kind, error, trace)
        self._quiet.close()

    def say(self, text: str) -> None:
        """Say what is going on before jobs arrive."""
        self._stack.close()
        self._live = None
        self._spoken = 0.0
        self._stack.enter_context(waiting(f"{text} ..."))

    def show(self, sample: Sample) -> None:
        """Show how it stands."""
        if not on_a_terminal():
            self._speak(sample)
            return
        if self._live is None:
            self._live = self._begin()
        self._live.update(picture(sample, self._engine, self._seconds))

    def _begin(self) -> Live:
        from rich.console import Console
        from rich.live import Live

        self._stack.close()
        console = Console(stderr=True, highlight=False)
        return self._stack.enter_context(
            Live(console=console, refresh_per_second=8, transient=True, redirect_stdout=False)
        )

    def _speak(self, sample: Sample) -> None:
        self._stack.close()
        if sys.stderr is None or sample.elapsed - self._spoken < _BETWEEN:
            return
        self._spoken = sample.elapsed
        from corewise.live.demo.demonstration import ALL

        whole = sample.so_far[ALL]
        so_far = f"{_percent(whole)} less time so far" if whole.jobs else "no job is done under both yet"
        print(f"{sample.elapsed:.0f} of {self._seconds:g} s: {so_far}", file=sys.stderr, flush=True)


def picture(sample: Sample, engine: str, seconds: float) -> RenderableType:
    """Return both pools, what is learned, and the gain so far."""
    from rich.console import Group
    from rich.text import Text

    policy = "" if sample.corewise is None else f", corewise shares by {sample.corewise.policy}"
    head = Text(f"{engine}: {min(sample.elapsed, seconds):5.1f} of {seconds:g} s{policy}", style="bold")
    parts: list[RenderableType] = [head, _pools(sample)]
    if sample.corewise is not None:
        parts.append(_estimates(sample.corewise))
    return Group(*parts)


def _pools(sample: Sample) -> RenderableType:
    from rich import box
    from rich.table import Table

    from corewise.live.demo.demonstration import ALL

    table = Table(box=box.SIMPLE_HEAD)
    for i, name in enumerate(
        ("class", "EQUI: cores", "jobs", "mean", "corewise: cores", "jobs", "mean", "gain")
    ):
        table.add_column(name, justify="left" if i in {0, 1, 4} else "right", no_wrap=True)
    for name, row in sample.so_far.items():
        table.add_row(
            name,
            *_side(sample.equi, name, row.equi),
            *_side(sample.corewise, name, row.corewise),
            _percent(row) if row.jobs else "",
            style="bold" if name == ALL else "",
        )
    return table


def _side(report: Report | None, name: str, mean: float) -> tuple[str, str, str]:
    """Return the cores of a class as a bar, its jobs, and the mean response time of those that are done."""
    shown = f"{mean:.3f} s" if not math.isnan(mean) else ""
    if report is None:
        return "", "", shown
    row = next((row for row in report.classes if row.name == name), None)
    held, jobs = (report.held, report.jobs) if row is None else (row.held, row.jobs)
    return "█" * held + "·" * max(report.pool - held, 0) + f" {held}", str(jobs), shown


def _estimates(report: Report) -> RenderableType:
    from rich.table import Table

    grid = Table.grid(padding=(0, 2))
    for row in report.classes:
        grid.add_row(f" p of {row.name}", _ruler(row.learned), _known(row))
    return grid


def _known(row: ClassReport) -> str:
    learned = row.learned
    if learned is None or not learned.informative:
        return f"not known yet; {row.finished} jobs seen"
    low, high = learned.intervals["p"]
    return f"{learned.parameters['p']:.2f} (95 %: {low:.2f} to {high:.2f}); {row.finished} jobs seen"


def _ruler(learned: ClassEstimate | None) -> str:
    """Return the line from 0 to 1 with the interval and the estimate on it."""
    if learned is None:
        return "0 " + "─" * _RULER + " 1"
    low, high = (round(end * (_RULER - 1)) for end in learned.intervals["p"])
    at = round(learned.parameters["p"] * (_RULER - 1))
    marks = ["●" if i == at else "━" if low <= i <= high else "─" for i in range(_RULER)]
    return f"0 {''.join(marks)} 1"


def _percent(row: ArmComparison) -> str:
    return f"{row.gain:.1%}"
