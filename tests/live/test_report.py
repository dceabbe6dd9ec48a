"""Reports of a live pool: every number from the events, the table for people and the mapping for JSON."""

from __future__ import annotations

import json
import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import corewise as cw
from benchmarks.instruments.live_stream import new_controller, stream
from corewise.errors import InvalidInput
from corewise.estimation.class_estimate import ClassEstimate
from corewise.estimation.quantities import Quantity
from corewise.kit.frozen import FrozenMapping
from corewise.kit.jsonable import to_json
from corewise.live.state.controller import Controller
from corewise.live.state.counters import JobCounters
from corewise.live.state.instructions import Alert
from corewise.live.state.report import Expected, Report
from corewise.observation import events as happened

SYSTEM = cw.System(
    4,
    [cw.JobClass("a", 1.0, 2.0, cw.Amdahl(0.5)), cw.JobClass("b", 1.0, 2.0, cw.Amdahl(0.5))],
)
GAIN = (-0.02, 0.1, 0.2)


def controller(mode: happened.Mode = "steer") -> Controller:
    return Controller(cw.algorithm_1b(SYSTEM, departures=2), lambda _: cw.Greedy(), mode=mode)


def told(controller: Controller, *events: happened.Event) -> Report:
    for event in events:
        controller.handle(event)
    return controller.report()


TWO_JOBS = (
    happened.JobArrived(1.0, "1", "x", "a"),
    happened.JobArrived(1.0, "2", "y", "b"),
    happened.CoresHeld(1.0, "3", "x", 2),
    happened.CoresHeld(1.0, "4", "y", 1),
)


def test_what_is_there() -> None:
    report = told(controller(), *TWO_JOBS, happened.Progress(2.0, "5", "x", 3.0))
    assert (report.time, report.mode, report.pool, report.policy) == (2.0, "steer", 4, "equi")
    assert (report.held, report.told, report.jobs, report.since, report.windows) == (3, 4, 2, 0.0, 0)
    a, b = report.classes
    assert (a.held, a.told, a.target, a.marks, b.held, b.told) == (2, 2, 2, 3.0, 1, 2)
    assert (report.gain, a.learned, a.expected, report.in_force) == (None, None, None, False)
    assert "3 of 4 cores held by 2 jobs" in str(report)


def test_who_waits() -> None:
    jobs = [happened.JobArrived(0.0, str(k), str(k), "a", least=3) for k in range(2)]
    report = told(controller(), *jobs, happened.CoresHeld(0.0, "held", "0", 4))
    assert (report.classes[0].jobs, report.classes[0].waiting, report.classes[1].waiting) == (2, 1, 0)


def test_measured_response_times_are_those_of_the_events() -> None:
    control, rng = controller("watch"), np.random.default_rng(5)
    times = {name: rng.exponential(1.0, 20) for name in "ab"}
    for name, spans in times.items():
        for k, span in enumerate(spans):
            began, job = control.time, f"{name}{k}"
            control.handle(happened.JobArrived(began, f"{job} comes", job, name))
            control.handle(happened.JobFinished(began + span, f"{job} goes", job))
    report = control.report()
    for row, spans in zip(report.classes, times.values(), strict=True):
        assert row.responses.count == 20
        assert row.responses.mean == pytest.approx(spans.mean())
        assert row.responses.stderr == pytest.approx(spans.std(ddof=1) / math.sqrt(20))
    together = np.concatenate(list(times.values()))
    assert report.responses.mean == pytest.approx(together.mean())
    assert report.responses.stderr == pytest.approx(together.std(ddof=1) / math.sqrt(40))


def test_the_total_of_no_response_times_is_none() -> None:
    assert JobCounters.total([JobCounters(arrived=2), JobCounters(arrived=3)]).arrived == 5
    assert math.isnan(controller().report().responses.mean)


def window(control: Controller) -> None:
    """Two jobs that come, hold other widths and finish."""
    told(control, *TWO_JOBS, happened.JobFinished(2.0, "6", "x"), happened.CoresHeld(2.0, "7", "y", 4))
    told(control, happened.JobFinished(3.0, "8", "y"))


def test_the_last_answer_is_reported_whether_adopted_or_not() -> None:
    control = controller()
    window(control)
    assert control.request is not None
    times = ((0.5, 0.6), (0.8, 0.6))
    report = told(control, happened.Solved(4.0, "9", control.request, "f", GAIN, GAIN, times))
    assert report.gain == GAIN
    assert (report.policy, report.in_force, report.since) == ("equi", False, 0.0)
    assert [row.expected.gain for row in report.classes if row.expected] == pytest.approx([-0.2, 0.25])
    assert "10.0% (-2.0% to 20.0%)" in str(report)
    assert "by the last policy solved for, not adopted: equi stays in force" in str(report)
    assert [row.departures_needed for row in report.classes] == [10, 10]


def test_a_policy_in_force_is_told_with_its_time() -> None:
    control = Controller(
        cw.algorithm_1b(SYSTEM, departures=2),
        lambda _: cw.Greedy(),
        mode="steer",
        options=cw.live.Options(least_seen=1),
    )
    window(control)
    assert control.request is not None
    good = (0.01, 0.1, 0.2)
    report = told(control, happened.Solved(4.5, "9", control.request, "f", good, good))
    assert (report.policy, report.in_force, report.since) == ("policy 1", True, 4.5)
    assert (report.adopted, report.reason) == (True, "")
    assert report.classes[0].expected is None


def test_expected_response_times_are_those_of_the_classes_that_the_answer_is_about() -> None:
    control = controller()
    window(control)
    assert control.request is not None
    solved = happened.Solved(4.0, "9", control.request, "f", GAIN, GAIN, ((0.5, 0.6),), classes=("b",))
    a, b = told(control, solved).classes
    assert a.expected is None
    assert b.expected == Expected(0.5, 0.6)


@pytest.mark.parametrize("classes", ["ab", 3, (1, 2), ("a",)])
def test_classes_that_are_no_names_or_of_other_number_are_refused(classes: object) -> None:
    times = ((0.5, 0.6), (0.8, 0.6))
    with pytest.raises(InvalidInput, match="classes"):
        happened.Solved(0.0, "1", "1", "f", GAIN, GAIN, times, classes=classes)  # type: ignore[arg-type]


def test_moves_that_were_not_made_are_counted_once() -> None:
    control = controller("watch")
    report = told(control, *TWO_JOBS, *(happened.Tick(2.0, f"tick {k}") for k in range(5)))
    assert report.would_have_moved == 3  # x to 4, to 2 when y comes; y to 2
    assert [row.target for row in report.classes] == [2, 2]
    assert "3 moves would have been made" in str(report)


def test_alerts_are_told() -> None:
    control = controller()
    window(control)
    assert control.request is not None
    report = told(control, happened.SolveFailed(4.0, "9", control.request, "no memory"))
    assert [type(one) for one in report.alerts] == [Alert]
    assert "no memory" in str(report)
    assert "no memory" in report.as_mapping()["alerts"][0]["text"]


def test_the_mapping_is_json_without_nan() -> None:
    control = new_controller()
    for event in stream(120, 3):
        try:
            control.handle(event)
        except InvalidInput:
            continue
    for report in (new_controller().report(), control.report()):
        mapping = report.as_mapping()
        assert json.loads(json.dumps(mapping, allow_nan=False)) == mapping
        assert len(mapping["classes"]) == 2
    learned = mapping["classes"][1]["learned"]
    low, high = learned["intervals"]["p"]
    assert low <= learned["parameters"]["p"] <= high
    assert mapping["gain"] == {"least": 0.1, "expected": 0.2, "most": 0.3}
    assert mapping["classes"][0]["marks"] > 0


@pytest.mark.parametrize("known", [True, False])
def test_what_was_learned_is_the_same_after_json(known: bool) -> None:
    rate = Quantity(0.1, math.nan, (0.0, math.inf)) if known else None
    learned = ClassEstimate(
        "a",
        "usl",
        FrozenMapping({"sigma": 1 / 3, "kappa": math.nan}),
        FrozenMapping({"sigma": 0.1, "kappa": math.nan}),
        FrozenMapping({"sigma": (0.0, 1.0), "kappa": (0.0, math.inf)}),
        7,
        Quantity(1.0, 0.1, (0.9, 1.1)),
        rate,
    )
    again = ClassEstimate.from_mapping(json.loads(to_json(learned.as_mapping())))
    assert repr(again.as_mapping()) == repr(learned.as_mapping())


def test_a_pool_reports() -> None:
    with cw.LivePool(SYSTEM.classes, cw.live.engines.ExecutorEngine(ThreadPoolExecutor(2))) as pool:
        assert pool.map("a", abs, [-1, 2]).result() == [1, 2]
        report = pool.report()
    assert isinstance(report, cw.live.Report)
    assert report.classes[0].finished == 1
    assert str(report).startswith("at ")


@pytest.mark.parametrize("times", [((1.0,),), ((1.0, math.nan),), ((1.0, -1.0),), 3.0])
def test_response_times_that_are_none_are_refused(times: object) -> None:
    with pytest.raises(InvalidInput, match="response_times"):
        happened.Solved(0.0, "1", "1", "f", GAIN, GAIN, times)  # type: ignore[arg-type]
