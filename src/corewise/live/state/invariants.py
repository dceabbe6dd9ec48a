"""Invariants of a live controller: what must hold after every event, whatever has happened."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from corewise.live.state.instructions import Instruction, SetCores

if TYPE_CHECKING:
    from corewise.live.state.controller import Controller

__all__ = ["check"]


def check(controller: Controller, before: float, told: dict[str, int], given: Sequence[Instruction]) -> None:
    """Raise `AssertionError` if something that must always hold does not.

    That an id which was seen before changes nothing, and that a replay gives the same, is seen from outside
    only; what is left are eight.

    Parameters
    ----------
    controller : Controller
        As it is after the event.
    before : float
        Its time before the event.
    told : dict
        What each job was told to hold before the event.
    given : sequence of Instruction
        What it has instructed.
    """
    _targets_fit(controller)
    _nothing_is_left_over(controller)
    _books_balance(controller)
    _time_is_accounted_for(controller, before)
    moves = [one for one in given if isinstance(one, SetCores)]
    _moves_can_be_made(controller, told, moves)


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise AssertionError(f"invariant of the live controller: {what}")


def _targets_fit(controller: Controller) -> None:
    """Check that targets are within the pool, and each is nothing or within the limits of its job."""
    targets = sum(job.target for job in controller.roster)
    _require(targets <= controller.pool, f"{targets} cores are aimed at, of {controller.pool}")
    for job in controller.roster if controller.mode != "hold" else ():
        least, most = controller.roster.bounds(job, controller.pool)
        within = job.target == 0 or job.pinned or least <= job.target <= most
        _require(within, f"job {job.name!r} is to hold {job.target} cores, not {least} to {most}")


def _nothing_is_left_over(controller: Controller) -> None:
    """Check that a core is left only where all that run have their most, and none that waits fits.

    Where moves cost something a core may be left for whoever comes next.
    """
    rest = controller.pool - sum(job.target for job in controller.roster)
    if not rest or controller.mode == "hold" or not controller.moving.free:
        return
    for job in controller.roster:
        least, most = controller.roster.bounds(job, controller.pool)
        waits = job.target == 0 and (least > rest or job.retry_at > controller.time)
        used = job.target == most or waits or job.pinned
        _require(used, f"{rest} cores are left over, and job {job.name!r} with {job.target} could use them")


def _books_balance(controller: Controller) -> None:
    """Check that whoever came is there or has left."""
    pairs = zip(controller.system.names, controller.books, controller.roster.counts, strict=True)
    for name, book, count in pairs:
        there = book.arrived + book.present - book.finished - book.ended
        _require(there == count, f"class {name!r} has {count} jobs, and {there} by its books")


def _time_is_accounted_for(controller: Controller, before: float) -> None:
    """Check that time does not go back, and that all time of jobs is at some width, or was a pause."""
    _require(controller.time >= before, f"time went back from {before} to {controller.time}")
    spent, whole = controller.tally.accounted
    alike = math.isclose(spent, whole, rel_tol=1e-9, abs_tol=1e-9 * max(abs(controller.time), 1.0))
    _require(alike, f"jobs spent {spent} at their widths, and were there for {whole}")


def _moves_can_be_made(controller: Controller, told: dict[str, int], moves: Sequence[SetCores]) -> None:
    """Check that nobody is moved in a pool that is watched, and nobody grows into what is not free."""
    _require(not moves or controller.mode != "watch", "a pool that is only watched was instructed")
    grown = [one for one in moves if one.cores > told.get(one.job, 0)]
    _require(list(moves[len(moves) - len(grown) :]) == grown, "a growth was instructed before a shrink")
    # A job that still holds what it was told to give up, or may yet take it, may be told to keep it.
    jobs = controller.roster.jobs
    takes = any(one.cores > max(jobs[one.job].held, jobs[one.job].withdrawn) for one in grown)
    taken = sum(job.taken for job in controller.roster)
    fits = not takes or taken <= controller.pool
    _require(fits, f"growth was instructed where {taken} of {controller.pool} cores are taken")
