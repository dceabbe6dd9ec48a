"""Engines over a cluster, whose cores may come and go: how many there are is looked at all the time."""

from __future__ import annotations

import threading
from collections.abc import Callable

from corewise.kit.workers import Workers
from corewise.live.engines.base import Tell
from corewise.live.engines.dispatcher import Dispatcher
from corewise.live.engines.rounds import ROUND_TIMEOUT

__all__ = ["WatchedEngine"]

_LOOK = 0.1  # seconds between two looks at the number of cores


class WatchedEngine(Dispatcher):
    """Engine over workers that may come and go.

    Parameters
    ----------
    workers : Workers
        What carries out the calls.
    count_cores : callable
        Returns how many cores there are now; `OSError` or `ValueError` if nobody answers.
    extra : int, optional
        How many calls of bags to have in flight beyond the cores.
    round_timeout : float, optional
        Seconds that a round may last before there is an alert.
    """

    def __init__(
        self,
        workers: Workers,
        count_cores: Callable[[], int],
        extra: int = 0,
        round_timeout: float = ROUND_TIMEOUT,
    ) -> None:
        super().__init__(workers, count_cores(), extra, round_timeout)
        self._count_cores = count_cores
        self._closed = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="corewise-watcher", daemon=True)

    def start(self, tell: Tell) -> None:
        """Begin; what happens from now on is told."""
        super().start(tell)
        self._watcher.start()

    def close(self) -> None:
        """End all jobs, and whatever was started for them."""
        self._closed.set()
        if self._watcher.is_alive():
            self._watcher.join()
        super().close()

    def _watch(self) -> None:
        """Tell when cores have come or gone; of none at all nobody can make use, so that is not told."""
        while not self._closed.wait(_LOOK):
            try:
                cores = self._count_cores()
            except (OSError, ValueError):  # nobody answers: the calls in flight will say so
                continue
            if cores:
                self.change_pool(cores)
