"""Alarms: change points, the thresholds of the likelihood ratio, and how rare a false alarm is.

See `corewise.estimation.changes.detector` for the mathematics.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from corewise.errors import InvalidInput
from corewise.estimation.changes.buckets import TIME
from corewise.kit.arrays import Floats
from corewise.kit.frozen import FrozenMapping
from corewise.kit.report import Summarised, json_values
from corewise.kit.values import ByValue

__all__ = ["RETRACTED", "SHARES", "Alarm", "DetectorCheck", "place_of", "run_length", "threshold"]

_CONSTANTS = (1.25, 0.70, 0.65)
"""c_P for P = 1, 2, 3."""

SHARES = {"curve": 0.8, "size rate": 0.1, "arrival rate": 0.1}
"""Shares of the tests in the false alarms of a class."""

RETRACTED = "none"
"""Kind of an alarm that retracts an earlier one: nothing has changed after all."""

_EDGE_DROP = math.log(2.0 / 0.05)
"""Change points within this log-likelihood of the most likely one are in its 95 % interval.

If θ were known, ℓ would fall on either side of the change like a random walk with a negative drift, whose
maximum exceeds x with a probability of at most e^−x.
"""


def run_length(critical_value: float, parameters: int = 1) -> float:
    """Return the average run length: the mean number of checks between false alarms at a threshold."""
    order = min(max(parameters, 1), len(_CONSTANTS))
    return math.exp(
        min(critical_value - 0.5 * parameters * math.log(critical_value) + _CONSTANTS[order - 1], 700.0)
    )


@lru_cache(maxsize=256)
def threshold(checks_between: float, parameters: int = 1) -> float:
    """Return the threshold of the likelihood ratio with a mean number of checks between false alarms."""
    from scipy.optimize import brentq

    low, high = max(1.0, 0.5 * parameters), 700.0
    if checks_between <= run_length(low, parameters):
        raise InvalidInput(f"{checks_between:.4g} checks between false alarms are too few to detect a change")
    return float(brentq(lambda h: math.log(run_length(h, parameters) / checks_between), low, high))


@dataclass(frozen=True, eq=False, repr=False)
class Alarm(ByValue, Summarised):
    """An alarm: a change point that was detected, and the evidence for it.

    Attributes
    ----------
    name : str
        The class that changed.
    kind : str
        What changed: ``curve``, ``size rate``, ``arrival rate``; ``speed`` while it may be either of the
        first two. A later alarm of the same change attributes it to one of them, or retracts it with the kind
        ``none`` if the data since speak against it.
    raised : int
        Departures of all classes up to the alarm.
    departures, time : float
        Most likely change point, in departures of all classes and in time from the beginning.
    interval, time_interval : tuple of float
        Its 95 % confidence intervals, in departures and in time.
    before, after : mapping
        Parameters of the curve, the size rate or the arrival rate, before and after it.
    statistic : float
        Log-likelihood ratio of a change against none.
    threshold : float
        Threshold that the statistic exceeded.
    between : float
        Mean number of departures between false alarms (the false-alarm interval) with a statistic as large.

    Examples
    --------
    >>> import corewise as cw
    >>> system = cw.load_system("paper:1")
    >>> other = system.with_curves({"two": cw.Amdahl(0.5)})
    >>> detector = cw.ChangeDetector(system, between_alarms=1e6)
    >>> detector, _ = detector.observe(cw.simulate(system, "equi", departures=5_000, rng=7).statistics)
    >>> detector, (alarm,) = detector.observe(cw.simulate(other, "equi", departures=5_000, rng=8).statistics)
    >>> alarm.name, alarm.kind
    ('two', 'curve')
    >>> low, high = alarm.interval
    >>> low <= 5_000 <= high
    True
    """

    _repr_fields = ("name", "kind", "departures", "raised")

    name: str
    kind: str
    raised: int
    departures: float
    interval: tuple[float, float]
    time: float
    time_interval: tuple[float, float]
    before: Mapping[str, float]
    after: Mapping[str, float]
    statistic: float
    threshold: float
    between: float

    def __str__(self) -> str:
        """Return the alarm in one line."""
        low, high = self.interval
        if self.kind == RETRACTED:
            values = ", ".join(f"{key} {value:.4g}" for key, value in self.after.items())
            place = f"after {self.departures:.0f} departures after all"
            return f"class {self.name}: nothing changed {place}: {values}; retracted after {self.raised}"
        sizes = ", ".join(f"{key} {self.before[key]:.4g} → {self.after[key]:.4g}" for key in self.after)
        happened = "".join(f", {words}" for words in self._happened())
        return (
            f"class {self.name}: its {self.kind} changed after {self.departures:.0f} departures "
            f"({low:.0f} to {high:.0f}): {sizes}{happened}; found after {self.raised}"
        )

    def _happened(self) -> Iterator[str]:
        """Yield in words what a rate of zero on either side of the change means."""
        done = {"arrival rate": "arrived", "size rate": "left"}.get(self.kind)
        if done and 0.0 in self.after.values():
            yield f"none of its jobs has {done} since"
        if done and 0.0 in self.before.values():
            yield f"none of its jobs had {done} for a while"

    def as_mapping(self) -> dict[str, Any]:
        """Return the alarm as plain values, for JSON."""
        values: dict[str, Any] = json_values(self)
        return values

    to_dict = as_mapping

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> Alarm:
        """Return the alarm of plain values, as `as_mapping` returns them."""
        pairs = {name: tuple(values[name]) for name in ("interval", "time_interval")}
        sides = {name: FrozenMapping(values[name]) for name in ("before", "after")}
        return cls(**{**values, **pairs, **sides})


class DetectorCheck(NamedTuple):
    """One check of the detector: the departures and time of its window, and those up to its end."""

    seen: float
    lasted: float
    departures: int
    time: float
    classes: int

    def between(self, statistic: float, test: str, parameters: int) -> float:
        """Return the mean number of departures between false alarms with a statistic as large."""
        count = parameters if test == "curve" else 1
        return self.seen * run_length(max(statistic, 1.0), count) * SHARES[test] / self.classes


def place_of(rows: Floats, ratios: Floats, now: DetectorCheck) -> dict[str, Any]:
    """Return the change point and its confidence interval, which ends at edges of buckets."""
    at = np.flatnonzero(ratios >= ratios.max() - _EDGE_DROP)
    edges = np.vstack([np.zeros(2), np.cumsum(rows[:, : TIME + 1], axis=0)])
    edges += np.array([now.departures, now.time]) - edges[-1]
    best, low, high = edges[int(np.argmax(ratios)) + 1], edges[at[0]], edges[at[-1] + 2]
    return {
        "departures": float(best[0]),
        "interval": (float(low[0]), float(high[0])),
        "time": float(best[1]),
        "time_interval": (float(low[1]), float(high[1])),
    }
