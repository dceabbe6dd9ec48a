"""Windows of a simulation: where it starts, when it stops, and the same one once more."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from corewise.errors import InvalidInput
from corewise.kit import checks
from corewise.kit.progress import Progress
from corewise.model.system import System
from corewise.observation.statistics import Statistics
from corewise.policies.base import BoundPolicy, Policy, bind
from corewise.simulation.loops.loop import Loop
from corewise.simulation.loops.sources import JobSource, RecordedJobs
from corewise.simulation.paths import SHARES, Manner, first_walk
from corewise.simulation.response_times import ResponseTimes
from corewise.simulation.state import State
from corewise.simulation.trace import Trace

__all__ = ["BATCHES", "LEAST_DEPARTURES", "Replay", "Window", "start_state"]

BATCHES = 20
"""Batches of a window: enough for Student's quantile to be near the normal one, few enough to be long."""

LEAST_DEPARTURES = 10 * BATCHES
"""With fewer a batch says nothing, and there is no interval."""

_FOLLOWED = 2**15
"""Departures up to which all jobs are followed at once, which takes some milliseconds."""

_MOST_DEPARTURES = 10**18  # what 64 bits can count


@dataclass(frozen=True)
class Window:
    """Stopping rule of a run: a number of departures, or a length of time."""

    departures: int | None
    time: float | None

    @classmethod
    def of(cls, departures: int | None, time: float | None) -> Window:
        """Return the window, if exactly one of the two is given and makes sense."""
        if (departures is None) == (time is None):
            raise InvalidInput(
                f"give either departures or time, got departures={departures!r}, time={time!r}"
            )
        if departures is not None:
            count = checks.whole(departures, "departures")
            checks.within(count, 1, _MOST_DEPARTURES, "departures")
            return cls(count, None)
        return cls(None, checks.positive(time, "time"))

    def short(self, system: System) -> bool:
        """Return whether it is so short that to follow all jobs takes next to no time."""
        if self.departures is not None:
            return self.departures <= _FOLLOWED
        assert self.time is not None
        return self.time * float(system.arrival_rates.sum()) <= _FOLLOWED

    def walk(self, walk: Loop, batches: int, progress: Progress | None) -> None:
        """Let a walk go on for this window, in batches if it is long enough for them."""
        if self.departures is None:
            assert self.time is not None
            walk.run_time(self.time, batches, progress)
            return
        parts = batches if self.departures >= LEAST_DEPARTURES else 1
        edges = [self.departures * i // parts for i in range(parts + 1)]
        walk.run_departures([high - low for low, high in pairwise(edges)], progress)


@dataclass(frozen=True, eq=False)
class Replay:
    """Replay of a run, with the same random numbers, for what was not kept count of.

    Not every bound policy can be sent to another process: there, the policy is bound again. `tables` is
    whether tables over states may be used, as far as they suit the system.
    """

    system: System
    policy: Policy | str
    start: State
    window: Window
    batches: int
    rng: np.random.Generator
    bound: BoundPolicy | None = None
    jobs: Trace | None = None
    tables: bool = True
    manner: Manner = SHARES

    def __getstate__(self) -> dict[str, object]:
        """Return what to send to another process."""
        return {**vars(self), "bound": None}

    def __call__(self) -> Statistics:
        """Return what the run sees."""
        walk = self._walk(tally=True)
        self.window.walk(walk, self.batches, None)
        return walk.statistics()

    def response_times(self) -> ResponseTimes:
        """Return the response times of the jobs that came and left."""
        walk = self._walk(tally=False)
        walk.follow_jobs()
        self.window.walk(walk, self.batches, None)
        assert walk.responses is not None
        return walk.responses

    def _walk(self, *, tally: bool) -> Loop:
        """Return the run before it began; the generator is copied, so that it can be asked for again."""
        bound = self.bound or bind(self.policy, self.system)
        rng = deepcopy(self.rng)
        return first_walk(
            *(self.system, bound, self.start, rng),
            tally=tally,
            source=self.source,
            tables=self.tables,
            manner=self.manner,
        )

    @property
    def source(self) -> JobSource | None:
        """The jobs that were recorded, before the first of them; None if jobs are to be drawn."""
        return None if self.jobs is None else RecordedJobs(self.system, self.jobs)


def start_state(start: object, system: System) -> State:
    """Return the state to start from, given as one, as counts, or not at all."""
    if start is None:
        return State((0,) * len(system.classes))
    if isinstance(start, State):
        if len(start.counts) != len(system.classes):
            raise InvalidInput(f"start has {len(start.counts)} classes, the system {len(system.classes)}")
        return start
    if isinstance(start, str) or not isinstance(start, Sequence | np.ndarray):
        raise InvalidInput(f"start must be a State or the jobs of each class, got {start!r}")
    if len(start) != len(system.classes):
        raise InvalidInput(f"start needs {len(system.classes)} numbers, one for each class, got {start!r}")
    return State(tuple(checks.whole(n, "start", least=0) for n in start))
