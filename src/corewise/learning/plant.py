"""Plants, the systems that are learned about: each runs a policy for a while and says what was seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from hashlib import sha256
from typing import Any, Protocol, runtime_checkable

import numpy as np

from corewise.errors import InvalidFile, InvalidInput
from corewise.kit import checks
from corewise.kit.report import Summarised
from corewise.model.system import System, require_system
from corewise.observation.sample_path import EventKind, SamplePath
from corewise.observation.statistics import PathTally, Statistics
from corewise.observation.strata.tally import AttainedWork, StrataTally
from corewise.policies.base import Policy, bind
from corewise.policies.tabular import Tabular
from corewise.simulation.decisions.table import TableChain, TableJobs
from corewise.simulation.loops.sources import RandomJobs
from corewise.simulation.paths import first_walk
from corewise.simulation.randomness import random_generator
from corewise.simulation.state import State
from corewise.simulation.window import Window, start_state

__all__ = ["Attentive", "Plant", "ReplayPlant", "Resumable", "SimulatedPlant"]


@runtime_checkable
class Plant(Protocol):
    """Plant: a system, real or simulated, that can be run under a policy.

    Examples
    --------
    >>> import corewise as cw
    >>> system = cw.load_system("paper:1")
    >>> plant = cw.SimulatedPlant(system, rng=7)
    >>> isinstance(plant, cw.Plant), plant.truth == system
    (True, True)
    >>> plant.run(cw.Equi(), departures=100).departures
    100
    """

    @property
    def truth(self) -> System | None:
        """The true system at this time, None if it is not known; a learner never reads it."""
        ...

    def run(self, policy: Policy, departures: int) -> Statistics:
        """Run under `policy` until so many jobs have left, and return what was seen.

        Fewer departures mean that the plant has come to its end, and none that it is over.
        """
        ...


@runtime_checkable
class Resumable(Protocol):
    """Plant with snapshots, from which it can go on in another process."""

    def snapshot(self) -> Mapping[str, Any]:
        """Return the state of the plant, as plain values."""
        ...

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        """Restore the state of a plant like this one."""
        ...


@runtime_checkable
class Attentive(Protocol):
    """Plant that identifies jobs, and keeps strata of their attained work on request."""

    def attend(self, system: System) -> None:
        """Keep strata from now on, for curves of the families that a system has."""
        ...


class SimulatedPlant(Summarised):
    """A simulated system; its curves change at the times of ``system.changes``, unknown to the learner.

    Sizes and times between arrivals follow the distributions of the system; with one seed the jobs are then
    the same whatever policies are run.

    Parameters
    ----------
    system : System
        The truth.
    rng : Generator or int, optional
        The source of randomness, or a seed for one.
    start : State or sequence of int, optional
        Where to begin; empty if not given.

    Examples
    --------
    >>> import corewise as cw
    >>> system = cw.load_system("paper:1")
    >>> plant = cw.SimulatedPlant(system, rng=7)
    >>> first = plant.run(cw.Equi(), departures=100)
    >>> second = plant.run(cw.Whittle(), departures=50)
    >>> (first + second).departures
    150
    """

    def __init__(
        self,
        system: System,
        *,
        rng: np.random.Generator | int | None = None,
        start: State | Sequence[int] | None = None,
    ) -> None:
        require_system(system)
        system.require_scale()
        self.system = system
        self.rng = random_generator(rng)
        self.state = start_state(start, system)
        self._capacity: tuple[int, ...] | None = None
        self._jobs: RandomJobs | None = None
        self._families: System | None = None
        self._attained: tuple[AttainedWork | None, ...] | None = None

    def attend(self, system: System) -> None:
        """Keep strata of attained work, for curves of the families that a system has.

        Where sizes are exponential nothing is kept: attained work then says nothing.
        """
        _require_names(self.system.names, system, "plant")
        self._families = None if self.system.memoryless else system

    @property
    def truth(self) -> System:
        """The true system at this time."""
        return self.system.regime(self.state.time)

    def run(self, policy: Policy, departures: int) -> Statistics:
        """Run under `policy` until so many jobs have left, and return what was seen."""
        window = Window.of(departures, None)
        ample = policy.capacity if isinstance(policy, Tabular) else self._capacity
        bound = bind(policy, self.system)
        if self._jobs is None and not self.system.memoryless:
            self._jobs = RandomJobs(self.system, self.rng, self.state)
        keeps_strata = self._families is not None
        walk = first_walk(
            self.system,
            bound,
            self.state,
            self.rng,
            record=keeps_strata,
            tally=True,
            least=ample,
            source=self._jobs,
        )
        window.walk(walk, 1, None)
        self._capacity = walk.tables.space.capacity if isinstance(walk, TableChain | TableJobs) else None
        self.state, path = walk.finish()
        seen = walk.statistics()
        if self._families is None or path is None:
            return seen
        tally = StrataTally(path, self._families, self._attained)
        seen = replace(seen, strata=tally.count(path.time.size))
        self._attained = tally.attained
        return seen

    def snapshot(self) -> dict[str, Any]:
        """Return the jobs present, the time, and the state of the generator.

        If sizes are not exponential, also the work of these jobs and where the streams of further ones are.
        """
        followed = {}
        if self._jobs is not None:
            followed = {
                "remaining": [list(row) for row in self.state.remaining],
                "attained": [list(row) for row in self.state.attained],
                "jobs": _plain(self._jobs.snapshot()),
            }
        if self._attained is not None:
            followed |= {
                "named": self.state.named,
                "numbers": [list(row) for row in self.state.jobs],
                "strata": [None if one is None else one.plain() for one in self._attained],
            }
        return {
            "counts": list(self.state.counts),
            "time": self.state.time,
            "rng": _plain(self.rng.bit_generator.state),
            **followed,
        }

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        """Go where another plant of the same system was."""
        state = State(tuple(snapshot["counts"]), snapshot["time"])
        if "jobs" in snapshot:
            remaining, attained = (tuple(map(tuple, snapshot[name])) for name in ("remaining", "attained"))
            state = replace(state, remaining=remaining, attained=attained)
        if self._families is not None and "strata" in snapshot:
            numbers = tuple(map(tuple, snapshot["numbers"]))
            state = replace(state, jobs=numbers, named=snapshot["named"])
            pairs = zip(self._families.classes, snapshot["strata"], strict=True)
            self._attained = tuple(
                None if one is None else AttainedWork.of(known, one) for known, one in pairs
            )
        state = start_state(state, self.system)
        kind, own = snapshot["rng"]["bit_generator"], self.rng.bit_generator
        if kind != type(own).__name__:
            raise InvalidInput(f"the saved plant drew from {kind}, this one from {type(own).__name__}")
        source = type(own)()
        source.state = _arrays(snapshot["rng"])
        self.rng, self.state = np.random.Generator(source), state
        self._jobs = None
        if "jobs" in snapshot:
            self._jobs = RandomJobs(self.system, np.random.default_rng(0), state)
            self._jobs.restore(snapshot["jobs"])

    def _summary(self) -> Mapping[str, object]:
        state = self.state
        return {"classes": tuple(self.system.names), "time": state.time, "jobs": state.counts}


DriftingPlant = SimulatedPlant  # the name in pickles of the release before, when it was a class of its own


class ReplayPlant(Summarised):
    """Replayed plant: a log that was recorded earlier, window by window.

    What policy was in force is in the log; the policies that are to be run are not. So the loop says what
    would have been learned and adopted, not what would have come of it.

    Parameters
    ----------
    path : SamplePath
        The log; see `load_events`.

    Examples
    --------
    >>> import corewise as cw
    >>> system = cw.load_system("paper:1")
    >>> run = cw.simulate(system, "equi", departures=500, rng=7, record=True)
    >>> plant = cw.ReplayPlant(run.path)
    >>> [plant.run(cw.Equi(), departures=200).departures for _ in range(4)]
    [200, 200, 100, 0]
    """

    def __init__(self, path: SamplePath) -> None:
        if not isinstance(path, SamplePath):
            raise InvalidInput(f"expected a SamplePath, such as load_events(file, system).path, got {path!r}")
        self.path = path
        self._leaves = np.flatnonzero(path.event == EventKind.DEPARTURE)
        self._done = 0
        self._tally = PathTally(path)
        self._families: System | None = None
        self._strata: StrataTally | None = None

    def attend(self, system: System) -> None:
        """Keep strata of attained work, for curves of the families that a system has."""
        _require_names(self.path.names, system, "log")
        self._families = system
        self._go_to(self._done)

    def _go_to(self, departures: int) -> None:
        """Read from the beginning up to so many departures."""
        self._done, self._tally = 0, PathTally(self.path)
        self._strata = None if self._families is None else StrataTally(self.path, self._families)
        if departures:
            self._read(departures)

    @cached_property
    def _about(self) -> str:
        """What to know the log by."""
        path, content = self.path, sha256()
        for column in (path.time, path.event, path.job_class, path.job, path.cores):
            content.update(column.data)
        return f"{path}; SHA-256 {content.hexdigest()[:16]}"

    @property
    def truth(self) -> None:
        """None: the system behind a log is not known."""
        return

    @property
    def left(self) -> int:
        """The number of departures in the log that are still to come."""
        return self._leaves.size - self._done

    def run(self, policy: Policy, departures: int) -> Statistics:  # noqa: ARG002  # the log has its own
        """Return what the log says until so many more jobs have left, or to its end."""
        return self._read(checks.whole(departures, "departures"))

    def _read(self, departures: int) -> Statistics:
        done = self._done + departures
        end = int(self._leaves[done - 1]) + 1 if done <= self._leaves.size else self.path.time.size
        self._done = min(done, self._leaves.size)
        seen = Statistics.of_rows(self._tally, end)
        return seen if self._strata is None else replace(seen, strata=self._strata.count(end))

    def snapshot(self) -> dict[str, Any]:
        """Return how far the log has been read, and enough of it to know it again."""
        return {"departures": self._done, "log": self._about}

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        """Go where another replay of the same log was."""
        if snapshot["log"] != self._about:
            raise InvalidFile(
                f"the saved run is of another log: {snapshot['log']}; this one is {self._about}"
            )
        self._go_to(snapshot["departures"])

    def _summary(self) -> Mapping[str, object]:
        return {"classes": self.path.names, "departures": self._leaves.size, "left": self.left}


def _require_names(names: Sequence[str], system: System, what: str) -> None:
    """Raise `InvalidInput` unless what is learned about has the classes of a system, in order."""
    require_system(system)
    if list(names) != system.names:
        known, wanted = ", ".join(names), ", ".join(system.names)
        raise InvalidInput(f"the {what} has classes {known}, the algorithm is for {wanted}")


def _plain(value: Any) -> Any:
    """Return the state of a generator with its arrays as lists, which JSON can hold."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return value.tolist() if isinstance(value, np.ndarray) else value


def _arrays(value: Any) -> Any:
    """Return the state of a generator with its lists as arrays again."""
    if isinstance(value, Mapping):
        return {key: _arrays(item) for key, item in value.items()}
    return np.array(value, dtype=np.uint64) if isinstance(value, list) else value
