"""``corewise sweep``: many runs, on one machine or many."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated

import typer

from corewise.cli.options import AsJson, whole_number
from corewise.cli.output import emit
from corewise.cli.reporting import INTERRUPTED, reporting
from corewise.cli.targets import require_target
from corewise.cli.waiting import progress_bar, waiting

if TYPE_CHECKING:
    from corewise.studies.sweeps.sweep import Sweep
    from corewise.studies.sweeps.trial import SweepRow

__all__ = ["sweep"]

FAILED = "failed"
SOME_FAILED = 1


@reporting
def sweep(
    file: Annotated[Path, typer.Argument(metavar="SWEEP", help="What to run: see docs/sweeps.md.")],
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Where to keep the rows: a .csv file, or a .parquet file with a .csv file beside it. "
            "Default: SWEEP with .csv instead of .toml.",
        ),
    ] = None,
    workers: Annotated[
        str | None,
        typer.Option(metavar="N", help="Processes that do the work. Default: one for each core."),
    ] = None,
    dask: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Have the workers of a Dask scheduler do it, such as tcp://10.0.0.1:8786; local starts a "
            "cluster on this machine.",
        ),
    ] = None,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Do runs again that failed the last time.")
    ] = False,
    exact: Annotated[
        bool,
        typer.Option(
            "--exact",
            help="Insist on exact means, however long they take. Default: those that would take more than a "
            "minute are simulated, and have an interval.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Carry out many runs: systems × policies × algorithms × seeds.

    Every run is a row of FILE, written when it arrives. Ctrl-C keeps the rows that are there, and the same
    command goes on with the others. A run that fails is a row as well, and the exit code is then 1.
    """
    from corewise.studies.sweeps.file import load_sweep
    from corewise.studies.sweeps.sweep import sweep as sweep_runs

    count = None if workers is None else whole_number(workers, "--workers", least=1)
    began = perf_counter()
    with waiting(f"Reading {file} ..."):
        plan = load_sweep(file, exact=exact)
        target = file.with_suffix(".csv") if out is None else out
        require_target(target, file)
    interrupted = False
    with sweep_runs(plan, out=target, workers=count, dask=dask, retry_failed=retry_failed) as runs:
        try:
            with _bar(runs) as show:
                for row in runs:
                    show(row)
        except KeyboardInterrupt:
            interrupted = True
    seconds = perf_counter() - began
    emit(runs, as_json, title="", out=str(target), seconds=seconds, interrupted=interrupted)
    if not as_json:
        print(_summary(runs, seconds, target))
    if interrupted:
        _print_how_to_go_on(file, out, dask, workers)
        raise typer.Exit(INTERRUPTED)
    if runs.failed:
        raise typer.Exit(SOME_FAILED)


@contextmanager
def _bar(runs: Sweep) -> Iterator[Callable[[SweepRow], None]]:
    """Show on stderr how many runs are over and failed, and how long the rest takes.

    Yields what is to be called with every row that arrives.
    """
    if sys.stderr is None or not sys.stderr.isatty():
        trials = len(runs.plan.trials)
        with progress_bar(f"Sweep of {trials} runs", trials, "runs") as report:
            yield lambda _: report((len(runs.rows) - runs.before) / max(trials - runs.before, 1))
        return
    from rich import progress
    from rich.console import Console

    bar = progress.Progress(
        progress.TextColumn("{task.completed:,.0f} of {task.total:,.0f} runs, {task.fields[failed]} failed"),
        progress.BarColumn(),
        progress.TaskProgressColumn(),
        progress.TimeElapsedColumn(),
        progress.TextColumn("left:"),
        progress.TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
        speed_estimate_period=600.0,  # runs of a sweep are long, and not all alike
    )
    failed = runs.failed
    with bar:
        task = bar.add_task("", total=len(runs.plan.trials), completed=runs.before, failed=failed)

        def show(row: SweepRow) -> None:
            nonlocal failed
            failed += row.status == FAILED
            bar.update(task, advance=1, failed=failed)

        yield show


def _summary(runs: Sweep, seconds: float, target: Path) -> str:
    rows = len(runs.rows)
    before = f", {runs.before} of them there before" if runs.before else ""
    unhappy = f"; {runs.failed} failed: --retry-failed does them again" if runs.failed else ""
    return f"{rows} of {runs.runs} runs in {target}{before}{unhappy}. {seconds:.1f} s."


def _print_how_to_go_on(file: Path, out: Path | None, dask: str | None, workers: str | None) -> None:
    given = {"--out": out, "--dask": dask, "--workers": workers}
    options = [word for name, value in given.items() if value is not None for word in (name, str(value))]
    print(f"To go on:  {shlex.join(['corewise', 'sweep', str(file), *options])}", file=sys.stderr)
