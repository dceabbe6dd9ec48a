r"""Statistics of progress reports: rates by class, progress and cores, and sizes by class.

A *stretch* of a job is the time during which it held the same cores and its progress lay in the same quarter
of an octave. It did the work w, in the unit of its application, in the time t: one observation of the rate of
its class at that progress on those cores. Stretches with rates within an eighth of an octave of each other
are counted together, as the number of stretches, Σ w and Σ t: medians and bounded influence need no more,
and what is kept adds in any order.

Sizes are counted likewise, by sixteenths of an octave: the work of jobs that completed, the work that a
fraction implies (a job that says it is at 20 % after the work w has the size 5 w), and as censored the work
of jobs that left uncompleted or are still there.

What is kept is bounded: where there are more than `MOST_ROWS` rows, bins are merged two by two.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from corewise.errors import InvalidInput
from corewise.kit.arrays import Floats, Ints
from corewise.kit.values import ByValue

__all__ = [
    "BY_AMOUNT",
    "BY_FRACTION",
    "MOST_ROWS",
    "Binned",
    "ClassReports",
    "ProgressStatistics",
    "distinct",
    "rate_key",
    "size_key",
]

MOST_ROWS = 4096
"""Rows of a table at most."""

BY_AMOUNT, BY_FRACTION = 0, 1
"""What progress is measured by: the work done, or the fraction of its work that a job says is done."""

CENSORED, COMPLETE = 0, 1
"""Whether the size of a job is above the work of a row, or is that."""

PROGRESS_BINS, RATE_BINS, SIZE_BINS = 4, 8, 16
"""Bins per octave."""

_RATES, _SIZES = (False, True, False, True), (False, True)
"""Which columns of a key are bins, to be merged where there are too many."""

_TINY = 1e-280


@dataclass(frozen=True, eq=False)
class Binned(ByValue):
    """Sums by bins, which add.

    Attributes
    ----------
    keys : ndarray of int, shape (rows, columns)
        The bins, in order.
    sums : ndarray, shape (rows, sums)
        What is summed in each.
    merged : int
        How many times bins have been merged two by two.
    """

    keys: Ints
    sums: Floats
    merged: int = 0

    @classmethod
    def gathered(cls, keys: Ints, sums: Floats, merged: int, bins: Sequence[bool]) -> Binned:
        """Return the sums of rows in any order, with bins merged if there are too many."""
        found, place = distinct(keys)
        while len(found) > MOST_ROWS and np.ptp(found[:, list(bins)], axis=0).any():
            keys = np.where(bins, keys >> 1, keys)
            merged += 1
            found, place = distinct(keys)
        columns = [np.bincount(place, column, len(found)) for column in sums.T]
        return cls(found, np.stack(columns, axis=1) if len(found) else sums, merged)

    @classmethod
    def total(cls, parts: Sequence[Binned], bins: Sequence[bool]) -> Binned:
        """Return the sums of all parts, with bins as wide as the widest."""
        merged = max(part.merged for part in parts)
        keys = [np.where(bins, part.keys >> (merged - part.merged), part.keys) for part in parts]
        return cls.gathered(np.concatenate(keys), np.concatenate([part.sums for part in parts]), merged, bins)

    def times(self, weight: float) -> Binned:
        """Return the sums times a weight."""
        return Binned(self.keys, self.sums * weight, self.merged)

    def as_mapping(self) -> dict[str, Any]:
        """Return the table as plain values."""
        return {"keys": self.keys.tolist(), "sums": self.sums.tolist(), "merged": self.merged}

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any], columns: int, sums: int) -> Binned:
        """Return the table that `as_mapping` has written."""
        keys = np.array(mapping["keys"], dtype=np.int64).reshape(-1, columns)
        values = np.array(mapping["sums"], dtype=np.float64).reshape(-1, sums)
        if len(keys) != len(values) or not np.isfinite(values).all():
            raise InvalidInput(f"statistics of progress: {len(keys)} rows of bins, {len(values)} of sums")
        return cls(keys, values, int(mapping["merged"]))


def distinct(keys: Ints) -> tuple[Ints, Ints]:
    """Return the different rows of keys, in order, and which of them each row is."""
    if not len(keys):
        return keys, np.empty(0, dtype=np.int64)
    order = np.lexsort(keys.T[::-1])
    inside = keys[order]
    first = np.append(True, (inside[1:] != inside[:-1]).any(axis=1))
    place = np.empty(len(keys), dtype=np.int64)
    place[order] = np.cumsum(first) - 1
    return inside[first], place


def rate_key(scale: int, progress: float, cores: int, rate: float) -> tuple[int, int, int, int]:
    """Return the bins of a rate at a progress."""
    return scale, _bin(progress, PROGRESS_BINS), cores, _bin(rate, RATE_BINS)


def size_key(kind: int, work: float) -> tuple[int, int]:
    """Return the bins of a size, or of the work of a job that has not completed."""
    return kind, _bin(work, SIZE_BINS)


def _bin(value: float, per_octave: int) -> int:
    return math.floor(math.log2(max(value, _TINY)) * per_octave)


@dataclass(frozen=True, eq=False)
class ClassReports(ByValue):
    """Statistics of the progress that the jobs of a class have reported.

    Attributes
    ----------
    rates : Binned
        By what progress is measured by, progress, cores and rate: the number of stretches, Σ w and Σ t.
    sizes : Binned
        By whether the size is known, and size: the number of jobs, and the sum of their work.

    Examples
    --------
    >>> from corewise.estimation.progress.statistics import ClassReports
    >>> ClassReports.of({(0, 12, 4, 6): [1.0, 30.0, 15.0]}, {(1, 80): [2.0, 64.0]}).completed
    2.0
    """

    rates: Binned
    sizes: Binned

    @classmethod
    def of(
        cls,
        rates: Mapping[tuple[int, int, int, int], Sequence[float]],
        sizes: Mapping[tuple[int, int], Sequence[float]],
    ) -> ClassReports:
        """Return the statistics of rows by key."""
        return cls(
            _table(list(rates), list(rates.values()), (4, 3), _RATES),
            _table(list(sizes), list(sizes.values()), (2, 2), _SIZES),
        )

    @property
    def completed(self) -> float:
        """The number of jobs whose size is known."""
        return float(self.sizes.sums[self.sizes.keys[:, 0] == COMPLETE, 0].sum())

    @property
    def seconds(self) -> float:
        """The time that jobs took in all stretches."""
        return float(self.rates.sums[:, 2].sum())

    @property
    def widest(self) -> int:
        """The most cores at which a rate was measured; none if none was."""
        cores = self.rates.keys[:, 2]
        return int(cores.max()) if cores.size else 0

    @property
    def stretches(self) -> float:
        """The number of stretches."""
        return float(self.rates.sums[:, 0].sum())

    def __add__(self, other: ClassReports) -> ClassReports:
        """Return the statistics of both."""
        return ClassReports(
            Binned.total([self.rates, other.rates], _RATES), Binned.total([self.sizes, other.sizes], _SIZES)
        )

    def times(self, weight: float) -> ClassReports:
        """Return the statistics with every observation counted so many times: below one, those of old."""
        return ClassReports(self.rates.times(weight), self.sizes.times(weight))


def _table(
    keys: Sequence[tuple[int, ...]],
    sums: Sequence[Sequence[float]],
    shape: tuple[int, int],
    bins: Sequence[bool],
) -> Binned:
    columns = np.array(keys, dtype=np.int64).reshape(-1, shape[0])
    return Binned.gathered(columns, np.array(sums, dtype=np.float64).reshape(-1, shape[1]), 0, bins)


@dataclass(frozen=True, eq=False)
class ProgressStatistics(ByValue):
    """Statistics of the progress that jobs of all classes have reported; they add.

    Attributes
    ----------
    classes : mapping
        The statistics of each class, by name.

    Examples
    --------
    >>> from corewise.estimation.progress.reports import ReportTally
    >>> tally = ReportTally()
    >>> tally.report("job 1", "resnet", cores=4, amount=120.0, seconds=60.0)
    >>> seen = tally.seen()
    >>> (seen + seen)["resnet"].stretches
    2.0
    """

    classes: Mapping[str, ClassReports]

    def __getitem__(self, name: str) -> ClassReports:
        """Return the statistics of a class; of one that was not seen there are none."""
        return self.classes.get(name) or ClassReports.of({}, {})

    def __add__(self, other: ProgressStatistics) -> ProgressStatistics:
        """Return the statistics of both."""
        joined = dict(self.classes)
        for name, reports in other.classes.items():
            joined[name] = joined[name] + reports if name in joined else reports
        return ProgressStatistics(joined)

    def times(self, weight: float) -> ProgressStatistics:
        """Return the statistics with every observation counted so many times: below one, those of old."""
        return ProgressStatistics({name: reports.times(weight) for name, reports in self.classes.items()})

    def as_mapping(self) -> dict[str, Any]:
        """Return the statistics as plain values, which JSON can hold."""
        return {
            name: {"rates": reports.rates.as_mapping(), "sizes": reports.sizes.as_mapping()}
            for name, reports in self.classes.items()
        }

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any]) -> ProgressStatistics:
        """Return the statistics that `as_mapping` has written."""
        try:
            return cls(
                {
                    name: ClassReports(
                        Binned.from_mapping(rows["rates"], 4, 3), Binned.from_mapping(rows["sizes"], 2, 2)
                    )
                    for name, rows in mapping.items()
                }
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InvalidInput(
                f"statistics of progress cannot be read: {type(error).__name__}: {error}"
            ) from None
