r"""Arrival rates over weeks and by the time of day, and the load in the long run.

The load that a policy goes by is that of a week or a declared one, never that of the last hours: nights and
weekends belong to it. Until a week was observed it is not known.

Arrivals are counted by hour for four weeks. With N_dh those of whole day d in its hour h, D days, N_h their
sum over days and e the mean of the N_h, hours differ as far as F is large:

    F = Σ_h (N_h − e)²/(23 e) / φ,    φ = max(1, Σ_dh (N_dh − N_h/D)² / (24 (D − 1) e/D)),

φ being how much more than Poisson counts the same hour varies between days: bursts are no time of day. Under
equal hours F has about the F distribution with 23 and 24 (D − 1) degrees of freedom. Where that is improbable
(one time in 1000) the rate of an hour is (N_h + a)/(e + a) times the mean one, with a = e/(F − 1), the prior
that the spread of the hours themselves says.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from corewise.errors import InvalidInput
from corewise.kit.arrays import Floats, Ints
from corewise.kit.values import ByValue

__all__ = ["DAY", "WEEK", "ArrivalCounts", "long_run_load"]

DAY, WEEK = 86_400.0, 7.0 * 86_400.0
"""Seconds."""

_HOURS, _WEEKS = 24, 4
_HOUR = DAY / _HOURS
_SURE = 1e-3


@dataclass(frozen=True, eq=False)
class ArrivalCounts(ByValue):
    """Arrivals of a class by hour, of the last four weeks at most.

    Attributes
    ----------
    begin, end : float
        When the observation began and ended, in seconds.
    first : int
        The hour of the first count, since time zero.
    counts : ndarray
        The arrivals in each hour from then on, to that of `end`.

    Examples
    --------
    >>> from corewise.estimation.time_of_day import DAY, ArrivalCounts
    >>> working_hours = [day * DAY + hour * 3600.0 for day in range(14) for hour in range(9, 17)]
    >>> seen = ArrivalCounts.of(working_hours, 0.0, 14 * DAY)
    >>> seen.follows_the_clock, round(seen.rate * DAY, 3)
    (True, 8.0)
    >>> seen.rate_at(12 * 3600.0) > 10.0 * seen.rate_at(0.0)
    True
    """

    begin: float
    end: float
    first: int
    counts: Ints

    @classmethod
    def of(cls, times: Iterable[float], begin: float, end: float) -> ArrivalCounts:
        """Return the counts of arrivals at some times, seen from `begin` to `end`."""
        if not -math.inf < begin <= end < math.inf:
            raise InvalidInput(f"an observation must end after it begins, got {begin!r} and {end!r}")
        start = max(begin, end - _WEEKS * WEEK)
        first, last = (math.floor(time / _HOUR) for time in (start, end))
        at = np.array([time for time in times if start <= time <= end], dtype=np.float64)
        hours = np.floor(at / _HOUR).astype(np.int64) - first
        counts = np.bincount(hours, minlength=last - first + 1).astype(np.int64)
        return cls(float(begin), float(end), first, counts)

    def after(self, times: Iterable[float], end: float) -> ArrivalCounts:
        """Return the counts with later arrivals, seen up to `end`."""
        later = ArrivalCounts.of(times, max(self.end, end - _WEEKS * WEEK), max(end, self.end))
        first = max(self.first, later.first + later.counts.size - round(_WEEKS * WEEK / _HOUR) - 1)
        counts = np.zeros(later.first + later.counts.size - first, dtype=np.int64)
        for part in (self, later):
            kept = part.counts[max(first - part.first, 0) :]
            begin = max(part.first - first, 0)
            counts[begin : begin + kept.size] += kept
        return ArrivalCounts(self.begin, later.end, first, counts)

    @property
    def rate(self) -> float:
        """Arrivals per second in the long run: over the last whole weeks; NaN before there is one."""
        weeks = min(math.floor((self.end - self.begin) / WEEK), _WEEKS)
        if not weeks:
            return math.nan
        since = self.end - weeks * WEEK
        hours = (self.first + np.arange(self.counts.size)) * _HOUR
        share = np.clip((hours + _HOUR - since) / _HOUR, 0.0, 1.0)  # of the hour in which they begin
        return float(share @ self.counts) / (weeks * WEEK)

    @property
    def follows_the_clock(self) -> bool:
        """Whether the rate surely depends on the time of day."""
        return self._factors is not None

    def rate_at(self, time: float) -> float:
        """Return arrivals per second to expect at a time: those of its hour, where hours surely differ."""
        if self._factors is None:
            return self.rate
        return self.rate * float(self._factors[math.floor(time % DAY / _HOUR)])

    @cached_property
    def _factors(self) -> Floats | None:
        """The rate of each hour over the mean one; None unless they surely differ."""
        from scipy.special import fdtrc

        begin = math.ceil(max(self.begin / _HOUR, self.first) / _HOURS) * _HOURS
        days = (math.floor(self.end / _HOUR) - begin) // _HOURS
        if days < 2:
            return None
        at = begin - self.first
        table = self.counts[at : at + days * _HOURS].reshape(days, _HOURS).astype(np.float64)
        sums = table.sum(axis=0)
        mean = float(sums.mean())
        if not mean > 0.0:
            return None
        freedom = _HOURS * (days - 1)
        spread = float(((table - sums / days) ** 2).sum()) / (freedom * mean / days)
        ratio = float(((sums - mean) ** 2).sum()) / ((_HOURS - 1) * mean) / max(spread, 1.0)
        if not fdtrc(_HOURS - 1, freedom, ratio) < _SURE:
            return None
        prior = mean / (ratio - 1.0)
        return np.asarray((sums + prior) / (mean + prior))


def long_run_load(
    arrivals: Mapping[str, ArrivalCounts], work: Mapping[str, float], cores: float
) -> float | None:
    """Return the work that arrives in the long run over the cores there are; None before a week was seen.

    Parameters
    ----------
    arrivals : mapping
        The arrivals of each class.
    work : mapping
        The mean work of a job of each class on one core, in seconds.
    cores : float
        The cores.

    Examples
    --------
    >>> from corewise.estimation.time_of_day import DAY, ArrivalCounts, long_run_load
    >>> once_an_hour = ArrivalCounts.of([3600.0 * k for k in range(168)], 0.0, 7 * DAY)
    >>> long_run_load({"a": once_an_hour}, {"a": 1800.0}, 2)
    0.25
    >>> long_run_load({"a": ArrivalCounts.of([], 0.0, 6 * DAY)}, {"a": 1800.0}, 2) is None
    True
    """
    load = sum(seen.rate * work[name] for name, seen in arrivals.items()) / cores
    return None if math.isnan(load) else load
