r"""Most likely concave speed-up curve, without a family.

With hinges t_k at the widths that jobs held and weights θ_k ≥ 0 (`corewise.estimation.concave`) the departure
rate at z cores is

    r(z) = μ s(z) = Σ_k θ_k min(z, t_k),    μ = Σ_k θ_k,

and the log-likelihood ℓ(θ) = Σ_z D log r − W r is concave in θ. If μ is known, Σθ = μ is one more condition.

*Search.* Fisher scoring: each step is a weighted nonnegative least squares fit, with a line search.

*Certificate.* With g_k = Σ_z (D/r − W) min(z, t_k) concavity gives ℓ(θ*) ≤ ℓ(θ) + (θ* − θ)·g. If μ is known
θ*·g is at most μ max g. If not, θ* has Σ W r = ΣD =: n (or its scale could be better), so θ*·g is at most
n max_k g_k / Σ_z W min(z, t_k). So the distance from the maximum is known, and a search that has not come
near enough raises.

*Profile-likelihood interval* of s(z): the least and the largest s(z) of all curves with ℓ ≥ ℓ* − drop, a
linear objective (or a ratio of linear ones if μ is unknown: Dinkelbach) over a convex set, by its multiplier.
A band has such intervals at m widths, at the level 1 − (1 − level)/m (Bonferroni).

Beyond the widest job in the data the curve is flat. It is compared with those of the families by the Bayesian
information criterion, each corner of it counted as a parameter.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from corewise.errors import NotConverged
from corewise.estimation.concave import FREE, SpeedBand, anchors_of, curve_through, hinge_matrix
from corewise.estimation.estimates import Candidate, Estimate
from corewise.estimation.likelihood import Likelihood, likely_drop
from corewise.estimation.quantities import Quantity
from corewise.kit.arrays import Floats
from corewise.kit.frozen import FrozenMapping
from corewise.model.speedup import Tabulated
from corewise.observation.statistics import ClassStatistics

__all__ = ["FreeFit", "band_of", "free_estimate", "sample_size", "with_free_candidate", "with_weights"]

_MOST_WIDTHS = 120
_PER_OCTAVE = 16  # nodes of the grid to which more widths are condensed
_NEAR = 1e-6  # of ℓ to its maximum
_NEAR_ENOUGH = 1e-3  # where only an interval depends on it
_TOO_FAR = 0.01  # far below what an interval shows, a hundred times what rounding leaves
_MOST_STEPS = 60
_WEIGHT_OF_SUM = 1e4  # relative to other rows: the condition is met to a part in 1e8, and then exactly
_LEAST_BEND = 1e-9  # relative: of rows without data
_SHORTEST = 1e-9
_MOST_RATIOS = 8
_SAME_SPEED = 1e-4
_MOST_PUSHES = 12
_FARTHEST = 1e9


@dataclass(frozen=True, eq=False)
class FreeFit:
    """Maximum likelihood fit of a concave curve without a family.

    Attributes
    ----------
    widths, departures, job_time : ndarray
        The statistics, condensed if at many widths; job-time up to one core is converted to one core.
    size_rate : float or None
        μ, None if unknown.
    weights : ndarray
        θ, of a hinge at each width.
    gap : float
        Upper bound on the distance of ℓ from its maximum.
    """

    widths: Floats
    departures: Floats
    job_time: Floats
    size_rate: float | None
    weights: Floats
    gap: float

    @classmethod
    def of(cls, table: ClassStatistics, size_rate: float | None) -> FreeFit:
        """Return the most likely concave curve."""
        widths, departures, job_time = _rows(table)
        even = np.full(widths.size, 1.0 / widths.size)
        start = cls(widths, departures, job_time, size_rate, even, math.inf)
        served = float(job_time @ (start.matrix @ even))
        scale = float(departures.sum()) / served if size_rate is None else size_rate
        weights, gap = start.climbed(scale * even, np.zeros(widths.size), _NEAR)
        if gap > _TOO_FAR:
            raise NotConverged(f"the likelihood of a free curve may still rise by {gap:.2g}")
        if size_rate is None and job_time[0] == 0.0 and widths.size > 1:
            # No job held one core: its speed there follows from the slope to the narrowest width.
            weights[1] += weights[0] / widths[1]
            weights[0] = 0.0
        return replace(start, weights=weights, gap=gap)

    @cached_property
    def matrix(self) -> Floats:
        """min(z, t) for every width and hinge."""
        return hinge_matrix(self.widths, self.widths)

    @cached_property
    def curve(self) -> Tabulated:
        """The curve, with a corner at each hinge that has a weight."""
        corners = (self.weights > 0.0) & (self.widths > 1.0)
        at, speed = self.widths[corners], (self.matrix @ self.weights)[corners] / self.weights.sum()
        return curve_through(at, speed)

    @property
    def corners(self) -> int:
        """The number of corners above one core."""
        return int(np.count_nonzero(self.weights[1:] > 0.0))

    @property
    def best_size_rate(self) -> float:
        """μ, or the most likely one if it is unknown."""
        return float(self.weights.sum()) if self.size_rate is None else self.size_rate

    def climbed(self, start: Floats, push: Floats, near: float) -> tuple[Floats, float]:
        """Return the weights that maximise ℓ + push·r, and a bound on the distance from the maximum."""
        spent, gap = self.job_time - push, math.inf
        weights, rate = start, self.matrix @ start
        value = self._value(rate, spent)
        for _ in range(_MOST_STEPS):
            slope = self.departures / rate - spent
            gap = self._gap(weights, slope, spent)
            if gap <= near:
                break
            step, length = self._scored(rate, slope) - weights, 1.0
            while (gained := self._value(self.matrix @ (weights + length * step), spent)) <= value:
                length *= 0.5
                if length < _SHORTEST:
                    return weights, gap
            weights, value = weights + length * step, gained
            rate = self.matrix @ weights
        return weights, gap

    def _value(self, rate: Floats, spent: Floats) -> float:
        left = self.departures > 0.0
        if rate[left].min() <= 0.0:
            return -math.inf
        return float(self.departures[left] @ np.log(rate[left]) - spent @ rate)

    def _scored(self, rate: Floats, slope: Floats) -> Floats:
        """Return the weights at the maximum of the quadratic model of ℓ."""
        from scipy.optimize import nnls

        bend = np.where(self.job_time > 0.0, self.job_time / rate, self.departures / rate**2)
        root = np.sqrt(np.maximum(bend, _LEAST_BEND * bend.max()))
        rows, target = root[:, None] * self.matrix, root * rate + slope / root
        if self.size_rate is None:
            return np.asarray(nnls(rows, target)[0])
        heavy = np.full((1, rate.size), _WEIGHT_OF_SUM * float(rows.max()))
        weights = nnls(np.vstack([rows, heavy]), np.append(target, heavy[0, 0] * self.size_rate))[0]
        return np.asarray(weights * (self.size_rate / weights.sum()))

    def _gap(self, weights: Floats, slope: Floats, spent: Floats) -> float:
        """Return the certificate: an upper bound on how much ℓ may still rise."""
        gradient = self.matrix.T @ slope
        if self.size_rate is not None:
            return float(self.size_rate * gradient.max() - weights @ gradient)
        cost = self.matrix.T @ spent
        if cost.min() <= 0.0:
            return math.inf
        return float(self.departures.sum() * (gradient / cost).max() - weights @ gradient)

    # --- intervals

    def interval(self, z: float, drop: float) -> tuple[float, float]:
        """Return the profile-likelihood interval of s(z) at one of the widths."""
        at = int(np.argmin(np.abs(self.widths - z)))
        low, high = (self._end(at, drop, side) for side in (-1.0, 1.0))
        return max(low, 1.0), min(high, float(self.widths[at]))

    def size_rate_interval(self, drop: float) -> tuple[float, float]:
        """Return the profile-likelihood interval of μ."""
        if self.size_rate is not None:
            return self.size_rate, self.size_rate
        low, high = (float(self._pushed(self._along(0, side), self.weights, drop).sum()) for side in (-1, 1))
        return low, high

    def _along(self, at: int, side: float) -> Floats:
        direction = np.zeros(self.widths.size)
        direction[at] = side
        return direction

    def _end(self, at: int, drop: float, side: float) -> float:
        """Return the least or the largest speed at a width of curves within `drop` of the most likely."""
        direction = self._along(at, side)
        weights, speed = self.weights, self._speed(self.weights, at)
        for _ in range(_MOST_RATIOS if self.size_rate is None else 1):
            if self.size_rate is None:
                direction[0] = -side * speed
            before, weights = speed, self._pushed(direction, weights, drop)
            speed = self._speed(weights, at)
            if abs(speed - before) <= _SAME_SPEED * before:
                break
        return speed

    def _speed(self, weights: Floats, at: int) -> float:
        return float(self.matrix[at] @ weights / weights.sum())

    def _pushed(self, direction: Floats, start: Floats, drop: float) -> Floats:
        """Return the weights with the largest direction·r among those with ℓ within `drop` of its maximum.

        They maximise ℓ + λ direction·r for some λ ≥ 0, and √(ℓ* − ℓ) grows with λ, at first in proportion.
        """
        wanted, scale = math.sqrt(drop), float(np.abs(direction) @ (self.matrix @ self.weights))
        most = self._largest_push(direction)
        inside: tuple[float, float, Floats] = (0.0, 0.0, self.weights)
        outside: tuple[float, float, Floats | None] = (most, math.inf, None)
        push = min(wanted * math.sqrt(2.0 * float(self.departures.sum())) / scale, 0.5 * most)
        for k in range(_MOST_PUSHES):
            start, _ = self.climbed(start, push * direction, _NEAR_ENOUGH)
            short = self._shortfall(start)
            if abs(short - wanted) <= _NEAR_ENOUGH * wanted:
                return start
            if short > wanted:
                outside = (push, short, start)
            else:
                inside = (push, short, start)
            if outside[2] is None:
                if push >= 0.99 * most or push > _FARTHEST / scale:
                    return inside[2]  # the ends of the range are in the way, not the likelihood
                push = min(push * min(1.1 * wanted / max(short, 0.1 * wanted), 8.0), 0.5 * (push + most))
            else:
                share = (wanted - inside[1]) / (outside[1] - inside[1]) if k % 2 else 0.5
                push = inside[0] + share * (outside[0] - inside[0])
        return inside[2] if outside[2] is None else self._between(inside[2], outside[2], wanted)

    def _largest_push(self, direction: Floats) -> float:
        """Return the λ from which on ℓ + λ direction·r has no maximum."""
        if self.size_rate is not None:
            return math.inf
        gain, cost = self.matrix.T @ direction, self.matrix.T @ self.job_time
        return float((cost[gain > 0.0] / gain[gain > 0.0]).min(initial=math.inf))

    def _shortfall(self, weights: Floats) -> float:
        """Return √(ℓ* − ℓ)."""
        top, here = (self._value(self.matrix @ at, self.job_time) for at in (self.weights, weights))
        return math.sqrt(max(top - here, 0.0))

    def _between(self, inside: Floats, outside: Floats, wanted: float) -> Floats:
        """Return the last weights on the way from some to others with √(ℓ* − ℓ) as wanted."""
        low, high = 0.0, 1.0
        for _ in range(20):
            middle = 0.5 * (low + high)
            short = self._shortfall(inside + middle * (outside - inside))
            low, high = (middle, high) if short <= wanted else (low, middle)
        return inside + low * (outside - inside)


def _rows(table: ClassStatistics) -> tuple[Floats, Floats, Floats]:
    """Return widths from one on, departures and job-time; up to one core s(z) = z, so all adds up at one."""
    if table.widths.size > _MOST_WIDTHS:
        columns = table.widths, table.departures, table.job_time
        table = ClassStatistics.gathered(table.arrivals, *columns, _PER_OCTAVE)
    wide = table.widths > 1.0
    slow = (table.widths > 0.0) & ~wide
    worth = float(table.job_time[slow] @ table.widths[slow])
    return (
        np.concatenate([[1.0], table.widths[wide]]),
        np.concatenate([[table.departures[slow].sum()], table.departures[wide]]),
        np.concatenate([[worth], table.job_time[wide]]),
    )


def band_of(fit: FreeFit, level: float) -> SpeedBand:
    """Return the simultaneous band of a fitted curve."""
    cores = anchors_of(fit.widths[1:])
    drop = likely_drop(1.0 - (1.0 - level) / len(cores))
    low, high = zip(*(fit.interval(z, drop) for z in cores), strict=True)
    return SpeedBand(level, tuple(cores), low, high)


# --- estimates ------------------------------------------------------------------------------------


def free_estimate(
    nothing: Estimate, table: ClassStatistics, size_rate: float | None, confidence_level: float
) -> Estimate:
    """Return the estimate of a class without a family; `nothing` is the estimate without a curve."""
    reason = _why_no_information(table)
    if reason:
        return replace(nothing, note=reason)
    return _described(FreeFit.of(table, size_rate), nothing, table, confidence_level)


def with_free_candidate(
    found: Estimate, nothing: Estimate, table: ClassStatistics, size_rate: float | None, level: float
) -> Estimate:
    """Return the estimate with the better criterion: the one in a family, or the free curve."""
    if not found.informative or _why_no_information(table):
        return found
    fit = FreeFit.of(table, size_rate)
    value = _log_likelihood(fit, table)
    bic = -2.0 * value + fit.corners * math.log(sample_size(table))
    free = Candidate(FREE, FrozenMapping({}), value, bic, 0.0)
    candidates = with_weights((*found.candidates, free))
    chosen = found if candidates[0].family != FREE else _described(fit, nothing, table, level)
    return replace(chosen, candidates=candidates)


def sample_size(table: ClassStatistics) -> float:
    """Return the sample size of the criterion: the departures above one core."""
    return max(float(table.departures[table.widths > 1.0].sum()), 1.0)


def with_weights(candidates: tuple[Candidate, ...]) -> tuple[Candidate, ...]:
    """Return candidates in order of their criterion, with their shares exp(−BIC/2)."""
    ranked = sorted(candidates, key=lambda candidate: candidate.bic)
    shares = np.exp([0.5 * (ranked[0].bic - candidate.bic) for candidate in ranked])
    shares /= shares.sum()
    return tuple(
        replace(candidate, weight=share) for candidate, share in zip(ranked, shares.tolist(), strict=True)
    )


def _why_no_information(table: ClassStatistics) -> str:
    if table.left == 0:
        return "no departures"
    if not np.any(table.departures[table.widths > 1.0] > 0.0):
        return "no job left while it held more than one core"
    return ""


def _described(fit: FreeFit, nothing: Estimate, table: ClassStatistics, level: float) -> Estimate:
    drop, rate = likely_drop(level), None
    notes = [f"flat beyond {fit.widths[-1]:.6g} cores, the widest job that was seen"]
    if fit.size_rate is None:
        low, high = fit.size_rate_interval(drop)
        # Half the width of the interval in units of a normal distribution's.
        rate = Quantity(fit.best_size_rate, 0.5 * (high - low) / math.sqrt(2.0 * drop), (low, high))
        if fit.job_time[0] == 0.0:
            notes.append(
                f"no job held one core or less, so speed-up is taken to be linear up to {fit.widths[1]:.4g} "
                f"cores: what is sure is the product of size rate and curve"
            )
    return replace(
        nothing,
        family=FREE,
        curve=fit.curve,
        parameters=FrozenMapping({}),
        stderrs=FrozenMapping({}),
        intervals=FrozenMapping({}),
        log_likelihood=_log_likelihood(fit, table),
        informative=True,
        certified=True,
        size_rate=rate,
        band=band_of(fit, level),
        note="; ".join(notes),
    )


def _log_likelihood(fit: FreeFit, table: ClassStatistics) -> float:
    """Return ℓ at the widths of the data, which the fit may have condensed."""
    return Likelihood(table, fit.curve, fit.size_rate).value(np.empty(0))
