"""Replay: a journal leads to the same state and the same instructions, from its beginning or a snapshot."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import corewise as cw
from benchmarks.instruments.live_stream import ABOUT, SYSTEM, new_controller, policy_of, stream, told_of
from corewise.errors import InvalidFile, InvalidInput
from corewise.kit.archive import packed, unpacked
from corewise.live.journal.journal import Journal
from corewise.live.journal.replay import replay, replayed
from corewise.live.state.controller import Controller, Options
from corewise.live.state.instructions import Instruction
from corewise.model.files import system_to_mapping
from corewise.observation.events import Event

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
    state = controller.learner.state
    seen = controller.learner.memory.recall() if state.k else None
    return {
        "time": controller.time,
        "pool": controller.pool,
        "mode": controller.mode,
        "request": controller.request,
        "adopted": controller.adopted,
        "jobs": {job.name: asdict(job) for job in controller.jobs},
        "tally": controller.tally.snapshot(),
        "windows": state.k,
        "believed": system_to_mapping(state.plug_in),
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
    """The control: some events less are seen in the state."""
    again = new_controller()
    handled(again, life.told[:-10])
    assert state_of(again) != state_of(life.controller)


def test_it_goes_on_as_if_it_had_never_stopped(tmp_path: Path, life: Life) -> None:
    controller, answers = life.controller, life.answers
    with Journal.open(tmp_path / "pool.db", ABOUT) as journal:
        journal.append(life.told[: life.cut], 0.0)
        again = replayed(journal, new_controller)
    assert handled(again, life.told[life.cut :]) == answers[life.cut :]
    assert state_of(again) == state_of(controller)


def test_it_begins_at_the_last_snapshot(tmp_path: Path, life: Life) -> None:
    made: list[bytes | None] = []

    def of_snapshot(content: bytes | None) -> Controller:
        made.append(content)
        return new_controller(content)

    before = new_controller()
    handled(before, life.told[: life.cut])
    with Journal.open(tmp_path / "pool.db", ABOUT) as journal:
        journal.append(life.told, 0.0)
        journal.put_snapshot(life.cut, before.snapshot())
        again = replayed(journal, of_snapshot)
    assert made == [before.snapshot()]
    assert again.snapshot() == life.controller.snapshot()


def watching_for_changes(content: bytes | None = None) -> Controller:
    """A controller with a change detector, and rates to learn."""
    classes = [cw.JobClass(known.name, speedup=known.speedup) for known in SYSTEM.classes]
    algorithm = cw.adaptive(cw.System(SYSTEM.cores, classes), departures=20)
    return Controller.of(content, algorithm, policy_of, Options(patience=0.1, checked=True))


@pytest.mark.parametrize("make", [new_controller, watching_for_changes])
def test_a_snapshot_goes_on_as_if_nothing_had_been(
    make: Callable[[bytes | None], Controller], life: Life
) -> None:
    """To the last bit: the same state wherever it is cut, and the same answers after it."""
    whole = make(None)
    for begin in range(0, len(life.told), 37):
        again = make(whole.snapshot())
        assert again.snapshot() == whole.snapshot()
        some = life.told[begin : begin + 37]
        assert handled(again, some) == handled(whole, some)
        assert again.snapshot() == whole.snapshot()
    assert handled(make(whole.snapshot()), life.told[-1:]) == [[]]  # it is known


def test_a_snapshot_without_an_event_is_another(life: Life) -> None:
    """The control: what the test above compares tells states apart."""
    one, other = new_controller(), new_controller()
    handled(one, life.told)
    handled(other, life.told[:-1])
    assert one.snapshot() != other.snapshot()


def test_a_snapshot_of_another_version_or_a_damaged_one_is_refused(life: Life) -> None:
    content = life.controller.snapshot()
    about, arrays = unpacked("it", content, "corewise live 2", "snapshot")
    with pytest.raises(InvalidFile, match="corewise live 3"):
        new_controller(packed("it", "corewise live 3", {**about, "format": "corewise live 3"}, arrays))
    with pytest.raises(InvalidFile, match="not a usable snapshot"):
        new_controller(packed("it", "corewise live 2", {**about, "roster": 3}, arrays))
    with pytest.raises(InvalidFile):
        new_controller(content[:-7])


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
