"""Inference in another process: the same, wherever and whenever the windows are folded into the memory."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import corewise as cw
from corewise.learning.checkpoint import packed_parts
from corewise.learning.learner import Inference, Learner, infer
from corewise.learning.memories import SinceChange
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


def life(windows: list[Statistics], *, folded: str, every: int = 1) -> tuple[Learner, list[Any]]:
    """The inferences from windows, with a request after every so many of them."""
    learner = Learner(cw.adaptive(BEFORE, departures=300))
    inferences = []
    for k, window in enumerate(windows, start=1):
        learner.observe(window)
        if k % every:
            continue
        request = pickle.loads(pickle.dumps(learner.request(silent())))  # as it gets to another process
        made = infer(request)
        inference = Inference.from_mapping(made.as_mapping())
        if folded == "in one":
            learner.install(made)
        else:
            learner.install(inference)
        inferences.append(inference.as_mapping())
        if folded == "elsewhere":
            learner.install_memory(inference.windows, request.remembered[0])
        elif folded == "here":
            learner.fold()
        assert len(learner.covered) == (k if folded == "never" else 0)
        assert learner.pending == ()
    return learner, inferences


def test_it_does_not_matter_where_and_when_windows_are_folded(windows: list[Statistics]) -> None:
    lives = [life(windows, folded=folded) for folded in ("elsewhere", "here", "never", "in one")]
    assert all(inferences == lives[0][1] for _, inferences in lives)
    states = [packed_parts(learner.memory.parts) for learner, _ in lives]
    for about, arrays in states[1:]:
        assert about == states[0][0]
        assert all(np.array_equal(arrays[name], array) for name, array in states[0][1].items())


def test_changes_are_reported_once_and_by_the_inference_that_covers_them(windows: list[Statistics]) -> None:
    memory, expected = cw.adaptive(BEFORE, departures=300).memory, []
    for window in windows:
        memory = memory.remember(window)
        assert isinstance(memory, SinceChange)
        expected += [alarm.as_mapping() for alarm in memory.alarms]
    assert {alarm["name"] for alarm in expected} == {"one"}  # or this would show nothing
    for every in (1, 2, 7):
        _, inferences = life(windows, folded="elsewhere", every=every)
        assert [alarm for inference in inferences for alarm in inference["alarms"]] == expected


def test_progress_of_jobs_that_have_changed_is_not_learned_from(windows: list[Statistics]) -> None:
    """Rounds of one size tell the old curve of a class exactly; after its change nothing is said by them."""
    learner = Learner(cw.adaptive(BEFORE, departures=300))
    for window in windows[:CHANGE]:
        learner.observe(window)
    learner.install(infer(learner.request(silent())))
    for window in windows[CHANGE:]:
        learner.observe(window)
    progress = ProgressTally(2)
    for width in range(1, 9):
        for _ in range(40):
            work = float(cw.Amdahl(0.2).rate(float(width)))
            progress.end_stretch(0, width, JobProgress(work=work, time=1.0, whole=work))
    found = infer(learner.request(progress.seen()))
    without = infer(learner.request(silent()))
    assert "one" in found.changed
    assert not replace(found, alarms=tuple(replace(alarm, kind="none") for alarm in found.alarms)).changed
    assert found.as_mapping() == without.as_mapping()
    unchanged = replace(learner.request(progress.seen()), new=0)  # as if that had been reported before
    assert infer(unchanged).as_mapping() != without.as_mapping()


def test_windows_whose_requests_are_not_answered_do_not_pile_up(windows: list[Statistics]) -> None:
    learner = Learner(cw.algorithm_1b(BEFORE, departures=300))
    for _ in range(10):
        for window in windows:
            learner.observe(window)
    assert len(learner.pending) + len(learner.covered) <= 32
    assert learner.memory.recall().departures == 10 * sum(window.departures for window in windows)
