"""An algorithm learned many times over: errors beside the Cramér-Rao bound, and exact gaps.

Every run has a random stream of its own, spawned from one seed in order; so the answer depends on the seed
and the number of runs, not on who computed which of them.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial

import numpy as np

from corewise.analysis.information import fisher_information
from corewise.errors import InvalidInput
from corewise.learning.algorithms import Algorithm
from corewise.learning.judge import Judge
from corewise.learning.learner import learn
from corewise.learning.memories import Latest
from corewise.learning.plant import simulated
from corewise.model import checks
from corewise.model.speedup import Array, SpeedUp
from corewise.model.system import System, require_system
from corewise.simulation.replicate import carried_out
from corewise.simulation.simulator import Progress, random_streams

__all__ = ["LearningStudy", "cramer_rao", "learning_study", "tracking_errors"]


@dataclass(frozen=True, eq=False)
class LearningStudy:
    """Independent runs of one algorithm on one system, whose curves have one parameter each.

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
    """

    algorithm: str
    names: tuple[str, ...]
    windows: Array
    departures: Array
    times: Array
    estimates: Array
    truths: Array
    bounds: Array
    mean_jobs: Array
    gaps: Array

    @property
    def errors(self) -> Array:
        """The root mean square error of the estimates over runs, shape (K, epochs)."""
        return np.asarray(np.sqrt(np.mean((self.estimates - self.truths) ** 2, axis=0)))

    @property
    def scores(self) -> Array:
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
    executor: Executor | None = None,
    progress: Progress | None = None,
) -> LearningStudy:
    """Learn `n` times, independently.

    Parameters
    ----------
    system : System
        The truth; where its curves change, a `DriftingPlant` has them change.
    algorithm : Algorithm
        How to learn, with a number of steps.
    n : int
        How many runs.
    rng : Generator or int, optional
        Where the streams of the runs are spawned from, or a seed for it.
    diagnose : bool or container of int, optional
        After which epochs the policy is judged exactly; the last is always among them.
    executor : concurrent.futures.Executor, optional
        Who does the work; this process alone if not given.
    progress : callable, optional
        Called after every run with the share of them that are done.
    """
    count = checks.count(n, "n")
    steps = _steps(system, algorithm)
    bounds = cramer_rao(system, algorithm)
    epochs = range(1, steps + 1)
    judge = Judge(diagnose)
    judged = {k for k in epochs if judge.wants(k)} | {steps}
    work = partial(_run, system, algorithm, judged)
    streams = random_streams(rng, count)
    if executor is None:
        records = _one_by_one(work, streams, progress)
    else:
        records = carried_out(work, streams, executor, progress)
    windows = np.array([algorithm.schedule.window(k) for k in epochs])
    times = np.array([record[0] for record in records])
    return LearningStudy(
        algorithm=algorithm.name,
        names=tuple(system.names),
        windows=windows,
        departures=np.cumsum(windows),
        times=times,
        estimates=np.array([record[3:].tolist() for record in records]),
        truths=_truths(system, times),
        bounds=bounds,
        mean_jobs=np.array([record[1] for record in records]),
        gaps=np.array([record[2] for record in records]),
    )


def cramer_rao(system: System, algorithm: Algorithm) -> Array:
    """Return the bound on the standard deviation of every class's parameter after each window, (K, epochs).

    The first window is under the algorithm's first policy; all later ones are taken to be under the one that
    it would adopt if it knew the truth. NaN where curves change, infinite where nothing can be told.
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


def tracking_errors(study: LearningStudy, system: System) -> Array:
    """Return the time-averaged squared error of the estimates in force, shape (runs, K).

    An estimate is in force from the end of its window to the end of the next; the average begins with the
    first estimate.
    """
    found = []
    changes = [change.time for change in system.changes]
    for times, estimates in zip(study.times, study.estimates, strict=True):
        edges = np.unique(np.concatenate([times, [t for t in changes if times[0] < t < times[-1]]]))
        truth = _truths(system, edges[None, :-1])[0]
        in_force = estimates[:, np.searchsorted(times, edges[:-1], side="right") - 1]
        found.append(((in_force - truth) ** 2 * np.diff(edges)).sum(axis=1) / (edges[-1] - edges[0]))
    return np.array(found)


def _run(system: System, algorithm: Algorithm, judged: Container[int], stream: np.random.Generator) -> Array:
    """Return the record of one run: rows are times, mean jobs, gaps and the estimates of every class."""
    plant = simulated(system, stream)
    rows = [
        [
            epoch.time,
            np.nan if epoch.mean_jobs is None else epoch.mean_jobs,
            np.nan if epoch.gap is None else epoch.gap,
            *(estimate.value for estimate in epoch.estimates.values()),
        ]
        for epoch in learn(plant, algorithm, diagnose=judged)
    ]
    return np.array(rows).T


def _one_by_one(
    work: partial[Array], streams: Sequence[np.random.Generator], progress: Progress | None
) -> list[Array]:
    """Return the record of every run, made in this process."""
    records = []
    for stream in streams:
        records.append(work(stream))
        if progress:
            progress(len(records) / len(streams))
    return records


def _truths(system: System, times: Array) -> Array:
    """Return the parameters in force at times of shape (runs, epochs), class by class."""
    columns = []
    for known in system.classes:
        changes = [change for change in system.changes if change.name == known.name]
        values = [_value(known.speedup), *(_value(change.speedup) for change in changes)]
        regime = np.searchsorted([change.time for change in changes], times, side="right")
        columns.append(np.array(values)[regime])
    return np.stack(columns, axis=1)


def _value(curve: SpeedUp) -> float:
    (value,) = curve.parameters.values()
    return value
