"""What an engine has told, for tests that wait for it, and on what a process listens."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from corewise.observation.events import Event

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
        """What was told of a job, but for how short its rounds were: that depends on the machine."""
        return [told for told in self.told if told[1] == job and told[0] != "short-rounds"]


def eventually(check: Callable[[], object], wanted: object) -> None:
    """Wait until something is so."""
    until = time.monotonic() + PATIENCE
    while check() != wanted and time.monotonic() < until:
        time.sleep(0.01)
    assert check() == wanted


def listening(process: int) -> set[str]:
    """The addresses on which a process or its children listen, in the kernel's notation."""
    family = [process]
    for name in family:
        for task in Path(f"/proc/{name}/task").glob("*/children"):
            family += [int(child) for child in task.read_text().split()]
    inodes = set()
    for name in family:
        for entry in Path(f"/proc/{name}/fd").iterdir():
            try:
                inodes.add(str(entry.readlink()))
            except OSError:
                continue
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in inodes:
                found.add(fields[1].rpartition(":")[0])
    return found
