"""``corewise live backup``: a copy of a journal, also of one that a pool writes to."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from corewise.cli.live.journals import JournalName
from corewise.cli.options import AsJson
from corewise.cli.output import print_json
from corewise.cli.reporting import reporting
from corewise.cli.waiting import waiting
from corewise.errors import printable

__all__ = ["backup"]


@reporting
def backup(
    journal: JournalName,
    to: Annotated[Path, typer.Argument(metavar="TO", help="The file to make, which must not exist.")],
    as_json: AsJson = False,
) -> None:
    """Copy a journal as it is at this moment, also while a pool writes to it.

    The copy is a journal like any other, with an identity of its own. To go back to it, stop the service, put
    the copy in place of the journal and start it again.
    """
    from corewise.live.journal.store import copy_journal

    with waiting(f"Copying {journal} ..."):
        events = copy_journal(journal, to)
    if as_json:
        print_json({"journal": str(journal), "to": str(to), "events": events})
        return
    print(printable(f"{to}: a copy of {journal}, {events:,} events"))
