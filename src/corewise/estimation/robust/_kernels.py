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
def tabulate_strata(
    work: Floats,
    bend: Floats,
    first: Ints,
    last: Ints,
    departed: Bools,
    ratio: Floats,
    edges: Floats,
    pointers: NDArray[np.uint64],
    strata: Floats,
) -> None:
    """Add up what the jobs did in each stratum of attained work: D, E, G and U, the columns of `strata`.

    Stratum b ends at edges[b], and the last one never. `ratio` is that of each job when it left. `pointers`
    are zeros, and say how far each edge has come: jobs are in order of arrival, so it only moves forward.
    """
    one = np.uint64(1)  # an unsigned index is not tested for being negative
    for j in range(first.size):
        start, end = work[first[j]], work[last[j]]
        at, bent, b, k = start, bend[first[j]], 0, np.uint64(first[j])
        while b < edges.size and end - start > edges[b]:
            level = start + edges[b]
            k = max(k, pointers[b])
            while work[k + one] < level:
                k += one
            pointers[b] = k
            there = bend[k] + part_of(work, k, level) * (bend[k + one] - bend[k])
            strata[b, 1] += level - at
            strata[b, 2] += there - bent
            at, bent = level, there
            b += 1
        strata[b, 1] += end - at
        strata[b, 2] += bend[last[j]] - bent
        if departed[j]:
            strata[b, 0] += 1.0
            strata[b, 3] += ratio[j]


@njit(cache=True)
def job_influences(
    work: Floats,
    bend: Floats,
    first: Ints,
    last: Ints,
    departed: Bools,
    ratio: Floats,
    edges: Floats,
    pointers: NDArray[np.uint64],
    hazard: Floats,
    mean_ratio: Floats,
    influence: Floats,
) -> None:
    """Write ψ of each job: its part of the score, less what it does to the hazards of its strata."""
    one = np.uint64(1)  # an unsigned index is not tested for being negative
    for j in range(first.size):
        start, end = work[first[j]], work[last[j]]
        at, bent, b, k, total = start, bend[first[j]], 0, np.uint64(first[j]), 0.0
        while b < edges.size and end - start > edges[b]:
            level = start + edges[b]
            k = max(k, pointers[b])
            while work[k + one] < level:
                k += one
            pointers[b] = k
            there = bend[k] + part_of(work, k, level) * (bend[k + one] - bend[k])
            total -= hazard[b] * ((there - bent) - mean_ratio[b] * (level - at))
            at, bent = level, there
            b += 1
        total -= hazard[b] * ((bend[last[j]] - bent) - mean_ratio[b] * (end - at))
        if departed[j]:
            total += ratio[j] - mean_ratio[b]
        influence[j] = total
