"""``corewise live events``: what has happened in a pool, and goes on happening."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Annotated

import typer

from corewise.cli.live.journals import JournalName, opened
from corewise.cli.options import whole_number
from corewise.cli.reporting import reporting
from corewise.errors import printable
from corewise.kit.times import instant

if TYPE_CHECKING:
    from corewise.observation.events import Event
    from corewise.observation.journal import JournalReader

__all__ = ["events"]

_LOOK = 0.2  # seconds between two looks at a journal that is followed


@reporting
def events(
    journal: JournalName,
    since: Annotated[
        str, typer.Option(metavar="N", help="Only events behind number N; of a negative one, the last -N.")
    ] = "0",
    follow: Annotated[bool, typer.Option("--follow", help="Wait for more, until Ctrl-C.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object a line.")] = False,
) -> None:
    """List the events of a journal, with their numbers, in the order in which they were taken in."""
    after = -whole_number(since[1:], "--since") if since.startswith("-") else whole_number(since, "--since")
    with opened(journal) as reader:
        seen = max(reader.last + after, 0) if after < 0 else after
        while True:
            seen = _print_events(reader, seen, as_json)
            if not follow:
                return
            time.sleep(_LOOK)


def _print_events(journal: JournalReader, after: int, as_json: bool) -> int:
    """Print what is behind a number; return that of the last."""
    from corewise.kit.jsonable import plain
    from corewise.observation.events import event_to_mapping

    for seq, event in journal.events(after):
        after = seq
        if as_json:
            row = plain({"seq": seq, **event_to_mapping(event)})
            print(json.dumps(row, allow_nan=False, ensure_ascii=False))
        else:
            when = instant(event.time, milliseconds=True)
            print(printable(f"{seq:8d}  {when:>14}  {event.kind:14}  {_facts(event)}".rstrip()))
    print(end="", flush=True)
    return after


def _facts(event: Event) -> str:
    """Return what an event says beyond its kind and time, but for its id."""
    from corewise.observation.events import event_to_mapping

    facts = event_to_mapping(event)
    return "  ".join(
        f"{key} {_short(value)}" for key, value in facts.items() if key not in {"kind", "time", "id"}
    )


def _short(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, tuple | list):
        return "[" + ", ".join(map(_short, value)) + "]"
    return f"{value}" if not isinstance(value, dict) else "{…}"
