"""Admission of events: what cannot have happened is refused before it is written down.

Events are journaled in groups, and whether one is possible depends on those before it in its group: a job
that arrives and finishes in one batch is there in between. So a group is checked against what will be there
once the events before have been handled. A batch is admitted whole or not at all.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from corewise.errors import InvalidInput, nearest
from corewise.kit import checks
from corewise.live import events as happened
from corewise.live.lessons import Lesson
from corewise.model.system import System

if TYPE_CHECKING:
    from corewise.live.controller import Controller

__all__ = ["Admission", "require"]

_COMPARED = 1000  # jobs among which the nearest name is looked for


def require(event: happened.Event, system: System, jobs: Collection[str], pool: int) -> None:
    """Raise `InvalidInput` if an event cannot have happened in a pool of so many cores with these jobs."""
    match event:
        case happened.JobArrived() | happened.JobPresent():
            if event.job in jobs:
                raise InvalidInput(f"{event.kind}: job {event.job!r} is there already")
            system.index(event.job_class)
            least = event.least or 1
            if least > pool:
                raise InvalidInput(
                    f"{event.kind}: job {event.job!r} needs {least} cores, and the pool has {pool}"
                )
        case (
            happened.JobFinished()
            | happened.JobEnded()
            | happened.CoresHeld()
            | happened.MoveRefused()
            | happened.Progress()
        ):
            if event.job not in jobs:
                hint = nearest(event.job, list(jobs)) if 0 < len(jobs) <= _COMPARED else ""
                raise InvalidInput(f"{event.kind}: no job {event.job!r} is there{hint}")
        case happened.LimitsChanged():
            system.index(event.job_class)
            if event.least > pool:
                raise InvalidInput(
                    f"{event.kind}: jobs of class {event.job_class!r} cannot need {event.least} cores, "
                    f"as the pool has {pool}"
                )
        case happened.PoolChanged():
            checks.count(event.cores, f"{event.kind}: cores")
        case happened.Solved() if event.learned is not None:
            Lesson.from_mapping(event.learned).require(system)
        case _:
            pass


class _Jobs(Collection[str]):
    """The jobs that are there, but for those that have come and gone since."""

    def __init__(self, there: Collection[str], changes: Mapping[str, bool]) -> None:
        self._there, self._changes = there, changes

    def __contains__(self, name: object) -> bool:
        changed = self._changes.get(name) if isinstance(name, str) else None
        return name in self._there if changed is None else changed

    def __iter__(self) -> Iterator[str]:
        yield from (name for name in self._there if name not in self._changes)
        yield from (name for name, here in self._changes.items() if here)

    def __len__(self) -> int:
        return sum(1 for _ in self)


class Admission:
    """Admission of the events of a group, batch by batch.

    Parameters
    ----------
    controller : Controller
        What is there before the group.
    known : collection of str
        The ids of events of the group that were journaled before.
    """

    def __init__(self, controller: Controller, known: Collection[str]) -> None:
        self._system, self._there = controller.system, controller.roster.jobs
        self._pool = controller.pool
        self._changes: dict[str, bool] = {}
        self._ids = set(known)

    def new(self, events: Sequence[happened.Event]) -> list[happened.Event]:
        """Return the events of a batch whose ids nobody has used, each of them once."""
        found = {event.id: event for event in reversed(events) if event.id not in self._ids}
        return [event for event in events if found.get(event.id) is event]

    def admit(self, events: Sequence[happened.Event]) -> None:
        """Admit a batch; raise `InvalidInput` if one of its events cannot have happened, and admit none."""
        changes: ChainMap[str, bool] = ChainMap({}, self._changes)
        jobs, pool = _Jobs(self._there, changes), self._pool
        for number, event in enumerate(events, start=1):
            try:
                require(event, self._system, jobs, pool)
            except InvalidInput as error:
                raise InvalidInput(_located(str(error), number, events)) from None
            match event:
                case happened.JobArrived() | happened.JobPresent():
                    changes[event.job] = True
                case happened.JobFinished() | happened.JobEnded():
                    changes[event.job] = False
                case happened.PoolChanged():
                    pool = event.cores
                case _:
                    pass
        self._changes.update(changes.maps[0])
        self._pool = pool
        self._ids.update(event.id for event in events)


def _located(text: str, number: int, events: Sequence[happened.Event]) -> str:
    """Return what is wrong with an event, and which one it is if there are several."""
    return text if len(events) == 1 else f"event {number} of {len(events)}, {events[number - 1].id!r}: {text}"
