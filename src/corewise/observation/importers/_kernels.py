"""Compiled loops over the events of an imported log: the cores held at most, and the lines to write."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from corewise.kit.arrays import Floats, Int, Ints

Bytes = NDArray[np.uint8]

_ZERO, _POINT, _COMMA, _NEWLINE, _MINUS, _HASH = 48, 46, 44, 10, 45, 35
_START, _END = 0, 5  # as in `corewise.observation.rows.Event`


@njit(cache=True, nogil=True)
def most_held(ticks: Ints, job: Ints, cores: Floats, held: Floats) -> float:
    """Return the most cores that are held between two instants; `held` by each job at first is zero.

    Rows without cores (NaN) are those at which a job leaves, or about none (job −1).
    """
    total, most = 0.0, 0.0
    for row in range(ticks.size):
        who = job[row]
        if who >= 0:
            now = 0.0 if np.isnan(cores[row]) else cores[row]
            total += now - held[who]
            held[who] = now
        if row + 1 == ticks.size or ticks[row + 1] > ticks[row]:
            most = max(most, total)
    return most


@njit(cache=True, nogil=True)
def _write_fixed(value: Int, decimals: int, out: Bytes, at: int) -> int:
    """Write value × 10^−decimals without zeros at its end; return where the next byte goes."""
    if value < 0:
        out[at] = _MINUS
        at += 1
        value = -value
    while decimals > 0 and value % 10 == 0:
        value //= 10
        decimals -= 1
    begin = at
    while value > 0 or at - begin <= decimals:
        if at - begin == decimals and decimals > 0:
            out[at] = _POINT
            at += 1
            decimals = -1
            begin = at
            if value == 0:
                out[at] = _ZERO
                at += 1
                break
            continue
        out[at] = _ZERO + value % 10
        value //= 10
        at += 1
        if decimals <= 0 and value == 0:
            break
    return at


@njit(cache=True, nogil=True)
def _reverse(out: Bytes, begin: int, end: int) -> None:
    while begin < end - 1:
        end -= 1
        out[begin], out[end] = out[end], out[begin]
        begin += 1


@njit(cache=True, nogil=True)
def _write_number(value: Int, decimals: int, out: Bytes, at: int) -> int:
    if value == 0:
        out[at] = _ZERO
        return at + 1
    begin = at + 1 if value < 0 else at
    end = _write_fixed(value, decimals, out, at)
    _reverse(out, begin, end)
    return end


@njit(cache=True, nogil=True)
def _write_text(texts: Bytes, begin: int, end: int, out: Bytes, at: int) -> int:
    for k in range(begin, end):
        out[at] = texts[k]
        at += 1
    return at


@njit(cache=True, nogil=True)
def write_lines(
    ticks: Ints,
    decimals: int,
    kind: NDArray[np.int8],
    job: Ints,
    cores: Floats,
    job_class: Ints,
    row: Ints,
    again: Ints,
    events: Bytes,
    event_ends: Ints,
    names: Bytes,
    name_ends: Ints,
    labels: Bytes,
    label_ends: Ints,
    out: Bytes,
) -> int:
    """Write events as lines of a log in the per-job form; return how many bytes they take.

    Of each job `job_class` is its class, `row` where its label is, and `again` how many jobs had that before,
    which makes it ``label#2`` and so on. Texts come one after another, with a zero and then the end of each.
    """
    at = 0
    for k in range(ticks.size):
        at = _write_number(ticks[k], decimals, out, at)
        out[at] = _COMMA
        at = _write_text(events, event_ends[kind[k]], event_ends[kind[k] + 1], out, at + 1)
        out[at] = _COMMA
        at += 1
        who = job[k]
        if who >= 0:
            i, r = job_class[who], row[who]
            at = _write_text(names, name_ends[i], name_ends[i + 1], out, at)
            out[at] = _COMMA
            at = _write_text(labels, label_ends[r], label_ends[r + 1], out, at + 1)
            if again[who] > 0:
                out[at] = _HASH
                at = _write_number(again[who] + 1, 0, out, at + 1)
            out[at] = _COMMA
            at += 1
            if not np.isnan(cores[k]):
                at = _write_number(np.int64(np.rint(1e6 * cores[k])), 6, out, at)
        else:
            out[at], out[at + 1] = _COMMA, _COMMA
            at += 2
        out[at] = _NEWLINE
        at += 1
    return at
