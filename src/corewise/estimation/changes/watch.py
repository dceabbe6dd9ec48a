"""One class, watched for changes of its speed (mathematics: `corewise.estimation.changes.detector`)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from corewise.estimation.changes import _kernels
from corewise.estimation.changes.alarms import Alarm, Check, place_of
from corewise.estimation.changes.buckets import Buckets
from corewise.estimation.changes.grid import DEPARTURES, PER_OCTAVE, TABLE, TIME, columns_of, table_of
from corewise.estimation.likelihood import Likelihood, curve_of, parameters_of
from corewise.estimation.search import fit_curve_to
from corewise.kit.arrays import Floats, Ints
from corewise.kit.frozen import FrozenMapping
from corewise.model.speedup import SpeedUp
from corewise.model.system import JobClass
from corewise.observation.statistics import ClassStatistics

__all__ = ["ClassDetector", "quiet_after"]

_LEAD = 3.0
"""By how much one explanation must lead to be named; it may be wrong once in e³ = 20 times."""

_SURE = 12.0
"""By how much it must lead for the matter to be closed."""

_NEAR = 0.5
"""If the quadratic model of a split reaches this part of the threshold, G is computed."""

_AT_MOST = 4
"""For so many splits at first, and for all if one of them exceeds the threshold."""

_SURER = 3.0
"""How much further than for an alarm two stretches must lead for the first to be forgotten."""

_LOOK_AGAIN = 1.0 / 16.0
"""What was seen since an alarm has grown by this part when it is looked at again."""

_STEP = 0.25
"""The reference is moved by a step of Newton's if that raises ℓ by less than half of this, else refitted."""

_SPANS = 2 ** np.arange(1, 13)
"""The lengths of the windows that follow drift, in checks."""

_BEYOND_A_JUMP = 1.5
"""How far a window must lead to take over, in thresholds: before a jump is found, it leads by about one."""

_KINDS = ("speed", "curve", "size rate")
"""What a change of a class's speed may be called."""


@dataclass(frozen=True, eq=False)
class _Suspect:
    """A change of speed of which it is not clear yet what it is: the alarm, and what was seen before it."""

    alarm: Alarm
    curve: SpeedUp
    row: Floats
    checks: int


class _Pending(NamedTuple):
    """What was seen before a change that is not sure enough to forget it, and when to look again."""

    row: Floats
    checks: int


@dataclass(frozen=True, eq=False)
class ClassDetector:
    """What is known of one class.

    Attributes
    ----------
    known : JobClass
        The class, with the size rate that is taken for granted.
    curve : SpeedUp
        The reference: the latest estimate.
    speed : Buckets
        Departures of all classes, time, and the departures and job-time of this one at each node of the grid.
    offsets : ndarray
        What each window would have estimated, from the reference.
    span : int
        Which window the estimate is from: 0 for all since the last change, j for the j-th of `_SPANS`.
    leads : ndarray
        How far each window leads the one in force.
    tempo : float
        The size rate now, over the one taken for granted.
    quiet : int
        So many checks of what was seen must lie before a change for it to be looked for.
    suspect : _Suspect or None
        A change that has not been named.
    pending : _Pending or None
        What was seen before the last change while that is not sure: estimates are made from it as well.
    """

    known: JobClass
    curve: SpeedUp
    speed: Buckets
    offsets: Floats
    span: int = 0
    leads: Floats = field(default_factory=lambda: np.zeros(_SPANS.size + 1))
    tempo: float = 1.0
    quiet: int = 0
    suspect: _Suspect | None = None
    pending: _Pending | None = None

    @classmethod
    def of(cls, known: JobClass, nodes: Floats) -> ClassDetector:
        """Return a watch that has seen nothing yet."""
        offsets = np.empty((0, len(known.speedup.bounds)))
        return cls(known, known.speedup, Buckets.empty(TABLE + 2 * nodes.size), offsets)

    # --- a check ----------------------------------------------------------------------------------

    def observe(
        self, table: ClassStatistics, now: Check, nodes: Floats, heights: Mapping[str, float]
    ) -> tuple[ClassDetector, list[Alarm]]:
        """Return the watch after one more check, and what was found at it."""
        row = np.zeros(TABLE + 2 * nodes.size)
        row[DEPARTURES], row[TIME] = now.seen, now.lasted
        left, spent = columns_of(row, nodes)
        _kernels.share_out(table.widths, table.departures, table.job_time, PER_OCTAVE, left, spent)
        spent *= self.tempo
        speed = self.speed.with_row(row)
        view = _View.of(self, speed, nodes)
        if view.alerting(heights):
            found = replace(self, speed=speed)._speed_changed(view, now, nodes, heights)
            if found is not None:
                return found[0], [found[1]]
        span, leads = self._foresight(view.leads, heights["curve"])
        curve, offsets = self._estimate(view, span, speed, nodes)
        suspect = self.suspect if span == 0 else None  # what drifts has no one change to be named
        pending = self.pending if span == 0 else None
        watch = ClassDetector(
            self.known, curve, speed, offsets, span, leads, self.tempo, self.quiet, suspect, pending
        )
        watch = watch._made_sure(nodes, heights)
        return watch._named(now, nodes) if suspect else (watch, [])

    # --- jumps ------------------------------------------------------------------------------------

    def _speed_changed(
        self, view: _View, now: Check, nodes: Floats, heights: Mapping[str, float]
    ) -> tuple[ClassDetector, Alarm] | None:
        """Return the watch after a change of speed, and the alarm, if there is one."""
        found = {"size rate": view.by_size} if view.most_by_size >= heights["size rate"] else {}
        if view.most_by_curve >= _NEAR * heights["curve"]:
            found |= self._curve_changed(view, nodes, heights["curve"])
        if not found:
            return None
        test = max(found, key=lambda kind: float(found[kind].max()))
        return self._alarm(now, nodes, found[test], test, heights)

    def _curve_changed(self, view: _View, nodes: Floats, height: float) -> dict[str, Floats]:
        """Return G for a change of the curve after each bucket, if it exceeds the threshold after some.

        Curves with several parameters take long to fit: G is computed at the likeliest place alone, and at
        the others the quadratic model is scaled to it.
        """
        several = len(self.curve.bounds) > 1
        best = np.argsort(-view.by_curve, kind="stable")[: 1 if several else _AT_MOST]
        highest = max(self._ratios(best, nodes))
        if highest < height:
            return {}
        if several:
            return {"curve": view.by_curve * (highest / view.most_by_curve)}
        exact = np.array(self._ratios(np.arange(len(self.speed) - 1), nodes))
        return {"curve": np.where(np.cumsum(self.speed.sizes)[:-1] >= self.quiet, exact, 0.0)}

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
        likelihood = Likelihood(table_of(row, nodes), self.curve, self.known.size_rate)
        if not self.curve.bounds or not np.any(likelihood.table.widths > 1.0):
            return self.curve, likelihood.value(parameters_of(self.curve))
        fit = fit_curve_to(likelihood)
        return likelihood.curve(fit.parameters), fit.value

    def _alarm(
        self, now: Check, nodes: Floats, ratios: Floats, test: str, heights: Mapping[str, float]
    ) -> tuple[ClassDetector, Alarm]:
        """Return the watch after a change after the bucket where `ratios` is largest, and the alarm."""
        split = int(np.argmax(ratios)) + 1
        before = self.speed.rows[:split].sum(axis=0)
        old, _ = self._fitted(before, nodes)
        rest = self.speed.since(split)
        new, _ = self._fitted(rest.rows.sum(axis=0), nodes)
        place = place_of(self.speed.rows, ratios, now)
        alarm = Alarm(
            name=self.known.name,
            kind="speed",
            raised=now.departures,
            before=FrozenMapping(old.parameters),
            after=FrozenMapping(new.parameters),
            statistic=float(ratios.max()),
            threshold=heights[test],
            between=now.between(float(ratios.max()), test, len(self.curve.bounds)),
            **place,
        )
        suspect = _Suspect(alarm, old, before, int(self.speed.sizes[:split].sum()))
        quiet = quiet_after(rest)
        watch = replace(self, curve=new, speed=rest, offsets=self.offsets[:0], quiet=quiet, suspect=suspect)
        if self.span:
            return replace(watch, suspect=None), alarm
        row = before if self.pending is None else before + self.pending.row
        watch = replace(watch, pending=_Pending(row, 0))._made_sure(nodes, heights)
        named, alarms = watch._named(now, nodes)
        return named, alarms[0] if alarms else alarm

    def _made_sure(self, nodes: Floats, heights: Mapping[str, float]) -> ClassDetector:
        """Return the watch without what was seen before the last change, if that has become sure."""
        seen = int(self.speed.sizes.sum())
        if self.pending is None or seen < self.pending.checks:
            return self
        before, after = self.pending.row, self.speed.rows.sum(axis=0)
        curve, whole = self._fitted(before + after, nodes)
        by_curve = self._fitted(before, nodes)[1] + self._fitted(after, nodes)[1] - whole
        by_size = _two_rates(before, after, curve.rate(nodes), nodes)
        if by_curve >= heights["curve"] + _SURER or by_size >= heights["size rate"] + _SURER:
            return replace(self, pending=None)
        return replace(self, pending=_Pending(before, seen + max(int(_LOOK_AGAIN * seen), 1)))

    def _named(self, now: Check, nodes: Floats) -> tuple[ClassDetector, list[Alarm]]:
        """Return the watch and an alarm that says what changed, if that has become clear."""
        suspect = self.suspect
        assert suspect is not None
        left, spent = columns_of(self.speed.rows.sum(axis=0), nodes)
        old, new = suspect.curve.rate(nodes), self.curve.rate(nodes)
        count, due = float(left.sum()), self.known.size_rate * float(spent @ old)
        if not (count > 0.0 and due > 0.0):
            return self, []
        factor = count / due
        by_size = float(left @ np.log(old)) + count * math.log(factor) - count
        by_curve = float(left @ np.log(new)) - self.known.size_rate * float(spent @ new)
        lead = by_size - by_curve if self.curve.bounds else math.inf
        kind = suspect.alarm.kind if abs(lead) < _LEAD else "curve" if lead < 0.0 else "size rate"
        rates = [self.tempo * self.known.size_rate * part for part in (1.0, factor)]
        sides = {
            "curve": (suspect.curve.parameters, self.curve.parameters),
            "size rate": ({"size_rate": rates[0]}, {"size_rate": rates[1]}),
        }
        alarm = suspect.alarm
        if kind != alarm.kind:
            before, after = (FrozenMapping(side) for side in sides[kind])
            alarm = replace(alarm, kind=kind, raised=now.departures, before=before, after=after)
        found = [] if alarm is suspect.alarm else [alarm]
        if lead >= _SURE:
            return self._with_tempo(factor, nodes), found
        return replace(self, suspect=None if lead <= -_SURE else replace(suspect, alarm=alarm)), found

    def _with_tempo(self, factor: float, nodes: Floats) -> ClassDetector:
        """Return the watch with a size rate so many times the last, and with what was seen before that."""
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
            tempo=self.tempo * factor,
            quiet=0,
            suspect=None,
            pending=None,
        )

    # --- drift ------------------------------------------------------------------------------------

    def _foresight(self, leads: Floats, height: float) -> tuple[int, Floats]:
        """Return the window to estimate from, and how far each leads."""
        best = int(leads.argmax())
        if leads[best] <= _BEYOND_A_JUMP * height:
            return self.span, leads
        return best, np.zeros(leads.size)

    def _estimate(self, view: _View, span: int, speed: Buckets, nodes: Floats) -> tuple[SpeedUp, Floats]:
        """Return the latest estimate, which is the next reference, and how far from it each window's is."""
        if not self.curve.bounds:
            return self.curve, self.offsets
        low, high = np.array(list(self.curve.bounds.values())).T
        estimates = np.minimum(np.maximum(parameters_of(self.curve) + view.steps, low), high)
        if span == self.span and view.square <= _STEP:
            return curve_of(self.curve, estimates[span]), estimates - estimates[span]
        curve, _ = self._fitted(speed.rows[_start_of(speed, span) :].sum(axis=0), nodes)
        return curve, estimates - parameters_of(curve)

    def table(self, nodes: Floats, arrivals: int) -> ClassStatistics:
        """Return what the estimate is to be made from."""
        row = self.speed.rows[_start_of(self.speed, self.span) :].sum(axis=0)
        return table_of(row if self.pending is None else row + self.pending.row, nodes, arrivals)

    # --- to go on later ---------------------------------------------------------------------------

    @property
    def state(self) -> dict[str, NDArray[Any]]:
        """All that was seen of the class, as named arrays."""
        arrays: dict[str, NDArray[Any]] = {
            "curve": parameters_of(self.curve),
            "sizes": self.speed.sizes,
            "rows": self.speed.rows,
            "offsets": self.offsets,
            "leads": self.leads,
            "numbers": np.array([self.span, self.tempo, self.quiet]),
        }
        if self.pending is not None:
            arrays |= {"pending": self.pending.row, "look again": np.array(self.pending.checks)}
        if self.suspect is None:
            return arrays
        alarm = self.suspect.alarm
        numbers = (alarm.raised, alarm.departures, *alarm.interval, alarm.time, *alarm.time_interval)
        levels = (alarm.statistic, alarm.threshold, alarm.between, self.suspect.checks)
        return arrays | {
            "suspect": np.array([*numbers, *levels, _KINDS.index(alarm.kind)]),
            "before": np.array(list(alarm.before.values())),
            "after": np.array(list(alarm.after.values())),
            "old": parameters_of(self.suspect.curve),
            "row": self.suspect.row,
        }

    def of_state(self, arrays: Mapping[str, NDArray[Any]]) -> ClassDetector:
        """Return the watch of this class that has seen what `state` says."""
        span, tempo, quiet = arrays["numbers"].tolist()
        return replace(
            self,
            curve=curve_of(self.known.speedup, arrays["curve"]),
            speed=Buckets(arrays["sizes"], arrays["rows"]),
            span=int(span),
            offsets=arrays["offsets"],
            leads=arrays["leads"],
            tempo=tempo,
            quiet=int(quiet),
            suspect=self._suspect_of(arrays) if "suspect" in arrays else None,
            pending=_Pending(arrays["pending"], int(arrays["look again"])) if "pending" in arrays else None,
        )

    def _suspect_of(self, arrays: Mapping[str, NDArray[Any]]) -> _Suspect:
        raised, departures, low, high, time, early, late, *levels = arrays["suspect"].tolist()
        kind = _KINDS[int(levels[4])]
        names = ["size_rate"] if kind == "size rate" else list(self.known.speedup.bounds)
        before, after = (
            FrozenMapping(dict(zip(names, arrays[side].tolist(), strict=True)))
            for side in ("before", "after")
        )
        place = (departures, (low, high), time, (early, late))
        alarm = Alarm(self.known.name, kind, int(raised), *place, before, after, *levels[:3])
        return _Suspect(alarm, curve_of(self.known.speedup, arrays["old"]), arrays["row"], int(levels[3]))


def _two_rates(before: Floats, after: Floats, rate: Floats, nodes: Floats) -> float:
    """Return how much likelier two rows are with a size rate each than with one, for a curve."""
    counts, dues = [], []
    for row in (before, after, before + after):
        left, spent = columns_of(row, nodes)
        counts.append(float(left.sum()))
        dues.append(float(spent @ rate))
    terms = [
        count * math.log(count / due) if count > 0.0 and due > 0.0 else 0.0
        for count, due in zip(counts, dues, strict=True)
    ]
    return terms[0] + terms[1] - terms[2]


def quiet_after(rest: Buckets) -> int:
    """Return how many checks must lie before the next change, if these are what came after the last.

    They were chosen for being unlike what came before them. If by chance, what comes next is unlike them, and
    one false alarm would lead to another; with as many checks again beside them, they hardly matter.
    """
    return 2 * int(rest.sizes.sum())


class _View(NamedTuple):
    """All buckets of a class, seen from its reference: see `scan`."""

    by_curve: Floats
    by_size: Floats
    leads: Floats
    steps: Floats
    most_by_curve: float
    most_by_size: float
    square: float

    @classmethod
    def of(cls, watch: ClassDetector, speed: Buckets, nodes: Floats) -> _View:
        """Return what the buckets say."""
        rate = watch.curve.rate_above(nodes)  # no node is below one core
        ratio = watch.curve.gradient_above(nodes) / rate[:, None]
        by_curve, by_size = np.zeros((2, len(speed) - 1))
        leads, steps = watch.leads.copy(), np.empty((_SPANS.size + 1, ratio.shape[1]))
        rate = watch.known.size_rate * rate
        most = _kernels.scan(
            speed.sizes,
            speed.rows,
            TABLE,
            rate,
            ratio,
            _SPANS,
            watch.offsets,
            leads,
            watch.span,
            watch.quiet,
            by_curve,
            by_size,
            steps,
        )
        return cls(by_curve, by_size, leads, steps, *most)

    def alerting(self, heights: Mapping[str, float]) -> bool:
        """Return whether a change might be found."""
        return self.most_by_size >= heights["size rate"] or self.most_by_curve >= _NEAR * heights["curve"]


def _start_of(speed: Buckets, span: int) -> int:
    """Return the first bucket of a window."""
    if span == 0:
        return 0
    ages = np.cumsum(speed.sizes[::-1])
    return max(ages.size - 1 - int(np.searchsorted(ages, _SPANS[span - 1])), 0)
