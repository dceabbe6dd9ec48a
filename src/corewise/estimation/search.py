"""Maximum likelihood in a family of curves, and profile-likelihood intervals.

Families with one parameter and a closed form are searched with a certificate (`_kernels.global_maximum`). Any
other curve is searched from a grid of starting points by its score, and the answer is checked to be
stationary; the best of a grid is no proof, and is not called certified.

Intervals hold every value of a parameter for which some curve (and size rate, if that is unknown) has a
log-likelihood within χ²/2 of the best: profile likelihood.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, cached_property
from operator import itemgetter

import numpy as np

from corewise.errors import NotConverged
from corewise.estimation import _kernels
from corewise.estimation.likelihood import Likelihood
from corewise.kit.arrays import Bools, Floats
from corewise.model.speedup import FAMILIES

__all__ = ["ABSCISSAE", "CODES", "ClosedFit", "Fit", "GeneralFit", "fit_curve_to", "highest_value"]

ABSCISSAE: dict[int, Callable[[Floats], Floats]] = {
    _kernels.AMDAHL: lambda z: 1.0 - 1.0 / z,
    _kernels.POWER: np.log,
    _kernels.GUSTAFSON: lambda z: z - 1.0,
}
CODES = {family: family.code for family in FAMILIES.values() if family.code in ABSCISSAE}
_Columns = tuple[int, Floats, Floats, Floats]
_STATIONARY = 1e-4
"""The largest slope of ℓ at a maximum, in units of its standard error: far below what an interval shows."""
_STILL = 1e-9
"""The slope, in the same units, at which the search rests."""
_MOST_STEPS = 500
_GRID = {1: 257, 2: 13}
_FARTHEST = 1e6  # no parameter of a speed-up curve that is bounded below only means more than this


@dataclass(frozen=True, eq=False)
class Fit(ABC):
    """Maximum likelihood fit of a family of curves to the statistics of a class.

    Attributes
    ----------
    likelihood : Likelihood
        What was maximised.
    parameters : ndarray
        Where.
    value : float
        The log-likelihood there.
    certified : bool
        Whether it is proved to be the global maximum.
    """

    likelihood: Likelihood
    parameters: Floats
    value: float
    certified: bool

    @cached_property
    def stderr(self) -> Floats:
        """The standard errors, from the observed information; infinite where there is none."""
        information = self.likelihood.observed_information(self.parameters)
        if not np.all(np.isfinite(information)) or np.linalg.eigvalsh(information).min() <= 0.0:
            information = self.likelihood.information(self.parameters)
        with np.errstate(divide="ignore", invalid="ignore"):
            try:
                variance = np.diag(np.linalg.inv(information))
            except np.linalg.LinAlgError:
                variance = np.full(self.parameters.size, np.inf)
        return np.sqrt(np.where(variance > 0.0, variance, np.inf))

    @abstractmethod
    def interval(self, i: int, drop: float) -> tuple[float, float]:
        """Return the values of parameter i at which the profile of ℓ is at most `drop` below the maximum."""


@dataclass(frozen=True, eq=False)
class ClosedFit(Fit):
    """Certified global maximum of the likelihood: one parameter, a closed form, and a known size rate.

    `columns` are the family and, for each width above one core, x, departures and exposure, as the kernels
    want them.
    """

    columns: _Columns

    @classmethod
    def of(cls, likelihood: Likelihood) -> ClosedFit:
        """Return the global maximum."""
        columns = _columns(likelihood)
        p, top, gap = _kernels.global_maximum(*columns)
        at = np.array([p])
        return cls(likelihood, at, likelihood.value(at), gap <= 1e-9 * max(1.0, abs(top)), columns)

    @cached_property
    def stderr(self) -> Floats:
        """The standard error, from the observed information; infinite where there is none."""
        _, bend = _kernels.derivatives(*self.columns, float(self.parameters[0]))
        return np.array([1.0 / math.sqrt(-bend) if bend < 0.0 else math.inf])

    def interval(self, i: int, drop: float) -> tuple[float, float]:
        """Return the hull of all p with ℓ(p) ≥ ℓ(p̂) − drop."""
        columns, p = self.columns, float(self.parameters[i])
        floor = _kernels.value(*columns, p) - drop
        low = _kernels.outermost(*columns, 0.0, p, floor)
        return low, _kernels.outermost(*columns, 1.0, p, floor)


def _columns(likelihood: Likelihood) -> _Columns:
    table, code = likelihood.table, CODES[type(likelihood.family)]
    wide = table.widths > 1.0
    exposure = likelihood.best_size_rate(np.empty(0)) * table.job_time[wide]
    return code, ABSCISSAE[code](table.widths[wide]), table.departures[wide], exposure


class GeneralFit(Fit):
    """Local maximum of the likelihood of any family, the best that a grid of starting points leads to."""

    @classmethod
    def of(cls, likelihood: Likelihood) -> GeneralFit:
        """Return the best maximum found."""
        points = _grid(likelihood)
        values = np.array([likelihood.value(point) for point in points])
        starts = points[np.argsort(-values, kind="stable")[:4]]
        fits = [_climbed(likelihood, point, ()) for point in starts]
        value, best = max(fits, key=itemgetter(0))
        slope = _rise(likelihood, best)
        if slope > _STATIONARY:
            raise NotConverged(
                f"the likelihood of {likelihood.family.family} still rises at {best.tolist()}, "
                f"by {slope:.2g} per standard error"
            )
        return cls(likelihood, best, value, certified=False)

    def interval(self, i: int, drop: float) -> tuple[float, float]:
        """Return where the profile of ℓ in parameter i falls `drop` below the maximum, on either side."""
        low, high = list(self.likelihood.family.bounds.values())[i]
        return self._crossing(i, low, drop), self._crossing(i, min(high, _FARTHEST), drop)

    def _crossing(self, i: int, bound: float, drop: float) -> float:
        from scipy.optimize import brentq

        best, last = float(self.parameters[i]), self.parameters
        grid = _grid(self.likelihood)
        grid[:, i] = best
        grid = np.unique(grid, axis=0)

        @cache  # a root finder asks for the ends of its bracket again, and wants the same answer
        def excess(at: float) -> float:
            nonlocal last
            # The profile may follow a ridge that bends, or leave it for another.
            points = np.vstack([self.parameters, last, grid])
            points[:, i] = at
            starts = (points[0], points[1], max(points[2:], key=self.likelihood.value))
            value, last = max((_climbed(self.likelihood, start, (i,)) for start in starts), key=itemgetter(0))
            return value - self.value + drop

        step = float(self.stderr[i])
        step = step if 0.0 < step < math.inf else 0.01 * max(abs(bound - best), 1e-6)
        inside, toward = best, math.copysign(1.0, bound - best)
        while True:
            outside = inside + toward * step
            if (outside - bound) * toward >= 0.0:
                if excess(bound) >= 0.0:
                    return bound if bound < _FARTHEST else math.inf
                outside = bound
            if excess(outside) < 0.0:
                return float(brentq(excess, inside, outside, xtol=1e-12, rtol=1e-9))
            inside, step = outside, 2.0 * step


def _grid(likelihood: Likelihood) -> Floats:
    """Return starting points over the whole range of the parameters."""
    bounds = list(likelihood.family.bounds.values())
    count = _GRID.get(len(bounds), 7)
    axes = []
    for low, high in bounds:
        if math.isfinite(high - low):
            axes.append(np.linspace(low, high, count))
        else:
            start = low if math.isfinite(low) else -_FARTHEST
            axes.append(start + np.concatenate([[0.0], np.geomspace(1e-6, 1e2, count - 1)]))
    return np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], axis=-1)


def _climbed(likelihood: Likelihood, start: Floats, held: tuple[int, ...]) -> tuple[float, Floats]:
    """Return ℓ and the parameters at the maximum that a start leads to; those in `held` stay where they are.

    Fisher scoring, θ ← θ + I⁻¹ ℓ', damped as by Levenberg and Marquardt until ℓ rises, within the bounds.
    Parameters at a bound that ℓ pushes against stay there for the step.
    """
    low, high = likelihood.bounds
    here, value, damping = start, likelihood.value(start), 1e-3
    for _ in range(_MOST_STEPS):
        score, information = likelihood.score(here), likelihood.information(here)
        free = ~_blocked(here, score, low, high)
        free[list(held)] = False
        spread = np.diag(information)
        if not free.any() or np.all(score[free] ** 2 <= _STILL**2 * spread[free]):
            break
        damped = information + damping * np.diag(np.maximum(spread, 1e-12))
        ahead = here.copy()
        ahead[free] += np.linalg.solve(damped[np.ix_(free, free)], score[free])
        ahead = np.clip(ahead, low, high)
        step, reached = ahead - here, likelihood.value(ahead)
        hoped = float(score @ step - 0.5 * step @ information @ step)
        if reached > value:
            # A step that gains far less than its model says has overshot: go on, but not as boldly.
            damping = max(damping / 10.0, 1e-12) if reached - value > 0.25 * hoped else 10.0 * damping
            here, value = ahead, reached
        elif damping > 1e12 or np.array_equal(ahead, here):
            break
        else:
            damping *= 10.0
    return value, here


def _blocked(parameters: Floats, score: Floats, low: Floats, high: Floats) -> Bools:
    """Return which parameters are at a bound that ℓ pushes against."""
    return ((parameters <= low) & (score <= 0.0)) | ((parameters >= high) & (score >= 0.0))


def _rise(likelihood: Likelihood, parameters: Floats) -> float:
    """Return how steeply ℓ still rises along a parameter that is free, in units of its standard error."""
    score, spread = likelihood.score(parameters), np.sqrt(np.diag(likelihood.information(parameters)))
    known = replace(likelihood, size_rate=likelihood.best_size_rate(parameters))
    # What a size rate makes up for is flat but for rounding.
    noise = 1e-6 * np.sqrt(np.diag(known.information(parameters)))
    low, high = likelihood.bounds
    free = ~_blocked(parameters, score, low, high) & (spread > noise)
    return float(np.max(np.abs(score[free]) / spread[free], initial=0.0))


def fit_curve_to(likelihood: Likelihood) -> Fit:
    """Return the most likely curve of a family."""
    return ClosedFit.of(likelihood) if _is_closed(likelihood) else GeneralFit.of(likelihood)


def highest_value(likelihood: Likelihood, start: Floats) -> float:
    """Return the maximum of ℓ over a family, looked for near `start` if there is no certified search."""
    if _is_closed(likelihood):
        return ClosedFit.of(likelihood).value
    return _climbed(likelihood, start, ())[0]


def _is_closed(likelihood: Likelihood) -> bool:
    return likelihood.size_rate is not None and type(likelihood.family) in CODES
