r"""Tally of typed events: departures, progress and job-time by the cores that jobs *held*.

What counts is what a job held, neither what it was assigned nor what it used: the first is biased by the
delay of every move, the second has nothing to do with its curve. A job that leaves just as its cores are
withdrawn counts at the last width it had; time in which it stood still for a move counts at no width.

*An event counts at its time or not at all.* Times are those of the job's own clock, so that durations are
right however late an event is reported. Windows are cut in time, so an event must be known before the window
that it falls into is closed. As in stream processing, a window therefore ends at the *watermark*

    W = latest event time − allowed lateness,

and what is dated behind W waits until the watermark has passed it. The allowed lateness grows with the
largest delay that was seen, up to a limit; where events come in order, nothing waits. While a delay is found
to be longer than it was allowed for, no window is closed, until the latest event is ahead by so much: what
jobs held up to then may yet be reported.

An event that is dated before the open window, or was under way for longer than the limit, came too late: an
arrival or a departure is not counted then, and a width counts from the earliest time on that still counts.
The same holds for events that the clock of their own job contradicts: a departure dated before the job's last
report is not counted, nor is progress dated before the job took its width.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from corewise.observation.progress import JobProgress, ProgressTally
from corewise.observation.statistics import ClassStatistics, Statistics

__all__ = ["EventTally", "Recorder"]

_COLUMNS = 2  # departures, job-time
_MARGIN = 1.25  # of the allowed lateness over the largest delay seen


@dataclass(slots=True)
class _Held:
    """What a job holds since when, within the window and in all, and the last width that it had."""

    job_class: int
    cores: int
    since: float
    width: int
    began: float
    pace: JobProgress = field(default_factory=JobProgress)


class Recorder(Protocol):
    """Recorder of changes as they are counted: those of one job in order of time."""

    def begin(self, job: int | str, job_class: int, cores: int, at: float, *, counted: bool) -> None:
        """Record a job that begins to hold cores; one that was there before is not counted as an arrival."""
        ...

    def resize(self, job: int | str, cores: int, at: float, stood_still: float) -> None:
        """Record that a job holds other cores, before which it stood still from a time on."""
        ...

    def end(self, job: int | str, at: float, width: int) -> None:
        """Record that a job leaves: a departure at a width, or, if that is 0, no departure."""
        ...


class EventTally:
    """Accumulator of what jobs held and did, window by window.

    Parameters
    ----------
    names : sequence of str
        The classes.
    time : float
        When the observation opens.
    lateness : float, optional
        The limit of the allowed lateness: how long an event may be under way and still count.
    recorder : Recorder, optional
        Gets every change that is counted.

    Attributes
    ----------
    late : int
        Events that could not be counted at their time.
    behind : float
        By how much the last of them was dated too early.
    """

    def __init__(
        self, names: Sequence[str], time: float, lateness: float = 0.0, recorder: Recorder | None = None
    ) -> None:
        self.names = tuple(names)
        self.lateness = lateness
        self._recorder = recorder
        self.late = 0
        self.behind = 0.0
        self._opened = self._now = self._latest = time
        self._delay = 0.0  # the largest seen, up to the limit
        self._first = True  # no window was closed yet
        self._waiting: list[tuple[float, int, float, float, list[Any]]] = []
        self._number = 0  # of the changes that have waited
        self._order: dict[int | str, float] = {}  # behind which the next change of a job comes
        self._jobs: dict[int | str, _Held] = {}
        self._arrivals = [0] * len(self.names)
        self._departures = 0
        self._tables: list[dict[int, list[float]]] = [{} for _ in self.names]
        self.marks = ProgressTally(len(self.names))
        self._area = self._paused = 0.0

    @property
    def departures(self) -> int:
        """The departures of the window so far."""
        return self._departures

    @property
    def learnable(self) -> bool:
        """Whether all up to the watermark was reported, and jobs that have left were seen to hold cores.

        Where clocks are coarse all may have happened at once: no rate is likely then.
        """
        return self._mark >= self._now and all(
            sum(row[1] for width, row in table.items() if width) > 0.0
            for table in self._tables
            if any(row[0] for row in table.values())
        )

    # --- what happened, each at a time of the job's own clock ---------------------------------------

    def arrive(self, job: int | str, job_class: int, cores: int, at: float, *, counted: bool) -> None:
        """Take in a job, which holds so many cores; one that was there before is no arrival."""
        if self._first and at >= self._latest - self.lateness:
            self._opened = min(self._opened, at)  # the observation begins with what is seen first
        self._take(at, ["arrive", job, job_class, cores, bool(counted)])

    def hold(self, job: int | str, cores: int, at: float, paused: float = 0.0) -> None:
        """Close what a job held so far, less the time that it stood still, and begin anew."""
        self._take(at, ["hold", job, cores, paused])

    def progress(self, job: int | str, amount: float, at: float) -> None:
        """Count work that a job has done at the width it has."""
        self._take(at, ["progress", job, amount])

    def leave(self, job: int | str, at: float, *, finished: bool) -> None:
        """Let a job go; only one that has finished is a departure."""
        self._take(at, ["leave", job, bool(finished)])

    def move_to(self, time: float) -> None:
        """Let time pass: count what the watermark has passed."""
        self._latest = max(self._latest, time)
        mark = self._mark
        self._apply_up_to(mark)
        self._pass_to(mark)

    def finish(self) -> None:
        """Count what waits for the watermark: nothing more will be reported."""
        self._apply_up_to(math.inf)

    def _apply_up_to(self, mark: float) -> None:
        while self._waiting and self._waiting[0][0] <= mark:
            order, _, at, earliest, change = heapq.heappop(self._waiting)
            self._pass_to(order)
            self._apply(at, earliest, change)

    @property
    def _mark(self) -> float:
        """Up to when all should have been reported, by the delays seen so far."""
        return self._latest - min(_MARGIN * self._delay, self.lateness)

    def _take(self, at: float, change: list[Any]) -> None:
        """Count a change now, or once the watermark has passed its time; those of a job in their order."""
        job, earliest = change[1], self._latest - self.lateness
        if self._delay < self._latest - at <= self.lateness:
            self._delay = self._latest - at
        order = max(at, self._order.get(job, at))
        if order <= self._now:
            self._apply(at, earliest, change)
            return
        self._order[job] = order
        heapq.heappush(self._waiting, (order, self._number, at, earliest, change))
        self._number += 1

    def _apply(self, at: float, earliest: float, change: Sequence[Any]) -> None:
        """Count a change that counts at its time if that is `earliest` or later."""
        kind, job, *values = change
        earliest = max(earliest, self._opened)
        match kind:
            case "arrive":
                self._begin(at, earliest, job, *values)
            case "hold":
                self._resize(at, earliest, job, *values)
            case "progress":
                self._work(at, job, *values)
            case _:
                self._end(at, earliest, job, *values)

    def _pass_to(self, time: float) -> None:
        if time > self._now:
            self._area += len(self._jobs) * (time - self._now)
            self._now = time

    def _begin(
        self, at: float, earliest: float, job: int | str, job_class: int, cores: int, counted: bool
    ) -> None:
        since = min(max(at, earliest), self._now)
        self._area += self._now - since
        self._jobs[job] = _Held(job_class, cores, since, cores, since)
        if self._recorder is not None:
            self._recorder.begin(job, job_class, cores, since, counted=counted)
        if counted and self._is_in_time(at, earliest):
            self._arrivals[job_class] += 1

    def _resize(self, at: float, earliest: float, job: int | str, cores: int, paused: float) -> None:
        held = self._jobs[job]
        self._is_in_time(at, max(held.since, earliest))
        since = held.since
        self._spend(held, paused, max(at, earliest))
        if self._recorder is not None:
            self._recorder.resize(job, cores, held.since, max(held.since - paused, since))
        if cores != held.cores:
            self.marks.end_stretch(held.job_class, held.cores, held.pace)
            held.began = held.since
        held.cores = cores
        held.width = cores or held.width

    def _work(self, at: float, job: int | str, amount: float) -> None:
        held = self._jobs[job]
        if self._is_in_time(at, held.began):  # windows do not cut progress
            self.marks.mark(held.job_class, held.pace, amount)

    def _end(self, at: float, earliest: float, job: int | str, finished: bool) -> None:
        held = self._jobs.pop(job)
        self._order.pop(job, None)
        departed = self._is_in_time(at, max(held.since, earliest)) and finished
        self._spend(held, 0.0, at)
        self._area -= self._now - held.since
        if self._recorder is not None:
            self._recorder.end(job, held.since, held.width if departed else 0)
        self.marks.end_stretch(held.job_class, held.cores, held.pace)
        if departed and held.width:
            self._row(held.job_class, held.width)[0] += 1.0
            self._departures += 1
        if departed:
            self.marks.finish(held.job_class, held.pace)

    def _is_in_time(self, at: float, since: float) -> bool:
        """Return whether something happened after all that counts already; if not, it came too late."""
        if at >= since:
            return True
        self.late, self.behind = self.late + 1, since - at
        return False

    @property
    def accounted(self) -> tuple[float, float]:
        """The time of the window that is accounted for, at some width or paused, and ∫ jobs dt."""
        spent = sum(row[1] for table in self._tables for row in table.values())
        going_on = sum(self._now - held.since for held in self._jobs.values())
        return spent + self._paused + going_on, self._area

    def close(self) -> Statistics:
        """Return the statistics of the window, which ends at the watermark, and open another."""
        for held in self._jobs.values():
            self._spend(held, 0.0, self._now)
        classes = []
        for arrived, table in zip(self._arrivals, self._tables, strict=True):
            widths = sorted(table)
            rows = np.array([table[width] for width in widths]).reshape(-1, _COLUMNS)
            at = np.array(widths, dtype=np.float64)
            classes.append(ClassStatistics(arrived, at, rows[:, 0].copy(), rows[:, 1].copy()))
        window = Statistics(self.names, self._now - self._opened, tuple(classes))
        self._opened, self._first = self._now, False
        self._arrivals = [0] * len(self.names)
        self._departures = 0
        self._area = self._paused = 0.0
        self._tables = [{} for _ in self.names]
        return window

    def change_classes(self, names: Sequence[str]) -> None:
        """Have other classes: what was counted of those that stay, by name, stays; the rest is dropped."""
        old = {name: i for i, name in enumerate(self.names)}
        place = {old[name]: i for i, name in enumerate(names) if name in old}
        changes = [row[-1] for row in self._waiting]
        waiting = [(change[1], change[2]) for change in changes if change[0] == "arrive"]
        classes = {**{job: held.job_class for job, held in self._jobs.items()}, **dict(waiting)}
        gone = {job for job, job_class in classes.items() if job_class not in place}
        self._jobs = {job: held for job, held in self._jobs.items() if job not in gone}
        for held in self._jobs.values():
            held.job_class = place[held.job_class]
        self._waiting = [row for row in self._waiting if row[-1][1] not in gone]
        heapq.heapify(self._waiting)
        for row in self._waiting:
            change = row[-1]
            if change[0] == "arrive":
                change[2] = place[change[2]]
        self._order = {job: order for job, order in self._order.items() if job not in gone}
        places = [old.get(name) for name in names]
        self._arrivals = [0 if i is None else self._arrivals[i] for i in places]
        self._tables = [{} if i is None else self._tables[i] for i in places]
        self._departures = round(sum(row[0] for table in self._tables for row in table.values()))
        self.marks.change_classes(places)
        self.names = tuple(names)
        self._area = self.accounted[0]

    def snapshot(self) -> dict[str, Any]:
        """Return all of it as plain values."""
        jobs = [
            [job, held.job_class, held.cores, held.since, held.width, held.began, _of_pace(held.pace)]
            for job, held in self._jobs.items()
        ]
        tables = [sorted((width, *row) for width, row in table.items()) for table in self._tables]
        return {
            "opened": self._opened,
            "now": self._now,
            "latest": self._latest,
            "delay": self._delay,
            "first": self._first,
            "late": [self.late, self.behind],
            "waiting": [[order, at, earliest, row] for order, _, at, earliest, row in sorted(self._waiting)],
            "jobs": jobs,
            "arrivals": self._arrivals,
            "tables": [[list(row) for row in table] for table in tables],
            "marks": self.marks.snapshot(),
            "area": self._area,
            "paused": self._paused,
        }

    @classmethod
    def of(cls, names: Sequence[str], snapshot: Mapping[str, Any], lateness: float = 0.0) -> EventTally:
        """Return the tally that goes on from a snapshot."""
        tally = cls(names, snapshot["opened"], lateness)
        tally._now, tally._latest = snapshot["now"], snapshot["latest"]
        tally._delay, tally._first = snapshot["delay"], snapshot["first"]
        tally.late, tally.behind = snapshot["late"]
        waiting = enumerate(snapshot["waiting"])
        tally._waiting = [(order, n, at, earliest, row) for n, (order, at, earliest, row) in waiting]
        tally._number = len(tally._waiting)
        tally._order = {change[1]: order for order, _, _, _, change in tally._waiting}
        tally._jobs = {
            job: _Held(job_class, cores, since, width, began, _to_pace(pace))
            for job, job_class, cores, since, width, began, pace in snapshot["jobs"]
        }
        tally._arrivals = list(snapshot["arrivals"])
        tally._tables = [{int(row[0]): list(row[1:]) for row in table} for table in snapshot["tables"]]
        tally._departures = round(sum(row[0] for table in tally._tables for row in table.values()))
        tally._area, tally._paused = snapshot["area"], snapshot["paused"]
        tally.marks = ProgressTally.of(snapshot["marks"])
        return tally

    def _spend(self, held: _Held, paused: float, at: float) -> None:
        """Close what a job held, at a time of its own clock but within the stretch."""
        until = min(max(at, held.since), self._now)
        whole = until - held.since
        lasted = max(whole - paused, 0.0)
        self._paused += whole - lasted
        self._row(held.job_class, held.cores)[1] += lasted
        held.pace.time += lasted
        held.since = until

    def _row(self, job_class: int, width: int) -> list[float]:
        return self._tables[job_class].setdefault(width, [0.0] * _COLUMNS)


def _of_pace(pace: JobProgress) -> dict[str, Any]:
    silent = [[width, *row] for width, row in sorted(pace.silent.items())]
    return {"work": pace.work, "time": pace.time, "whole": pace.whole, "silent": silent}


def _to_pace(values: Mapping[str, Any]) -> JobProgress:
    silent = {int(width): list(row) for width, *row in values["silent"]}
    return JobProgress(values["work"], values["time"], values["whole"], silent)
