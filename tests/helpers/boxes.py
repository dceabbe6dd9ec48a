"""Small systems with curves of every kind, and chains on small boxes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import corewise as cw
from corewise.analysis.chain import Chain
from corewise.model.space import StateSpace

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
