"""Conclusions: from what is remembered to estimates, and to the system for which to make a policy.

Two rules keep a loop from freezing. An estimate at the end of its range is reported as it is, but the policy
is made for the middle of its interval: with p̂ = 0 and cores that could be withheld, a class might never again
hold more than one core a job, and the likelihood would stay flat for ever. And where the data say nothing
about a class, its last estimate stays.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from corewise.control.residual import Residual
from corewise.estimation.estimates import Estimate, Estimates
from corewise.estimation.mle import estimate
from corewise.estimation.unknown_rates import estimate_unknown, with_rates
from corewise.kit.frozen import FrozenMapping
from corewise.learning.algorithms import Algorithm
from corewise.learning.checkpoint import LearnerState
from corewise.learning.memories import Watchful
from corewise.model.speedup import SpeedUp
from corewise.model.system import System
from corewise.observation.statistics import Statistics

__all__ = ["BUSIEST", "kept", "learned", "to_solve_for"]

BUSIEST = 0.95
"""The load at which to solve if arrivals are found to be more than that: above it a solve takes long."""

_ENOUGH_FOR_A_LAW = 300
"""Departures of a class from which on its size law is believed, if none was given."""


def learned(
    algorithm: Algorithm,
    before: LearnerState,
    seen: Statistics,
    watchful: Watchful | None,
    refine: Callable[[Estimates, Statistics], Estimates] | None = None,
) -> tuple[Estimates, System, System]:
    """Return what follows: estimates, the system with them, and the rates to make a policy for.

    `refine` is given the estimates and what they are from, and returns those to go by, where more was seen
    than statistics hold.
    """
    given = algorithm.system
    if algorithm.knows_rates:
        found = estimate(seen, given, sizes=algorithm.sizes)
        found = found if refine is None else refine(found, seen)
        curves, known = found.curves, before.believed
        estimated = before.estimated.with_curves(curves)
        if watchful is not None:
            return found, watchful.known(estimated), _servable(watchful.known(known), known)
        anew = len(curves) == len(given.classes) and not isinstance(algorithm.policy, Residual)
        return found, estimated, estimated if anew else known  # one system for both, if they are the same
    found = estimate_unknown(seen, given, before.estimated)
    found = found if refine is None else refine(found, seen)
    estimated = with_rates(before.estimated, found, given, seen)
    if watchful is not None:
        estimated = watchful.known(estimated)
    return found, estimated, _servable(estimated, before.believed)


def to_solve_for(algorithm: Algorithm, found: Estimates, known: System) -> System:
    """Return the system for which to make a policy, of estimates and rates."""
    at_end = any(row.at_boundary for row in found.values())
    believed = known.with_curves(_tempered(found) if at_end else found.curves)
    if isinstance(algorithm.policy, Residual):
        return _with_size_laws(believed, found, algorithm.system)
    return believed


def kept(found: Estimates, estimated: System) -> Estimates:
    """Return estimates, with the last one of a class where the data say nothing."""
    rows = {name: _kept(row, estimated[name].speedup) for name, row in found.items()}
    return Estimates(FrozenMapping(rows))


def _with_size_laws(system: System, found: Estimates, given: System) -> System:
    """Return a system with the size laws that were found, of classes that have left often enough."""
    laws = {
        name: row.size_law
        for name, row in found.items()
        if given[name].memoryless and row.departures >= _ENOUGH_FOR_A_LAW
    }
    classes = [replace(known, sizes=laws.get(known.name) or known.sizes) for known in system.classes]
    return system.with_classes(classes, system.changes)


def _servable(system: System, last: System) -> System:
    """Return what is believed of all rates, with fewer arrivals if no policy would keep up easily."""
    return system if system is last or system.load <= BUSIEST else system.at_load(BUSIEST)


def _tempered(found: Estimates) -> dict[str, SpeedUp]:
    """Return the curves to make a policy for: parameters at an end of their range are moved inside.

    Not so where the interval has no middle, as that of κ in the Universal Scalability Law after a few
    departures: it is [0, ∞), and κ = 0 withholds no cores.
    """
    curves = {}
    for name, curve in found.curves.items():
        row = found[name]
        if row.size_rate is not None:  # its size rate is the best one for this very curve
            curves[name] = curve
            continue
        middles = {parameter: 0.5 * sum(interval) for parameter, interval in row.intervals.items()}
        inside = {
            parameter: middles[parameter]
            for parameter, ends in curve.bounds.items()
            if row.parameters[parameter] in ends and math.isfinite(middles[parameter])
        }
        curves[name] = curve.with_parameters(**inside)
    return curves


def _kept(row: Estimate, last: SpeedUp) -> Estimate:
    """Return an estimate, or the last one where the data say nothing."""
    if row.informative or not last.bounds:
        return row
    note = f"{row.note}; the last estimate stays"
    return replace(row, curve=last, parameters=FrozenMapping(last.parameters), note=note)
