r"""Slowdowns: how much longer jobs take than each would alone, by class and by size.

The slowdown of a job is its response time over the time that it would take alone on all cores: its work X
over the best speed of its class, with curves by progress part by part. It is at least one, and compares jobs
of classes that scale differently, which response time over the work on one core does not. Jobs without work
have none.

Jobs are told apart by size in parts of an octave, so deciles are those of the size up to 1.1 %, and each has
about a tenth of the jobs. Intervals are by batch means, of what is summed over the number of jobs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from corewise.kit.arrays import Floats
from corewise.kit.frozen import FrozenMapping
from corewise.kit.numbers import value_with_interval
from corewise.kit.report import Summarised, Table
from corewise.kit.values import ByValue
from corewise.model.system import System
from corewise.simulation.intervals import ratio_interval
from corewise.simulation.loops._kernels.jobs import FIRST_BIN, SHIFT

__all__ = ["Slowdown", "Slowdowns", "lone_times", "slowdowns_of"]

_PARTS = 10


@dataclass(frozen=True, eq=False, repr=False)
class Slowdown(ByValue, Summarised):
    """Mean slowdown of some jobs: the response time over the time that a job would take alone on all cores.

    Attributes
    ----------
    jobs : int
        How many they are.
    mean : float
        The mean of their slowdowns, NaN if there are none.
    interval : tuple of float
        A 95 % confidence interval for it by batch means; NaN where there is none.
    sizes : tuple of float
        The smallest and the largest size among them, to 1.1 %.

    Examples
    --------
    >>> import corewise as cw
    >>> system = cw.System(4, [cw.JobClass("a", 2.0, 1.0, cw.Amdahl(0.9), sizes=cw.sizes.Lognormal(4.0))])
    >>> run = cw.simulate(system, "equi", departures=2_000, rng=7)
    >>> run.slowdowns.overall.jobs
    2000
    >>> run.slowdowns.overall.mean > 1.0
    True
    """

    _repr_fields = ("jobs", "mean", "interval")
    _json_fields = ("jobs", "mean", "interval", "sizes")

    jobs: int
    mean: float
    interval: tuple[float, float]
    sizes: tuple[float, float]


@dataclass(frozen=True, eq=False, repr=False)
class Slowdowns(ByValue, Summarised):
    """Slowdowns of the jobs that came and left: over all, by class, and by tenths of the jobs in size.

    Attributes
    ----------
    overall : Slowdown
        Of all jobs.
    classes : mapping
        Of each class, by its name.
    deciles : tuple of Slowdown
        Of the tenth of the jobs that are smallest in work, of the next one, and so on.

    Examples
    --------
    >>> import corewise as cw
    >>> system = cw.System(4, [cw.JobClass("a", 2.0, 1.0, cw.Amdahl(0.9), sizes=cw.sizes.Lognormal(4.0))])
    >>> run = cw.simulate(system, "job-index", departures=2_000, rng=7, known_sizes=True)
    >>> len(run.slowdowns.deciles)
    10
    """

    _repr_fields = ("overall", "classes")
    _json_fields = ("overall", "classes", "deciles")

    overall: Slowdown
    classes: Mapping[str, Slowdown]
    deciles: tuple[Slowdown, ...]

    @property
    def table(self) -> Table:
        """The slowdowns by size, as a table."""
        rows = [
            (f"{k * _PARTS}-{(k + 1) * _PARTS} %", f"{row.sizes[0]:.3g}-{row.sizes[1]:.3g}", *_shown(row))
            for k, row in enumerate(self.deciles)
            if row.jobs
        ]
        return Table(["jobs by size", "size", "mean slowdown"], rows)


def _shown(row: Slowdown) -> tuple[str]:
    return (value_with_interval(row.mean, row.interval, digits=4),)


def lone_times(system: System, *, whole: bool) -> Floats:
    """Return how long a unit of work of each class takes alone on all cores, as many as are of use."""
    found = []
    for known in system.classes:
        shares = np.diff(known.starts, append=1.0)
        if whole:
            best = [float(curve.table(int(system.cores)).max()) for curve in known.curves]
        else:
            best = [
                float(curve.rate(min(max(system.cores, 0.0), curve.useful_cores))) for curve in known.curves
            ]
        found.append(float(np.sum(shares / np.array(best))))
    return np.array(found)


def slowdowns_of(
    names: Sequence[str], batches: Sequence[tuple[int, Floats]], spans: Floats, correlation: float
) -> Slowdowns:
    """Return slowdowns from batches of jobs.

    Parameters
    ----------
    names : sequence of str
        The classes.
    batches : sequence of tuple
        How many jobs of each class and size left in each batch, and the sum of their slowdowns: the first bin
        of sizes, and an array of shape (2, K, bins) from that bin on.
    spans : ndarray
        How long each batch lasted.
    correlation : float
        How long the number of jobs is correlated; zero if there is no interval.
    """
    ends = [(first, first + part.shape[2]) for first, part in batches if part.size]
    first, last = (min(low for low, _ in ends), max(high for _, high in ends)) if ends else (0, 1)
    found = np.zeros((len(batches), 2, len(names), last - first))
    for k, (low, part) in enumerate(batches):
        found[k, :, :, low - first : low - first + part.shape[2]] = part
    edges = ((np.arange(first, last + 1) + FIRST_BIN) << SHIFT).view(np.float64)

    def row(parts: Floats, shares: Floats) -> Slowdown:
        """Return the slowdown of a share of the jobs of each bin; `parts` has batches, sums and bins."""
        left, ratios = parts @ shares
        jobs = float(left.sum())
        if jobs <= 0.0:
            return Slowdown(0, math.nan, (math.nan, math.nan), (math.nan, math.nan))
        interval = math.nan, math.nan
        if correlation > 0.0:
            interval = ratio_interval(ratios, left, correlation * float(left.mean() / spans.mean()))
        seen = np.flatnonzero((shares > 0.0) & (parts[0].sum(axis=0) > 0.0))
        sizes = float(edges[seen[0]]), float(edges[seen[-1] + 1])
        return Slowdown(round(jobs), float(ratios.sum()) / jobs, interval, sizes)

    ones = np.ones(last - first)
    by_size = np.moveaxis(found.sum(axis=2), 0, 1)
    upto = np.concatenate([[0.0], np.cumsum(by_size[0].sum(axis=0))])
    deciles = []
    for k in range(_PARTS):
        low, high = upto[-1] * k / _PARTS, upto[-1] * (k + 1) / _PARTS
        inside = np.maximum(np.minimum(upto[1:], high) - np.maximum(upto[:-1], low), 0.0)
        deciles.append(row(by_size, inside / np.maximum(np.diff(upto), 1e-300)))
    classes = {name: row(np.moveaxis(found[:, :, i], 0, 1), ones) for i, name in enumerate(names)}
    return Slowdowns(row(by_size, ones), FrozenMapping(classes), tuple(deciles))
