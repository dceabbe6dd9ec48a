"""Server-sent events: the state of the pool to whoever looks on, as often as it changes and no more often.

A reader that is slow gets the latest state and not all those before, so that nothing piles up.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

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
        self._lock = asyncio.Lock()

    async def states(self) -> AsyncIterator[bytes]:
        """Yield the state as an event, now and whenever it has changed."""
        bell = self._desk.bell
        yield b"retry: 1000\n\n"
        heard = -1
        while not bell.ended:
            if bell.rung != heard or heard < 0:
                heard = bell.rung
                yield await self._current(heard)
                await bell.wait(-1 if bell.ended else heard, 0.0)
                await asyncio.sleep(_EVERY)
            else:
                await bell.wait(heard, _ALIVE)
                if bell.rung == heard and not bell.ended:
                    yield b": still here\n\n"

    async def _current(self, heard: int) -> bytes:
        async with self._lock:
            if self._heard < heard or not self._latest:
                self._heard = self._desk.bell.rung
                found: dict[str, Any] = await asyncio.wrap_future(self._desk.asked(state))
                found["last"] = self._desk.feed.last
                self._latest = f"event: state\ndata: {to_json(found, indent=None)}\n\n".encode()
            return self._latest
