r"""One rising curve of a known family from the progress of jobs, beside what their departures say.

It is for policies of classes, which take one curve for all of a job's life. Curves that follow progress and
may fall, for decisions per job, are in `corewise.estimation.progress.curves`.

Work that is done in small pieces is like many departures of small jobs: counts at each width, whose rate is
ν s(z; p) with an unknown size rate ν of pieces. Pieces need not vary like counts: the rounds
of a gang may all be of one size, those of a job may be like each other and unlike another's, and the unit may
be anything. So work is divided by its dispersion φ (`corewise.observation.progress`), a quasi-likelihood: the
estimate is the same, and its variance φ times that of counts.

The size rate for a policy comes from departures, at the curve from progress: μ̂ = D / Σ_z W s(z; p̂).

Progress can mislead: unreported rounds that do more work on more cores scale as no job does. So it is
tested against the departures. With ℓ their likelihood, v the variance of p̂ from progress, v' that from
departures and φ' the dispersion of sizes,

    2 (max ℓ − ℓ(p̂)) / (φ' (1 + v/v'))

is χ² with one degree of freedom per parameter if both agree, and where it is improbably large progress is not
used.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from corewise.estimation.estimates import Estimate
from corewise.estimation.likelihood import Likelihood
from corewise.estimation.mle import why_no_information
from corewise.estimation.posterior import Posterior, posteriors_of
from corewise.estimation.quantities import Quantity, plug_in_rate, poisson_rate, positive_quantity
from corewise.estimation.search import fit_curve_to
from corewise.kit.frozen import FrozenMapping
from corewise.model.speedup import SpeedUp
from corewise.observation.progress import ClassProgress
from corewise.observation.statistics import ClassStatistics

__all__ = ["CONTRADICTED", "FROM_PROGRESS", "with_progress", "without_curve"]

FROM_PROGRESS = "from progress"
CONTRADICTED = "its progress contradicts its departures, which are gone by"

_IMPROBABLE = 1e-5  # at every window anew
_LEVEL = 0.95
_POINTS = 201
_FEW = 20  # departures, fewer contradict nothing


def with_progress(found: Estimate, table: ClassStatistics, seen: ClassProgress, family: SpeedUp) -> Estimate:
    """Return the estimate of a class by its progress, where that is more informative than its departures.

    Parameters
    ----------
    found : Estimate
        The estimate from departures.
    table : ClassStatistics
        The departures.
    seen : ClassProgress
        The progress.
    family : SpeedUp
        A curve of the family.
    """
    if math.isnan(seen.dispersion) or why_no_information(seen.as_counts(), family, None):
        return found
    (by_progress,) = posteriors_of([seen.as_counts()], [family])
    errors = dict(zip(family.bounds, by_progress.stderrs, strict=True))
    is_known = found.size_rate is None
    if found.informative and is_known and all(found.stderrs[name] <= errors[name] for name in errors):
        return found
    if found.informative and _contradicts(by_progress, table, found, seen.size_dispersion):
        return replace(found, note="; ".join(filter(None, (found.note, CONTRADICTED))))
    return replace(
        found,
        curve=by_progress.curve,
        parameters=FrozenMapping(by_progress.curve.parameters),
        stderrs=FrozenMapping(errors),
        intervals=FrozenMapping(dict(zip(errors, by_progress.intervals, strict=True))),
        at_boundary=False,
        informative=True,
        certified=False,
        size_rate=None if is_known else _size_rate(by_progress.curve, table),
        dispersion=_dispersion(seen),
        note=FROM_PROGRESS,
    )


def without_curve(found: Estimate, table: ClassStatistics, last: SpeedUp, why: str) -> Estimate:
    """Return the estimate of a class from whose data no curve is to be learned; rates are at the last one."""
    if not last.bounds:
        return found
    nothing = FrozenMapping(dict.fromkeys(last.bounds, math.nan))
    rate = None if found.size_rate is None else _size_rate(last, table).value
    return replace(
        found,
        curve=None,
        parameters=nothing,
        stderrs=nothing,
        intervals=FrozenMapping(dict(last.bounds)),
        log_likelihood=math.nan,
        at_boundary=False,
        informative=False,
        certified=False,
        size_rate=None if rate is None else Quantity(rate, math.nan, (0.0, math.inf)),
        size_law=None,
        note=why,
    )


def _size_rate(curve: SpeedUp, table: ClassStatistics) -> Quantity:
    """Return the size rate estimated from departures at a curve."""
    served = float(table.job_time @ curve.rate(table.widths))
    found = poisson_rate(table.left, served, _LEVEL)
    return replace(found, value=plug_in_rate(table.left, served)) if served > 0.0 else found


def _dispersion(seen: ClassProgress) -> Quantity | None:
    """Return the dispersion of sizes, with the standard error 2/√n of exponential sizes; None if unknown."""
    spread = seen.size_dispersion
    if not spread > 0.0:
        return None
    return positive_quantity(spread, 2.0 * spread / math.sqrt(seen.sizes[0]), _LEVEL)


def _contradicts(by_progress: Posterior, table: ClassStatistics, found: Estimate, spread: float) -> bool:
    """Return whether departures speak against a curve from progress; `spread` is the dispersion of sizes."""
    from scipy.special import chdtrc

    if table.left < _FEW:
        return False
    curve = by_progress.curve
    likelihood = Likelihood(table, curve, None)
    short = _highest(likelihood) - likelihood.value(np.array(list(curve.parameters.values())))
    larger = np.divide(by_progress.stderrs, list(found.stderrs.values()))
    scale = (1.0 if math.isnan(spread) else max(spread, 1.0)) * (1.0 + float(np.max(larger**2)))
    return bool(chdtrc(len(curve.bounds), 2.0 * max(short, 0.0) / scale) < _IMPROBABLE)


def _highest(likelihood: Likelihood) -> float:
    """Return the maximum of ℓ, of one parameter on a grid: a hundredth of what a search takes."""
    if len(likelihood.family.bounds) > 1:
        return fit_curve_to(likelihood).value
    ((low, high),) = likelihood.family.bounds.values()
    return max(likelihood.value(np.array([at])) for at in np.linspace(low, high, _POINTS))
