"""``corewise live doctor``: which engines are here, how quick they are, and how long a round should be."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from corewise.cli.options import AsJson
from corewise.cli.output import emit
from corewise.cli.reporting import reporting
from corewise.cli.waiting import waiting

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
    from corewise.live.run.latency import examine

    with waiting("Trying engines ..."):
        found = examine(engine or (), directory)
    emit(found, as_json)
