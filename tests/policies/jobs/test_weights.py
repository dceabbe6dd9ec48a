"""Weights of jobs against what is known exactly."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import corewise as cw
from corewise.kit.arrays import Floats, Ints
from corewise.policies.jobs import _kernels as kernels
from corewise.policies.jobs._kernels import Curves
from corewise.policies.jobs.curves import curve_of, packed, table_curves
from corewise.policies.jobs.weights import NO_CROWD, Groups, crowd_of, lift_factor, weights_of_groups
from tests.helpers.twins import not_compared, same


def some_curves(kind: str, rng: np.random.Generator, count: int, cores: float) -> Curves:
    match kind:
        case "amdahl":
            return packed([curve_of(cw.Amdahl(p), cores) for p in rng.uniform(0.0, 1.0, count)])
        case "power":
            return packed([curve_of(cw.PowerLaw(p), cores) for p in rng.uniform(0.1, 0.99, count)])
        case "usl":
            shapes = [cw.Usl(0.2 * a, 0.01 * b) for a, b in rng.random((count, 2))]
            return packed([curve_of(curve, cores) for curve in shapes])
        case "limited":
            limits = rng.integers(1, 4, count).tolist()
            return packed([curve_of(cw.Amdahl(0.9), cores, 0, limit) for limit in limits])
    tables = np.zeros((count, int(cores) + 1))
    tables[:, 1:] = np.maximum(np.cumsum(rng.normal(0.6, 0.8, (count, int(cores))), axis=1), 0.05)
    return table_curves(tables, [1] * count, [int(cores)] * count)


def naive_speed(curves: Curves, i: int, z: float) -> float:
    forms, parameters, limits, starts, widths, speeds = curves
    if forms[i] == kernels.CORNERS:
        part = slice(starts[i], starts[i + 1])
        return float(np.interp(z, widths[part], speeds[part]))
    z, p = min(z, limits[i]), parameters[i]
    if z <= 1.0:
        return z
    return float(z / ((1 - p) * z + p) if forms[i] == kernels.AMDAHL else z**p)


def best_weighted_speed(curves: Curves, kinds: Ints, weights: Floats, cores: float) -> float:
    """By the dual: the least over prices of the price of all cores and what each job gains at it."""
    z = np.concatenate([[0.0], np.geomspace(0.01, cores, 4000), np.arange(1.0, cores + 1.0)])
    speeds = np.array([[naive_speed(curves, int(i), width) for width in z] for i in kinds])

    def dual(price: float) -> float:
        gains = (weights[:, None] * speeds - price * z).max(axis=1)
        return price * cores + float(gains.sum())

    low, high = 0.0, float((weights[:, None] * speeds[:, 1:] / z[1:]).max())
    for _ in range(200):
        a, b = low + (high - low) / 3.0, high - (high - low) / 3.0
        low, high = (low, b) if dual(a) <= dual(b) else (a, high)
    return dual(0.5 * (low + high))


@pytest.mark.parametrize("kind", ["amdahl", "power", "usl", "limited", "tables"])
def test_best_weighted_speed_of_the_m_largest_jobs_is_m(kind: str) -> None:
    rng = np.random.default_rng(3)
    for jobs, cores in ((1, 6.0), (5, 8.0), (12, 5.0)):
        curves, kinds = some_curves(kind, rng, jobs, cores), np.arange(jobs)
        weights, ones = np.zeros(jobs), np.ones(jobs)
        kernels.batch_weights(curves, kinds, ones, ones, cores, weights)
        out = np.zeros(jobs)
        for m in range(1, jobs + 1):
            caps = np.full(m, np.inf)
            kernels.water_fill(curves, kinds[:m], ones[:m], weights[:m], caps, cores, out[:m])
            speed = sum(weights[k] * naive_speed(curves, k, out[k]) for k in range(m))
            assert out[:m].sum() <= cores * (1.0 + 1e-12)
            assert speed == pytest.approx(m, rel=1e-9)
            assert best_weighted_speed(curves, kinds[:m], weights[:m], cores) == pytest.approx(m, rel=2e-4)


@pytest.mark.parametrize("p", [0.3, 0.5, 0.8])
def test_power_laws_are_hesrpt(p: float) -> None:
    """w_m = c^−p (m^q − (m − 1)^q)^(1 − p), q = 1/(1 − p), where no job holds less than a core."""
    cores, jobs, q = 1e6, 9, 1.0 / (1.0 - p)
    curves = packed([curve_of(cw.PowerLaw(p), cores)])
    weights, ones = np.zeros(jobs), np.ones(jobs)
    price = kernels.batch_weights(curves, np.zeros(jobs, dtype=np.int64), ones, ones, cores, weights)
    m = np.arange(1, jobs + 1)
    assert weights == pytest.approx(cores**-p * (m**q - (m - 1) ** q) ** (1.0 - p), rel=1e-9)
    assert price == pytest.approx(p * jobs / cores, rel=1e-6)
    shares = np.zeros(jobs)
    kernels.water_fill(
        curves, np.zeros(jobs, dtype=np.int64), ones, weights, np.full(jobs, np.inf), cores, shares
    )
    assert shares / cores == pytest.approx((m / jobs) ** q - ((m - 1) / jobs) ** q, rel=1e-9)


def test_one_server_is_the_shortest_remaining_time_first() -> None:
    curves = packed([curve_of(cw.Amdahl(1.0), 1.0)])
    weights, ones, kinds = np.zeros(6), np.ones(6), np.zeros(6, dtype=np.int64)
    kernels.batch_weights(curves, kinds, ones, ones, 1.0, weights)
    assert weights == pytest.approx(np.arange(1.0, 7.0), rel=1e-12)
    out = np.zeros(6)
    kernels.water_fill(curves, kinds, ones, weights, np.full(6, np.inf), 1.0, out)
    assert out.tolist() == [0.0] * 5 + [1.0]


def test_more_jobs_than_cores_without_parallel_work_get_one_core_each_the_shortest_first() -> None:
    curves = packed([curve_of(cw.Amdahl(0.0), 4.0)])
    weights, ones, kinds = np.zeros(10), np.ones(10), np.zeros(10, dtype=np.int64)
    kernels.batch_weights(curves, kinds, ones, ones, 4.0, weights)
    assert weights == pytest.approx(np.ceil(np.arange(1, 11) / 4))


def test_a_batch_of_unequal_jobs_is_no_worse_than_any_other_order_of_weights() -> None:
    """The value Σ w R is the flow time: three jobs of one curve, played out to the end."""

    def flow(remaining: Floats, weigh: bool) -> float:
        curve, left, total = cw.Amdahl(0.9), np.sort(remaining)[::-1].copy(), 0.0
        curves = packed([curve_of(curve, 8.0)])
        while left.size:
            kinds, ones = np.zeros(left.size, dtype=np.int64), np.ones(left.size)
            weights, out = np.ones(left.size), np.zeros(left.size)
            if weigh:
                kernels.batch_weights(curves, kinds, ones, ones, 8.0, weights)
            kernels.water_fill(curves, kinds, ones, weights, np.full(left.size, np.inf), 8.0, out)
            speed = curve.rate(out)
            step = (left / np.maximum(speed, 1e-300)).min()
            total += step * left.size
            left = left - speed * step
            left = left[left > 1e-12]
        return total

    curves = packed([curve_of(cw.Amdahl(0.9), 8.0)])
    rng = np.random.default_rng(5)
    for _ in range(5):
        remaining = np.sort(rng.lognormal(size=4))[::-1]
        weights, ones = np.zeros(4), np.ones(4)
        kernels.batch_weights(curves, np.zeros(4, dtype=np.int64), ones, ones, 8.0, weights)
        assert flow(remaining, True) == pytest.approx(float(weights @ remaining), rel=1e-9)
        assert flow(remaining, True) < flow(remaining, False)


def test_groups_are_jobs_that_share_a_weight() -> None:
    """At load zero the weights are those of the recursion, to the digit; a load lifts them all."""
    curves = packed([curve_of(cw.Amdahl(p), 8.0) for p in (0.5, 0.95)])
    groups = Groups(np.array([0, 1, 1]), np.array([2.0, 0.5, 3.0]), np.ones(3), np.array([1.0, 9.0, 3.0]))
    batch = np.zeros(3)
    order = np.array([1, 2, 0])
    price = kernels.batch_weights(curves, groups.kinds[order], groups.counts[order], np.ones(3), 8.0, batch)
    found, last = weights_of_groups(curves, groups, 8.0, lift_factor(0.0))
    assert found[order].tobytes() == batch.tobytes()
    assert last == price
    lifted, _ = weights_of_groups(curves, groups, 8.0, lift_factor(0.8))

    def kappa(p: float, level: float) -> float:
        root = (np.sqrt(1.0 - p) + np.sqrt(level * p)) ** 2
        return float(root if level * (1.0 - p) < p else 1.0 + level)

    expected = [kappa(p, 3.4 * price) - kappa(p, price) for p in (0.5, 0.95, 0.95)]
    assert lifted - found == pytest.approx(expected, rel=1e-9)


def test_the_long_run_price_is_that_of_the_fluid() -> None:
    """Amdahl: cores ρ ((1 − p) z + p) = c, and ℓ̄ z² (1 − p) = p; the crowd of exponential sizes is built by
    1 − exp(−μ r), and a job of little work keeps its weight."""
    p, load, cores, rate = 0.9, 0.7, 8.0, 0.5
    system = cw.System(cores, [cw.JobClass("a", load * cores * rate, rate, cw.Amdahl(p))])
    crowd = crowd_of(system, load)
    z = (1.0 / load - p) / (1.0 - p)
    price = p / ((1.0 - p) * z * z)
    assert crowd.price == pytest.approx(price, rel=1e-9)
    works = np.array([1e-6, 0.3, 2.0, 1e5])
    kinds, ones, weights = np.zeros(4, dtype=np.int64), np.ones(4), np.full(4, 0.2)
    kernels.revert(packed([curve_of(cw.Amdahl(p), cores)]), kinds, ones, works, crowd, weights)
    level = (np.sqrt(1.0 - p) + np.sqrt(price * p)) ** 2
    built = 1.0 - np.exp(-rate * works * (1.0 - p * load))
    assert weights == pytest.approx(0.2 + built * (level - 0.2), rel=2e-3)
    above = np.full(4, 1.1 * level)
    kernels.revert(packed([curve_of(cw.Amdahl(p), cores)]), kinds, ones, works, crowd, above)
    assert above.tolist() == [1.1 * level] * 4


@pytest.mark.parametrize("law", [cw.sizes.Lognormal(4.0), cw.sizes.Deterministic(), cw.sizes.Pareto(1.5)])
def test_the_crowd_is_built_up_by_the_equilibrium_distribution(law: cw.sizes.SizeLaw) -> None:
    """∫ P(X > r) dr/E[X], against the trapezoidal rule."""
    crowd = crowd_of(cw.System(4.0, [cw.JobClass("a", 2.0, 1.0, cw.Amdahl(0.9), sizes=law)]), 0.5)
    works = np.exp2(crowd.first + np.arange(crowd.built.size) / kernels.PER_OCTAVE)
    for k in (8, 20, 36, 50):
        r = np.linspace(0.0, works[k], 200_001)
        assert crowd.built[k] == pytest.approx(np.trapezoid(law.survival(r), r), abs=1e-4)
    assert np.all(np.diff(crowd.built) >= -1e-12)
    assert crowd.built[-1] <= 1.0 + 1e-12


def test_no_crowd_without_a_load_or_sizes() -> None:
    known = cw.System(4.0, [cw.JobClass("a", 2.0, 1.0, cw.Amdahl(0.9))])
    unknown = cw.System(4.0, [cw.JobClass("a", None, None, cw.Amdahl(0.9))])
    assert crowd_of(known, 0.0) is NO_CROWD
    assert crowd_of(unknown, 0.5) is NO_CROWD
    assert crowd_of(known, 1.0).price == crowd_of(known, 3.0).price < np.inf
    serial = cw.System(4.0, [cw.JobClass("a", 2.0, 1.0, cw.Amdahl(0.0))])
    assert np.all(np.isfinite(crowd_of(serial, 0.5).built))


def test_lift() -> None:
    assert lift_factor(0.5) == pytest.approx(0.6)
    assert lift_factor(0.99) == lift_factor(1.0) == lift_factor(3.0) == 8.0


@pytest.mark.parametrize("kind", ["amdahl", "power", "usl", "limited", "tables"])
def test_kernels_are_their_sources(kind: str) -> None:
    rng = np.random.default_rng(1)
    jobs, cores = 7, 6.0
    curves, kinds = some_curves(kind, rng, jobs, cores), np.arange(jobs)
    counts, costs, weights = rng.uniform(0.5, 2.0, jobs), rng.uniform(0.5, 2.0, jobs), np.zeros(jobs)
    same(kernels.batch_weights, curves, kinds, counts, costs, cores, weights)
    out = np.zeros(jobs)
    same(kernels.water_fill, curves, kinds, counts, weights, np.full(jobs, 3.0), cores, out)
    same(kernels.unit_costs, curves, kinds, costs, 0.3, out)
    same(kernels._unit_cost, curves, 2, 0.3, 1.0)
    same(kernels.lifts, curves, kinds, costs, 0.3, 0.7, out)
    crowd = kernels.Crowd(0.4, -2.0, np.linspace(0.1, 0.9, 17))
    for work in (0.0, 0.01, 0.6, 1.0, 1e9):
        same(kernels._built, crowd, work)
    same(kernels.revert, curves, kinds, costs, counts, crowd, 0.1 * counts)
    same(kernels.crowd_price, curves, costs, 0.1 * counts, cores)
    bins = kernels.Bins(kinds, costs, counts, np.full(jobs, 0.9))
    present = rng.integers(0, 3, (jobs, 4))
    same(kernels.cores_by_counts, curves, bins, crowd, 1.2, cores, 4.0, present, np.zeros(present.shape))
    same(kernels.index_price, curves, kinds, costs, cores)
    same(kernels._at_price, curves, kinds, counts, weights, 4, 0.2, 5.0, cores)
    same(kernels._next_weight, curves, kinds, counts, weights, 4, 5.0, cores, 0.1, 0.1)
    same(kernels._newton_price, 0.3, 6.5, 4.0, cores)
    same(kernels._last_drop, counts, weights, 4, 0.1, 9.0, 0.5)
    same(kernels._demand_at, curves, kinds, counts, weights, np.full(jobs, 3.0), 0.2)
    same(kernels._first_price, curves, kinds, counts, weights, cores)
    same(kernels._fill_at, curves, kinds, weights, np.full(jobs, 3.0), 0.2, out)
    same(kernels._cores_held, np.ones(jobs), weights)
    for z in (0.3, 1.0, 2.5, 6.0):
        same(kernels._speed, curves, 1, z)
        same(kernels._left_slope, curves, 1, z)
        same(kernels.demand, curves, 1, 1.0 / z)
        same(kernels._taken, curves, 1, 1.0 / z)
        same(kernels._cheapest, curves, 1, z, 1.0)
    if kind == "tables":
        same(kernels._piece, curves[3], curves[4], 1, 2.5)


def test_kernels_of_tables_are_their_sources() -> None:
    rng = np.random.default_rng(2)
    values = np.concatenate([np.zeros((6, 1)), rng.normal(1.0, 1.0, (6, 9))], axis=1)
    values[2, 1:3] = -np.inf
    out = np.zeros(6, dtype=np.int64)
    same(kernels.knapsack, values, 12, out)
    taken = np.zeros((6, 13), dtype=np.int64)
    same(kernels.knapsack_table, values, 12, np.zeros(13), taken)
    same(kernels.read_widths, taken, 12, out)
    same(kernels.greedy_widths, values, 12, out)
    same(kernels._best_step, values, 1, 2, 3)
    out[:] = 0
    same(kernels._best_gain, values, np.arange(6), out, 2, 3, 0.0)
    same(kernels._repair, values, np.arange(6), 12, out)
    starts, widths, heights = np.zeros(7, dtype=np.int64), np.zeros(61), np.zeros(61)
    lows, highs = np.ones(6, dtype=np.int64), np.full(6, 9)
    same(kernels.concave_corners, values, lows, highs, starts, widths, heights)
    curves = (np.full(6, kernels.CORNERS), np.zeros(6), np.zeros(6), starts, widths, heights)
    same(kernels._corners_at, curves, 0.3, out)


def test_every_kernel_is_compared() -> None:
    assert not_compared(kernels, "kernels", Path(__file__).read_text(encoding="utf-8")) == []
