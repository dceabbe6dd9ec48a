"""Runs with moving costs: what a path of jobs that pause has shown."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np

from corewise.errors import InvalidInput, InvalidSystem
from corewise.kit.frozen import FrozenMapping
from corewise.kit.progress import Progress
from corewise.model.system import System
from corewise.policies.base import BoundPolicy
from corewise.simulation.correlation import correlation_time
from corewise.simulation.intervals import ratio_interval
from corewise.simulation.job_times import ClassTimes
from corewise.simulation.loops.moving import MovingLoop
from corewise.simulation.loops.sources import JobSource
from corewise.simulation.run import ClassRun, Run, has_batches
from corewise.simulation.state import State
from corewise.simulation.window import Window

__all__ = ["moving_run", "require_moves"]

_BATCHES = 20
_NEVER = 2**62


def require_moves(system: System, policy: BoundPolicy) -> None:
    """Raise `InvalidInput` if a policy or a system cannot be simulated with moving costs."""
    if system.changes:
        raise InvalidInput("moving costs are simulated for curves that stay: this system has changes")
    for job_class in system.classes:
        if job_class.changes_with_progress:
            raise InvalidSystem(
                f"class {job_class.name!r}: its curve changes with progress, and cannot be simulated with "
                f"moving costs; whole=True takes such curves"
            )
    if not policy.by_counts:
        raise InvalidInput(
            f"{policy.name} serves classes by attained work, and cannot be simulated with moving costs"
        )


def moving_run(
    system: System,
    policy: BoundPolicy,
    window: Window,
    source: JobSource,
    start: float,
    progress: Progress | None,
    *,
    recorded: bool,
) -> Run:
    """Return what a run from an empty system has shown; jobs that were `recorded` have no long-run mean."""
    walk = MovingLoop(system, policy, source, start)
    areas, spans = [], []
    for k, (departures, until) in enumerate(_batches(window, start)):
        area, span = walk.run(departures, until)
        areas.append(area)
        spans.append(span)
        if progress is not None:
            progress((k + 1) / _BATCHES)
    return _run(walk, np.array(areas), np.array(spans), recorded=recorded)


def _batches(window: Window, start: float) -> list[tuple[int, float]]:
    """Return how far each batch goes: so many departures, or until a time."""
    if window.time is not None:
        return [(_NEVER, start + window.time * (k + 1) / _BATCHES) for k in range(_BATCHES)]
    assert window.departures is not None
    edges = [window.departures * k // _BATCHES for k in range(_BATCHES + 1)]
    return [(high - low, math.inf) for low, high in pairwise(edges)]


def _run(walk: MovingLoop, areas: np.ndarray, spans: np.ndarray, *, recorded: bool) -> Run:
    system, duration = walk.system, float(spans.sum())
    if duration <= 0.0:
        raise InvalidInput("a window of no length")
    correlation = 0.0
    if not recorded and has_batches(system, areas.sum(axis=1), spans, walk.departures):
        correlation = correlation_time(system)
    else:
        areas, spans = areas.sum(axis=0, keepdims=True), spans.sum(keepdims=True)
    rows, response_times = {}, {}
    left = walk.departed.sum(axis=1).astype(np.int64).tolist()
    for i, name in enumerate(system.names):
        done, spent = float(walk.times.left[i]), float(walk.times.spent[i])
        mean = spent / done if done else math.nan
        interval = ratio_interval(areas[:, i], spans, correlation)
        jobs = float(areas[:, i].sum()) / duration
        rows[name] = ClassRun(name, int(walk.arrivals[i]), left[i], jobs, interval, mean, done)
        percentiles = walk.times.usual_percentiles(i)
        response_times[name] = ClassTimes(name, done, mean, (math.nan, math.nan), mean, percentiles)
    return Run(
        policy=walk.policy.name,
        path=None,
        mean_jobs=float(areas.sum()) / duration,
        interval=ratio_interval(areas.sum(axis=1), spans, correlation),
        mean_cost=math.fsum(known.weight * rows[known.name].mean_jobs for known in system.classes),
        events=int(walk.arrivals.sum()) + walk.departures,
        departures=walk.departures,
        time=duration,
        state=State(walk.counts, walk.clock),
        classes=FrozenMapping(rows),
        visited=np.empty((len(system.classes), 0), dtype=np.int64),
        times=np.empty(0),
        observed=walk.statistics(duration),
        response_times=FrozenMapping(response_times),
        job_times=walk.times,
        resizes=int(walk.resizes.sum()),
        unit=system.unit,
    )
