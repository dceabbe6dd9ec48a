"""Reconciliation with everything that runs, and moves that cannot be made."""

from __future__ import annotations

import random
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import corewise as cw
from corewise.errors import InvalidInput
from corewise.learning.algorithms import live_algorithm
from corewise.live.journal.journal import Journal
from corewise.live.journal.verification import verify_replay
from corewise.live.state.controller import Controller, Options
from corewise.live.state.instructions import Alert, SetCores
from corewise.live.state.job_table import PoolJob
from corewise.live.state.reconcile import ListedJob, reconciling_events
from corewise.observation import events as happened
from tests.helpers.serving import service

SYSTEM = cw.System(16, [cw.JobClass(name, None, None, cw.Amdahl(0.5)) for name in ("one", "two")])


class Steered:
    """A controller whose jobs do as they are told, or not."""

    def __init__(self) -> None:
        options = Options(late_moves=True, lateness=300.0, checked=True, patience=30.0)
        self.controller = Controller(
            live_algorithm(SYSTEM), lambda _: cw.Equi(), mode="steer", options=options
        )
        self.ids = map(str, count())

    def tell(self, kind: type[happened.Event], time: float, *values: Any) -> dict[str, int]:
        """Report an event, and return who is told to hold what."""
        made = self.controller.handle(kind(time, next(self.ids), *values))
        return {one.job: one.cores for one in made if isinstance(one, SetCores)}

    @property
    def alerts(self) -> list[str]:
        return [alert.text for alert in self.controller.alerts]


def test_a_refused_start_frees_its_cores_and_is_offered_again() -> None:
    """`docex.py`: x was told 16 cores for ever, y nothing, and all cores were idle."""
    pool = Steered()
    assert pool.tell(happened.JobArrived, 0.0, "x", "two") == {"x": 16}
    assert pool.tell(happened.MoveRefused, 1.0, "x", 16, "node is rebooting") == {}
    assert pool.tell(happened.JobArrived, 2.0, "y", "two") == {"y": 16}
    pool.tell(happened.CoresHeld, 2.0, "y", 16)
    assert "its start was refused, and is tried again in 9 s" in pool.controller.explain("x").text
    assert pool.controller.due == 11.0
    assert pool.tell(happened.Tick, 11.5) == {"y": 8}  # and what it gives up is for x
    assert pool.tell(happened.CoresHeld, 12.0, "y", 8) == {"x": 8}
    assert pool.tell(happened.MoveRefused, 12.0, "x", 8, "node is rebooting") == {"y": 16}
    assert pool.controller.due == 32.0  # twice as long


def test_a_start_for_which_fewer_cores_would_fit_is_made_with_those() -> None:
    pool = Steered()
    pool.tell(happened.JobArrived, 0.0, "x", "two")
    assert pool.tell(happened.MoveRefused, 1.0, "x", 16, "two are broken", 14) == {"x": 14}


def test_a_start_that_is_refused_for_ever_does_not_keep_the_pool_busy() -> None:
    """Between two offers there is nothing to do: ticks of every second lead to some ten offers an hour."""
    pool, offers = Steered(), 0
    pool.tell(happened.JobArrived, 0.0, "x", "two")
    pool.tell(happened.MoveRefused, 0.5, "x", 16, "never")
    for second in range(1, 3600):
        if pool.tell(happened.Tick, float(second)):
            offers += 1
            pool.tell(happened.MoveRefused, second + 0.5, "x", 16, "never")
    assert 5 <= offers <= 20


def test_more_cores_held_than_there_are_is_an_alert_at_once_and_once() -> None:
    pool = Steered()
    pool.tell(happened.JobArrived, 0.0, "x", "two")
    pool.tell(happened.CoresHeld, 1.0, "x", 1000)
    assert pool.alerts == ["1000 cores are held, and the pool has 16: job 'x' reports that it holds 1000"]
    pool.tell(happened.CoresHeld, 2.0, "x", 1001)
    pool.tell(happened.CoresHeld, 3.0, "x", 16)
    pool.tell(happened.CoresHeld, 4.0, "x", 17)
    assert len(pool.alerts) == 1
    pool.tell(happened.CoresHeld, 3700.0, "x", 18)
    assert len(pool.alerts) == 2


# --- reconciliation ---------------------------------------------------------------------------------


def test_what_is_not_listed_is_lost_what_was_not_known_is_present_the_rest_is_put_right() -> None:
    pool = Steered()
    for name, time in (("ghost", 0.0), ("kept", 0.0), ("young", 50.0), ("late", 0.0)):
        pool.tell(happened.JobArrived, time, name, "one")
    pool.tell(happened.CoresHeld, 45.0, "late", 3)
    listed = [ListedJob("kept", "one", 5), ListedJob("late", "one", 1), ListedJob("new", "two", 2, 1, 4)]
    events = reconciling_events(pool.controller, listed, 40.0, pool.ids)
    assert [(event.kind, event.time) for event in events] == [
        ("job-ended", 40.0),
        ("cores-held", 40.0),
        ("job-present", 40.0),
    ]
    for event in events:
        pool.controller.handle(event)
    held = {job.name: job.held for job in pool.controller.jobs}
    assert held == {"kept": 5, "young": 0, "late": 3, "new": 2}
    assert reconciling_events(pool.controller, [*listed, ListedJob("young", "one", 0)], 40.0, pool.ids) == []


def test_a_list_that_contradicts_itself_or_the_classes_is_refused() -> None:
    pool = Steered()
    pool.tell(happened.JobArrived, 0.0, "a", "one")
    twice = [ListedJob("a", "one", 1), ListedJob("a", "one", 1)]
    with pytest.raises(InvalidInput, match="job 'a' is listed twice"):
        reconciling_events(pool.controller, twice, 1.0, pool.ids)
    with pytest.raises(InvalidInput, match="job 'a' is of class 'one', and is listed as 'two'"):
        reconciling_events(pool.controller, [ListedJob("a", "two", 1)], 1.0, pool.ids)


def test_a_scheduler_reconciles_over_the_wire(tmp_path: Path) -> None:
    with service(tmp_path) as running:
        client = running.client()
        for name in ("ghost", "kept"):
            client.arrived(name, "one")
        answer = client.reconcile(
            [{"job": "kept", "job_class": "one", "cores": 2}, {"job": "new", "job_class": "two", "cores": 3}]
        )
        assert (answer["ended"], answer["present"], answer["resized"]) == (["ghost"], ["new"], ["kept"])
        assert {row["job"] for row in answer["instructions"]} <= {"kept", "new"}
        assert answer["last"] == client.instructions(0)["last"]
        rows = client.allocation()["jobs"]
        assert [(row["job"], row["held"]) for row in rows] == [("kept", 2), ("new", 3)]
        token, before = running.token, client.report()["jobs"]
        job: dict[str, object] = {"job": "a", "job_class": "one", "cores": 1}
        for body, status, text in (
            ({"jobs": [job, job]}, 409, "job 'a' is listed twice"),
            ({"jobs": [{**job, "job_class": "three"}]}, 409, "three"),
            ({"jobs": [{**job, "cores": -1}]}, 422, "-1"),
            ({"jobs": [], "time": 0.0}, 422, "behind the clock here"),
            ({"jobs": 3}, 422, "jobs"),
            ({}, 422, "jobs"),
        ):
            found, _, problem = running.ask("PUT", "/v1/jobs", body, token=token)
            assert (found, text in str(problem)) == (status, True), problem
        assert running.ask("PUT", "/v1/jobs", {"jobs": []})[0] == 401
        assert client.report()["jobs"] == before  # nothing was half taken in
    with Journal.read(tmp_path / "pool.db") as journal:
        assert verify_replay(journal).refused == 0


def test_ids_and_times_on_the_wire(tmp_path: Path) -> None:
    """`odd.py`: an id used again lost an event with 200; `"time": 0` made a mean of 28 years."""
    with service(tmp_path) as running:
        token = running.token

        def post(**event: object) -> tuple[int, Any]:
            status, _, answer = running.ask("POST", "/v1/events", event, token=token)
            return status, answer

        arrived = {"kind": "job-arrived", "id": "SAME", "job": "z1", "job_class": "one"}
        assert post(**arrived)[0] == 200
        assert post(**arrived)[1]["duplicates"] == 1  # undated: it is received at another time
        status, problem = post(**{**arrived, "job": "z2"})
        assert status == 409
        assert (
            "'SAME' was used before for another event: its job was 'z1', now it is 'z2'" in problem["detail"]
        )
        status, problem = post(**{**arrived, "id": "old", "job": "z3", "time": 0})
        assert status == 422
        assert "behind the clock here" in problem["detail"]
        batch = [{**arrived, "id": "b", "job": "b1"}, {**arrived, "id": "b", "job": "b2"}]
        status, _, problem = running.ask("POST", "/v1/events", batch, token=token)
        assert (status, "event 2 of 2" in problem["detail"]) == (409, True)
        assert running.client().report()["jobs"] == 1


def test_a_batch_shares_cores_once(tmp_path: Path) -> None:
    with service(tmp_path) as running:
        batch = [{"kind": "job-arrived", "id": f"a{k}", "job": f"j{k}", "job_class": "one"} for k in range(8)]
        answer = running.ask("POST", "/v1/events", batch, token=running.token)[2]
        told = [(row["job"], row["cores"]) for row in answer["instructions"]]
        assert told == [(f"j{k}", 1) for k in range(8)]  # the first was not told 8, then 4, then 2
    with Journal.read(tmp_path / "pool.db") as journal:
        assert verify_replay(journal).missing == 0


def test_alerts_of_jobs_are_given_to_the_sender(tmp_path: Path) -> None:
    with service(tmp_path) as running:
        client = running.client()
        answer = client.finished("nobody")
        (alert,) = answer["instructions"]
        assert alert["kind"] == Alert.kind
        assert "no job 'nobody' is there yet" in alert["text"]
        assert client.arrived("nobody", "one")["instructions"] == []  # it has come and gone


# --- instructions that cross with answers -----------------------------------------------------------


def test_a_refusal_of_an_earlier_instruction_does_not_cancel_a_later_one() -> None:
    pool = Steered()
    pool.tell(happened.JobArrived, 0.0, "a", "one")
    pool.tell(happened.CoresHeld, 1.0, "a", 16)
    pool.tell(happened.JobArrived, 2.0, "x", "one")
    pool.tell(happened.CoresHeld, 3.0, "a", 8)  # x is told 8
    pool.tell(happened.JobArrived, 4.0, "b", "one")  # and fewer
    pool.tell(happened.JobFinished, 5.0, "b")  # and 8 again: under way
    assert pool.tell(happened.MoveRefused, 6.0, "x", 8, "busy") == {}  # the first 8
    assert pool.controller.jobs.by_name["x"].assigned == 8


def told_8_16_and_8() -> Steered:
    """A pool whose job a holds 16 cores, and has three instructions under way; job c waits."""
    pool = Steered()
    pool.tell(happened.JobArrived, 0.0, "a", "one")
    pool.tell(happened.CoresHeld, 1.0, "a", 16)
    assert pool.tell(happened.JobArrived, 2.0, "b", "one") == {"a": 8}
    assert pool.tell(happened.JobEnded, 3.0, "b", "cancelled") == {"a": 16}
    assert pool.tell(happened.JobArrived, 4.0, "c", "one") == {"a": 8}
    return pool


def test_an_answer_to_an_earlier_instruction_leaves_later_ones_under_way() -> None:
    pool = told_8_16_and_8()
    assert pool.tell(happened.CoresHeld, 5.0, "a", 8) == {}  # the first 8: it may yet take 16
    assert pool.tell(happened.CoresHeld, 6.0, "a", 16) == {}
    assert pool.tell(happened.CoresHeld, 7.0, "a", 8) == {"c": 8}
    told = pool.controller.jobs.by_name["a"].generation
    with pytest.raises(InvalidInput, match=f"generation {told + 1} of job 'a', whose last .* number {told}"):
        pool.tell(happened.CoresHeld, 8.0, "a", 8, 0.0, told + 1)


def test_an_answer_that_names_the_last_instruction_answers_all() -> None:
    pool = told_8_16_and_8()
    last = pool.controller.jobs.by_name["a"].generation
    assert pool.tell(happened.CoresHeld, 5.0, "a", 8, 0.0, last) == {"c": 8}


def test_what_was_taken_back_and_never_carried_out_is_free_after_a_while() -> None:
    pool = told_8_16_and_8()
    pool.tell(happened.CoresHeld, 5.0, "a", 8)  # it skips what was overtaken, and does not say so
    assert pool.tell(happened.Tick, 40.0) == {}
    assert pool.tell(happened.Tick, 70.0) == {"c": 8}  # twice the patience later


def test_a_job_that_refuses_to_shrink_keeps_its_cores() -> None:
    """It was told to hold none, as its least did not fit any more."""
    pool = Steered()
    pool.tell(happened.JobArrived, 0.0, "a", "one")
    pool.tell(happened.CoresHeld, 1.0, "a", 16)
    assert pool.tell(happened.JobArrived, 2.0, "b", "one") == {"a": 8}
    assert pool.tell(happened.MoveRefused, 3.0, "a", 8, "no checkpoint now") == {"a": 16}
    assert pool.tell(happened.JobArrived, 4.0, "c", "two") == {}
    assert pool.tell(happened.JobFinished, 5.0, "a") == {"b": 8, "c": 8}


def most_held(seed: int, *, named: bool) -> int:
    """The most cores held by schedulers that carry out instructions in order, after any time, or refuse them.

    Answers are under way for some time, too; `named` ones say which instruction they answer.
    """
    rng, pool, held, most = random.Random(seed), Steered(), dict[str, int](), 0
    told: dict[str, list[SetCores]] = {}
    answers: list[tuple[str, happened.Event]] = []
    names = count()

    def report(event: happened.Event) -> None:
        for one in pool.controller.handle(event):
            if isinstance(one, SetCores) and one.job in told:
                told[one.job].append(one)

    for step in range(3000):
        time = 0.01 * step
        match rng.choices(["come", "go", "follow", "answer"], [1, 1, 4, 4])[0]:
            case "come" if len(held) < 8:
                name = f"j{next(names)}"
                held[name], told[name] = 0, []
                report(happened.JobArrived(time, next(pool.ids), name, rng.choice(["one", "two"])))
            case "go" if held and not answers:
                name = rng.choice(list(held))
                del held[name], told[name]
                report(happened.JobFinished(time, next(pool.ids), name))
            case "follow" if any(told.values()):
                name = rng.choice([name for name, rows in told.items() if rows])
                one = told[name].pop(0)
                generation = one.generation if named else None
                if one.cores != held[name] and rng.random() < 0.1:
                    refusal = happened.MoveRefused(
                        time, next(pool.ids), name, one.cores, "no", None, generation
                    )
                    answers.append((name, refusal))
                else:
                    held[name] = one.cores
                    most = max(most, sum(held.values()))
                    now = happened.CoresHeld(time, next(pool.ids), name, one.cores, 0.0, generation)
                    answers.append((name, now))
            case "answer" if answers:
                name, event = answers.pop(0)
                if name in held:
                    report(event)
            case _:
                pass
    return most


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("seed", range(6))
def test_schedulers_that_are_late_and_refuse_never_hold_more_than_there_is(seed: int, named: bool) -> None:
    assert most_held(seed, named=named) == 16


def test_if_any_answer_answered_all_they_would(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: what was so before, and was seen in a pool of ten schedulers."""

    def answer(job: PoolJob, cores: int, _generation: int | None) -> bool:
        job.unanswered = [] if cores == job.assigned else job.unanswered
        return True

    monkeypatch.setattr(PoolJob, "answer", answer)
    assert max(most_held(seed, named=False) for seed in range(6)) > 16
