"""The market of cores behind the core-time bound, by its definition: every corner of a curve is tried."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import corewise as cw
from corewise.analysis.lower.core_time import _spans
from corewise.analysis.lower.majorants import Majorants
from corewise.analysis.lower.market import Market

CORES = 6.0
CURVES: list[cw.SpeedUp] = [cw.Amdahl(0.8), cw.Gustafson(0.4), cw.Usl(0.1, 0.03)]
SIZES, WEIGHTS, NEEDS = np.array([1.0, 2.5, 0.7]), np.array([1.0, 3.0, 1.0]), np.array([1.3, 0.8, 2.0])
POINTS = np.array([0.8, 1.0, 1.3, 2.0, 4.0, 11.0, 40.0])
MARKET = Market(SIZES, WEIGHTS, NEEDS, CORES, Majorants.of(CURVES, CORES, np.ones(3)))


def worths_at(points: Any) -> Any:
    return np.array([0.5, 0.4, 0.9]) + points[..., None] * 0.1 * NEEDS


def surplus(backlog: float, worths: Any, price: float) -> float:
    """The least (h − ψ)/b of the classes with b ≤ B, with ψ the most over all corners."""
    pieces = MARKET.majorants
    gains = (SIZES * worths)[:, None] * pieces.speeds - price * pieces.widths
    return float(((WEIGHTS - gains.max(axis=1)) / NEEDS)[backlog >= NEEDS].min())


def dual(backlog: float, worths: Any, price: float) -> float:
    """What the bound maximises over the price."""
    return backlog * surplus(backlog, worths, price) - price * CORES


def test_the_price_is_the_best_one() -> None:
    """No other price gives more, and the worst mix costs as much as the dual says: there is no gap."""
    worths = worths_at(POINTS)
    mixes = MARKET.mixes(POINTS, worths, tail=False)
    for g, backlog in enumerate(POINTS):
        best = dual(backlog, worths[g], float(mixes.prices[g]))
        others = [dual(backlog, worths[g], price) for price in np.linspace(0.0, 8.0, 400)]
        assert max(others) <= best + 1e-9 * (1.0 + abs(best))
        kinds, jobs = mixes.kinds[g], mixes.jobs[g]
        cost = jobs @ (WEIGHTS[kinds] - worths[g, kinds] * SIZES[kinds] * mixes.speeds[g])
        assert cost == pytest.approx(best, rel=1e-6, abs=1e-6)
    assert np.allclose((mixes.jobs * NEEDS[mixes.kinds]).sum(axis=1), POINTS, rtol=1e-12)
    assert set(mixes.kinds[0]) == {1}  # the only class with room for a job


def test_in_the_tail_more_jobs_are_no_cheaper() -> None:
    """The last price is one at which the least surplus is not negative; others are as they were."""
    worths = 3.0 * worths_at(POINTS)
    inside, tail = (MARKET.mixes(POINTS, worths, tail=tail) for tail in (False, True))
    assert np.array_equal(inside.prices[:-1], tail.prices[:-1])
    assert surplus(POINTS[-1], worths[-1], float(tail.prices[-1])) >= -1e-9
    assert surplus(POINTS[-1], worths[-1], 0.9 * float(tail.prices[-1])) < 0.0


def test_bounds_hold_within_their_cells() -> None:
    """Worths and arrivals are linear in B: at every B some price, linear between the ends, gives as much."""
    cells = np.stack([POINTS[:-1], POINTS[1:]], axis=1)
    worths, arriving = worths_at(cells), 2.0 + 0.3 * cells
    prices = MARKET.mixes(cells.ravel(), worths.reshape(-1, 3), tail=False).prices.reshape(cells.shape)
    bounds = MARKET.certified(cells, worths, arriving, prices, np.zeros((len(cells), 3)))
    bent = MARKET.certified(cells, worths, arriving, prices, np.full((len(cells), 3), 0.1))
    assert np.all(bent < bounds)
    for cell, price, bound in zip(cells, prices, bounds, strict=True):
        lowest = np.inf
        for share in np.linspace(0.0, 0.999, 41):  # a class that comes in at the end is the next cell's
            backlog = cell[0] + share * (cell[1] - cell[0])
            tried = {price[0] + share * (price[1] - price[0]), price[0], price[1]}
            coming = 2.0 + 0.3 * backlog
            values = [coming + dual(backlog, worths_at(np.array(backlog)), one) for one in tried]
            lowest = min(lowest, max(values))
        assert bound <= lowest + 1e-12 * abs(lowest)


def test_a_cell_without_length_stands_for_all_beyond() -> None:
    """Where a class gains from more jobs at a price, nothing is certain; at a higher one something is."""
    cell, worths = np.array([[40.0, 40.0]]), worths_at(np.array([[40.0, 40.0]]))
    cheap, dear = (
        MARKET.certified(cell, worths, np.full((1, 2), 2.0), np.full((1, 2), price), np.zeros((1, 3)))
        for price in (0.01, 50.0)
    )
    assert cheap[0] == -np.inf
    assert np.isfinite(dear[0])


def test_the_span_of_a_curvature() -> None:
    knots, curvature = np.array([0.0, 1.5, 3.0, 20.0]), np.array([0.2, 0.0, 0.5, 0.0])
    lows, highs = np.array([[-1.0, 0.0], [0.5, 4.0], [1.6, 2.0], [19.0, 30.0]]).T
    for low, high, least, largest in zip(lows, highs, *_spans(knots, curvature, lows, highs), strict=True):
        inside = np.linspace(low, high, 999)
        at = np.searchsorted(knots, inside, side="right") - 1
        seen = np.where(at < 0, 0.0, curvature[at])
        assert (least, largest) == (seen[:-1].min(), seen[:-1].max())
