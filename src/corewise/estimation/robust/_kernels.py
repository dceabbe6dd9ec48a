"""Compiled passes over the histories of jobs: what happened at each level of attained work."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from corewise.kit.arrays import Bools, Floats, Ints


@njit(cache=True)
def run_clocks(place: Ints, span: Floats, speed: Floats, slope: Floats, work: Floats, bend: Floats) -> None:
    """Write A and B, the running sums of speed and of its slope in p over all segments, from zero on."""
    work[0] = bend[0] = 0.0
    for k in range(place.size):
        work[k + 1] = work[k] + span[k] * speed[place[k]]
        bend[k + 1] = bend[k] + span[k] * slope[place[k]]


@njit(cache=True, inline="always")
def part_of(work: Floats, k: int | np.uint64, level: float) -> float:
    """Return which part of a segment has passed when A reaches a level in it."""
    rise = work[k + np.uint64(1)] - work[k]
    return (level - work[k]) / rise if rise > 0.0 else 0.0


@njit(cache=True)
def pass_strata(
    work: Floats,
    bend: Floats,
    first: Ints,
    last: Ints,
    departed: Bools,
    ratio: Floats,
    edges: Floats,
    slopes: Floats,
    pointers: NDArray[np.uint64],
    strata: Floats,
    hazard: Floats,
    mean_ratio: Floats,
    influence: Floats,
) -> None:
    """Add up what the jobs did in each stratum of attained work: D, E, A and U, the columns of `strata`.

    Stratum b ends at edges[b], and the last one never; `slopes` has its κ. `ratio` is g of each job when it
    left. `pointers` are zeros, and say how far each edge has come, and in the end where work began: jobs are
    in order of arrival, so they only move forward. If there is room for it, ψ of each job is written to
    `influence`: its part of the score, less what it does to the hazards of its strata.
    """
    one = np.uint64(1)  # an unsigned index is not tested for being negative
    asked = influence.size > 0
    for j in range(first.size):
        start, end, unbent = work[first[j]], work[last[j]], bend[first[j]]
        k = max(np.uint64(first[j]), pointers[edges.size])
        while k < np.uint64(last[j]) and work[k + one] <= start:
            k += one
        pointers[edges.size] = k
        so_far = (bend[k + one] - bend[k]) / (work[k + one] - work[k]) if k < np.uint64(last[j]) else 0.0
        at, bent, b, total = start, unbent, 0, 0.0
        while b < edges.size and end - start > edges[b]:
            level = start + edges[b]
            k = max(k, pointers[b])
            while work[k + one] < level:
                k += one
            pointers[b] = k
            there = bend[k] + part_of(work, k, level) * (bend[k + one] - bend[k])
            moved = there - bent + slopes[b] * so_far * (level - at)
            strata[b, 1] += level - at
            strata[b, 2] += moved
            if asked:
                total -= hazard[b] * (moved - mean_ratio[b] * (level - at))
            at, bent, so_far = level, there, (there - unbent) / edges[b]
            b += 1
        moved = bend[last[j]] - bent + slopes[b] * so_far * (end - at)
        strata[b, 1] += end - at
        strata[b, 2] += moved
        if asked:
            total -= hazard[b] * (moved - mean_ratio[b] * (end - at))
        if departed[j]:
            own = ratio[j] + slopes[b] * so_far
            strata[b, 0] += 1.0
            strata[b, 3] += own
            if asked:
                total += own - mean_ratio[b]
        if asked:
            influence[j] = total
