r"""Maximum likelihood estimates of the speed-up curves, class by class.

Classes share no parameters and leave independently given the path, so each has a likelihood of its own. Where
the data say nothing, the answer is "no information", never a number.

Paper: section 3, equation (3.6); Theorem 3.1 is why it works. How well it can work: `fisher_information`.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

import numpy as np

from corewise.errors import InvalidInput, nearest
from corewise.estimation.concave import FREE
from corewise.estimation.estimates import Candidate, Estimate, Estimates
from corewise.estimation.free import free_estimate, sample_size, with_free_candidate, with_weights
from corewise.estimation.likelihood import Likelihood, likely_drop
from corewise.estimation.quantities import Quantity, poisson_rate, positive_quantity, share_of
from corewise.estimation.robust.clusters import JobData, JobRecords, JobTables, misleading
from corewise.estimation.robust.strata import fit_strata
from corewise.estimation.search import Fit, fit_curve_to, highest_value
from corewise.kit import checks
from corewise.kit.arrays import Floats
from corewise.kit.frozen import FrozenMapping
from corewise.model.job_class import JobClass
from corewise.model.speedup import FAMILIES, SpeedUp
from corewise.model.system import System, require_system
from corewise.model.tabulated_sizes import PiecewiseExponential
from corewise.observation.observed import HasPath, HasStatistics, record_of, statistics_of
from corewise.observation.sample_path import SamplePath
from corewise.observation.statistics import ClassStatistics, Statistics, require_statistics
from corewise.observation.strata.tally import can_be_stratified

__all__ = ["ANY", "AUTO", "EXPONENTIAL", "estimate", "require_sizes", "why_no_information"]

ANY, EXPONENTIAL = "any", "exponential"
"""Assumptions about the distribution of sizes."""

AUTO = "auto"
"""Name of a family chosen by the data."""

_FAMILIES: dict[str, SpeedUp] = {
    name: family(**family.guess) for name, family in FAMILIES.items() if family.bounds
}
"""The families that can be asked for, each by some curve of it."""

_CANDIDATES = tuple(_FAMILIES[name] for name in ("amdahl", "power", "usl"))
"""Families that the data choose from; Gustafson's law is for jobs that grow with their cores."""

_NOT_APART = (
    "its size rate cannot be told apart from its curve: jobs would have to run at one core or less as well, "
    "or at more different widths"
)
_ENOUGH = 20
"""Minimum number of departures for a dispersion estimated from single jobs."""

_MANY = 100
"""Minimum number of departures for strata of attained work; with fewer most of them are empty."""

T = TypeVar("T")


class _Method(NamedTuple):
    """Options of an estimate: the confidence level, and whether sizes may have any distribution."""

    level: float
    any_sizes: bool


class _FittedCurve(NamedTuple):
    """Estimated parameters of the best family, with their errors; `sizes` is `ANY` or `EXPONENTIAL`."""

    sizes: str
    parameters: Floats
    stderrs: Floats
    intervals: list[tuple[float, float]]
    certified: bool
    size_rate: Quantity | None
    size_law: PiecewiseExponential | None


@dataclass(frozen=True)
class _ClassData:
    """Statistics of a class, with the estimates that do not depend on its curve."""

    table: ClassStatistics
    arrival_rate: Quantity
    share: Quantity
    jobs: JobData | None


def estimate(
    statistics: Statistics | SamplePath | HasStatistics | HasPath,
    system: System,
    *,
    family: str | Mapping[str, str] | None = None,
    unknown_size_rates: bool | Collection[str] = False,
    level: float = 0.95,
    sizes: str = ANY,
) -> Estimates:
    """Return the estimate of every class's speed-up curve.

    By maximum likelihood, or by a stratified score that holds for any distribution of sizes.

    Parameters
    ----------
    statistics : Statistics, SamplePath, Run, Replications or EventLog
        Sufficient statistics, or a result that has them. Where single jobs are recorded, standard errors are
        clustered by job and hold for sizes of any distribution; else they assume exponential sizes.
    system : System
        The classes, their size rates, and the family of each curve. The parameters of the curves and the
        arrival rates are not used. A size rate that is None is estimated as well.
    family : str or mapping, optional
        Another family for all classes, or by class: one of ``amdahl``, ``power``, ``gustafson``, ``usl``;
        ``free`` for the most likely concave curve, of no family; or ``auto``: Amdahl, power law, USL and the
        free curve are tried, and the Bayesian information criterion chooses.
    unknown_size_rates : bool or collection of str, optional
        Classes whose size rate is to be estimated although the system has one. It can be separated from the
        curve if jobs also ran at one core or less, or at several widths.
    level : float, optional
        The confidence level of the intervals.
    sizes : str, optional
        ``"any"``: curves of one parameter are estimated for any distribution of sizes wherever single jobs
        are recorded, see `corewise.estimation.robust.strata`, and errors of all others are clustered by job.
        ``"exponential"``: the paper's likelihood, with its own errors.

    Raises
    ------
    InvalidInput
        If there are no data, or they are not of the system's classes.
    NotConverged
        If the search for a maximum failed.

    Examples
    --------
    >>> import corewise as cw
    >>> system = cw.load_system("paper:1")
    >>> run = cw.simulate(system, "equi", departures=20_000, rng=7)
    >>> estimates = cw.estimate(run.statistics, system)
    >>> round(estimates["two"].value, 2)
    0.8
    >>> low, high = estimates["two"].interval
    >>> low < system["two"].speedup.p < high
    True
    """
    require_system(system)
    seen = statistics_of(statistics)
    require_statistics(seen, system.names)
    seen = seen.capped(system)
    confidence_level = checks.within(level, 0.5, 0.999999, "level")
    require_sizes(sizes)
    free = _names(unknown_size_rates, system)
    if isinstance(family, Mapping):
        for name in family:
            system.index(name)
    estimates = {}
    for job_class, table, jobs in zip(
        system.classes, seen.classes, _jobs(statistics, seen, system), strict=True
    ):
        data = _ClassData(
            table,
            poisson_rate(table.arrivals, seen.time, confidence_level),
            share_of(table.arrivals, seen.arrivals, confidence_level),
            jobs,
        )
        size_rate = None if job_class.name in free else job_class.size_rate  # None: to be estimated
        chosen = family.get(job_class.name) if isinstance(family, Mapping) else family
        method = _Method(confidence_level, sizes == ANY)
        estimates[job_class.name] = _estimate_as(chosen, job_class, data, size_rate, method)
    return Estimates(FrozenMapping(estimates), confidence_level, system.unit)


def require_sizes(sizes: object) -> None:
    """Raise `InvalidInput` unless this is an assumption about sizes."""
    if sizes not in (ANY, EXPONENTIAL):
        raise InvalidInput(f"sizes must be {ANY!r} or {EXPONENTIAL!r}, got {sizes!r}")


def _jobs(given: object, seen: Statistics, system: System) -> list[JobData | None]:
    """Return the data of the single jobs of each class: from a record, or from tables of strata."""
    path = record_of(given)
    if path is not None:
        rows = zip(path.histories, system.classes, strict=True)
        return [None if jobs is None else JobRecords(jobs.capped(known.max_cores)) for jobs, known in rows]
    tables = seen.strata or (None,) * len(seen.classes)
    return [None if table is None else JobTables(table) for table in tables]


def _names(chosen: bool | Collection[str], system: System) -> set[str]:
    """Return the classes chosen: all, none, or those named."""
    if isinstance(chosen, bool):
        return set(system.names) if chosen else set()
    if isinstance(chosen, str) or not isinstance(chosen, Collection):
        raise InvalidInput(f"unknown_size_rates must be True, False or names of classes, got {chosen!r}")
    for name in chosen:
        system.index(name)
    return set(chosen)


def _estimate_as(
    family: str | None, job_class: JobClass, data: _ClassData, size_rate: float | None, method: _Method
) -> Estimate:
    """Return the estimate of one class in the family of a name, or without a family."""
    name, table, curve, level = job_class.name, data.table, job_class.speedup, method.level
    if family == FREE:
        return free_estimate(_nothing(name, data, curve, ""), table, size_rate, level)
    if family is None and size_rate is None and not curve.bounds and table.left:
        served = float(table.job_time @ curve.rate(table.widths))
        nothing = _nothing(name, data, curve, why_no_information(table, curve, None))
        return replace(nothing, size_rate=poisson_rate(table.left, served, level))
    found = _estimate_class(name, data, _families(family, job_class), size_rate, method)
    if family != AUTO:
        return found
    return with_free_candidate(found, _nothing(name, data, curve, ""), table, size_rate, level)


def _families(name: str | None, job_class: JobClass) -> tuple[SpeedUp, ...]:
    """Return a curve of every family to try for a class."""
    if name is None:
        return (job_class.speedup,)
    if name == AUTO:
        return _CANDIDATES
    if name not in _FAMILIES:
        raise InvalidInput(f"unknown family {name!r}{nearest(str(name).lower(), [*_FAMILIES, FREE, AUTO])}")
    return (_FAMILIES[name],)


def _estimate_class(
    name: str, data: _ClassData, tried: tuple[SpeedUp, ...], size_rate: float | None, method: _Method
) -> Estimate:
    """Return the estimate of one class, in the best of the families tried."""
    table = data.table
    reasons = [why_no_information(table, curve, size_rate) for curve in tried]
    fits = _fits(
        table, [curve for curve, reason in zip(tried, reasons, strict=True) if not reason], size_rate
    )
    if not fits:
        return _nothing(name, data, tried[0], next(filter(None, reasons), _NOT_APART))
    best = fits[0]
    jobs = _jobs_for(best, data)
    factors = None if jobs is None else jobs.dispersions(best.likelihood, best.parameters)
    found = _fitted(best, jobs, factors, method)
    curve = best.likelihood.curve(found.parameters)
    spread = None if jobs is None else jobs.size_dispersion(curve, method.level)
    omitted = ", ".join(family.family for family, reason in zip(tried, reasons, strict=True) if reason)
    notes = (
        f"not tried for want of different widths: {omitted}" if omitted else "",
        "" if factors is None else misleading(factors, spread, taken=not method.any_sizes),
    )
    names, ends = list(curve.bounds), curve.bounds.values()
    return Estimate(
        name=name,
        family=curve.family,
        curve=curve,
        parameters=_frozen(names, found.parameters.tolist()),
        stderrs=_frozen(names, found.stderrs.tolist()),
        intervals=_frozen(names, found.intervals),
        log_likelihood=best.value if found.sizes == EXPONENTIAL else best.likelihood.value(found.parameters),
        departures=table.left,
        at_boundary=any(value in end for value, end in zip(found.parameters.tolist(), ends, strict=True)),
        informative=True,
        certified=found.certified,
        arrival_rate=data.arrival_rate,
        share=data.share,
        size_rate=found.size_rate,
        candidates=_candidates(fits, table) if len(tried) > 1 else (),
        note="; ".join(filter(None, notes)),
        dispersion=spread,
        sizes=found.sizes,
        size_law=found.size_law,
    )


def _fits(table: ClassStatistics, tried: Sequence[SpeedUp], size_rate: float | None) -> list[Fit]:
    """Return the fits of all families whose parameters the data identify, best first."""
    fits = [fit_curve_to(Likelihood(table, curve, size_rate)) for curve in tried]
    identified = [fit for fit in fits if size_rate is not None or _is_identified(fit)]
    return sorted(identified, key=lambda fit: _bic(fit, table))


def _jobs_for(best: Fit, data: _ClassData) -> JobData | None:
    """Return the data of single jobs, if there are enough and they are for the family of a fit."""
    jobs = data.jobs if data.table.left >= _ENOUGH else None
    if isinstance(jobs, JobTables) and jobs.tables.family != best.likelihood.family.family:
        return None
    return jobs


def _fitted(best: Fit, jobs: JobData | None, factors: Floats | None, method: _Method) -> _FittedCurve:
    """Return the fitted curve with its errors: for any sizes where the data allow it."""
    likelihood = best.likelihood
    if jobs is not None and factors is not None and method.any_sizes:
        if likelihood.table.left >= _MANY and can_be_stratified(likelihood.family):
            return _by_strata(best, jobs, float(factors[0]), method.level)
        return _by_likelihood(best, factors, likely_drop(method.level))
    return _by_likelihood(best, None, likely_drop(method.level))


def _by_likelihood(best: Fit, factors: Floats | None, drop: float) -> _FittedCurve:
    """Return the maximum of the exponential likelihood; its variances are `factors` times the model's."""
    count = best.parameters.size
    wider = [1.0] * (count + 1) if factors is None else factors.tolist()
    unknown = best.likelihood.size_rate is None
    return _FittedCurve(
        EXPONENTIAL,
        best.parameters,
        best.stderr if factors is None else best.stderr * np.sqrt(factors[:count]),
        [best.interval(i, drop * wider[i]) for i in range(count)],
        best.certified,
        _size_rate(best, drop, wider[-1]) if unknown else None,
        None,
    )


def _by_strata(best: Fit, jobs: JobData, dispersion: float, level: float) -> _FittedCurve:
    """Return the estimate from strata of attained work, near that of the exponential likelihood."""
    likelihood = best.likelihood
    (near,), (stderr,) = best.parameters.tolist(), best.stderr.tolist()
    score = jobs.score(likelihood.family, 1.0 / likelihood.best_size_rate(best.parameters))
    fit = fit_strata(score, likelihood.size_rate, (near, stderr * math.sqrt(dispersion)))
    rate = (
        positive_quantity(fit.size_rate, fit.size_rate_stderr, level)
        if likelihood.size_rate is None
        else None
    )
    interval = fit.interval(likely_drop(level))
    values, errors = np.array([fit.value]), np.array([fit.stderr])
    return _FittedCurve(ANY, values, errors, [interval], False, rate, fit.size_law)


def _nothing(name: str, data: _ClassData, curve: SpeedUp, reason: str) -> Estimate:
    """Return the estimate of a class without information about its curve."""
    names = list(curve.bounds)
    return Estimate(
        name=name,
        family=curve.family,
        curve=None,
        parameters=_frozen(names, [math.nan] * len(names)),
        stderrs=_frozen(names, [math.nan] * len(names)),
        intervals=_frozen(names, list(curve.bounds.values())),
        log_likelihood=math.nan,
        departures=data.table.left,
        at_boundary=False,
        informative=False,
        certified=False,
        arrival_rate=data.arrival_rate,
        share=data.share,
        note=reason,
    )


def why_no_information(table: ClassStatistics, curve: SpeedUp, size_rate: float | None) -> str:
    """Return why the data have no information about curves of a family, or an empty text."""
    if not curve.bounds:
        return f"a {curve.family} curve has no parameters to estimate"
    if table.left == 0:
        return "no departures"
    held, z, unknown = table.job_time > 0.0, table.widths, len(curve.bounds)
    above = int(np.count_nonzero(held & (z > 1.0)))
    if size_rate is None and not np.any(held & (z > 0.0) & (z <= 1.0)):
        unknown += 1
    if above == 0:
        return "its jobs never held more than one core"
    if above < unknown:
        widths = "only one number of cores" if above == 1 else f"only {above} different numbers of cores"
        would = "; jobs at one core or less, or at more widths, would" if size_rate is None else ""
        return f"its jobs held {widths} above one, which cannot tell {unknown} unknowns apart{would}"
    return ""


def _is_identified(fit: Fit) -> bool:
    """Return whether a curve can be separated from a change of the size rate."""
    known = replace(fit.likelihood, size_rate=fit.likelihood.best_size_rate(fit.parameters))
    rest, whole = (like.information(fit.parameters) for like in (fit.likelihood, known))
    scale = np.sqrt(np.maximum(np.diag(whole), 1e-300))
    return bool(np.linalg.eigvalsh(rest / np.outer(scale, scale)).min() > 1e-9)


def _size_rate(fit: Fit, likely: float, dispersion: float) -> Quantity:
    """Return the size rate that goes with a curve, and its profile-likelihood interval over all curves.

    Variances are `dispersion` times those of the model.
    """
    from scipy.optimize import brentq

    best, drop = fit.likelihood.best_size_rate(fit.parameters), likely * dispersion

    def excess(log_rate: float) -> float:
        given = replace(fit.likelihood, size_rate=math.exp(log_rate))
        return highest_value(given, fit.parameters) - fit.value + drop

    centre, step = math.log(best), 1.0 / math.sqrt(fit.likelihood.table.departures.sum())
    curvature = (2.0 * drop - excess(centre + step) - excess(centre - step)) / step**2
    ends = []
    for toward in (-1.0, 1.0):
        inside, reach = centre, step
        while excess(inside + toward * reach) >= 0.0 and reach < 100.0:
            inside, reach = inside + toward * reach, 2.0 * reach
        outside = inside + toward * reach
        end = outside if reach >= 100.0 else float(brentq(excess, inside, outside, xtol=1e-10))
        ends.append(math.exp(end))
    stderr = best * math.sqrt(dispersion / curvature) if curvature > 0.0 else math.inf
    return Quantity(best, stderr, (ends[0], ends[1]))


def _bic(fit: Fit, table: ClassStatistics) -> float:
    """Return the Bayesian information criterion, with the departures above one core as sample size."""
    return -2.0 * fit.value + fit.parameters.size * math.log(sample_size(table))


def _candidates(fits: Sequence[Fit], table: ClassStatistics) -> tuple[Candidate, ...]:
    """Return the evidence for each family, best first."""
    return with_weights(
        tuple(
            Candidate(
                fit.likelihood.family.family,
                _frozen(list(fit.likelihood.family.bounds), fit.parameters.tolist()),
                fit.value,
                _bic(fit, table),
                0.0,
            )
            for fit in fits
        )
    )


def _frozen(names: Sequence[str], values: Sequence[T]) -> Mapping[str, T]:
    return FrozenMapping(dict(zip(names, values, strict=True)))
