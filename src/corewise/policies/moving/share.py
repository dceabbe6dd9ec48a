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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

__all__ = ["Claim", "share"]


@dataclass(frozen=True, slots=True)
class Claim:
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
    oldest_first = sorted(claims, key=lambda claim: claim.age)
    held: dict[str, int] = {}
    for i, given in enumerate(cores):
        mine = [claim for claim in oldest_first if claim.job_class == i]
        _admit(mine, held, given)
        _raise(mine, held, given)
    # What classes could not use: first to those who wait, then to those who can use more.
    _admit([claim for claim in oldest_first if not held[claim.job]], held, pool - sum(held.values()))
    _raise(oldest_first, held, pool)
    return held


def _admit(claims: Sequence[Claim], held: dict[str, int], budget: int) -> None:
    """Give every job its least, the oldest first, as long as it fits; the others get none."""
    for claim in claims:
        admitted = claim.least <= budget
        held[claim.job] = claim.least if admitted else 0
        budget -= held[claim.job]


def _raise(claims: Sequence[Claim], held: dict[str, int], budget: int) -> None:
    """Give cores one by one to the job with the fewest, the oldest first, until none is left or wanted.

    All at once: every job that runs is raised to a common level, and the oldest of those at it to one more.
    """
    running = [claim for claim in claims if held[claim.job]]
    spare = budget - sum(held[claim.job] for claim in running)
    if spare <= 0 or not running:
        return
    low, high = min(held[claim.job] for claim in running), max(claim.most for claim in running)
    while low < high:  # the highest level that can be paid for
        level = (low + high + 1) // 2
        if sum(max(min(level, claim.most) - held[claim.job], 0) for claim in running) <= spare:
            low = level
        else:
            high = level - 1
    for claim in running:
        raised = max(held[claim.job], min(low, claim.most))
        spare -= raised - held[claim.job]
        held[claim.job] = raised
    for claim in running:
        if spare and held[claim.job] == low < claim.most:
            held[claim.job] += 1
            spare -= 1
