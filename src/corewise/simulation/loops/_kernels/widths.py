r"""Compiled loop over every job with cores of its own: shares or whole cores, pauses, curves by progress.

At an instant at which something has happened (a job came or left, came to the end of a piece of its curve, or
has waited too long) all that happens at that instant is done first, and then it is decided what each job is
to hold. A job that has begun and whose cores change stands still for the pause of its class; if they change
again before it has gone on, the pause begins anew. Its first cores are free. That a pause ends is no event.

Of a curve by progress a job is on one *piece* at a time: `floors` is the work before it at the end of that
piece, zero for the last one.

Nothing is drawn here: arrivals and sizes come in blocks, made before. A loop stops when a block, the room for
jobs or that for a record is used up; its caller sees to that and goes on, and the path does not depend on it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from corewise.kit._kernels import njit_norefs
from corewise.kit.arrays import Bools, Floats, Int, Ints
from corewise.simulation.loops._kernels.clocked import Curves, Tally, count_departure, count_time, speed
from corewise.simulation.loops._kernels.jobs import Completed, Source, count_completed

__all__ = [
    "DEPARTURES",
    "DUE",
    "EVENTS",
    "JOBS",
    "NAMED",
    "ROWS",
    "HeldTotals",
    "JobPlant",
    "JobRows",
    "WidthJobs",
    "WidthPath",
    "apply_widths",
    "has_room",
    "next_event",
    "refresh_speeds",
    "settle",
]


class WidthJobs(NamedTuple):
    """Jobs present, oldest first.

    Class, number, piece of its curve, whether it ever held cores; size, work
    left, the work left at the end of its piece, cores, speed, when its pause ends, since when it holds none
    (infinite if it holds some), when it came (NaN: before the path began).
    """

    classes: Ints
    numbers: Ints
    pieces: Ints
    begun: Bools
    sizes: Floats
    left: Floats
    floors: Floats
    widths: Floats
    speeds: Floats
    resumes: Floats
    since: Floats
    arrived: Floats


class JobPlant(NamedTuple):
    """System as jobs run in it.

    Its curves by row, the first row of each class, the fraction of a job's work that is left at the end of a
    row, the speeds on whole cores by row if jobs hold these, the pause of each class, and how long a job may
    hold no core before it is decided anew.
    """

    curves: Curves
    first: Ints
    ends: Floats
    table: Floats
    pauses: Floats
    patience: float


class HeldTotals(NamedTuple):
    """Totals: the arrivals of each class, then the departures; ∫ n dt by class; a tally by width; resizes."""

    moves: Ints
    areas: Floats
    tally: Tally
    resizes: Ints


class JobRows(NamedTuple):
    """Rows of a record, if it has room for any: time, event, class, job, and its cores."""

    when: Floats
    what: NDArray[np.int8]
    classes: Ints
    numbers: Ints
    cores: Floats


class WidthPath(NamedTuple):
    """Path of every job: all arrays that the loop keeps up.

    `here` are how many jobs there are, whether a decision is due, how many are named, how many events and
    departures are still to come, and the rows used of the record.
    """

    jobs: WidthJobs
    here: Ints
    source: Source
    plant: JobPlant
    completed: Completed
    totals: HeldTotals
    rows: JobRows


JOBS, DUE, NAMED, EVENTS, DEPARTURES, ROWS = range(6)

_DONE = 1e-13
"""Of its size: a job with less work left at the end of a piece has come to it."""
_ARRIVAL, _DEPARTURE, _RESIZE = np.int8(2), np.int8(3), np.int8(4)  # as `Event`


@njit_norefs
def has_room(path: WidthPath) -> bool:
    """Return whether the loop may go on: nothing is used up, and events and departures are to come."""
    jobs, here, used = path.jobs, path.here, path.source.used
    n = here[JOBS]
    if here[EVENTS] <= 0 or here[DEPARTURES] <= 0 or n >= jobs.classes.size:
        return False
    if path.rows.when.size > 0 and here[ROWS] + n + 2 > path.rows.when.size:
        return False
    block = path.source.at.shape[1]
    i = np.int64(0)
    while i < used.size and used[i] < block:
        i += 1
    return bool(i == used.size)


@njit_norefs
def _next_job(jobs: WidthJobs, n: Int, now: float, patience: float) -> tuple[Int, float]:
    """Return which job is the next to come to the end of its piece, or to have waited too long, and when.

    Minus one if there is none. The time is from now on; of several at one instant it is the oldest.
    """
    who, soonest = np.int64(-1), np.inf
    for j in range(n):
        if jobs.widths[j] > 0.0:
            if jobs.speeds[j] > 0.0:
                wait = max(jobs.left[j] - jobs.floors[j], 0.0) / jobs.speeds[j]
                if jobs.resumes[j] > now:
                    wait += jobs.resumes[j] - now
                if wait < soonest:
                    who, soonest = np.int64(j), wait
        elif now < jobs.since[j] + patience < now + soonest:
            who, soonest = np.int64(j), jobs.since[j] + patience - now
    return who, soonest


@njit_norefs
def _advance(path: WidthPath, now: float, spent: float) -> None:
    """Let jobs work for a while; time in which they stand still counts at no width."""
    jobs, totals = path.jobs, path.totals
    grid, per_octave = totals.tally.grid, 0
    if grid.size > 0:
        per_octave = int(0.5 + 1.0 / np.log2(grid[2]))
    for j in range(path.here[JOBS]):
        i = jobs.classes[j]
        totals.areas[i] += spent
        at_work = spent
        if jobs.widths[j] > 0.0:
            if jobs.resumes[j] > now:
                at_work -= min(jobs.resumes[j] - now, spent)
            jobs.left[j] -= at_work * jobs.speeds[j]
            if jobs.left[j] - jobs.floors[j] <= _DONE * jobs.sizes[j]:
                jobs.left[j] = jobs.floors[j]
        if per_octave > 0 and at_work > 0.0:
            count_time(grid, per_octave, totals.tally.held, i, jobs.widths[j], at_work)


@njit_norefs
def _drop(jobs: WidthJobs, who: Int, n: Int) -> None:
    """Take a job out of the list, and let the younger ones move up."""
    for j in range(who, n - 1):
        jobs.classes[j] = jobs.classes[j + 1]
        jobs.numbers[j] = jobs.numbers[j + 1]
        jobs.pieces[j] = jobs.pieces[j + 1]
        jobs.begun[j] = jobs.begun[j + 1]
        jobs.sizes[j] = jobs.sizes[j + 1]
        jobs.left[j] = jobs.left[j + 1]
        jobs.floors[j] = jobs.floors[j + 1]
        jobs.widths[j] = jobs.widths[j + 1]
        jobs.speeds[j] = jobs.speeds[j + 1]
        jobs.resumes[j] = jobs.resumes[j + 1]
        jobs.since[j] = jobs.since[j + 1]
        jobs.arrived[j] = jobs.arrived[j + 1]


@njit_norefs
def _write(rows: JobRows, here: Ints, when: float, what: Int, i: Int, number: Int, cores: float) -> None:
    """Write a row of the record."""
    k = here[ROWS]
    rows.when[k] = when
    rows.what[k] = what
    rows.classes[k] = i
    rows.numbers[k] = number
    rows.cores[k] = cores
    here[ROWS] = k + 1


@njit_norefs
def _job_speed(plant: JobPlant, row: Int, z: float) -> float:
    """Return the speed of a job on so many cores."""
    if plant.table.size > 0:
        return float(plant.table[row, int(z)])
    return float(speed(plant.curves.rows, plant.curves.offsets, plant.curves.points, row, z))


@njit_norefs
def _come(path: WidthPath, i: Int, now: float) -> None:
    """Let the next job of class i come."""
    jobs, here, source, plant = path.jobs, path.here, path.source, path.plant
    j, size = here[JOBS], source.work[i, source.used[i]]
    jobs.classes[j], jobs.numbers[j], jobs.pieces[j] = i, here[NAMED], 0
    jobs.begun[j] = False
    jobs.sizes[j], jobs.left[j], jobs.floors[j] = size, size, plant.ends[plant.first[i]] * size
    jobs.widths[j], jobs.speeds[j], jobs.resumes[j] = 0.0, 0.0, now
    jobs.since[j], jobs.arrived[j] = now, now
    if path.rows.when.size > 0:
        _write(path.rows, here, now, _ARRIVAL, i, here[NAMED], 0.0)
    source.used[i] += 1
    path.totals.moves[i] += 1
    here[JOBS] += 1
    here[NAMED] += 1
    here[EVENTS] -= 1


@njit_norefs
def _leave(path: WidthPath, who: Int, now: float) -> None:
    """Let a job that is done leave."""
    jobs, here, totals = path.jobs, path.here, path.totals
    i, grid = jobs.classes[who], totals.tally.grid
    if grid.size > 0:
        per_octave = int(0.5 + 1.0 / np.log2(grid[2]))
        count_departure(grid, per_octave, totals.tally.departed, i, jobs.widths[who])
    if path.rows.when.size > 0:
        _write(path.rows, here, now, _DEPARTURE, i, jobs.numbers[who], np.nan)
    if jobs.arrived[who] <= now:  # not NaN
        count_completed(path.completed, i, now - jobs.arrived[who], jobs.sizes[who])
    totals.moves[totals.areas.size + i] += 1
    _drop(jobs, who, here[JOBS])
    here[JOBS] -= 1
    here[EVENTS] -= 1
    here[DEPARTURES] -= 1


@njit_norefs
def next_event(path: WidthPath, now: float, until: float) -> tuple[float, bool]:
    """Go on to the next event, or to a time; return the clock, and whether a decision comes before that.

    A decision that is due is made when nothing more happens at the instant: then the path stays as it is.
    At one instant what jobs do comes before arrivals, the older job and the class listed first before others.
    """
    jobs, here, source, plant = path.jobs, path.here, path.source, path.plant
    who, spent = _next_job(jobs, here[JOBS], now, plant.patience)
    comes = np.int64(-1)
    for i in range(source.used.size):
        wait = max(source.at[i, source.used[i]] - now, 0.0)
        if wait < spent:
            comes, spent = np.int64(i), wait
    if here[DUE] == 1 and spent > 0.0:
        return now, True
    if now + spent > until or (comes < 0 and who < 0):
        if until > now:
            _advance(path, now, until - now)
        return until, False
    _advance(path, now, spent)
    here[DUE] = 1
    if comes >= 0:
        now = max(now, source.at[comes, source.used[comes]])
        _come(path, comes, now)
        return now, False
    now += spent
    if jobs.widths[who] == 0.0:  # it has waited too long
        return max(now, jobs.since[who] + plant.patience), False
    jobs.left[who] = jobs.floors[who]
    if jobs.floors[who] == 0.0:
        _leave(path, who, now)
        return now, False
    jobs.pieces[who] += 1
    row = plant.first[jobs.classes[who]] + jobs.pieces[who]
    jobs.floors[who] = plant.ends[row] * jobs.sizes[who]
    jobs.speeds[who] = _job_speed(plant, row, jobs.widths[who])
    return now, False


@njit_norefs
def apply_widths(path: WidthPath, out: Floats, now: float) -> None:
    """Give jobs the cores chosen for them: a decision that was due is made."""
    jobs, here, plant = path.jobs, path.here, path.plant
    whole = plant.table.size > 0
    for j in range(here[JOBS]):
        if out[j] == jobs.widths[j]:
            continue
        i = jobs.classes[j]
        if jobs.begun[j]:
            if whole:
                path.totals.resizes[i] += 1
                jobs.resumes[j] = now + plant.pauses[i] if out[j] > 0.0 else now
        else:
            jobs.begun[j] = True
        if out[j] == 0.0:
            jobs.since[j], jobs.speeds[j] = now, 0.0
        else:
            jobs.since[j] = np.inf
            jobs.speeds[j] = _job_speed(plant, plant.first[i] + jobs.pieces[j], out[j])
        jobs.widths[j] = out[j]
        if path.rows.when.size > 0:
            _write(path.rows, here, now, _RESIZE, i, jobs.numbers[j], out[j])
    here[DUE] = 0


@njit_norefs
def refresh_speeds(jobs: WidthJobs, n: Int, plant: JobPlant) -> None:
    """Let jobs that hold cores go on at the speeds of curves that have changed."""
    for j in range(n):
        if jobs.widths[j] > 0.0:
            jobs.speeds[j] = _job_speed(plant, plant.first[jobs.classes[j]] + jobs.pieces[j], jobs.widths[j])


@njit_norefs
def settle(path: WidthPath, now: float, until: float) -> tuple[float, bool]:
    """Go on until a decision is due, a time, or something is used up; return the clock, and whether it is."""
    while now < until and has_room(path):
        now, due = next_event(path, now, until)
        if due:
            return now, True
    return now, False
