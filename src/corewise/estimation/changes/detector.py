r"""Sequential change detection: of a class's curve, of its size rate, of its arrival rate.

The statistics of a class since it last changed lie in buckets (`corewise.estimation.changes.buckets`). At
every check each of their edges is tried as a change point: how much more likely are the data if the
parameters θ before and after it may differ,

    G(τ) = max_θ ℓ_before(θ) + max_θ ℓ_after(θ) − max_θ ℓ(θ),

the generalised likelihood ratio. An alarm is raised when the largest exceeds a threshold. At most checks
nothing is near it, and a quadratic model of ℓ at the last estimate, which takes one pass over the buckets,
shows so; where it does not, the likelihoods are maximised.

*Alarms are early, forgetting is late.* A false alarm costs little; to drop the statistics of a million
departures for one costs much; and where there is a change, a few more checks confirm it. So a change is
*tentative* at first, and estimates include the statistics from before it, until G exceeds the threshold by 3,
20 times as rare by chance: then it is *confirmed*, and its class, no other, drops them. If G falls short of
the threshold by 3 instead, the alarm is *retracted*, and all is as before. The data between a tentative
change and its alarm were selected for differing from those before; if they differ at random, the data that
follow differ from them. So another change must have come after the alarm, and explain more than the tentative
one.

*The threshold.* Where nothing changes, G is as for normal variables, whatever the curves and the policy; and
the mean number of checks between false alarms is, for θ with P components,

    log N = h − (P/2) log h + c_P.

The first two terms are those of Siegmund and Venkatraman, *Using the generalized likelihood ratio statistic
for sequential detection of a change-point* (Annals of Statistics 23, 1995); c_P depends on the buckets, and
was found by simulating them (`benchmarks/change.py`). False alarms are shared out over the classes, and
within a class over what may change in it, most for the curve.

*Sizes that vary more than exponential ones* make likelihood ratios larger by chance, and skew. Thresholds are
as many times as high, and the skewness is taken out, see `corewise.estimation.changes.dispersion`.

*Attribution.* A class that is served faster may have another curve or another size rate. The change is
attributed to the one whose log-likelihood of the data since leads by 3; until then it is one of *speed*. Once
it was the size rate beyond doubt (a lead of 12), the statistics from before the change are used again, and
job-time is measured in the new rate from then on.

*Unknown size rates.* Where μ is not known, the curve that is followed is the product of both, with one
parameter more (`corewise.estimation.changes.fits`). A change of it is one of *speed* until its shape says
that it was the curve.

*Drift.* A parameter that creeps is never far from where it was, and no jump may ever be found. So estimates
from windows of 2, 4, 8, … checks are kept beside the one from all data since the last change; each predicts
the next check, and when one of them has predicted better than the one in force, by more in log-likelihood
than a jump accounts for, it takes over. The same rule leads back. While a class drifts, alarms in it remain
changes of speed.
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
    DetectorCheck,
    place_of,
    run_length,
    threshold,
)
from corewise.estimation.changes.buckets import TABLE, TIME, Buckets, grid_of
from corewise.estimation.changes.class_detector import ClassDetector, min_checks_after
from corewise.estimation.quantities import plug_in_rate
from corewise.kit import checks
from corewise.kit.frozen import FrozenMapping
from corewise.kit.report import Summarised
from corewise.model.job_class import JobClass
from corewise.model.speedup import SpeedUp
from corewise.model.system import System, require_system
from corewise.observation.statistics import Statistics, require_statistics

__all__ = ["LEAST_CHECKS", "Alarm", "ChangeDetector", "run_length", "threshold"]

ESTIMATED, EXPONENTIAL = "estimated", "exponential"

LEAST_CHECKS = 100
"""Lower bound of the mean number of checks between false alarms, however few departures that would be."""


@dataclass(frozen=True, eq=False, repr=False)
class ChangeDetector(Summarised):
    """Detector of change points in all classes of a system, by generalised likelihood ratios.

    It is a value: a further check returns another detector.

    Attributes
    ----------
    system : System
        The classes, with the rates that are known and the families of their curves.
    between_alarms : float
        Mean number of departures between false alarms (the false-alarm interval), of all classes.
    departures : int
        Departures seen.
    time : float
        Time observed.
    dispersion : str
        ``"estimated"``: thresholds allow for sizes that vary more than exponential ones, where windows have
        strata of single jobs; ``"exponential"``: they do not.

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

    _repr_fields = ("between_alarms", "departures", "time")

    system: System
    between_alarms: float
    departures: int = 0
    time: float = 0.0
    dispersion: str = ESTIMATED
    _detectors: tuple[ClassDetector, ...] = ()
    _arrivals: Buckets = field(default_factory=lambda: Buckets.empty(0))
    _shifted: tuple[bool, ...] = ()
    _min_checks_before: int = 0

    def __post_init__(self) -> None:
        require_system(self.system)
        between = checks.positive(self.between_alarms, "between_alarms")
        object.__setattr__(self, "between_alarms", between)
        if self.dispersion not in (ESTIMATED, EXPONENTIAL):
            known = f"{ESTIMATED!r} or {EXPONENTIAL!r}"
            raise InvalidInput(f"dispersion must be {known}, got {self.dispersion!r}")
        if not self._detectors:
            classes, nodes = self.system.classes, grid_of(self.system.cores)
            object.__setattr__(self, "_detectors", tuple(ClassDetector.of(known, nodes) for known in classes))
            object.__setattr__(self, "_arrivals", Buckets.empty(TABLE + len(classes)))
            object.__setattr__(self, "_shifted", (False,) * len(classes))

    def observe(self, window: Statistics) -> tuple[ChangeDetector, tuple[Alarm, ...]]:
        """Return the detector after one more window, and the changes found at its end."""
        require_statistics(window, self.system.names)
        window = window.capped(self.system)
        seen = window.departures
        if seen == 0:
            raise InvalidInput("a window without departures says nothing about a change")
        now = DetectorCheck(
            seen, window.time, self.departures + seen, self.time + window.time, len(self._detectors)
        )
        detectors: list[ClassDetector] = []
        alarms: list[Alarm] = []
        strata = (self.dispersion == ESTIMATED and window.strata) or (None,) * len(window.classes)
        for before, table, jobs in zip(self._detectors, window.classes, strata, strict=True):
            thresholds = self._thresholds(seen, before.known.speedup)
            after, of_speed = before.observe(table, jobs, now, thresholds)
            detectors.append(after)
            alarms += of_speed
        arrivals, shifted, of_arrivals = self._with_arrivals(window, now)
        detector = replace(
            self,
            departures=now.departures,
            time=now.time,
            _detectors=tuple(detectors),
            _arrivals=arrivals,
            _shifted=shifted,
            _min_checks_before=(
                min_checks_after(int(arrivals.sizes.sum())) if of_arrivals else self._min_checks_before
            ),
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

    def _with_arrivals(
        self, window: Statistics, now: DetectorCheck
    ) -> tuple[Buckets, tuple[bool, ...], list[Alarm]]:
        """Return the arrivals with one more check, which arrival rates have ever changed, and the alarms.

        After a change of one rate the arrivals of all classes are kept from then on only.
        """
        counts = [float(table.arrivals) for table in window.classes]
        arrivals = self._arrivals.with_row(np.array([now.seen, now.lasted, *counts]))
        if len(arrivals) < 2:
            return arrivals, self._shifted, []
        ratios = np.empty((len(counts), len(arrivals) - 1))
        _kernels.two_rates_each(arrivals.sizes, arrivals.rows, TIME, self._min_checks_before, ratios)
        critical_value = self._threshold("arrival rate", window.departures)
        if ratios.max() < critical_value:
            return arrivals, self._shifted, []
        latest, shifted, alarms = 0, list(self._shifted), []
        for i in np.flatnonzero(ratios.max(axis=1) >= critical_value).tolist():
            split = int(np.argmax(ratios[i])) + 1
            statistic = float(ratios[i].max())
            sides = [part.sum(axis=0) for part in (arrivals.rows[:split], arrivals.rows[split:])]
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
                    **place_of(arrivals.rows, ratios[i], now),
                )
            )
            shifted[i], latest = True, max(latest, split)
        return arrivals.since(latest), tuple(shifted), alarms

    def statistics(self) -> Statistics:
        """Return the statistics to estimate from: of each class those since it last changed.

        Arrivals and time are those since the last change of any arrival rate.
        """
        if not len(self._arrivals):
            raise InvalidInput("nothing has been seen yet")
        _, time, *counts = self._arrivals.rows.sum(axis=0).tolist()
        tables = [
            class_detector.table(round(count))
            for class_detector, count in zip(self._detectors, counts, strict=True)
        ]
        pairs = zip(self._detectors, tables, strict=True)
        strata = tuple(class_detector.strata_of(table) for class_detector, table in pairs)
        stratified = any(jobs is not None for jobs in strata)
        return Statistics(tuple(self.system.names), time, tuple(tables), strata if stratified else None)

    def known(self, system: System) -> System:
        """Return a system with the plug-in arrival and size rates.

        A class without arrivals since its rate changed has the rate of half an arrival. A rate that was never
        known stays as in `system`: it is estimated from `statistics`.
        """
        _, time, *counts = self._arrivals.rows.sum(axis=0).tolist()
        classes = []
        for job_class, given, class_detector, shifted, count in zip(
            system.classes, self.system.classes, self._detectors, self._shifted, counts, strict=True
        ):
            arrival_rate = plug_in_rate(count, time) if shifted else given.arrival_rate
            classes.append(
                replace(
                    job_class,
                    arrival_rate=arrival_rate or job_class.arrival_rate,
                    size_rate=self._size_rate(job_class, given, class_detector),
                )
            )
        return system if tuple(classes) == system.classes else system.with_classes(classes, system.changes)

    def _size_rate(self, job_class: JobClass, given: JobClass, class_detector: ClassDetector) -> float | None:
        """Return the plug-in size rate of a class."""
        if given.size_rate is not None:
            return class_detector.size_rate
        return job_class.size_rate and job_class.size_rate * class_detector.size_rate_factor

    # --- checkpoints ------------------------------------------------------------------------------

    @property
    def state(self) -> dict[str, NDArray[Any]]:
        """The checkpoint of the detector, as named arrays."""
        arrays: dict[str, NDArray[Any]] = {
            "seen": np.array([self.departures, self.time]),
            "arrivals.sizes": self._arrivals.sizes,
            "arrivals.rows": self._arrivals.rows,
            "moved": np.array(self._shifted),
            "quiet": np.array(self._min_checks_before),
        }
        for i, class_detector in enumerate(self._detectors):
            arrays |= {f"{i}.{name}": array for name, array in class_detector.state.items()}
        return arrays

    def of_state(self, arrays: Mapping[str, NDArray[Any]]) -> ChangeDetector:
        """Return the detector of a checkpoint, the `state` of one for the same system."""
        departures, time = arrays["seen"].tolist()
        detectors = []
        for i, class_detector in enumerate(self._detectors):
            own = f"{i}."
            mine = {name.removeprefix(own): array for name, array in arrays.items() if name.startswith(own)}
            detectors.append(class_detector.of_state(mine))
        return replace(
            self,
            departures=int(departures),
            time=time,
            _detectors=tuple(detectors),
            _arrivals=Buckets(arrays["arrivals.sizes"], arrays["arrivals.rows"]),
            _shifted=tuple(arrays["moved"].tolist()),
            _min_checks_before=int(arrays["quiet"]),
        )
