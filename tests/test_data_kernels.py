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
    when, what = np.zeros(400), np.zeros(400, dtype=np.int8)
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


def test_every_kernel_is_compared_here() -> None:
    """A new one has to be added; those that check and split rows are compared with the paths they are for."""
    source = Path(__file__).read_text(encoding="utf-8")
    assert not_compared(walk_kernels, "walk_kernels", source) == []
    assert not_compared(likelihood_kernels, "likelihood_kernels", source) == []
