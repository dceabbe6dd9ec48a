"""Traces: tables of jobs as they were recorded, to be run under any policy."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from corewise.errors import InvalidFile, InvalidInput, nearest
from corewise.kit import checks
from corewise.kit.arrays import Bools, Floats, Ints
from corewise.kit.files import read_text, reason_of
from corewise.kit.report import Summarised
from corewise.kit.values import ByValue
from corewise.model.system import System
from corewise.simulation.gpu_day import gpu_day_columns
from corewise.simulation.randomness import random_generator

__all__ = ["Trace", "require_trace"]

_COLUMNS = ("time", "class", "size")
_NEEDED = "time, class and size"
_DAY = "day:gpu"


@dataclass(frozen=True, eq=False, repr=False)
class Trace(ByValue, Summarised):
    """Trace of jobs: when each came, of which class it was, and how large.

    Attributes
    ----------
    time : ndarray
        When each job came; times do not go back.
    job_class : tuple of str
        The name of its class.
    size : ndarray
        Its size: the time it takes on one core.

    Examples
    --------
    >>> import corewise as cw
    >>> system = cw.System(4, [cw.JobClass("a", 1.0, 1.0, cw.Amdahl(0.5))])
    >>> jobs = cw.Trace(time=[0.0, 1.0], job_class=["a", "a"], size=[2.0, 3.0])
    >>> cw.simulate(system, "equi", jobs=jobs).departures
    2
    """

    time: Floats
    job_class: tuple[str, ...]
    size: Floats

    def __init__(self, time: ArrayLike, job_class: Iterable[str], size: ArrayLike) -> None:
        if isinstance(job_class, str) or not isinstance(job_class, Iterable):
            raise InvalidInput(f"job_class must be a name for every job, got {checks.shown(job_class)}")
        times, sizes, names = _column(time, "time"), _column(size, "size"), tuple(job_class)
        if not times.size == sizes.size == len(names):
            raise InvalidInput(
                f"a trace needs a time, a class and a size for every job, got {times.size} times, "
                f"{len(names)} classes and {sizes.size} sizes"
            )
        if not names:
            raise InvalidInput("a trace needs at least one job")
        _require(np.isfinite(times), times, "its time must be finite")
        _require(np.isfinite(sizes) & (sizes >= 0.0), sizes, "its size must be finite and not negative")
        _require(np.diff(times, prepend=times[0]) >= 0.0, times, "times must not go back")
        for name, value in (("time", times), ("job_class", names), ("size", sizes)):
            object.__setattr__(self, name, value)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Trace:
        """Return the trace in a CSV file with the columns time, class and size, and any others.

        ``day:gpu`` is the made-up day that comes with the package, ``day:gpu:7`` the one of another seed.
        """
        file = os.fspath(path)
        if file == _DAY or file.startswith(f"{_DAY}:"):
            return cls.gpu_day(rng=_seed_of(file))
        try:
            rows = csv.DictReader(read_text(path).splitlines())
            header = list(rows.fieldnames or ())
            table = [tuple(row.get(name) or "" for name in _COLUMNS) for row in rows]
        except (UnicodeDecodeError, csv.Error) as error:
            raise InvalidFile(f"{file}: not a table of jobs: {reason_of(error)}") from None
        if not header:
            raise InvalidFile(f"{file}: is empty; it needs the columns {_NEEDED}")
        for name in _COLUMNS:
            if name not in header:
                raise InvalidFile(f"{file}: no column {name!r}{nearest(name, header)}; it needs {_NEEDED}")
        columns = list(zip(*table, strict=True)) or [(), (), ()]
        try:
            return cls(_numbers(columns[0], "time"), columns[1], _numbers(columns[2], "size"))
        except InvalidInput as error:
            raise InvalidFile(f"{file}: {error}") from None

    @classmethod
    def gpu_day(cls, *, rng: np.random.Generator | int | None = 0) -> Trace:
        """Return the jobs of a made-up day on a GPU cluster: those of the system ``day:gpu``.

        Examples
        --------
        >>> import corewise as cw
        >>> jobs = cw.Trace.gpu_day(rng=7)
        >>> len(jobs.job_class), bool(jobs.time[-1] < 8 * 3600)
        (160, True)
        >>> jobs == cw.Trace.gpu_day(rng=7) != cw.Trace.gpu_day(rng=8)
        True
        """
        return cls(*gpu_day_columns(random_generator(rng)))

    def positions(self, system: System) -> Ints:
        """Return the position of the class of every job in a system."""
        known = {name: i for i, name in enumerate(system.names)}
        for row, name in enumerate(self.job_class):
            if name not in known:
                raise InvalidInput(
                    f"job {row}: unknown class {checks.shown(name)}{nearest(str(name), system.names)}"
                )
        return np.array([known[name] for name in self.job_class], dtype=np.int64)

    def completed(self, system: System) -> System:
        """Return the system with the rates that it does not know as the trace has them."""
        which, lasted = self.positions(system), float(self.time[-1] - self.time[0])
        classes = []
        for i, known in enumerate(system.classes):
            own = which == i
            arrival_rate, size_rate = known.arrival_rate, known.size_rate
            if arrival_rate is None and own.any() and lasted > 0.0:
                arrival_rate = float(own.sum()) / lasted
            if size_rate is None and own.any() and self.size[own].sum() > 0.0:
                size_rate = 1.0 / float(self.size[own].mean())
            classes.append(replace(known, arrival_rate=arrival_rate, size_rate=size_rate))
        return system.with_classes(classes, system.changes)

    def _summary(self) -> Mapping[str, object]:
        return {"jobs": len(self.job_class), "time": (float(self.time[0]), float(self.time[-1]))}


def require_trace(value: object) -> None:
    """Raise `InvalidInput` unless `value` is a Trace."""
    if not isinstance(value, Trace):
        raise InvalidInput(f"jobs must be a Trace, got {checks.shown(value)}")


def _column(values: ArrayLike, what: str) -> Floats:
    try:
        column = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInput(f"{what} must be numbers, got {checks.shown(values)}") from None
    if column.ndim != 1:
        raise InvalidInput(f"{what} must be one number for every job, got shape {column.shape}")
    column.setflags(write=False)
    return column


def _require(good: Bools, values: Floats, why: str) -> None:
    wrong = np.flatnonzero(~good)
    if wrong.size:
        raise InvalidInput(f"job {wrong[0]}: {why}, got {float(values[wrong[0]])!r}")


def _seed_of(name: str) -> int:
    """Return the seed in the name of a day; zero if it has none."""
    text = name.removeprefix(_DAY).removeprefix(":")
    if name != _DAY and not text.isdecimal():
        raise InvalidFile(f"{name}: the seed of a day must be a whole number, as in {_DAY}:7, got {text!r}")
    return int(text or "0")


def _numbers(texts: Iterable[str], what: str) -> list[float]:
    numbers = []
    for row, text in enumerate(texts):
        try:
            numbers.append(float(text))
        except (TypeError, ValueError):
            raise InvalidInput(f"job {row}: its {what} must be a number, got {text!r}") from None
    return numbers
