"""The paper's learning loop as one would first write it with NumPy and SciPy, to be compared with.

Algorithm 1a on two Amdahl classes: run a window of N_k departures under the present policy, estimate p₁ and
p₂ from its log, solve for the best policy at the estimates, adopt it, again. Nothing in here is compiled and
nothing comes from corewise:

- *run*: the jump chain event by event in Python on tables of the policy, random numbers drawn in bulk; the
  log has the state, what happened in it, and (drawn at once in the end) how long it lasted;
- *estimate*: the log-likelihood of every interval of the log in NumPy, the open one of either class at the
  end included, and ``scipy.optimize.minimize_scalar`` on it, as it comes;
- *solve*: relative value iteration in NumPy on all states and a grid of fractions at once, stopped by the
  bracket of J and started from the values of the epoch before, which saves about a seventh of the
  sweeps. The large arrays are kept from sweep to sweep; made anew each time they cost three times as much.

A state is the flat index n₁·side + n₂. A policy is a table of the fraction of the cores that class 1 gets in
each state; a class alone gets all of them.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, replace
from time import perf_counter
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar

from benchmarks.peers import Problem
from corewise.kit.arrays import Floats, Ints

Integers = Ints


class Log(NamedTuple):
    """What was seen in a window: one entry for every visit to a state."""

    states: Integers
    durations: Floats
    events: Integers
    """How the visit ended: an arrival of class 1 or 2 (0, 1), a departure of class 1 or 2 (2, 3)."""
    end: int
    """The state after the last event."""


class Optimum(NamedTuple):
    """A best policy on the grid of fractions."""

    policy: Floats
    values: Floats
    mean_jobs: float
    sweeps: int


class Epoch(NamedTuple):
    """What one epoch learned, and the seconds of its three parts."""

    log: Log
    estimates: tuple[float, float]
    optimum: Optimum
    run: float
    estimate: float
    solve: float

    @property
    def seconds(self) -> float:
        return self.run + self.estimate + self.solve


@dataclass
class Learner:
    """Algorithm 1a on the system of `problem`, whose curves it sees through its logs alone."""

    problem: Problem
    rng: np.random.Generator
    policy: Floats
    values: Floats
    state: int = 0

    @classmethod
    def of(cls, problem: Problem, seed: int) -> Learner:
        """Begin with an empty system under EQUI, and with no values."""
        return cls(problem, np.random.default_rng(seed), equi(problem), np.zeros((problem.side,) * 2))

    def epoch(self, departures: int) -> Epoch:
        """Run one window, estimate, solve, adopt."""
        began = perf_counter()
        log = simulate(self.problem, self.policy, departures, self.state, self.rng)
        ran = perf_counter()
        estimates = estimate(self.problem, self.policy, log)
        estimated = perf_counter()
        optimum = solve(replace(self.problem, parallel=estimates), self.values)
        solved = perf_counter()
        self.state, self.policy, self.values = log.end, optimum.policy, optimum.values
        return Epoch(log, estimates, optimum, ran - began, estimated - ran, solved - estimated)


def window(k: int, first: int = 100, power: float = 0.75) -> int:
    """N_k = ⌈first · k^power⌉."""
    return int(np.ceil(first * k**power))


def equi(problem: Problem) -> Floats:
    """Every job gets the same share."""
    first, second = counts(problem)
    return first / np.maximum(first + second, 1.0)


def counts(problem: Problem) -> tuple[Floats, Floats]:
    """n₁ and n₂ of every state."""
    jobs = np.arange(problem.side, dtype=float)
    first, second = np.meshgrid(jobs, jobs, indexing="ij")
    return first, second


def speedup(width: Floats, p: float) -> Floats:
    """Amdahl's law; a job with less than one core is served in proportion."""
    return np.minimum(width, 1.0 / (1.0 - p + p / np.maximum(width, 1.0)))


def class_rate(jobs: Floats, cores: Floats, size_rate: float, p: float) -> Floats:
    """The departure rate of one class, n μ s(x/n)."""
    return jobs * size_rate * speedup(cores / np.maximum(jobs, 1.0), p)


# --- run ----------------------------------------------------------------------------------------------------


def simulate(problem: Problem, policy: Floats, departures: int, state: int, rng: np.random.Generator) -> Log:
    """Run the system from `state` until so many jobs have left."""
    rates = transition_rates(problem, policy)
    cumulative = rates.cumsum(axis=1)
    thresholds = (cumulative[:, :-1] / cumulative[:, -1:]).tolist()
    steps = (problem.side, 1, -problem.side, -1)
    states: list[int] = []
    events: list[int] = []
    left = departures
    while left:
        for number in rng.random(2 * left + 100).tolist():
            event = bisect_right(thresholds[state], number)
            states.append(state)
            events.append(event)
            state += steps[event]
            if event > 1:
                left -= 1
                if left == 0:
                    break
    visited = np.array(states)
    durations = rng.standard_exponential(visited.size) / cumulative[visited, -1]
    return Log(visited, durations, np.array(events), state)


def transition_rates(problem: Problem, policy: Floats) -> Floats:
    """Rates of the four events in every state, shape (states, 4); arrivals are blocked at the edge."""
    jobs = counts(problem)
    cores = (problem.cores * policy, problem.cores * (1.0 - policy))
    rates = np.empty((4, problem.side, problem.side))
    for i in range(2):
        rates[i] = np.where(jobs[i] < problem.capacity, problem.arrival_rates[i], 0.0)
        rates[2 + i] = class_rate(jobs[i], cores[i], problem.size_rates[i], problem.parallel[i])
    return np.ascontiguousarray(rates.reshape(4, -1).T)


# --- estimate -----------------------------------------------------------------------------------------------


def estimate(problem: Problem, policy: Floats, log: Log) -> tuple[float, float]:
    """The p₁ and p₂ that maximise the likelihood of a log under a policy."""
    jobs = counts(problem)
    cores = (problem.cores * policy, problem.cores * (1.0 - policy))
    first, second = (
        estimate_class(jobs[i].ravel(), cores[i].ravel(), log, 2 + i, problem.size_rates[i]) for i in range(2)
    )
    return first, second


def estimate_class(jobs: Floats, cores: Floats, log: Log, departure: int, size_rate: float) -> float:
    """The p of one class, from the intervals in which it has jobs; `jobs` and `cores` are those of states."""
    here = jobs[log.states] > 0.0
    states = log.states[here]
    width = cores[states] / jobs[states]
    exposure = size_rate * jobs[states] * log.durations[here]
    width_left = width[log.events[here] == departure]

    def cost(p: float) -> float:
        return float(exposure @ speedup(width, p) - np.log(speedup(width_left, p)).sum())

    return float(minimize_scalar(cost, bounds=(0.0, 1.0), method="bounded").x)


# --- solve --------------------------------------------------------------------------------------------------


def solve(problem: Problem, values: Floats) -> Optimum:
    """Relative value iteration from `values`, until the increase of all states agrees to the tolerance."""
    jobs = np.arange(problem.side, dtype=float)
    fractions = np.linspace(0.0, 1.0, problem.actions)[:, None]
    first, second = (
        class_rate(jobs, problem.cores * share, size_rate, p)
        for share, size_rate, p in zip(
            (fractions, 1.0 - fractions), problem.size_rates, problem.parallel, strict=True
        )
    )
    first, second = first[:, :, None], second[:, None, :]  # (action, n₁, n₂)
    cost = np.add.outer(jobs, jobs)
    drop1, drop2 = np.zeros_like(cost), np.zeros_like(cost)  # zero where there is nobody to leave
    choices, others = np.empty((2, problem.actions, *cost.shape))
    lambda1, lambda2 = problem.arrival_rates
    sweeps = 0
    while True:
        sweeps += 1
        drop1[1:] = values[:-1] - values[1:]
        drop2[:, 1:] = values[:, :-1] - values[:, 1:]
        np.multiply(first, drop1, out=choices)
        np.multiply(second, drop2, out=others)
        choices += others
        increase = cost + choices.min(axis=0)
        increase[:-1] -= lambda1 * drop1[1:]
        increase[:, :-1] -= lambda2 * drop2[:, 1:]
        low, high = float(increase.min()), float(increase.max())
        if high - low <= problem.tolerance:
            break
        values = values + increase / problem.uniform_rate
        values -= values[0, 0]
    policy = fractions[choices.argmin(axis=0), 0]
    policy[0, :] = 0.0
    policy[:, 0] = 1.0
    return Optimum(policy, values, (low + high) / 2.0, sweeps)
