"""Running strata of a path, stretch by stretch: jobs are followed, and only live ones remembered."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from corewise.kit.arrays import Floats
from corewise.model.speedup import SpeedUp
from corewise.model.system import JobClass, System
from corewise.observation.histories import JobHistories, job_histories
from corewise.observation.sample_path import SamplePath
from corewise.observation.strata import _kernels
from corewise.observation.strata.tables import Strata

__all__ = ["StrataTally", "can_be_stratified"]


def can_be_stratified(family: SpeedUp) -> bool:
    """Return whether there are strata for a family: it needs one parameter, within two ends."""
    ends = [end for pair in family.bounds.values() for end in pair]
    return len(ends) == 2 and all(math.isfinite(end) for end in ends)


class StrataTally:
    """Accumulator of the strata of a path: how far it has counted, and what the jobs there have attained."""

    def __init__(self, path: SamplePath, system: System) -> None:
        self.path, self.row = path, 0
        pairs = zip(system.classes, job_histories(path), strict=True)
        self._classes = [None if jobs is None else _ClassTally.of(known, jobs) for known, jobs in pairs]

    def count(self, end: int) -> tuple[Strata | None, ...]:
        """Return the strata of the rows from where the tally stands to before `end`, and move there."""
        began, until = (float(self.path.time[max(row - 1, 0)]) for row in (self.row, end))
        self.row = end
        return tuple(None if one is None else one.count(began, until, end) for one in self._classes)


class _ClassTally:
    """Accumulator of the strata of one class."""

    def __init__(self, jobs: JobHistories, nothing: Strata, speeds: tuple[Floats, Floats]) -> None:
        self.jobs, self.nothing, self._speeds = jobs, nothing, speeds
        self._seen = 0  # jobs that have come
        self._live: Mapping[
            int, tuple[Floats, int]
        ] = {}  # the state of each job that is there, and its segment

    @classmethod
    def of(cls, known: JobClass, jobs: JobHistories) -> _ClassTally | None:
        """Return a tally that has seen nothing yet; None if the family of the curve has no strata."""
        if not can_be_stratified(known.speedup):
            return None
        ((name, bounds),) = known.speedup.bounds.items()
        unit = _mean_size(known, jobs) if known.size_rate is None else 1.0 / known.size_rate
        nothing = Strata.empty(known.speedup.family, bounds, unit)
        curves = [known.speedup.with_parameters(**{name: p}) for p in nothing.nodes.tolist()]
        speeds = np.stack([curve.rate(jobs.widths) for curve in curves])
        slopes = np.stack([curve.gradient(jobs.widths)[:, 0] for curve in curves])
        return cls(jobs, nothing, (speeds, slopes))

    def count(self, began: float, until: float, end: int) -> Strata:
        """Return the strata of a stretch of time, up to before a row."""
        jobs, nothing = self.jobs, self.nothing
        bins, sums = np.zeros(nothing.bins.shape), np.zeros(nothing.jobs.shape)
        come = int(np.searchsorted(jobs.arrives, end))
        new = {j: (np.zeros((nothing.nodes.size, 5)), int(jobs.first[j])) for j in range(self._seen, come)}
        live = {}
        for j, (state, at) in {**self._live, **new}.items():
            departed, whole = bool(jobs.leaves[j] < end), not jobs.truncated[j]
            segment = _kernels.follow_job(
                jobs.place,
                jobs.start,
                jobs.span,
                at,
                int(jobs.last[j]),
                began,
                until,
                departed,
                whole,
                *self._speeds,
                nothing.edges,
                state,
                bins,
                sums,
            )
            if not departed:
                live[j] = (state, int(segment))
        self._seen, self._live = come, live
        return Strata(nothing.family, nothing.nodes, nothing.edges, bins, sums)


def _mean_size(known: JobClass, jobs: JobHistories) -> float:
    """Return about how large jobs are whose size rate is not known: a power of two, on the curve as given."""
    done = float(jobs.sums(known.speedup.rate(jobs.widths)).sum())
    left = int(jobs.departed.sum())
    return 2.0 ** round(math.log2(done / left)) if done > 0.0 and left else 1.0
