r"""Splits of jobs that can use only so many cores, and of flat curves, against brute force.

The best value of a split, v* = max Σ ω_i n_i s_i(x_i/n_i) with Σ x_i ≤ c and 0 ≤ x_i ≤ n_i most_i, is found
by duality from values of s alone: for every price η ≥ 0

    v* ≤ η c + Σ n_i max_{0 ≤ z ≤ most_i} (ω_i s_i(z) − η z),

with equality at the best η. Both optima are searched for on grids that are refined about their best point,
with the kinks of the curves added. A split that is possible and attains the bound is a best one.
"""

from __future__ import annotations

import itertools
import math
import pickle
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import corewise as cw
from corewise.control.bellman import Bellman
from corewise.kit.arrays import Floats, Ints
from corewise.model.space import StateSpace
from corewise.policies.base import bind
from corewise.policies.waterfill.demand import linear_width, marginal_shapes
from corewise.policies.waterfill.split import certified_split, priced_split, split
from corewise.simulation.decisions._kernels.fitted import Room, share
from corewise.simulation.loops._kernels.clocked import speed
from corewise.simulation.loops.curves import curve_arrays
from tests.helpers.curves import bent


@dataclass(frozen=True)
class Straight(cw.SpeedUp):
    """An own curve of straight pieces, its slope by differences: 1 to 3 cores, 0.5 to 6, 0.25 to 12, flat."""

    family: ClassVar[str] = "straight"

    def rate_above(self, z: Floats) -> Floats:
        return np.interp(z, [1.0, 3.0, 6.0, 12.0], [1.0, 3.0, 4.5, 6.0])


@dataclass(frozen=True)
class Told(cw.SpeedUp):
    """The same with its slope by formula."""

    family: ClassVar[str] = "straight by formula"

    def rate_above(self, z: Floats) -> Floats:
        return Straight().rate_above(z)

    def slope_above(self, z: Floats) -> Floats:
        return np.select([z < 3.0, z < 6.0, z < 12.0], [1.0, 0.5, 0.25], 0.0)


FAMILIES: dict[str, st.SearchStrategy[cw.SpeedUp]] = {
    "amdahl": st.sampled_from([0.0, 0.3, 0.8, 0.999, 1.0]).map(cw.Amdahl),
    "power": st.sampled_from([0.0, 0.2, 0.7, 0.999, 1.0]).map(cw.PowerLaw),
    "gustafson": st.sampled_from([0.0, 0.25, 0.5, 1.0]).map(cw.Gustafson),
    "usl": st.sampled_from([(0.1, 0.03), (0.0, 1e-3), (0.4, 0.0), (0.9, 0.5), (0.0, 0.0)]).map(
        lambda given: cw.Usl(*given)
    ),
    "tabulated": st.sampled_from(
        [
            ((2, 1.8), (4, 3.0), (16, 8.0)),
            ((2, 1.5), (4, 2.5), (8, 3.2)),
            ((4, 4.0), (32, 20.0)),
            ((2, 1.5), (3, 1.75), (12, 4.0)),
            ((1, 1.0),),
        ]
    ).map(lambda points: bent(*points)),
    "own": st.sampled_from([Straight(), Told()]),
}
LOSS = 1e-9
"""Relative."""


@dataclass(frozen=True, repr=False)
class Case:
    """A system and one of its states, with an offer for every class."""

    system: cw.System
    counts: tuple[int, ...]
    offers: tuple[float, ...]

    def __repr__(self) -> str:
        limits = [(one.speedup, one.max_cores, one.weight, one.size_rate) for one in self.system.classes]
        return f"{self.system.cores} cores, {limits}, jobs {self.counts}, offers {self.offers}"

    @property
    def state(self) -> Ints:
        return np.array(self.counts)[:, None]

    @property
    def most(self) -> Floats:
        """What each class can hold in all."""
        limits = [one.max_cores or math.inf for one in self.system.classes]
        return np.array([n * most if n else 0.0 for n, most in zip(self.counts, limits, strict=True)])

    def value(self, cores: Floats, offers: Sequence[float]) -> float:
        return sum(
            offer * n * float(one.curve.rate(x / n))
            for offer, n, one, x in zip(offers, self.counts, self.system.classes, cores, strict=True)
            if n
        )

    def check(self, cores: Floats) -> None:
        """Nothing negative, nothing above the limits, nothing idle that a job could hold."""
        pool = self.system.cores
        assert cores.min() >= 0.0, cores
        assert np.all(cores <= self.most * (1 + 1e-12)), cores
        assert cores.sum() == pytest.approx(min(pool, self.most.sum()), rel=1e-9), cores


@st.composite
def cases(draw: st.DrawFn, most_classes: int = 4, pools: Sequence[float] = (0.6, 1, 7, 16, 64)) -> Case:
    pool = draw(st.sampled_from(pools))
    classes, counts, offers = [], [], []
    for i in range(draw(st.integers(1, most_classes))):
        family = draw(st.sampled_from(sorted(FAMILIES)))
        whole = max(int(pool), 1)
        most = draw(st.one_of(st.none(), st.integers(1, whole)))
        least = draw(st.integers(1, most or whole))
        rate = draw(st.sampled_from([0.3, 1.0, 1.0, 2.0]))
        weight = draw(st.sampled_from([1.0, 1.0, 2.5]))
        curve = draw(FAMILIES[family])
        one = cw.JobClass(f"c{i}", 1e-3, rate, curve, weight=weight, min_cores=least, max_cores=most)
        classes.append(one)
        counts.append(draw(st.integers(0, 9)))
        offers.append(draw(st.sampled_from([0.0, 0.5, 1.0, 1.0, 1.7, 7.0])))
    return Case(cw.System(pool, classes), tuple(counts), tuple(offers))


def kinks(one: cw.JobClass, top: float) -> Floats:
    points = one.speedup.corners[0].tolist() if isinstance(one.speedup, cw.Tabulated) else []
    peak = one.speedup.peak if isinstance(one.speedup, cw.Usl) else 1.0
    return np.asarray(np.clip(np.array([0.0, 1.0, 3.0, 6.0, 12.0, peak, top, *points]), 0.0, top))


def surplus(one: cw.JobClass, offer: float, prices: Floats, pool: float) -> Floats:
    """max over z of ω s(z) − η z, for several η at once."""
    top = min(pool, one.max_cores or math.inf)
    low, high = np.zeros(prices.size), np.full(prices.size, top)
    best = np.full(prices.size, -math.inf)
    for _ in range(9):
        z = low + np.linspace(0.0, 1.0, 33)[:, None] * (high - low)
        z = np.concatenate(
            [z, np.broadcast_to(kinks(one, top)[:, None], (len(kinks(one, top)), prices.size))]
        )
        worth = offer * one.curve.rate(z) - prices * z
        best = np.maximum(best, worth.max(axis=0))
        at = np.take_along_axis(z, worth.argmax(axis=0)[None], axis=0)[0]
        step = (high - low) / 32.0
        low, high = np.maximum(at - step, 0.0), np.minimum(at + step, top)
    return best


def best_value(case: Case, offers: Sequence[float]) -> float:
    """The least upper bound by duality, prices refined about the best one."""
    pool = case.system.cores
    there = [(one, w, n) for one, w, n in zip(case.system.classes, offers, case.counts, strict=True) if n]
    low, high, best = 0.0, max((w for _, w, _ in there), default=0.0), math.inf
    for _ in range(12):
        prices = np.linspace(low, high, 33)
        bounds = prices * pool
        for one, offer, n in there:
            bounds = bounds + n * surplus(one, offer, prices, pool)
        k = int(bounds.argmin())
        best = min(best, float(bounds[k]))
        low, high = prices[max(k - 1, 0)], prices[min(k + 1, 32)]
    return best


def attains(case: Case, cores: Floats, offers: Sequence[float]) -> None:
    case.check(cores)
    ours, best = case.value(cores, offers), best_value(case, offers)
    assert ours >= best - LOSS * best, (ours, best, cores)
    assert ours <= best + LOSS * best, "the search has missed the maximum"


@settings(max_examples=400)
@given(cases())
def test_greedy_has_the_highest_departure_rate(case: Case) -> None:
    rates = [one.weight * one.known_size_rate for one in case.system.classes]
    greedy = bind("greedy", case.system)
    attains(case, greedy.decision(case.state)[:, 0], rates)


@settings(max_examples=400)
@given(cases())
def test_offers_buy_the_best_split(case: Case) -> None:
    """The split of the Bellman step, of certified bounds and of fitted rules; some offers are nothing."""
    shapes, budget = marginal_shapes(case.system), np.array([case.system.cores])
    offers = np.array(case.offers)[:, None]
    for cores in (
        split(shapes, case.state, offers, budget),
        priced_split(shapes, case.state, offers, budget)[0],
    ):
        attains(case, cores[:, 0], case.offers)
    certified, gap = certified_split(case.system, shapes, case.state, offers)
    best = best_value(case, case.offers)
    short = best - case.value(certified[:, 0], case.offers)
    assert short <= (gap[0] if gap.size else 0.0) + LOSS * best


@settings(max_examples=150)
@given(cases(), st.floats(0.05, 20.0))
def test_splits_without_tables_are_the_best_from_any_guess(case: Case, guess: float) -> None:
    shapes, classes = marginal_shapes(case.system), len(case.counts)
    offers = np.maximum(np.array(case.offers), 0.1)  # as the guards of a fitted rule have it
    room = Room(offers, *np.zeros((4, classes)))
    counts = np.array(case.counts)
    share(shapes.arrays, case.system.cores, counts, room, guess)
    attains(case, np.where(counts > 0, counts * room.widths, 0.0), offers.tolist())


@settings(max_examples=100)
@given(cases())
def test_compiled_speeds_are_those_of_the_curve(case: Case) -> None:
    arrays = curve_arrays(case.system)
    for i, one in enumerate(case.system.classes):
        limit = float(one.max_cores or 2.0)
        for z in (0.4, 1.0, 1.9, 0.999 * limit, limit, 1.001 * limit, case.system.cores):
            wide = min(z, case.system.cores)
            near = 1e-4 if one.speedup.family.startswith("straight") else 1e-12  # own curves are sampled
            assert speed(*arrays, i, wide) == pytest.approx(float(one.curve.rate(wide)), rel=near)


def index(curve: cw.SpeedUp, z: float) -> float:
    """The Whittle index to the right of z, by its definition."""
    slope, rate = float(curve.slope(z)), float(curve.rate(z))
    return slope / max(rate - z * slope, 1e-300)


@settings(max_examples=200)
@given(cases())
def test_whittle_sells_at_one_price(case: Case) -> None:
    """Where every job has what it uses in full, none would pay more for a little than another paid."""
    cores = bind("whittle", case.system).decision(case.state)[:, 0]
    case.check(cores)
    widths = [x / n if n else 0.0 for x, n in zip(cores, case.counts, strict=True)]
    paid, offered = math.inf, 0.0
    for one, n, z in zip(case.system.classes, case.counts, widths, strict=True):
        if not n:
            continue
        full = linear_width(one.curve, case.system.cores)
        if z > full * (1 + 1e-9):
            paid = min(paid, one.weight * index(one.curve, z * (1 - 1e-4)))
        elif z < full * (1 - 1e-9):
            paid, offered = min(paid, math.inf), math.inf
        if z < (one.max_cores or case.system.cores) * (1 - 1e-9) and offered < math.inf:
            offered = max(offered, one.weight * index(one.curve, z * (1 + 1e-4)))
    if offered < math.inf:
        assert paid >= offered * (1 - 1e-2)
    else:
        assert paid == math.inf  # nothing is sold before every job has what it uses in full


def whole_splits(cores: int, classes: int) -> list[tuple[int, ...]]:
    return [x for x in itertools.product(range(cores + 1), repeat=classes) if sum(x) <= cores]


@settings(max_examples=60)
@given(cases(most_classes=3, pools=(1, 4, 7)), st.integers(0, 2**32 - 1))
def test_whole_cores_against_all_splits(case: Case, seed: int) -> None:
    """One step of the whole-core Bellman operator, over a box of states, for values that rise."""
    system, classes = case.system, len(case.counts)
    space = StateSpace.of((3,) * classes, classes)
    slope = np.random.default_rng(seed).uniform(0.1, 3.0, classes)
    values = slope @ space.counts + 0.3 * space.counts.sum(axis=0) ** 2.0
    step = Bellman(system, space, whole_cores=True)(values)
    table = np.array([step.chain.rates[:, s] for s in range(space.size)])
    splits = np.array(whole_splits(int(system.cores), classes))
    for s in range(0, space.size, 5):
        n = space.counts[:, s]
        worth = np.array([values[s] - values[s - space.strides[i]] if n[i] else 0.0 for i in range(classes)])
        best = 0.0
        for x in splits:
            best = max(
                best,
                sum(
                    worth[i] * n[i] * one.size_rate * float(one.curve.rate(x[i] / n[i]))
                    for i, one in enumerate(system.classes)
                    if n[i]
                ),
            )
        assert float(table[s] @ worth) == pytest.approx(best, rel=1e-9)


def test_a_whole_core_solution_keeps_to_the_limits() -> None:
    """Three jobs of at most 2 on 8 cores: two are idle, in every state of the table."""
    one = cw.JobClass("one", 0.5, 1.0, cw.Amdahl(0.9), max_cores=2)
    two = cw.JobClass("two", 0.5, 1.0, cw.Amdahl(0.5), max_cores=1)
    policy = cw.solve(cw.System(8, [one, two]), whole_cores=True).policy
    assert policy.allocate({"one": 2, "two": 1}) == {"one": 4.0, "two": 1.0}
    assert pickle.loads(pickle.dumps(policy)).allocate({"one": 1}) == {"one": 2.0, "two": 0.0}
    open_ended = cw.System(8, [one, replace(two, max_cores=None)])
    assert cw.solve(open_ended).policy.allocate({"one": 1, "two": 0}) == {"one": 2.0, "two": 0.0}


def test_the_reported_case() -> None:
    """A table and the same table with its last point as the limit: the same split, if no core is left."""
    points = {
        "a": [(2, 1.8), (4, 3.0), (16, 8.0)],
        "b": [(2, 1.5), (4, 2.5), (8, 3.2)],
        "c": [(4, 4.0), (32, 20.0)],
    }

    def system(*, limited: bool) -> cw.System:
        return cw.System(
            64,
            [
                cw.JobClass(name, 1e-3, 1.0, bent(*given), max_cores=given[-1][0] if limited else None)
                for name, given in points.items()
            ],
        )

    counts = np.array([[2, 2, 2], [4, 4, 1], [3, 5, 2], [6, 6, 6]]).T
    for policy in ("greedy", "whittle"):
        plain, cut = (bind(policy, system(limited=limited)).decision(counts) for limited in (False, True))
        np.testing.assert_allclose(cut, plain, rtol=0, atol=1e-9)
    one_each = bind("greedy", system(limited=True)).allocate({"a": 1, "b": 1, "c": 1})
    assert one_each == {"a": 16.0, "b": 8.0, "c": 32.0}


@pytest.mark.parametrize("policy", ["greedy", "whittle", "improved"])
def test_every_way_to_simulate_holds_the_same(policy: str) -> None:
    """On a recorded path, with tables and without them, no job holds more than its most."""
    classes = [
        cw.JobClass("a", 1.2, 1.0, cw.Amdahl(0.95), max_cores=3),
        cw.JobClass("b", 1.2, 1.0, bent((2, 1.8), (4, 3.0), (16, 8.0)), max_cores=6),
    ]
    run = cw.simulate(cw.System(12, classes), policy, departures=3000, rng=1, record=True)
    path = run.path
    assert path is not None
    held = path.cores / np.maximum(path.counts, 1)
    assert held[:, 0].max() <= 3.0 * (1 + 1e-9)
    assert held[:, 1].max() <= 6.0 * (1 + 1e-9)


def test_tables_with_max_cores_are_split_along_their_corners() -> None:
    """Not as if they were smooth: the cores are those without limits wherever these are within them."""
    points = {
        "a": [(2, 1.8), (4, 3.0), (16, 8.0)],
        "b": [(2, 1.5), (4, 2.5), (8, 3.2)],
        "c": [(4, 4.0), (32, 20.0)],
    }

    def system(*, limited: bool) -> cw.System:
        rows = ((name, table, table[-1][0] if limited else None) for name, table in points.items())
        return cw.System(
            64,
            [cw.JobClass(name, 1e-3, 1.0, cw.Tabulated(table), max_cores=most) for name, table, most in rows],
        )

    for jobs, cores in (([2, 2, 2], [8.0, 2.0, 54.0]), ([6, 6, 6], [24.0, 6.0, 34.0])):
        for limited in (False, True):
            assert bind("greedy", system(limited=limited)).allocate(jobs) == pytest.approx(cores)
    flat = cw.System(64, [cw.JobClass("a", 1e-3, 1.0, cw.Tabulated(points["a"]), max_cores=64)])
    assert bind("whittle", flat).allocate([2]) == pytest.approx([64.0])
