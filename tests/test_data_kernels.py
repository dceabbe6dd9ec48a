"""The compiled loops of simulation, statistics and estimation give bit for bit what their sources give."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

import corewise as cw
from corewise.estimation import _kernels as likelihood_kernels
from corewise.model import _kernels as row_kernels
from corewise.model.rates import departure_rates
from corewise.model.tally import MOST_WIDTHS, _new_tables
from corewise.simulation import _kernels as walk_kernels
from corewise.simulation.tables import Tables, Visits
from tests.twins import not_compared, same


def tables_of(classes: int, capacity: int) -> Tables:
    curves = (cw.Amdahl(0.6), cw.PowerLaw(0.5), cw.Usl(0.1, 0.02))
    system = cw.System(
        6, [cw.JobClass("abc"[i], 1.0 + 0.3 * i, 1.0 + 0.5 * i, curves[i]) for i in range(classes)]
    )
    return Tables.over(system, cw.Whittle().on(system), (capacity,) * classes)


@pytest.mark.parametrize("classes", [1, 2, 3])
def test_thresholds(classes: int) -> None:
    tables = tables_of(classes, 5)
    space, rates = tables.space, departure_rates(tables.system, tables.space.jobs, tables.cores)
    thresholds, holding = np.empty(2 * rates.size), np.empty(space.size)
    same(
        walk_kernels.move_thresholds,
        *(rates, tables.system.arrival_rates, space.counts, space.dimensions, thresholds, holding),
    )
    total = tables.system.arrival_rates.sum() + rates.sum(axis=0)
    assert np.allclose(holding, 1.0 / total, rtol=1e-14)
    inside = ~space.edge.any(axis=0)
    rows = thresholds.reshape(space.size, -1)
    assert np.all(rows[~inside] == -1.0)
    chance = np.diff(np.minimum(rows[inside], 1.0), prepend=0.0, axis=1)[:, classes:]
    assert np.allclose(chance, (rates / total).T[inside], rtol=0, atol=1e-15)


@pytest.mark.parametrize("p", [0.0, 0.3, 1.0])
def test_departures_by_amdahls_law(p: float) -> None:
    """To the same bits as by its curve, whose subclass takes the general way."""

    class Own(cw.Amdahl):
        pass

    curves = (cw.Amdahl(p), cw.Amdahl(0.9))
    system = cw.System(4, [cw.JobClass("ab"[i], 1.0, 1.0 + i, curve) for i, curve in enumerate(curves)])
    other = system.with_curves({"a": Own(p)})
    assert other.amdahl_fractions is None
    jobs = np.array([[0.0, 1.0, 1.0, 3.0, 9.0], [2.0, 0.0, 1.0, 1.0, 2.0]])
    cores = np.array([[0.0, 4.0, 1.0, 3.1, 4.0], [4.0, 0.0, 3.0, 0.9, 0.0]])
    rates = np.empty(jobs.shape)
    same(row_kernels.amdahl_departures, jobs, cores, system.amdahl_fractions, system.size_rates, rates)
    assert np.array_equal(rates, departure_rates(other, jobs, cores))
    assert np.array_equal(rates, departure_rates(system, jobs, cores))


def test_merged_widths() -> None:
    widths = np.array([2.0, 1.0, 2.0, 0.0, 3.0, 1.0])
    left, spent = np.array([1.0, 2.0, 0.0, 0.0, 0.0, 3.0]), np.array([0.5, 0.0, 0.25, 7.0, 0.0, 1.0])
    merged = np.zeros((3, 6))
    rows = same(row_kernels.merge_widths, widths, left, spent, np.argsort(widths, kind="stable"), merged)
    assert merged[:, :rows].tolist() == [[0.0, 1.0, 2.0], [0.0, 5.0, 1.0], [7.0, 1.0, 0.75]]
    nothing = np.empty(0)
    assert same(row_kernels.merge_widths, nothing, nothing, nothing, np.empty(0, dtype=np.int64), merged) == 0


@pytest.mark.parametrize("classes", [1, 2, 3])
@pytest.mark.parametrize("capacity", [3, 12])
def test_walks(classes: int, capacity: int) -> None:
    tables = tables_of(classes, capacity)
    rng = np.random.default_rng(100 * classes + capacity)
    visits = Visits.none(tables.space)
    for events, departures in ((300, 1000), (1000, 40), (0, 3), (5, 5)):
        same(
            walk_kernels.jump,
            *(rng, tables.thresholds, visits.moves, tables.steps, 0, events, departures),
        )
    assert visits.moves.sum() > 10
    when, what = np.zeros(400), np.zeros(400, dtype=np.int16)
    ends = set()
    for clock, until, departures in (
        (0.0, math.inf, 10**6),
        (2.0, 9.0, 10**6),
        (5.0, math.inf, 30),
        (1.0, 1.0, 9),
    ):
        state, now, events, left = same(
            walk_kernels.clocked,
            *(rng, tables.thresholds, tables.holding, visits.moves, visits.times, tables.steps),
            *(0, clock, until, departures, when, what),
        )
        ends.add("time" if now == until else "departures" if left == departures else "edge or record")
        moves = what[:events]
        jobs = np.zeros((classes, 500), dtype=np.int64)
        counts, job = np.zeros(classes, dtype=np.int64), np.zeros(events, dtype=np.int64)
        same(walk_kernels.name_jobs, rng, moves, jobs, counts, 7, job)
        assert counts.tolist() == list(tables.counts(int(state)))
    assert "time" in ends
    assert len(ends) >= 2


@pytest.mark.parametrize("limit", [2, MOST_WIDTHS])
def test_tallies(limit: int) -> None:
    system = cw.load_system("paper:1")
    path = cw.simulate(system, cw.Equi(), departures=80, rng=5, start=[3, 1], record=True).path
    assert path is not None
    jobs, row, stops = np.zeros(2, dtype=np.int64), 0, 0
    while row < path.time.size:
        tables, used = _new_tables(2)
        row = same(
            row_kernels.tally_totals,
            *(path.time, path.event, path.job_class, path.cores, row, jobs, tables, used, limit),
        )
        stops += 1
    assert (stops > 3) == (limit == 2)
    own = path.split()
    holding, row = np.full((3, int(own.job.max()) + 1), -1.0), 0
    while row < own.time.size:
        tables, used = _new_tables(2)
        row = same(
            row_kernels.tally_jobs,
            *(own.time, own.event, own.job_class, own.job, own.cores, row, holding, tables, used, limit),
        )


def test_slots_of_a_hash_table() -> None:
    tables, used = _new_tables(1)
    widths = np.concatenate([30.0 / np.arange(1, 400), np.arange(40) / 7.0, [0.0, 1e-300, 1e300]])
    for width in widths.tolist():
        same(row_kernels._add, tables, used, 0, width, 0.5, 1.0)
        slot = same(row_kernels.find_slot, tables[0, 0], width)
        assert tables[0, 0, slot] == width
    distinct = np.unique(widths)
    assert used[0] == distinct.size
    seen = tables[0, :, ~np.isnan(tables[0, 0])]
    assert np.array_equal(np.sort(seen[:, 0]), distinct)
    assert seen[:, 1].sum() == widths.size


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
            walk_kernels.cusum_walk, rng, *columns, watched, state, level, height, departures
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
    left, spent = np.zeros((2, grid.size))
    same(likelihood_kernels.share_out, widths, departures, job_time, per_octave, left, spent)
    above = widths > 1.0
    below = float(departures[~above].sum()), float((widths * job_time)[~above].sum())
    for column, amounts, at_one in ((left, departures, below[0]), (spent, job_time, below[1])):
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
        count = same(likelihood_kernels.append_bucket, sizes, rows, most, row, wider_sizes, wider)
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
    square = same(likelihood_kernels.newton_step, information, score, step)
    exact = np.linalg.solve(information, score)
    assert np.allclose(step, exact, rtol=1e-6, atol=0)
    assert square == pytest.approx(score @ exact, rel=1e-6)
    same(likelihood_kernels.newton_step, np.zeros((count, count)), np.zeros(count), step)
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
    same(likelihood_kernels.two_rates_each, sizes, rows, 1, 0, gains)
    same(likelihood_kernels.two_rates_each, sizes, rows, 1, 7, later)
    assert np.array_equal(later, np.where(np.arange(19) >= 3, gains, 0.0))
    assert np.any(rows[0, 2:4] == 0.0)
    for (i, k), gain in np.ndenumerate(gains):
        (due, count), (rest_due, rest) = (
            (float(part[:, 1].sum()), float(part[:, 2 + i].sum())) for part in (rows[: k + 1], rows[k + 1 :])
        )
        assert same(likelihood_kernels.two_rates, count, due, rest, rest_due) == gain
        both = (count + rest) / (due + rest_due)
        apart = poisson(count, count) + poisson(rest, rest)
        together = poisson(count, both * due) + poisson(rest, both * rest_due)
        assert gain == pytest.approx(apart - together, abs=1e-12)
    for nothing in ((0.0, 0.0, 4.0, 2.0), (4.0, 2.0, 0.0, 0.0)):
        assert same(likelihood_kernels.two_rates, *nothing) == 0.0


@pytest.mark.parametrize("curve", [cw.Amdahl(0.6), cw.Usl(0.1, 0.02), cw.Tabulated([[1, 1], [8, 4]])])
def test_scans(curve: cw.SpeedUp) -> None:
    """Against matrices made bucket by bucket and solved by NumPy."""
    rng = np.random.default_rng(5)
    nodes, sizes = 2.0 ** (np.arange(25) / 8), np.array([8, 4, 4, 2, 1, 1])
    rate = 1.5 * curve.rate(nodes)
    ratio = curve.gradient(nodes) / curve.rate(nodes)[:, None]
    count, spans = ratio.shape[1], np.array([2, 5, 64])
    spent = rng.uniform(0.5, 2.0, (sizes.size, nodes.size)) * 20.0 * sizes[:, None]
    left = rng.poisson(rate * spent).astype(float)
    left[:, 3], spent[:, 3] = 0.0, 0.0
    rows = np.hstack([np.ones((sizes.size, 2)), left, spent])
    offsets = 0.01 * rng.normal(size=(4, count))
    sums = np.zeros((sizes.size, count)), np.zeros((sizes.size, count, count)), *np.zeros((2, sizes.size))
    same(likelihood_kernels.bucket_sums, rows, 2, rate, ratio, *sums)
    due = rate * spent
    scores = (left - due) @ ratio
    information = np.einsum("bj,jp,jq->bpq", due, ratio, ratio)
    for ours, theirs in zip(sums, (scores, information, left.sum(axis=1), due.sum(axis=1)), strict=True):
        assert np.allclose(ours, theirs, rtol=1e-12, atol=1e-9)

    by_curve, by_size = np.zeros((2, sizes.size - 1))
    leads, steps, span = np.array([0.0, 0.3, 20.0, 0.1]), np.zeros((4, count)), 2
    before = leads.copy()
    scanned = (sizes, rows, 2, rate, ratio, spans, offsets)
    most = same(likelihood_kernels.scan, *scanned, leads, span, 0, by_curve, by_size, steps)
    assert most[:2] == (by_curve.max() if count else 0.0, by_size.max())
    quiet_curve, quiet_size = np.ones((2, sizes.size - 1))
    same(likelihood_kernels.scan, *scanned, leads.copy(), span, 13, quiet_curve, quiet_size, steps)
    for quiet, all_of_them in ((quiet_curve, by_curve), (quiet_size, by_size)):
        assert np.array_equal(quiet, np.where(np.cumsum(sizes)[:-1] >= 13, all_of_them, 0.0))

    def solved(buckets: slice) -> tuple[np.ndarray, float]:
        score = scores[buckets].sum(axis=0)
        step = np.linalg.solve(information[buckets].sum(axis=0), score)
        return step, float(score @ step)

    for k in range(sizes.size - 1):
        counts = left[: k + 1].sum(), due[: k + 1].sum(), left[k + 1 :].sum(), due[k + 1 :].sum()
        assert by_size[k] == pytest.approx(likelihood_kernels.two_rates(*counts), abs=1e-9)
        quadratic = solved(slice(k + 1))[1] + solved(slice(k + 1, None))[1] - solved(slice(None))[1]
        assert by_curve[k] == pytest.approx(0.5 * quadratic, rel=1e-5, abs=1e-5)
    for k, first in enumerate((0, 4, 2, 0)):  # of 20 checks the last 2, at least 5, and all of them
        step, square = solved(slice(first, None)) if count else (np.empty(0), 0.0)
        assert np.allclose(steps[k], step, rtol=1e-4, atol=1e-9)
        if k == span:
            assert most[2] == pytest.approx(square, rel=1e-5)
    told = offsets @ scores[-1] - 0.5 * np.einsum("kp,pq,kq->k", offsets, information[-1], offsets)
    assert np.allclose(leads, np.maximum(before + told - told[span], 0.0), rtol=1e-9, atol=1e-12)
    assert leads[span] == before[span]


def test_every_kernel_is_compared_here() -> None:
    """A new one has to be added; those that check and split rows are compared with the paths they are for."""
    source = Path(__file__).read_text(encoding="utf-8")
    assert not_compared(walk_kernels, "walk_kernels", source) == []
    assert not_compared(likelihood_kernels, "likelihood_kernels", source) == []
