"""The compiled loops over values give bit for bit what their sources give."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from corewise.control import _kernels as value_kernels
from corewise.control.bellman import Bellman, _bracket, _rate_table
from corewise.model.space import StateSpace
from corewise.policies.equi import equal_share
from corewise.policies.rounding import round_cores
from tests.helpers.boxes import BOXES, chain_on, system_of
from tests.helpers.twins import not_compared, same


@BOXES
def test_value_kernels(capacity: tuple[int, ...]) -> None:
    chain = chain_on(capacity)
    system, space = chain.system, chain.space
    bellman = Bellman(system, space)
    values = np.random.default_rng(1).normal(size=space.size).cumsum()
    offers = np.empty(space.counts.shape)
    favours = np.linspace(1.0, 1.5, len(capacity))
    same(value_kernels.value_steps, values, system.size_rates, favours, space.strides, space.counts, offers)
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
        low, high, rounding = _bracket(drift, values, chain.outflow, bellman.cost, gap)
        short = gap[0] if gap.size else 0.0
        assert low == pytest.approx(drift.min() - short, abs=1e-12)
        assert high == pytest.approx(drift.max(), abs=1e-12)
        assert low + short <= drift.min() < drift.max() <= high
        assert 0.0 < rounding < 1e-12
    shares, gain = chain.rates * chain.inverse, (bellman.cost - 0.8) * chain.inverse
    for sweeps in (0, 1, 3):
        same(value_kernels.sweep_values, values, shares, arrivals, chain.inverse, gain, *stencil, sweeps)


@pytest.mark.parametrize("wrong", [[0], [2], [4], [0, 1, 2, 3, 4]])
def test_what_is_no_number_has_no_bounds(wrong: list[int]) -> None:
    """Wherever it is: bounds that passed it over would be taken for met."""
    drift, ones = np.arange(5.0), np.ones(5)
    drift[wrong] = np.nan
    assert np.all(np.isnan(_bracket(drift, ones, ones, ones, np.empty(0))[:2]))


def test_bounds_from_steps_are_those_from_values() -> None:
    departures, cost, steps = np.arange(5.0), np.arange(5.0), np.array([0.0, 1.0, 1.5, 1.7, 2.5, 0.0])
    joining = np.array([2.0, 2.0, 2.0, 2.0, 0.0])
    low, high, rounding = same(value_kernels.step_bracket, departures, joining, cost, steps)
    drift = cost + joining * steps[1:] - departures * steps[:-1]
    assert low <= drift.min() < drift.max() <= high
    assert high - low == pytest.approx(np.ptp(drift), abs=1e-13)
    assert 0.0 < rounding < 1e-13


def test_offers_that_differ_by_rounding_are_made_equal() -> None:
    """And only those: a difference a thousand times larger stays. Who is favoured offers more."""
    space = StateSpace((1, 1))
    rates, strides = np.ones(2), space.strides
    for apart, equal in ((2e-16, True), (1e-12, False)):
        values = np.array([0.0, 1.0 + apart, 1.0, 2.0])
        offers = np.empty((2, 4))
        for favours in (np.ones(2), np.array([1.0, 1.25])):
            same(value_kernels.value_steps, values, rates, favours, strides, space.counts, offers)
            assert bool(offers[1, 3] == favours[1] * offers[0, 3]) is equal


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


def test_every_kernel_is_compared_here() -> None:
    """A new one has to be added."""
    source = Path(__file__).read_text(encoding="utf-8")
    assert not_compared(value_kernels, "value_kernels", source) == []
