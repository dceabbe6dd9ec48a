"""``corewise live explain``: why a job holds the cores that it holds."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from corewise.cli.live.journals import JournalName, controller_at_the_end, opened
from corewise.cli.options import AsJson
from corewise.cli.output import print_json
from corewise.cli.reporting import reporting
from corewise.cli.waiting import waiting
from corewise.errors import InvalidInput, printable
from corewise.kit.times import instant

if TYPE_CHECKING:
    from corewise.observation.journal import JournalReader

__all__ = ["explain"]

_GONE = ("job-finished", "job-ended")


@reporting
def explain(
    journal: JournalName,
    job: Annotated[str, typer.Argument(metavar="JOB", help="What the job is called.")],
    as_json: AsJson = False,
) -> None:
    """Say in a sentence why a job holds the cores that it holds, as of the last event in the journal."""
    with opened(journal) as reader, waiting(f"Reading {journal} ..."):
        controller = controller_at_the_end(reader)
        if job not in controller.jobs.by_name:
            _require_not_gone(reader, job)
        found = controller.explain(job)
    if as_json:
        print_json(asdict(found))
        return
    print(printable(str(found)))


def _require_not_gone(journal: JournalReader, job: str) -> None:
    """Say of a job that was there how and when it left."""
    gone = [
        event for _, event in journal.events() if event.kind in _GONE and getattr(event, "job", "") == job
    ]
    if gone:
        last = gone[-1]
        how = "finished" if last.kind == "job-finished" else f"ended ({getattr(last, 'why', '')})"
        raise InvalidInput(f"job {job!r} is not there any more: it {how} at {instant(last.time)}")
