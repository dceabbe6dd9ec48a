"""Simulation engines without tables over states, for any number of classes."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
from numpy.typing import NDArray

from corewise.kit.arrays import Floats, Ints
from corewise.model.system import System
from corewise.observation.statistics import Statistics
from corewise.policies.base import BoundPolicy
from corewise.simulation.engine import Engine
from corewise.simulation.state import State
from corewise.simulation.tableless.curves import alias_table, curve_arrays
from corewise.simulation.tableless.grid_tally import GridTally

__all__ = ["Drawn", "Summarised", "TablelessWalk"]

_AT_A_TIME = 2**18
"""Events per call of a kernel, which cannot be interrupted: some hundredths of a second."""

Summarised = tuple[Floats, NDArray[np.int16]]
Drawn = tuple[float, int | np.int64, int | np.int64]


class TablelessWalk(Engine):
    """Simulation engine without tables over states: a kernel decides in every state anew.

    Parameters
    ----------
    system : System
        The system that is simulated; curves that change do so at their times.
    policy : BoundPolicy
        Who holds how many cores.
    start : State
        Where to begin.
    rng : Generator
        The source of randomness.
    record : bool, optional
        Whether to keep every event.
    tally : bool, optional
        Whether to keep count of departures and job-time by width, which takes a step for each class present
        at every event.
    """

    def __init__(
        self,
        system: System,
        policy: BoundPolicy,
        start: State,
        rng: np.random.Generator,
        *,
        record: bool = False,
        tally: bool = False,
    ) -> None:
        super().__init__(start, rng, record=record)
        classes = len(system.classes)
        self._policy = policy
        self._now = np.array(start.counts, dtype=np.int64)
        self._area = np.zeros(classes)
        self._moves = np.zeros(2 * classes, dtype=np.int64)
        self._since = start.time
        self._prepare(policy)
        self._set_system(system)
        self._tally = GridTally.of(system) if tally else GridTally.none(classes)

    @abstractmethod
    def _prepare(self, policy: BoundPolicy) -> None:
        """Bring the policy into the form that the kernel takes."""

    def _set_system(self, system: System) -> None:
        """Simulate this system from now on."""
        self._system = system
        shares, others = alias_table(system.arrival_rates)
        self._plant = (
            *curve_arrays(system),
            system.size_rates,
            system.arrival_rates,
            shares,
            others,
        )

    @property
    def system(self) -> System:
        """The system that is simulated, as it is now."""
        return self._system

    @property
    def policy(self) -> BoundPolicy:
        """Who holds how many cores."""
        return self._policy

    @property
    def counts(self) -> tuple[int, ...]:
        """The jobs of each class now."""
        return tuple(self._now.tolist())

    @property
    def moves(self) -> Ints:
        """The arrivals of each class, then the departures of each."""
        return self._moves

    @property
    def visits(self) -> tuple[Ints, Floats]:
        """Nothing: states are not counted."""
        return np.empty((self._now.size, 0), dtype=np.int64), np.empty(0)

    def _tick(self, until: float, departures: int) -> int:
        changes = self._system.changes
        horizon = min(until, changes[0].time) if changes else until
        room = min(_AT_A_TIME, 4 * departures + 64)
        kept = room if self.record or self.responses is not None else 0
        when, what = np.empty(kept), np.empty(kept, dtype=np.int16)
        self._clock, events, done = self._draw((when, what), horizon, room, departures)
        self.events += int(events)
        self._follow(when[:events], what[:events])
        if self.record:
            self._when.append(when[:events])
            self._what.append(what[:events])
        if changes and self._clock >= changes[0].time:
            self._set_system(self._system.at(self._clock))
        return int(done)

    @abstractmethod
    def _draw(self, record: Summarised, until: float, events: int, departures: int) -> Drawn:
        """Draw moves until a time, so many events or departures; return the clock and how many there were."""

    def _close_batch(self) -> None:
        self.areas.append(self._area.copy())
        self.spans.append(self._clock - self._since)
        self._area[:] = 0.0
        self._since = self._clock

    def _cores(self, counts: Ints) -> Floats:
        return self._policy.decision(counts)

    def statistics(self) -> Statistics:
        """Return what was seen, by the widths of the grid."""
        return self._tally.statistics(tuple(self._system.names), self._moves, float(sum(self.spans)))
