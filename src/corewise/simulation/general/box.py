"""Simulation that follows every job over a box of states."""

from __future__ import annotations

import numpy as np

from corewise.kit.arrays import Floats, Ints
from corewise.model.system import System
from corewise.observation.statistics import Statistics
from corewise.policies.base import BoundPolicy
from corewise.simulation.general._kernels.box import box_walk
from corewise.simulation.general._kernels.jobs import Summarised
from corewise.simulation.general.source import JobSource
from corewise.simulation.general.tables import SpeedTables
from corewise.simulation.general.walk import Followed, JobWalk
from corewise.simulation.state import State
from corewise.simulation.tables import Occupation

__all__ = ["BoxJobWalk"]


class BoxJobWalk(JobWalk):
    """Simulation engine that follows every job, with a table of speeds for the states of a box."""

    def __init__(
        self,
        tables: SpeedTables,
        source: JobSource,
        start: State,
        rng: np.random.Generator,
        *,
        record: bool = False,
    ) -> None:
        super().__init__(tables.policy, source, start, rng, record=record)
        self.tables = tables
        self._occupation = Occupation(tables.space)

    @property
    def system(self) -> System:
        """The system that is simulated, as it is now."""
        return self.tables.system

    @property
    def policy(self) -> BoundPolicy:
        """Who holds how many cores."""
        return self.tables.policy

    def _set_system(self, system: System) -> None:
        self.tables = self.tables.under(system)

    def _follow_moves(self, record: Summarised, until: float, events: int, departures: int) -> Followed:
        tables, seen = self.tables, self._occupation.batch
        if not tables.inside[tables.state(self.counts)]:
            self.tables = tables = tables.grown(self.counts)
            self._occupation.grow(tables.space)
            seen = self._occupation.batch
        return box_walk(
            *(tables.speeds, tables.inside, tables.space.strides, seen.moves, seen.times),
            tables.state(self.counts),
            *(self._room.arrays, self.source.arrays, self.times.arrays, record, self.order.arrays),
            self._named,
            self._clock,
            until,
            events,
            departures,
        )

    def _cores_in(self, counts: Ints) -> Floats:
        return self.tables.cores[:, self.tables.space.index(counts.T)]

    def _close_batch(self) -> None:
        super()._close_batch()
        area, span = self._occupation.close_batch()
        self.areas.append(area)
        self.spans.append(span)

    def statistics(self) -> Statistics:
        """Return what was seen, for `estimate`."""
        names, cores = tuple(self.system.names), self.tables.cores
        if not self.order.active:
            return self._occupation.statistics(names, cores)
        counts, held, moves, times = self._occupation.seen(cores)
        crowded = counts.sum(axis=0) > self.order.cores
        arrivals = moves[: len(names), crowded].sum(axis=1).tolist()
        alone = ~crowded
        comes, leaves = moves[: len(names), alone], moves[len(names) :, alone]
        seen = Statistics.of_states(names, counts[:, alone], held[:, alone], times[alone], comes, leaves)
        return seen + self.order.statistics(names, arrivals, float(times[crowded].sum()))

    @property
    def moves(self) -> Ints:
        """The arrivals of each class, then the departures of each."""
        return self._occupation.moves

    @property
    def visits(self) -> tuple[Ints, Floats]:
        """The states visited, shape (K, states), and the time in each."""
        counts, _, _, times = self._occupation.seen(self.tables.cores)
        return counts, times
