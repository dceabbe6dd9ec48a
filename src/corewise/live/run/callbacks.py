"""Callbacks of a live pool: functions of somebody else's that are called when a job is done."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from queue import SimpleQueue

__all__ = ["Callbacks"]

_log = logging.getLogger("corewise.live")


class Callbacks:
    """Callbacks, called one after the other in a thread of their own.

    In the thread that answers for the pool they could ask it for nothing, not even to run another job: it
    would wait for itself.
    """

    def __init__(self) -> None:
        self._due: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="corewise-callbacks", daemon=True)
        self._gate, self._closed = threading.Lock(), False

    def call(self, function: Callable[[], object]) -> None:
        """Have a function called; at once, and here, if all else has ended."""
        with self._gate:
            if not self._closed:
                if self._thread.ident is None:
                    self._thread.start()
                self._due.put(function)
                return
        _call(function)

    def close(self) -> None:
        """Call what is to be called, and end; a callback that closes its pool does not wait for itself."""
        with self._gate:
            self._closed = True
            self._due.put(None)
        if self._thread.ident is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        while (function := self._due.get()) is not None:
            _call(function)


def _call(function: Callable[[], object]) -> None:
    try:
        function()
    except Exception:
        _log.exception("a callback has raised")
