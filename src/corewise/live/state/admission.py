"""Admission of events: what cannot have happened is refused before it is written down.

Events are journaled in groups, and whether one is possible depends on those before it in its group: a job
that arrives and finishes in one batch is there in between. So a group is checked against what will be there
once the events before have been handled. A batch is admitted whole or not at all.
"""

from __future__ import annotations

from collections import ChainMap, Counter
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from corewise.errors import InvalidInput, nearest
from corewise.kit import checks
from corewise.live.state.configuration import Configuration
from corewise.live.state.job_table import RosterJob
from corewise.live.state.lessons import Lesson
from corewise.model.system import System
from corewise.observation import events as happened
from corewise.observation.journal_log import has_overtaken

if TYPE_CHECKING:
    from corewise.live.state.controller import Controller

__all__ = ["Admission", "JobsThere", "hint_of", "require"]

_COMPARED = 1000  # jobs among which the nearest name is looked for


class JobsThere:
    """Jobs that are there and jobs that have left, with the events of a group on top.

    Parameters
    ----------
    jobs : mapping
        The jobs that are there, by name.
    left, early : mapping
        The jobs that have left, and those whose end was reported before their arrival.
    """

    def __init__(
        self, jobs: Mapping[str, RosterJob], left: Mapping[str, object], early: Mapping[str, happened.Event]
    ) -> None:
        self._jobs, self._left, self._early = jobs, left, early
        self._ends: ChainMap[str, float | None] = ChainMap({})  # of jobs that were not there; None once used
        self._changes: ChainMap[str, float | None] = ChainMap({})  # when each has come; None once it has left

    def came(self, name: str) -> float | None:
        """Return when a job that is there came, None if none of that name is there."""
        if name in self._changes:
            return self._changes[name]
        job = self._jobs.get(name)
        return None if job is None else job.came

    def generation(self, name: str) -> int:
        """Return the number of the last instruction to a job, before the events of the group."""
        job = None if name in self._changes else self._jobs.get(name)
        return 0 if job is None else job.generation

    def has_left(self, name: str) -> bool:
        """Return whether a job of that name has left, as far as that is remembered."""
        return name in self._left or name in self._early or name in self._changes

    def names(self) -> list[str]:
        """Return the names of the jobs that are there."""
        here = [name for name in self._jobs if name not in self._changes]
        return [*here, *(name for name, came in self._changes.items() if came is not None)]

    def of_classes(self, system: System) -> dict[str, int]:
        """Return how many jobs of each class are there, before the events of the group."""
        return dict(Counter(system.names[job.job_class] for job in self._jobs.values()))

    def take(self, event: happened.Event) -> None:
        """Take in what an event changes."""
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
        """Return when a job has ended that has not come yet."""
        if name in self._ends:
            return self._ends[name]
        end = self._early.get(name)
        return None if end is None else end.time

    def branch(self) -> JobsThere:
        """Return a copy whose changes can be dropped."""
        made = JobsThere(self._jobs, self._left, self._early)
        made._changes, made._ends = self._changes.new_child(), self._ends.new_child()
        return made

    def merge(self, branch: JobsThere) -> None:
        """Take in the changes of a branch."""
        self._changes.update(branch._changes.maps[0])
        self._ends.update(branch._ends.maps[0])


def require(event: happened.Event, system: System, jobs: JobsThere, pool: int) -> None:
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
            _require_generation(event, jobs)
        case happened.LimitsChanged():
            system.index(event.job_class)
            if event.least > pool:
                raise InvalidInput(
                    f"{event.kind}: jobs of class {event.job_class!r} cannot need {event.least} cores, "
                    f"as the pool has {pool}"
                )
        case happened.PoolChanged():
            checks.count(event.cores, f"{event.kind}: cores")
        case happened.PoolConfigured():
            _require_configuration(event, system, jobs)
        case happened.Solved() if event.learned is not None:
            Lesson.from_mapping(event.learned).require(system)
        case _:
            pass


def _require_job(event: happened.Event, name: str, jobs: JobsThere) -> None:
    """Refuse what is said of a job that is not there, or of an earlier one of the same name.

    The end of a job that was never there may have overtaken its arrival.
    """
    came = jobs.came(name)
    if came is None:
        if isinstance(event, happened.JobFinished | happened.JobEnded) and not jobs.has_left(name):
            return
        raise InvalidInput(f"{event.kind}: no job {name!r} is there{hint_of(name, jobs.names())}")
    if event.time < came and jobs.has_left(name):
        raise InvalidInput(
            f"{event.kind}: job {name!r} came {came - event.time:.6g} s after this, at {came!r}; "
            "an earlier job of that name has left"
        )


def _require_configuration(event: happened.PoolConfigured, system: System, jobs: JobsThere) -> None:
    """Refuse a configuration that leaves no place for jobs that are there."""
    wanted = Configuration.from_mapping(event.configuration).algorithm.system
    for name, count in jobs.of_classes(system).items():
        if name not in wanted.names and count:
            there = "one job of it is" if count == 1 else f"{count} jobs of it are"
            raise InvalidInput(
                f"class {name!r} cannot be dropped: {there} there; keep it until they have left, or end "
                "those that are gone by PUT /v1/jobs with all that run"
            )


def _require_generation(event: happened.Event, jobs: JobsThere) -> None:
    """Refuse the answer to an instruction that was never given."""
    if not isinstance(event, happened.CoresHeld | happened.MoveRefused) or event.generation is None:
        return
    last = jobs.generation(event.job)
    if event.generation > last:
        raise InvalidInput(
            f"{event.kind}: generation {event.generation} of job {event.job!r}, whose last instruction "
            f"has number {last}"
        )


def hint_of(name: str, jobs: Collection[str]) -> str:
    """Return which of the jobs that are there may be meant."""
    return nearest(name, list(jobs)) if 0 < len(jobs) <= _COMPARED else ""


class Admission:
    """Admission of the events of a group, batch by batch.

    Parameters
    ----------
    controller : Controller
        What is there before the group.
    known : mapping
        The events of the group that were journaled before, by id and as plain values.
    """

    def __init__(self, controller: Controller, known: Mapping[str, Mapping[str, Any]]) -> None:
        self._system, self._pool = controller.system, controller.pool
        self._jobs = JobsThere(controller.roster.jobs, controller.left, controller.early)
        self._known = known
        self._admitted: dict[str, happened.Event] = {}

    def new(self, events: Sequence[happened.Event], undated: Collection[str] = ()) -> list[happened.Event]:
        """Return the events of a batch that were not reported before, each of them once.

        Of `undated` ones the time is that of their receipt, which differs when they are sent again.

        Raises
        ------
        InvalidInput
            If an id was used before for another event.
        """
        found: dict[str, happened.Event] = {}
        for number, event in enumerate(events, start=1):
            before = self._known.get(event.id)
            twin = self._admitted.get(event.id) or found.get(event.id)
            if twin is not None:
                before = happened.event_to_mapping(twin)
            if before is None:
                found[event.id] = event
                continue
            differs = _difference(before, happened.event_to_mapping(event), dated=event.id not in undated)
            if differs is not None:
                key, there, here = differs
                text = (
                    f"{event.kind}: the id {event.id!r} was used before for another event: "
                    f"its {key} was {there!r}, now it is {here!r}"
                )
                raise InvalidInput(_located(text, number, events))
        return list(found.values())

    def admit(self, events: Sequence[happened.Event]) -> None:
        """Admit a batch; raise `InvalidInput` if one of its events cannot have happened, and admit none."""
        jobs, system, pool = self._jobs.branch(), self._system, self._pool
        for number, event in enumerate(events, start=1):
            try:
                require(event, system, jobs, pool)
            except InvalidInput as error:
                raise InvalidInput(_located(str(error), number, events)) from None
            jobs.take(event)
            if isinstance(event, happened.PoolChanged):
                pool = event.cores
            if isinstance(event, happened.PoolConfigured):
                system = Configuration.from_mapping(event.configuration).algorithm.system
                pool = int(system.cores)
        self._jobs.merge(jobs)
        self._system, self._pool = system, pool
        self._admitted.update((event.id, event) for event in events)


def _located(text: str, number: int, events: Sequence[happened.Event]) -> str:
    """Return what is wrong with an event, and which one it is if there are several."""
    return text if len(events) == 1 else f"event {number} of {len(events)}, {events[number - 1].id!r}: {text}"


def _difference(
    before: Mapping[str, Any], now: Mapping[str, Any], *, dated: bool
) -> tuple[str, object, object] | None:
    """Return what differs between two events first: the key and its values; None if they are the same."""
    for key in {**before, **now}:
        if (dated or key != "time") and before.get(key) != now.get(key):
            return key, before.get(key), now.get(key)
    return None
