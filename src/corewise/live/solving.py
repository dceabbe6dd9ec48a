"""Requests to solve, answered in a process of their own: a policy as the bytes of its file."""

from __future__ import annotations

import numpy as np

from corewise.analysis.performance import evaluate
from corewise.analysis.reach import Reach
from corewise.control.solution import solve
from corewise.errors import BoxTooLarge, NotConverged, UnstablePolicy
from corewise.learning.algorithms import Algorithm
from corewise.learning.learner import Learner, SolveRequest
from corewise.live.gate import Gain, gains
from corewise.model.system import JobClass, System
from corewise.observation.statistics import ClassStatistics, Statistics
from corewise.policies.base import BoundPolicy, bind
from corewise.policies.equi import Equi
from corewise.policies.saved import policy_from_bytes, policy_to_bytes
from corewise.policies.tabular import Tabular
from corewise.policies.whittle import Whittle

__all__ = ["Answer", "answer", "rehearse_answer", "rehearse_request"]

ResponseTimes = tuple[tuple[float, float], ...] | None
"""The mean response time of each class, under EQUI and by a policy, where both are finite."""

Answer = tuple[bytes, Gain, Gain, ResponseTimes]
"""A policy, what is gained by it over the one in force and over EQUI, and the response times to expect."""


def answer(asked: SolveRequest, seen: Statistics, in_force: bytes | None) -> Answer:
    """Return the best policy for what is believed, and what it is worth given what was seen.

    `in_force` is the policy in force, None for EQUI.
    """
    policy = _best(asked)
    rival = Equi() if in_force is None else policy_from_bytes(in_force, "the policy in force")
    return policy_to_bytes(policy), *gains(asked, seen, policy, rival), _response_times(asked.system, policy)


def _best(asked: SolveRequest) -> Tabular | BoundPolicy:
    """Return the optimum or the rule that was asked for; Whittle's where there are too many states."""
    rule = asked.algorithm.policy
    try:
        return bind(rule, asked.system) if rule is not None else solve(asked.system, whole_cores=True).policy
    except BoxTooLarge:
        return bind(Whittle(), asked.system)


def _response_times(system: System, policy: Tabular | BoundPolicy) -> ResponseTimes:
    if not Reach.of(system).quick:
        return None
    try:
        equi, found = evaluate(system, Equi()), evaluate(system, policy)
    except (UnstablePolicy, BoxTooLarge, NotConverged):
        return None
    both = zip(equi.classes.values(), found.classes.values(), strict=True)
    return tuple((one.mean_response_time, other.mean_response_time) for one, other in both)


def rehearse_answer(algorithm: Algorithm) -> None:
    """Answer a request as a learner makes it, and forget it: the first one compiles code, or loads it."""
    asked = rehearse_request(algorithm)
    if asked is not None:
        answer(asked, _made_up_window(algorithm), None)


def rehearse_request(algorithm: Algorithm) -> SolveRequest | None:
    """Return the request of a learner that has seen one window, which is made up.

    The first estimate compiles code or loads it, for seconds in which no other thread gets on.
    """
    return Learner(algorithm).observe(_made_up_window(algorithm))


def _made_up_window(algorithm: Algorithm) -> Statistics:
    known = algorithm.system.classes
    each = -(-algorithm.schedule.window(1) // len(known))
    classes = [_made_up(job_class, each) for job_class in known]
    time = max(each / (job_class.arrival_rate or 1.0) for job_class in known)
    return Statistics(tuple(algorithm.system.names), time, tuple(classes))


def _made_up(job_class: JobClass, count: int) -> ClassStatistics:
    """Return departures at two widths, as many at each as are expected."""
    widths, departures = np.array([1.0, 2.0]), np.full(2, count / 2.0)
    speeds = (job_class.size_rate or 1.0) * np.asarray(job_class.speedup.rate(widths))
    return ClassStatistics(count, widths, departures, departures / speeds)
