r"""Sufficient statistics of an observation: departures and job-time by cores per job.

While a job holds z cores it leaves at rate μ s(z). So all that a stretch of observation says about the curve
s and the size rate μ of a class is, for every width z at which its jobs were seen,

    D(z)   how many of them left while they held z cores,
    W(z)   how long jobs held z cores, added up over jobs.

These tables add over windows, whatever policy was in force, and they are all that is kept: never the log.
Their size is bounded. When a class has been seen at more than `MOST_WIDTHS` widths, each entry is shared out
between the two nearest nodes of a fixed grid, z = 2^(j/128), so that Σ D, Σ W, Σ z D and Σ z W stay what they
are: what is linear in z is kept exactly, so up to one core nothing is lost, and above it the error of log s
is of second order, below 4e-6 · max |z² d² log s/dz²| per departure. The grid is fixed, so tables still add
in any order.

Paper: the sums of equation (3.5), grouped by z.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from corewise.errors import InvalidInput, nearest
from corewise.kit import checks
from corewise.kit.arrays import Bools, Floats, Ints
from corewise.kit.report import Report, Reported, Summarised, Table
from corewise.kit.values import ByValue
from corewise.model.system import System
from corewise.observation import _kernels
from corewise.observation.rows import EventKind, Record, dense
from corewise.observation.strata.tables import Strata

__all__ = ["MOST_WIDTHS", "ClassStatistics", "PathTally", "Statistics", "require_statistics"]

MOST_WIDTHS = 1024
"""How many different widths a class may have before they are condensed."""

_SLOTS = 4 * MOST_WIDTHS

Entries = tuple[int, Floats]
"""The position of a class, and a table of it: rows are widths, departures, job-time."""

_FINEST = 128  # nodes of the grid per factor of two; twice as many stands for no grid


@dataclass(frozen=True, eq=False, repr=False)
class ClassStatistics(ByValue, Summarised):
    """Sufficient statistics of one class: departures and job-time by width, the cores per job.

    Attributes
    ----------
    arrivals : int
        Jobs that arrived.
    widths : ndarray
        The cores per job, increasing.
    departures : ndarray
        D, the jobs that left at each width; fractions where widths were condensed.
    job_time : ndarray
        W, the time that jobs spent at each width.
    per_octave : int
        How many nodes of the grid there are per factor of two, if widths were condensed to it: at most 128.

    Examples
    --------
    >>> import corewise as cw
    >>> system = cw.load_system("paper:1")
    >>> run = cw.simulate(system, "equi", departures=20_000, rng=7)
    >>> two = run.statistics["two"]
    >>> two.arrivals > 0, two.widths.size == two.departures.size == two.job_time.size
    (True, True)
    >>> bool(two.departures.sum() > 0)
    True
    """

    arrivals: int
    widths: Floats
    departures: Floats
    job_time: Floats
    per_octave: int = 2 * _FINEST

    def __post_init__(self) -> None:
        for column in (self.widths, self.departures, self.job_time):
            column.setflags(write=False)

    @cached_property
    def left(self) -> int:
        """The number of departures, at all widths."""
        return round(float(self.departures.sum()))

    @classmethod
    def gathered(
        cls,
        arrivals: int,
        widths: Floats,
        departures: Floats,
        job_time: Floats,
        per_octave: int = 2 * _FINEST,
    ) -> ClassStatistics:
        """Return the statistics of entries in any order: equal widths added up, condensed if many."""
        order = np.argsort(widths, kind="stable")
        at = widths[order]
        first = np.ones(at.size, dtype=np.bool_)
        np.not_equal(at[1:], at[:-1], out=first[1:])
        entry = np.cumsum(first) - 1
        departed, spent = (np.asarray(np.bincount(entry, x[order]), float) for x in (departures, job_time))
        at, departed, spent = _seen(at[first], departed, spent)
        if per_octave <= _FINEST:
            at, departed, spent = _condensed(at, departed, spent, per_octave)
        while at.size > MOST_WIDTHS and per_octave > 1:
            per_octave //= 2
            at, departed, spent = _condensed(at, departed, spent, per_octave)
        return cls(arrivals, at, departed, spent, per_octave)

    @classmethod
    def total(cls, parts: Sequence[ClassStatistics]) -> ClassStatistics:
        """Return the statistics of all observations together; if one is condensed, all are, as much as it."""
        return cls.gathered(
            sum(part.arrivals for part in parts),
            np.concatenate([part.widths for part in parts]),
            np.concatenate([part.departures for part in parts]),
            np.concatenate([part.job_time for part in parts]),
            min(part.per_octave for part in parts),
        )

    def capped(self, most: int | None) -> ClassStatistics:
        """Return the statistics with widths above `most`, which no job can use, counted at it."""
        if most is None or not np.any(self.widths > most):
            return self
        widths = np.minimum(self.widths, most)
        return self.gathered(self.arrivals, widths, self.departures, self.job_time, self.per_octave)

    def _summary(self) -> Mapping[str, object]:
        return {"arrivals": self.arrivals, "departures": self.left, "widths": self.widths.size}

    def _content(self) -> dict[str, Floats]:
        """Return one row for each width."""
        return {"cores": self.widths, "departures": self.departures, "job_time": self.job_time}


def _seen(widths: Floats, departures: Floats, job_time: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the entries that are not empty."""
    seen = (departures > 0.0) | (job_time > 0.0)
    return widths[seen], departures[seen], job_time[seen]


def _condensed(
    widths: Floats, departures: Floats, job_time: Floats, per_octave: int
) -> tuple[Floats, Floats, Floats]:
    """Return the table shared out to the nodes 2^(j/per_octave), and to zero itself."""
    idle = widths <= 0.0
    z = widths[~idle]
    below = np.floor(np.log2(z) * per_octave)
    low, high = np.exp2(below / per_octave), np.exp2((below + 1.0) / per_octave)
    upper = np.clip((z - low) / (high - low), 0.0, 1.0)
    nodes, place = np.unique(np.concatenate([low, high]), return_inverse=True)

    def shared(amounts: Floats) -> Floats:
        parts = np.concatenate([(1.0 - upper) * amounts[~idle], upper * amounts[~idle]])
        return np.concatenate([amounts[idle], np.bincount(place, parts, nodes.size)])

    return _seen(np.concatenate([widths[idle], nodes]), shared(departures), shared(job_time))


@dataclass(frozen=True, eq=False, repr=False)
class Statistics(ByValue, Reported):
    """Sufficient statistics of every class in a stretch of observation; stretches add.

    Attributes
    ----------
    names : tuple of str
        The classes.
    time : float
        How long the observation lasted.
    classes : tuple of ClassStatistics
        The statistics of each class, in the order of `names`.
    strata : tuple of Strata or None
        What is kept of single jobs besides, where that was asked for and jobs are distinguishable: then
        estimates hold for any size distribution.

    Examples
    --------
    >>> import corewise as cw
    >>> system = cw.load_system("paper:1")
    >>> seen = cw.Statistics.empty(system.names)
    >>> seen = seen.update(0.5, jobs=[0, 0], cores=[0, 0], arrival="one")
    >>> seen = seen.update(0.25, jobs=[1, 0], cores=[30, 0], departure="one")
    >>> seen.time, seen["one"].departures.tolist(), seen["one"].widths.tolist()
    (0.75, [1.0], [30.0])
    >>> (seen + seen).time
    1.5
    """

    _repr_fields = ("time", "arrivals", "departures")

    names: tuple[str, ...]
    time: float
    classes: tuple[ClassStatistics, ...]
    strata: tuple[Strata | None, ...] | None = None

    @classmethod
    def empty(cls, names: Sequence[str]) -> Statistics:
        """Return the statistics of no observation at all."""
        nothing = ClassStatistics(0, np.empty(0), np.empty(0), np.empty(0))
        return cls(tuple(names), 0.0, (nothing,) * len(names))

    @classmethod
    def total(cls, parts: Sequence[Statistics]) -> Statistics:
        """Return the statistics of several observations of the same classes together."""
        if not parts:
            raise InvalidInput("the total of no statistics has no classes; use Statistics.empty(names)")
        names = parts[0].names
        for part in parts:
            if part.names != names:
                raise InvalidInput(
                    f"statistics of classes {', '.join(names)} and {', '.join(part.names)} do not add"
                )
        tables = [ClassStatistics.total(seen) for seen in zip(*(part.classes for part in parts), strict=True)]
        return cls(names, math.fsum(part.time for part in parts), tuple(tables), _total_strata(parts))

    def with_classes(self, names: Sequence[str]) -> Statistics:
        """Return the statistics of these classes, in this order; of one that was not seen there are none."""
        nothing = Statistics.empty(names)
        places = {name: i for i, name in enumerate(self.names)}
        tables = [
            self.classes[places[name]] if name in places else table
            for name, table in zip(names, nothing.classes, strict=True)
        ]
        strata = self.strata
        if strata is not None:
            strata = tuple(strata[places[name]] if name in places else None for name in names)
        return Statistics(tuple(names), self.time, tuple(tables), strata)

    def capped(self, system: System) -> Statistics:
        """Return the statistics with the cores that jobs held and could not use left out."""
        rows = zip(self.classes, system.classes, strict=True)
        return replace(self, classes=tuple(table.capped(known.max_cores) for table, known in rows))

    @classmethod
    def of(cls, path: Record) -> Statistics:
        """Return the statistics of a path; the open intervals at its end are included."""
        return cls.of_rows(PathTally(path), path.time.size)

    @classmethod
    def of_rows(cls, tally: PathTally, end: int) -> Statistics:
        """Return the statistics of the rows of a path from where its tally stands to before `end`.

        The tally moves there. Windows of a path cut in this way add up to the whole.
        """
        path, began = tally.path, tally.time
        checks.within(end, tally.row, path.time.size, "the end of a stretch of rows")
        rows = slice(tally.row, end)
        arrived = path.job_class[rows][path.event[rows] == EventKind.ARRIVAL]
        arrivals = np.bincount(arrived, minlength=len(path.names)).tolist()
        classes = [ClassStatistics(count, np.empty(0), np.empty(0), np.empty(0)) for count in arrivals]
        for i, entries in tally.count(end):
            classes[i] = ClassStatistics.total([classes[i], ClassStatistics.gathered(0, *entries)])
        return cls(path.names, tally.time - began, tuple(classes))

    @classmethod
    def of_states(
        cls,
        names: Sequence[str],
        jobs: Ints,
        cores: Floats,
        times: Floats,
        arrivals: Ints,
        departures: Ints,
    ) -> Statistics:
        """Return the statistics of visits to states; all of shape (K, states) but `times`, of (states,)."""
        tables = []
        for i in range(len(names)):
            here = jobs[i] > 0
            tables.append(
                ClassStatistics.gathered(
                    int(arrivals[i].sum()),
                    cores[i, here] / jobs[i, here],
                    departures[i, here].astype(np.float64),
                    jobs[i, here] * times[here],
                )
            )
        return cls(tuple(names), float(times.sum()), tuple(tables))

    def update(
        self,
        duration: float,
        jobs: ArrayLike,
        cores: ArrayLike,
        *,
        arrival: str | None = None,
        departure: str | None = None,
    ) -> Statistics:
        """Return the statistics with one more interval, and the event that ended it.

        Parameters
        ----------
        duration : float
            How long the interval lasted.
        jobs, cores : sequence
            The jobs and the cores of every class during it; within a class cores are shared equally.
        arrival, departure : str, optional
            The class of a job that arrived or left at the end of the interval.
        """
        lasted = checks.within(duration, 0.0, np.inf, "duration")
        counts, held = self._columns(jobs, "jobs"), self._columns(cores, "cores")
        if np.any(counts != np.rint(counts)):
            raise InvalidInput(f"jobs must be whole numbers, got {jobs!r}")
        came, departed = self._one_of(arrival), self._one_of(departure)
        if departure is not None and not np.all(counts[departed] > 0.0):
            raise InvalidInput(f"a job of class {departure!r} left, but jobs were {counts.tolist()}")
        if departure is not None and not np.all(held[departed] > 0.0):
            raise InvalidInput(f"a job of class {departure!r} left, but cores were {held.tolist()}")
        window = Statistics.of_states(
            self.names,
            counts.astype(np.int64)[:, None],
            held[:, None],
            np.array([lasted]),
            came.astype(np.int64)[:, None],
            departed.astype(np.int64)[:, None],
        )
        return self + window

    def _columns(self, values: ArrayLike, what: str) -> Floats:
        try:
            column = np.asarray(values, dtype=np.float64)
        except (TypeError, ValueError):
            raise InvalidInput(f"{what} must be {len(self.names)} numbers, got {values!r}") from None
        if column.shape != (len(self.names),) or not np.all((column >= 0.0) & np.isfinite(column)):
            raise InvalidInput(
                f"{what} must be {len(self.names)} numbers, one a class and none negative, got {values!r}"
            )
        return column

    def _one_of(self, name: str | None) -> Bools:
        if name is not None and name not in self.names:
            raise InvalidInput(f"unknown class {name!r}{nearest(str(name), list(self.names))}")
        return np.array([name == known for known in self.names])

    def __add__(self, other: Statistics) -> Statistics:
        """Return the statistics of both observations together."""
        if not isinstance(other, Statistics):
            return NotImplemented
        return Statistics.total([self, other])

    def __getitem__(self, name: str) -> ClassStatistics:
        """Return the statistics of the class of that name."""
        if name not in self.names:
            raise InvalidInput(f"unknown class {name!r}{nearest(str(name), list(self.names))}")
        return self.classes[self.names.index(name)]

    @property
    def departures(self) -> int:
        """The number of departures, of all classes."""
        return sum(table.left for table in self.classes)

    @property
    def arrivals(self) -> int:
        """The number of arrivals, of all classes."""
        return sum(table.arrivals for table in self.classes)

    def report(self) -> Report:
        """Return what was counted of each class."""
        length = f"{self.time:.6g} units of time, {self.arrivals} arrivals, {self.departures} departures"
        rows = zip(self.names, self.classes, strict=True)
        counts = [(name, seen.arrivals, seen.left, seen.widths.size) for name, seen in rows]
        return Report(length, tables=[Table(("class", "arrivals", "departures", "widths"), counts)])

    def _content(self) -> dict[str, object]:
        """Return one row for each class and width."""
        parts = [table._content() for table in self.classes]
        names = np.repeat(np.array(self.names), [table.widths.size for table in self.classes])
        return {"class": names, **{key: np.concatenate([part[key] for part in parts]) for key in parts[0]}}


def _total_strata(parts: Sequence[Statistics]) -> tuple[Strata | None, ...] | None:
    """Return the strata of several observations together, where all of them have any."""
    kept = [part.strata for part in parts if part.strata is not None]
    if len(kept) < len(parts):
        return None
    return tuple(
        None if any(one is None for one in each) else sum(each[1:], each[0])
        for each in zip(*kept, strict=True)
    )


class PathTally:
    """Accumulator of the sufficient statistics of a path, row by row.

    It knows up to which row it has counted and the cores that jobs hold there, so that a path can be divided
    into windows anywhere: the entries of successive windows add up to those of the whole.

    Parameters
    ----------
    path : SamplePath
        The path.
    """

    def __init__(self, path: Record) -> None:
        self.path = path
        self.row = 0
        """The first row that has not been counted."""
        self._jobs = np.zeros((2, len(path.names)), dtype=np.int64)
        if path.per_job:
            _, self._job = dense(path.job)
            self._holding = np.full((4, int(self._job.max()) + 1), -1.0)

    @property
    def time(self) -> float:
        """The time up to which everything has been counted."""
        return float(self.path.time[max(self.row - 1, 0)])

    def count(self, end: int) -> Iterator[Entries]:
        """Count the rows from where the tally stands to before `end`; the last of them closes the stretch.

        Within it, all that was held to its end is included: a stretch is censored, not left out.
        """
        path = self.path
        columns = (path.time[:end], path.event[:end], path.job_class[:end])
        while self.row < end:
            tables, used = _new_tables(len(path.names))
            if path.per_job:
                self.row = _kernels.tally_jobs(
                    *columns,
                    self._job[:end],
                    path.cores[:end],
                    self.row,
                    self._holding,
                    tables,
                    used,
                    MOST_WIDTHS,
                )
            else:
                self.row = _kernels.tally_totals(
                    *columns, path.cores[:end], self.row, self._jobs, tables, used, MOST_WIDTHS
                )
            for i, table in enumerate(tables):
                yield i, table[:, ~np.isnan(table[0])]
        if path.per_job:
            yield from self._still_held()

    def _still_held(self) -> Iterator[Entries]:
        """Yield what the jobs that are there have held since their last row, and start counting anew."""
        for i in range(len(self.path.names)):
            here = self._holding[0] == i
            _, widths, since, before = self._holding[:, here]
            yield i, np.stack([widths, np.zeros(widths.size), self.time - since])
            self._holding[2, here] = self.time
            self._holding[3, here] = np.where(since < self.time, widths, before)


def _new_tables(classes: int) -> tuple[Floats, Ints]:
    """Return an open hash table for each class, widths (NaN where free) first, and how full they are."""
    tables = np.zeros((classes, 3, _SLOTS))
    tables[:, 0] = np.nan
    return tables, np.zeros(classes, dtype=np.int64)


def require_statistics(value: object, names: Sequence[str]) -> None:
    """Raise `InvalidInput` unless `value` is Statistics of these classes."""
    if not isinstance(value, Statistics):
        raise InvalidInput(f"expected Statistics, such as those of a run, got {value!r}")
    if list(value.names) != list(names):
        raise InvalidInput(
            f"the statistics are of classes {', '.join(value.names)}; the system has {', '.join(names)}"
        )
