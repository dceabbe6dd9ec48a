"""Decisions per job against the exact optimum for sizes of two observable stages."""

from __future__ import annotations

import numpy as np
import pytest

import corewise as cw
from corewise.policies.jobs.curves import curve_of, packed
from corewise.policies.jobs.weights import Groups, crowd_of, lift_factor, weights_of_groups
from tests.helpers.two_stages import ERLANG, Chain, Floats, Stages, decreasing_hazard

EDGES = np.exp2(np.arange(-6, 10))
MIDDLES = np.exp2(np.arange(-6, 11) - 0.5)

BOX = {0.5: (32, 32), 0.6: (45, 50), 0.7: (42, 50), 0.8: (70, 90), 0.85: (72, 108), 0.9: (100, 150)}
"""The most jobs of each stage, by load: beyond them the probability is below 1e-5."""


def weights_of_stages(chain: Chain, stages: Stages, p: float, load: float) -> Floats:
    """What a unit of work of a job in each stage is worth, in every state: the rule as it is."""
    one = cw.JobClass("a", load * chain.cores, 1.0, cw.Amdahl(p), sizes=stages)
    crowd = crowd_of(cw.System(chain.cores, [one]), load)
    curves = packed([curve_of(cw.Amdahl(p), chain.cores)])
    survival = [np.concatenate([[1.0], stages.beyond(stage, EDGES), [0.0]]) for stage in (0, 1)]
    first, second = (-np.diff(beyond) for beyond in survival)
    kinds, ones, factor = np.zeros(first.size, dtype=np.int64), np.ones(first.size), lift_factor(load)
    weights = np.ones((2, chain.n1.size))
    seen = chain.n1 / chain.shape[0] + chain.n2 / chain.shape[1] < 1.0  # beyond it is hardly ever
    for k in np.flatnonzero(seen)[1:]:
        expected = chain.n1[k] * first + chain.n2[k] * second
        groups = Groups(kinds, expected, ones, MIDDLES)
        found, _ = weights_of_groups(curves, groups, chain.cores, factor, crowd)
        weights[:, k] = first @ found, second @ found
    return weights


def above_optimum(stages: Stages, p: float, load: float, cores: float = 8.0) -> float:
    """How far the rule is above the optimum, in per cent; stages stand for classes of remaining work."""
    chain = Chain(stages, p, load, cores, BOX[load])
    weights = weights_of_stages(chain, stages, p, load)
    most = np.maximum(1.0, 4.0 * cores / np.maximum(chain.n1 + chain.n2, 1))
    widths = chain.fill(weights[0], weights[1], most)
    mean, _ = chain.evaluate(*widths)
    optimum, _ = chain.optimum(widths)
    assert mean >= optimum * (1.0 - 1e-9)
    return 100.0 * (mean / optimum - 1.0)


SIZES = {"cv2 2.5": decreasing_hazard(2.5), "cv2 10": decreasing_hazard(10.0), "erlang": ERLANG}


@pytest.mark.parametrize(("sizes", "p"), [("cv2 2.5", 0.99), ("cv2 10", 0.9), ("erlang", 0.5)])
def test_a_few_cells(sizes: str, p: float) -> None:
    assert above_optimum(SIZES[sizes], p, 0.5) < 0.08


def test_equal_shares_are_far_from_it() -> None:
    chain = Chain(SIZES["cv2 10"], 0.99, 0.5, 8.0, (40, 40))
    equal = 8.0 / np.maximum(chain.n1 + chain.n2, 1)
    assert chain.evaluate(equal, equal)[0] > 1.14 * chain.optimum()[0]


@pytest.mark.slow
def test_twenty_seven_cells() -> None:
    found = [
        above_optimum(sizes, p, load)
        for sizes in SIZES.values()
        for p in (0.5, 0.9, 0.99)
        for load in (0.5, 0.7, 0.85)
    ]
    assert max(found) <= 0.8
    assert np.mean(found) <= 0.15


@pytest.mark.slow
def test_fresh_cells() -> None:
    """Other pools, distributions and loads, named before the rule was looked at there."""
    found = [
        above_optimum(sizes, p, load, cores)
        for sizes in (decreasing_hazard(1.8), decreasing_hazard(19.0), Stages((1.25, 5.0), 1.0))
        for cores, p, load in ((4.0, 0.95, 0.6), (4.0, 0.99, 0.8), (16.0, 0.8, 0.8), (16.0, 0.95, 0.9))
    ]
    assert max(found) <= 1.6
    assert np.mean(found) <= 0.25
