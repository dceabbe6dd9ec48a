"""What an engine has told, for tests that wait for it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from corewise.live.events import Event

Told = tuple[Any, ...]
PATIENCE = 60.0  # seconds until a test that waits for something gives up


class Log:
    """What an engine has told."""

    def __init__(self) -> None:
        self.told: list[Told] = []
        self._news = threading.Condition()

    def tell(self, kind: type[Event], *values: Any, then: Callable[[], None] | None = None) -> None:
        with self._news:
            self.told.append((kind.kind, *values))
            self._news.notify_all()
        if then is not None:
            then()

    def wait_for(self, *told: Any) -> None:
        with self._news:
            assert self._news.wait_for(lambda: told in self.told, PATIENCE), (told, self.told)

    def of(self, job: str) -> list[Told]:
        return [told for told in self.told if told[1] == job]
