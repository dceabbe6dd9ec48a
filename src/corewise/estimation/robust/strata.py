r"""Strata of attained work: estimates of a one-parameter curve for any distribution of sizes.

A job that has attained the work x departs at rate h(x) s(z; p), with h the hazard of the size distribution.
Cut attained work into strata, one per octave, on a grid that does not depend on p. For a given p there are,
in each of them, D departures and E work done. A job says of p, when it leaves or goes on,

    a = g + κ B/x,      g = ∂log s/∂p,  B = ∂x/∂p = ∫ g dx,  κ = d log h/d log x:

its rate moves with p, and with its attained work the hazard that it is at. With A = ∫ a dx and U the sum of a
at departures, and a hazard of its own in each stratum, D/E where it is likeliest, the score of p is

    U(p) = Σ_b [U_b − D_b A_b/E_b]                          if neither the distribution nor its mean is known,
    U(p) + (Ḡ/c²) (n − μ S),   S = ΣX,  Ḡ = ΣB/ΣX,          if the mean size 1/μ is:

a stratified log-rank score, for this a the efficient one. One stratum with κ = 0 gives the exponential
likelihood. n − μS is what the mean alone says. The two are uncorrelated, so each is weighted by its slope
over its variance. For the efficient score that is one; for the mean it is Ḡ/c²: c², the mean of
(1{departed} − μX)², is the CV² of sizes. κ is the slope of log D/E over log x about a stratum, strata
weighted by D and by how near they are, drawn to the slope over all of them as if 100 departures said so.
Whatever κ is, U is zero in the mean: if it is wrong, only errors are larger than they need be.

Jobs that are there at the start have an unknown attained work: they are left out of the strata, but not of
what the mean says. Jobs that are there at the end count for the work they had done.

The estimate is the root of U at which its integral is largest. Its variance is Σψ² / U'², with ψ the part of
each job in the score, hazards included (`_kernels.pass_strata`), and U' a difference over a standard error
on either side: with a κ that errs −U' is not Σψ². Intervals hold all p at which the integral of U is within
χ²/2 of its maximum, in units of Σψ²/|U'|.

The score is computed from the histories of jobs (`JobScore`), exactly at every p by one pass over all jobs;
or from tables of strata (`NodeScore`), exactly at their nodes and by a cubic spline in between. B/x, how fast
attained work has moved with p so far, is taken where a job enters its stratum: what is known before a job
departs or goes on makes no error to one side, and in an octave it changes little.

Sources: A. A. Tsiatis, *Estimating regression parameters using linear rank tests for censored data* (Annals
of Statistics 18, 1990); J. M. Robins, A. A. Tsiatis, *Semiparametric estimation of an accelerated failure
time model with time-dependent covariates* (Biometrika 79, 1992).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import NamedTuple, Self

import numpy as np

from corewise.estimation.likelihood import curve_of
from corewise.estimation.robust import _kernels
from corewise.kit.arrays import Bools, Floats, Ints
from corewise.model.speedup import SpeedUp
from corewise.model.tabulated_sizes import PiecewiseExponential
from corewise.observation.histories import JobHistories
from corewise.observation.strata.tables import OCTAVES, Strata, chebyshev_nodes

__all__ = [
    "JobScore",
    "JobSums",
    "NodeScore",
    "Score",
    "StrataFit",
    "Sums",
    "Terms",
    "fit_strata",
    "hazard_slopes",
    "job_sums",
    "size_distribution",
    "stratified",
]

_D, _E, _A, _U = range(4)
_STEEPEST = (-0.9, 3.0)
"""Bounds of the slope of a log hazard."""
_NEAR, _STIFF = 2.0, 100.0
"""Octaves within which strata count for a slope, and departures that the slope over all strata counts for."""

_SURE = 10.83
"""Twice the logarithm of a likelihood ratio from which two hazards differ; equal ones one time in 1000."""

_LEAST = 10
"""Departures in the last stratum of an estimated size distribution."""

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

    `strata` has the columns D, E, A and U.
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
    slopes : ndarray
        κ of each stratum.
    weight : float
        1/c², or zero if the mean is not used.
    known : dict
        The score where it has been computed.
    """

    bounds: tuple[float, float]
    edges: Floats
    slopes: Floats
    size_rate: float | None = None
    weight: float = 0.0
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
            if self.size_rate is not None and size > 0.0:
                score += self.weight * slope / size * (departures - self.size_rate * size)
            self.known[p] = score
        return self.known[p]

    def variance(self, p: float) -> float:
        """Return Σψ², ψ being the part of each job in the score."""
        _, _, size, slope = self.terms(p)
        sums, weight = self.sums(p), self.weight * slope / size
        return sums.influence + 2.0 * weight * sums.cross + weight**2 * sums.surplus

    def with_mean(self, size_rate: float | None, weight: float) -> Self:
        """Return the score that also says what the mean says, if it is known."""
        return replace(self, size_rate=size_rate, weight=weight, known={})

    def with_slopes(self, slopes: Floats) -> Self:
        """Return the score for a size distribution whose log hazard has these slopes."""
        return replace(self, slopes=slopes, known={})


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
        The size distribution; None if no job was observed from arrival to departure.
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
    score = _efficient(score, size_rate, guess)
    value = _root(score)
    sums, (_, departures, size, slope) = score.sums(value), score.terms(value)
    spread = score.variance(value)
    bend = _fall(score, value, step, spread)
    # log μ̂ = log n − log S moves by the surplus of a job, and by what it moves p.
    pull, cross = slope / size / bend, sums.cross + score.weight * slope / size * sums.surplus
    of_rate = sums.surplus / departures**2 - 2.0 * pull * cross / departures + pull**2 * spread
    rate = departures / size
    return StrataFit(
        value,
        math.sqrt(spread) / bend,
        spread / bend,
        rate,
        rate * math.sqrt(max(of_rate, 0.0)),
        size_distribution(sums.strata, score.edges),
        score,
    )


def stratified(strata: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the score, the hazard D/E and the mean ratio A/E of each stratum, zero without work."""
    done = strata[:, _E]
    hazards, ratios = (
        np.divide(strata[:, column], done, out=np.zeros(done.size), where=done > 0.0) for column in (_D, _A)
    )
    return strata[:, _U] - strata[:, _D] * ratios, hazards, ratios


def size_distribution(strata: Floats, edges: Floats) -> PiecewiseExponential | None:
    """Return the distribution with the hazards D/E of the strata, as far as they surely differ.

    A sparse tail shares one. Neighbours share one while twice the logarithm of the likelihood ratio of two
    hazards to one is below `_SURE`, those with the least ratio first: jobs are told apart by attained work
    only where more of it surely says more work, or less, is left. Sizes that may be exponential are.
    """
    departed, done = (np.cumsum(strata[::-1, column])[::-1] for column in (_D, _E))
    if not (departed[0] > 0.0 and done[0] > 0.0):
        return None
    tail = max(int(np.count_nonzero((departed >= _LEAST) & (done > 0.0))) - 1, 0)
    begins = np.append(0.0, edges[:tail])
    apart = np.vstack([strata[:tail], strata[tail:].sum(axis=0)])[:, [_D, _E]]
    while len(apart) > 1:
        ratios = (
            _log_likelihood(apart[:-1]) + _log_likelihood(apart[1:]) - _log_likelihood(apart[:-1] + apart[1:])
        )
        k = int(ratios.argmin())
        if 2.0 * ratios[k] >= _SURE:
            break
        apart = np.vstack([apart[:k], apart[k] + apart[k + 1], apart[k + 2 :]])
        begins = np.delete(begins, k + 1)
    return PiecewiseExponential(begins.tolist(), (apart[:, 0] / apart[:, 1]).tolist())


def _log_likelihood(strata: Floats) -> Floats:
    """Return the largest D log h − h E of each stratum, but for −D; zero without a departure or work."""
    departed, done = strata[:, 0], strata[:, 1]
    seen = (departed > 0.0) & (done > 0.0)
    return np.asarray(departed * np.log(np.divide(departed, done, out=np.ones(done.size), where=seen)))


def hazard_slopes(strata: Floats) -> Floats:
    """Return κ of each stratum, the slope of log hazard over log attained work; zero if jobs left in one."""
    seen = (strata[:, _D] > 0.0) & (strata[:, _E] > 0.0)
    departed, octave = strata[seen, _D], np.flatnonzero(seen)
    if departed.size < 2:
        return np.zeros(seen.size)
    hazard = np.log(departed / strata[seen, _E])
    everywhere, _ = _slope(departed[None, :], octave, hazard)
    apart = (octave - np.arange(seen.size)[:, None]) / _NEAR
    near, spread = _slope(departed * np.exp(-0.5 * apart**2), octave, hazard)
    stiff = _STIFF * math.log(2.0) ** 2
    return np.clip((spread * near + stiff * everywhere) / (spread + stiff), *_STEEPEST)


def _slope(weights: Floats, octave: Ints, hazard: Floats) -> tuple[Floats, Floats]:
    """Return the slopes of lines through log hazards, one a row of weights, and the spread of log x in it."""
    x = math.log(2.0) * octave
    total = np.maximum(weights.sum(axis=1), 1e-300)
    centred = x - (weights @ x / total)[:, None]
    spread = (weights * centred**2).sum(axis=1)
    return (weights * centred) @ hazard / np.maximum(spread, 1e-300), spread


def _efficient(score: Score, size_rate: float | None, guess: float) -> Score:
    """Return the score with the slopes of the hazard, and with what the mean says, as of a guess of p."""
    known = score.with_mean(size_rate, 0.0)
    sums, departures = known.sums(guess), known.terms(guess).departures
    known_mean = size_rate is not None and sums.surplus > 0.0
    weight = departures / sums.surplus if known_mean else 0.0
    return known.with_slopes(hazard_slopes(sums.strata)).with_mean(size_rate, weight)


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


# --- from the histories of jobs -------------------------------------------------------------------

_NODES = 9
"""Number of points at which the score of histories is searched for a change of sign."""


class _Pass(NamedTuple):
    """One pass over the histories, at one p: the clocks, g of each job as it left, and the strata."""

    work: Floats
    bend: Floats
    ratio: Floats
    strata: Floats


@dataclass(frozen=True, eq=False, kw_only=True)
class JobScore(Score):
    """Stratified score from the histories of all jobs.

    Attributes
    ----------
    histories : JobHistories
        What each job held when.
    family : SpeedUp
        Any curve of the family.
    """

    histories: JobHistories
    family: SpeedUp

    @classmethod
    def of(cls, histories: JobHistories, family: SpeedUp, unit: float) -> JobScore:
        """Return the score of a class with sizes of about `unit`."""
        (bounds,) = family.bounds.values()
        edges = OCTAVES * unit
        slopes = np.zeros(edges.size + 1)
        return cls(bounds=bounds, edges=edges, slopes=slopes, histories=histories, family=family)

    @property
    def grid(self) -> Floats:
        """Where to look for a change of sign."""
        return chebyshev_nodes(*self.bounds, _NODES)

    @cached_property
    def _whole(self) -> tuple[Ints, Ints, Bools]:
        """Segments and departures of the jobs that were seen to arrive."""
        jobs, whole = self.histories, ~self.histories.truncated
        return jobs.first[whole], jobs.last[whole], jobs.departed[whole]

    @cached_property
    def _at(self) -> Callable[[float], _Pass]:
        """The latest passes: the score, its terms and its sums are asked for one after another."""
        return lru_cache(maxsize=1)(self.passed)

    def passed(self, p: float) -> _Pass:
        """Return what happened in the strata that a curve makes."""
        jobs, curve = self.histories, curve_of(self.family, np.array([p]))
        speed, slope = curve.rate(jobs.widths), curve.gradient(jobs.widths)[:, 0]
        work, bend = np.empty((2, jobs.span.size + 1))
        _kernels.run_clocks(jobs.place, jobs.span, speed, slope, work, bend)
        _, last, _ = self._whole
        ratio = np.divide(slope, speed, out=np.zeros(speed.size), where=speed > 0.0)[jobs.place[last - 1]]
        found, none = _Pass(work, bend, ratio, np.zeros((self.edges.size + 1, 4))), np.empty(0)
        self._go_through(found, found.strata, none, none, none)
        return found

    def _go_through(self, here: _Pass, strata: Floats, *influences: Floats) -> None:
        """Add up what jobs did in each stratum, and write what each of them did to the score if asked to."""
        pointers = np.zeros(self.edges.size + 1, dtype=np.uint64)
        jobs = (*self._whole, here.ratio, self.edges, self.slopes, pointers)
        _kernels.pass_strata(here.work, here.bend, *jobs, strata, *influences)

    def terms(self, p: float) -> Terms:
        """Return what the score is made of; jobs that were there at the start count in what the mean says."""
        here, jobs = self._at(p), self.histories
        size, slope = (clock[jobs.last].sum() - clock[jobs.first].sum() for clock in (here.work, here.bend))
        return Terms(
            float(stratified(here.strata)[0].sum()), float(jobs.departed.sum()), float(size), float(slope)
        )

    def influences(self, p: float) -> tuple[Floats, Floats]:
        """Return ψ of every job in the strata, and 1{departed} − μX, at the best μ if that is unknown."""
        here, jobs = self._at(p), self.histories
        size = here.work[jobs.last] - here.work[jobs.first]
        rate = float(jobs.departed.sum()) / float(size.sum()) if self.size_rate is None else self.size_rate
        own = np.empty(self._whole[0].size)
        _, hazards, ratios = stratified(here.strata)
        self._go_through(here, np.zeros(here.strata.shape), hazards, ratios, own)
        influence = np.zeros(size.size)
        influence[~jobs.truncated] = own * _freedom(here.strata)
        return influence, jobs.departed - rate * size

    def sums(self, p: float) -> Sums:
        """Return what the variance is made of, at the best μ if that is unknown."""
        influence, surplus = self.influences(p)
        return Sums(
            float(influence @ influence),
            float(influence @ surplus),
            float(surplus @ surplus),
            self._at(p).strata,
        )


def _freedom(strata: Floats) -> float:
    """Return √(n/(n − k)) for n departures in k strata: hazards that were fitted make influences smaller."""
    departures, fitted = float(strata[:, 0].sum()), int(np.count_nonzero(strata[:, 0]))
    return math.sqrt(departures / (departures - fitted)) if departures > fitted else 1.0


# --- from tables of strata ------------------------------------------------------------------------

_D_COLUMN, _X_COLUMN, _B_COLUMN = range(3)
"""Columns of the sums over whole jobs in tables of strata."""


class JobSums(NamedTuple):
    """Sums over whole jobs at one p; the names of products are those of their factors."""

    d: float
    x: float
    b: float
    g: float
    dx: float
    db: float
    gx: float
    gg: float
    gb: float
    xx: float
    xb: float
    bb: float
    sizes: tuple[float, ...]
    """X⁰ to X⁴ of the jobs that came and left."""


@dataclass(frozen=True, eq=False, kw_only=True)
class NodeScore(Score):
    """Stratified score from tables.

    ψ and 1{departed} − μX of a job are taken to be uncorrelated, and so are the parts of ψ in its strata: so
    it is for martingales, and for ψ whatever the size distribution.

    Attributes
    ----------
    tables : Strata
        Sums over jobs, for each node and stratum.
    """

    tables: Strata

    @classmethod
    def of(cls, tables: Strata) -> NodeScore:
        """Return the score of a class."""
        bounds, slopes = (float(tables.nodes[0]), float(tables.nodes[-1])), np.zeros(tables.edges.size + 1)
        return cls(bounds=bounds, edges=tables.edges, slopes=slopes, tables=tables)

    @property
    def grid(self) -> Floats:
        """Where to look for a change of sign."""
        return self.tables.nodes

    @cached_property
    def _splines(self) -> Floats:
        """The coefficients of cubic splines through score, S, ∂S/∂p and Σψ² at the nodes."""
        from scipy.interpolate import CubicSpline

        tables = self.tables
        rows = [
            (stratified(strata)[0].sum(), *job[_X_COLUMN : _B_COLUMN + 1], _squares(strata))
            for strata, job in zip(tables.sloped(self.slopes), tables.jobs, strict=True)
        ]
        return np.asarray(CubicSpline(tables.nodes, np.array(rows)).c)

    def _spline(self, p: float) -> Floats:
        """Return score, S, ∂S/∂p and Σψ² at some p."""
        nodes = self.tables.nodes
        k = min(max(int(np.searchsorted(nodes, p, side="right")) - 1, 0), nodes.size - 2)
        step, (a, b, c, d) = p - nodes[k], self._splines[:, k]
        return np.asarray(((a * step + b) * step + c) * step + d)

    def terms(self, p: float) -> Terms:
        """Return what the score is made of."""
        score, size, slope, _ = self._spline(p).tolist()
        return Terms(score, float(self.tables.jobs[0, _D_COLUMN]), size, slope)

    def sums(self, p: float) -> Sums:
        """Return what the variance is made of, at the best μ if that is unknown."""
        (_, departures, size, _), jobs = self.terms(p), job_sums(self.tables, p)
        rate = departures / size if self.size_rate is None else self.size_rate
        surplus = departures - 2.0 * rate * jobs.dx + rate**2 * jobs.xx
        strata = _between(self.tables, self.tables.bins, p, 2)  # linear, so that none is negative
        squares = max(float(self._spline(p)[3]), 0.0)
        return Sums(squares, 0.0, surplus, strata[:, :4])


def _squares(strata: Floats) -> float:
    """Return Σψ² at a node: ψ = d (g − ḡ) − h (b − ḡ a) in each stratum, from the sums of products."""
    _, hazard, ratio = stratified(strata)
    d, _, _, u, gg, da, db, ga, gb, aa, ab, bb = strata.T
    left = gg - 2.0 * ratio * u + ratio**2 * d
    mixed = gb - ratio * ga - ratio * db + ratio**2 * da
    worked = bb - 2.0 * ratio * ab + ratio**2 * aa
    departures, fitted = float(d.sum()), int(np.count_nonzero(d))
    freedom = departures / (departures - fitted) if departures > fitted else 1.0
    return freedom * float(np.sum(left - 2.0 * hazard * mixed + hazard**2 * worked))


def _between(tables: Strata, values: Floats, p: float, points: int) -> Floats:
    """Return what has these values at the nodes, interpolated through as many of the nearest as said."""
    nodes = tables.nodes
    first = int(np.searchsorted(nodes, p, side="right")) - points // 2
    near = slice(min(max(first, 0), nodes.size - points), None)
    at = nodes[near][:points]
    apart = at[:, None] - at + np.eye(points)
    weights = np.prod(np.where(np.eye(points, dtype=bool), 1.0, (p - at) / apart), axis=1)
    return np.asarray(np.tensordot(weights, values[near][:points], axes=1))


def job_sums(tables: Strata, p: float) -> JobSums:
    """Return the sums over whole jobs at some p; none is negative, and logarithms bend less between nodes."""
    logarithms = np.log(np.maximum(tables.jobs, 1e-300))
    values = np.exp(_between(tables, logarithms, p, 4)).tolist()
    return JobSums._make([*values[:-5], tuple(values[-5:])])
