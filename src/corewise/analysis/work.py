r"""Levels of work: the coarse problem that makes sweeps converge quickly at high load.

When cores are scarce, what changes slowly is the work in the system, W(n) = Σ_i n_i/μ_i: whichever class is
served, it drains at the rate of the cores. Sweeps reduce all other errors quickly, and that of the work last.
So between sweeps the slow part is solved for directly, on hat functions φ_k of the work with nodes at levels
k h: with the matrix

    B_kl = Σ_n π(n) φ_k(n) (Q φ_l)(n),

a band some levels wide, values V are corrected by Σ_l a_l φ_l so that the residual r − J of V vanishes when
weighted by π φ_k for every k,

    B a = −Σ_n π φ_k (r − J),

and a distribution π is multiplied by Σ_k c_k φ_k so that the flow into every level vanishes,

    Bᵀ c = 0.

The second is the transpose of the first, and both have a unique answer up to a constant. For equal sizes,
where the work is the total number of jobs, this is aggregation on totals (`Chain.relaxed`). Levels are as
far apart as a job is large, the mean over the work that arrives.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from corewise.analysis import _kernels
from corewise.kit.arrays import Floats
from corewise.model.space import StateSpace
from corewise.model.system import System

__all__ = ["WorkEquations", "WorkLevels"]

_WIDEST = 24
"""The most levels that one job spans."""
_MOST_CHANGE = 100.0
"""The most by which a probability is asked to change at a time; far more than is ever done."""
_LEAST_MASS = 1e-150
"""The least probability of a level of its own; higher ones, which underflow, move along with the last one."""


@dataclass(frozen=True)
class WorkLevels:
    """Levels of work in the system, on a box of states."""

    system: System
    space: StateSpace

    @cached_property
    def steps(self) -> Floats:
        """How many levels a job of each class is."""
        sizes = 1.0 / self.system.size_rates
        loads = self.system.arrival_rates * sizes
        between = max(float(loads @ sizes / loads.sum()), float(sizes.max()) / _WIDEST)
        return np.asarray(sizes / between)

    @cached_property
    def half_width(self) -> int:
        """The number of diagonals of B on each side of the main one."""
        return math.ceil(float(self.steps.max())) + 1

    @cached_property
    def count(self) -> int:
        """The number of nodes."""
        return int(self.steps @ np.array(self.space.capacity)) + 2 + self.half_width

    @property
    def are_totals(self) -> bool:
        """Whether the levels are the total number of jobs: all sizes are the same."""
        return bool(np.all(self.steps == self.steps[0]))

    def equations(self, prob: Floats, rates: Floats) -> WorkEquations:
        """Return the equations under a distribution near the stationary one, for departure rates `rates`."""
        shape, nothing = self.space.dimensions, np.empty(0)
        mass = np.zeros(self.count)
        _kernels.level_sums(prob, nothing, 0.0, shape, self.steps, math.inf, mass)
        top = int(np.flatnonzero(mass > _LEAST_MASS)[-1])
        mass[top] = mass[top:].sum()
        band = np.zeros((2 * self.half_width + 1, top + 2))
        _kernels.level_equations(prob, rates, self.system.arrival_rates, shape, self.steps, float(top), band)
        return WorkEquations(self, prob, mass[: top + 1], band[:, : top + 1])


@dataclass(frozen=True, eq=False)
class WorkEquations:
    """Equations for the levels of work under a distribution near the stationary one.

    Attributes
    ----------
    levels : WorkLevels
        The levels.
    prob : ndarray, shape (size,)
        The distribution.
    mass : ndarray
        The probability of every level, Σ_n π(n) φ_k(n); the last one stands for all above it.
    band : ndarray
        B by its diagonals, as LAPACK keeps a band.
    """

    levels: WorkLevels
    prob: Floats
    mass: Floats
    band: Floats

    @property
    def top(self) -> int:
        """The last level."""
        return self.mass.size - 1

    def correct_values(self, values: Floats, drift: Floats, mean: float) -> None:
        """Add a function of the work to `values` so that `drift`, f + QV, is J at every level in the mean."""
        levels, off = self.levels, np.zeros(self.top + 2)
        place = levels.space.dimensions, levels.steps, float(self.top)
        _kernels.level_sums(self.prob, drift, mean, *place, off)
        scaled = np.zeros_like(self.band)
        for d, row, column in self._diagonals():
            scaled[d, column] = self.band[d, column] * self._scale[row]
        _kernels.add_levels(values, self._solved(scaled, -off[:-1] * self._scale), *place)

    def balanced(self) -> Floats:
        """Return the distribution with the flows between levels of work in balance."""
        levels, inflow = self.levels, np.zeros(self.top + 1)
        turned, middle = np.zeros_like(self.band), levels.half_width
        for d, row, column in self._diagonals():
            inflow[column] += self.band[d, column]
            turned[2 * middle - d, row] = self.band[d, column] * self._scale[row]
        # Next to nothing over next to nothing: a change is limited, and none where it is undetermined.
        with np.errstate(over="ignore", invalid="ignore"):
            change = self._solved(turned, -inflow) * np.append(self._scale, self._scale[-1])
        change = np.clip(np.nan_to_num(change), -_MOST_CHANGE, _MOST_CHANGE)
        prob = self.prob.copy()
        _kernels.scale_levels(prob, 1.0 + change, levels.space.dimensions, levels.steps, float(self.top))
        return prob

    @cached_property
    def _scale(self) -> Floats:
        """One over the probability of every level, one where there is none."""
        return 1.0 / np.where(self.mass > _LEAST_MASS, self.mass, 1.0)

    def _diagonals(self) -> Iterator[tuple[int, slice, slice]]:
        """Yield every diagonal of B: its index, and the rows and columns it runs through."""
        middle, count = self.levels.half_width, self.top + 1
        for d in range(2 * middle + 1):
            below = d - middle
            if abs(below) < count:
                yield (
                    d,
                    slice(max(0, below), count + min(0, below)),
                    slice(max(0, -below), count - max(0, below)),
                )

    def _solved(self, band: Floats, right: Floats) -> Floats:
        """Return the solution that is zero at the most likely level, whose equation the others imply.

        It is repeated at the end, for the level above the last one; and all zero if there is none.
        """
        from scipy.linalg import solve_banded

        middle, count, pinned = self.levels.half_width, self.top + 1, int(np.argmax(self.mass))
        for d in range(2 * middle + 1):
            column = pinned - (d - middle)
            if 0 <= column < count:
                band[d, column] = 0.0
        band[middle, pinned], right[pinned] = 1.0, 0.0
        for k in np.flatnonzero(self.mass <= _LEAST_MASS).tolist():  # a level between two that nothing is at
            for d in range(2 * middle + 1):
                if 0 <= k - (d - middle) < count:
                    band[d, k - (d - middle)] = 0.0
            band[middle, k], right[k] = 1.0, 0.0
        try:
            found = solve_banded((middle, middle), band, right, overwrite_ab=True, overwrite_b=True)
        except np.linalg.LinAlgError:  # a level that nothing leaves: no correction, and sweeps alone go on
            return np.zeros(count + 1)
        return np.append(found, found[-1])
