r"""The job table of a live pool: the cores that each job may hold, was assigned, and holds.

A job that is to shrink holds its cores until it reports otherwise, and one that is to grow may not have them
yet. So a core is free only where no job holds it and none was assigned it: growth is instructed while

    Σ_jobs max(held, assigned) ≤ pool,

and what does not fit waits for the next report of what a job holds. Shrinks are instructed at once.

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

__all__ = ["JobTable", "PoolJob"]

_DOUBLINGS = 5  # of the time after which a refused start is tried again
_KEYS = {"assigned": "told", "assigned_at": "told_at"}  # in snapshots, as version 0.2 wrote them


@dataclass(slots=True)
class PoolJob:
    """Job that is present in a live pool.

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
    held : int
        The cores that it holds.
    assigned : int
        The cores that it was assigned last.
    target : int
        The cores that it should hold.
    assigned_at : float
        Since when it has not followed: when it was assigned cores, or last reported what it holds.
    held_at : float
        The time of the last report of what it holds, by the clock of its sender.
    begun : bool
        Whether it was ever assigned cores, or held some.
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
    assigned: int = 0
    target: int = 0
    assigned_at: float = 0.0
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
        return max(self.held, self.assigned, self.withdrawn)

    def assign(self, cores: int, time: float, *, late_moves: bool = False) -> None:
        """Assign cores to it; assigned others before it has followed, it is late all the same."""
        if self.held == self.assigned:
            self.assigned_at = time
        self.assigned = cores
        self.generation += 1
        if late_moves:
            self.unanswered.append((self.generation, cores, time))
        self.begun = self.begun or cores > 0

    def answer(self, cores: int, generation: int | None) -> bool:
        """Take instructions up to a generation as answered; return whether that is the last one.

        Without a generation it is the first instruction to hold so many cores that is answered.
        """
        if generation is None:
            fitting = (number for number, assigned, _ in self.unanswered if assigned == cores)
            last = self.generation if cores == self.assigned else 0
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
            self.assigned, self.begun = 0, False
            if not fits:
                self.retry_at = time + retry * 2.0 ** min(self.refusals, _DOUBLINGS)
                self.refusals += 1
                return
        if cores < self.held:
            self.pinned = True
        elif fits is not None or self.held:
            self.most = max(self.held, min(fits or 0, cores - 1), 1)
            self.least = None if self.least is None else min(self.least, self.most)


class JobTable:
    """Jobs of a live pool, in order of arrival, with the limits of their classes.

    With many jobs waiting, most of them hold nothing and are to hold nothing. Those that do are kept apart,
    so that sharing the cores takes as long as there are cores and not as there are jobs.

    Parameters
    ----------
    limits : sequence of (int, int or None)
        The least and the most cores of a job of each class.
    late_moves : bool, optional
        Whether a job may yet carry out an instruction that a later one has replaced.
    """

    def __init__(self, limits: Sequence[tuple[int, int | None]], *, late_moves: bool = False) -> None:
        self.limits = list(limits)
        self.late_moves = late_moves
        self.by_name: dict[str, PoolJob] = {}
        self._queues: list[dict[str, PoolJob]] = [{} for _ in self.limits]
        self._active: dict[int, PoolJob] = {}  # those with cores held, assigned or aimed at
        self._refused: dict[int, PoolJob] = {}  # those whose start was refused
        self._own = [0] * len(self.limits)  # how many have a least of their own
        self._named = 0

    def __iter__(self) -> Iterator[PoolJob]:
        """Iterate over the jobs, oldest first."""
        return iter(self.by_name.values())

    @property
    def counts(self) -> tuple[int, ...]:
        """The jobs of each class."""
        return tuple(map(len, self._queues))

    @property
    def active(self) -> list[PoolJob]:
        """The jobs that hold cores, are assigned some or should hold some, oldest first."""
        return sorted(self._active.values(), key=attrgetter("age"))

    def of_class(self, job_class: int) -> Iterable[PoolJob]:
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
    ) -> PoolJob:
        """Take in a job."""
        job = PoolJob(name, job_class, self._named, arrived, least, most, held, held, held, came=came)
        self._named += 1
        self._list(job)
        return job

    def _list(self, job: PoolJob) -> None:
        self.by_name[job.name] = self._queues[job.job_class][job.name] = job
        self._own[job.job_class] += job.least is not None
        if job.taken or job.target:
            self._active[job.age] = job
        elif job.refusals:
            self._refused[job.age] = job

    def remove(self, name: str) -> PoolJob:
        """Let a job go."""
        job = self.by_name.pop(name)
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
        self.by_name, self._active, self._refused = {}, {}, {}
        self._queues, self._own = [{} for _ in self.limits], [0] * len(self.limits)
        for job, place in zip(jobs, places, strict=True):
            job.job_class = place
            self._list(job)

    def hold(self, job: PoolJob, cores: int, generation: int | None = None) -> None:
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
        job: PoolJob,
        cores: int,
        fits: int | None,
        generation: int | None,
        time: float,
        retry: float,
    ) -> None:
        """Take so many cores to be more than a job can hold, or fewer; see `PoolJob.refuse`."""
        self._own[job.job_class] -= job.least is not None
        job.refuse(cores, fits, generation, time, retry)
        self._own[job.job_class] += job.least is not None
        if job.refusals:
            self._refused[job.age] = job

    def retry_at(self, time: float) -> float:
        """Return when the next job whose start was refused is offered cores again; infinite if none is."""
        return min((job.retry_at for job in self._refused.values() if job.retry_at > time), default=math.inf)

    def bounds(self, job: PoolJob, pool: int) -> tuple[int, int]:
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
    def pinned(self) -> list[PoolJob]:
        """The jobs that have refused to give up cores, oldest first."""
        return [job for job in self.active if job.pinned]

    def beside(self, kept: Sequence[PoolJob], given: Sequence[int], pool: int) -> tuple[list[int], int]:
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
                job = self.by_name[name]
                job.target = cores
                self._active[job.age] = job

    def keep(self, pool: int, time: float) -> None:
        """Set the target of every job to the cores it was assigned; share out the rest to those that wait.

        Where there are no longer so many cores, all that run have fewer, but for those that refuse to.
        """
        pinned = self.pinned
        running = [job for job in self.active if job.assigned and not job.pinned]
        waiting = [
            _Queue([job for job in queue.values() if not job.assigned], self, pool, time)
            for queue in self._queues
        ]
        nothing = [0] * len(self.limits)
        kept = {job.name: job.assigned for job in running}
        rest = self.beside(pinned, nothing, pool)[1]
        if sum(kept.values()) > rest:
            claims = [
                self.claim(job, pool)._replace(
                    least=min(self.bounds(job, pool)[0], job.assigned), most=job.assigned
                )
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

    def claim(self, job: PoolJob, pool: int) -> Claim:
        """Return the claim of a job on the cores of a pool."""
        return Claim(job.name, job.job_class, job.age, *self.bounds(job, pool))

    def moves(self, pool: int, time: float) -> list[PoolJob]:
        """Assign every job as much of its target as is free; return those that were, shrinks first."""
        active = self.active
        shrinks = [job for job in active if job.target < job.assigned]
        for job in shrinks:
            job.assign(job.target, time, late_moves=self.late_moves)
        growing = [job for job in active if job.target > job.assigned]
        free = pool - sum(job.taken for job in active) if growing else 0
        growths = []
        for job in growing:
            new = min(job.target, job.taken + max(free, 0))
            if new <= job.assigned or new < self.bounds(job, pool)[0]:
                continue
            before = job.taken
            job.assign(new, time, late_moves=self.late_moves)
            free -= job.taken - before
            growths.append(job)
        return [*shrinks, *growths]

    def snapshot(self) -> dict[str, Any]:
        """Return all of it as plain values."""
        jobs = [{_KEYS.get(name, name): getattr(job, name) for name in PoolJob.__slots__} for job in self]
        return {"limits": self.limits, "named": self._named, "jobs": jobs}

    @classmethod
    def of(cls, snapshot: Mapping[str, Any], *, late_moves: bool = False) -> JobTable:
        """Return the job table of a snapshot."""
        names = {key: name for name, key in _KEYS.items()}
        table = cls([(least, most) for least, most in snapshot["limits"]], late_moves=late_moves)
        table._named = snapshot["named"]
        for row in snapshot["jobs"]:
            values = {names.get(key, key): value for key, value in row.items()}
            values["unanswered"] = [tuple(instruction) for instruction in row["unanswered"]]
            table._list(PoolJob(**values))
        return table


class _Queue:
    """Claims of the jobs of a class, oldest first, made as they are read; not of jobs that are to wait."""

    def __init__(self, jobs: Iterable[PoolJob], table: JobTable, pool: int, time: float) -> None:
        self._jobs, self._table, self._pool, self._time = jobs, table, pool, time

    def __iter__(self) -> Iterator[Claim]:
        claim, pool, time = self._table.claim, self._pool, self._time
        return (claim(job, pool) for job in self._jobs if job.retry_at <= time and not job.pinned)


def _limits(job_class: JobClass) -> tuple[int, int | None]:
    return job_class.min_cores, job_class.max_cores


def _within(least: int, most: int | None, pool: int) -> tuple[int, int]:
    """Return limits in a pool: no job has more than there is."""
    return least, max(least, pool if most is None else min(most, pool))
