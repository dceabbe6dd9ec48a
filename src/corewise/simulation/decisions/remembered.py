"""Decisions that are remembered: any policy on the loop over every job, for any number of classes."""

from __future__ import annotations

import numpy as np

from corewise.kit.arrays import Floats, Int, Ints
from corewise.model.system import System
from corewise.observation.statistics import Statistics
from corewise.policies.base import BoundPolicy, cores_of
from corewise.simulation.loops._kernels.jobs import Counted, JobTotals, States, remember_speeds
from corewise.simulation.loops.curves import curve_arrays
from corewise.simulation.loops.jobs import JobLoop
from corewise.simulation.loops.sources import JobSource
from corewise.simulation.loops.state_cache import StateCache
from corewise.simulation.loops.tally import Totals
from corewise.simulation.state import State

__all__ = ["RememberedJobs"]

_NUMBERS = 2**20
"""The size of the memory of states: 8 megabytes, since to ask a policy takes long."""


class RememberedJobs(JobLoop):
    """Loop over every job without tables over states; a decision is asked about every state once.

    Parameters
    ----------
    system : System
        The system that is simulated; curves that change do so at their times.
    policy : BoundPolicy
        Who holds how many cores.
    tally : bool, optional
        Whether to keep count of departures and job-time by width.
    source, start, rng, record
        As for `JobLoop`.
    """

    def __init__(
        self,
        system: System,
        policy: BoundPolicy,
        source: JobSource,
        start: State,
        rng: np.random.Generator,
        *,
        record: bool = False,
        tally: bool = False,
    ) -> None:
        self._totals = Totals(system, start.time, tally=tally)
        super().__init__(policy, source, start, rng, self._totals, record=record)
        self._policy = policy
        self._set_system(system)

    @property
    def system(self) -> System:
        """The system that is simulated, as it is now."""
        return self._system

    @property
    def policy(self) -> BoundPolicy:
        """Who holds how many cores."""
        return self._policy

    def _set_system(self, system: System) -> None:
        self._system = system
        self._curves = curve_arrays(system)
        self._cache = StateCache.of(len(system.classes), _NUMBERS)

    @property
    def _memory(self) -> States:
        return self._cache.states

    @property
    def _counted(self) -> Counted:
        return Counted(self._totals.moves, np.empty(0))

    @property
    def _job_totals(self) -> JobTotals:
        return JobTotals(self._totals.area, self._totals.tally.arrays)

    def _decide(self, row: Int) -> None:
        counts = self._present.counts
        widths = cores_of(self._policy, counts[:, None])[:, 0] / np.maximum(counts, 1)
        remember_speeds(self._cache.seen, row, counts, widths, self._curves)

    def _cores_in(self, counts: Ints) -> Floats:
        return self._policy.decision(counts)

    def statistics(self) -> Statistics:
        """Return what was seen, by the widths of the grid."""
        names = tuple(self._system.names)
        seen = self._totals.statistics(names, float(sum(self.spans)))
        return seen + self.order.statistics(names, [0] * len(names), 0.0) if self.order.active else seen
