"""What the gate is there for, policies from few departures evaluated at the truth, and what it says."""

from __future__ import annotations

from dataclasses import replace

import pytest

import corewise as cw
from corewise.learning.learner import Learner, infer
from corewise.learning.solving import solve_request
from corewise.live.state.controller import Controller, Options
from corewise.observation import events as happened
from corewise.observation.progress import ProgressTally
from corewise.policies.base import bind
from corewise.policies.saved import policy_from_bytes

TRUTH = cw.System(
    8, [cw.JobClass("one", 1.6, 1.0, cw.Amdahl(0.3)), cw.JobClass("two", 1.6, 1.0, cw.Amdahl(0.8))]
)
UNKNOWN = cw.System(8, [cw.JobClass(known.name, None, None, known.speedup) for known in TRUTH.classes])
SEEDS = range(16)


def excess(policy: cw.Policy) -> float:
    """By how much the mean cost of a policy is above that of EQUI, as a fraction."""
    return cw.evaluate(TRUTH, policy).mean_cost / cw.evaluate(TRUTH, "equi").mean_cost - 1.0


def learner_of(seed: int) -> Learner:
    learner = Learner(cw.algorithm_1b(UNKNOWN, departures=50))
    learner.observe(cw.simulate(TRUTH, cw.Equi(), departures=50, rng=seed).statistics)
    return learner


def most_likely(learner: Learner) -> cw.Policy:
    """The best policy for what is most likely: the plainest learner."""
    found = cw.estimate(learner.memory.recall(), UNKNOWN, sizes="exponential")
    system = found.applied_to(learner.state.estimated)
    return cw.solve(system if system.load <= 0.95 else system.at_load(0.95), whole_cores=True).policy


@pytest.mark.statistical
def test_after_fifty_departures_nothing_worse_than_equi_is_adopted() -> None:
    """Sixteen starts, all rates unknown. Of policies that pass the gate one in ten may be worse than EQUI;
    here none of those that are proposed is, so that the gate is the second of two safeguards. The first is
    that they are made at the posterior mean: those at the maximum are up to 18 % worse, the control.
    """
    proposed, passed, plain = [], [], []
    for seed in SEEDS:
        learner = learner_of(seed)
        found = solve_request(learner.request(ProgressTally(2).seen()), None)
        proposed.append(excess(policy_from_bytes(found.policy, "it")))
        if found.improvement.gain_over_equi[0] > 0.0:
            passed.append(proposed[-1])
        plain.append(excess(most_likely(learner)))
    assert max(proposed) < 0.01
    assert passed
    assert max(passed) < 0.0
    assert max(plain) > 0.15
    assert sum(one > 0.02 for one in plain) >= 4


# --- why not yet ------------------------------------------------------------------------------------

SURE, UNSURE, NONE = (0.01, 0.1, 0.2), (-0.004, 0.012, 0.031), (-0.3, -0.2, -0.1)


def controller(classes: int = 3, least_seen: int = 2) -> Controller:
    """A controller of two departures a window, whose policies are all Whittle's for the first two classes."""
    known = [cw.JobClass(f"c{k}", speedup=cw.Amdahl(0.5)) for k in range(classes)]
    policy = bind(
        cw.Whittle(), cw.System(4, [replace(one, arrival_rate=0.1, size_rate=1.0) for one in known[:2]])
    )
    how = cw.algorithm_1b(cw.System(4, known), departures=2)
    return Controller(how, lambda _: policy, mode="steer", options=Options(least_seen=least_seen))


def serve(control: Controller, *classes: int, lasting: float = 1.0) -> None:
    for job_class in classes:
        number, began = len(control.ids), control.time
        control.handle(happened.JobPresent(began, f"p{number}", f"j{number}", f"c{job_class}", 1))
        control.handle(happened.JobFinished(began + lasting, f"f{number}", f"j{number}"))


def solved(
    control: Controller,
    over_equi: tuple[float, float, float],
    *classes: str,
    gain: tuple[float, float, float] = SURE,
) -> str:
    """Answer the request of a controller; return why it has not adopted the answer, if it has not."""
    assert control.request is not None
    inference = infer(control.inference_request()).as_mapping()
    values = (control.request, "it", gain, over_equi, None, over_equi, inference, classes)
    control.handle(happened.Solved(control.time, f"s{len(control.ids)}", *values))
    return control.report().reason


def test_what_is_missing_is_said_from_the_first_departure_on() -> None:
    control = controller()
    assert control.report().reason == "not adopted: 0 of 2 departures of the first window"
    serve(control, 0)
    assert control.report().reason == "not adopted: 1 of 2 departures of the first window"
    serve(control, 1)
    assert control.report().reason == "not adopted: request 1 to solve is not answered yet"
    assert solved(control, SURE, "c0", "c1") == (
        "not adopted: c0 has 1 of 2 departures, c1 has 1 of 2 departures"
    )
    serve(control, 0, 1)
    assert solved(control, UNSURE, "c0", "c1") == (
        "not adopted: gain over EQUI 1.2% (-0.4% to 3.1%) is not sure; c2 has 0 of 2 departures"
    )
    serve(control, 0, 1)
    assert solved(control, NONE, "c0", "c1") == (
        "not adopted: gain over EQUI -20.0% (-30.0% to -10.0%); c2 has 0 of 2 departures"
    )
    serve(control, 2, 2)
    assert solved(control, SURE, "c0", "c1") == "c2 shares equally until a policy for it is adopted"
    assert control.report().adopted
    serve(control, 0, 1)
    assert solved(control, SURE, "c0", "c1", "c2", gain=NONE) == (
        "policy 4 stays: the last policy solved for gains nothing over it; "
        "c2 shares equally until a policy for it is adopted"
    )
    serve(control, 0, 1)
    assert solved(control, NONE, "c0", "c1", "c2").startswith("not adopted: gain over EQUI -20.0%")
    assert control.policy_name == "equi"


def test_a_request_that_failed_and_a_window_that_took_no_time_are_said() -> None:
    control = controller()
    serve(control, 0, 1, lasting=0.0)
    assert control.report().reason == (
        "not adopted: 2 of 2 departures of the first window, and their jobs held cores for no time"
    )
    control = controller()
    serve(control, 0, 1)
    control.handle(happened.SolveFailed(control.time, "x", "1", "no memory"))
    assert control.report().reason == "not adopted: no request to solve was answered"


def test_of_many_classes_a_few_are_named() -> None:
    control = controller(classes=40)
    serve(control, 0, 0)
    reason = solved(control, SURE, *control.system.names)
    assert reason.startswith("not adopted: c1 has 0 of 2 departures, c2 has")
    assert reason.endswith("c5 has 0 of 2 departures, and 34 more")
