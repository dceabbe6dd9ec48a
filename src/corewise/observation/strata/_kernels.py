"""Compiled loop that follows single jobs through the strata of their attained work."""

from __future__ import annotations

from numba import njit

from corewise.kit.arrays import Floats, Int, Ints

# Columns of the strata: departures, work, its slope in p, g at departures, and products within a stratum;
# then those with q = B/x, taken where a job entered the stratum.
D, E, G, U, GG, DA, DB, GA, GB, AA, AB, BB = range(12)
DQ, QA, DGQ, DQQ, DQA, DGQA, DQB, DQQA, QAA, QAB, QQAA = range(12, 23)
# Columns of the sums over whole jobs: departed, X, B, products, and powers of the sizes of whole ones.
D_, X, B, G_, DX, DB_, GX, GG_, GB_, XX, XB, BB_, SIZES = range(13)  # and four powers
# State of a job at a node: its stratum, work and slope within it, both over its whole life, and q.
STRATUM, WITHIN, BENT, WORK, SLOPE, SO_FAR = range(6)


@njit(cache=True)
def close_stratum(cell: Floats, work: float, bend: float, so_far: float, sign: float) -> None:
    """Add the products of what a job did in one stratum, or take them away."""
    cell[AA] += sign * work * work
    cell[AB] += sign * work * bend
    cell[BB] += sign * bend * bend
    cell[QAA] += sign * so_far * work * work
    cell[QAB] += sign * so_far * work * bend
    cell[QQAA] += sign * so_far * so_far * work * work


@njit(cache=True)
def work_on(state: Floats, speed: float, slope: float, span: float, edges: Floats, strata: Floats) -> None:
    """Let a job work for a while: its state at one node, and what it does in each stratum.

    Its work and slope over its whole life are those at the end of the while.
    """
    left, bend = span, state[SLOPE] - span * slope
    b = int(state[STRATUM])
    if speed > 0.0 and b == 0 and state[WITHIN] == 0.0:
        state[SO_FAR] = slope / speed
    while left > 0.0 and speed > 0.0:
        step = left
        whole = b < edges.size
        if whole:
            low = edges[b - 1] if b > 0 else 0.0
            rest = (edges[b] - low - state[WITHIN]) / speed
            whole = rest < left
            step = max(rest, 0.0) if whole else left
        strata[b, E] += step * speed
        strata[b, G] += step * slope
        strata[b, QA] += state[SO_FAR] * step * speed
        close_stratum(strata[b], state[WITHIN], state[BENT], state[SO_FAR], -1.0)
        state[WITHIN] += step * speed
        state[BENT] += step * slope
        close_stratum(strata[b], state[WITHIN], state[BENT], state[SO_FAR], 1.0)
        left -= step
        bend += step * slope
        if whole:
            state[STRATUM], state[WITHIN], state[BENT], state[SO_FAR] = b + 1, 0.0, 0.0, bend / edges[b]
            b += 1


@njit(cache=True)
def leave(state: Floats, ratio: float, strata: Floats) -> None:
    """Let a job leave from the stratum that it is in."""
    cell, work, bend, so_far = strata[int(state[STRATUM])], state[WITHIN], state[BENT], state[SO_FAR]
    cell[D] += 1.0
    cell[U] += ratio
    cell[GG] += ratio * ratio
    cell[DA] += work
    cell[DB] += bend
    cell[GA] += ratio * work
    cell[GB] += ratio * bend
    cell[DQ] += so_far
    cell[DGQ] += ratio * so_far
    cell[DQQ] += so_far * so_far
    cell[DQA] += so_far * work
    cell[DGQA] += ratio * so_far * work
    cell[DQB] += so_far * bend
    cell[DQQA] += so_far * so_far * work


@njit(cache=True)
def count_job(
    state: Floats, work: float, slope: float, ratio: float, departed: bool, whole: bool, jobs: Floats
) -> None:
    """Add what a job did since it had attained `work`, with B = `slope`, to the sums over whole jobs."""
    x, b = state[WORK], state[SLOPE]
    jobs[X] += x - work
    jobs[B] += b - slope
    jobs[XX] += x * x - work * work
    jobs[XB] += x * b - work * slope
    jobs[BB_] += b * b - slope * slope
    if departed:
        jobs[D_] += 1.0
        jobs[G_] += ratio
        jobs[DX] += x
        jobs[DB_] += b
        jobs[GX] += ratio * x
        jobs[GG_] += ratio * ratio
        jobs[GB_] += ratio * b
        if whole:
            power = 1.0
            for k in range(5):
                jobs[SIZES + k] += power
                power *= x


@njit(cache=True)
def follow_job(
    place: Ints,
    start: Floats,
    span: Floats,
    first: Int,
    last: Int,
    began: float,
    until: float,
    departed: bool,
    whole: bool,
    speed: Floats,
    slope: Floats,
    edges: Floats,
    state: Floats,
    strata: Floats,
    jobs: Floats,
) -> Int:
    """Follow one job from a time to another, at all nodes; return the first segment that is not over.

    `speed` and `slope` have a row for each node. A job that is not `whole` was there at the start: its
    attained work is unknown, and it counts in the sums over jobs only.
    """
    k = first
    for node in range(speed.shape[0]):
        work, bend, ratio = state[node, WORK], state[node, SLOPE], 0.0
        k = first
        while k < last and start[k] < until:
            width = place[k]
            passed = min(start[k] + span[k], until) - max(start[k], began)
            if passed > 0.0:
                state[node, WORK] += passed * speed[node, width]
                state[node, SLOPE] += passed * slope[node, width]
                if whole:
                    work_on(state[node], speed[node, width], slope[node, width], passed, edges, strata[node])
            if start[k] + span[k] > until:
                break
            k += 1
        if departed:
            width = place[last - 1]
            ratio = slope[node, width] / speed[node, width] if speed[node, width] > 0.0 else 0.0
            if whole:
                leave(state[node], ratio, strata[node])
        count_job(state[node], work, bend, ratio, departed, whole, jobs[node])
    return k
