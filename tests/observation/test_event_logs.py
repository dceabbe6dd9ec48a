"""Event logs: what is written comes back bit for bit, and what is wrong is said with file, line and value."""

from __future__ import annotations

import gzip
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import corewise as cw
from corewise.observation import log_reader as reader
from corewise.observation.event_logs import EventLog, load_events, load_unknown_log, save_events
from corewise.observation.log_reader import Header, Labels, PlainBlocks
from corewise.observation.log_repair import with_ties_reordered
from corewise.observation.rows import find_faults
from corewise.observation.sample_path import NO_JOB, EventKind, SamplePath
from corewise.observation.text.fields import Fields, Layout
from tests.observation.test_sample_path import (
    COLUMNS,
    FORMS,
    columns_of,
    path_of,
    possible,
    random_rows,
    seeds,
    spoilt,
)

TOTALS = """\
time,event,class,job,cores:one,cores:two
0.0,start,,,0.0,0.0
0.0,present,one,a,10.0,0.0
0.5,arrival,two,b,4.0,6.0
1.25,departure,one,a,0.0,10.0
2.0,resize,,,0.0,9.0
3.0,end,,,0.0,9.0
"""
PER_JOB = """\
time,event,class,job,cores
0.0,start,,,
0.0,present,one,a,10.0
0.5,arrival,two,b,6.0
0.5,resize,one,a,4.0
1.25,departure,one,a,
1.25,resize,,b,10.0
3.0,end,,,
"""


@pytest.fixture(scope="module", autouse=True)
def _short_logs_are_read_like_long_ones() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reader, "_MUCH", 0)
        yield


def system_of(*names: str, cores: float = 10.0) -> cw.System:
    return cw.System(cores, [cw.JobClass(name, 1.0, 1.0, cw.Amdahl(0.5)) for name in names])


SYSTEM = system_of("one", "two")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log.csv"


def read(file: Path, text: str | bytes, **options: Any) -> EventLog:
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return load_events(file, SYSTEM, **options)


def assert_equal(one: SamplePath, other: SamplePath) -> None:
    """The same columns, bit for bit."""
    assert (one.names, one.pool) == (other.names, other.pool)
    for name in COLUMNS:
        ours, theirs = getattr(one, name), getattr(other, name)
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        assert ours.tobytes() == theirs.tobytes(), name


def with_line(text: str, number: int, line: str) -> str:
    lines = text.splitlines()
    lines[number - 1] = line
    return "\n".join(lines) + "\n"


# --- reading ------------------------------------------------------------------------------------------


def test_class_totals_are_read(log: Path) -> None:
    found = read(log, TOTALS)
    assert (found.rows, found.skipped, found.reasons) == (6, 0, ())
    assert str(found) == str(found.path)
    assert_equal(
        found.path,
        path_of(
            "0 start - - 0 0; 0 present one 0 10 0; 0.5 arrival two 1 4 6; 1.25 departure one 0 0 10; "
            "2 resize - - 0 9; 3 end - - 0 9"
        ),
    )


def test_cores_of_jobs_are_read(log: Path) -> None:
    assert_equal(
        read(log, PER_JOB).path,
        path_of(
            "0 start - - -; 0 present one 0 10; 0.5 arrival two 1 6; 0.5 resize one 0 4; "
            "1.25 departure one 0 -; 1.25 resize - 1 10; 3 end - - -"
        ),
    )


@pytest.mark.parametrize("text", [TOTALS, PER_JOB], ids=["totals", "per job"])
@pytest.mark.parametrize(
    "change",
    [
        lambda text: "\ufeff" + text,
        lambda text: text.replace("\n", "\r\n"),
        lambda text: "\ufeff\r\n" + text.replace("\n", "\r\n\r\n"),
        lambda text: text.replace("\n", "\n\n"),
        lambda text: "\n \n" + text.replace("\n", "\n \t\n"),
        lambda text: text.rstrip("\n"),
        lambda text: text.replace(",", " , "),
        lambda text: text.replace(",one,", ',"one",').replace("0.5,", '"0.5",').replace("time", '"time"'),
        lambda text: text.replace("0.5", "5e-1").replace("3.0", "+3"),
        lambda text: text.replace(",a,", ',"job, the ""first""",'),
        lambda text: text.replace(",a,", f",{'long' * 5},"),
        lambda text: text.replace(",a,", f",{'long' * 500},"),
        lambda text: text.replace(",a,", ",ähnlich λ 作業,"),
        lambda text: text.replace(",a,", ",007,").replace(",b,", ",7,"),
        lambda text: text.replace(",a,", ",9999999999999999999999,").replace(",b,", ",-1,"),
        lambda text: text.replace(",a,", ",123456789012345678,").replace(",b,", ",1234567,"),
        lambda text: text.replace("10.0", "10." + "0" * 40),
        lambda text: "\n".join(",".join(reversed(line.split(","))) for line in text.splitlines()),
    ],
    ids=[
        "mark",
        "windows",
        "windows and blank",
        "blank lines",
        "lines of blanks",
        "no last line end",
        "blanks",
        "quoted",
        "numbers",
        "quoted label",
        "long label",
        "very long label",
        "unicode label",
        "leading zeros",
        "huge number",
        "large number",
        "long number",
        "column order",
    ],
)
def test_a_log_may_be_written_in_many_ways(text: str, change: Any, log: Path) -> None:
    assert_equal(read(log, change(text)).path, read(log, text).path)


def test_whole_numbers_are_kept_as_numbers_of_jobs(log: Path) -> None:
    """Up to a million; other labels, and larger numbers, are numbered in order of appearance."""
    jobs = [NO_JOB, 0, 1, 0, NO_JOB, NO_JOB]
    for a, b, kept in [
        ("5", "0", [NO_JOB, 5, 0, 5, NO_JOB, NO_JOB]),
        ("999999", "12", [NO_JOB, 999999, 12, 999999, NO_JOB, NO_JOB]),
        ("12345678", "12", jobs),
        ("5", "x", jobs),
        ("x", "5", jobs),
        ("00", "0", jobs),
    ]:
        text = TOTALS.replace(",a,", f",{a},").replace(",b,", f",{b},")
        assert read(log, text).path.job.tolist() == kept


def test_start_and_end_may_leave_their_cores_empty(log: Path) -> None:
    text = TOTALS.replace("start,,,0.0,0.0", "start,,,,").replace("end,,,0.0,9.0", "end,,,,")
    path = read(log, text).path
    assert path.cores[[0, -1]].tolist() == [[0.0, 0.0], [0.0, 0.0]]
    assert path.cores[1:-1].tolist() == read(log, TOTALS).path.cores[1:-1].tolist()


def test_a_log_without_start_opens_at_its_first_row(log: Path) -> None:
    path = read(
        log, "time,event,class,job,cores:one,cores:two\n2,arrival,one,,5,0\n3,departure,one,,0,0\n"
    ).path
    assert (path.start, path.duration, path.departures) == (2.0, 1.0, 1)


# --- labels, at once and one by one -------------------------------------------------------------------

words = st.one_of(
    st.integers(0, 10**20).map(str),
    st.text(st.sampled_from("0019 ab-é語"), max_size=18),
    st.sampled_from(["", "0", "00", "9" * 18, "1" + "0" * 18, "9" * 19]),
)


@given(labels=st.lists(words, min_size=1, max_size=30))
def test_labels_have_the_same_codes_at_once_and_one_by_one(labels: list[str]) -> None:
    together, alone = Labels(), Labels()
    bare = [label.strip() for label in labels]
    text = "".join(f"{label},\n" for label in bare).encode()
    fields = Fields.of(np.frombuffer(text, dtype=np.uint8), Layout(("job", "rest"), ("job",), quotes=False))
    codes = together.of_fields(fields, "job").tolist()
    assert codes == [alone.code(label) for label in labels]
    for label, code in zip(bare, codes, strict=True):
        assert (code == NO_JOB) == (label == "")
        assert codes.index(code) == bare.index(label)  # one label, one code
        if label:
            assert together.text(code) == label


# --- round trips --------------------------------------------------------------------------------------


@FORMS
@given(seed=seeds, size=st.integers(1, 40), split=st.booleans(), suffix=st.sampled_from(["", ".gz"]))
def test_what_is_written_comes_back(
    per_job: bool, seed: int, size: int, split: bool, suffix: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = SamplePath(*columns_of(random_rows(np.random.default_rng(seed), per_job, size)))
    named = not (path.job[(path.job_class != NO_JOB) & (path.event != EventKind.RESIZE)] == NO_JOB).any()
    split = split and named
    file = tmp_path_factory.mktemp("logs") / f"log.csv{suffix}"
    save_events(path, file, per_job=split)
    found = load_events(file, SYSTEM)
    assert (found.rows, found.skipped) == (found.path.time.size, 0)
    assert_equal(found.path, path.split() if split else path)


floats = st.floats(0.0, 10.0, allow_subnormal=True)


@given(
    times=st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1).map(sorted), data=st.data()
)
def test_every_bit_of_a_number_comes_back(
    times: list[float], data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    rows = len(times)
    cores = [[data.draw(floats), -0.0] for _ in times]
    path = SamplePath(("one", "two"), 10.0, times, [2] * rows, [0] * rows, range(rows), cores)  # type: ignore[arg-type]
    file = tmp_path_factory.mktemp("logs") / "log.csv"
    save_events(path, file)
    assert_equal(load_events(file, SYSTEM).path, path)


@pytest.mark.parametrize(
    "names",
    [
        ("one",),
        ('a "quoted" name', "b c"),
        ("'", '"'),
        ("x" * 300, "x" * 299),
        ("ζ", "作業"),
        tuple("abcdefghijk"),
    ],
    ids=lambda names: names[0][:10],
)
@pytest.mark.parametrize("per_job", [False, True])
def test_classes_of_any_name_and_number(names: tuple[str, ...], per_job: bool, log: Path) -> None:
    rows, classes = 2 * len(names), np.arange(len(names))
    cores = np.tril(np.ones((len(names), len(names)))) / len(names)
    path = SamplePath(
        names,
        10.0,
        np.arange(rows, dtype=np.float64),
        np.repeat([EventKind.ARRIVAL, EventKind.DEPARTURE], len(names)),
        np.concatenate([classes, classes]),
        np.concatenate([classes, classes]),
        np.concatenate([cores, 1 / len(names) - cores]),
    )
    save_events(path, log, per_job=per_job)
    assert_equal(load_events(log, system_of(*names)).path, path.split() if per_job else path)


def test_a_class_name_that_no_file_can_hold_is_refused(log: Path) -> None:
    for name in ("a\0b", "a\ud800"):
        path = SamplePath((name,), 1.0, [0.0], [0], [-1], [-1], [[0.0]])  # type: ignore[arg-type]
        with pytest.raises(cw.errors.InvalidInput, match="cannot be written"):
            save_events(path, log)
    assert not log.exists()


def test_what_is_written_is_the_format_of_the_design(log: Path) -> None:
    path = read(log, TOTALS).path
    save_events(path, log)
    assert log.read_text() == TOTALS.replace(",a,", ",0,").replace(",b,", ",1,")
    save_events(path, log, per_job=True)
    assert log.read_text().splitlines() == [
        "time,event,class,job,cores",
        "0.0,start,,,",
        "0.0,present,one,0,10.0",
        "0.5,arrival,two,1,6.0",
        "0.5,resize,one,0,4.0",
        "1.25,departure,one,0,",
        "1.25,resize,two,1,10.0",
        "2.0,resize,two,1,9.0",
        "3.0,end,,,",
    ]


def test_what_cannot_be_written_leaves_the_file_as_it_was(log: Path) -> None:
    path = read(log, TOTALS).path
    nameless = path_of("0 arrival one - 5 0; 1 departure one - 0 0")
    with pytest.raises(cw.errors.InvalidInput, match="need the number of every job"):
        save_events(nameless, log, per_job=True)
    with pytest.raises(cw.errors.InvalidInput, match="expected a SamplePath"):
        save_events("log.csv", log)  # type: ignore[arg-type]
    assert log.read_text() == TOTALS
    with pytest.raises(cw.errors.InvalidFile, match="cannot be written"):
        save_events(path, log.parent / "nowhere" / "log.csv")
    with pytest.raises(cw.errors.InvalidFile, match="expected the path"):
        save_events(path, 3)  # type: ignore[arg-type]
    assert list(log.parent.iterdir()) == [log]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
@pytest.mark.parametrize("name", ["log.csv", "log.csv.gz"])
def test_byte_order_marks_change_nothing(tmp_path: Path, name: str, encoding: str) -> None:
    system = cw.System(10, [cw.JobClass(one, 1.0, 1.0, cw.Amdahl(0.5)) for one in ("one", "zwei \u2082")])
    for text in (TOTALS, PER_JOB):
        written = text.replace("two", "zwei \u2082")
        plain = tmp_path / "plain.csv"
        plain.write_text(written, encoding="utf-8")
        marked = written.replace("\n", "\r\n").encode(encoding)
        (tmp_path / name).write_bytes(gzip.compress(marked) if name.endswith("gz") else marked)
        found = load_events(tmp_path / name, system)
        for column in COLUMNS:
            expected = getattr(load_events(plain, system).path, column)
            assert np.array_equal(getattr(found.path, column), expected, equal_nan=column == "cores")
        assert load_unknown_log(tmp_path / name).path == load_unknown_log(plain).path


# --- a file that is not a log -------------------------------------------------------------------------

LENIENT = pytest.mark.parametrize("lenient", [False, True], ids=["strict", "lenient"])
HEADER = "time,event,class,job,cores:one,cores:two"


@LENIENT
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "empty"),
        (b"\n \r\n", "empty"),
        (b"\xef\xbb\xbf", "empty"),
        (HEADER.encode(), "no events"),
        (HEADER.encode() + b"\n\n\n", "no events"),
        (b"\x7fELF\0\0\0\1", "line 1: a binary file"),
        (TOTALS.encode("utf-16-le"), "line 1: a binary file"),
        (TOTALS.encode("utf-16") + b"x", "cannot be read: not UTF-16 text"),
        (TOTALS.encode() + b"4.0,end,\0,,0,0\n", "line 8: a binary file"),
        ("zeit,évent\n".encode("latin-1"), "line 1: not UTF-8 text, byte 0xe9"),
        (b"0.0,arrival,one,a,10.0,0.0\n", "line 1: the header must name.*has no time, event"),
        (b"\n\ntime,event,class,job,cores:one\n", "line 3: .*has no cores:two"),
        (b"time,event,class,cores\n", "line 1: .*time,event,class,job,cores, and has no job"),
        (b"time,event,class,job\n", "line 1: .*has no cores:one, cores:two"),
        (b"time,time,event,class,job,cores\n", "line 1: column 'time' is there 2 times"),
        (b"time,event,class,job,cores:one,cores:tow\n", "line 1: .*unknown class 'tow'; did you mean 'two'"),
        (
            b"time,event,class,job,cores,cores:one\n",
            "line 1: columns 'cores' and 'cores:one' exclude each other",
        ),
        (b'time,"event\n', "line 1: not a line of CSV"),
        (b"x" * 200_000, "line 1: not a line of CSV"),
    ],
)
def test_a_file_that_is_not_a_log_is_refused_also_leniently(
    content: bytes, message: str, lenient: bool, log: Path
) -> None:
    with pytest.raises(cw.errors.InvalidFile, match=rf"log\.csv[,:] {message}") as caught:
        read(log, content, lenient=lenient)
    assert isinstance(caught.value, ValueError)
    assert len(str(caught.value)) < 400


@LENIENT
def test_what_cannot_be_opened_is_refused(lenient: bool, tmp_path: Path) -> None:
    (tmp_path / "plain.gz").write_text(TOTALS)
    (tmp_path / "short.gz").write_bytes(gzip.compress(TOTALS.encode())[:-20])
    damaged = bytearray(gzip.compress(TOTALS.encode() * 50))
    damaged[20:60] = b"\xff" * 40
    (tmp_path / "damaged.gz").write_bytes(damaged)
    for name in ("", "missing.csv", "missing.gz", "plain.gz", "short.gz", "damaged.gz", "with\0nul"):
        with pytest.raises(cw.errors.InvalidFile, match=r"cannot be read: ."):
            load_events(tmp_path / name, SYSTEM, lenient=lenient)
    with pytest.raises(cw.errors.InvalidFile, match="expected the path"):
        load_events(3, SYSTEM, lenient=lenient)  # type: ignore[arg-type]
    with pytest.raises(cw.errors.InvalidSystem, match="expected a System"):
        load_events(tmp_path / "plain.gz", "paper:1", lenient=lenient)  # type: ignore[arg-type]


def test_an_unknown_column_is_refused_or_ignored(log: Path) -> None:
    text = "\n".join(
        f"{line},{'note' if k == 0 else 'some words'}" for k, line in enumerate(TOTALS.splitlines())
    )
    with pytest.raises(
        cw.errors.InvalidFile, match=r"line 1: unknown column 'note'; the columns are time,event,"
    ):
        read(log, text)
    assert_equal(read(log, text, lenient=True).path, read(log, TOTALS).path)


# --- bad rows -----------------------------------------------------------------------------------------

BAD_TOTALS = {
    "time": (4, "0,5,arrival,two,b,4.0,6.0", "7 fields, and the header has 6"),
    "not a number": (4, "abc,arrival,two,b,4.0,6.0", "time 'abc' is not a number"),
    "no time": (4, ",arrival,two,b,4.0,6.0", "time '' is not a number"),
    "nan": (4, "nan,arrival,two,b,4.0,6.0", "time 'nan' is not finite"),
    "inf": (4, "inf,arrival,two,b,4.0,6.0", "time 'inf' is not finite"),
    "huge": (4, "1e999,arrival,two,b,4.0,6.0", "time '1e999' is not finite"),
    "cores nan": (4, "0.5,arrival,two,b,4.0,nan", "cores:two 'nan' is not finite"),
    "cores inf": (4, "0.5,arrival,two,b,-inf,6.0", "cores:one '-inf' is not finite"),
    "cores text": (4, "0.5,arrival,two,b,four,6.0", "cores:one 'four' is not a number"),
    "cores missing": (4, "0.5,arrival,two,b,,6.0", "cores:one '' is not a number"),
    "event": (4, "0.5,arival,two,b,4.0,6.0", "unknown event 'arival'; did you mean 'arrival'?"),
    "case": (4, "0.5,ARRIVAL,two,b,4.0,6.0", "unknown event 'ARRIVAL'; did you mean 'arrival'?"),
    "no event": (4, "0.5,,two,b,4.0,6.0", "unknown event ''; known: start, present"),
    "longer event": (4, "0.5,arrivalarrival,two,b,4.0,6.0", "unknown event 'arrivalarrival'"),
    "class": (4, "0.5,arrival,tow,b,4.0,6.0", "unknown class 'tow'; did you mean 'two'?"),
    "longer class": (4, "0.5,arrival,twofold,b,4.0,6.0", "unknown class 'twofold'; did you mean 'two'?"),
    "no class": (4, "0.5,arrival,,b,4.0,6.0", "arrival of job 'b' at time 0.5: it needs a class"),
    "fields": (4, "0.5,arrival,two", "3 fields, and the header has 6"),
    "quote": (4, '0.5,arrival,two,"b,4.0,6.0', "not a line of CSV: unexpected end of data"),
    "carriage return": (4, "0.5,arrival,two,b\rc,4.0,6.0", "not a line of CSV: "),
    "long": (4, f"{'x' * 90},arrival,two,b,4.0,6.0", f"time '{'x' * 40}…' is not a number"),
    "backwards": (6, "1.2,resize,,,0.0,9.0", "resize at time 1.2: its time is before"),
    "too many": (4, "0.5,arrival,two,b,4.0,6.1", "pool of 10, got 4 for 'one', 6.1 for 'two'"),
    "negative": (4, "0.5,arrival,two,b,4.0,-6.0", "not negative, got 4 for 'one', -6 for 'two'"),
    "holds on": (5, "1.25,departure,one,a,1.0,9.0", "cores are held by a job that has left"),
    "other class": (
        5,
        "1.25,departure,two,a,4.0,0.0",
        "of job 'a' of class 'two' at time 1.25: the job belongs",
    ),
    "late start": (6, "2.0,start,,,0.0,9.0", "start at time 2.0: only the first row can be a start"),
    "end of a job": (7, "3.0,end,one,a,0.0,9.0", "a start or an end is about no class"),
    "twice": (
        6,
        "2.0,arrival,two,b,0.0,9.0",
        "arrival of job 'b' of class 'two' at time 2.0: the job is present",
    ),
    "again": (6, "2.0,arrival,one,a,1.0,9.0", "the job has left before"),
    "stranger": (
        6,
        "2.0,departure,two,c,0.0,0.0",
        "of job 'c' of class 'two' at time 2.0: the job never arrived",
    ),
    "nobody": (6, "2.0,departure,one,,0.0,9.0", "departure of class 'one' at time 2.0: no job of the class"),
    "late present": (6, "2.0,present,two,c,0.0,9.0", "jobs present at the start must follow it at once"),
    "truncated": (7, "3.0,end,,", "4 fields, and the header has 6"),
}
BAD_PER_JOB = {
    "not a number": (4, "0.5,arrival,two,b,six", "cores 'six' is not a number"),
    "nan": (4, "0.5,arrival,two,b,nan", "cores 'nan' is not finite"),
    "nan of nobody": (8, "3.0,end,,,nan", "cores 'nan' is not finite"),
    "none": (7, "1.25,resize,,b,", "resize of job 'b' at time 1.25: it needs cores that are finite"),
    "nameless": (7, "1.25,resize,two,,10.0", "it needs a job"),
    "too many": (7, "1.25,resize,two,b,10.1", "than the pool of 10, got 10.1 for this job"),
    "too many of two": (5, "0.5,resize,one,a,4.1", "than the pool of 10, got 4.1 for this job"),
    "holds on": (6, "1.25,departure,one,a,4.0", "cores are held by a job that has left"),
    "gone": (
        7,
        "2.0,resize,one,a,4.0",
        "resize of job 'a' of class 'one' at time 2.0: the job has left before",
    ),
    "other class": (7, "1.25,resize,one,b,10.0", "the job belongs to another class"),
    "truncated": (8, "3.0,e", "2 fields, and the header has 5"),
    "fields": (4, "0.5,arrival,two,b,6.0,7.0", "6 fields, and the header has 5"),
}
BAD = [
    pytest.param(text, *case, id=f"{form} {name}")
    for form, text, cases in (("totals", TOTALS, BAD_TOTALS), ("per job", PER_JOB, BAD_PER_JOB))
    for name, case in cases.items()
]


@pytest.mark.parametrize(("text", "number", "line", "message"), BAD)
def test_a_bad_row_is_named_with_its_line(text: str, number: int, line: str, message: str, log: Path) -> None:
    for spoiled, shift in ((with_line(text, number, line), 0), ("\n\n" + with_line(text, number, line), 2)):
        with pytest.raises(cw.errors.InvalidFile) as caught:
            read(log, spoiled)
        assert str(caught.value).startswith(f"{log}, line {number + shift}: ")
        assert message in str(caught.value)


@pytest.mark.parametrize(("text", "number", "line", "message"), BAD)
def test_a_bad_row_is_skipped_and_counted(text: str, number: int, line: str, message: str, log: Path) -> None:
    found = read(log, with_line(text, number, line), lenient=True)
    rows = len(text.splitlines()) - 1
    assert found.rows == rows
    assert found.skipped >= 1
    assert found.path.time.size == rows - found.skipped + found.censored
    assert len(found.reasons) == found.skipped
    told = [reason for reason in found.reasons if reason.startswith(f"line {number}: ")]
    assert len(told) == 1
    assert message in told[0]
    assert str(found).splitlines()[1:] == [
        f"{found.skipped} of {rows} rows skipped"
        + (f", {found.censored} jobs censored there" if found.censored else ""),
        *(f"  {r}" for r in found.reasons),
    ]


def test_a_skipped_row_takes_nothing_else_away(log: Path) -> None:
    """Parsed or not: what remains is the log without it, but for jobs that are censored."""
    for line in ("oops", "0.7,departure,two,c,4.0,6.0"):
        lines = TOTALS.splitlines()
        spoiled = "\n".join([*lines[:4], line, *lines[4:]])
        found = read(log, spoiled, lenient=True)
        assert found.skipped == 1
        clean = read(log, TOTALS).path
        assert (found.path.arrivals, found.path.departures) == (clean.arrivals, clean.departures)
        assert found.path.time.size == clean.time.size + found.censored


@pytest.mark.parametrize("text", [TOTALS, PER_JOB], ids=["totals", "per job"])
@pytest.mark.parametrize("spoilt_rows", [0, 1])
def test_a_log_gives_the_path_that_its_columns_make(text: str, spoilt_rows: int, log: Path) -> None:
    """Rows are checked by the reader alone: types, layout and protection are those of a path checked anew."""
    path = read(log, text + "4.0,end,,,\n" * spoilt_rows, lenient=True).path
    columns = [getattr(path, name) for name in COLUMNS]
    assert_equal(path, SamplePath(path.names, path.pool, *columns))
    for column in columns:
        assert column.flags.c_contiguous
        assert not column.flags.writeable


def test_times_too_far_apart_are_refused(log: Path) -> None:
    with pytest.raises(cw.errors.InvalidInput, match=r"times from -1e\+308 to 1e\+308 are too far apart"):
        read(log, "time,event,class,job,cores\n-1e308,start,,,\n1e308,end,,,\n")


def test_a_row_that_is_not_utf_8_is_named_or_skipped(log: Path) -> None:
    content = TOTALS.encode().replace(b"2.0,resize,,,", b"2.0,resize,,\xff,")
    with pytest.raises(cw.errors.InvalidFile, match="line 6: not UTF-8 text, byte 0xff"):
        read(log, content)
    found = read(log, content, lenient=True)
    assert found.reasons[0] == "line 6: not UTF-8 text, byte 0xff"


def test_only_the_first_reasons_are_told(log: Path) -> None:
    lines = TOTALS.splitlines()
    bad = ["oops" if k % 2 else "0.7,departure,two,c,4.0,6.0" for k in range(200)]
    found = read(log, "\n".join([*lines[:4], *bad, *lines[4:]]), lenient=True)
    assert found.skipped == 200
    assert [int(reason.split(":")[0].removeprefix("line ")) for reason in found.reasons] == list(range(5, 15))
    assert str(found).endswith("\n  …")


def test_a_log_of_bad_rows_alone_is_refused_also_leniently(log: Path) -> None:
    for rows in ("oops\nno\n", "0,departure,one,,0,0\n", "oops\n0,departure,one,,0,0\n"):
        with pytest.raises(
            cw.errors.InvalidFile, match=rf"none of {rows.count(chr(10))} rows can be used; line 2: "
        ):
            read(log, f"{HEADER}\n{rows}", lenient=True)


# --- at once and line by line -------------------------------------------------------------------------

scraps = st.sampled_from(
    [
        b"",
        b",",
        b"\n",
        b"\r",
        b" ",
        b'"',
        b"0",
        b"1.5",
        b"nan",
        b"-",
        b"_",
        b"e",
        b"end",
        b"one",
        b"a",
        b"\xff",
        b"\xc3\xa4",
    ]
)


@pytest.mark.parametrize("text", [TOTALS, PER_JOB], ids=["totals", "per job"])
@given(edits=st.lists(st.tuples(st.integers(0, 300), st.integers(0, 4), scraps), min_size=1, max_size=3))
def test_damage_is_refused_or_read_in_the_same_way(
    text: str, edits: list[tuple[int, int, bytes]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Whatever is changed, nothing but `InvalidFile` is raised, and the quick readers make no difference."""
    content = text.encode()
    for place, length, scrap in edits:
        content = content[:place] + scrap + content[place + length :]
    file = tmp_path_factory.mktemp("logs") / "log.csv"
    file.write_bytes(content)

    def outcome(lenient: bool) -> tuple[str, SamplePath | None]:
        try:
            found = load_events(file, SYSTEM, lenient=lenient)
        except cw.errors.InvalidFile as error:
            return str(error), None
        return str(found), found.path

    for lenient in (False, True):
        told, path = outcome(lenient)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(PlainBlocks, "parse", lambda *_: None)
            once, at_once = outcome(lenient)
            patch.setattr(reader, "parse_block", lambda *_: None)
            again, other = outcome(lenient)
        assert told == once == again
        if path is not None and at_once is not None and other is not None:
            assert_equal(path, at_once)
            assert_equal(path, other)


# --- blocks -------------------------------------------------------------------------------------------


@pytest.mark.slow
@FORMS
@given(seed=seeds, size=st.integers(5, 40), block=st.integers(100, 400), blank=st.booleans())
def test_a_log_does_not_depend_on_the_blocks_it_is_read_in(
    per_job: bool, seed: int, size: int, block: int, blank: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Nor do its faults: spoilt rows are reported with the line of a plain count."""
    rng = np.random.default_rng(seed)
    rows = random_rows(rng, per_job, size)
    file = tmp_path_factory.mktemp("logs") / "log.csv"
    save_events(SamplePath(*columns_of(rows)), file)
    text = file.read_text()
    if rng.random() < 0.7:
        lines = text.splitlines(keepends=True)
        lines.insert(int(rng.integers(1, len(lines) + 1)), "not,a,row\n")
        text = "".join(lines)
    if blank:
        text = text.replace("\n", "\n\n")
    file.write_text(text)

    def outcome() -> tuple[str, SamplePath]:
        found = load_events(file, SYSTEM, lenient=True)
        try:
            strict = str(load_events(file, SYSTEM))
        except cw.errors.InvalidFile as error:
            strict = str(error)
            line = int(strict.removeprefix(f"{file}, line ").split(":")[0])
            assert text.splitlines()[line - 1] == "not,a,row"
        return f"{found} {strict}", found.path

    told, path = outcome()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reader, "_BLOCK_BYTES", block)
        again, other = outcome()
    assert again == told
    assert_equal(other, path)


@LENIENT
def test_a_file_without_lines_is_not_read_to_its_end(
    lenient: bool, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "_BLOCK_BYTES", 1000)
    assert read(log, TOTALS + "\n" * 3000, lenient=lenient).rows == 6
    with pytest.raises(cw.errors.InvalidFile, match="line 8: longer than"):
        read(log, TOTALS + "x" * 3000, lenient=lenient)


@pytest.mark.slow
@FORMS
@given(seed=seeds, size=st.integers(1, 12))
def test_spoilt_records_are_refused_at_the_line_of_their_row(
    per_job: bool, seed: int, size: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The file says what the path says, one line later than the header, or it is a number that cannot be.

    But rows of one instant may be in any order.
    """
    rng = np.random.default_rng(seed)
    rows = spoilt(rng, random_rows(rng, per_job, size), per_job)
    file = tmp_path_factory.mktemp("logs") / "log.csv"
    header = "time,event,class,job," + ("cores" if per_job else "cores:one,cores:two")
    lines = [header]
    for time, kind, i, who, cores in rows:
        held = [cores] if per_job else cores
        fields = [
            repr(time),
            EventKind(kind).name.lower(),
            SYSTEM.names[i] if i >= 0 else "",
            str(who) if who >= 0 else "",
            *("" if per_job and math.isnan(x) else repr(x) for x in held),
        ]
        lines.append(",".join(fields))
    file.write_text("\n".join(lines))
    if possible(rows, per_job):
        assert_equal(load_events(file, SYSTEM).path, SamplePath(*columns_of(rows)))
        return
    columns, source = with_ties_reordered(columns_of(rows))
    if find_faults(columns)[0] < 0:
        assert_equal(load_events(file, SYSTEM).path, SamplePath(*columns))
        return
    with pytest.raises(cw.errors.InvalidFile) as from_file:
        load_events(file, SYSTEM)
    with pytest.raises(cw.errors.InvalidInput) as from_rows:
        SamplePath(*columns)
    if "is not finite" not in str(from_file.value):
        row = int(source[int(str(from_rows.value).removeprefix("row ").split()[0])])
        assert str(from_file.value).startswith(f"{file}, line {row + 2}: ")
        assert str(from_file.value).endswith(str(from_rows.value).split("): ", 1)[1])


@LENIENT
def test_a_binary_tail_is_named_with_its_line(
    lenient: bool, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the blocks: here most lines have been taken in before."""
    for size in (30, 64, 1000):
        monkeypatch.setattr(reader, "_BLOCK_BYTES", size)
        with pytest.raises(cw.errors.InvalidFile, match="line 9: a binary file"):
            read(log, TOTALS + "\n4.0,\0\0\0\n", lenient=lenient)


def test_plain_blocks_are_taken_by_compiled_loops_and_others_are_not() -> None:
    header = Header.of("time,event,class,job,cores", ["one", "two"], lenient=False)
    labels = Labels()
    plain = PlainBlocks(header, labels)
    block = plain.parse(b"0,start,,,\n1.5,arrival,one,7,2\n2e0,resize,one,7,3.25\n2.5,arrival,two,x-7,1\n")
    assert block is not None
    assert block.time.tolist() == [0.0, 1.5, 2.0, 2.5]
    assert block.job_class.tolist() == [NO_JOB, 0, 0, 1]
    assert block.label.tolist() == [NO_JOB, 7, 7, labels.code("x-7")]
    assert np.isnan(block.cores[0])
    assert block.cores[1:].tolist() == [2.0, 3.25, 1.0]
    odd = (
        b'1,arrival,"one",7,2\n',
        b"1,arrival,one, 7,2\n",
        b"1,arrival,one,7,nan\n",
        b"1,arrival,on,7,2\n",
        b"1,arrival,one,7\n",
        b"\n1,arrival,one,7,2\n",
        "1,arrival,one,é,2\n".encode(),
    )
    assert [text for text in odd if plain.parse(text) is not None] == []
