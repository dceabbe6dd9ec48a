"""``corewise live demo``: the same jobs under EQUI and under corewise, on real workers."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from corewise.cli.options import AsJson, number, whole_number
from corewise.cli.output import print_facts, print_json, print_table
from corewise.cli.reporting import reporting
from corewise.cli.targets import draw, print_written, require_figure
from corewise.kit.numbers import half_width, value_and_ends

if TYPE_CHECKING:
    from corewise.live.demonstration.outcome import Comparison, Demonstration
    from corewise.live.learned import Learned

__all__ = ["demo", "print_demonstration"]


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
    from corewise.live.demonstration.demonstration import demonstrate

    lasting = number(seconds, "--seconds")
    chosen = secrets.randbits(32) if seed is None else whole_number(seed, "--seed")
    require_figure(plot, [])
    with View(engine, lasting) as view:
        found = demonstrate(engine, lasting, rng=chosen, say=view.say, watch=view.show)
    if plot:
        from corewise.live.demonstration.drawing import as_contest
        from corewise.plots.contest import contest_figure

        title = f"{found.whole.jobs:,} jobs under EQUI and under corewise ({engine}; they sleep)"
        draw(plot, lambda: contest_figure(as_contest(found), title))
    if as_json:
        print_json({**found.as_mapping(), "seed": chosen})
        return
    print_demonstration(found, chosen)
    print_written((plot, "plot"))


def print_demonstration(found: Demonstration, seed: int) -> None:
    """Print what came of a demonstration."""
    from corewise.live.demonstration.outcome import ALL

    rows = [*((one.name, found.comparisons[one.name]) for one in found.truth.classes), (ALL, found.whole)]
    began = (
        "never: it was not sure of a gain" if found.adopted is None else f"from second {found.adopted:.0f} on"
    )
    learned = [
        (
            f"p of {row.name}",
            f"{_learned(row.learned)}; the truth is {found.truth[row.name].speedup.parameters['p']:g}",
        )
        for row in found.learned.classes
    ]
    print_facts(
        f"The same {found.whole.jobs:,} jobs on two pools of {found.truth.cores:g} workers "
        f"({found.engine}), {found.seconds:g} s",
        [
            (
                "jobs take",
                f"{_share(found.whole)} less time under corewise than under EQUI, learning included",
            ),
            *learned,
            ("steered", began),
            ("speed-up", "emulated by sleeping; arrivals, dispatch, moves and learning are real"),
            ("seed", f"{seed} (the same arrivals and sizes again; times vary with the machine)"),
        ],
    )
    print_table(
        ["class", "jobs", "mean response, EQUI", "mean response, corewise", "less time"],
        [
            [name, str(row.jobs), f"{row.equi:.4f} s", f"{row.corewise:.4f} s", _share(row)]
            for name, row in rows
        ],
    )


def _learned(learned: Learned | None) -> str:
    if learned is None or not learned.informative:
        return "not known"
    return value_and_ends(round(learned.parameters["p"], 3), learned.intervals["p"])


def _share(row: Comparison) -> str:
    half = half_width(row.interval)
    return f"{row.gain:.1%}" + (f" ± {half:.1%}" if half >= 0.0 else "")
