"""Estimates of curves without a family, and whether they are worth their corners.

A free curve is compared with those of the families by the Bayesian information criterion, each corner of it
counted as a parameter.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from corewise.estimation.concave_band import band_of
from corewise.estimation.estimates import Candidate, Estimate
from corewise.estimation.free import FREE, FreeFit
from corewise.estimation.likelihood import Likelihood, likely_drop
from corewise.estimation.quantities import Quantity
from corewise.kit.frozen import FrozenMapping
from corewise.observation.statistics import ClassStatistics

__all__ = ["free_estimate", "sample_size", "with_free_candidate", "with_weights"]


def free_estimate(
    nothing: Estimate, table: ClassStatistics, size_rate: float | None, confidence_level: float
) -> Estimate:
    """Return the estimate of a class without a family; `nothing` is what is known without a curve."""
    reason = _why_no_information(table)
    if reason:
        return replace(nothing, note=reason)
    return _described(FreeFit.of(table, size_rate), nothing, table, confidence_level)


def with_free_candidate(
    found: Estimate, nothing: Estimate, table: ClassStatistics, size_rate: float | None, level: float
) -> Estimate:
    """Return the estimate that the data choose: one in a family, or the free curve."""
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
        # Half the width of the interval in units of a normal law's.
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
    """Return ℓ at the widths that were seen, where the fit may have condensed them."""
    return Likelihood(table, fit.curve, fit.size_rate).value(np.empty(0))
