"""``corewise live status``: what a pool does, has learned and expects, from its journal."""

from __future__ import annotations

import time

from corewise.cli.live.journals import JournalName, controller_at_the_end, opened
from corewise.cli.options import AsJson
from corewise.cli.output import print_json, print_report
from corewise.cli.reporting import reporting
from corewise.cli.waiting import waiting
from corewise.errors import printable
from corewise.kit.times import is_date, spoken_duration

__all__ = ["status"]


def _last(when: float) -> str:
    """Return how long ago the last event was, by the clock of this machine, if it has a date."""
    if not is_date(when):
        return ""
    ago = time.time() - when
    return f", the last one {spoken_duration(ago)} ago" if ago >= 0.0 else ""


@reporting
def status(journal: JournalName, as_json: AsJson = False) -> None:
    """Say what a pool does, what it has learned, and what it expects to gain.

    The pool may be running: it is not held up. What is said is up to the last event in the journal.
    """
    with opened(journal) as reader, waiting(f"Reading {journal} ..."):
        report, events = controller_at_the_end(reader).report(), reader.last
    if as_json:
        print_json({"events": events, **report.as_mapping()})
        return
    print(printable(f"{journal}: {events:,} events{_last(report.time)}"))
    print_report(report.report())
