"""Other ways to solve the same problem, each written to its own best advantage.

The problem is the boxed average-cost problem of two Amdahl classes (Example 1 of the paper): counts
0 … N of each class, arrivals blocked at the edge, cost n₁ + n₂ per unit of time. None of the peers knows
how to split cores, so they choose among the fractions a = 0, 0.01, …, 1 of the cores for class 1 (a class
alone gets all of them). With ν = λ₁ + λ₂ + c·max μ one uniformised step from state n is

    n + e_i with probability λ_i/ν,   n − e_i with probability n_i μ_i s_i(x_i/n_i)/ν,   otherwise n,

and the mean cost of a step is the mean cost per unit of time, J.

Every ``solve_with_…`` returns J, the seconds that building its input took, and the seconds of its solver.
The packages are imported before their clocks start. How each was tuned is said in its docstring.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from corewise.kit.arrays import Floats


class Answer(NamedTuple):
    """What a peer found, and how long it took."""

    mean_jobs: float
    build_seconds: float
    solve_seconds: float


@dataclass(frozen=True)
class Problem:
    """Two Amdahl classes on a square box, and the number of fractions a peer may choose from."""

    cores: float = 30.0
    arrival_rates: tuple[float, float] = (1.4, 2.6)
    size_rates: tuple[float, float] = (2.5, 2.5)
    parallel: tuple[float, float] = (0.3, 0.8)
    capacity: int = 50
    actions: int = 101
    tolerance: float = 1e-9

    @property
    def side(self) -> int:
        return self.capacity + 1

    @property
    def states(self) -> int:
        return self.side**2

    @property
    def uniform_rate(self) -> float:
        """ν = λ₁ + λ₂ + c·max μ, at least the rate of leaving any state under any action."""
        return sum(self.arrival_rates) + self.cores * max(self.size_rates)


@dataclass(frozen=True)
class Peer:
    """One row of the table."""

    name: str
    package: str
    solve: Callable[[Problem], Answer]

    @property
    def installed(self) -> bool:
        return importlib.util.find_spec(self.package) is not None


def solve_with_numpy(problem: Problem) -> Answer:
    """Relative value iteration, vectorised over states and actions.

    The rates of all actions are one array, made once; a sweep is one ``einsum`` into a buffer that is kept
    and one minimum over actions. On arrays of this size that beats separate products and a sum, a loop over
    actions with in-place updates, and batched ``matmul``. Stops when the bracket of J, the least and largest
    increase over states, is narrower than the tolerance.
    """
    began = perf_counter()
    side, (lam1, lam2) = problem.side, problem.arrival_rates
    first, second = _departure_rates(problem)
    rates = np.empty((problem.actions, 2, problem.states))
    rates[:, 0] = first.reshape(problem.states, -1).T
    rates[:, 1] = second.reshape(problem.states, -1).T
    cost = _cost(problem)
    built = perf_counter()

    values = np.zeros((side, side))
    drops = np.zeros((2, side, side))  # zero where there is nobody to leave
    choices = np.empty((problem.actions, problem.states))
    while True:
        np.subtract(values[:-1], values[1:], out=drops[0, 1:])
        np.subtract(values[:, :-1], values[:, 1:], out=drops[1, :, 1:])
        np.einsum("aks,ks->as", rates, drops.reshape(2, -1), out=choices)
        increase = (cost + choices.min(axis=0)).reshape(side, side)
        increase[:-1] -= lam1 * drops[0, 1:]
        increase[:, :-1] -= lam2 * drops[1, :, 1:]
        low, high = float(increase.min()), float(increase.max())
        if high - low <= problem.tolerance:
            break
        values += increase / problem.uniform_rate
        values -= values[0, 0]
    return Answer((low + high) / 2, built - began, perf_counter() - built)


def solve_with_quantecon(problem: Problem) -> Answer:
    """QuantEcon's ``DiscreteDP``, modified policy iteration on sparse state-action pairs.

    It only discounts. With β = 1 − 1e-12 and a start at zero its values stay small, so no digit is lost; its
    stopping rule, the span of the increase, then brackets J; and (1 − β)V is J to about 1e-9. Its own start,
    the worst reward for ever, would lose every digit at such a β and never stop. k = 90 sweeps between
    improvements were the quickest of 20 … 400.
    """
    from quantecon.markov import DiscreteDP

    discount = 1.0 - 1e-12
    began = perf_counter()
    program = DiscreteDP(*_state_action_pairs(problem, discount))
    built = perf_counter()
    result = program.solve(
        method="modified_policy_iteration",
        v_init=np.zeros(problem.states),
        epsilon=problem.tolerance * discount / (1.0 - discount),
        max_iter=10_000,
        k=90,
    )
    if result.num_iter >= 10_000:
        raise RuntimeError("QuantEcon did not converge")
    mean_jobs = -(1.0 - discount) * float(result.v[0])
    return Answer(mean_jobs, built - began, perf_counter() - built)


def solve_with_quantecon_policy_iteration(problem: Problem) -> Answer:
    """QuantEcon's ``DiscreteDP``, policy iteration (sparse LU) on the same pairs.

    β = 1 − 1e-9 is its most accurate: (1 − β)V differs from J by (1 − β)h, h the relative value, while
    the linear equations lose digits as 1/(1 − β). About 2e-8 remain, without a certificate.
    """
    from quantecon.markov import DiscreteDP

    discount = 1.0 - 1e-9
    began = perf_counter()
    program = DiscreteDP(*_state_action_pairs(problem, discount))
    built = perf_counter()
    result = program.solve(method="policy_iteration", max_iter=100)
    if result.num_iter >= 100:
        raise RuntimeError("QuantEcon did not converge")
    mean_jobs = -(1.0 - discount) * float(result.v[0])
    return Answer(mean_jobs, built - began, perf_counter() - built)


def solve_with_mdpsolver(problem: Problem, *, parallel: bool = False) -> Answer:
    """Mdpsolver (C++), modified policy iteration for the average reward, on one thread.

    It takes nested lists; of its formats the one with probabilities and columns apart is the quickest, and
    the actions of a state share one list of columns. 150 standard sweeps between improvements were the
    quickest of 20 … 600, ahead of value and policy iteration. It returns relative values but not J, which
    follows from the optimality equation of the empty system, J = Σ λ_i (h(e_i) − h(0))/ν.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    import mdpsolver

    began = perf_counter()
    probabilities, targets = _transitions(problem)
    rewards = [[-cost] * problem.actions for cost in _cost(problem).tolist()]
    columns = [[row] * problem.actions for row in targets.tolist()]
    model = mdpsolver.model()
    model.mdp(rewards=rewards, tranMatProbs=probabilities.tolist(), tranMatColumns=columns)
    built = perf_counter()
    model.solve(
        algorithm="mpi",
        criterion="average",
        update="standard",
        parIterLim=150,
        tolerance=problem.tolerance,
        makeFinalCheck=False,
        parallel=parallel,
    )
    empty, one, two = (model.getValue(state) for state in (0, problem.side, 1))
    lam1, lam2 = problem.arrival_rates
    mean_jobs = -(lam1 * (one - empty) + lam2 * (two - empty)) / problem.uniform_rate
    return Answer(mean_jobs, built - began, perf_counter() - built)


def solve_with_mdpsolver_parallel(problem: Problem) -> Answer:
    """The same on all threads (OpenMP).

    Its threads meet at a barrier in every sweep and spin there by default; on a busy machine that costs
    seconds, so they are told to sleep instead.
    """
    return solve_with_mdpsolver(problem, parallel=True)


PEERS = (
    Peer("NumPy VI", "numpy", solve_with_numpy),
    Peer("QuantEcon MPI", "quantecon", solve_with_quantecon),
    Peer("QuantEcon PI", "quantecon", solve_with_quantecon_policy_iteration),
    Peer("mdpsolver MPI", "mdpsolver", solve_with_mdpsolver),
    Peer("mdpsolver MPI, parallel", "mdpsolver", solve_with_mdpsolver_parallel),
)


def _cost(problem: Problem) -> Floats:
    """n₁ + n₂ in every state, flat."""
    counts = np.arange(problem.side, dtype=float)
    return (counts[:, None] + counts).ravel()


def _departure_rates(problem: Problem) -> tuple[Floats, Floats]:
    """n_i μ_i s_i(x_i/n_i) for classes 1 and 2, each of shape (n₁, n₂, action)."""
    fractions = np.linspace(0.0, 1.0, problem.actions)
    counts = np.arange(problem.side, dtype=float)[:, None]
    shares = (fractions, 1.0 - fractions)
    one, two = (
        counts * mu * _amdahl(share * problem.cores / np.maximum(counts, 1.0), p)
        for share, mu, p in zip(shares, problem.size_rates, problem.parallel, strict=True)
    )
    first = np.empty((problem.side, problem.side, problem.actions))
    second = np.empty_like(first)
    first[:] = one[:, None]
    second[:] = two[None, :]
    first[:, 0] = one[:, -1:]  # alone: all cores, whatever the action
    second[0] = two[:, :1]
    return first, second


def _amdahl(cores: Floats, p: float) -> Floats:
    """s(z; p) = z below one core, 1/((1 − p) + p/z) above."""
    return np.where(cores < 1.0, cores, 1.0 / ((1.0 - p) + p / np.maximum(cores, 1.0)))


def _transitions(problem: Problem) -> tuple[Floats, NDArray[np.int32]]:
    """Probabilities (state, action, 5) and the five states they lead to (state, 5)."""
    side, nu = problem.side, problem.uniform_rate
    first, second = _departure_rates(problem)
    probabilities = np.empty((side, side, problem.actions, 5))
    np.divide(first, nu, out=probabilities[..., 0])
    np.divide(second, nu, out=probabilities[..., 1])
    probabilities[..., 3] = problem.arrival_rates[1] / nu
    probabilities[..., 4] = problem.arrival_rates[0] / nu
    rest = 1.0 - sum(problem.arrival_rates) / nu - probabilities[..., 0] - probabilities[..., 1]
    np.maximum(rest, 0.0, out=probabilities[..., 2])  # rounding only: ν bounds the sum of the rates

    here = np.arange(problem.states, dtype=np.int32).reshape(side, side)
    targets = np.repeat(here[:, :, None], 5, axis=2)  # a blocked or empty move stays where it is
    targets[1:, :, 0] -= side
    targets[:, 1:, 1] -= 1
    targets[:, :-1, 3] += 1
    targets[:-1, :, 4] += side
    return probabilities.reshape(problem.states, problem.actions, 5), targets.reshape(problem.states, 5)


def _state_action_pairs(
    problem: Problem, discount: float
) -> tuple[Floats, object, float, NDArray[np.intp], NDArray[np.intp]]:
    """The arguments of ``DiscreteDP``: rewards, a CSR matrix written directly, β, states and actions."""
    from scipy.sparse import csr_matrix

    probabilities, targets = _transitions(problem)
    pairs = problem.states * problem.actions
    columns = np.broadcast_to(targets[:, None, :], probabilities.shape).ravel()
    starts = np.arange(0, 5 * pairs + 1, 5, dtype=np.int32)
    matrix = csr_matrix((probabilities.ravel(), columns, starts), shape=(pairs, problem.states))
    states, actions = np.divmod(np.arange(pairs), problem.actions)
    return np.repeat(-_cost(problem), problem.actions), matrix, discount, states, actions
