"""What was seen before: a prior of what is seen now, until the two contradict each other.

Statistics of progress add, so what was seen on another day is simply added, at a weight that may fall with
its age. Of a class whose jobs have changed since it is dropped: once the rates that were measured now differ
from those that were expected by more than a quarter and by more than three times the error of the difference,
or the sizes of five jobs by more than two times.
"""

from __future__ import annotations

import math

import numpy as np

from corewise.estimation.progress.curves import Cells, RateCurves
from corewise.estimation.progress.sizes import SizesSeen
from corewise.estimation.progress.statistics import BY_AMOUNT, BY_FRACTION, ClassReports

__all__ = ["contradicts"]

_LEAST, _ERRORS, _STRETCHES = math.log(1.25), 3.0, 3.0
_SIZES, _RATIO = 5.0, 2.0


def contradicts(now: ClassReports, before: ClassReports) -> bool:
    """Return whether what is seen of a class now contradicts what was seen before."""
    if now.completed >= _SIZES and before.completed:
        sizes = [SizesSeen.of(reports.sizes).remaining(0.0) for reports in (now, before)]
        if abs(math.log(sizes[0] / sizes[1])) > math.log(_RATIO):
            return True
    return any(_rates_contradict(now, before, scale) for scale in (BY_AMOUNT, BY_FRACTION))


def _rates_contradict(now: ClassReports, before: ClassReports, scale: int) -> bool:
    here, there = (Cells.of(reports.rates, scale) for reports in (now, before))
    if here.stretches.sum() < _STRETCHES or not there.octave.size:
        return False
    curves = RateCurves(there, int(here.cores.max()))
    off, variance = np.empty(here.octave.size), np.empty(here.octave.size)
    for k, (octave, cores) in enumerate(zip(here.octave.tolist(), here.cores.tolist(), strict=True)):
        table = curves.at(octave)
        off[k] = here.log_rate[k] - math.log(table.rate * table.speeds[cores])
        variance[k] = here.variance[k] + table.rate_error**2 + table.errors[cores] ** 2
    weights = 1.0 / variance
    mean, error = float(off @ weights / weights.sum()), float(weights.sum() ** -0.5)
    return abs(mean) > max(_LEAST, _ERRORS * error)
