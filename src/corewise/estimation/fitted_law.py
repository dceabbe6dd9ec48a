r"""The law of residuals whose rates were estimated: the p-value of Kolmogorov and Smirnov's distance.

A curve that was estimated from a log fits it better than the truth does, so the distance between its
residuals and Exp(1) is smaller than the tables for a given law expect. With true residuals r_k, parameters θ
and Δ = θ̂ − θ,

    r̂_k ≈ r_k + Δ · D_k,      D_k = ∂r_k/∂θ,      Δ ≈ I⁻¹ × the mean of the scores of the intervals,

with I the Fisher information of a departure. The score of an interval is the logarithmic derivative of the
rate at its end less D_k. Of all this the distance sees two things: m(x) = E[D_k | r_k = x], by which
residuals of length x move, and φ(x) = m'(x) − m(x), the expected score of an interval of that length. So the
law of the distance follows from independent Exp(1) lengths E_k:

    r̂_k = E_k + Δ · m(E_k),      Δ = I⁻¹ (mean of φ(E_k) + normal noise with the rest of the information).

Were m(x) = x, as for an unknown size rate, this would be Lilliefors' test. In general m bends: jobs that are
left after a departure hold more cores each, until others come. It is fitted to the D_k of the log as a
combination of x and 1 − exp(−x/τ), τ = 1 and 4. Parameters stay in their range. The lengths are the same for
every log, a table of random numbers rather than random: a log has one p-value.

Source: J. Durbin, *Weak convergence of the sample distribution function when parameters are estimated*,
Annals of Statistics 1 (1973).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from corewise.kit.arrays import Floats

__all__ = ["FittedParameters", "exponential_p_value", "fitted_p_value"]

_DRAWS = 999
_MOST = 200  # lengths in a draw: by then √n times the distance has reached its limit
_TIMES = (1.0, 4.0)  # τ
_RATES = np.array([1.0, *(1.0 / time for time in _TIMES)])
_FACTORS = np.array([1.0, *(1.0 + 1.0 / time for time in _TIMES)])
_SMALL = 0.3  # residuals below this are fitted like larger ones: D is about as uncertain as it is large


@dataclass(frozen=True, eq=False)
class FittedParameters:
    """Parameters that were estimated along with the residuals of a class.

    Attributes
    ----------
    slopes : ndarray
        D, the derivative of each residual in each parameter, shape (residuals, parameters).
    information : ndarray
        I, the Fisher information of a departure about the parameters.
    room : ndarray
        How far below and above the estimate each parameter may lie, shape (2, parameters).
    """

    slopes: Floats
    information: Floats
    room: Floats


def exponential_p_value(residuals: Floats) -> float:
    """Return the p-value of Kolmogorov and Smirnov's distance from Exp(1), if nothing was estimated."""
    from scipy.special import kolmogorov

    return float(kolmogorov(_scaled_distance(residuals)))


def fitted_p_value(residuals: Floats, fitted: FittedParameters) -> float:
    """Return the p-value of the distance of residuals from Exp(1), if their rates were estimated."""
    observed = float(_scaled_distance(residuals))
    count = min(residuals.size, _MOST)
    bends, noise = _drawn(count, fitted.slopes.shape[1])
    lengths = bends[0]
    weight = 1.0 / (_SMALL + residuals)
    shape = np.linalg.lstsq((weight * _bends(residuals)).T, weight[:, None] * fitted.slopes, rcond=None)[0]
    # φ = m' − m: 1 − x for x, and 1/τ − (1 + 1/τ) b for b = 1 − exp(−x/τ).
    scores = (_RATES[:, None] - _FACTORS[:, None] * bends.mean(axis=2)).T @ shape
    rest = _root(fitted.information - shape.T @ _moments() @ shape)
    scores += noise @ rest / math.sqrt(count)
    moves = scores @ np.linalg.pinv(fitted.information, hermitian=True)
    moves = np.clip(moves, *(math.sqrt(residuals.size / count) * fitted.room))
    # As a factor, so that a residual stays positive; beyond e^±50 it is as far from Exp(1) as it can be.
    logarithms = np.einsum("db,bdk->dk", moves @ shape.T, bends) / lengths
    moved = lengths * np.exp(np.clip(logarithms, -50.0, 50.0))
    reached = int(np.count_nonzero(_scaled_distance(moved) >= observed))
    # Estimation only ever makes the distance smaller: where no draw reaches, the law without it is a bound.
    return min((1.0 + reached) / (1.0 + _DRAWS), exponential_p_value(residuals))


def _scaled_distance(residuals: Floats) -> Floats:
    """Return the distance from Exp(1) along the last axis, in the units of its limit (Stephens 1970)."""
    count = residuals.shape[-1]
    probability = -np.expm1(-np.sort(residuals, axis=-1))
    grid = np.arange(count + 1) / count
    distance = np.maximum((grid[1:] - probability).max(axis=-1), (probability - grid[:-1]).max(axis=-1))
    return np.asarray((math.sqrt(count) + 0.12 + 0.11 / math.sqrt(count)) * distance)


@lru_cache(maxsize=4)
def _drawn(count: int, parameters: int) -> tuple[Floats, Floats]:
    """Return what m is made of at the lengths of every draw, and standard normal noise; always the same."""
    rng = np.random.default_rng(0)
    return _bends(rng.standard_exponential((_DRAWS, count))), rng.standard_normal((_DRAWS, parameters))


def _bends(lengths: Floats) -> Floats:
    """Return what m is made of, x and 1 − exp(−x/τ), along a new first axis."""
    return np.stack([lengths, *(-np.expm1(-lengths / time) for time in _TIMES)])


def _moments() -> Floats:
    """Return the second moments of the φ that belong to `_bends`, under Exp(1)."""
    moments: Floats = np.outer(_FACTORS, _FACTORS) / (np.add.outer(_FACTORS, _FACTORS) - 1.0) - 1.0
    moments[0] = moments[:, 0] = 1.0 - 1.0 / _FACTORS
    moments[0, 0] = 1.0
    return moments


def _root(matrix: Floats) -> Floats:
    """Return a square root of a symmetric matrix, of its positive part should it have another."""
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T)
