"""Replay: a journal leads to the same state and the same instructions, from its beginning or a snapshot."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from benchmarks.instruments.live_stream import ABOUT, new_controller, stream, told_of
from corewise.errors import InvalidInput
from corewise.live.controller import Controller
from corewise.live.events import Event
from corewise.live.instructions import Instruction
from corewise.live.journal import Journal
from corewise.live.replay import replay, replayed
from corewise.model.files import system_to_mapping

Answer = list[Instruction] | str


def handled(controller: Controller, events: list[Event]) -> list[Answer]:
    """What a controller makes of events, written out: instructions, or why one is refused."""
    answers: list[Answer] = []
    for event in events:
        try:
            answers.append(controller.handle(event))
        except InvalidInput as error:
            answers.append(str(error))
    return answers


def state_of(controller: Controller) -> dict[str, Any]:
    standing = controller.learner.standing
    seen = standing.memory.recall() if standing.k else None
    return {
        "time": controller.time,
        "pool": controller.pool,
        "mode": controller.mode,
        "request": controller.request and controller.request[0],
        "adopted": controller.adopted,
        "jobs": {job.name: asdict(job) for job in controller.roster},
        "tally": controller.tally.snapshot(),
        "windows": standing.k,
        "believed": system_to_mapping(standing.believed),
        "memory": seen
        and [[c.widths.tolist(), c.departures.tolist(), c.job_time.tolist()] for c in seen.classes],
    }


@dataclass(frozen=True)
class Life:
    """Events, a controller that lived through them, what it made of them, and a place to cut them."""

    told: list[Event]
    controller: Controller
    answers: list[Answer]
    cut: int


@pytest.fixture(scope="module")
def life() -> Life:
    told, controller = stream(120, 3), new_controller()
    return Life(told, controller, handled(controller, told), 2 * len(told) // 3)


def test_the_stream_has_all_that_matters(life: Life) -> None:
    controller, answers = life.controller, life.answers
    assert controller.adopted is not None
    assert {"job-arrived", "job-finished", "cores-held", "progress", "solved", "tick"} <= {
        e.kind for e in life.told
    }
    assert 0 < sum(isinstance(answer, str) for answer in answers) < len(life.told) / 4
    assert any(later.time < event.time for event, later in pairwise(life.told))


def test_reopening_gives_the_same_state_and_the_same_instructions(tmp_path: Path, life: Life) -> None:
    controller, answers = life.controller, life.answers
    with Journal.open(tmp_path / "pool.db", ABOUT) as journal:
        journal.append(life.told, 0.0)
        journal.append(life.told[::7], 1.0)  # sent twice
    with Journal.open(tmp_path / "pool.db", ABOUT) as journal:
        again = new_controller()
        steps = list(replay(journal, again))
    assert [step.event for step in steps] == life.told
    assert [step.refused or list(step.instructions) for step in steps] == answers
    assert state_of(again) == state_of(controller)


def test_a_replay_of_other_events_gives_another_state(life: Life) -> None:
    """The control: one event less is seen in the state."""
    again = new_controller()
    handled(again, life.told[:-1])
    assert state_of(again) != state_of(life.controller)


def test_it_goes_on_as_if_it_had_never_stopped(tmp_path: Path, life: Life) -> None:
    controller, answers = life.controller, life.answers
    with Journal.open(tmp_path / "pool.db", ABOUT) as journal:
        journal.append(life.told[: life.cut], 0.0)
        again = replayed(journal, new_controller)
    assert handled(again, life.told[life.cut :]) == answers[life.cut :]
    assert state_of(again) == state_of(controller)


def test_it_begins_at_the_last_snapshot(tmp_path: Path, life: Life) -> None:
    """The snapshot is the number of events that were handled; making a controller of it handles them."""

    def of_snapshot(content: bytes | None) -> Controller:
        made.append(content)
        controller = new_controller()
        handled(controller, life.told[: int(content or b"0")])
        return controller

    made: list[bytes | None] = []
    with Journal.open(tmp_path / "pool.db", ABOUT) as journal:
        journal.append(life.told, 0.0)
        journal.put_snapshot(life.cut, str(life.cut).encode())
        again = replayed(journal, of_snapshot)
    assert made == [str(life.cut).encode()]
    assert state_of(again) == state_of(life.controller)


def test_instructions_that_a_crash_kept_out_are_made_good(tmp_path: Path, life: Life) -> None:
    answers = [[] if isinstance(answer, str) else answer for answer in life.answers]
    expected = [(k, one) for k, answer in enumerate(answers, start=1) for one in told_of(answer)]
    with Journal.open(tmp_path / "pool.db", ABOUT) as journal:
        journal.append(life.told, 0.0)
        for seq, answer in enumerate(answers[: life.cut], start=1):
            journal.record(seq, answer)
    for _ in range(2):
        with Journal.open(tmp_path / "pool.db", ABOUT) as journal:
            replayed(journal, new_controller)
        with Journal.read(tmp_path / "pool.db") as reader:
            assert [(event, one) for _, event, one in reader.instruction_mappings()] == expected
            replayed(reader, new_controller)
