"""What a live controller keeps and what is concluded elsewhere: the same, whoever remembers the windows."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import corewise as cw
from corewise.learning.checkpoint import packed_parts
from corewise.learning.memories import SinceChange
from corewise.live.state.lessons import Lesson, LiveLearner, conclude
from corewise.observation.progress import ClassProgress, JobProgress, ProgressTally
from corewise.observation.statistics import Statistics

BEFORE = cw.System(
    8, [cw.JobClass("one", 2.0, 2.0, cw.Amdahl(0.2)), cw.JobClass("two", 2.0, 0.8, cw.Amdahl(0.9))]
)
AFTER = BEFORE.with_curves({"one": cw.Amdahl(0.95)})
WINDOWS = 14
CHANGE = 8


@pytest.fixture(scope="module")
def windows() -> list[Statistics]:
    rng = np.random.default_rng(3)
    systems = [BEFORE if k < CHANGE else AFTER for k in range(WINDOWS)]
    return [cw.simulate(system, cw.Equi(), departures=300, rng=rng).statistics for system in systems]


def silent() -> tuple[ClassProgress, ...]:
    return ProgressTally(2).seen()


def life(windows: list[Statistics], *, settled: str, every: int = 1) -> tuple[LiveLearner, list[Any]]:
    """What is concluded from windows, with a question after every so many of them."""
    learner = LiveLearner(cw.adaptive(BEFORE, departures=300))
    lessons = []
    for k, window in enumerate(windows, start=1):
        learner.observe(window)
        if k % every:
            continue
        asked = pickle.loads(pickle.dumps(learner.question(silent(), ())))  # as it gets to another process
        lesson = Lesson.from_mapping(conclude(asked).as_mapping())
        learner.take(lesson)
        lessons.append(lesson.as_mapping())
        if settled == "elsewhere":
            learner.settle_as(lesson.windows, asked.remembered[0])
        elif settled == "here":
            learner.settle()
        assert len(learner.taken) == (k if settled == "never" else 0)
    return learner, lessons


def test_it_does_not_matter_who_remembers_and_when(windows: list[Statistics]) -> None:
    (one, lessons), (other, same), (third, again) = (
        life(windows, settled=settled) for settled in ("elsewhere", "here", "never")
    )
    assert lessons == same == again
    states = [packed_parts(learner.remembers.parts) for learner in (one, other, third)]
    for about, arrays in states[1:]:
        assert about == states[0][0]
        assert all(np.array_equal(arrays[name], array) for name, array in states[0][1].items())


def test_changes_are_told_once_and_by_the_lesson_that_is_about_them(windows: list[Statistics]) -> None:
    memory, expected = cw.adaptive(BEFORE, departures=300).memory, []
    for window in windows:
        memory = memory.remember(window)
        assert isinstance(memory, SinceChange)
        expected += [alarm.as_mapping() for alarm in memory.alarms]
    assert {alarm["name"] for alarm in expected} == {"one"}  # or this would show nothing
    for every in (1, 2, 7):
        _, lessons = life(windows, settled="elsewhere", every=every)
        assert [alarm for lesson in lessons for alarm in lesson["alarms"]] == expected


def test_progress_of_jobs_that_have_changed_is_not_learned_from(windows: list[Statistics]) -> None:
    """Rounds of one size tell the old curve of a class exactly; after its change nothing is said by them."""
    learner = LiveLearner(cw.adaptive(BEFORE, departures=300))
    for window in windows[:CHANGE]:
        learner.observe(window)
    learner.take(conclude(learner.question(silent(), ())))
    for window in windows[CHANGE:]:
        learner.observe(window)
    marks = ProgressTally(2)
    for width in range(1, 9):
        for _ in range(40):
            work = float(cw.Amdahl(0.2).rate(float(width)))
            marks.end_stretch(0, width, JobProgress(work=work, time=1.0, whole=work))
    told = conclude(learner.question(marks.seen(), ()))
    without = conclude(learner.question(silent(), ()))
    assert "one" in told.changed
    assert not replace(told, alarms=tuple(replace(alarm, kind="none") for alarm in told.alarms)).changed
    assert told.as_mapping() == without.as_mapping()
    unchanged = replace(learner.question(marks.seen(), ()), new=0)  # as if that had been told before
    assert conclude(unchanged).as_mapping() != without.as_mapping()


def test_windows_that_nobody_answers_for_do_not_pile_up(windows: list[Statistics]) -> None:
    learner = LiveLearner(cw.algorithm_1b(BEFORE, departures=300))
    for _ in range(10):
        for window in windows:
            learner.observe(window)
    assert len(learner.new) + len(learner.taken) <= 32
    assert learner.remembers.recall().departures == 10 * sum(window.departures for window in windows)
