"""Compiled loops over the bytes of a table: where its fields are, and the numbers and times they say."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from corewise.kit.arrays import Floats, Ints

Bytes = NDArray[np.uint8]

BAD, MISSING, NUMBER, LOCAL, ZONED, LONG = -1, 0, 1, 2, 3, 4
"""What a field is: nothing of use, nothing at all, a number, a time without a zone or with one, and a number
that needs a closer look to be read to the last bit."""

_NEWLINE, _RETURN, _BLANK, _TAB, _QUOTE = 10, 13, 32, 9, 34
_ZERO, _POINT, _COMMA, _COLON, _PLUS, _MINUS, _SLASH = 48, 46, 44, 58, 43, 45, 47
_DAY = 86_400.0
_EXACT = 2**53
_MOST_DIGITS = 18  # fit into 64 bits
_MISSING = np.zeros((10, 8), dtype=np.uint8)
for _k, _word in enumerate(
    (b"none", b"unknown", b"null", b"n/a", b"nan", b"na", b"(null)", b"nat", b"-", b"invalid")
):
    _MISSING[_k, : len(_word)] = np.frombuffer(_word, dtype=np.uint8)
_POWERS = 10.0 ** np.arange(23)
_MONTHS = np.array([0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334])
_LENGTHS = np.array([31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])


# --- fields -------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def split_fields(
    text: Bytes,
    delimiter: int,
    quotes: bool,
    comment: int,
    place: Ints,
    starts: Ints,
    ends: Ints,
    counts: Ints,
    begins: Ints,
    lines: Ints,
) -> tuple[int, int]:
    """Find the fields of every line; return how many rows and how many lines there are.

    Blank lines and those that begin with `comment` are passed over. `place` says where in `starts` and `ends`
    (rows, wanted) each column goes, −1 for none. `counts` are the fields of each row, `begins` where it
    begins, with one more for the end of the last, `lines` the line that it is on, from 0. A blank as
    delimiter stands for any number of blanks. A field in quotes, if there are `quotes`, is what is between
    them.
    """
    at, line, row, size = 0, 0, 0, text.size
    while at < size:
        first = at
        if delimiter == _BLANK or text[at] in (_NEWLINE, _RETURN):
            while at < size and text[at] in (_BLANK, _TAB, _RETURN):
                at += 1
        if at >= size or text[at] == _NEWLINE:
            at, line = at + 1, line + 1
            continue
        if text[at] == comment:
            while at < size and text[at] != _NEWLINE:
                at += 1
            at, line = at + 1, line + 1
            continue
        begins[row], lines[row], field, more = first, line, 0, True
        while more:
            begin = at
            if quotes and at < size and text[at] == _QUOTE:
                at, begin = at + 1, at + 1
                while at < size and (text[at] != _QUOTE or (at + 1 < size and text[at + 1] == _QUOTE)):
                    at += 2 if text[at] == _QUOTE else 1
                    if at - 1 < size and text[at - 1] == _NEWLINE:
                        line += 1
                end = min(at, size)
                while at < size and text[at] != _NEWLINE and text[at] != delimiter:
                    at += 1
            else:
                while at < size and text[at] != _NEWLINE and text[at] != delimiter:
                    if delimiter == _BLANK and text[at] == _TAB:
                        break
                    at += 1
                end = at
                if end > begin and text[end - 1] == _RETURN and (at >= size or text[at] == _NEWLINE):
                    end -= 1
            if field < place.size and place[field] >= 0:
                starts[row, place[field]], ends[row, place[field]] = begin, end
            field += 1
            more = at < size and text[at] != _NEWLINE
            at += 1
            if delimiter == _BLANK and more:
                while at < size and text[at] in (_BLANK, _TAB, _RETURN):
                    at += 1
                more = at < size and text[at] != _NEWLINE
                if not more:
                    at += 1
        counts[row] = field
        row += 1
        line += 1
    begins[row] = size
    return row, line


# --- numbers ------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _trimmed(text: Bytes, begin: int, end: int) -> tuple[int, int]:
    while begin < end and text[begin] in (_BLANK, _TAB):
        begin += 1
    while end > begin and text[end - 1] in (_BLANK, _TAB, _RETURN):
        end -= 1
    return begin, end


@njit(cache=True, nogil=True)
def _is_missing(text: Bytes, begin: int, end: int) -> bool:
    """Whether a field says that nothing is known."""
    size = end - begin
    if size == 0:
        return True
    if size > 7:
        return False
    for k in range(_MISSING.shape[0]):
        same = size == 7 or _MISSING[k, size] == 0
        for j in range(size):
            letter = text[begin + j]
            if 65 <= letter <= 90:
                letter += 32
            same = same and letter == _MISSING[k, j]
        if same:
            return True
    return False


@njit(cache=True, nogil=True)
def read_number(text: Bytes, begin: int, end: int) -> tuple[float, int]:
    """Return the number that a field is, and what it is.

    Exact where the digits fit into 53 bits and the power of ten is exact too (W. D. Clinger, *How to read
    floating point numbers accurately*, 1990); else it needs a closer look.
    """
    begin, end = _trimmed(text, begin, end)
    if _is_missing(text, begin, end):
        return np.nan, MISSING
    at, sign = begin, 1.0
    if text[at] in (_PLUS, _MINUS):
        sign = -1.0 if text[at] == _MINUS else 1.0
        at += 1
    digits, seen, kept, power, point = np.int64(0), 0, 0, 0, False
    while at < end:
        letter = text[at]
        if letter == _POINT and not point:
            point = True
        elif _ZERO <= letter < _ZERO + 10:
            seen += 1
            if kept > 0 or letter > _ZERO:
                kept += 1
            if kept <= _MOST_DIGITS:
                digits = 10 * digits + (letter - _ZERO)
                power -= point
            else:
                power += not point
        else:
            break
        at += 1
    if seen == 0:
        return np.nan, BAD
    if at < end:
        if text[at] not in (69, 101) or at + 1 >= end:
            return np.nan, BAD
        at += 1
        negative = text[at] == _MINUS
        if text[at] in (_PLUS, _MINUS):
            at += 1
        exponent, shown = 0, 0
        while at < end and _ZERO <= text[at] < _ZERO + 10 and exponent < 10_000:
            exponent, shown, at = 10 * exponent + int(text[at]) - _ZERO, shown + 1, at + 1
        if at < end or shown == 0:
            return np.nan, BAD
        power += -exponent if negative else exponent
    if digits == 0:
        return sign * 0.0, NUMBER
    if kept > _MOST_DIGITS or digits > _EXACT or power < -22 or power > 22:
        return np.nan, LONG
    value = float(digits)
    return sign * (value / _POWERS[-power] if power < 0 else value * _POWERS[power]), NUMBER


@njit(cache=True, nogil=True)
def read_numbers(text: Bytes, starts: Ints, ends: Ints, values: Floats, kinds: NDArray[np.int8]) -> None:
    """Read a column of numbers."""
    for row in range(starts.size):
        values[row], kinds[row] = read_number(text, starts[row], ends[row])


# --- times --------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _digits(text: Bytes, begin: int, end: int) -> int:
    """Return the whole number of at most nine digits that some bytes are, or −1."""
    value = 0
    if end - begin > 9:
        return -1
    for at in range(begin, end):
        if not _ZERO <= text[at] < _ZERO + 10:
            return -1
        value = 10 * value + int(text[at]) - _ZERO
    return value if end > begin else -1


@njit(cache=True, nogil=True)
def _date(text: Bytes, at: int) -> float:
    """Return the days from 1970 to a date written YYYY-MM-DD, or NaN."""
    year, month, day = (
        _digits(text, at, at + 4),
        _digits(text, at + 5, at + 7),
        _digits(text, at + 8, at + 10),
    )
    if year < 1 or not 1 <= month <= 12 or not 1 <= day <= _LENGTHS[month - 1]:
        return np.nan
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    if month == 2 and day == 29 and not leap:
        return np.nan
    before = year - 1
    days = 365 * (year - 1970) + before // 4 - before // 100 + before // 400 - 477
    return float(days + _MONTHS[month - 1] + (leap and month > 2) + day - 1)


@njit(cache=True, nogil=True)
def _zone(text: Bytes, at: int, end: int) -> tuple[float, int]:
    """Return the seconds that a zone is ahead of UTC, and what kind of time it makes."""
    if at < end and text[at] == _BLANK:
        at += 1
    if at == end:
        return 0.0, LOCAL
    size = end - at
    if size == 1 and text[at] in (90, 122):
        return 0.0, ZONED
    if size == 3 and (
        (text[at] == 85 and text[at + 1] == 84 and text[at + 2] == 67)
        or (text[at] == 71 and text[at + 1] == 77 and text[at + 2] == 84)
    ):
        return 0.0, ZONED
    if text[at] not in (_PLUS, _MINUS) or size not in (3, 5, 6):
        return np.nan, BAD
    hours, minutes = _digits(text, at + 1, at + 3), 0
    if size == 6 and text[at + 3] != _COLON:
        return np.nan, BAD
    if size > 3:
        minutes = _digits(text, end - 2, end)
    if not 0 <= hours <= 18 or not 0 <= minutes < 60:
        return np.nan, BAD
    ahead = 3600.0 * hours + 60.0 * minutes
    return -ahead if text[at] == _MINUS else ahead, ZONED


@njit(cache=True, nogil=True)
def _stamp(text: Bytes, begin: int, end: int) -> tuple[float, int]:
    """Return the seconds since 1970 of YYYY-MM-DD[T ]HH:MM[:SS[.f]][zone], and what it is."""
    days = _date(text, begin)
    at = begin + 10
    if np.isnan(days):
        return np.nan, BAD
    if at == end:
        return days * _DAY, LOCAL
    if text[at] not in (84, 116, _BLANK) or end - at < 6 or text[at + 3] != _COLON:
        return np.nan, BAD
    hours, minutes = _digits(text, at + 1, at + 3), _digits(text, at + 4, at + 6)
    at += 6
    seconds = 0.0
    if at < end and text[at] == _COLON:
        if end - at < 3:
            return np.nan, BAD
        whole = _digits(text, at + 1, at + 3)
        at += 3
        seconds = float(whole) if whole >= 0 else np.nan
        if at < end and text[at] in (_POINT, _COMMA):
            at += 1
            unit = 0.1
            while at < end and _ZERO <= text[at] < _ZERO + 10:
                seconds += unit * (text[at] - _ZERO)
                unit *= 0.1
                at += 1
    if not 0 <= hours <= 24 or not 0 <= minutes < 60 or not 0.0 <= seconds < 61.0:
        return np.nan, BAD
    ahead, kind = _zone(text, at, end)
    return days * _DAY + 3600.0 * hours + 60.0 * minutes + seconds - ahead, kind


@njit(cache=True, nogil=True)
def _length(text: Bytes, begin: int, end: int) -> tuple[float, int]:
    """Return the seconds of [DD-]HH:MM:SS[.f], MM:SS, DD-HH or DD-HH:MM, and what it is."""
    days, at, dash = 0, begin, -1
    for k in range(begin + 1, end):
        if text[k] == _MINUS:
            dash = k
            break
    if dash >= 0:
        days, at = _digits(text, begin, dash), dash + 1
        if days < 0:
            return np.nan, BAD
    total, parts = 0.0, 0
    while at <= end:
        stop = at
        while stop < end and text[stop] != _COLON:
            stop += 1
        value, kind = read_number(text, at, stop)
        if kind != NUMBER or value < 0.0 or (parts > 0 and value >= 60.0):
            return np.nan, BAD
        total, parts, at = 60.0 * total + value, parts + 1, stop + 1
    if parts > 3 or (dash < 0 and parts < 2):
        return np.nan, BAD
    if dash >= 0:
        total *= 60.0 ** (3 - parts)
    return _DAY * days + total, NUMBER


@njit(cache=True, nogil=True)
def read_time(text: Bytes, begin: int, end: int) -> tuple[float, int]:
    """Return the seconds that a field says, of a date since 1970, and what it is."""
    begin, end = _trimmed(text, begin, end)
    value, kind = read_number(text, begin, end)
    if kind != BAD:
        return value, kind
    if (
        end - begin >= 10
        and text[begin + 4] in (_MINUS, _SLASH)
        and text[begin + 7] == text[begin + 4]
        and _digits(text, begin, begin + 4) >= 0
    ):
        return _stamp(text, begin, end)
    return _length(text, begin, end)


@njit(cache=True, nogil=True)
def read_times(text: Bytes, starts: Ints, ends: Ints, values: Floats, kinds: NDArray[np.int8]) -> None:
    """Read a column of times."""
    for row in range(starts.size):
        values[row], kinds[row] = read_time(text, starts[row], ends[row])


# --- texts --------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def hash_texts(text: Bytes, starts: Ints, ends: Ints, hashes: NDArray[np.uint64]) -> None:
    """Write a number for every field, the same for the same text (FNV-1a, then mixed)."""
    for row in range(starts.size):
        begin, end = _trimmed(text, starts[row], ends[row])
        value = np.uint64(14695981039346656037)
        for at in range(begin, end):
            value = (value ^ np.uint64(text[at])) * np.uint64(1099511628211)
        value = (value ^ (value >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD)
        hashes[row] = value ^ (value >> np.uint64(33))


@njit(cache=True, nogil=True)
def copy_texts(text: Bytes, starts: Ints, ends: Ints, copy: Bytes, offsets: Ints) -> None:
    """Write the fields one after another; `offsets` are where each begins, with one more for the end."""
    written = 0
    for row in range(starts.size):
        offsets[row] = written
        begin, end = _trimmed(text, starts[row], ends[row])
        for at in range(begin, end):
            copy[written] = text[at]
            written += 1
    offsets[starts.size] = written


@njit(cache=True, nogil=True)
def code_texts(
    hashes: NDArray[np.uint64], keys: NDArray[np.uint64], codes: Ints, known: int, rows: Ints, found: Ints
) -> int:
    """Write the code of every hash, new ones numbered from `known` on; return how many are known then.

    `keys` and `codes` are an open hash table, free where a code is −1; it must not become full: the loop ends
    early when it is three quarters so, and `found` has −1 from there on. `rows` is where each new code was
    first seen.
    """
    mask = np.uint64(keys.size - 1)
    found[:] = -1
    fresh = 0
    for row in range(hashes.size):
        slot = hashes[row] & mask
        while codes[slot] >= 0 and keys[slot] != hashes[row]:
            slot = (slot + np.uint64(1)) & mask
        if codes[slot] < 0:
            if 4 * known >= 3 * keys.size:
                return known
            keys[slot], codes[slot] = hashes[row], known
            rows[fresh] = row
            known += 1
            fresh += 1
        found[row] = codes[slot]
    return known


@njit(cache=True, nogil=True)
def whole_numbers(text: Bytes, starts: Ints, ends: Ints, most_digits: int, values: Ints) -> None:
    """Write the whole number that each field is in its shortest form, −1 for an empty one, else −2."""
    for row in range(starts.size):
        begin, end = starts[row], ends[row]
        size, value = end - begin, np.int64(0)
        if size == 0:
            value = np.int64(-1)
        elif size > most_digits or (text[begin] == _ZERO and size > 1):
            value = np.int64(-2)
        else:
            for at in range(begin, end):
                if not _ZERO <= text[at] < _ZERO + 10:
                    value = np.int64(-2)
                    break
                value = 10 * value + (np.int64(text[at]) - _ZERO)
        values[row] = value
