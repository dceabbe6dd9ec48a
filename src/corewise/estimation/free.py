r"""A speed-up curve without a family: the most likely concave one.

Every curve with s(z) = z up to one core, nondecreasing and concave, is a mixture of hinges: a job is worth
min(z, t) cores, with t ≥ 1 random. The likelihood sees the mixture only at t = 1 and at the widths above one
that jobs held, so with hinges t_k there and weights θ_k ≥ 0 the departure rate at z cores is

    r(z) = μ s(z) = Σ_k θ_k min(z, t_k),    μ = Σ_k θ_k,

and the log-likelihood ℓ(θ) = Σ_z D log r − W r is concave in θ. If μ is known, Σθ = μ is one more condition.

*Search.* Fisher scoring: each step is a weighted nonnegative least squares fit, with a line search.

*Certificate.* With g_k = Σ_z (D/r − W) min(z, t_k) concavity gives ℓ(θ*) ≤ ℓ(θ) + (θ* − θ)·g. If μ is known
θ*·g is at most μ max g. If not, θ* has Σ W r = ΣD =: n (or its scale could be better), so θ*·g is at most
n max_k g_k / Σ_z W min(z, t_k). So the distance from the maximum is known, and a search that has not come
near enough raises.

*Profile-likelihood interval* of s(z): the least and the largest s(z) of all curves with ℓ ≥ ℓ* − drop, a
linear objective (or a ratio of linear ones if μ is unknown: Dinkelbach) over a convex set, by its multiplier.

Beyond the widest job that was seen the curve is flat: more cores are worth nothing that anybody has seen.

Source of the representation: Lindsay, *The geometry of mixture likelihoods* (1983), for mixtures in general.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from corewise.errors import NotConverged
from corewise.kit.arrays import Floats
from corewise.model.speedup import Tabulated
from corewise.observation.statistics import ClassStatistics

__all__ = ["FREE", "FreeFit"]

FREE = "free"
"""The family to name for a curve without one."""

_MOST_WIDTHS = 120
_PER_OCTAVE = 16  # nodes of the grid to which more widths are condensed
_NEAR = 1e-6  # of ℓ to its maximum
_NEAR_ENOUGH = 1e-3  # where only an interval hangs on it
_TOO_FAR = 0.01  # far below what an interval shows, a hundred times what rounding leaves
_MOST_STEPS = 60
_WEIGHT_OF_SUM = 1e4  # relative to other rows: the condition is met to a part in 1e8, and then exactly
_LEAST_BEND = 1e-9  # relative: of rows that nobody was seen at
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
        What was seen, condensed if at many widths; what was up to one core is worth as much at one.
    size_rate : float or None
        μ, None if it is not known.
    weights : ndarray
        θ, of a hinge at each width.
    gap : float
        How far ℓ is from its maximum at most.
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
            # Nobody ran on one core: how fast that is, is said by the slope to the narrowest width.
            weights[1] += weights[0] / widths[1]
            weights[0] = 0.0
        return replace(start, weights=weights, gap=gap)

    @cached_property
    def matrix(self) -> Floats:
        """min(z, t) for every width and hinge."""
        return np.minimum(self.widths[:, None], self.widths)

    @cached_property
    def curve(self) -> Tabulated:
        """The curve, with a corner at each hinge that has a weight."""
        corners = (self.weights > 0.0) & (self.widths > 1.0)
        at, speed = self.widths[corners], (self.matrix @ self.weights)[corners] / self.weights.sum()
        return Tabulated([(1.0, 1.0), *zip(at.tolist(), speed.tolist(), strict=True)])

    @property
    def corners(self) -> int:
        """The number of corners above one core: what the likelihood had to choose."""
        return int(np.count_nonzero(self.weights[1:] > 0.0))

    @property
    def best_size_rate(self) -> float:
        """μ, or the most likely one if it is not known."""
        return float(self.weights.sum()) if self.size_rate is None else self.size_rate

    def climbed(self, start: Floats, push: Floats, near: float) -> tuple[Floats, float]:
        """Return the weights that maximise ℓ + push·r, and how far that is from the maximum at most."""
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
        told = self.departures > 0.0
        if rate[told].min() <= 0.0:
            return -math.inf
        return float(self.departures[told] @ np.log(rate[told]) - spent @ rate)

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
        """Return by how much the maximum may be above: the certificate."""
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
