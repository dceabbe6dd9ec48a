"""A pool that changes its size: its policy in proportion at once, and then one for the new pool."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import Any

import numpy as np
import pytest

import corewise as cw
from corewise.live import events as happened
from corewise.live.controller import Controller, Options
from corewise.live.engines.workers import ExecutorWorkers
from corewise.live.instructions import Instruction, SetCores, Solve
from corewise.live.ledger import InMemory
from corewise.live.resized import InProportion
from corewise.live.runner import Runner
from corewise.live.solving import answer
from corewise.policies.base import bind
from corewise.policies.saved import policy_from_bytes

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
        found, name, sure = answer(self.controller.question(), None), self.controller.request, (0.1, 0.2, 0.3)
        self.kept["it"] = found.policy
        told = found.told
        self.tell(happened.Solved, name, "it", sure, sure, told[2], sure, told[4])


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
    believed = steered.controller.learner.standing.believed
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
    other = InProportion(bind(steered.policy("it"), cw.System(8, CLASSES))).on(there)
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
