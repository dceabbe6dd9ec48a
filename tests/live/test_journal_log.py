"""A journal as an event log: the path has the statistics that the controller's own tally has."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import corewise as cw
from benchmarks.instruments.live_stream import ABOUT, SYSTEM, stream
from corewise.cli.main import app
from corewise.errors import InvalidFile, InvalidInput
from corewise.live.journal.journal import Journal
from corewise.live.state.controller import Controller, Options
from corewise.model.files import save_system
from corewise.observation import events as happened
from corewise.observation.event_logs import load_events, save_events
from corewise.observation.sample_path import EventKind
from corewise.observation.statistics import Statistics

Table = dict[float, tuple[float, float]]
NEVER = 10**9


def journal_of(file: Path, events: list[happened.Event]) -> Path:
    with Journal.open(file, ABOUT) as journal:
        journal.append(events, 0.0)
    return file


def table_of(statistics: Statistics, name: str) -> Table:
    """Departures and job-time by width; time at width zero says nothing, and is left out."""
    seen = statistics[name]
    rows = zip(seen.widths.tolist(), seen.departures.tolist(), seen.job_time.tolist(), strict=True)
    return {width: (left, spent) for width, left, spent in rows if width and (left or spent)}


def tallied(events: list[happened.Event]) -> Statistics:
    """What the tally of a controller says that never closes a window, once nothing is under way any more."""
    options = Options(lateness=1.0)
    controller = Controller(cw.algorithm_1b(SYSTEM, departures=NEVER), lambda _: cw.Equi(), options=options)
    for event in events:
        try:
            controller.handle(event)
        except InvalidInput:
            continue
    controller.tally.lateness = 0.0
    controller.tally.move_to(controller.time)
    return controller.tally.close()


def random_history(rng: np.random.Generator, count: int) -> list[happened.Event]:
    """Events of all kinds and of careless senders: late ones, of jobs that are not there, there already."""
    events: list[happened.Event] = []
    chances = {"job-arrived": 25, "job-present": 3, "cores-held": 40, "progress": 4, "job-finished": 20}
    chances |= {"job-ended": 4, "pool-changed": 2, "tick": 2}
    kinds = rng.choice(list(chances), count, p=np.array(list(chances.values())) / 100.0)
    times = 5.0 + np.cumsum(rng.exponential(0.3, count)) - (rng.random(count) < 0.1)
    for k, (kind, time) in enumerate(zip(kinds.tolist(), times.tolist(), strict=True)):
        least, cores = (None if k % 3 else 15), int(rng.integers(0, 4))
        job_class = str(rng.choice(["small", "large", "medium"], p=[0.48, 0.48, 0.04]))
        about_job = {"job": f"job {rng.integers(12)}"}
        more: dict[str, dict[str, object]] = {
            "job-arrived": {**about_job, "job_class": job_class, "least": least},
            "job-present": {**about_job, "job_class": job_class, "held": cores},
            "cores-held": {**about_job, "cores": cores, "paused": float(rng.choice([0.0, 0.4]))},
            "progress": {**about_job, "amount": 1.0},
            "job-finished": {**about_job},
            "job-ended": {**about_job, "why": "failed"},
            "pool-changed": {"cores": 10 + k % 11},
            "tick": {},
        }
        events.append(happened.event_from_mapping({"kind": kind, "time": time, "id": str(k), **more[kind]}))
    return events


@pytest.mark.parametrize("seed", range(5))
def test_the_path_of_a_journal_has_the_statistics_of_the_controller(tmp_path: Path, seed: int) -> None:
    events = random_history(np.random.default_rng(seed), 400)
    log = load_events(journal_of(tmp_path / "pool.db", events), SYSTEM)
    own, expected = Statistics.of(log.path), tallied(events)
    assert (log.rows, log.skipped) == (400, 0)
    assert log.path.per_job
    for name in SYSTEM.names:
        assert own[name].arrivals == expected[name].arrivals > 10
        found, wanted = table_of(own, name), table_of(expected, name)
        assert {z: left for z, (left, _) in found.items()} == {z: left for z, (left, _) in wanted.items()}
        for width, (_, spent) in wanted.items():
            assert found[width][1] == pytest.approx(spent, rel=1e-9)


def test_every_rule_in_one_small_journal(tmp_path: Path) -> None:
    """By hand: 2 pauses 0.5 of its 3 on four cores; 3 finishes with none; 4 fails; 5 was there before."""
    events = [
        happened.JobArrived(1.0, "a", "2", "small"),
        happened.CoresHeld(1.0, "b", "2", 4),
        happened.JobFinished(1.5, "c", "nobody"),
        happened.JobArrived(2.0, "d", "3", "small"),
        happened.CoresHeld(2.0, "e", "3", 2),
        happened.JobPresent(3.0, "f", "5", "large", 3),
        happened.CoresHeld(4.0, "g", "2", 20, 0.5),
        happened.CoresHeld(4.0, "h", "3", 0),
        happened.JobFinished(5.0, "i", "3"),
        happened.JobArrived(5.0, "j", "4", "large"),
        happened.CoresHeld(4.0, "k", "4", 1),  # late: it counts from 5 on
        happened.JobEnded(7.0, "l", "4", "failed"),
        happened.JobFinished(8.0, "m", "2"),
        happened.JobArrived(8.0, "n", "2", "small"),  # the name again, another job
        happened.JobFinished(9.0, "o", "2"),  # it never held a core
        happened.Tick(10.0, "p"),
    ]
    path = load_events(journal_of(tmp_path / "pool.db", events), SYSTEM).path
    seen = Statistics.of(path)
    assert (path.start, path.end, path.pool) == (1.0, 10.0, 25.0)  # for a moment 20 + 2 + 3 are held
    assert table_of(seen, "small") == {4.0: (0.0, 2.5), 2.0: (1.0, 2.0), 20.0: (1.0, 4.0)}
    assert table_of(seen, "large") == {3.0: (0.0, 7.0), 1.0: (0.0, 2.0)}
    assert (seen["small"].arrivals, seen["large"].arrivals) == (3, 1)


def test_a_log_can_be_written_of_it_and_of_a_pool_that_runs(tmp_path: Path) -> None:
    with Journal.open(tmp_path / "pool.db", ABOUT) as journal:
        journal.append(random_history(np.random.default_rng(1), 100), 0.0)
        path = load_events(tmp_path / "pool.db", SYSTEM).path
        save_events(path, tmp_path / "log.csv")
        again = load_events(tmp_path / "log.csv", cw.System(path.pool, SYSTEM.classes)).path
    for column in ("time", "event", "job_class", "job", "cores"):
        assert np.array_equal(getattr(again, column), getattr(path, column), equal_nan=column == "cores")
    assert path.event[0] == EventKind.START
    assert math.isclose(path.duration, path.end - path.start)


def test_what_is_no_journal_of_the_system_is_refused(tmp_path: Path) -> None:
    other = cw.System(16, [cw.JobClass("medium", 1.0, 1.0, cw.Amdahl(0.5))])
    file = journal_of(tmp_path / "pool.db", [happened.Tick(0.0, "1")])
    with pytest.raises(
        InvalidFile, match=r"pool\.db is a journal of classes small, large; the system has medium"
    ):
        load_events(file, other)
    assert load_events(file, SYSTEM).path.departures == 0
    empty = journal_of(tmp_path / "empty.db", [])
    with pytest.raises(InvalidFile, match=r"empty\.db: no events"):
        load_events(empty, SYSTEM)
    cut = tmp_path / "cut.db"
    cut.write_bytes(file.read_bytes()[:1000])
    with pytest.raises(InvalidFile, match=r"cut\.db"):
        load_events(cut, SYSTEM)


def test_a_journal_is_estimated_from_with_the_pool_file_of_its_service(tmp_path: Path) -> None:
    journal = journal_of(tmp_path / "pool.db", stream(120, 3))
    save_system(SYSTEM, tmp_path / "system.toml")
    text = (tmp_path / "system.toml").read_text()
    control = '[control]\npatience = 60.0\nleast_seen = 5\n\n[service]\nhosts = ["pool.example.org"]\n'
    (tmp_path / "pool.toml").write_text(f"{text}\n{control}")
    answers = []
    for name in ("system.toml", "pool.toml"):
        done = CliRunner().invoke(app, ["estimate", str(tmp_path / name), str(journal), "--json"])
        assert done.exit_code == 0, done.output
        answers.append(json.loads(done.stdout)["classes"])
    assert answers[0] == answers[1]
    (tmp_path / "wrong.toml").write_text(f"{text}\n{control.replace('patience', 'patienc')}")
    for verb, name, said in (
        ("estimate", "wrong.toml", "control: unknown key 'patienc'; did you mean 'patience'?"),
        (
            "solve",
            "pool.toml",
            "[control] is of a pool file, which corewise serve and corewise estimate read",
        ),
    ):
        done = CliRunner().invoke(app, [verb, str(tmp_path / name), *([str(journal)] * (verb == "estimate"))])
        assert done.exit_code == 2
        assert said in done.stderr
        assert done.stderr.count("\n") == 1


def test_verbs_read_a_journal_as_the_log_it_is(tmp_path: Path) -> None:
    file = journal_of(tmp_path / "pool.db", stream(120, 3))
    save_events(load_events(file, SYSTEM).path, tmp_path / "log.csv")
    save_system(SYSTEM, tmp_path / "system.toml")
    toml = str(tmp_path / "system.toml")
    for verb in (["estimate", toml], ["learn", toml, "--departures", "50", "--json", "--events"]):
        answers = []
        for name in ("pool.db", "log.csv"):
            done = CliRunner().invoke(app, [*verb, str(tmp_path / name), "--json"])
            assert done.exit_code == 0, done.output
            answer = json.loads(done.stdout)
            answers.append({key: answer[key] for key in ("classes", "departures", "epochs") if key in answer})
        assert len(answers[0]) == (2 if "estimate" in verb else 1)
        assert answers[0] == answers[1]
