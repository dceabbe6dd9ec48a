"""The scheduler: decisions per job in line, for simulators, notebooks and schedulers written in Python."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from corewise.errors import InvalidInput
from corewise.estimation.progress.learned import LearnedJobs
from corewise.estimation.progress.statistics import ProgressStatistics
from corewise.kit import checks
from corewise.kit import report as reports
from corewise.kit.report import Reported, Summarised, Table
from corewise.learning.job_shares import JobShares, described
from corewise.learning.present_jobs import PresentJob, PresentJobs
from corewise.model.job_class import JobClass
from corewise.policies.base import Policy
from corewise.policies.equi import Equi
from corewise.policies.jobs.index import JobIndex

__all__ = ["Scheduler", "SchedulerClass", "SchedulerReport"]

_WHYS = ("failed", "cancelled", "lost")


@dataclass(frozen=True, repr=False)
class SchedulerClass(Summarised):
    """Report on a class of jobs of a scheduler.

    Attributes
    ----------
    name : str
        The class.
    jobs : int
        The jobs that are present.
    held : int
        The cores that they hold.
    arrived, finished : int
        Jobs that have arrived, and that have finished.
    widest : int
        The most cores at which its speed was measured; 0 if it was not.
    size : float
        The work of a job, in its own unit; NaN if it is not known.
    speed : float
        How many times as fast as on one core a job is there when half done; NaN if it is not known.
    """

    _repr_fields = ("name", "jobs", "held", "finished")

    name: str
    jobs: int
    held: int
    arrived: int
    finished: int
    widest: int
    size: float
    speed: float


@dataclass(frozen=True, repr=False)
class SchedulerReport(Reported):
    """Report of a scheduler.

    Attributes
    ----------
    time : float
        The time of the last report.
    cores : int
        The cores there are.
    policy : str
        The policy for jobs whose speeds are known.
    classes : tuple of SchedulerClass
        The classes.
    odd : dict
        How often a report could not be right, by what was wrong with it.
    changed : tuple of str
        The classes whose history was dropped, as the present contradicts it.
    """

    _repr_fields = ("time", "cores", "policy")

    time: float
    cores: int
    policy: str
    classes: tuple[SchedulerClass, ...]
    odd: dict[str, int]
    changed: tuple[str, ...] = ()

    def report(self) -> reports.Report:
        """Return the cores held, and what is known of each class."""
        held, jobs = (sum(getattr(row, name) for row in self.classes) for name in ("held", "jobs"))
        facts = [("policy", self.policy), ("cores held", f"{held} of {self.cores} by {jobs} jobs")]
        header = ["class", "jobs", "held", "arrived", "finished", "widest", "size", "speed there"]
        rows = [
            [row.name, row.jobs, row.held, row.arrived, row.finished, row.widest or None]
            + ["" if math.isnan(value) else f"{value:.4g}" for value in (row.size, row.speed)]
            for row in self.classes
        ]
        notes = [f"{count} reports: {what}" for what, count in self.odd.items()]
        notes += [f"class {name} is not as it was: its history was dropped" for name in self.changed]
        return reports.Report(f"Scheduler at {self.time:g}", facts, [Table(header, rows)], notes)


class Scheduler:
    """Scheduler: whole cores for jobs, learned from what they report; no clock, thread, process or file.

    Nothing needs to be known of the jobs: classes may appear as they come, and speeds and sizes are learned
    from the progress that jobs report. Jobs of a class of which nothing is known yet share equally.

    Parameters
    ----------
    cores : int
        The cores there are.
    classes : iterable of JobClass or str, optional
        What is known of classes beforehand: limits, weights.
    pause : float, optional
        How long a job stands still whose cores change.
    policy : Policy or str, optional
        The policy for jobs whose speeds are known: ``"job-index"``, with the long-run load that is seen (over
        a week at least, if times are in seconds), a `JobIndex` with a declared load, or ``"equi"``.
    history : ProgressStatistics or mapping, optional
        What was seen before, as `Scheduler.seen` or its ``as_mapping()`` had it: of each class until what it
        reports now contradicts it.

    Examples
    --------
    >>> import corewise as cw
    >>> scheduler = cw.Scheduler(8)
    >>> scheduler.arrived("a", "training", time=0.0)
    >>> scheduler.decide(0.0)
    {'a': 1}
    >>> scheduler.held("a", 1, 0.0)
    >>> scheduler.progress("a", time=10.0, amount=5.0, fraction=0.1)
    >>> scheduler.decide(10.0)
    {'a': 2}
    >>> scheduler.explain("a").partition("; ")[0]
    '2 cores of class training, which was seen on one core at most'
    """

    def __init__(
        self,
        cores: int,
        classes: Iterable[JobClass | str] = (),
        *,
        pause: float = 0.0,
        policy: Policy | str = "job-index",
        history: ProgressStatistics | Mapping[str, Any] | None = None,
    ) -> None:
        pool = checks.whole(cores, "cores")
        known = {row if isinstance(row, str) else row.name: row for row in classes}
        before = ProgressStatistics.from_mapping(history) if isinstance(history, Mapping) else history
        if before is not None and not isinstance(before, ProgressStatistics):
            raise InvalidInput(f"history must be what Scheduler.seen gives, got {checks.shown(history)}")
        standstill = checks.within(pause, 0.0, math.inf, "pause")
        self._cores = pool
        self._jobs = PresentJobs(pool, standstill, before)
        given = {name: row for name, row in known.items() if isinstance(row, JobClass)}
        self._shares = JobShares(given, _policy(policy), self._jobs, standstill)

    # --- what happened ------------------------------------------------------------------------------

    def arrived(
        self,
        job: str,
        job_class: str,
        time: float,
        *,
        remaining: float | None = None,
        min_cores: int = 0,
        max_cores: int | None = None,
    ) -> None:
        """Take in the arrival of a job.

        Parameters
        ----------
        job, job_class : str
            Its name, and its class, which may be one that was never named before.
        time : float
            When it came.
        remaining : float, optional
            The work before it, in time on one core, if it is known.
        min_cores, max_cores : int, optional
            The fewest cores it runs on, and the most it can use.
        """
        for value, what in ((job, "name"), (job_class, "class")):
            if not isinstance(value, str) or not value:
                raise InvalidInput(f"the {what} of a job must be text, got {checks.shown(value)}")
        what = f"job {job!r}"
        low = checks.whole(min_cores, f"{what}: min_cores", least=0)
        high = None if max_cores is None else checks.whole(max_cores, f"{what}: max_cores")
        if high is not None and low > high:
            raise InvalidInput(f"{what}: min_cores {low} is above max_cores {high}")
        if low > self._cores:
            raise InvalidInput(f"{what}: min_cores {low} is above the {self._cores} cores there are")
        declared = None if remaining is None else checks.positive(remaining, f"{what}: remaining")
        self._shares.job_class(job_class)
        when = checks.finite(time, "time")
        self._jobs.arrive(PresentJob(job, job_class, when, declared, low, high))

    def held(self, job: str, cores: int, time: float) -> None:
        """Take in the cores that a job holds from a time on, whatever was decided."""
        self._jobs.hold(job, cores, time)

    def progress(self, job: str, time: float, amount: float, *, fraction: float | None = None) -> None:
        """Take in the work that a job has done since its last report, in any unit that its class keeps to.

        Parameters
        ----------
        job : str
            The job.
        time : float
            When it had done it.
        amount : float
            The work done since the last report.
        fraction : float, optional
            The fraction of all its work that is done, if it knows.
        """
        self._jobs.progress(job, time, amount, fraction)

    def finished(self, job: str, time: float) -> None:
        """Take in that a job has done its work."""
        self._jobs.leave(job, time, finished=True)

    def ended(self, job: str, time: float, why: str) -> None:
        """Take in that a job has left with its work not done: failed, cancelled or lost."""
        if why not in _WHYS:
            raise InvalidInput(f"why must be one of {', '.join(_WHYS)}, got {checks.shown(why)}")
        self._jobs.leave(job, time, finished=False)

    # --- what to do ---------------------------------------------------------------------------------

    def decide(self, time: float) -> dict[str, int]:
        """Return the cores that every job that is present is to hold from a time on."""
        return self._shares.decide(time, self._cores)

    def explain(self, job: str) -> str:
        """Return in a sentence why a job is to hold the cores that were decided last."""
        present = self._jobs[job]
        basis = self._shares.bases.get(job)
        if basis is None:
            return f"nothing has been decided since job {job!r} came"
        return described(present.job_class, basis)

    @property
    def seen(self) -> ProgressStatistics:
        """The statistics of all reports, to be the history of another scheduler; `times` weighs old ones."""
        return self._jobs.tally.seen() + ProgressStatistics(self._jobs.before)

    def report(self) -> SchedulerReport:
        """Return the cores held and what is known of each class."""
        jobs, now = list(self._jobs.by_name.values()), LearnedJobs(self.seen, self._cores)
        rows = []
        for name in self._shares.classes:
            mine = [job for job in jobs if job.job_class == name]
            learned = now[name]
            size = learned.sizes.remaining(0.0)
            half_way = learned.speeds(0.5 * size, 0.5)
            rows.append(
                SchedulerClass(
                    name,
                    len(mine),
                    sum(job.held for job in mine),
                    self._jobs.arrived[name],
                    self._jobs.finished[name],
                    learned.widest,
                    size,
                    float(half_way.speeds[learned.widest]) if learned.widest else math.nan,
                )
            )
        return SchedulerReport(
            self._jobs.time,
            self._cores,
            self._shares.in_force.name,
            tuple(rows),
            self._jobs.doubtful,
            tuple(self._jobs.contradicted),
        )


def _policy(policy: Policy | str) -> Policy | None:
    """Return the policy for jobs that are known; None for job-index with the long-run load that is seen."""
    if isinstance(policy, JobIndex | Equi):
        return policy
    if policy == "job-index":
        return None
    if policy == "equi":
        return Equi()
    raise InvalidInput(f"policy must be 'job-index', a JobIndex or 'equi', got {checks.shown(policy)}")
