"""Decision per job: weights by the price at completion, and the cores of every job at these weights."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from corewise.kit.arrays import Floats, Ints
from corewise.model.sizes import Deterministic, Exponential
from corewise.model.system import System
from corewise.policies.decisions import Decision, Refinement
from corewise.policies.jobs._kernels import RARE, Crowd, Curves, water_fill
from corewise.policies.jobs.curves import curve_of, joined, packed, table_curves
from corewise.policies.jobs.equal import equal_shares
from corewise.policies.jobs.remaining import RemainingWork
from corewise.policies.jobs.state import JobState, checked_jobs, limits, phase_of
from corewise.policies.jobs.weights import (
    Groups,
    crowd_of,
    index_weights,
    lift_factor,
    sizes_differ,
    weights_of_groups,
)
from corewise.policies.jobs.widths import best_widths
from corewise.policies.rounding import require_whole
from corewise.policies.waterfill.split import full_speeds, ranked

__all__ = ["JobLevels", "Weighed"]

_ONE_BY_ONE = 128
"""Jobs of known remaining work that go through the recursion one by one; more do by quarter octaves."""


@dataclass(frozen=True, eq=False)
class Weighed:
    """Jobs of a decision with what is known of them.

    Attributes
    ----------
    jobs : list of JobState
        The jobs.
    classes : ndarray of int
        The positions of their classes.
    kinds : ndarray of int
        The positions of their curves in `curves`.
    curves : tuple
        The curves, as the kernels read them.
    weights : ndarray
        What a unit of work of each is worth.
    lows : list of int
        The fewest cores of each.
    caps : ndarray
        The most cores of each.
    """

    jobs: list[JobState]
    classes: Ints
    kinds: Ints
    curves: Curves
    weights: Floats
    lows: list[int]
    caps: Floats


@dataclass(frozen=True, eq=False)
class JobLevels(Refinement):
    """Decision per job; with counts alone, and for exponential sizes, it is that of classes within.

    Attributes
    ----------
    within : Decision
        The decision by counts.
    system : System
        The system it is made for.
    load : float
        The long-run load; zero for jobs that are all there is.
    widest : float
        No job holds more than so many times the equal share, unless that is below one core.
    longest_wait : float
        A job that has waited so long comes first.
    """

    within: Decision
    system: System
    load: float
    widest: float = 4.0
    longest_wait: float = math.inf
    _rows: dict[tuple[int, int], Floats] = field(default_factory=dict, repr=False, compare=False)

    @property
    def by_counts_up_to(self) -> float:
        """The number of jobs up to which counts alone decide: any if sizes are exponential, else none."""
        return math.inf if self.memoryless else 0.0

    @property
    def settings(self) -> tuple[float, float, float]:
        """What decides beside the system: the load, the widest share and the longest wait."""
        return self.load, self.widest, self.longest_wait

    @cached_property
    def memoryless(self) -> bool:
        """Whether jobs are told apart by their classes alone: in steady state, if sizes are exponential.

        Curves by progress tell them apart too.
        """
        return self.load > 0.0 and all(
            type(known.sizes) is Exponential and not known.changes_with_progress
            for known in self.system.classes
        )

    @cached_property
    def alike(self) -> bool:
        """Whether mean sizes tell classes apart less than their curves do."""
        return not sizes_differ(self.system, self.load)

    @cached_property
    def _crowd(self) -> Crowd:
        return crowd_of(self.system, self.load)

    @cached_property
    def _remaining(self) -> list[RemainingWork]:
        return [RemainingWork(job_class) for job_class in self.system.classes]

    @cached_property
    def _ranks(self) -> Ints:
        """The order of classes where jobs outnumber cores: the least parallelisable first."""
        return ranked([(speed,) for speed in full_speeds(self.system)])

    def allocate_jobs(
        self, jobs: Iterable[JobState], *, whole: bool = False, pause: float = 0.0
    ) -> dict[str, float] | dict[str, int]:
        """Return the cores of every job by its name, whole ones with moves that cost a pause, or shares."""
        listed, classes = checked_jobs(jobs, self.system)
        if not listed:
            return {}
        if not whole and self.memoryless and all(map(_is_plain, listed)):
            return equal_shares(listed, self.system, self.within)
        weighed = self.weighed(listed, classes, whole=whole)
        names = [job.name for job in listed]
        if whole:
            return dict(zip(names, self._whole(weighed, pause).tolist(), strict=True))
        return dict(zip(names, self._shares(weighed).tolist(), strict=True))

    def weighed(self, listed: list[JobState], positions: Sequence[int], *, whole: bool) -> Weighed:
        """Return jobs with their curves, limits and weights."""
        lows, highs = limits(listed, positions, self.system, whole=whole)
        classes = np.array(positions, dtype=np.int64)
        curves, kinds = self._curves(listed, positions, lows, highs)
        costs = self.system.weights[classes]
        gate = max(1.0, self.widest * self.system.cores / len(listed))
        if self.memoryless and self.alike and all(job.remaining is None for job in listed):
            rates, ranks = self.system.size_rates[classes], self._ranks[classes]
            weights, most = index_weights(curves, kinds, costs, rates, ranks, self.system.cores)
            gate = min(gate, most)
        else:
            weights = self._weights(listed, classes, curves, kinds, costs)
        tops = [math.inf if high is None else high for high in highs]
        caps = np.minimum(np.maximum(np.minimum(gate, tops), lows), max(self.system.cores, 1.0))
        return Weighed(listed, classes, kinds, curves, weights, lows, caps)

    def _curves(
        self, jobs: list[JobState], classes: Sequence[int], lows: list[int], highs: list[int | None]
    ) -> tuple[Curves, Ints]:
        """Return the curves of the jobs, one of each kind, and which is whose."""
        own = [j for j, job in enumerate(jobs) if job.speeds is not None]
        kinds = np.zeros(len(jobs), dtype=np.int64)
        shared: dict[tuple[int, int, int, int | None], int] = {}
        for j, (job, i) in enumerate(zip(jobs, classes, strict=True)):
            if job.speeds is None:
                kind = (i, phase_of(job, self.system.classes[i]), lows[j], highs[j])
                kinds[j] = shared.setdefault(kind, len(shared))
        curves = packed(
            [
                curve_of(self.system.classes[i].curves[phase], self.system.cores, low, high)
                for i, phase, low, high in shared
            ]
        )
        if own:
            kinds[own] = len(shared) + np.arange(len(own))
            tables = _stacked([jobs[j].speeds for j in own], int(max(self.system.cores, 1.0)))
            most = [min(highs[j] or 1, tables.shape[1] - 1) for j in own]
            curves = joined(curves, table_curves(tables, [lows[j] for j in own], most))
        return curves, kinds

    def _weights(
        self, jobs: list[JobState], classes: Ints, curves: Curves, kinds: Ints, costs: Floats
    ) -> Floats:
        """Return the weights of jobs by the price at completion."""
        known = np.array([self._known(job, i) for job, i in zip(jobs, classes.tolist(), strict=True)])
        sure = np.flatnonzero(~np.isnan(known))
        held = np.array([jobs[j].held for j in sure])
        sure = sure[
            np.lexsort((-np.arange(sure.size), held))
        ]  # of jobs with equal work, the one that holds most is to complete first
        left, count = known[sure] / costs[sure], np.ones(sure.size)
        groups = [(kinds[sure], count, costs[sure], left)]
        member = np.arange(sure.size)
        if sure.size > _ONE_BY_ONE:
            groups, member = _binned(kinds[sure], costs[sure], classes[sure], left)
        spread = []
        at = groups[0][0].size
        for kind, i in sorted({(int(kinds[j]), int(classes[j])) for j in np.flatnonzero(np.isnan(known))}):
            mine = np.flatnonzero(np.isnan(known) & (kinds == kind) & (classes == i))
            chances = self._remaining[i].probabilities(np.array([jobs[j].attained for j in mine]))
            expected = chances.sum(axis=0)
            used = np.flatnonzero(expected > RARE)
            cost = np.full(used.size, self.system.weights[i])
            left = self._remaining[i].middles[used] / cost
            groups.append((np.full(used.size, kind), expected[used], cost, left))
            spread.append((mine, slice(at, at + used.size), chances[:, used]))
            at += used.size
        parts = Groups(*(np.concatenate(column) for column in zip(*groups, strict=True)))
        factor = lift_factor(self.load)
        found, _ = weights_of_groups(curves, parts, self.system.cores, factor, self._crowd)
        weights = np.empty(len(jobs))
        weights[sure] = found[member]
        for mine, bins, chances in spread:
            weights[mine] = chances @ found[bins]
        return weights

    def _known(self, job: JobState, i: int) -> float:
        """Return the remaining work of a job, NaN if it is not known."""
        if job.remaining is not None:
            return job.remaining
        job_class = self.system.classes[i]
        if type(job_class.sizes) is Deterministic:
            return max(1.0 / job_class.known_size_rate - job.attained, 0.0)
        return math.nan

    def _shares(self, weighed: Weighed) -> Floats:
        """Return the cores of every job, any share of one."""
        out = np.zeros(len(weighed.jobs))
        ones = np.ones(out.size)
        weights, caps = weighed.weights.copy(), weighed.caps
        for j in self._overdue(weighed):
            weights[j] = weighed.weights.max() * 1e6
        lows = np.array(weighed.lows, dtype=np.float64)
        while True:
            water_fill(weighed.curves, weighed.kinds, ones, weights, caps, self.system.cores, out)
            short = np.flatnonzero((out > 0.0) & (out < lows * (1.0 - 1e-12)))
            if not short.size:
                return out
            # A job that needs several cores gets them all, or none: the one nearest to them first.
            weights[short[np.argmin(out[short] / lows[short])]] = 0.0

    def _whole(self, weighed: Weighed, pause: float) -> Ints:
        """Return whole cores of every job."""
        pool = require_whole(self.system)
        speeds = np.empty((len(weighed.jobs), pool + 1))
        for j, (job, i) in enumerate(zip(weighed.jobs, weighed.classes.tolist(), strict=True)):
            if job.speeds is None:
                speeds[j] = self._table(i, phase_of(job, self.system.classes[i]), pool)
            else:
                width = min(job.speeds.size, pool + 1)
                speeds[j, :width] = job.speeds[:width]
                speeds[j, width:] = 0.0
        caps = np.floor(np.maximum(weighed.caps, 1.0)).astype(np.int64)
        return best_widths(
            weighed.jobs,
            weighed.weights,
            speeds,
            weighed.lows,
            caps.tolist(),
            pool,
            pause=pause,
            overdue=self._overdue(weighed),
        )

    def _table(self, i: int, phase: int, pool: int) -> Floats:
        if (i, phase) not in self._rows:
            self._rows[i, phase] = self.system.classes[i].curves[phase].table(pool)
        return self._rows[i, phase]

    def _overdue(self, weighed: Weighed) -> list[int]:
        """Return the jobs that have waited too long, the longest first, as many as there are cores."""
        late = [j for j, job in enumerate(weighed.jobs) if not job.held and job.waited >= self.longest_wait]
        late.sort(key=lambda j: -weighed.jobs[j].waited)
        return late[: max(int(self.system.cores), 1)]


def _is_plain(job: JobState) -> bool:
    """Return whether nothing but its class is known of a job, and what it has attained."""
    return job.speeds is None and job.remaining is None and job.max_cores is None and not job.min_cores


def _stacked(tables: Sequence[Floats | None], pool: int) -> Floats:
    """Return tables of whole cores as rows, none longer than the pool; missing entries are zero."""
    given = [table for table in tables if table is not None]
    columns = min(max(table.size for table in given), pool + 1)
    rows = np.zeros((len(given), columns))
    for row, table in zip(rows, given, strict=True):
        width = min(table.size, columns)
        row[:width] = table[:width]
    return rows


def _binned(
    kinds: Ints, costs: Floats, classes: Ints, left: Floats
) -> tuple[list[tuple[Ints, Floats, Floats, Floats]], Ints]:
    """Return groups of jobs of one class within a quarter octave of remaining work, and who is in which.

    A group has the curve of its first job.
    """
    bins = np.rint(4.0 * np.log2(np.maximum(left, 1e-300)))
    _, first, member, counts = np.unique(
        np.stack([classes.astype(np.float64), bins]),
        axis=1,
        return_index=True,
        return_inverse=True,
        return_counts=True,
    )
    return [
        (kinds[first], counts.astype(np.float64), costs[first], np.exp2(0.25 * bins[first]))
    ], member.ravel()
