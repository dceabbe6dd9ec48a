"""The journal: what was acknowledged is there, once and whole; what cannot be a journal is refused."""

from __future__ import annotations

import os
import resource
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from time import sleep

import numpy as np
import pytest

from corewise.errors import InvalidFile, InvalidInput, JournalLost, JournalUnavailable
from corewise.live.journal.journal import Journal
from corewise.live.journal.store import copy_journal
from corewise.live.state.instructions import Alert, Reason, SetCores, Solve, instruction_to_mapping
from corewise.observation import events as happened
from corewise.observation.journal import JournalReader

ABOUT = {"system": {"cores": 16, "class": [{"name": "a"}, {"name": "b", "weight": 2.0}]}, "algorithm": "1b"}
THIRD = 1.0 / 3.0
OF_EVERY_KIND: list[happened.Event] = [
    happened.JobArrived(THIRD, "1", "job 1", "a"),
    happened.JobArrived(0.4, "2", "job é", "b", 2, 5),
    happened.JobPresent(0.0, "3", "job 3", "a", 4, 1, None),
    happened.CoresHeld(0.5, "4", "job 1", 3, 0.1 + 0.2),
    happened.Progress(0.6, "5", "job 1", 1e-300),
    happened.RoundOverdue(0.6, "5a", "job 1", 3, 60.0 + THIRD),
    happened.ShortRounds(0.6, "5b", "job 1", 7, 1e-4, THIRD),
    happened.PoolConfigured(0.6, "5c", {"system": {"cores": 4}, "options": {"patience": None}}),
    happened.JobFinished(0.7, "6", "job 1"),
    happened.JobEnded(0.7, "7", "job 3", "lost"),
    happened.MoveRefused(0.7, "7a", "job 3", 4, "Infeasible: no room", 3),
    happened.PoolChanged(0.8, "8", 12),
    happened.LimitsChanged(0.8, "9", "b", 1, 8),
    happened.Solved(0.9, "10", "4", "f00d", (-0.1, THIRD, 0.5), (0.0, 0.1, 0.2), classes=("a", "b")),
    happened.SolveFailed(1e12, "11", "5", 'it said "no"\n\udce9'),
    happened.ModeChanged(1e12, "12", "hold"),
    happened.Tick(-5.0, "13"),
]


def ticks(*ids: str) -> list[happened.Event]:
    return [happened.Tick(0.0, name) for name in ids]


def written(file: Path) -> list[happened.Event]:
    with Journal.read(file) as journal:
        return [event for _, event in journal.events()]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "pool.db"


# --- what is written comes back ---------------------------------------------------------------------


def test_events_of_every_kind_come_back_bit_for_bit(file: Path) -> None:
    assert {event.kind for event in OF_EVERY_KIND} == set(happened.KINDS)
    with Journal.open(file, ABOUT) as journal:
        assert journal.append(OF_EVERY_KIND, 7.0) == list(range(1, 18))
        assert [event for _, event in journal.events()] == OF_EVERY_KIND
        assert [seq for seq, _ in journal.events(after=14)] == [15, 16, 17]
    with Journal.open(file, ABOUT) as journal:
        assert list(journal.events()) == list(enumerate(OF_EVERY_KIND, start=1))
        assert journal.append(ticks("15"), 8.0) == [18]


def test_an_id_that_is_there_changes_nothing(file: Path) -> None:
    with Journal.open(file, ABOUT) as journal:
        assert journal.append(ticks("x", "y", "x"), 0.0) == [1, 2, None]
        assert journal.append([happened.Tick(9.0, "y"), *ticks("z")], 0.0) == [None, 3]
        assert journal.append([], 0.0) == []
    assert written(file) == ticks("x", "y", "z")


def test_numbers_of_numpy_are_numbers(file: Path) -> None:
    event = happened.CoresHeld(np.float64(0.1), "1", "job", np.int64(3))  # type: ignore[arg-type]
    with Journal.open(file, ABOUT) as journal:
        journal.append([event], np.float64(1.0))
    assert written(file) == [happened.CoresHeld(0.1, "1", "job", 3)]


def test_a_value_that_json_cannot_hold_is_refused_and_nothing_of_its_batch_is_written(file: Path) -> None:
    with Journal.open(file, ABOUT) as journal:
        with pytest.raises(InvalidInput, match="solve-failed '2' cannot be written"):
            journal.append([*ticks("1"), happened.SolveFailed(0.0, "2", "r", object())], 0.0)  # type: ignore[arg-type]
        assert list(journal.events()) == []


def test_threads_share_transactions_and_each_gets_its_own_answer(file: Path) -> None:
    """A batch has numbers that follow each other; every number is given once."""
    answers: dict[int, list[list[int | None]]] = {k: [] for k in range(8)}

    def client(k: int) -> None:
        for i in range(10):
            answers[k].append(journal.append(ticks(f"{k}-{i}-0", f"{k}-{i}-1", f"shared-{i}"), 0.0))

    with Journal.open(file, ABOUT) as journal:
        threads = [Thread(target=client, args=(k,)) for k in answers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        ids = {seq: event.id for seq, event in journal.events()}
    assert sorted(ids) == list(range(1, 8 * 10 * 2 + 10 + 1))
    for k, mine in answers.items():
        for i, (one, two, shared) in enumerate(mine):
            assert one is not None
            assert two == one + 1
            assert (ids[one], ids[two]) == (f"{k}-{i}-0", f"{k}-{i}-1")
            assert shared is None or ids[shared] == f"shared-{i}"
    taken = [shared for mine in answers.values() for _, _, shared in mine if shared is not None]
    assert len(taken) == 10


def test_instructions_are_kept_in_order_and_reach_the_disk_by_themselves(file: Path) -> None:
    told = [SetCores("job", 3, Reason((1, 0), (3, 0), "EQUI", "steer")), Solve("4"), Alert("solve", "late")]
    with Journal.open(file, ABOUT) as journal:
        journal.append(ticks("1", "2"), 0.0)
        assert journal.instructed == 0
        journal.record(1, told)
        journal.record(2, [])
        while journal.instructed == 0:  # nobody appends, nobody closes
            sleep(0.001)
        journal.record(2, told[:1])
    with Journal.read(file) as reader:
        found = list(reader.instruction_mappings())
        assert [(seq, event) for seq, event, _ in found] == [(1, 1), (2, 1), (3, 1), (4, 2)]
        assert [one["kind"] for _, _, one in found] == ["set-cores", "solve", "alert", "set-cores"]
        assert found[0][2] == {**instruction_to_mapping(told[0]), "reason": found[0][2]["reason"]}
        assert found[0][2]["reason"]["cores"] == [3, 0]
        assert reader.instructed == 2


def test_policies_are_found_by_their_digest_and_damage_is_found_out(file: Path) -> None:
    content = bytes(range(256)) * 50
    with Journal.open(file, ABOUT) as journal:
        digest = journal.put_policy(content)
        assert digest == sha256(content).hexdigest() == journal.put_policy(content)
        assert journal.policy(digest) == content
        with pytest.raises(InvalidFile, match=r"pool\.db: there is no policy 'beef'"):
            journal.policy("beef")
    with closing(sqlite3.connect(file)) as database:
        database.execute("UPDATE policy SET body = x'00'")
        database.commit()
    with Journal.read(file) as reader, pytest.raises(InvalidFile, match="is damaged"):
        reader.policy(digest)


def test_the_last_snapshot_counts(file: Path) -> None:
    with Journal.open(file, ABOUT) as journal:
        assert journal.snapshot() is None
        journal.put_snapshot(3, b"three")
        journal.put_snapshot(5, b"five")
        assert journal.snapshot() == (5, b"five")
    with Journal.read(file) as reader:
        assert reader.snapshot() == (5, b"five")


def test_a_reader_sees_what_was_acknowledged_while_a_pool_writes(file: Path) -> None:
    with Journal.open(file, ABOUT) as journal, Journal.read(file) as reader:
        assert type(reader) is JournalReader
        assert reader.about == ABOUT
        for k in range(3):
            journal.append(ticks(str(k)), 0.0)
            assert len(list(reader.events())) == k + 1
        page = reader.events()
        next(page)
        journal.append(ticks("later"), 0.0)
        reader.close()
        journal.close()
        assert sorted(path.name for path in file.parent.iterdir()) == ["pool.db", "pool.db-lock"]
    assert len(written(file)) == 4


def test_it_is_durable_in_the_way_it_says(file: Path) -> None:
    with Journal.open(file, ABOUT) as journal:
        settings = [
            journal._writing.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("journal_mode", "synchronous")
        ]
    assert settings == ["wal", 2]
    with closing(sqlite3.connect(file)) as database:
        strict = database.execute(
            "SELECT name, strict FROM pragma_table_list WHERE schema = 'main'"
        ).fetchall()
    assert {name for name, is_strict in strict if is_strict} == {
        "about", "event", "instruction", "policy", "snapshot",
    }  # fmt: skip


# --- what is refused --------------------------------------------------------------------------------


def test_two_pools_cannot_have_one_journal(file: Path, tmp_path: Path) -> None:
    other_name = tmp_path / "link.db"
    with Journal.open(file, ABOUT) as journal:
        other_name.symlink_to(file)
        for name in (file, other_name):
            with pytest.raises(InvalidFile, match=r"pool\.db: another pool has this journal open"):
                Journal.open(name, ABOUT)
        journal.append(ticks("1"), 0.0)
    with Journal.open(other_name, ABOUT) as journal:  # the right goes with its owner
        assert journal.append(ticks("1", "2"), 0.0) == [None, 2]


def test_a_closed_journal_takes_nothing(file: Path) -> None:
    journal = Journal.open(file, ABOUT)
    journal.close()
    journal.close()
    with pytest.raises(InvalidInput, match="the journal is closed"):
        journal.append(ticks("1"), 0.0)
    with pytest.raises(InvalidInput, match="the journal is closed"):
        journal.record(1, [Solve("1")])
    with pytest.raises(InvalidFile, match="closed"):
        journal.snapshot()


def test_a_journal_keeps_what_it_is_about(file: Path) -> None:
    """Whatever it is opened for: what differs is for an event to say."""
    Journal.open(file, ABOUT).close()
    with Journal.open(file, {**ABOUT, "algorithm": "1a"}) as journal:
        assert journal.about["algorithm"] == ABOUT["algorithm"]


def test_what_a_journal_is_about_is_plain_values(file: Path) -> None:
    with pytest.raises(InvalidInput, match="must be plain values: Object of type PosixPath"):
        Journal.open(file, {"system": Path()})
    Journal.open(file, ABOUT).close()


def test_a_journal_of_another_version_is_refused(file: Path) -> None:
    Journal.open(file, ABOUT).close()
    with closing(sqlite3.connect(file)) as database:
        database.execute("UPDATE about SET value = '\"corewise journal 2\"' WHERE key = 'format'")
        database.commit()
    for opened in (Journal.read, lambda path: Journal.open(path, ABOUT)):
        with pytest.raises(
            InvalidFile, match="has the format 'corewise journal 2', not 'corewise journal 1'"
        ):
            opened(file)


def foreign_files(folder: Path) -> Iterator[tuple[Path, str]]:
    text = folder / "log.csv"
    text.write_text("time,event,class,job,cores\n" * 100)
    yield text, "is not a journal of corewise: file is not a database"
    foreign = folder / "browser.db"
    with closing(sqlite3.connect(foreign)) as database:
        database.execute("CREATE TABLE history (url TEXT)")
    yield foreign, "is not a journal of corewise: it has no table 'about'"
    namesake = folder / "other.db"
    with closing(sqlite3.connect(namesake)) as database:
        database.execute("CREATE TABLE about (key TEXT, value TEXT)")
        database.execute("INSERT INTO about VALUES ('format', '{')")
        database.commit()
    yield namesake, "is not a journal of corewise"


def test_what_is_no_journal_is_refused_and_left_as_it_was(tmp_path: Path) -> None:
    for path, said in foreign_files(tmp_path):
        before = path.read_bytes()
        for opened in (Journal.read, lambda path: Journal.open(path, ABOUT)):
            with pytest.raises(InvalidFile, match=said):
                opened(path)
        assert path.read_bytes() == before
    assert {path.name for path in tmp_path.iterdir()} == {"log.csv", "browser.db", "other.db"}


def test_what_cannot_be_opened_is_named(tmp_path: Path) -> None:
    for opened in (Journal.read, lambda path: Journal.open(path, ABOUT)):
        with pytest.raises(InvalidFile, match=rf"{tmp_path}: cannot be read: is a directory"):
            opened(tmp_path)
        with pytest.raises(InvalidFile, match="/dev/null: cannot be read: not a regular file"):
            opened("/dev/null")
        with pytest.raises(
            InvalidFile, match=r"no/pool\.db: cannot be (read|written): no such file or directory"
        ):
            opened(tmp_path / "no" / "pool.db")
    with pytest.raises(InvalidFile, match=r"none\.db: cannot be read: no such file"):
        Journal.read(tmp_path / "none.db")
    for wrong in (3, "a\0b"):
        with pytest.raises(InvalidFile):
            Journal.open(wrong, ABOUT)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_an_empty_or_half_made_file_becomes_a_journal(tmp_path: Path) -> None:
    empty, half = tmp_path / "empty.db", tmp_path / "half.db"
    empty.touch()
    with closing(sqlite3.connect(half)) as database:
        database.execute("PRAGMA journal_mode = WAL")
    for path in (empty, half):
        with Journal.open(path, ABOUT) as journal:
            journal.append(ticks("1"), 0.0)
        assert written(path) == ticks("1")


def test_an_event_that_cannot_be_read_is_named(file: Path) -> None:
    for body, said in [
        ("{", "event 2 cannot be read: '{'"),
        ('{"x": 1}', "event 2 cannot be read: tick: unknown"),
    ]:
        file.unlink(missing_ok=True)
        with Journal.open(file, ABOUT) as journal:
            journal.append(ticks("1", "2"), 0.0)
        with closing(sqlite3.connect(file)) as database:
            database.execute("UPDATE event SET body = ? WHERE seq = 2", (body,))
            database.commit()
        with pytest.raises(InvalidFile, match=f"pool.db: {said}"):
            written(file)


@contextmanager
def as_somebody_who_may_only_read(folder: Path) -> Iterator[None]:
    before = os.geteuid()
    folder.chmod(0o755 if before == 0 else 0o555)
    if before == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        if before == 0:
            os.seteuid(before)
        folder.chmod(0o755)


def test_a_folder_where_nothing_can_be_written_can_be_read_from() -> None:
    with TemporaryDirectory() as name:
        file = Path(name) / "pool.db"
        with Journal.open(file, ABOUT) as journal:
            journal.append(ticks("1"), 0.0)
            with as_somebody_who_may_only_read(file.parent):
                assert written(file) == ticks("1")  # of a pool that runs
        with as_somebody_who_may_only_read(file.parent):
            assert written(file) == ticks("1")
            with pytest.raises(InvalidFile, match=r"pool\.db: cannot be written: "):
                Journal.open(file, ABOUT)
        assert sorted(path.name for path in file.parent.iterdir()) == ["pool.db", "pool.db-lock"]


# --- a disk that is full ----------------------------------------------------------------------------


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """No file can grow beyond that."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_what_a_full_disk_keeps_out_is_refused_by_name_and_the_rest_stays(file: Path) -> None:
    def batch(k: int) -> list[happened.Event]:
        return [happened.SolveFailed(0.0, f"{k}-{i}", "r", "x" * 4000) for i in range(20)]

    def fill() -> None:
        for k in range(100):
            journal.append(batch(k), 0.0)
            acknowledged.extend(batch(k))

    acknowledged: list[happened.Event] = []
    with Journal.open(file, ABOUT) as journal:
        with largest_file(2**20), pytest.raises(InvalidFile, match=r"pool\.db: cannot be written: "):
            fill()
        assert len(acknowledged) >= 20
        k = len(acknowledged) // 20
        assert [event for _, event in journal.events()] == acknowledged
        assert journal.append(batch(k), 0.0)[0] == len(acknowledged) + 1  # there is room again
    assert written(file) == acknowledged + batch(k)


def test_instructions_that_were_not_kept_are_not_passed_over_and_leave_no_gap(file: Path) -> None:
    with Journal.open(file, ABOUT) as journal:
        journal.append(ticks("1", "2", "3"), 0.0)
        journal.record(1, [Solve("1")])
        with largest_file(2**17):
            journal.record(2, [Alert("x", "y" * 2**18)])
            while not journal._missed:
                sleep(0.001)
            for _ in range(2):  # it goes before all else, and is not left out
                with pytest.raises(JournalUnavailable, match=r"pool\.db: cannot be written"):
                    journal.append(ticks("4"), 0.0)
        assert journal.append(ticks("4"), 0.0) == [4]  # there is room again
        journal.record(4, [Solve("4")])
    with Journal.read(file) as reader:
        assert [event for _, event, _ in reader.instruction_mappings()] == [1, 2, 4]


def test_instructions_that_could_not_be_kept_to_the_end_are_said_so(file: Path) -> None:
    journal = Journal.open(file, ABOUT)
    journal.append(ticks("1", "2"), 0.0)
    with largest_file(2**17):
        journal.record(1, [Alert("x", "y" * 2**18)])
        with pytest.raises(InvalidFile, match=r"pool\.db: .* \(instructions were not kept\)"):
            journal.close()
    with Journal.open(file, ABOUT) as again:
        assert again.instructed == 0  # `replayed` makes them good


# --- the file itself --------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["", "-wal", "-lock"])
@pytest.mark.parametrize("replaced", [False, True])
def test_a_journal_that_is_removed_or_replaced_acknowledges_nothing(
    file: Path, end: str, replaced: bool
) -> None:
    journal = Journal.open(file, ABOUT)
    journal.append(ticks("1"), 0.0)
    journal.require_in_place()
    gone = Path(f"{file}{end}")
    if replaced:
        gone.with_name("another").write_bytes(gone.read_bytes())
        gone.with_name("another").replace(gone)
    else:
        gone.unlink()
    with pytest.raises(JournalLost, match="was removed"):
        journal.append(ticks("2"), 0.0)
    with pytest.raises(JournalLost, match="was removed"):
        journal.require_in_place()
    journal.close()


def test_closing_a_journal_leaves_the_one_alone_that_was_put_in_its_place(file: Path) -> None:
    journal = Journal.open(file, ABOUT)
    journal.append(ticks("1"), 0.0)
    for end in ("", "-wal", "-shm", "-lock"):
        Path(f"{file}{end}").unlink()
    with Journal.open(file, ABOUT) as other:
        other.append(ticks("a", "b"), 0.0)
        journal.close()
        other.require_in_place()
        assert other.append(ticks("c"), 0.0) == [3]
    assert written(file) == ticks("a", "b", "c")


def test_a_journal_has_an_identity_and_one_of_an_earlier_version_is_given_one(file: Path) -> None:
    with Journal.open(file, ABOUT) as journal:
        first = journal.identity
        assert first is not None
        assert "identity" not in journal.about
    with Journal.open(file, ABOUT) as journal:
        assert journal.identity == first
    with closing(sqlite3.connect(file)) as database, database:
        database.execute("DELETE FROM about WHERE key = 'identity'")
    with Journal.read(file) as reader:
        assert reader.identity is None
    with Journal.open(file, ABOUT) as journal:
        assert journal.identity not in {None, first}


def test_a_copy_of_a_journal_in_use_is_whole_and_a_journal(file: Path) -> None:
    copy = file.with_name("copy.db")
    with Journal.open(file, ABOUT) as journal:
        journal.append(ticks("1", "2"), 0.0)
        journal.record(2, [Solve("1")])
        assert journal.last_instruction() == 1
        assert copy_journal(file, copy) == 2
        journal.append(ticks("3"), 0.0)
        assert [path.name for path in file.parent.iterdir() if "copy" in path.name] == ["copy.db"]
        with pytest.raises(InvalidFile, match=r"copy\.db: a file is there already"):
            copy_journal(file, copy)
        assert written(copy) == ticks("1", "2")
        with Journal.open(copy, ABOUT) as other:  # it is continued like any other
            assert other.identity not in {None, journal.identity}
            assert other.append(ticks("4"), 0.0) == [3]
            assert other.last_instruction() == 1
    assert written(file) == ticks("1", "2", "3")


def test_a_copy_that_cannot_be_made_leaves_nothing(file: Path) -> None:
    with pytest.raises(InvalidFile, match=r"pool\.db: cannot be read: no such file"):
        copy_journal(file, file.with_name("copy.db"))
    assert list(file.parent.iterdir()) == []
    Journal.open(file, ABOUT).close()
    with pytest.raises(InvalidFile, match=r"copy\.db: cannot be written"):
        copy_journal(file, file.parent / "nowhere" / "copy.db")
    with largest_file(2**15), pytest.raises(InvalidFile, match=r"copy\.db: cannot be written"):
        copy_journal(file, file.with_name("copy.db"))
    assert not [path.name for path in file.parent.iterdir() if "copy" in path.name]
