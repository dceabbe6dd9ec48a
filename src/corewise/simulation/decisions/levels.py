"""Decisions by water level, in compiled code: the clocked chain and every job, for any number of classes."""

from __future__ import annotations

from typing import ClassVar

from corewise.policies.base import BoundPolicy
from corewise.policies.decisions import Levels
from corewise.simulation.decisions._kernels.levels import level_chain, level_jobs
from corewise.simulation.decisions.remembered import RememberedJobs
from corewise.simulation.loops._kernels.clocked import ChainRecord
from corewise.simulation.loops._kernels.jobs import JobRecord
from corewise.simulation.loops.clocked import ClockedChain, Drawn
from corewise.simulation.loops.jobs import Followed

__all__ = ["LevelChain", "LevelJobs"]


class LevelChain(ClockedChain):
    """Clocked chain under a water-level policy.

    To draw an event takes less than a step for each class present.
    """

    numbers: ClassVar[int] = 2**19

    def _prepare(self, policy: BoundPolicy) -> None:
        levels = policy.decision.by_counts
        assert isinstance(levels, Levels)
        self._steps = levels.steps.arrays

    def _decide_and_draw(self, record: ChainRecord, until: float, events: int, departures: int) -> Drawn:
        window = (*self._kept, record, self._clock, until, events, departures)
        return level_chain(self.rng, self._steps, self._system.cores, self._plant, self._now, *window)


class LevelJobs(RememberedJobs):
    """Loop over every job under a water-level policy."""

    def _follow_moves(self, record: JobRecord, until: float, events: int, departures: int) -> Followed:
        levels = self._policy.decision.by_counts
        assert isinstance(levels, Levels)
        return level_jobs(
            levels.steps.arrays,
            self._system.cores,
            self._curves,
            self._memory,
            self._cache.level,
            self._path_of(record),
            self._job_totals,
            *(self._named, self._clock, until, events, departures),
        )
