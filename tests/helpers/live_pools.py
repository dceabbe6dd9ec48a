"""Live pools for tests: a solver in a thread, which needs no time to start."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

import corewise as cw
from corewise.kit.workers import ExecutorWorkers
from corewise.live.run import pool as pool_module


def solve_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have live pools solve in a thread of this process, and warm nothing up."""

    @contextmanager
    def solving(_algorithm: cw.Algorithm) -> Iterator[ExecutorWorkers]:
        workers = ExecutorWorkers(ThreadPoolExecutor(1))
        yield workers
        workers.close()

    monkeypatch.setattr(pool_module, "solver_process", solving)
