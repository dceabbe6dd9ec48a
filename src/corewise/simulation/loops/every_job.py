"""The base of the loops over every job: where jobs come from, and the response times of those that left."""

from __future__ import annotations

import math
from abc import abstractmethod

import numpy as np

from corewise.kit.arrays import Floats, Int
from corewise.simulation.intervals import ratio_interval
from corewise.simulation.job_times import ClassTimes, JobTimes
from corewise.simulation.loops.loop import Loop
from corewise.simulation.loops.occupation import Occupation
from corewise.simulation.loops.sources import JobSource
from corewise.simulation.loops.tally import Totals
from corewise.simulation.slowdowns import Slowdowns, lone_times, slowdowns_of
from corewise.simulation.state import State

__all__ = ["EveryJobLoop"]


class EveryJobLoop(Loop):
    """Loop over every job.

    Parameters
    ----------
    source : JobSource
        Where jobs come from.
    start : State
        Where to begin. Jobs there whose attained work is unknown begin anew.
    rng : Generator
        The source of randomness; what is drawn is drawn by the source of jobs.
    seen : Occupation or Totals
        What is counted, by state or in total.
    record : bool
        Whether to keep every event.

    Attributes
    ----------
    times : JobTimes
        The response times of the jobs that came and left.
    batch_sums : list of ndarray
        How many left, their total time and their total size, in each batch, by class.
    whole : bool
        Whether jobs hold whole cores.
    batch_ratios : list
        How many left, and the sum of their times over their sizes, in each batch, by class and size: the
        first bin of sizes, and an array from that bin on.
    """

    whole: bool = False

    def __init__(
        self,
        source: JobSource,
        start: State,
        rng: np.random.Generator,
        seen: Occupation | Totals,
        *,
        record: bool,
    ) -> None:
        super().__init__(start, rng, seen, record=record)
        self.source = source
        self.times = JobTimes.none(len(start.counts))
        self.batch_sums: list[Floats] = []
        self._sums_before = self.times.sums.copy()
        self.batch_ratios: list[tuple[int, Floats]] = []
        self._ratios_before = self.times.ratios.copy()
        self._named: Int = self.start.named

    def _let_in(self) -> None:
        """Let the jobs in that are there at the start."""
        start = self.start
        for i, count in enumerate(start.counts):
            remaining = start.remaining[i] if start.remaining else self.source.sizes(i, count).tolist()
            attained = start.attained[i] if start.attained else (0.0,) * count
            numbers = start.jobs[i] if start.jobs else range(count)
            for work, got, number in zip(remaining, attained, numbers, strict=True):
                self._add(i, work, got, number)

    @abstractmethod
    def _add(self, i: int, remaining: float, attained: float, number: int) -> None:
        """Add a job of class i that was there before the path began."""

    def follow_jobs(self) -> None:
        """Every job is followed in any case."""

    def _close_batch(self) -> None:
        super()._close_batch()
        self.batch_sums.append(self.times.sums - self._sums_before)
        self._sums_before = self.times.sums.copy()
        seen = np.flatnonzero((self.times.ratios[0] != self._ratios_before[0]).any(axis=0))
        used = slice(int(seen[0]), int(seen[-1]) + 1) if seen.size else slice(0, 0)
        self.batch_ratios.append((used.start, (self.times.ratios - self._ratios_before)[:, :, used]))
        self._ratios_before = self.times.ratios.copy()

    def class_times(self, mean_sizes: Floats | None, correlation: float) -> dict[str, ClassTimes]:
        """Return the response times of each class.

        The means are ratios if mean sizes are given, with intervals if batches are correlated over a time
        that is given and positive.
        """
        found = {}
        batches, spans = np.array(self.batch_sums), np.array(self.spans)
        for i, name in enumerate(self.system.names):
            left, spent, work = self.times.sums[:, i].tolist()
            sample_mean = mean = spent / left if left else math.nan
            interval = math.nan, math.nan
            if mean_sizes is not None and work > 0.0:
                mean = spent / work * float(mean_sizes[i])
                if correlation > 0.0:
                    _, times, sizes = batches[:, :, i].T
                    in_work = correlation * float(sizes.mean() / spans.mean())
                    low, high = ratio_interval(times, sizes, in_work)
                    interval = low * float(mean_sizes[i]), high * float(mean_sizes[i])
            percentiles = self.times.usual_percentiles(i)
            found[name] = ClassTimes(name, left, mean, interval, sample_mean, percentiles)
        return found

    def overall_times(self, correlation: float) -> ClassTimes:
        """Return the response times of all jobs, with an interval if a correlation time is given."""
        left, spent, _ = self.times.sums.sum(axis=1).tolist()
        mean, interval = spent / left if left else math.nan, (math.nan, math.nan)
        if correlation > 0.0 and left:
            counts, times, _ = np.array(self.batch_sums).sum(axis=2).T
            in_jobs = correlation * float(counts.mean() / np.mean(self.spans))
            interval = ratio_interval(times, counts, in_jobs)
        return ClassTimes("all", left, mean, interval, mean, self.times.together.usual_percentiles(0))

    def slowdowns(self, correlation: float) -> Slowdowns:
        """Return the slowdowns of the jobs that came and left."""
        alone = lone_times(self.system, whole=self.whole)[None, :, None]
        batches = [
            (first, part / np.concatenate([np.ones_like(alone), alone])) for first, part in self.batch_ratios
        ]
        return slowdowns_of(self.system.names, batches, np.array(self.spans), correlation)
