"""``corewise live demo``: the same jobs under EQUI and under corewise, on real workers."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Annotated

import typer

from corewise.cli.options import AsJson, number, whole_number
from corewise.cli.output import print_json, print_report
from corewise.cli.reporting import reporting
from corewise.cli.targets import draw, print_written, require_figure

__all__ = ["demo"]


@reporting
def demo(
    engine: Annotated[
        str, typer.Option(metavar="E", help="threads, dask or ray; the last two are extras.")
    ] = "threads",
    seconds: Annotated[str, typer.Option(metavar="S", help="How long jobs arrive.")] = "60",
    seed: Annotated[
        str | None,
        typer.Option(metavar="N", help="Seed of arrivals and sizes. Default: a new one, which is reported."),
    ] = None,
    plot: Annotated[Path | None, typer.Option(metavar="PNG", help="Draw how it went.")] = None,
    as_json: AsJson = False,
) -> None:
    """Run the same jobs on two real pools, one shared equally and one steered, and compare.

    Sixteen workers each; two classes of jobs, of which nothing is known but that Amdahl's law may fit. They
    work in rounds, and their speed-up is emulated by sleeping: two cores can play sixteen. All else is real.
    """
    from corewise.cli.live.view import View
    from corewise.live.demo.demonstration import demonstrate

    lasting = number(seconds, "--seconds")
    chosen = secrets.randbits(32) if seed is None else whole_number(seed, "--seed")
    require_figure(plot, [])
    with View(engine, lasting) as view:
        found = demonstrate(engine, lasting, rng=chosen, say=view.say, watch=view.show)
    if plot:
        from corewise.live.demo.demonstration import as_contest
        from corewise.plots.contest import contest_figure

        title = f"{found.whole.jobs:,} jobs under EQUI and under corewise ({engine}; they sleep)"
        draw(plot, lambda: contest_figure(as_contest(found), title))
    if as_json:
        print_json({**found.as_mapping(), "seed": chosen})
        return
    print_report(
        found.report().with_facts(("seed", f"{chosen}: arrivals and sizes; times vary with the machine"))
    )
    print_written((plot, "plot"))
