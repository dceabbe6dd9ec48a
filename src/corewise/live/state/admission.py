"""Admission of events to a live pool: an event that cannot have happened is refused before it is journaled.

Beyond the rule for all events (`corewise.observation.admission`), an answer names an instruction that was
given, a configuration has a place for the jobs that are present, and an inference is of the system's classes.
A batch is admitted whole or not at all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from corewise.errors import InvalidInput
from corewise.learning.learner import Inference
from corewise.live.state.configuration import Configuration
from corewise.live.state.job_table import PoolJob
from corewise.model.system import System
from corewise.observation import events as happened
from corewise.observation.admission import KnownJobs, require_possible

__all__ = ["Admission", "require"]


def require(event: happened.Event, system: System, jobs: KnownJobs[PoolJob], pool: int) -> None:
    """Raise `InvalidInput` if an event cannot have happened in a pool of so many cores with these jobs."""
    require_possible(event, system, jobs, pool)
    match event:
        case happened.CoresHeld() | happened.MoveRefused():
            _require_generation(event, jobs)
        case happened.PoolConfigured():
            _require_configuration(event, system, jobs)
        case happened.Solved() if event.learned is not None:
            Inference.from_mapping(event.learned).require(system)
        case _:
            pass


def _require_configuration(event: happened.PoolConfigured, system: System, jobs: KnownJobs[PoolJob]) -> None:
    """Refuse a configuration that leaves no place for jobs that are there."""
    wanted = Configuration.from_mapping(event.configuration).algorithm.system
    present = Counter(system.names[job.job_class] for job in jobs.present.values())
    for name, count in present.items():
        if name not in wanted.names and count:
            there = "one job of it is" if count == 1 else f"{count} jobs of it are"
            raise InvalidInput(
                f"class {name!r} cannot be dropped: {there} there; keep it until they have left, or end "
                "those that are gone by PUT /v1/jobs with all that run"
            )


def _require_generation(event: happened.CoresHeld | happened.MoveRefused, jobs: KnownJobs[PoolJob]) -> None:
    """Refuse the answer to an instruction that was never given."""
    job = jobs.unchanged(event.job)
    last = 0 if job is None else job.generation
    if event.generation is not None and event.generation > last:
        raise InvalidInput(
            f"{event.kind}: generation {event.generation} of job {event.job!r}, whose last instruction "
            f"has number {last}"
        )


class Admission:
    """Admission of the events of a group, batch by batch.

    Parameters
    ----------
    system : System
        The system before the group.
    jobs : KnownJobs
        The jobs before the group.
    pool : int
        The cores before the group.
    journaled : mapping
        The events of the group that were journaled before, by id and as plain values.
    """

    def __init__(
        self,
        system: System,
        jobs: KnownJobs[PoolJob],
        pool: int,
        journaled: Mapping[str, Mapping[str, Any]],
    ) -> None:
        self._system, self._pool, self._jobs = system, pool, jobs
        self._journaled = journaled
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
            before = self._journaled.get(event.id)
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
