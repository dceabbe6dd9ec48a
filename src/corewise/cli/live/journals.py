"""What the verbs around a journal share: its argument, and how it is opened."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from corewise.live.state.controller import Controller
    from corewise.observation.journal import JournalReader

__all__ = ["JournalName", "controller_at_the_end", "opened"]

JournalName = Annotated[
    Path, typer.Argument(metavar="JOURNAL", help="The journal of a live pool, which may be running.")
]


def opened(path: Path) -> JournalReader:
    """Return a reader of a journal."""
    from corewise.live.journal.journal import Journal

    return Journal.read(path)


def controller_at_the_end(journal: JournalReader) -> Controller:
    """Return the controller in the state in which a journal leaves it now."""
    from corewise.live.journal.pool_configuration import controller_of
    from corewise.live.journal.replay import replayed

    return replayed(journal, partial(controller_of, journal))
