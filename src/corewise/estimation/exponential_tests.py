r"""p-values of two tests of goodness of fit: of residuals, and of exponential sizes.

*Residuals whose rates were estimated.* A curve that was estimated from a log fits it better than the truth
does, so the distance of Kolmogorov and Smirnov between its residuals and Exp(1) is smaller than the tables
for a given distribution expect. With true residuals r_k, parameters θ and Δ = θ̂ − θ,

    r̂_k ≈ r_k + Δ · D_k,      D_k = ∂r_k/∂θ,      Δ ≈ I⁻¹ × the mean of the scores of the intervals,

with I the Fisher information of a departure. The score of an interval is the logarithmic derivative of the
rate at its end less D_k. Of all this the distance sees two things: m(x) = E[D_k | r_k = x], by which
residuals of length x move, and φ(x) = m'(x) − m(x), the expected score of an interval of that length. So the
distribution of the distance follows from independent Exp(1) lengths E_k:

    r̂_k = E_k + Δ · m(E_k),      Δ = I⁻¹ (mean of φ(E_k) + normal noise with the rest of the information).

Were m(x) = x, as for an unknown size rate, this would be Lilliefors' test. In general m bends: jobs that are
left after a departure hold more cores each, until others come. It is fitted to the D_k of the log as a
combination of x and 1 − exp(−x/τ), τ = 1 and 4. Parameters stay in their range. The lengths are the same for
every log, a table of random numbers rather than random: a log has one p-value.

*Exponential sizes.* If sizes are exponential, jobs depart at the same rate per work done whatever they have
attained. Cut attained work where equally many departures lie between, into B strata with D_b departures and
E_b work done. The likelihood ratio of a rate each against one rate for all,

    T = 2 Σ_b D_b log (D_b E / (E_b D)),

is χ² with B − 1 degrees of freedom: the E_b are sums of D_b independent exponential spacings (this is
Bartlett's test), up to the factor 1 + (Σ 1/D_b − 1/D) / (6 (B − 1)) that it is corrected by. It does not
depend on the size rate, and hardly on the curve, so it holds where these were estimated from the same log.

Sources: J. Durbin, *Weak convergence of the sample distribution function when parameters are estimated*,
Annals of Statistics 1 (1973); M. S. Bartlett, *Properties of sufficiency and statistical tests* (Proceedings
of the Royal Society A 160, 1937); B. Epstein, *Tests for the validity of the assumption that the underlying
distribution of life is exponential* (Technometrics 2, 1960).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np

from corewise.kit.arrays import Floats
from corewise.model.speedup import SpeedUp
from corewise.observation.histories import JobHistories

__all__ = ["FittedParameters", "exponential_p_value", "exponential_sizes_p_value", "fitted_p_value"]

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
        Distance of the estimate from the lower and upper bound of each parameter, shape (2, parameters).
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
    # Estimation only makes the distance smaller: where no draw reaches it, the p-value without is a bound.
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


# --- exponential sizes ----------------------------------------------------------------------------

_STRATA, _EACH = 8, 10
"""Maximum number of strata, and minimum number of departures in each."""


def exponential_sizes_p_value(histories: JobHistories, curve: SpeedUp) -> float:
    """Return the p-value of exponential sizes, given the curve; NaN if too few jobs came and left."""
    from scipy.special import chdtrc

    whole = ~histories.truncated
    size = histories.sums(curve.rate(histories.widths))[whole]
    gone = np.sort(size[histories.departed[whole]])
    strata = min(_STRATA, gone.size // _EACH)
    if strata < 2:
        return math.nan
    ends = np.rint(np.arange(1, strata + 1) * gone.size / strata).astype(np.int64)
    edges = np.concatenate([[0.0], gone[ends[:-1] - 1], [math.inf]])
    departed = np.diff(ends, prepend=0).astype(np.float64)
    done = np.array([np.sum(np.clip(size - a, 0.0, b - a)) for a, b in pairwise(edges)])
    if not np.all(done > 0.0):
        return 0.0  # many jobs of exactly one size
    ratio = 2.0 * float(departed @ np.log(departed * done.sum() / (done * gone.size)))
    factor = 1.0 + (float(np.sum(1.0 / departed)) - 1.0 / gone.size) / (6.0 * (strata - 1))
    return float(chdtrc(strata - 1, ratio / factor))
