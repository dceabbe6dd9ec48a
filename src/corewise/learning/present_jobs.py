"""Jobs that are present and what they report: cores held, work done, pauses.

Times are those of the reports; a report dated before the last one of its job counts at the time of that. What
cannot be right and is no error of the caller's is counted, so that it can be said.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from corewise.errors import InvalidInput, nearest
from corewise.estimation.progress.learned import LearnedClass, LearnedJobs, WorkLeft
from corewise.estimation.progress.reports import JobReports, ReportTally
from corewise.estimation.progress.statistics import ProgressStatistics
from corewise.kit import checks
from corewise.kit.arrays import Floats
from corewise.learning.history import contradicts

__all__ = ["PresentJob", "PresentJobs"]


_COUNTERS = ("arrived", "finished", "odd", "widest")

_WEEK = 7.0 * 86400.0
"""Over which a load is long-run: that of the last hours says nothing of the next."""


_MIXED = 0.02
"""Of the time of a report: for how long a job may have run on other cores, for it to say their speed."""


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
    mixed : float
        For how long it has run since then on other cores than it holds now.
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
    mixed: float = 0.0
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
        What was seen before, of each class until the present contradicts it.
    """

    def __init__(self, cores: int, pause: float, before: ProgressStatistics | None = None) -> None:
        self.cores, self.pause = cores, pause
        self.tally = ReportTally()
        self.opened = math.inf
        self.work_done = 0.0
        self.before = dict(before.classes) if before is not None else {}
        self.contradicted: list[str] = []
        self._expected: dict[str, tuple[LearnedClass, tuple[float, float | None], Floats, WorkLeft]] = {}
        self.by_name: dict[str, PresentJob] = {}
        self.arrived: Counter[str] = Counter()
        self.finished: Counter[str] = Counter()
        self.odd: Counter[str] = Counter()
        self.time = -math.inf
        self.widest: Counter[str] = Counter()  # the most cores at which each class was seen
        self.learned = LearnedJobs(ProgressStatistics(self.before), cores)
        for name in self.before:
            self.widest[name] = self.learned[name].widest

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
        self.time, self.opened = max(self.time, when), min(self.opened, when)
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
        if job.held:
            job.mixed += max(when - max(job.since, job.reported, job.resumes), 0.0)
        job.held, job.since, job.silent = count, when, 0
        job.resumes = when + self.pause if count else when

    def progress(self, name: str, time: float, amount: float, fraction: float | None = None) -> None:
        """Take in work that a job has done since its last report."""
        job = self[name]
        when = checks.finite(time, "time")
        ran = max(when - max(job.reported, job.resumes, job.since), 0.0)
        cores = job.held if job.mixed <= _MIXED * ran else None
        self.tally.report(name, job.job_class, cores=cores, amount=amount, seconds=ran, fraction=fraction)
        if cores and amount:
            self.widest[job.job_class] = max(self.widest[job.job_class], cores)
        job.reported = self.at(when, job.reported)
        job.mixed, job.silent = 0.0, 0
        if amount and not job.held:
            self.odd["progress of jobs that hold no cores"] += 1

    def leave(self, name: str, time: float, *, finished: bool) -> PresentJob:
        """Let a job go."""
        job = self[name]
        self.at(time, job.since)
        attained = self.expected(job)[1].attained
        self.work_done += 0.0 if math.isnan(attained) else attained
        del self.by_name[name], self._expected[name]
        if finished:
            self.finished[job.job_class] += 1
            self.tally.finished(name)
        else:
            self.tally.ended(name)
        return job

    # --- what is learned ----------------------------------------------------------------------------

    def learn(self) -> None:
        """Learn anew what enough was reported of since."""
        made, before = self.learned.after(self.tally, ProgressStatistics(self.before)), len(self.before)
        for name in [name for name in self.before if made[name] is not self.learned[name]]:
            if contradicts(self.tally.seen([name])[name], self.before[name]):
                del self.before[name]
                self.contradicted.append(name)
        if len(self.before) < before:
            made = self.learned.after(self.tally, ProgressStatistics(self.before))
        for name in made if made is not self.learned else ():
            self.widest[name] = max(self.widest[name], made[name].widest)
        self.learned = made

    @property
    def load(self) -> float:
        """The long-run load: the work of jobs that have left, over all cores and a week at least."""
        if not self.work_done:
            return 0.0
        return min(self.work_done / (self.cores * max(self.time - self.opened, _WEEK)), 1.0)

    @property
    def doubtful(self) -> dict[str, int]:
        """How many reports could not be right, by what was wrong with them."""
        return dict(sum((Counter(counts) for counts in self.tally.odd.values()), self.odd))

    def reports_of(self, job: PresentJob) -> JobReports:
        """Return what a job has reported."""
        return self.tally.jobs.get(job.name) or JobReports(job.job_class)

    def expected(self, job: PresentJob) -> tuple[Floats, WorkLeft]:
        """Return the speeds of a job on 0, 1, 2, … cores, and its work in time on one core."""
        learned, said = self.learned[job.job_class], self.reports_of(job)
        known = self._expected.get(job.name)
        if known is None or known[0] is not learned or known[1] != (said.done, said.fraction):
            at = said.done, said.fraction
            known = self._expected[job.name] = learned, at, learned.speeds(*at).speeds, learned.work(*at)
        return known[2], known[3]

    # --- snapshots ----------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, Any]:
        """Return all of it as plain values."""
        return {
            "jobs": [asdict(job) for job in self.by_name.values()],
            "tally": self.tally.snapshot(),
            "before": ProgressStatistics(self.before).as_mapping(),
            "learned": self.learned.snapshot(),
            "contradicted": list(self.contradicted),
            "times": [self.time, self.opened] if math.isfinite(self.time) else None,
            "work_done": self.work_done,
            **{name: dict(getattr(self, name)) for name in _COUNTERS},
        }

    @classmethod
    def of(cls, cores: int, pause: float, snapshot: Mapping[str, Any]) -> PresentJobs:
        """Return what goes on from a snapshot."""
        made = cls(cores, pause, ProgressStatistics.from_mapping(snapshot["before"]))
        made.by_name = {row["name"]: PresentJob(**row) for row in snapshot["jobs"]}
        made.tally = ReportTally.of(snapshot["tally"])
        made.learned = LearnedJobs.of(snapshot["learned"], cores)
        made.contradicted = list(snapshot["contradicted"])
        made.time, made.opened = snapshot["times"] or (made.time, made.opened)
        made.work_done = snapshot["work_done"]
        for name in _COUNTERS:
            setattr(made, name, Counter(snapshot[name]))
        return made
