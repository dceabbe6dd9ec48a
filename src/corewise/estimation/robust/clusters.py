r"""Standard errors clustered by job, of the exponential likelihood when sizes have another distribution.

The score of a log is a sum over jobs. With g = ∂log s/∂θ at the width at which a job leaves, X its size, the
work ∫ s dt it was given, and B = ∂X/∂θ = ∫ ∂s/∂θ dt,

    ψ_j = 1{departed} g − μ B,                  and  1{departed} − μ X  for log μ, if that is unknown.

Jobs are independent whatever the distribution of their sizes, so the variance of the score is Σ ψψ' (the
*meat* of the sandwich), and that of the estimate I⁻¹ Σψψ' I⁻¹. If sizes are exponential Σψψ' ≈ I. Where g
hardly varies ψ is nearly g (1 − μX), and the ratio of the two variances, the *dispersion* φ, is the squared
coefficient of variation (CV²) of sizes. Profile-likelihood intervals then have a drop of φ times as much.

Source: D. Y. Lin, L. J. Wei, *The robust inference for the Cox proportional hazards model* (JASA 84, 1989).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from corewise.estimation.likelihood import Likelihood
from corewise.estimation.quantities import Quantity, positive_quantity
from corewise.estimation.robust.strata import JobScore, NodeScore, Score, job_sums
from corewise.kit.arrays import Floats
from corewise.model.speedup import SpeedUp
from corewise.observation.histories import JobHistories
from corewise.observation.strata.tables import Strata

__all__ = ["JobData", "JobRecords", "JobTables", "misleading"]

_MISLEADING = 1.2
"""Factor from which on standard errors of the exponential model are reported to be wrong."""


class JobData(ABC):
    """Data of the single jobs of a class."""

    @abstractmethod
    def dispersions(self, likelihood: Likelihood, parameters: Floats) -> Floats:
        """Return the variance by job over the model's, for each parameter and log μ if that is unknown."""

    @abstractmethod
    def size_dispersion(self, curve: SpeedUp, confidence_level: float) -> Quantity | None:
        """Return the CV² of the sizes that jobs have on a curve; None unless two departed."""

    @abstractmethod
    def score(self, family: SpeedUp, unit: float) -> Score:
        """Return the score of a family, stratified by attained work; sizes are of about `unit`."""


@dataclass(frozen=True, eq=False)
class JobRecords(JobData):
    """Recorded histories of jobs."""

    histories: JobHistories

    def dispersions(self, likelihood: Likelihood, parameters: Floats) -> Floats:
        """Return the variance by job over the model's, for each parameter and log μ if that is unknown."""
        jobs = self.histories
        curve, rate = likelihood.curve(parameters), likelihood.best_size_rate(parameters)
        speed, slopes = curve.rate(jobs.widths), curve.gradient(jobs.widths)
        if likelihood.size_rate is None:
            slopes = np.column_stack([slopes, speed])  # along log μ the rate μ s has the derivative μ s
        ratio = np.divide(slopes, speed[:, None], out=np.zeros(slopes.shape), where=speed[:, None] > 0.0)
        scores = jobs.departed[:, None] * ratio[jobs.leaving] - rate * jobs.sums(slopes)
        return _ratios(_information(likelihood, parameters), scores.T @ scores)

    def size_dispersion(self, curve: SpeedUp, confidence_level: float) -> Quantity | None:
        """Return the CV² of the sizes that jobs have on a curve; None unless two departed.

        A job that is there at the end counts for its share of the mean: with m = ΣX over the departures D,
        CV² = Σ (1{departed} − X/m)² / D, whose expectation is one for exponential sizes however many jobs are
        cut short. The interval is that of its logarithm, from the spread of the squares.
        """
        whole = ~self.histories.truncated
        size = self.histories.sums(curve.rate(self.histories.widths))[whole]
        departed = self.histories.departed[whole]
        count = int(departed.sum())
        if count < 2 or not size.sum() > 0.0:
            return None
        relative = size * (count / float(size.sum()))
        square = (departed - relative) ** 2
        value = float(square.sum()) / count
        # The mean is estimated too: by what a job adds to it, it moves the squares of all others.
        pull = float((departed - relative) @ relative) / count
        moves = square - departed * value - 2.0 * pull * (departed - relative)
        return positive_quantity(value, math.sqrt(float(moves @ moves)) / count, confidence_level)

    def score(self, family: SpeedUp, unit: float) -> Score:
        """Return the score of a family, stratified by attained work; sizes are of about `unit`."""
        return JobScore.of(self.histories, family, unit)


@dataclass(frozen=True, eq=False)
class JobTables(JobData):
    """Sums over jobs in tables of strata, for one family of curves."""

    tables: Strata

    def dispersions(self, likelihood: Likelihood, parameters: Floats) -> Floats:
        """Return the variance by job over the model's, for the parameter and log μ if that is unknown."""
        rate, (p,) = likelihood.best_size_rate(parameters), parameters.tolist()
        s = job_sums(self.tables, p)
        along, surplus = (
            square - 2.0 * rate * mixed + rate**2 * own
            for square, mixed, own in ((s.gg, s.gb, s.bb), (s.d, s.dx, s.xx))
        )
        cross = s.g - rate * (s.gx + s.db) + rate**2 * s.xb
        meat = np.array([[along, cross], [cross, surplus]])
        known = likelihood.size_rate is not None
        return _ratios(_information(likelihood, parameters), meat[:1, :1] if known else meat)

    def size_dispersion(self, curve: SpeedUp, confidence_level: float) -> Quantity | None:
        """Return the CV² of the sizes of jobs that came and left; None unless there were two of them."""
        (p,) = curve.parameters.values()
        count, *powers = job_sums(self.tables, p).sizes
        if count < 2.0 or not powers[0] > 0.0:
            return None
        mean = powers[0] / count
        _, m2, m3, m4 = (power / count / mean ** (k + 1) for k, power in enumerate(powers))
        value = max(m2 - 1.0, 0.0)
        # The mean square of a job's influence, (1 − y)² − CV² + 2 CV² (1 − y) at the relative size y.
        third, fourth = 3.0 * m2 - m3 - 2.0, 6.0 * m2 - 4.0 * m3 + m4 - 3.0
        square = fourth - value**2 + 4.0 * value**3 + 4.0 * value * third
        return positive_quantity(value, math.sqrt(max(square, 0.0) / count), confidence_level)

    def score(self, family: SpeedUp, unit: float) -> Score:  # noqa: ARG002  # the tables have theirs
        """Return the score, stratified by attained work."""
        return NodeScore.of(self.tables)


def _information(likelihood: Likelihood, parameters: Floats) -> Floats:
    """Return the Fisher information about the parameters, and log μ if that is unknown."""
    table, curve = likelihood.table, likelihood.curve(parameters)
    speed, slopes = curve.rate(table.widths), curve.gradient(table.widths)
    if likelihood.size_rate is None:
        slopes = np.column_stack([slopes, speed])
    ratio = np.divide(slopes, speed[:, None], out=np.zeros(slopes.shape), where=speed[:, None] > 0.0)
    rate = likelihood.best_size_rate(parameters)
    return np.asarray(np.einsum("k,ki,kj->ij", rate * table.job_time, slopes, ratio))


def _ratios(information: Floats, meat: Floats) -> Floats:
    """Return the variances of the sandwich over those of the model; one where there is no information."""
    inverse = np.linalg.pinv(information, hermitian=True)
    model, sandwich = np.diag(inverse), np.diag(inverse @ meat @ inverse)
    informed = (model > 0.0) & (sandwich > 0.0)
    return np.asarray(np.divide(sandwich, model, out=np.ones(model.size), where=informed))


def misleading(factors: Floats, sizes: Quantity | None, *, taken: bool = False) -> str:
    """Return in words how far off the standard errors of the exponential model are, or an empty text.

    `taken` says that they are reported nevertheless.
    """
    if sizes is None or sizes.interval[0] <= 1.0 <= sizes.interval[1]:
        return ""
    ratio = max(np.sqrt(factors).tolist(), key=lambda value: abs(math.log(value)), default=1.0)
    if max(ratio, 1.0 / ratio) < _MISLEADING:
        return ""
    verb = "take them to be are" if taken else "took them to be would be"
    return (
        f"its sizes are not exponential (CV² {sizes.value:.3g}): errors that {verb} "
        f"{max(ratio, 1.0 / ratio):.2g} times too {'small' if ratio > 1.0 else 'large'}"
    )
