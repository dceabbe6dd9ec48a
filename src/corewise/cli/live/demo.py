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
from corewise.kit.numbers import half_width

if TYPE_CHECKING:
    from corewise.live.demo.demonstration import ArmComparison, Demonstration
    from corewise.live.state.report import ClassReport

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
    print_demonstration(found, chosen)
    print_written((plot, "plot"))


def print_demonstration(found: Demonstration, seed: int) -> None:
    """Print what came of a demonstration."""
    from corewise.live.demo.demonstration import ALL

    steered = (
        "never: it was not sure of a gain" if found.adopted is None else f"from second {found.adopted:.0f} on"
    )
    print_facts(
        f"The same {found.whole.jobs:,} jobs on two pools of {found.truth.cores:g} workers ({found.engine}), "
        f"arriving for {found.seconds:g} s",
        [
            (
                "in the mean",
                f"jobs take {_verdict(found.whole)} under corewise than under EQUI, learning included",
            ),
            *((f"p of {row.name}", _learned(found, row)) for row in found.learned.classes),
            ("steered", steered),
            ("speed-up", "emulated by sleeping; arrivals, dispatch, moves and learning are real"),
            ("seed", f"{seed}: arrivals and sizes; times vary with the machine"),
        ],
    )
    names = [*found.truth.names, ALL]
    print_table(
        ["class", "jobs", "EQUI, s", "corewise, s", "gain", "95 %"],
        [_row(name, found.comparisons[name]) for name in names],
    )


def _row(name: str, row: ArmComparison) -> list[str]:
    ends = " to ".join(f"{end:.1%}" for end in row.interval) if row.interval[0] <= row.interval[1] else ""
    return [name, f"{row.jobs:,}", f"{row.equi:.4f}", f"{row.corewise:.4f}", f"{row.gain:.1%}", ends]


def _verdict(row: ArmComparison) -> str:
    half = half_width(row.interval)
    error = f" ± {half:.1%}" if half >= 0.0 else ""
    return f"{abs(row.gain):.1%}{error} {'less' if row.gain >= 0.0 else 'more'} time"


def _learned(found: Demonstration, row: ClassReport) -> str:
    truth = found.truth[row.name].speedup.parameters["p"]
    learned = row.learned
    if learned is None or not learned.informative:
        return f"not known; the truth is {truth:g}"
    low, high = learned.intervals["p"]
    return f"{learned.parameters['p']:.2f}, between {low:.2f} and {high:.2f} (95 %); the truth is {truth:g}"
