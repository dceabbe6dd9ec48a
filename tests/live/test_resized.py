"""A pool that changes its size: its policy in proportion at once, and then one for the new pool."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import corewise as cw
from corewise.kit.workers import ExecutorWorkers
from corewise.learning.solving import solve_request
from corewise.live.journal.event_store import InMemory
from corewise.live.run.runner import Runner
from corewise.live.state.controller import Controller, Options
from corewise.live.state.instructions import Instruction, SetCores, Solve
from corewise.live.state.job_table import JobTable
from corewise.live.state.moving import Moving
from corewise.observation import events as happened
from corewise.policies.base import BoundPolicy, bind
from corewise.policies.equi import equal_share
from corewise.policies.moving.rule import Widths
from corewise.policies.rounding import round_cores
from corewise.policies.saved import policy_from_bytes
from corewise.policies.scaled import ScaledPolicy, integer_allocation

CLASSES = [cw.JobClass("one", 2.0, 2.0, cw.Amdahl(0.1)), cw.JobClass("two", 2.0, 0.8, cw.Amdahl(0.9))]
STATES = [(1, 0), (0, 1), (1, 1), (3, 1), (2, 5)]


class Steered:
    """A controller that has seen a window, and whose questions are answered."""

    def __init__(self, cores: int, pause: float = 0.0) -> None:
        known = [
            cw.JobClass(one.name, one.arrival_rate, one.size_rate, one.speedup, resize_pause=pause)
            for one in CLASSES
        ]
        self.kept: dict[str, bytes] = {}
        self.numbers = iter(range(10**6))
        self.time = 0.0
        how = cw.algorithm_1b(cw.System(cores, known), departures=60)
        options = Options(least_seen=0, checked=True)
        self.controller = Controller(how, self.policy, mode="steer", options=options)
        for _ in range(30):
            for name in ("one", "two"):
                self.serve(name)
        assert self.controller.request == "1"

    def policy(self, digest: str) -> Any:
        return policy_from_bytes(self.kept[digest], digest)

    def tell(self, kind: type[happened.Event], *values: Any) -> list[Instruction]:
        return self.controller.handle(kind(self.time, f"e{next(self.numbers)}", *values))

    def serve(self, name: str) -> None:
        """Run a job alone, for as long as it takes by the curve that it has."""
        job = f"{name}-{next(self.numbers)}"
        told = self.tell(happened.JobArrived, job, name)
        width = next(one.cores for one in told if isinstance(one, SetCores))
        self.tell(happened.CoresHeld, job, width)
        known = self.controller.system[name]
        assert known.size_rate is not None
        self.time += 1.0 / (known.size_rate * float(known.speedup.rate(float(width))))
        self.tell(happened.JobFinished, job)

    def solve(self) -> None:
        """Answer the request; whatever the gate would say of it, it is adopted."""
        found, sure = solve_request(self.controller.inference_request(), None), (0.1, 0.2, 0.3)
        self.kept["it"] = found.policy
        times, learned = found.improvement.response_times, found.inference.as_mapping()
        self.tell(happened.Solved, self.controller.request, "it", sure, sure, times, sure, learned)


def shares(steered: Steered) -> list[tuple[int, ...]]:
    return [steered.controller.given(state) for state in STATES]


@pytest.mark.parametrize("cores", [12, 5])
def test_a_pool_of_another_size_gets_a_policy_of_its_own(cores: int) -> None:
    steered = Steered(8)
    steered.solve()
    told = steered.tell(happened.PoolChanged, cores)
    assert Solve(f"1 for {cores} cores") in told
    in_proportion = shares(steered)
    assert [sum(share) for share in in_proportion] == [cores] * len(STATES)
    steered.solve()
    assert steered.controller.policy_name == f"policy 1 for {cores} cores"
    believed = steered.controller.learner.state.plug_in
    assert believed.cores == 8
    there = cw.System(cores, believed.classes)
    there = there if there.load < 0.95 else there.at_load(0.95)
    best = bind(cw.solve(there, whole_cores=True).policy, there)
    assert shares(steered) == [tuple(best.allocate(state).astype(int).tolist()) for state in STATES]
    assert shares(steered) != in_proportion  # or this would show nothing
    content = steered.controller.snapshot()
    again = Controller.of(
        content, steered.controller.learner.algorithm, steered.policy, steered.controller.options
    )
    assert [again.given(state) for state in STATES] == shares(steered)


def test_nothing_is_asked_for_while_nothing_was_seen_or_nothing_changed() -> None:
    fresh = Controller(cw.algorithm_1b(cw.System(8, CLASSES)), lambda _: cw.Equi(), mode="steer")
    assert fresh.handle(happened.PoolChanged(0.0, "1", 12)) == []
    steered = Steered(8)
    steered.solve()
    assert steered.tell(happened.PoolChanged, 8) == []


def test_one_question_is_asked_at_a_time() -> None:
    """Where cores come and go faster than a policy is found, one that is found is adopted all the same."""
    steered = Steered(8)
    for cores in (9, 10):
        assert not any(isinstance(one, Solve) for one in steered.tell(happened.PoolChanged, cores))
    steered.solve()
    assert steered.controller.policy_name == "policy 1"
    assert steered.controller.request == "1 for 10 cores"
    steered.solve()
    assert steered.controller.request is None


def test_where_moves_cost_a_job_alone_has_all_of_a_pool_that_has_grown() -> None:
    """Prices of moves are known up to the widths of the pool that they were made for."""
    steered = Steered(6, pause=0.01)
    steered.solve()
    steered.tell(happened.PoolChanged, 9)
    steered.solve()
    told = steered.tell(happened.JobArrived, "alone", "two")
    assert [one.cores for one in told if isinstance(one, SetCores)] == [9]


def test_a_policy_in_proportion_is_the_one_that_is_in_force() -> None:
    steered = Steered(8)
    steered.solve()
    steered.tell(happened.PoolChanged, 12)
    there = cw.System(12, CLASSES)
    other = ScaledPolicy(bind(steered.policy("it"), cw.System(8, CLASSES))).on(there)
    assert shares(steered) == [tuple(other.allocate(state).astype(int).tolist()) for state in STATES]
    assert np.isfinite(cw.evaluate(there, other).mean_jobs)


class Slow(ExecutorWorkers):
    """A solver that answers when it is told to, and keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.futures: list[Future[Any]] = []
        self.there = threading.Semaphore(0)

    def submit(self, call: Any) -> Future[Any]:
        self.asked.append(call.args[0].cores)
        self.futures.append(Future())
        self.there.release()
        return self.futures[-1]


class Still:
    """An engine that does nothing."""

    pool, pause = 8, 0.0

    def start(self, tell: Any) -> None: ...

    def submit(self, job: Any) -> None: ...

    def set_cores(self, job: str, cores: int) -> None: ...

    def end(self, job: str) -> None: ...

    def close(self) -> None: ...


def test_of_many_changes_the_last_is_solved_for_once_the_first_is_done() -> None:
    steered, solver = Steered(8), Slow()
    runner = Runner(steered.controller, Still(), solver, InMemory())
    runner.start()
    try:
        assert solver.there.acquire(timeout=180.0)
        for cores in (9, 10, 11, 12):
            runner.request(happened.PoolChanged, cores)
        assert solver.asked == [8]
        solver.futures[0].set_exception(ValueError("too late"))
        assert solver.there.acquire(timeout=180.0)
        assert solver.asked == [8, 12]
        assert runner.ask(lambda controller: controller.request) == "1 for 12 cores"
    finally:
        runner.close()


# --- pools of other classes -------------------------------------------------------------------------

NAMES = ("a", "b", "c", "d", "e")
RULES: list[cw.Policy] = [cw.Whittle(), cw.Greedy(), cw.Equi()]


@st.composite
def pools(draw: st.DrawFn) -> tuple[BoundPolicy, list[str], tuple[int, ...], int]:
    """A policy of some classes, and a pool of some, in any order, with jobs and cores of its own."""
    named = st.lists(st.sampled_from(NAMES), min_size=1, unique=True)
    curves = {name: cw.Amdahl(0.15 + 0.17 * k) for k, name in enumerate(NAMES)}
    classes = [cw.JobClass(name, 0.1, 1.0, curves[name]) for name in draw(named)]
    policy = bind(draw(st.sampled_from(RULES)), cw.System(draw(st.integers(1, 20)), classes))
    names = draw(named)
    counts = draw(st.tuples(*(st.integers(0, 12) for _ in names)))
    return policy, names, counts, draw(st.integers(1, 20))


@given(pools())
def test_a_share_is_whole_and_complete_whatever_the_classes(
    pool: tuple[BoundPolicy, list[str], tuple[int, ...], int],
) -> None:
    policy, names, counts, cores = pool
    share = integer_allocation(policy, names, counts, cores)
    assert len(share) == len(names)
    assert sum(share) == (cores if any(counts) else 0)
    assert all(x >= 0 for x in share)
    assert all(x == 0 for x, jobs in zip(share, counts, strict=True) if not jobs)
    known = [name in policy.system.names for name in names]
    total = max(sum(counts), 1)
    for x, jobs, is_known in zip(share, counts, known, strict=True):
        assert is_known or abs(x - cores * jobs / total) < 1.0
    by_policy = sum(x for x, is_known in zip(share, known, strict=True) if is_known)
    due = cores * sum(jobs for jobs, is_known in zip(counts, known, strict=True) if is_known) / total
    assert abs(by_policy - due) < max(sum(known), 1)
    # As a rule for many states at once, it says the same.
    there = cw.System(cores, [cw.JobClass(name, speedup=cw.Amdahl(0.5)) for name in names])
    rival = ScaledPolicy(policy).on(there)
    assert rival.allocate([counts, [1] * len(names)])[0].tolist() == list(share)


@given(pools())
def test_of_its_own_classes_a_policy_gives_what_it_says_in_any_order(
    pool: tuple[BoundPolicy, list[str], tuple[int, ...], int],
) -> None:
    policy, _, _, cores = pool
    own, rng = policy.system.names, np.random.default_rng(cores)
    counts = rng.integers(0, 9, len(own))
    scaled = policy.allocate(counts) * (cores / policy.system.cores)
    expected = round_cores(scaled[:, None])[:, 0]
    assert integer_allocation(policy, own, tuple(counts.tolist()), cores) == tuple(
        expected.astype(int).tolist()
    )
    order = rng.permutation(len(own))
    names, jobs = [own[k] for k in order], counts[order]
    expected = round_cores(scaled[order][:, None])[:, 0]
    assert integer_allocation(policy, names, tuple(jobs.tolist()), cores) == tuple(
        expected.astype(int).tolist()
    )


@given(st.lists(st.integers(0, 9), min_size=3, max_size=3), st.integers(1, 20))
def test_a_policy_that_knows_no_class_of_a_pool_leaves_it_to_equi(jobs: list[int], cores: int) -> None:
    policy = bind(cw.Whittle(), cw.System(8, CLASSES))
    share = integer_allocation(policy, ["x", "y", "z"], (jobs[0], jobs[1], jobs[2]), cores)
    assert list(share) == round_cores(equal_share(np.array(jobs)[:, None], cores))[:, 0].tolist()


def test_a_class_that_a_policy_does_not_know_leaves_the_others_their_proportion() -> None:
    policy = bind(cw.Priority(["two", "one"]), cw.System(8, CLASSES))
    names = ["new", "one", "two"]
    assert integer_allocation(policy, names, (0, 3, 1), 8) == (0, 0, 8)
    assert integer_allocation(policy, names, (1, 2, 1), 8) == (2, 0, 6)
    assert integer_allocation(policy, names, (2, 2, 0), 8) == (4, 4, 0)
    assert integer_allocation(policy, ["new", "one"], (2, 2), 8) == (4, 4)
    assert integer_allocation(policy, names, (1, 2, 1), 16) == (4, 0, 12)


def test_where_moves_cost_a_policy_of_other_classes_is_followed_as_far_as_it_goes() -> None:
    """With jobs of its classes alone the price rule decides, in any order of classes; beside others the
    steady one does."""
    steered = Steered(6, pause=0.01)
    steered.solve()
    policy = steered.controller._policy
    assert policy.decision.part(Widths) is not None
    own = steered.controller.learner.state.plug_in
    new = cw.JobClass("new", 1.0, 1.0, cw.Amdahl(0.5), resize_pause=0.01)
    for classes in (own.classes, [*own.classes[::-1]], [new, *own.classes[::-1]]):
        there = cw.System(6, classes)
        roster, moving = JobTable([(1, None) for _ in classes]), Moving(there)
        for number in range(4):
            roster.add(f"j{number}", there.index(own.names[number % 2]), 0.0, None, None, 0, 0.0)
        share = integer_allocation(policy, there.names, roster.counts, 6)
        found = moving.targets(list(roster), [(1, 6)] * 4, policy, share, 6, there)
        if classes is own.classes:
            expected = found
        assert found == expected
        assert 0 < sum(found.values()) <= 6
    roster.add("stranger", 0, 0.0, None, None, 0, 0.0)
    share = integer_allocation(policy, there.names, roster.counts, 6)
    found = moving.targets(list(roster), [(1, 6)] * 5, policy, share, 6, there)
    assert found["stranger"] == share[0] == 1
    assert sum(found.values()) == 6
