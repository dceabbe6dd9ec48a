r"""Compiled loops that draw the path of the controlled chain.

A state is one flat index s into a box of counts. Its 2K moves are the arrivals of each class and then the
departures of each class; move k is the number of thresholds that a uniform variable reaches,

    k = #{ j : u ≥ T[s, j] },      T[s, j] = P(one of the moves 0 … j),

and leads to s + steps[k]. The 2K-th threshold lies above one; at the edge of the box all are −1: a loop that
comes there stops before it draws, so that the caller can enlarge the box and go on with the same stream of
random numbers. `steps` is a tuple, so that each number of classes gets a loop of its own, unrolled.

Loops count moves by state, flat in `moves` as s · 2K + k: these counts are all that statistics need.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.random import Generator
from numpy.typing import NDArray

from corewise.kit._kernels import tiered
from corewise.kit.arrays import Floats, Int, Ints

Steps = tuple[int, ...]
u = np.uint64  # an unsigned index is not tested for being negative


@tiered(lambda leaving, *_: 2.0 * leaving.size)
@njit(cache=True, nogil=True)
def move_thresholds(
    leaving: Floats, arrivals: Floats, counts: Ints, shape: Ints, thresholds: Floats, holding: Floats
) -> None:
    """Write the thresholds, flat, and the mean time in each state; `leaving` are the rates of departures."""
    classes, states = counts.shape
    for s in range(states):
        row, upto, at_edge = 2 * classes * s, 0.0, False
        for i in range(classes):
            upto += arrivals[i]
            thresholds[row + i] = upto
            at_edge |= counts[i, s] == shape[i] - 1
        for i in range(classes):
            upto += leaving[i, s]
            thresholds[row + classes + i] = upto
        holding[s] = 1.0 / upto
        for k in range(row, row + 2 * classes):
            if at_edge:
                thresholds[k] = -1.0
            elif thresholds[k] >= upto:
                # The last move that has a rate is taken whatever the rounding: no variable reaches beyond it.
                thresholds[k] = 2.0
            else:
                thresholds[k] *= holding[s]


@tiered(lambda *args: 10.0 * args[-1], most=0.12)
@njit(cache=True, nogil=True)
def jump(
    rng: Generator, thresholds: Floats, moves: Ints, steps: Steps, state: Int, events: int, departures: Int
) -> tuple[Int, int, Int]:
    """Draw moves without a clock until so many events or departures; return the state and what was done."""
    width = len(steps)
    step = np.array(steps) * width
    row, remaining, todo = state * width, departures, events
    while remaining > 0 and todo > 0 and thresholds[u(row)] >= 0.0:
        draw = rng.random()
        k = u(0)
        for j in range(width - 1):
            k += u(draw >= thresholds[u(row + j)])
        moves[u(row) + k] += 1
        row += step[k]
        remaining -= np.int64(k >= u(width // 2))
        todo -= 1
    return row // width, events - todo, departures - remaining


@tiered(lambda *args: 9.0 * args[-1].size, most=0.5)
@njit(cache=True, nogil=True)
def clocked(
    rng: Generator,
    thresholds: Floats,
    holding: Floats,
    moves: Ints,
    times: Floats,
    steps: Steps,
    state: Int,
    clock: float,
    until: float,
    departures: Int,
    when: Floats,
    what: NDArray[np.int16],
) -> tuple[Int, float, int, Int]:
    """Draw moves and times until a time, so many departures, or a full record; return state, clock, counts.

    `holding` is the mean time in each state. Each event goes to the record (`when`, `what`: its move) as well
    as to the time and the moves of its state. What is left of the last interval is drawn afresh by the next
    call: time to the next event has no memory.
    """
    width, step = u(len(steps)), np.array(steps)
    first_departure = width // u(2)
    here, now, remaining = state, clock, departures
    for event in range(when.size):
        row = u(here) * width
        if thresholds[row] < 0.0:
            return here, now, event, departures - remaining
        ahead = now + holding[u(here)] * rng.standard_exponential()
        if ahead > until:
            times[u(here)] += until - now
            return here, until, event, departures - remaining
        times[u(here)] += ahead - now
        now = ahead
        draw = rng.random()
        k = u(0)
        for j in range(len(steps) - 1):
            k += u(draw >= thresholds[row + u(j)])
        moves[row + k] += 1
        here += step[k]
        when[event] = ahead
        what[event] = np.int16(k)
        remaining -= np.int64(k >= first_departure)
        if remaining == 0:
            return here, now, event + 1, departures
    return here, now, when.size, departures - remaining


@tiered(lambda *args: 2.5 * args[1].size, most=0.1)
@njit(cache=True, nogil=True)
def name_jobs(
    rng: Generator, what: NDArray[np.int16], present: Ints, counts: Ints, named: int, job: Ints
) -> None:
    """Assign a job to each move: arrivals get the next number, any job of the class may leave.

    Jobs of a class hold the same cores and sizes have no memory, so each is as likely to leave as the others.
    The first `counts[i]` entries of row i of `present` are the jobs of class i, and are kept up.
    """
    classes, fresh = counts.size, named
    for event in range(what.size):
        k = np.int64(what[event])
        if k < classes:
            job[event] = fresh
            present[k, counts[k]] = fresh
            counts[k] += 1
            fresh += 1
        else:
            i = k - classes
            pick = np.int64(rng.random() * counts[i])
            counts[i] -= 1
            job[event] = present[i, pick]
            present[i, pick] = present[i, counts[i]]


@tiered(lambda draws, *_: 3.5 * draws.size, most=0.1)
@njit(cache=True, nogil=True)
def retrace(draws: Floats, thresholds: Floats, steps: Steps, state: Int, what: NDArray[np.int16]) -> None:
    """Write the moves that `jump` made from a state with these uniform variables."""
    width = len(steps)
    here = state
    for event in range(draws.size):
        row = u(here) * u(width)
        k = u(0)
        for j in range(width - 1):
            k += u(draws[event] >= thresholds[row + u(j)])
        what[event] = np.int16(k)
        here += steps[k]


@tiered(lambda what, *_: 3.5 * what.size, most=0.1)
@njit(cache=True, nogil=True)
def follow_jobs(
    what: NDArray[np.int16],
    lasted: Floats,
    clock: float,
    counts: Ints,
    old: Floats,
    ages: Floats,
    touched: Floats,
    spent: Floats,
    left: Floats,
) -> float:
    """Follow the jobs of each class along moves, each after a time; return the clock.

    Kept up are, by class, the jobs present, how many of them are old in the mean, the total age of the others
    when it was last touched, and the time spent by those of them who left and how many those are: see
    `corewise.simulation.response_times`.
    """
    classes, now = counts.size, clock
    for event in range(what.size):
        now += lasted[event]
        k = np.int64(what[event])
        i = k if k < classes else k - classes
        ages[i] += (counts[i] - old[i]) * (now - touched[i])
        touched[i] = now
        if k < classes:
            counts[i] += 1
            continue
        share = 1.0 / counts[i]
        spent[i] += share * ages[i]
        left[i] += (counts[i] - old[i]) / counts[i]
        ages[i] -= share * ages[i]
        old[i] -= share * old[i]
        counts[i] -= 1
    return now
