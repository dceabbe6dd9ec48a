"""What is shown on a terminal while a verb works: a spinner, a bar, or a note that it may take long."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import RenderableType

    from corewise.model.system import System

__all__ = ["progress_bar", "say_if_long", "waiting"]

_PATIENCE = 0.5  # seconds, before a bar or a spinner is worth looking at


def say_if_long(system: System, instead: str) -> None:
    """Say on stderr that an exact optimum may not be found in any time, and what does without it."""
    from corewise.analysis.reach import Reach

    obstacle = Reach.of(system).obstacle
    if obstacle:
        print(f"note: the exact optimum of {obstacle} may take very long; {instead}", file=sys.stderr)


@contextmanager
def waiting(message: str) -> Iterator[None]:
    """Show a spinner on stderr while the body runs, on a terminal only."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.spinner import Spinner
    from rich.text import Text

    with _shown_late(Spinner("dots", Text(message))):
        yield


@contextmanager
def progress_bar(message: str, total: float, unit: str) -> Iterator[Callable[[float], None] | None]:
    """Show a bar on stderr while the body runs, on a terminal only; otherwise give None.

    Parameters
    ----------
    message : str
        What is being done.
    total : float
        How much of it there is.
    unit : str
        What `total` counts; the bar says how many of them a second are done.

    Yields
    ------
    callable or None
        To be called with the share that is done, from 0 to 1.
    """
    if not sys.stderr.isatty():
        yield None
        return
    from rich import progress
    from rich.text import Text

    class Rate(progress.ProgressColumn):
        """How fast it goes."""

        def render(self, task: progress.Task) -> Text:
            speed = task.speed or task.finished_speed
            return Text(f"{speed:,.0f} {unit}/s" if speed else "")

    bar = progress.Progress(
        progress.TextColumn("{task.description}", markup=False),
        progress.BarColumn(),
        progress.TaskProgressColumn(),
        Rate(),
        progress.TimeRemainingColumn(),
    )
    task = bar.add_task(message, total=total)

    def report(share: float) -> None:
        bar.update(task, completed=share * total)

    with _shown_late(bar):
        yield report


@contextmanager
def _shown_late(what: RenderableType) -> Iterator[None]:
    """Keep something on stderr while the body runs, from when it has run for a while; then wipe it away."""
    from rich.console import Console
    from rich.live import Live

    began = time.monotonic()

    def current() -> RenderableType:
        return what if time.monotonic() - began > _PATIENCE else ""

    with Live(
        console=Console(stderr=True),
        get_renderable=current,
        refresh_per_second=10,
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    ):
        yield
