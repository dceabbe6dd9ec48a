"""Instructions by number, as clients fetch them, and a bell for those who wait for the next.

Numbers are those of the journal, and the same after a restart: what decides is deterministic, so instructions
that a crash kept from the journal are given again under the numbers that they had.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import islice
from threading import Lock
from typing import Any

from corewise.live.journal.journal import Journal
from corewise.live.state.instructions import Instruction, Solve, instruction_to_mapping

__all__ = ["Bell", "Feed"]

_KEPT = 10_000  # instructions in memory; earlier ones are in the journal
_log = logging.getLogger("corewise.service")


class Bell:
    """Bell that any thread may ring for those who wait in the loop of the service.

    The loop is woken once for all that has come together until it gets there.
    """

    def __init__(self) -> None:
        self.rung = 0
        """How often it was rung."""
        self.ended = False
        """Whether it will not be rung any more, since the service stops."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: set[asyncio.Future[None]] = set()
        self._answers: deque[Callable[[], None]] = deque()
        self._lock = Lock()
        self._pending = False

    def listen(self) -> None:
        """Let it be heard in the running loop."""
        self._loop = asyncio.get_running_loop()

    def ring(self) -> None:
        """Wake everybody; from any thread."""
        with self._lock:
            self.rung += 1
            if self._pending or self._loop is None or self._loop.is_closed():
                return
            self._pending = True
        with suppress(RuntimeError):  # the loop was closed this very moment
            self._loop.call_soon_threadsafe(self._wake)

    def deliver(self, answer: Callable[[], None]) -> None:
        """Have an answer given in the loop when it is rung next; from any thread."""
        self._answers.append(answer)

    def end(self) -> None:
        """Wake everybody for the last time."""
        self.ended = True
        self._wake()

    def _wake(self) -> None:
        with self._lock:
            self._pending = False
        while self._answers:
            try:
                self._answers.popleft()()
            except Exception:  # it concerns no other answer
                _log.exception("an answer could not be given")
        for future in self._waiting:
            if not future.done():
                future.set_result(None)

    async def wait(self, heard: int, seconds: float) -> None:
        """Return when it has been rung since it was heard so often, or after some seconds."""
        if self.rung != heard or self.ended:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add(future)
        try:
            if self.rung == heard:
                await asyncio.wait([future], timeout=seconds)
        finally:
            self._waiting.discard(future)


class Feed:
    """Instructions of a journal by number.

    Parameters
    ----------
    journal : Journal
        Where they are.

    Attributes
    ----------
    last : int
        The number of the last one.
    journal : str
        The identity of the journal: numbers of another one mean other instructions.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self.journal = journal.identity or ""
        self.last = journal.last_instruction()
        self._lock = Lock()
        self._latest: deque[tuple[int, int, Instruction]] = deque(maxlen=_KEPT)

    def add(self, event: int, instructions: Sequence[Instruction]) -> None:
        """Number what came of an event."""
        with self._lock:
            for instruction in instructions:
                self.last += 1
                self._latest.append((self.last, event, instruction))

    def of_events(self, events: Sequence[int]) -> list[dict[str, Any]]:
        """Return what came of events that have just been handled."""
        wanted = frozenset(events)
        with self._lock:
            since = min(wanted, default=0)
            found = []
            for row in reversed(self._latest):
                if row[1] < since:
                    break
                if row[1] in wanted:
                    found.append(row)
        return [_told(number, what) for number, _, what in reversed(found) if not isinstance(what, Solve)]

    def after(self, number: int, most: int) -> list[dict[str, Any]]:
        """Return the instructions behind a number, the earliest first."""
        with self._lock:
            first = self._latest[0][0] if self._latest else self.last + 1
            recent = list(islice(self._latest, max(number + 1 - first, 0), None))
        told = [_told(seq, what) for seq, _, what in recent if not isinstance(what, Solve)]
        if number + 1 >= first:
            return told[:most]
        earlier = (
            {"number": seq, **body}
            for seq, _, body in self._journal.instruction_mappings(number)
            if seq < first and body.get("kind") != Solve.kind
        )
        return [*islice(earlier, most), *told][:most]


def _told(number: int, instruction: Instruction) -> dict[str, Any]:
    return {"number": number, **instruction_to_mapping(instruction)}
