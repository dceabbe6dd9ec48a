r"""The concave curve without a family that is nearest to measured throughputs, by least squares.

With hinges as in `corewise.estimation.free` the throughput is y(z) = a s(z) = Σ_k θ_k min(z, t_k), θ ≥ 0, and
Σ_k (log y_k − log y(z_k))² is made least: Gauss and Newton, each step a weighted nonnegative least squares
fit. A term is convex where y(z_k) is at most e times the measurement, and so is their sum there.
"""

from __future__ import annotations

import numpy as np

from corewise.errors import NotConverged
from corewise.estimation.throughput.least_squares import Measurements
from corewise.kit.arrays import Floats
from corewise.model.speedup import Tabulated

__all__ = ["free_curve"]

_MOST_STEPS = 200
_STILL = 1e-12  # relative: what a step gains at the least


def free_curve(data: Measurements) -> Tabulated:
    """Return the concave curve with the least sum of squares, through measurements alone."""
    hinges = np.unique(np.maximum(data.cores, 1.0))  # linear up to the least of them: nobody measured below
    weights = _nearest(data, hinges)
    at = hinges[(weights > 0.0) & (hinges > 1.0)]
    speed = np.minimum(at[:, None], hinges) @ weights / weights.sum()
    return Tabulated([(1.0, 1.0), *zip(at.tolist(), np.minimum(speed, at).tolist(), strict=True)])


def _nearest(data: Measurements, hinges: Floats) -> Floats:
    """Return the weights of the hinges with the least sum of squares."""
    from scipy.optimize import nnls

    matrix = np.minimum(data.cores[:, None], hinges)

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
