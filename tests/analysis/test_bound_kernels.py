"""The compiled functions of the lower bounds give bit for bit what their Python source gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import corewise as cw
from corewise.analysis.lower import _kernels as bound_kernels
from corewise.analysis.lower.majorants import Majorants
from tests.helpers.twins import not_compared, same

CORES = 6.0
CURVES: list[cw.SpeedUp] = [cw.Amdahl(0.8), cw.Gustafson(0.4), cw.Usl(0.1, 0.03)]
SIZES, WEIGHTS, NEEDS = np.array([1.0, 2.5, 0.7]), np.array([1.0, 3.0, 1.0]), np.array([1.3, 0.8, 2.0])


def pieces() -> tuple[Any, Any, Any]:
    """Few pieces, so that the Python source is quick."""
    found = Majorants.of(CURVES, CORES, np.ones(3))
    corners = np.linspace(0, found.slopes.shape[1], 12).astype(int)
    widths, speeds = found.widths[:, corners], found.speeds[:, corners]
    rise, run = np.diff(speeds), np.diff(widths)
    slopes = np.divide(rise, run, out=np.zeros_like(rise), where=run > 0.0)
    return slopes, widths, speeds


@pytest.mark.parametrize("least", [0.0, 0.3, 0.999, 1.0, 2.0])
def test_what_is_bought(least: float) -> None:
    for slopes in pieces()[0]:
        assert same(bound_kernels.bought, slopes, least) == np.count_nonzero(slopes > least)


@pytest.mark.parametrize("price", [0.0, 0.2, 5.0])
@pytest.mark.parametrize("most", [1, 2, 25])
@pytest.mark.parametrize("kind", [0, 1, 2])
def test_one_class_that_pays(kind: int, most: int, price: float) -> None:
    curve = [part[kind] for part in pieces()]
    rates = (2.0, float(SIZES[kind]), float(WEIGHTS[kind]))
    capped = np.append(0.0, np.interp(CORES / np.arange(1.0, most + 1.0), *curve[1:]))
    steps, held, leaving = np.full(most + 1, 1.5), np.empty(most + 1), np.empty(most + 1)
    same(bound_kernels._improve_priced, *rates, price, CORES, *curve, capped, steps, held, leaving)
    assert np.all(held <= CORES * (1 + 1e-12))
    same(bound_kernels._evaluate_priced, rates[0], rates[2], price, held, leaving, steps)
    same(bound_kernels.priced_class, *rates, price, CORES, *curve, capped, steps)
    idle = np.zeros(most + 1)
    _, _, edge = same(bound_kernels._evaluate_priced, rates[0], rates[2], price, idle, idle.copy(), steps)
    assert edge == 1.0


def test_a_law_too_large_for_floating_point_numbers() -> None:
    """Departures a thousand times slower than arrivals, 200 jobs: terms to 1e600."""
    steps, held = np.empty(201), np.zeros(201)
    mean, _, edge = same(bound_kernels._evaluate_priced, 1000.0, 1.0, 0.0, held, np.ones(201), steps)
    assert edge == pytest.approx(0.999)
    assert mean == pytest.approx(200.0 - 1.0 / 999.0)


def parameters() -> tuple[Any, ...]:
    return SIZES, WEIGHTS, NEEDS, CORES, *pieces()


def worths_at(points: Any) -> Any:
    return np.array([0.5, 0.4, 0.9]) + points[..., None] * 0.1 * NEEDS


@pytest.mark.parametrize("tail", [False, True])
def test_the_worst_mixes(tail: bool) -> None:
    points = np.array([0.8, 1.0, 1.3, 2.0, 4.0, 11.0, 40.0])
    worths = worths_at(points)
    outcome = (np.empty(7), np.empty((7, 2), dtype=np.int64), np.empty((7, 2)), np.empty((7, 2)))
    for price in (0.0, 0.3, 10.0):
        sizes, weights, needs, _, *curves = parameters()
        same(bound_kernels._dearest, 1.5, worths[2], price, sizes, weights, needs, *curves)
    same(bound_kernels.worst_mixes, points, worths, tail, *parameters(), *outcome)
    _, kinds, jobs, _ = outcome
    inside = slice(None, -1) if tail else slice(None)
    assert np.allclose((jobs * NEEDS[kinds]).sum(axis=1)[inside], points[inside], rtol=1e-12)
    assert set(kinds[0]) == {1}  # the only class with room for a job


def test_bounds_in_cells() -> None:
    points = np.array([0.8, 1.0, 1.3, 2.0, 4.0, 11.0, 40.0])
    cells = np.concatenate([np.stack([points[:-1], points[1:]], axis=1), [[40.0, 40.0]]])
    worths = worths_at(cells)
    arriving = 2.0 + 0.3 * cells
    prices = 0.1 + 0.2 * cells
    knots, curvature = np.array([0.0, 1.5, 3.0, 20.0]), np.array([0.2, 0.0, 0.5, 0.0])
    for low, high in ((-1.0, 0.0), (0.5, 4.0), (1.6, 2.0), (19.0, 30.0)):
        least, largest = same(bound_kernels._span, knots, curvature, low, high)
        inside = np.linspace(low, high, 999)
        at = np.searchsorted(knots, inside, side="right") - 1
        seen = np.where(at < 0, 0.0, curvature[at])
        assert (least, largest) == (seen[:-1].min(), seen[:-1].max())
    for cell, worth, coming in zip(cells, worths, arriving, strict=True):
        for pair in ((0.1, 0.4), (0.4, 0.4), (9.0, 9.0)):
            same(bound_kernels._least_in_cell, cell, worth, coming, pair, 0.1 * SIZES, *parameters())
    rest = (worths, arriving, prices, np.array([1.0, 2.0, 0.5]), knots, curvature)
    same(bound_kernels.certified_cells, cells, *rest, *parameters(), np.empty(len(cells)))


def test_every_kernel_is_compared_here() -> None:
    """A new one has to be added."""
    source = Path(__file__).read_text(encoding="utf-8")
    assert not_compared(bound_kernels, "bound_kernels", source) == []
