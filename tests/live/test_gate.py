"""What the gate is there for: policies from few departures, exactly evaluated at the truth."""

from __future__ import annotations

import pytest

import corewise as cw
from corewise.live.lessons import LiveLearner
from corewise.live.marks import Marks
from corewise.live.solving import answer
from corewise.policies.saved import policy_from_bytes

TRUTH = cw.System(
    8, [cw.JobClass("one", 1.6, 1.0, cw.Amdahl(0.3)), cw.JobClass("two", 1.6, 1.0, cw.Amdahl(0.8))]
)
UNKNOWN = cw.System(8, [cw.JobClass(known.name, None, None, known.speedup) for known in TRUTH.classes])
SEEDS = range(16)


def excess(policy: cw.Policy) -> float:
    """By how much the mean cost of a policy is above that of EQUI, as a fraction."""
    return cw.evaluate(TRUTH, policy).mean_cost / cw.evaluate(TRUTH, "equi").mean_cost - 1.0


def learner_of(seed: int) -> LiveLearner:
    learner = LiveLearner(cw.algorithm_1b(UNKNOWN, departures=50))
    learner.observe(cw.simulate(TRUTH, cw.Equi(), departures=50, rng=seed).statistics)
    return learner


def most_likely(learner: LiveLearner) -> cw.Policy:
    """The best policy for what is most likely: the plainest learner."""
    found = cw.estimate(learner.remembers.recall(), UNKNOWN, sizes="exponential")
    system = found.applied_to(learner.standing.estimated)
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
        found = answer(learner.question(Marks(2).seen(), ()), None)
        proposed.append(excess(policy_from_bytes(found.policy, "it")))
        if found.worth.gain_over_equi[0] > 0.0:
            passed.append(proposed[-1])
        plain.append(excess(most_likely(learner)))
    assert max(proposed) < 0.01
    assert passed
    assert max(passed) < 0.0
    assert max(plain) > 0.15
    assert sum(one > 0.02 for one in plain) >= 4
