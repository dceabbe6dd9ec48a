"""The made-up day on a GPU cluster: what it promises of its classes and its jobs."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

import corewise as cw

SYSTEM = cw.load_system("day:gpu")


def test_speeds_are_those_of_the_formula() -> None:
    """By hand, images on five GPUs in the third part: noise 3 · 3.5², one node more than one."""
    noise = 3.0 * 3.5**2
    slower = 1.0 + 0.12 + 0.55 + 0.010
    expected = 5.0 * (noise + 1.0) / (noise + 5.0) / slower
    assert SYSTEM["images"].curves[2].table(5)[5] == pytest.approx(expected, abs=5e-5)


@pytest.mark.parametrize("name", SYSTEM.names[1:])
def test_curves_have_kinks_at_nodes_rise_with_progress_and_fall_beyond_a_peak(name: str) -> None:
    tables = [curve.table(64) for curve in SYSTEM[name].curves]
    assert len(tables) == 4
    gains = np.diff(tables[2])  # of the next core
    assert gains[4] < 0.5 * gains[3]
    assert gains[4] < gains[5]
    assert all(np.all(later[2:] > earlier[2:]) for earlier, later in itertools.pairwise(tables))
    assert tables[0].argmax() < 64
    assert tables[0][64] < 0.99 * tables[0].max()


def test_jobs_on_one_gpu_run_on_one() -> None:
    assert SYSTEM["tabular"].curve.table(64)[[1, 2, 64]].tolist() == [1, 1, 1]


@pytest.mark.parametrize("seed", range(5))
def test_every_day_has_eight_busy_hours_and_sizes_over_four_decades(seed: int) -> None:
    jobs = cw.Trace.gpu_day(rng=seed)
    assert len(jobs.job_class) == 160
    assert jobs.time[0] >= 0.0
    assert jobs.time[-1] <= 8 * 3600
    assert jobs.size.sum() > SYSTEM.cores * 8 * 3600  # the load is above one
    assert jobs.size.max() > 5e3 * jobs.size.min()
    assert SYSTEM.load == pytest.approx(0.5, abs=0.05)  # that of the whole day


def test_a_day_by_name_is_the_one_of_its_seed() -> None:
    assert cw.Trace.load("day:gpu") == cw.Trace.gpu_day() == cw.Trace.load("day:gpu:0")
    assert cw.Trace.load("day:gpu:7") == cw.Trace.gpu_day(rng=7) != cw.Trace.gpu_day()
    with pytest.raises(cw.errors.InvalidFile, match=r"^day:gpu:x: the seed of a day .* got 'x'$"):
        cw.Trace.load("day:gpu:x")
    with pytest.raises(cw.errors.InvalidFile, match="unknown packaged system 'day:tpu'"):
        cw.load_system("day:tpu")


def test_the_system_comes_back_from_a_file(tmp_path: Path) -> None:
    cw.save_system(SYSTEM, tmp_path / "day.toml")
    assert cw.load_system(tmp_path / "day.toml") == SYSTEM
