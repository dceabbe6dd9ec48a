"""The compiled loops over stationary distributions give bit for bit what their sources give."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from corewise.analysis import _kernels as chain_kernels
from corewise.model.space import StateSpace
from tests.helpers.boxes import BOXES, chain_on, some_law
from tests.helpers.twins import not_compared, same


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
    for n, rates_of_state, out in zip(space.counts.T, chain.rates.T, chain.outflow, strict=True):
        joining = sum(rate for i, rate in enumerate(arrivals) if n[i] < capacity[i])
        assert out == pytest.approx(joining + rates_of_state.sum(), rel=1e-14)
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
    rates = (chain.rates, arrivals, chain.outflow, chain.inverse)
    for cycles in (0, 1, 3):
        for by_totals in (False, True):
            one_round = (by_totals, cycles, 1, -1.0, 0.0, np.inf, 0)
            assert same(chain_kernels.relax, prob, *rates, *stencil, *one_round) == (False, np.inf, 0)
    after = same(chain_kernels.flow_imbalance, prob, chain.rates, arrivals, chain.outflow, *stencil)
    assert after < 0.1 * before
    for target, floor, rounds, enough in (
        (1e-3, 0.0, 99, True),
        (0.0, 1e-11, 99, True),
        (0.0, 0.0, 1, False),
    ):
        until = (True, 4, rounds, target, floor, np.inf, 0)
        settled, best, stalled = same(chain_kernels.relax, some_law(space), *rates, *stencil, *until)
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


@BOXES
def test_level_kernels(capacity: tuple[int, ...]) -> None:
    chain = chain_on(capacity)
    space, prob = chain.space, some_law(chain.space)
    steps = np.linspace(0.7, 1.9, len(capacity))
    for top in (2.0, float(space.size)):
        place, count = (space.dimensions, steps, top), 2 * sum(capacity) + 4
        band = np.zeros((7, count))
        rates = (chain.rates, chain.system.arrival_rates)
        same(chain_kernels.level_equations, prob, *rates, *place, band)
        assert band.sum() == pytest.approx(0.0, abs=1e-12)
        sums = np.zeros(count)
        same(chain_kernels.level_sums, prob, np.empty(0), 0.0, *place, sums)
        assert sums.sum() == pytest.approx(1.0, abs=1e-14)
        same(chain_kernels.level_sums, prob, prob.copy(), 0.3, *place, np.zeros(count))
        same(chain_kernels.add_levels, np.zeros(space.size), np.arange(count, dtype=float), *place)
        same(chain_kernels.scale_levels, prob.copy(), np.linspace(-1.0, 20.0, count), *place)


def test_levels_of_a_row_and_between_nodes() -> None:
    assert same(chain_kernels._row_level, np.array([2, 1]), np.array([0.5, 3.0, 7.0])) == 4.0
    assert same(chain_kernels._between, np.array([1.0, 3.0, 0.0]), 1.25) == 2.25


@pytest.mark.parametrize("idle", [False, True])
def test_birth_death_kernels(idle: bool) -> None:
    departures = np.array([0.0, 1.0, 0.0 if idle else 2.0, 3.0, 3.0, 3.0])
    law = same(chain_kernels.birth_death_distribution, departures, 2.0)
    assert law[:-1] * 2.0 == pytest.approx(law[1:] * departures[1:], abs=1e-15)
    assert law.sum() == pytest.approx(1.0)
    assert bool(law[1] == 0.0) is idle
    same(chain_kernels.birth_death_steps, np.arange(6.0), 2.0, np.arange(6.0), 1.9)


def test_every_kernel_is_compared_here() -> None:
    """A new one has to be added."""
    source = Path(__file__).read_text(encoding="utf-8")
    assert not_compared(chain_kernels, "chain_kernels", source) == []
