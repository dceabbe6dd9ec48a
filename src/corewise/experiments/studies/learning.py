"""Replications of a learning algorithm: errors beside the Cramér-Rao bound, and exact gaps.

Every run has a random stream of its own, spawned from one seed in order; so the answer depends on the seed
and the number of runs, not on who computed which of them.
"""

from __future__ import annotations

import math
from collections.abc import Container, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import numpy as np

from corewise.analysis.information import fisher_information
from corewise.errors import InvalidInput
from corewise.estimation.changes.detector import Alarm
from corewise.experiments.studies.tracking import ExactAverage, squared_errors, true_values
from corewise.kit import checks
from corewise.kit.arrays import Floats
from corewise.kit.progress import Progress
from corewise.learning.algorithms import Algorithm
from corewise.learning.evaluator import ExactEvaluator
from corewise.learning.loop import learn
from corewise.learning.memories import Latest
from corewise.learning.plant import SimulatedPlant
from corewise.model.system import System, require_system
from corewise.simulation.randomness import random_streams
from corewise.simulation.replicate import carried_out

__all__ = [
    "Detections",
    "LearningStudy",
    "cramer_rao",
    "detections",
    "learning_study",
    "tracking_errors",
]


@dataclass(frozen=True, eq=False)
class LearningStudy:
    """Replicated learning: independent runs of one algorithm on a system with one-parameter curves.

    Attributes
    ----------
    algorithm : str
        Which.
    names : tuple of str
        The classes.
    windows, departures : ndarray
        The departures of each window, and in all up to its end, shape (epochs,).
    times : ndarray
        The end of each window, shape (runs, epochs).
    estimates, truths : ndarray
        Estimates of the parameters, and what was in force when the window ended, shape (runs, K, epochs).
    bounds : ndarray
        The Cramér-Rao bound on the standard deviation of the estimates, shape (K, epochs); NaN where curves
        change.
    mean_jobs, gaps : ndarray
        Of the policy adopted after each window, exactly, shape (runs, epochs); NaN where not computed.
    averages : ndarray
        The exact mean number of jobs over each run, see `corewise.experiments.studies.tracking.ExactAverage`,
        shape (runs,); NaN where not computed.
    alarms : tuple of tuple of Alarm
        The changes that were found in each run; none without a change detector.
    """

    algorithm: str
    names: tuple[str, ...]
    windows: Floats
    departures: Floats
    times: Floats
    estimates: Floats
    truths: Floats
    bounds: Floats
    mean_jobs: Floats
    gaps: Floats
    averages: Floats = field(default_factory=lambda: np.empty(0))
    alarms: tuple[tuple[Alarm, ...], ...] = ()

    @property
    def errors(self) -> Floats:
        """The root mean square error of the estimates over runs, shape (K, epochs)."""
        return np.asarray(np.sqrt(np.mean((self.estimates - self.truths) ** 2, axis=0)))

    @property
    def scores(self) -> Floats:
        """How many Cramér-Rao standard deviations the last estimates are off, shape (runs, K)."""
        return (self.estimates - self.truths)[:, :, -1] / self.bounds[:, -1]

    def __str__(self) -> str:
        """Return the end of the story, class by class."""
        runs = self.times.shape[0]
        lines = [f"Algorithm {self.algorithm}: {runs} runs of {self.departures[-1]:g} departures"]
        for i, name in enumerate(self.names):
            lines.append(
                f"  {name}: error {self.errors[i, -1]:.4g} (Cramér-Rao bound {self.bounds[i, -1]:.4g})"
            )
        return "\n".join(lines)


def learning_study(
    system: System,
    algorithm: Algorithm,
    *,
    n: int,
    rng: np.random.Generator | int | None = None,
    diagnose: bool | Container[int] = False,
    average_until: float | None = None,
    executor: Executor | None = None,
    progress: Progress | None = None,
) -> LearningStudy:
    """Learn `n` times, independently.

    Parameters
    ----------
    system : System
        The truth; its curves change at their times.
    algorithm : Algorithm
        How to learn, with a number of steps.
    n : int
        How many runs.
    rng : Generator or int, optional
        Where the streams of the runs are spawned from, or a seed for it.
    diagnose : bool or container of int, optional
        After which epochs the policy is judged exactly; the last is always among them.
    average_until : float, optional
        If given, every policy in force is evaluated, for the exact mean number of jobs over each run up to
        that time; if it comes after the last window, the last policy stays in force.
    executor : concurrent.futures.Executor, optional
        Who does the work; this process alone if not given.
    progress : callable, optional
        Called after every run with the share of them that are done.
    """
    count = checks.whole(n, "n")
    if average_until is not None:
        checks.positive(average_until, "average_until")
    steps = _steps(system, algorithm)
    bounds = cramer_rao(system, algorithm)
    epochs = range(1, steps + 1)
    evaluator = ExactEvaluator(diagnose)
    judged = {k for k in epochs if evaluator.wants(k)} | {steps}
    work = partial(_run, system, algorithm, judged, average_until)
    streams = random_streams(rng, count)
    if executor is None:
        records = _one_by_one(work, streams, progress)
    else:
        records = carried_out(work, streams, executor, progress)
    windows = np.array([algorithm.schedule.window(k) for k in epochs])
    times = np.array([record.rows[0] for record in records])
    return LearningStudy(
        algorithm=algorithm.name,
        names=tuple(system.names),
        windows=windows,
        departures=np.cumsum(windows),
        times=times,
        estimates=np.array([record.rows[3:] for record in records]),
        truths=true_values(system, times),
        bounds=bounds,
        mean_jobs=np.array([record.rows[1] for record in records]),
        gaps=np.array([record.rows[2] for record in records]),
        averages=np.array([record.average for record in records]),
        alarms=tuple(record.alarms for record in records),
    )


def cramer_rao(system: System, algorithm: Algorithm) -> Floats:
    """Return the bound on the standard deviation of every class's parameter after each window, (K, epochs).

    The first window is under the algorithm's first policy; all later ones are taken to be under the one that
    it would adopt if it knew the truth. NaN where curves change, infinite where there is no information.
    """
    steps = _steps(system, algorithm)
    if system.changes:
        return np.full((len(system.classes), steps), np.nan)
    _, first = algorithm.beginning()
    windows = np.array([algorithm.schedule.window(k) for k in range(1, steps + 1)], dtype=np.float64)
    lengths = windows / float(system.arrival_rates.sum())
    rows = []
    early, late = (fisher_information(system, policy) for policy in (first, algorithm.best_policy(system)))
    for name in system.names:
        seen = lengths * float(late[name].per_time[0, 0])
        seen[0] = lengths[0] * float(early[name].per_time[0, 0])
        rows.append(seen if isinstance(algorithm.memory, Latest) else np.cumsum(seen))
    with np.errstate(divide="ignore"):
        return 1.0 / np.sqrt(np.array(rows))


def _steps(system: System, algorithm: Algorithm) -> int:
    """Return the number of windows, refusing what no study can be made of."""
    require_system(system)
    if not isinstance(algorithm, Algorithm):
        raise InvalidInput(f"expected an algorithm such as algorithm_1a(…), got {algorithm!r}")
    for known in system.classes:
        if len(known.speedup.bounds) != 1:
            raise InvalidInput(
                f"class {known.name!r}: a study is for curves with one parameter, not {known.speedup.family}"
            )
    if algorithm.steps is None:
        raise InvalidInput("a study needs an algorithm with a number of steps")
    return algorithm.steps


def tracking_errors(study: LearningStudy, system: System) -> Floats:
    """Return the time-averaged squared error of the estimates in force, shape (runs, K).

    An estimate is in force from the end of its window to the end of the next; the average begins with the
    first estimate.
    """
    found = []
    for times, estimates in zip(study.times, study.estimates, strict=True):
        spans = np.diff(times)
        found.append(squared_errors(system, times, estimates) @ spans / spans.sum())
    return np.array(found)


@dataclass(frozen=True, eq=False)
class Detections:
    """Detection delays: which changes were found, and how soon.

    Attributes
    ----------
    delays : ndarray
        The departures of all classes from each change of the system to the first alarm for its class, shape
        (runs, changes); NaN where there was none before the class changed again.
    others : ndarray
        How many further alarms there were, false ones and second ones for the same change, shape (runs,).
    """

    delays: Floats
    others: Floats


def detections(study: LearningStudy, system: System) -> Detections:
    """Return the detection delays of each run; alarms that only name an earlier one do not count."""
    delays = np.full((len(study.alarms), len(system.changes)), np.nan)
    others = np.zeros(len(study.alarms))
    for run, (times, alarms) in enumerate(zip(study.times, study.alarms, strict=True)):
        clock, count = np.append(0.0, times), np.append(0.0, study.departures)
        at = np.interp([change.time for change in system.changes], clock, count)
        places = set()
        for alarm in alarms:
            speed = alarm.kind != "arrival rate"
            if (alarm.name, speed, alarm.departures) in places:
                continue
            places.add((alarm.name, speed, alarm.departures))
            own = (j for j, change in enumerate(system.changes) if change.name == alarm.name)
            meant = [j for j in own if speed and at[j] <= alarm.raised]
            if meant and np.isnan(delays[run, meant[-1]]):
                delays[run, meant[-1]] = alarm.raised - at[meant[-1]]
            else:
                others[run] += 1
    return Detections(delays, others)


class _Record(NamedTuple):
    """Summarised of one run: rows are times, mean jobs, gaps and the estimates of every class."""

    rows: Floats
    average: float
    alarms: tuple[Alarm, ...]


def _run(
    system: System,
    algorithm: Algorithm,
    judged: Container[int],
    average_until: float | None,
    stream: np.random.Generator,
) -> _Record:
    """Return the record of one run."""
    epochs = learn(SimulatedPlant(system, rng=stream), algorithm, diagnose=judged)
    in_force, jobs = epochs.learner.policy, ExactAverage(system, average_until or math.inf)
    rows: list[list[float]] = []
    alarms: list[Alarm] = []
    for epoch in epochs:
        if average_until is not None:
            jobs.add(in_force, epoch.time)
        in_force = epoch.policy
        alarms += epoch.alarms
        rows.append(
            [
                epoch.time,
                np.nan if epoch.mean_jobs is None else epoch.mean_jobs,
                np.nan if epoch.gap is None else epoch.gap,
                *(estimate.value for estimate in epoch.estimates.values()),
            ]
        )
    if average_until is None:
        return _Record(np.array(rows).T, np.nan, tuple(alarms))
    jobs.add(in_force, average_until)
    return _Record(np.array(rows).T, jobs.mean_jobs, tuple(alarms))


def _one_by_one(
    work: partial[_Record], streams: Sequence[np.random.Generator], progress: Progress | None
) -> list[_Record]:
    """Return the record of every run, made in this process."""
    records = []
    for stream in streams:
        records.append(work(stream))
        if progress:
            progress(len(records) / len(streams))
    return records
