"""Systems whose answer is a formula (DESIGN section 5), to 1e-9."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

import corewise as cw
from corewise.analysis.performance import has_product_form, performance_of, stationary_chain
from tests.helpers import naive

Build = Callable[[naive.Model], cw.System]

LINEAR = [
    naive.amdahl(1.0),
    naive.power(1.0),
    naive.gustafson(1.0),
    naive.usl(0.0, 0.0),
    naive.tabulated((2.0, 2.0), (64.0, 64.0)),
]
FLAT = [
    naive.amdahl(0.0),
    naive.power(0.0),
    naive.gustafson(0.0),
    naive.usl(1.0, 0.0),
    naive.tabulated((1.0, 1.0), (8.0, 1.0)),
]
BENT = [
    naive.amdahl(0.7),
    naive.power(0.55),
    naive.gustafson(0.35),
    naive.usl(0.08, 0.01),
    naive.tabulated((2.0, 1.9), (4.0, 2.1), (6.0, 3.6), (12.0, 3.0)),
]
POLICIES = [cw.Equi(), cw.Fixed((0.3, 0.7)), cw.Priority(("class1", "class0")), cw.Greedy(), cw.Whittle()]


def label(value: object) -> str:
    return value.family if isinstance(value, naive.Curve) else type(value).__name__


@pytest.mark.parametrize("load", [0.3, 0.8])
@pytest.mark.parametrize("policy", POLICIES, ids=label)
def test_perfectly_parallel_jobs_form_one_fast_server(
    as_system: Build, policy: cw.Policy, load: float
) -> None:
    """p = 1, equal mu, no idle core: the count is M/M/1 with rate c mu, whoever is served."""
    c, mu = 5.0, 1.5
    arrivals = (0.4 * load * c * mu, 0.6 * load * c * mu)
    system = as_system(naive.two(c, arrivals, (mu, mu), (naive.amdahl(1.0), naive.power(1.0))))
    result = cw.evaluate(system, policy)
    assert result.mean_jobs == pytest.approx(load / (1 - load), abs=1e-9)
    assert result.utilisation == pytest.approx(load, abs=1e-9)


@pytest.mark.parametrize("curve", LINEAR, ids=label)
def test_linear_curves_of_every_family(as_system: Build, curve: naive.Curve) -> None:
    """The same M/M/1, reached through each family's linear member, at the optimum."""
    model = naive.two(6.0, (2.0, 1.6), (1.0, 1.0), (curve, naive.amdahl(1.0)))
    assert cw.solve(as_system(model)).mean_jobs == pytest.approx(0.6 / 0.4, abs=2e-9)


@pytest.mark.parametrize("load", [0.5, 0.9])
@pytest.mark.parametrize("curve", FLAT, ids=label)
def test_one_class_that_cannot_be_split_is_erlang(as_system: Build, curve: naive.Curve, load: float) -> None:
    """p = 0: M/M/c, Erlang's C formula."""
    system = as_system(naive.two(8, (load * 8 * 0.7,), (0.7,), (curve,)))
    expected = naive.erlang_c(8, load)
    assert cw.evaluate(system, cw.Equi()).mean_jobs == pytest.approx(expected, abs=1e-9)
    assert cw.solve(system).mean_jobs == pytest.approx(expected, abs=2e-9)


@pytest.mark.parametrize("curve", BENT, ids=label)
def test_one_class_is_a_birth_death_chain(as_system: Build, curve: naive.Curve) -> None:
    """One class: product form with death rate n mu s(c/n), whatever the policy. Real numbers of cores too."""
    c, mu = 7.5, 1.2
    arrival = 0.75 * c * mu
    system = as_system(naive.two(c, (arrival,), (mu,), (curve,)))
    law = naive.birth_death(arrival, lambda n: n * mu * float(curve(np.array(c / n))))
    jobs = float(law @ np.arange(len(law)))
    rules: list[cw.Policy] = [
        cw.Equi(),
        cw.Fixed((1.0,)),
        cw.Priority(("class0",)),
        cw.Greedy(),
        cw.Whittle(),
    ]
    results: list[cw.results.Solution | cw.results.Performance] = [cw.solve(system)]
    results += [cw.evaluate(system, rule) for rule in rules]
    for result in results:
        assert result.mean_jobs == pytest.approx(jobs, abs=2e-9)
        assert result.mean_response_time == pytest.approx(jobs / arrival, abs=2e-9)


@pytest.mark.parametrize("curve", BENT, ids=label)
@pytest.mark.parametrize("classes", [2, 3])
def test_equal_classes_are_best_shared_equally(as_system: Build, curve: naive.Curve, classes: int) -> None:
    """Same curve and size: EQUI is optimal, and the total count is a birth-death chain."""
    c, mu, arrival = 4.0, 1.0, 1.6
    shares = np.arange(1, classes + 1) / (classes * (classes + 1) / 2)
    jobs = tuple(naive.Job(arrival * float(share), mu, curve) for share in shares)
    system = as_system(naive.Model(c, jobs))
    law = naive.birth_death(arrival, lambda n: n * mu * float(curve(np.array(c / n))))
    expected = float(law @ np.arange(len(law)))
    assert cw.evaluate(system, cw.Equi()).mean_jobs == pytest.approx(expected, abs=1e-9)
    solution = cw.solve(system)
    assert solution.mean_jobs == pytest.approx(expected, abs=2e-9)
    assert solution.bounds[0] - 1e-12 <= expected <= solution.bounds[1] + 1e-12


@pytest.mark.parametrize("curve", [cw.Amdahl(0.7), cw.PowerLaw(0.4), cw.Usl(0.1, 0.02)], ids=str)
def test_equal_shares_of_one_curve_have_a_product_form(curve: cw.SpeedUp) -> None:
    """Sizes, rates and weights apart: as the chain over all states, and as another bound policy.

    Negative control: with curves that differ a little the product form is not used, and does not hold.
    """
    jobs = [
        cw.JobClass("a", 2.0, 1.0, curve, weight=2.0),
        cw.JobClass("b", 6.0, 4.0, curve),
        cw.JobClass("c", 1.0, 1.5, curve),
    ]
    system = cw.System(8, jobs[:2])
    policy = cw.Equi().on(system)
    found = cw.evaluate(system, policy)
    chain = performance_of(stationary_chain(system, policy, None), "equi", blocking=False)
    for name, one in chain.classes.items():
        assert found.classes[name].mean_jobs == pytest.approx(one.mean_jobs, rel=1e-9)
        assert found.classes[name].mean_response_time == pytest.approx(one.mean_response_time, rel=1e-9)
        assert found.classes[name].mean_cost == pytest.approx(one.mean_cost, rel=1e-9)
    for field in ("mean_jobs", "mean_response_time", "mean_cost", "utilisation"):
        assert getattr(found, field) == pytest.approx(getattr(chain, field), rel=1e-9), field
    assert found.edge_probability < 1e-12
    assert len(found.capacity) == 2
    assert len(cw.evaluate(cw.System(8, jobs), "equi").classes) == 3
    other = cw.System(8, [jobs[0], cw.JobClass("b", 6.0, 4.0, cw.Amdahl(0.69))])
    assert not has_product_form(other, policy)
    assert not has_product_form(system, cw.Whittle())
    assert not has_product_form(system, cw.Whittle().on(system))
    assert not has_product_form(cw.System(8, jobs[:1]), cw.Equi())


@pytest.mark.statistical
def test_equal_shares_of_six_classes_in_a_simulation() -> None:
    """The product form, class by class, against long paths: within five standard errors of twelve runs.

    Student's law with 11 degrees of freedom: false alarm 4e-4 each, 2.5e-3 for the six classes, with seeds as
    given none. Negative control: a load 2 % higher is outside for some class.
    """
    jobs = [cw.JobClass(str(i), 1.0 + 0.3 * i, 0.5 + 0.4 * i, cw.Amdahl(0.8)) for i in range(6)]
    system = cw.System(16, jobs).at_load(0.8)
    runs = [cw.simulate(system, cw.Equi(), departures=60_000, rng=seed) for seed in range(12)]
    means = np.array([[one.mean_jobs for one in run.classes.values()] for run in runs])
    errors = means.std(axis=0, ddof=1) / math.sqrt(len(runs))

    def away(load: float) -> float:
        exact = [one.mean_jobs for one in cw.evaluate(system.at_load(load), "equi").classes.values()]
        return float(np.max(np.abs(means.mean(axis=0) - exact) / errors))

    assert away(0.8) < 5.0 < away(0.816)


@pytest.mark.parametrize("names", [("inelastic", "elastic"), ("elastic", "inelastic")])
def test_greedy_star_serves_inelastic_jobs_first(names: tuple[str, str]) -> None:
    """p = (0, 1), equal mu, in either order: a core for each inelastic job, the rest to the elastic."""
    curves = {"inelastic": cw.Amdahl(0.0), "elastic": cw.Amdahl(1.0)}
    system = cw.System(
        cores=5, classes=[cw.JobClass(n, arrival_rate=1.4, size_rate=1.0, speedup=curves[n]) for n in names]
    )
    here = names.index("inelastic")
    counts = naive.states((9, 9))
    cores = np.asarray(cw.Greedy().on(system).allocate(counts))
    both = (counts > 0).all(axis=1)
    assert np.allclose(cores[both, here], np.minimum(counts[both, here], 5), atol=1e-12)
    assert np.allclose(cores[counts.sum(axis=1) > 0].sum(axis=1), 5, atol=1e-12)
    assert not cores[counts == 0].any()


@pytest.mark.parametrize("load", [0.4, 0.8])
def test_inelastic_first_is_optimal(as_system: Build, load: float) -> None:
    """p = (0, 1), equal mu: the optimum is inelastic-first, here a chain written down by hand."""
    c, rate = 4.0, load * 4.0 / 2
    model = naive.two(c, (rate, rate), (1.0, 1.0), (naive.amdahl(0.0), naive.amdahl(1.0)))
    size = 40 if load < 0.5 else 160
    counts = naive.states((size, size))
    first = np.minimum(counts[:, 0], c)
    first = np.where((counts[:, 1] == 0) & (counts[:, 0] > 0), c, first)
    cores = np.stack([first, np.where(counts[:, 1] > 0, c - first, 0.0)], axis=-1)
    expected = naive.evaluate(model, size, cores).mean_jobs
    system = as_system(model)
    assert cw.evaluate(system, cw.Greedy()).mean_jobs == pytest.approx(expected, abs=2e-9)
    assert cw.solve(system).mean_jobs == pytest.approx(expected, abs=3e-9)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("load", "weights"),
    [(load, weights) for load in (0.6, 0.9) for weights in ((1.0, 1.0), (10.0, 1.0))]
    + [(load, (1.0, 10.0)) for load in (0.6, 0.8)],  # the small jobs pile up: the box is large
)
def test_perfectly_parallel_jobs_of_unequal_size(
    as_system: Build, load: float, weights: tuple[float, float]
) -> None:
    """p = 1, mu = 8 : 1: the c-mu rule, and the preemptive M/M/1 of Cobham's formulas."""
    c, mu = 4.0, (8.0, 1.0)
    arrivals = (load / 2 * c * mu[0], load / 2 * c * mu[1])
    jobs = tuple(naive.Job(a, m, naive.amdahl(1.0), w) for a, m, w in zip(arrivals, mu, weights, strict=True))
    system = as_system(naive.Model(c, jobs))
    order = sorted((0, 1), key=lambda i: -weights[i] * mu[i])
    expected = preemptive([arrivals[i] for i in order], [c * mu[i] for i in order])
    cost = sum(weights[i] * n for i, n in zip(order, expected, strict=True))
    solution = cw.solve(system)
    assert solution.mean_cost == pytest.approx(cost, rel=2e-9)
    rule = cw.evaluate(system, cw.Priority(tuple(f"class{i}" for i in order)))
    assert rule.mean_cost == pytest.approx(cost, rel=1e-9)
    for i, jobs_of_class in zip(order, expected, strict=True):
        assert rule.classes[f"class{i}"].mean_jobs == pytest.approx(jobs_of_class, rel=1e-9)
    assert rule.mean_jobs == pytest.approx(sum(expected), rel=1e-9)


def preemptive(arrivals: list[float], rates: list[float]) -> list[float]:
    """Mean jobs per class of a preemptive M/M/1, highest priority first."""
    jobs, above, residual = [], 0.0, 0.0
    for a, m in zip(arrivals, rates, strict=True):
        below = above + a / m
        residual += a / m**2
        jobs.append(a * (1 / m / (1 - above) + residual / ((1 - above) * (1 - below))))
        above = below
    return jobs


def test_the_closed_forms_themselves() -> None:
    """Erlang's formula against the product form; M/M/1 as one preemptive class."""
    law = naive.birth_death(5.0, lambda n: 1.0 * min(n, 8))
    assert naive.erlang_c(8, 5 / 8) == pytest.approx(float(law @ np.arange(len(law))), abs=1e-12)
    assert preemptive([0.5], [1.0])[0] == pytest.approx(1.0, abs=1e-12)
    assert math.isclose(sum(preemptive([0.3, 0.4], [1.0, 1.0])), 0.7 / 0.3)


@pytest.mark.parametrize(("p", "expected"), [(0.0, 9e4), (1.0, 9.0)])
def test_one_class_on_very_many_cores(p: float, expected: float) -> None:
    """M/M/c with 100 000 cores at load 0.9, where nobody waits, and M/M/1: no sweeps, and no digits lost."""
    system = cw.System(1e5, [cw.JobClass("a", 1.8e5, 2.0, cw.Amdahl(p))])
    assert cw.evaluate(system, cw.Equi()).mean_jobs == pytest.approx(expected, rel=1e-10)
    solution = cw.solve(system)
    assert solution.solver == "closed form"
    assert solution.mean_jobs == pytest.approx(expected, rel=1e-10)
    low, high = solution.bounds
    assert low <= expected * (1 + 1e-13)
    assert expected * (1 - 1e-13) <= high
    assert high - low < 1e-8 * expected
    assert (np.diff(solution.values) > 0.0).all()


@pytest.mark.parametrize("load", [0.9, 0.9999])
def test_relative_values_of_one_class(load: float) -> None:
    """M/M/1: V(n) = n (n + 1) / (2 (mu - lambda)), far into a heavy tail."""
    system = cw.System(2.0, [cw.JobClass("a", 2.0 * load, 1.0, cw.Amdahl(1.0))])
    solution = cw.solve(system)
    n = np.arange(200)
    assert solution.values[:200] == pytest.approx(n * (n + 1) / (4.0 * (1.0 - load)), rel=1e-6)
    assert solution.mean_jobs == pytest.approx(load / (1.0 - load), rel=1e-9)
    assert solution.bounds[1] - solution.bounds[0] < 1e-7 * solution.mean_jobs
