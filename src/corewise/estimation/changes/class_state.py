"""Checkpoint of the change detector of one class, as named arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corewise.estimation.changes.alarms import Alarm
from corewise.estimation.changes.buckets import Buckets
from corewise.estimation.changes.class_detector import ClassDetector
from corewise.estimation.changes.dispersion import Dispersion
from corewise.estimation.changes.doubts import Suspect
from corewise.estimation.changes.grid import with_scores
from corewise.estimation.likelihood import curve_of, parameters_of
from corewise.kit.arrays import Floats
from corewise.kit.frozen import FrozenMapping
from corewise.model.job_class import JobClass
from corewise.observation.strata.tables import Strata

__all__ = ["detector_of", "state_of"]

_PENDING = "pending"
"""In checkpoints of earlier versions: what was seen before a change that is not sure, named or not."""

_KINDS = ("speed", "curve", "size rate")
"""What a change of a class's speed may be called."""


def state_of(detector: ClassDetector) -> dict[str, NDArray[Any]]:
    """Return the checkpoint of a detector: all that was seen of the class, as named arrays."""
    arrays: dict[str, NDArray[Any]] = {
        "curve": parameters_of(detector.curve),
        "sizes": detector.speed.sizes,
        "rows": detector.speed.rows,
        "offsets": detector.offsets,
        "leads": detector.window_leads,
        "numbers": np.array([detector.window_index, detector.size_rate_factor, detector.min_checks_before]),
        "dispersion": detector.dispersion.sums,
    }
    if detector.strata is not None:
        arrays |= {f"strata.{name}": array for name, array in detector.strata.arrays.items()}
    suspect = detector.suspect
    if suspect is None:
        return arrays
    if suspect.strata is not None:
        arrays |= {f"earlier.{name}": array for name, array in suspect.strata.arrays.items()}
    alarm = suspect.alarm
    numbers = (alarm.raised, alarm.departures, *alarm.interval, alarm.time, *alarm.time_interval)
    evidence = (alarm.statistic, alarm.threshold, alarm.between, suspect.checks)
    return arrays | {
        "suspect": np.array([*numbers, *evidence, _KINDS.index(alarm.kind)]),
        "doubt": np.array([suspect.fresh, suspect.sure]),
        "before": np.array(list(alarm.before.values())),
        "after": np.array(list(alarm.after.values())),
        "old": parameters_of(suspect.curve),
        "row": suspect.row,
    }


def detector_of(blank: ClassDetector, arrays: Mapping[str, NDArray[Any]], nodes: Floats) -> ClassDetector:
    """Return the detector that goes on from a checkpoint; `blank` is one that has seen nothing."""
    window_index, size_rate_factor, min_checks_before = arrays["numbers"].tolist()
    speed = Buckets(arrays["sizes"], with_scores(arrays["rows"], nodes))
    if _PENDING in arrays and "suspect" not in arrays:
        speed = speed.after(int(speed.sizes[0]), with_scores(arrays[_PENDING], nodes))
    return replace(
        blank,
        curve=curve_of(blank.known.speedup, arrays["curve"]),
        speed=speed,
        window_index=int(window_index),
        offsets=arrays["offsets"],
        window_leads=arrays["leads"],
        size_rate_factor=size_rate_factor,
        min_checks_before=int(min_checks_before),
        dispersion=Dispersion(arrays["dispersion"]) if "dispersion" in arrays else blank.dispersion,
        strata=Strata.of_arrays(blank.known.speedup.family, arrays, "strata."),
        suspect=_suspect_of(blank.known, arrays, nodes) if "suspect" in arrays else None,
    )


def _suspect_of(known: JobClass, arrays: Mapping[str, NDArray[Any]], nodes: Floats) -> Suspect:
    """Return the change that was in doubt."""
    raised, departures, low, high, time, early, late, *evidence = arrays["suspect"].tolist()
    kind = _KINDS[int(evidence[4])]
    names = ["size_rate"] if kind == "size rate" else list(known.speedup.parameters)
    before, after = (
        FrozenMapping(dict(zip(names, arrays[side].tolist(), strict=True))) for side in ("before", "after")
    )
    place = (departures, (low, high), time, (early, late))
    alarm = Alarm(known.name, kind, int(raised), *place, before, after, *evidence[:3])
    earlier = np.array([arrays["numbers"][2] // 2, _PENDING not in arrays])
    fresh, sure = arrays.get("doubt", earlier).tolist()
    return Suspect(
        alarm,
        curve_of(known.speedup, arrays["old"]),
        with_scores(arrays.get(_PENDING, arrays["row"]), nodes),
        int(evidence[3]),
        int(fresh),
        bool(sure),
        Strata.of_arrays(known.speedup.family, arrays, "earlier."),
    )
