"""Algorithm 2 as printed against a shortest path solved by Howard's method, formulas and the print itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from scipy.sparse.linalg import spsolve

import corewise as cw
from corewise.experiments.literal import literal_limit
from tests.helpers import naive
from tests.helpers.literal import literal_policy, printed_sizes

Build = Callable[[naive.Model], cw.System]

SMALL = naive.two(3, (0.8, 0.6), (1.0, 1.0), (naive.amdahl(0.3), naive.amdahl(0.9)))
UNEQUAL = naive.two(8, (1.5, 4.0), (0.7, 2.5), (naive.amdahl(0.4), naive.amdahl(0.95)))
WEIGHTED = naive.Model(
    5.0,
    (
        naive.Job(0.7, 1.0, naive.amdahl(0.8), 2.0),
        naive.Job(0.5, 1.6, naive.power(0.5)),
        naive.Job(0.6, 0.7, naive.gustafson(0.3)),
    ),
)
CASES = [(SMALL, (5, 5)), (UNEQUAL, (9, 14)), (WEIGHTED, (4, 5, 4))]


def at_load(model: naive.Model, load: float) -> naive.Model:
    """The same model with more arrivals."""
    factor = load / model.load
    return naive.Model(model.cores, tuple(replace(job, arrival=factor * job.arrival) for job in model.jobs))


def left_over(model: naive.Model, capacity: tuple[int, ...], values: naive.Floats) -> naive.Floats:
    """f + min_a Q_a V in every state but the empty one; the split is searched for without derivatives."""
    counts = naive.states(capacity)
    cores = naive.searched_split(model, counts, naive.differences(capacity, values))
    Q = naive.generator(model, capacity, counts, cores)
    return np.asarray(counts @ model.weights + Q @ values)[1:]


@cache
def cheapest_emptying(model: naive.Model, capacity: tuple[int, ...]) -> naive.Floats:
    """The least expected cost until empty: solve for the cost of a policy, improve it, again."""
    counts = naive.states(capacity)
    cores, values = naive.equi(model, counts), np.zeros(len(counts))
    for _ in range(100):
        Q = naive.generator(model, capacity, counts, cores)
        values[1:] = spsolve(-Q[1:, 1:], (counts @ model.weights)[1:])
        if np.abs(left_over(model, capacity, values)).max() <= 1e-12 * (1.0 + values.max()):
            return values
        cores = naive.searched_split(model, counts, naive.differences(capacity, values))
    raise AssertionError("the twin did not end")


@pytest.mark.parametrize(("model", "capacity"), CASES)
def test_it_ends_at_the_shortest_path(
    as_system: Build, model: naive.Model, capacity: tuple[int, ...]
) -> None:
    expected = cheapest_emptying(model, capacity)
    for found in (
        literal_policy(as_system(model), capacity=capacity),
        literal_limit(as_system(model), capacity=capacity),
    ):
        np.testing.assert_allclose(found.values.ravel(), expected, rtol=1e-8)
        assert np.abs(left_over(model, capacity, found.values.ravel())).max() < 1e-8
        assert found.policy.name == "Algorithm 2 with ν"


def test_the_limit_at_high_load_where_the_iteration_gives_up(as_system: Build) -> None:
    model = at_load(UNEQUAL, 0.85)
    system = as_system(model)
    found = literal_limit(system, capacity=(20, 24))
    np.testing.assert_allclose(found.values.ravel(), cheapest_emptying(model, (20, 24)), rtol=1e-8)
    with pytest.raises(cw.errors.NotConverged, match="after 500 iterations"):
        literal_policy(system, capacity=(20, 24), steps=500)


def test_the_values_of_the_average_cost_problem_are_not_its_fixed_point(as_system: Build) -> None:
    """They leave over J in every state, not zero."""
    solution = cw.solve(as_system(UNEQUAL), capacity=(9, 14))
    rest = left_over(UNEQUAL, (9, 14), solution.values.ravel())
    np.testing.assert_allclose(rest, solution.mean_cost, rtol=1e-7)


def test_each_iteration_is_the_printed_one(as_system: Build) -> None:
    """(4.6) and (4.7), state by state, with every rate over the nu of section 4.2."""
    (one, two), n_max, epsilon = SMALL.jobs, 5, 1e-3
    counts = naive.states((n_max, n_max))
    equi = naive.generator(SMALL, (n_max, n_max), counts, naive.equi(SMALL, counts))
    nu = -equi.diagonal().min()
    V, iterations = np.zeros((n_max + 1, n_max + 1)), 0
    while True:
        gains = naive.differences((n_max, n_max), V.ravel())
        a = naive.searched_split(SMALL, counts, gains)[:, 0].reshape(V.shape) / SMALL.cores
        new = np.zeros_like(V)
        for n1, n2 in counts[1:].tolist():
            A, H = float(n1 + n2), V[n1, n2]
            if n1 < n_max:
                A += one.arrival / nu * (V[n1 + 1, n2] - V[n1, n2])
            if n2 < n_max:
                A += two.arrival / nu * (V[n1, n2 + 1] - V[n1, n2])
            if n1 > 0:
                speed = float(one.curve(np.array(SMALL.cores * a[n1, n2] / n1)))
                H += n1 * one.size / nu * speed * (V[n1 - 1, n2] - V[n1, n2])
            if n2 > 0:
                speed = float(two.curve(np.array(SMALL.cores * (1.0 - a[n1, n2]) / n2)))
                H += n2 * two.size / nu * speed * (V[n1, n2 - 1] - V[n1, n2])
            new[n1, n2] = A + H
        iterations += 1
        change, V = np.abs(new - V).max(), new
        if change < epsilon:
            break
    found = literal_policy(as_system(SMALL), capacity=n_max, tolerance=epsilon)
    assert found.iterations == iterations
    np.testing.assert_allclose(nu * found.values, V, rtol=1e-9)


def test_one_class_costs_what_first_passages_cost(as_system: Build) -> None:
    """From n to n - 1 a birth-death chain spends D(n) = (n + lambda D(n + 1)) / delta(n)."""
    model = naive.two(6, (4.0,), (1.0,), (naive.amdahl(0.7),))
    rates = naive.departures(model, naive.states((30,)), naive.equi(model, naive.states((30,))))[:, 0]
    passage = np.zeros(32)
    for n in range(30, 0, -1):
        passage[n] = (n + 4.0 * passage[n + 1] * (n < 30)) / rates[n]
    expected = np.cumsum(passage[:31])
    np.testing.assert_allclose(literal_policy(as_system(model), capacity=30).values, expected, rtol=1e-9)
    np.testing.assert_allclose(literal_limit(as_system(model), capacity=30).values, expected, rtol=1e-9)


def test_m_m_1_empties_at_the_price_of_the_books(as_system: Build) -> None:
    """With p = 1: V(n) = (n (n + 1) / 2 + n rho / (1 - rho)) / (c mu - lambda); the edge is far."""
    system = as_system(naive.two(4, (2.0,), (1.5,), (naive.amdahl(1.0),)))
    n, rho = np.arange(11), 2.0 / 6.0
    expected = (n * (n + 1) / 2 + n * rho / (1 - rho)) / (6.0 - 2.0)
    np.testing.assert_allclose(literal_policy(system, capacity=60).values[:11], expected, rtol=1e-9)


def test_it_minimises_the_mean_over_the_probability_of_being_empty(as_system: Build) -> None:
    model, capacity = at_load(UNEQUAL, 0.6), (14, 20)
    system = as_system(model)

    def result(policy: cw.Policy) -> naive.Result:
        cores = policy.on(system).allocate(naive.states(capacity))
        return naive.evaluate(model, capacity, cores)

    def quotient(found: naive.Result) -> float:
        return found.cost / float(found.distribution[0])

    literal = literal_limit(system, capacity=capacity)
    emptying, optimum = result(literal.policy), result(cw.solve(system, capacity=capacity).policy)
    cycle = system.arrival_rates @ [literal.values[1, 0], literal.values[0, 1]]
    assert quotient(emptying) == pytest.approx(cycle, rel=1e-8)
    for other in (optimum, result(cw.Equi()), result(cw.Whittle()), result(cw.Greedy())):
        assert quotient(emptying) < quotient(other) * (1.0 - 1e-6)
    assert emptying.cost > optimum.cost * (1.0 + 1e-6)


def test_without_the_constant_it_follows_its_recursion_to_infinity(as_system: Build) -> None:
    """One class has no choice: V <- V + f + QV, the empty state held at zero."""
    model = naive.two(6, (4.0,), (1.0,), (naive.amdahl(0.7),))
    counts = naive.states((12,))
    Q = naive.generator(model, (12,), counts, naive.equi(model, counts))
    V, expected = np.zeros(13), [0.0]
    for _ in range(25):
        V = V + counts[:, 0] + Q @ V
        V[0] = 0.0
        expected.append(float(np.abs(V).max()))
    found = printed_sizes(as_system(model), capacity=12, steps=25)
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    assert found[-1] > 1e12


def test_without_the_constant_it_grows_as_the_trace_predicts_and_not_in_slow_time(as_system: Build) -> None:
    sizes = printed_sizes(as_system(UNEQUAL), capacity=(9, 14), steps=1000)
    assert len(sizes) < 200
    assert sizes[-1] > 1e100
    counts = naive.states((9, 14))
    out = -naive.generator(UNEQUAL, (9, 14), counts, naive.equi(UNEQUAL, counts)).diagonal()
    assert sizes[-1] / sizes[-11] > (out[1:].mean() - 1.0) ** 10
    # In a unit of time in which at most one event is due, rates are probabilities, and the print is right.
    slow = naive.two(8, (0.05, 0.1), (0.02, 0.08), (naive.amdahl(0.4), naive.amdahl(0.95)))
    sizes = printed_sizes(as_system(slow), capacity=(9, 14), steps=3000)
    assert sizes[-1] == pytest.approx(cheapest_emptying(slow, (9, 14)).max(), rel=1e-8)


def test_it_says_when_rounding_would_decide(as_system: Build) -> None:
    """Sixty servers at a load of 0.9 are empty with probability exp(-54): V is of the order of 1e23."""
    system = as_system(naive.two(60, (27.0, 27.0), (1.0, 1.0), (naive.amdahl(0.0), naive.amdahl(0.0))))
    with pytest.raises(cw.errors.NotConverged, match="the system is empty with probability"):
        literal_limit(system, capacity=70)


def test_bad_input_is_refused(as_system: Build) -> None:
    system = as_system(SMALL)
    with pytest.raises(cw.errors.InvalidInput, match="capacity must be at least 1, got 0"):
        literal_limit(system, capacity=0)
    with pytest.raises(cw.errors.InvalidInput, match="tolerance must be positive, got -1"):
        literal_limit(system, capacity=5, tolerance=-1)
    with pytest.raises(cw.errors.InvalidSystem, match="expected a System"):
        literal_limit("paper:1", capacity=5)  # type: ignore[arg-type]
