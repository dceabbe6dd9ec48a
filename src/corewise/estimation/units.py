r"""Unit of time: whether the times of a log are in the unit of the rates of the system file.

A log in seconds and rates per hour differ by a factor of 3600, which no curve explains: every job is far
slower than on one core, and the most likely parallel fraction is zero. With K arrivals in a time T and rates
λ_i, K / (T Σ λ_i) is about one if the units agree. Without arrival rates, departures are compared with the
most and the least that any curve has, min(z, 1) ≤ s(z) ≤ z.
"""

from __future__ import annotations

import math

import numpy as np

from corewise.kit.unit_labels import rate_suffix
from corewise.model.system import System
from corewise.model.units import UNITS
from corewise.observation.statistics import Statistics, require_statistics

__all__ = ["pace", "unit_question"]

_FAR = 10.0
"""Factor from which on a difference of rates is taken for one of units."""

_FEW = 10
"""Minimum number of events, observed or expected, to compare units by."""

_NEAR = 1.3
"""Factor within which two units explain a difference."""

_USUAL = ("seconds", "minutes", "hours", "days", "milliseconds")
"""Units of rates, the likelier ones first."""


def pace(statistics: Statistics, system: System) -> float:
    """Return how many times as fast as the rates of a system a log is.

    One if it is not far from that, or if there are few events; without arrival rates, if a curve explains it.
    """
    require_statistics(statistics, system.names)
    known = ~np.isnan(system.arrival_rates)
    if np.any(known):
        seen = float(sum(table.arrivals for table, has in zip(statistics.classes, known, strict=True) if has))
        least = most = statistics.time * float(system.arrival_rates[known].sum())
    else:
        seen = float(statistics.departures)
        pairs = list(zip(system.size_rates.tolist(), statistics.classes, strict=True))
        least = math.fsum(rate * float(t.job_time @ np.minimum(t.widths, 1.0)) for rate, t in pairs)
        most = math.fsum(rate * float(t.job_time @ t.widths) for rate, t in pairs)
    if max(seen, most) < _FEW or not least > 0.0:
        return 1.0
    ratio = max(seen, 0.5) / min(max(seen, least), most)
    return ratio if abs(math.log(ratio)) > math.log(_FAR) else 1.0


def unit_question(ratio: float, unit: str | None = None) -> str | None:
    """Return the question which units would explain a log that is so many times as fast; None for one.

    `unit` is what rates are in, where that is known.
    """
    if ratio == 1.0:
        return None
    shown = f"{ratio:.4g} times" if ratio > 1.0 else f"1/{1.0 / ratio:.4g} of"
    for rates in _USUAL if unit is None else (unit,):
        for times, length in UNITS.items():
            if abs(math.log(ratio * UNITS[rates] / length)) < math.log(_NEAR):
                units = f"are its times in {times}, and the rates{rate_suffix(rates)}?"
                if unit is not None:
                    units = f"the log seems to be in {times}, and the file says {unit}."
                return f"{shown} the rates of the file: {units}"
    both = "the same unit of time" if unit is None else unit
    return f"{shown} the rates of the file: are both in {both}?"
