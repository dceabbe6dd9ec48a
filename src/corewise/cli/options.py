"""Arguments and options that several verbs share."""

from __future__ import annotations

from typing import Annotated

import typer

__all__ = ["AsJson", "Capacity", "SystemName"]

SystemName = Annotated[
    str, typer.Argument(metavar="SYSTEM", help="A system file, or paper:1 to paper:4, paper:drift.")
]
Capacity = Annotated[
    str | None,
    typer.Option(
        metavar="N or N,M", help="Most jobs of each class; more are blocked. Default: chosen, ample."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
