r"""Strata tables: sums over single jobs that estimates for any size distribution can be made from; they add.

The attained work of a job depends on the parameter p of its curve, so everything is kept for a few values of
p, the *nodes*. For each node there are, in each stratum of attained work, departures D, work E, its slope in
p G, the sum U of g = ∂log s/∂p at departures, and the products of these within a stratum, job by job, from
which variances follow; and such sums over whole jobs. Attained work is carried over from one window to the
next, so tables of successive windows add up to that of all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corewise.errors import InvalidInput
from corewise.kit.arrays import Floats

__all__ = ["COLUMNS", "JOB_COLUMNS", "NODES", "OCTAVES", "Strata", "chebyshev_nodes"]

OCTAVES = np.exp2(np.arange(-8.25, 13.0))
"""The edges between strata, in mean sizes; jobs that are all of the mean size leave near the end of one."""

_ARRAYS = ("nodes", "edges", "bins", "jobs")
COLUMNS = 23
"""Sums in each stratum: D, E, G, U, and of the products gg, da, db, ga, gb, aa, ab, bb of a job's own; then
of dq, qa, dgq, dqq, dqa, dgqa, dqb, dqqa, qaa, qab, qqaa, with q its B/x when it entered the stratum."""

JOB_COLUMNS = 17
"""Sums over jobs: d, X, B, g, dX, dB, gX, gg, gB, XX, XB, BB, and X⁰ to X⁴ of those that came and left."""
NODES = 21
"""Values of p: the root of a score interpolated between them is off by 0.0005 at most."""


def chebyshev_nodes(low: float, high: float, count: int) -> Floats:
    """Return points from one end to the other that crowd at both, as interpolation wants them."""
    nodes = low + (high - low) * 0.5 * (1.0 - np.cos(np.pi * np.arange(count) / (count - 1)))
    nodes[-1] = high
    return np.asarray(nodes)


@dataclass(frozen=True, eq=False)
class Strata:
    """Strata tables of one class; those of successive windows add.

    Attributes
    ----------
    family : str
        The family of the curve.
    nodes : ndarray
        The values of its parameter.
    edges : ndarray
        The levels of attained work between strata.
    bins : ndarray
        Sums for each node and stratum, shape (nodes, strata, `COLUMNS`).
    jobs : ndarray
        Sums over whole jobs for each node, shape (nodes, `JOB_COLUMNS`).
    """

    family: str
    nodes: Floats
    edges: Floats
    bins: Floats
    jobs: Floats

    def __post_init__(self) -> None:
        for column in (self.nodes, self.edges, self.bins, self.jobs):
            column.setflags(write=False)

    @classmethod
    def empty(cls, family: str, bounds: tuple[float, float], unit: float) -> Strata:
        """Return the tables of nothing: for a parameter within `bounds`, and sizes of about `unit`."""
        nodes, edges = chebyshev_nodes(*bounds, NODES), OCTAVES * unit
        shape = (NODES, edges.size + 1, COLUMNS)
        return cls(family, nodes, edges, np.zeros(shape), np.zeros((NODES, JOB_COLUMNS)))

    @property
    def departures(self) -> int:
        """How many jobs left."""
        return round(float(self.jobs[0, 0]))

    @property
    def arrays(self) -> dict[str, Floats]:
        """The arrays by name, to be kept."""
        return {name: getattr(self, name) for name in _ARRAYS}

    @classmethod
    def of_arrays(cls, family: str, arrays: Mapping[str, NDArray[Any]], prefix: str) -> Strata | None:
        """Return the tables whose arrays have these names after a prefix; None if there are none."""
        if f"{prefix}{_ARRAYS[0]}" not in arrays:
            return None
        nodes, edges, bins, jobs = (
            arrays[prefix + name].astype(np.float64, casting="safe") for name in _ARRAYS
        )
        # Tables of earlier versions have no sums with q: there q counts as zero, and nothing errs by it.
        more = [(0, 0), (0, 0), (0, max(COLUMNS - bins.shape[-1], 0))]
        return cls(family, nodes, edges, np.pad(bins, more), jobs)

    def sloped(self, slopes: Floats) -> Floats:
        """Return the sums with g + κq in the place of g, shape (nodes, strata, 12); κ of each stratum."""
        d, e, g, u, gg, da, db, ga, gb, aa, ab, bb, *more = np.moveaxis(self.bins, -1, 0)
        dq, qa, dgq, dqq, dqa, dgqa, dqb, dqqa, qaa, qab, qqaa = (slopes * column for column in more)
        columns = (
            *(d, e, g + qa, u + dq, gg + 2.0 * dgq + slopes * dqq, da, db + dqa, ga + dqa),
            *(gb + dgqa + dqb + slopes * dqqa, aa, ab + qaa, bb + 2.0 * qab + slopes * qqaa),
        )
        return np.stack(columns, axis=-1)

    def __add__(self, other: Strata) -> Strata:
        """Return the tables of both windows together."""
        if not isinstance(other, Strata):
            return NotImplemented
        alike = self.family == other.family and all(
            np.array_equal(a, b) for a, b in ((self.nodes, other.nodes), (self.edges, other.edges))
        )
        if not alike:
            raise InvalidInput(f"strata of {self.family} and of {other.family} on other grids do not add")
        return replace(self, bins=self.bins + other.bins, jobs=self.jobs + other.jobs)
