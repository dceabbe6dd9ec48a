"""A changed configuration keeps what was learned, what is open and where instructions stand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import corewise as cw
from corewise.errors import InvalidFile, InvalidInput
from corewise.learning.algorithms import live_algorithm
from corewise.learning.learner import infer
from corewise.live.journal.journal import Journal
from corewise.live.journal.pool_configuration import controller_of
from corewise.live.journal.replay import replayed
from corewise.live.journal.verification import verify_replay
from corewise.live.service.pool_file import load_pool
from corewise.live.state.configuration import Configuration, Options
from corewise.live.state.controller import Controller
from corewise.live.state.instructions import Solve
from corewise.observation import events as happened
from corewise.observation.event_logs import load_events
from tests.helpers.serving import POOL, service
from tests.live.test_times import LATENESS, SYSTEM, history

TRAINING, ETL = SYSTEM.classes
NEW = cw.JobClass("new", None, None, cw.Amdahl(0.5))
EVENTS = history(0.0, 7200.0, 7)
HALF = sum(at <= 3600.0 for at, _ in EVENTS)
OPTIONS = Options(lateness=LATENESS, checked=True, late_moves=True)


def seen_by(mode: happened.Mode = "steer") -> Controller:
    """A controller that has learned from an hour of jobs, and still has some."""
    made = Controller(live_algorithm(SYSTEM), lambda _: cw.Equi(), mode=mode, options=OPTIONS)
    for _, event in EVENTS[:HALF]:
        made.handle(event)
    assert made.learner.state.k > 3
    assert len(made.jobs.by_name) > 1
    return made


def configured(
    made: Controller, system: cw.System, options: Options = OPTIONS, window: int = 50
) -> list[str]:
    """Configure a controller, and return the requests to solve."""
    wanted = Configuration(live_algorithm(system, window), options)
    event = happened.PoolConfigured(made.time, f"c{made.reconfigured}", wanted.mapping)
    return [one.request for one in made.handle(event) if isinstance(one, Solve)]


def curves(made: Controller) -> dict[str, tuple[float, int]]:
    return {
        row.name: (row.parameters["p"], row.departures) for row in infer(made.inference_request()).classes
    }


@pytest.mark.parametrize(
    "system",
    [
        cw.System(16, [ETL, TRAINING]),
        cw.System(16, [TRAINING, NEW, ETL]),
        cw.System(16, [replace(TRAINING, weight=3.0), ETL]),
        cw.System(16, [TRAINING, replace(ETL, max_cores=8)]),
        cw.System(32, SYSTEM.classes),
        cw.System(8, SYSTEM.classes),
    ],
    ids=["reordered", "added", "weight", "limits", "more cores", "fewer cores"],
)
def test_what_was_learned_stays(system: cw.System) -> None:
    made, before = seen_by(), seen_by()
    (request,) = configured(made, system)
    assert request.endswith("for configuration 1")
    wanted, found = curves(before), curves(made)
    for name in SYSTEM.names:
        assert found[name][1] == wanted[name][1] > 100
        assert found[name][0] == pytest.approx(wanted[name][0], abs=2e-3)
    jobs = {job.name: (SYSTEM.names[job.job_class], job.held) for job in before.jobs}
    assert {job.name: (system.names[job.job_class], job.held) for job in made.jobs} == jobs
    books = dict(zip(system.names, made.counters, strict=True))
    assert [books[name] for name in SYSTEM.names] == before.counters
    assert made.pool == system.cores
    for _, event in EVENTS[HALF:]:  # and it goes on, with all invariants checked
        made.handle(event)
    assert curves(made)["etl"][1] > 1.5 * wanted["etl"][1]


def test_a_class_that_has_no_jobs_can_be_dropped_and_one_that_has_cannot() -> None:
    made = seen_by()
    with pytest.raises(InvalidInput, match=r"class 'training' cannot be dropped: (one job|\d+ jobs) of it"):
        configured(made, cw.System(16, [ETL]))
    for name in [job.name for job in made.jobs if job.job_class == 0]:
        made.handle(happened.JobEnded(made.time, f"end {name}", name, "lost"))
    p, seen = curves(made)["etl"]
    configured(made, cw.System(16, [ETL, NEW]))
    # Estimates of classes support each other: without training the posterior of etl moves by half an error.
    assert curves(made)["etl"][0] == pytest.approx(p, abs=0.06)
    assert curves(made)["etl"][1] == seen
    assert [book.arrived for book in made.counters][1] == 0


def test_options_alone_change_nothing_else() -> None:
    made, before = seen_by(), seen_by()
    assert configured(made, SYSTEM, replace(OPTIONS, patience=60.0, least_seen=99, lateness=10.0)) == []
    assert (made.options.patience, made.options.least_seen) == (60.0, 99)
    assert made.tally.lateness == 10.0
    assert made.options.checked
    assert made.tally.snapshot() == before.tally.snapshot()
    assert made.learner.state.k == before.learner.state.k


def test_another_guess_of_a_curve_is_no_change() -> None:
    made, guess = seen_by(), replace(TRAINING, speedup=cw.Amdahl(0.7))
    before = made.tally.snapshot()
    assert configured(made, cw.System(16, [guess, ETL])) == []
    assert made.tally.snapshot() == before


def test_limits_that_were_set_since_stay_unless_the_file_says_otherwise() -> None:
    made = seen_by()
    made.handle(happened.LimitsChanged(made.time, "l", "etl", 1, 3))
    configured(made, cw.System(16, [replace(TRAINING, weight=2.0), ETL]))
    assert made.jobs.limits == [(1, None), (1, 3)]
    configured(made, cw.System(16, [TRAINING, replace(ETL, max_cores=6)]))
    assert made.jobs.limits == [(1, None), (1, 6)]


def test_a_snapshot_has_the_configuration_that_is_in_force() -> None:
    made = seen_by()
    configured(made, cw.System(16, [ETL, NEW, TRAINING]), replace(OPTIONS, least_seen=7))
    there = made.configuration
    again = Controller.of(made.snapshot(), there.algorithm, lambda _: cw.Equi(), there.options)
    again.options = again.options.like(made.options)
    assert again.snapshot() == made.snapshot()
    for _, event in EVENTS[HALF : HALF + 2000]:
        assert again.handle(event) == made.handle(event)
    assert again.snapshot() == made.snapshot()


# --- with a journal ---------------------------------------------------------------------------------


CLASS = '[[class]]\nname = "{}"\nspeedup = {{ family = "amdahl", p = 0.5 }}\n'
CHANGES: dict[str, Callable[[str], str]] = {
    "patience": lambda text: f"{text}\n[control]\npatience = 60.0\n",
    "least_seen": lambda text: f"{text}\n[control]\nleast_seen = 30\n",
    "window": lambda text: f"{text}\n[control]\nwindow = 60\n",
    "cores": lambda text: text.replace("cores = 8", "cores = 32"),
    "guess": lambda text: text.replace("p = 0.5", "p = 0.6"),
    "added": lambda text: f"{text}\n{CLASS.format('third')}",
    "weight": lambda text: text.replace('name = "two"', 'name = "two"\nweight = 2.0'),
}


@pytest.mark.slow
def test_a_changed_pool_file_goes_on_where_the_journal_ends(tmp_path: Path) -> None:
    """`cfg.py`: each of these was refused, and the only way on was an empty journal."""
    with service(tmp_path) as running:
        client = running.client()
        for name in ("one", "two"):
            client.arrived(f"{name}-0", name)
            client.held(f"{name}-0", 2)
            client.finished(f"{name}-0")
        client.arrived("open", "one")
        last = client.instructions(0)["last"]
    for number, (label, change) in enumerate(CHANGES.items(), start=1):
        text = change(POOL)
        with service(tmp_path, text) as running:
            client = running.client()
            report, instructions = client.report(), client.instructions(0)
            assert report["responses"]["count"] == 2, label
            assert [row["job"] for row in client.allocation()["jobs"]] == ["open"]
            assert instructions["last"] >= last, label  # numbers never go back
            last = instructions["last"]
            assert report["pool"] == (32 if label == "cores" else 8)
            assert running.runtime.runner.ask(lambda seen: seen.reconfigured) == number
    with Journal.read(tmp_path / "pool.db") as journal:
        assert verify_replay(journal).refused == 0
        again = replayed(journal, lambda snapshot: controller_of(journal, snapshot))
    assert again.reconfigured == len(CHANGES)
    path = tmp_path / "last.toml"
    path.write_text(CHANGES["weight"](POOL))
    log = load_events(tmp_path / "pool.db", load_pool(path).system)
    assert log.path.departures == 2


def test_a_class_with_jobs_is_not_dropped_and_the_journal_stays_as_it_was(tmp_path: Path) -> None:
    with service(tmp_path) as running:
        running.client().arrived("a", "two")
    kept = POOL[: POOL.rindex("[[class]]")]
    dropped = pytest.raises(InvalidInput, match=r"class 'two' cannot be dropped.*PUT /v1/jobs")
    with dropped, service(tmp_path, kept):
        pass
    with service(tmp_path) as running:
        running.client().finished("a")
    with service(tmp_path, kept) as running:
        assert [row["name"] for row in running.client().report()["classes"]] == ["one"]


class OwnSchedule:
    """A schedule of its user's own."""

    def window(self, k: int) -> int:
        return 10 * k

    def __str__(self) -> str:
        return "ten more each time"


@pytest.fixture
def own() -> Configuration:
    return Configuration(replace(live_algorithm(SYSTEM), schedule=OwnSchedule()), OPTIONS)


def test_an_algorithm_of_its_users_own_goes_on_with_it_alone(tmp_path: Path, own: Configuration) -> None:
    with Journal.open(tmp_path / "pool.db", own.mapping) as journal:
        journal.append([happened.JobArrived(1.0, "a", "1", "etl")], 0.0)
        again = replayed(journal, lambda snapshot: controller_of(journal, snapshot, own))
        assert list(again.jobs.by_name) == ["1"]
        with pytest.raises(InvalidFile, match="only a program that has its algorithm"):
            replayed(journal, lambda snapshot: controller_of(journal, snapshot))
