"""Replay: the state of a live controller from its journal.

What decides has no clock and no randomness, so the events of a journal lead to the state in which the
controller was, and to the instructions that it gave. An event that cannot have happened, as earlier versions
wrote them down before they refused them, is refused again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from corewise.errors import InvalidFile, InvalidInput
from corewise.live.journal.journal import Journal
from corewise.live.state.controller import Controller
from corewise.live.state.instructions import Instruction
from corewise.observation.events import Event
from corewise.observation.journal import JournalReader

__all__ = ["Replayed", "replay", "replayed"]

_log = logging.getLogger("corewise.live")


@dataclass(frozen=True, slots=True)
class Replayed:
    """Event of a journal that was handled again, and what came of it.

    Attributes
    ----------
    seq : int
        Its number in the journal.
    event : Event
        What happened.
    instructions : tuple of Instruction
        What the controller makes of it.
    refused : str or None
        Why it was refused, if it was.
    """

    seq: int
    event: Event
    instructions: tuple[Instruction, ...]
    refused: str | None = None


def replay(
    journal: JournalReader, controller: Controller, after: int = 0, upto: int | None = None
) -> Iterator[Replayed]:
    """Handle the events of a journal behind a number, and up to another, again, one by one."""
    for seq, event, shared in journal.steps(after):
        if upto is not None and seq > upto:
            return
        try:
            step = Replayed(seq, event, tuple(controller.handle(event, share=shared)))
        except InvalidInput as error:
            step = Replayed(seq, event, (), str(error))
        yield step


def replayed(
    journal: JournalReader,
    make_controller: Callable[[bytes | None], Controller],
    observe: Callable[[Controller], None] = lambda _controller: None,
) -> Controller:
    """Return the controller in the state in which a journal leaves it.

    It goes on from the last snapshot; from the first event, if that is of another version or damaged.
    Instructions that a crash kept from the journal are written to it now, if it is open for writing.

    Parameters
    ----------
    journal : JournalReader
        The journal.
    make_controller : callable
        Returns the controller of a snapshot, or a new one if it is given None.
    observe : callable, optional
        Looks at the controller after every event.
    """
    last = journal.snapshot()
    after, content = last or (0, None)
    try:
        controller = make_controller(content)
    except InvalidFile as error:
        if content is None:
            raise
        _log.warning("%s: all events are handled again: %s", journal.path, error)
        after, controller = 0, make_controller(None)
    instructed = journal.instructed
    for step in replay(journal, controller, after):
        if step.seq > instructed and isinstance(journal, Journal):
            journal.record(step.seq, step.instructions)
        observe(controller)
    return controller
