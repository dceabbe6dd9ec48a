r"""The jobs of a live pool: what each may hold, was told to hold, and holds.

A job that is told to shrink holds its cores until it says otherwise, and one that is told to grow may not
have them yet. So a core is counted on only where nobody holds it and nobody was told to: growth is instructed
while

    Σ_jobs max(held, told) ≤ pool,

and what does not fit waits for the next time a job says what it holds. Shrinks are instructed at once.

Where instructions travel, a job may yet carry out one that a later one has replaced: assigned 16 cores and
then 8, it may hold 16 for a while. There, with `late_moves`, every instruction that is not answered yet
counts. Instructions to a job have numbers, its *generations*, and an answer that names one answers all up to
it. One that names none answers the first that it fits: assigned 8, 16 and 8, a job that reports 8 may yet
take 16. Instructions that were replaced and not carried out for a while count no longer. Engines of this
process carry out the last instruction only.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from corewise.model.job_class import JobClass
from corewise.model.system import System
from corewise.policies.moving.share import Claim, share, share_queues

__all__ = ["Roster", "RosterJob"]

_DOUBLINGS = 5  # of the time after which a refused start is tried again


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
    generation : int
        The number of the last instruction to it.
    unanswered : list of (int, int, float)
        Instructions that it may yet carry out: generation, cores, and when each was given.
    came : float
        When it came, or was first reported if it was there before.
    retry_at : float
        Before when it is offered no cores, as its start was refused.
    refusals : int
        How often its start was refused since it last held cores.
    pinned : bool
        Whether it has refused to give up cores: it keeps those that it holds.
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
    generation: int = 0
    unanswered: list[tuple[int, int, float]] = field(default_factory=list)
    came: float = -math.inf
    retry_at: float = -math.inf
    refusals: int = 0
    pinned: bool = False

    @property
    def withdrawn(self) -> int:
        """The most cores of an instruction that was replaced and may yet be carried out."""
        return max((cores for number, cores, _ in self.unanswered if number < self.generation), default=0)

    @property
    def taken(self) -> int:
        """The cores that no other job can count on."""
        return max(self.held, self.told, self.withdrawn)

    def tell(self, cores: int, time: float, *, late_moves: bool = False) -> None:
        """Tell it what to hold; told anew before it has followed, it is late all the same."""
        if self.held == self.told:
            self.told_at = time
        self.told = cores
        self.generation += 1
        if late_moves:
            self.unanswered.append((self.generation, cores, time))
        self.begun = self.begun or cores > 0

    def answer(self, cores: int, generation: int | None) -> bool:
        """Take instructions up to a generation as answered; return whether that is the last one.

        Without a generation it is the first instruction to hold so many cores that is answered.
        """
        if generation is None:
            fitting = (number for number, told, _ in self.unanswered if told == cores)
            last = self.generation if cores == self.told else 0
            generation = next(fitting, last)
        self.unanswered = [row for row in self.unanswered if row[0] > generation]
        return generation == self.generation

    def forget_unanswered(self, before: float) -> None:
        """Drop instructions that were given before a time and have been replaced since."""
        self.unanswered = [row for row in self.unanswered if row[2] >= before or row[0] == self.generation]

    def refuse(self, cores: int, fits: int | None, generation: int | None, time: float, retry: float) -> None:
        """Take so many cores to be more than it can hold, or fewer.

        A job whose start was refused holds nothing and is to hold nothing, unless there is a later
        instruction. If it is known how many cores would fit, it is offered those; otherwise it is offered
        cores again after a while, which doubles each time.
        """
        if not self.answer(cores, generation) and not self.held:
            return
        if not self.held:
            self.told, self.begun = 0, False
            if not fits:
                self.retry_at = time + retry * 2.0 ** min(self.refusals, _DOUBLINGS)
                self.refusals += 1
                return
        if cores < self.held:
            self.pinned = True
        elif fits is not None or self.held:
            self.most = max(self.held, min(fits or 0, cores - 1), 1)
            self.least = None if self.least is None else min(self.least, self.most)


class Roster:
    """Jobs of a live pool, in order of arrival, with the limits of their classes.

    With many jobs waiting, most of them hold nothing and are to hold nothing. Those that do are kept apart,
    so that sharing the cores takes as long as there are cores and not as there are jobs.

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
        self._queues: list[dict[str, RosterJob]] = [{} for _ in self.limits]
        self._active: dict[int, RosterJob] = {}  # those with cores held, assigned or aimed at
        self._refused: dict[int, RosterJob] = {}  # those whose start was refused
        self._own = [0] * len(self.limits)  # how many have a least of their own
        self._named = 0

    def __iter__(self) -> Iterator[RosterJob]:
        """Iterate over the jobs, oldest first."""
        return iter(self.jobs.values())

    @property
    def counts(self) -> tuple[int, ...]:
        """The jobs of each class."""
        return tuple(map(len, self._queues))

    @property
    def active(self) -> list[RosterJob]:
        """The jobs that hold cores, are assigned some or should hold some, oldest first."""
        return sorted(self._active.values(), key=attrgetter("age"))

    def of_class(self, job_class: int) -> Iterable[RosterJob]:
        """Return the jobs of a class, oldest first."""
        return self._queues[job_class].values()

    def add(
        self,
        name: str,
        job_class: int,
        arrived: float,
        least: int | None,
        most: int | None,
        held: int,
        came: float,
    ) -> RosterJob:
        """Take in a job."""
        job = RosterJob(name, job_class, self._named, arrived, least, most, held, held, held, came=came)
        self._named += 1
        self._list(job)
        return job

    def _list(self, job: RosterJob) -> None:
        self.jobs[job.name] = self._queues[job.job_class][job.name] = job
        self._own[job.job_class] += job.least is not None
        if job.taken or job.target:
            self._active[job.age] = job
        elif job.refusals:
            self._refused[job.age] = job

    def remove(self, name: str) -> RosterJob:
        """Let a job go."""
        job = self.jobs.pop(name)
        del self._queues[job.job_class][name]
        self._own[job.job_class] -= job.least is not None
        self._active.pop(job.age, None)
        self._refused.pop(job.age, None)
        return job

    def change_classes(self, old: System, new: System) -> None:
        """Have other classes: jobs keep theirs, by name, which must be there.

        Limits of a class that were changed since stay, unless the new system has others than the old one.
        """
        before = dict(zip(old.names, self.limits, strict=True))
        jobs = list(self)
        places = [new.index(old.names[job.job_class]) for job in jobs]
        self.limits = [
            before[one.name]
            if one.name in old.names and _limits(old[one.name]) == _limits(one)
            else _limits(one)
            for one in new.classes
        ]
        self.jobs, self._active, self._refused = {}, {}, {}
        self._queues, self._own = [{} for _ in self.limits], [0] * len(self.limits)
        for job, place in zip(jobs, places, strict=True):
            job.job_class = place
            self._list(job)

    def hold(self, job: RosterJob, cores: int, generation: int | None = None) -> None:
        """Set the cores that a job holds, and which instruction that answers."""
        job.answer(cores, generation)
        job.pinned = job.pinned and cores == job.held
        job.held = cores
        job.begun = job.begun or cores > 0
        if cores:
            job.refusals = 0
            self._active[job.age] = job
            self._refused.pop(job.age, None)

    def refuse(
        self,
        job: RosterJob,
        cores: int,
        fits: int | None,
        generation: int | None,
        time: float,
        retry: float,
    ) -> None:
        """Take so many cores to be more than a job can hold, or fewer; see `RosterJob.refuse`."""
        self._own[job.job_class] -= job.least is not None
        job.refuse(cores, fits, generation, time, retry)
        self._own[job.job_class] += job.least is not None
        if job.refusals:
            self._refused[job.age] = job

    def retry_at(self, time: float) -> float:
        """Return when the next job whose start was refused is offered cores again; infinite if none is."""
        return min((job.retry_at for job in self._refused.values() if job.retry_at > time), default=math.inf)

    def bounds(self, job: RosterJob, pool: int) -> tuple[int, int]:
        """Return the least and the most cores of a job in a pool."""
        least, most = self.limits[job.job_class]
        return _within(
            least if job.least is None else job.least, most if job.most is None else job.most, pool
        )

    def aim(self, given: Sequence[int], pool: int, time: float) -> None:
        """Set the target of every job for the cores that a policy gives to each class.

        A job that has refused to give up cores keeps them; the others share what is left.
        """
        kept = self.pinned
        queues = [_Queue(queue.values(), self, pool, time) for queue in self._queues]
        left, rest = self.beside(kept, given, pool)
        self.assign(
            {**{job.name: job.held for job in kept}, **share_queues(queues, left, rest, self._leasts)}
        )

    @property
    def pinned(self) -> list[RosterJob]:
        """The jobs that have refused to give up cores, oldest first."""
        return [job for job in self.active if job.pinned]

    def beside(self, kept: Sequence[RosterJob], given: Sequence[int], pool: int) -> tuple[list[int], int]:
        """Return the cores of each class and of the pool that are left beside jobs that keep theirs."""
        left, rest = list(given), pool
        for job in kept:
            left[job.job_class] = max(left[job.job_class] - job.held, 0)
            rest = max(rest - job.held, 0)
        while sum(left) > rest:  # a class had less than one job of it keeps
            left[left.index(max(left))] -= 1
        return left, rest

    def assign(self, targets: Mapping[str, int]) -> None:
        """Set the target of every job, by its name; of those that are not named to zero."""
        for job in self._active.values():
            job.target = 0
        self._active = {age: job for age, job in self._active.items() if job.taken}
        for name, cores in targets.items():
            if cores:
                job = self.jobs[name]
                job.target = cores
                self._active[job.age] = job

    def keep(self, pool: int, time: float) -> None:
        """Set the target of every job to what it was told, and share out what is left to those that wait.

        Where there are no longer so many cores, all that run have fewer, but for those that refuse to.
        """
        pinned = self.pinned
        running = [job for job in self.active if job.told and not job.pinned]
        waiting = [
            _Queue([job for job in queue.values() if not job.told], self, pool, time)
            for queue in self._queues
        ]
        nothing = [0] * len(self.limits)
        kept = {job.name: job.told for job in running}
        rest = self.beside(pinned, nothing, pool)[1]
        if sum(kept.values()) > rest:
            claims = [
                self.claim(job, pool)._replace(least=min(self.bounds(job, pool)[0], job.told), most=job.told)
                for job in running
            ]
            kept = dict(share(claims, nothing, rest))
        rest -= sum(kept.values())
        kept |= {job.name: job.held for job in pinned}
        self.assign({**kept, **share_queues(waiting, nothing, rest, self._leasts)})

    @property
    def _leasts(self) -> list[int]:
        """Lower bounds of the least cores of the jobs of each class."""
        return [1 if own else least for own, (least, _) in zip(self._own, self.limits, strict=True)]

    def claim(self, job: RosterJob, pool: int) -> Claim:
        """Return the claim of a job on the cores of a pool."""
        return Claim(job.name, job.job_class, job.age, *self.bounds(job, pool))

    def moves(self, pool: int, time: float) -> list[RosterJob]:
        """Tell every job as much of its target as can be told now; return those told, shrinks first."""
        active = self.active
        shrinks = [job for job in active if job.target < job.told]
        for job in shrinks:
            job.tell(job.target, time, late_moves=self.late_moves)
        growing = [job for job in active if job.target > job.told]
        free = pool - sum(job.taken for job in active) if growing else 0
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
        jobs = [{name: getattr(job, name) for name in RosterJob.__slots__} for job in self]
        return {"limits": self.limits, "named": self._named, "jobs": jobs}

    @classmethod
    def of(cls, snapshot: Mapping[str, Any], *, late_moves: bool = False) -> Roster:
        """Return the roster of a snapshot."""
        roster = cls([(least, most) for least, most in snapshot["limits"]], late_moves=late_moves)
        roster._named = snapshot["named"]
        for row in snapshot["jobs"]:
            unanswered = [tuple(told) for told in row["unanswered"]]
            roster._list(RosterJob(**{**row, "unanswered": unanswered}))
        return roster


class _Queue:
    """Claims of the jobs of a class, oldest first, made as they are read; not of jobs that are to wait."""

    def __init__(self, jobs: Iterable[RosterJob], roster: Roster, pool: int, time: float) -> None:
        self._jobs, self._roster, self._pool, self._time = jobs, roster, pool, time

    def __iter__(self) -> Iterator[Claim]:
        claim, pool, time = self._roster.claim, self._pool, self._time
        return (claim(job, pool) for job in self._jobs if job.retry_at <= time and not job.pinned)


def _limits(job_class: JobClass) -> tuple[int, int | None]:
    return job_class.min_cores, job_class.max_cores


def _within(least: int, most: int | None, pool: int) -> tuple[int, int]:
    """Return limits in a pool: no job has more than there is."""
    return least, max(least, pool if most is None else min(most, pool))
