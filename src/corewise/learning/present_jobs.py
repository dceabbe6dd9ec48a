"""Jobs that are present and what they report: cores held, work done, pauses.

Times are those of the reports; a report dated before the last one of its job counts at the time of that. What
cannot be right and is no error of the caller's is counted, so that it can be said.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field

from corewise.errors import InvalidInput, nearest
from corewise.estimation.progress.learned import LearnedJobs, WorkLeft
from corewise.estimation.progress.reports import JobReports, ReportTally
from corewise.estimation.progress.statistics import ProgressStatistics
from corewise.kit import checks

__all__ = ["PresentJob", "PresentJobs"]


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
    mixed : bool
        Whether its cores have changed since then, while it ran.
    served : float
        The core-time that it has had up to `since`.
    silent : int
        Decisions since it last reported progress, at which it held cores.
    """

    name: str
    job_class: str
    arrived: float
    declared: float | None = None
    min_cores: int = 0
    max_cores: int | None = None
    held: int = 0
    since: float = field(default=-math.inf)
    resumes: float = field(default=-math.inf)
    reported: float = field(default=-math.inf)
    mixed: bool = False
    served: float = 0.0
    silent: int = 0

    def __post_init__(self) -> None:
        self.since, self.resumes, self.reported = (
            max(time, self.arrived) for time in (self.since, self.resumes, self.reported)
        )


class PresentJobs:
    """Jobs that are present, by name, and what is learned from their reports.

    Parameters
    ----------
    cores : int
        The cores there are.
    pause : float
        How long a job stands still whose cores change.
    before : ProgressStatistics, optional
        What was seen before.
    """

    def __init__(self, cores: int, pause: float, before: ProgressStatistics | None = None) -> None:
        self.cores, self.pause = cores, pause
        self.tally = ReportTally()
        self.before = before or ProgressStatistics({})
        self.by_name: dict[str, PresentJob] = {}
        self.arrived: Counter[str] = Counter()
        self.finished: Counter[str] = Counter()
        self.odd: Counter[str] = Counter()
        self.time = -math.inf
        self.widest: Counter[str] = Counter()  # the most cores at which each class has reported
        self.learned = LearnedJobs(self.before, cores)

    def __getitem__(self, name: str) -> PresentJob:
        """Return a job that is present."""
        try:
            return self.by_name[name]
        except (KeyError, TypeError):
            hint = nearest(str(name), list(self.by_name)) if self.by_name else ", nor is any other"
            raise InvalidInput(f"no job {checks.shown(name)} is there{hint}") from None

    # --- what they report ---------------------------------------------------------------------------

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
        if job.name in self.by_name:
            raise InvalidInput(f"job name {job.name!r} is used twice: that job is there already")
        self.by_name[job.name] = job
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
        job.held, job.since, job.silent = count, when, 0
        job.resumes = when + self.pause if count else when

    def progress(self, name: str, time: float, amount: float, fraction: float | None = None) -> None:
        """Take in work that a job has done since its last report."""
        job = self[name]
        when = checks.finite(time, "time")
        ran = max(when - max(job.reported, job.resumes, job.since), 0.0)
        cores = None if job.mixed or not ran else job.held
        self.tally.report(name, job.job_class, cores=cores, amount=amount, seconds=ran, fraction=fraction)
        if cores and amount:
            self.widest[job.job_class] = max(self.widest[job.job_class], cores)
        job.reported = self.at(when, job.reported)
        job.mixed, job.silent = False, 0
        if amount and not job.held:
            self.odd["progress of jobs that hold no cores"] += 1

    def leave(self, name: str, time: float, *, finished: bool) -> PresentJob:
        """Let a job go."""
        job = self[name]
        self.at(time, job.since)
        del self.by_name[name]
        if finished:
            self.finished[job.job_class] += 1
            self.tally.finished(name)
        else:
            self.tally.ended(name)
        return job

    # --- what is learned ----------------------------------------------------------------------------

    def learn(self) -> None:
        """Learn anew what enough was reported of since."""
        self.learned = self.learned.after(self.tally, self.before)

    @property
    def doubtful(self) -> dict[str, int]:
        """How many reports could not be right, by what was wrong with them."""
        return dict(sum((Counter(counts) for counts in self.tally.odd.values()), self.odd))

    def reports_of(self, job: PresentJob) -> JobReports:
        """Return what a job has reported."""
        return self.tally.jobs.get(job.name) or JobReports(job.job_class)

    def work(self, job: PresentJob) -> WorkLeft:
        """Return the work that a job has done and has before it, in time on one core."""
        said = self.reports_of(job)
        return self.learned[job.job_class].work(said.done, said.fraction)
