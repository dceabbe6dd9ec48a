"""What the verbs share: errors, JSON, tables for people, and a bar or a spinner while they wait."""

from __future__ import annotations

import functools
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec

import typer

from corewise.errors import CorewiseError, InvalidFile, InvalidInput
from corewise.kit.jsonable import to_json

if TYPE_CHECKING:
    from rich.console import RenderableType

    from corewise.analysis.performance import Performance
    from corewise.model.system import System

__all__ = [
    "box_of",
    "class_rows",
    "headline",
    "is_weighted",
    "parse_capacity",
    "print_classes",
    "print_facts",
    "print_json",
    "print_table",
    "progress_bar",
    "reporting",
    "require_figure",
    "require_target",
    "say_if_long",
    "waiting",
]

P = ParamSpec("P")

BAD_INPUT = 2
INTERRUPTED = 130  # what shells report for Ctrl-C
_PATIENCE = 0.5  # seconds, before a bar or a spinner is worth looking at


def reporting(command: Callable[P, None]) -> Callable[P, None]:
    """Turn an error of corewise into one line on stderr and exit code 2, and Ctrl-C into a quiet 130."""

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except CorewiseError as error:
            _fail(str(error))
        except MemoryError:
            _fail("not enough memory; ask for less: a smaller capacity, or fewer events")
        except BrokenPipeError:
            raise  # the reader has gone: typer ends quietly
        except OSError as error:
            _fail(f"{error.filename or 'output'}: {error.strerror or error}")
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None

    return run


def _fail(message: str) -> None:
    print(f"error: {message}", file=sys.stderr)
    raise typer.Exit(BAD_INPUT) from None


# --- while it works ---------------------------------------------------------------------------


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


# --- what comes in ----------------------------------------------------------------------------


def say_if_long(system: System, instead: str) -> None:
    """Say on stderr that an exact optimum may not be found in any time, and what does without it."""
    from corewise.analysis.reach import Reach

    obstacle = Reach.of(system).obstacle
    if obstacle:
        print(f"note: the exact optimum of {obstacle} may take very long; {instead}", file=sys.stderr)


def parse_capacity(text: str | None) -> int | list[int] | None:
    """Return ``"50"`` as 50 and ``"50,20"`` as [50, 20]; None stays None."""
    if text is None:
        return None
    numbers = []
    for part in text.split(","):
        try:
            numbers.append(int(part))
        except ValueError:
            raise InvalidInput(
                f"--capacity must be a whole number or one for each class, got {text!r}"
            ) from None
    return numbers if len(numbers) > 1 else numbers[0]


def require_target(path: Path | None, *inputs: str | Path, outputs: Iterable[str | Path] = ()) -> None:
    """Refuse a file that cannot or must not be written, before the time is spent on what goes into it.

    It must be none of the `inputs`, which are read, and none of the other `outputs`, which need not exist.
    """
    if path is None:
        return
    if path.exists() and any(Path(name).exists() and path.samefile(name) for name in inputs):
        raise InvalidFile(f"{path}: is read by this command, and would be overwritten")
    if any(os.path.realpath(path) == os.path.realpath(name) for name in outputs):
        raise InvalidFile(f"{path}: is written by this command as well")
    if path.is_dir():
        raise InvalidFile(f"{path}: cannot be written: is a directory")
    if not path.parent.is_dir():
        raise InvalidFile(f"{path}: cannot be written: there is no directory {path.parent}")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise InvalidFile(f"{path}: cannot be written: permission denied")


def require_figure(path: Path | None, names: Sequence[str], *inputs: str | Path) -> None:
    """Refuse a figure that could not be drawn or written, before the time is spent on what it shows."""
    if path is None:
        return
    from corewise.plots.style import require_few_classes, require_format, require_matplotlib

    require_target(path, *inputs)
    require_matplotlib()
    require_format(path)
    require_few_classes(names)


# --- what goes out ----------------------------------------------------------------------------


def print_json(result: Mapping[str, object]) -> None:
    """Print one JSON object; what is not a finite number becomes null."""
    print(to_json(result), flush=True)


def print_facts(title: str, facts: Iterable[tuple[str, str]]) -> None:
    """Print a title and, below it, one named value per line."""
    from rich.table import Table

    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in facts:
        grid.add_row(f"  {name}", value)
    _print(title, grid)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]], *, names: int = 1) -> None:
    """Print a table whose first columns are names and whose others are numbers."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    cells = [columns, *rows]
    widths = [
        max(len(line) for row in cells for line in (row[i].splitlines() or [""])) for i in range(len(columns))
    ]
    # Numbers stay in one piece, and long names are folded, where this leaves room for names.
    least = sum(widths[names:]) + sum(min(width, 8) for width in widths[:names])
    whole = least + 3 * len(columns) + 1 <= Console().width
    table = Table(box=box.SIMPLE_HEAD)
    for i, column in enumerate(columns):
        number = i >= names
        table.add_column(
            column, justify="right" if number else "left", overflow="fold", no_wrap=number and whole
        )
    for row in cells[1:]:
        table.add_row(*row)
    _print(table)


def headline(what: str, system: System) -> str:
    """Return a title that says what the numbers below it are about."""
    classes = "1 class" if len(system.classes) == 1 else f"{len(system.classes)} classes"
    regime = ""
    if system.changes:
        regime = f"; curves as they are before they change at time {system.changes[0].time:g}"
    return f"{what}: {system.cores:g} cores, {classes}, load {system.load:.4g}{regime}"


def is_weighted(system: System) -> bool:
    """Return whether cost differs from the number of jobs."""
    return any(job_class.weight != 1.0 for job_class in system.classes)


def box_of(capacity: Sequence[int], blocking: bool, edge_probability: float) -> str:
    """Return which counts of jobs were looked at, and how likely their edge is."""
    counts = " x ".join(f"0..{n}" for n in capacity)
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
    columns = ["class", "mean number of jobs", "mean response time"]
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


def _print(*renderables: object) -> None:
    from rich.console import Console

    # Names of classes are not markup, and colouring digits one by one helps nobody.
    console = Console(markup=False, highlight=False, emoji=False)
    with console.capture() as captured:
        console.print(*renderables, sep="\n")
    print("\n".join(line.rstrip() for line in captured.get().splitlines()))
