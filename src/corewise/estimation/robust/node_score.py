"""The stratified score of strata tables: exact at their nodes, and a cubic spline in between."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from corewise.estimation.robust.strata import Score, Sums, Terms, stratified
from corewise.kit.arrays import Floats
from corewise.observation.strata.tables import Strata

__all__ = ["JobSums", "NodeScore", "job_sums"]


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


_D, _X, _B = range(3)


@dataclass(frozen=True, eq=False, kw_only=True)
class NodeScore(Score):
    """Stratified score from tables.

    ψ and 1{departed} − μX of a job are taken to be uncorrelated, and so are the parts of ψ in its strata: so
    it is for martingales, and for ψ whatever the law of sizes.

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
            (stratified(strata)[0].sum(), *job[_X : _B + 1], _squares(strata))
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
        return Terms(score, float(self.tables.jobs[0, _D]), size, slope)

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
