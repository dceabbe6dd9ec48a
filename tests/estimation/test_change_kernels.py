"""The compiled loops of change detection give bit for bit what their sources give."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

import corewise as cw
from corewise.estimation.changes import _kernels as change_kernels
from tests.helpers.twins import not_compared, same


def shared_naively(z: float, amount: float, per_octave: int, nodes: int) -> list[float]:
    """From the definition: between its two neighbours, so that amount and z · amount stay what they are."""
    grid, parts = [2.0 ** (j / per_octave) for j in range(nodes)], [0.0] * nodes
    for j in range(nodes - 1):
        if grid[j] <= z < grid[j + 1] or j == nodes - 2:
            parts[j] = amount * (grid[j + 1] - z) / (grid[j + 1] - grid[j])
            parts[j + 1] = amount - parts[j]
            return parts
    raise AssertionError("no neighbours")


@pytest.mark.parametrize("per_octave", [1, 8, 32])
def test_shared_out(per_octave: int) -> None:
    rng = np.random.default_rng(per_octave)
    widths = np.sort(np.concatenate([rng.uniform(0.0, 1.0, 3), [1.0, 2.0, 4.0], rng.uniform(1.0, 8.0, 20)]))
    departures, job_time = rng.uniform(0.0, 5.0, widths.size), rng.uniform(0.0, 5.0, widths.size)
    grid = 2.0 ** (np.arange(3 * per_octave + 1) / per_octave)
    departed, spent = np.zeros((2, grid.size))
    same(change_kernels.share_out, widths, departures, job_time, per_octave, departed, spent)
    above = widths > 1.0
    below = float(departures[~above].sum()), float((widths * job_time)[~above].sum())
    for column, amounts, at_one in ((departed, departures, below[0]), (spent, job_time, below[1])):
        assert np.all(column >= 0.0)
        assert column.sum() == pytest.approx(amounts[above].sum() + at_one, rel=1e-13)
        assert grid @ column == pytest.approx(widths[above] @ amounts[above] + at_one, rel=1e-13)
        naive = np.zeros(grid.size)
        for z, amount in zip(widths[above].tolist(), amounts[above].tolist(), strict=True):
            naive += shared_naively(z, amount, per_octave, grid.size)
        naive[0] += at_one
        assert np.allclose(column, naive, rtol=1e-11, atol=1e-11)


def with_one_more(buckets: list[list[int]], check: int, most: int) -> list[list[int]]:
    """Append a check as a bucket of its own; from the small sizes on, merge the two oldest of too many."""
    buckets, size = [*buckets, [check]], 1
    while True:
        alike = [k for k, bucket in enumerate(buckets) if len(bucket) == size]
        if len(alike) <= most:
            return buckets
        first, second = alike[:2]
        buckets = [*buckets[:first], buckets[first] + buckets[second], *buckets[second + 1 :]]
        size *= 2


@pytest.mark.parametrize("most", [2, 4])
def test_buckets(most: int) -> None:
    checks = np.random.default_rng(most).integers(0, 100, (600, 3)).astype(float)  # sums are exact
    sizes, rows, naive = np.empty(0, dtype=np.int64), np.empty((0, 3)), list[list[int]]()
    for t, row in enumerate(checks):
        wider_sizes, wider = np.zeros(sizes.size + 1, dtype=np.int64), np.zeros((sizes.size + 1, 3))
        count = same(change_kernels.append_bucket, sizes, rows, most, row, wider_sizes, wider)
        sizes, rows = wider_sizes[:count], wider[:count]
        naive = with_one_more(naive, t, most)
        assert sizes.tolist() == [len(bucket) for bucket in naive]
        assert np.array_equal(rows, [checks[bucket].sum(axis=0) for bucket in naive])
        assert sizes.sum() == t + 1
        assert np.all(np.diff(sizes) <= 0)
        assert np.all(sizes & (sizes - 1) == 0)
        assert np.bincount(sizes).max() <= most
        assert count <= most * (1 + math.log2(t + 1))


@pytest.mark.parametrize("count", [1, 2, 3])
def test_newton_steps(count: int) -> None:
    rng = np.random.default_rng(count)
    factor = rng.normal(size=(count, count + 2)) * 10.0 ** np.arange(count)[:, None]
    information, score, step = factor @ factor.T, rng.normal(size=count), np.zeros(count)
    square = same(change_kernels.newton_step, information, score, step)
    exact = np.linalg.solve(information, score)
    assert np.allclose(step, exact, rtol=1e-6, atol=0)
    assert square == pytest.approx(score @ exact, rel=1e-6)
    same(change_kernels.newton_step, np.zeros((count, count)), np.zeros(count), step)
    assert np.all(step == 0.0)


def poisson(count: float, mean: float) -> float:
    """Return the log-likelihood of a count, without what does not depend on its mean."""
    return -mean if count == 0.0 else count * math.log(mean) - mean


def test_two_rates() -> None:
    """The gain is that of Poisson counts with a rate each, over one for both."""
    rng = np.random.default_rng(3)
    rows = rng.integers(0, 4, (20, 5)).astype(float)
    rows[:, 1] = rng.integers(1, 30, 20) / 8.0  # sums are exact, in whatever order
    rows[:, 4] = 0.0
    sizes, gains, later = np.full(20, 2), np.ones((3, 19)), np.ones((3, 19))
    same(change_kernels.two_rates_each, sizes, rows, 1, 0, gains)
    same(change_kernels.two_rates_each, sizes, rows, 1, 7, later)
    assert np.array_equal(later, np.where(np.arange(19) >= 3, gains, 0.0))
    assert np.any(rows[0, 2:4] == 0.0)
    for (i, k), gain in np.ndenumerate(gains):
        (due, count), (rest_due, rest) = (
            (float(part[:, 1].sum()), float(part[:, 2 + i].sum())) for part in (rows[: k + 1], rows[k + 1 :])
        )
        assert same(change_kernels.two_rates, count, due, rest, rest_due) == gain
        both = (count + rest) / (due + rest_due)
        apart = poisson(count, count) + poisson(rest, rest)
        together = poisson(count, both * due) + poisson(rest, both * rest_due)
        assert gain == pytest.approx(apart - together, abs=1e-12)
    for nothing in ((0.0, 0.0, 4.0, 2.0), (4.0, 2.0, 0.0, 0.0)):
        assert same(change_kernels.two_rates, *nothing) == 0.0


@pytest.mark.parametrize("curve", [cw.Amdahl(0.6), cw.Usl(0.1, 0.02), cw.Tabulated([[1, 1], [8, 4]])])
def test_scans(curve: cw.SpeedUp) -> None:
    """Against matrices made bucket by bucket and solved by NumPy."""
    rng = np.random.default_rng(5)
    nodes, sizes = 2.0 ** (np.arange(25) / 8), np.array([8, 4, 4, 2, 1, 1])
    rate = 1.5 * curve.rate(nodes)
    ratio = curve.gradient(nodes) / curve.rate(nodes)[:, None]
    count, window_lengths = ratio.shape[1], np.array([2, 5, 64])
    spent = rng.uniform(0.5, 2.0, (sizes.size, nodes.size)) * 20.0 * sizes[:, None]
    departed = rng.poisson(rate * spent).astype(float)
    departed[:, 3], spent[:, 3] = 0.0, 0.0
    rows = np.hstack([np.ones((sizes.size, 2)), departed, spent])
    offsets = 0.01 * rng.normal(size=(4, count))
    sums = np.zeros((sizes.size, count)), np.zeros((sizes.size, count, count)), *np.zeros((2, sizes.size))
    same(change_kernels.bucket_sums, rows, 2, rate, ratio, *sums)
    due = rate * spent
    scores = (departed - due) @ ratio
    information = np.einsum("bj,jp,jq->bpq", due, ratio, ratio)
    for ours, theirs in zip(sums, (scores, information, departed.sum(axis=1), due.sum(axis=1)), strict=True):
        assert np.allclose(ours, theirs, rtol=1e-12, atol=1e-9)

    by_curve, by_size = np.zeros((2, sizes.size - 1))
    window_leads, steps, window_index = np.array([0.0, 0.3, 20.0, 0.1]), np.zeros((4, count)), 2
    before = window_leads.copy()
    scanned = (sizes, rows, 2, rate, ratio, window_lengths, offsets)
    most = same(change_kernels.scan, *scanned, window_leads, window_index, 0, by_curve, by_size, steps)
    assert most[:2] == (by_curve.max() if count else 0.0, by_size.max())
    late_by_curve, late_by_size = np.ones((2, sizes.size - 1))
    same(
        change_kernels.scan,
        *scanned,
        window_leads.copy(),
        window_index,
        13,
        late_by_curve,
        late_by_size,
        steps,
    )
    for late, all_of_them in ((late_by_curve, by_curve), (late_by_size, by_size)):
        assert np.array_equal(late, np.where(np.cumsum(sizes)[:-1] >= 13, all_of_them, 0.0))

    def solved(buckets: slice) -> tuple[np.ndarray, float]:
        score = scores[buckets].sum(axis=0)
        step = np.linalg.solve(information[buckets].sum(axis=0), score)
        return step, float(score @ step)

    for k in range(sizes.size - 1):
        counts = departed[: k + 1].sum(), due[: k + 1].sum(), departed[k + 1 :].sum(), due[k + 1 :].sum()
        assert by_size[k] == pytest.approx(change_kernels.two_rates(*counts), abs=1e-9)
        quadratic = solved(slice(k + 1))[1] + solved(slice(k + 1, None))[1] - solved(slice(None))[1]
        assert by_curve[k] == pytest.approx(0.5 * quadratic, rel=1e-5, abs=1e-5)
    for k, first in enumerate((0, 4, 2, 0)):  # of 20 checks the last 2, at least 5, and all of them
        step, square = solved(slice(first, None)) if count else (np.empty(0), 0.0)
        assert np.allclose(steps[k], step, rtol=1e-4, atol=1e-9)
        if k == window_index:
            assert most[2] == pytest.approx(square, rel=1e-5)
    gains = offsets @ scores[-1] - 0.5 * np.einsum("kp,pq,kq->k", offsets, information[-1], offsets)
    assert np.allclose(
        window_leads, np.maximum(before + gains - gains[window_index], 0.0), rtol=1e-9, atol=1e-12
    )
    assert window_leads[window_index] == before[window_index]


def test_every_kernel_is_compared_here() -> None:
    """A new one has to be added."""
    source = Path(__file__).read_text(encoding="utf-8")
    assert not_compared(change_kernels, "change_kernels", source) == []
