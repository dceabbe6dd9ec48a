r"""Strata of attained work: estimates of a one-parameter curve that assume no law of sizes.

A job that has attained the work x leaves at rate h(x) s(z; p), with h the hazard of the law of sizes. Cut
attained work into strata, one an octave, on a grid that does not depend on p. For a given p there are, in
each of them, D departures, E work done, G = ∂E/∂p along the jobs' paths, and U, the sum of g = ∂log s/∂p at
departures. With a hazard of its own in each stratum, D/E where it is likeliest, the score of p is

    U(p) = Σ_b [U_b − D_b G_b/E_b]                              if neither the law nor its mean is known,
    U(p) + (Ḡ/c²) (n − μ S),   S = ΣE,  Ḡ = ΣG/ΣE,              if the mean size 1/μ is:

a stratified log-rank score. One stratum gives the exponential likelihood. n − μS is what the mean alone says,
weighted by its worth: c², the mean of (1{departed} − μX)², is the CV² of sizes. Where a single job makes half
of that, as where the variance is infinite, the mean is left out if the strata can do without it.

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
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from corewise.estimation.likelihood import curve_of
from corewise.estimation.robust import _kernels
from corewise.kit.arrays import Bools, Floats, Ints
from corewise.model.speedup import SpeedUp
from corewise.model.tabulated_sizes import PiecewiseExponential
from corewise.observation.histories import JobHistories

__all__ = ["OCTAVES", "StrataFit", "StrataScore", "can_be_stratified", "fit_strata", "law_of_sizes"]

OCTAVES = np.exp2(np.arange(-8.25, 13.0))
"""The edges between strata, in mean sizes; jobs that are all of the mean size leave near the end of one."""

_D, _E, _G, _U = range(4)
_NODES = 9
_NEARLY = 4.0
"""A mean that hangs on a single job is left out if without it the variance is at most so many times its."""

_LEAST = 10
"""Departures in the last stratum of an estimated law of sizes."""

_CLOSE = 1e-7
"""How near to a root its search ends, of the range of p: the score jumps where a job changes its stratum."""


def can_be_stratified(family: SpeedUp) -> bool:
    """Return whether there are strata for a family: it needs one parameter, within two ends."""
    return len(family.bounds) == 1 and all(
        math.isfinite(end) for ends in family.bounds.values() for end in ends
    )


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
    score : StrataScore
        What was solved.
    """

    value: float
    stderr: float
    dispersion: float
    size_rate: float
    size_rate_stderr: float
    size_law: PiecewiseExponential | None
    score: StrataScore

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


class _Pass(NamedTuple):
    """One pass over the histories, at one p: the clocks, and what happened in the strata."""

    work: Floats
    bend: Floats
    ratio: Floats
    strata: Floats

    @property
    def mean_ratios(self) -> Floats:
        """G/E of each stratum, zero where no work was done."""
        done = self.strata[:, _E]
        return np.divide(self.strata[:, _G], done, out=np.zeros(done.size), where=done > 0.0)

    @property
    def hazards(self) -> Floats:
        """D/E of each stratum, zero where no work was done."""
        done = self.strata[:, _E]
        return np.divide(self.strata[:, _D], done, out=np.zeros(done.size), where=done > 0.0)


@dataclass(frozen=True, eq=False)
class StrataScore:
    """Score of a one-parameter curve, stratified by attained work; values that were asked for are kept.

    Attributes
    ----------
    histories : JobHistories
        What each job held when.
    family : SpeedUp
        Any curve of the family.
    edges : ndarray
        The levels of attained work between strata.
    size_rate : float or None
        μ, if the mean size is known.
    weight : float
        1/c², or zero if the mean is not used.
    known : dict
        The score where it has been computed.
    """

    histories: JobHistories
    family: SpeedUp
    edges: Floats
    size_rate: float | None = None
    weight: float = 0.0
    known: dict[float, float] = field(default_factory=dict)

    @property
    def bounds(self) -> tuple[float, float]:
        """The ends of the range of p."""
        (ends,) = self.family.bounds.values()
        return ends

    def __call__(self, p: float) -> float:
        """Return U(p)."""
        if p not in self.known:
            here = self.at(p)
            score = float(np.sum(here.strata[:, _U] - here.strata[:, _D] * here.mean_ratios))
            if self.size_rate is not None and self.weight > 0.0:
                size, bend = self.sums(here)
                departures = float(self.histories.departed.sum())
                score += (
                    self.weight
                    * float(bend.sum() / size.sum())
                    * (departures - self.size_rate * float(size.sum()))
                )
            self.known[p] = score
        return self.known[p]

    @cached_property
    def _whole(self) -> tuple[Ints, Ints, Bools]:
        """Segments and departures of the jobs that were seen to arrive."""
        jobs, whole = self.histories, ~self.histories.truncated
        return jobs.first[whole], jobs.last[whole], jobs.departed[whole]

    def at(self, p: float) -> _Pass:
        """Return what happened in the strata that a curve makes."""
        jobs, curve = self.histories, curve_of(self.family, np.array([p]))
        speed, slope = curve.rate(jobs.widths), curve.gradient(jobs.widths)[:, 0]
        work, bend = np.empty((2, jobs.span.size + 1))
        _kernels.run_clocks(jobs.place, jobs.span, speed, slope, work, bend)
        first, last, departed = self._whole
        ratio = np.divide(slope, speed, out=np.zeros(speed.size), where=speed > 0.0)[jobs.place[last - 1]]
        strata, pointers = np.zeros((self.edges.size + 1, 4)), np.zeros(self.edges.size, dtype=np.uint64)
        _kernels.tabulate_strata(work, bend, first, last, departed, ratio, self.edges, pointers, strata)
        return _Pass(work, bend, ratio, strata)

    def sums(self, here: _Pass) -> tuple[Floats, Floats]:
        """Return X and ∂X/∂p of every job, of those that were there at the start as well."""
        first, last = self.histories.first, self.histories.last
        return here.work[last] - here.work[first], here.bend[last] - here.bend[first]

    def influences(self, here: _Pass) -> tuple[Floats, Floats]:
        """Return ψ of every job, and its part 1{departed} − μX in what was done, at the best μ if unknown."""
        jobs, (size, bend) = self.histories, self.sums(here)
        rate = float(jobs.departed.sum()) / float(size.sum()) if self.size_rate is None else self.size_rate
        surplus = jobs.departed - rate * size
        influence = self.weight * float(bend.sum() / size.sum()) * surplus
        first, last, departed = self._whole
        own, pointers = np.empty(first.size), np.zeros(self.edges.size, dtype=np.uint64)
        _kernels.job_influences(
            here.work,
            here.bend,
            first,
            last,
            departed,
            here.ratio,
            self.edges,
            pointers,
            here.hazards,
            here.mean_ratios,
            own,
        )
        influence[~jobs.truncated] += own
        return influence, surplus


def fit_strata(
    histories: JobHistories, family: SpeedUp, size_rate: float | None, near: tuple[float, float, float]
) -> StrataFit:
    """Return the estimate from strata of attained work.

    `near` is that of the exponential likelihood: the parameter, its standard error, and the size rate.
    """
    guess, step, unit = near
    score = StrataScore(histories, family, OCTAVES / unit)
    if size_rate is not None:
        score = _with_the_mean(score, size_rate, guess, step)
    value = _root(score)
    here = score.at(value)
    influence, surplus = score.influences(here)
    influence *= _freedom(here.strata)
    spread = float(influence @ influence)
    bend = _fall(score, value, step, spread)
    size, slope = (float(column.sum()) for column in score.sums(here))
    departures = float(histories.departed.sum())
    by_rate = surplus / departures - slope / size * influence / bend
    rate = departures / size
    return StrataFit(
        value,
        math.sqrt(spread) / bend,
        spread / bend,
        rate,
        rate * math.sqrt(float(by_rate @ by_rate)),
        law_of_sizes(here.strata, score.edges),
        score,
    )


def _freedom(strata: Floats) -> float:
    """Return √(n/(n − k)) for n departures in k strata: hazards that were fitted make influences smaller."""
    departures, fitted = float(strata[:, _D].sum()), int(np.count_nonzero(strata[:, _D]))
    return math.sqrt(departures / (departures - fitted)) if departures > fitted else 1.0


def law_of_sizes(strata: Floats, edges: Floats) -> PiecewiseExponential | None:
    """Return the law with the hazards D/E of the strata; those of the tail share one if few left in them."""
    departed, done = (np.cumsum(strata[::-1, column])[::-1] for column in (_D, _E))
    if not (departed[0] > 0.0 and done[0] > 0.0):
        return None
    tail = max(int(np.count_nonzero((departed >= _LEAST) & (done > 0.0))) - 1, 0)
    merged = np.vstack([strata[:tail], strata[tail:].sum(axis=0)])
    hazards = np.divide(merged[:, _D], merged[:, _E], out=np.zeros(tail + 1), where=merged[:, _E] > 0.0)
    return PiecewiseExponential([0.0, *edges[:tail].tolist()], hazards.tolist())


def _with_the_mean(score: StrataScore, size_rate: float, guess: float, step: float) -> StrataScore:
    """Return the score with what the mean says, weighted by its worth at a first guess of p.

    It is left out where a single job makes half of c², and the strata alone say as much or nearly so.
    """
    here = score.at(guess)
    size, slope = score.sums(here)
    squares = (score.histories.departed - size_rate * size) ** 2
    total, departures = float(squares.sum()), float(score.histories.departed.sum())
    if total > departures and 2.0 * float(squares.max()) > total:
        influence, _ = score.influences(here)
        spread = float(influence @ influence)
        alone = spread / _fall(score, guess, step, spread) ** 2
        if alone <= _NEARLY * total / (size_rate * float(slope.sum())) ** 2:
            return score
    return replace(score, size_rate=size_rate, weight=departures / total, known={})


def _root(score: StrataScore) -> float:
    """Return the root of the score at which its integral is largest, or the end of the range if that is."""
    from scipy.optimize import brentq

    low, high = score.bounds
    nodes = low + (high - low) * 0.5 * (1.0 - np.cos(np.pi * np.arange(_NODES) / (_NODES - 1)))
    nodes[-1] = high
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


def _fall(score: StrataScore, value: float, step: float, spread: float) -> float:
    """Return −U' by a difference over a standard error on either side; Σψ² where U does not fall."""
    low, high = score.bounds
    wide = min(max(step, 1e-4 * (high - low)), 0.25 * (high - low))
    a, b = max(value - wide, low), min(value + wide, high)
    fall = (score(a) - score(b)) / (b - a)
    return fall if fall > 0.0 else max(spread, 1e-300)
