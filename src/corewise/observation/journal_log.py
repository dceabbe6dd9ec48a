r"""Journals of live pools as sample paths, in the per-job form.

An arrival holds no cores, `cores-held` is a resize, `job-finished` a departure, `job-ended` a cancellation.
What a journal says and a path cannot is put so that departures, arrivals and job-time at every width above
zero are what they were; time at width zero says nothing about a curve:

- a job that leaves as its cores are withdrawn takes the last width it had in the same instant; one that never
  had any is said to be cancelled, since no job can be done without cores;
- a job that stood still for a move holds none for as long;
- a job that was there before holds none from the start until the journal speaks of it.

An event counts at its time, whenever it was reported. What the clock of its own job contradicts counts as in
the controller: a width from the job's last report on, and a departure dated before that is none. Events that
cannot have happened are passed over, as is what a job held if something later was reported before. The pool
of the path is the largest there was.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from corewise.errors import InvalidFile, InvalidInput
from corewise.model.system import System
from corewise.observation.journal_file import JournalFile
from corewise.observation.rows import NOBODY, Event
from corewise.observation.sample_path import SamplePath

__all__ = ["has_overtaken", "is_overtaken", "read_journal"]

_UNDER_WAY = 10.0  # seconds by which the arrival of a job may be received after its end
_SHORTLY = 1.0  # seconds in which reports may overtake each other wherever they come from

LogRow = tuple[float, int, int, int, float]


def read_journal(name: str, system: System) -> tuple[SamplePath, int]:
    """Return the path of a journal, and how many events it has."""
    with JournalFile(name) as journal:
        rows = _Rows(system, journal.about)
        events = 0
        try:
            for _, mapping in journal.event_mappings():
                rows.take(mapping)
                events += 1
        except (KeyError, TypeError) as error:
            raise InvalidFile(f"{name}: event {events + 1} cannot be read: {error}") from None
    _require_classes(name, rows.about, system)
    if not events:
        raise InvalidFile(f"{name}: no events")
    try:
        return rows.path(), events
    except InvalidInput as error:
        raise InvalidFile(f"{name}: {error}") from None


def is_overtaken(time: float, last: float, lateness: float) -> bool:
    """Return whether what a job reports to hold was overtaken by a later report, dated `last`.

    A report that is dated much earlier was not under way for so long: the clock of its sender was set back.
    """
    return last - max(lateness, _SHORTLY) <= time < last


def has_overtaken(end: float, arrival: float) -> bool:
    """Return whether the end of a job, reported before its arrival, has overtaken it on the way.

    An end that was reported long before belongs to another job. One shortly before may be of this one: where
    neither was dated by its sender, both have the times of their receipt.
    """
    return end >= arrival - _UNDER_WAY


def _require_classes(name: str, about: Mapping[str, Any], system: System) -> None:
    described = about.get("system")
    known = [row["name"] for row in described["class"]] if isinstance(described, Mapping) else system.names
    if sorted(known) != sorted(system.names):
        raise InvalidFile(
            f"{name} is a journal of classes {', '.join(known)}; the system has {', '.join(system.names)}"
        )


@dataclass(slots=True)
class _Job:
    """A job that is there: what it holds, its last width, when its last row was, and its last report."""

    number: int
    job_class: int
    cores: int
    width: int
    came: float
    since: float
    told: float = -math.inf


class _Rows:
    """Rows of a path, from events one by one."""

    def __init__(self, system: System, about: Mapping[str, Any]) -> None:
        self.about = about
        """What the journal is a journal of, as it was configured last."""
        self._left: set[str] = set()
        self._early: dict[str, float] = {}  # when jobs ended whose arrivals have not been read yet
        self._classes = {name: i for i, name in enumerate(system.names)}
        self._names = tuple(system.names)
        self._pool = self._most = system.cores
        self._now, self._started = -math.inf, math.inf
        self._jobs_seen = 0
        self._jobs: dict[str, _Job] = {}
        self._present: list[tuple[int, int]] = []
        self._rows: list[LogRow] = []

    def path(self) -> SamplePath:
        """Return the path so far; rows of pauses and of late events find their place."""
        start = (self._started, Event.START, NOBODY, NOBODY, math.nan)
        present = [(self._started, Event.PRESENT, job_class, job, 0.0) for job_class, job in self._present]
        end = (self._now, Event.END, NOBODY, NOBODY, math.nan)
        inner = sorted(self._rows, key=lambda row: row[0])
        time, event, job_class, job, cores = zip(*[start, *present, *inner, end], strict=True)
        return SamplePath(
            self._names,
            max(self._most, _most_held(inner)),
            np.array(time),
            np.array(event, dtype=np.int8),
            np.array(job_class),
            np.array(job),
            np.array(cores),
        )

    def take(self, event: Mapping[str, Any]) -> None:
        """Take in an event, unless it cannot have happened."""
        kind = event["kind"]
        job = self._jobs.get(event.get("job", ""))
        comes = kind in ("job-arrived", "job-present")
        if comes and not self._can_come(event, job):
            return
        if kind in ("job-finished", "job-ended", "cores-held", "move-refused", "progress"):
            if job is None:
                self._note_end(event)
                return
            if event["time"] < job.came and event["job"] in self._left:  # of an earlier job of that name
                return
        self._now = max(self._now, event["time"])
        self._started = min(self._started, event["time"])
        if comes:
            self._come(event)
        elif kind == "pool-changed":
            self._pool = event["cores"]
            self._most = max(self._most, self._pool)
        elif kind == "pool-configured":
            self._configure(event["configuration"])
        elif kind == "cores-held" and job is not None and self._is_latest(event, job):
            job.told = event["time"]
            at = max(event["time"], job.since)
            self._pause(job, at, event.get("paused", 0.0))
            self._resize(job, at, event["cores"])
        elif kind in ("job-finished", "job-ended") and job is not None:
            in_time = event["time"] >= job.since
            self._leave(job, max(event["time"], job.since), finished=in_time and kind == "job-finished")
            self._forget(event["job"])

    def _is_latest(self, event: Mapping[str, Any], job: _Job) -> bool:
        lateness = (self.about.get("options") or {}).get("lateness") or 0.0
        return not is_overtaken(event["time"], job.told, lateness)

    def _configure(self, new: Mapping[str, Any]) -> None:
        """Go on with another configuration; jobs of classes that the system does not have are left out."""
        before, self.about = self.about, new
        cores = new["system"]["cores"]
        if (before.get("system") or {}).get("cores") != cores:
            self._pool = cores
            self._most = max(self._most, cores)

    def _note_end(self, event: Mapping[str, Any]) -> None:
        """Remember the end of a job that was not there yet: it may have overtaken the arrival."""
        name = event["job"]
        if event["kind"] in ("job-finished", "job-ended") and name not in self._left:
            self._early.setdefault(name, event["time"])
            self._now = max(self._now, event["time"])

    def _forget(self, name: str) -> None:
        del self._jobs[name]
        self._left.add(name)

    def _can_come(self, event: Mapping[str, Any], job: _Job | None) -> bool:
        fits = event.get("least", 1) <= self._pool
        return job is None and fits and event["job_class"] in self._classes

    def _come(self, event: Mapping[str, Any]) -> None:
        at = event["time"]
        job = _Job(self._jobs_seen, self._classes[event["job_class"]], 0, 0, at, at)
        self._jobs_seen += 1
        self._jobs[event["job"]] = job
        if event["kind"] == "job-present":
            self._present.append((job.job_class, job.number))
            self._resize(job, at, event["held"])
        else:
            self._add(job, at, Event.ARRIVAL, 0.0)
        end = self._early.pop(event["job"], -math.inf)
        if has_overtaken(end, at):
            self._leave(job, max(end, at), finished=end >= at)
            self._forget(event["job"])

    def _pause(self, job: _Job, at: float, paused: float) -> None:
        if paused > 0.0 and job.cores:
            began = max(at - paused, job.since)
            self._rows.append((began, Event.RESIZE, job.job_class, job.number, 0.0))

    def _resize(self, job: _Job, at: float, cores: int) -> None:
        job.cores, job.width = cores, cores or job.width
        self._add(job, at, Event.RESIZE, cores)

    def _leave(self, job: _Job, at: float, *, finished: bool) -> None:
        if not (finished and job.width):
            self._resize(job, at, 0)
            return
        if not job.cores:
            self._add(job, at, Event.RESIZE, job.width)
        self._add(job, at, Event.DEPARTURE, math.nan)

    def _add(self, job: _Job, at: float, event: Event, cores: float) -> None:
        job.since = at
        self._rows.append((at, event, job.job_class, job.number, cores))


def _most_held(rows: Sequence[LogRow]) -> float:
    """Return the most cores that were held at once."""
    held: dict[int, float] = {}
    now = most = 0.0
    for _, event, _, job, cores in rows:
        after = 0.0 if event == Event.DEPARTURE else cores
        now += after - held.get(job, 0.0)
        held[job] = after
        most = max(most, now)
    return most
