"""A pool whose process is killed at random: what it has acknowledged is in its journal, once."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from corewise.live.journal.journal import Journal
from corewise.observation import events as happened

KILLS = 12
SCRIPT = """
import os, random, signal, sys, time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
import corewise as cw
from corewise.live.run import pool as pool_module
from corewise.live.engines.executor import ExecutorEngine
from corewise.kit.workers import ExecutorWorkers

@contextmanager
def solving(algorithm):
    yield ExecutorWorkers(ThreadPoolExecutor(1))

pool_module.solver_process = solving
make = partial(cw.JobClass, arrival_rate=1.0, size_rate=2.0, speedup=cw.Amdahl(0.5))
CLASSES = [make("one"), make("two")]

def rounds(job):
    for _ in range(2):
        yield [partial(time.sleep, 0.0005)] * job.cores

def session(to):
    with cw.LivePool(CLASSES, ExecutorEngine(ThreadPoolExecutor(4)), "pool.db") as pool:
        while True:
            jobs = [pool.run(name, rounds) for name in ("one", "two") * 2]
            os.write(to, "".join(f"arrived {job.name}\\n" for job in jobs).encode())
            for job in jobs:
                job.result()
                os.write(to, f"finished {job.name}\\n".encode())

rng = random.Random(17)
for _ in range(int(sys.argv[1])):
    child = os.fork()
    if not child:
        session(sys.stdout.fileno())
    time.sleep(rng.uniform(0.05, 0.25))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
"""


@pytest.mark.slow
def test_nothing_acknowledged_is_lost_and_nothing_doubled(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(KILLS)], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    late = "solve: no answer to request 1 within a window"  # which for jobs of a millisecond is soon over
    heard = [line for line in done.stderr.splitlines() if line != late]
    assert (done.returncode, heard) == (0, [])
    said = [line.split(" ") for line in done.stdout.splitlines()]
    with Journal.read(tmp_path / "pool.db") as journal:
        events = [event for _, event in journal.events()]
    arrived = Counter(event.job for event in events if isinstance(event, happened.JobArrived))
    finished = Counter(event.job for event in events if isinstance(event, happened.JobFinished))
    lost = Counter(event.job for event in events if isinstance(event, happened.JobEnded))
    assert {name for what, name in said if what == "arrived"} <= set(arrived)
    assert {name for what, name in said if what == "finished"} <= set(finished)
    assert finished
    assert set(arrived.values()) == set(finished.values()) == {1}
    assert not set(lost) & set(finished)
    assert set(lost.values()) <= {1}
    assert len(arrived) - len(finished) - len(lost) <= 4 + 4  # those of the last session, which nobody opened
    assert [event.time for event in events] == sorted(event.time for event in events)
