"""Fields of tables: the compiled reader against Python's own csv, float and datetime."""

from __future__ import annotations

import csv
import io
import math
from datetime import UTC, datetime, timedelta, timezone
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corewise.errors import InvalidInput
from corewise.kit.arrays import Ints
from corewise.observation.importers import _kernels as writer
from corewise.observation.text import _kernels as kernels
from corewise.observation.text.fields import Fields, Layout, TextCodes, TextPool, line_blocks, numbers, times
from tests.helpers.twins import not_compared, same

TEXTS = [
    "1", "-1", " 3.25 ", "1e3", "1e400", "1.7976931348623157e308", "0.1", "5e-324",
    "123456789012345678901", "+2", ".5", "5.", "1e", "1e+", "--1", "1_0", "0x1", "inf", "nan", "NULL",
    "Unknown", "None", "n/a", "", " ", "-", ".", "e5", "000", "-0", "9007199254740993", "1.5.2", "٣",
    "1e22", "1e23", "123e-22", "none ", "invalid",
]  # fmt: skip
MOMENTS = [
    "2017-10-09 07:01:55", "2017-10-09T07:01:55Z", "2017-10-09T07:01:55.25+02:00",
    "2017-10-09T07:01:55-0930", "2017-10-09 07:01:55 UTC", "2017-10-09 07:01+01", "2024-02-29",
    "2023-02-29", "1900-02-29", "2000-02-29T00:00:00", "2017/10/09 07:01:55", "2017-13-01", "2017-10-32",
    "2017-10-09T24:00:00", "2017-10-09T25:00", "2017-10-09T07:61", "2017-10-09x07:01",
    "2017-10-09T07:01:55+19:00", "2017-10-09T07:01:5", "2017-10-09T07:01:55,5Z", "2017-10-09T7:1",
    "1-02:03:04", "02:03:04", "05:06", "1-2", "1-02:03", "1:2:3:4", "10:99", "00:00:01.5", "INFINITE",
    "x-01:00:00", "2017-10-09T07:01:55 GMT", "2017-10-09T07:01:55 CET", "2017-10-09T07:01:55+0a:00",
]  # fmt: skip


def letters(text: str) -> np.ndarray:
    return np.frombuffer(text.encode(), dtype=np.uint8)


def fields_of(text: str, layout: Layout) -> Fields:
    return Fields.of(letters(text), layout)


def column(texts: list[str]) -> Fields:
    return fields_of("\n".join(f"x|{text}" for text in texts), Layout(("x", "y"), ("y",), "|", quotes=False))


# --- against Python -------------------------------------------------------------------------------


@given(
    st.lists(
        st.one_of(st.floats(allow_nan=False), st.floats(-1e9, 1e9).map(lambda x: round(x, 3))), min_size=1
    )
)
def test_numbers_are_read_to_the_last_bit(values: list[float]) -> None:
    texts = [repr(x) for x in values]
    found, kinds = numbers(column(texts), "y")
    finite = [math.isfinite(x) for x in values]
    assert (kinds == kernels.NUMBER).tolist() == finite
    assert found[finite].tobytes() == np.array([x for x in values if math.isfinite(x)]).tobytes()


@pytest.mark.parametrize("text", TEXTS)
def test_what_is_a_number_is_what_python_says(text: str) -> None:
    found, kinds = numbers(column([text]), "y")
    try:
        value = float(text.replace("_", "x"))
    except ValueError:
        value = math.nan
    words = ("", "nan", "null", "unknown", "none", "n/a", "-", "invalid")
    expected = kernels.NUMBER if math.isfinite(value) else kernels.BAD
    if text.strip().lower() in words:
        expected = kernels.MISSING
    if not text.isascii():  # Python reads digits of all scripts
        expected = kernels.BAD
    assert kinds[0] == expected
    if expected == kernels.NUMBER:
        assert found[0] == value


@given(
    st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30)),
    st.integers(-18 * 60, 18 * 60),
    st.sampled_from("T "),
)
def test_times_are_those_of_the_calendar(moment: datetime, ahead: int, between: str) -> None:
    zone = timezone(timedelta(minutes=ahead))
    local, zoned = moment.isoformat(between), moment.replace(tzinfo=zone).isoformat(between)
    utc = moment.replace(tzinfo=UTC)
    found, kinds = times(column([local, zoned, utc.isoformat().replace("+00:00", "Z")]), "y")
    assert kinds.tolist() == [kernels.LOCAL, kernels.ZONED, kernels.ZONED]
    since = (utc - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds()
    assert found == pytest.approx([since, since - 60.0 * ahead, since], abs=2e-5)


@pytest.mark.parametrize("text", ["0:59", "1:00:00", "12-23:59:59", "3-00", "3-01:30", "00:00:00.125"])
def test_lengths_are_days_hours_minutes_and_seconds(text: str) -> None:
    days, _, clock = text.rpartition("-")
    parts = [float(part) for part in clock.split(":")]
    if days:
        hours, minutes, seconds = [*parts, 0.0, 0.0][:3]
    else:
        hours, minutes, seconds = [0.0, *parts][-3:]
    expected = timedelta(days=int(days or 0), hours=hours, minutes=minutes, seconds=seconds).total_seconds()
    found, kinds = times(column([text]), "y")
    assert (found[0], kinds[0]) == (expected, kernels.NUMBER)


def test_what_is_no_time_is_not_one() -> None:
    wrong = [
        "2023-02-29",
        "1900-02-29",
        "2017-13-01",
        "2017-10-09T25:00",
        "1:2:3:4",
        "10:99",
        "x",
        "2017-10-09x07:01",
    ]
    assert set(times(column(wrong), "y")[1].tolist()) == {kernels.BAD}


SOME = st.text(st.sampled_from('ab1 ,"|\n;'), max_size=6)


@given(st.lists(st.lists(SOME, min_size=3, max_size=3), min_size=1, max_size=8))
def test_fields_are_those_of_the_csv_module(rows: list[list[str]]) -> None:
    """Whatever is in them: commas, quotes, breaks of lines."""
    written = io.StringIO()
    csv.writer(written, lineterminator="\n", quoting=csv.QUOTE_ALL).writerows(rows)
    fields = fields_of(written.getvalue(), Layout(("a", "b", "c"), ("a", "b", "c")))
    assert fields.counts.tolist() == [3] * len(rows)
    shown = [[fields.shown(name, r).replace('""', '"') for name in "abc"] for r in range(len(rows))]
    assert shown == [[cell.strip() for cell in row] for row in rows]


@given(st.lists(st.lists(st.text(st.sampled_from("ab1 ;"), max_size=4), min_size=1, max_size=5), max_size=8))
def test_fields_without_quotes_are_those_of_split(rows: list[list[str]]) -> None:
    text = "\r\n".join("|".join(row) for row in rows)
    lines = [line for line in text.split("\r\n") if line]
    fields = fields_of(text, Layout(("a", "b"), ("b",), "|", quotes=False))
    assert fields.counts.tolist() == [line.count("|") + 1 for line in lines]
    for r, line in enumerate(lines):
        if "|" in line:
            assert fields.shown("b", r) == line.split("|")[1].strip()


@given(st.lists(st.lists(st.sampled_from(["1", "-1", "22.5"]), max_size=4), max_size=6), st.integers(1, 3))
def test_blanks_may_be_many(rows: list[list[str]], wide: int) -> None:
    text = "".join(f"{' ' * wide}{(' ' * wide).join(row)}\t\n" for row in rows) + "; a comment\n"
    fields = fields_of(text, Layout(("a", "b"), ("a",), " ", quotes=False, comment=";"))
    filled = [row for row in rows if row]
    assert fields.counts.tolist() == [len(row) for row in filled]
    assert [fields.shown("a", r) for r in range(len(filled))] == [row[0] for row in filled]
    assert fields.lines.tolist() == [k for k, row in enumerate(rows) if row]
    assert fields.last == len(rows) + 1


@pytest.mark.parametrize("size", [7, 64, 1 << 20])
def test_blocks_are_whole_lines_and_quotes_stay_together(size: int) -> None:
    text = b'a,"one\ntwo"\nb,c\n' * 30 + b"last"
    blocks = [bytes(block) for block in line_blocks(io.BytesIO(text), True, max(size, 12))]
    assert b"".join(blocks) == text
    assert all(block.count(b'"') % 2 == 0 for block in blocks)
    with pytest.raises(InvalidInput, match="no end of a line, or of quotes"):
        list(line_blocks(io.BytesIO(b'"' + b"x\n" * 1000), True, 100))


@given(st.lists(st.text(st.sampled_from("abc"), max_size=7), min_size=1, max_size=60), st.integers(1, 20))
def test_texts_have_codes_in_order_of_appearance(texts: list[str], cut: int) -> None:
    known, pool = TextCodes(), TextPool()
    codes: list[int] = []
    for part in (texts[:cut], texts[cut:]):
        if part:
            codes += known.codes(column(part), "y").tolist()
            pool.add(column(part), "y")
    assert [known.texts[code] for code in codes] == texts
    assert known.texts == list(dict.fromkeys(texts))
    copy, ends, keys = pool.gathered()
    assert [bytes(copy[a:b]).decode() for a, b in pairwise(ends)] == texts
    assert len(set(keys.tolist())) == len(set(texts))


def test_many_texts_have_codes() -> None:
    texts = [f"text {k % 5000}" for k in range(12_000)]
    known = TextCodes()
    assert known.codes(column(texts), "y").tolist() == [k % 5000 for k in range(12_000)]


# --- compiled and plain ---------------------------------------------------------------------------


def spans(texts: list[str]) -> tuple[np.ndarray, Ints, Ints]:
    ends = np.cumsum([len(text.encode()) + 1 for text in texts])
    return letters("\n".join(texts) + "\n"), np.concatenate([[0], ends[:-1]]), ends - 1


def test_kernels_are_compiled_faithfully() -> None:
    texts = [*TEXTS, *MOMENTS, "x" * 50]
    for text in texts:
        whole, size = letters(text + " "), len(text.encode())
        same(kernels._trimmed, whole, 0, size)
        same(kernels._is_missing, whole, 0, size)
        same(kernels.read_number, whole, 0, size)
        same(kernels.read_time, whole, 0, size)
        same(kernels._digits, whole, 0, size)
        same(kernels._length, whole, 0, size)
        if size >= 10:
            same(kernels._date, whole, 0)
            same(kernels._stamp, whole, 0, size)
            same(kernels._zone, whole, 10, size)
    whole, starts, ends = spans(texts)
    for kernel in (kernels.read_numbers, kernels.read_times):
        same(kernel, whole, starts, ends, np.zeros(starts.size), np.zeros(starts.size, np.int8))
    hashes = np.zeros(starts.size, np.uint64)
    with np.errstate(over="ignore"):
        same(kernels.hash_texts, whole, starts, ends, hashes)
    same(
        kernels.copy_texts,
        whole,
        starts,
        ends,
        np.zeros(whole.size, np.uint8),
        np.zeros(starts.size + 1, np.int64),
    )
    keys, codes = np.zeros(64, np.uint64), np.full(64, -1)
    found = np.zeros(starts.size, np.int64)
    same(kernels.code_texts, hashes, keys, codes, 0, np.zeros(starts.size, np.int64), found)
    assert (found < 0).any()  # the table was full
    for delimiter, quotes, comment in ((44, True, -1), (124, False, -1), (32, False, 59)):
        written = letters('a, "b|c"\n\n;x\n"q ""r"",\n",2|3\r\n  z\t1 ')
        rows = [
            np.zeros((9, 2), np.int64),
            np.zeros((9, 2), np.int64),
            *(np.zeros(10, np.int64) for _ in range(3)),
        ]
        same(kernels.split_fields, written, delimiter, quotes, comment, np.array([0, -1, 1]), *rows)


def test_writing_kernels_are_compiled_faithfully() -> None:
    for value, decimals in ((0, 6), (1, 0), (123456, 3), (1000, 3), (5, 3), (-1500, 3), (10, 6), (2**53, 9)):
        out = np.zeros(40, np.uint8)
        size = same(writer._write_number, value, decimals, out, 3)
        assert float(bytes(out[3:size])) == pytest.approx(value / 10.0**decimals, rel=1e-15)
        same(writer._write_fixed, value, decimals, out, 0)
        same(writer._reverse, out, 1, 7)
    names, ends = letters("onetwo"), np.array([0, 3, 6])
    same(writer._write_text, names, 3, 6, np.zeros(9, np.uint8), 2)
    ticks, job, cores = (
        np.array([0, 0, 5, 5, 9]),
        np.array([-1, 0, 1, 0, 1]),
        np.array([math.nan, 2, 3.5, math.nan, 0]),
    )
    assert same(writer.most_held, ticks, job, cores, np.zeros(2)) == 3.5
    kind, out = np.array([0, 1, 1, 1, 1], np.int8), np.zeros(400, np.uint8)
    size = same(
        writer.write_lines, ticks, 1, kind, job, cores, np.array([1, 0]), np.array([0, 1]), np.array([0, 2]),
        names, ends, names, ends, names, ends, out,
    )  # fmt: skip
    assert bytes(out[:size]).decode().split() == [
        "0,one,,,", "0,two,two,one,2", "0.5,two,one,two#3,3.5", "0.5,two,two,one,", "0.9,two,one,two#3,0",
    ]  # fmt: skip


@given(texts=st.lists(st.text("0123456789x", max_size=20), min_size=1, max_size=8))
def test_whole_numbers_are_those_in_their_shortest_form(texts: list[str]) -> None:
    letters = np.frombuffer("".join(texts).encode(), dtype=np.uint8)
    ends = np.cumsum([len(text) for text in texts])
    starts, values = ends - [len(text) for text in texts], np.empty(len(texts), dtype=np.int64)
    for run in (kernels.whole_numbers, kernels.whole_numbers.py_func):
        run(letters, starts, ends, 18, values)
        plain = [text.isdigit() and len(text) <= 18 and str(int(text)) == text for text in texts]
        known = [int(text) if fine else -2 for text, fine in zip(texts, plain, strict=True)]
        assert values.tolist() == [-1 if not text else n for text, n in zip(texts, known, strict=True)]


def test_every_kernel_is_compared() -> None:
    source = (
        Path(__file__).read_text(encoding="utf-8").replace("kernels.read_numbers, kernels.read_times)", "")
    )
    told = source + "kernels.read_numbers, kernels.read_times,"
    assert not not_compared(kernels, "kernels", told)
    assert not not_compared(writer, "writer", source)
