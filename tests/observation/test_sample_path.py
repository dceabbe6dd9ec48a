"""The event record: what it accepts, what it says of a bad row, and what it tells, against naive twins.

The naive checker below states the rules of the record as facts about whole lists of rows. The compiled one
goes through the rows once.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import corewise as cw
from corewise.observation import _kernels
from corewise.observation.rows import Columns, dense, find_faults, plainly_good
from corewise.observation.sample_path import NO_JOB, EventKind, Fault, SamplePath
from tests.helpers.twins import not_compared, same

NAMES, POOL = ("one", "two"), 10.0
NAN = math.nan
COLUMNS = ("time", "event", "job_class", "job", "cores")

Row = tuple[float, int, int, int, Any]


def columns_of(rows: list[Row], pool: float = POOL) -> Columns:
    time, event, job_class, job, cores = zip(*rows, strict=True)
    return Columns(
        NAMES,
        pool,
        np.array(time, dtype=np.float64),
        np.array(event, dtype=np.int8),
        np.array(job_class, dtype=np.int64),
        np.array(job, dtype=np.int64),
        np.array(cores, dtype=np.float64),
    )


def path_of(text: str, pool: float = POOL) -> SamplePath:
    return SamplePath(*columns_of(rows_of(text), pool))


def rows_of(text: str) -> list[Row]:
    """Return rows written as ``time event class job cores…``, separated by semicolons, with - for none."""
    rows: list[Row] = []
    for line in text.split(";"):
        time, event, name, job, *cores = line.split()
        held = [NAN if x == "-" else float(x) for x in cores]
        rows.append(
            (
                float(time),
                EventKind[event.upper()],
                NO_JOB if name == "-" else NAMES.index(name),
                NO_JOB if job == "-" else int(job),
                held if len(held) > 1 else held[0],
            )
        )
    return rows


LEAVES = (EventKind.DEPARTURE, EventKind.CANCEL)
MENDED = {Fault.EARLY_END, Fault.BROKEN}
"""What only the repair of logs finds."""


# --- the naive checker ----------------------------------------------------------------------------


def limit_of(pool: float) -> float:
    return pool + 1e-6 * max(1.0, pool)


def naive_counts(rows: list[Row]) -> list[list[int]]:
    """The jobs of each class after each row, counted anew for each."""
    comes, goes = (EventKind.PRESENT, EventKind.ARRIVAL), LEAVES
    return [
        [
            sum(k == i and e in comes for _, e, k, _, _ in rows[: r + 1])
            - sum(k == i and e in goes for _, e, k, _, _ in rows[: r + 1])
            for i in range(len(NAMES))
        ]
        for r in range(len(rows))
    ]


def in_order(rows: list[Row]) -> bool:
    times, kinds = [row[0] for row in rows], [row[1] for row in rows]
    opening = 0
    while opening < len(rows) and kinds[opening] == (EventKind.PRESENT if opening else EventKind.START):
        opening += 1
    return (
        all(map(math.isfinite, times))
        and times == sorted(times)
        and EventKind.START not in kinds[1:]
        and EventKind.PRESENT not in kinds[opening:]
        and EventKind.END not in kinds[:-1]
        and len(set(times[:opening])) <= 1
    )


def lives_of(rows: list[Row]) -> dict[int, list[Row]]:
    """The rows about each job that has a number."""
    lives = defaultdict(list)
    for row in rows:
        if row[3] != NO_JOB:
            lives[row[3]].append(row)
    return dict(lives)


def jobs_possible(rows: list[Row], per_job: bool) -> bool:
    if any((i, who) != (NO_JOB, NO_JOB) for _, e, i, who, _ in rows if e in (EventKind.START, EventKind.END)):
        return False
    moves = [row for row in rows if row[1] in (EventKind.PRESENT, EventKind.ARRIVAL, *LEAVES)]
    about = [row for row in rows if per_job and row[1] not in (EventKind.START, EventKind.END)]
    if any(row[2] == NO_JOB for row in moves) or any(row[3] == NO_JOB for row in about):
        return False
    if any(n < 0 for counts in naive_counts(rows) for n in counts):
        return False
    for life in lives_of(about if per_job else moves).values():
        kinds = [row[1] for row in life]
        steps = [kind for kind in kinds if kind != EventKind.RESIZE]
        if kinds[0] not in (EventKind.PRESENT, EventKind.ARRIVAL) or steps[1:] not in (
            [],
            *([x] for x in LEAVES),
        ):
            return False
        if set(LEAVES) & set(kinds[:-1]) or len({row[2] for row in life} - {NO_JOB}) > 1:
            return False
    return True


def totals_possible(rows: list[Row], pool: float) -> bool:
    counts = naive_counts(rows)
    for r, (_, kind, i, _, cores) in enumerate(rows):
        if not all(math.isfinite(x) and x >= 0 for x in cores) or math.fsum(cores) > limit_of(pool):
            return False
        opening = kind in (EventKind.START, EventKind.PRESENT)
        if not opening and any(x > 0 and n == 0 for x, n in zip(cores, counts[r], strict=True)):
            return False
        if kind == EventKind.DEPARTURE and rows[r - 1][4][i] == 0:
            return False
    return True


def held_after(rows: list[Row]) -> dict[int, float]:
    """The cores of every job that is there after the last row."""
    last = {who: life[-1] for who, life in lives_of(rows).items()}
    return {who: row[4] for who, row in last.items() if row[1] not in LEAVES}


def own_cores_possible(rows: list[Row], pool: float) -> bool:
    for r, (_, kind, _, who, x) in enumerate(rows):
        if kind in (EventKind.START, EventKind.END, *LEAVES):
            if not (math.isnan(x) or x == 0):
                return False
            if kind == EventKind.DEPARTURE and held_after(rows[:r])[who] == 0:
                return False
        elif not (math.isfinite(x) and 0 <= x <= limit_of(pool)):
            return False
    return True


def overfull(rows: list[Row], pool: float) -> bool:
    """Whether the jobs there after the last row hold more than there is."""
    return math.fsum(held_after(rows).values()) > limit_of(pool)


def possible_so_far(rows: list[Row], per_job: bool, pool: float = POOL) -> bool:
    """Whether the rows are a record, but for the sum of the cores of jobs."""
    if not in_order(rows) or not jobs_possible(rows, per_job):
        return False
    return own_cores_possible(rows, pool) if per_job else totals_possible(rows, pool)


def possible(rows: list[Row], per_job: bool, pool: float = POOL) -> bool:
    """Whether rows are a record."""
    if not possible_so_far(rows, per_job, pool):
        return False
    if not per_job:
        return True
    instants = [r for r in range(1, len(rows)) if rows[r][0] > rows[r - 1][0]] + [len(rows)]
    return not any(overfull(rows[:r], pool) for r in instants)


def naive_lenient(rows: list[Row], per_job: bool) -> list[int]:
    """The rows that stay when whatever makes the record impossible is left out."""
    kept: list[int] = []
    for r in range(len(rows) + 1):
        over = r == len(rows) or (bool(kept) and rows[r][0] > rows[kept[-1]][0])
        while per_job and over and overfull([rows[k] for k in kept], POOL):
            there = held_after([rows[k] for k in kept])
            gives = (EventKind.PRESENT, EventKind.ARRIVAL, EventKind.RESIZE)
            kept.remove([k for k in kept if rows[k][1] in gives and rows[k][3] in there][-1])
        if r < len(rows) and possible_so_far([*(rows[k] for k in kept), rows[r]], per_job):
            kept.append(r)
    return kept


# --- random records -------------------------------------------------------------------------------


def random_rows(rng: np.random.Generator, per_job: bool, rows: int) -> list[Row]:
    """Return a possible record, with rows of one instant, idle cores, starved and nameless jobs, resizes."""
    time, number = float(rng.integers(0, 3)), 0
    present: dict[int, tuple[int, float]] = {}  # class and cores of each job there
    unnamed = bool(rng.random() < 0.3) and not per_job
    made: list[Row] = []

    def add(kind: EventKind, i: int, who: int) -> None:
        counts = [sum(k == j for k, _ in present.values()) for j in range(2)]
        if per_job:
            made.append((time, kind, i, who, present[who][1] if who in present else NAN))
            return
        held = rng.choice([0.0, 1.0, 2.5, 4.0], 2) * (np.array(counts) > 0)
        shown = NO_JOB if unnamed and who % 2 else who
        if kind in (EventKind.START, EventKind.END):
            shown = NO_JOB
        made.append((time, kind, i, shown, held.tolist()))

    def enter(kind: EventKind) -> None:
        nonlocal number
        i = int(rng.integers(2))
        room = POOL - sum(x for _, x in present.values())
        present[number] = (i, float(rng.choice([0.0, 0.25, 1.0])) * room / 2)
        add(kind, i, number)
        number += 1

    if rng.random() < 0.5:
        add(EventKind.START, NO_JOB, NO_JOB)
        for _ in range(rng.integers(0, 4)):
            enter(EventKind.PRESENT)
    while len(made) < rows:
        if rng.random() < 0.7:
            time += float(rng.exponential())
        able = [who for who, (_, x) in present.items() if x > 0]
        if not per_job:
            able = [who for who, (i, _) in present.items() if made and made[-1][4][i] > 0]
        move = rng.random()
        if move < 0.4 and able:
            who = int(rng.choice(able))
            i, _ = present.pop(who)
            add(EventKind.DEPARTURE, i, who)
        elif move < 0.5 and present:  # also of a job that holds none
            who = int(rng.choice(list(present)))
            i, _ = present.pop(who)
            add(EventKind.CANCEL, i, who)
        elif move < 0.65 and present:
            who = int(rng.choice(list(present)))
            i, x = present[who]
            room = POOL - sum(y for _, y in present.values()) + x
            present[who] = (i, float(rng.choice([0.0, 0.5, 1.0])) * room)
            add(EventKind.RESIZE, i if rng.random() < 0.5 else NO_JOB, who)
        else:
            enter(EventKind.ARRIVAL)
    if rng.random() < 0.5:
        time += 1.0
        add(EventKind.END, NO_JOB, NO_JOB)
    return made


def spoilt(rng: np.random.Generator, rows: list[Row], per_job: bool) -> list[Row]:
    """Return the rows with a few of them changed, lost, doubled or moved."""
    rows = list(rows)
    for _ in range(rng.integers(1, 4)):
        r = int(rng.integers(len(rows)))
        time, kind, i, who, cores = rows[r]
        match rng.integers(9):
            case 0:
                time = float(rng.choice([time - 1.0, time + 1.0, NAN, math.inf]))
            case 1:
                kind = int(rng.integers(len(EventKind)))
            case 2:
                i = int(rng.integers(-1, 2))
            case 3:
                who = int(rng.integers(-1, 6))
            case 4 | 5:
                x = float(rng.choice([0.0, -1.0, 5.0, 20.0, NAN, math.inf]))
                cores = x if per_job else [x, cores[1]]
            case 6:
                if len(rows) > 1:
                    del rows[r]
                continue
            case 7:
                rows.insert(int(rng.integers(len(rows) + 1)), rows[r])
                continue
            case 8:
                rows.insert(int(rng.integers(len(rows) + 1)), rows.pop(r))
                continue
        rows[r] = (time, kind, i, who, cores)
    return rows


seeds = st.integers(0, 2**32)
FORMS = pytest.mark.parametrize("per_job", [False, True], ids=["totals", "per job"])


@FORMS
@given(seed=seeds, size=st.integers(1, 14))
def test_possible_records_are_accepted_and_counted(per_job: bool, seed: int, size: int) -> None:
    rows = random_rows(np.random.default_rng(seed), per_job, size)
    assert possible(rows, per_job)
    path = SamplePath(*columns_of(rows))
    assert path.per_job is per_job
    assert path.counts.tolist() == naive_counts(rows)
    assert find_faults(columns_of(rows), lenient=True)[1].max() == Fault.NONE


@FORMS
@given(seed=seeds, size=st.integers(1, 12))
def test_strict_and_lenient_agree_with_the_naive_checker(per_job: bool, seed: int, size: int) -> None:
    rng = np.random.default_rng(seed)
    rows = spoilt(rng, random_rows(rng, per_job, size), per_job)
    columns = columns_of(rows)
    row, faults = find_faults(columns)
    assert (row < 0) == possible(rows, per_job)
    assert np.flatnonzero(faults).tolist() == ([row] if row >= 0 else [])
    if row >= 0:
        assert possible(rows[:row], per_job) or per_job
        with pytest.raises(cw.errors.InvalidInput, match=rf"^row {row} \("):
            SamplePath(*columns)
    kept = naive_lenient(rows, per_job)
    row, faults = find_faults(columns, lenient=True)
    assert row == -1
    assert np.flatnonzero(faults == Fault.NONE).tolist() == kept
    if kept:
        good = [rows[k] for k in kept]
        assert possible(good, per_job)
        assert SamplePath(*columns_of(good)).counts.tolist() == naive_counts(good)


@FORMS
def test_spoilt_records_are_good_and_bad(per_job: bool) -> None:
    """The test above sees both, and every fault."""
    seen: Counter[int] = Counter()
    for seed in range(400):
        rng = np.random.default_rng(seed)
        rows = spoilt(rng, random_rows(rng, per_job, 8), per_job)
        row, faults = find_faults(columns_of(rows))
        seen[int(faults[row])] += 1
    assert seen[Fault.NONE] > 40
    assert set(Fault) - MENDED - set(seen) <= (set() if per_job else {Fault.NAMELESS})


# --- every fault ----------------------------------------------------------------------------------

TOTALS = {
    Fault.BACKWARDS: ("0 arrival one 0 5 0; 2 resize - - 6 0; 1 resize - - 7 0; 3 end - - 7 0", 2),
    Fault.NO_CLASS: ("0 arrival one 0 5 0; 1 arrival - 1 5 5; 2 end - - 5 0", 1),
    Fault.EMPTY_CLASS: ("0 arrival one 0 5 0; 1 departure two - 5 0; 2 end - - 5 0", 1),
    Fault.NOT_THERE: ("0 arrival one 0 5 0; 1 departure one 1 0 0; 2 end - - 5 0", 1),
    Fault.GONE: ("0 arrival one 0 5 0; 1 departure one 0 0 0; 2 arrival one 0 5 0; 3 end - - 0 0", 2),
    Fault.TWICE: ("0 arrival one 0 5 0; 1 arrival two 0 5 5; 2 end - - 5 0", 1),
    Fault.OTHER_CLASS: (
        "0 arrival one 0 5 0; 1 arrival two 1 5 5; 2 departure one 1 0 5; 3 end - - 5 5",
        2,
    ),
    Fault.NEGATIVE: ("0 arrival one 0 5 0; 1 resize - - -1 0; 2 end - - 5 0", 1),
    Fault.TOO_MANY: ("0 arrival one 0 5 0; 1 arrival two 1 5 5.1; 2 end - - 5 0", 1),
    Fault.HOLDS_ON: ("0 arrival one 0 5 0; 1 departure one 0 5 0; 2 end - - 5 0", 1),
    Fault.NO_CORES: ("0 arrival one 0 0 0; 1 departure one 0 0 0; 2 end - - 5 0", 1),
    Fault.LATE_START: ("0 arrival one 0 5 0; 1 start - - 5 0; 2 end - - 5 0", 1),
    Fault.LATE_PRESENT: ("0 start - - 0 0; 0 arrival one 0 5 0; 0 present one 1 5 0; 2 end - - 5 0", 2),
    Fault.AFTER_END: ("0 arrival one 0 5 0; 1 end - - 5 0; 2 arrival one 1 5 0", 2),
    Fault.NOT_FINITE: ("0 arrival one 0 5 0; nan resize - - 6 0; 2 end - - 5 0", 1),
    Fault.NOT_ABOUT_JOBS: ("0 start one - 0 0; 0 arrival one 0 5 0", 0),
}
PER_JOB = {
    Fault.BACKWARDS: ("0 arrival one 0 5; 2 resize - 0 6; 1 resize - 0 7; 3 end - - -", 2),
    Fault.NO_CLASS: ("0 arrival one 0 5; 1 arrival - 1 5; 2 end - - -", 1),
    Fault.EMPTY_CLASS: ("0 arrival one 0 5; 1 departure two 1 -; 2 end - - -", 1),
    Fault.NAMELESS: ("0 arrival one 0 5; 1 resize one - 5; 2 end - - -", 1),
    Fault.NOT_THERE: ("0 arrival one 0 5; 1 resize one 1 3; 2 end - - -", 1),
    Fault.GONE: ("0 arrival one 0 5; 1 departure one 0 -; 2 resize one 0 5; 3 end - - -", 2),
    Fault.TWICE: ("0 arrival one 0 5; 1 arrival one 0 5; 2 end - - -", 1),
    Fault.OTHER_CLASS: ("0 arrival one 0 5; 1 resize two 0 4; 2 end - - -", 1),
    Fault.NEGATIVE: ("0 arrival one 0 5; 1 arrival one 1 -; 2 end - - -", 1),
    Fault.TOO_MANY: ("0 arrival one 0 5; 1 arrival two 1 5.1; 2 end - - -", 1),
    Fault.HOLDS_ON: ("0 arrival one 0 5; 1 departure one 0 5; 2 end - - -", 1),
    Fault.NO_CORES: ("0 arrival one 0 0; 1 departure one 0 -; 2 end - - -", 1),
    Fault.LATE_START: ("0 arrival one 0 5; 1 start - - -; 2 end - - -", 1),
    Fault.LATE_PRESENT: ("0 start - - -; 1 present one 0 5; 2 end - - -", 1),
    Fault.AFTER_END: ("0 arrival one 0 5; 1 end - - -; 2 arrival one 1 5", 2),
    Fault.NOT_FINITE: ("0 arrival one 0 5; inf resize one 0 6; 2 end - - -", 1),
    Fault.NOT_ABOUT_JOBS: ("0 arrival one 0 5; 1 end - 0 -", 1),
}
FAULTS = [
    pytest.param(fault, *case, id=f"{form} {fault.name}")
    for form, cases in (("totals", TOTALS), ("per job", PER_JOB))
    for fault, case in cases.items()
]


@pytest.mark.parametrize(("fault", "text", "row"), FAULTS)
def test_every_fault_is_named_with_its_row(fault: Fault, text: str, row: int) -> None:
    rows = rows_of(text)
    with pytest.raises(cw.errors.InvalidInput) as caught:
        path_of(text)
    event, time = EventKind(rows[row][1]).name.lower(), rows[row][0]
    message = str(caught.value)
    assert message.startswith(f"row {row} ({event}")
    assert f"at time {time!r}): " in message
    assert fault.reason in message


@pytest.mark.parametrize(("fault", "text", "row"), FAULTS)
def test_a_lenient_search_passes_over_the_fault_alone(fault: Fault, text: str, row: int) -> None:
    columns = columns_of(rows_of(text))
    stopped, faults = find_faults(columns, lenient=True)
    assert stopped == -1
    assert faults.tolist() == [fault if r == row else Fault.NONE for r in range(faults.size)]


def test_every_fault_has_a_test() -> None:
    assert set(TOTALS) | {Fault.NAMELESS, Fault.NONE} == set(Fault) - MENDED
    assert set(PER_JOB) | {Fault.NONE} == set(Fault) - MENDED


def test_kernels_know_the_events_and_faults_by_the_same_numbers() -> None:
    for member in (*EventKind, *(set(Fault) - MENDED)):
        assert getattr(_kernels, member.name) == member


def test_messages_show_the_values() -> None:
    with pytest.raises(cw.errors.InvalidInput, match=r"pool of 10, got 5 for 'one', 5\.1 for 'two'$"):
        path_of("0 arrival one 0 5 0; 1 arrival two 1 5 5.1")
    with pytest.raises(
        cw.errors.InvalidInput, match=r"arrival of job 1 of class 'two' at time 1\.0.*5\.1 for this job$"
    ):
        path_of("0 arrival one 0 5; 1 arrival two 1 5.1")
    with pytest.raises(cw.errors.InvalidInput, match=r"not negative, got no cores$"):
        path_of("0 arrival one 0 -")
    with pytest.raises(cw.errors.InvalidInput, match=r"not negative, got -3 for this job$"):
        path_of("0 arrival one 0 -3")
    wide = Columns(
        tuple("abcdefghi"),
        1.0,
        np.zeros(1),
        np.array([2], np.int8),
        np.zeros(1, np.int64),
        np.array([-1]),
        np.ones((1, 9)),
    )
    with pytest.raises(cw.errors.InvalidInput, match=r"1 for 'f', …$"):
        SamplePath(*wide)


# --- the cores of jobs that rearrange themselves ------------------------------------------------------


def test_rows_of_one_instant_may_hold_too_much_in_passing() -> None:
    path = path_of(
        "0 arrival one 0 10; 1 arrival one 1 5; 1 resize - 0 5; 2 departure one 0 -; 2 resize - 1 10"
    )
    assert path.departures == 1
    with pytest.raises(cw.errors.InvalidInput, match=r"^row 2 \(resize"):
        path_of("0 arrival one 0 10; 1 arrival one 1 5; 1 resize - 0 6; 2 end - - -")


@pytest.mark.parametrize(
    ("text", "blamed"),
    [
        ("0 arrival one 0 6; 1 arrival one 1 6; 1 arrival one 2 0; 2 end - - -", 2),
        ("0 arrival one 0 6; 1 arrival one 1 6; 1 end - - -", 1),
        ("0 arrival one 0 6; 0 arrival one 1 1; 1 arrival one 2 6; 1 departure one 1 -", 2),
    ],
)
def test_the_last_row_that_gave_cores_is_blamed(text: str, blamed: int) -> None:
    row, faults = find_faults(columns_of(rows_of(text)))
    assert (row, faults[row]) == (blamed, Fault.TOO_MANY)


def test_lenient_takes_back_the_row_that_gave_too_much() -> None:
    text = "0 arrival one 0 6; 1 arrival one 1 6; 2 resize one 0 7; 2 departure one 1 -; 3 resize one 0 11"
    stopped, faults = find_faults(columns_of(rows_of(text)), lenient=True)
    assert stopped == -1
    assert faults.tolist() == [0, Fault.TOO_MANY, 0, Fault.NOT_THERE, Fault.TOO_MANY]


@pytest.mark.parametrize(
    ("text", "dropped"),
    [
        ("0 arrival one 0 6; 1 arrival one 1 6; 1 arrival one 2 1; 2 departure one 0 -", [1, 2]),
        ("0 arrival one 0 9; 1 arrival one 1 9; 1 arrival one 2 1; 1 departure one 2 -; 2 end - - -", [1]),
        ("0 arrival one 0 9; 1 arrival one 1 9; 1 resize one 1 8; 1 resize one 0 8; 2 end - - -", [1, 2, 3]),
        ("0 start - - -; 0 present one 0 6; 0 present one 1 6; 0 present one 2 6; 1 end - - -", [2, 3]),
    ],
)
def test_lenient_takes_back_as_many_rows_of_the_instant_as_it_needs(text: str, dropped: list[int]) -> None:
    row, faults = find_faults(columns_of(rows_of(text)), lenient=True)
    assert row == -1
    assert np.flatnonzero(faults).tolist() == dropped
    assert {int(faults[r]) for r in dropped} == {Fault.TOO_MANY}


@pytest.mark.parametrize("pool", [0.5, 10.0, 3000.0])
@pytest.mark.parametrize("per_job", [False, True])
def test_sums_are_checked_to_a_millionth(pool: float, per_job: bool) -> None:
    slack = 1e-6 * max(pool, 1.0)
    for extra, good in ((0.9 * slack, True), (1.1 * slack, False)):
        x = f"{pool / 2!r}"
        over = f"{pool / 2 + extra!r}"
        text = f"0 arrival one 0 {x} 0; 1 arrival two 1 {x} {over}"
        if per_job:
            text = f"0 arrival one 0 {x}; 1 arrival two 1 {over}"
        columns = columns_of(rows_of(text), pool)
        assert (find_faults(columns)[0] < 0) is good


# --- columns --------------------------------------------------------------------------------------

GOOD = "0 start - - 0 0; 0 present one 7 10 0; 1 arrival two 3 5 5; 4 departure one 7 0 10; 5 end - - 0 10"


def test_columns_are_contiguous_arrays_that_nobody_can_change() -> None:
    columns = columns_of(rows_of(GOOD))
    path = SamplePath(*columns._replace(cores=np.asfortranarray(columns.cores)))
    columns.time[0] = -5.0
    for name, kind in zip(COLUMNS, ["f8", "i1", "i8", "i8", "f8"], strict=True):
        column = getattr(path, name)
        assert column.dtype == np.dtype(kind)
        assert column.flags.c_contiguous
        with pytest.raises(ValueError, match="read-only"):
            column[0] = 0
    assert path.start == 0.0
    with pytest.raises(ValueError, match="read-only"):
        path.counts[0, 0] = 1


def test_lists_will_do() -> None:
    columns: Any = ([0, 1], [EventKind.ARRIVAL, EventKind.END], [0, -1], [-1, -1], [[5, 0], [5, 0]])
    names: Any = ["one", "two"]
    path = SamplePath(names, 10, *columns)
    assert path.names == NAMES
    assert path.pool == 10.0
    assert path.duration == 1.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"names": ()}, "at least one"),
        ({"names": "one"}, "got 'one'"),
        ({"names": 3}, "got 3"),
        ({"names": ("one", 2)}, "2"),
        ({"names": ("one", "one")}, "must differ"),
        ({"pool": 0.0}, "pool must be positive"),
        ({"pool": math.nan}, "pool must be finite"),
        ({"time": [0.0, 1.0]}, r"cores must have shape \(2, 2\)"),
        ({"time": ["a"] * 5}, "time must be numbers"),
        ({"time": [[0.0]]}, r"got shape \(1, 1\)"),
        ({"time": []}, "at least one row"),
        ({"event": [0, 1, 2, 3]}, r"event must be 5 whole numbers.*shape \(4,\)"),
        ({"event": [0, 1, 2, 3, 7]}, r"row 4: event must lie in \[0, 6\], got 7"),
        ({"event": [0, 1, 2, 3, 261]}, "got 261"),
        ({"event": [0.0] * 5}, "float64"),
        ({"job_class": [-1, 0, 2, 0, -1]}, r"row 2: class must lie in \[-1, 1\], got 2"),
        ({"job_class": [-2, 0, 1, 0, -1]}, "row 0: class"),
        ({"job": [-1, -2, 3, 7, -1]}, "row 1: job"),
        ({"job": ["a"] * 5}, "job must be 5 whole numbers"),
        ({"cores": np.zeros((5, 3))}, r"got \(5, 3\)"),
        ({"cores": np.zeros((5, 2, 1))}, r"got \(5, 2, 1\)"),
        ({"cores": "none"}, "cores must be numbers, got str"),
    ],
)
def test_columns_that_do_not_fit_are_refused(change: dict[str, Any], message: str) -> None:
    columns = columns_of(rows_of(GOOD))._asdict()
    SamplePath(**columns)
    with pytest.raises(cw.errors.InvalidInput, match=message):
        SamplePath(**{**columns, **change})


def test_a_path_in_one_line() -> None:
    text = str(path_of(GOOD))
    assert text == "5 rows from 0 to 5: 1 arrivals, 1 departures of classes one, two; 10 cores, per class"
    assert "per job" in str(path_of(GOOD).split())
    assert (path_of(GOOD).arrivals, path_of(GOOD).departures) == (1, 1)


def test_numbers_of_jobs_may_be_large_and_rows_need_none() -> None:
    big = 2**62
    path = path_of(
        f"0 arrival one {big} 5 0; 1 arrival one - 5 0; 2 departure one - 5 0; 3 departure one {big} 0 0"
    )
    assert path.counts[:, 0].tolist() == [1, 2, 1, 0]


# --- response times -------------------------------------------------------------------------------


@FORMS
@given(seed=seeds, size=st.integers(1, 30))
def test_response_times_are_those_of_jobs_seen_to_come_and_go(per_job: bool, seed: int, size: int) -> None:
    rows = random_rows(np.random.default_rng(seed), per_job, size)
    path = SamplePath(*columns_of(rows))
    if any(row[3] == NO_JOB for row in rows if row[1] == EventKind.DEPARTURE):
        with pytest.raises(cw.errors.InvalidInput, match="response times need the number of every job"):
            _ = path.response_times
        return
    arrived: dict[int, float] = {}
    times: dict[str, list[float]] = {name: [] for name in NAMES}
    for time, kind, i, who, _ in rows:
        if kind == EventKind.ARRIVAL and who != NO_JOB:
            arrived[who] = time
        elif kind == EventKind.DEPARTURE and who in arrived:
            times[NAMES[i]].append(time - arrived[who])
    assert {name: found.tolist() for name, found in path.response_times.items()} == times


def test_a_job_present_at_the_start_has_no_response_time() -> None:
    path = path_of(GOOD)
    assert {name: times.size for name, times in path.response_times.items()} == {"one": 0, "two": 0}
    path = path_of("0 arrival one 9 5 0; 1.5 departure one 9 0 0; 2 arrival two 1 0 5; 5 departure two 1 0 0")
    assert {name: times.tolist() for name, times in path.response_times.items()} == {
        "one": [1.5],
        "two": [3.0],
    }


# --- the per-job form -------------------------------------------------------------------------------


def widths_at(path: SamplePath, time: float) -> dict[int, float]:
    """The cores of each job from `time` on, whatever the form."""
    rows = [
        (float(t), int(e), int(i), int(j), x)
        for t, e, i, j, x in zip(path.time, path.event, path.job_class, path.job, path.cores, strict=True)
        if t <= time
    ]
    if path.per_job:
        return {who: float(x) for who, x in held_after(rows).items()}
    there = {}
    for _, kind, i, who, _ in rows:
        if kind in (EventKind.PRESENT, EventKind.ARRIVAL):
            there[who] = i
        elif kind in LEAVES:
            del there[who]
    counts = Counter(there.values())
    return {who: float(rows[-1][4][i]) / counts[i] for who, i in there.items()}


@given(seed=seeds, size=st.integers(1, 25))
def test_splitting_keeps_what_every_job_holds(seed: int, size: int) -> None:
    path = SamplePath(*columns_of(random_rows(np.random.default_rng(seed), False, size)))
    moves = (path.event != EventKind.RESIZE) & (path.job_class != NO_JOB)
    if (path.job[moves] == NO_JOB).any():
        with pytest.raises(cw.errors.InvalidInput, match="rows of each job need the number of every job"):
            path.split()
        return
    split = path.split()
    assert split.per_job
    assert split.split() is split
    assert (split.start, split.end, split.duration) == (path.start, path.end, path.duration)
    for what in ("arrivals", "departures", "cancellations"):
        assert getattr(split, what) == getattr(path, what)
    assert possible([*zip(*(getattr(split, name).tolist() for name in COLUMNS), strict=True)], per_job=True)
    instants = np.unique(path.time)
    for time in instants[:-1].tolist():
        assert widths_at(split, time) == widths_at(path, time)
        at, then = (int(np.searchsorted(p.time, time, side="right")) - 1 for p in (path, split))
        assert path.counts[at].tolist() == split.counts[then].tolist()
    job_time = [float(np.diff(p.time) @ p.counts[:-1].sum(axis=1)) for p in (path, split)]
    assert job_time[0] == pytest.approx(job_time[1], rel=1e-12)
    kept = path.event != EventKind.RESIZE
    for name in ("time", "event", "job_class", "job"):
        before, after = getattr(path, name)[kept], getattr(split, name)[split.event != EventKind.RESIZE]
        # A resize of nothing may have become the start or the end.
        assert after.size - before.size <= 2
        if after.size == before.size:
            assert np.array_equal(before, after)


def test_rows_of_a_split() -> None:
    split = path_of(GOOD).split()
    rows = [*zip(*(getattr(split, name).tolist() for name in COLUMNS), strict=True)]
    told = [(t, EventKind(e).name.lower(), i, who, None if math.isnan(x) else x) for t, e, i, who, x in rows]
    assert told == [
        (0.0, "start", -1, -1, None),
        (0.0, "present", 0, 7, 10.0),
        (1.0, "arrival", 1, 3, 5.0),
        (1.0, "resize", 0, 7, 5.0),
        (4.0, "departure", 0, 7, None),
        (4.0, "resize", 1, 3, 10.0),
        (5.0, "end", -1, -1, None),
    ]


def test_a_split_opens_and_closes_with_the_path() -> None:
    """Also where that is with a resize, of nobody or of somebody."""
    path = path_of("0 resize - - 0 0; 1 arrival one 0 4 0; 2 resize - - 5 0; 3 resize - - 5 0")
    split = path.split()
    assert split.event.tolist() == [EventKind.START, EventKind.ARRIVAL, EventKind.RESIZE, EventKind.END]
    assert (split.start, split.end) == (0.0, 3.0)
    path = path_of("0 start - - 0 0; 0 present one 0 4 0; 0 present one 1 6 0; 3 resize - - 8 0")
    split = path.split()
    assert split.cores[1:].tolist() == [3.0, 3.0, 4.0, 4.0]
    assert path_of("2 resize - - 0 0").split().event.tolist() == [EventKind.START]
    assert path_of("2 end - - 0 0").split().event.tolist() == [EventKind.END]


# --- at a glance ------------------------------------------------------------------------------------------


def test_what_is_good_at_a_glance_is_good() -> None:
    """Records as they should be pass, and no damaged one that the row by row check finds a fault in."""
    spoilt_rows = passed = 0
    for seed in range(1500):
        rng = np.random.default_rng(seed)
        rows = random_rows(rng, per_job=False, rows=12)
        columns = columns_of(rows)
        assert plainly_good(columns, columns.job)
        damaged = columns_of(spoilt(rng, rows, per_job=False))
        number = dense(damaged.job)[1]
        *scratch_room, faults = scratch(damaged)
        plain: Any = _kernels.check_rows.py_func
        given = (*damaged[2:5], number, damaged.cores, False, limit_of(POOL), False)
        row = plain(*given, *scratch_room, faults)
        spoilt_rows += row >= 0
        passed += row < 0
        assert plainly_good(damaged, number) == (row < 0)
    assert min(spoilt_rows, passed) > 100


# --- compiled and plain -------------------------------------------------------------------------------


def scratch(columns: Columns) -> tuple[Any, ...]:
    known = int(max(columns.job.max(), columns.job.size)) + 1
    held = known if columns.cores.ndim == 1 else len(NAMES)
    jobs, owner = np.zeros(len(NAMES), np.int64), np.full(known, NO_JOB)
    return jobs, owner, np.zeros(held), np.zeros(columns.job.size), np.zeros(columns.job.size, np.int8)


@FORMS
@pytest.mark.parametrize("lenient", [False, True])
def test_check_rows_is_compiled_faithfully(per_job: bool, lenient: bool) -> None:
    outcomes = set()
    for seed in range(200):
        rng = np.random.default_rng(seed)
        columns = columns_of(spoilt(rng, random_rows(rng, per_job, 10), per_job))
        table = columns.cores.reshape(columns.job.size, -1)
        *rest, faults = scratch(columns)
        row = same(
            _kernels.check_rows,
            *columns[2:6],
            table,
            per_job,
            limit_of(POOL),
            lenient,
            *rest,
            faults,
        )
        outcomes.add((row >= 0, faults.any()))
    assert len(outcomes) >= 2


def test_the_parts_of_the_check_are_compiled_faithfully() -> None:
    jobs, owner = np.array([0, 2]), np.array([-1, -2, 1, 0])
    held, seen = np.array([0.0, 2.5, 1.0, 0.0]), set()
    for kind in EventKind:
        same(_kernels._stage_after, int(kind))
        for stage in range(4):
            for now in (0.0, 1.0, 2.0, NAN, math.inf):
                seen.add(same(_kernels._order_fault, int(kind), now, 1.0, stage))
        for i in (-1, 0, 1):
            for who in range(-1, 4):
                for per_job in (False, True):
                    seen.add(same(_kernels._job_fault, int(kind), i, who, per_job, jobs, owner))
            for cores in ([0.0, 3.0], [3.0, 3.0], [0.0, NAN], [-1.0, 0.0], [0.0, 11.0], [0.0, math.inf]):
                if kind != EventKind.DEPARTURE or i >= 0:
                    args = (int(kind), i, np.array(cores), 10.0, jobs, held)
                    seen.add(same(_kernels._totals_fault, *args))
        for who in range(4):
            for own in (NAN, 0.0, 3.0, -1.0, 11.0, math.inf):
                seen.add(same(_kernels._own_fault, int(kind), who, own, 10.0, held))
    assert seen == set(Fault) - MENDED


def test_split_rows_is_compiled_faithfully() -> None:
    for seed in range(100):
        rng = np.random.default_rng(seed)
        path = SamplePath(*columns_of(random_rows(rng, False, 20)))
        numbers = np.where(path.job_class == NO_JOB, NO_JOB, path.job)
        if (numbers[path.job_class != NO_JOB] == NO_JOB).any():
            continue
        widths = rng.choice([1.0, 2.0], path.counts.shape)
        most = 20 * path.time.size
        ends, links = np.full((2, 2), NO_JOB), np.full((2, int(numbers.max()) + 2), NO_JOB)
        whose = np.zeros((3, most), np.int64)
        same(
            _kernels.split_rows,
            path.event,
            path.job_class,
            numbers,
            widths,
            ends,
            links,
            np.zeros(most, np.int8),
            whose,
            np.zeros(most),
        )


def test_every_kernel_is_compared() -> None:
    """Here, where logs are repaired, or with the tallies."""
    here = Path(__file__)
    elsewhere = here.with_name("test_kernels.py").read_text(encoding="utf-8")
    repair = here.with_name("test_log_repair.py").read_text(encoding="utf-8")
    left = not_compared(_kernels, "_kernels", here.read_text(encoding="utf-8") + repair)
    assert set(left) & set(not_compared(_kernels, "row_kernels", elsewhere)) == set()
