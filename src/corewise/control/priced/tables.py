r"""Costs-to-go of single jobs that pay for every move: optimal switching, one job at a time.

Let V be the relative values of the optimum in whole cores with free moves, ω_i(n) = μ_i (V(n) − V(n − e_i))
the worth of a unit of work of class i in state n, and ℓ(n) the price of a core there: half-way between the
offer for the last core that is given and the best offer for one more. A single class-i job that holds u
cores while all others follow the free optimum forgoes

    a_i(n, u) = max_v [ω_i s_i(v) − ℓ v] − [ω_i s_i(u) − ℓ u] ≥ 0

per unit of time, until it leaves at the rate μ_i s_i(u); while it pauses s_i(u) is zero, so ω_i s_i(u) more.
It may move at every event, and then pauses for an exponential time of mean δ_i. With r_k(n) the rates at
which others come and leave, n_k the state then, R their sum, and primes for the least over widths, its
costs-to-go running (C) and pausing (P) are

    C(n, u) = (a(n, u) + Σ_k r_k min(C(n_k, u), P'(n_k))) / (R + μ_i s_i(u)),
    P(n, u) = (a(n, u) + ω_i s_i(u) + Σ_k r_k min(P(n_k, u), P'(n_k)) + min(C(n, u), P'(n))/δ_i)
              / (R + 1/δ_i),

and of a job that never held cores, whose first ones are free, F(n) = (a(n, 0) + Σ_k r_k min(F, C')(n_k)) / R.
The sum over the jobs present plus ℓ for every idle core is the regret of an allocation against the free
optimum by Lagrange's relaxation. As δ → 0 all vanish but for one event, and as δ → ∞ they choose the widths
that are best kept.
"""

from __future__ import annotations

import numpy as np

from corewise.control.priced._kernels import free_prices, sweep
from corewise.control.solution import Solution
from corewise.errors import NotConverged
from corewise.kit.arrays import Floats, Ints
from corewise.model.space import StateSpace
from corewise.model.system import System
from corewise.policies.moving.rule import PriceTables

__all__ = ["most_cells", "price_tables"]

_CLOSE = 1e-3
"""Changes of a sweep, relative to what a restart costs, at which costs-to-go are settled."""

_SWEEPS = 3000
_BEYOND = 1e-3
"""The probability that a class has more jobs than the box of the tables holds."""

most_cells = 2**23
"""Entries of the largest table, classes times states times widths: beyond it no table is made."""


def price_tables(system: System, solution: Solution) -> PriceTables:
    """Return the costs-to-go of the jobs of a system with a solution in whole cores.

    Raises
    ------
    NotConverged
        If sweeps do not settle.
    """
    space, values, held = _cut(solution)
    cores = int(system.cores)
    speeds = np.stack([known.curve.rate(np.arange(cores + 1.0)) for known in system.classes])
    work = system.size_rates[:, None] * speeds
    worth = _worth(values, space)
    price, leaving = np.empty(space.size), np.empty(space.counts.shape)
    free_prices(worth, space.counts, held, work, price, leaving)
    box = (np.array(space.capacity, dtype=np.int64), space.strides)
    shape = (len(system.classes), space.size, cores + 1)
    running, paused = np.full(shape, np.inf), np.full(shape, np.inf)
    waiting = np.zeros(shape[:2])
    pauses = np.array([known.resize_pause for known in system.classes])
    for i, known in enumerate(system.classes):
        widths = np.array([0, *range(known.min_cores, (known.max_cores or cores) + 1)])
        running[i][:, widths] = 0.0
        paused[i][:, widths] = 0.0
        best = (np.zeros(space.size), np.zeros(space.size))
        tables = (running[i], paused[i], waiting[i], *best)
        rates = (system.arrival_rates, pauses, work)
        job = (i, rates, widths, worth[i], price, leaving, space.counts, box, tables)
        for k in range(_SWEEPS):
            if sweep(*job, k % 2 == 1) < _CLOSE and k > 2 * len(system.classes):
                break
        else:
            raise NotConverged(f"costs-to-go of class {known.name!r} did not settle in {_SWEEPS} sweeps")
    total = system.arrival_rates.sum() + leaving.sum(axis=0)
    return PriceTables(box[0], running, paused, waiting, price / total)


def _cut(solution: Solution) -> tuple[StateSpace, Floats, Ints]:
    """Return a box that is hardly ever left, and the values and whole cores of each class over it.

    A box for certified means is several times as large in every direction, which makes nothing better here.
    """
    shape = solution.values.shape
    weights = solution.distribution.reshape(shape)
    capacity = []
    for axis in range(len(shape)):
        marginal = weights.sum(axis=tuple(k for k in range(len(shape)) if k != axis))
        capacity.append(
            max(2, min(shape[axis] - 1, int(np.searchsorted(np.cumsum(marginal), 1.0 - _BEYOND))))
        )
    part = tuple(slice(n + 1) for n in capacity)
    held = np.rint(solution.policy.cores[(slice(None), *part)]).astype(np.int64)
    space = StateSpace.of(capacity, len(capacity))
    return space, solution.values[part].ravel(), np.ascontiguousarray(held.reshape(len(capacity), -1))


def _worth(values: Floats, space: StateSpace) -> Floats:
    """Return V(n) − V(n − e_i), which is ω_i/μ_i, for every class and state; zero where it has no job."""
    steps = np.zeros(space.counts.shape)
    for i, stride in enumerate(space.strides.tolist()):
        there = np.flatnonzero(space.counts[i] > 0)
        steps[i, there] = values[there] - values[there - stride]
    return steps
