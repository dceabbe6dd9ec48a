"""Decisions per job from what jobs report: the index for what is known, equal shares for what is not.

A job of a class whose speeds were measured is given cores by a policy for jobs, with its own table of speeds
and the work that is expected before it. A class of which nothing was measured yet gets equal shares beside
them, and so does one that reports no progress at all.

What is not known is explored as jobs arrive: the first jobs of a class hold one core each, until one has
reported; after that none holds more than twice the most cores that the class was seen at.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from corewise.kit.arrays import Floats
from corewise.kit.times import spoken_duration
from corewise.learning.present_jobs import PresentJob, PresentJobs
from corewise.model.job_class import JobClass
from corewise.model.speedup import Amdahl
from corewise.model.system import System
from corewise.policies.base import BoundPolicy, Policy, bind
from corewise.policies.equi import Equi
from corewise.policies.jobs.state import JobState

__all__ = ["Basis", "JobShares", "described"]

_SILENT = 2
"""Decisions through which a job has held cores without a report: then its class is taken to send none."""

_DOUBLING = 2
"""Times the widest that a class was seen at: the widest that a job of it is given."""

CAUTION = 0.0
"""Standard deviations below its estimate at which a speed counts."""

_LEAST_LEFT = 0.01
"""Of the work that was declared: the least that a job has before it, however much it has done."""

_ANY = Amdahl(0.9)


@dataclass(frozen=True, slots=True)
class Basis:
    """What the cores of a job were decided from.

    Attributes
    ----------
    cores : int
        The cores that it is to hold.
    limit : int
        The most that it could have been given.
    seen : int
        The widest that its class was seen at; 0 if nothing was measured.
    present, alike : int
        How many jobs were present, and how many of them of classes that are not known.
    speeds : ndarray or None
        Its speeds on 0, 1, … cores, relative to one, if they are known.
    remaining : float
        The work that is expected before it, in time on one core; NaN if it is not known.
    silent : bool
        Whether its class reports no progress.
    """

    cores: int
    limit: int
    seen: int
    present: int
    alike: int
    speeds: Floats | None = None
    remaining: float = math.nan
    silent: bool = False


@dataclass(eq=False)
class JobShares:
    """Decisions per job.

    Parameters
    ----------
    cores : int
        The cores there are.
    classes : mapping
        What is known of classes beforehand, by name.
    policy : Policy
        The policy for jobs whose speeds are known.
    jobs : PresentJobs
        The jobs that are present and what they have reported.
    """

    cores: int
    classes: dict[str, JobClass]
    policy: Policy
    jobs: PresentJobs
    bases: dict[str, Basis] = field(default_factory=dict)
    _silent: set[str] = field(default_factory=set)
    _bound: dict[tuple[int, tuple[str, ...], bool], BoundPolicy] = field(default_factory=dict)

    def decide(self, time: float) -> dict[str, int]:
        """Return the whole cores of every job that is present."""
        now = self.jobs.at(time)
        self.jobs.learn()
        jobs = list(self.jobs.by_name.values())
        for job in jobs:
            job.silent += job.held > 0 and now > job.resumes
        known = [job for job in jobs if self._knows(job.job_class)]
        others = [job for job in jobs if not self._knows(job.job_class)]
        silent = self._silent
        silent |= {job.job_class for job in others if job.silent >= _SILENT}
        tops = {job.name: self._top(job, silent) for job in others}
        share = self._share(others, tops, len(jobs))
        found: dict[str, int] = {}
        self.bases = {}
        if others:
            states = [
                JobState(
                    job.name,
                    job.job_class,
                    held=job.held,
                    attained=job.served,
                    min_cores=job.min_cores,
                    max_cores=max(tops[job.name], job.min_cores, 1),
                )
                for job in others
            ]
            found |= self._allocated(Equi(), share, states)
        for job in others:
            self.bases[job.name] = Basis(
                found[job.name],
                tops[job.name],
                0,
                len(jobs),
                len(others),
                silent=job.job_class in silent,
            )
        left = self.cores - sum(found.values())
        if known and left:
            states = [self._state(job, left) for job in known]
            found |= self._allocated(self.policy, left, states)
            for job, state in zip(known, states, strict=True):
                seen = self._widest(job.job_class)
                remaining = math.nan if state.remaining is None else state.remaining
                limit = state.speeds.size - 1 if state.speeds is not None else self.cores
                self.bases[job.name] = Basis(
                    found[job.name], limit, seen, len(jobs), len(others), state.speeds, remaining
                )
        return {job.name: found.get(job.name, 0) for job in jobs}

    def _top(self, job: PresentJob, silent: set[str]) -> int:
        """Return the most cores of a job of a class of which nothing was measured."""
        top = self.cores if job.job_class in silent else 1
        limits = (job.max_cores, self.job_class(job.job_class).max_cores)
        return min([top, *(limit for limit in limits if limit is not None)])

    def _share(self, others: Iterable[PresentJob], tops: Mapping[str, int], present: int) -> int:
        """Return the cores for jobs that are not known: an equal share, no more than they can use."""
        listed = list(others)
        equal = math.ceil(self.cores * len(listed) / max(present, 1))
        return min(equal, sum(max(tops[job.name], job.min_cores) for job in listed), self.cores)

    def _state(self, job: PresentJob, cores: int) -> JobState:
        """Return the state of a job whose speeds are known, with work in time on one core."""
        learned, said = self.jobs.learned[job.job_class], self.jobs.reports_of(job)
        top = min(cores, max(_DOUBLING * self._widest(job.job_class), job.min_cores))
        work = learned.work(said.done, said.fraction)
        remaining = work.remaining
        if job.declared is not None:
            remaining = max(job.declared - work.attained, _LEAST_LEFT * job.declared)
        speeds = learned.speeds(said.done, said.fraction).at_least(CAUTION)
        return JobState(
            job.name,
            job.job_class,
            attained=work.attained,
            remaining=remaining,
            held=job.held,
            speeds=speeds[: top + 1],
            min_cores=job.min_cores,
            max_cores=job.max_cores,
            waited=0.0 if job.held else max(self.jobs.time - job.since, 0.0),
        )

    def _knows(self, job_class: str) -> bool:
        return self.jobs.learned[job_class].widest > 0

    def _widest(self, job_class: str) -> int:
        """Return the most cores that a class was seen at, now or before."""
        return max(self.jobs.widest[job_class], self.jobs.learned[job_class].widest)

    def job_class(self, name: str) -> JobClass:
        """Return what is known of a class beforehand, of a new one its name."""
        if name not in self.classes:
            self.classes[name] = JobClass(name, speedup=_ANY)
        return self.classes[name]

    def _allocated(self, policy: Policy, cores: int, states: list[JobState]) -> dict[str, int]:
        """Return the whole cores of jobs by a policy, which is bound once to each number of cores."""
        if not cores:
            return {state.name: 0 for state in states}
        names = tuple(sorted({state.job_class for state in states}))
        key = cores, names, policy is self.policy
        if key not in self._bound:
            system = System(cores, [self.job_class(name) for name in names])
            self._bound[key] = bind(policy, system)
        pause = self.jobs.pause
        return self._bound[key].allocate_jobs(states, whole=True, pause=pause)  # type: ignore[return-value]


def described(job_class: str, basis: Basis) -> str:
    """Return in a sentence what the cores of a job of a class were decided from."""
    if basis.speeds is None:
        others = "the only job" if basis.present == 1 else f"{basis.alike} of {basis.present} jobs"
        why = "reports no progress" if basis.silent else "has not reported progress yet"
        limit = "" if basis.silent else f", on {_cores(basis.limit)} at most until it has"
        return f"class {job_class} {why}: equal shares for {others} that are not known{limit}"
    parts = [f"{_cores(basis.cores)} of class {job_class}, which was seen on {_cores(basis.seen)} at most"]
    if basis.cores == basis.limit == _DOUBLING * basis.seen:
        parts.append("twice as many are tried next")
    if not math.isnan(basis.remaining):
        parts.append(f"{spoken_duration(basis.remaining)} of work on one core before it")
    if basis.cores:
        parts.append(f"{basis.speeds[basis.cores]:.3g} times as fast as on one core")
    if basis.cores + 1 < basis.speeds.size:
        gain = basis.speeds[basis.cores + 1] / max(basis.speeds[basis.cores], 1e-300) - 1.0
        parts.append(
            f"one core more would make it {abs(gain):.0%} {'faster' if gain >= 0.0 else 'slower'}"
            if basis.cores
            else "others are worth more at present"
        )
    return "; ".join(parts)


def _cores(count: int) -> str:
    return "one core" if count == 1 else f"{count} cores"
