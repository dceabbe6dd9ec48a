"""High load, unequal sizes, p of 0 and 1, and policies that starve a class.

Each answer is checked against a closed form, or against a sparse solve on a box chosen here (naive.py).
Whether a policy is stable is decided by a one-dimensional chain: a class that never waits for the other is a
birth-death chain, and what it leaves over must exceed what the other brings.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

import corewise as cw
from tests.helpers import naive

pytestmark = pytest.mark.slow

Build = Callable[[naive.Model], cw.System]


def loaded(
    load: float,
    cores: float,
    sizes: tuple[float, float],
    curves: tuple[naive.Curve, naive.Curve],
    first: float = 0.5,
) -> naive.Model:
    """Two classes; `first` is the part of the load that class 0 brings."""
    parts = (first, 1.0 - first)
    arrivals = tuple(load * part * cores * size for part, size in zip(parts, sizes, strict=True))
    return naive.two(cores, arrivals, sizes, curves)


HIGH = [
    (0.9, (2.0, 2.0), (70, 400)),
    (0.95, (2.0, 2.0), (70, 600)),
    (0.9, (8.0, 1.0), (60, 400)),
    (0.95, (8.0, 1.0), (60, 600)),
]


@pytest.mark.parametrize(("load", "sizes", "capacity"), HIGH)
def test_optimum_at_high_load(
    as_system: Build, load: float, sizes: tuple[float, float], capacity: tuple[int, int]
) -> None:
    """The returned policy has the returned value, and the twin's improvement step gains nothing on it."""
    model = loaded(load, 8.0, sizes, (naive.amdahl(0.3), naive.amdahl(0.9)))
    system = as_system(model)
    solution = cw.solve(system)
    assert solution.bounds[0] <= solution.mean_cost * (1 + 1e-12)
    assert solution.mean_cost <= solution.bounds[1] * (1 + 1e-12)
    assert solution.bounds[1] - solution.bounds[0] < 1e-7 * solution.mean_cost
    table = np.asarray(solution.policy.on(system).allocate(naive.states(capacity)))
    held = naive.evaluate(model, capacity, table)
    assert held.edge < 1e-11
    assert solution.mean_jobs == pytest.approx(held.mean_jobs, rel=1e-8)
    _, _, better = naive.bracket(model, capacity, held.values, naive.searched_split)
    middle = np.array(capacity) // 2
    inside = (naive.states(capacity) <= middle).all(axis=1, keepdims=True)  # blocking pays near the edge
    tried = naive.evaluate(model, capacity, np.where(inside, better, table))
    assert tried.cost == pytest.approx(solution.mean_cost, rel=1e-8)
    assert cw.evaluate(system, solution.policy).mean_jobs == pytest.approx(held.mean_jobs, rel=1e-8)


@pytest.mark.parametrize("sizes", [(2.0, 2.0), (8.0, 1.0)])
@pytest.mark.parametrize("p", [(0.3, 0.9), (0.0, 1.0), (1.0, 0.0)])
def test_optimum_of_a_box_at_high_load(
    as_system: Build, sizes: tuple[float, float], p: tuple[float, float]
) -> None:
    """The same finite problem, solved twice: much mass at the edge, p of exactly 0 and 1 among the cases."""
    model = loaded(0.95, 6.0, sizes, (naive.amdahl(p[0]), naive.amdahl(p[1])))
    twin, _ = naive.optimum(model, 30)
    ours = cw.solve(as_system(model), capacity=30)
    assert ours.mean_cost == pytest.approx(twin.cost, rel=1e-8)
    slack = 1e-10 * twin.cost
    assert ours.bounds[0] - slack <= twin.cost <= ours.bounds[1] + slack
    assert ours.edge_probability == pytest.approx(twin.edge, rel=1e-3)


@pytest.mark.parametrize(("load", "p"), [(0.9, 0.0), (0.9, 0.7), (0.9, 1.0), (0.95, 0.7)])
def test_equal_classes_at_high_load(as_system: Build, load: float, p: float) -> None:
    """Two equal classes: the total is a birth-death chain under EQUI, which is optimal."""
    c, curve = 8.0, naive.amdahl(p)
    system = as_system(loaded(load, c, (1.5, 1.5), (curve, curve), first=0.3))
    law = naive.birth_death(load * c * 1.5, lambda n: n * 1.5 * float(curve(np.array(c / n))))
    expected = float(law @ np.arange(len(law)))
    assert cw.evaluate(system, cw.Equi()).mean_jobs == pytest.approx(expected, rel=1e-9)
    solution = cw.solve(system)
    assert solution.mean_jobs == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize(("load", "sizes", "capacity"), HIGH[1::2])
@pytest.mark.parametrize("policy", [cw.Equi(), cw.Whittle()], ids=repr)
def test_policies_at_high_load(
    as_system: Build, policy: cw.Policy, load: float, sizes: tuple[float, float], capacity: tuple[int, int]
) -> None:
    """The box is grown until it no longer shows: equal to a large box of the twin."""
    model = loaded(load, 8.0, sizes, (naive.amdahl(0.3), naive.amdahl(0.9)))
    if isinstance(policy, cw.Equi):
        capacity = (250, 250)
    rule = naive.equi if isinstance(policy, cw.Equi) else naive.whittle
    expected = naive.evaluate(model, capacity, rule(model, naive.states(capacity)))
    assert expected.edge < 1e-10
    ours = cw.evaluate(as_system(model), policy)
    assert ours.mean_jobs == pytest.approx(expected.mean_jobs, rel=1e-7)
    assert ours.edge_probability < 1e-8


def empty(cores: int, offered: float) -> float:
    """Probability that M/M/c is empty."""
    busy = offered**cores / math.factorial(cores) / (1.0 - offered / cores)
    return 1.0 / (sum(offered**k / math.factorial(k) for k in range(cores)) + busy)


# cores, load of the class with priority (of a total of .6), box and p of the other class
STABLE_PRIORITY = [(4, 0.1, 600, 1.0), (8, 0.05, 1000, 0.6), (4, 0.5, 600, 0.0), (4, 0.2, 1200, 0.6)]
UNSTABLE_PRIORITY = [(8, 0.1), (8, 0.3), (8, 0.5), (4, 0.35)]


@pytest.mark.parametrize(("cores", "first", "size", "p"), STABLE_PRIORITY)
def test_priority_to_a_class_that_cannot_use_the_cores_but_leaves_enough(
    as_system: Build, cores: int, first: float, size: int, p: float
) -> None:
    """Class 0 (p = 0) holds all cores while present: M/M/c. Stable iff lambda_1/(c mu_1) < P(M/M/c empty)."""
    assert 0.6 - first < empty(cores, cores * first)
    curves = (naive.amdahl(0.0), naive.amdahl(p))
    model = loaded(0.6, float(cores), (1.0, 2.0), curves, first / 0.6)
    capacity = (40, size)
    table = naive.priority(model, naive.states(capacity), (0, 1))
    expected = naive.evaluate(model, capacity, table)
    assert expected.edge < 1e-10
    ours = cw.evaluate(as_system(model), cw.Priority(("class0", "class1")))
    assert ours.mean_jobs == pytest.approx(expected.mean_jobs, rel=1e-7)
    assert ours.classes["class0"].mean_jobs == pytest.approx(naive.erlang_c(cores, first), abs=1e-8)


@pytest.mark.parametrize("p", [0.0, 0.6, 1.0])
@pytest.mark.parametrize(("cores", "first"), UNSTABLE_PRIORITY)
def test_priority_to_a_class_that_cannot_use_the_cores_and_starves_the_other(
    as_system: Build, cores: int, first: float, p: float
) -> None:
    """The other side of the same inequality: no number, an `UnstablePolicy`."""
    assert 0.6 - first > empty(cores, cores * first)
    curves = (naive.amdahl(0.0), naive.amdahl(p))
    system = as_system(loaded(0.6, float(cores), (1.0, 2.0), curves, first / 0.6))
    with pytest.raises(cw.errors.UnstablePolicy):
        cw.evaluate(system, cw.Priority(("class0", "class1")))


def left_over(model: naive.Model, size: int = 400) -> float:
    """Class 1 work served minus brought, per unit of time, when GREEDY always has class-1 jobs waiting."""
    n = np.arange(1, size)
    job, slow = model.jobs
    held = naive.greedy(model, np.stack([n, np.full_like(n, 1_000_000)], axis=-1))[:, 0]
    rates = n * job.size * job.curve(held / n)
    law = naive.birth_death(job.arrival, lambda k: float(rates[k - 1]), size)
    free = model.cores - np.concatenate([[0.0], held])[: len(law)]
    return float(law @ free) * slow.size - slow.arrival


@pytest.mark.parametrize(("cores", "p", "first"), [(8.0, 0.9, 0.5), (8.0, 0.6, 0.2), (4.0, 0.99, 0.5)])
def test_greedy_with_sizes_eight_to_one_where_it_is_stable(
    as_system: Build, cores: float, p: float, first: float
) -> None:
    """Load .8: small jobs take the cores, yet leave enough; the value is that of a large box."""
    model = loaded(0.8, cores, (8.0, 1.0), (naive.amdahl(p), naive.amdahl(p)), first)
    assert left_over(model) > 0
    capacity = (60, 900)
    counts = naive.states(capacity)
    few = naive.states((60, 40))  # beyond cores + 1 slow jobs, more of them change nothing
    rows = np.ravel_multi_index((counts[:, 0], np.minimum(counts[:, 1], 40)), (61, 41))
    expected = naive.evaluate(model, capacity, naive.greedy(model, few)[rows])
    assert expected.edge < 1e-9
    ours = cw.evaluate(as_system(model), cw.Greedy())
    assert ours.mean_jobs == pytest.approx(expected.mean_jobs, rel=1e-6)


@pytest.mark.parametrize(
    ("cores", "p", "first"), [(8.0, 0.6, 0.5), (8.0, 0.5, 0.8), (16.0, 0.9, 0.5), (4.0, 0.6, 0.5)]
)
def test_greedy_with_sizes_eight_to_one_where_it_is_not(
    as_system: Build, cores: float, p: float, first: float
) -> None:
    """Load .8: small jobs hoard cores they hardly use, and the large ones pile up: `UnstablePolicy`."""
    model = loaded(0.8, cores, (8.0, 1.0), (naive.amdahl(p), naive.amdahl(p)), first)
    assert left_over(model) < 0
    system = as_system(model)
    with pytest.raises(cw.errors.UnstablePolicy):
        cw.evaluate(system, cw.Greedy())


@pytest.mark.parametrize(("cores", "p", "first"), [(4.0, 0.5, 0.5), (4.0, 0.6, 0.8)])
def test_greedy_at_the_edge_of_stability_never_gives_a_number_of_the_box(
    as_system: Build, cores: float, p: float, first: float
) -> None:
    """Within 1.2 % of the edge, one system on each side: an error, or the right number, nothing between."""
    model = loaded(0.8, cores, (8.0, 1.0), (naive.amdahl(p), naive.amdahl(p)), first)
    spare = left_over(model) / model.jobs[1].arrival
    assert abs(spare) < 0.013
    try:
        value = cw.evaluate(as_system(model), cw.Greedy()).mean_jobs
    except cw.CorewiseError:
        return
    assert spare > 0
    capacity = (60, 2600)
    counts = naive.states(capacity)
    rows = np.ravel_multi_index((counts[:, 0], np.minimum(counts[:, 1], 20)), (61, 21))
    expected = naive.evaluate(model, capacity, naive.greedy(model, naive.states((60, 20)))[rows])
    assert value == pytest.approx(expected.mean_jobs, rel=1e-6)


@pytest.mark.parametrize("load", [1.0, 1.2])
def test_an_overloaded_system_is_refused(as_system: Build, load: float) -> None:
    """Load of one or more: nothing is stable, and nothing is solved."""
    model = loaded(load, 4.0, (1.0, 1.0), (naive.amdahl(1.0), naive.amdahl(0.5)))
    with pytest.raises(cw.CorewiseError, match=r"load"):
        cw.solve(as_system(model))
    with pytest.raises(cw.CorewiseError):
        cw.evaluate(as_system(model), cw.Equi())


@pytest.mark.parametrize("seed", range(4))
def test_extreme_but_stable_random_systems(as_system: Build, seed: int) -> None:
    """Sizes to 50 : 1, weights to 10 : 1, p in {0, 1} or near: the twin's optimum on the same small box."""
    rng = np.random.default_rng(seed)
    p = rng.choice([0.0, 1e-9, 0.5, 1 - 1e-9, 1.0], 2, replace=False)
    jobs = tuple(
        naive.Job(0.45 * 3.0 * mu, mu, naive.amdahl(float(q)), float(w))
        for mu, q, w in zip((1.0, 50.0), p, rng.permutation([1.0, 10.0]), strict=True)
    )
    model = naive.Model(3.0, jobs)
    twin, _ = naive.optimum(model, (25, 20))
    ours = cw.solve(as_system(model), capacity=(25, 20))
    assert ours.mean_cost == pytest.approx(twin.cost, rel=1e-8)


@pytest.mark.parametrize("capacity", [100, (126, 378)])
def test_a_box_in_which_blocking_pays_is_solved(capacity: int | tuple[int, int]) -> None:
    """Load 0.9, sizes 8 : 1, lost jobs cost nothing: exact policy iteration alone wanders between edges.

    The certificate is the authority: the policy's own cost, from its distribution, lies within the bounds.
    """
    system = cw.System(
        8,
        [
            cw.JobClass("big", 3.6, 1.0, cw.Amdahl(0.6)),
            cw.JobClass("small", 28.8, 8.0, cw.Amdahl(0.6)),
        ],
    )
    solution = cw.solve(system, capacity=capacity)
    low, high = solution.bounds
    assert high - low <= 1e-7
    attained = cw.evaluate(system, solution.policy, capacity=capacity).mean_cost
    assert low - 1e-9 <= attained <= high + 1e-9
    assert attained < cw.evaluate(system, cw.Whittle(), capacity=capacity).mean_cost - 1e-6


def test_sizes_far_apart_do_not_inflate_the_box() -> None:
    """Only the class that piles up gets room: once each got more at every look, to 179 million states."""
    system = cw.System(
        4,
        [
            cw.JobClass("k0", 26.2626, 18.461, cw.Amdahl(0.5), weight=0.395346),
            cw.JobClass("k1", 4.45426, 10.5631, cw.PowerLaw(0.5), weight=0.288874),
            cw.JobClass("k2", 0.685113, 1.23284, cw.Amdahl(0.0), weight=3.01581),
        ],
    )
    result = cw.evaluate(system, cw.Whittle())
    assert math.prod(n + 1 for n in result.capacity) < 200_000
    assert result.edge_probability < 1e-12


def test_the_policy_found_costs_what_its_certificate_says() -> None:
    """Sizes 77 : 1: sweeps that no longer seemed to fall had left the work unsettled, by 3e-9 of the cost."""
    system = cw.System(
        20,
        [
            cw.JobClass("k0", 0.6059411474376948, 0.12579533568634058, cw.Amdahl(0.97), weight=0.65788),
            cw.JobClass("k1", 4.5326052371789185, 9.661893298660637, cw.Amdahl(1.0)),
            cw.JobClass("k2", 52.52963388946093, 8.76350402912602, cw.Amdahl(0.7794630599215551)),
        ],
    )
    solution = cw.solve(system)
    low, high = solution.bounds
    assert low - 1e-10 <= solution.mean_cost <= high + 1e-10
