"""``corewise live doctor``: which engines are here, how quick they are, and how long a round should be."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from corewise.cli.options import AsJson
from corewise.cli.output import print_facts, print_json, print_table
from corewise.cli.reporting import reporting
from corewise.cli.waiting import waiting

if TYPE_CHECKING:
    from corewise.live.run.latency import EngineHealth

__all__ = ["doctor"]


@reporting
def doctor(
    engine: Annotated[
        list[str] | None,
        typer.Option(metavar="E", help="Start and measure dask or ray as well; can be given twice."),
    ] = None,
    directory: Annotated[
        Path, typer.Option("--at", metavar="DIR", help="Where a journal would be, to try its disk.")
    ] = Path(),
    as_json: AsJson = False,
) -> None:
    """Say what a live pool finds here: engines and their latency, the disk, how long a round should be."""
    from corewise.live.run.latency import ROUND_TO_LATENCY, examine

    with waiting("Trying engines ..."):
        found = examine(engine or (), directory)
    if as_json:
        print_json(found.as_mapping())
        return
    print_facts(
        "What a live pool finds here",
        [
            ("cores", f"{found.cores}, of which this process may use {found.usable}"),
            ("journal", f"{_time(found.sync)} to make a block safe in {found.directory}"),
            (
                "rounds",
                f"should last {ROUND_TO_LATENCY:g} times as long as it takes to begin one, or cores idle",
            ),
        ],
    )
    print_table(
        ["engine", "package", "latency", "a round should last"], [_row(one) for one in found.engines], names=2
    )


def _row(one: EngineHealth) -> list[str]:
    package = (
        "comes with Python" if one.package is None else f"{one.package} {one.version or 'is not installed'}"
    )
    if one.latency is None or one.least_round is None:
        return [one.name, package, f"--engine {one.name} tries it" if one.available else "-", "-"]
    return [one.name, package, _time(one.latency), f"{_time(one.least_round)} or more"]


def _time(seconds: float) -> str:
    return f"{seconds:.2g} s" if seconds >= 1.0 else f"{1e3 * seconds:.2g} ms"
