r"""Compiled loops for policies by fitted values; see `corewise.policies.fitted.rule`.

Here what a class offers depends on the state: offers are found anew, the cores are split at one price, which
will not be far from the last one, and the rate of every class present follows. That takes long enough for
what was decided to be remembered (`corewise.simulation.loops.state_cache`), whatever the number of classes.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.random import Generator

from corewise.kit._kernels import njit_norefs
from corewise.kit.arrays import Floats, Int, Ints
from corewise.policies.fitted._kernels import fitted_offers
from corewise.policies.waterfill._kernels import MOST_CORES, split_near
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


@njit_norefs
def share(
    tails: Floats,
    pieces: Floats,
    nodes: Floats,
    cores: float,
    n: Ints,
    offers: Floats,
    starts: Floats,
    held: Floats,
    guess: float,
    widths: Floats,
) -> float:
    """Write the cores that a job of each class present holds, and return the level t of the split.

    `tails`, `pieces` and `nodes` say what classes buy (`corewise.policies.waterfill.demand`); `starts` and
    `held` are room to work in. With fewer than two classes present the level is the guess.
    """
    t, present, i = guess, 0, 0
    while i < n.size:
        if n[i] > 0:
            starts[i] = 1.0 / math.sqrt(offers[i])
            widths[i] = min(cores / n[i], tails[i, MOST_CORES])
            present += 1
        i += 1
    if present > 1:
        t = split_near(tails, pieces, nodes, n, starts, cores, held, guess)
        i = 0
        while i < n.size:
            widths[i] = held[i] / max(n[i], 1)
            i += 1
    return t


@njit_norefs
def fitted_widths(
    guards: Floats,
    forms: Floats,
    own: Floats,
    functions: Floats,
    slopes: Floats,
    products: Floats,
    tails: Floats,
    pieces: Floats,
    nodes: Floats,
    one_tails: Floats,
    one_pieces: Floats,
    one_nodes: Floats,
    cores: float,
    n: Ints,
    offers: Floats,
    starts: Floats,
    held: Floats,
    level: Floats,
    widths: Floats,
) -> None:
    """Write the cores that a job of each class present holds under a `Fitted`, and keep up the level."""
    if fitted_offers(n, guards, forms, own, functions, slopes, products, held, offers):
        share(one_tails, one_pieces, one_nodes, cores, n, offers, starts, held, 0.0, widths)
    else:
        level[T] = share(tails, pieces, nodes, cores, n, offers, starts, held, level[T], widths)


@njit(cache=True, nogil=True, error_model="numpy")
def fitted_chain(
    rng: Generator,
    rule: tuple[Floats, Floats, Floats, Floats, Floats, Floats, Floats, Floats, Floats],
    single: tuple[Floats, Floats, Floats],
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

    `rule` are the guards of a `Fitted`, its values and its shapes, `single` its shapes for states in
    which no job may hold more than one core; all else is as for `known_chain`.
    """
    guards, forms, own, functions, slopes, products, tails, pieces, nodes = rule
    one_tails, one_pieces, one_nodes = single
    curves, offsets, points, size_rates, arrival_rates, _, _ = plant
    seen, units, level = memory
    classes = n.size
    offers, starts, held, widths = np.zeros(classes), np.ones(classes), np.zeros(classes), np.zeros(classes)
    now, remaining = clock, departures
    done: Int = np.int64(0)  # no literal: the walk would be compiled once more for it
    while True:
        row, now, done, remaining = known_chain(
            rng, seen, units, n, areas, moves, tally, record, now, until, done, events, remaining
        )
        if row < 0:
            break
        fitted_widths(
            *(guards, forms, own, functions, slopes, products, tails, pieces, nodes),
            *(one_tails, one_pieces, one_nodes, cores, n, offers, starts, held, level, widths),
        )
        remember_rates(seen, row, n, widths, curves, offsets, points, size_rates, arrival_rates)
    return now, done, departures - remaining


@njit(cache=True, nogil=True, error_model="numpy")
def fitted_jobs(
    rule: tuple[Floats, Floats, Floats, Floats, Floats, Floats, Floats, Floats, Floats],
    single: tuple[Floats, Floats, Floats],
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
    guards, forms, own, functions, slopes, products, tails, pieces, nodes = rule
    one_tails, one_pieces, one_nodes = single
    n = path.jobs.n
    classes = n.size
    offers, starts, held, widths = np.zeros(classes), np.ones(classes), np.zeros(classes), np.zeros(classes)
    fresh, now, remaining = named, clock, departures
    done: Int = np.int64(0)  # no literal: the walk would be compiled once more for it
    while True:
        row, fresh, now, done, remaining = known_jobs(
            memory, path, totals, fresh, now, until, done, events, remaining
        )
        if row < 0:
            return fresh, now, done, remaining
        fitted_widths(
            *(guards, forms, own, functions, slopes, products, tails, pieces, nodes),
            *(one_tails, one_pieces, one_nodes, cores, n, offers, starts, held, level, widths),
        )
        remember_speeds(memory.rows, row, n, widths, curves)
