"""The compiled loops over rows give bit for bit what their sources give."""

from __future__ import annotations

import numpy as np
import pytest

import corewise as cw
from corewise.observation import _kernels as row_kernels
from corewise.observation.statistics import MOST_WIDTHS, _new_tables
from tests.helpers.twins import same


@pytest.mark.parametrize("limit", [2, MOST_WIDTHS])
def test_tallies(limit: int) -> None:
    system = cw.load_system("paper:1")
    path = cw.simulate(system, cw.Equi(), departures=80, rng=5, start=[3, 1], record=True).path
    assert path is not None
    jobs, row, stops = np.zeros((2, 2), dtype=np.int64), 0, 0
    while row < path.time.size:
        tables, used = _new_tables(2)
        row = same(
            row_kernels.tally_totals,
            *(path.time, path.event, path.job_class, path.cores, row, jobs, tables, used, limit),
        )
        stops += 1
    assert (stops > 3) == (limit == 2)
    own = path.split()
    holding, row = np.full((4, int(own.job.max()) + 1), -1.0), 0
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
