"""``corewise reproduce``: the experiments of the paper."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated

import typer

from corewise.cli.options import AsJson, whole_number
from corewise.cli.output import print_json, print_report
from corewise.cli.reporting import INTERRUPTED, reporting
from corewise.cli.waiting import progress_bar
from corewise.kit.report import Report

if TYPE_CHECKING:
    from corewise.experiments.report import Result

__all__ = ["reproduce"]

_WHAT = "example-1, example-2, example-3, example-4, table-2, figure-1, or all."


@reporting
def reproduce(
    what: Annotated[str, typer.Argument(metavar="WHAT", help=_WHAT)],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where to write; made if need be.")],
    seed: Annotated[str, typer.Option(metavar="S", help="Seed of the random numbers of all runs.")] = "1",
    workers: Annotated[
        str | None,
        typer.Option(metavar="W", help="Processes that do the work; the results do not depend on them."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run the experiments of the paper again, many times each, and write figures, tables and a report.

    All of them take some five minutes on two cores. DIR gets a directory for each experiment and
    report.html, which has everything in it. Ctrl-C leaves the experiments that are done.
    """
    from corewise.experiments.reproduce import REPORT
    from corewise.experiments.reproduce import reproduce as reproduce_experiments

    start = whole_number(seed, "--seed")
    count = None if workers is None else whole_number(workers, "--workers", least=1)
    began = perf_counter()
    done: list[Result] = []
    interrupted = False
    with progress_bar(f"Reproducing {what}", 100.0, "%") as progress:
        try:
            for result in reproduce_experiments(what, out, seed=start, workers=count, progress=progress):
                done.append(result)
        except KeyboardInterrupt:
            interrupted = True
    seconds = perf_counter() - began
    if as_json:
        print_json(
            {
                "results": {result.name: result.numbers for result in done},
                "out": str(out),
                "seed": start,
                "seconds": seconds,
                "interrupted": interrupted,
            }
        )
    else:
        facts = [(result.name, result.headline) for result in done]
        state = "interrupted" if interrupted else "done"
        title = f"Reproducing {what}, seed {start}: {state} after {seconds:.0f} s"
        print_report(Report(title, facts))
        if done:
            print(f"The report: {out / REPORT}")
    if interrupted:
        raise typer.Exit(INTERRUPTED)
