"""Snapshots of a pool at work: it goes on from the last one, in the state to which all events lead."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

import corewise as cw
from corewise.live.engines.base import Holding, Rounds
from corewise.live.engines.executor import ExecutorEngine
from corewise.live.journal.journal import Journal
from corewise.live.journal.pool_configuration import controller_of
from corewise.live.journal.replay import replay, replayed
from corewise.live.state.controller import Options

CLASSES = [
    cw.JobClass("one", 1.0, 2.0, cw.Amdahl(0.5)),
    cw.JobClass("two", 1.0, 2.0, cw.Amdahl(0.5)),
]
EVERY = 10


def rounds(job: Holding) -> Rounds:
    for _ in range(3):
        yield [partial(pow, 2, k) for k in range(job.cores)]


def work(path: Path, decide: str) -> None:
    options = Options(snapshot_every=EVERY, checked=True, decide=decide)
    with cw.LivePool(CLASSES, ExecutorEngine(ThreadPoolExecutor(4)), path, options=options) as pool:
        for _ in range(5):
            for job in [pool.run(name, rounds) for name in ("one", "two")]:
                job.result(60.0)


@pytest.mark.parametrize("decide", ["classes", "jobs"])
def test_a_pool_goes_on_from_its_last_snapshot(tmp_path: Path, decide: str) -> None:
    path = tmp_path / "pool.db"
    found = []
    for _ in range(2):
        work(path, decide)
        with Journal.read(path) as journal:
            last = journal.snapshot()
            assert last is not None
            found.append(last[0])
            whole = controller_of(journal)
            for _step in replay(journal, whole):
                pass
            again = replayed(journal, partial(controller_of, journal))
            assert again.snapshot() == whole.snapshot()
            assert 0 <= journal.last - last[0] < 2 * EVERY + 20
    assert found[0] < found[1]
    assert [book.finished for book in whole.counters] == [10, 10]
