"""Moving costs of a live pool: pauses given or measured, and what the price rule gains in virtual time."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256

import numpy as np
import pytest

import corewise as cw
from benchmarks.instruments.virtual_engine import VirtualEngine, VirtualJob
from corewise.learning.solving import solve_request
from corewise.live.state.controller import Controller, Options
from corewise.live.state.moving import Moving
from corewise.observation import events as happened
from corewise.policies.base import Policy
from corewise.policies.moving.priced import PricedTabular
from corewise.policies.moving.rule import Widths
from corewise.policies.saved import policy_from_bytes

PAUSE = 0.2


def system(pause: float) -> cw.System:
    rows = (("one", 0.3), ("two", 0.8))
    return cw.System(8, [cw.JobClass(name, 2.8, 1.0, cw.Amdahl(p), resize_pause=pause) for name, p in rows])


def jobs(count: int, seed: int) -> list[VirtualJob]:
    rng = np.random.default_rng(seed)
    times = np.cumsum(rng.exponential(1.0 / 5.6, count))
    kinds, sizes = rng.choice(["one", "two"], count), rng.exponential(1.0, count)
    rows = zip(times.tolist(), kinds.tolist(), sizes.tolist(), strict=True)
    return [VirtualJob(time, kind, size) for time, kind, size in rows]


class Solving:
    """What answers requests, and keeps the policies as bytes."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}

    def policy(self, digest: str) -> Policy:
        return policy_from_bytes(self.kept[digest], digest)

    def __call__(self, controller: Controller, time: float) -> happened.Event:
        assert controller.request is not None
        found = solve_request(controller.inference_request(), None)
        digest = sha256(found.policy).hexdigest()
        self.kept[digest] = found.policy
        return found.event(time, f"a{controller.request}", controller.request, digest)


def run(believed: cw.System, *, pause: float, count: int = 1500) -> tuple[float, Controller]:
    """Run jobs that pause under a controller; return their mean response time, and the controller."""
    solving = Solving()
    algorithm = cw.algorithm_1b(believed, departures=300)
    controller = Controller(algorithm, solving.policy, mode="steer", options=Options(checked=True))
    curves = {known.name: known.speedup for known in system(0.0).classes}
    engine = VirtualEngine(curves, 0.05, pause=pause, solve=solving)
    engine.run(jobs(count, 1), controller)
    return float(np.mean([time for times in engine.responses.values() for time in times])), controller


def test_a_pause_is_given_or_measured() -> None:
    moving = Moving(system(PAUSE))
    assert moving.pauses == [PAUSE, PAUSE]
    moving.report(0, 0.0)
    moving.report(0, 0.3)
    moving.report(0, 0.5)
    assert moving.pauses == [pytest.approx(0.4), PAUSE]
    assert Moving.of(system(0.0), moving.snapshot()).pauses == moving.pauses
    assert Moving(system(0.0)).free
    assert not moving.free


@pytest.mark.statistical
def test_the_price_rule_is_adopted_and_pays(monkeypatch: pytest.MonkeyPatch) -> None:
    """At a pause of .2 of a mean job following takes 1.3 times as long in the long run; a tenth is asked."""
    priced, controller = run(system(PAUSE), pause=PAUSE)
    assert controller.adopted is not None
    own = controller._policy.decision.part(Widths)
    assert own is not None
    assert own.rule.kind == "price"
    # The control: a controller that is told nothing of pauses, and hears nothing of them.
    assert priced < 0.9 * run_deaf(monkeypatch)


def run_deaf(monkeypatch: pytest.MonkeyPatch) -> float:
    solving = Solving()
    algorithm = cw.algorithm_1b(system(0.0), departures=300)
    controller = Controller(algorithm, solving.policy, mode="steer")
    monkeypatch.setattr(controller.moving, "report", lambda *_: None)
    curves = {known.name: known.speedup for known in system(0.0).classes}
    engine = VirtualEngine(curves, 0.05, pause=PAUSE, solve=solving)
    engine.run(jobs(1500, 1), controller)
    return float(np.mean([time for times in engine.responses.values() for time in times]))


def test_what_the_engine_reports_is_enough() -> None:
    """Nothing is said of pauses beforehand; they are measured, and the next policy has their prices."""
    _, controller = run(system(0.0), pause=PAUSE, count=700)
    assert controller.moving.pauses == pytest.approx([PAUSE, PAUSE])
    assert controller.inference_request().pauses == pytest.approx((PAUSE, PAUSE))
    found = solve_request(controller.inference_request(), None)
    assert isinstance(policy_from_bytes(found.policy, "found"), PricedTabular)


def test_limits_of_a_class_are_those_of_its_jobs() -> None:
    classes = [replace(known, min_cores=2, max_cores=3) for known in system(0.0).classes]
    controller = Controller(
        cw.algorithm_1b(cw.System(8, classes), departures=300),
        Solving().policy,
        mode="steer",
        options=Options(checked=True),
    )
    told = [
        instruction
        for k in range(4)
        for instruction in controller.handle(happened.JobArrived(float(k), str(k), f"job-{k}", "one"))
    ]
    assert told
    assert all(job.target in {0, 2, 3} for job in controller.jobs)


def test_snapshots_keep_what_was_measured() -> None:
    _, controller = run(system(0.0), pause=PAUSE, count=200)
    algorithm = cw.algorithm_1b(system(0.0), departures=300)
    again = Controller.of(controller.snapshot(), algorithm, lambda _: cw.Equi())
    assert again.moving.pauses == controller.moving.pauses
    assert again.snapshot() == controller.snapshot()
