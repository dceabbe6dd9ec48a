r"""Compiled loops for policies by fitted values; see `corewise.policies.fitted.rule`.

Here what a class offers depends on the state: offers are found anew, the cores are split at one price, which
will not be far from the last one, and the rate of every class present follows. That takes long enough for
what was decided to be remembered (`corewise.simulation.loops.state_cache`), whatever the number of classes.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.random import Generator

from corewise.kit._kernels import njit_norefs
from corewise.kit.arrays import Floats, Int, Ints
from corewise.policies.fitted._kernels import FittedArrays, fitted_offers
from corewise.policies.waterfill._kernels import MOST_CORES, Demands, split_near
from corewise.policies.waterfill.levels._kernels import T
from corewise.simulation.loops._kernels.clocked import (
    ChainRecord,
    Curves,
    Plant,
    Tally,
    known_chain,
    remember_rates,
)
from corewise.simulation.loops._kernels.jobs import JobPath, JobTotals, States, known_jobs, remember_speeds


class Room(NamedTuple):
    """Arrays that a decision works in.

    Attributes
    ----------
    offers, starts, held : ndarray, shape (K,)
        What classes offer, where they begin to buy, and the cores that they hold.
    level : ndarray
        The level of the last split, at T.
    widths : ndarray, shape (K,)
        The decision: the cores that a job of each class present holds.
    """

    offers: Floats
    starts: Floats
    held: Floats
    level: Floats
    widths: Floats


@njit_norefs
def share(demands: Demands, cores: float, n: Ints, room: Room, guess: float) -> float:
    """Write the cores that a job of each class present holds, and return the level t of the split.

    With fewer than two classes present the level is the guess.
    """
    t, present, i = guess, 0, 0
    while i < n.size:
        if n[i] > 0:
            room.starts[i] = 1.0 / math.sqrt(room.offers[i])
            room.widths[i] = min(cores / n[i], demands.tails[i, MOST_CORES])
            present += 1
        i += 1
    if present > 1:
        t = split_near(demands.tails, demands.pieces, demands.nodes, n, room.starts, cores, room.held, guess)
        i = 0
        while i < n.size:
            room.widths[i] = room.held[i] / max(n[i], 1)
            i += 1
    return t


@njit_norefs
def fitted_widths(rule: FittedArrays, cores: float, n: Ints, room: Room) -> None:
    """Write the cores that a job of each class present holds under a `Fitted`, and keep up the level."""
    if fitted_offers(n, rule.guards, rule.values, room.held, room.offers):
        share(rule.single, cores, n, room, 0.0)
    else:
        room.level[T] = share(rule.demands, cores, n, room, room.level[T])


@njit(cache=True, nogil=True, error_model="numpy")
def fitted_chain(
    rng: Generator,
    rule: FittedArrays,
    cores: float,
    plant: Plant,
    memory: tuple[Floats, Ints, Floats],
    n: Ints,
    areas: Floats,
    moves: Ints,
    tally: Tally,
    record: ChainRecord,
    clock: float,
    until: float,
    events: Int,
    departures: Int,
) -> tuple[float, Int, Int]:
    """Draw moves until a time, so many events or departures; return the clock and how many there were.

    All but the rule is as for `known_chain`.
    """
    curves, offsets, points, size_rates, arrival_rates, _, _ = plant
    seen, units, level = memory
    classes = n.size
    room = Room(np.zeros(classes), np.ones(classes), np.zeros(classes), level, np.zeros(classes))
    now, remaining = clock, departures
    done: Int = np.int64(0)  # no literal: the walk would be compiled once more for it
    while True:
        row, now, done, remaining = known_chain(
            rng, seen, units, n, areas, moves, tally, record, now, until, done, events, remaining
        )
        if row < 0:
            break
        fitted_widths(rule, cores, n, room)
        remember_rates(seen, row, n, room.widths, curves, offsets, points, size_rates, arrival_rates)
    return now, done, departures - remaining


@njit(cache=True, nogil=True, error_model="numpy")
def fitted_jobs(
    rule: FittedArrays,
    cores: float,
    curves: Curves,
    memory: States,
    level: Floats,
    path: JobPath,
    totals: JobTotals,
    named: Int,
    clock: float,
    until: float,
    events: Int,
    departures: Int,
) -> tuple[Int, float, Int, Int]:
    """Do as `known_jobs` under a policy by fitted values, which decides in states that are not remembered."""
    n = path.jobs.n
    classes = n.size
    room = Room(np.zeros(classes), np.ones(classes), np.zeros(classes), level, np.zeros(classes))
    fresh, now, remaining = named, clock, departures
    done: Int = np.int64(0)  # no literal: the walk would be compiled once more for it
    while True:
        row, fresh, now, done, remaining = known_jobs(
            memory, path, totals, fresh, now, until, done, events, remaining
        )
        if row < 0:
            return fresh, now, done, remaining
        fitted_widths(rule, cores, n, room)
        remember_speeds(memory.rows, row, n, room.widths, curves)
