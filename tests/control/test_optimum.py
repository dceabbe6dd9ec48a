"""`solve` against a slow solver: split searched without derivatives, policies solved by sparse LU (naive.py).

Boxes are given, so both solve the same finite problem: arrivals of a class at its edge are blocked.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TypeAlias

import numpy as np
import pytest

import corewise as cw
from corewise.analysis.chain import Chain
from corewise.control.solvers import EliminatingPolicyIteration
from corewise.model.space import StateSpace
from corewise.policies.base import BoundPolicy
from tests.helpers import naive

Build = Callable[[naive.Model], cw.System]
Solver: TypeAlias = (
    cw.solvers.ModifiedPolicyIteration
    | cw.solvers.PolicyIteration
    | cw.solvers.RelativeValueIteration
    | EliminatingPolicyIteration
)

CLOSE = 3e-9  # a certificate of 1e-9, and the twin's own error

MIXED = naive.Model(
    6.0,
    (
        naive.Job(1.1, 1.0, naive.amdahl(0.8)),
        naive.Job(0.9, 1.6, naive.power(0.5)),
        naive.Job(1.0, 0.7, naive.usl(0.05, 0.02)),
    ),
)
PIECES = naive.Model(
    5.5,
    (
        naive.Job(1.3, 1.0, naive.gustafson(0.4)),
        naive.Job(0.8, 0.8, naive.tabulated((2.0, 1.7), (4.0, 2.6), (8.0, 3.0))),
        naive.Job(0.5, 2.0, naive.amdahl(0.6)),
    ),
)
ENDS = naive.two(
    4, (0.9, 0.8, 0.7), (1.0, 1.0, 1.5), (naive.amdahl(0.0), naive.amdahl(1.0), naive.amdahl(0.5))
)
CASES = {"mixed families": MIXED, "linear pieces": PIECES, "p of 0 and 1": ENDS}
SOLVERS: list[Solver] = [
    cw.solvers.ModifiedPolicyIteration(),
    cw.solvers.PolicyIteration(),
    cw.solvers.RelativeValueIteration(),
    EliminatingPolicyIteration(),
]


@cache
def twin_of(model: naive.Model, capacity: tuple[int, ...]) -> naive.Result:
    return naive.optimum(model, capacity)[0]


def random_model(rng: np.random.Generator, classes: int, whole: bool = False) -> naive.Model:
    """A stable system with unequal sizes, weights and families."""
    c = float(rng.integers(2, 9)) if whole else float(rng.uniform(1.5, 12))
    sizes = np.exp(rng.uniform(-1, 1, classes))
    parts = rng.dirichlet(np.full(classes, 2.0)) * rng.uniform(0.1, 0.9)
    curves: list[Callable[[float], naive.Curve]] = [
        naive.amdahl,
        naive.power,
        naive.gustafson,
        lambda u: naive.usl(u / 4, u / 40),
        lambda u: naive.tabulated((1.5, 1 + u / 2), (3.0, 1 + u), (7.0, 1 + 1.5 * u)),
    ]
    return naive.Model(
        c,
        tuple(
            naive.Job(
                float(part * c * size),
                float(size),
                curves[int(rng.integers(len(curves)))](float(rng.uniform(0.05, 0.95))),
                float(rng.choice([1.0, 1.0, 3.0, 10.0])),
            )
            for size, part in zip(sizes, parts, strict=True)
        ),
    )


def test_the_twins_split_beats_every_grid_point() -> None:
    """The searched split is no worse than any point of a grid, and equals the priced one."""
    rng = np.random.default_rng(3)
    counts = naive.states((3, 3, 3))[1:]
    gains = rng.uniform(0.1, 3.0, counts.shape)

    def worth(cores: naive.Floats) -> naive.Floats:
        return np.asarray((gains * naive.departures(MIXED, counts, cores)).sum(axis=1))

    best = worth(naive.searched_split(MIXED, counts, gains))
    for i in range(31):
        for j in range(31 - i):
            cores = np.broadcast_to(np.array([i, j, 30 - i - j]) * MIXED.cores / 30, counts.shape)
            allowed = ((counts > 0) | (cores == 0)).all(axis=1)
            assert np.all(best[allowed] >= worth(cores)[allowed] - 1e-12)
    even = np.ones(counts.shape)
    searched = naive.departures(MIXED, counts, naive.searched_split(MIXED, counts, even)).sum(axis=1)
    priced = naive.departures(MIXED, counts, naive.greedy(MIXED, counts)).sum(axis=1)
    assert np.allclose(searched, priced, rtol=0, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("model", CASES.values(), ids=CASES.keys())
@pytest.mark.parametrize("solver", SOLVERS, ids=lambda s: type(s).__name__)
def test_three_classes_agree_with_the_twin(as_system: Build, model: naive.Model, solver: Solver) -> None:
    """K = 3, every solver: cost, certificate, and the returned table, each against the twin."""
    capacity = (7, 5, 6)
    twin = twin_of(model, capacity)
    ours = cw.solve(as_system(model), capacity=capacity, solver=solver)
    assert ours.mean_cost == pytest.approx(twin.cost, abs=CLOSE)
    assert ours.bounds[0] - 1e-11 <= twin.cost <= ours.bounds[1] + 1e-11
    assert ours.bounds[1] - ours.bounds[0] <= 2e-9
    table = np.asarray(ours.policy.on(as_system(model)).allocate(naive.states(capacity)))
    assert naive.evaluate(model, capacity, table).cost == pytest.approx(twin.cost, abs=CLOSE)


@pytest.mark.parametrize("model", CASES.values(), ids=CASES.keys())
def test_values_satisfy_the_bellman_equation(as_system: Build, model: naive.Model) -> None:
    """cost + min_a Q_a V is the same number in every state, with the twin's minimum."""
    capacity = (6, 6, 5)
    ours = cw.solve(as_system(model), capacity=capacity)
    low, high, _ = naive.bracket(model, capacity, np.asarray(ours.values).ravel(), naive.searched_split)
    assert low == pytest.approx(ours.mean_cost, abs=1e-8)
    assert high == pytest.approx(ours.mean_cost, abs=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_random_systems(as_system: Build, seed: int) -> None:
    """One to four classes, mixed families, sizes and weights: the twin's optimum, bracketed."""
    rng = np.random.default_rng(seed)
    classes = 1 + seed % 4
    capacity = {1: (40,), 2: (14, 11), 3: (6, 7, 5), 4: (4, 3, 4, 3)}[classes]
    model = random_model(rng, classes)
    twin, _ = naive.optimum(model, capacity)
    ours = cw.solve(as_system(model), capacity=capacity)
    assert ours.mean_cost == pytest.approx(twin.cost, rel=CLOSE)
    assert ours.mean_jobs == pytest.approx(
        twin.mean_jobs, rel=1e-5
    )  # costs agree to second order, jobs to first
    slack = 1e-11 * (1 + abs(twin.cost))
    assert ours.bounds[0] - slack <= twin.cost <= ours.bounds[1] + slack
    assert tuple(ours.capacity) == capacity
    assert ours.edge_probability == pytest.approx(twin.edge, rel=1e-3, abs=1e-12)


@pytest.mark.parametrize("seed", range(6))
def test_whole_cores_agree_with_trying_every_split(as_system: Build, seed: int) -> None:
    """whole_cores: all whole splits enumerated; the returned table is whole and uses all cores."""
    rng = np.random.default_rng(100 + seed)
    classes = 2 + seed % 3
    capacity = {2: (12, 10), 3: (5, 6, 5), 4: (3, 3, 4, 3)}[classes]
    model = random_model(rng, classes, whole=True)
    twin, _ = naive.optimum(model, capacity, naive.whole_split)
    ours = cw.solve(as_system(model), capacity=capacity, whole_cores=True)
    assert ours.mean_cost == pytest.approx(twin.cost, rel=CLOSE)
    slack = 1e-11 * (1 + abs(twin.cost))
    assert ours.bounds[0] - slack <= twin.cost <= ours.bounds[1] + slack
    counts = naive.states(capacity)[1:]
    table = np.asarray(ours.policy.on(as_system(model)).allocate(counts))
    assert np.array_equal(table, np.round(table))
    assert np.array_equal(table.sum(axis=1), np.full(len(counts), model.cores))
    assert not table[counts == 0].any()


@pytest.mark.parametrize("whole", [False, True])
def test_solvers_agree_with_each_other(as_system: Build, whole: bool) -> None:
    """Three solvers, one problem, 1e-8; no box given, so each also chose its own."""
    system = as_system(naive.two(6, (2.0, 1.0), (1.0, 0.8), (naive.amdahl(0.3), naive.power(0.8))))
    costs = [cw.solve(system, solver=solver, whole_cores=whole).mean_cost for solver in SOLVERS]
    assert max(costs) - min(costs) < 1e-8


@pytest.mark.parametrize("weights", [(10.0, 1.0), (1.0, 10.0)])
def test_weights_ten_to_one(as_system: Build, weights: tuple[float, float]) -> None:
    """Cost is weighted, jobs are not; the optimum moves with the weights and is the twin's."""
    curves = (naive.amdahl(0.4), naive.amdahl(0.9))
    jobs = tuple(naive.Job(1.5, 1.0, s, w) for s, w in zip(curves, weights, strict=True))
    model, capacity = naive.Model(4, jobs), (25, 25)
    twin, _ = naive.optimum(model, capacity)
    ours = cw.solve(as_system(model), capacity=capacity)
    assert ours.mean_cost == pytest.approx(twin.cost, rel=CLOSE)
    assert ours.mean_jobs == pytest.approx(twin.mean_jobs, rel=1e-6)
    plain, _ = naive.optimum(naive.two(4, (1.5, 1.5), (1.0, 1.0), curves), capacity)
    assert ours.mean_jobs > plain.mean_jobs + 1e-3
    assert ours.mean_cost < float(plain.jobs @ np.array(weights)) - 1e-3


@pytest.mark.parametrize("seed", range(5))
def test_evaluating_the_returned_policy_gives_the_solution(as_system: Build, seed: int) -> None:
    """`evaluate` of the solution's policy equals the solution: box chosen or given, whole cores or not."""
    model = random_model(np.random.default_rng(200 + seed), 1 + seed % 3, whole=True)
    system = as_system(model)
    small = tuple(range(6, 6 + len(model.jobs)))
    for capacity, whole in ((None, False), (None, True), (small, False), (small, True)):
        if capacity is None and len(model.jobs) > 2:
            continue
        solution = cw.solve(system, capacity=capacity, whole_cores=whole)
        result = cw.evaluate(system, solution.policy, capacity=capacity)
        assert result.mean_cost == pytest.approx(solution.mean_cost, rel=1e-8)
        assert result.mean_jobs == pytest.approx(solution.mean_jobs, rel=1e-8)
        assert result.mean_response_time == pytest.approx(solution.mean_response_time, rel=1e-8)


@pytest.mark.parametrize("solver", SOLVERS, ids=lambda s: type(s).__name__)
def test_a_warm_start_changes_nothing_but_the_time(as_system: Build, solver: Solver) -> None:
    """Started from the solution of other curves and of another box: the same optimum, still certified."""
    model = naive.two(5, (1.5, 1.2), (1.0, 1.0), (naive.amdahl(0.5), naive.amdahl(0.8)))
    other = naive.two(5, (1.5, 1.2), (1.0, 1.0), (naive.amdahl(0.9), naive.amdahl(0.1)))
    twin = twin_of(model, (12, 15))
    earlier = [cw.solve(as_system(other), capacity=box) for box in ((12, 15), (20, 8), None)]
    for start in earlier:
        ours = cw.solve(as_system(model), capacity=(12, 15), start=start, solver=solver)
        assert ours.mean_cost == pytest.approx(twin.cost, abs=CLOSE)
        assert ours.bounds[0] - 1e-11 <= twin.cost <= ours.bounds[1] + 1e-11


def test_a_loose_tolerance_still_brackets(as_system: Build) -> None:
    """The certificate is honest at every tolerance: wider, never wrong, never wider than asked."""
    twin, _ = naive.optimum(MIXED, (6, 6, 6))
    for tolerance in (1e-2, 1e-4, 1e-6):
        ours = cw.solve(as_system(MIXED), capacity=(6, 6, 6), tolerance=tolerance)
        assert ours.bounds[0] - 1e-11 <= twin.cost <= ours.bounds[1] + 1e-11
        assert ours.bounds[1] - ours.bounds[0] <= 1.01 * tolerance * (1 + twin.cost)


def test_the_chosen_box_does_not_matter(as_system: Build) -> None:
    """No capacity: the value is that of a box far larger than needed, by the twin."""
    model = naive.two(6, (2.0, 1.5), (1.0, 0.7), (naive.amdahl(0.2), naive.power(0.7)))
    twin, _ = naive.optimum(model, (70, 90))
    ours = cw.solve(as_system(model))
    assert ours.mean_jobs == pytest.approx(twin.mean_jobs, abs=2e-9)
    assert ours.edge_probability < 1e-9


def test_a_small_box_is_the_blocking_model(as_system: Build) -> None:
    """With a box given, blocked jobs never count: the cost is lower than without, and the box is kept."""
    system = as_system(naive.two(4, (1.5, 1.5), (1.0, 1.0), (naive.amdahl(0.4), naive.amdahl(0.9))))
    boxed, free = cw.solve(system, capacity=5), cw.solve(system)
    assert tuple(boxed.capacity) == (5, 5)
    assert boxed.mean_jobs < free.mean_jobs - 0.01


@pytest.mark.parametrize("policy", [cw.Equi(), cw.Greedy(), cw.Whittle(), cw.Fixed((0.4, 0.6))], ids=repr)
def test_no_policy_beats_the_optimum(as_system: Build, policy: cw.Policy) -> None:
    """Optimal means: below every rule, and strictly where the rule is not optimal."""
    system = as_system(naive.two(8, (3.0, 2.0), (1.0, 2.5), (naive.amdahl(0.3), naive.amdahl(0.9))))
    assert cw.solve(system).mean_jobs < cw.evaluate(system, policy).mean_jobs - 1e-6


# --- warm starts ----------------------------------------------------------------------------------


@pytest.mark.parametrize("load", [0.05, 0.4, 0.75])
def test_a_warm_start_does_not_change_the_answer(load: float) -> None:
    classes = [
        cw.JobClass("a", 1.0, 1.0, cw.Amdahl(0.4)),
        cw.JobClass("b", 2.0, 3.0, cw.PowerLaw(0.7), weight=2.0),
    ]
    system = cw.System(6, classes).at_load(load)
    usual = cw.solve(system)
    small = usual.warm_start
    assert all(2 <= size <= most + 1 for size, most in zip(small.shape, usual.capacity, strict=True))
    assert np.array_equal(small, usual.values[tuple(map(slice, small.shape))])
    for start in (usual, small, usual.values, np.zeros((2, 2)), np.ones((201, 4))):
        found = cw.solve(system, start=start)
        assert found.mean_cost == pytest.approx(usual.mean_cost, rel=1e-9)
        assert found.mean_cost <= found.bounds[1] * (1.0 + 1e-9)
        assert found.edge_probability < 1e-9
        # Where the system is at all often, the policies are the same.
        likely = usual.distribution.reshape([n + 1 for n in usual.capacity]) > 1e-6
        shared = tuple(slice(min(m, n) + 1) for m, n in zip(usual.capacity, found.capacity, strict=True))
        assert not likely[shared[0].stop :].any()
        where = likely[shared]
        assert np.allclose(
            found.policy.cores[:, *shared][:, where], usual.policy.cores[:, *shared][:, where], atol=1e-3
        )


def test_the_first_chain_is_built_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The search for a box ends with the chain from which the solver begins."""
    built, real = [], Chain.under

    def counted(policy: BoundPolicy, system: cw.System, space: StateSpace) -> Chain:
        built.append((policy.name, space.capacity))
        return real(policy, system, space)

    monkeypatch.setattr(Chain, "under", counted)
    cw.solve(cw.load_system("paper:1"))
    assert len(built) == len(set(built))
    assert built[0][0] == "whittle"


def test_a_snug_box_is_snug() -> None:
    """One class is a birth-death chain: its tail beyond the box follows from the product form."""
    system = cw.System(3, [cw.JobClass("only", 1.5, 1.0, cw.Amdahl(0.0))])
    size = cw.solve(system).warm_start.size - 1
    n = np.arange(200)
    law = np.cumprod(np.concatenate([[1.0], 1.5 / np.minimum(n[1:], 3)]))
    law /= law.sum()
    effect = law[::-1].cumsum()[::-1] * n / (1.0 - system.load)
    assert effect[size] <= 1e-12 < effect[size - 1]


@pytest.mark.parametrize(("cores", "sizes", "load"), [(16.0, (1.0, 0.25), 0.9), (4.0, (1.0, 1.0), 0.9)])
def test_the_share_that_is_done_is_about_that_of_the_work(
    cores: float, sizes: tuple[float, float], load: float
) -> None:
    """Improvements take about as long each. By how many digits are certified, a tenth was done half way."""
    first, second = sizes
    rows = [
        cw.JobClass("one", first, first, cw.Amdahl(0.35)),
        cw.JobClass("two", second, second, cw.Amdahl(0.95)),
    ]
    shares: list[float] = []
    cw.solve(cw.System(cores, rows).at_load(load), progress=shares.append)
    assert len(shares) > 10
    assert shares == sorted(shares)
    assert np.abs(np.array(shares) - np.linspace(0.15, 1.0, len(shares))).max() < 0.3


def test_a_box_that_is_too_small_counts_for_half_of_two() -> None:
    """What is left after a first box is foretold to take as long as it did."""
    rows = [cw.JobClass("one", 1.0, 1.0, cw.Amdahl(0.3)), cw.JobClass("two", 1.0, 1.0, cw.Amdahl(0.9))]
    shares: list[float] = []
    found = cw.solve(
        cw.System(4.0, rows),
        start=np.zeros((6, 6)),
        progress=shares.append,
        solver=cw.solvers.ModifiedPolicyIteration(),
    )
    assert min(found.capacity) > 5
    turns = np.flatnonzero(np.diff(shares) < 0.0)
    assert turns.size >= 1
    assert min(shares[turns[0] + 1 :]) >= 0.5


@pytest.mark.parametrize("load", [0.5, 0.95])
def test_equal_sizes_serve_the_inelastic_first(load: float) -> None:
    """Optimal for p = 0 and 1 and equal sizes (Berg, Harchol-Balter, Moseley, Wang, Whitehouse 2020).

    With many jobs the two differ by less than rounding, and were they then to share, a box for the one that
    is served first would not do.
    """
    rows = [cw.JobClass("elastic", 1.0, 1.0, cw.Amdahl(1.0)), cw.JobClass("rigid", 1.0, 1.0, cw.Amdahl(0.0))]
    found = cw.solve(cw.System(4.0, rows).at_load(load))
    assert found.capacity[1] < 60
    counts = naive.states(found.capacity)
    cores = np.asarray(found.policy.on(found.system).allocate(counts))
    served = np.minimum(counts[:, 1], 4.0)
    inside = np.all(counts <= np.array(found.capacity) // 2, axis=1)  # at the edge jobs are lost
    both = inside & (counts[:, 0] > 0)
    assert np.array_equal(cores[both, 1], served[both])
    assert np.array_equal(cores[both, 0], 4.0 - served[both])
