"""``corewise sweep``: many runs, on one machine or many."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated

import typer

from corewise.cli.options import AsJson, whole_number
from corewise.cli.output import print_json, print_table
from corewise.cli.reporting import INTERRUPTED, reporting
from corewise.cli.targets import require_target
from corewise.cli.waiting import progress_bar, waiting
from corewise.errors import printable
from corewise.kit.numbers import half_width
from corewise.kit.unit_labels import with_unit

if TYPE_CHECKING:
    from corewise.studies.sweeps.grid import SweepPlan
    from corewise.studies.sweeps.sweep import Sweep, SweepMean
    from corewise.studies.sweeps.trial import SweepRow

__all__ = ["sweep"]

FAILED = "failed"
SOME_FAILED = 1
_SHOWN = 5  # failed runs that are named


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
    rows = runs.rows
    failed = [row for row in rows if row.status == FAILED]
    if as_json:
        print_json(
            {
                "rows": [row.as_mapping() for row in rows],
                "means": [asdict(mean) for mean in runs.means],
                "runs": len(plan.trials),
                "done": len(rows) - len(failed),
                "failed": len(failed),
                "resumed": runs.before,
                "unit": _unit(plan),
                "seed": plan.seed,
                "sweep": plan.fingerprint,
                "out": str(target),
                "seconds": perf_counter() - began,
                "interrupted": interrupted,
            }
        )
    else:
        _print_means(runs.means, _unit(plan))
        for row in failed[:_SHOWN]:
            print(printable(str(row)))
        print(_summary(runs, len(failed), perf_counter() - began, target))
    if interrupted:
        _print_how_to_go_on(file, out, dask, workers)
        raise typer.Exit(INTERRUPTED)
    if failed:
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
    failed = sum(row.status == FAILED for row in runs.rows)
    with bar:
        task = bar.add_task("", total=len(runs.plan.trials), completed=runs.before, failed=failed)

        def show(row: SweepRow) -> None:
            nonlocal failed
            failed += row.status == FAILED
            bar.update(task, advance=1, failed=failed)

        yield show


def _unit(plan: SweepPlan) -> str | None:
    """Return what the times of all systems are in; None if it is not known, or differs."""
    units = {trial.system.unit for trial in plan.trials}
    return units.pop() if len(units) == 1 else None


def _print_means(means: tuple[SweepMean, ...], unit: str | None) -> None:
    """Print the means over seeds, a table for each kind of run."""
    for kind in dict.fromkeys(mean.kind for mean in means):
        _print_kind(kind, [mean for mean in means if mean.kind == kind], unit)


def _print_kind(kind: str, means: list[SweepMean], unit: str | None) -> None:
    varied = {(mean.system, mean.cores) for mean in means}
    names = {
        "system": [mean.system for mean in means],
        "cores": [f"{mean.cores:g}" if len(varied) > len({s for s, _ in varied}) else "" for mean in means],
        "load": [f"{mean.load:.4g}" for mean in means],
        "algorithm": [f"{mean.algorithm}, {mean.policy}" if mean.algorithm else "" for mean in means],
        "policy": ["" if mean.algorithm else mean.policy for mean in means],
    }
    shown = {name: values for name, values in names.items() if any(values)}
    rows = []
    for i, mean in enumerate(means):
        half = "" if mean.interval is None else f"{half_width(mean.interval):.2g}"
        rows.append(
            [
                *(values[i] for values in shown.values()),
                f"{mean.runs - mean.failed}" + (f" of {mean.runs}" if mean.failed else ""),
                "" if mean.mean_jobs is None else f"{mean.mean_jobs:.5g}",
                half,
                "" if mean.mean_response_time is None else f"{mean.mean_response_time:.5g}",
                "" if mean.gap is None else f"{100.0 * mean.gap:.3g} %",
            ]
        )
    print(f"{kind}: means over seeds")
    time = with_unit("response\ntime", unit)
    print_table([*shown, "runs", "jobs", "± 95 %", time, "gap"], rows, names=len(shown))


def _summary(runs: Sweep, failed: int, seconds: float, target: Path) -> str:
    rows = len(runs.rows)
    before = f", {runs.before} of them there before" if runs.before else ""
    unhappy = f"; {failed} failed: --retry-failed does them again" if failed else ""
    return f"{rows} of {len(runs.plan.trials)} runs in {target}{before}{unhappy}. {seconds:.1f} s."


def _print_how_to_go_on(file: Path, out: Path | None, dask: str | None, workers: str | None) -> None:
    given = {"--out": out, "--dask": dask, "--workers": workers}
    options = [word for name, value in given.items() if value is not None for word in (name, str(value))]
    print(f"To go on:  {shlex.join(['corewise', 'sweep', str(file), *options])}", file=sys.stderr)
