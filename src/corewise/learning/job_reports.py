"""Jobs that are present and what they report: cores held, work done, pauses.

Times are those of the reports; a report dated before the last one of its job counts at the time of that. What
cannot be right and is no error of the caller's is counted, so that it can be said.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

from corewise.errors import InvalidInput, nearest
from corewise.kit import checks
from corewise.learning.job_learner import JobLearner, ProgressReport

__all__ = ["JobReports", "PresentJob"]


@dataclass(slots=True)
class PresentJob:
    """Job that is present.

    Attributes
    ----------
    name, job_class : str
        Its name and its class.
    arrived : float
        When it came.
    declared : float or None
        The work before it as it came, in units of work on one core, if it was given.
    min_cores, max_cores : int or None
        Limits of its own.
    held : int
        The cores that it holds.
    since : float
        Since when it holds them, or none.
    resumes : float
        Until when it stands still, as its cores have changed.
    reported : float
        When it reported last.
    work : float
        The work that it has done, in a unit of its class.
    served : float
        The core-time that it has had.
    fraction : float or None
        The fraction of its work that is done, if it says so.
    silent : int
        Decisions since it last reported progress, at which it held cores.
    reports : int
        How often it has reported progress.
    """

    name: str
    job_class: str
    arrived: float
    declared: float | None = None
    min_cores: int = 0
    max_cores: int | None = None
    held: int = 0
    since: float = 0.0
    resumes: float = 0.0
    reported: float = 0.0
    work: float = 0.0
    served: float = 0.0
    fraction: float | None = None
    silent: int = 0
    reports: int = 0
    mixed: bool = False


class JobReports:
    """Jobs that are present, by name, whose reports are handed on to a learner.

    Parameters
    ----------
    learner : JobLearner
        Takes in what they report.
    pause : float
        How long a job stands still whose cores change.
    """

    def __init__(self, learner: JobLearner, pause: float) -> None:
        self.learner, self.pause = learner, pause
        self.jobs: dict[str, PresentJob] = {}
        self.widest: dict[str, int] = {}
        self.arrived: Counter[str] = Counter()
        self.finished: Counter[str] = Counter()
        self.odd: Counter[str] = Counter()
        self.time = -math.inf

    def __getitem__(self, name: str) -> PresentJob:
        """Return a job that is present."""
        try:
            return self.jobs[name]
        except (KeyError, TypeError):
            hint = nearest(str(name), list(self.jobs)) if self.jobs else ", nor is any other"
            raise InvalidInput(f"no job {checks.shown(name)} is there{hint}") from None

    def at(self, time: float, since: float = -math.inf) -> float:
        """Return a time, not before `since`: what is dated before that counts then."""
        when = checks.finite(time, "time")
        if when < since:
            self.odd["dated before the last report of their job"] += 1
            when = since
        self.time = max(self.time, when)
        return when

    def arrive(self, job: PresentJob) -> None:
        """Take in a job."""
        if job.name in self.jobs:
            raise InvalidInput(f"job name {job.name!r} is used twice: that job is there already")
        self.jobs[job.name] = job
        self.arrived[job.job_class] += 1

    def hold(self, name: str, cores: int, time: float) -> None:
        """Take in the cores that a job holds from now on."""
        job = self[name]
        count = checks.whole(cores, f"job {name!r}: cores", least=0)
        when = self.at(time, job.since)
        if count == job.held:
            return
        job.served += job.held * max(when - max(job.since, job.resumes), 0.0)
        job.mixed = job.mixed or (job.held > 0 and when > max(job.reported, job.resumes))
        job.held, job.since = count, when
        job.resumes = when + self.pause if count else when
        job.silent = 0

    def progress(self, name: str, time: float, amount: float, fraction: float | None = None) -> None:
        """Take in work that a job has done since its last report."""
        job = self[name]
        done = checks.within(amount, 0.0, math.inf, f"job {name!r}: amount")
        if fraction is not None:
            checks.within(fraction, 0.0, 1.0, f"job {name!r}: fraction")
        when = self.at(time, job.reported)
        began = max(job.reported, job.resumes, job.since)
        if fraction is not None and job.fraction is not None and fraction < job.fraction:
            self.odd["fractions that go back"] += 1
            fraction = job.fraction
        if done and job.held and when > began and not job.mixed:
            self.learner.add(
                ProgressReport(job.job_class, name, job.held, done, when - began, job.work, fraction)
            )
            self.widest[job.job_class] = max(self.widest.get(job.job_class, 0), job.held)
        elif done and not job.held:
            self.odd["progress of jobs that hold no cores"] += 1
        job.work += done
        job.fraction = fraction if fraction is not None else job.fraction
        job.reported, job.mixed, job.silent = when, False, 0
        job.reports += 1

    def leave(self, name: str, time: float, *, finished: bool) -> PresentJob:
        """Let a job go."""
        job = self[name]
        self.at(time, job.since)
        del self.jobs[name]
        if finished:
            self.finished[job.job_class] += 1
            if job.work > 0.0:
                self.learner.finish(job.job_class, job.work)
        return job
