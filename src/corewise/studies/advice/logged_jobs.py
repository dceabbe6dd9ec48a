r"""The jobs of a log, one by one: when each came, what it took, and how much work it did on a given curve.

The size of a job is the work it did, Σ s(width) × time under a curve: that of its class as estimated, or one
drawn from what is likely. Three kinds of jobs have no such size; all run in a simulation of the log, since
they held cores, but their response times are not counted:

- one that was there at the start runs from then on for the work that it was seen to do;
- one that failed or was cancelled runs for the work that it did, and leaves: under another policy it would
  fail after the same work (if it was cancelled before it did any, it is left out);
- one that is there at the end has done its work and then some: what is left is drawn from the size
  distribution of its class, given what it has done.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from corewise.errors import InvalidInput
from corewise.kit.arrays import Bools, Floats, Ints
from corewise.model.sizes import Exponential
from corewise.model.speedup import SpeedUp
from corewise.model.tabulated_sizes import PiecewiseExponential
from corewise.observation.histories import JobHistories
from corewise.observation.sample_path import SamplePath
from corewise.simulation.trace import Trace

__all__ = ["LoggedJobs"]

SizeDistribution = PiecewiseExponential | Exponential


@dataclass(frozen=True, eq=False)
class LoggedJobs:
    """Jobs of a log, in order of arrival.

    Attributes
    ----------
    names : tuple of str
        The classes.
    time : ndarray
        When each came, or when the log opens if it was there then.
    which : ndarray of int
        The position of its class.
    response : ndarray
        What it took from its arrival to its end; NaN unless both were seen, and it was done.
    waiting : ndarray
        For how long it held no cores.
    failed, unfinished, before : ndarray of bool
        Whether it left undone, was there at the end, or was there at the start.
    histories : tuple of JobHistories
        The same, class by class, with the cores that each job held.
    places : tuple of ndarray of int
        Where the jobs of each class are among all.
    """

    names: tuple[str, ...]
    time: Floats
    which: Ints
    response: Floats
    waiting: Floats
    failed: Bools
    unfinished: Bools
    before: Bools
    histories: tuple[JobHistories, ...]
    places: tuple[Ints, ...]

    @classmethod
    def of(cls, path: SamplePath) -> LoggedJobs:
        """Return the jobs of a path, all of which need a name."""
        found: list[JobHistories] = []
        for name, jobs in zip(path.names, path.histories, strict=True):
            if jobs is None:
                raise InvalidInput(f"jobs of class {name!r} have no names in the log: advice needs them")
            found.append(jobs)
        came = np.concatenate([path.time[jobs.arrives] for jobs in found])
        order = np.argsort(came, kind="stable")
        rank = np.empty(order.size, dtype=np.int64)
        rank[order] = np.arange(order.size)
        places = np.split(rank, np.cumsum([jobs.arrives.size for jobs in found])[:-1])
        until = np.append(path.time, path.end)

        def joined(columns: Sequence[Floats | Bools]) -> Floats:
            return np.concatenate(columns).astype(np.float64)[order]

        spent = [until[jobs.leaves] - path.time[jobs.arrives] for jobs in found]
        seen = [jobs.departed & ~jobs.truncated for jobs in found]
        gone = [jobs.leaves < jobs.rows for jobs in found]
        return cls(
            path.names,
            came[order],
            joined([np.full(jobs.arrives.size, i) for i, jobs in enumerate(found)]).astype(np.int64),
            joined([np.where(whole, time, np.nan) for whole, time in zip(seen, spent, strict=True)]),
            joined([jobs.sums((jobs.widths == 0.0).astype(np.float64)) for jobs in found]),
            joined([left & ~jobs.departed for left, jobs in zip(gone, found, strict=True)]).astype(bool),
            joined([~left for left in gone]).astype(bool),
            joined([jobs.truncated for jobs in found]).astype(bool),
            tuple(found),
            tuple(places),
        )

    @property
    def counted(self) -> Bools:
        """Whether each came and was done within the log, so that its response time counts."""
        return ~np.isnan(self.response)

    @property
    def quick(self) -> Bools:
        """Whether each waited and was then done within a tick of the log's clock, so that it did no work."""
        return self.counted & (self.response > 0.0) & (self.waiting >= self.response)

    def work(self, curves: Sequence[SpeedUp]) -> Floats:
        """Return the work that each job did, if its class has this curve."""
        done = np.empty(self.time.size)
        for curve, jobs, place in zip(curves, self.histories, self.places, strict=True):
            done[place] = jobs.sums(curve.rate(jobs.widths))
        return np.maximum(done, 0.0)

    def completed(
        self, work: Floats, distributions: Sequence[SizeDistribution], rng: np.random.Generator
    ) -> Floats:
        """Return the sizes: the work done, and for jobs there at the end what is left of it, drawn."""
        sizes = work.copy()
        for i, distribution in enumerate(distributions):
            own = (self.which == i) & self.unfinished
            done = (self.which == i) & self.counted
            mean = float(work[self.which == i].sum()) / max(int(done.sum()), 1)
            if own.any() and mean > 0.0:
                sizes[own] += mean * _residual(distribution, work[own] / mean, rng)
        return sizes

    def trace(self, sizes: Floats, chosen: Bools) -> Trace:
        """Return the chosen jobs as a trace."""
        names = np.array(self.names, dtype=object)
        return Trace(self.time[chosen], names[self.which[chosen]].tolist(), sizes[chosen])


def _residual(distribution: SizeDistribution, attained: Floats, rng: np.random.Generator) -> Floats:
    """Return draws of what is left of jobs that have attained so much, both in mean sizes."""
    if isinstance(distribution, PiecewiseExponential):
        return distribution.draw_residual(rng, attained)
    return rng.standard_exponential(attained.size)
