"""Questions of a live controller, answered in a process of their own: a lesson, and a policy as bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from corewise.control.priced.priced import solve_priced
from corewise.control.solution import solve
from corewise.errors import BoxTooLarge, InvalidPolicy
from corewise.kit.workers import LocalProcesses, Workers
from corewise.learning.algorithms import Algorithm
from corewise.learning.conclusions import BUSIEST
from corewise.learning.memories import Memory
from corewise.live.state.lessons import Lesson, LiveLearner, Question, conclude
from corewise.live.state.moving import with_pauses
from corewise.live.state.scaled import InProportion, as_made
from corewise.live.state.worth import Worth, worth
from corewise.model.job_class import JobClass
from corewise.model.system import System
from corewise.observation.progress import ClassProgress
from corewise.observation.statistics import ClassStatistics, Statistics
from corewise.policies.base import BoundPolicy, Policy, bind, checked_policy
from corewise.policies.equi import Equi
from corewise.policies.moving.priced import PricedTabular
from corewise.policies.saved import policy_from_bytes, policy_to_bytes
from corewise.policies.tabular import Tabular
from corewise.policies.whittle import Whittle

__all__ = ["Answer", "answer", "rehearse_answer", "rehearse_question", "solving"]

_MADE_UP = 1000  # departures of a class at most, in a window that is made up


@dataclass(frozen=True, eq=False)
class Answer:
    """Answer to a question.

    Attributes
    ----------
    lesson : Lesson
        What follows from what was seen.
    policy : bytes
        The best policy for that.
    classes : tuple of str
        The classes that it is for, and that `worth` is about.
    worth : Worth
        What it is worth.
    memory : Memory
        What is remembered of all that was seen.
    """

    lesson: Lesson
    policy: bytes
    classes: tuple[str, ...]
    worth: Worth
    memory: Memory

    @property
    def told(self) -> tuple[Any, ...]:
        """What a `Solved` says beyond the request and the digest of the policy."""
        found = self.worth
        gains = (found.gain, found.gain_over_equi)
        lesson = self.lesson.as_mapping()
        return (*gains, found.response_times, found.in_force_over_equi, lesson, self.classes)


def answer(asked: Question, in_force: bytes | None) -> Answer:
    """Return what follows from what was seen, and the best policy for the classes that are known.

    `in_force` is the policy in force, None for EQUI.
    """
    lesson = conclude(asked)
    here = replace(lesson, believed=_in_pool(_known(asked, lesson), asked.cores))
    pauses = dict(zip(asked.algorithm.system.names, asked.pauses, strict=False))  # none before one is known
    policy = _best(asked.algorithm, here.believed, [pauses.get(name, 0.0) for name in here.believed.names])
    rival: Policy = Equi()
    if in_force is not None:
        rival = _as_it_is(policy_from_bytes(in_force, "the policy in force"), here.believed)
    classes, found = tuple(here.believed.names), worth(asked, here, policy, rival)
    return Answer(lesson, policy_to_bytes(policy), classes, found, asked.remembered[0])


def _known(asked: Question, lesson: Lesson) -> System:
    """Return what is believed of the classes that a policy is to be made for, two or more.

    They are those that have left often enough. Beside others that share equally one class alone does, too: if
    there is no second, it is what would be adopted next, for the classes that have left at all, which says
    what there is to gain. A rule that names every class needs all of them.
    """
    believed = lesson.believed
    rows = [row for row in lesson.classes if not row.too_short]
    found = ([row.name for row in rows if row.departures >= n] for n in (asked.least_seen, 1))
    names = next((names for names in found if len(names) > 1), believed.names)
    if names == believed.names:
        return believed
    # Arrivals may have been made fewer for the load of all classes.
    rates = {name: lesson.estimated[name].arrival_rate for name in names}
    known = believed.with_classes(replace(believed[name], arrival_rate=rates[name]) for name in names)
    try:
        checked_policy(asked.algorithm.policy or Equi(), known)
    except InvalidPolicy:
        return believed
    return known if known.load <= BUSIEST else known.at_load(BUSIEST)


def _in_pool(system: System, cores: int | None) -> System:
    """Return a system with the cores that there are; with fewer arrivals if they are too few for them."""
    if cores is None or cores == system.cores:
        return system
    resized = System(cores, system.classes, system.changes)
    return resized if resized.load <= BUSIEST else resized.at_load(BUSIEST)


def _as_it_is(policy: Tabular | PricedTabular | BoundPolicy, system: System) -> Policy:
    """Return a policy in force as it is in a pool: in proportion, if that is not the one it was made for."""
    if (policy.system.cores, policy.system.names) == (system.cores, system.names):
        return policy
    return InProportion(as_made(policy, system))


def _best(
    algorithm: Algorithm, system: System, pauses: Sequence[float]
) -> Tabular | PricedTabular | BoundPolicy:
    """Return the optimum or the rule that was asked for; Whittle's where there are too many states.

    Where jobs pause when they are resized, it is the optimum for free moves with the prices of moves.
    """
    rule = algorithm.policy
    try:
        if rule is not None:
            return bind(rule, system)
        if any(pauses):
            return solve_priced(with_pauses(system, pauses))
        return solve(system, whole_cores=True).policy
    except BoxTooLarge:
        return bind(Whittle(), system)


@contextmanager
def solving(algorithm: Algorithm) -> Iterator[Workers]:
    """Give a process to solve in; it and this one have rehearsed what they are to do."""
    workers = LocalProcesses(1)
    try:
        workers.open()
        there = workers.submit(partial(rehearse_answer, algorithm))
        rehearse_question(algorithm)
        workers.answer(there)
        yield workers
    finally:
        workers.close()


def rehearse_answer(algorithm: Algorithm) -> None:
    """Answer a question, and forget it: the first one compiles code, or loads it."""
    answer(rehearse_question(algorithm), None)


def rehearse_question(algorithm: Algorithm) -> Question:
    """Return the question of a learner that has seen one window, which is made up.

    The first one compiles code or loads it, for seconds in which no other thread gets on.
    """
    learner = LiveLearner(algorithm)
    learner.observe(_made_up_window(algorithm))
    return learner.question(tuple(_made_up_progress() for _ in algorithm.system.classes), ())


def _made_up_window(algorithm: Algorithm) -> Statistics:
    known = algorithm.system.classes
    each = min(-(-algorithm.schedule.window(1) // len(known)), _MADE_UP)
    classes = [_made_up(job_class, each) for job_class in known]
    time = max(each / (job_class.arrival_rate or 1.0) for job_class in known)
    return Statistics(tuple(algorithm.system.names), time, tuple(classes))


def _made_up(job_class: JobClass, count: int) -> ClassStatistics:
    """Return departures at two widths, as many at each as are expected."""
    widths, departures = np.array([1.0, 2.0]), np.full(2, count / 2.0)
    speeds = (job_class.size_rate or 1.0) * np.asarray(job_class.speedup.rate(widths))
    return ClassStatistics(count, widths, departures, departures / speeds)


def _made_up_progress() -> ClassProgress:
    each = np.full(2, 100.0)
    return ClassProgress(np.array([1.0, 2.0]), each, each, each, 2.0 * each, (50.0, 4.0, 800.0))
