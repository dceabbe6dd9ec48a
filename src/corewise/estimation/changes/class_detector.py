"""The change detector of one class; see `corewise.estimation.changes.detector` for the mathematics."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from corewise.estimation.changes import _kernels
from corewise.estimation.changes.alarms import Alarm, Check, believed_rate, place_of
from corewise.estimation.changes.buckets import Buckets
from corewise.estimation.changes.departure_rate import DepartureRate
from corewise.estimation.changes.dispersion import Dispersion
from corewise.estimation.changes.doubts import Pending, Suspect
from corewise.estimation.changes.grid import DEPARTURES, PER_OCTAVE, TABLE, TIME, columns_of, table_of
from corewise.estimation.changes.scan import NEAR, WINDOW_LENGTHS, View, window_start
from corewise.estimation.likelihood import Likelihood, curve_of, parameters_of
from corewise.estimation.search import fit_curve_to
from corewise.kit.arrays import Floats, Ints
from corewise.kit.frozen import FrozenMapping
from corewise.model.job_class import JobClass
from corewise.model.speedup import SpeedUp
from corewise.observation.statistics import ClassStatistics
from corewise.observation.strata.tables import Strata

__all__ = ["ClassDetector", "min_checks_after"]

_LEAD = 3.0
"""By how much one explanation must lead to be named; it may be wrong once in e³ = 20 times."""

_SURE = 12.0
"""By how much it must lead for the matter to be closed."""

_GOING_ON = 20
"""After so many departures a class in which nobody left has a size rate again, however low."""

_AS_BEFORE = 2.0
"""Within so many standard errors of the size rate before, that of jobs that leave again is the same."""

_SLOWEST = 1e-3
"""The least size rate that such a class is believed to have, of the one before: below, no split changes."""


_AT_MOST = 4
"""For so many splits at first, and for all if one of them exceeds the threshold."""

_SURER = 3.0
"""How much further than for an alarm two stretches must lead for the first to be forgotten."""

_LOOK_AGAIN = 1.0 / 16.0
"""What was seen since an alarm has grown by this part when it is looked at again."""

_STEP = 0.25
"""The reference is moved by a step of Newton's if that raises ℓ by less than half of this, else refitted."""


_BEYOND_A_JUMP = 1.5
"""How far a window must lead to take over, in thresholds: before a jump is found, it leads by about one."""

_ENOUGH = 0.9
"""The part of the departures to estimate from that strata must be of, to be used instead."""


@dataclass(frozen=True, eq=False)
class ClassDetector:
    """Change detector of one class: the statistics in buckets, the reference curve, and doubts about changes.

    Attributes
    ----------
    known : JobClass
        The class, with the size rate that is taken for granted; one, if it is not known and so a part of the
        curve, see `DepartureRate`.
    curve : SpeedUp
        The reference: the latest estimate.
    speed : Buckets
        Departures of all classes, time, and the departures and job-time of this one at each node of the grid.
    offsets : ndarray
        What each window would have estimated, from the reference.
    window_index : int
        The window the estimate is from: 0 for all since the last change, j for the j-th of `WINDOW_LENGTHS`.
    window_leads : ndarray
        By how much, in log-likelihood, each window has foretold better than the one in force.
    size_rate_factor : float
        The estimated size rate over the one taken for granted.
    min_checks_before : int
        Minimum number of checks before a change point: splits with fewer before them are not tried.
    suspect : Suspect or None
        A change that has not been named.
    pending : Pending or None
        Statistics from before the last change while that is not sure: estimates are made from them as well.
    dispersion : Dispersion
        By how much scores vary more than if sizes were exponential.
    strata : Strata or None
        What is kept of single jobs since the last alarm, where windows tell them apart.
    """

    known: JobClass
    curve: SpeedUp
    speed: Buckets
    offsets: Floats
    window_index: int = 0
    window_leads: Floats = field(default_factory=lambda: np.zeros(WINDOW_LENGTHS.size + 1))
    size_rate_factor: float = 1.0
    min_checks_before: int = 0
    suspect: Suspect | None = None
    pending: Pending | None = None
    dispersion: Dispersion = field(default_factory=Dispersion.unknown)
    strata: Strata | None = None

    @classmethod
    def of(cls, known: JobClass, nodes: Floats) -> ClassDetector:
        """Return a detector that has seen nothing yet."""
        if known.size_rate is None:
            known = replace(known, size_rate=1.0, speedup=DepartureRate(known.speedup))
        offsets = np.empty((0, len(known.speedup.bounds)))
        return cls(known, known.speedup, Buckets.empty(TABLE + 2 * nodes.size), offsets)

    def with_strata(self, table: ClassStatistics, strata: Strata | None) -> ClassDetector:
        """Return the detector that knows what is kept of the single jobs of a window."""
        curve, rate = self.curve, self.size_rate_factor * self.known.known_size_rate
        if isinstance(curve, DepartureRate):
            rate *= curve.size_rate
            curve = curve.shape
        if strata is None or strata.family != curve.family:
            return replace(self, strata=None)
        dispersion = self.dispersion.observe(table, strata, curve, rate)
        return replace(
            self, dispersion=dispersion, strata=strata if self.strata is None else self.strata + strata
        )

    @property
    def _factors(self) -> dict[str, float]:
        """The factors of the thresholds: by how much ratios are larger than if sizes were exponential."""
        return {"curve": self.dispersion.of_curve, "size rate": self.dispersion.of_size_rate}

    # --- a check ----------------------------------------------------------------------------------

    def observe(
        self, table: ClassStatistics, now: Check, nodes: Floats, promised: Mapping[str, float]
    ) -> tuple[ClassDetector, list[Alarm]]:
        """Return the detector after one more check, and the alarms raised at it.

        `promised` are the thresholds for exponential sizes.
        """
        thresholds = {test: factor * promised[test] for test, factor in self._factors.items()}
        row = np.zeros(TABLE + 2 * nodes.size)
        row[DEPARTURES], row[TIME] = now.seen, now.lasted
        departed, spent = columns_of(row, nodes)
        _kernels.share_out(table.widths, table.departures, table.job_time, PER_OCTAVE, departed, spent)
        spent *= self.size_rate_factor
        speed = self.speed.with_row(row)
        view = View.of(self, speed, nodes)
        if view.alerting(thresholds):
            changed = replace(self, speed=speed)._speed_changed(view, now, nodes, thresholds)
            if changed is not None:
                return replace(changed[0], strata=None), [changed[1]]
        window_index, window_leads = self._foresight(view.window_leads, thresholds["curve"])
        curve, offsets = self._estimate(view, window_index, speed, nodes)
        suspect = self.suspect if window_index == 0 else None  # what drifts has no one change to be named
        pending = self.pending if window_index == 0 else None
        detector = ClassDetector(
            self.known,
            curve,
            speed,
            offsets,
            window_index,
            window_leads,
            self.size_rate_factor,
            self.min_checks_before,
            suspect,
            pending,
            self.dispersion,
            self.strata,
        )
        detector = detector._made_sure(nodes, thresholds)
        return detector._named(now, nodes) if suspect else (detector, [])

    # --- jumps ------------------------------------------------------------------------------------

    def _speed_changed(
        self, view: View, now: Check, nodes: Floats, thresholds: Mapping[str, float]
    ) -> tuple[ClassDetector, Alarm] | None:
        """Return the detector after a change of speed, and the alarm, if there is one."""
        exceeding = {"size rate": view.by_size} if view.most_by_size >= thresholds["size rate"] else {}
        if view.most_by_curve >= NEAR * thresholds["curve"]:
            exceeding |= self._curve_changed(view, nodes, thresholds["curve"])
        if not exceeding:
            return None
        test = max(exceeding, key=lambda kind: float(exceeding[kind].max()))
        return self._alarm(now, nodes, exceeding[test], test, thresholds)

    def _curve_changed(self, view: View, nodes: Floats, threshold: float) -> dict[str, Floats]:
        """Return G for a change of the curve after each bucket, if it exceeds the threshold after some.

        Curves with several parameters take long to fit: G is computed at the likeliest place alone, and at
        the others the quadratic model is scaled to it.
        """
        several = len(self.curve.bounds) > 1
        best = np.argsort(-view.by_curve, kind="stable")[: 1 if several else _AT_MOST]
        highest = max(self._ratios(best, nodes))
        if highest < threshold:
            return {}
        if several:
            return {"curve": view.by_curve * (highest / view.most_by_curve)}
        exact = np.array(self._ratios(np.arange(len(self.speed) - 1), nodes))
        return {"curve": np.where(np.cumsum(self.speed.sizes)[:-1] >= self.min_checks_before, exact, 0.0)}

    def _ratios(self, splits: Ints, nodes: Floats) -> list[float]:
        """Return G for changes of the curve after these buckets."""
        upto = np.cumsum(self.speed.rows, axis=0)
        whole = self._fitted(upto[-1], nodes)[1]
        return [
            self._fitted(upto[k], nodes)[1] + self._fitted(upto[-1] - upto[k], nodes)[1] - whole
            for k in splits.tolist()
        ]

    def _fitted(self, row: Floats, nodes: Floats) -> tuple[SpeedUp, float]:
        """Return the most likely curve of a row and its log-likelihood; any curve if it says nothing."""
        if isinstance(self.curve, DepartureRate):
            return self.curve.fitted(table_of(row, nodes))
        likelihood = Likelihood(table_of(row, nodes), self.curve, self.known.size_rate)
        if not self.curve.bounds or not np.any(likelihood.table.widths > 1.0):
            return self.curve, likelihood.value(parameters_of(self.curve))
        fit = fit_curve_to(likelihood)
        return likelihood.curve(fit.parameters), fit.value

    def _alarm(
        self, now: Check, nodes: Floats, ratios: Floats, test: str, thresholds: Mapping[str, float]
    ) -> tuple[ClassDetector, Alarm]:
        """Raise an alarm at the most likely change point; return the detector after it, and the alarm.

        The change point is after the bucket where `ratios` is largest.
        """
        factor, split = self._factors[test], int(np.argmax(ratios)) + 1
        before = self.speed.rows[:split].sum(axis=0)
        old, _ = self._fitted(before, nodes)
        rest = self.speed.since(split)
        new, _ = self._fitted(rest.rows.sum(axis=0), nodes)
        place = place_of(self.speed.rows, ratios / factor, now)
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
        if self.stalled:
            return self._resumed(alarm, before, rest, nodes)
        suspect = Suspect(alarm, old, before, int(self.speed.sizes[:split].sum()))
        detector = replace(
            self,
            curve=new,
            speed=rest,
            offsets=self.offsets[:0],
            min_checks_before=min_checks_after(rest),
            suspect=suspect,
        )
        if self.window_index:
            return replace(detector, suspect=None), alarm
        row = before if self.pending is None else before + self.pending.row
        detector = replace(detector, pending=Pending(row, 0))._made_sure(nodes, thresholds)
        named, alarms = detector._named(now, nodes)
        return named, alarms[0] if alarms else alarm

    def _resumed(
        self, alarm: Alarm, before: Floats, rest: Buckets, nodes: Floats
    ) -> tuple[ClassDetector, Alarm]:
        """Return the detector after jobs have begun to leave again, and the alarm that says so.

        They are held against what was seen before they ceased to; if they leave as they did then, that is
        taken back.
        """
        stall = self.suspect
        assert stall is not None
        count, due = self._due(rest.rows.sum(axis=0), stall.curve, nodes)
        ceased, late = self._due(before, stall.curve, nodes)
        if not (count > 0.0 and due > 0.0 and late > 0.0):
            return self, alarm
        believed = self.size_rate_factor * self.known.known_size_rate
        rates = believed * ceased / late, believed * count / due
        sides = [FrozenMapping({"size_rate": rate}) for rate in rates]
        alarm = replace(alarm, kind="size rate", before=sides[0], after=sides[1])
        detector = replace(
            self,
            curve=stall.curve,
            speed=rest,
            offsets=self.offsets[:0],
            min_checks_before=min_checks_after(rest),
            suspect=replace(stall, alarm=alarm),
            pending=None,
        )
        as_before = abs(math.log(count / due)) <= _AS_BEFORE / math.sqrt(count)
        return detector._with_size_rate(1.0, nodes) if as_before else detector, alarm

    def _made_sure(self, nodes: Floats, thresholds: Mapping[str, float]) -> ClassDetector:
        """Return the detector without what was seen before the last change, if that has become sure."""
        seen = int(self.speed.sizes.sum())
        if self.pending is None or seen < self.pending.checks:
            return self
        before, after = self.pending.row, self.speed.rows.sum(axis=0)
        curve, whole = self._fitted(before + after, nodes)
        by_curve = self._fitted(before, nodes)[1] + self._fitted(after, nodes)[1] - whole
        by_size = _two_rates(before, after, curve.rate(nodes), nodes)
        found = {"curve": by_curve, "size rate": by_size}
        if any(found[test] >= thresholds[test] + _SURER * factor for test, factor in self._factors.items()):
            return replace(self, pending=None)
        return replace(self, pending=Pending(before, seen + max(int(_LOOK_AGAIN * seen), 1)))

    def _named(self, now: Check, nodes: Floats) -> tuple[ClassDetector, list[Alarm]]:
        """Return the detector and an alarm that says what changed, if that has become clear."""
        suspect = self.suspect
        assert suspect is not None
        row = self.speed.rows.sum(axis=0)
        departed, spent = columns_of(row, nodes)
        old, new = suspect.curve.rate(nodes), self.curve.rate(nodes)
        count, due = self._due(row, suspect.curve, nodes)
        if not due > 0.0 or (self.stalled and count < _GOING_ON):
            return self, []
        factor = believed_rate(count, due)
        by_size = float(departed @ np.log(old)) + count * math.log(factor) - count
        by_curve = float(departed @ np.log(new)) - self.known.known_size_rate * float(spent @ new)
        lead = (by_size - by_curve) / max(self._factors.values()) if self.curve.bounds else math.inf
        kind = suspect.alarm.kind if abs(lead) < _LEAD else "curve" if lead < 0.0 else "size rate"
        rates = [self.size_rate_factor * self.known.known_size_rate * part for part in (1.0, count / due)]
        sides = {
            "curve": (suspect.curve.parameters, self.curve.parameters),
            "size rate": ({"size_rate": rates[0]}, {"size_rate": rates[1]}),
        }
        alarm = suspect.alarm
        if kind != alarm.kind or self.stalled:
            before, after = (FrozenMapping(side) for side in sides[kind])
            alarm = replace(alarm, kind=kind, raised=now.departures, before=before, after=after)
        alarms = [] if alarm is suspect.alarm else [alarm]
        if lead >= _SURE and count > 0.0:
            return self._with_size_rate(factor, nodes), alarms
        return replace(self, suspect=None if lead <= -_SURE else replace(suspect, alarm=alarm)), alarms

    @property
    def stalled(self) -> bool:
        """Whether none of its jobs has left since the last change, though many were due."""
        alarm = None if self.suspect is None else self.suspect.alarm
        return alarm is not None and alarm.kind == "size rate" and alarm.after["size_rate"] == 0.0

    def size_rate(self, nodes: Floats) -> float:
        """Return the size rate to make a policy for."""
        believed = self.size_rate_factor * self.known.known_size_rate
        if self.suspect is None or not self.stalled:
            return believed
        count, due = self._due(self.speed.rows.sum(axis=0), self.suspect.curve, nodes)
        return believed * max(believed_rate(count, due), _SLOWEST)

    def _due(self, row: Floats, curve: SpeedUp, nodes: Floats) -> tuple[float, float]:
        """Return the departures in a row, and how many there would be with a curve."""
        departed, spent = columns_of(row, nodes)
        return float(departed.sum()), self.known.known_size_rate * float(spent @ curve.rate(nodes))

    def _with_size_rate(self, factor: float, nodes: Floats) -> ClassDetector:
        """Return the detector after a change of the size rate by a factor, with what was seen before it."""
        suspect = self.suspect
        assert suspect is not None
        rows = self.speed.rows.copy()
        rows[:, TABLE + nodes.size :] *= factor
        sizes = np.concatenate([[max(suspect.checks, int(self.speed.sizes[0]))], self.speed.sizes])
        return replace(
            self,
            curve=suspect.curve,
            speed=Buckets(sizes, np.vstack([suspect.row, rows])),
            offsets=self.offsets[:0],
            size_rate_factor=self.size_rate_factor * factor,
            min_checks_before=0,
            suspect=None,
            pending=None,
        )

    # --- drift ------------------------------------------------------------------------------------

    def _foresight(self, window_leads: Floats, threshold: float) -> tuple[int, Floats]:
        """Return the window to estimate from, and how far each leads."""
        best = int(window_leads.argmax())
        if window_leads[best] <= _BEYOND_A_JUMP * threshold:
            return self.window_index, window_leads
        return best, np.zeros(window_leads.size)

    def _estimate(
        self, view: View, window_index: int, speed: Buckets, nodes: Floats
    ) -> tuple[SpeedUp, Floats]:
        """Return the latest estimate, which is the next reference, and how far from it each window's is."""
        if not self.curve.bounds:
            return self.curve, self.offsets
        low, high = np.array(list(self.curve.bounds.values())).T
        estimates = np.minimum(np.maximum(parameters_of(self.curve) + view.steps, low), high)
        if window_index == self.window_index and view.square <= _STEP:
            return curve_of(self.curve, estimates[window_index]), estimates - estimates[window_index]
        curve, _ = self._fitted(speed.rows[window_start(speed, window_index) :].sum(axis=0), nodes)
        return curve, estimates - parameters_of(curve)

    def table(self, nodes: Floats, arrivals: int) -> ClassStatistics:
        """Return the statistics to estimate from."""
        row = self.speed.rows[window_start(self.speed, self.window_index) :].sum(axis=0)
        return table_of(row if self.pending is None else row + self.pending.row, nodes, arrivals)

    def strata_of(self, table: ClassStatistics) -> Strata | None:
        """Return what is kept of single jobs, if it is of the jobs in the statistics to estimate from.

        Not so for a while after a change, which is found later than it happened; and not in units of a size
        rate that has changed.
        """
        if self.strata is None or self.window_index or self.size_rate_factor != 1.0:
            return None
        return self.strata if self.strata.departures >= _ENOUGH * table.left else None


def _two_rates(before: Floats, after: Floats, rate: Floats, nodes: Floats) -> float:
    """Return the log-likelihood ratio of two rows: a size rate each against one for both, with one curve."""
    counts, dues = [], []
    for row in (before, after, before + after):
        departed, spent = columns_of(row, nodes)
        counts.append(float(departed.sum()))
        dues.append(float(spent @ rate))
    terms = [
        count * math.log(count / due) if count > 0.0 and due > 0.0 else 0.0
        for count, due in zip(counts, dues, strict=True)
    ]
    return terms[0] + terms[1] - terms[2]


def min_checks_after(rest: Buckets) -> int:
    """Return the minimum number of checks before the next change point; these came after the last.

    They were chosen for being unlike what came before them. If by chance, what comes next is unlike them, and
    one false alarm would lead to another; with as many checks again beside them, they hardly matter.
    """
    return 2 * int(rest.sizes.sum())
