"""Estimates for a learning loop with unknown rates: posterior curves and size rates, and arrival rates.

They take two milliseconds per class, where the profile-likelihood intervals of `estimate` take some forty.
"""

from __future__ import annotations

import math
from dataclasses import replace

from corewise.estimation.estimates import Estimate, Estimates
from corewise.estimation.mle import estimate, why_no_information
from corewise.estimation.posterior import Posterior, posteriors_of
from corewise.estimation.quantities import Quantity, plug_in_rate, poisson_rate, share_of
from corewise.kit.frozen import FrozenMapping
from corewise.model.job_class import JobClass
from corewise.model.system import System
from corewise.observation.statistics import ClassStatistics, Statistics

__all__ = ["estimate_unknown", "with_rates"]

_LEVEL = 0.95


def estimate_unknown(statistics: Statistics, system: System, last: System) -> Estimates:
    """Return estimates of all classes; posterior means, and the best size rate there, where it is not known.

    Without information about a curve, the size rate is the best one for the `last` curve; without departures,
    that of half a departure; without arrivals, that of all classes together.
    """
    known = [job_class.size_rate is not None for job_class in system.classes]
    statistics = statistics.capped(system)
    rows = {**_of_known(statistics, system, known)}
    pooled = _pooled(statistics, last)
    informative = {}
    for job_class, table, is_known in zip(last.classes, statistics.classes, known, strict=True):
        if not is_known:
            rows[job_class.name] = row = _without_curve(statistics, table, job_class, pooled)
            if not row.note:
                informative[job_class.name] = (table, job_class.speedup)
    if informative:
        tables, curves = zip(*informative.values(), strict=True)
        for name, found in zip(informative, posteriors_of(tables, curves), strict=True):
            rows[name] = _with_curve(rows[name], found)
    return Estimates(FrozenMapping({name: rows[name] for name in system.names}))


def with_rates(system: System, found: Estimates, known: System, statistics: Statistics) -> System:
    """Return a system with the estimated curves, and the estimated rates where they are unknown."""
    classes = []
    for job_class, given, table in zip(system.classes, known.classes, statistics.classes, strict=True):
        row = found[job_class.name]
        classes.append(
            replace(
                job_class,
                speedup=row.curve or job_class.speedup,
                size_rate=given.size_rate if row.size_rate is None else row.size_rate.value,
                arrival_rate=given.arrival_rate or plug_in_rate(table.arrivals, statistics.time),
            )
        )
    return system.with_classes(classes)


def _of_known(statistics: Statistics, system: System, known: list[bool]) -> Estimates | dict[str, Estimate]:
    """Return the estimates of the classes whose size rate is known."""
    if not any(known):
        return {}
    classes = [job_class for job_class, is_known in zip(system.classes, known, strict=True) if is_known]
    tables = [table for table, is_known in zip(statistics.classes, known, strict=True) if is_known]
    names = tuple(job_class.name for job_class in classes)
    found = estimate(Statistics(names, statistics.time, tuple(tables)), system.with_classes(classes))
    return {
        name: replace(row, share=share_of(table.arrivals, statistics.arrivals, _LEVEL))
        for (name, row), table in zip(found.items(), tables, strict=True)
    }


def _pooled(statistics: Statistics, last: System) -> float:
    """Return the size rate of all classes as if they were one."""
    pairs = zip(statistics.classes, last.classes, strict=True)
    served = math.fsum(_served(table, job_class) for table, job_class in pairs)
    return plug_in_rate(statistics.departures, served)


def _served(table: ClassStatistics, job_class: JobClass) -> float:
    return float(table.job_time @ job_class.curve.rate(table.widths))


def _without_curve(statistics: Statistics, table: ClassStatistics, last: JobClass, pooled: float) -> Estimate:
    """Return the estimate of a class without its curve; with a note if there is no information about that."""
    curve, served = last.speedup, _served(table, last)
    reason = why_no_information(table, curve, None) if curve.bounds else ""
    rate = plug_in_rate(float(table.departures.sum()), served) if served > 0.0 else pooled
    nothing = FrozenMapping(dict.fromkeys(curve.bounds, math.nan))
    return Estimate(
        name=last.name,
        family=curve.family,
        curve=None,
        parameters=nothing,
        stderrs=nothing,
        intervals=FrozenMapping(dict(curve.bounds)),
        log_likelihood=math.nan,
        departures=table.left,
        at_boundary=False,
        informative=False,
        certified=False,
        arrival_rate=poisson_rate(table.arrivals, statistics.time, _LEVEL),
        share=share_of(table.arrivals, statistics.arrivals, _LEVEL),
        size_rate=Quantity(rate, math.nan, (0.0, math.inf)),
        note=reason if table.left else "no departures",
    )


def _with_curve(row: Estimate, found: Posterior) -> Estimate:
    """Return the estimate of a class with the posterior of its curve and size rate."""
    names = found.curve.bounds
    return replace(
        row,
        curve=found.curve,
        parameters=FrozenMapping(found.curve.parameters),
        stderrs=FrozenMapping(dict(zip(names, found.stderrs, strict=True))),
        intervals=FrozenMapping(dict(zip(names, found.intervals, strict=True))),
        informative=True,
        size_rate=found.size_rate,
    )
