r"""Whole cores of every job: from the cores of each class to those of its jobs, within their limits.

A policy says how many cores a class holds; a job holds whole cores, none or between its least and its most.
Within a class jobs share equally: the job with the fewest cores gets the next one, the oldest first among
equals, so that without limits every job of a class has ⌊x/n⌋ or ⌈x/n⌉. A job waits while its least does not
fit. What a class cannot use goes to the others in the same way. So

- the cores given never sum to more than the pool;
- a core is left over only if every running job is at its most and no waiting job's least fits;
- the answer does not depend on the order in which the jobs are listed, and the oldest are served first. That
  needs no memory of who held what: targets fall with age already, so cores do not move for nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from heapq import merge
from operator import attrgetter
from typing import NamedTuple

__all__ = ["Claim", "share", "share_queues"]


class Claim(NamedTuple):
    """Claim of a job on cores.

    Attributes
    ----------
    job : str
        Its name.
    job_class : int
        The position of its class.
    age : int
        Its rank by arrival: the smaller, the older. No two jobs have the same.
    least, most : int
        The fewest cores it can run on, and the most it can use.
    """

    job: str
    job_class: int
    age: int
    least: int
    most: int


def share(claims: Sequence[Claim], cores: Sequence[int], pool: int) -> Mapping[str, int]:
    """Return the whole cores of every job, zero for those that wait.

    Parameters
    ----------
    claims : sequence of Claim
        The jobs that are there.
    cores : sequence of int
        What the policy gives to each class; in sum at most the pool.
    pool : int
        The cores there are.
    """
    oldest_first = sorted(claims, key=attrgetter("age"))
    queues = [[claim for claim in oldest_first if claim.job_class == i] for i in range(len(cores))]
    held = share_queues(queues, cores, pool, [1] * len(queues))
    return {claim.job: held.get(claim.job, 0) for claim in oldest_first}


def share_queues(
    queues: Sequence[Iterable[Claim]], cores: Sequence[int], pool: int, leasts: Sequence[int]
) -> dict[str, int]:
    """Return the whole cores of every job that gets some, given the jobs of each class, oldest first.

    A queue is read no further than cores last, and again from its beginning for what other classes leave.
    `leasts` are lower bounds of the fewest cores of the jobs of each class.
    """
    held: dict[str, int] = {}
    running: list[Claim] = []
    for queue, given, least in zip(queues, cores, leasts, strict=True):
        mine = _admit(queue, held, given, least)
        _raise(mine, held, given)
        running += mine
    spare = pool - sum(held.values())
    if spare > 0:
        # What classes could not use: first to those who wait, then to those who can use more.
        running += _admit(merge(*queues, key=attrgetter("age")), held, spare, min(leasts))
        _raise(sorted(running, key=attrgetter("age")), held, pool)
    return held


def _admit(claims: Iterable[Claim], held: dict[str, int], budget: int, least: int) -> list[Claim]:
    """Give every job that has nothing its least, the oldest first, as long as it fits; return those jobs."""
    admitted: list[Claim] = []
    if budget < least:
        return admitted
    for claim in claims:
        if claim.least <= budget and claim.job not in held:
            held[claim.job] = claim.least
            admitted.append(claim)
            budget -= claim.least
            if budget < least:
                break
    return admitted


def _raise(running: Sequence[Claim], held: dict[str, int], budget: int) -> None:
    """Give cores one by one to the job with the fewest, the oldest first, until none is left or wanted.

    All at once: every job that runs is raised to a common level, and the oldest of those at it to one more.
    """
    begun = [held[claim.job] for claim in running]
    spare = budget - sum(begun)
    if spare <= 0 or not running:
        return
    most = [claim.most for claim in running]
    level = _level(begun, most, spare)
    for claim, before in zip(running, begun, strict=True):
        raised = max(before, min(level, claim.most))
        spare -= raised - before
        held[claim.job] = raised
    for claim in running:
        if not spare:
            break
        if held[claim.job] == level < claim.most:
            held[claim.job] += 1
            spare -= 1


def _level(begun: Sequence[int], most: Sequence[int], spare: int) -> int:
    """Return the highest level to which all can be raised, none beyond its most."""
    low, high = min(begun), max(most)
    equal, rest = divmod(spare + sum(begun), len(begun))
    if max(begun) <= equal and (equal < min(most) or (equal == min(most) and not rest)):
        return equal  # no job has more already, or can use no more
    while low < high:
        level = (low + high + 1) // 2
        needed = 0
        for has, can_use in zip(begun, most, strict=True):
            top = level if level < can_use else can_use
            if top > has:
                needed += top - has
        if needed <= spare:
            low = level
        else:
            high = level - 1
    return low
