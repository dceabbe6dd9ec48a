"""Server-sent events: the state of the pool for readers, as often as it changes and no more often.

A reader that is slow gets the latest state and not all those before, so that nothing piles up. A reader that
goes away takes nothing with it: the look-up that it waits for is everybody's.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from corewise.errors import CorewiseError
from corewise.kit.jsonable import to_json
from corewise.live.service.desk import Desk
from corewise.live.service.views import state

__all__ = ["Stream"]

_EVERY = 0.5  # seconds between two states
_ALIVE = 10.0  # seconds without news after which a line says that the connection is


class Stream:
    """Stream of states, which all readers share: it is looked up once however many there are.

    Parameters
    ----------
    desk : Desk
        Whose.
    """

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._heard = -1
        self._latest = b""
        self._looking: asyncio.Task[None] | None = None

    async def states(self) -> AsyncIterator[bytes]:
        """Yield the state as an event, now and whenever it has changed."""
        bell = self._desk.bell
        yield b"retry: 1000\n\n"
        heard = -1
        while not bell.ended:
            if bell.rung != heard or heard < 0:
                heard = bell.rung
                try:
                    found = await self._current(heard)
                except CorewiseError:  # the desk is closed
                    return
                yield found
                await bell.wait(-1 if bell.ended else heard, 0.0)
                await asyncio.sleep(_EVERY)
            else:
                await bell.wait(heard, _ALIVE)
                if bell.rung == heard and not bell.ended:
                    yield b": still here\n\n"

    async def _current(self, heard: int) -> bytes:
        """Return a state that is not older than a ring of the bell."""
        while self._heard < heard:
            if self._looking is None:
                self._looking = asyncio.create_task(self._look_up())
                self._looking.add_done_callback(_retrieve)
            await asyncio.shield(self._looking)
        return self._latest

    async def _look_up(self) -> None:
        try:
            heard = self._desk.bell.rung
            found: dict[str, Any] = await asyncio.wrap_future(self._desk.asked(state))
            found["last"] = self._desk.feed.last
            self._latest = f"event: state\ndata: {to_json(found, indent=None)}\n\n".encode()
            self._heard = heard
        finally:
            self._looking = None


def _retrieve(task: asyncio.Task[None]) -> None:
    """Take note of how a look-up ended: all who waited for it may have gone."""
    if not task.cancelled():
        task.exception()
