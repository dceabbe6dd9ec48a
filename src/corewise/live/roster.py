r"""The jobs of a live pool: what each may hold, was told to hold, and holds.

A job that is told to shrink holds its cores until it says otherwise, and one that is told to grow may not
have them yet. So a core is counted on only where nobody holds it and nobody was told to: growth is instructed
while

    Σ_jobs max(held, told) ≤ pool,

and what does not fit waits for the next time a job says what it holds. Shrinks are instructed at once.

Where instructions travel, a job may yet carry out one that was taken back: told 16 cores and then 8, it may
hold 16 for a while. There, with `late_moves`, the most that it was told since it last held what it was told
counts in the place of told. Engines of this process carry out the last instruction only.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from corewise.policies.moving.share import Claim, share

__all__ = ["Roster", "RosterJob"]


@dataclass(slots=True)
class RosterJob:
    """Job in a roster.

    Attributes
    ----------
    name : str
        What its sender calls it.
    job_class : int
        The position of its class.
    age : int
        Its rank by arrival.
    arrived : float
        When it came; NaN if it was there before.
    least, most : int or None
        Limits of its own, in the place of those of its class.
    held, told, target : int
        The cores it holds, those it was last told to hold, and those it should hold.
    told_at : float
        Since when it has not followed: when it was told, or last said what it holds.
    held_at : float
        When it was last heard of what it holds, by the clock of whoever told.
    begun : bool
        Whether it was ever told to hold cores, or held some.
    withdrawn : int
        The most cores it was told and may yet take, though it was told something else since.
    """

    name: str
    job_class: int
    age: int
    arrived: float
    least: int | None
    most: int | None
    held: int = 0
    told: int = 0
    target: int = 0
    told_at: float = 0.0
    held_at: float = -math.inf
    begun: bool = False
    withdrawn: int = 0

    @property
    def taken(self) -> int:
        """The cores that nobody else can count on."""
        return max(self.held, self.told, self.withdrawn)

    def tell(self, cores: int, time: float, *, late_moves: bool = False) -> None:
        """Tell it what to hold; told anew before it has followed, it is late all the same."""
        if self.held == self.told:
            self.told_at = time
        elif late_moves:
            self.withdrawn = max(self.withdrawn, self.told)
        self.told = cores
        self.begun = self.begun or cores > 0

    def refuse(self, cores: int, fits: int | None) -> None:
        """Take so many cores to be more than it can hold, or fewer; one that holds none may still begin."""
        self.withdrawn = 0
        if cores < self.held:
            self.least = self.held
            self.most = None if self.most is None else max(self.most, self.held)
        elif fits is not None or self.held:
            self.most = max(self.held, min(fits or 0, cores - 1), 1)
            self.least = None if self.least is None else min(self.least, self.most)


class Roster:
    """Jobs of a live pool, in order of arrival, with the limits of their classes.

    Parameters
    ----------
    limits : sequence of (int, int or None)
        The least and the most cores of a job of each class.
    late_moves : bool, optional
        Whether a job may yet carry out what it was told before the last instruction.
    """

    def __init__(self, limits: Sequence[tuple[int, int | None]], *, late_moves: bool = False) -> None:
        self.limits = list(limits)
        self.late_moves = late_moves
        self.jobs: dict[str, RosterJob] = {}
        self._named = 0

    def __iter__(self) -> Iterator[RosterJob]:
        """Iterate over the jobs, oldest first."""
        return iter(self.jobs.values())

    @property
    def counts(self) -> tuple[int, ...]:
        """The jobs of each class."""
        counts = [0] * len(self.limits)
        for job in self:
            counts[job.job_class] += 1
        return tuple(counts)

    def add(
        self, name: str, job_class: int, arrived: float, least: int | None, most: int | None, held: int
    ) -> None:
        """Take in a job."""
        self.jobs[name] = RosterJob(name, job_class, self._named, arrived, least, most, held, held, held)
        self._named += 1

    def bounds(self, job: RosterJob, pool: int) -> tuple[int, int]:
        """Return the least and the most cores of a job in a pool."""
        least, most = self.limits[job.job_class]
        return _within(
            least if job.least is None else job.least, most if job.most is None else job.most, pool
        )

    def aim(self, given: Sequence[int], pool: int) -> None:
        """Set the target of every job for the cores that a policy gives to each class."""
        self._set(share(self._claims(self, pool), given, pool))

    def assign(self, targets: Mapping[str, int]) -> None:
        """Set the target of every job, by its name."""
        self._set(targets)

    def keep(self, pool: int) -> None:
        """Set the target of every job to what it was told, and share out what is left to those that wait.

        Where there are no longer so many cores, all that run have fewer.
        """
        running = [job for job in self if job.told]
        waiting = [job for job in self if not job.told]
        nothing = [0] * len(self.limits)
        kept = {job.name: job.told for job in running}
        if sum(kept.values()) > pool:
            claims = [
                claim._replace(least=min(claim.least, job.told), most=job.told)
                for claim, job in zip(self._claims(running, pool), running, strict=True)
            ]
            kept = dict(share(claims, nothing, pool))
        self._set({**kept, **share(self._claims(waiting, pool), nothing, pool - sum(kept.values()))})

    def _claims(self, jobs: Iterable[RosterJob], pool: int) -> list[Claim]:
        """Return the claims of jobs; those without limits of their own have those of their class."""
        bounds = [_within(least, most, pool) for least, most in self.limits]
        return [
            Claim(
                job.name,
                job.job_class,
                job.age,
                *(
                    bounds[job.job_class]
                    if job.least is None and job.most is None
                    else self.bounds(job, pool)
                ),
            )
            for job in jobs
        ]

    def _set(self, targets: Mapping[str, int]) -> None:
        for job in self:
            job.target = targets[job.name]

    def moves(self, pool: int, time: float) -> list[RosterJob]:
        """Tell every job as much of its target as can be told now; return those told, shrinks first."""
        shrinks = [job for job in self if job.target < job.told]
        for job in shrinks:
            job.tell(job.target, time, late_moves=self.late_moves)
        growing = [job for job in self if job.target > job.told]
        free = pool - sum(job.taken for job in self) if growing else 0
        growths = []
        for job in growing:
            new = min(job.target, job.taken + max(free, 0))
            if new <= job.told or new < self.bounds(job, pool)[0]:
                continue
            before = job.taken
            job.tell(new, time, late_moves=self.late_moves)
            free -= job.taken - before
            growths.append(job)
        return [*shrinks, *growths]

    def snapshot(self) -> dict[str, Any]:
        """Return all of it as plain values."""
        return {"limits": self.limits, "named": self._named, "jobs": [asdict(job) for job in self]}

    @classmethod
    def of(cls, snapshot: Mapping[str, Any], *, late_moves: bool = False) -> Roster:
        """Return the roster of a snapshot."""
        roster = cls([(least, most) for least, most in snapshot["limits"]], late_moves=late_moves)
        roster._named = snapshot["named"]
        roster.jobs = {row["name"]: RosterJob(**row) for row in snapshot["jobs"]}
        return roster


def _within(least: int, most: int | None, pool: int) -> tuple[int, int]:
    """Return limits in a pool: nobody has more than there is."""
    return least, max(least, pool if most is None else min(most, pool))
