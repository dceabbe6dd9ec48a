"""Statistics: three ways to the same table, adding, condensing, and what is refused."""

from __future__ import annotations

import itertools
import math
import pickle
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import corewise as cw
from corewise.kit.arrays import Floats
from corewise.observation.statistics import MOST_WIDTHS, PathTally

Table = dict[str, dict[float, list[float]]]

START, PRESENT, ARRIVAL, DEPARTURE, RESIZE, END, CANCEL = cw.results.EventKind
NO_JOB = -1


def tally(path: cw.SamplePath, rows: int | None = None) -> Table:
    """Departures and job-time by class and width of the first rows: job by job, interval by interval.

    A job leaves with what it held before the instant, if it held any then.
    """
    table: Table = {name: {} for name in path.names}
    kinds: dict[int, int] = {}
    own: dict[int, float] = {}
    before: dict[int, float] = {}
    for row in range(path.time.size if rows is None else rows):
        lasted = path.time[row] - path.time[row - 1] if row else 0.0
        event, job = path.event[row], int(path.job[row])
        held = {}
        for other, kind in kinds.items():
            held[other] = own[other]
            if not path.per_job:
                held[other] = float(path.cores[row - 1, kind]) / sum(k == kind for k in kinds.values())
        if lasted > 0.0:
            before = held
            for other, kind in kinds.items():
                table[path.names[kind]].setdefault(held[other], [0, 0.0])[1] += lasted
        if event == DEPARTURE:
            width = before.get(job) or held[job]
            table[path.names[kinds[job]]].setdefault(width, [0, 0.0])[0] += 1
        if event in (PRESENT, ARRIVAL):
            kinds[job] = int(path.job_class[row])
        if event in (PRESENT, ARRIVAL, RESIZE):
            own[job] = float(path.cores[row]) if path.per_job else math.nan
        if event in (DEPARTURE, CANCEL):
            del kinds[job]
    return table


def assert_table(statistics: cw.Statistics, table: Table) -> None:
    """The entries are those of a naive table: widths and departures exactly, times to rounding."""
    for name, entries in table.items():
        seen = statistics[name]
        widths = sorted(entries)
        assert seen.widths.tolist() == widths
        assert seen.departures.tolist() == [entries[z][0] for z in widths]
        assert seen.job_time == pytest.approx([entries[z][1] for z in widths], rel=1e-9, abs=1e-12)


def assert_same(one: cw.Statistics, other: cw.Statistics) -> None:
    """Equal but for the rounding of times."""
    assert one.names == other.names
    assert one.time == pytest.approx(other.time, rel=1e-9)
    for a, b in zip(one.classes, other.classes, strict=True):
        assert a.arrivals == b.arrivals
        assert a.widths.tolist() == b.widths.tolist()
        assert a.departures == pytest.approx(b.departures, rel=1e-9)
        assert a.job_time == pytest.approx(b.job_time, rel=1e-9, abs=1e-12)


SYSTEM = cw.System(
    6.0,
    [
        cw.JobClass("one", 2.0, 1.0, cw.Amdahl(0.7)),
        cw.JobClass("two", 1.5, 0.8, cw.PowerLaw(0.5)),
        cw.JobClass("three", 0.3, 1.0, cw.Gustafson(0.2)),
    ],
)
POLICIES: list[cw.Policy] = [cw.Equi(), cw.Whittle(), cw.Priority(["two", "three", "one"])]
WINDOWS: list[dict[str, Any]] = [{"departures": 250}, {"time": 60.0}]


def record(policy: cw.Policy, window: dict[str, Any], seed: int = 1) -> tuple[cw.results.Run, cw.SamplePath]:
    run = cw.simulate(SYSTEM, policy, rng=seed, start=(4, 0, 1), record=True, **window)
    assert run.path is not None
    return run, run.path


EVERY_PATH = pytest.mark.parametrize(
    ("policy", "window"),
    [*itertools.product(POLICIES, WINDOWS)],
    ids=[f"{policy.name}-{kind}" for policy in POLICIES for window in WINDOWS for kind in window],
)


# --- three ways to the same table -----------------------------------------------------------------


@pytest.mark.slow
@EVERY_PATH
def test_of_a_path_of_a_run_and_by_definition_are_the_same(policy: cw.Policy, window: dict[str, Any]) -> None:
    """Class totals and each job's own cores."""
    run, path = record(policy, window)
    table = tally(path)
    assert_table(run.statistics, table)
    assert_table(cw.Statistics.of(path), table)
    split = path.split()
    assert split.per_job
    assert_table(cw.Statistics.of(split), table)
    assert_table(cw.Statistics.of(split), tally(split))
    for statistics in (run.statistics, cw.Statistics.of(path), cw.Statistics.of(split)):
        assert statistics.time == pytest.approx(path.duration)
        assert statistics.departures == run.departures
        assert [seen.arrivals for seen in statistics.classes] == [
            row.arrivals for row in run.classes.values()
        ]
        assert [seen.left for seen in statistics.classes] == [row.departures for row in run.classes.values()]


@EVERY_PATH
def test_streamed_event_by_event(policy: cw.Policy, window: dict[str, Any]) -> None:
    run, path = record(policy, window)
    statistics = cw.Statistics.empty(path.names)
    for row in range(1, path.time.size):
        name = path.names[path.job_class[row]] if path.job_class[row] >= 0 else None
        statistics = statistics.update(
            float(path.time[row] - path.time[row - 1]),
            path.counts[row - 1],
            path.cores[row - 1],
            arrival=name if path.event[row] == ARRIVAL else None,
            departure=name if path.event[row] == DEPARTURE else None,
        )
    assert_same(statistics, run.statistics)


def test_a_path_by_hand() -> None:
    """Two forms of one observation, with jobs present at the start, a resize, and times that are open."""
    path = cw.SamplePath(
        names=("a", "b"),
        pool=8.0,
        time=np.array([1.0, 1.0, 1.0, 2.0, 4.0, 4.5, 7.0, 8.0]),
        event=np.array([START, PRESENT, PRESENT, ARRIVAL, RESIZE, DEPARTURE, ARRIVAL, END], dtype=np.int8),
        job_class=np.array([-1, 0, 0, 1, -1, 0, 0, -1]),
        job=np.array([-1, 7, 9, 3, -1, 9, 10, -1]),
        cores=np.array([[0, 0], [8, 0], [8, 0], [6, 2], [2, 6], [4, 4], [4, 4], [4, 4]], dtype=float),
    )
    expected: Table = {
        "a": {4.0: [0, 2.0 + 2.5], 3.0: [0, 4.0], 1.0: [1, 1.0], 2.0: [0, 2.0]},
        "b": {2.0: [0, 2.0], 6.0: [0, 0.5], 4.0: [0, 3.5]},
    }
    for form in (path, path.split()):
        assert_table(cw.Statistics.of(form), expected)
        assert cw.Statistics.of(form)["a"].arrivals == 1
        assert cw.Statistics.of(form)["b"].arrivals == 1


def uneven(numbers: tuple[int, ...] = (5, 2, 9)) -> cw.SamplePath:
    """Jobs of one class that hold different cores."""
    x, y, z = numbers
    return cw.SamplePath(
        names=("a",),
        pool=8.0,
        time=np.array([0.0, 0.0, 1.0, 1.0, 3.0, 4.0, 6.0]),
        event=np.array([START, PRESENT, ARRIVAL, RESIZE, DEPARTURE, ARRIVAL, END], dtype=np.int8),
        job_class=np.array([-1, 0, 0, 0, 0, 0, -1]),
        job=np.array([-1, x, y, x, y, z, -1]),
        cores=np.array([np.nan, 8.0, 5.0, 3.0, np.nan, 0.0, np.nan]),
    )


@pytest.mark.parametrize("numbers", [(5, 2, 9), (10**15, 3, 2**62)])
def test_jobs_of_a_class_may_hold_different_cores(numbers: tuple[int, ...]) -> None:
    """And may have any numbers."""
    path = uneven(numbers)
    expected: Table = {"a": {8.0: [0, 1.0], 5.0: [1, 2.0], 3.0: [0, 5.0], 0.0: [0, 2.0]}}
    assert tally(path) == expected
    assert_table(cw.Statistics.of(path), expected)


# --- adding ---------------------------------------------------------------------------------------


def cut(path: cw.SamplePath, at: float) -> tuple[cw.SamplePath, cw.SamplePath]:
    """The path up to a time, and from then on: the same jobs, holding the same cores."""
    rows = int(np.count_nonzero((path.time <= at) & (path.event != END)))
    here: dict[int, tuple[int, float]] = {}
    for row in range(rows):
        job = int(path.job[row])
        if path.event[row] == DEPARTURE:
            del here[job]
        elif job != NO_JOB:
            here[job] = (int(path.job_class[row]), float(path.cores[row]) if path.per_job else math.nan)
    opening = {"time": np.full(1 + len(here), at), "event": np.full(1 + len(here), PRESENT, dtype=np.int8)}
    opening["event"][0] = START
    opening["job"] = np.array([NO_JOB, *here])
    opening["job_class"] = np.array([NO_JOB, *(kind for kind, _ in here.values())])
    closing = {"time": [at], "event": np.array([END], dtype=np.int8), "job": [NO_JOB], "job_class": [NO_JOB]}
    if path.per_job:
        opening["cores"] = np.array([math.nan, *(own for _, own in here.values())])
        closing["cores"] = np.array([math.nan])
    else:
        opening["cores"] = np.zeros((1 + len(here), len(path.names)))
        opening["cores"][-1] = path.cores[rows - 1]
        closing["cores"] = path.cores[rows - 1 : rows]
    first: dict[str, Any] = {n: np.concatenate([getattr(path, n)[:rows], closing[n]]) for n in closing}
    second: dict[str, Any] = {n: np.concatenate([opening[n], getattr(path, n)[rows:]]) for n in opening}
    return replace(path, **first), replace(path, **second)


@pytest.mark.parametrize("form", ["totals", "per job"])
@EVERY_PATH
def test_of_two_parts_is_of_the_whole(policy: cw.Policy, window: dict[str, Any], form: str) -> None:
    """Wherever the cut is; between two events it is a width that both parts have seen."""
    path = record(policy, window)[1]
    path = path.split() if form == "per job" else path
    whole = cw.Statistics.of(path)
    middle = 0.5 * float(path.time[40] + path.time[41])
    for at in (path.start, middle, float(path.time[99]), path.end):
        first, second = (cw.Statistics.of(part) for part in cut(path, at))
        assert_same(first + second, whole)
        assert first.time + second.time == pytest.approx(whole.time)
    assert cw.Statistics.of(cut(path, middle)[0]).departures not in (0, whole.departures)


def test_total_is_the_sum_in_any_order() -> None:
    parts = [
        cw.simulate(SYSTEM, policy, departures=400, rng=seed).statistics
        for seed, policy in enumerate(POLICIES * 2)
    ]
    total = cw.Statistics.total(parts)
    assert_same(total, sum(parts[1:], parts[0]))
    assert_same(total, sum(parts[-2::-1], parts[-1]))
    assert_same(total, cw.Statistics.total([cw.Statistics.total(parts[:2]), cw.Statistics.total(parts[2:])]))
    assert total.departures == 2400
    assert total.arrivals == sum(part.arrivals for part in parts)
    assert_same(cw.Statistics.total(parts[:1]), parts[0])


def test_nothing_seen_adds_nothing() -> None:
    empty = cw.Statistics.empty(SYSTEM.names)
    assert (empty.time, empty.arrivals, empty.departures) == (0.0, 0, 0)
    assert all(seen.widths.size == seen.left == 0 for seen in empty.classes)
    seen = cw.simulate(SYSTEM, cw.Equi(), departures=100, rng=1).statistics
    assert_same(empty + seen, seen)
    assert_same(seen + empty, seen)
    assert_same(empty + empty, empty)
    still = cw.SamplePath(
        ("one", "two", "three"),
        6.0,
        np.array([0.0, 5.0]),
        np.array([START, END], dtype=np.int8),
        np.array([-1, -1]),
        np.array([-1, -1]),
        np.zeros((2, 3)),
    )
    for path in (still, still.split()):
        assert_same(cw.Statistics.of(path), replace(empty, time=5.0))


def test_adding_changes_neither_part() -> None:
    one, other = (cw.simulate(SYSTEM, cw.Equi(), departures=100, rng=seed).statistics for seed in (1, 2))
    copies = pickle.loads(pickle.dumps([one, other]))
    one + other
    one.update(1.0, [1, 1, 1], [2.0, 2.0, 2.0], departure="one")
    for before, after in zip(copies, (one, other), strict=True):
        assert_same(before, after)
    for column in (one["one"].widths, one["one"].departures, one["one"].job_time):
        with pytest.raises(ValueError, match="read-only"):
            column[0] = 1.0


def test_an_update_says_what_happened() -> None:
    statistics = cw.Statistics.empty(["a", "b"]).update(2.0, [2, 1], [3.0, 5.0], arrival="b")
    statistics = statistics.update(1.0, [2, 2], [3.0, 5.0], departure="a").update(0.5, [0, 0], [0.0, 0.0])
    assert_table(statistics, {"a": {1.5: [1, 6.0]}, "b": {5.0: [0, 2.0], 2.5: [0, 2.0]}})
    assert (statistics.time, statistics["b"].arrivals, statistics.departures) == (3.5, 1, 1)
    assert "3.5 units of time, 1 arrivals, 1 departures" in str(statistics)
    assert ["a", "0", "1", "1"] in [line.split() for line in str(statistics).splitlines()]


# --- condensing -----------------------------------------------------------------------------------

CURVES: list[cw.SpeedUp] = [
    cw.Amdahl(0.95),
    cw.Amdahl(0.3),
    cw.PowerLaw(0.5),
    cw.PowerLaw(1.0),
    cw.Gustafson(0.4),
    cw.Usl(0.1, 0.001),
]


def raw(rng: np.random.Generator, widths: Floats) -> tuple[int, Floats, Floats, Floats]:
    departures = rng.poisson(0.7, widths.size).astype(float)
    return 5, widths, departures, rng.exponential(2.0, widths.size)


def sums(widths: Floats, departures: Floats, job_time: Floats) -> list[float]:
    columns = (departures, job_time, widths * departures, widths * job_time)
    return [math.fsum(column.tolist()) for column in columns]


def columns_of(seen: cw.results.ClassStatistics) -> tuple[Floats, Floats, Floats]:
    return seen.widths, seen.departures, seen.job_time


@pytest.mark.parametrize("spread", ["usual", "narrow", "with idle", "whole range of numbers"])
def test_condensing_keeps_sums_and_first_moments(spread: str) -> None:
    """However many widths there are and wherever they lie, and the table stays small."""
    rng = np.random.default_rng(3)
    widths = {
        "usual": rng.uniform(0.1, 64.0, 20_000),
        "narrow": rng.uniform(2.9, 3.1, 20_000),
        "with idle": np.where(rng.uniform(size=20_000) < 0.1, 0.0, rng.uniform(0.0, 4.0, 20_000)),
        "whole range of numbers": 10.0 ** rng.uniform(-150.0, 150.0, 60_000),
    }[spread]
    entries = raw(rng, widths)
    seen = cw.results.ClassStatistics.gathered(*entries)
    assert 2 <= seen.widths.size <= MOST_WIDTHS
    assert sums(*columns_of(seen)) == pytest.approx(sums(*entries[1:]), rel=1e-11)
    assert seen.arrivals == 5
    assert seen.left == entries[2].sum()
    assert np.all(np.diff(seen.widths) > 0.0)
    assert seen.departures.min() >= 0.0
    assert seen.job_time.min() >= 0.0
    if spread == "with idle":
        idle = widths == 0.0
        assert (seen.widths[0], seen.departures[0]) == (0.0, entries[2][idle].sum())
        assert seen.job_time[0] == pytest.approx(entries[3][idle].sum())


def test_equal_widths_are_added_up_in_order() -> None:
    """To the bit as by hand, with nothing left of entries without time and departures."""
    widths = np.array([2.0, 1.0, 2.0, 0.0, 3.0, 1.0])
    left, spent = np.array([1.0, 2.0, 0.0, 0.0, 0.0, 3.0]), np.array([0.5, 0.0, 0.1, 7.0, 0.0, 0.2])
    seen = cw.results.ClassStatistics.gathered(6, widths, left, spent)
    columns = [column.tolist() for column in columns_of(seen)]
    assert columns == [[0.0, 1.0, 2.0], [0.0, 2.0 + 3.0, 1.0], [7.0, 0.2, 0.5 + 0.1]]
    nothing = np.empty(0)
    assert cw.results.ClassStatistics.gathered(0, nothing, nothing, nothing).widths.size == 0


def test_few_widths_are_not_condensed() -> None:
    rng = np.random.default_rng(4)
    widths = np.sort(rng.uniform(0.1, 64.0, MOST_WIDTHS))
    entries = raw(rng, widths)
    for order in (slice(None), slice(None, None, -1)):
        at, left, spent = (column[order] for column in entries[1:])
        seen = cw.results.ClassStatistics.gathered(5, at, left, spent)
        assert [c.tolist() for c in columns_of(seen)] == [c.tolist() for c in entries[1:]]


def bend(curve: cw.SpeedUp, function: Callable[[Floats], Floats], low: Floats) -> Floats:
    """The largest z² |f''(z)| of a function of the speed between a node and the next, by differences."""
    z = low[:, None] * np.exp2(np.linspace(0.05, 0.95, 19) / 128.0)
    below, here, above = (function(curve.rate(z * (1.0 + k * 1e-4))) for k in (-1, 0, 1))
    return np.asarray(np.max(np.abs(below - 2.0 * here + above) / 1e-8, axis=1))


@pytest.mark.parametrize("curve", CURVES, ids=str)
def test_condensing_costs_the_likelihood_little(curve: cw.SpeedUp) -> None:
    """Σ D log s and Σ W s: within the error of linear interpolation between nodes a factor 2^(1/128) apart.

    On [a, b] that is (b − a)²/8 · max |f''| ≤ 4e-6 · max z² |f''(z)|; one core, where curves have their kink,
    is a node. Entries half-way between nodes come near it: it is no bound to spare.
    """
    rng = np.random.default_rng(5)
    half_way = 2.0 ** ((rng.integers(0, 700, 9000) + 0.5) / 128.0) * (1.0 + 1e-9 * rng.uniform(size=9000))
    for widths in (rng.uniform(1.0, 60.0, 9000), half_way):
        _, at, left, spent = raw(rng, widths)
        seen = cw.results.ClassStatistics.gathered(0, at, left, spent)
        assert seen.widths.size < 900
        node = np.exp2(np.floor(128.0 * np.log2(at)) / 128.0)
        for amounts, kept, function in ((left, seen.departures, np.log), (spent, seen.job_time, np.asarray)):
            off = abs(float(kept @ function(curve.rate(seen.widths)) - amounts @ function(curve.rate(at))))
            bound = 4e-6 * float(amounts @ bend(curve, function, node))
            assert off <= bound + 1e-9 * float(amounts @ curve.rate(at))
            assert widths is not half_way or off >= 0.8 * bound - 1e-6 * amounts.sum()


def test_condensing_up_to_one_core_loses_nothing() -> None:
    """There s(z) = z, so W s is linear in z, and D log s does not depend on the parameters."""
    rng = np.random.default_rng(6)
    seen = cw.results.ClassStatistics.gathered(*raw(rng, rng.uniform(0.0, 1.0, 9000)))
    assert seen.widths.max() == 1.0
    table = cw.Statistics(("a",), 1.0, (seen,))
    system = cw.System(4.0, [cw.JobClass("a", None, 1.0, cw.Amdahl(0.5))])
    assert not cw.estimate(table, system)["a"].informative


def test_condensed_tables_add_in_any_order() -> None:
    """Many windows with widths of their own: the same sums, the same likelihood, and never a large table."""
    rng = np.random.default_rng(7)
    parts = []
    for _ in range(9):
        seen = cw.results.ClassStatistics.gathered(*raw(rng, rng.uniform(0.1, 30.0, 1500)))
        parts.append(cw.Statistics(("a",), 1.0, (seen,)))
    orders = [parts, parts[::-1], [parts[i] for i in rng.permutation(9)]]
    tables = [cw.Statistics.total(parts)["a"]]
    for order in orders:
        running = order[0]
        for part in order[1:]:
            running = running + part
            assert running["a"].widths.size <= MOST_WIDTHS
        tables.append(running["a"])
    every = [
        np.concatenate([getattr(p["a"], f) for p in parts]) for f in ("widths", "departures", "job_time")
    ]
    for seen in tables:
        assert sums(*columns_of(seen)) == pytest.approx(sums(*every), rel=1e-11)
        for curve in CURVES:
            speed = curve.rate(seen.widths)
            exact = curve.rate(every[0])
            off = float(seen.departures @ np.log(speed) - every[1] @ np.log(exact))
            assert abs(off) <= 4e-6 * every[1].sum()
            off = float(seen.job_time @ speed - every[2] @ exact)
            assert abs(off) <= 4e-6 * float(every[2] @ exact)
    for seen in tables[1:]:
        assert [seen.widths.tolist(), seen.left] == [tables[0].widths.tolist(), tables[0].left]
        assert seen.departures == pytest.approx(tables[0].departures, rel=1e-9, abs=1e-9)
        assert seen.job_time == pytest.approx(tables[0].job_time, rel=1e-9, abs=1e-9)


def restless(rows: int) -> cw.SamplePath:
    """One job for ever, whose cores change all the time; jobs of another class come and go."""
    rng = np.random.default_rng(8)
    event = np.array([START, PRESENT, *([ARRIVAL, DEPARTURE] * rows), END], dtype=np.int8)
    busy = np.cumsum(event == ARRIVAL) - np.cumsum(event == DEPARTURE)
    cores = rng.uniform(0.5, 16.0, (event.size, 2)) * np.stack([np.ones(event.size), busy], axis=1)
    cores[0], cores[-1] = 0.0, cores[-2]
    moves = np.repeat(np.arange(rows), 2)
    return cw.SamplePath(
        ("stays", "goes"),
        32.0,
        np.concatenate([[0.0, 0.0], np.cumsum(rng.exponential(1.0, 2 * rows)), [2.5 * rows]]),
        event,
        np.array([-1, 0, *([1] * 2 * rows), -1]),
        np.array([-1, rows, *moves, -1]),
        cores,
    )


@pytest.mark.parametrize("form", ["totals", "per job"])
def test_a_path_with_more_widths_than_are_kept(form: str) -> None:
    path = restless(12_000)
    spans = np.diff(path.time)
    expected = {
        "stays": [0.0, spans.sum(), 0.0, spans @ path.cores[:-1, 0]],
        "goes": [
            12_000.0,
            spans @ path.counts[:-1, 1],
            path.cores[:-1, 1][path.event[1:] == DEPARTURE].sum(),
            spans @ path.cores[:-1, 1],
        ],
    }
    statistics = cw.Statistics.of(path.split() if form == "per job" else path)
    for name, numbers in expected.items():
        seen = statistics[name]
        assert seen.widths.size <= MOST_WIDTHS
        assert sums(*columns_of(seen)) == pytest.approx(numbers, rel=1e-9)
    assert statistics["goes"].left == statistics["goes"].arrivals == 12_000


# --- windows of a path ----------------------------------------------------------------------------


def cut_paths() -> list[cw.SamplePath]:
    """Paths with all kinds of rows: of runs in both forms, with jobs at the start, resizes and open times."""
    runs = [record(policy, {"departures": 25}, seed)[1] for seed, policy in enumerate(POLICIES)]
    return [*runs, *(path.split() for path in runs), uneven()]


CUT = cut_paths()


@cache
def tally_upto(path: int, rows: int) -> Table:
    return tally(CUT[path], rows)


@pytest.mark.slow
@given(path=st.sampled_from(range(len(CUT))), cuts=st.lists(st.floats(0.0, 1.0), max_size=6), data=st.data())
def test_windows_of_a_path_add_up_to_it(path: int, cuts: list[float], data: st.DataObject) -> None:
    """Wherever it is cut: each window is what a naive tally says of its rows, and all are the whole."""
    whole = CUT[path]
    rows = whole.time.size
    ends = sorted([*(round(cut * rows) for cut in cuts), rows])
    tally_, windows = PathTally(whole), []
    for end in ends:
        windows.append(cw.Statistics.of_rows(tally_, end))
        assert tally_.row == end
        assert tally_.time == whole.time[max(end - 1, 0)]
    total = cw.Statistics.total(data.draw(st.permutations(windows)))
    assert_same(total, cw.Statistics.of(whole))
    before = 0
    for end, window in zip(ends, windows, strict=True):
        upto, already = tally_upto(path, end), tally_upto(path, before)
        opened, closed = (float(whole.time[max(row - 1, 0)]) for row in (before, end))
        assert window.time == pytest.approx(closed - opened, abs=1e-12)
        events = whole.event[before:end]
        assert window.arrivals == np.count_nonzero(events == ARRIVAL)
        assert window.departures == np.count_nonzero(events == DEPARTURE)
        for name, entries in upto.items():
            seen = {z: (d, w) for z, d, w in zip(*map(list, columns_of(window[name])), strict=True)}
            for z, (departures, spent) in entries.items():
                left, held = already[name].get(z, [0, 0.0])
                found = seen.pop(z, (0.0, 0.0))
                assert found[0] == departures - left
                assert found[1] == pytest.approx(spent - held, abs=1e-9)
            assert not seen
        before = end


def test_windows_that_are_condensed_add_up_too() -> None:
    """More widths than are kept, within a window and over all of them."""
    for path in (restless(6_000), restless(6_000).split()):
        whole, tally_ = cw.Statistics.of(path), PathTally(path)
        ends = [10, 9_000, 9_001, path.time.size // 2 + 4_000, path.time.size]
        total = cw.Statistics.total([cw.Statistics.of_rows(tally_, end) for end in ends])
        for one, other in zip(total.classes, whole.classes, strict=True):
            assert one.widths.size <= MOST_WIDTHS
            assert (one.left, one.arrivals) == (other.left, other.arrivals)
            assert sums(*columns_of(one)) == pytest.approx(sums(*columns_of(other)), rel=1e-9)
        assert total.time == pytest.approx(whole.time, rel=1e-12)


# --- bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("duration", "jobs", "cores", "event", "told"),
    [
        (-1.0, [1, 1], [1, 1], {}, "duration must lie in [0, infinity), got -1.0"),
        (math.nan, [1, 1], [1, 1], {}, "duration must be finite, got nan"),
        (math.inf, [1, 1], [1, 1], {}, "duration must be finite, got inf"),
        ("1", [1, 1], [1, 1], {}, "duration must be a number, got '1'"),
        (1.0, [1], [1, 1], {}, "jobs must be 2 numbers"),
        (1.0, [1, 1], [1, 1, 1], {}, "cores must be 2 numbers"),
        (1.0, 3, [1, 1], {}, "jobs must be 2 numbers"),
        (1.0, None, [1, 1], {}, "jobs must be 2 numbers"),
        (1.0, "ab", [1, 1], {}, "jobs must be 2 numbers"),
        (1.0, [[1, 1]], [1, 1], {}, "jobs must be 2 numbers"),
        (1.0, [1, -1], [1, 1], {}, "none negative"),
        (1.0, [1, 1.5], [1, 1], {}, "jobs must be whole numbers"),
        (1.0, [1, 1], [1, -0.5], {}, "none negative"),
        (1.0, [1, 1], [1, math.nan], {}, "cores must be 2 numbers"),
        (1.0, [1, 1], [1, math.inf], {}, "cores must be 2 numbers"),
        (1.0, [1, 1], [1, 1], {"arrival": "c"}, "unknown class 'c'"),
        (1.0, [1, 1], [1, 1], {"departure": "c"}, "unknown class 'c'"),
        (1.0, [1, 1], [1, 1], {"departure": 0}, "unknown class 0"),
        (1.0, [0, 1], [0, 1], {"departure": "a"}, "class 'a' left, but jobs were"),
        (1.0, [1, 1], [0, 1], {"departure": "a"}, "class 'a' left, but cores were"),
    ],
)
def test_bad_updates(duration: Any, jobs: Any, cores: Any, event: dict[str, Any], told: str) -> None:
    with pytest.raises(cw.errors.InvalidInput) as error:
        cw.Statistics.empty(["a", "b"]).update(duration, jobs, cores, **event)
    assert told in str(error.value)


def test_statistics_of_other_classes_do_not_add() -> None:
    one, other, fewer = (cw.Statistics.empty(names) for names in (["a", "b"], ["b", "a"], ["a"]))
    for wrong in (other, fewer):
        with pytest.raises(cw.errors.InvalidInput, match="do not add"):
            one + wrong
        with pytest.raises(cw.errors.InvalidInput, match="do not add"):
            cw.Statistics.total([one, one, wrong])
    with pytest.raises(TypeError):
        one + 1  # type: ignore[operator]


def test_a_total_needs_something() -> None:
    with pytest.raises(cw.errors.InvalidInput):
        cw.Statistics.total([])


def test_an_unknown_class_is_named() -> None:
    with pytest.raises(cw.errors.InvalidInput, match=r"unknown class 'onw'.*'one'"):
        cw.Statistics.empty(["one", "two"])["onw"]


@pytest.mark.parametrize("end", [-1, 3, 1000])
def test_a_stretch_ends_within_its_path_and_after_its_beginning(end: int) -> None:
    system = cw.load_system("paper:1")
    run = cw.simulate(system, cw.Equi(), departures=20, rng=1, record=True)
    assert run.path is not None
    tally = PathTally(run.path)
    cw.Statistics.of_rows(tally, 5)
    with pytest.raises(
        cw.errors.InvalidInput, match=f"the end of a stretch of rows must lie in .*, got {end}"
    ):
        cw.Statistics.of_rows(tally, end)
    cw.Statistics.of_rows(tally, 5)  # of no rows
