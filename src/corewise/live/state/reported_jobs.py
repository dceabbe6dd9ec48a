"""Decisions per job in a live pool: what its jobs report, and the cores of each job from that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from corewise.learning.job_shares import JobShares, described
from corewise.learning.present_jobs import PresentJob, PresentJobs
from corewise.model.system import System

__all__ = ["ReportedJobs"]


@dataclass(eq=False)
class ReportedJobs:
    """Jobs of a live pool with what they have reported.

    A `Scheduler` decides by the same two parts. Here jobs are given equal shares or those of the policy in
    force until the first of them reports, so that no core waits for a report.

    Attributes
    ----------
    jobs : PresentJobs
        The jobs and their reports.
    shares : JobShares
        The decisions.
    decided : bool
        Whether the cores of jobs were decided from reports last.
    """

    jobs: PresentJobs
    shares: JobShares
    decided: bool = False

    @classmethod
    def of(cls, system: System, snapshot: Mapping[str, Any] | None = None) -> ReportedJobs:
        """Return those of a system, new or from a snapshot."""
        # What an engine reports of pauses has passed by the time that a job holds its cores.
        cores = int(system.cores)
        jobs = PresentJobs(cores, 0.0) if snapshot is None else PresentJobs.of(cores, 0.0, snapshot)
        made = cls(jobs, JobShares({}, None, jobs))
        if snapshot is not None:
            made.shares.silent, made.decided = set(snapshot["silent"]), snapshot["decided"]
        made.change_classes(system)
        return made

    def arrive(self, name: str, job_class: str, time: float, held: int) -> None:
        """Take in a job that holds so many cores."""
        self.jobs.arrive(PresentJob(name, job_class, time, held=held))

    def change_classes(self, system: System) -> None:
        """Have other classes, or other cores."""
        self.jobs.cores = int(system.cores)
        self.shares.classes = {known.name: known for known in system.classes}

    def targets(
        self, time: float, pool: int, limits: Mapping[str, tuple[int, int]], pause: float
    ) -> dict[str, int] | None:
        """Return the cores of the jobs that have limits; None where the class of none of them is known."""
        self.jobs.learn()
        present = [self.jobs.by_name[name] for name in limits]
        self.decided = bool(pool) and any(self.shares.knows(job.job_class) for job in present)
        self.shares.bases = {}
        if not self.decided:
            return None
        for job in present:
            job.min_cores, job.max_cores = limits[job.name]
        self.shares.pause = pause
        return self.shares.decide(time, pool, self.jobs.by_name.keys() - limits.keys())

    def explained(self, name: str) -> str | None:
        """Return what the cores of a job were decided from; None if not from reports."""
        basis = self.shares.bases.get(name)
        return None if basis is None else described(self.jobs.by_name[name].job_class, basis)

    def snapshot(self) -> dict[str, Any]:
        """Return all of it as plain values."""
        return {**self.jobs.snapshot(), "silent": sorted(self.shares.silent), "decided": self.decided}
