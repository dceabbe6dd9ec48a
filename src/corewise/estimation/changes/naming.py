"""Naming of changes: whether it was the curve or the size rate that changed, and what is done about it.

See `corewise.estimation.changes.detector` for the mathematics.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from corewise.estimation.changes.alarms import Alarm, Check, believed_rate
from corewise.estimation.changes.buckets import Buckets
from corewise.estimation.changes.doubts import Suspect
from corewise.estimation.changes.fits import due_of
from corewise.estimation.changes.grid import columns_of, rescaled
from corewise.kit.arrays import Floats
from corewise.kit.frozen import FrozenMapping

if TYPE_CHECKING:
    from corewise.estimation.changes.class_detector import ClassDetector

__all__ = ["named", "resumed"]

_LEAD = 3.0
"""By how much one explanation must lead to be named; it may be wrong once in e³ = 20 times."""

_SURE = 12.0
"""By how much it must lead for the matter to be closed."""

_GOING_ON = 20
"""After so many departures a class in which nobody left has a size rate again, however low."""

_AS_BEFORE = 2.0
"""Within so many standard errors of the size rate before, that of jobs that leave again is the same."""


def named(detector: ClassDetector, now: Check, nodes: Floats) -> tuple[ClassDetector, list[Alarm]]:
    """Return the detector and an alarm that says what changed, if that has become clear."""
    suspect = detector.suspect
    if suspect is None:
        return detector, []
    row, size_rate = detector.speed.rows.sum(axis=0), detector.known.known_size_rate
    departed, spent = columns_of(row, nodes)
    curve = detector.curve if suspect.sure else detector.fitted_to(row, nodes)[0]
    old, new = suspect.curve.rate(nodes), curve.rate(nodes)
    count, due = due_of(row, size_rate * old, nodes)
    if not due > 0.0 or (suspect.stalled and count < _GOING_ON):
        return detector, []
    factor = believed_rate(count, due)
    by_size = float(departed @ np.log(old)) + count * math.log(factor) - count
    by_curve = float(departed @ np.log(new)) - size_rate * float(spent @ new)
    lead = (by_size - by_curve) / max(detector.factors.values()) if curve.bounds else math.inf
    kind = suspect.alarm.kind if abs(lead) < _LEAD else "curve" if lead < 0.0 else "size rate"
    rates = [detector.size_rate_factor * size_rate * part for part in (1.0, count / due)]
    sides = {
        "curve": (suspect.curve.parameters, curve.parameters),
        "size rate": ({"size_rate": rates[0]}, {"size_rate": rates[1]}),
    }
    alarm = suspect.alarm
    if kind != alarm.kind or suspect.stalled:
        before, after = (FrozenMapping(side) for side in sides[kind])
        alarm = replace(alarm, kind=kind, raised=now.departures, before=before, after=after)
    alarms = [] if alarm is suspect.alarm else [alarm]
    if suspect.sure and lead >= _SURE and count > 0.0:
        return _with_size_rate(detector, suspect, factor, nodes), alarms
    closed = suspect.sure and lead <= -_SURE
    return replace(detector, suspect=None if closed else replace(suspect, alarm=alarm)), alarms


def resumed(
    detector: ClassDetector, stall: Suspect, alarm: Alarm, before: Floats, rest: Buckets, nodes: Floats
) -> tuple[ClassDetector, Alarm]:
    """Return the detector after jobs have begun to leave again, and the alarm that says so.

    They are held against what was seen before they ceased to; if they leave as they did then, that is put
    back.
    """
    rate = detector.known.known_size_rate * stall.curve.rate(nodes)
    count, due = due_of(rest.rows.sum(axis=0), rate, nodes)
    ceased, late = due_of(before, rate, nodes)
    if not (count > 0.0 and due > 0.0 and late > 0.0):
        return detector, alarm
    believed = detector.size_rate_factor * detector.known.known_size_rate
    sides = [FrozenMapping({"size_rate": believed * part}) for part in (ceased / late, count / due)]
    alarm = replace(alarm, kind="size rate", before=sides[0], after=sides[1])
    suspect = replace(stall, alarm=alarm)
    detector = replace(
        detector.since(int(rest.sizes.sum()), stall.curve), speed=rest, suspect=suspect, strata=None
    )
    as_before = abs(math.log(count / due)) <= _AS_BEFORE / math.sqrt(count)
    return _with_size_rate(detector, suspect, 1.0, nodes) if as_before else detector, alarm


def _with_size_rate(detector: ClassDetector, suspect: Suspect, factor: float, nodes: Floats) -> ClassDetector:
    """Return the detector after a change of the size rate by a factor, with what was seen before it."""
    rest = Buckets(detector.speed.sizes, rescaled(detector.speed.rows, nodes, factor))
    return replace(
        detector,
        curve=suspect.curve,
        speed=rest.after(max(suspect.checks, int(rest.sizes[0])), suspect.row),
        offsets=detector.offsets[:0],
        size_rate_factor=detector.size_rate_factor * factor,
        min_checks_before=0,
        suspect=None,
    )
