r"""Algorithm 2 of the paper as printed, and what it minimises.

The average-cost problem has J* + V(n) = f(n) + V(n) + min_a (Q_a V)(n), f(n) = n_1 + n_2 (with weights,
Σ h_i n_i), which is A + H of (4.6) and (4.7). Algorithm 2 iterates, from V_0 = 0,

    V_{k+1}(n) = A_k(n) + H_k(n) = f(n) + V_k(n) + min_a (Q_a V_k)(n)  for n ≠ 0,      V_{k+1}(0) = 0.

*Rates where probabilities belong.* A policy held fixed multiplies the error by I + Q, without the row and
column of the empty state. The mean of its eigenvalues is 1 − (the mean rate out of a state), so some error
grows at every step by the mean rate less one, or more: 75 times under GREEDY* in Example 1, n_max = 50.
It diverges. With P = I + Q/ν, the uniformised chain of section 4.2, the update becomes

    W_{k+1}(n) = f(n) + min_a (P_a W_k)(n)  for n ≠ 0,      W_{k+1}(0) = 0.

*J is not subtracted.* This converges, but W_k(n) is the least expected sum of f over k steps or until the
chain is empty, whichever comes first. The limit V = W/ν is the least expected cost until the system empties,
a stochastic shortest path:

    f(n) + min_a (Q_a V)(n) = 0  for n ≠ 0,      V(0) = 0.

The empty state costs nothing, so a cycle from empty to empty costs J/(π(0) Σ λ_i) on average, and at best
Σ λ_i V(e_i)/Σ λ_i. Algorithm 2 thus minimises J/π(0), the mean over the probability of being empty, and not
J: it buys empty moments with jobs. Hence a second way to the limit (Dinkelbach 1967): θ = min J/π(0) is
the reward per unit of time in the empty state that makes the least average of f − θ 1{n = 0} zero, and V are
the relative values at that θ. `literal_limit` finds θ by Newton's method. It takes a few solves, where
Algorithm 2 takes about ν/(π(0) Σ λ_i) iterations for every factor e: millions in all if the system is seldom
empty.

The infimum over the split is taken by water-filling (no grid of actions), and arrivals at n_max are blocked,
as in Assumption 3.4.

Paper: section 4.2; section 4.3, equations (4.6), (4.7) and Algorithm 2.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from corewise.control.bellman import Bellman, Step
from corewise.control.solvers import ModifiedPolicyIteration
from corewise.errors import NotConverged
from corewise.kit import checks
from corewise.kit.arrays import Floats
from corewise.model.space import StateSpace
from corewise.model.system import System, require_system
from corewise.policies.tabular import Tabular

__all__ = ["NAME", "LiteralSolution", "literal_limit"]

NAME = "Algorithm 2 with ν"
"""Name of the policy: without ν there is none."""

_CORRECTIONS = 30
_ROUNDING = 1e-6


@dataclass(frozen=True, eq=False)
class LiteralSolution:
    """Fixed point of Algorithm 2 as printed: its policy and values.

    Attributes
    ----------
    policy : Tabular
        The split that attains the minimum.
    values : ndarray
        V, the least expected cost until the system is empty, in the shape of the box.
    iterations : int
        Policy improvements.
    """

    policy: Tabular
    values: Floats
    iterations: int


def literal_limit(
    system: System, *, capacity: int | Iterable[int], tolerance: float = 1e-9
) -> LiteralSolution:
    """Return the limit of Algorithm 2, without its iterations.

    The values meet the equation of the shortest path within `tolerance` and rounding, which grows with them.

    Raises
    ------
    NotConverged
        If they do not, or the system is so seldom empty that rounding would decide on the policy.
    """
    bellman = _operator(system, capacity, tolerance)
    solver = ModifiedPolicyIteration()
    values: Floats | None = None
    reward, iterations = 0.0, 0
    for _ in range(_CORRECTIONS):
        bellman.cost[0] = -reward
        outcome = solver.run(bellman, values)
        step, values = outcome.step, outcome.values
        iterations += outcome.iterations
        low, high = step.bounds
        empty = float(step.chain.distribution[0])
        if low - tolerance <= 0.0 <= high + tolerance:
            if high - low > tolerance + _ROUNDING * max(1.0, reward * empty):
                break
            return _solution(bellman, step, values, iterations)
        reward += 0.5 * (low + high) / empty
    raise NotConverged(
        f"the cost until the system empties is not known within {high - low:.3g}: the system is empty with "
        f"probability {empty:.3g} only"
    )


def _operator(system: System, capacity: int | Iterable[int], tolerance: float = 1e-9) -> Bellman:
    require_system(system)
    system.require_scale()
    checks.positive(tolerance, "tolerance")
    return Bellman(system, StateSpace.of(capacity, len(system.classes)), tolerance=tolerance)


def _solution(bellman: Bellman, step: Step, values: Floats, iterations: int) -> LiteralSolution:
    shape = bellman.space.shape
    found = (values - values[0]).reshape(shape)
    found.setflags(write=False)
    policy = Tabular(bellman.system, step.chain.cores.reshape(-1, *shape), label=NAME)
    return LiteralSolution(policy, found, iterations)
