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
from corewise.estimation.estimates import Candidate, Estimate, Estimates
from corewise.estimation.free import FREE
from corewise.estimation.free_estimate import free_estimate, sample_size, with_free_candidate, with_weights
from corewise.estimation.likelihood import Likelihood, likely_drop
from corewise.estimation.quantities import Quantity, poisson_rate, positive_quantity, share_of
from corewise.estimation.robust.clusters import Jobs, Recorded, Tabulated, misleading
from corewise.estimation.robust.strata import fit_strata
from corewise.estimation.search import Fit, fit_curve_to, highest_value
from corewise.kit import checks
from corewise.kit.arrays import Floats
from corewise.kit.frozen import FrozenMapping
from corewise.model.job_class import JobClass
from corewise.model.speedup import Amdahl, Gustafson, PowerLaw, SpeedUp, Usl
from corewise.model.system import System, require_system
from corewise.model.tabulated_sizes import PiecewiseExponential
from corewise.observation.observed import HasPath, HasStatistics, record_of, statistics_of
from corewise.observation.sample_path import SamplePath
from corewise.observation.statistics import ClassStatistics, Statistics, require_statistics
from corewise.observation.strata.tally import can_be_stratified

__all__ = ["ANY", "AUTO", "EXPONENTIAL", "estimate", "require_sizes", "why_no_information"]

ANY, EXPONENTIAL = "any", "exponential"
"""What sizes are taken to be."""

AUTO = "auto"
"""The family to name when the data are to choose one."""

_FAMILIES: dict[str, SpeedUp] = {
    curve.family: curve for curve in (Amdahl(0.5), PowerLaw(0.5), Gustafson(0.5), Usl(0.1, 0.01))
}
"""The families that can be asked for, each by some curve of it."""

_CANDIDATES = tuple(_FAMILIES[name] for name in ("amdahl", "power", "usl"))
"""What the data may choose from. Gustafson's law is of jobs that grow with their cores, not of given jobs."""

_NOT_APART = (
    "its size rate cannot be told apart from its curve: jobs would have to run at one core or less as well, "
    "or at more different widths"
)
_ENOUGH = 20
"""Departures from which on jobs say by themselves how much they differ; of fewer, the model knows better."""

_MANY = 100
"""Departures from which on strata of attained work are worth having; with fewer most of them are empty."""

T = TypeVar("T")


class _Answer(NamedTuple):
    """What was found for the family that fits best: values, and how sure they are."""

    parameters: Floats
    stderrs: Floats
    intervals: list[tuple[float, float]]
    certified: bool
    size_rate: Quantity | None
    size_law: PiecewiseExponential | None


@dataclass(frozen=True)
class _Seen:
    """Statistics of a class, with the estimates that do not depend on its curve."""

    table: ClassStatistics
    arrival_rate: Quantity
    share: Quantity
    jobs: Jobs | None


def estimate(
    statistics: Statistics | SamplePath | HasStatistics | HasPath,
    system: System,
    *,
    family: str | Mapping[str, str] | None = None,
    unknown_size_rates: bool | Collection[str] = False,
    level: float = 0.95,
    sizes: str = ANY,
) -> Estimates:
    """Return the estimate of every class's speed-up curve, by maximum likelihood or for sizes of any law.

    Parameters
    ----------
    statistics : Statistics, SamplePath, Run, Replications or EventLog
        What was seen: its sufficient statistics, or whatever has them. Where a record tells jobs apart,
        standard errors are by job, and hold for sizes of any law; else they take sizes to be exponential.
    system : System
        What is known: the classes, their size rates, and the family of each curve. The parameters of the
        curves and the arrival rates are not used. A size rate that is None is estimated as well.
    family : str or mapping, optional
        Another family for all classes, or by class: one of ``amdahl``, ``power``, ``gustafson``, ``usl``;
        ``free`` for the most likely concave curve, of no family; or ``auto``: Amdahl, power law, USL and the
        free curve are tried, and the Bayesian information criterion chooses.
    unknown_size_rates : bool or collection of str, optional
        Classes whose size rate is to be estimated although the system has one. The data tell it apart from
        the curve if jobs also ran at one core or less, or at several widths.
    level : float, optional
        The confidence level of the intervals.
    sizes : str, optional
        ``"any"``: curves of one parameter are estimated without a law of sizes wherever jobs can be told
        apart, see `corewise.estimation.robust.strata`, and errors of all others are by job.
        ``"exponential"``: the paper's likelihood, and what it says of its errors.

    Raises
    ------
    InvalidInput
        If nothing was seen, or not the system's classes.
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
        data = _Seen(
            table,
            poisson_rate(table.arrivals, seen.time, confidence_level),
            share_of(table.arrivals, seen.arrivals, confidence_level),
            jobs,
        )
        size_rate = None if job_class.name in free else job_class.size_rate  # None: to be estimated
        chosen = family.get(job_class.name) if isinstance(family, Mapping) else family
        how = (confidence_level, sizes == ANY)
        estimates[job_class.name] = _estimate_as(chosen, job_class, data, size_rate, how)
    return Estimates(FrozenMapping(estimates))


def require_sizes(sizes: object) -> None:
    """Raise `InvalidInput` unless this says what sizes are taken to be."""
    if sizes not in (ANY, EXPONENTIAL):
        raise InvalidInput(f"sizes must be {ANY!r} or {EXPONENTIAL!r}, got {sizes!r}")


def _jobs(given: object, seen: Statistics, system: System) -> list[Jobs | None]:
    """Return what is known of the single jobs of each class: from a record, or from tables of strata."""
    path = record_of(given)
    if path is not None:
        rows = zip(path.histories, system.classes, strict=True)
        return [None if jobs is None else Recorded(jobs.capped(known.max_cores)) for jobs, known in rows]
    tables = seen.strata or (None,) * len(seen.classes)
    return [None if table is None else Tabulated(table) for table in tables]


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
    family: str | None, job_class: JobClass, seen: _Seen, size_rate: float | None, how: tuple[float, bool]
) -> Estimate:
    """Return the estimate of one class in the family that is named, or without one; see `_estimate_class`."""
    name, table, curve, level = job_class.name, seen.table, job_class.speedup, how[0]
    if family == FREE:
        return free_estimate(_nothing(name, seen, curve, ""), table, size_rate, level)
    if family is None and size_rate is None and not curve.bounds and table.left:
        served = float(table.job_time @ curve.rate(table.widths))
        nothing = _nothing(name, seen, curve, why_no_information(table, curve, None))
        return replace(nothing, size_rate=poisson_rate(table.left, served, level))
    found = _estimate_class(name, seen, _families(family, job_class), size_rate, how)
    if family != AUTO:
        return found
    return with_free_candidate(found, _nothing(name, seen, curve, ""), table, size_rate, level)


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
    name: str, seen: _Seen, tried: tuple[SpeedUp, ...], size_rate: float | None, how: tuple[float, bool]
) -> Estimate:
    """Return the estimate of one class; `how` are the confidence level, and whether sizes have any law."""
    reasons = [why_no_information(seen.table, curve, size_rate) for curve in tried]
    fits = [
        fit_curve_to(Likelihood(seen.table, curve, size_rate))
        for curve, reason in zip(tried, reasons, strict=True)
        if not reason
    ]
    fits = [fit for fit in fits if size_rate is not None or _is_identified(fit)]
    if not fits:
        reason = next((reason for reason in reasons if reason), _NOT_APART)
        return _nothing(name, seen, tried[0], reason)
    if len(fits) > 1:
        fits.sort(key=lambda fit: _bic(fit, seen.table))
    best, (level, any_law) = fits[0], how
    jobs = seen.jobs if seen.table.left >= _ENOUGH else None
    if isinstance(jobs, Tabulated) and jobs.tables.family != best.likelihood.family.family:
        jobs = None
    factors = None if jobs is None else jobs.dispersions(best.likelihood, best.parameters)
    if (
        jobs is not None
        and factors is not None
        and any_law
        and seen.table.left >= _MANY
        and can_be_stratified(best.likelihood.family)
    ):
        law, found = ANY, _by_strata(best, jobs, float(factors[0]), level)
    else:
        law, found = EXPONENTIAL, _by_likelihood(best, factors if any_law else None, likely_drop(level))
    curve = best.likelihood.curve(found.parameters)
    spread = None if jobs is None else jobs.size_dispersion(curve, level)
    notes = [] if factors is None else [misleading(factors, spread, taken=not any_law)]
    if any(reasons):
        left_out = ", ".join(family.family for family, reason in zip(tried, reasons, strict=True) if reason)
        notes.insert(0, f"not tried for want of different widths: {left_out}")
    names, ends = list(curve.bounds), curve.bounds.values()
    return Estimate(
        name=name,
        family=curve.family,
        curve=curve,
        parameters=_frozen(names, found.parameters.tolist()),
        stderrs=_frozen(names, found.stderrs.tolist()),
        intervals=_frozen(names, found.intervals),
        log_likelihood=best.value if law == EXPONENTIAL else best.likelihood.value(found.parameters),
        departures=seen.table.left,
        at_boundary=any(value in end for value, end in zip(found.parameters.tolist(), ends, strict=True)),
        informative=True,
        certified=found.certified,
        arrival_rate=seen.arrival_rate,
        share=seen.share,
        size_rate=found.size_rate,
        candidates=_candidates(fits, seen.table) if len(tried) > 1 else (),
        note="; ".join(filter(None, notes)),
        dispersion=spread,
        sizes=law,
        size_law=found.size_law,
    )


def _by_likelihood(best: Fit, factors: Floats | None, drop: float) -> _Answer:
    """Return the maximum of the exponential likelihood; its variances are `factors` times the model's."""
    count = best.parameters.size
    wider = [1.0] * (count + 1) if factors is None else factors.tolist()
    unknown = best.likelihood.size_rate is None
    return _Answer(
        best.parameters,
        best.stderr if factors is None else best.stderr * np.sqrt(factors[:count]),
        [best.interval(i, drop * wider[i]) for i in range(count)],
        best.certified,
        _size_rate(best, drop, wider[-1]) if unknown else None,
        None,
    )


def _by_strata(best: Fit, jobs: Jobs, dispersion: float, level: float) -> _Answer:
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
    return _Answer(np.array([fit.value]), np.array([fit.stderr]), [interval], False, rate, fit.size_law)


def _nothing(name: str, seen: _Seen, curve: SpeedUp, reason: str) -> Estimate:
    """Return the estimate of a class that the data say nothing about."""
    names = list(curve.bounds)
    return Estimate(
        name=name,
        family=curve.family,
        curve=None,
        parameters=_frozen(names, [math.nan] * len(names)),
        stderrs=_frozen(names, [math.nan] * len(names)),
        intervals=_frozen(names, list(curve.bounds.values())),
        log_likelihood=math.nan,
        departures=seen.table.left,
        at_boundary=False,
        informative=False,
        certified=False,
        arrival_rate=seen.arrival_rate,
        share=seen.share,
        note=reason,
    )


def why_no_information(table: ClassStatistics, curve: SpeedUp, size_rate: float | None) -> str:
    """Return why the data say nothing about curves of a family, or an empty text."""
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
    """Return whether a curve can be told apart from a change of the size rate."""
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
