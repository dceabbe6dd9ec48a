"""Lenient reading: wrong rows of many kinds, and estimates that do not move."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import corewise as cw
from corewise.observation import _kernels
from corewise.observation.rows import Fault
from tests.helpers.twins import same

SYSTEM = cw.load_system("paper:2").at_load(0.7)
Row = list[str]  # time, event, class, job, cores…


@cache
def simulated(departures: int) -> tuple[cw.SamplePath, cw.results.Estimates]:
    path = cw.simulate(SYSTEM, "equi", departures=departures, rng=7, record=True).path
    assert path is not None
    return path, cw.estimate(path, SYSTEM)


def recorded(file: Path, per_job: bool, departures: int = 4000) -> tuple[list[Row], cw.results.Estimates]:
    """The rows of a log without a fault, and what is estimated from it."""
    path, clean = simulated(departures)
    cw.save_events(path, file, per_job=per_job)
    return [line.split(",") for line in file.read_text().splitlines()], clean


def set_field(k: int, text: str) -> Callable[[Row], list[Row]]:
    return lambda row: [[*row[:k], text, *row[k + 1 :]]]


DEPARTURES: dict[str, Callable[[Row], list[Row]]] = {
    "no time": set_field(0, ""),
    "a word for a time": set_field(0, "noon"),
    "a time that is not finite": set_field(0, "inf"),
    "a time far ahead": set_field(0, "1e9"),
    "a time before all": set_field(0, "-5"),
    "a date": set_field(0, "2026-01-01"),
    "no event": set_field(1, ""),
    "an unknown event": set_field(1, "leaves"),
    "an arrival of a job that is there": set_field(1, "arrival"),
    "present in the middle": set_field(1, "present"),
    "a start in the middle": set_field(1, "start"),
    "no class": set_field(2, ""),
    "an unknown class": set_field(2, "three"),
    "no job": set_field(3, ""),
    "a job that never came": set_field(3, "999999999"),
    "negative cores": set_field(4, "-1"),
    "cores beyond the pool": set_field(4, "1e6"),
    "a word for cores": set_field(4, "many"),
    "cores that are not a number": set_field(4, "nan"),
    "too few fields": lambda row: [row[:3]],
    "too many fields": lambda row: [[*row, "x", "y"]],
    "no fields": lambda row: [["????"]],
    "an open quote": lambda row: [['"' + row[0], *row[1:]]],
    "not UTF-8": lambda row: [["\udcff\udcfe", *row[1:]]],
    "the other class": lambda row: [[*row[:2], "two" if row[2] == "one" else "one", *row[3:]]],
    "twice": lambda row: [row, row],
    "an end in the middle": lambda row: [row, [row[0], "end", "", "", *row[4:]]],
    "written over by another": lambda row: [[row[0][:3] + "arrival", *row[2:]]],
}
"""What may happen to the row of a departure."""


def spoilt(rows: list[Row], how: list[Callable[[Row], list[Row]]], file: Path) -> int:
    """Write the rows with departures spoilt, each in its way, over all of the log; return how many rows."""
    leaves = [k for k, row in enumerate(rows) if row[1] == "departure"]
    chosen = dict(zip(np.linspace(20, len(leaves) - 20, len(how)).astype(int).tolist(), how, strict=True))
    wrong = {leaves[k]: spoil for k, spoil in chosen.items()}
    written = [new for k, row in enumerate(rows) for new in (wrong[k](row) if k in wrong else [row])]
    file.write_bytes("\n".join(",".join(row) for row in written).encode(errors="surrogateescape"))
    return len(written) - 1


def moved(found: cw.results.Estimates, clean: cw.results.Estimates) -> float:
    """By how many standard errors estimates differ at most."""
    return max(abs(found[name].value - clean[name].value) / clean[name].stderr for name in SYSTEM.names)


@pytest.mark.parametrize("per_job", [False, True], ids=["totals", "per job"])
def test_wrong_rows_of_many_kinds_do_not_move_estimates(per_job: bool, tmp_path: Path) -> None:
    rows, clean = recorded(tmp_path / "good.csv", per_job)
    assert len(DEPARTURES) >= 25
    count = spoilt(rows, list(DEPARTURES.values()), tmp_path / "bad.csv")
    with pytest.raises(cw.errors.InvalidFile, match="line"):
        cw.load_events(tmp_path / "bad.csv", SYSTEM)
    log = cw.load_events(tmp_path / "bad.csv", SYSTEM, lenient=True)
    assert log.rows == count
    assert len(DEPARTURES) - 3 <= log.skipped <= 4 * len(DEPARTURES)
    assert log.path.cancellations == log.censored
    # Every row is used or skipped, and a cut adds one.
    assert log.path.time.size == log.rows - log.skipped + log.censored
    assert moved(cw.estimate(log, SYSTEM), clean) < 0.5
    assert f"{log.censored} jobs censored" in str(log)


@pytest.mark.parametrize("per_job", [False, True], ids=["totals", "per job"])
@pytest.mark.parametrize("kind", DEPARTURES)
def test_one_wrong_row_of_each_kind(per_job: bool, kind: str, tmp_path: Path) -> None:
    rows, clean = recorded(tmp_path / "good.csv", per_job, 600)
    spoilt(rows, [DEPARTURES[kind]], tmp_path / "bad.csv")
    log = cw.load_events(tmp_path / "bad.csv", SYSTEM, lenient=True)
    assert moved(cw.estimate(log, SYSTEM), clean) < 0.5
    assert log.path.departures >= 595


def test_without_a_cut_one_row_moves_estimates_far(tmp_path: Path) -> None:
    """The negative control: the departure is lost, and its job taken to stay."""
    rows, clean = recorded(tmp_path / "good.csv", per_job=False)
    spoilt(rows, [lambda _: []], tmp_path / "bad.csv")
    log = cw.load_events(tmp_path / "bad.csv", SYSTEM)
    assert moved(cw.estimate(log, SYSTEM), clean) > 1.0


def test_where_a_departure_is_missing_the_cores_say_so(tmp_path: Path) -> None:
    """If cores are those of jobs, more of them are held than there are."""
    rows, clean = recorded(tmp_path / "good.csv", per_job=True)
    spoilt(rows, [lambda _: []], tmp_path / "bad.csv")
    with pytest.raises(cw.errors.InvalidFile, match="sum to more than the pool"):
        cw.load_events(tmp_path / "bad.csv", SYSTEM)
    log = cw.load_events(tmp_path / "bad.csv", SYSTEM, lenient=True)
    assert log.censored >= 1
    assert moved(cw.estimate(log, SYSTEM), clean) < 0.5


def test_as_few_rows_as_possible_are_out_of_order() -> None:
    rng = np.random.default_rng(3)
    for size in (0, 1, 2, 9, 9, 9):
        time = rng.integers(0, 6, size).astype(float)
        kept = np.zeros(size, dtype=np.bool_)
        same(_kernels.longest_rising, time, np.zeros((2, size), dtype=np.int64), kept)
        assert np.all(np.diff(time[kept]) >= 0.0)
        best = 0
        for chosen in range(2**size):
            some = time[[k for k in range(size) if chosen >> k & 1]]
            best = max(best, some.size if np.all(np.diff(some) >= 0.0) else 0)
        assert kept.sum() == best


def test_faults_have_words() -> None:
    assert all(fault.reason for fault in Fault)
