r"""Compiled loops for policies by fitted values; see `corewise.policies.fitted.rule`.

Here what a class offers depends on the state: in every state offers are found anew, the cores are split at
one price, which will not be far from the last one, and the rate of every class present follows. The class
that leaves is drawn by these rates.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.random import Generator
from numpy.typing import NDArray

from corewise.policies._kernels import split_near
from corewise.policies.fitted._kernels import fitted_offers
from corewise.policies.leveling._kernels import plain
from corewise.simulation.levels._kernels import count_departure, count_time, speed

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Int = int | np.int64


@plain
def _rates(
    curves: Floats,
    offsets: Ints,
    points: Floats,
    size_rates: Floats,
    n: Ints,
    present: Ints,
    count: Int,
    widths: Floats,
    rates: Floats,
) -> float:
    """Write the rates at which the classes present leave, and return their sum."""
    total, k = 0.0, 0
    while k < count:
        i = present[k]
        rates[i] = n[i] * size_rates[i] * speed(curves, offsets, points, i, widths[i])
        total += rates[i]
        k += 1
    return total


@plain
def _draw(present: Ints, count: Int, rates: Floats, x: float) -> int:
    """Return the class at x of the line on which the rates of the classes present lie end to end."""
    k, left = 0, x
    while k < count - 1 and left >= rates[present[k]]:
        left -= rates[present[k]]
        k += 1
    return int(present[k])


@plain
def share(
    tails: Floats,
    pieces: Floats,
    nodes: Floats,
    cores: float,
    n: Ints,
    present: Ints,
    count: Int,
    ranks: Ints,
    offers: Floats,
    starts: Floats,
    held: Floats,
    guess: float,
    widths: Floats,
) -> float:
    """Write the cores that a job of each class present holds, and return the level t of the split.

    `tails`, `pieces` and `nodes` say what classes buy (`corewise.policies.shapes`), `ranks` are zero, and
    `starts` and `held` are room to work in. With fewer than two classes present the level is the guess.
    """
    t, k = guess, 0
    if count == 1:
        widths[present[0]] = cores / n[present[0]]
    elif count > 1:
        while k < count:
            starts[present[k]] = 1.0 / math.sqrt(offers[present[k]])
            k += 1
        t = split_near(tails, pieces, nodes, n, starts, cores, ranks, held, guess)
        k = 0
        while k < count:
            i = present[k]
            widths[i] = held[i] / n[i]
            k += 1
    return t


@njit(cache=True, nogil=True, error_model="numpy")
def fitted_walk(
    rng: Generator,
    rule: tuple[Floats, Floats, Floats, Floats, Floats, Floats, Floats, Floats, Floats],
    single: tuple[Floats, Floats, Floats],
    cores: float,
    plant: tuple[Floats, Ints, Floats, Floats, Floats, Floats, Ints],
    n: Ints,
    areas: Floats,
    moves: Ints,
    tally: tuple[Floats, Floats, Floats],
    record: tuple[Floats, NDArray[np.int16]],
    clock: float,
    until: float,
    events: Int,
    departures: Int,
) -> tuple[float, Int, Int]:
    """Draw moves until a time, so many events or departures; return the clock and how many there were.

    `rule` are the guards of a `FittedRule`, its values and its shapes, `single` its shapes for states in
    which no job may hold more than one core; all else is as for `level_walk` in `simulation.levels._kernels`.
    """
    guards, forms, own, functions, slopes, products, tails, pieces, nodes = rule
    one_tails, one_pieces, one_nodes = single
    curves, offsets, points, size_rates, arrival_rates, shares, others = plant
    grid, left_at, held_at = tally
    when, what = record
    classes, tallied, recorded = n.size, grid.size > 0, when.size > 0
    per_octave = int(0.5 + 1.0 / math.log2(grid[2])) if tallied else 0
    offers, starts, held, ranks = (
        np.zeros(classes),
        np.ones(classes),
        np.zeros(classes),
        np.zeros(classes, dtype=np.int64),
    )
    price = 0.0
    widths, rates, since = np.zeros(classes), np.zeros(classes), np.full(classes, clock)
    present, place = np.zeros(classes, dtype=np.int64), np.zeros(classes, dtype=np.int64)
    count, lam = 0, 0.0
    for i in range(classes):
        lam += arrival_rates[i]
        if n[i] > 0:
            place[i], present[count] = count, i
            count += 1
    now, todo, left = clock, events, departures
    while left > 0 and todo > 0:
        narrow = fitted_offers(n, guards, forms, own, functions, slopes, products, held, offers)
        if narrow:
            share(
                one_tails,
                one_pieces,
                one_nodes,
                cores,
                n,
                present,
                count,
                ranks,
                offers,
                starts,
                held,
                0.0,
                widths,
            )
        else:
            price = share(
                tails, pieces, nodes, cores, n, present, count, ranks, offers, starts, held, price, widths
            )
        total = _rates(curves, offsets, points, size_rates, n, present, count, widths, rates)
        ahead = now + rng.standard_exponential() / (lam + total)
        end = min(ahead, until)
        if tallied:
            for k in range(count):
                j = present[k]
                count_time(grid, per_octave, held_at, j, widths[j], n[j] * (end - now))
        now = end
        if ahead > until:
            break
        x = rng.random() * (lam + total)
        if x < lam or count == 0:
            x *= classes / lam
            i = min(int(x), classes - 1)
            if x - i >= shares[i]:
                i = others[i]
            change = 1
        else:
            i = _draw(present, count, rates, x - lam)
            change = -1
            if tallied:
                count_departure(grid, per_octave, left_at, i, widths[i])
        areas[i] += n[i] * (now - since[i])
        since[i] = now
        if recorded:
            when[events - todo] = now
            what[events - todo] = np.int16(i if change > 0 else classes + i)
        todo -= 1
        n[i] += change
        if change > 0:
            moves[i] += 1
            if n[i] == 1:
                place[i], present[count] = count, i
                count += 1
        else:
            moves[classes + i] += 1
            left -= 1
            if n[i] == 0:
                count -= 1
                last = present[count]
                present[place[i]] = last
                place[last] = place[i]
    for i in range(classes):
        areas[i] += n[i] * (now - since[i])
    return now, events - todo, departures - left
