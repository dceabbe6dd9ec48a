r"""Running statistics of live jobs: departures, progress and job-time by the cores that jobs *held*.

What counts is what a job held, neither what it was told nor what it used: the first is biased by the delay of
every move, the second has nothing to do with its curve. A job that leaves just as its cores are withdrawn
counts at the last width it had; time in which it stood still for a move counts at no width. When something
happened is by the job's own clock: what is told late, since others were heard of before, is not told wrong.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from corewise.live.marks import Marks, Pace
from corewise.observation.statistics import ClassStatistics, Statistics

__all__ = ["LiveTally"]

_COLUMNS = 2  # departures, job-time


@dataclass(slots=True)
class _Held:
    """What a job holds since when, and the last width that it had."""

    job_class: int
    cores: int
    since: float
    width: int
    pace: Pace = field(default_factory=Pace)


class LiveTally:
    """Accumulator of what live jobs held and did, stretch by stretch.

    Parameters
    ----------
    names : sequence of str
        The classes.
    time : float
        When the observation opens.
    """

    def __init__(self, names: Sequence[str], time: float) -> None:
        self.names = tuple(names)
        self._opened = self._now = time
        self._jobs: dict[str, _Held] = {}
        self._arrivals = [0] * len(self.names)
        self._departures = 0
        self._tables: list[dict[int, list[float]]] = [{} for _ in self.names]
        self.marks = Marks(len(self.names))
        self._area = self._paused = 0.0

    @property
    def departures(self) -> int:
        """The departures of the stretch so far."""
        return self._departures

    @property
    def learnable(self) -> bool:
        """Whether jobs of every class that has left were seen to hold cores for some time.

        Where clocks are coarse, or events come late, all may have happened at once: no rate is likely then.
        """
        return all(
            sum(row[1] for width, row in table.items() if width) > 0.0
            for table in self._tables
            if any(row[0] for row in table.values())
        )

    def arrive(self, job: str, job_class: int, cores: int, at: float, *, counted: bool) -> None:
        """Take in a job, which holds so many cores; one that was there before is no arrival."""
        since = min(max(at, self._opened), self._now)
        self._area += self._now - since
        self._jobs[job] = _Held(job_class, cores, since, cores)
        self._arrivals[job_class] += counted

    def hold(self, job: str, cores: int, at: float, paused: float = 0.0) -> None:
        """Close what a job held so far, less the time that it stood still, and begin anew."""
        held = self._jobs[job]
        self._spend(held, paused, at)
        if cores != held.cores:
            self.marks.end_stretch(held.job_class, held.cores, held.pace)
        held.cores = cores
        held.width = cores or held.width

    def progress(self, job: str, amount: float) -> None:
        """Count work that a job has done at the width it has."""
        held = self._jobs[job]
        self.marks.mark(held.job_class, held.pace, amount)

    def leave(self, job: str, at: float, *, finished: bool) -> None:
        """Let a job go; only one that has finished is a departure."""
        held = self._jobs.pop(job)
        self._spend(held, 0.0, at)
        self._area -= self._now - held.since
        self.marks.end_stretch(held.job_class, held.cores, held.pace)
        if finished and held.width:
            self._row(held.job_class, held.width)[0] += 1.0
            self._departures += 1
        if finished:
            self.marks.finish(held.job_class, held.pace)

    def move_to(self, time: float) -> None:
        """Let time pass."""
        self._area += len(self._jobs) * (time - self._now)
        self._now = time

    @property
    def accounted(self) -> tuple[float, float]:
        """The time of the stretch that is accounted for, at some width or paused, and ∫ jobs dt."""
        spent = sum(row[1] for table in self._tables for row in table.values())
        going_on = sum(self._now - held.since for held in self._jobs.values())
        return spent + self._paused + going_on, self._area

    def close(self) -> Statistics:
        """Return the statistics of the stretch up to now, and start another."""
        for held in self._jobs.values():
            self._spend(held, 0.0, self._now)
        classes = []
        for arrived, table in zip(self._arrivals, self._tables, strict=True):
            widths = sorted(table)
            rows = np.array([table[width] for width in widths]).reshape(-1, _COLUMNS)
            at = np.array(widths, dtype=np.float64)
            classes.append(ClassStatistics(arrived, at, rows[:, 0].copy(), rows[:, 1].copy()))
        stretch = Statistics(self.names, self._now - self._opened, tuple(classes))
        self._opened = self._now
        self._arrivals = [0] * len(self.names)
        self._departures = 0
        self._area = self._paused = 0.0
        self._tables = [{} for _ in self.names]
        return stretch

    def snapshot(self) -> dict[str, Any]:
        """Return all of it as plain values."""
        jobs = {
            name: [h.job_class, h.cores, h.since, h.width, _of_pace(h.pace)] for name, h in self._jobs.items()
        }
        tables = [sorted((width, *row) for width, row in table.items()) for table in self._tables]
        return {
            "opened": self._opened,
            "now": self._now,
            "jobs": jobs,
            "arrivals": self._arrivals,
            "tables": [[list(row) for row in table] for table in tables],
            "marks": self.marks.snapshot(),
            "area": self._area,
            "paused": self._paused,
        }

    @classmethod
    def of(cls, names: Sequence[str], snapshot: Mapping[str, Any]) -> LiveTally:
        """Return the tally that goes on from a snapshot."""
        tally = cls(names, snapshot["opened"])
        tally._now = snapshot["now"]
        tally._jobs = {
            name: _Held(job_class, cores, since, width, _to_pace(pace))
            for name, (job_class, cores, since, width, pace) in snapshot["jobs"].items()
        }
        tally._arrivals = list(snapshot["arrivals"])
        tally._tables = [{int(row[0]): list(row[1:]) for row in table} for table in snapshot["tables"]]
        tally._departures = round(sum(row[0] for table in tally._tables for row in table.values()))
        tally._area, tally._paused = snapshot["area"], snapshot["paused"]
        tally.marks = Marks.of(snapshot["marks"])
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


def _of_pace(pace: Pace) -> dict[str, Any]:
    return {**asdict(pace), "silent": [[width, *row] for width, row in sorted(pace.silent.items())]}


def _to_pace(values: Mapping[str, Any]) -> Pace:
    silent = {int(width): list(row) for width, *row in values["silent"]}
    return Pace(values["work"], values["time"], values["whole"], silent)
