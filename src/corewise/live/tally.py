r"""Running statistics of live jobs: departures, progress and job-time by the cores that jobs *held*.

What counts is what a job held, neither what it was told nor what it used: the first is biased by the delay of
every move, the second has nothing to do with its curve. A job that leaves just as its cores are withdrawn
counts at the last width it had; time in which it stood still for a move counts at no width.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from corewise.kit.arrays import Floats
from corewise.observation.statistics import ClassStatistics, Statistics

__all__ = ["LiveTally"]

_COLUMNS = 3  # departures, job-time, progress


@dataclass(slots=True)
class _Held:
    """What a job holds since when, and the last width that it had."""

    job_class: int
    cores: int
    since: float
    width: int


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
        self._tables: list[dict[int, list[float]]] = [{} for _ in self.names]

    @property
    def departures(self) -> int:
        """The departures of the stretch so far."""
        return round(sum(row[0] for table in self._tables for row in table.values()))

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

    def arrive(self, job: str, job_class: int, cores: int, *, counted: bool) -> None:
        """Take in a job, which holds so many cores; one that was there before is no arrival."""
        self._jobs[job] = _Held(job_class, cores, self._now, cores)
        self._arrivals[job_class] += counted

    def hold(self, job: str, cores: int, paused: float = 0.0) -> None:
        """Close what a job held so far, less the time that it stood still, and begin anew."""
        held = self._jobs[job]
        self._spend(held, paused)
        held.cores = cores
        held.width = cores or held.width

    def progress(self, job: str, amount: float) -> None:
        """Count work that a job has done at the width it has."""
        held = self._jobs[job]
        self._row(held.job_class, held.width)[2] += amount

    def leave(self, job: str, *, finished: bool) -> None:
        """Let a job go; only one that has finished is a departure."""
        held = self._jobs.pop(job)
        self._spend(held, 0.0)
        if finished and held.width:
            self._row(held.job_class, held.width)[0] += 1.0

    def move_to(self, time: float) -> None:
        """Let time pass."""
        self._now = time

    def close(self) -> tuple[Statistics, tuple[Floats, ...]]:
        """Return the stretch up to now and start another: its statistics, and each class's progress by width.

        The progress of a class has a row for each of its widths, in the order of the statistics.
        """
        for held in self._jobs.values():
            self._spend(held, 0.0)
        classes, progress = [], []
        for arrived, table in zip(self._arrivals, self._tables, strict=True):
            widths = sorted(table)
            rows = np.array([table[width] for width in widths]).reshape(-1, _COLUMNS)
            classes.append(
                ClassStatistics(
                    arrived, np.array(widths, dtype=np.float64), rows[:, 0].copy(), rows[:, 1].copy()
                )
            )
            progress.append(rows[:, 2].copy())
        stretch = Statistics(self.names, self._now - self._opened, tuple(classes))
        self._opened = self._now
        self._arrivals = [0] * len(self.names)
        self._tables = [{} for _ in self.names]
        return stretch, tuple(progress)

    def snapshot(self) -> dict[str, Any]:
        """Return all of it as plain values."""
        jobs = {name: [h.job_class, h.cores, h.since, h.width] for name, h in self._jobs.items()}
        tables = [sorted((width, *row) for width, row in table.items()) for table in self._tables]
        return {
            "opened": self._opened,
            "now": self._now,
            "jobs": jobs,
            "arrivals": self._arrivals,
            "tables": [[list(row) for row in table] for table in tables],
        }

    @classmethod
    def of(cls, names: Sequence[str], snapshot: Mapping[str, Any]) -> LiveTally:
        """Return the tally that goes on from a snapshot."""
        tally = cls(names, snapshot["opened"])
        tally._now = snapshot["now"]
        tally._jobs = {name: _Held(*row) for name, row in snapshot["jobs"].items()}
        tally._arrivals = list(snapshot["arrivals"])
        tally._tables = [{int(row[0]): list(row[1:]) for row in table} for table in snapshot["tables"]]
        return tally

    def _spend(self, held: _Held, paused: float) -> None:
        lasted = self._now - held.since
        self._row(held.job_class, held.cores)[1] += max(lasted - paused, 0.0)
        held.since = self._now

    def _row(self, job_class: int, width: int) -> list[float]:
        return self._tables[job_class].setdefault(width, [0.0] * _COLUMNS)
