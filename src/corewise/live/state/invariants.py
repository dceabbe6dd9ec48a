"""Invariants of a live controller: what must hold after every event, whatever has happened."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from corewise.live.state.instructions import Instruction, SetCores
from corewise.live.state.pool_state import PoolState

__all__ = ["check"]


def check(
    state: PoolState,
    before: float,
    assigned: Mapping[str, int],
    instructions: Sequence[Instruction],
    accounted: tuple[float, float],
) -> None:
    """Raise `AssertionError` if an invariant does not hold.

    That an id which was seen before changes nothing, and that a replay gives the same, is seen from outside
    only; what is left are eight.

    Parameters
    ----------
    state : PoolState
        The state after the event.
    before : float
        The time before the event.
    assigned : mapping
        The cores that each job was assigned before the event.
    instructions : sequence of Instruction
        The instructions that the event led to.
    accounted : tuple of float
        The time that jobs spent at their widths or in pauses, and the time that they were present.
    """
    _targets_fit(state)
    _nothing_is_left_over(state)
    _counters_balance(state)
    _time_is_accounted_for(state, before, accounted)
    moves = [one for one in instructions if isinstance(one, SetCores)]
    _moves_can_be_made(state, assigned, moves)


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise AssertionError(f"invariant of the live controller: {what}")


def _targets_fit(state: PoolState) -> None:
    """Check that targets are within the pool, and each is nothing or within the limits of its job."""
    targets = sum(job.target for job in state.jobs)
    _require(targets <= state.pool, f"{targets} cores are aimed at, of {state.pool}")
    for job in state.jobs if state.mode != "hold" else ():
        least, most = state.jobs.bounds(job, state.pool)
        within = job.target == 0 or job.pinned or least <= job.target <= most
        _require(within, f"job {job.name!r} is to hold {job.target} cores, not {least} to {most}")


def _nothing_is_left_over(state: PoolState) -> None:
    """Check that a core is left only where all that run have their most, and none that waits fits.

    Where moves cost something a core may be left for the next arrival.
    """
    rest = state.pool - sum(job.target for job in state.jobs)
    if not rest or state.mode == "hold" or not state.free_moves:
        return
    for job in state.jobs:
        least, most = state.jobs.bounds(job, state.pool)
        waits = job.target == 0 and (least > rest or job.retry_at > state.time)
        used = job.target == most or waits or job.pinned
        _require(used, f"{rest} cores are left over, and job {job.name!r} with {job.target} could use them")


def _counters_balance(state: PoolState) -> None:
    """Check that every job that arrived is present or has left."""
    for name, row, count in zip(state.names, state.counters, state.jobs.counts, strict=True):
        present = row.arrived + row.present - row.finished - row.ended
        _require(present == count, f"class {name!r} has {count} jobs, and {present} by its counters")


def _time_is_accounted_for(state: PoolState, before: float, accounted: tuple[float, float]) -> None:
    """Check that time does not go back, and that all time of jobs is at some width, or was a pause."""
    _require(state.time >= before, f"time went back from {before} to {state.time}")
    spent, whole = accounted
    alike = math.isclose(spent, whole, rel_tol=1e-9, abs_tol=1e-9 * max(abs(state.time), 1.0))
    _require(alike, f"jobs spent {spent} at their widths, and were there for {whole}")


def _moves_can_be_made(state: PoolState, assigned: Mapping[str, int], moves: Sequence[SetCores]) -> None:
    """Check that no job is moved in a pool that is watched, and none grows into cores that are not free."""
    _require(not moves or state.mode != "watch", "a pool that is only watched was instructed")
    grown = [one for one in moves if one.cores > assigned.get(one.job, 0)]
    _require(list(moves[len(moves) - len(grown) :]) == grown, "a growth was instructed before a shrink")
    # A job that still holds cores that it is to give up, or may yet take them, may be assigned them again.
    jobs = state.jobs.by_name
    takes = any(one.cores > max(jobs[one.job].held, jobs[one.job].withdrawn) for one in grown)
    taken = sum(job.taken for job in state.jobs)
    fits = not takes or taken <= state.pool
    _require(fits, f"growth was instructed where {taken} of {state.pool} cores are taken")
