"""Decisions by fitted values, in compiled code: the clocked chain and every job, any number of classes."""

from __future__ import annotations

from typing import ClassVar

from corewise.policies.base import BoundPolicy
from corewise.policies.fitted.rule import Fitted
from corewise.simulation.decisions._kernels.fitted import fitted_chain, fitted_jobs
from corewise.simulation.decisions.remembered import RememberedJobs
from corewise.simulation.loops._kernels.clocked import ChainRecord
from corewise.simulation.loops._kernels.jobs import JobRecord
from corewise.simulation.loops.clocked import ClockedChain, Drawn
from corewise.simulation.loops.jobs import Followed

__all__ = ["FittedChain", "FittedJobs"]


class FittedChain(ClockedChain):
    """Clocked chain under a policy by fitted values.

    To draw an event takes a few steps for each class, present or not, unless the state is remembered; what
    is decided is remembered for any number of classes, since to decide anew takes microseconds.
    """

    numbers: ClassVar[int] = 2**21

    def _prepare(self, policy: BoundPolicy) -> None:
        fitted = policy.decision.by_counts
        assert isinstance(fitted, Fitted)
        self._rule = fitted.arrays

    def _decide_and_draw(self, record: ChainRecord, until: float, events: int, departures: int) -> Drawn:
        world = (self._system.cores, self._plant, self._memory.arrays)
        path = (self._now, *self._kept, record)
        window = (*world, *path, self._clock, until, events, departures)
        return fitted_chain(self.rng, self._rule, *window)


class FittedJobs(RememberedJobs):
    """Loop over every job under a policy by fitted values."""

    def _follow_moves(self, record: JobRecord, until: float, events: int, departures: int) -> Followed:
        fitted = self._policy.decision.by_counts
        assert isinstance(fitted, Fitted)
        return fitted_jobs(
            fitted.arrays,
            self._system.cores,
            self._curves,
            self._memory,
            self._cache.level,
            self._path_of(record),
            self._job_totals,
            *(self._named, self._clock, until, events, departures),
        )
