"""`evaluate` and the policies against chains written state by state and solved by sparse LU (naive.py)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

import corewise as cw
from corewise.policies.base import BoundPolicy
from tests.helpers import naive

Build = Callable[[naive.Model], cw.System]
Twin = Callable[[naive.Model, naive.Counts], naive.Floats]

THREE = naive.Model(
    6.0,
    (
        naive.Job(1.2, 1.0, naive.amdahl(0.75), 2.0),
        naive.Job(1.0, 1.7, naive.power(0.45), 1.0),
        naive.Job(0.8, 0.9, naive.amdahl(0.2), 5.0),
    ),
)
TWO = naive.two(7.5, (2.5, 1.5), (1.0, 0.8), (naive.amdahl(0.35), naive.power(0.8)))

POLICIES: dict[str, tuple[Callable[[], cw.Policy], Twin]] = {
    "equi": (cw.Equi, naive.equi),
    "fixed": (lambda: cw.Fixed((0.2, 0.5, 0.3)), lambda m, n: naive.fixed(m, n, (0.2, 0.5, 0.3))),
    "priority": (
        lambda: cw.Priority(("class2", "class0", "class1")),
        lambda m, n: naive.priority(m, n, (2, 0, 1)),
    ),
    "greedy": (cw.Greedy, naive.greedy),
    "whittle": (cw.Whittle, naive.whittle),
}
EVERY = pytest.mark.parametrize(("policy", "twin"), POLICIES.values(), ids=POLICIES.keys())


@EVERY
def test_allocations_are_the_definitions(
    as_system: Build, policy: Callable[[], cw.Policy], twin: Twin
) -> None:
    """Cores per class in every state; all cores used when a job is present, none held by an absent class."""
    counts = naive.states((8, 8, 8))
    ours = np.asarray(policy().on(as_system(THREE)).allocate(counts))
    assert ours.shape == counts.shape
    assert np.allclose(ours, twin(THREE, counts), rtol=0, atol=1e-9)
    assert np.allclose(ours[1:].sum(axis=1), THREE.cores, rtol=1e-12)
    assert not ours[counts == 0].any()
    assert (ours >= 0).all()


@pytest.mark.parametrize("size", [1.0, 2.5])
def test_greedy_with_equal_weights_has_the_highest_rate_of_departures(as_system: Build, size: float) -> None:
    """GREEDY* by its definition, without prices: no whole split and no searched split departs faster."""
    model = naive.two(
        5.0, (1.0, 1.0, 1.0), (1.0, size, 1.0), (naive.amdahl(0.8), naive.power(0.3), naive.amdahl(0))
    )
    counts = naive.states((5, 5, 5))[1:]
    ours = naive.departures(model, counts, np.asarray(cw.Greedy().on(as_system(model)).allocate(counts))).sum(
        axis=1
    )
    for split in (naive.searched_split, naive.whole_split):
        other = naive.departures(model, counts, split(model, counts, np.ones(counts.shape))).sum(axis=1)
        assert (ours >= other - 1e-10).all()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_curves_at_and_near_their_ends(as_system: Build, seed: int) -> None:
    """p of 0, 1 and a millionth away, ties in h mu: all cores used, none negative, GREEDY* the highest."""
    rng = np.random.default_rng(seed)
    makers: list[Callable[[float], naive.Curve]] = [
        naive.amdahl,
        naive.power,
        naive.gustafson,
        lambda u: naive.usl(u / 3, u / 30),
    ]
    for _ in range(6):
        jobs = tuple(
            naive.Job(
                0.01,
                float(rng.choice([1.0, 2.0])),
                makers[int(rng.integers(4))](float(rng.choice([0.0, 1e-6, 0.5, 1 - 1e-6, 1.0]))),
                float(rng.choice([1.0, 2.0])),
            )
            for _ in range(int(rng.integers(1, 4)))
        )
        model = naive.Model(float(rng.choice([1.0, 5.0, rng.uniform(0.5, 9.0)])), jobs)
        counts = naive.states((4,) * len(jobs))[1:]
        for policy in (cw.Greedy(), cw.Whittle()):
            cores = np.asarray(policy.on(as_system(model)).allocate(counts))
            assert np.allclose(cores.sum(axis=1), model.cores, rtol=0, atol=1e-9), (policy, model)
            assert cores.min() >= 0
            assert not cores[counts == 0].any()
            if isinstance(policy, cw.Greedy):
                gains = np.broadcast_to(model.weights, counts.shape)
                best = naive.departures(model, counts, naive.searched_split(model, counts, gains))
                ours = naive.departures(model, counts, cores)
                assert ((ours - best) @ model.weights).min() > -1e-9, model


@EVERY
def test_allocate_takes_any_leading_shape(
    as_system: Build, policy: Callable[[], cw.Policy], twin: Twin
) -> None:
    """counts (..., K) -> cores (..., K), one state or a grid of them."""
    bound = policy().on(as_system(THREE))
    grid = naive.states((2, 3, 1)).reshape(3, 4, 2, 3)
    many = np.asarray(bound.allocate(grid))
    assert many.shape == grid.shape
    assert np.allclose(np.asarray(bound.allocate(np.array([2, 3, 1]))), many[2, 3, 1], rtol=0, atol=1e-12)


@EVERY
def test_three_classes_on_a_box(as_system: Build, policy: Callable[[], cw.Policy], twin: Twin) -> None:
    """The blocking model (Assumption 3.4): every field, overall and per class."""
    capacity = (9, 7, 8)
    expected = naive.evaluate(THREE, capacity, twin(THREE, naive.states(capacity)))
    ours = cw.evaluate(as_system(THREE), policy(), capacity=capacity)
    assert ours.mean_jobs == pytest.approx(expected.mean_jobs, rel=1e-9)
    assert ours.mean_cost == pytest.approx(expected.cost, rel=1e-9)
    assert ours.mean_response_time == pytest.approx(expected.mean_jobs / expected.throughput.sum(), rel=1e-9)
    assert ours.edge_probability == pytest.approx(expected.edge, rel=1e-8)
    assert ours.utilisation == pytest.approx(expected.used, rel=1e-9)
    for i, name in enumerate(THREE.names):
        share = ours.classes[name]
        assert share.mean_jobs == pytest.approx(expected.jobs[i], rel=1e-9)
        assert share.mean_cost == pytest.approx(THREE.jobs[i].weight * expected.jobs[i], rel=1e-9)
        assert share.mean_response_time == pytest.approx(expected.jobs[i] / expected.throughput[i], rel=1e-9)


@pytest.mark.slow
@EVERY
def test_no_box_means_no_blocking(as_system: Build, policy: Callable[[], cw.Policy], twin: Twin) -> None:
    """Without a capacity: the value of a box far larger than needed; Little's law overall and per class."""
    three = naive.Model(THREE.cores, tuple(replace(job, arrival=0.3 * job.arrival) for job in THREE.jobs))
    expected = naive.evaluate(three, 18, twin(three, naive.states((18, 18, 18))))
    assert expected.edge < 2e-9
    ours = cw.evaluate(as_system(three), policy())
    assert ours.mean_jobs == pytest.approx(expected.mean_jobs, abs=1e-7)
    assert ours.mean_response_time == pytest.approx(ours.mean_jobs / three.arrivals.sum(), rel=1e-12)
    for job, name in zip(three.jobs, three.names, strict=True):
        share = ours.classes[name]
        assert share.mean_response_time == pytest.approx(share.mean_jobs / job.arrival, rel=1e-12)
    assert ours.mean_jobs == pytest.approx(sum(s.mean_jobs for s in ours.classes.values()), rel=1e-12)
    assert ours.edge_probability < 1e-9


TWO_POLICIES: dict[str, tuple[Callable[[], cw.Policy], Twin]] = {
    "equi": (cw.Equi, naive.equi),
    "fixed": (lambda: cw.Fixed((0.6, 0.4)), lambda m, n: naive.fixed(m, n, (0.6, 0.4))),
    "priority": (lambda: cw.Priority(("class1", "class0")), lambda m, n: naive.priority(m, n, (1, 0))),
    "greedy": (cw.Greedy, naive.greedy),
    "whittle": (cw.Whittle, naive.whittle),
}


@pytest.mark.slow
@pytest.mark.parametrize(("policy", "twin"), TWO_POLICIES.values(), ids=TWO_POLICIES.keys())
def test_the_chosen_box_does_not_matter(
    as_system: Build, policy: Callable[[], cw.Policy], twin: Twin
) -> None:
    """A real number of cores: equal to the twin on 90 x 90, and to twice the chosen box, to 1e-8."""
    system = as_system(TWO)
    ours = cw.evaluate(system, policy())
    expected = naive.evaluate(TWO, 90, twin(TWO, naive.states((90, 90))))
    assert expected.edge < 1e-11
    assert ours.mean_jobs == pytest.approx(expected.mean_jobs, abs=1e-8)
    for i, name in enumerate(TWO.names):
        assert ours.classes[name].mean_jobs == pytest.approx(expected.jobs[i], abs=1e-8)
    doubled = cw.evaluate(system, policy(), capacity=[2 * n for n in ours.capacity])
    assert ours.mean_jobs == pytest.approx(doubled.mean_jobs, abs=1e-8)


@pytest.mark.parametrize(("policy", "twin"), TWO_POLICIES.values(), ids=TWO_POLICIES.keys())
def test_utilisation_is_the_probability_of_some_job(
    as_system: Build, policy: Callable[[], cw.Policy], twin: Twin
) -> None:
    """Every policy here uses all cores whenever a job is present."""
    expected = naive.evaluate(TWO, (30, 30), twin(TWO, naive.states((30, 30))))
    ours = cw.evaluate(as_system(TWO), policy(), capacity=30)
    assert ours.utilisation == pytest.approx(1.0 - expected.distribution[0], abs=1e-10)


def test_a_given_box_blocks(as_system: Build) -> None:
    """A capacity is another model: fewer jobs, a positive probability at the edge, shorter responses."""
    system = as_system(TWO)
    boxed, free = cw.evaluate(system, cw.Equi(), capacity=4), cw.evaluate(system, cw.Equi())
    assert boxed.mean_jobs < free.mean_jobs - 0.05
    assert boxed.edge_probability > 0.01
    assert boxed.mean_response_time < free.mean_response_time


def test_an_integer_capacity_is_the_same_for_every_class(as_system: Build) -> None:
    """capacity=6 means counts 0…6 in every class."""
    system = as_system(TWO)
    one = cw.evaluate(system, cw.Whittle(), capacity=6).mean_jobs
    assert one == pytest.approx(cw.evaluate(system, cw.Whittle(), capacity=(6, 6)).mean_jobs, rel=1e-14)
    twin = naive.evaluate(TWO, 6, naive.whittle(TWO, naive.states((6, 6))))
    assert one == pytest.approx(twin.mean_jobs, rel=1e-9)


def test_a_bound_policy_keeps_the_system_it_was_made_for(as_system: Build) -> None:
    """DESIGN section 1: a policy of wrong curves runs on the true plant; the truth does not leak into it."""
    believed = naive.two(7.5, (2.5, 1.5), (1.0, 0.8), (naive.amdahl(0.9), naive.power(0.1)))
    counts = naive.states((20, 20))
    wrong = cw.Whittle().on(as_system(believed))
    ours = cw.evaluate(as_system(TWO), wrong, capacity=20).mean_jobs
    expected = naive.evaluate(TWO, 20, naive.whittle(believed, counts)).mean_jobs
    assert ours == pytest.approx(expected, rel=1e-9)
    leaked = naive.evaluate(TWO, 20, naive.whittle(TWO, counts)).mean_jobs
    assert abs(ours - leaked) > 1e-3


@pytest.mark.parametrize("seed", range(6))
def test_random_systems_on_a_box(as_system: Build, seed: int) -> None:
    """Random rates, weights and curves of the four smooth families, K = 1 to 4, EQUI and GREEDY*."""
    rng = np.random.default_rng(seed)
    classes = 1 + seed % 4
    makers: list[Callable[[float], naive.Curve]] = [
        naive.amdahl,
        naive.power,
        naive.gustafson,
        lambda u: naive.usl(u / 3, u / 30),
    ]
    jobs = tuple(
        naive.Job(
            float(rng.uniform(0.2, 1.5)),
            float(rng.uniform(0.5, 3.0)),
            makers[int(rng.integers(4))](float(rng.uniform(0.05, 0.95))),
            float(rng.uniform(0.5, 4.0)),
        )
        for _ in range(classes)
    )
    model = naive.Model(float(classes * rng.uniform(2, 6)), jobs)
    capacity = {1: (50,), 2: (15, 12), 3: (7, 8, 6), 4: (4, 5, 4, 3)}[classes]
    counts = naive.states(capacity)
    for policy, table in ((cw.Equi(), naive.equi), (cw.Greedy(), naive.greedy)):
        expected = naive.evaluate(model, capacity, table(model, counts))
        ours = cw.evaluate(as_system(model), policy, capacity=capacity)
        assert ours.mean_cost == pytest.approx(expected.cost, rel=1e-9)
        assert ours.mean_jobs == pytest.approx(expected.mean_jobs, rel=1e-9)


def test_the_twin_itself() -> None:
    """The sparse twin against a dense null vector, and mass balance: throughput = accepted arrivals."""
    capacity = (4, 3)
    counts = naive.states(capacity)
    cores = naive.whittle(TWO, counts)
    result = naive.evaluate(TWO, capacity, cores)
    Q = naive.generator(TWO, capacity, counts, cores).toarray()
    assert np.allclose(Q.sum(axis=1), 0.0, atol=1e-12)
    dense = np.linalg.lstsq(np.vstack([Q.T, np.ones(len(Q))]), np.r_[np.zeros(len(Q)), 1.0], rcond=None)[0]
    assert np.allclose(dense, result.distribution, atol=1e-12)
    for i in range(2):
        accepted = TWO.jobs[i].arrival * result.distribution[counts[:, i] < capacity[i]].sum()
        assert result.throughput[i] == pytest.approx(accepted, rel=1e-12)


def test_idle_cores_are_not_counted_as_used() -> None:
    """A policy of one's own that leaves half of the cores idle uses half of them while a job is present."""
    system = cw.load_system("paper:2")
    rule = cw.Equi().on(system).decision
    half = BoundPolicy(system, "half", lambda counts: 0.5 * rule(counts))
    result = cw.evaluate(system, half)
    small = cw.System(system.cores / 2, system.classes)
    same = cw.evaluate(small, cw.Equi())
    assert result.mean_jobs == pytest.approx(same.mean_jobs, rel=1e-12)
    assert result.utilisation == pytest.approx(0.5 * same.utilisation, rel=1e-12)


def test_progress_rises_to_the_end_of_the_last_box(monkeypatch: pytest.MonkeyPatch) -> None:
    """Boxes count for their share of the states foretold; a given box is all there is, a small one a step."""
    system = cw.System(
        4, [cw.JobClass(name, 1.0, rate, cw.Amdahl(0.6)) for name, rate in (("a", 1), ("b", 3))]
    )
    steps: list[float] = []
    cw.evaluate(system.at_load(0.9), "whittle", capacity=(20, 9), progress=steps.append)
    assert steps == [1.0]
    monkeypatch.setattr("corewise.analysis.chain._SMALL_WORK", 0.0)
    for capacity in (None, (20, 9)):
        shares: list[float] = []
        found = cw.evaluate(system.at_load(0.9), "whittle", capacity=capacity, progress=shares.append)
        assert found == cw.evaluate(system.at_load(0.9), "whittle", capacity=capacity)
        assert all(0.0 <= share <= 1.0 for share in shares)
        assert shares[-1] == max(shares) > 0.3
        assert len(shares) > 2


def test_a_box_far_beyond_memory_is_refused_at_once() -> None:
    """Four classes near saturation: not after minutes of growing boxes; EQUI with one curve needs no box."""
    jobs = [cw.JobClass(str(i), 1.0, 1.0 + 0.2 * i, cw.Amdahl(0.2 + 0.2 * i)) for i in range(4)]
    system = cw.System(64, jobs).at_load(0.995)
    for policy in ("whittle", "equi"):
        with pytest.raises(
            cw.errors.BoxTooLarge, match=rf"{policy} at load 0\.995 needs a box of about \de\+"
        ):
            cw.evaluate(system, policy)
    with pytest.raises(cw.errors.BoxTooLarge, match="compare and simulate do without a box"):
        cw.solve(system)
    alike = cw.System(64, [replace(job, speedup=cw.Amdahl(0.5)) for job in jobs]).at_load(0.995)
    assert cw.evaluate(alike, "equi").mean_jobs > 64.0
