"""Compiled water-filling gives bit for bit what its source gives."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from corewise.policies.waterfill import _kernels as split_kernels
from corewise.policies.waterfill.demand import index_shapes, marginal_shapes
from tests.helpers.boxes import CURVES, system_of
from tests.helpers.twins import not_compared, same


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
    same(split_kernels.split_closed_states, *shapes.closed_terms, counts, offers, budget, cores)
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
        step = same(split_kernels.stride_of, size)
        assert sorted(k * step % size for k in range(size)) == list(range(size))


def test_every_kernel_is_compared_here() -> None:
    """A new one has to be added."""
    source = Path(__file__).read_text(encoding="utf-8")
    assert not_compared(split_kernels, "split_kernels", source) == []
