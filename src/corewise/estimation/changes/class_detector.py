"""The change detector of one class; see `corewise.estimation.changes.detector` for the mathematics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from corewise.estimation.changes import _kernels
from corewise.estimation.changes.alarms import TAKEN_BACK, Alarm, Check, believed_rate, place_of
from corewise.estimation.changes.buckets import Buckets
from corewise.estimation.changes.departure_rate import DepartureRate, shape_and_rate
from corewise.estimation.changes.dispersion import Dispersion, job_scores
from corewise.estimation.changes.doubts import Evidence, Suspect, evidence_for
from corewise.estimation.changes.fits import due_of, fitted
from corewise.estimation.changes.grid import (
    DEPARTURES,
    PER_OCTAVE,
    SCORES,
    TIME,
    columns_of,
    rescaled_scores,
    row_length,
    scores_of,
    table_of,
)
from corewise.estimation.changes.jumps import Jump, jump_in
from corewise.estimation.changes.naming import named, resumed
from corewise.estimation.changes.scan import WINDOW_LENGTHS, View, window_start
from corewise.estimation.likelihood import curve_of, parameters_of
from corewise.kit.arrays import Floats
from corewise.kit.frozen import FrozenMapping
from corewise.model.job_class import JobClass
from corewise.model.speedup import SpeedUp
from corewise.observation.statistics import ClassStatistics
from corewise.observation.strata.tables import Strata

__all__ = ["ClassDetector", "min_checks_after"]

_SLOWEST = 1e-3
"""The least size rate that a class in which nobody leaves is believed to have, of the one before: below that
no split changes."""

_SURER = 3.0
"""How much further than for an alarm two stretches must lead for the first to be forgotten; and if they lead
by as much less, the alarm is taken back."""

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
        A change that is in doubt: it has not been named, or is not sure. While it is not sure estimates are
        made from what came before it as well, and another change must have come after its alarm.
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
    dispersion: Dispersion = field(default_factory=Dispersion.unknown)
    strata: Strata | None = None

    @classmethod
    def of(cls, known: JobClass, nodes: Floats) -> ClassDetector:
        """Return a detector that has seen nothing yet."""
        if known.size_rate is None:
            known = replace(known, size_rate=1.0, speedup=DepartureRate(known.speedup))
        offsets = np.empty((0, len(known.speedup.bounds)))
        return cls(known, known.speedup, Buckets.empty(row_length(nodes)), offsets)

    def _with_strata(self, table: ClassStatistics, strata: Strata | None) -> tuple[ClassDetector, Floats]:
        """Return the detector that knows what is kept of the single jobs of a window, and their scores."""
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

    @property
    def factors(self) -> dict[str, float]:
        """The factors of the thresholds: by how much ratios are larger than if sizes were exponential."""
        return {"curve": self.dispersion.of_curve, "size rate": self.dispersion.of_size_rate}

    # --- a check ----------------------------------------------------------------------------------

    def observe(
        self,
        table: ClassStatistics,
        strata: Strata | None,
        now: Check,
        nodes: Floats,
        promised: Mapping[str, float],
    ) -> tuple[ClassDetector, list[Alarm]]:
        """Return the detector after one more check, and the alarms raised at it.

        `promised` are the thresholds for exponential sizes.
        """
        detector, scores = self._with_strata(table, strata)
        row = np.zeros(row_length(nodes))
        row[DEPARTURES], row[TIME] = now.seen, now.lasted
        departed, spent = columns_of(row, nodes)
        _kernels.share_out(table.widths, table.departures, table.job_time, PER_OCTAVE, departed, spent)
        spent *= self.size_rate_factor
        scores_of(row)[:] = scores
        detector = replace(detector, speed=self.speed.with_row(row))
        thresholds = {test: factor * promised[test] for test, factor in detector.factors.items()}
        return detector._checked(now, nodes, thresholds)

    def _checked(
        self, now: Check, nodes: Floats, thresholds: Mapping[str, float]
    ) -> tuple[ClassDetector, list[Alarm]]:
        """Return the detector that has looked at what was seen, and the alarms."""
        doubted = self._doubted
        if doubted is not None:
            evidence = evidence_for(self, doubted, nodes, thresholds)
            if evidence.lead >= _SURER:
                return named(self._sure(doubted, evidence), now, nodes)
            if evidence.lead <= -_SURER:
                return self._taken_back(doubted, evidence, now)
            thresholds = {
                test: height + max(evidence.lead, 0.0) * self.factors[test]
                for test, height in thresholds.items()
            }
        view = View.of(self, nodes)
        jump = jump_in(self, view, nodes, thresholds) if view.alerting(thresholds) else None
        if jump is not None:
            detector, alarm = self._alarm(now, nodes, jump, thresholds)
            return detector, [alarm]
        leads = view.window_leads if doubted is None else self.window_leads  # a jump is no drift
        window_index, window_leads = self._foresight(leads, thresholds["curve"])
        curve, offsets = self._estimate(view, window_index, nodes)
        detector = replace(
            self,
            curve=curve,
            offsets=offsets,
            window_index=window_index,
            window_leads=window_leads,
            suspect=self.suspect if window_index == 0 else None,  # what drifts has no one change to be named
        )
        return named(detector, now, nodes)

    @property
    def _doubted(self) -> Suspect | None:
        """The last change, if it is not sure: what was seen before it still counts."""
        return None if self.suspect is None or self.suspect.sure else self.suspect

    @cached_property
    def whole(self) -> Buckets:
        """All that counts."""
        return (
            self.speed if self._doubted is None else self.speed.after(self._doubted.checks, self._doubted.row)
        )

    @property
    def min_checks(self) -> int:
        """How many checks must come before a change point in all that counts.

        While the last change is in doubt, so is what was seen between it and its alarm: it was chosen for
        being unlike what came before. Only a change since then is another one, if it explains more.
        """
        doubted = self._doubted
        return self.min_checks_before if doubted is None else doubted.checks + doubted.fresh

    # --- jumps ------------------------------------------------------------------------------------

    def fitted_to(self, row: Floats, nodes: Floats) -> tuple[SpeedUp, float]:
        """Return the most likely curve of a row and its log-likelihood."""
        return fitted(self.curve, self.known.known_size_rate, row, nodes)

    def _alarm(
        self, now: Check, nodes: Floats, jump: Jump, thresholds: Mapping[str, float]
    ) -> tuple[ClassDetector, Alarm]:
        """Raise an alarm at the most likely change point; return the detector after it, and the alarm.

        The change point is after the bucket where the ratio is largest.
        """
        (test, ratios), whole = jump, self.whole
        factor, split = self.factors[test], int(np.argmax(ratios)) + 1
        before = whole.rows[:split].sum(axis=0)
        old, _ = self.fitted_to(before, nodes)
        rest = whole.since(split)
        new, _ = self.fitted_to(rest.rows.sum(axis=0), nodes)
        place = place_of(whole.rows, ratios / factor, now)
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
        if self.suspect is not None and self.suspect.stalled and self.suspect.sure:
            return resumed(self, self.suspect, alarm, before, rest, nodes)
        checks, fresh = int(whole.sizes[:split].sum()), int(rest.sizes.sum())
        suspect = Suspect(alarm, old, before, checks, fresh, strata=self._strata)
        detector = replace(self, speed=rest, suspect=suspect, strata=None)
        if self.window_index:
            return detector.since(fresh, new), alarm
        evidence = evidence_for(detector, suspect, nodes, thresholds)
        if evidence.lead >= _SURER:
            detector = detector._sure(suspect, evidence)
        detector, alarms = named(detector, now, nodes)
        return detector, alarms[0] if alarms else alarm

    def _taken_back(
        self, suspect: Suspect, evidence: Evidence, now: Check
    ) -> tuple[ClassDetector, list[Alarm]]:
        """Return the detector after a change in doubt was found to be none, and an alarm that says so."""
        parameters = FrozenMapping(evidence.one.parameters)
        alarm = replace(
            suspect.alarm, kind=TAKEN_BACK, raised=now.departures, before=parameters, after=parameters
        )
        detector = replace(
            self,
            curve=evidence.one,
            offsets=self.offsets[:0],
            speed=self.speed.after(max(suspect.checks, int(self.speed.sizes[0])), suspect.row),
            strata=self._strata,
            suspect=None,
        )
        return detector, [alarm]

    def _sure(self, suspect: Suspect, evidence: Evidence) -> ClassDetector:
        """Return the detector that has forgotten what was seen before a change."""
        return replace(
            self.since(suspect.fresh, evidence.after), suspect=replace(suspect, sure=True, strata=None)
        )

    def since(self, fresh: int, curve: SpeedUp) -> ClassDetector:
        """Return the detector that knows the class by what was seen since the last change alone.

        `fresh` checks of it made the alarm.
        """
        return replace(
            self,
            curve=curve,
            offsets=self.offsets[:0],
            min_checks_before=min_checks_after(fresh),
            suspect=None,
        )

    def size_rate(self, nodes: Floats) -> float:
        """Return the size rate to make a policy for."""
        believed = self.size_rate_factor * self.known.known_size_rate
        suspect = self.suspect
        if suspect is None or not suspect.stalled:
            return believed
        rate = self.known.known_size_rate * suspect.curve.rate(nodes)
        count, due = due_of(self.speed.rows.sum(axis=0), rate, nodes)
        return believed * max(believed_rate(count, due), _SLOWEST)

    # --- drift ------------------------------------------------------------------------------------

    def _foresight(self, window_leads: Floats, threshold: float) -> tuple[int, Floats]:
        """Return the window to estimate from, and how far each leads."""
        best = int(window_leads.argmax())
        if window_leads[best] <= _BEYOND_A_JUMP * threshold:
            return self.window_index, window_leads
        return best, np.zeros(window_leads.size)

    def _estimate(self, view: View, window_index: int, nodes: Floats) -> tuple[SpeedUp, Floats]:
        """Return the latest estimate, which is the next reference, and how far from it each window's is."""
        if not self.curve.bounds:
            return self.curve, self.offsets
        low, high = np.array(list(self.curve.bounds.values())).T
        estimates = np.minimum(np.maximum(parameters_of(self.curve) + view.steps, low), high)
        if window_index == self.window_index and view.square <= _STEP:
            return curve_of(self.curve, estimates[window_index]), estimates - estimates[window_index]
        first = window_start(self.whole, window_index)
        curve, _ = self.fitted_to(self.whole.rows[first:].sum(axis=0), nodes)
        return curve, estimates - parameters_of(curve)

    def table(self, nodes: Floats, arrivals: int) -> ClassStatistics:
        """Return the statistics to estimate from."""
        first = window_start(self.whole, self.window_index)
        return table_of(self.whole.rows[first:].sum(axis=0), nodes, arrivals)

    @property
    def _strata(self) -> Strata | None:
        """What is kept of the single jobs of all that counts."""
        kept = None if self._doubted is None else self._doubted.strata
        return kept + self.strata if kept is not None and self.strata is not None else kept or self.strata

    def strata_of(self, table: ClassStatistics) -> Strata | None:
        """Return what is kept of single jobs, if it is of the jobs in the statistics to estimate from.

        Not so for a while after a change, which is found later than it happened; and not in units of a size
        rate that has changed.
        """
        kept = self._strata
        if kept is None or self.window_index or self.size_rate_factor != 1.0:
            return None
        return kept if kept.departures >= _ENOUGH * table.left else None


def min_checks_after(fresh: int) -> int:
    """Return the minimum number of checks before the next change point, if so many made the last alarm.

    They were chosen for being unlike what came before them. If by chance, what comes next is unlike them, and
    one false alarm would lead to another; with as many checks again beside them, they hardly matter.
    """
    return 2 * fresh
