r"""Standard errors clustered by job: how sure the exponential likelihood is when sizes have another law.

The score of a log is a sum over jobs. With g = ∂log s/∂θ at the width at which a job leaves, X its size, the
work ∫ s dt it was given, and B = ∂X/∂θ = ∫ ∂s/∂θ dt,

    ψ_j = 1{departed} g − μ B,                  and  1{departed} − μ X  for log μ, if that is unknown.

Jobs are independent whatever the law of their sizes, so the variance of the score is Σ ψψ' (the *meat* of the
sandwich), and that of the estimate I⁻¹ Σψψ' I⁻¹. If sizes are exponential Σψψ' ≈ I. Where g hardly varies ψ
is nearly g (1 − μX), and the ratio of the two variances, the *dispersion* φ, is the squared coefficient of
variation (CV²) of sizes. Profile-likelihood intervals then have a drop of φ times as much.

Source: D. Y. Lin, L. J. Wei, *The robust inference for the Cox proportional hazards model* (JASA 84, 1989).
"""

from __future__ import annotations

import math

import numpy as np

from corewise.estimation.likelihood import Likelihood
from corewise.estimation.quantities import Quantity, positive_quantity
from corewise.kit.arrays import Floats
from corewise.model.speedup import SpeedUp
from corewise.observation.histories import JobHistories

__all__ = ["dispersions", "misleading", "size_dispersion"]

_MISLEADING = 1.2
"""From this factor on, standard errors of the exponential model are said to be wrong."""


def dispersions(likelihood: Likelihood, parameters: Floats, histories: JobHistories) -> Floats:
    """Return the variance by job over that of the model, for each parameter and log μ if that is unknown."""
    curve, rate = likelihood.curve(parameters), likelihood.best_size_rate(parameters)
    speed, slopes = curve.rate(histories.widths), curve.gradient(histories.widths)
    if likelihood.size_rate is None:
        slopes = np.column_stack([slopes, speed])  # along log μ the rate μ s has the derivative μ s
    ratio = np.divide(slopes, speed[:, None], out=np.zeros(slopes.shape), where=speed[:, None] > 0.0)
    scores = histories.departed[:, None] * ratio[histories.leaving] - rate * histories.sums(slopes)
    spent = np.bincount(histories.place, _exposure(histories), histories.widths.size)
    information = np.einsum("k,ki,kj->ij", rate * spent, slopes, ratio)
    inverse = np.linalg.pinv(information, hermitian=True)
    model, sandwich = np.diag(inverse), np.diag(inverse @ (scores.T @ scores) @ inverse)
    told = (model > 0.0) & (sandwich > 0.0)
    return np.asarray(np.divide(sandwich, model, out=np.ones(model.size), where=told))


def _exposure(histories: JobHistories) -> Floats:
    """Return the job-time of each segment: how long it lasted, for each job that was in it."""
    present = np.zeros(histories.span.size + 1)
    np.add.at(present, histories.first, 1.0)
    np.add.at(present, histories.last, -1.0)
    return np.asarray(np.cumsum(present)[:-1] * histories.span)


def size_dispersion(curve: SpeedUp, histories: JobHistories, confidence_level: float) -> Quantity | None:
    """Return the CV² of the sizes that jobs have on a curve; None unless two of them were seen to leave.

    A job that is there at the end has left nothing to be squared but its share of the mean: with m = ΣX over
    the departures D, CV² = Σ (1{departed} − X/m)² / D, whose expectation is one for exponential sizes however
    many jobs are cut short. The interval is that of its logarithm, from the spread of the squares.
    """
    whole = ~histories.truncated
    size, departed = histories.sums(curve.rate(histories.widths))[whole], histories.departed[whole]
    count = int(departed.sum())
    if count < 2 or not size.sum() > 0.0:
        return None
    relative = size * (count / float(size.sum()))
    square = (departed - relative) ** 2
    value = float(square.sum()) / count
    # The mean is estimated too: by what a job adds to it, it moves the squares of all others.
    pull = float((departed - relative) @ relative) / count
    moves = square - departed * value - 2.0 * pull * (departed - relative)
    stderr = math.sqrt(float(moves @ moves)) / count
    return positive_quantity(value, stderr, confidence_level)


def misleading(factors: Floats, sizes: Quantity | None) -> str:
    """Return in words how far off the standard errors of the exponential model are, or an empty text."""
    if sizes is None or sizes.interval[0] <= 1.0 <= sizes.interval[1]:
        return ""
    ratio = max(np.sqrt(factors).tolist(), key=lambda value: abs(math.log(value)), default=1.0)
    if max(ratio, 1.0 / ratio) < _MISLEADING:
        return ""
    return (
        f"its sizes are not exponential (CV² {sizes.value:.3g}): errors that took them to be would be "
        f"{max(ratio, 1.0 / ratio):.2g} times too {'small' if ratio > 1.0 else 'large'}"
    )
