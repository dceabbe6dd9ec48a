"""Memories: which of the windows seen so far the estimates are made from.

A memory is a value: remembering one more window gives another memory. This is all in which the paper's
algorithms differ, besides the length of their windows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, Self, runtime_checkable

from numpy.typing import NDArray

from corewise.errors import InvalidInput
from corewise.estimation.changes.detector import Alarm, ChangeDetector
from corewise.model.system import System
from corewise.observation.statistics import Statistics

__all__ = ["Everything", "Latest", "Memory", "Part", "SinceChange", "Watchful"]

Part = Statistics | Mapping[str, NDArray[Any]]
"""Part of the checkpoint of a memory: statistics, or named arrays."""


@runtime_checkable
class Memory(Protocol):
    """Memory of a learner: which windows count, as sufficient statistics to estimate from.

    Examples
    --------
    >>> import corewise as cw
    >>> system = cw.load_system("paper:1")
    >>> plant = cw.SimulatedPlant(system, rng=7)
    >>> window = plant.run(cw.Equi(), 100)
    >>> memories = [cw.memories.Latest(), cw.memories.Everything()]
    >>> [memory.remember(window).remember(window).recall().departures for memory in memories]
    [100, 200]
    """

    def recall(self) -> Statistics:
        """Return the statistics of all windows that count."""
        ...

    @property
    def parts(self) -> tuple[Part, ...]:
        """The checkpoint of the memory: the values from which it can be made again."""
        ...

    def remember(self, window: Statistics) -> Self:
        """Return the memory after one more window."""
        ...

    def of_parts(self, parts: tuple[Any, ...]) -> Self:
        """Return the memory of this kind that goes on from a checkpoint, its `parts`."""
        ...


@runtime_checkable
class Watchful(Protocol):
    """Memory with a change detector."""

    @property
    def alarms(self) -> tuple[Alarm, ...]:
        """The changes that were found at the end of the latest window."""
        ...

    def known(self, system: System) -> System:
        """Return a system with the current estimates of the arrival and size rates."""
        ...


@dataclass(frozen=True, eq=False)
class _Whole:
    """Memory that is one set of statistics."""

    kept: Statistics | None = None

    def __post_init__(self) -> None:
        if self.kept is not None:
            _require_statistics(self.kept)

    def recall(self) -> Statistics:
        """Return the statistics of all windows that count."""
        if self.kept is None:
            raise InvalidInput("nothing has been remembered yet")
        return self.kept

    @property
    def parts(self) -> tuple[Statistics, ...]:
        """The checkpoint of the memory: the values from which it can be made again."""
        return () if self.kept is None else (self.kept,)

    def of_parts(self, parts: tuple[Statistics, ...]) -> Self:
        """Return the memory of this kind that goes on from a checkpoint, its `parts`."""
        return type(self)(*parts)


class Latest(_Whole):
    """Memory of the latest window only: Algorithm 1a.

    Examples
    --------
    >>> import corewise as cw
    >>> system = cw.load_system("paper:1")
    >>> plant = cw.SimulatedPlant(system, rng=7)
    >>> memory = cw.memories.Latest().remember(plant.run(cw.Equi(), 100))
    >>> memory.remember(plant.run(cw.Equi(), 50)).recall().departures
    50
    """

    def remember(self, window: Statistics) -> Self:
        """Return the memory of that window alone."""
        return type(self)(window)


class Everything(_Whole):
    """Memory of every window: Algorithm 1b.

    Examples
    --------
    >>> import corewise as cw
    >>> system = cw.load_system("paper:1")
    >>> plant = cw.SimulatedPlant(system, rng=7)
    >>> memory = cw.memories.Everything().remember(plant.run(cw.Equi(), 100))
    >>> memory.remember(plant.run(cw.Equi(), 50)).recall().departures
    150
    """

    def remember(self, window: Statistics) -> Self:
        """Return the memory with that window added."""
        _require_statistics(window)
        return type(self)(window if self.kept is None else self.kept + window)


@dataclass(frozen=True, eq=False)
class SinceChange:
    """Memory since the last change point: of each class what was seen since it last changed.

    Attributes
    ----------
    detector : ChangeDetector
        The change detector.
    alarms : tuple of Alarm
        The changes that were found at the end of the latest window.

    Examples
    --------
    >>> import corewise as cw
    >>> system = cw.load_system("paper:1")
    >>> plant = cw.SimulatedPlant(system, rng=7)
    >>> memory = cw.memories.SinceChange(cw.ChangeDetector(system, between_alarms=1e6))
    >>> memory = memory.remember(plant.run(cw.Equi(), 5_000))
    >>> memory.recall().departures
    5000
    >>> other = cw.SimulatedPlant(system.with_curves({"two": cw.Amdahl(0.5)}), rng=8)
    >>> memory = memory.remember(other.run(cw.Equi(), 5_000))
    >>> [alarm.name for alarm in memory.alarms]
    ['two']
    >>> int(memory.recall()["one"].departures.sum()) > int(memory.recall()["two"].departures.sum())
    True
    """

    detector: ChangeDetector
    alarms: tuple[Alarm, ...] = ()

    def recall(self) -> Statistics:
        """Return what was seen since the last change of each class, or lately if it drifts."""
        return self.detector.statistics()

    def remember(self, window: Statistics) -> Self:
        """Return the memory with that window added, and without what a change has made void."""
        return type(self)(*self.detector.observe(window))

    def known(self, system: System) -> System:
        """Return a system with the current estimates of the arrival and size rates."""
        return self.detector.known(system)

    @property
    def parts(self) -> tuple[Part, ...]:
        """The checkpoint of the memory: the values from which it can be made again."""
        return (self.detector.state,) if self.detector.departures else ()

    def of_parts(self, parts: tuple[Any, ...]) -> Self:
        """Return the memory of this kind that goes on from a checkpoint, its `parts`."""
        return type(self)(self.detector.of_state(*parts)) if parts else self


def _require_statistics(window: object) -> None:
    if not isinstance(window, Statistics):
        raise InvalidInput(f"a memory is of Statistics, such as those of a run, got {window!r}")
