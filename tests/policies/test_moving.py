"""Width rules: compiled choices beside their twins, and what a rule may never do."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import corewise as cw
from corewise.errors import InvalidFile, InvalidPolicy
from corewise.kit.arrays import Ints
from corewise.policies.moving._kernels import Jobs, share_out
from corewise.policies.moving.rule import PriceTables, WidthRule, Widths, job_times
from corewise.policies.moving.share import Claim, share


def some_jobs(rng: np.random.Generator, pool: int, *, classes: int = 2) -> Jobs:
    n = int(rng.integers(1, 6))
    least = rng.integers(1, 3, n)
    most = np.minimum(least + rng.integers(0, pool, n), pool)
    widths, free = np.zeros(n, dtype=np.int64), pool
    for j in range(n):
        if least[j] <= free and rng.random() < 0.7:
            widths[j] = rng.integers(least[j], min(most[j], free) + 1)
            free -= widths[j]
    fresh = (widths == 0) & (rng.random(n) < 0.8)
    left = np.where((widths > 0) & (rng.random(n) < 0.3), 0.1 * rng.random(n), 0.0)
    return rng.integers(0, classes, n), widths, fresh, left, least, most


def some_split(rng: np.random.Generator, pool: int) -> Ints:
    first = int(rng.integers(0, pool + 1))
    return np.array([first, pool - first])


def test_shares_agree_with_their_twin() -> None:
    rng = np.random.default_rng(1)
    for _ in range(400):
        pool = int(rng.integers(1, 9))
        classes, _, _, _, least, most = some_jobs(rng, pool)
        cores = some_split(rng, pool)
        out = np.zeros(classes.size, dtype=np.int64)
        share_out(classes, least, most, cores, pool, out)
        rows = enumerate(zip(classes.tolist(), least.tolist(), most.tolist(), strict=True))
        claims = [Claim(str(j), i, j, low, high) for j, (i, low, high) in rows]
        held = share(claims, cores.tolist(), pool)
        assert out.tolist() == [held[str(j)] for j in range(out.size)]


def some_tables(rng: np.random.Generator, pool: int) -> PriceTables:
    states = 3 * 4
    running = rng.random((2, states, pool + 1))
    paused = running + rng.random(running.shape)
    return PriceTables(np.array([2, 3]), running, paused, rng.random((2, states)), rng.random(states))


def naive_cost(tables: PriceTables, jobs: Jobs, j: int, u: int, pause: float) -> float:
    """What the price rule charges for a width, from its definition."""
    classes, widths, fresh, left, _, _ = jobs
    i = classes[j]
    n = [min(int(np.sum(classes == k)), int(tables.capacity[k])) for k in (0, 1)]
    s = n[0] * 4 + n[1]
    if fresh[j]:
        return float(tables.waiting[i, s] if u == 0 else tables.running[i, s, u])
    if u == 0:
        return float(max(tables.running[i, s, 0], tables.paused[i, s, 1:].min()))
    if u != widths[j]:
        return float(tables.paused[i, s, u])
    part = left[j] / pause
    return float((1 - part) * tables.running[i, s, u] + part * tables.paused[i, s, u])


def test_the_knapsack_agrees_with_trying_all() -> None:
    rng = np.random.default_rng(2)
    for _ in range(150):
        pool = int(rng.integers(2, 6))
        jobs, tables = some_jobs(rng, pool), some_tables(rng, pool)
        classes, widths, _, _, least, most = jobs
        rule = WidthRule("price", np.full(2, 0.1), np.ones((2, pool + 1)), tables)
        out = rule.widths(jobs, np.zeros(2, dtype=np.int64), pool)
        n = [min(int(np.sum(classes == k)), int(tables.capacity[k])) for k in (0, 1)]
        idle = float(tables.idle[n[0] * 4 + n[1]])

        def total(chosen: tuple[int, ...], jobs: Jobs = jobs, tables: PriceTables = tables) -> float:
            return sum(naive_cost(tables, jobs, j, u, 0.1) for j, u in enumerate(chosen))

        allowed = [
            [0, *(u for u in range(1, pool + 1) if least[j] <= u <= most[j] or u == widths[j])]
            for j in range(classes.size)
        ]
        best = min(
            total(chosen) + idle * (pool - sum(chosen)) for chosen in product(*allowed) if sum(chosen) <= pool
        )
        assert out.sum() <= pool
        assert all(u in allowed[j] for j, u in enumerate(out.tolist()))
        assert total(tuple(out.tolist())) + idle * (pool - out.sum()) == pytest.approx(best, abs=1e-12)


@pytest.mark.parametrize("kind", ["hold", "steady", "follow"])
def test_no_rule_gives_more_than_there_is_or_less_than_a_job_needs(kind: str) -> None:
    rng = np.random.default_rng(3)
    system = cw.System(8, [cw.JobClass(name, 1.0, 1.0, cw.Amdahl(0.8)) for name in "ab"])
    rule = WidthRule(kind, np.full(2, 0.2), job_times(system, 8))
    for _ in range(400):
        jobs = some_jobs(rng, 8)
        _, widths, _, _, least, most = jobs
        out = rule.widths(jobs, some_split(rng, 8), 8)
        assert out.sum() <= 8
        assert np.all((out == 0) | ((out >= least) & (out <= most)))
        if kind == "hold":
            assert np.all(out[widths > 0] == widths[widths > 0])
        if kind == "steady":  # nobody who runs is stopped, and nobody waits beside cores that are enough
            assert np.all(out[widths > 0] > 0)
            assert not np.any((out == 0) & (least <= 8 - out.sum()))


def test_a_steady_job_moves_only_for_four_pauses() -> None:
    """Alone on 8 cores, from 4: 1/s(4) − 1/s(8) = p/8 of a mean job, a tenth, is worth 4 pauses or not."""
    system = cw.System(8, [cw.JobClass("a", 1.0, 1.0, cw.Amdahl(0.8))])
    jobs = (
        *(np.array([0]), np.array([4]), np.array([False]), np.zeros(1)),
        *(np.array([1]), np.array([8])),
    )
    for pause, expected in ((0.1 / 4.1, 8), (0.1 / 3.9, 4)):
        rule = WidthRule("steady", np.array([pause]), job_times(system, 8))
        assert rule.widths(jobs, np.array([8]), 8).tolist() == [expected]


def test_rules_that_cannot_be_are_refused() -> None:
    with pytest.raises(InvalidPolicy, match="unknown width rule 'prise'"):
        WidthRule("prise", np.zeros(1), np.ones((1, 2)))
    with pytest.raises(InvalidPolicy, match="price tables do not fit"):
        PriceTables(np.array([2]), np.zeros((1, 9, 3)), np.zeros((1, 9, 3)), np.zeros((1, 9)), np.zeros(9))


def test_priced_policies_are_kept_whole() -> None:
    from corewise.control.priced.priced import solve_priced
    from corewise.policies.moving.priced import PricedTabular

    classes = [cw.JobClass(name, 0.6, 1.0, cw.Amdahl(0.8), resize_pause=0.1) for name in "ab"]
    system = cw.System(4, classes)
    policy = solve_priced(system)
    content = policy.to_bytes()
    again = PricedTabular.from_bytes(content)
    assert again.to_bytes() == content
    jobs = some_jobs(np.random.default_rng(4), 4)
    rules = [one.on(system).decision.part(Widths) for one in (policy, again)]
    assert rules[0] is not None
    assert rules[1] is not None
    first, second = (own.rule.widths(jobs, np.zeros(2, dtype=np.int64), 4) for own in rules if own)
    assert np.array_equal(first, second)
    with pytest.raises(InvalidFile):
        PricedTabular.from_bytes(content[:-100])
