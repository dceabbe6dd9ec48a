r"""Confidence bands of curves, and the empirical speeds at each width, without a curve (points).

*Points.* D departures in a job-time W at a width show the speed D/(μW), and D is a Poisson count. Widths near
each other are taken together until enough jobs left.

*The band* is pointwise: at every width z the range of s(z; θ) over the parameters whose log-likelihood is
within χ²/2 (one degree of freedom) of the best, which is the profile-likelihood interval of the speed s(z).
With one parameter its edges are the curves at the two ends of the parameter's interval. With more, parameters
that make up for each other (contention and coherency) leave a set much smaller than the box of their
intervals, and one that bends. It is explored from θ̂ in directions spread evenly in the metric of the
information; from the best curve found so, s(z) is then pushed up and down within the set (sequential
quadratic programming, bounds included) at a number of widths. All curves that make up the band are in the
set, also at the end of a parameter's range, where standard errors mean nothing.
"""

from __future__ import annotations

import math
import warnings
from itertools import product
from typing import NamedTuple

import numpy as np

from corewise.estimation.likelihood import Likelihood, likely_drop
from corewise.estimation.quantities import poisson_rate
from corewise.kit.arrays import Floats
from corewise.observation.statistics import ClassStatistics

__all__ = ["Speeds", "observed_speeds", "speed_band"]

_LEAST = 20.0  # departures behind a point; fewer leave its speed open by more than a factor of two
_FEWEST = 4.0  # departures behind the only point above one core; fewer show nothing
_POINTS = 12  # of a class, about
_NEAR = 1.25  # widths within this factor may share a point however often they were seen
_PUSHED = 12  # widths at which the edges of a band are looked for
_FARTHEST = 1e3  # steps, after which only bounds can be in the way


class Speeds(NamedTuple):
    """Empirical speeds of groups of widths, with confidence intervals.

    Attributes
    ----------
    width : ndarray
        The mean width of each group, weighted by job-time.
    speed, low, high : ndarray
        The speed D/(μW), and the ends of its exact (Garwood) interval.
    departures : ndarray
        D.
    """

    width: Floats
    speed: Floats
    low: Floats
    high: Floats
    departures: Floats


def observed_speeds(table: ClassStatistics, size_rate: float, confidence_level: float) -> Speeds:
    """Return the empirical speeds D/(μW) at which jobs left, without any curve.

    Groups have at least 20 departures and lie on one side of one core. Above it, where speeds are unknown, a
    single group may have as few as four.
    """
    rows = []
    slow, fast = (table.widths > 0.0) & (table.widths <= 1.0), table.widths > 1.0
    for side, least in ((slow, _LEAST), (fast, _FEWEST)):
        widths, departed = table.widths[side], table.departures[side]
        exposure = size_rate * table.job_time[side]
        edges = _edges(widths, departed)
        for first, last in zip(edges, [*edges[1:], widths.size], strict=True):
            group = slice(first, last)
            count, total = float(departed[group].sum()), float(exposure[group].sum())
            if count >= least and total > 0.0:
                # Counts are fractions where widths were condensed.
                low, high = poisson_rate(round(count), total, confidence_level).interval
                rows.append((widths[group] @ exposure[group] / total, count / total, low, high, count))
    return Speeds(*np.array(rows).reshape(-1, len(Speeds._fields)).T)


def _edges(widths: Floats, departures: Floats) -> list[int]:
    """Return where groups of widths start: each has enough departures, or is the only one."""
    many = float(departures.sum()) / _POINTS
    rest = np.cumsum(departures[::-1])[::-1]  # from each width on
    edges = [0]
    for k in range(1, widths.size):
        count = float(rest[edges[-1]] - rest[k])
        far = widths[k] > _NEAR * widths[edges[-1]]
        if min(count, rest[k]) >= _LEAST and (count >= many or far):
            edges.append(k)
    return edges


def speed_band(
    likelihood: Likelihood, best: Floats, lengths: Floats, z: Floats, confidence_level: float
) -> tuple[Floats, Floats]:
    """Return the confidence band of a curve: the least and the largest s(z) of those nearly as likely.

    Parameters
    ----------
    likelihood : Likelihood
        Of the class.
    best : ndarray
        The most likely parameters.
    lengths : ndarray
        By how much each is uncertain, roughly; positive.
    z : ndarray
        Widths.
    level : float
        The confidence level of the band at each width.
    """
    floor = likelihood.value(best) - likely_drop(confidence_level)
    likely = [best, *(_farthest(likelihood, best, step, floor) for step in _steps(likelihood, best, lengths))]
    if best.size > 1:
        for width in np.geomspace(1.0, max(float(z.max()), 2.0), _PUSHED + 1)[1:]:
            speeds = [float(likelihood.curve(at).rate(width)) for at in likely]
            slowest, fastest = likely[int(np.argmin(speeds))], likely[int(np.argmax(speeds))]
            likely.append(_pushed(likelihood, slowest, lengths, floor, width, up=False))
            likely.append(_pushed(likelihood, fastest, lengths, floor, width, up=True))
    curves = np.stack([likelihood.curve(at).rate(z) for at in likely])
    return curves.min(axis=0), curves.max(axis=0)


def _steps(likelihood: Likelihood, best: Floats, lengths: Floats) -> Floats:
    """Return steps in all directions that are about equally likely, and no longer than the lengths."""
    reach = 2 if best.size <= 2 else 1
    lattice = np.array(list(product(range(-reach, reach + 1), repeat=best.size)), dtype=np.float64)
    norms = np.linalg.norm(lattice, axis=1)
    directions = np.unique((lattice[norms > 0.0] / norms[norms > 0.0, None]).round(9), axis=0)
    information = np.outer(lengths, lengths) * likelihood.information(best) + np.eye(best.size)
    values, vectors = np.linalg.eigh(information)
    return np.asarray((directions / np.sqrt(values)) @ vectors.T * lengths)


def _farthest(likelihood: Likelihood, best: Floats, step: Floats, floor: float) -> Floats:
    """Return how far one can go from the best parameters, within their bounds, while ℓ is above a floor."""
    low, high = likelihood.bounds

    def at(distance: float) -> Floats:
        return np.clip(best + distance * step, low, high)

    inside, outside = 0.0, 1.0
    while likelihood.value(at(outside)) >= floor:
        inside, outside = outside, 2.0 * outside
        if outside > _FARTHEST:
            return at(inside)
    for _ in range(40):
        middle = 0.5 * (inside + outside)
        inside, outside = (middle, outside) if likelihood.value(at(middle)) >= floor else (inside, middle)
    return at(inside)


def _pushed(
    likelihood: Likelihood, start: Floats, lengths: Floats, floor: float, width: float, *, up: bool
) -> Floats:
    """Return the parameters with ℓ above a floor that make s largest, or least, at a width."""
    from scipy.optimize import NonlinearConstraint, minimize

    low, high = likelihood.bounds
    sign = -1.0 if up else 1.0

    def within(scaled: Floats) -> Floats:
        return np.clip(scaled * lengths, low, high)

    def speed(scaled: Floats) -> tuple[float, Floats]:
        curve = likelihood.curve(within(scaled))
        rate = float(curve.rate(width))
        return sign * math.log(rate), sign * lengths * curve.gradient(width) / rate

    likely = NonlinearConstraint(
        lambda scaled: np.array([likelihood.value(within(scaled))]),
        floor,
        np.inf,
        jac=lambda scaled: (lengths * likelihood.score(within(scaled)))[None, :],
    )
    bounds = list(zip(low / lengths, high / lengths, strict=True))
    with warnings.catch_warnings():  # of steps that rounding takes across a bound; `within` takes them back
        warnings.simplefilter("ignore", RuntimeWarning)
        end = minimize(speed, start / lengths, jac=True, method="SLSQP", bounds=bounds, constraints=likely)
    pushed = within(end.x)
    # Wherever the search ends, within the set it widens the band rightly; outside it is of no use.
    return pushed if likelihood.value(pushed) >= floor - 1e-6 else start
