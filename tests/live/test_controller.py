"""The live controller: invariants over random histories, and what it learns in virtual time."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import corewise as cw
from corewise.learning.learner import infer
from corewise.learning.memories import SinceChange
from corewise.live.state.controller import Controller, Options
from corewise.live.state.instructions import Alert, Instruction, SetCores
from corewise.observation import events as happened
from corewise.policies.base import Policy

POOL = 7
SYSTEM = cw.System(
    POOL,
    [
        cw.JobClass("a", 1.0, 4.0, cw.Amdahl(0.2)),
        cw.JobClass("b", 1.0, 1.0, cw.Amdahl(0.9)),
    ],
)


def policy_of(digest: str) -> Policy:
    return cw.Priority(["b", "a"]) if digest == "priority" else cw.Whittle()


def new_controller(mode: happened.Mode = "steer", window: int = 1, *, late_moves: bool = False) -> Controller:
    options = Options(least_seen=0, patience=2.0, checked=True, late_moves=late_moves)
    return Controller(cw.algorithm_1b(SYSTEM, departures=window), policy_of, mode=mode, options=options)


class LiveMachine(RuleBasedStateMachine):
    """Any order of events, of an engine that obeys late, in part or never."""

    def __init__(self) -> None:
        super().__init__()
        self.first_mode: happened.Mode = "steer"
        self.controller = new_controller(self.first_mode)
        self.time = 0.0
        self.sent: list[happened.Event] = []
        self.area = 0.0
        self.ran: set[str] = set()
        self.departed = 0
        self.instructions: list[list[Instruction]] = []

    @initialize(mode=st.sampled_from(["watch", "steer", "hold"]), late_moves=st.booleans())
    def begin(self, mode: happened.Mode, late_moves: bool) -> None:
        self.controller, self.first_mode = new_controller(mode, late_moves=late_moves), mode

    def tell(self, kind: type[happened.Event], *values: Any, back: bool = False) -> None:
        now = self.time - 1.0 if back else self.time
        event = kind(now, f"e{len(self.sent)}", *values)
        self.sent.append(event)
        told = {job.name: job.assigned for job in self.controller.jobs}  # in `watch`, what it holds
        taken = {job.name: job.taken for job in self.controller.jobs}
        self.instructions.append(self.controller.handle(event))
        moves = [one for one in self.instructions[-1] if isinstance(one, SetCores)]
        if self.controller.mode == "watch":
            assert not moves
        grown = [one for one in moves if one.cores > told.get(one.job, 0)]
        assert moves[len(moves) - len(grown) :] == grown  # shrinks come first
        # Only where nobody holds it, was told to, or may yet take it: or it was its own all the time.
        held = {job.name: job.held for job in self.controller.jobs}
        if any(one.cores > max(held[one.job], taken.get(one.job, 0)) for one in grown):
            assert sum(job.taken for job in self.controller.jobs) <= self.controller.pool

    @rule(
        job_class=st.sampled_from(["a", "b"]),
        least=st.sampled_from([None, 1, 2, POOL]),
        span=st.sampled_from([None, 0, 3]),
        present=st.booleans(),
    )
    def arrive(self, job_class: str, least: int | None, span: int | None, present: bool) -> None:
        most = None if span is None else (least or 1) + span
        if least is not None and least > self.controller.pool:
            return
        name = f"j{len(self.sent)}"
        if present:
            self.tell(happened.JobPresent, name, job_class, 0, least, most)
        else:
            self.tell(happened.JobArrived, name, job_class, least, most)

    @precondition(lambda self: self.controller.jobs.by_name)
    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.controller.jobs.by_name)))
        self.departed += name in self.ran  # a job that never held a core left at no width
        self.tell(happened.JobFinished, name)

    @precondition(lambda self: self.controller.jobs.by_name)
    @rule(data=st.data(), why=st.sampled_from(["failed", "cancelled", "lost"]))
    def end(self, data: st.DataObject, why: str) -> None:
        name = data.draw(st.sampled_from(sorted(self.controller.jobs.by_name)))
        self.tell(happened.JobEnded, name, why)

    @precondition(lambda self: self.controller.jobs.by_name)
    @rule(data=st.data(), follow=st.booleans())
    def hold(self, data: st.DataObject, follow: bool) -> None:
        name = data.draw(st.sampled_from(sorted(self.controller.jobs.by_name)))
        job = self.controller.jobs.by_name[name]
        free = max(self.controller.pool - sum(other.taken for other in self.controller.jobs), 0)
        cores = job.assigned if follow else data.draw(st.integers(0, job.taken + free))
        self.ran |= {name} if cores else set()
        self.tell(happened.CoresHeld, name, cores)

    @precondition(lambda self: self.controller.jobs.by_name)
    @rule(data=st.data(), fits=st.none() | st.integers(0, 12))
    def refuse(self, data: st.DataObject, fits: int | None) -> None:
        name = data.draw(st.sampled_from(sorted(self.controller.jobs.by_name)))
        job = self.controller.jobs.by_name[name]
        if job.held <= self.controller.pool:  # what it holds may become its least
            self.tell(happened.MoveRefused, name, job.assigned, "no room", fits)

    @precondition(lambda self: self.controller.jobs.by_name)
    @rule(data=st.data(), amount=st.floats(0.0, 3.0))
    def progress(self, data: st.DataObject, amount: float) -> None:
        self.tell(happened.Progress, data.draw(st.sampled_from(sorted(self.controller.jobs.by_name))), amount)

    @rule(span=st.floats(0.0, 3.0))
    def pass_time(self, span: float) -> None:
        self.area += span * sum(self.controller.jobs.counts)
        self.time += span
        self.tell(happened.Tick)

    @rule()
    def a_late_event(self) -> None:
        self.tell(happened.Tick, back=True)

    @rule(cores=st.integers(1, 12))
    def change_pool(self, cores: int) -> None:
        if all((job.least or 1) <= cores for job in self.controller.jobs):
            self.tell(happened.PoolChanged, cores)

    @rule(job_class=st.sampled_from(["a", "b"]), least=st.integers(1, 3), span=st.sampled_from([None, 0, 4]))
    def change_limits(self, job_class: str, least: int, span: int | None) -> None:
        if least > self.controller.pool:
            return
        self.tell(happened.LimitsChanged, job_class, least, None if span is None else least + span)

    @rule(mode=st.sampled_from(["watch", "steer", "hold"]))
    def change_mode(self, mode: happened.Mode) -> None:
        self.tell(happened.ModeChanged, mode)

    @precondition(lambda self: self.controller.request)
    @rule(policy=st.sampled_from(["priority", "whittle", None]), gain=st.sampled_from([-0.1, 0.1]))
    def answer(self, policy: str | None, gain: float) -> None:
        assert self.controller.request is not None
        name = self.controller.request
        if policy is None:
            self.tell(happened.SolveFailed, name, "no reason")
        else:
            found = (gain, 2.0 * gain, 0.3)
            inference = infer(self.controller.inference_request()).as_mapping() if gain > 0.0 else None
            self.tell(happened.Solved, name, policy, found, found, None, found, inference)

    @precondition(lambda self: self.sent)
    @rule(data=st.data())
    def repeat(self, data: st.DataObject) -> None:
        before = self.controller.snapshot()
        assert self.controller.handle(data.draw(st.sampled_from(self.sent))) == []
        assert self.controller.snapshot() == before

    @rule()
    def begin_again(self) -> None:
        """Go on from a snapshot, as after a crash."""
        content = self.controller.snapshot()
        how, options = self.controller.learner.algorithm, self.controller.options
        self.controller = Controller.of(content, how, policy_of, options)
        assert self.controller.snapshot() == content

    @invariant()
    def every_job_can_be_explained(self) -> None:
        for job in self.controller.jobs:
            assert job.name in self.controller.explain(job.name).job

    def teardown(self) -> None:
        """Time by width adds up to ∫ jobs dt, and the same events give the same instructions."""
        if not self.sent:
            return
        again = new_controller(self.first_mode, late_moves=self.controller.options.late_moves)
        assert [again.handle(event) for event in self.sent] == self.instructions
        assert again.snapshot() == self.controller.snapshot()
        closed = self.controller.tally.close()
        if self.controller.learner.state.k:
            closed = closed + self.controller.learner.memory.recall()
        spent = sum(float(table.job_time.sum()) for table in closed.classes)
        assert spent == pytest.approx(self.area, rel=1e-9, abs=1e-9)
        assert closed.departures == self.departed


TestLiveMachine = LiveMachine.TestCase
TestLiveMachine.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def test_a_full_window_is_kept_and_nothing_is_looked_for_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """To look for changes takes tens of milliseconds, in which no event would be answered."""
    controller = Controller(cw.adaptive(SYSTEM, departures=5), lambda _: cw.Equi())

    def remember(*_: object) -> None:
        raise AssertionError("it was looked for changes in it")

    monkeypatch.setattr(SinceChange, "remember", remember)
    for number in range(12):
        name = str(number)
        controller.handle(happened.JobPresent(float(number), f"p{name}", name, SYSTEM.names[0], 1))
        controller.handle(happened.JobFinished(number + 0.5, f"f{name}", name))
    assert controller.learner.state.k == 2
    assert controller.request == "1"
    assert [window.departures for window in controller.inference_request().windows] == [5, 5]


def test_a_window_in_which_all_happened_at_once_is_not_learned_from() -> None:
    controller = Controller(cw.algorithm_1b(SYSTEM, departures=3), lambda _: cw.Equi())
    for number in range(8):
        name = str(number)
        controller.handle(happened.JobPresent(0.0, f"p{name}", name, SYSTEM.names[0], 1))
        controller.handle(happened.JobFinished(0.0 if number < 6 else 1.0, f"f{name}", name))
        assert controller.learner.state.k == (0 if number < 6 else 1)


def test_a_job_that_never_follows_is_told_of_though_it_is_told_anew() -> None:
    controller = Controller(
        cw.algorithm_1b(SYSTEM), lambda _: cw.Equi(), mode="steer", options=Options(patience=3.0)
    )
    name, alerts = SYSTEM.names[0], []
    controller.handle(happened.JobPresent(0.0, "p", "stuck", name, 1))
    for second in range(1, 6):  # others come and go, and what it should hold changes every time
        kind = happened.JobArrived if second % 2 else happened.JobFinished
        values = ("other", name) if second % 2 else ("other",)
        controller.handle(kind(float(second), f"e{second}", *values))
        alerts.append(len(controller.handle(happened.Tick(float(second), f"t{second}"))))
    assert alerts == [0, 0, 0, 1, 0]


@pytest.mark.parametrize("late_moves", [True, False])
def test_cores_of_an_instruction_that_was_taken_back_are_free_when_the_job_has_said_so(
    late_moves: bool,
) -> None:
    """Where instructions travel, a job told all cores and then some of them may hold all for a while.

    Without late moves, the control, the rest is given to another at once.
    """
    controller, name, pool = new_controller(late_moves=late_moves), SYSTEM.names[0], int(SYSTEM.cores)
    mine, rest = pool - pool // 2, pool // 2

    def told(*event: Any) -> dict[str, int]:
        kind, *values = event
        given = controller.handle(kind(controller.time + 0.1, f"e{controller.time}", *values))
        return {one.job: one.cores for one in given if isinstance(one, SetCores)}

    assert told(happened.JobArrived, "first", name) == {"first": pool}
    at_once = {} if late_moves else {"second": rest}
    assert told(happened.JobArrived, "second", name) == {"first": mine, **at_once}
    assert told(happened.CoresHeld, "first", pool) == {}  # the first instruction has come through
    assert told(happened.CoresHeld, "first", mine) == ({"second": rest} if late_moves else {})
    assert controller.jobs.by_name["first"].taken == mine


def test_a_job_that_never_says_that_it_has_not_moved_is_told_of() -> None:
    controller, name, pool = new_controller(late_moves=True), SYSTEM.names[0], int(SYSTEM.cores)
    mine = pool - pool // 2
    controller.handle(happened.JobPresent(0.0, "p", "first", name, mine))
    controller.handle(happened.Tick(0.1, "t0"))  # told all of the cores
    controller.handle(happened.JobArrived(0.2, "a", "second", name))  # and to keep its part after all
    assert controller.jobs.by_name["first"].taken == pool
    alerts = controller.handle(happened.Tick(5.0, "t1"))
    assert [one.text for one in alerts if isinstance(one, Alert) and "'first'" in one.text] == [
        f"job 'first' was told {mine} cores and has not said that it holds them"
    ]
