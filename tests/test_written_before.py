"""Files written by the release before still load, and go on as if nothing had happened.

Those of `tests/data/written_by_0.1.0` were made with it: two of four rows of a sweep and all four, and a run
of a plant whose curves change, saved after two epochs of four.
"""

from __future__ import annotations

import csv
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import corewise as cw

FILES = Path(__file__).parent / "data" / "written_by_0.1.0"

SWEEP = {
    "seed": 3,
    "systems": ["paper:3"],
    "seeds": 2,
    "simulate": [{"policies": ["equi", "whittle"], "departures": 500}],
}

CHANGING = cw.System(
    8,
    [
        cw.JobClass("one", arrival_rate=1.0, size_rate=1.0, speedup=cw.Amdahl(0.3)),
        cw.JobClass("two", arrival_rate=1.5, size_rate=1.0, speedup=cw.Amdahl(0.8)),
    ],
    [cw.Change(30.0, "one", cw.Amdahl(0.9))],
)


def rows(file: Path) -> list[list[str]]:
    """What does not depend on who did it and how long it took."""
    with file.open() as lines:
        return [line[:-2] for line in csv.reader(lines)]


def test_half_a_sweep_is_finished_with_the_same_rows(tmp_path: Path) -> None:
    shutil.copy(FILES / "half.csv", tmp_path)
    with (
        ThreadPoolExecutor(1) as executor,
        cw.sweep(SWEEP, out=tmp_path / "half.csv", executor=executor) as sweep,
    ):
        assert sweep.before == 2
        assert len([*sweep]) == 2
    assert rows(tmp_path / "half.csv") == rows(FILES / "whole.csv")


def test_a_drifting_plant_goes_on_where_it_was() -> None:
    algorithm = cw.algorithm_1b(CHANGING, departures=40, steps=4)
    resumed = cw.learn(cw.SimulatedPlant(CHANGING, rng=9), algorithm, resume=FILES / "drifting.npz")
    assert len(resumed.past) == 2
    assert len([*resumed]) == 2
    never_stopped = cw.learn(cw.SimulatedPlant(CHANGING, rng=5), algorithm)
    assert resumed.past == [epoch.as_mapping() for epoch in never_stopped]
