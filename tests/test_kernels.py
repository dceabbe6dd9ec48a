"""Every compiled function gives bit for bit what its Python source gives; numba has miscompiled some."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import corewise as cw
from corewise.analysis import _kernels as chain_kernels
from corewise.analysis.chain import Chain
from corewise.control import _kernels as value_kernels
from corewise.control.bellman import Bellman, _rate_table
from corewise.model.space import StateSpace
from corewise.policies import _kernels as split_kernels
from corewise.policies.equi import equal_share
from corewise.policies.shapes import index_shapes, marginal_shapes
from corewise.policies.whole import round_cores
from tests.twins import not_compared, same

MODULES = {
    chain_kernels: "chain_kernels",
    value_kernels: "value_kernels",
    split_kernels: "split_kernels",
}
CURVES: dict[str, list[cw.SpeedUp]] = {
    "closed": [cw.Amdahl(0.3), cw.Amdahl(0.9), cw.Amdahl(0.0)],
    "straight": [cw.Amdahl(1.0), cw.Gustafson(0.4), cw.Tabulated([(2, 1.7), (4, 2.5)])],
    "curved": [cw.PowerLaw(0.6), cw.Usl(0.1, 0.03), cw.Amdahl(0.7)],
    "near": [cw.PowerLaw(0.999), cw.Amdahl(0.999), cw.PowerLaw(0.2)],
}


def system_of(kind: str, classes: int) -> cw.System:
    sizes, weights = (1.0, 2.5, 0.7), (1.0, 3.0, 1.0)
    return cw.System(
        4.0,
        [cw.JobClass("abc"[i], 0.5 + 0.1 * i, sizes[i], CURVES[kind][i], weights[i]) for i in range(classes)],
    )


def boxes() -> list[tuple[int, ...]]:
    return [(5,), (1,), (2, 3), (1, 1), (4, 1), (2, 1, 3), (1, 2, 1)]


BOXES = pytest.mark.parametrize("capacity", boxes(), ids=str)


def chain_on(capacity: tuple[int, ...], kind: str = "closed") -> Chain:
    system = system_of(kind, len(capacity))
    return Chain.under(cw.Whittle().on(system), system, StateSpace(capacity))


def some_law(space: StateSpace) -> Any:
    law = np.random.default_rng(space.size).random(space.size)
    return law / law.sum()


# --- analysis -------------------------------------------------------------------------------------


@BOXES
def test_advance_goes_through_the_rows(capacity: tuple[int, ...]) -> None:
    space = StateSpace(capacity)
    digits = np.zeros(len(capacity) - 1, dtype=np.int64)
    rows = []
    for _ in range(space.size // space.shape[-1]):
        rows.append(digits.tolist())
        same(chain_kernels.advance, digits, space.dimensions)
    assert rows == space.counts[:-1, :: space.shape[-1]].T.tolist()
    assert not digits.any()


@BOXES
@pytest.mark.parametrize("kind", ["closed", "curved"])
def test_stationary_kernels(capacity: tuple[int, ...], kind: str) -> None:
    chain = chain_on(capacity, kind)
    space, arrivals = chain.space, chain.system.arrival_rates
    stencil = (space.dimensions, space.strides)
    prob = some_law(space)
    same(chain_kernels.total_rates, chain.rates, arrivals, space.dimensions, np.empty(space.size))
    assert np.allclose(chain.outflow, arrivals @ (1.0 - space.edge) + chain.rates.sum(axis=0), rtol=1e-14)
    digits = np.zeros(len(capacity) - 1, dtype=np.int64)
    for base in range(0, space.size, space.shape[-1]):
        row = np.empty(space.shape[-1])
        same(chain_kernels._inflow, prob, chain.rates, arrivals, *stencil, digits, np.uint64(base), row)
        chain_kernels.advance(digits, space.dimensions)
    before = same(chain_kernels.flow_imbalance, prob, chain.rates, arrivals, chain.outflow, *stencil)
    same(chain_kernels._sweep, prob, chain.rates, arrivals, chain.inverse, *stencil)
    scratch = [np.empty(sum(capacity) + 1) for _ in range(3)]
    same(chain_kernels._rebalance, prob, chain.outflow, arrivals, space.dimensions, *scratch)
    assert prob.sum() == pytest.approx(1.0, abs=1e-12)
    for cycles in (0, 1, 3):
        same(chain_kernels.relax, prob, chain.rates, arrivals, chain.outflow, chain.inverse, *stencil, cycles)
    after = same(chain_kernels.flow_imbalance, prob, chain.rates, arrivals, chain.outflow, *stencil)
    assert after < 0.1 * before
    rates = (chain.rates, arrivals, chain.outflow, chain.inverse)
    for target, floor, rounds, enough in (
        (1e-3, 0.0, 99, True),
        (0.0, 1e-11, 99, True),
        (0.0, 0.0, 1, False),
    ):
        settled, best, stalled = same(
            chain_kernels.settle, some_law(space), *rates, *stencil, target, floor, rounds, np.inf, 0
        )
        assert settled == enough
        assert best <= max(target, floor) or not enough
        assert stalled >= 5 or best < 1e-15 or target > 0.0 or not enough


def test_rebalance_of_a_law_with_empty_totals() -> None:
    """The factor of a total without mass stays that of its neighbour."""
    chain = chain_on((2, 3))
    prob = np.zeros(12)
    prob[[0, 11]] = 0.5
    scratch = [np.empty(6) for _ in range(3)]
    same(
        chain_kernels._rebalance,
        prob,
        chain.outflow,
        chain.system.arrival_rates,
        chain.space.dimensions,
        *scratch,
    )
    assert np.flatnonzero(prob).tolist() == [0, 11]


# --- control --------------------------------------------------------------------------------------


@BOXES
def test_value_kernels(capacity: tuple[int, ...]) -> None:
    chain = chain_on(capacity)
    system, space = chain.system, chain.space
    bellman = Bellman(system, space)
    values = np.random.default_rng(1).normal(size=space.size).cumsum()
    offers = np.empty(space.counts.shape)
    same(value_kernels.value_steps, values, system.size_rates, space.strides, space.counts, offers)
    assert not offers[space.counts == 0].any()
    drift = np.empty(space.size)
    stencil = (space.dimensions, space.strides)
    arrivals = system.arrival_rates
    same(
        value_kernels.apply_generator,
        values,
        chain.rates,
        arrivals,
        chain.outflow,
        bellman.cost,
        *stencil,
        drift,
    )
    assert np.allclose(drift, bellman.cost + chain.generator @ values, rtol=0, atol=1e-12)
    for gap in (np.empty(0), np.full(space.size, 0.25)):
        low, high, rounding = same(value_kernels.bracket, drift, values, chain.outflow, bellman.cost, gap)
        short = gap[0] if gap.size else 0.0
        assert low == pytest.approx(drift.min() - short, abs=1e-12)
        assert high == pytest.approx(drift.max(), abs=1e-12)
        assert low + short <= drift.min() < drift.max() <= high
        assert 0.0 < rounding < 1e-12
    shares, gain = chain.rates * chain.inverse, (bellman.cost - 0.8) * chain.inverse
    for sweeps in (0, 1, 3):
        same(value_kernels.sweep_values, values, shares, arrivals, chain.inverse, gain, *stencil, sweeps)


def test_offers_that_differ_by_rounding_are_made_equal() -> None:
    """And only those: a difference a thousand times larger stays."""
    space = StateSpace((1, 1))
    rates, strides = np.ones(2), space.strides
    for apart, equal in ((2e-16, True), (1e-12, False)):
        values = np.array([0.0, 1.0 + apart, 1.0, 2.0])
        offers = np.empty((2, 4))
        same(value_kernels.value_steps, values, rates, strides, space.counts, offers)
        assert bool(offers[0, 3] == offers[1, 3]) is equal


@pytest.mark.parametrize("capacity", [(4,), (3, 4), (2, 2, 3)], ids=str)
@pytest.mark.parametrize("kind", ["closed", "straight", "curved"])
def test_improve_whole(capacity: tuple[int, ...], kind: str) -> None:
    """From EQUI rounded to a split that no split of whole cores beats."""
    system = system_of(kind, len(capacity))
    space = StateSpace(capacity)
    table = _rate_table(system, space)
    steps = np.random.default_rng(4).choice([-1.0, 0.0, 0.5, 1.0, 3.0], space.counts.shape)
    cores = round_cores(equal_share(space.counts, 4.0))
    same(value_kernels.improve_whole, table, steps, space.counts, cores)
    assert np.array_equal(cores, np.rint(cores))
    assert np.array_equal(cores.sum(axis=0)[1:], np.full(space.size - 1, 4.0))
    assert not cores[space.counts == 0].any()
    for s in range(space.size):
        n = space.counts[:, s]

        def worth(x: Any, n: Any = n, s: int = s) -> float:
            return float(sum(max(steps[i, s], 0.0) * table[i, n[i], int(x[i])] for i in range(len(n))))

        splits = [x for x in np.ndindex((5,) * len(n)) if sum(x) == 4 and not np.any(np.array(x)[n == 0])]
        assert not splits or worth(cores[:, s]) >= max(map(worth, splits)) - 1e-12


# --- policies -------------------------------------------------------------------------------------


def split_arguments(kind: str, classes: int, index: bool) -> tuple[Any, ...]:
    """Shapes, and states with ties, zero offers, absent classes and several budgets."""
    rng = np.random.default_rng(classes)
    make = index_shapes if index else marginal_shapes
    shapes = make(system_of(kind, classes))
    counts = rng.integers(0, 4, (classes, 25))
    offers = rng.choice([0.0, 1.0, 1.0, 2.0, 0.37], (classes, 25))
    budget = 4.0 * rng.choice([0.0, 0.3, 1.0], 25)
    return shapes, counts, offers, budget


@pytest.mark.parametrize("index", [False, True], ids=["slope", "index"])
@pytest.mark.parametrize("kind", list(CURVES))
@pytest.mark.parametrize("classes", [1, 2, 3])
def test_split_states(classes: int, kind: str, index: bool) -> None:
    shapes, counts, offers, budget = split_arguments(kind, classes, index)
    demands = (shapes.tails, shapes.pieces, shapes.nodes)
    cores, levels = np.empty(counts.shape), np.empty(25)
    same(split_kernels.split_states, *demands, counts, offers, budget, cores, levels)
    some = counts.any(axis=0)
    assert np.allclose(cores.sum(axis=0)[some], budget[some], rtol=0, atol=1e-9)


@pytest.mark.parametrize("classes", [1, 2, 3])
@pytest.mark.parametrize("index", [False, True], ids=["slope", "index"])
def test_split_closed_states(classes: int, index: bool) -> None:
    shapes, counts, offers, budget = split_arguments("closed", classes, index)
    assert shapes.closed
    cores = np.empty(counts.shape)
    same(split_kernels.split_closed_states, shapes.tails, shapes.pieces, counts, offers, budget, cores)
    some = counts.any(axis=0)
    assert np.allclose(cores.sum(axis=0)[some], budget[some], rtol=0, atol=1e-9)


@pytest.mark.parametrize("index", [False, True], ids=["slope", "index"])
@pytest.mark.parametrize("kind", list(CURVES))
@pytest.mark.parametrize("classes", [1, 2, 3])
def test_the_parts_of_a_split(classes: int, kind: str, index: bool) -> None:
    """One state: demand and its derivative at prices in and about the kinks, then settling and splitting."""
    shapes = split_arguments(kind, classes, index)[0]
    demands = (shapes.tails, shapes.pieces, shapes.nodes)
    counts, starts = np.array([2, 1, 3][:classes]), np.array([1.0, 0.8, 1.3][:classes])
    roots = np.concatenate([shapes.pieces[0, :, 0], [shapes.tails[0, 3]]])
    levels = [0.3, 1.0, 1.07, 2.0, 5.0, *roots[np.isfinite(roots)].tolist()]
    for t in levels:
        for most in (False, True):
            same(split_kernels._total, *demands, counts, starts, t, most)
            for i in range(classes):
                same(split_kernels._width, *demands, i, float(starts[i]), t, most)
        for i in range(classes):
            same(split_kernels._rise, shapes.tails, shapes.nodes, i, float(starts[i]), t)
            if shapes.tails[i, 0] in (split_kernels.POWER, split_kernels.SAMPLED):
                same(split_kernels.curved_tail, shapes.tails, shapes.nodes, i, t)
        cores = np.empty(classes)
        same(split_kernels._settle, *demands, counts, starts, t, 3.0, cores)
    for most in (False, True):
        same(split_kernels._total, *demands, counts, starts, np.inf, most)
    for budget in (0.5, 2.0, 3.9):
        cores = np.empty(classes)
        t = same(split_kernels._split, *demands, counts, starts, budget, cores, 0.0, math.inf)
        assert cores.sum() == pytest.approx(budget, abs=1e-9)
        for guess in (0.0, 0.03 * t, 0.95 * t, t, 1.3 * t, 90.0 * t, math.inf):
            near = np.empty(classes)
            same(split_kernels.split_near, *demands, counts, starts, budget, near, guess)
            assert np.allclose(near, cores, rtol=0, atol=1e-9)
    if kind in ("curved", "near"):
        cores = np.empty(classes)
        for high in (50.0, np.inf):
            low = float(starts.max() * roots[np.isfinite(roots)].max())
            budget = 1.5 * split_kernels._total(*demands, counts, starts, 1.2 * low, False)
            if np.isinf(high) or split_kernels._total(*demands, counts, starts, high, False) > budget:
                same(split_kernels._curved_split, *demands, counts, starts, low, high, budget, cores)
                assert cores.sum() == pytest.approx(budget, rel=1e-9)


def test_strides_meet_every_index() -> None:
    for size in range(1, 200):
        step = same(split_kernels._stride, size)
        assert sorted(k * step % size for k in range(size)) == list(range(size))


def test_every_kernel_is_compared_here() -> None:
    """A new one has to be added."""
    source = Path(__file__).read_text(encoding="utf-8")
    for module, alias in MODULES.items():
        assert not_compared(module, alias, source) == []
