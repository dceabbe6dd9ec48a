"""Admission rule for events: an event is refused if it cannot have happened after those before it.

- *Unknown*: nothing can be reported of a job that is not present. Only its end can: where messages overtake
  each other, the end of a job may be reported before its arrival.
- *Duplicate*: a job cannot arrive while one of its name is present, and what is dated before the arrival of a
  job whose name was used before belongs to the earlier job.
- *Overtaken*: what a job holds is what was dated last; a report that a later one has overtaken says nothing.

A live controller admits events by this rule before they are journaled; a reader of the journal admits them by
it again, since earlier versions journaled first.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Collection, Mapping
from typing import Generic, Protocol, TypeVar

from corewise.errors import InvalidInput, nearest
from corewise.kit import checks
from corewise.model.system import System
from corewise.observation import events as happened

__all__ = [
    "JobEnd",
    "KnownJobs",
    "PresentJob",
    "has_overtaken",
    "is_overtaken",
    "keep_latest",
    "nearest_job",
    "require_possible",
]

_UNDER_WAY = 10.0  # seconds by which the arrival of a job may be received after its end
_SHORTLY = 1.0  # seconds in which reports may overtake each other wherever they come from
_COMPARED = 1000  # jobs among which the nearest name is looked for
_KEPT = 10_000  # names of jobs that have left, the latest, and of jobs that ended before they arrived

JobEnd = happened.JobFinished | happened.JobEnded


class PresentJob(Protocol):
    """Job that is present."""

    @property
    def came(self) -> float:
        """When it arrived, or was first reported if it was there before."""
        ...


JobT = TypeVar("JobT", bound=PresentJob)
_ValueT = TypeVar("_ValueT")


class KnownJobs(Generic[JobT]):
    """Jobs that are present and jobs that have left, with the events of a group on top.

    Events are journaled in groups, and whether one is possible depends on those before it in its group: a job
    that arrives and finishes in one batch is present in between.

    Parameters
    ----------
    present : mapping
        The jobs that are present before the group, by name.
    left, early : mapping
        The jobs that have left, and those whose end was reported before their arrival.
    """

    def __init__(
        self, present: Mapping[str, JobT], left: Mapping[str, object], early: Mapping[str, JobEnd]
    ) -> None:
        self.present, self._left, self._early = present, left, early
        self._ends: ChainMap[str, float | None] = ChainMap({})  # of jobs not yet present; None once used
        self._changes: ChainMap[str, float | None] = ChainMap({})  # arrivals; None once a job has left

    def came(self, name: str) -> float | None:
        """Return when a job that is present arrived, None if none of that name is present."""
        if name in self._changes:
            return self._changes[name]
        job = self.present.get(name)
        return None if job is None else job.came

    def unchanged(self, name: str) -> JobT | None:
        """Return a job that is present and that no event of the group is about."""
        return None if name in self._changes else self.present.get(name)

    def has_left(self, name: str) -> bool:
        """Return whether a job of that name has left, as far as that is remembered."""
        return name in self._left or name in self._early or name in self._changes

    def names(self) -> list[str]:
        """Return the names of the jobs that are present."""
        here = [name for name in self.present if name not in self._changes]
        return [*here, *(name for name, came in self._changes.items() if came is not None)]

    def take(self, event: happened.Event) -> None:
        """Apply an event of the group."""
        match event:
            case happened.JobArrived() | happened.JobPresent():
                end = self._end_of(event.job)
                self._ends[event.job] = None
                gone = end is not None and has_overtaken(end, event.time)
                self._changes[event.job] = None if gone else event.time
            case happened.JobFinished() | happened.JobEnded():
                if self.came(event.job) is None:
                    self._ends[event.job] = event.time
                self._changes[event.job] = None
            case _:
                pass

    def _end_of(self, name: str) -> float | None:
        """Return when a job has ended that has not arrived yet."""
        if name in self._ends:
            return self._ends[name]
        end = self._early.get(name)
        return None if end is None else end.time

    def branch(self) -> KnownJobs[JobT]:
        """Return a copy whose changes can be dropped."""
        made = KnownJobs(self.present, self._left, self._early)
        made._changes, made._ends = self._changes.new_child(), self._ends.new_child()
        return made

    def merge(self, branch: KnownJobs[JobT]) -> None:
        """Take over the changes of a branch."""
        self._changes.update(branch._changes.maps[0])
        self._ends.update(branch._ends.maps[0])


def require_possible(event: happened.Event, system: System, jobs: KnownJobs[JobT], pool: float) -> None:
    """Raise `InvalidInput` if an event cannot have happened in a pool of so many cores with these jobs."""
    match event:
        case happened.JobArrived() | happened.JobPresent():
            if jobs.came(event.job) is not None:
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
            | happened.RoundOverdue()
            | happened.ShortRounds()
        ):
            _require_job(event, event.job, jobs)
        case happened.LimitsChanged():
            system.index(event.job_class)
            if event.least > pool:
                raise InvalidInput(
                    f"{event.kind}: jobs of class {event.job_class!r} cannot need {event.least} cores, "
                    f"as the pool has {pool}"
                )
        case happened.PoolChanged():
            checks.count(event.cores, f"{event.kind}: cores")
        case _:
            pass


def _require_job(event: happened.Event, name: str, jobs: KnownJobs[JobT]) -> None:
    """Refuse a report on a job that is not present, or on an earlier one of the same name.

    The end of a job that was never present may have overtaken its arrival.
    """
    came = jobs.came(name)
    if came is None:
        if isinstance(event, JobEnd) and not jobs.has_left(name):
            return
        raise InvalidInput(f"{event.kind}: no job {name!r} is there{nearest_job(name, jobs.names())}")
    if event.time < came and jobs.has_left(name):
        raise InvalidInput(
            f"{event.kind}: job {name!r} came {came - event.time:.6g} s after this, at {came!r}; "
            "an earlier job of that name has left"
        )


def nearest_job(name: str, jobs: Collection[str]) -> str:
    """Return which of the jobs that are present may be meant, as the end of an error message."""
    return nearest(name, list(jobs)) if 0 < len(jobs) <= _COMPARED else ""


def is_overtaken(time: float, last: float, lateness: float) -> bool:
    """Return whether a report of what a job holds was overtaken by a later one, dated `last`.

    A report that is dated much earlier was not under way for so long: the clock of its sender was set back.
    """
    return last - max(lateness, _SHORTLY) <= time < last


def has_overtaken(end: float, arrival: float) -> bool:
    """Return whether the end of a job, reported before its arrival, has overtaken it on the way.

    An end that was reported long before belongs to another job. One shortly before may be of this one: where
    neither was dated by its sender, both have the times of their receipt.
    """
    return end >= arrival - _UNDER_WAY


def keep_latest(kept: dict[str, _ValueT], name: str, value: _ValueT) -> None:
    """Keep a value by the name of a job, and of many the latest."""
    kept.pop(name, None)
    kept[name] = value
    if len(kept) > _KEPT:
        del kept[next(iter(kept))]
