"""The simulation engine over transition tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from copy import deepcopy

import numpy as np
from numpy.typing import NDArray

from corewise.kit.arrays import Floats, Ints
from corewise.model.system import System
from corewise.observation.statistics import Statistics
from corewise.policies.base import BoundPolicy
from corewise.simulation import _kernels
from corewise.simulation.engine import Engine
from corewise.simulation.state import State
from corewise.simulation.tables import Occupation, Tables

__all__ = ["Walk"]

_AT_A_TIME = 2**20
"""Events per call of a kernel, which cannot be interrupted: about ten milliseconds."""


class Walk(Engine):
    """Simulation engine over transition tables: every state of a box has its moves in them."""

    def __init__(
        self, tables: Tables, start: State, rng: np.random.Generator, *, record: bool = False
    ) -> None:
        super().__init__(start, rng, record=record)
        self.tables = tables
        self._occupation = Occupation(tables.space)
        self._here = tables.state(start.counts)
        self._jumps: list[NDArray[np.int16]] = []

    @property
    def system(self) -> System:
        """The system that is simulated, as it is now."""
        return self.tables.system

    @property
    def policy(self) -> BoundPolicy:
        """Who holds how many cores."""
        return self.tables.policy

    @property
    def counts(self) -> tuple[int, ...]:
        """The jobs of each class now."""
        return self.tables.counts(self._here)

    def _cores(self, counts: Ints) -> Floats:
        """Return the cores of each class in each state."""
        return self.tables.cores[:, self.tables.space.index(counts.T)]

    # --- drawing --------------------------------------------------------------------------------

    def run_departures(self, batches: Sequence[int], progress: Callable[[float], object] | None) -> None:
        """Go on until as many jobs have left as all batches say."""
        whole, done = sum(batches), 0
        with_clock = self.record or bool(self.tables.system.changes)
        for size in batches:
            remaining, began = size, self.counts
            while remaining:
                step = self._tick(math.inf, remaining) if with_clock else self._jump(remaining)
                remaining -= step
                done += step
                if progress:
                    progress(done / whole)
            if not with_clock:
                self._occupation.batch.draw_times(self.tables.holding, self.rng)
                self._follow_jumps(began)
            self._close_batch()
        if not with_clock:
            self._clock = self.start.time + math.fsum(self.spans)

    def _jump(self, departures: int) -> int:
        """Make moves without a clock, at most as many departures; return how many."""
        tables, same = self.tables, None if self.responses is None else deepcopy(self.rng)
        here, events, done = _kernels.jump(
            self.rng,
            tables.thresholds,
            self._occupation.batch.moves,
            tables.steps,
            self._here,
            _AT_A_TIME,
            departures,
        )
        if same is not None:
            self._jumps.append(np.empty(events, dtype=np.int16))
            _kernels.retrace(
                same.random(events), tables.thresholds, tables.steps, self._here, self._jumps[-1]
            )
        self._here = int(here)
        self.events += events
        self._grow_if_at_edge()
        return int(done)

    def _follow_jumps(self, began: tuple[int, ...]) -> None:
        """Follow jobs along the moves of a batch that began in a state.

        Of its visits to a state each lasted as long as any other: in the mean, its part of the time there.
        """
        if self.responses is None:
            return
        what, self._jumps = np.concatenate(self._jumps), []
        steps = np.array(self.tables.steps)[what]
        states = self.tables.state(began) + np.cumsum(steps) - steps
        visits = self._occupation.batch.moves.reshape(self._occupation.batch.times.size, -1).sum(axis=1)
        self.responses.follow(what, self._occupation.batch.times[states] / visits[states])

    def _tick(self, until: float, departures: int) -> int:
        """Make moves by the clock, up to a time and at most as many departures; return how many."""
        changes = self.tables.system.changes
        horizon = min(until, changes[0].time) if changes else until
        room = min(_AT_A_TIME, 4 * departures + 64)
        when, what = np.empty(room), np.empty(room, dtype=np.int16)
        here, self._clock, events, done = _kernels.clocked(
            self.rng,
            self.tables.thresholds,
            self.tables.holding,
            self._occupation.batch.moves,
            self._occupation.batch.times,
            self.tables.steps,
            self._here,
            self._clock,
            horizon,
            departures,
            when,
            what,
        )
        self._here = int(here)
        self.events += events
        self._follow(when[:events], what[:events])
        if self.record:
            self._when.append(when[:events].copy())
            self._what.append(what[:events].copy())
        if changes and self._clock >= changes[0].time:
            self.tables = self.tables.under(self.tables.system.at(self._clock))
        self._grow_if_at_edge()
        return int(done)

    def _grow_if_at_edge(self) -> None:
        tables = self.tables
        if tables.thresholds[self._here * len(tables.steps)] >= 0.0:
            return
        counts = tables.counts(self._here)
        self.tables = tables.grown(counts)
        self._here = self.tables.state(counts)
        self._occupation.grow(self.tables.space)

    def _close_batch(self) -> None:
        area, span = self._occupation.close_batch()
        self.areas.append(area)
        self.spans.append(span)

    # --- what was seen ----------------------------------------------------------------------------

    def seen(self) -> tuple[Ints, Floats, Ints, Floats]:
        """Return the states seen: counts, cores (both (K, states)), moves (2K, states) and times."""
        return self._occupation.seen(self.tables.cores)

    def statistics(self) -> Statistics:
        """Return what was seen, for `estimate`."""
        return self._occupation.statistics(tuple(self.system.names), self.tables.cores)

    @property
    def moves(self) -> Ints:
        """The arrivals of each class, then the departures of each."""
        return self._occupation.moves

    @property
    def visits(self) -> tuple[Ints, Floats]:
        """The states visited, shape (K, states), and the time in each."""
        counts, _, _, times = self.seen()
        return counts, times
