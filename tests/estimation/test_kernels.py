"""The compiled likelihoods give bit for bit what their sources give."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from corewise.estimation import _kernels as likelihood_kernels
from tests.helpers.twins import not_compared, same


@pytest.mark.parametrize(
    "family", [likelihood_kernels.AMDAHL, likelihood_kernels.POWER, likelihood_kernels.GUSTAFSON]
)
@pytest.mark.parametrize("truth", [0.0, 0.3, 0.97, 1.0])
def test_likelihoods(family: int, truth: float) -> None:
    rng = np.random.default_rng(family + int(100 * truth))
    z = np.sort(rng.uniform(1.01, 30.0, 12))
    x = {0: 1.0 - 1.0 / z, 1: np.log(z), 2: z - 1.0}[family]
    exposure = rng.uniform(1.0, 5.0, z.size)
    s = np.array([likelihood_kernels.speed(family, a, truth)[1] for a in x])
    columns = (family, x, rng.poisson(exposure * s).astype(float), exposure)
    for p in (0.0, 0.2, 0.999, 1.0):
        for a in x.tolist():
            same(likelihood_kernels.speed, family, a, p)
            same(likelihood_kernels.slopes, family, a, p)
        same(likelihood_kernels.value, *columns, p)
        same(likelihood_kernels.derivatives, *columns, p)
    same(likelihood_kernels.ranges, *columns, 0.1, 0.7)
    same(likelihood_kernels.climb, *columns, 0.0, 1.0)
    best, top, _ = same(likelihood_kernels.global_maximum, *columns)
    for outer in (0.0, 1.0):
        for drop in (0.1, 1.92, 1e3):
            same(likelihood_kernels.outermost, *columns, outer, best, top - drop)
            level = top - drop
            if abs(outer - best) > 1e-3 and likelihood_kernels.value(*columns, outer) < level:
                at = same(likelihood_kernels._crossing, *columns, outer, best, level)
                slope = likelihood_kernels.derivatives(*columns, at)[0]
                off = likelihood_kernels.value(*columns, at) - level
                assert abs(off) <= 1e-13 * (1 + abs(slope) + abs(top))


@pytest.mark.parametrize("truth", [0.0, 1.0])
def test_a_maximum_at_an_end_is_the_end(truth: float) -> None:
    """And not a number next to it: estimates say whether they are at a boundary."""
    rng, ends = np.random.default_rng(5), 0
    x = 1.0 - 1.0 / np.linspace(1.5, 8.0, 5)
    for _ in range(200):
        exposure = rng.uniform(1.0, 20.0, x.size)
        departures = rng.poisson(exposure / (1.0 - truth * x)).astype(float)
        columns = (likelihood_kernels.AMDAHL, x, departures, exposure)
        best = likelihood_kernels.global_maximum(*columns)[0]
        slope = likelihood_kernels.derivatives(*columns, truth)[0]
        if best == truth:
            ends += 1
            assert slope * (2.0 * truth - 1.0) >= 0.0
        else:
            assert abs(best - truth) > 1e-12
    assert 40 < ends < 160  # about half of them


def test_every_kernel_is_compared_here() -> None:
    """A new one has to be added."""
    source = Path(__file__).read_text(encoding="utf-8")
    assert not_compared(likelihood_kernels, "likelihood_kernels", source) == []
