"""A journal whose writer was killed or whose last pages were cut: whole transactions, all acknowledged."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.instruments.journal_kills import Victim, Writers, faults, said_by, told_by
from benchmarks.instruments.live_stream import ABOUT, new_controller, stream
from benchmarks.instruments.wal import commits
from corewise.errors import InvalidFile, InvalidInput
from corewise.live.journal.journal import Journal
from corewise.live.journal.replay import replay, replayed
from corewise.observation import events as happened

BATCHES = [1, 7, 60, 1, 25]
JOBS, SEED = 120, 11


@pytest.fixture
def cut(tmp_path: Path) -> tuple[Path, bytes, bytes]:
    """A journal that was never closed: where to put a copy, the database, and its log."""
    with Journal.open(tmp_path / "pool.db", ABOUT) as journal:
        for k, size in enumerate(BATCHES):
            journal.append(
                [happened.JobArrived(float(k), f"{k}-{i}", f"job {k}-{i}", "a") for i in range(size)], 0.0
            )
        files = [(tmp_path / f"pool.db{end}").read_bytes() for end in ("", "-wal")]
    (tmp_path / "copy").mkdir()
    return tmp_path / "copy" / "pool.db", files[0], files[1]


def events_left(file: Path, database: bytes, wal: bytes) -> int | None:
    """How many events are in a journal with such a log, None if it is not even made."""
    shutil.rmtree(file.parent)
    file.parent.mkdir()
    file.write_bytes(database)
    Path(f"{file}-wal").write_bytes(wal)
    with closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True)) as found:
        assert found.execute("PRAGMA quick_check").fetchall() == [("ok",)]
        if not found.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
            return None
    with Journal.read(file) as reader:
        ids = [event.id for _, event in reader.events()]
    expected = [f"{k}-{i}" for k, size in enumerate(BATCHES) for i in range(size)]
    assert ids == expected[: len(ids)]
    return len(ids)


def test_a_snapshot_that_is_cut_off_leaves_the_one_before(tmp_path: Path) -> None:
    """Cut behind every commit: the state is that of all events that are left, whatever snapshot is."""
    told, file = stream(30, SEED), tmp_path / "pool.db"
    with Journal.open(file, ABOUT) as journal:
        controller = new_controller()
        for begin in range(0, len(told), 20):
            batch = told[begin : begin + 20]
            journal.append(batch, 0.0)
            for event in batch:
                with suppress(InvalidInput):
                    controller.handle(event)
            journal.put_snapshot(begin + len(batch), controller.snapshot())
        database, wal = ((tmp_path / f"pool.db{end}").read_bytes() for end in ("", "-wal"))
    (tmp_path / "copy").mkdir()
    copy, seen = tmp_path / "copy" / "pool.db", set()
    for end in [*commits(wal), len(wal)]:
        copy.write_bytes(database)
        Path(f"{copy}-wal").write_bytes(wal[:end])
        with closing(sqlite3.connect(copy)) as found:
            if not found.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
                continue
        with Journal.read(copy) as reader:
            last, whole = reader.snapshot(), new_controller()
            for _ in replay(reader, whole):
                pass
            assert replayed(reader, new_controller).snapshot() == whole.snapshot()
        seen.add(0 if last is None else last[0])
    assert len(seen) > len(told) // 20


def test_a_log_that_is_cut_leaves_whole_transactions(cut: tuple[Path, bytes, bytes]) -> None:
    """At the edges of every frame and at many places within; `benchmarks/journal.py` cuts at every byte."""
    file, database, wal = cut
    ends = commits(wal)
    left = [None, 0, *np.cumsum(BATCHES).tolist()]
    assert len(ends) == len(left) - 1
    frames = range(32, len(wal) + 1, 4096 + 24)
    places = {place + d for place in frames for d in (-1, 0, 1, 24)} | set(range(0, len(wal), 509))
    for place in sorted(place for place in places if place <= len(wal)):
        expected = left[sum(end <= place for end in ends)]
        assert events_left(file, database, wal[:place]) == expected, place


def test_a_log_with_a_damaged_byte_leaves_the_transactions_before_it(cut: tuple[Path, bytes, bytes]) -> None:
    file, database, wal = cut
    ends = commits(wal)
    left = [None, 0, *np.cumsum(BATCHES).tolist()]
    for place in np.random.default_rng(5).integers(32, len(wal), 60).tolist():
        damaged = bytearray(wal)
        damaged[place] ^= 0x10
        assert events_left(file, database, bytes(damaged)) == left[sum(end <= place for end in ends)], place


# --- kills ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def writers() -> Iterator[Writers]:
    with Writers(JOBS, SEED) as server:
        yield server


@pytest.fixture(scope="module")
def told() -> list[happened.Event]:
    return stream(JOBS, SEED)


@pytest.fixture
def victim(tmp_path: Path) -> Victim:
    return Victim(tmp_path / "pool.db", tmp_path / "said", 0)


def wait_for(victim: Victim, what: str, least: int) -> int:
    for _ in range(20_000):
        if (number := said_by(victim).get(what, 0)) >= least:
            return number
        time.sleep(0.001)
    raise AssertionError(f"the writer was to say {what} {least}, and said {said_by(victim)}")


def test_what_was_acknowledged_outlives_a_kill(
    writers: Writers, victim: Victim, told: list[happened.Event]
) -> None:
    """Twenty kills at random points; `benchmarks/journal.py` does a thousand."""
    answers, rng, ends = told_by(told), np.random.default_rng(2), [0]
    for seed in range(20):
        pid = writers.start(replace(victim, seed=seed))
        if seed % 4:  # else it may be killed while it opens the journal or replays it
            wait_for(victim, "acknowledged", min(ends[-1] + 1, len(told)))
        time.sleep(rng.uniform(0.0, 0.02))
        writers.kill(pid)
        assert faults(victim, told, answers) == []
        ends.append(said_by(victim).get("acknowledged", 0))
    assert ends == sorted(ends)
    assert len(set(ends)) > 10


def test_a_loss_would_be_found(writers: Writers, victim: Victim, told: list[happened.Event]) -> None:
    """The control: an event taken out, one put in, an instruction changed, one taken out."""
    answers = told_by(told)
    pid = writers.start(victim)
    wait_for(victim, "acknowledged", 60)
    writers.kill(pid)
    assert faults(victim, told, answers) == []
    Journal.open(victim.journal, ABOUT).close()
    whole = victim.journal.read_bytes()
    for damage in (
        "DELETE FROM event WHERE seq = (SELECT max(seq) FROM event)",
        "INSERT INTO event SELECT max(seq) + 1, 'twice', time, received, kind, body, shared FROM event",
        "UPDATE instruction SET body = replace(body, '\"equi\"', '\"other\"') WHERE seq = 3",
        "DELETE FROM instruction WHERE seq = 2",
    ):
        victim.journal.write_bytes(whole)
        with closing(sqlite3.connect(victim.journal)) as database:
            database.execute(damage)
            database.commit()
        assert faults(victim, told, answers) != [], damage


def test_the_right_to_write_ends_with_its_owner_though_a_process_it_started_lives_on(
    writers: Writers, victim: Victim
) -> None:
    pid = writers.start(replace(victim, orphan=True))
    orphan = wait_for(victim, "orphan", 1)
    try:
        wait_for(victim, "acknowledged", 1)
        with pytest.raises(InvalidFile, match="another pool has this journal open"):
            Journal.open(victim.journal, ABOUT)
        writers.kill(pid)
        Journal.open(victim.journal, ABOUT).close()
    finally:
        os.kill(orphan, signal.SIGKILL)
