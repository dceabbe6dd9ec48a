"""Explanations in words: why a job of a live pool holds the cores that it holds."""

from __future__ import annotations

from dataclasses import dataclass

from corewise.errors import InvalidInput, nearest
from corewise.kit.times import spoken_duration
from corewise.live.state.job_table import PoolJob
from corewise.live.state.pool_state import PoolState
from corewise.observation.events import RoundOverdue

__all__ = ["Explanation", "explain", "in_cores", "round_overdue"]


@dataclass(frozen=True)
class Explanation:
    """Explanation of the cores of a job.

    Attributes
    ----------
    job, job_class : str
        The job and its class.
    held : int
        The cores that it holds.
    told : int
        The cores that it was assigned.
    target : int
        The cores that it should hold.
    text : str
        Why, in a sentence or two.

    Examples
    --------
    >>> import corewise as cw
    >>> from corewise.observation.events import JobArrived
    >>> classes = [cw.JobClass(name, 1.0, 1.0, cw.Amdahl(0.5)) for name in ("etl", "query")]
    >>> system = cw.System(8, classes)
    >>> controller = cw.live.Controller(cw.algorithm_1b(system), lambda digest: cw.Equi(), mode="steer")
    >>> _ = controller.handle(JobArrived(0.0, "event 1", "job 1", "etl"))
    >>> explanation = controller.explain("job 1")
    >>> explanation.job, explanation.job_class, explanation.held, explanation.target
    ('job 1', 'etl', 0, 8)
    """

    job: str
    job_class: str
    held: int
    told: int
    target: int
    text: str

    def __str__(self) -> str:
        """Return the sentences."""
        return self.text


def explain(state: PoolState, name: str) -> Explanation:
    """Return why a job holds the cores that it holds."""
    job = state.jobs.by_name.get(name)
    if job is None:
        jobs = list(state.jobs.by_name)
        hint = nearest(name, jobs) if jobs else ", nor is any other"
        raise InvalidInput(f"no job {name!r} is there{hint}")
    job_class = state.names[job.job_class]
    parts = [_sharing(state, job), _limits(state, job), _under_way(job), _one_more(state, job)]
    text = "; ".join(part for part in parts if part)
    return Explanation(name, job_class, job.held, job.assigned, job.target, text)


def _sharing(state: PoolState, job: PoolJob) -> str:
    counts = state.jobs.counts
    active = [other for other in state.jobs.active if other.job_class == job.job_class]
    name, cores = state.names[job.job_class], sum(other.target for other in active)
    listed = ", ".join(str(count) for count in counts)
    estimate = None if state.estimates is None else state.estimates.get(name)
    known = "" if estimate is None else f", with {estimate.departures} departures of the class seen"
    of_policy = name in state.policy_classes
    return (
        f"class {name}: {_jobs(counts[job.job_class])} to hold {cores} of {state.pool} cores in state "
        f"({listed}) by {'' if of_policy else 'an equal share beside '}{state.policy}{known}; "
        f"this one {_shares(state, job)}"
    )


def _shares(state: PoolState, job: PoolJob) -> str:
    if not job.target and job.retry_at > state.time:
        wait = job.retry_at - state.time
        return f"waits: its start was refused, and is tried again in {wait:.3g} s"
    if not job.target:
        return "waits, since its least does not fit"
    count = state.jobs.counts[job.job_class]
    if count == 1:
        return f"alone, {in_cores(job.target)}"
    mates = enumerate(state.jobs.of_class(job.job_class), start=1)
    rank = next(rank for rank, other in mates if other is job)
    return f"gets {job.target}, as number {rank} of {count} by age"


def _limits(state: PoolState, job: PoolJob) -> str:
    least, most = state.jobs.bounds(job, state.pool)
    if job.target == most and most < state.pool:
        return f"it can use no more than {most}"
    if job.target == least > 1:
        return f"it needs at least {least}"
    return "no limit applied"


def _under_way(job: PoolJob) -> str:
    if job.held == job.target:
        return ""
    if job.assigned == job.target:
        return f"it holds {job.held} until it has followed"
    return f"it holds {job.held}, and the rest is not free yet"


def _one_more(state: PoolState, job: PoolJob) -> str:
    """Return what one core more would be to this job, and to the one that would have to give it."""
    others = [other for other in state.jobs.active if other is not job and other.target > 1]
    if state.estimates is None or not job.target or not others:
        return ""
    giver = max(others, key=lambda other: (other.target, -other.age))
    gain = 1.0 - _speed(state, job, job.target) / _speed(state, job, job.target + 1)
    loss = _speed(state, giver, giver.target) / _speed(state, giver, giver.target - 1) - 1.0
    return f"one core more would shorten it by {gain:.0%} and lengthen {giver.name} by {loss:.0%}"


def _speed(state: PoolState, job: PoolJob, cores: int) -> float:
    return float(state.estimated.classes[job.job_class].curve.rate(float(cores)))


def _jobs(count: int) -> str:
    return "one job" if count == 1 else f"{count} jobs"


def round_overdue(event: RoundOverdue) -> str:
    """Return the alert about a round that does not end."""
    return (
        f"a round of job {event.job!r} on {in_cores(event.cores)} has not ended after "
        f"{spoken_duration(event.seconds)}; its cores are not free before"
    )


def in_cores(count: int) -> str:
    """Return a number of cores in words."""
    return "one core" if count == 1 else f"{count} cores"
