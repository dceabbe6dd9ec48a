"""Compiled loops over the rows of a sample path."""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

from corewise.kit._kernels import tiered
from corewise.kit.arrays import Bools, Floats, Int, Ints

# As in `corewise.observation.sample_path.Event`.
START, PRESENT, ARRIVAL, DEPARTURE, RESIZE, END, CANCEL = range(7)


# --- statistics ---------------------------------------------------------------------------------


@njit(cache=True)
def find_slot(keys: Floats, width: float) -> int | np.int64:
    """Return where `width` is in an open hash table, or the free place (NaN) where it belongs."""
    fraction, exponent = math.frexp(width)
    mask = keys.size - 1
    slot = ((np.int64(fraction * 2.0**53) ^ exponent) % 1_000_003) & mask
    while keys[slot] != width and keys[slot] == keys[slot]:
        slot = (slot + 1) & mask
    return slot


@njit(cache=True)
def _add(table: Floats, used: Ints, i: Int, width: float, job_time: float, departures: float) -> Int:
    """Add to the entry of a width in the table of class i, and return how many entries there are.

    Rows are widths, departures, job-time.
    """
    slot = find_slot(table[i, 0], width)
    if table[i, 0, slot] != width:
        table[i, 0, slot] = width
        used[i] += 1
    table[i, 1, slot] += departures
    table[i, 2, slot] += job_time
    entries: Int = used[i]
    return entries


@tiered(lambda time, *_: 5.0 * time.size, most=0.2)
@njit(cache=True)
def tally_totals(
    time: Floats,
    event: NDArray[np.int8],
    job_class: Ints,
    cores: Floats,
    first: int,
    jobs: Ints,
    table: Floats,
    used: Ints,
    limit: int,
) -> int:
    """Tally rows of class totals from `first` on, until a table is full; return where it stopped.

    The rows of `jobs` are the counts before row `first` and those before its instant, and are kept up. A row
    closes the interval that ends with it. A job that leaves leaves with what it held before the instant.
    """
    now, instant = jobs[0], jobs[1]
    full: Int = np.int64(0)  # entries of the fullest table
    opened = first  # the first row of the instant
    while 0 < opened < time.size and time[opened] == time[opened - 1]:
        opened -= 1
    for row in range(first, time.size):
        if full >= limit:
            return row
        leaving = job_class[row] if event[row] == DEPARTURE or event[row] == CANCEL else -1
        span = time[row] - time[row - 1] if row > 0 else 0.0
        if span > 0.0:
            opened = row
            for i in range(now.size):
                instant[i] = now[i]  # an array copied whole would take numba seconds to compile
                if now[i] > 0:
                    full = max(full, _add(table, used, i, cores[row - 1, i] / now[i], now[i] * span, 0.0))
        if leaving >= 0:
            if opened > 0 and instant[leaving] > 0 and cores[opened - 1, leaving] > 0.0:
                width = cores[opened - 1, leaving] / instant[leaving]
            else:  # it came in the same instant
                width = cores[row - 1, leaving] / now[leaving]
            if event[row] == DEPARTURE:
                full = max(full, _add(table, used, leaving, width, 0.0, 1.0))
            now[leaving] -= 1
        elif event[row] == ARRIVAL or event[row] == PRESENT:
            now[job_class[row]] += 1
    return time.size


@njit(cache=True)
def tally_jobs(
    time: Floats,
    event: NDArray[np.int8],
    job_class: Ints,
    job: Ints,
    cores: Floats,
    first: int,
    holding: Floats,
    table: Floats,
    used: Ints,
    limit: int,
) -> int:
    """Tally the rows of a per-job path from `first` on, until a table is full; return where it stopped.

    The rows of `holding` are each job's class (−1 if absent), cores, since when it has held them, and what it
    held before that, 0 if nothing. A job that leaves leaves with what it held before the instant.
    """
    full: Int = np.int64(0)  # entries of the fullest table
    for row in range(first, time.size):
        if full >= limit:
            return row
        kind, who = event[row], job[row]
        if kind in (DEPARTURE, CANCEL, RESIZE):
            i = np.int64(holding[0, who])
            span = time[row] - holding[2, who]
            if span > 0.0:
                full = max(full, _add(table, used, i, holding[1, who], span, 0.0))
                holding[3, who] = holding[1, who]
            if kind == DEPARTURE:
                held = holding[3, who] if holding[3, who] > 0.0 else holding[1, who]
                full = max(full, _add(table, used, i, held, 0.0, 1.0))
        if kind in (DEPARTURE, CANCEL):
            holding[0, who] = -1.0
        elif kind in (ARRIVAL, PRESENT, RESIZE):
            if kind != RESIZE:
                holding[0, who] = job_class[row]
                holding[3, who] = 0.0
            holding[1, who] = cores[row]
            holding[2, who] = time[row]
    return time.size


# --- checks -------------------------------------------------------------------------------------

# As in `corewise.observation.sample_path.Fault`.
(
    NONE,
    BACKWARDS,
    NO_CLASS,
    EMPTY_CLASS,
    NAMELESS,
    NOT_THERE,
    GONE,
    TWICE,
    OTHER_CLASS,
    NEGATIVE,
    TOO_MANY,
    HOLDS_ON,
    NO_CORES,
    LATE_START,
    LATE_PRESENT,
    AFTER_END,
    NOT_FINITE,
    NOT_ABOUT_JOBS,
) = range(18)

_UNOPENED, _OPENING, _RUNNING, _CLOSED = range(4)  # how far the observation has come
_UNSEEN, _LEFT = -1, -2  # in place of the class of a job that is not there


@njit(cache=True)
def _stage_after(kind: int) -> int:
    if kind == END:
        return _CLOSED
    return _OPENING if kind in (START, PRESENT) else _RUNNING


@njit(cache=True)
def _order_fault(kind: int, now: float, last: float, stage: int) -> int:
    """Return what is wrong with the place of a row among the others."""
    if not math.isfinite(now):
        return NOT_FINITE
    if stage == _CLOSED:
        return AFTER_END
    if kind == START and stage != _UNOPENED:
        return LATE_START
    if now < last:
        return BACKWARDS
    if kind == PRESENT and (stage != _OPENING or now > last):
        return LATE_PRESENT
    return NONE


@njit(cache=True)
def _job_fault(kind: int, i: int, who: int, per_job: bool, jobs: Ints, owner: Ints) -> int:
    """Return what is wrong with the class and the job that a row is about."""
    if kind in (START, END):
        return NOT_ABOUT_JOBS if i >= 0 or who >= 0 else NONE
    if kind == RESIZE and not per_job:
        return NONE
    if kind != RESIZE and i < 0:
        return NO_CLASS
    if per_job and who < 0:
        return NAMELESS
    fault = NONE
    home = owner[who] if who >= 0 else i
    if home == _LEFT:
        fault = GONE
    elif kind in (ARRIVAL, PRESENT):
        fault = TWICE if who >= 0 and home >= 0 else NONE
    elif home >= 0 and i >= 0 and home != i:
        fault = OTHER_CLASS
    elif kind in (DEPARTURE, CANCEL) and jobs[i] == 0:
        fault = EMPTY_CLASS
    elif home == _UNSEEN:
        fault = NOT_THERE
    return fault


@njit(cache=True)
def _totals_fault(kind: int, i: int, cores: Floats, limit: float, jobs: Ints, held: Floats) -> int:
    """Return what is wrong with the cores of a row of class totals; `held` are those of the row before."""
    if kind == DEPARTURE and held[i] == 0.0:
        return NO_CORES
    total = 0.0
    for k in range(jobs.size):
        if not 0.0 <= cores[k] < np.inf:
            return NEGATIVE
        total += cores[k]
    if total > limit:
        return TOO_MANY
    if kind in (START, PRESENT):
        return NONE  # jobs that are there from the start come one by one: only what they end with counts
    for k in range(jobs.size):
        here = jobs[k]
        if k == i and kind in (DEPARTURE, CANCEL):
            here -= 1
        elif k == i and kind == ARRIVAL:
            here += 1
        if here == 0 and cores[k] != 0.0:
            return HOLDS_ON
    return NONE


@njit(cache=True)
def _own_fault(kind: int, who: int, cores: float, limit: float, held: Floats) -> int:
    """Return what is wrong with the cores of a row's own job; `held` are those of each job before it."""
    if kind in (START, END, DEPARTURE, CANCEL):
        if not (math.isnan(cores) or cores == 0.0):
            return HOLDS_ON
        return NO_CORES if kind == DEPARTURE and held[who] == 0.0 else NONE
    if not 0.0 <= cores < np.inf:
        return NEGATIVE
    return TOO_MANY if cores > limit else NONE


@njit(cache=True)
def check_rows(
    time: Floats,
    event: NDArray[np.int8],
    job_class: Ints,
    job: Ints,
    cores: Floats,
    per_job: bool,
    limit: float,
    lenient: bool,
    jobs: Ints,
    owner: Ints,
    held: Floats,
    before: Floats,
    faults: NDArray[np.int8],
) -> int:
    """Write what is wrong with each row of a path, until the first faulty one; return that row, or −1.

    If `lenient`, faulty rows are marked and passed over, as if they were not there, to the end.

    `cores` has the shape (rows, K), or (rows, 1) if they are those of each row's own job. Then the rows of
    one instant rearrange the cores, and only what they leave behind must fit into the pool. If it does not,
    the last of them that gave a job cores is at fault. If `lenient`, rows of the instant are taken back in
    this way, the last first, until it fits. An instant is over where a row with a later time comes, good or
    not, and at the end.

    Scratch: `jobs` of each class, zeros; `owner` of each job, −1; `held`, cores of each class or job, zeros;
    `before`, what each row's own job held before it, or empty if cores are those of classes.
    """
    last, stage = -np.inf, _UNOPENED
    total, present = 0.0, 0  # of the per-job form: the cores held, and by how many
    for row in range(time.size + 1):
        now = time[row] if row < time.size else np.inf
        back, over = row - 1, total > limit and now > last
        while over and total > limit and back >= 0:
            taker, good = job[back], faults[back] == NONE
            if good and time[back] < last:
                break  # only rounding is left of the excess
            if good and event[back] in (PRESENT, ARRIVAL, RESIZE) and owner[taker] >= 0:
                faults[back] = TOO_MANY
                if not lenient:
                    return back
                total += before[back] - held[taker]
                held[taker] = before[back]
                if event[back] != RESIZE:
                    jobs[owner[taker]] -= 1
                    owner[taker] = _UNSEEN
                    present -= 1
            back -= 1
        if over:  # what was taken back has never been
            back = row - 1
            while back >= 0 and faults[back] != NONE:
                back -= 1
            last = time[back] if back >= 0 else -np.inf
            stage = _stage_after(event[back]) if back >= 0 else _UNOPENED
        if row == time.size:
            break
        kind, i, who = event[row], job_class[row], job[row]
        fault = _order_fault(kind, now, last, stage)
        if fault == NONE:
            fault = _job_fault(kind, i, who, per_job, jobs, owner)
        if fault == NONE and per_job:
            fault = _own_fault(kind, who, cores[row, 0], limit, held)
        elif fault == NONE:
            fault = _totals_fault(kind, i, cores[row], limit, jobs, held)
        if fault != NONE:
            faults[row] = fault
            if lenient:
                continue
            return row
        last = now
        stage = _stage_after(kind)
        step = 1 if kind in (ARRIVAL, PRESENT) else (-1 if kind in (DEPARTURE, CANCEL) else 0)
        if step != 0:
            jobs[i] += step
            present += step
            if who >= 0:
                owner[who] = i if step > 0 else _LEFT
        if not per_job:
            for k in range(held.size):
                held[k] = cores[row, k]
        elif step < 0:
            total = total - held[who] if present > 0 else 0.0
            held[who] = 0.0
        elif kind not in (START, END):
            before[row] = held[who]
            total += cores[row, 0] - held[who]
            held[who] = cores[row, 0]
    return -1


# --- repair ------------------------------------------------------------------------------------


@njit(cache=True)
def longest_rising(time: Floats, scratch: Ints, kept: Bools) -> None:
    """Mark a longest subsequence of times that do not decrease.

    The first row of `scratch` has, for every length, where the subsequence of that length ends that ends
    earliest (M. L. Fredman, *On computing the length of longest increasing subsequences*, 1975); the second
    where each time's predecessor is.
    """
    tails, back, size = scratch[0], scratch[1], 0
    for k in range(time.size):
        low, high = 0, size
        while low < high:
            middle = (low + high) // 2
            if time[tails[middle]] <= time[k]:
                low = middle + 1
            else:
                high = middle
        back[k] = tails[low - 1] if low > 0 else -1
        tails[low] = k
        size = max(size, low + 1)
    k = tails[size - 1] if size > 0 else -1
    while k >= 0:
        kept[k] = True
        k = back[k]


# --- splitting ----------------------------------------------------------------------------------


@njit(cache=True)
def split_rows(
    event: NDArray[np.int8],
    job_class: Ints,
    job: Ints,
    widths: Floats,
    ends: Ints,
    links: Ints,
    kinds: NDArray[np.int8],
    whose: Ints,
    own: Floats,
) -> int:
    """Write the rows of the per-job form of a path of class totals; return how many there are.

    `widths` are the cores per job of each class after each row. Of each row written, `kinds` is the event,
    the rows of `whose` are the row it comes from, its class and its job, and `own` are its cores. The jobs of
    a class are a linked list in order of arrival: the rows of `ends` are the first and the last of each
    class, those of `links` the one before and the one after each job; both are −1 at first.
    """
    written, rows = 0, event.size
    for row in range(rows):
        kind, i, who, begun = event[row], job_class[row], job[row], written
        arrives = kind in (ARRIVAL, PRESENT)
        if arrives:
            links[0, who] = ends[1, i]
            if ends[1, i] >= 0:
                links[1, ends[1, i]] = who
            else:
                ends[0, i] = who
            ends[1, i] = who
        elif kind in (DEPARTURE, CANCEL):
            ahead, behind = links[0, who], links[1, who]
            if ahead >= 0:
                links[1, ahead] = behind
            else:
                ends[0, i] = behind
            if behind >= 0:
                links[0, behind] = ahead
            else:
                ends[1, i] = ahead
        if kind != RESIZE:
            kinds[written] = kind
            whose[0, written], whose[1, written], whose[2, written] = row, i, who
            own[written] = widths[row, i] if arrives else np.nan
            written += 1
        for k in range(widths.shape[1]):
            if row == 0 or widths[row, k] == widths[row - 1, k]:
                continue
            member = ends[0, k]
            while member >= 0:
                if kind != ARRIVAL or member != who:
                    kinds[written] = RESIZE
                    whose[0, written], whose[1, written], whose[2, written] = row, k, member
                    own[written] = widths[row, k]
                    written += 1
                member = links[1, member]
        if written == begun and (row == 0 or row == rows - 1):
            # A resize of nothing still opens or closes the observation.
            kinds[written] = START if row == 0 else END
            whose[0, written], whose[1, written], whose[2, written] = row, -1, -1
            own[written] = np.nan
            written += 1
    return written
