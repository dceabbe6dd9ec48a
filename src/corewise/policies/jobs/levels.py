"""Decision per job: weights by the price at completion, and the cores of every job at these weights."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from corewise.kit.arrays import Floats, Ints
from corewise.model.sizes import Exponential
from corewise.model.system import System
from corewise.policies.decisions import Decision, Refinement
from corewise.policies.jobs._kernels import Curves
from corewise.policies.jobs.curves import PackedCurve, curve_of, joined, packed, table_curves
from corewise.policies.jobs.decision._kernels.index import IndexRule, JobList, decide
from corewise.policies.jobs.decision.tables import index_rule
from corewise.policies.jobs.equal import equal_shares
from corewise.policies.jobs.state import JobState, checked_jobs, limits, phase_of
from corewise.policies.jobs.weights import sizes_differ
from corewise.policies.jobs.widths import MOVED, moves
from corewise.policies.rounding import require_whole
from corewise.policies.waterfill.split import full_speeds, ranked

__all__ = ["JobLevels"]


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
        pool = require_whole(self.system) if whole else 0
        lows, highs = limits(listed, classes, self.system, whole=whole)
        curves, speeds, kinds = self._curves(listed, classes, lows, highs, pool)
        states = JobList(
            np.array(classes, dtype=np.int64),
            kinds,
            np.array([job.attained for job in listed], dtype=np.float64),
            np.array(
                [math.nan if job.remaining is None else job.remaining for job in listed], dtype=np.float64
            ),
            np.array([job.held for job in listed], dtype=np.float64),
            np.array([job.waited for job in listed], dtype=np.float64),
            np.array(lows, dtype=np.float64),
            np.array([math.inf if high is None else high for high in highs], dtype=np.float64),
            np.array([moves(job) for job in listed]),
        )
        out = np.zeros(len(listed))
        decide(self.rule, curves, speeds, states, MOVED if pause else 0.0, pool, out)
        cores = out.astype(np.int64).tolist() if whole else out.tolist()
        return dict(zip([job.name for job in listed], cores, strict=True))

    @cached_property
    def rule(self) -> IndexRule:
        """What decides beside the jobs, as the kernels read it."""
        settings = (self.load, self.widest, self.longest_wait)
        return index_rule(self.system, *settings, self._ranks, by_class=self.memoryless and self.alike)

    def _curves(
        self,
        jobs: list[JobState],
        classes: Sequence[int],
        lows: list[int],
        highs: list[int | None],
        pool: int,
    ) -> tuple[Curves, Floats, Ints]:
        """Return the curves of the jobs, a row of speeds on a pool for each, and which is whose."""
        own = [j for j, job in enumerate(jobs) if job.speeds is not None]
        kinds = np.zeros(len(jobs), dtype=np.int64)
        mine = {
            j: (i, phase_of(job, self.system.classes[i]), lows[j], highs[j])
            for j, (job, i) in enumerate(zip(jobs, classes, strict=True))
            if job.speeds is None
        }
        # In the order of the classes, however jobs are listed: of bins with equal work the order counts.
        in_order = sorted(set(mine.values()), key=lambda kind: (*kind[:3], kind[3] or math.inf))
        shared = {kind: row for row, kind in enumerate(in_order)}
        kinds[list(mine)] = [shared[kind] for kind in mine.values()]
        curves = packed([self.curve(*kind) for kind in shared])
        speeds = np.zeros((len(shared) + len(own), pool + 1))
        if pool:
            for (i, phase, _, _), row in shared.items():
                speeds[row] = self.table(i, phase, pool)
        if own:
            kinds[own] = len(shared) + np.arange(len(own))
            tables = _stacked([jobs[j].speeds for j in own], int(max(self.system.cores, 1.0)))
            most = [min(highs[j] or 1, tables.shape[1] - 1) for j in own]
            curves = joined(curves, table_curves(tables, [lows[j] for j in own], most))
            width = min(tables.shape[1], pool + 1)
            speeds[len(shared) :, :width] = tables[:, :width]
        return curves, speeds, kinds

    def curve(self, i: int, phase: int, low: int, high: int | None) -> PackedCurve:
        """Return the curve of jobs of a class in a phase of their work, which hold none or so many cores."""
        return curve_of(self.system.classes[i].curves[phase], self.system.cores, low, high)

    def table(self, i: int, phase: int, pool: int) -> Floats:
        """Return their speeds on 0, 1, 2, … cores of a pool."""
        if (i, phase) not in self._rows:
            self._rows[i, phase] = self.system.classes[i].curves[phase].table(pool)
        return self._rows[i, phase]


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
