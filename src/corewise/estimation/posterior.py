r"""Curves and size rates of several classes together, quickly: what a loop needs after every window.

*One class.* With the priors p ~ uniform on its range and μ ~ dμ/μ the posterior of p is the normalised
profile likelihood, as ∫ μⁿ e^{−μ S} dμ/μ = Γ(n)/Sⁿ: with n departures and S(p) = Σ_z W s(z; p),

    log π(p) = Σ_z D log s(z; p) − n log S(p) + const,    μ | p ~ Gamma(n, S(p)),

so that x = log μ is nearly normal given p, with mean ψ(n) − log S(p) and variance ψ'(n).

*Several classes.* Wide jobs determine μ s but hardly μ and s. Classes of one pool lend each other strength:
their x_i are taken to be normal about a common m, with a spread τ that may be anything from none at all to a
factor of e³, and that the data choose: where they distinguish size rates τ is large and each class is
estimated by itself; where they do not, equal rates are the best guess. What the others say of class i is a
prior of x_i,

    q_i(x) = Σ_τ ∫ N(x; m, τ²) Π_{j≠i} ∫ N(y; m, τ²) L_j(y) dy dm,

with L_j the likelihood of x_j, p_j integrated out; by Fourier transforms on a grid of x.

Policies are made at the posterior mean p̄ and the posterior mean of x *given p̄*: the maximum is at an end of
the range in many small samples and makes poor policies, and a p of one fit with the μ of another describes no
class at all; what is well known is their product. Families with more parameters are taken one by one, with
the normal distribution at the maximum, cut off at their bounds.

Where jobs held one width only, or one core and less, p and μ of a class are not identifiable.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from corewise.estimation import _kernels
from corewise.estimation.likelihood import Likelihood, curve_of
from corewise.estimation.quantities import Quantity
from corewise.estimation.search import ABSCISSAE, CODES, fit_curve_to
from corewise.kit.arrays import Floats
from corewise.model.speedup import SpeedUp
from corewise.observation.statistics import ClassStatistics

__all__ = ["Posterior", "posteriors_of"]

_POINTS = 401
_NODES = 300  # of the grid of x
_TAILS = (0.025, 0.975)
_SPREADS = (0.0, 0.3, 1.0, 3.0)
"""τ, each as likely beforehand."""
_NEGLIGIBLE = 1e-9
_STEPS = 4.0  # of the points in a standard deviation, at least
_REACH = 8.0  # standard deviations, beyond which nothing is

_SPEEDS: dict[int, Callable[[Floats], Floats]] = {
    _kernels.AMDAHL: lambda px: 1.0 / (1.0 - px),
    _kernels.POWER: np.exp,
    _kernels.GUSTAFSON: lambda px: 1.0 + px,
}
"""s as a function of p x, see `_kernels`."""


@dataclass(frozen=True)
class Posterior:
    """Posterior of a class's curve and size rate.

    Attributes
    ----------
    curve : SpeedUp
        The curve at the posterior mean.
    size_rate : Quantity
        μ there, with its standard deviation and a central interval of all that is likely.
    stderrs, intervals : tuple
        Of each parameter, likewise.
    """

    curve: SpeedUp
    size_rate: Quantity
    stderrs: tuple[float, ...]
    intervals: tuple[tuple[float, float], ...]


def posteriors_of(tables: Sequence[ClassStatistics], curves: Sequence[SpeedUp]) -> tuple[Posterior, ...]:
    """Return the posteriors of classes of whose curves the families are known, and nothing else.

    At least one job of each must have left.
    """
    alone = [
        _normal(Likelihood(t, c, None)) if len(c.bounds) > 1 else None
        for t, c in zip(tables, curves, strict=True)
    ]
    rows = [_Row.of(t, c) for t, c in zip(tables, curves, strict=True) if len(c.bounds) <= 1]
    together = iter(_together(rows))
    return tuple(next(together) if found is None else found for found in alone)


# --- one parameter, or none ---------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Row:
    """A class on a grid of its parameter: log π, and log S, at each point."""

    table: ClassStatistics
    family: SpeedUp
    points: Floats
    log_weight: Floats
    log_served: Floats

    @classmethod
    def of(cls, table: ClassStatistics, family: SpeedUp) -> _Row:
        """Return the class on its whole range, or on what is likely of it."""
        if not family.bounds:
            return cls._on(table, family, np.zeros(1))
        ((low, high),) = family.bounds.values()
        row = cls._on(table, family, np.linspace(low, high, _POINTS))
        return row.narrowed(*_moments(row.points, _normalised(row.log_weight)))

    @classmethod
    def _on(cls, table: ClassStatistics, family: SpeedUp, points: Floats) -> _Row:
        wide = table.widths > 1.0
        speeds = _speeds(family, points, table.widths[wide])
        served = float(table.job_time[~wide] @ table.widths[~wide]) + speeds @ table.job_time[wide]
        logs = np.log(speeds) @ table.departures[wide] - float(table.departures.sum()) * np.log(served)
        return cls(table, family, points, logs, np.log(served))

    def narrowed(self, mean: float, spread: float) -> _Row:
        """Return the class on a finer grid, if it is too coarse for a distribution of this spread."""
        if self.points.size == 1 or spread >= _STEPS * (self.points[1] - self.points[0]):
            return self
        reach = _REACH * max(spread, self.points[1] - self.points[0])
        low, high = max(self.points[0], mean - reach), min(self.points[-1], mean + reach)
        return _Row._on(self.table, self.family, np.linspace(low, high, _POINTS))

    @cached_property
    def centres(self) -> Floats:
        """The mean of x given p, at each point."""
        from scipy.special import digamma

        return np.asarray(digamma(float(self.table.departures.sum())) - self.log_served)

    @cached_property
    def spread(self) -> float:
        """The standard deviation of x given p."""
        from scipy.special import polygamma

        return math.sqrt(float(polygamma(1, float(self.table.departures.sum()))))

    @property
    def likely_centres(self) -> tuple[float, float]:
        """The range of x beyond which nothing is."""
        kept = self.centres[self.log_weight - self.log_weight.max() > math.log(_NEGLIGIBLE)]
        return float(kept.min()) - _REACH * self.spread, float(kept.max()) + _REACH * self.spread

    def masses(self, nodes: Floats, centres: Floats) -> Floats:
        """Return the probability of each bin of x (columns) for each centre (rows)."""
        from scipy.special import ndtr

        step = nodes[1] - nodes[0]
        edges = np.append(nodes - 0.5 * step, nodes[-1] + 0.5 * step)
        return np.diff(ndtr((edges - centres[:, None]) / self.spread), axis=1)


def _together(rows: Sequence[_Row]) -> list[Posterior]:
    """Return the posteriors of classes that lend each other strength."""
    if not rows:
        return []
    ends = [row.likely_centres for row in rows]
    nodes = np.linspace(min(low for low, _ in ends), max(high for _, high in ends), _NODES)
    masses = [row.masses(nodes, row.centres) for row in rows]
    likely = [_normalised(row.log_weight) @ mass for row, mass in zip(rows, masses, strict=True)]
    priors = _priors(nodes, likely)
    return [
        _found(row, nodes, *both) for row, both in zip(rows, zip(masses, priors, strict=True), strict=True)
    ]


def _priors(nodes: Floats, likely: Sequence[Floats]) -> list[Floats]:
    """Return what the other classes say of each one's x, up to a factor."""
    priors = [np.full(nodes.size, 1.0 if len(likely) == 1 else 0.0) for _ in likely]
    if len(likely) == 1:
        return priors
    step = nodes[1] - nodes[0]
    lags = step * np.arange(1 - nodes.size, nodes.size)
    for tau in _SPREADS:
        kernel = (lags == 0.0).astype(np.float64)
        if tau > step:
            kernel = np.exp(-0.5 * (lags / tau) ** 2) * (step / (tau * math.sqrt(2.0 * math.pi)))
        blurred = [np.convolve(kernel, one, mode="valid") for one in likely]
        for i in range(len(likely)):
            others = np.prod([one for j, one in enumerate(blurred) if j != i], axis=0)
            priors[i] += np.convolve(kernel, others, mode="valid")
    return priors


def _found(row: _Row, nodes: Floats, masses: Floats, prior: Floats) -> Posterior:
    """Return the posterior of a class, given what others say of its size rate."""
    weight = _informed(row, masses, prior)
    finer = row.narrowed(*_moments(row.points, weight))
    if finer is not row:
        row, masses = finer, finer.masses(nodes, finer.centres)
        weight = _informed(row, masses, prior)
    mean, spread = _moments(row.points, weight)
    found = curve_of(row.family, np.array([mean])) if row.family.bounds else row.family
    centre = np.interp([mean], row.points, row.centres)
    here = row.masses(nodes, centre)[0] * prior
    x = float(here @ nodes / here.sum()) if here.sum() > 0.0 else float(centre[0])
    of_rate = (_normalised(row.log_weight) @ masses) * prior
    middle, width = _moments(nodes, of_rate / of_rate.sum())
    low, high = np.exp(_quantiles(nodes, of_rate)).tolist()
    size_rate = Quantity(math.exp(x), math.exp(middle) * width, (low, high))
    if not row.family.bounds:
        return Posterior(found, size_rate, (), ())
    least, most = _quantiles(row.points, weight).tolist()
    return Posterior(found, size_rate, (spread,), ((least, most),))


def _informed(row: _Row, masses: Floats, prior: Floats) -> Floats:
    """Return the posterior weights of the points."""
    plain = _normalised(row.log_weight)
    weight = plain * (masses @ prior)
    total = float(weight.sum())
    return np.asarray(weight / total) if total > 0.0 else plain


def _speeds(family: SpeedUp, points: Floats, widths: Floats) -> Floats:
    """Return s(z; p) for all points p (rows) and widths z > 1 (columns)."""
    code = CODES.get(type(family))
    if code is not None:
        return np.asarray(_SPEEDS[code](np.outer(points, ABSCISSAE[code](widths))))
    if not family.bounds:
        return np.asarray(family.rate(widths)[None, :])
    return np.array([curve_of(family, points[k : k + 1]).rate(widths) for k in range(points.size)])


def _normalised(logs: Floats) -> Floats:
    weight = np.exp(logs - logs.max())
    return np.asarray(weight / weight.sum())


def _moments(points: Floats, weight: Floats) -> tuple[float, float]:
    mean = float(weight @ points)
    return mean, math.sqrt(max(float(weight @ (points - mean) ** 2), 0.0))


def _quantiles(points: Floats, weight: Floats) -> Floats:
    upto = np.cumsum(weight)
    return np.asarray(np.interp(np.array(_TAILS) * upto[-1], upto, points))


# --- several parameters -------------------------------------------------------------------------------


def _normal(likelihood: Likelihood) -> Posterior:
    """Return the normal approximation at the maximum, each parameter cut off at its bounds."""
    from scipy.special import ndtr, ndtri

    fit = fit_curve_to(likelihood)
    values, ends = [], []
    bounds = likelihood.family.bounds.values()
    for best, sd, (low, high) in zip(fit.parameters.tolist(), fit.stderr.tolist(), bounds, strict=True):
        width = sd if math.isfinite(sd) else (high - low if math.isfinite(high - low) else abs(best) + 1e-3)
        below, upto = float(ndtr((low - best) / width)), float(ndtr((high - best) / width))
        inner = best + width * ndtri(below + (upto - below) * np.array([_TAILS[0], 0.5, _TAILS[1]]))
        least, middle, most = np.clip(inner, low, high).tolist()
        values.append(middle)
        ends.append((least, most))
    found = likelihood.curve(np.array(values))
    n = float(likelihood.table.departures.sum())
    rate = n / float(likelihood.table.job_time @ found.rate(likelihood.table.widths))
    sd = rate / math.sqrt(n)
    size_rate = Quantity(rate, sd, (max(rate - 1.96 * sd, 0.0), rate + 1.96 * sd))
    return Posterior(found, size_rate, tuple(fit.stderr.tolist()), tuple(ends))
