"""Progress of live jobs, gathered stretch by stretch; see `corewise.observation.progress`.

Only of jobs that tell of some: the time of others would count as time in which nothing was done. A job that
tells for the first time brings its earlier stretches with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from corewise.live.state.learned import too_short
from corewise.observation.progress import ClassProgress

__all__ = ["Marks", "Pace"]

_COLUMNS = 4  # stretches, work, time, Σ r²/w
_SHORT_SHARE = 0.4  # of the time of a class, spent in short rounds: beyond it no curve is learned


@dataclass(slots=True)
class Pace:
    """What a job has done since it took its width, and before.

    Attributes
    ----------
    work, time : float
        Since it took its width.
    whole : float
        Its work in all.
    silent : dict
        Its stretches and time at each width, while it has told of no work.
    """

    work: float = 0.0
    time: float = 0.0
    whole: float = 0.0
    silent: dict[int, list[float]] = field(default_factory=dict)


class Marks:
    """Accumulator of progress, for each class and width.

    Parameters
    ----------
    classes : int
        How many classes there are.
    """

    def __init__(self, classes: int) -> None:
        self._tables: list[dict[int, list[float]]] = [{} for _ in range(classes)]
        self._sizes = [[0.0, 0.0, 0.0] for _ in range(classes)]
        self._short = [[0.0, 0.0, 0.0] for _ in range(classes)]  # rounds, seconds of work, of dispatching

    def add_short(self, job_class: int, rounds: int, working: float, dispatching: float) -> None:
        """Count rounds that were short against their dispatch."""
        for k, value in enumerate((rounds, working, dispatching)):
            self._short[job_class][k] += value

    def too_short(self) -> tuple[str, ...]:
        """Return why nothing can be learned from the rounds of each class; empty where something can."""
        return tuple(
            too_short(*short) if self._spent_short(i) > _SHORT_SHARE else ""
            for i, short in enumerate(self._short)
        )

    def _spent_short(self, job_class: int) -> float:
        """Return the share of the time of a class that went into short rounds."""
        _, working, dispatching = self._short[job_class]
        whole = sum(row[2] for row in self._tables[job_class].values())
        return (working + dispatching) / whole if whole else 0.0

    def end_stretch(self, job_class: int, width: int, pace: Pace) -> None:
        """Close the stretch of a job at a width."""
        if pace.time > 0.0 and width:
            if pace.whole:
                self._add(job_class, width, [1.0, pace.work, pace.time, pace.work**2 / pace.time])
            else:
                row = pace.silent.setdefault(width, [0.0, 0.0])
                row[0] += 1.0
                row[1] += pace.time
        pace.work = pace.time = 0.0

    def mark(self, job_class: int, pace: Pace, amount: float) -> None:
        """Count work that a job has done."""
        pace.work += amount
        pace.whole += amount
        if pace.whole and pace.silent:
            for width, (stretches, time) in pace.silent.items():
                self._add(job_class, width, [stretches, 0.0, time, 0.0])
            pace.silent = {}

    def finish(self, job_class: int, pace: Pace) -> None:
        """Count the size of a job that has finished."""
        if pace.whole:
            sizes = self._sizes[job_class]
            sizes[0] += 1.0
            off = pace.whole - sizes[1]
            sizes[1] += off / sizes[0]
            sizes[2] += off * (pace.whole - sizes[1])

    def forget(self, job_class: int) -> None:
        """Begin anew with a class: it has changed."""
        self._tables[job_class] = {}
        self._sizes[job_class] = [0.0, 0.0, 0.0]
        self._short[job_class] = [0.0, 0.0, 0.0]

    def change_classes(self, places: Sequence[int | None]) -> None:
        """Have other classes, each with the place that it had before, or None if it is new."""
        self._tables = [{} if i is None else self._tables[i] for i in places]
        self._sizes = [[0.0, 0.0, 0.0] if i is None else self._sizes[i] for i in places]
        self._short = [[0.0, 0.0, 0.0] if i is None else self._short[i] for i in places]

    def seen(self) -> tuple[ClassProgress, ...]:
        """Return what was seen of each class."""
        made = []
        for table, sizes in zip(self._tables, self._sizes, strict=True):
            widths = sorted(table)
            rows = np.array([table[width] for width in widths]).reshape(-1, _COLUMNS)
            stretches, work, time, squares = (np.ascontiguousarray(column) for column in rows.T)
            at = np.array(widths, dtype=np.float64)
            made.append(ClassProgress(at, stretches, work, time, squares, (sizes[0], sizes[1], sizes[2])))
        return tuple(made)

    def snapshot(self) -> dict[str, Any]:
        """Return all of it as plain values."""
        tables = [[[width, *table[width]] for width in sorted(table)] for table in self._tables]
        rows = {"sizes": self._sizes, "short": self._short}
        return {"tables": tables, **{name: [list(row) for row in of] for name, of in rows.items()}}

    @classmethod
    def of(cls, snapshot: Mapping[str, Any]) -> Marks:
        """Return the marks of a snapshot."""
        marks = cls(len(snapshot["sizes"]))
        marks._tables = [{int(row[0]): list(row[1:]) for row in table} for table in snapshot["tables"]]
        marks._sizes = [list(sizes) for sizes in snapshot["sizes"]]
        marks._short = [list(short) for short in snapshot["short"]]
        return marks

    def _add(self, job_class: int, width: int, values: list[float]) -> None:
        row = self._tables[job_class].setdefault(width, [0.0] * _COLUMNS)
        for k, value in enumerate(values):
            row[k] += value
