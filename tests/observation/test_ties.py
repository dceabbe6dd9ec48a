"""Rows of one instant may come in any order: what they say together is what is read."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import corewise as cw
from corewise.observation import log_reader
from corewise.observation.log_repair import with_ties_reordered
from corewise.observation.rows import find_faults
from tests.observation.test_event_logs import SYSTEM, assert_equal, read
from tests.observation.test_sample_path import (
    FORMS,
    POOL,
    Row,
    columns_of,
    possible,
    random_rows,
    seeds,
    spoilt,
)
from tests.observation.test_statistics import assert_same, assert_table, tally

HEADER = "time,event,class,job,"


def instants(rows: list[Row]) -> list[list[Row]]:
    return [list(group) for _, group in itertools.groupby(rows, key=lambda row: row[0])]


def shuffled(rng: np.random.Generator, rows: list[Row]) -> list[Row]:
    """The rows of each instant in any order, but resizes of one job in theirs: the last of them counts."""
    mixed: list[Row] = []
    for group in instants(rows):
        order = [group[k] for k in rng.permutation(len(group))]
        resizes: dict[int, list[Row]] = {}
        for row in group:
            if row[1] == cw.results.EventKind.RESIZE:
                resizes.setdefault(row[3], []).append(row)
        mixed += [resizes[row[3]].pop(0) if row[1] == cw.results.EventKind.RESIZE else row for row in order]
    return mixed


def written(rows: list[Row], per_job: bool) -> str:
    lines = [HEADER + ("cores" if per_job else "cores:one,cores:two")]
    for time, kind, i, who, cores in rows:
        held = ["" if math.isnan(cores) else repr(cores)] if per_job else map(repr, cores)
        event, name = cw.results.EventKind(kind).name.lower(), SYSTEM.names[i] if i >= 0 else ""
        lines.append(",".join([repr(time), event, name, str(who) if who >= 0 else "", *held]))
    return "\n".join(lines) + "\n"


# --- both forms -----------------------------------------------------------------------------------


@given(seed=seeds, size=st.integers(2, 30), block=st.integers(60, 200))
def test_jobs_with_cores_of_their_own(
    seed: int, size: int, block: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Also where an instant is read in several blocks."""
    rng = np.random.default_rng(seed)
    rows = random_rows(rng, True, size)
    file = tmp_path_factory.mktemp("logs") / "log.csv"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_reader, "_BLOCK_BYTES", block)
        found = read(file, written(shuffled(rng, rows), per_job=True)).path
    assert_same(cw.Statistics.of(found), cw.Statistics.of(cw.SamplePath(*columns_of(rows))))
    assert_table(cw.Statistics.of(found), tally(found))


def totals(rng: np.random.Generator, steps: int, named: bool) -> list[Row]:
    """A record in which every row of an instant has the totals that the instant leaves behind."""
    rows: list[Row] = []
    there: list[list[int]] = [[], []]
    held, number = [0.0, 0.0], itertools.count()
    for step in range(steps):
        moves: list[tuple[Any, int, int]] = []
        for i in range(2):
            leave = int(rng.integers(len(there[i]) + 1)) if held[i] > 0.0 else 0
            for _ in range(leave):
                moves.append((cw.results.EventKind.DEPARTURE, i, there[i].pop(0)))
            for _ in range(int(rng.integers(3))):
                there[i].append(next(number))
                moves.append((cw.results.EventKind.ARRIVAL, i, there[i][-1]))
        if rng.random() < 0.3 or not moves:
            moves.append((cw.results.EventKind.RESIZE, -1, -1))
        held = (rng.choice([0.0, 1.0, 2.5, 4.0], 2) * [bool(jobs) for jobs in there]).tolist()
        rows += [(float(step), kind, i, who if named else -1, held) for kind, i, who in moves]
    return [*rows, (float(steps), cw.results.EventKind.END, -1, -1, held)]


@pytest.mark.parametrize("named", [True, False])
@given(seed=seeds, steps=st.integers(1, 6))
def test_class_totals(named: bool, seed: int, steps: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    rng = np.random.default_rng(seed)
    rows = totals(rng, steps, named)
    file = tmp_path_factory.mktemp("logs") / "log.csv"
    one, other = (read(file, written(shuffled(rng, rows), per_job=False)).path for _ in range(2))
    assert_same(cw.Statistics.of(one), cw.Statistics.of(other))
    ends = np.flatnonzero(np.diff(one.time, append=np.inf))
    assert one.cores[ends].tolist() == [group[-1][4] for group in instants(rows)]
    if named:
        assert_table(cw.Statistics.of(one), tally(one))


@FORMS
@given(seed=seeds, size=st.integers(1, 30))
def test_a_record_that_is_possible_stays_as_it_is(
    per_job: bool, seed: int, size: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = cw.SamplePath(*columns_of(random_rows(np.random.default_rng(seed), per_job, size)))
    file = tmp_path_factory.mktemp("logs") / "log.csv"
    cw.save_events(path, file)
    assert_equal(cw.load_events(file, SYSTEM).path, path)


# --- what is impossible in every order ------------------------------------------------------------


@given(seed=seeds, size=st.integers(2, 7))
def test_what_is_refused_is_impossible_in_every_order(seed: int, size: int) -> None:
    """Brute force: all orders of the rows of every instant, but resizes of one job in theirs."""
    rng = np.random.default_rng(seed)
    rows = shuffled(rng, spoilt(rng, random_rows(rng, True, size), True))

    def resizes(order: list[Row]) -> list[Row]:
        return sorted((row for row in order if row[1] == cw.results.EventKind.RESIZE), key=lambda row: row[3])

    orders = [
        [order for order in map(list, itertools.permutations(group)) if resizes(order) == resizes(group)]
        for group in instants(rows)
        if len(group) < 6
    ]
    if len(orders) < len(instants(rows)) or any(math.isnan(row[0]) for row in rows):
        return
    can_be = any(
        possible([row for group in chosen for row in group], True) for chosen in itertools.product(*orders)
    )
    assert (find_faults(with_ties_reordered(columns_of(rows))[0])[0] < 0) == can_be


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1.0,departure,one,a,\n1.0,departure,one,a,\n", "line 4: .*the job has left before"),
        ("1.0,departure,one,a,\n1.0,resize,one,a,0.0\n", "line 4: .*the job has left before"),
        ("1.0,resize,two,b,1.0\n2.0,arrival,two,b,1.0\n", "line 3: .*the job never arrived"),
        ("1.0,arrival,two,b,1.0\n1.0,resize,two,b,9.0\n", "line 4: .*sum to more than the pool of 10"),
        ("1.0,arrival,two,b,1.0\n1.0,departure,one,b,\n", "line 4: .*belongs to another class"),
    ],
)
def test_refused_with_the_line_of_the_file(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(cw.errors.InvalidFile, match=message):
        read(tmp_path / "log.csv", f"{HEADER}cores\n0.0,arrival,one,a,4.0\n{text}3.0,end,,,\n")


def test_a_resize_before_its_arrival(tmp_path: Path) -> None:
    """The instant that led to this: cores are assigned before the arrival is logged."""
    lines = ["0.0,arrival,one,a,10.0", "1.0,resize,,b,4.0", "1.0,resize,,a,6.0", "1.0,arrival,two,b,0.0"]
    text = "\n".join([f"{HEADER}cores", *lines, "2.0,departure,one,a,"])
    seen = cw.Statistics.of(read(tmp_path / "log.csv", text).path)
    assert (seen["one"].widths.tolist(), seen["one"].departures.tolist()) == ([6.0, 10.0], [1.0, 0.0])
    assert (seen["two"].widths.tolist(), seen["two"].job_time.tolist()) == ([4.0], [1.0])


def test_a_job_leaves_with_what_it_held_before_the_instant() -> None:
    """Not with what an arrival at the same time leaves it, which it never had."""
    event = cw.results.EventKind
    columns = {
        "time": np.array([0.0, 1.0, 1.0, 2.0]),
        "event": np.array([event.ARRIVAL, event.ARRIVAL, event.DEPARTURE, event.END], dtype=np.int8),
        "job_class": np.array([0, 0, 0, -1]),
        "job": np.array([0, 1, 0, -1]),
    }
    path = cw.SamplePath(("one",), POOL, cores=np.array([[8.0], [8.0], [8.0], [8.0]]), **columns)
    for form in (path, path.split()):
        seen = cw.Statistics.of(form)["one"]
        assert (seen.widths.tolist(), seen.departures.tolist()) == ([8.0], [1.0])
