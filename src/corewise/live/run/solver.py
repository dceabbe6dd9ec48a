"""The solver process of a live pool: inference and solving take seconds, and Python's lock with them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import numpy as np

from corewise.kit.workers import LocalProcesses, Workers
from corewise.learning.algorithms import Algorithm
from corewise.learning.learner import InferenceRequest, Learner
from corewise.learning.solving import solve_request
from corewise.model.job_class import JobClass
from corewise.observation.progress import ClassProgress
from corewise.observation.statistics import ClassStatistics, Statistics

__all__ = ["solver_process", "warm_up_request", "warm_up_solve"]

_MADE_UP = 1000  # departures of a class at most, in a window that is made up


@contextmanager
def solver_process(algorithm: Algorithm) -> Iterator[Workers]:
    """Give a process to solve in; it and this one are warmed up."""
    workers = LocalProcesses(1)
    try:
        workers.open()
        there = workers.submit(partial(warm_up_solve, algorithm))
        warm_up_request(algorithm)
        workers.answer(there)
        yield workers
    finally:
        workers.close()


def warm_up_solve(algorithm: Algorithm) -> None:
    """Solve a made-up request, and drop the result: the first one compiles code, or loads it."""
    solve_request(warm_up_request(algorithm), None)


def warm_up_request(algorithm: Algorithm) -> InferenceRequest:
    """Return the request of a learner that has seen one window, which is made up.

    The first one compiles code or loads it, for seconds in which no other thread gets on.
    """
    learner = Learner(algorithm)
    request = learner.observe(_made_up_window(algorithm))
    if request is None:  # the first window is longer than what is made up
        learner.close()
    return learner.request(tuple(_made_up_progress() for _ in algorithm.system.classes))


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
