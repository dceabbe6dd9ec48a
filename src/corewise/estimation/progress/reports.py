r"""Tally of progress reports: what single jobs say of their progress becomes statistics of their classes.

A report says that a job did so much work in so many seconds on so many cores. The seconds are those in which
it ran: a pause after a resize is not among them. Reports of a job with the same cores and its progress in the
same quarter of an octave make one stretch; it closes when either changes, when the job ends, and counts as it
is until then. A stretch in which nothing was done says nothing of a rate, as progress may be reported in
lumps.

Progress is measured by the fraction done where a job reports fractions, else by the work that it has done: a
curve that follows progress is pooled over jobs of one scale.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from corewise.errors import InvalidInput
from corewise.estimation.progress.statistics import (
    BY_AMOUNT,
    BY_FRACTION,
    CENSORED,
    COMPLETE,
    MOST_ROWS,
    ClassReports,
    ProgressStatistics,
    rate_key,
    size_key,
)
from corewise.kit import checks

__all__ = ["ABSURD", "GONE_BACK", "ClassTotals", "JobReports", "ReportTally"]

GONE_BACK = "fractions that go back"
ABSURD = "more work than any job of the class can do"
"""What can be wrong with a report."""

_ABSURD, _FEW = 100.0, 10
"""Times the highest rate of a class that no job has, once so many reports were seen."""

_LEAST_FRACTION = 0.02
"""From which on a fraction says the size of a job: before, it is rounded, or counts the start as well."""


@dataclass(slots=True)
class JobReports:
    """Progress of one job.

    Attributes
    ----------
    job_class : str
        The class of the job.
    done : float
        The work that it has done.
    fraction : float or None
        The fraction that it says is done; None if it says none.
    cores, scale, octave : int
        Of the present stretch: the cores, what progress is measured by, and the bin of progress.
    work, seconds : float
        Of the present stretch.
    odd : int
        How many reports could not be right.
    """

    job_class: str
    done: float = 0.0
    fraction: float | None = None
    cores: int = 0
    scale: int = BY_AMOUNT
    octave: int = 0
    work: float = 0.0
    seconds: float = 0.0
    odd: int = 0

    @property
    def size(self) -> float | None:
        """The size that the fraction implies; None if it says nothing."""
        if self.fraction is None or self.fraction < _LEAST_FRACTION or not self.done > 0.0:
            return None
        return self.done / self.fraction


@dataclass(slots=True)
class ClassTotals:
    """Totals of what the jobs of a class have reported, to tell in no time how much is new.

    Attributes
    ----------
    seconds : float
        The time of all reports.
    completed : int
        Jobs that have completed, or said a fraction that implies their size.
    widest : int
        The most cores at which work was reported.
    reports : int
        How many reports there were.
    fastest : float
        The highest rate that was reported.
    """

    seconds: float = 0.0
    completed: int = 0
    widest: int = 0
    reports: int = 0
    fastest: float = 0.0

    def absurd(self, amount: float, seconds: float) -> bool:
        """Return whether work is far beyond what any job of the class has done in such a time."""
        usual = self.seconds / self.reports if self.reports else 0.0
        return self.reports >= _FEW and amount > _ABSURD * self.fastest * max(seconds, usual)


@dataclass(eq=False)
class _ClassRows:
    """Rows of a class, by key."""

    rates: dict[tuple[int, int, int, int], list[float]] = field(default_factory=dict)
    sizes: dict[tuple[int, int], list[float]] = field(default_factory=dict)


class ReportTally:
    """Accumulator of progress reports.

    Attributes
    ----------
    jobs : dict
        What each job that is present has reported, by name.
    odd : dict
        How many reports of each class could not be right, by what was wrong with them.
    totals : dict
        Totals of each class since the tally began.

    Examples
    --------
    >>> from corewise.estimation.progress.reports import ReportTally
    >>> tally = ReportTally()
    >>> tally.report("job 1", "resnet", cores=4, amount=120.0, seconds=60.0, fraction=0.25)
    >>> tally.jobs["job 1"].size
    480.0
    >>> tally.finished("job 1")
    >>> tally.seen()["resnet"].completed
    1.0
    """

    def __init__(self, before: ProgressStatistics | None = None) -> None:
        self.jobs: dict[str, JobReports] = {}
        self.odd: dict[str, dict[str, int]] = {}
        self.totals: dict[str, ClassTotals] = {}
        self._closed = before or ProgressStatistics({})
        self._rows: dict[str, _ClassRows] = {}

    def report(
        self,
        job: str,
        job_class: str,
        *,
        cores: int | None,
        amount: float,
        seconds: float,
        fraction: float | None = None,
    ) -> None:
        """Take in a report of a job.

        Parameters
        ----------
        job, job_class : str
            The names of the job and of its class.
        cores : int or None
            The cores that it held; None if they changed meanwhile, so that the report says nothing of a rate.
        amount : float
            The work that it did since its last report, in the unit of its application.
        seconds : float
            The time it took, without pauses.
        fraction : float, optional
            The fraction of its work that is done now.

        Raises
        ------
        InvalidInput
            If a number is negative or not finite, a fraction above one, or the job is one of another class.

        A fraction that goes back, and more than 100 times the work that any job of the class has ever done in
        the time, are counted in `odd` and not believed.
        """
        amount, seconds = (
            checks.within(value, 0.0, math.inf, f"job {job!r}: {what}")
            for value, what in ((amount, "amount of work"), (seconds, "time"))
        )
        if fraction is not None:
            fraction = checks.within(fraction, 0.0, 1.0, f"job {job!r}: fraction")
        known = self.jobs.get(job)
        if known is None:
            known = self.jobs[job] = JobReports(job_class)
        elif known.job_class != job_class:
            raise InvalidInput(f"job {job!r} is of class {known.job_class!r}, not of {job_class!r}")
        totals = self.totals.setdefault(job_class, ClassTotals())
        if totals.absurd(amount, seconds):
            self._count(known, ABSURD)
            return
        totals.reports += 1
        totals.seconds += seconds
        size = known.size
        scale, middle = self._advance(known, amount, fraction)
        totals.completed += size is None and known.size is not None
        if cores is None or cores < 1 or not seconds > 0.0:
            return
        if amount > 0.0:
            totals.widest = max(totals.widest, cores)
            totals.fastest = max(totals.fastest, amount / seconds)
        octave = rate_key(scale, middle, cores, 1.0)[1]
        if (cores, scale, octave) != (known.cores, known.scale, known.octave):
            self._close(known)
            known.cores, known.scale, known.octave = cores, scale, octave
        known.work += amount
        known.seconds += seconds

    def finished(self, job: str) -> None:
        """Count a job that has completed: its size is the work that it has done."""
        self._leave(job, COMPLETE)

    def ended(self, job: str) -> None:
        """Count a job that left without completing: its size is more than the work that it has done."""
        self._leave(job, CENSORED)

    def seen(self, classes: Collection[str] | None = None) -> ProgressStatistics:
        """Return the statistics of reports so far, present jobs as they are; of all classes, or of some."""
        rows: dict[str, _ClassRows] = {}
        for job in self.jobs.values():
            if classes is not None and job.job_class not in classes:
                continue
            _add_stretch(rows, job)
            size = job.size
            _add_size(rows, job.job_class, *((CENSORED, job.done) if size is None else (COMPLETE, size)))
        closed = self._folded()
        if classes is not None:
            closed = ProgressStatistics({name: closed[name] for name in classes})
        return closed + _statistics(rows)

    def snapshot(self) -> dict[str, Any]:
        """Return all of it as plain values."""
        return {
            "closed": self._folded().as_mapping(),
            "jobs": {name: asdict(job) for name, job in self.jobs.items()},
            "odd": {name: dict(counts) for name, counts in self.odd.items()},
            "totals": {name: asdict(totals) for name, totals in self.totals.items()},
        }

    @classmethod
    def of(cls, snapshot: Mapping[str, Any]) -> ReportTally:
        """Return the tally of a snapshot."""
        tally = cls(ProgressStatistics.from_mapping(snapshot["closed"]))
        tally.jobs = {name: JobReports(**job) for name, job in snapshot["jobs"].items()}
        tally.odd = {name: dict(counts) for name, counts in snapshot["odd"].items()}
        tally.totals = {name: ClassTotals(**totals) for name, totals in snapshot["totals"].items()}
        return tally

    def _advance(self, job: JobReports, amount: float, fraction: float | None) -> tuple[int, float]:
        """Let a job progress; return by what its progress is measured, and the middle of where it was."""
        before, said = job.done, job.fraction
        job.done += amount
        if fraction is None:
            return BY_AMOUNT, before + 0.5 * amount
        if said is not None and fraction < said:
            self._count(job, GONE_BACK)
            return BY_FRACTION, said
        job.fraction = fraction
        return BY_FRACTION, 0.5 * ((said or 0.0) + fraction)

    def _count(self, job: JobReports, what: str) -> None:
        """Count a report that could not be right."""
        job.odd += 1
        counts = self.odd.setdefault(job.job_class, {})
        counts[what] = counts.get(what, 0) + 1

    def _leave(self, name: str, kind: int) -> None:
        job = self.jobs.pop(name, None)
        if job is None:
            return
        self._close(job)
        totals = self.totals.setdefault(job.job_class, ClassTotals())
        totals.completed += kind == COMPLETE and job.size is None
        if job.done > 0.0:
            _add_size(self._rows, job.job_class, kind, job.done)

    def _close(self, job: JobReports) -> None:
        """Close the present stretch of a job."""
        _add_stretch(self._rows, job)
        job.work = job.seconds = 0.0
        rows = self._rows.get(job.job_class)
        if rows is not None and len(rows.rates) > MOST_ROWS:
            self._folded()

    def _folded(self) -> ProgressStatistics:
        """Return the statistics of closed stretches and of jobs that have left."""
        if self._rows:
            self._closed, self._rows = self._closed + _statistics(self._rows), {}
        return self._closed


def _add_stretch(rows: dict[str, _ClassRows], job: JobReports) -> None:
    if not (job.work > 0.0 and job.seconds > 0.0):
        return
    rate = job.work / job.seconds
    key = (job.scale, job.octave, job.cores, rate_key(0, 1.0, 0, rate)[3])
    row = rows.setdefault(job.job_class, _ClassRows()).rates.setdefault(key, [0.0, 0.0, 0.0])
    for k, value in enumerate((1.0, job.work, job.seconds)):
        row[k] += value


def _add_size(rows: dict[str, _ClassRows], job_class: str, kind: int, work: float) -> None:
    row = rows.setdefault(job_class, _ClassRows()).sizes.setdefault(size_key(kind, work), [0.0, 0.0])
    row[0] += 1.0
    row[1] += work


def _statistics(rows: Mapping[str, _ClassRows]) -> ProgressStatistics:
    return ProgressStatistics({name: ClassReports.of(of.rates, of.sizes) for name, of in rows.items()})
