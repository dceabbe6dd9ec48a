"""Waiting for what another thread brings about."""

from __future__ import annotations

import time
from collections.abc import Callable


def until(true: Callable[[], object]) -> None:
    """Return as soon as something is true; fail if it does not come about for long."""
    for _ in range(2000):
        if true():
            return
        time.sleep(0.01)
    raise AssertionError("it does not come about")
