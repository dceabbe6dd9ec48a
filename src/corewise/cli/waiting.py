"""What is shown while a verb works: a spinner, a bar, or a note that it may take long.

Where stderr is no terminal, what takes long says so in plain lines now and then.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import chain, repeat
from typing import TYPE_CHECKING

from corewise.errors import printable

if TYPE_CHECKING:
    from rich.console import RenderableType

    from corewise.model.system import System

__all__ = ["on_a_terminal", "progress_bar", "say_how_long", "say_if_long", "waiting"]

_WORTH_SAYING = 10.0  # seconds
_QUICK = 1.0  # seconds, below which an optimum hardly counts beside its window
_PATIENCE = 0.5  # seconds, before a bar or a spinner is worth looking at
_COMPILING = 2.0  # seconds, before it is said that the reason is compilation
_PAUSES = (6.0, 22.0, 30.0)  # seconds, before each of the first plain lines; the last one from then on


def say_if_long(system: System, instead: str, windows: int | None = 1) -> None:
    """Say on stderr how long an exact optimum takes if that is over ten seconds, and what does without it.

    With more than one window there is one in each; with None, in as many as there will be.
    """
    from corewise.analysis.tractability import Tractability

    reach = Tractability.of(system)
    if reach.obstacle and reach.classes > 3:
        print(f"note: the exact optimum of {reach.obstacle} may take very long; {instead}", file=sys.stderr)
    else:
        what, each = f"the exact optimum of some {reach.ordered:,.0f} states", reach.seconds_to_solve
        if windows is None:
            say_how_long(f"{what}, in every window,", each, instead)
        elif windows == 1 or each <= _QUICK:
            say_how_long(what, each, instead)
        else:  # all but the first begin where the last one ended, which saves about half
            say_how_long(f"{what}, in each of {windows} windows,", 0.5 * each * (windows + 1), instead)


def say_how_long(what: str, seconds: float, instead: str) -> None:
    """Say on stderr how long something is going to take, if that is over ten seconds."""
    if seconds > _WORTH_SAYING:
        print(f"note: {what} takes about {_span(seconds)}; {instead}", file=sys.stderr)


def _span(seconds: float) -> str:
    """Return a span of time in words, to one or two figures: it is a prediction."""
    for unit, length in (("days", 86400.0), ("hours", 3600.0), ("minutes", 60.0)):
        if seconds >= 2.0 * length:
            return f"{seconds / length:,.0f} {unit}"
    return f"{10.0 * round(seconds / 10.0):.0f} seconds"


@contextmanager
def waiting(message: str) -> Iterator[None]:
    """Show a spinner on stderr while the body runs; without a terminal, a line now and then."""
    if not on_a_terminal():
        with _spoken(message.removesuffix(" ..."), lambda: 0.0):
            yield
        return
    from rich.spinner import Spinner
    from rich.text import Text

    with _shown_late(Spinner("dots", Text(message))):
        yield


@contextmanager
def progress_bar(message: str, total: float, unit: str) -> Iterator[Callable[[float], None]]:
    """Show a bar on stderr while the body runs; without a terminal, a line now and then.

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
    callable
        To be called with the share that is done, from 0 to 1.
    """
    if not on_a_terminal():
        done = 0.0

        def note(share: float) -> None:
            nonlocal done
            done = share

        with _spoken(message, lambda: done):
            yield note
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


def on_a_terminal() -> bool:
    """Return whether stderr is a terminal."""
    return sys.stderr is not None and sys.stderr.isatty()


@contextmanager
def _spoken(message: str, share: Callable[[], float]) -> Iterator[None]:
    """Say on stderr how much is done and how long the rest may take, once the body has run for a while."""
    began, over = time.monotonic(), threading.Event()

    def say(what: str) -> None:
        with suppress(OSError, ValueError):  # stderr is full or closed: the work goes on
            print(f"{printable(message)}: {what}", file=sys.stderr, flush=True)

    def speak() -> None:
        if over.wait(_COMPILING) or sys.stderr is None:
            return
        if _compiles():
            say("compiling, once")
        for pause in chain(_PAUSES, repeat(_PAUSES[-1])):
            if over.wait(pause) or sys.stderr is None:
                return
            seconds, done = time.monotonic() - began, share()
            left = (
                f", {done:.0%} done, about {_in_words(seconds / done - seconds)} left" if done > 0.0 else ""
            )
            say(f"{_in_words(seconds)} so far{left}")

    speaker = threading.Thread(target=speak, daemon=True)
    speaker.start()
    try:
        yield
    finally:
        over.set()
        speaker.join()


def _compiles() -> bool:
    """Return whether another thread is compiling: only it can hold the lock that there is for that."""
    module = sys.modules.get("numba.core.compiler_lock")
    if module is None:
        return False
    lock = module.global_compiler_lock._lock
    free = lock.acquire(blocking=False)
    if free:
        lock.release()
    return not free


def _in_words(seconds: float) -> str:
    """Return a length of time in the unit that suits it."""
    if seconds < 100.0:
        return f"{seconds:.0f} s"
    return f"{seconds / 60.0:.0f} min" if seconds < 6000.0 else f"{seconds / 3600.0:.1f} h"


@contextmanager
def _shown_late(what: RenderableType) -> Iterator[None]:
    """Keep something on stderr while the body runs, from when it has run for a while; then wipe it away."""
    from rich.console import Console, Group
    from rich.live import Live

    began = time.monotonic()

    def current() -> RenderableType:
        seconds = time.monotonic() - began
        if seconds > _COMPILING and _compiles():
            return Group(what, "compiling, once")
        return what if seconds > _PATIENCE else ""

    with Live(
        console=Console(stderr=True),
        get_renderable=current,
        refresh_per_second=10,
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    ):
        yield
