"""The verbs `corewise live …`: what people and machines see, and what is refused."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from time import sleep
from typing import Any

import pytest
from typer.testing import CliRunner

import corewise as cw
from corewise.cli.live.view import View, picture
from corewise.cli.main import app
from corewise.learning.algorithms import live_algorithm
from corewise.live.demo import demonstration
from corewise.live.demo.backends import BACKENDS, Backend
from corewise.live.engines.base import Holding, Rounds
from corewise.live.engines.executor import ExecutorEngine
from corewise.live.journal.journal import Journal
from corewise.live.state.configuration import Configuration
from corewise.live.state.controller import Options
from corewise.observation.events import JobArrived, JobFinished
from tests.helpers.live_pools import solve_in_a_thread

CLASSES = [
    cw.JobClass("etl", arrival_rate=1.0, size_rate=2.0, speedup=cw.Amdahl(0.5)),
    cw.JobClass("training", arrival_rate=1.0, size_rate=2.0, speedup=cw.Amdahl(0.5)),
]


@pytest.fixture(autouse=True)
def _in_an_empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    solve_in_a_thread(monkeypatch)


def succeed(*arguments: str) -> str:
    result = CliRunner().invoke(app, ("live", *arguments))
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    return result.stdout


def fail(*arguments: str) -> str:
    result = CliRunner().invoke(app, ("live", *arguments))
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    return result.stderr


def as_json(*arguments: str) -> dict[str, Any]:
    value = json.loads(succeed(*arguments, "--json"), parse_constant=pytest.fail)
    assert isinstance(value, dict)
    return value


# --- journals ---------------------------------------------------------------------------------


def rounds(job: Holding, go: threading.Event) -> Rounds:
    yield [partial(sleep, 0.001)] * job.cores
    yield [go.wait]


@pytest.fixture(scope="module")
def running() -> Iterator[tuple[Path, cw.LivePool]]:
    """A pool that has its journal open: two jobs are done, `etl-3` and a job named `big` are not."""
    import tempfile

    go = threading.Event()
    go.set()
    stay = threading.Event()
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        solve_in_a_thread(patch)
        path = Path(folder) / "pool.db"
        engine = ExecutorEngine(ThreadPoolExecutor(4))
        with cw.LivePool(CLASSES, engine, path, options=Options(least_seen=7)) as pool:
            for name in ("etl", "training"):
                pool.run(name, rounds, go).result()
            pool.run("etl", rounds, stay, most=2)
            pool.run("training", rounds, stay, name="big", least=2)
            for _ in range(200):
                if pool.report().held == 4:
                    break
                sleep(0.01)
            try:
                yield path, pool
            finally:
                stay.set()


@pytest.fixture
def journal(running: tuple[Path, cw.LivePool]) -> str:
    return str(running[0])


def test_status_is_what_the_pool_says_itself(journal: str, running: tuple[Path, cw.LivePool]) -> None:
    told = as_json("status", journal)
    own = running[1].report().as_mapping()
    assert told.pop("events") > 10
    assert {**told, "time": 0.0} == {**own, "time": 0.0}
    shown = succeed("status", journal)
    assert "steer: 4 of 4 cores held by 2 jobs" in shown
    assert "training" in shown
    assert "not adopted: 2 of 50 departures of the first window" in shown


def test_explain_says_why(journal: str, running: tuple[Path, cw.LivePool]) -> None:
    assert succeed("explain", journal, "big").strip() == str(running[1].explain("big"))
    told = as_json("explain", journal, "etl-3")
    assert (told["job"], told["job_class"], told["held"]) == ("etl-3", "etl", 2)
    assert "no job 'bug' is there; did you mean 'big'?" in fail("explain", journal, "bug")
    assert "job 'etl-1' is not there any more: it finished at " in fail("explain", journal, "etl-1")


def test_a_backup_is_made_while_the_pool_runs_and_overwrites_nothing(
    journal: str, running: tuple[Path, cw.LivePool]
) -> None:
    events = as_json("status", journal)["events"]
    assert as_json("backup", journal, "copy.db") == {"journal": journal, "to": "copy.db", "events": events}
    assert as_json("status", "copy.db") == as_json("status", journal)
    assert succeed("backup", journal, "copy2.db") == f"copy2.db: a copy of {journal}, {events} events\n"
    assert sorted(path.name for path in Path().iterdir() if "copy" in path.name and "-" not in path.name) == [
        "copy.db",
        "copy2.db",
    ]
    assert "copy.db: a file is there already, and a backup overwrites nothing" in fail(
        "backup", journal, "copy.db"
    )
    assert "nowhere.db: cannot be read: no such file" in fail("backup", "nowhere.db", "other.db")
    assert "cannot be written: no such file" in fail("backup", journal, "nowhere/copy.db")
    Path("text.db").write_text("no journal")
    assert "text.db is not a journal" in fail("backup", "text.db", "other.db")
    with pytest.raises(cw.errors.InvalidFile, match="another pool has this journal open"):
        cw.LivePool(CLASSES, ExecutorEngine(ThreadPoolExecutor(4)), journal, options=Options(least_seen=7))
    with cw.LivePool(
        CLASSES, ExecutorEngine(ThreadPoolExecutor(4)), "copy.db", options=Options(least_seen=7)
    ) as pool:  # it is continued like any other
        assert pool.report().classes[0].finished == running[1].report().classes[0].finished


def test_events_come_in_order_from_where_they_are_asked_for(journal: str) -> None:
    rows = [json.loads(line) for line in succeed("events", journal, "--json").splitlines()]
    assert [row["seq"] for row in rows] == list(range(1, len(rows) + 1))
    assert [row["job"] for row in rows if row["kind"] == "job-arrived"] == [
        "etl-1",
        "training-2",
        "etl-3",
        "big",
    ]
    later = [json.loads(line) for line in succeed("events", journal, "--json", "--since", "5").splitlines()]
    assert later == rows[5:]
    last = succeed("events", journal, "--since", "-2").splitlines()
    assert [int(line.split()[0]) for line in last] == [row["seq"] for row in rows[-2:]]
    assert "job-arrived     job etl-1  job_class etl" in succeed("events", journal)


def test_events_are_followed(running: tuple[Path, cw.LivePool], monkeypatch: pytest.MonkeyPatch) -> None:
    path, pool = running
    looks = 0

    def look(_seconds: float) -> None:
        nonlocal looks
        looks += 1
        if looks == 1:
            pool.set_limits("etl", 1, 3)
        else:
            raise KeyboardInterrupt

    monkeypatch.setattr("corewise.cli.live.events.time.sleep", look)
    result = CliRunner().invoke(app, ("live", "events", str(path), "--since", "-1", "--follow"))
    assert result.exit_code == 130
    assert "limits-changed" in result.stdout.splitlines()[-1]
    assert len(result.stdout.splitlines()) >= 2
    pool.set_limits("etl")


def test_times_are_dates_where_the_clock_is_that_of_the_world(monkeypatch: pytest.MonkeyPatch) -> None:
    """The journal of a service: a job of 2 h 5 min, and a look at it 90 s later; JSON has plain numbers."""
    began = datetime(2026, 11, 18, tzinfo=UTC).timestamp()
    ended = began + 7505.25
    about = {**Configuration(live_algorithm(cw.System(4, CLASSES))).mapping, "opened": began}
    with closing(Journal.open("service.db", about)) as to:
        to.append([JobArrived(began + 1.0, "a", "etl-1", "etl"), JobFinished(ended, "b", "etl-1")], began)
    monkeypatch.setattr("corewise.cli.live.status.time.time", lambda: ended + 90.0)
    shown = succeed("status", "service.db").splitlines()
    assert shown[0] == "service.db: 2 events, the last one 1 min 30 s ago"
    assert shown[1] == "at 2026-11-18 02:05:05 UTC, watch: 0 of 4 cores held by 0 jobs"
    assert shown[2].startswith("  policy ")
    assert shown[2].endswith(" equi in force since 2026-11-18 00:00:00 UTC, for 2 h 5 min")
    assert as_json("status", "service.db")["time"] == ended
    rows = succeed("events", "service.db").splitlines()
    assert rows[1].split(maxsplit=1)[1] == "2026-11-18 02:05:05.250 UTC  job-finished    job etl-1"
    assert json.loads(succeed("events", "service.db", "--json").splitlines()[1])["time"] == ended
    assert "it finished at 2026-11-18 02:05:05 UTC" in fail("explain", "service.db", "etl-1")


def test_times_are_seconds_where_the_clock_starts_at_zero(journal: str) -> None:
    events, heading, policy = succeed("status", journal).splitlines()[:3]
    assert events.endswith(" events")
    assert re.match(r"at \d+\.\d s, steer: 4 of 4 cores held by 2 jobs$", heading)
    assert re.match(r" +policy +equi in force since 0\.0 s$", policy)
    assert re.match(r" +1 +\d+\.\d{3} s  mode-changed ", succeed("events", journal).splitlines()[0])


def test_a_replay_proves_it(journal: str) -> None:
    told = as_json("replay", journal)
    assert told["events"] > 10
    assert told["instructions"] + told["missing"] > 3
    assert len(told["state"]) == 64
    assert "the same state and the same instructions" in succeed("replay", journal)


def copied(journal: str) -> sqlite3.Connection:
    """A copy of the journal that can be spoiled, as spoiled.db."""
    shutil.copy(journal, "spoiled.db")
    for ending in ("-wal", "-shm"):
        if Path(journal + ending).exists():
            shutil.copy(journal + ending, "spoiled.db" + ending)
    return sqlite3.connect("spoiled.db")


def test_a_replay_finds_what_was_tampered_with(journal: str) -> None:
    with copied(journal) as to:
        seq, body = to.execute("SELECT seq, body FROM instruction ORDER BY seq LIMIT 1").fetchone()
        to.execute(
            "UPDATE instruction SET body = ? WHERE seq = ?", (body.replace('"cores": 4', '"cores": 3'), seq)
        )
    to.close()
    assert "event 2 leads to other instructions" in fail("replay", "spoiled.db")


def test_an_algorithm_of_ones_own_is_not_made_up(journal: str) -> None:
    with copied(journal) as to:
        to.execute("UPDATE about SET value = 'null' WHERE key = 'recipe'")
    to.close()
    assert "only a program that has its algorithm can go on" in fail("status", "spoiled.db")
    with sqlite3.connect("spoiled.db") as to:
        to.execute("DELETE FROM about WHERE key = 'recipe'")
    to.close()
    assert "a pool cannot be made of its configuration" in fail("replay", "spoiled.db")


@pytest.mark.parametrize("verb", [["status"], ["replay"], ["events"], ["explain", "JOURNAL", "job"]])
def test_what_is_no_journal_is_refused(verb: list[str], journal: str) -> None:
    def on(name: str) -> str:
        return fail(verb[0], name, *verb[2:])

    assert "none.db: cannot be read: no such file or directory" in on("none.db")
    Path("text.db").write_text("cores = 4\n" * 100)
    assert "text.db is not a journal of corewise" in on("text.db")
    with copied(journal) as to:
        to.execute("UPDATE about SET value = '\"corewise journal 9\"' WHERE key = 'format'")
    to.close()
    assert "has the format 'corewise journal 9', not 'corewise journal 1'" in on("spoiled.db")
    assert "cannot be read: is a directory" in on(".").lower()


def test_bad_numbers_are_refused(journal: str) -> None:
    assert "--since must be a whole number, got 'x'" in fail("events", journal, "--since", "x")
    assert "--seconds must be a finite number, got 'long'" in fail("demo", "--seconds", "long")
    assert "seconds must be positive" in fail("demo", "--seconds", "0")
    assert "--seed must be a whole number" in fail("demo", "--seed", "1.5")
    assert "engine must be one of threads, dask, ray, got 'thread'; did you mean" in fail(
        "demo", "--engine", "thread"
    )
    assert "a figure must end in .png" in fail("demo", "--plot", "a.gif")


# --- the demonstration ------------------------------------------------------------------------


@pytest.fixture
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = Backend("threads", BACKENDS["threads"].make, mean_size=0.2, rounds=4)
    monkeypatch.setattr(demonstration, "backend_named", lambda _name: backend)


@pytest.mark.usefixtures("_short")
def test_a_demonstration_says_what_came_of_it() -> None:
    told = as_json("demo", "--seconds", "0.5", "--seed", "3")
    assert {"engine", "jobs", "equi", "corewise", "gain", "gain_interval", "truth", "seed"} <= set(told)
    assert (told["engine"], told["seed"]) == ("threads", 3)
    shown = succeed("demo", "--seconds", "0.5", "--seed", "3", "--plot", "demo.png")
    assert f"The same {told['jobs']} jobs on two pools of 16 workers (threads), arriving for 0.5 s" in shown
    assert "emulated by sleeping" in shown
    assert "the truth is 0.95" in shown
    assert shown.rstrip().endswith("Wrote the plot to demo.png.")
    assert Path("demo.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.usefixtures("_short")
def test_the_picture_shows_both_pools_and_what_is_learned(capsys: pytest.CaptureFixture[str]) -> None:
    from rich.console import Console

    found = demonstration.demonstrate("threads", 0.5, rng=3)
    console = Console(width=110)
    with console.capture() as captured:
        console.print(picture(found.history[0], "threads", 0.5))
    shown = captured.get()
    for word in ("EQUI: cores", "corewise: cores", "etl", "training", "all", "p of etl", "not known yet"):
        assert word in shown
    assert len({len(line.rstrip()) <= 110 for line in shown.splitlines()}) == 1
    with View("threads", 0.5) as view:
        view._spoken = -100.0
        view.show(found.history[-1])
    assert "less time so far" in capsys.readouterr().err


# --- the doctor -------------------------------------------------------------------------------


def test_the_doctor_measures_what_is_here(tmp_path: Path) -> None:
    told = as_json("doctor", "--at", str(tmp_path))
    rows = {row["name"]: row for row in told["engines"]}
    assert list(rows) == ["threads", "processes", "dask", "ray"]
    for name in ("threads", "processes"):
        assert rows[name]["least_round"] == pytest.approx(50.0 * rows[name]["latency"])
        assert 0.0 < rows[name]["latency"] < 60.0
    assert rows["dask"]["latency"] is None
    assert rows["dask"]["version"]
    assert told["journal"] == {"directory": str(tmp_path.resolve()), "sync": told["journal"]["sync"]}
    assert 1 <= told["usable"] <= told["cores"]
    assert "did you mean 'dask'" in fail("doctor", "--engine", "dsk")
    assert "a journal cannot be written there" in fail("doctor", "--at", "nowhere")
    assert not list(tmp_path.iterdir())
