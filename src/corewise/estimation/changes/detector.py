r"""Changes found while they happen: of a class's curve, of its size rate, of its arrival rate.

What was seen of a class since it last changed lies in buckets (`corewise.estimation.changes.buckets`). At
every check each of their edges is tried as the place of a change: how much more likely is what was seen if
the parameters θ before and after it may differ,

    G(τ) = max_θ ℓ_before(θ) + max_θ ℓ_after(θ) − max_θ ℓ(θ),

the generalised likelihood ratio. An alarm is raised when the largest exceeds a threshold. At most checks
nothing is near it, and a quadratic model of ℓ at the last estimate, which takes one pass over all that was
seen, says so; where it says otherwise, the likelihoods are maximised.

*Told early, forgotten late.* To be told of a change that was none costs little; to forget a million
departures for it costs much; and where there is a change, a few more checks make it sure. So estimates are
made from what came before as well until G exceeds the threshold by 3, 20 times as rare by chance. Only the
class that changed forgets.

*The threshold.* Where nothing changes, G is as for normal variables, whatever the curves and the policy; and
the mean number of checks between false alarms is, for θ with P components,

    log N = h − (P/2) log h + c_P.

The first two terms are those of Siegmund and Venkatraman, *Using the generalized likelihood ratio statistic
for sequential detection of a change-point* (Annals of Statistics 23, 1995); c_P depends on the buckets, and
was found by simulating them (`benchmarks/change.py`). False alarms are shared out over the classes, and
within a class over what may change in it: most are for the curve, which is what corewise is about.

*What changed.* A class that is served faster may have another curve or another size rate. Each explains what
was seen since, and one is named when its log-likelihood leads by 3; until then the change is one of *speed*.
Once there is no doubt that it was the size rate, what was seen before is taken back, and job-time is measured
in the new rate from then on.

*Drift.* A parameter that creeps is never far from where it was, and no jump may ever be found. So estimates
from windows of 2, 4, 8, … checks are kept beside the one from all that was seen since the last change; each
foretells the next check, and when one of them has done so better than the one in force, by more in
log-likelihood than a jump accounts for, it takes over. The same rule leads back. While a class drifts, alarms
in it remain changes of speed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corewise.errors import InvalidInput
from corewise.estimation.changes import _kernels
from corewise.estimation.changes.alarms import SHARES, Alarm, Check, place_of, run_length, threshold
from corewise.estimation.changes.buckets import Buckets
from corewise.estimation.changes.grid import TABLE, TIME, grid_of
from corewise.estimation.changes.watch import ClassDetector, quiet_after
from corewise.kit import checks
from corewise.kit.arrays import Floats
from corewise.kit.frozen import FrozenMapping
from corewise.model.speedup import SpeedUp
from corewise.model.system import System, require_system
from corewise.observation.statistics import ClassStatistics, Statistics, require_statistics

__all__ = ["LEAST_CHECKS", "Alarm", "ChangeDetector", "Cusum", "run_length", "threshold"]

LEAST_CHECKS = 100
"""There are at least so many checks between false alarms, however few departures that would be."""


@dataclass(frozen=True, eq=False)
class ChangeDetector:
    """Watches all classes of a system for changes; a value: one more check gives another detector.

    Attributes
    ----------
    system : System
        What is known: the classes, their rates, the families of their curves.
    between_alarms : float
        How many departures, of all classes, there are to be between false alarms, in the mean.
    departures : int
        Departures seen.
    time : float
        How long it took.
    """

    system: System
    between_alarms: float
    departures: int = 0
    time: float = 0.0
    _watches: tuple[ClassDetector, ...] = ()
    _coming: Buckets = field(default_factory=lambda: Buckets.empty(0))
    _moved: tuple[bool, ...] = ()
    _quiet: int = 0

    def __post_init__(self) -> None:
        require_system(self.system)
        checks.positive(self.between_alarms, "between_alarms")
        if not self._watches:
            classes = self.system.classes
            object.__setattr__(
                self, "_watches", tuple(ClassDetector.of(known, self._nodes) for known in classes)
            )
            object.__setattr__(self, "_coming", Buckets.empty(TABLE + len(classes)))
            object.__setattr__(self, "_moved", (False,) * len(classes))

    @property
    def _nodes(self) -> Floats:
        return grid_of(self.system.cores)

    def observe(self, window: Statistics) -> tuple[ChangeDetector, tuple[Alarm, ...]]:
        """Return the detector after one more window, and the changes found at its end."""
        require_statistics(window, self.system.names)
        seen = window.departures
        if seen == 0:
            raise InvalidInput("a window without departures says nothing about a change")
        now = Check(seen, window.time, self.departures + seen, self.time + window.time, len(self._watches))
        watches: list[ClassDetector] = []
        alarms: list[Alarm] = []
        for watch, table in zip(self._watches, window.classes, strict=True):
            after, found = watch.observe(table, now, self._nodes, self._heights(seen, watch.known.speedup))
            watches.append(after)
            alarms += found
        coming, moved, found = self._with_arrivals(window, now)
        quiet = quiet_after(coming) if found else self._quiet
        detector = ChangeDetector(
            self.system, self.between_alarms, now.departures, now.time, tuple(watches), coming, moved, quiet
        )
        return detector, (*alarms, *found)

    def _heights(self, every: int, curve: SpeedUp) -> dict[str, float]:
        """Return the thresholds for changes of the speed of a class."""
        count = max(len(curve.bounds), 1)
        return {"curve": self._height("curve", every, count), "size rate": self._height("size rate", every)}

    def _height(self, test: str, every: int, parameters: int = 1) -> float:
        """Return the threshold of a test that each class has."""
        between = max(self.between_alarms / every, LEAST_CHECKS) * len(self._watches)
        return threshold(between / SHARES[test], parameters)

    def _with_arrivals(self, window: Statistics, now: Check) -> tuple[Buckets, tuple[bool, ...], list[Alarm]]:
        """Return the arrivals of all classes with one more check, which rates have moved, and the alarms.

        If one of them has moved, those of all classes are kept from then on only.
        """
        came = [float(table.arrivals) for table in window.classes]
        coming = self._coming.with_row(np.array([now.seen, now.lasted, *came]))
        if len(coming) < 2:
            return coming, self._moved, []
        ratios = np.empty((len(came), len(coming) - 1))
        _kernels.two_rates_each(coming.sizes, coming.rows, TIME, self._quiet, ratios)
        height = self._height("arrival rate", window.departures)
        if ratios.max() < height:
            return coming, self._moved, []
        latest, moved, alarms = 0, list(self._moved), []
        for i in np.flatnonzero(ratios.max(axis=1) >= height).tolist():
            split = int(np.argmax(ratios[i])) + 1
            statistic = float(ratios[i].max())
            sides = [part.sum(axis=0) for part in (coming.rows[:split], coming.rows[split:])]
            rates = [FrozenMapping({"arrival_rate": float(s[TABLE + i] / s[TIME])}) for s in sides]
            alarms.append(
                Alarm(
                    name=self.system.names[i],
                    kind="arrival rate",
                    raised=now.departures,
                    before=rates[0],
                    after=rates[1],
                    statistic=statistic,
                    threshold=height,
                    between=now.between(statistic, "arrival rate", 1),
                    **place_of(coming.rows, ratios[i], now),
                )
            )
            moved[i], latest = True, max(latest, split)
        return coming.since(latest), tuple(moved), alarms

    def statistics(self) -> Statistics:
        """Return what to estimate from: of each class what was seen since it last changed.

        Arrivals and time are those since the last change of any arrival rate.
        """
        if not len(self._coming):
            raise InvalidInput("nothing has been seen yet")
        _, time, *came = self._coming.rows.sum(axis=0).tolist()
        tables = [
            watch.table(self._nodes, round(count)) for watch, count in zip(self._watches, came, strict=True)
        ]
        return Statistics(tuple(self.system.names), time, tuple(tables))

    def known(self, system: System) -> System:
        """Return a system with the arrival and size rates as they are now believed to be."""
        if not any(self._moved) and all(watch.tempo == 1.0 for watch in self._watches):
            return system
        _, time, *came = self._coming.rows.sum(axis=0).tolist()
        classes = [
            replace(
                job_class,
                arrival_rate=count / time if moved else watch.known.arrival_rate,
                size_rate=watch.known.size_rate * watch.tempo,
            )
            for job_class, watch, moved, count in zip(
                system.classes, self._watches, self._moved, came, strict=True
            )
        ]
        return System(system.cores, classes, system.changes)

    # --- to go on later ---------------------------------------------------------------------------

    @property
    def state(self) -> dict[str, NDArray[Any]]:
        """All that was seen, as named arrays."""
        arrays: dict[str, NDArray[Any]] = {
            "seen": np.array([self.departures, self.time]),
            "arrivals.sizes": self._coming.sizes,
            "arrivals.rows": self._coming.rows,
            "moved": np.array(self._moved),
            "quiet": np.array(self._quiet),
        }
        for i, watch in enumerate(self._watches):
            arrays |= {f"{i}.{name}": array for name, array in watch.state.items()}
        return arrays

    def of_state(self, arrays: Mapping[str, NDArray[Any]]) -> ChangeDetector:
        """Return the detector of this kind that has seen what `state` says."""
        departures, time = arrays["seen"].tolist()
        watches = []
        for i, watch in enumerate(self._watches):
            own = f"{i}."
            mine = {name.removeprefix(own): array for name, array in arrays.items() if name.startswith(own)}
            watches.append(watch.of_state(mine))
        return ChangeDetector(
            self.system,
            self.between_alarms,
            int(departures),
            time,
            tuple(watches),
            Buckets(arrays["arrivals.sizes"], arrays["arrivals.rows"]),
            tuple(arrays["moved"].tolist()),
            int(arrays["quiet"]),
        )


@dataclass(frozen=True)
class Cusum:
    """Page's CUSUM against a change that is known beforehand: the quickest there is, and the yardstick.

    ℓ(after) − ℓ(before), added up from its lowest point. No detector with as few false alarms finds that
    change sooner in the worst case.  Source: G. V. Moustakides, *Optimal stopping times for detecting changes
    in distributions* (Annals of Statistics 14, 1986).

    Parameters
    ----------
    before, after : SpeedUp
        The curves on either side.
    size_rate : float
        μ.
    height : float
        Alarm when the sum exceeds this.
    level : float, optional
        The sum so far.
    """

    before: SpeedUp
    after: SpeedUp
    size_rate: float
    height: float
    level: float = 0.0

    @property
    def alarmed(self) -> bool:
        """Whether the change was found."""
        return self.level >= self.height

    def observe(self, table: ClassStatistics) -> Cusum:
        """Return the sum after one more stretch; it is looked at between stretches only."""
        held = table.widths > 0.0
        before, after = (curve.rate(table.widths[held]) for curve in (self.before, self.after))
        gain = table.departures[held] @ np.log(after / before)
        gain -= self.size_rate * (table.job_time[held] @ (after - before))
        return replace(self, level=max(0.0, self.level) + float(gain))
