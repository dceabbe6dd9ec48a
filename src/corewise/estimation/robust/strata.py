r"""Strata of attained work: estimates of a one-parameter curve that assume no law of sizes.

A job that has attained the work x leaves at rate h(x) s(z; p), with h the hazard of the law of sizes. Cut
attained work into strata, one an octave, on a grid that does not depend on p. For a given p there are, in
each of them, D departures, E work done, G = ∂E/∂p along the jobs' paths, and U, the sum of g = ∂log s/∂p at
departures. With a hazard of its own in each stratum, D/E where it is likeliest, the score of p is

    U(p) = Σ_b [U_b − D_b G_b/E_b]                              if neither the law nor its mean is known,
    (1 + κ) U(p) + (Ḡ/c²) (n − μ S),   S = ΣE,  Ḡ = ΣG/ΣE,      if the mean size 1/μ is:

a stratified log-rank score. One stratum gives the exponential likelihood. n − μS is what the mean alone says.
The two are uncorrelated, so each is weighted by its slope over its variance. For the mean that is Ḡ/c²: c²,
the mean of (1{departed} − μX)², is the CV² of sizes. For the strata it is one if sizes are exponential. Else
attained work x moves by B = ∫g dx with p, and the hazard at a given level with it: with h' = dh/dx,

    −E U' = Σ_jobs ∫ (g − ḡ) (g + B h'/h) h dx,

which is 1 + κ times Σψ² if g varies little in the life of a job and h like a power κ of x, as that of Weibull
sizes (shape 1 + κ) does. κ is the slope of log D/E over log x, strata weighted by D: among n jobs it errs by
1/√n, where the slope of U itself, which jumps, errs by more than it says on a few hundred jobs.

Jobs that are there at the start have an unknown attained work: they are left out of the strata, but not of
what the mean says. Jobs that are there at the end count for the work they had done.

The estimate is the root of U at which its integral is largest. Its variance is Σψ² / U'², with ψ the part of
each job in the score, hazards included (`_kernels.job_influences`), and U' a difference over a standard error
on either side: strata move with p, so −U' is not Σψ² unless sizes are exponential. Intervals hold all p at
which the integral of U is within χ²/2 of its maximum, in units of Σψ²/|U'|.

Source: J. M. Robins, A. A. Tsiatis, *Semiparametric estimation of an accelerated failure time model with
time-dependent covariates* (Biometrika 79, 1992).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Self

import numpy as np

from corewise.kit.arrays import Floats
from corewise.model.tabulated_sizes import PiecewiseExponential

__all__ = [
    "Score",
    "StrataFit",
    "Sums",
    "Terms",
    "fit_strata",
    "hazard_slope",
    "law_of_sizes",
    "stratified",
]

_D, _E, _G, _U = range(4)
_WORTH = (0.1, 4.0)
"""The least and the most that strata count beside the mean, relative to those of exponential sizes."""

_LEAST = 10
"""Departures in the last stratum of an estimated law of sizes."""

_CLOSE = 1e-7
"""How near to a root its search ends, of the range of p: the score jumps where a job changes its stratum."""


class Terms(NamedTuple):
    """What the score is made of at one p: that of the strata, and n, S and ∂S/∂p for what the mean says."""

    of_strata: float
    departures: float
    size: float
    slope: float


class Sums(NamedTuple):
    """What its variance is made of at one p: sums over jobs of products of ψ and of 1{departed} − μX.

    `strata` has the columns D, E, G and U.
    """

    influence: float
    cross: float
    surplus: float
    strata: Floats


@dataclass(frozen=True, eq=False, kw_only=True)
class Score(ABC):
    """Score of a one-parameter curve, stratified by attained work; values that were asked for are kept.

    Attributes
    ----------
    bounds : tuple of float
        The ends of the range of p.
    edges : ndarray
        The levels of attained work between strata.
    size_rate : float or None
        μ, if the mean size is known.
    weight : float
        1/c², or zero if the mean is not used.
    worth : float
        1 + κ, what the strata count beside it.
    known : dict
        The score where it has been computed.
    """

    bounds: tuple[float, float]
    edges: Floats
    size_rate: float | None = None
    weight: float = 0.0
    worth: float = 1.0
    known: dict[float, float] = field(default_factory=dict)

    @property
    @abstractmethod
    def grid(self) -> Floats:
        """Where to look for a change of sign."""

    @abstractmethod
    def terms(self, p: float) -> Terms:
        """Return what the score is made of."""

    @abstractmethod
    def sums(self, p: float) -> Sums:
        """Return what its variance is made of, at the best μ if that is unknown."""

    def __call__(self, p: float) -> float:
        """Return U(p)."""
        if p not in self.known:
            score, departures, size, slope = self.terms(p)
            score *= self.worth
            if self.size_rate is not None and size > 0.0:
                score += self.weight * slope / size * (departures - self.size_rate * size)
            self.known[p] = score
        return self.known[p]

    def variance(self, p: float) -> float:
        """Return Σψ², ψ being the part of each job in the score."""
        _, _, size, slope = self.terms(p)
        sums, weight, worth = self.sums(p), self.weight * slope / size, self.worth
        return worth**2 * sums.influence + 2.0 * worth * weight * sums.cross + weight**2 * sums.surplus

    def with_mean(self, size_rate: float, weight: float, worth: float = 1.0) -> Self:
        """Return the score that also says what the mean says."""
        return replace(self, size_rate=size_rate, weight=weight, worth=worth, known={})


@dataclass(frozen=True, eq=False)
class StrataFit:
    """Estimate from strata of attained work.

    Attributes
    ----------
    value, stderr : float
        The parameter, and its standard error.
    dispersion : float
        Σψ² / |U'|, by which intervals are wider than if U were the score of a likelihood.
    size_rate, size_rate_stderr : float
        Departures over work done, and its standard error.
    size_law : PiecewiseExponential or None
        The law of sizes; None if no job was seen to arrive and to leave.
    score : Score
        What was solved.
    """

    value: float
    stderr: float
    dispersion: float
    size_rate: float
    size_rate_stderr: float
    size_law: PiecewiseExponential | None
    score: Score

    def interval(self, drop: float) -> tuple[float, float]:
        """Return where the integral of the score is at most `drop` below its maximum, on either side."""
        low, high = self.score.bounds
        reach = math.sqrt(2.0 * drop) * self.stderr
        for part in (-1.0, -0.5, 0.5, 1.0):
            if math.isfinite(reach):
                self.score(min(max(self.value + part * reach, low), high))
        return (
            self._crossing(drop * self.dispersion, -1.0),
            self._crossing(drop * self.dispersion, 1.0),
        )

    def _crossing(self, drop: float, toward: float) -> float:
        """Return where the integral has fallen by `drop`, with the score linear between where it is known."""
        points = sorted(self.score.known.items())
        points = [pair for pair in points if (pair[0] - self.value) * toward > 0.0]
        here, slope, fallen = self.value, self.score(self.value), 0.0
        for p, score in points if toward > 0.0 else reversed(points):
            step = abs(p - here)
            loss = -0.5 * toward * (slope + score) * step
            if fallen + loss >= drop:
                # (slope + (score − slope) t / 2) t step = what is left, for t in [0, 1].
                a, b, c = -0.5 * toward * (score - slope) * step, -toward * slope * step, fallen - drop
                root = (
                    (-b + math.sqrt(max(b * b - 4.0 * a * c, 0.0))) / (2.0 * a) if abs(a) > 1e-300 else -c / b
                )
                return here + toward * min(max(root, 0.0), 1.0) * step
            here, slope, fallen = p, score, fallen + loss
        return self.score.bounds[0 if toward < 0.0 else 1]


def fit_strata(score: Score, size_rate: float | None, near: tuple[float, float]) -> StrataFit:
    """Return the estimate from strata of attained work.

    `near` is that of the exponential likelihood: the parameter, and its standard error.
    """
    guess, step = near
    if size_rate is not None:
        score = _with_the_mean(score, size_rate, guess)
    value = _root(score)
    sums, (_, departures, size, slope) = score.sums(value), score.terms(value)
    spread = score.variance(value)
    bend = _fall(score, value, step, spread)
    # log μ̂ = log n − log S moves by the surplus of a job, and by what it moves p.
    pull, cross = slope / size / bend, score.worth * sums.cross + score.weight * slope / size * sums.surplus
    of_rate = sums.surplus / departures**2 - 2.0 * pull * cross / departures + pull**2 * spread
    rate = departures / size
    return StrataFit(
        value,
        math.sqrt(spread) / bend,
        spread / bend,
        rate,
        rate * math.sqrt(max(of_rate, 0.0)),
        law_of_sizes(sums.strata, score.edges),
        score,
    )


def stratified(strata: Floats) -> tuple[float, Floats, Floats]:
    """Return the score of the strata, and the hazard D/E and mean ratio G/E of each, zero without work."""
    done = strata[:, _E]
    hazards, ratios = (
        np.divide(strata[:, column], done, out=np.zeros(done.size), where=done > 0.0) for column in (_D, _G)
    )
    return float(np.sum(strata[:, _U] - strata[:, _D] * ratios)), hazards, ratios


def law_of_sizes(strata: Floats, edges: Floats) -> PiecewiseExponential | None:
    """Return the law with the hazards D/E of the strata; those of the tail share one if few left in them."""
    departed, done = (np.cumsum(strata[::-1, column])[::-1] for column in (_D, _E))
    if not (departed[0] > 0.0 and done[0] > 0.0):
        return None
    tail = max(int(np.count_nonzero((departed >= _LEAST) & (done > 0.0))) - 1, 0)
    merged = np.vstack([strata[:tail], strata[tail:].sum(axis=0)])
    hazards = np.divide(merged[:, _D], merged[:, _E], out=np.zeros(tail + 1), where=merged[:, _E] > 0.0)
    return PiecewiseExponential([0.0, *edges[:tail].tolist()], hazards.tolist())


def hazard_slope(strata: Floats) -> float:
    """Return κ, the slope of log hazard over log attained work; zero if jobs left in one stratum only."""
    seen = (strata[:, _D] > 0.0) & (strata[:, _E] > 0.0)
    departed, level = strata[seen, _D], math.log(2.0) * np.flatnonzero(seen)
    if departed.size < 2:
        return 0.0
    apart = departed * (level - float(departed @ level) / float(departed.sum()))
    return float(apart @ np.log(departed / strata[seen, _E])) / float(apart @ level)


def _with_the_mean(score: Score, size_rate: float, guess: float) -> Score:
    """Return the score with what the mean says, each weighted by its worth at a first guess of p."""
    known = score.with_mean(size_rate, 0.0)
    sums, departures = known.sums(guess), known.terms(guess).departures
    if not sums.surplus > 0.0:
        return known
    worth = min(max(1.0 + hazard_slope(sums.strata), _WORTH[0]), _WORTH[1])
    return known.with_mean(size_rate, departures / sums.surplus, worth)


def _root(score: Score) -> float:
    """Return the root of the score at which its integral is largest, or the end of the range if that is."""
    from scipy.optimize import brentq

    low, high = score.bounds
    nodes = score.grid
    values = np.array([score(p) for p in nodes.tolist()])
    areas = 0.5 * (values[1:] + values[:-1]) * np.diff(nodes)
    upto = np.concatenate([[0.0], np.cumsum(areas)])
    falls = np.flatnonzero((values[:-1] > 0.0) & (values[1:] <= 0.0))
    # Between two nodes the score is taken to be linear: the integral up to where it is zero.
    peaks = (
        upto[falls] + 0.5 * values[falls] ** 2 / (values[falls] - values[falls + 1]) * np.diff(nodes)[falls]
    )
    best = max([0.0, float(upto[-1]), *peaks.tolist()])
    if peaks.size and float(peaks.max()) >= best:
        k = int(falls[int(peaks.argmax())])
        a, b = float(nodes[k]), float(nodes[k + 1])
        return b if score(b) == 0.0 else float(brentq(score, a, b, xtol=_CLOSE * (high - low)))
    return low if best == 0.0 else high


def _fall(score: Score, value: float, step: float, spread: float) -> float:
    """Return −U' by a difference over a standard error on either side; Σψ² where U does not fall."""
    low, high = score.bounds
    wide = min(max(step, 1e-4 * (high - low)), 0.25 * (high - low))
    a, b = max(value - wide, low), min(value + wide, high)
    fall = (score(a) - score(b)) / (b - a)
    return fall if fall > 0.0 else max(spread, 1e-300)
