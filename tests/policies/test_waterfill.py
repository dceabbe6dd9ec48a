"""The concave split against searches that know nothing of prices, and against its own other kernel.

The value of a split x is sum_i w_i n_i s_i(x_i/n_i), sum x_i = budget. Sizes are one here, so that
the offers w stand alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import corewise as cw
from corewise.kit.arrays import Floats, Ints
from corewise.policies.waterfill.demand import index_shapes, linear_width, marginal_shapes
from corewise.policies.waterfill.levels.steps import LevelSteps
from corewise.policies.waterfill.split import certified_split, full_speeds, priced_split, ranked, split
from tests.helpers import naive

Build = Callable[[naive.Model], cw.System]

NEAR = 1 - 1e-6
CURVES: dict[str, naive.Curve] = {
    "amdahl 0": naive.amdahl(0.0),
    "amdahl": naive.amdahl(0.6),
    "amdahl near 1": naive.amdahl(NEAR),
    "amdahl 1": naive.amdahl(1.0),
    "power 0": naive.power(0.0),
    "power": naive.power(0.4),
    "power near 1": naive.power(NEAR),
    "power 1": naive.power(1.0),
    "gustafson": naive.gustafson(0.3),
    "gustafson 1": naive.gustafson(1.0),
    "usl": naive.usl(0.1, 0.03),
    "usl without kappa": naive.usl(0.4, 0.0),
    "tabulated": naive.tabulated((2.0, 1.6), (4.0, 2.4), (9.0, 3.0)),
}
NAMES = list(CURVES)
PAIRS = [(a, b) for i, a in enumerate(NAMES) for b in NAMES[i:]]
LOSS = {"usl": 1e-8}  # relative; a sampled tail is exact only at its nodes


def model_of(names: tuple[str, ...], cores: float) -> naive.Model:
    return naive.Model(cores, tuple(naive.Job(0.01, 1.0, CURVES[name]) for name in names))


def value(model: naive.Model, counts: Ints, offers: Floats, cores: Floats) -> Floats:
    """What a split is worth in every state; arrays of shape (K, states)."""
    return np.asarray((offers.T * naive.departures(model, counts.T, cores.T)).sum(axis=1))


def best_of_two(model: naive.Model, counts: Ints, offers: Floats, budget: Floats) -> Floats:
    """The best value of two classes: a grid of splits, and ever finer ones about the best point."""
    low, high = np.zeros(budget.shape), budget.copy()
    best = np.full(budget.shape, -np.inf)
    for _ in range(14):
        grid = low + np.linspace(0.0, 1.0, 41)[:, None] * (high - low)
        kinks = np.clip(np.stack([counts[0], budget - counts[1]]), 0.0, budget)  # one core a job
        grid = np.concatenate([grid, kinks])
        worth = np.stack([value(model, counts, offers, np.stack([x, budget - x])) for x in grid])
        best = np.maximum(best, worth.max(axis=0))
        at = np.take_along_axis(grid, worth.argmax(axis=0)[None], axis=0)[0]
        step = (high - low) / 40.0
        low, high = np.maximum(at - step, 0.0), np.minimum(at + step, budget)
    return best


def check_split(counts: Ints, budget: Floats, cores: Floats) -> None:
    """All of the budget, nothing negative, nothing to an absent class."""
    some = counts.sum(axis=0) > 0
    assert np.allclose(cores.sum(axis=0)[some], budget[some], rtol=0, atol=1e-9)
    assert cores.min() >= 0.0
    assert not cores[counts == 0].any()


def draw(rng: np.random.Generator, classes: int, states: int, cores: float) -> tuple[Ints, Floats, Floats]:
    """Counts, offers and budgets; some classes absent, some offers zero, some tied, some budgets zero."""
    counts = rng.integers(0, 6, (classes, states))
    offers = rng.choice([0.0, 0.5, 1.0, 1.0, 2.0, 7.0], (classes, states))
    free = rng.random(states) < 0.5
    offers[:, free] = np.exp(rng.uniform(-3, 3, (classes, int(free.sum()))))
    budget = cores * rng.choice([0.0, 0.1, 0.37, 0.8, 1.0, 1.0], states)
    return counts, offers, budget


@pytest.mark.parametrize("names", PAIRS, ids=" and ".join)
def test_two_classes_against_a_grid(as_system: Build, names: tuple[str, str]) -> None:
    """Every pair of curves: value as high as the search finds, in both kernels."""
    rng = np.random.default_rng([NAMES.index(name) for name in names])
    model = model_of(names, 11.0)
    counts, offers, budget = draw(rng, 2, 40, 11.0)
    best = best_of_two(model, counts, offers, budget)
    shapes = marginal_shapes(as_system(model))
    loss = max(LOSS.get(name, 1e-12) for name in names)
    arguments = (shapes, counts, offers, budget)
    for cores in (split(*arguments), priced_split(*arguments)[0]):
        check_split(counts, budget, cores)
        worth = value(model, counts, offers, cores)
        assert np.all(worth >= best - loss * (1.0 + best))
        assert np.all(worth <= best + 1e-7 * (1.0 + best))  # else the search has missed the maximum


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(14))
def test_three_classes_against_exchanges_of_pairs(as_system: Build, seed: int) -> None:
    rng = np.random.default_rng(seed)
    names = tuple(rng.choice(NAMES, 3).tolist())
    full = float(rng.choice([1.0, 4.0, 9.5, 25.0]))
    counts, offers, _ = draw(rng, 3, 24, full)
    shapes = marginal_shapes(as_system(model_of(names, full)))
    loss = max(LOSS.get(name, 1e-11) for name in names)
    for part in (0.4, 1.0):
        budget = np.full(24, part * full)
        model = model_of(names, part * full)
        twin = naive.searched_split(model, counts.T, offers.T).T
        cores = split(shapes, counts, offers, budget)
        check_split(counts, budget, cores)
        best = value(model, counts, offers, twin)
        assert np.all(value(model, counts, offers, cores) >= best - loss * (1.0 + best)), names


@pytest.mark.parametrize("short", [1e-3, 1e-4, 1e-5, 1e-6, 1e-7])
@pytest.mark.parametrize("other", ["amdahl", "power"])
def test_tails_that_are_nearly_straight(as_system: Build, short: float, other: str) -> None:
    """p = 1 - short: slopes differ in the last digits, and still decide who gets the cores."""
    first = naive.amdahl(1 - short) if other == "amdahl" else naive.power(1 - 2 * short)
    jobs = (naive.Job(0.01, 1.0, first), naive.Job(0.01, 1.0, naive.power(1 - short)))
    model = naive.Model(11.0, jobs)
    counts = np.ascontiguousarray(naive.states((4, 4)).T)
    offers, budget = np.ones(counts.shape), np.full(counts.shape[1], 11.0)
    cores = split(marginal_shapes(as_system(model)), counts, offers, budget)
    check_split(counts, budget, cores)
    best = best_of_two(model, counts, offers, budget)
    worth = value(model, counts, offers, cores)
    assert np.max(best - worth) <= 1e-12 * best.max()


def test_a_certificate_with_nearly_straight_tails_is_true(as_system: Build) -> None:
    """The lower bound of `solve` is below the cost that the slow twin attains."""
    jobs = (naive.Job(4.0, 1.0, naive.amdahl(1 - 1e-5)), naive.Job(4.0, 1.0, naive.power(1 - 1e-5)))
    model = naive.Model(11.0, jobs)
    solution = cw.solve(as_system(model), capacity=8)
    attained = naive.optimum(model, 8)[0].cost
    assert solution.bounds[0] <= attained + 1e-11
    assert attained <= solution.bounds[1] + 1e-11


def test_budgets_and_offers_belong_to_their_own_state(as_system: Build) -> None:
    """A state among many is split as it would be alone."""
    rng = np.random.default_rng(5)
    for names in (("amdahl", "amdahl 0", "amdahl 1"), ("usl", "power", "tabulated")):
        shapes = marginal_shapes(as_system(model_of(names, 8.0)))
        counts, offers, budget = draw(rng, 3, 30, 8.0)
        together = split(shapes, counts, offers, budget)
        for s in range(30):
            one = np.ascontiguousarray(counts[:, [s]]), np.ascontiguousarray(offers[:, [s]])
            assert np.array_equal(split(shapes, *one, budget[[s]])[:, 0], together[:, s])


def test_offers_for_all_states_at_once(as_system: Build) -> None:
    shapes = marginal_shapes(as_system(model_of(("amdahl", "power"), 6.0)))
    counts = np.array([[1, 2, 0], [3, 1, 2]])
    prices, budget = np.array([1.0, 2.0]), np.full(3, 6.0)
    each = np.ascontiguousarray(np.broadcast_to(prices[:, None], (2, 3)))
    assert np.array_equal(split(shapes, counts, prices, budget), split(shapes, counts, each, budget))


CLOSED = ["amdahl 0", "amdahl", "amdahl near 1", "amdahl 1", "usl without kappa"]


@pytest.mark.parametrize("seed", range(30))
def test_the_closed_and_the_general_kernel_agree(as_system: Build, seed: int) -> None:
    """In value everywhere, and in cores where no two offers are tied and none is zero."""
    rng = np.random.default_rng(seed)
    classes = int(rng.integers(1, 5))
    names = tuple(rng.choice(CLOSED, classes).tolist())
    full = float(rng.choice([0.6, 1.0, 5.0, 30.0]))
    model = model_of(names, full)
    shapes = marginal_shapes(as_system(model))
    assert shapes.closed
    counts, offers, budget = draw(rng, classes, 60, full)
    closed = split(shapes, counts, offers, budget)
    general = priced_split(shapes, counts, offers, budget)[0]
    check_split(counts, budget, closed)
    check_split(counts, budget, general)
    ours, other = (value(model, counts, offers, cores) for cores in (closed, general))
    assert np.allclose(ours, other, rtol=1e-12, atol=1e-12), names
    plain = [len({*column.tolist(), 0.0}) == classes + 1 for column in offers.T]
    if not {"amdahl near 1"} & set(names):
        assert np.allclose(closed[:, plain], general[:, plain], rtol=0, atol=1e-9), names


def test_one_class_and_none(as_system: Build) -> None:
    for name in NAMES:
        shapes = marginal_shapes(as_system(model_of((name, name), 3.5)))
        counts = np.array([[0, 4, 0], [0, 0, 1]])
        cores = split(shapes, counts, np.array([1.0, 0.0]), np.full(3, 3.5))
        assert cores.tolist() == [[0.0, 3.5, 0.0], [0.0, 0.0, 3.5]], name


def test_offers_of_nothing_still_leave_no_core_idle(as_system: Build) -> None:
    """At price zero everybody takes more; a class that offers something goes first while it gains."""
    for names in (("amdahl", "amdahl 0"), ("usl", "power"), ("gustafson", "tabulated")):
        shapes = marginal_shapes(as_system(model_of(names, 6.0)))
        counts, budget = np.array([[2, 2], [1, 1]]), np.full(2, 6.0)
        offers = np.array([[0.0, 1.0], [0.0, 0.0]])
        cores = split(shapes, counts, offers, budget)
        check_split(counts, budget, cores)
        assert cores[0, 1] > 2.0  # one core each at least: the first core is always worth its price


def test_negative_offers_count_as_nothing(as_system: Build) -> None:
    """Far from convergence a value step may be below zero."""
    for names in (("amdahl", "amdahl 0"), ("usl", "power")):
        system = as_system(model_of(names, 6.0))
        shapes = marginal_shapes(system)
        counts, budget = np.array([[2, 2], [1, 1]]), np.full(2, 6.0)
        below = split(shapes, counts, np.array([[1.0, -1.0], [-5.0, -2.0]]), budget)
        nothing = split(shapes, counts, np.array([[1.0, 0.0], [0.0, 0.0]]), budget)
        assert np.array_equal(below, nothing)


# --- who goes first -------------------------------------------------------------------------------


def test_the_lowest_rank_takes_first_at_a_jump(as_system: Build) -> None:
    """Equal offers, more jobs than cores: the first cores are all worth the same (GREEDY*'s tie-break)."""
    for names in (("amdahl", "amdahl 0", "amdahl 1"), ("power", "gustafson", "tabulated")):
        shapes = marginal_shapes(as_system(model_of(names, 6.0)))
        counts = np.array([[3], [4], [5]])
        for order in ((0, 1, 2), (2, 1, 0), (1, 2, 0)):
            cores = LevelSteps.of(6.0, [], shapes, np.ones(3), np.array(order)).allocate(counts)[:, 0]
            left = 6.0
            for rank in range(3):
                i = order.index(rank)
                wanted = 6.0 if names[i] == "amdahl 1" else float(counts[i, 0])
                assert cores[i] == pytest.approx(min(wanted, left), abs=1e-12)
                left -= cores[i]


def test_classes_of_one_rank_share_a_jump_in_proportion(as_system: Build) -> None:
    """Two classes of rank 1 share by jobs what the class of rank 0 leaves."""
    shapes = marginal_shapes(as_system(model_of(("amdahl 0", "amdahl", "amdahl"), 6.0)))
    counts, budget = np.array([[3], [2], [4]]), np.array([6.0])
    cores = LevelSteps.of(6.0, [], shapes, np.ones(3), np.array([0, 1, 1])).allocate(counts)[:, 0]
    assert np.allclose(cores, [3.0, 1.0, 2.0], rtol=0, atol=1e-12)
    level = split(shapes, counts, np.ones(3), budget)[:, 0]
    assert np.allclose(level, 6.0 * counts[:, 0] / 9.0, rtol=0, atol=1e-12)


def test_ties_are_shared_in_proportion_to_the_jumps(as_system: Build) -> None:
    """Slope 1/2 for one more core (tabulated) or nine (Gustafson): jumps of 2 and 27, five cores left."""
    model = naive.Model(
        10.0,
        (
            naive.Job(0.01, 1.0, naive.tabulated((2.0, 1.5))),
            naive.Job(0.01, 1.0, naive.gustafson(0.5)),
        ),
    )
    shapes = marginal_shapes(as_system(model))
    counts, budget = np.array([[2], [3]]), np.array([10.0])
    cores = split(shapes, counts, np.ones(2), budget)[:, 0]
    jumps = np.array([2 * 1.0, 3 * 9.0])
    assert np.allclose(cores, [2.0, 3.0] + 5.0 * jumps / jumps.sum(), rtol=0, atol=1e-12)
    first = LevelSteps.of(10.0, [], shapes, np.ones(2), np.array([0, 1])).allocate(counts)[:, 0]
    assert np.allclose(first, [4.0, 6.0], rtol=0, atol=1e-12)
    second = LevelSteps.of(10.0, [], shapes, np.ones(2), np.array([1, 0])).allocate(counts)[:, 0]
    assert np.allclose(second, [2.0, 8.0], rtol=0, atol=1e-12)


def test_ranks_rise_with_their_keys() -> None:
    assert ranked([(2.0,), (1.0,), (2.0,), (5.0,)]).tolist() == [1, 0, 1, 2]
    assert ranked([(-1.0, 3.0), (-2.0, 9.0), (-1.0, 2.0)]).tolist() == [2, 0, 1]


# --- the certificate ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Kinked(cw.SpeedUp):
    """A curve of one's own with a kink that no grid of nodes hits, its slope by differences."""

    p: float
    family: ClassVar[str] = "kinked"
    bounds: ClassVar[dict[str, tuple[float, float]]] = {"p": (0.0, 1.0)}

    def rate_above(self, z: Floats) -> Floats:
        return np.asarray(np.minimum(z**self.p, math.e ** (self.p - 0.1) * z**0.1))


@pytest.mark.parametrize("curve", [cw.Usl(0.1, 0.03), cw.Usl(0.0, 1e-4), Kinked(0.7)], ids=repr)
@pytest.mark.parametrize(
    "other", [cw.Amdahl(0.7), cw.PowerLaw(0.3), cw.PowerLaw(NEAR), cw.Usl(0.3, 0.001)], ids=repr
)
def test_the_gap_covers_the_loss_and_is_small(curve: cw.SpeedUp, other: cw.SpeedUp) -> None:
    """No split of a grid with refinement is better than ours by more than the gap."""
    rng = np.random.default_rng(3)
    cores = 17.0
    system = cw.System(cores, [cw.JobClass("one", 0.01, 1.0, curve), cw.JobClass("two", 0.01, 1.0, other)])
    counts, offers, _ = draw(rng, 2, 60, cores)
    ours, gap = certified_split(system, marginal_shapes(system), counts, offers)
    check_split(counts, np.full(60, cores), ours)
    assert gap.shape == (60,)
    assert gap.min() >= 0.0

    def worth(x: Floats) -> Floats:
        total = np.zeros(x.shape[1])
        for i, job_class in enumerate(system.classes):
            width = x[i] / np.maximum(counts[i], 1)
            total += offers[i] * counts[i] * job_class.speedup.rate(width)
        return total

    low, high = np.zeros(60), np.full(60, cores)
    best = np.full(60, -np.inf)
    for _ in range(14):
        grid = low + np.linspace(0.0, 1.0, 41)[:, None] * (high - low)
        worths = np.stack([worth(np.stack([x, cores - x])) for x in grid])
        best = np.maximum(best, worths.max(axis=0))
        at = np.take_along_axis(grid, worths.argmax(axis=0)[None], axis=0)[0]
        step = (high - low) / 40.0
        low, high = np.maximum(at - step, 0.0), np.minimum(at + step, cores)
    loss = best - worth(ours)
    assert np.all(loss <= gap + 1e-12 * (1.0 + best))
    assert np.all(gap <= 2e-6 * (1.0 + best))
    shared = (counts > 0).all(axis=0)
    assert not gap[~shared].any()


def test_splits_in_closed_form_need_no_certificate(as_system: Build) -> None:
    system = as_system(model_of(("amdahl", "power", "tabulated"), 6.0))
    counts, offers, _ = draw(np.random.default_rng(1), 3, 20, 6.0)
    shapes = marginal_shapes(system)
    cores, gap = certified_split(system, shapes, counts, offers)
    assert gap.size == 0
    assert np.array_equal(cores, split(shapes, counts, offers, np.full(20, 6.0)))


# --- the parts ------------------------------------------------------------------------------------


@pytest.mark.parametrize("names", [("amdahl", "power"), ("usl", "gustafson"), ("tabulated", "usl")])
def test_index_shapes_equalise_the_index(as_system: Build, names: tuple[str, str]) -> None:
    """Above one core nobody would pay more than another for a little more: W(z) = w s'/(s - z s')."""
    system = as_system(model_of(names, 12.0))
    counts, offers = np.array([[2, 1, 3], [1, 3, 3]]), np.array([[1.0, 2.0, 1.0], [1.0, 1.5, 1.0]])
    budget = np.array([6.0, 5.0, 4.0])
    extra = split(index_shapes(system), counts, offers, budget)
    assert np.allclose(extra.sum(axis=0), budget, rtol=0, atol=1e-9)
    sides = []
    for i, job_class in enumerate(system.classes):
        z = 1.0 + extra[i] / counts[i]
        prices = []
        for width in (z * (1 + 1e-6), z * (1 - 1e-6)):
            curve = job_class.speedup
            prices.append(
                np.where(
                    width <= 1.0,
                    np.inf,
                    offers[i]
                    * curve.slope(width)
                    / (curve.rate(width) - width * curve.slope(width) + 1e-300),
                )
            )
        sides.append(prices)
    for one, two in ((0, 1), (1, 0)):
        assert np.all(sides[one][0] <= sides[two][1] * (1 + 1e-3))


@pytest.mark.parametrize(
    ("curve", "width"),
    [
        (cw.Amdahl(0.9), 1.0),
        (cw.Amdahl(1.0), 7.0),
        (cw.PowerLaw(1.0), 7.0),
        (cw.Gustafson(0.5), 1.0),
        (cw.Usl(0.0, 0.0), 7.0),
        (cw.Usl(0.0, 1e-9), 1.0),
        (cw.Tabulated([(3, 3), (5, 4)]), 3.0),
        (cw.Tabulated([(5, 4)]), 1.0),
        (cw.Tabulated([(2, 2), (9, 9)]), 9.0),
        (Kinked(1.0), math.e),
    ],
    ids=repr,
)
def test_the_linear_width(curve: cw.SpeedUp, width: float) -> None:
    assert linear_width(curve, 7.0) == pytest.approx(width, rel=1e-3)
    assert linear_width(curve, 0.5) >= 1.0


def test_full_speeds() -> None:
    classes = [cw.JobClass("one", 0.1, 1.0, cw.Amdahl(0.5)), cw.JobClass("two", 0.1, 1.0, cw.PowerLaw(0.5))]
    assert full_speeds(cw.System(4.0, classes)) == pytest.approx([1.6, 2.0])
