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
from corewise.estimation.changes.grid import TIME
from corewise.kit.arrays import Floats
from corewise.kit.display import Shown
from corewise.kit.values import ByValue

__all__ = ["SHARES", "TAKEN_BACK", "Alarm", "Check", "believed_rate", "place_of", "run_length", "threshold"]

_CONSTANTS = (1.25, 0.70, 0.65)
"""c_P for P = 1, 2, 3."""

SHARES = {"curve": 0.8, "size rate": 0.1, "arrival rate": 0.1}
"""Of the false alarms of a class."""

TAKEN_BACK = "none"
"""The kind of an alarm that says of an earlier one that nothing has changed after all."""

_EDGE_DROP = math.log(2.0 / 0.05)
"""Changes within this of the most likely one are in its 95 % interval.

If θ were known, ℓ would fall on either side of the change like a random walk with a negative drift, whose
maximum exceeds x with a probability of at most e^−x.
"""


def believed_rate(count: float, exposure: float) -> float:
    """Return the Poisson rate to act upon: the most likely one, or that of half an event where none was seen.

    A rate of zero is the most likely one then, and never one to make a policy for: whoever believes it is
    wrong for ever at the first event.
    """
    return max(count, 0.5) / exposure


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
        raise InvalidInput(f"{checks_between:.4g} checks between false alarms are too few to tell a change")
    return float(brentq(lambda h: math.log(run_length(h, parameters) / checks_between), low, high))


@dataclass(frozen=True, eq=False, repr=False)
class Alarm(ByValue, Shown):
    """An alarm: a change point that was detected, and the evidence for it.

    Attributes
    ----------
    name : str
        The class that changed.
    kind : str
        What changed: ``curve``, ``size rate``, ``arrival rate``; ``speed`` while it may be either of the
        first two. It is named by a further alarm later, of the same change; or taken back by one that says
        ``none``, if what was seen since speaks against it.
    raised : int
        After how many departures of all classes the change was found.
    departures, time : float
        After how many departures, and when, it is most likely to have happened, from the beginning.
    interval, time_interval : tuple of float
        Where it lies with a probability of about 95 %, in departures and in time.
    before, after : mapping
        The parameters of the curve, the size rate or the arrival rate, on either side of it.
    statistic : float
        By how much two different stretches explain the data better than one, in log-likelihood.
    threshold : float
        What that had to exceed.
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

    _shown = ("name", "kind", "departures", "raised")

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
        """Return the alarm in a line."""
        low, high = self.interval
        if self.kind == TAKEN_BACK:
            values = ", ".join(f"{key} {value:.4g}" for key, value in self.after.items())
            place = f"after {self.departures:.0f} departures after all"
            return f"class {self.name}: nothing changed {place}: {values}; taken back after {self.raised}"
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
        return {
            "name": self.name,
            "kind": self.kind,
            "raised": self.raised,
            "departures": self.departures,
            "interval": list(self.interval),
            "time": self.time,
            "time_interval": list(self.time_interval),
            "before": dict(self.before),
            "after": dict(self.after),
            "statistic": self.statistic,
            "threshold": self.threshold,
            "between": self.between,
        }

    to_dict = as_mapping


class Check(NamedTuple):
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


def place_of(rows: Floats, ratios: Floats, now: Check) -> dict[str, Any]:
    """Return the change point and its confidence interval: to the edges next to all nearly as likely."""
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
