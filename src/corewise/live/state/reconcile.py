"""Reconciliation: from the jobs that a scheduler has to the events that the controller lacks.

A scheduler that was down, lost messages or set back its clock says once which jobs it has, running or
waiting, and what each of them holds. What follows are ordinary events, dated when the list was drawn up: a
job that is not in the list was lost, unless it came later; a job that was not known is present; a job that
holds other cores holds those, unless it has reported since.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from corewise.errors import InvalidInput
from corewise.live.state.controller import Controller
from corewise.observation import events as happened

__all__ = ["ListedJob", "reconciling_events"]


@dataclass(frozen=True)
class ListedJob:
    """Job that a scheduler has.

    Attributes
    ----------
    job, job_class : str
        Its name and its class.
    cores : int
        The cores that it holds, 0 if it waits.
    least, most : int or None
        Limits of its own.
    """

    job: str
    job_class: str
    cores: int
    least: int | None = None
    most: int | None = None


def reconciling_events(
    controller: Controller, jobs: Sequence[ListedJob], time: float, ids: Iterator[str]
) -> list[happened.Event]:
    """Return the events that make a controller know of exactly these jobs.

    Raises
    ------
    InvalidInput
        If a job is listed twice, or is known as one of another class.

    Examples
    --------
    >>> import corewise as cw
    >>> from itertools import count
    >>> from corewise.observation.events import JobArrived
    >>> from corewise.live.state.reconcile import ListedJob, reconciling_events
    >>> system = cw.System(8, [cw.JobClass("etl", speedup=cw.Amdahl(0.5))])
    >>> controller = cw.live.Controller(cw.algorithm_1b(system), lambda _: cw.Equi())
    >>> _ = controller.handle(JobArrived(1.0, "a", "gone", "etl"))
    >>> for event in reconciling_events(controller, [ListedJob("new", "etl", 4)], 9.0, map(str, count())):
    ...     print(event)
    JobEnded(time=9.0, id='0', job='gone', why='lost')
    JobPresent(time=9.0, id='1', job='new', job_class='etl', held=4, least=None, most=None)
    """
    listed = {one.job: one for one in jobs}
    if len(listed) < len(jobs):
        twice = next(one.job for one in jobs if listed[one.job] is not one)
        raise InvalidInput(f"job {twice!r} is listed twice")
    known = controller.jobs.by_name
    events: list[happened.Event] = [
        happened.JobEnded(time, next(ids), name, "lost")
        for name, job in known.items()
        if name not in listed and job.came <= time
    ]
    resized = [(one, known[one.job]) for one in jobs if one.job in known]
    for one, job in resized:
        job_class = controller.system.names[job.job_class]
        if one.job_class != job_class:
            raise InvalidInput(
                f"job {one.job!r} is of class {job_class!r}, and is listed as {one.job_class!r}"
            )
    for one, job in sorted(resized, key=lambda pair: pair[0].cores - pair[1].held):  # shrinks first
        if one.cores != job.held and job.held_at <= time:
            events.append(happened.CoresHeld(time, next(ids), one.job, one.cores))
    return events + [
        happened.JobPresent(time, next(ids), one.job, one.job_class, one.cores, one.least, one.most)
        for one in jobs
        if one.job not in known
    ]
