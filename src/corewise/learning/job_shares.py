"""Decisions per job from what jobs report: the index for what is known, equal shares for what is not.

A job of a class whose speeds were measured is given cores by a policy for jobs, with its own table of speeds
and the work that is expected before it. A class of which nothing was measured yet gets equal shares beside
them, and so does one that reports no progress at all.

What is not known is explored as jobs arrive: the first jobs of a class hold one core each, until one has
reported; after that none holds more than twice the most cores that the class was seen at.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

from corewise.kit.arrays import Floats
from corewise.kit.times import spoken_duration
from corewise.learning.present_jobs import PresentJob, PresentJobs
from corewise.model.job_class import JobClass
from corewise.model.sizes import SizeLaw
from corewise.model.speedup import Amdahl
from corewise.model.system import System
from corewise.policies.base import BoundPolicy, Policy, bind
from corewise.policies.equi import Equi
from corewise.policies.jobs.index import JobIndex
from corewise.policies.jobs.state import JobState

__all__ = ["Basis", "JobShares", "described"]

_SILENT = 2
"""Decisions through which a job has held cores without a report: then its class is taken to send none."""

_DOUBLING = 2
"""Times the widest that a class was seen at: the widest that a job of it is given."""

_MOST_BOUND = 1024
"""Policies that are kept bound, one to each number of cores and set of classes."""

_SOME = 200.0
"""Work on one core, in units of time, of a job of a class of which no size is known at all."""

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
    classes : mapping
        What is known of classes beforehand, by name.
    policy : Policy or None
        The policy for jobs whose speeds are known; None for job-index with the long-run load that was seen.
    jobs : PresentJobs
        The jobs that are present and what they have reported.
    pause : float, optional
        How long a job stands still whose cores change, which another width has to be worth.

    Attributes
    ----------
    bases : dict
        What the cores of each job were decided from last.
    silent : set
        Classes that report no progress.
    """

    classes: dict[str, JobClass]
    policy: Policy | None
    jobs: PresentJobs
    pause: float = 0.0
    bases: dict[str, Basis] = field(default_factory=dict)
    silent: set[str] = field(default_factory=set)
    _bound: dict[tuple[object, ...], BoundPolicy] = field(default_factory=dict)

    @property
    def in_force(self) -> Policy:
        """The policy for jobs whose speeds are known."""
        return JobIndex(load=round(self.jobs.load, 2)) if self.policy is None else self.policy

    def knows(self, job_class: str) -> bool:
        """Return whether a speed of a class was measured."""
        return self.jobs.widest[job_class] > 0

    def job_class(self, name: str) -> JobClass:
        """Return what is known of a class beforehand, of a new one its name."""
        if name not in self.classes:
            self.classes[name] = JobClass(name, speedup=_ANY)
        return self.classes[name]

    def _sized(self, name: str, law: tuple[float, SizeLaw] | None) -> JobClass:
        """Return what is known of a class, with the sizes that were learned where none were given."""
        known = self.job_class(name)
        if law is None or known.size_rate is not None:
            return known
        return replace(known, size_rate=1.0 / law[0], sizes=law[1])

    def decide(self, time: float, cores: int, without: Collection[str] = ()) -> dict[str, int]:
        """Return the whole cores of every job that is present, of so many cores, but for some jobs."""
        now = self.jobs.at(time)
        self.jobs.learn()
        jobs = [job for job in self.jobs.by_name.values() if job.name not in without]
        for job in jobs:
            job.silent += job.held > 0 and now > job.resumes
        known = [job for job in jobs if self.knows(job.job_class)]
        others = [job for job in jobs if not self.knows(job.job_class)]
        self.silent |= {job.job_class for job in others if job.silent >= _SILENT}
        self.bases = {}
        found = self._equal(others, len(jobs), cores)
        left = cores - sum(found.values())
        states = [self._state(job, left) for job in known]
        found |= self._allocated(self.in_force, left, states)
        for state in states:
            speeds = state.speeds
            self.bases[state.name] = Basis(
                found[state.name],
                0 if speeds is None else speeds.size - 1,
                self.jobs.widest[state.job_class],
                len(jobs),
                len(others),
                speeds,
                math.nan if state.remaining is None else state.remaining,
            )
        return {job.name: found[job.name] for job in jobs}

    def _equal(self, others: Sequence[PresentJob], present: int, cores: int) -> dict[str, int]:
        """Return the cores of jobs that are not known: equal shares, no more than they may try."""
        tops = [self._top(job, cores) for job in others]
        share = min(math.ceil(cores * len(others) / max(present, 1)), sum(tops), cores)
        states = [
            JobState(
                job.name,
                job.job_class,
                held=job.held,
                attained=job.served,
                min_cores=job.min_cores,
                max_cores=top,
            )
            for job, top in zip(others, tops, strict=True)
        ]
        found = self._allocated(Equi(), share, states)
        for job, top in zip(others, tops, strict=True):
            silent = job.job_class in self.silent
            self.bases[job.name] = Basis(found[job.name], top, 0, present, len(others), silent=silent)
        return found

    def _top(self, job: PresentJob, cores: int) -> int:
        """Return the most cores of a job of a class of which nothing was measured."""
        low, high = self._limits(job)
        top = cores if job.job_class in self.silent else low
        return max(top if high is None else min(top, high), low)

    def _limits(self, job: PresentJob) -> tuple[int, int | None]:
        """Return the fewest and the most cores of a job."""
        known = self.job_class(job.job_class)
        given = [most for most in (job.max_cores, known.max_cores) if most is not None]
        return job.min_cores or known.min_cores, min(given, default=None)

    def _state(self, job: PresentJob, cores: int) -> JobState:
        """Return the state of a job whose speeds are known, with work in time on one core."""
        low = self._limits(job)[0]
        top = max(min(cores, _DOUBLING * self.jobs.widest[job.job_class]), low)
        speeds, work = self.jobs.expected(job)
        attained = 0.0 if math.isnan(work.attained) else work.attained
        remaining: float | None = _SOME if math.isnan(work.remaining) else work.remaining
        law = self.jobs.learned[job.job_class].size_law
        if law is not None and self.jobs.reports_of(job).size is None:
            remaining = None  # the distribution of sizes says more than its mean
        if job.declared is not None:
            remaining = max(job.declared - attained, _LEAST_LEFT * job.declared)
        return JobState(
            job.name,
            job.job_class,
            attained=attained,
            remaining=remaining,
            held=job.held,
            speeds=speeds[: top + 1],
            min_cores=job.min_cores,
            max_cores=job.max_cores,
            waited=0.0 if job.held else max(self.jobs.time - job.since, 0.0),
        )

    def _allocated(self, policy: Policy, cores: int, states: Sequence[JobState]) -> dict[str, int]:
        """Return the whole cores of jobs by a policy, which is bound once to each number of cores."""
        found = {state.name: 0 for state in states}
        fitting = [
            state
            for state in states
            if cores >= (state.min_cores or self.job_class(state.job_class).min_cores)
        ]
        if not fitting:
            return found
        names = sorted({state.job_class for state in fitting})
        laws = tuple((name, self.jobs.learned[name].size_law) for name in names)
        key = cores, laws, policy
        if key not in self._bound:
            if len(self._bound) > _MOST_BOUND:
                self._bound.clear()
            self._bound[key] = bind(policy, System(cores, [self._sized(*known) for known in laws]))
        widths = self._bound[key].allocate_jobs(fitting, whole=True, pause=self.pause)
        return found | {name: int(width) for name, width in widths.items()}


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
