"""The compiled CUSUM gives bit for bit what its source and its definition give."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.instruments import _kernels as cusum_kernels
from tests.helpers.twins import not_compared, same
from tests.simulation.test_kernels import tables_of

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("watched", [3, 4])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_cusum(watched: int, sign: float) -> None:
    """From the definition: one state and event at a time, in the order in which variables are drawn."""
    tables, rng = tables_of(3, 12), np.random.default_rng(watched)
    falls = sign * rng.uniform(0.0, 0.3, tables.space.size)
    rises = sign * rng.uniform(0.0, 0.4, tables.space.size)
    ends, state, level = set(), 0, 0.0
    for height, departures in ((1e9, 40), (1.0, 10**6), (1e9, 1), (0.5, 10**6), (1e9, 5000)):
        before, twin = (state, level), np.random.default_rng()
        twin.bit_generator.state = rng.bit_generator.state
        columns = (tables.thresholds, tables.holding, falls, rises, tables.steps)
        state, level, left = same(
            cusum_kernels.cusum_walk, rng, *columns, watched, state, level, height, departures
        )
        here, now, done = *before, 0
        while done < departures and now < height and tables.thresholds[6 * here] >= 0.0:
            now = max(0.0, now - falls[here] * tables.holding[here] * twin.standard_exponential())
            if now >= height:
                break
            move = int(np.searchsorted(tables.thresholds[6 * here : 6 * here + 6], twin.random(), "right"))
            now = max(0.0, now + rises[here]) if move == watched else now
            here, done = here + tables.steps[move], done + (move >= 3)
        assert (state, level, left) == (here, now, done)
        ends.add("height" if level >= height else "departures" if left == departures else "edge")
        level = 0.0 if level >= height else level
    assert {"height", "departures"} <= ends


def test_every_kernel_is_compared_here() -> None:
    """A new one has to be added."""
    source = Path(__file__).read_text(encoding="utf-8")
    assert not_compared(cusum_kernels, "cusum_kernels", source) == []
