"""Simulation that follows every job without tables over states, for any number of classes."""

from __future__ import annotations

import numpy as np

from corewise.kit.arrays import Floats, Int, Ints
from corewise.model.system import System
from corewise.observation.statistics import Statistics
from corewise.policies.base import BoundPolicy, cores_of
from corewise.policies.decisions import Levels
from corewise.policies.fitted.rule import Fitted
from corewise.simulation.general._kernels.jobs import Jobs, Seen, Source, Summarised
from corewise.simulation.general._kernels.residual import Order
from corewise.simulation.general._kernels.tableless import (
    Counted,
    fitted_walk,
    known_walk,
    level_walk,
    remember,
)
from corewise.simulation.general.source import JobSource
from corewise.simulation.general.walk import Followed, JobWalk
from corewise.simulation.state import State
from corewise.simulation.tableless.curves import curve_arrays
from corewise.simulation.tableless.grid_tally import GridTally
from corewise.simulation.tableless.state_cache import StateCache

__all__ = ["FittedJobWalk", "LevelJobWalk", "TablelessJobWalk"]

Path = tuple[Jobs, Source, Seen, Summarised, Counted, Order]
"""What a kernel keeps up: jobs present and to come, response times, the record, and what is counted."""

_NUMBERS = 2**20
"""The size of the memory of states: 8 megabytes, since to ask a rule takes long."""


class TablelessJobWalk(JobWalk):
    """Simulation engine that follows every job without tables over states; any number of classes.

    Parameters
    ----------
    system : System
        The system that is simulated; curves that change do so at their times.
    policy : BoundPolicy
        Who holds how many cores.
    tally : bool, optional
        Whether to keep count of departures and job-time by width.
    source, start, rng, record
        As for `JobWalk`.
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
        super().__init__(policy, source, start, rng, record=record)
        classes = len(system.classes)
        self._policy = policy
        self._area, self._moves = np.zeros(classes), np.zeros(2 * classes, dtype=np.int64)
        self._since = start.time
        self._tally = GridTally.of(system) if tally else GridTally.none(classes)
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
        self._memory = StateCache.of(len(system.classes), _NUMBERS)

    def _follow_moves(self, record: Summarised, until: float, events: int, departures: int) -> Followed:
        counted = (self._area, self._moves, self._tally.arrays)
        jobs = (self._room.arrays, self.source.arrays, self.times.arrays)
        path = (*jobs, record, counted, self.order.arrays)
        named, clock, done, remaining = self._decide_and_follow(
            path, self._named, self._clock, until, events, departures
        )
        return named, clock, done, departures - remaining

    def _decide_and_follow(
        self, path: Path, named: Int, clock: float, until: float, events: int, departures: int
    ) -> Followed:
        """Follow jobs; return how many are named, the clock, the events, and the departures still to come."""
        done: Int = 0
        remaining: Int = departures
        while True:
            row, named, clock, done, remaining = known_walk(
                self._memory.arrays, *path, named, clock, until, done, events, remaining
            )
            if row < 0:
                return named, clock, done, remaining
            counts = self._room.counts
            widths = cores_of(self._policy, counts[:, None])[:, 0] / np.maximum(counts, 1)
            remember(self._memory.seen, row, counts, widths, *self._curves)

    def _close_batch(self) -> None:
        super()._close_batch()
        self.areas.append(self._area.copy())
        self.spans.append(self._clock - self._since)
        self._area[:] = 0.0
        self._since = self._clock

    def _cores_in(self, counts: Ints) -> Floats:
        return self._policy.decision(counts)

    @property
    def moves(self) -> Ints:
        """The arrivals of each class, then the departures of each."""
        return self._moves

    @property
    def visits(self) -> tuple[Ints, Floats]:
        """Nothing: states are not counted."""
        return np.empty((self._area.size, 0), dtype=np.int64), np.empty(0)

    def statistics(self) -> Statistics:
        """Return what was seen, by the widths of the grid."""
        names = tuple(self._system.names)
        seen = self._tally.statistics(names, self._moves, float(sum(self.spans)))
        return seen + self.order.statistics(names, [0] * len(names), 0.0) if self.order.active else seen


class LevelJobWalk(TablelessJobWalk):
    """Simulation engine that follows every job under a water-level policy, asked in compiled code."""

    def _decide_and_follow(
        self, path: Path, named: Int, clock: float, until: float, events: int, departures: int
    ) -> Followed:
        levels = self._policy.decision.by_counts
        assert isinstance(levels, Levels)
        named, clock, done, remaining = level_walk(
            levels.steps.arrays,
            self._system.cores,
            self._curves,
            self._memory.arrays,
            *path,
            *(named, clock, until, events, departures),
        )
        return named, clock, done, remaining


class FittedJobWalk(TablelessJobWalk):
    """Simulation engine that follows every job under a policy by fitted values, asked in compiled code."""

    def _decide_and_follow(
        self, path: Path, named: Int, clock: float, until: float, events: int, departures: int
    ) -> Followed:
        fitted = self._policy.decision.by_counts
        assert isinstance(fitted, Fitted)
        rule, single = fitted.arrays
        named, clock, done, remaining = fitted_walk(
            rule,
            single,
            self._system.cores,
            self._curves,
            self._memory.arrays,
            *path,
            *(named, clock, until, events, departures),
        )
        return named, clock, done, remaining
