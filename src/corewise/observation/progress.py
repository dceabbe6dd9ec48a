r"""Progress statistics: work reported by jobs and time taken, by width and stretch.

A stretch is the time from when a job took a width to when it took another or left. In a unit of its class it
did r of work in w of time. What is kept is, at each width, how many stretches there were, Σ r, Σ w and

    Q = Σ r²/w,

from which the dispersion follows: if the work of a stretch has the mean λ w and the variance φ λ w, then
E Σ (r − λ w)²/(λ w) = φ n, and with λ = Σ r / Σ w at each width the sum is Q/λ − Σ r, less one in n.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from corewise.kit.arrays import Floats
from corewise.observation.statistics import ClassStatistics

__all__ = ["TOO_SHORT", "ClassProgress", "JobProgress", "ProgressTally"]

TOO_SHORT = "too short to learn from"
"""What the note on a class says whose rounds are short against their dispatch."""

_FEW = 30.0  # stretches beyond one a width: fewer do not tell how much they vary
_FINEST = 50.0  # marks that vary like counts, a stretch: beyond that a curve is not to be believed
_COLUMNS = 4  # stretches, work, time, Σ r²/w
_SHORT_SHARE = 0.4  # of the time of a class, spent in short rounds: beyond it no curve is learned


@dataclass(frozen=True, eq=False)
class ClassProgress:
    """Progress of the jobs of a class.

    Attributes
    ----------
    widths, stretches, work, job_time, squares : ndarray
        The widths, and at each the number of stretches, Σ r, Σ w and Σ r²/w.
    sizes : tuple of float
        Of the jobs that finished, the number, the mean work and the sum of squared distances from it.
    """

    widths: Floats
    stretches: Floats
    work: Floats
    job_time: Floats
    squares: Floats
    sizes: tuple[float, float, float]

    @property
    def dispersion(self) -> float:
        """φ, the variance of work over its mean; NaN where too little was seen."""
        used = (self.work > 0.0) & (self.stretches > 1.0)
        beyond = float((self.stretches[used] - 1.0).sum())
        if beyond < _FEW:
            return float("nan")
        work, time, squares = self.work[used], self.job_time[used], self.squares[used]
        found = float((squares * time / work - work).sum()) / beyond
        return max(found, float(self.work.sum()) / (_FINEST * float(self.stretches.sum())))

    @property
    def size_dispersion(self) -> float:
        """The squared coefficient of variation of the work of jobs; NaN where too little was seen."""
        count, mean, squares = self.sizes
        return squares / (count - 1.0) / mean**2 if count >= _FEW and mean > 0.0 else float("nan")

    def as_counts(self) -> ClassStatistics:
        """Return the statistics of as many events as tell the same: of work in units of its dispersion."""
        held = self.widths > 0.0
        return ClassStatistics(
            0, self.widths[held], self.work[held] / self.dispersion, self.job_time[held].copy()
        )


@dataclass(slots=True)
class JobProgress:
    """Progress of one job since it took its width, and before.

    Attributes
    ----------
    work, time : float
        Since it took its width.
    whole : float
        Its work in all.
    silent : dict
        Its stretches and time at each width, while it has reported no work.
    """

    work: float = 0.0
    time: float = 0.0
    whole: float = 0.0
    silent: dict[int, list[float]] = field(default_factory=dict)


class ProgressTally:
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
            _note_on_short_rounds(*short) if self._spent_short(i) > _SHORT_SHARE else ""
            for i, short in enumerate(self._short)
        )

    def _spent_short(self, job_class: int) -> float:
        """Return the share of the time of a class that went into short rounds."""
        _, working, dispatching = self._short[job_class]
        whole = sum(row[2] for row in self._tables[job_class].values())
        return (working + dispatching) / whole if whole else 0.0

    def end_stretch(self, job_class: int, width: int, pace: JobProgress) -> None:
        """Close the stretch of a job at a width."""
        if pace.time > 0.0 and width:
            if pace.whole:
                self._add(job_class, width, [1.0, pace.work, pace.time, pace.work**2 / pace.time])
            else:
                row = pace.silent.setdefault(width, [0.0, 0.0])
                row[0] += 1.0
                row[1] += pace.time
        pace.work = pace.time = 0.0

    def mark(self, job_class: int, pace: JobProgress, amount: float) -> None:
        """Count work that a job has done."""
        pace.work += amount
        pace.whole += amount
        if pace.whole and pace.silent:
            for width, (stretches, time) in pace.silent.items():
                self._add(job_class, width, [stretches, 0.0, time, 0.0])
            pace.silent = {}

    def finish(self, job_class: int, pace: JobProgress) -> None:
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
    def of(cls, snapshot: Mapping[str, Any]) -> ProgressTally:
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


def _note_on_short_rounds(rounds: float, working: float, dispatching: float) -> str:
    """Return the note on a class whose rounds took so many seconds of work and of dispatching in all."""
    work, dispatch = (f"{1e3 * seconds / rounds:.2g} ms" for seconds in (working, dispatching))
    return f"its rounds take {work}, dispatching them {dispatch}: {TOO_SHORT}"
