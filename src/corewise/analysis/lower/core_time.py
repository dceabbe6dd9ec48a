r"""Core-time: a lower bound that knows how far the demand for cores swings.

A job of class i that runs at its fixed width k_i (see `corewise.analysis.lower.fixed_widths`) takes b_i =
k_i / (μ_i s_i(k_i)) of core-time. Let B = Σ b_i n_i be the core-time that is in the system. When B is high,
cores are scarce, and one job more of class i costs the others in proportion to b_i. So take as values

    V(n) = Σ a_i n_i + U(B),      a_i = κ_i(ℓ)/μ_i,  U convex.

With U = 0 this is the bound of fixed widths; U adds what randomness costs. In every state and under every
split of the cores, cost plus drift of V is at least g, hence J ≥ g, if B = 0 and all B ≥ min b_i satisfy

    g ≤ Σ λ_i (a_i + U(B + b_i) − U(B)) + max_{ℓ ≥ 0} { B min_{i: b_i ≤ B} (h_i − ψ_i(w_i, ℓ)) / b_i − ℓ c },

    w_i = a_i + U(B) − U(B − b_i),    ψ_i(w, ℓ) = max_{z ≤ c} (w μ_i s_i(z) − ℓ z).

For given B, the worst mix of jobs solves min over n, b·n = B, of Σ h_i n_i − max_x Σ w_i n_i μ_i
s_i(x_i/n_i). The maximum over the split x is concave in n and has the price ℓ as its dual, so minimum and
maximum may be exchanged; what is left is linear in n. That counts are whole is used only in b_i ≤ B. (J is
finite, or there is nothing to prove; then the mean number of jobs is bounded along some times t → ∞. Beyond
its last knot U is straight, so V grows no faster than the number of jobs, and V/t vanishes along them.)

*The best U.* The right-hand side is concave in U, which is given by its slope at some knots, linear between
them. So it is maximised by cutting planes: every worst mix is a linear inequality, and a small linear
program finds the U that is best against those seen so far.

*Certificate.* On a cell between two values of B let ℓ be linear. There B (h_i − ψ_i)/b_i is concave in B,
for ψ_i is convex in (w_i, ℓ), except for two terms of known size: ψ_i may fall at most as fast as its width
times the rise of ℓ, and w_i bends down where U is less curved than b_i before. The arrivals bend up where U
is more curved b_i ahead. With κ the sum of these curvatures, the least in a cell of length Δ is at one of
its ends, less at most κ Δ²/8. Beyond the last point everything is linear in B: there ℓ is chosen so that it
does not fall. Differences of U lose digits far out, where it is large: what they may lose is added to w and
taken from what arrives, on either of which the bound depends one way only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from corewise.analysis.lower.fixed_widths import FixedWidths
from corewise.analysis.lower.majorants import Majorants
from corewise.analysis.lower.market import Market, Mixes
from corewise.analysis.lower.prices import ROUNDING, rounded_down
from corewise.kit.arrays import Floats
from corewise.model.job_class import JobClass

__all__ = ["core_time"]

_CUTS = 60  # a round
_ROUNDS = 30
_PRECISION = 1e-4  # of the bound; every U gives one
_STEEPEST = 1e4
_POINTS = 300
_CELLS = 400
_HALVINGS = 14
_ROUNDING = float(np.finfo(np.float64).eps)


def core_time(
    classes: Sequence[JobClass], counts: Floats, cores: float, majorants: Majorants, start: FixedWidths
) -> float:
    """Return the core-time bound for the best U; `counts` says how many classes there are of each kind."""
    problem = _Problem.of(classes, counts, cores, majorants, start)
    knots = problem.knots()
    slopes, hoped = _best_slopes(problem, knots, start.bound)
    bound = problem.certificate(knots, slopes, hoped)
    return max(start.bound, bound)  # the former with U = 0


@dataclass(frozen=True, eq=False)
class _Problem:
    """Dual problem of the core-time bound: a_i (`values`) and rates of every kind of class, their market."""

    arrivals: Floats
    values: Floats
    jobs: Floats
    market: Market

    @property
    def needs(self) -> Floats:
        """The core-times b_i."""
        return self.market.needs

    @classmethod
    def of(
        cls,
        classes: Sequence[JobClass],
        counts: Floats,
        cores: float,
        majorants: Majorants,
        start: FixedWidths,
    ) -> _Problem:
        sizes = np.array([job_class.size_rate for job_class in classes])
        work = counts * np.array([job_class.work_rate for job_class in classes])
        weights = np.array([job_class.weight for job_class in classes])
        return cls(
            arrivals=counts * np.array([one.arrival_rate or 0.0 for one in classes]),
            values=start.bills / sizes,
            jobs=work / start.speeds,
            market=Market(sizes, weights, start.widths / (sizes * start.speeds), cores, majorants),
        )

    def knots(self) -> Floats:
        """Return where the slope of U may bend: about the mean of B at fixed widths, and far out."""
        mean, spread = float(self.needs @ self.jobs), float(np.sqrt(self.needs**2 @ self.jobs))
        load = float((self.arrivals / self.market.sizes).sum()) / self.market.cores
        top = mean + 6.0 * spread + 10.0 * float(self.needs.max()) / (1.0 - load)
        near = mean + spread * np.linspace(-3.0, 4.0, 17)
        far = near[-1] + (top - near[-1]) * np.linspace(0.0, 1.0, 6) ** 1.5
        return np.unique(np.concatenate([[0.0], near[near > 0.0], far]))

    def edges(self, knots: Floats, number: int) -> Floats:
        """Return points from the least B of a job to where U is straight however a job comes or goes."""
        least, most = self.needs.min(), knots[-1] + self.needs.max()
        even = least + (most - least) * np.linspace(0.0, 1.0, number + 1) ** 1.5  # closer for few jobs
        even[-1] = most
        return np.unique(np.append(even, self.needs))

    def rises(self, points: Floats, knots: Floats) -> tuple[Floats, Floats]:
        """Return Σ λ_i (U(B + b_i) − U(B)) and U(B) − U(B − b_i), as rows to be multiplied by slopes."""
        here = _integrals(points, knots)
        up = np.zeros(here.shape)
        for arrival, need in zip(self.arrivals, self.needs, strict=True):
            up += arrival * (_integrals(points + need, knots) - here)
        down = here[:, None] - _integrals((points[:, None] - self.needs).ravel(), knots).reshape(
            points.size, self.needs.size, knots.size
        )
        return up, down

    def against(self, mixes: Mixes, up: Floats, down: Floats) -> tuple[Floats, Floats]:
        """Return cost plus drift of V in given mixes, as constants and rows to be multiplied by slopes."""
        kinds, jobs = mixes.kinds, mixes.jobs
        leaving = jobs * self.market.sizes[kinds] * mixes.speeds
        constants = (jobs * self.market.weights[kinds] - leaving * self.values[kinds]).sum(axis=1)
        falls = down[np.arange(len(kinds))[:, None], kinds]
        return (
            float(self.arrivals @ self.values) + constants,
            up - np.einsum("gk,gkj->gj", leaving, falls),
        )

    def certificate(self, knots: Floats, slopes: Floats, hoped: float) -> float:
        """Return a bound that holds for all B; cells that fall short of what is hoped for are halved."""
        points = self.edges(knots, _CELLS)
        lost = self._lost(np.zeros(1), slopes)[0]
        empty = rounded_down(
            self.arrivals * (self.values + _integrals(self.needs, knots) @ slopes - lost), 0.0
        )
        beyond, _ = self._on_cells(points[-1:, None].repeat(2, axis=1), knots, slopes, tail=True)
        bound = min(empty, float(beyond[0]))
        cells = np.stack([points[:-1], points[1:]], axis=1)
        for _ in range(_HALVINGS):
            proved, reached = self._on_cells(cells, knots, slopes, tail=False)
            hoped = min(hoped, bound, reached)
            short = proved < hoped - _PRECISION * abs(hoped)
            bound = min(bound, float(proved[~short].min(initial=bound)))
            if not short.any():
                return bound
            lower, upper = cells[short].T
            middle = 0.5 * (lower + upper)
            cells = np.stack([np.append(lower, middle), np.append(middle, upper)], axis=1)
        return min(bound, float(proved.min()))

    def _on_cells(self, cells: Floats, knots: Floats, slopes: Floats, *, tail: bool) -> tuple[Floats, float]:
        """Return what can be proved in each cell, and the least at any of their ends: no proof is better."""
        points = cells.ravel()
        up, down = self.rises(points, knots)
        lost = self._lost(points, slopes)
        worths = self.values + down @ slopes + lost[:, None]
        mixes = self.market.mixes(points, worths, tail=tail)
        constants, rates = self.against(mixes, up, down)
        arriving = self.arrivals.sum() * -lost + float(self.arrivals @ self.values) + up @ slopes
        bends, falls = self._bends(cells, knots, np.append(np.diff(slopes) / np.diff(knots), 0.0))
        least = self.market.certified(
            cells,
            worths.reshape(*cells.shape, -1),
            arriving.reshape(cells.shape),
            mixes.prices.reshape(cells.shape),
            falls,
        )
        length = cells[:, 1] - cells[:, 0]
        return least - (1.0 + ROUNDING) * bends * length * length / 8.0, float(
            (constants + rates @ slopes).min()
        )

    def _bends(self, cells: Floats, knots: Floats, curvature: Floats) -> tuple[Floats, Floats]:
        """Return how arrivals bend up within each cell, and how far w_i may bend down there, (cells, K)."""
        near, far = cells.T
        floor = _spans(knots, curvature, near, far)[0]
        bends, falls = np.zeros(len(cells)), np.empty((len(cells), self.needs.size))
        for i, (arrival, need) in enumerate(zip(self.arrivals, self.needs, strict=True)):
            ahead = _spans(knots, curvature, near + need, far + need)[1]
            behind = _spans(knots, curvature, near - need, far - need)[1]
            bends += arrival * np.maximum(ahead - floor, 0.0)
            falls[:, i] = np.maximum(behind - floor, 0.0)
        return bends, falls

    def _lost(self, points: Floats, slopes: Floats) -> Floats:
        """Return how far off a difference of U may be at points: |U(B)| ≤ B max|U'|, a sum over the knots."""
        roundings = 2.0 * slopes.size + self.needs.size + 16.0
        scale = (points + float(self.needs.max())) * float(np.abs(slopes).max()) + float(
            np.abs(self.values).max()
        )
        return roundings * _ROUNDING * scale


def _spans(knots: Floats, curvature: Floats, low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Return the least and the largest curvature of U between two points; it is zero outside the knots."""
    first = np.searchsorted(knots, low, side="right")
    last = np.maximum(np.searchsorted(knots, high), first)
    curved, place = np.append(0.0, curvature), np.arange(knots.size + 1)
    within = (place >= first[:, None]) & (place <= last[:, None])
    return np.where(within, curved, np.inf).min(axis=1), np.where(within, curved, -np.inf).max(axis=1)


def _integrals(points: Floats, knots: Floats) -> Floats:
    """Return U at points, as rows to be multiplied by its slopes at the knots; U(0) = 0, straight outside."""
    rows = np.zeros((points.size, knots.size))
    for j in range(knots.size - 1):
        length = knots[j + 1] - knots[j]
        part = np.clip(points - knots[j], 0.0, length)
        late = part * part / (2.0 * length)
        rows[:, j] += part - late
        rows[:, j + 1] += late
    rows[:, 0] += np.minimum(points, 0.0)
    rows[:, -1] += np.maximum(points - knots[-1], 0.0)
    return rows


def _best_slopes(problem: _Problem, knots: Floats, scale: float) -> tuple[Floats, float]:
    """Return slopes of U at the knots that give nearly the best bound, by cutting planes, and that bound.

    It holds at some points only, and waits for its certificate. Slopes are prices, and rows are in the units
    of the bound of fixed widths, `scale`, and of its price of a core.
    """
    from scipy.optimize import linprog

    points = problem.edges(knots, _POINTS)
    up, down = problem.rises(points, knots)
    unit = scale / problem.market.cores
    empty = (
        float(problem.arrivals @ problem.values) / scale,
        problem.arrivals @ _integrals(problem.needs, knots) / problem.market.cores,
    )
    rows, sides = [np.append(-empty[1], 1.0)], [empty[0]]
    rising = np.zeros((knots.size - 1, knots.size + 1))
    rising[:, :-2] += np.eye(knots.size - 1)
    rising[:, 1:-1] -= np.eye(knots.size - 1)
    best, chosen, tried = -np.inf, np.zeros(knots.size), np.zeros(knots.size)
    for _ in range(_ROUNDS):
        worths = problem.values + unit * (down @ tried)
        mixes = problem.market.mixes(points, worths, tail=True)
        constants, rates = problem.against(mixes, up, down)
        constants, rates = constants / scale, rates / problem.market.cores
        lowest = constants + rates @ tried
        bound = min(float(lowest.min()), empty[0] + float(empty[1] @ tried))
        if bound > best:
            best, chosen = bound, tried
        worst = np.argsort(lowest)[:_CUTS]
        rows += [np.append(-rates[g], 1.0) for g in worst]
        sides += constants[worst].tolist()
        program = linprog(
            np.append(np.zeros(knots.size), -1.0),
            A_ub=np.vstack([np.array(rows), rising]),
            b_ub=np.append(np.array(sides), np.zeros(knots.size - 1)),
            bounds=[(-_STEEPEST, _STEEPEST)] * knots.size + [(None, None)],
        )
        if program.x is None or program.x[-1] - best <= _PRECISION * abs(best):
            break
        # The program's own corner is too far out; and slopes must rise, which it takes for granted to 1e-7.
        tried = np.maximum.accumulate(0.6 * chosen + 0.4 * program.x[:-1])
    return unit * chosen, scale * best
