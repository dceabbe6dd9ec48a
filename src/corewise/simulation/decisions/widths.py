"""Decisions on the loop where every job has cores of its own: job-index, and policies of classes."""

from __future__ import annotations

import math
from functools import cached_property
from itertools import pairwise

import numpy as np

from corewise.kit.arrays import Floats, Ints
from corewise.policies.base import cores_of
from corewise.policies.jobs._kernels import Curves
from corewise.policies.jobs.curves import packed
from corewise.policies.jobs.decision._kernels.index import IndexRule
from corewise.policies.jobs.decision.tables import attained_nodes
from corewise.policies.jobs.levels import JobLevels
from corewise.policies.jobs.state import JobState, limits, phase_of
from corewise.policies.jobs.widths import MOVED
from corewise.policies.rounding import require_whole, round_cores
from corewise.simulation.decisions._kernels.widths import JobView, equal_jobs, index_jobs
from corewise.simulation.loops._kernels.widths import WidthPath
from corewise.simulation.loops.state_cache import StateCache
from corewise.simulation.loops.widths import WidthLoop

__all__ = ["EqualWidths", "IndexWidths"]

_NUMBERS = 2**20
"""The size of the memory of states: 8 megabytes, since to ask a policy takes long."""

_TURNS_PER_OCTAVE, _HALVINGS = 4, 60


class _SeenWidths(WidthLoop):
    """Loop over every job under a policy that sees what it needs to know of them as arrays."""

    @cached_property
    def _view(self) -> JobView:
        """What the policy sees, by the system that it was made for."""
        known = self.policy.system.classes
        begins = [one.starts for one in known]
        turns = [self._turns(i) for i in range(len(known))]
        pool = require_whole(self.policy.system) if self.whole else 0
        found = [
            limits([self._job_at(i, start)], [i], self.policy.system, whole=self.whole)
            for i, starts in enumerate(begins)
            for start in starts.tolist()
        ]
        speeds = [curve.table(pool) for one in known for curve in one.curves]
        pauses = self._plant.pauses
        return JobView(
            self.known_sizes,
            np.cumsum([0, *(starts.size for starts in begins)]),
            np.concatenate(begins),
            np.concatenate([at for at, _ in turns]),
            np.concatenate([rows for _, rows in turns]),
            np.cumsum([0, *(at.size for at, _ in turns)]),
            np.array([lows[0] for lows, _ in found], dtype=np.float64),
            np.array([math.inf if highs[0] is None else highs[0] for _, highs in found], dtype=np.float64),
            np.stack(speeds) if self.whole else np.empty((len(speeds), 0)),
            np.where(pauses > 0.0, MOVED, 0.0),
        )

    def _job_at(self, i: int, fraction: float) -> JobState:
        """Return a job of class i at a fraction of its work."""
        name = self.policy.system.names[i]
        return JobState("one", name, attained=fraction, remaining=1.0 - fraction)

    def _turns(self, i: int) -> tuple[Floats, Ints]:
        """Return from which attained work on a job of unknown size is taken to be at which row."""
        known = self.policy.system.classes[i]
        before = sum(len(one.curves) for one in self.policy.system.classes[:i])
        if not known.changes_with_progress or known.size_rate is None:
            return np.zeros(1), np.array([before])
        mean = 1.0 / known.known_size_rate

        def phase(attained: float) -> int:
            return phase_of(JobState("one", known.name, attained=attained), known)

        at, phases = [0.0], [0]
        nodes = (attained_nodes(_TURNS_PER_OCTAVE) * mean).tolist()
        for node, end in pairwise(nodes):
            if phase(end) == phases[-1]:
                continue
            low, high = node, end
            for _ in range(_HALVINGS):
                middle = 0.5 * (low + high)
                low, high = (middle, high) if phase(middle) == phases[-1] else (low, middle)
            at.append(high)
            phases.append(phase(high))
        return np.array(at), before + np.array(phases)


class IndexWidths(_SeenWidths):
    """Loop over every job under job-index."""

    def _follow_jobs(self, path: WidthPath, clock: float, until: float) -> float:
        rule, curves = self._decision
        return index_jobs(rule, curves, self._view, path, clock, until)

    @cached_property
    def _decision(self) -> tuple[IndexRule, Curves]:
        levels, view = self.policy.decision.part(JobLevels), self._view
        assert levels is not None
        shared, row = [], 0
        for i, known in enumerate(self.policy.system.classes):
            for phase in range(len(known.curves)):
                high = view.highs[row]
                most = int(high) if math.isfinite(high) else None
                shared.append(levels.curve(i, phase, int(view.lows[row]), most))
                row += 1
        return levels.rule, packed(shared)


class EqualWidths(_SeenWidths):
    """Loop over every job under a policy of classes, whose decision is asked about every state once."""

    @cached_property
    def _cache(self) -> StateCache:
        return StateCache.of(len(self.system.classes), _NUMBERS)

    def _follow_jobs(self, path: WidthPath, clock: float, until: float) -> float:
        while True:
            row, clock = equal_jobs(self._cache.states, self._view, path, clock, until)
            if row < 0:
                return clock
            counts = np.array(self.counts, dtype=np.int64)
            seen = self._cache.seen[row]
            seen[: counts.size] = counts
            cores = cores_of(self.policy, counts[:, None])
            seen[2 * counts.size : 3 * counts.size] = (round_cores(cores) if self.whole else cores)[:, 0]
