r"""Concave curve without a family from measured throughputs: least squares, and a simultaneous band.

With hinges (`corewise.estimation.concave`) the throughput is y(z) = a s(z) = Σ_k θ_k min(z, t_k), θ ≥ 0, and
Σ_k (log y_k − log y(z_k))² is minimised: Gauss-Newton, each step a weighted nonnegative least squares fit. A
term is convex where y(z_k) is at most e times the measurement, and so is their sum there.

*The band.* Errors are relative and of one size σ, see `corewise.estimation.throughput.measured`. With w
measurements at a width whose logarithms have the mean m, the throughput there lies in

    m ± t σ̂ / √w,    t the quantile of Student's t at 1 − (1 − level)/(2 × widths),

at all widths together with the probability `level` at least (Bonferroni). Of the curves that are concave,
nondecreasing and linear up to one core, and pass through all of these intervals, those with the least and
the largest s(z) = y(z)/y(1) are the ends of the band at z. With hinges y(z) is Σ_k θ_k min(z, t_k), and s(z)
a ratio of linear functions of θ ≥ 0 under linear conditions: a linear program in θ/Σθ and 1/Σθ (Charnes and
Cooper). It is exact, also without a measurement at one core.

σ̂ is the scatter of repeated measurements where there are enough of them, which holds whatever the curve. Else
it is taken from the residuals of the nearest curve: RSS/(n − 1.5 d) with d unknowns, its corners and the
scale, as a fit under inequalities follows the noise by more than the corners that it happens to end with.

Source of the last: M. Meyer, M. Woodroofe, *On the degrees of freedom in shape-restricted regression* (Annals
of Statistics 28, 2000).
"""

from __future__ import annotations

import math

import numpy as np

from corewise.errors import NotConverged
from corewise.estimation.concave import SpeedBand, anchors_of, curve_through, hinge_matrix
from corewise.estimation.throughput.least_squares import Measurements
from corewise.kit.arrays import Floats
from corewise.model.speedup import Tabulated

__all__ = ["free_curve", "measured_band"]

_MOST_STEPS = 200
_STILL = 1e-12  # relative gain of a step at which the search ends


def free_curve(data: Measurements) -> Tabulated:
    """Return the concave curve with the least sum of squares, with corners at measured widths."""
    hinges = np.unique(np.maximum(data.cores, 1.0))  # linear up to the narrowest: no data below
    weights = _nearest(data, hinges)
    at = hinges[(weights > 0.0) & (hinges > 1.0)]
    speed = hinge_matrix(at, hinges) @ weights / weights.sum()
    return curve_through(at, np.minimum(speed, at))


def _nearest(data: Measurements, hinges: Floats) -> Floats:
    """Return the weights of the hinges with the least sum of squares."""
    from scipy.optimize import nnls

    matrix = hinge_matrix(data.cores, hinges)

    def squares(rates: Floats) -> float:
        return float(data.weight @ (data.mean_log - np.log(rates)) ** 2) if rates.min() > 0.0 else np.inf

    root, measured = np.sqrt(data.weight), np.exp(data.mean_log)
    weights: Floats = nnls(matrix * (root / measured)[:, None], root)[0]
    least = squares(matrix @ weights)
    for _ in range(_MOST_STEPS):
        rates = matrix @ weights
        target = root * (1.0 + data.mean_log - np.log(rates))
        step, length = nnls(matrix * (root / rates)[:, None], target)[0] - weights, 1.0
        while not (reached := squares(matrix @ (weights + length * step))) < least and length > _STILL:
            length *= 0.5
        gained = least - reached
        if gained > 0.0:
            weights, least = weights + length * step, reached
        if gained <= _STILL * max(least, data.rounding):
            return weights
    raise NotConverged(f"the least squares of a free curve still fall after {_MOST_STEPS} steps")


# --- band -----------------------------------------------------------------------------------------

_ENOUGH = 3
"""Minimum degrees of freedom of σ̂: with fewer a band is very wide."""

_FOLLOWED = 1.5
"""Degrees of freedom per unknown."""


def measured_band(data: Measurements, level: float) -> SpeedBand | None:
    """Return the band; None if the size of errors is not known, or no concave curve passes the intervals."""
    noise = _noise(data)
    if noise is None:
        return None
    low, high = _intervals(data, level, *noise)
    hinges = np.unique(np.maximum(np.append(data.cores, 1.0), 1.0))
    matrix = hinge_matrix(data.cores, hinges)
    cores = anchors_of(hinges[1:])
    ends = [_ends(np.minimum(z, hinges), matrix, low, high) for z in cores]
    if not all(ends):
        return None
    lows, highs = zip(*(pair for pair in ends if pair), strict=True)
    return SpeedBand(level, tuple(cores), lows, highs)


def _noise(data: Measurements) -> tuple[float, float] | None:
    """Return σ̂ and its degrees of freedom; None if these are too few."""
    squares, freedom = data.scatter, float(data.n - data.cores.size)
    if freedom < _ENOUGH:
        curve = free_curve(data)
        squares += data.squares(curve)
        freedom = data.n - _FOLLOWED * len(curve.points)
    return (math.sqrt(squares / freedom), freedom) if freedom >= _ENOUGH else None


def _intervals(data: Measurements, level: float, sigma: float, freedom: float) -> tuple[Floats, Floats]:
    """Return the intervals of the throughput at each width, in a unit of about their size."""
    from scipy.special import stdtrit

    quantile = float(stdtrit(freedom, 1.0 - 0.5 * (1.0 - level) / data.cores.size))
    reach = quantile * max(sigma, math.sqrt(data.rounding)) / np.sqrt(data.weight)
    middle = data.mean_log - float(data.mean_log.mean())
    return np.exp(middle - reach), np.exp(middle + reach)


def _ends(row: Floats, matrix: Floats, low: Floats, high: Floats) -> tuple[float, float] | None:
    """Return the least and the largest row·θ/Σθ of all θ ≥ 0 with low ≤ matrix θ ≤ high; None without any."""
    from scipy.optimize import linprog

    above, below = np.column_stack([matrix, -high]), np.column_stack([-matrix, low])
    sum_is_one = np.append(np.ones(row.size), 0.0)[None]
    ends = []
    for sign in (1.0, -1.0):
        found = linprog(
            np.append(sign * row, 0.0),
            A_ub=np.vstack([above, below]),
            b_ub=np.zeros(2 * low.size),
            A_eq=sum_is_one,
            b_eq=[1.0],
        )
        if found.status != 0 or found.fun is None:
            return None
        ends.append(sign * float(found.fun))
    return ends[0], ends[1]
