"""Change detector of one class; see `corewise.estimation.changes.detector` for the mathematics.

At a check the statistics of the window join the buckets. A tentative change is confirmed or retracted; else
all edges of the buckets are scanned for a jump, and the windows that follow drift are compared. A change that
is not closed is attributed to the curve or to the size rate as soon as the data say which.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from corewise.estimation.changes import _kernels
from corewise.estimation.changes.alarms import RETRACTED, Alarm, DetectorCheck, place_of
from corewise.estimation.changes.buckets import (
    SCORES,
    TABLE,
    Buckets,
    columns_of,
    rescaled,
    rescaled_scores,
    row_length,
    row_of,
    table_of,
    with_scores,
)
from corewise.estimation.changes.dispersion import Dispersion, job_scores, skewness_factors
from corewise.estimation.changes.fits import (
    DepartureRate,
    expected_departures,
    fitted,
    ratio_of_rates,
    shape_and_rate,
)
from corewise.estimation.likelihood import curve_of, parameters_of
from corewise.estimation.quantities import plug_in_rate
from corewise.kit.arrays import Floats, Ints
from corewise.kit.frozen import FrozenMapping
from corewise.model.job_class import JobClass
from corewise.model.speedup import SpeedUp
from corewise.observation.statistics import ClassStatistics
from corewise.observation.strata.tables import Strata

__all__ = ["ClassDetector", "PendingChange", "min_checks_after"]

_CONFIRMATION = 3.0
"""Lead over the threshold at which a change is confirmed, and shortfall at which it is retracted."""

_NEAR = 0.5
"""If the quadratic model of a split reaches this part of the threshold, G is computed, and corrected."""

_FIRST_SPLITS = 4
"""Number of splits for which G is computed at first; for all if one of them exceeds the threshold."""

_ATTRIBUTION = 3.0
"""Lead in log-likelihood at which a change is attributed; it is wrong once in e³ = 20 times."""

_CLOSURE = 12.0
"""Lead in log-likelihood at which an attribution is final."""

_RESUMED = 20
"""Departures after which a class without departures has a size rate again, however low."""

_AS_BEFORE = 2.0
"""Standard errors within which the size rate after a stall is taken to be the one before it."""

_MIN_RATE = 1e-3
"""Lower bound of the size rate of a stalled class, relative to the one before: below it no split changes."""

WINDOW_LENGTHS = 2 ** np.arange(1, 13)
"""Lengths of the windows that follow drift, in checks."""

_TAKE_OVER = 1.5
"""Lead at which a window takes over, in thresholds: before a jump is found, windows lead by about one."""

_NEWTON = 0.25
"""The reference moves by a Newton step if that raises ℓ by less than half of this, else it is refitted."""

_COVERAGE = 0.9
"""Part of the departures to estimate from that strata must cover, to be used instead."""

_KINDS = ("speed", "curve", "size rate")
"""Kinds of a change of speed, by their number in checkpoints."""

_PENDING = "pending"
"""In checkpoints of earlier versions: the row from before a change that is not confirmed."""


@dataclass(frozen=True, eq=False)
class PendingChange:
    """Change of speed that is tentative or not finally attributed, and the statistics from before it.

    Attributes
    ----------
    alarm : Alarm
        The last alarm raised for it.
    curve : SpeedUp
        The curve before it.
    row : ndarray
        The statistics from before it.
    checks : int
        Number of checks in that row.
    checks_since : int
        Number of checks between the change and its alarm.
    confirmed : bool
        Whether it is confirmed. A tentative change leaves the statistics from before it in use.
    strata : Strata or None
        Strata of single jobs at the time of the alarm, while it is tentative.
    """

    alarm: Alarm
    curve: SpeedUp
    row: Floats
    checks: int
    checks_since: int
    confirmed: bool = False
    strata: Strata | None = None

    @property
    def stalled(self) -> bool:
        """Whether no job has departed since, though many were due."""
        return self.alarm.kind == "size rate" and self.alarm.after["size_rate"] == 0.0


class ChangeEvidence(NamedTuple):
    """Evidence for a tentative change.

    Attributes
    ----------
    lead : float
        Likelihood ratio minus its threshold, on the scale of exponential sizes.
    without, after : SpeedUp
        The curve if there was no change, and the curve after it if there was.
    """

    lead: float
    without: SpeedUp
    after: SpeedUp


class Scan(NamedTuple):
    """Likelihood ratios at all edges of the buckets, and the state of the drift windows.

    The fields are those that `corewise.estimation.changes._kernels.scan` writes and returns.
    """

    by_curve: Floats
    by_size: Floats
    window_leads: Floats
    steps: Floats
    max_by_curve: float
    max_by_size: float
    square: float

    def near(self, thresholds: Mapping[str, float]) -> bool:
        """Return whether some ratio comes near its threshold."""
        most = {"size rate": self.max_by_size, "curve": self.max_by_curve}
        return any(most[test] >= _NEAR * threshold for test, threshold in thresholds.items())


class Jump(NamedTuple):
    """Jump of the speed of a class: the test that found it, and its ratios for a change after each bucket."""

    test: str
    ratios: Floats


@dataclass(frozen=True, eq=False)
class ClassDetector:
    """Change detector of one class: statistics in buckets, the reference curve, and a pending change.

    Attributes
    ----------
    known : JobClass
        The class, with the assumed size rate; one, if it is unknown and so a part of the curve, see
        `DepartureRate`.
    nodes : ndarray
        The grid of widths.
    curve : SpeedUp
        The reference: the latest estimate.
    buckets : Buckets
        Statistics since the last change.
    offsets : ndarray
        Estimate of each window minus the reference.
    window_index : int
        The window the estimate is from: 0 for all since the last change, j for the j-th of `WINDOW_LENGTHS`.
    window_leads : ndarray
        Log-likelihood of the predictions of each window, minus that of the window in force.
    size_rate_factor : float
        The estimated size rate over the assumed one.
    min_checks_before : int
        Minimum number of checks before a change point: splits with fewer before them are not tried.
    pending : PendingChange or None
        A change that is tentative or not finally attributed. While it is tentative, estimates include the
        statistics from before it, and another change must have come after its alarm.
    dispersion : Dispersion
        Variance of the scores relative to exponential sizes.
    strata : Strata or None
        Strata of single jobs since the last alarm, where windows have them.
    """

    known: JobClass
    nodes: Floats
    curve: SpeedUp
    buckets: Buckets
    offsets: Floats
    window_index: int = 0
    window_leads: Floats = field(default_factory=lambda: np.zeros(WINDOW_LENGTHS.size + 1))
    size_rate_factor: float = 1.0
    min_checks_before: int = 0
    pending: PendingChange | None = None
    dispersion: Dispersion = field(default_factory=Dispersion.unknown)
    strata: Strata | None = None

    @classmethod
    def of(cls, known: JobClass, nodes: Floats) -> ClassDetector:
        """Return a detector without data."""
        if known.size_rate is None:
            known = replace(known, size_rate=1.0, speedup=DepartureRate(known.speedup))
        offsets = np.empty((0, len(known.speedup.bounds)))
        return cls(known, nodes, known.speedup, Buckets.empty(row_length(nodes)), offsets)

    # --- a check ----------------------------------------------------------------------------------

    def observe(
        self,
        table: ClassStatistics,
        strata: Strata | None,
        now: DetectorCheck,
        exponential: Mapping[str, float],
    ) -> tuple[ClassDetector, list[Alarm]]:
        """Return the detector after one more check, and the alarms raised at it.

        `exponential` are the thresholds for exponential sizes.
        """
        detector, scores = self._with_strata(table, strata)
        row = row_of(table, now.seen, now.lasted, scores, self.nodes, self.size_rate_factor)
        detector = replace(detector, buckets=self.buckets.with_row(row))
        thresholds = {test: factor * exponential[test] for test, factor in detector._factors.items()}
        return detector._checked(now, thresholds)

    def _with_strata(self, table: ClassStatistics, strata: Strata | None) -> tuple[ClassDetector, Floats]:
        """Return the detector with the strata of a window, and the scores of its single jobs."""
        shape, rate = shape_and_rate(self.curve)
        unit = self.size_rate_factor * self.known.known_size_rate
        rate *= unit
        if strata is None or strata.family != shape.family:
            return replace(self, strata=None), np.zeros(SCORES)
        scores = job_scores(strata, shape, rate)
        detector = replace(
            self,
            dispersion=self.dispersion.observe(table, scores, shape, rate),
            strata=strata if self.strata is None else self.strata + strata,
        )
        return detector, rescaled_scores(scores, unit / rate)

    def _checked(
        self, now: DetectorCheck, thresholds: Mapping[str, float]
    ) -> tuple[ClassDetector, list[Alarm]]:
        """Return the detector after the tests of a check, and the alarms."""
        tentative = self._tentative
        if tentative is not None:
            evidence = self._evidence(tentative, thresholds)
            if evidence.lead >= _CONFIRMATION:
                return self._confirmed(tentative, evidence)._attributed(now)
            if evidence.lead <= -_CONFIRMATION:
                return self._retracted(tentative, evidence, now)
            thresholds = {
                test: height + max(evidence.lead, 0.0) * self._factors[test]
                for test, height in thresholds.items()
            }
        scan = self._scan()
        jump = self._jump(scan, thresholds) if scan.near(thresholds) else None
        if jump is not None:
            detector, alarm = self._alarm(now, jump, thresholds)
            return detector, [alarm]
        leads = scan.window_leads if tentative is None else self.window_leads  # a jump is no drift
        window_index, window_leads = self._best_window(leads, thresholds["curve"])
        curve, offsets = self._estimate(scan, window_index)
        detector = replace(
            self,
            curve=curve,
            offsets=offsets,
            window_index=window_index,
            window_leads=window_leads,
            pending=self.pending if window_index == 0 else None,  # drift is no single change to attribute
        )
        return detector._attributed(now)

    @property
    def _factors(self) -> dict[str, float]:
        """Factors of the thresholds: dispersion of the likelihood ratios relative to exponential sizes."""
        return {"curve": self.dispersion.of_curve, "size rate": self.dispersion.of_size_rate}

    @property
    def _tentative(self) -> PendingChange | None:
        """The last change, if it is not confirmed: the statistics from before it are still in use."""
        return None if self.pending is None or self.pending.confirmed else self.pending

    @cached_property
    def _in_use(self) -> Buckets:
        """Buckets in use: those since the last change, after one from before it while it is tentative."""
        change = self._tentative
        return self.buckets if change is None else self.buckets.after(change.checks, change.row)

    @property
    def _min_checks(self) -> int:
        """Minimum number of checks in use before a change point.

        The checks between a tentative change and its alarm are those that made the alarm. Only a change after
        them is another one.
        """
        change = self._tentative
        return self.min_checks_before if change is None else change.checks + change.checks_since

    def _fitted(self, row: Floats) -> tuple[SpeedUp, float]:
        """Return the most likely curve of a row and its log-likelihood."""
        return fitted(self.curve, self.known.known_size_rate, row, self.nodes)

    # --- jumps ------------------------------------------------------------------------------------

    def _scan(self) -> Scan:
        """Return the scan of the buckets in use."""
        buckets = self._in_use
        rate = self.curve.rate_above(self.nodes)  # no node is below one core
        ratio = self.curve.gradient_above(self.nodes) / rate[:, None]
        by_curve, by_size = np.zeros((2, len(buckets) - 1))
        window_leads = self.window_leads.copy()
        steps = np.empty((WINDOW_LENGTHS.size + 1, ratio.shape[1]))
        most = _kernels.scan(
            buckets.sizes,
            buckets.rows,
            TABLE,
            self.known.known_size_rate * rate,
            ratio,
            WINDOW_LENGTHS,
            self.offsets,
            window_leads,
            self.window_index,
            self._min_checks,
            by_curve,
            by_size,
            steps,
        )
        return Scan(by_curve, by_size, window_leads, steps, *most)

    def _jump(self, scan: Scan, thresholds: Mapping[str, float]) -> Jump | None:
        """Return the jump in the buckets in use, if a ratio exceeds its threshold where a change may be."""
        allowed = np.cumsum(self._in_use.sizes)[:-1] >= self._min_checks
        by_curve, by_size = np.where(allowed, self._skewness(self._in_use), np.inf)
        found = {"size rate": scan.by_size / by_size}
        if scan.max_by_curve >= _NEAR * thresholds["curve"]:
            found["curve"] = self._curve_ratios(scan.by_curve / by_curve, by_curve, thresholds["curve"])
        exceeding = {test: ratios for test, ratios in found.items() if ratios.max() >= thresholds[test]}
        if not exceeding:
            return None
        test = max(exceeding, key=lambda kind: float(exceeding[kind].max()))
        return Jump(test, exceeding[test])

    def _skewness(self, buckets: Buckets) -> Floats:
        """Return the divisors of ratios of a change after each bucket, of curve and size rate: (2, …)."""
        factors = np.array(list(self._factors.values()))
        if not np.any(factors > 1.0):
            return np.ones((2, len(buckets) - 1))
        upto = np.cumsum(buckets.rows, axis=0)
        sides = np.stack([upto[:-1], upto[-1] - upto[:-1]])
        shape, unit = shape_and_rate(self.curve)
        rate = self.known.known_size_rate * self.curve.rate_above(self.nodes)
        ratio = shape.gradient_above(self.nodes)[:, 0] / shape.rate_above(self.nodes)
        return skewness_factors(sides, factors, self.nodes, rate, ratio, unit).T

    def _curve_ratios(self, model: Floats, skewness: Floats, threshold: float) -> Floats:
        """Return G for a change of the curve after each bucket, or zeros if all are below the threshold.

        Curves with several parameters take long to fit: G is computed where the quadratic model is largest,
        and the model is scaled to it elsewhere.
        """
        several = len(self.curve.bounds) > 1
        best = np.argsort(-model, kind="stable")[: 1 if several else _FIRST_SPLITS]
        best = best[model[best] > 0.0]
        highest = float((self._exact_ratios(best) / skewness[best]).max(initial=0.0))
        if highest < threshold:
            return np.zeros(model.size)
        if several:
            return np.asarray(model * (highest / model.max()))
        return np.asarray(self._exact_ratios(np.arange(model.size)) / skewness)

    def _exact_ratios(self, splits: Ints) -> Floats:
        """Return G for changes of the curve after these buckets."""
        upto = np.cumsum(self._in_use.rows, axis=0)

        def most(row: Floats) -> float:
            return self._fitted(row)[1]

        one = most(upto[-1])
        return np.array([most(upto[k]) + most(upto[-1] - upto[k]) - one for k in splits.tolist()])

    def _alarm(
        self, now: DetectorCheck, jump: Jump, thresholds: Mapping[str, float]
    ) -> tuple[ClassDetector, Alarm]:
        """Raise an alarm at the most likely change point; return the detector after it, and the alarm.

        The change point is after the bucket where the ratio is largest.
        """
        (test, ratios), buckets = jump, self._in_use
        factor, split = self._factors[test], int(np.argmax(ratios)) + 1
        before = buckets.rows[:split].sum(axis=0)
        old, _ = self._fitted(before)
        rest = buckets.since(split)
        new, _ = self._fitted(rest.rows.sum(axis=0))
        place = place_of(buckets.rows, ratios / factor, now)
        statistic = float(ratios.max()) / factor
        alarm = Alarm(
            name=self.known.name,
            kind="speed",
            raised=now.departures,
            before=FrozenMapping(old.parameters),
            after=FrozenMapping(new.parameters),
            statistic=statistic,
            threshold=thresholds[test] / factor,
            between=now.between(statistic, test, len(self.curve.bounds)),
            **place,
        )
        if self.pending is not None and self.pending.stalled and self.pending.confirmed:
            return self._resumed(self.pending, alarm, before, rest)
        checks, checks_since = int(buckets.sizes[:split].sum()), int(rest.sizes.sum())
        change = PendingChange(alarm, old, before, checks, checks_since, strata=self._strata_in_use)
        detector = replace(self, buckets=rest, pending=change, strata=None)
        if self.window_index:
            return detector._since(checks_since, new), alarm
        evidence = detector._evidence(change, thresholds)
        if evidence.lead >= _CONFIRMATION:
            detector = detector._confirmed(change, evidence)
        detector, alarms = detector._attributed(now)
        return detector, alarms[0] if alarms else alarm

    def _since(self, checks_since: int, curve: SpeedUp) -> ClassDetector:
        """Return the detector that uses the statistics since the last change alone.

        `checks_since` of its checks made the alarm.
        """
        return replace(
            self,
            curve=curve,
            offsets=self.offsets[:0],
            min_checks_before=min_checks_after(checks_since),
            pending=None,
        )

    # --- confirmation -----------------------------------------------------------------------------

    def _evidence(self, change: PendingChange, thresholds: Mapping[str, float]) -> ChangeEvidence:
        """Return the evidence for a tentative change at this check."""
        before, after = change.row, self.buckets.rows.sum(axis=0)
        curve, whole = self._fitted(before + after)
        new, of_new = self._fitted(after)
        found = {
            "curve": self._fitted(before)[1] + of_new - whole,
            "size rate": ratio_of_rates(before, after, curve.rate(self.nodes), self.nodes),
        }
        both = Buckets(np.ones(2, dtype=np.int64), np.stack([before, after]))
        skewness = self._skewness(both)[:, 0].tolist()
        tests = zip(self._factors.items(), skewness, strict=True)
        leads = [(found[test] / divisor - thresholds[test]) / factor for (test, factor), divisor in tests]
        return ChangeEvidence(max(leads), curve, new)

    def _confirmed(self, change: PendingChange, evidence: ChangeEvidence) -> ClassDetector:
        """Return the detector after a change is confirmed: statistics from before it are dropped."""
        return replace(
            self._since(change.checks_since, evidence.after),
            pending=replace(change, confirmed=True, strata=None),
        )

    def _retracted(
        self, change: PendingChange, evidence: ChangeEvidence, now: DetectorCheck
    ) -> tuple[ClassDetector, list[Alarm]]:
        """Return the detector after a tentative change is retracted, and the alarm that says so."""
        parameters = FrozenMapping(evidence.without.parameters)
        alarm = replace(
            change.alarm, kind=RETRACTED, raised=now.departures, before=parameters, after=parameters
        )
        detector = replace(
            self,
            curve=evidence.without,
            offsets=self.offsets[:0],
            buckets=self.buckets.after(max(change.checks, int(self.buckets.sizes[0])), change.row),
            strata=self._strata_in_use,
            pending=None,
        )
        return detector, [alarm]

    # --- attribution ------------------------------------------------------------------------------

    def _attributed(self, now: DetectorCheck) -> tuple[ClassDetector, list[Alarm]]:
        """Return the detector, and an alarm that attributes its pending change if that has become clear."""
        change = self.pending
        if change is None:
            return self, []
        row, size_rate = self.buckets.rows.sum(axis=0), self.known.known_size_rate
        departed, spent = columns_of(row, self.nodes)
        curve = self.curve if change.confirmed else self._fitted(row)[0]
        old, new = change.curve.rate(self.nodes), curve.rate(self.nodes)
        count, due = expected_departures(row, size_rate * old, self.nodes)
        if not due > 0.0 or (change.stalled and count < _RESUMED):
            return self, []
        factor = plug_in_rate(count, due)
        by_size = float(departed @ np.log(old)) + count * math.log(factor) - count
        by_curve = float(departed @ np.log(new)) - size_rate * float(spent @ new)
        lead = (by_size - by_curve) / max(self._factors.values()) if curve.bounds else math.inf
        kind = change.alarm.kind if abs(lead) < _ATTRIBUTION else "curve" if lead < 0.0 else "size rate"
        rates = [self.size_rate_factor * size_rate * part for part in (1.0, count / due)]
        sides = {
            "curve": (change.curve.parameters, curve.parameters),
            "size rate": ({"size_rate": rates[0]}, {"size_rate": rates[1]}),
        }
        alarm = change.alarm
        if kind != alarm.kind or change.stalled:
            before, after = (FrozenMapping(side) for side in sides[kind])
            alarm = replace(alarm, kind=kind, raised=now.departures, before=before, after=after)
        alarms = [] if alarm is change.alarm else [alarm]
        if change.confirmed and lead >= _CLOSURE and count > 0.0:
            return self._with_size_rate(change, factor), alarms
        closed = change.confirmed and lead <= -_CLOSURE
        return replace(self, pending=None if closed else replace(change, alarm=alarm)), alarms

    def _resumed(
        self, stall: PendingChange, alarm: Alarm, before: Floats, rest: Buckets
    ) -> tuple[ClassDetector, Alarm]:
        """Return the detector after departures have resumed, and the alarm that says so.

        They are compared with the statistics from before the stall, which are restored if the size rate is as
        it was then.
        """
        rate = self.known.known_size_rate * stall.curve.rate(self.nodes)
        count, due = expected_departures(rest.rows.sum(axis=0), rate, self.nodes)
        ceased, late = expected_departures(before, rate, self.nodes)
        if not (count > 0.0 and due > 0.0 and late > 0.0):
            return self, alarm
        size_rate = self.size_rate_factor * self.known.known_size_rate
        sides = [FrozenMapping({"size_rate": size_rate * part}) for part in (ceased / late, count / due)]
        alarm = replace(alarm, kind="size rate", before=sides[0], after=sides[1])
        change = replace(stall, alarm=alarm)
        since = self._since(int(rest.sizes.sum()), stall.curve)
        detector = replace(since, buckets=rest, pending=change, strata=None)
        as_before = abs(math.log(count / due)) <= _AS_BEFORE / math.sqrt(count)
        return detector._with_size_rate(change, 1.0) if as_before else detector, alarm

    def _with_size_rate(self, change: PendingChange, factor: float) -> ClassDetector:
        """Return the detector after a change of the size rate by a factor, with the statistics before it."""
        rest = Buckets(self.buckets.sizes, rescaled(self.buckets.rows, self.nodes, factor))
        return replace(
            self,
            curve=change.curve,
            buckets=rest.after(max(change.checks, int(rest.sizes[0])), change.row),
            offsets=self.offsets[:0],
            size_rate_factor=self.size_rate_factor * factor,
            min_checks_before=0,
            pending=None,
        )

    # --- drift ------------------------------------------------------------------------------------

    def _best_window(self, window_leads: Floats, threshold: float) -> tuple[int, Floats]:
        """Return the window to estimate from, and the lead of each."""
        best = int(window_leads.argmax())
        if window_leads[best] <= _TAKE_OVER * threshold:
            return self.window_index, window_leads
        return best, np.zeros(window_leads.size)

    def _estimate(self, scan: Scan, window_index: int) -> tuple[SpeedUp, Floats]:
        """Return the latest estimate, which is the next reference, and the offset of each window from it."""
        if not self.curve.bounds:
            return self.curve, self.offsets
        low, high = np.array(list(self.curve.bounds.values())).T
        estimates = np.minimum(np.maximum(parameters_of(self.curve) + scan.steps, low), high)
        if window_index == self.window_index and scan.square <= _NEWTON:
            return curve_of(self.curve, estimates[window_index]), estimates - estimates[window_index]
        curve, _ = self._fitted(self._window(window_index))
        return curve, estimates - parameters_of(curve)

    def _window(self, window_index: int) -> Floats:
        """Return the row of a window."""
        buckets = self._in_use
        if window_index == 0:
            return np.asarray(buckets.rows.sum(axis=0))
        ages = np.cumsum(buckets.sizes[::-1])
        last = int(np.searchsorted(ages, WINDOW_LENGTHS[window_index - 1]))
        return np.asarray(buckets.rows[max(ages.size - 1 - last, 0) :].sum(axis=0))

    # --- results ----------------------------------------------------------------------------------

    @property
    def size_rate(self) -> float:
        """The plug-in size rate."""
        size_rate = self.size_rate_factor * self.known.known_size_rate
        change = self.pending
        if change is None or not change.stalled:
            return size_rate
        rate = self.known.known_size_rate * change.curve.rate(self.nodes)
        count, due = expected_departures(self.buckets.rows.sum(axis=0), rate, self.nodes)
        return size_rate * max(plug_in_rate(count, due), _MIN_RATE)

    def table(self, arrivals: int) -> ClassStatistics:
        """Return the statistics to estimate from."""
        return table_of(self._window(self.window_index), self.nodes, arrivals)

    @property
    def _strata_in_use(self) -> Strata | None:
        """Strata of the single jobs in the buckets in use."""
        earlier = None if self._tentative is None else self._tentative.strata
        if earlier is not None and self.strata is not None:
            return earlier + self.strata
        return earlier or self.strata

    def strata_of(self, table: ClassStatistics) -> Strata | None:
        """Return the strata of single jobs, if they cover the statistics to estimate from.

        They do not for a while after a change, which is found later than it happened; nor are they in units
        of a size rate that has changed.
        """
        strata = self._strata_in_use
        if strata is None or self.window_index or self.size_rate_factor != 1.0:
            return None
        return strata if strata.departures >= _COVERAGE * table.left else None

    # --- checkpoints ------------------------------------------------------------------------------

    @property
    def state(self) -> dict[str, NDArray[Any]]:
        """The checkpoint of the detector, as named arrays."""
        arrays: dict[str, NDArray[Any]] = {
            "curve": parameters_of(self.curve),
            "sizes": self.buckets.sizes,
            "rows": self.buckets.rows,
            "offsets": self.offsets,
            "leads": self.window_leads,
            "numbers": np.array([self.window_index, self.size_rate_factor, self.min_checks_before]),
            "dispersion": self.dispersion.sums,
        }
        if self.strata is not None:
            arrays |= {f"strata.{name}": array for name, array in self.strata.arrays.items()}
        change = self.pending
        if change is None:
            return arrays
        if change.strata is not None:
            arrays |= {f"earlier.{name}": array for name, array in change.strata.arrays.items()}
        alarm = change.alarm
        numbers = (alarm.raised, alarm.departures, *alarm.interval, alarm.time, *alarm.time_interval)
        evidence = (alarm.statistic, alarm.threshold, alarm.between, change.checks)
        return arrays | {
            "suspect": np.array([*numbers, *evidence, _KINDS.index(alarm.kind)]),
            "doubt": np.array([change.checks_since, change.confirmed]),
            "before": np.array(list(alarm.before.values())),
            "after": np.array(list(alarm.after.values())),
            "old": parameters_of(change.curve),
            "row": change.row,
        }

    def of_state(self, arrays: Mapping[str, NDArray[Any]]) -> ClassDetector:
        """Return the detector of a checkpoint, the `state` of one for the same class."""
        window_index, size_rate_factor, min_checks_before = arrays["numbers"].tolist()
        buckets = Buckets(arrays["sizes"], with_scores(arrays["rows"], self.nodes))
        if _PENDING in arrays and "suspect" not in arrays:
            buckets = buckets.after(int(buckets.sizes[0]), with_scores(arrays[_PENDING], self.nodes))
        return replace(
            self,
            curve=curve_of(self.known.speedup, arrays["curve"]),
            buckets=buckets,
            window_index=int(window_index),
            offsets=arrays["offsets"],
            window_leads=arrays["leads"],
            size_rate_factor=size_rate_factor,
            min_checks_before=int(min_checks_before),
            dispersion=Dispersion(arrays["dispersion"]) if "dispersion" in arrays else self.dispersion,
            strata=Strata.of_arrays(self.known.speedup.family, arrays, "strata."),
            pending=self._pending_of(arrays) if "suspect" in arrays else None,
        )

    def _pending_of(self, arrays: Mapping[str, NDArray[Any]]) -> PendingChange:
        """Return the pending change of a checkpoint."""
        raised, departures, low, high, time, early, late, *evidence = arrays["suspect"].tolist()
        kind, family = _KINDS[int(evidence[4])], self.known.speedup
        names = ["size_rate"] if kind == "size rate" else list(family.parameters)
        before, after = (
            FrozenMapping(dict(zip(names, arrays[side].tolist(), strict=True)))
            for side in ("before", "after")
        )
        place = (departures, (low, high), time, (early, late))
        alarm = Alarm(self.known.name, kind, int(raised), *place, before, after, *evidence[:3])
        earlier = np.array([arrays["numbers"][2] // 2, _PENDING not in arrays])
        checks_since, confirmed = arrays.get("doubt", earlier).tolist()
        return PendingChange(
            alarm,
            curve_of(family, arrays["old"]),
            with_scores(arrays.get(_PENDING, arrays["row"]), self.nodes),
            int(evidence[3]),
            int(checks_since),
            bool(confirmed),
            Strata.of_arrays(family.family, arrays, "earlier."),
        )


def min_checks_after(checks_since: int) -> int:
    """Return the minimum number of checks before the next change point, given those that made the last alarm.

    They were selected for differing from the data before them. If they differ by random variation, the data
    after them differ from them, and one false alarm would lead to another; with as many checks again beside
    them, their selection hardly matters.
    """
    return 2 * checks_since
