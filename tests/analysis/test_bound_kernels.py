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
SIZES, WEIGHTS = np.array([1.0, 2.5, 0.7]), np.array([1.0, 3.0, 1.0])


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


def test_every_kernel_is_compared_here() -> None:
    """A new one has to be added."""
    source = Path(__file__).read_text(encoding="utf-8")
    assert not_compared(bound_kernels, "bound_kernels", source) == []
