"""A real Dask cluster: a scheduler and workers, processes of their own, on the loopback interface only."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

PATIENCE = 60.0  # seconds, for a process that starts on a busy machine


@dataclass
class Cluster:
    """Its scheduler's address, and the processes that work for it."""

    address: str
    scheduler: subprocess.Popen[bytes]
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def kill(self, number: int) -> None:
        """End a worker as the kernel would that is out of memory; nobody starts it again."""
        self.workers[number].send_signal(signal.SIGKILL)
        self.workers[number].wait(PATIENCE)


@contextmanager
def dask_cluster(folder: Path, workers: int) -> Iterator[Cluster]:
    """Start a cluster that keeps its files in a folder, and end it with the body."""
    file = folder / "scheduler.json"
    loopback = ["--host", "127.0.0.1", "--no-dashboard", "--dashboard-address", "127.0.0.1:0"]
    loopback += ["--scheduler-file", str(file)]
    with ExitStack() as stack:
        scheduler = stack.enter_context(_process(["scheduler", "--port", "0", *loopback], folder))
        began = time.monotonic()
        while not file.exists() or not file.read_text():
            assert scheduler.poll() is None, (folder / "scheduler.log").read_text()
            assert time.monotonic() - began < PATIENCE, "the scheduler did not start"
            time.sleep(0.05)
        cluster = Cluster(json.loads(file.read_text())["address"], scheduler)
        command = ["worker", "--nthreads", "1", "--no-nanny", *loopback]
        for _ in range(workers):
            cluster.workers.append(stack.enter_context(_process(command, folder)))
        yield cluster


@contextmanager
def _process(arguments: list[str], folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    one_thread = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    with (folder / f"{arguments[0]}.log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "dask", *arguments],
            cwd=folder,
            env={**os.environ, **one_thread},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(10.0)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
