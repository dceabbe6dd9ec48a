"""Whole cores of single jobs: the knapsack against trying all, and moves that have to be worth a pause."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from corewise.kit.arrays import Floats
from corewise.policies.jobs._kernels import greedy_widths, knapsack
from corewise.policies.jobs.state import JobState
from corewise.policies.jobs.widths import best_widths


def some_values(rng: np.random.Generator, jobs: int, widest: int) -> Floats:
    """Tables that are neither concave nor monotone, with widths that are not allowed."""
    values = rng.uniform(0.1, 3.0, (jobs, 1)) * np.cumsum(rng.normal(0.5, 1.0, (jobs, widest + 1)), axis=1)
    values[rng.random(values.shape) < 0.15] = -np.inf
    values[:, 0] = 0.0
    return values


def test_the_knapsack_agrees_with_trying_all() -> None:
    rng = np.random.default_rng(2)
    for _ in range(200):
        jobs, pool = int(rng.integers(1, 5)), int(rng.integers(1, 8))
        values = some_values(rng, jobs, int(rng.integers(1, pool + 1)))
        out = np.zeros(jobs, dtype=np.int64)
        total = knapsack(values, pool, out)
        best = max(
            sum(values[j, u] for j, u in enumerate(chosen))
            for chosen in product(range(values.shape[1]), repeat=jobs)
            if sum(chosen) <= pool
        )
        assert out.sum() <= pool
        assert total == pytest.approx(best, abs=1e-12)
        assert sum(values[j, u] for j, u in enumerate(out)) == pytest.approx(best, abs=1e-12)


@pytest.mark.parametrize(("jobs", "pool", "least"), [(10, 64, 0.985), (30, 64, 0.99), (100, 128, 0.998)])
def test_greedy_with_repair_is_near_the_exact_one(jobs: int, pool: int, least: float) -> None:
    """Amdahl tables with a loss beyond every node of four."""
    rng = np.random.default_rng(jobs)
    ratios = []
    for _ in range(20):
        p, z = rng.uniform(0.5, 0.99, (jobs, 1)), np.arange(1.0, pool + 1.0)
        loss = 1.0 - rng.uniform(0.05, 0.3, (jobs, 1)) * (z > 4) - 0.02 * (z > 16)
        values = np.zeros((jobs, pool + 1))
        values[:, 1:] = rng.lognormal(size=(jobs, 1)) * loss * z / ((1 - p) * z + p)
        exact, out = np.zeros(jobs, dtype=np.int64), np.zeros(jobs, dtype=np.int64)
        top = knapsack(values, pool, exact)
        found = greedy_widths(values, pool, out)
        assert out.sum() <= pool
        assert found == pytest.approx(values[np.arange(jobs), out].sum())
        ratios.append(found / top)
    assert min(ratios) >= least
    assert np.mean(ratios) >= 0.998


def states(*held: int) -> list[JobState]:
    return [JobState(str(j), "a", held=width, attained=1.0) for j, width in enumerate(held)]


def widths_of(jobs: list[JobState], weights: list[float], pool: int, pause: float) -> list[int]:
    speeds = np.tile(np.arange(pool + 1.0) ** 0.5, (len(jobs), 1))
    lows, caps = [1] * len(jobs), [pool] * len(jobs)
    found = best_widths(jobs, np.array(weights), speeds, lows, caps, pool, pause=pause)
    return [int(width) for width in found]


def test_a_width_is_changed_only_for_what_is_worth_its_pause() -> None:
    assert widths_of(states(4, 4), [1.0, 1.0], 8, 1.0) == [4, 4]
    assert widths_of(states(5, 3), [1.0, 1.0], 8, 1.0) == [5, 3]
    assert widths_of(states(5, 3), [1.0, 1.0], 8, 0.0) == [4, 4]
    assert widths_of(states(8, 0), [1.0, 1.0], 8, 1.0) != [8, 0]  # shrinking counts as well
    assert widths_of(states(1, 7), [9.0, 1.0], 8, 1.0)[0] > 4


def test_a_job_that_never_held_cores_starts_without_a_pause() -> None:
    """√z weighted 0.8 and 1 on eight cores: 3 and 5; where both move, 4 and 4."""
    running, new = JobState("0", "a", held=8, attained=1.0), JobState("1", "a")
    assert widths_of([running, new], [1.0, 1.0], 8, 1.0) == [3, 5]
    assert widths_of([running, JobState("1", "a", attained=0.1)], [1.0, 1.0], 8, 1.0) == [4, 4]
