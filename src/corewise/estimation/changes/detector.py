r"""Sequential change detection: of a class's curve, of its size rate, of its arrival rate.

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
class that changed forgets. If G falls short of the threshold by 3 instead, the alarm is taken back, and all
is as before. Until then the change is in doubt. What was seen between it and its alarm was chosen for being
unlike what came before, and if by chance, what comes next is unlike it; so another change must have come
after the alarm, be unlike all that counts, and explain more than the one in doubt.

*The threshold.* Where nothing changes, G is as for normal variables, whatever the curves and the policy; and
the mean number of checks between false alarms is, for θ with P components,

    log N = h − (P/2) log h + c_P.

The first two terms are those of Siegmund and Venkatraman, *Using the generalized likelihood ratio statistic
for sequential detection of a change-point* (Annals of Statistics 23, 1995); c_P depends on the buckets, and
was found by simulating them (`benchmarks/change.py`). False alarms are shared out over the classes, and
within a class over what may change in it: most are for the curve, which is what corewise is about.

*Sizes that vary more than exponential ones* make likelihood ratios larger by chance, and skew. Thresholds are
as many times as high, and the skewness is taken out, see `corewise.estimation.changes.dispersion`.

*What changed.* A class that is served faster may have another curve or another size rate. Each explains what
was seen since, and one is named when its log-likelihood leads by 3; until then the change is one of *speed*.
Once there is no doubt that it was the size rate, what was seen before is taken back, and job-time is measured
in the new rate from then on.

*Unknown size rates.* Where μ is not known, the curve that is followed is the product of both, with one
parameter more (`corewise.estimation.changes.departure_rate`). A change of it is one of *speed* until its
shape says that it was the curve.

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
from corewise.estimation.changes.alarms import (
    SHARES,
    Alarm,
    Check,
    believed_rate,
    place_of,
    run_length,
    threshold,
)
from corewise.estimation.changes.buckets import Buckets
from corewise.estimation.changes.class_detector import ClassDetector, min_checks_after
from corewise.estimation.changes.class_state import detector_of, state_of
from corewise.estimation.changes.grid import TABLE, TIME, grid_of
from corewise.kit import checks
from corewise.kit.arrays import Floats
from corewise.kit.display import Shown
from corewise.kit.frozen import FrozenMapping
from corewise.model.job_class import JobClass
from corewise.model.speedup import SpeedUp
from corewise.model.system import System, require_system
from corewise.observation.statistics import ClassStatistics, Statistics, require_statistics

__all__ = ["LEAST_CHECKS", "Alarm", "ChangeDetector", "Cusum", "run_length", "threshold"]

ESTIMATED, EXPONENTIAL = "estimated", "exponential"

LEAST_CHECKS = 100
"""The least mean number of checks between false alarms, however few departures that would be."""


@dataclass(frozen=True, eq=False, repr=False)
class ChangeDetector(Shown):
    """Detector of change points in all classes of a system, by generalised likelihood ratios.

    It is a value: one more check gives another detector.

    Attributes
    ----------
    system : System
        What is known: the classes, their rates, the families of their curves.
    between_alarms : float
        Mean number of departures between false alarms (the false-alarm interval), of all classes.
    departures : int
        Departures seen.
    time : float
        How long it took.
    dispersion : str
        ``"estimated"``: thresholds allow for sizes that vary more than exponential ones, where windows have
        strata and so tell jobs apart; ``"exponential"``: they do not.

    Examples
    --------
    >>> import corewise as cw
    >>> system = cw.load_system("paper:1")
    >>> slower = system.with_curves({"two": cw.Amdahl(0.5)})
    >>> before = cw.simulate(system, "equi", departures=5_000, rng=7).statistics
    >>> after = cw.simulate(slower, "equi", departures=5_000, rng=8).statistics
    >>> detector = cw.ChangeDetector(system, between_alarms=1e6)
    >>> detector, alarms = detector.observe(before)
    >>> alarms
    ()
    >>> detector, alarms = detector.observe(after)
    >>> [alarm.name for alarm in alarms]
    ['two']
    """

    _shown = ("between_alarms", "departures", "time")

    system: System
    between_alarms: float
    departures: int = 0
    time: float = 0.0
    dispersion: str = ESTIMATED
    _detectors: tuple[ClassDetector, ...] = ()
    _coming: Buckets = field(default_factory=lambda: Buckets.empty(0))
    _moved: tuple[bool, ...] = ()
    _min_checks_before: int = 0

    def __post_init__(self) -> None:
        require_system(self.system)
        between = checks.positive(self.between_alarms, "between_alarms")
        object.__setattr__(self, "between_alarms", between)
        if self.dispersion not in (ESTIMATED, EXPONENTIAL):
            known = f"{ESTIMATED!r} or {EXPONENTIAL!r}"
            raise InvalidInput(f"dispersion must be {known}, got {self.dispersion!r}")
        if not self._detectors:
            classes = self.system.classes
            object.__setattr__(
                self, "_detectors", tuple(ClassDetector.of(known, self._nodes) for known in classes)
            )
            object.__setattr__(self, "_coming", Buckets.empty(TABLE + len(classes)))
            object.__setattr__(self, "_moved", (False,) * len(classes))

    @property
    def _nodes(self) -> Floats:
        return grid_of(self.system.cores)

    def observe(self, window: Statistics) -> tuple[ChangeDetector, tuple[Alarm, ...]]:
        """Return the detector after one more window, and the changes found at its end."""
        require_statistics(window, self.system.names)
        window = window.capped(self.system)
        seen = window.departures
        if seen == 0:
            raise InvalidInput("a window without departures says nothing about a change")
        now = Check(seen, window.time, self.departures + seen, self.time + window.time, len(self._detectors))
        detectors: list[ClassDetector] = []
        alarms: list[Alarm] = []
        strata = (self.dispersion == ESTIMATED and window.strata) or (None,) * len(window.classes)
        for before, table, jobs in zip(self._detectors, window.classes, strata, strict=True):
            thresholds = self._thresholds(seen, before.known.speedup)
            after, of_speed = before.observe(table, jobs, now, self._nodes, thresholds)
            detectors.append(after)
            alarms += of_speed
        coming, moved, of_arrivals = self._with_arrivals(window, now)
        min_checks = min_checks_after(int(coming.sizes.sum())) if of_arrivals else self._min_checks_before
        detector = ChangeDetector(
            self.system,
            self.between_alarms,
            now.departures,
            now.time,
            self.dispersion,
            tuple(detectors),
            coming,
            moved,
            min_checks,
        )
        return detector, (*alarms, *of_arrivals)

    def _thresholds(self, every: int, curve: SpeedUp) -> dict[str, float]:
        """Return the thresholds for changes of the speed of a class."""
        count = max(len(curve.bounds), 1)
        return {
            "curve": self._threshold("curve", every, count),
            "size rate": self._threshold("size rate", every),
        }

    def _threshold(self, test: str, every: int, parameters: int = 1) -> float:
        """Return the threshold of a test that each class has."""
        between = max(self.between_alarms / every, LEAST_CHECKS) * len(self._detectors)
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
        _kernels.two_rates_each(coming.sizes, coming.rows, TIME, self._min_checks_before, ratios)
        critical_value = self._threshold("arrival rate", window.departures)
        if ratios.max() < critical_value:
            return coming, self._moved, []
        latest, moved, alarms = 0, list(self._moved), []
        for i in np.flatnonzero(ratios.max(axis=1) >= critical_value).tolist():
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
                    threshold=critical_value,
                    between=now.between(statistic, "arrival rate", 1),
                    **place_of(coming.rows, ratios[i], now),
                )
            )
            moved[i], latest = True, max(latest, split)
        return coming.since(latest), tuple(moved), alarms

    def statistics(self) -> Statistics:
        """Return the statistics to estimate from: of each class those since it last changed.

        Arrivals and time are those since the last change of any arrival rate.
        """
        if not len(self._coming):
            raise InvalidInput("nothing has been seen yet")
        _, time, *came = self._coming.rows.sum(axis=0).tolist()
        tables = [
            class_detector.table(self._nodes, round(count))
            for class_detector, count in zip(self._detectors, came, strict=True)
        ]
        pairs = zip(self._detectors, tables, strict=True)
        strata = tuple(class_detector.strata_of(table) for class_detector, table in pairs)
        told = any(kept is not None for kept in strata)
        return Statistics(tuple(self.system.names), time, tuple(tables), strata if told else None)

    def known(self, system: System) -> System:
        """Return a system with the arrival and size rates as they are now believed to be.

        A class in which nobody arrived since its rate changed has that of half an arrival. Where a rate was
        never known, the one that `system` has stays: it is estimated from `statistics`.
        """
        _, time, *came = self._coming.rows.sum(axis=0).tolist()
        classes = []
        for job_class, given, class_detector, moved, count in zip(
            system.classes, self.system.classes, self._detectors, self._moved, came, strict=True
        ):
            arrival_rate = believed_rate(count, time) if moved else given.arrival_rate
            classes.append(
                replace(
                    job_class,
                    arrival_rate=arrival_rate or job_class.arrival_rate,
                    size_rate=self._size_rate(job_class, given, class_detector),
                )
            )
        return system if tuple(classes) == system.classes else system.with_classes(classes, system.changes)

    def _size_rate(self, job_class: JobClass, given: JobClass, class_detector: ClassDetector) -> float | None:
        """Return the size rate to make a policy for, in whose units job-time may be measured."""
        if given.size_rate is not None:
            return class_detector.size_rate(self._nodes)
        return job_class.size_rate and job_class.size_rate * class_detector.size_rate_factor

    # --- to go on later ---------------------------------------------------------------------------

    @property
    def state(self) -> dict[str, NDArray[Any]]:
        """The checkpoint of the detector: all that it has seen, as named arrays."""
        arrays: dict[str, NDArray[Any]] = {
            "seen": np.array([self.departures, self.time]),
            "arrivals.sizes": self._coming.sizes,
            "arrivals.rows": self._coming.rows,
            "moved": np.array(self._moved),
            "quiet": np.array(self._min_checks_before),
        }
        for i, class_detector in enumerate(self._detectors):
            arrays |= {f"{i}.{name}": array for name, array in state_of(class_detector).items()}
        return arrays

    def of_state(self, arrays: Mapping[str, NDArray[Any]]) -> ChangeDetector:
        """Return the detector that goes on from a checkpoint, the `state` of one like this."""
        departures, time = arrays["seen"].tolist()
        detectors = []
        for i, class_detector in enumerate(self._detectors):
            own = f"{i}."
            mine = {name.removeprefix(own): array for name, array in arrays.items() if name.startswith(own)}
            detectors.append(detector_of(class_detector, mine, self._nodes))
        return ChangeDetector(
            self.system,
            self.between_alarms,
            int(departures),
            time,
            self.dispersion,
            tuple(detectors),
            Buckets(arrays["arrivals.sizes"], arrays["arrivals.rows"]),
            tuple(arrays["moved"].tolist()),
            int(arrays["quiet"]),
        )


@dataclass(frozen=True)
class Cusum:
    """Page's CUSUM test against a change that is known beforehand: the quickest there is, and the yardstick.

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
        The threshold: an alarm is raised when the statistic reaches it.
    level : float, optional
        The CUSUM statistic so far.
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
        """Return the CUSUM after one more stretch; an alarm can be raised between stretches only."""
        held = table.widths > 0.0
        before, after = (curve.rate(table.widths[held]) for curve in (self.before, self.after))
        gain = table.departures[held] @ np.log(after / before)
        gain -= self.size_rate * (table.job_time[held] @ (after - before))
        return replace(self, level=max(0.0, self.level) + float(gain))
