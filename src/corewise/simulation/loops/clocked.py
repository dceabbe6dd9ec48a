"""The clocked chain without tables over states, for any number of classes.

A path that comes to a state which is not remembered stops there. The rule of the policy is asked about this
state and about those within two events of it, all at once, and the path goes on. To ask takes 30 to 70 µs, a
compiled decision a few, but to compile that takes seconds. So the rule is asked some hundred times, and then
only as long as events in between make it a small matter; a path that comes to new states more often than that
is drawn by a kernel which decides for itself.
"""

from __future__ import annotations

from abc import abstractmethod
from functools import cache
from itertools import product
from typing import ClassVar

import numpy as np

from corewise.kit.arrays import Floats, Ints
from corewise.model.rates import departure_rates
from corewise.model.system import System
from corewise.observation.statistics import Statistics
from corewise.policies.base import BoundPolicy
from corewise.simulation.loops._kernels.clocked import ChainRecord, Plant, Tally, known_chain
from corewise.simulation.loops.curves import alias_table, curve_arrays
from corewise.simulation.loops.loop import Loop, Record
from corewise.simulation.loops.state_cache import StateCache
from corewise.simulation.loops.tally import Totals
from corewise.simulation.state import State

__all__ = ["ClockedChain", "Drawn"]

Drawn = tuple[float, int | np.int64, int | np.int64]
"""The clock, and how many events and departures there were."""

_REACH = 2
"""Events within which a state is asked about along with another: of four classes, 41 states at a time."""
_EARNED = 500
"""Events in which a path earns another question."""


class ClockedChain(Loop):
    """Clocked chain without tables: a decision is asked about states that a path has not been near before.

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

    Attributes
    ----------
    few : int
        Classes up to which a path comes back to states so often that it is worth asking.
    likely : int
        Likely states up to which it does.
    patience : int
        How often the decision is asked before questions have to be earned.
    numbers : int
        The size of the cache of states.
    """

    at_a_time: ClassVar[int] = 2**18
    few: ClassVar[int] = 4
    likely: ClassVar[int] = 2**20
    patience: ClassVar[int] = 500
    numbers: ClassVar[int]

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
        self._totals = Totals(system, start.time, tally=tally)
        super().__init__(start, rng, self._totals, record=record)
        self._policy = policy
        self._now = np.array(start.counts, dtype=np.int64)
        self._prepare(policy)
        self._set_system(system)

    @abstractmethod
    def _prepare(self, policy: BoundPolicy) -> None:
        """Bring the decision of the policy into the form that the kernel takes."""

    def _set_system(self, system: System) -> None:
        self._system = system
        shares, others = alias_table(system.arrival_rates)
        self._plant = Plant(*curve_arrays(system), system.size_rates, system.arrival_rates, shares, others)
        classes = len(system.classes)
        returns = classes <= self.few and system.likely_states <= self.likely
        self._asks, self._asked, self._events_before = returns, 0, self.events
        self._cache: StateCache | None = None

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
    def _kept(self) -> tuple[Floats, Ints, Tally]:
        """What kernels add to."""
        return self._totals.area, self._totals.moves, self._totals.tally.arrays

    def _draw(self, until: float, events: int, departures: int) -> tuple[Record, int, int]:
        kept = events if self.record or self.responses is not None else 0
        record = ChainRecord(np.empty(kept), np.empty(kept, dtype=np.int16))
        self._clock, made, done = self._draw_moves(record, until, events, departures)
        return record, int(made), int(done)

    @property
    def _memory(self) -> StateCache:
        """What was decided in the states of this system, made when it is first needed: it takes megabytes."""
        if self._cache is None:
            self._cache = StateCache.of(self._now.size, self.numbers)
        return self._cache

    def _draw_moves(self, record: ChainRecord, until: float, events: int, departures: int) -> Drawn:
        """Draw moves until a time, so many events or departures; return the clock and how many there were."""
        if not self._asks:
            return self._decide_and_draw(record, until, events, departures)
        seen, units, _ = self._memory.arrays
        path = (self.rng, seen, units, self._now, *self._kept, record)
        row, clock, done, remaining = known_chain(*path, self._clock, until, 0, events, departures)
        while row >= 0:
            earned = (self.events - self._events_before + int(done)) // _EARNED
            self._asks = self._asked < self.patience + earned
            if not self._asks:
                break
            self._ask()
            row, clock, done, remaining = known_chain(*path, clock, until, done, events, remaining)
        return clock, done, departures - remaining

    @abstractmethod
    def _decide_and_draw(self, record: ChainRecord, until: float, events: int, departures: int) -> Drawn:
        """Do as `_draw_moves`, by a kernel that decides for itself."""

    def _ask(self) -> None:
        """Remember what the rule says of the state that the path is in, and of those about it."""
        about = self._now[:, None] + _steps(self._now.size)
        counts = np.ascontiguousarray(about[:, np.all(about >= 0, axis=0)])
        cores = self._policy.decision(counts)
        leaving = departure_rates(self._system, counts.astype(np.float64), cores)
        self._memory.remember(counts, self._system.arrival_rates, leaving, cores / np.maximum(counts, 1))
        self._asked += 1

    def _cores(self, counts: Ints) -> Floats:
        return self._policy.decision(counts)

    def statistics(self) -> Statistics:
        """Return what was seen, by the widths of the grid."""
        return self._totals.statistics(tuple(self._system.names), float(sum(self.spans)))


@cache
def _steps(classes: int) -> Ints:
    """Return where few events lead to, shape (K, states); staying comes last, so that it is remembered."""
    ways = product(range(-_REACH, _REACH + 1), repeat=classes)
    near = sorted((way for way in ways if sum(map(abs, way)) <= _REACH), key=lambda way: -sum(map(abs, way)))
    return np.array(near, dtype=np.int64).T
