"""The compiled loops of simulation with tables give bit for bit what their sources give."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

import corewise as cw
from corewise.model.rates import departure_rates
from corewise.simulation.decisions.table import TransitionTables
from corewise.simulation.loops._kernels import chain as walk_kernels
from corewise.simulation.loops.occupation import Visits
from tests.helpers.twins import not_compared, same


def tables_of(classes: int, capacity: int) -> TransitionTables:
    curves = (cw.Amdahl(0.6), cw.PowerLaw(0.5), cw.Usl(0.1, 0.02))
    system = cw.System(
        6, [cw.JobClass("abc"[i], 1.0 + 0.3 * i, 1.0 + 0.5 * i, curves[i]) for i in range(classes)]
    )
    return TransitionTables.over(system, cw.Whittle().on(system), (capacity,) * classes)


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
    draws = np.random.default_rng(3).random(200)
    moved, retraced = Visits.none(tables.space), np.zeros(200, dtype=np.int16)
    _, made, _ = walk_kernels.jump(
        np.random.default_rng(3), tables.thresholds, moved.moves, tables.steps, 0, 200, 1000
    )
    same(walk_kernels.retrace, draws[:made], tables.thresholds, tables.steps, 0, retraced)
    by_move = moved.moves.reshape(-1, 2 * classes).sum(axis=0)
    assert np.bincount(retraced[:made], minlength=2 * classes).tolist() == by_move.tolist()
    same(
        walk_kernels.follow_jobs,
        *(retraced[:made], draws[:made], 0.5, np.ones(classes, dtype=np.int64), np.ones(classes)),
        *np.zeros((4, classes)),
    )
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


def test_every_kernel_is_compared_here() -> None:
    """A new one has to be added."""
    source = Path(__file__).read_text(encoding="utf-8")
    assert not_compared(walk_kernels, "walk_kernels", source) == []


def test_no_variable_reaches_beyond_the_last_threshold() -> None:
    """The last move with a rate has one above 1, whatever the sum rounds to; so have moves without a rate."""
    rng = np.random.default_rng(2)
    for _ in range(200):
        leaving = rng.exponential(size=(2, 1)) * np.array([[1.0], [rng.integers(0, 2)]])
        arrivals = rng.exponential(size=2)
        thresholds, holding = np.empty(4), np.empty(1)
        counts, shape = np.ones((2, 1), dtype=np.int64), np.array([5, 5])
        walk_kernels.move_thresholds(leaving, arrivals, counts, shape, thresholds, holding)
        last = 3 if leaving[1, 0] > 0.0 else 2
        assert np.all(thresholds[last:] == 2.0)
        assert np.all(thresholds[:last] < 1.0)
        what = np.zeros(1, dtype=np.int16)
        walk_kernels.retrace(np.array([np.nextafter(1.0, 0.0)]), thresholds, (1, 1, -1, -1), 0, what)
        assert what[0] == last
