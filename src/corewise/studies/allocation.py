"""Allocation in one state, by name, and the rule behind it in words.

A policy is a table of numbers; people want to know what it does. Any policy can be asked about a few states
that tell most of it: a job of one class beside a job of another, one more or one less than there are now, and
more jobs than cores. The answers are the *rule card*.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from corewise.errors import InvalidInput
from corewise.kit.arrays import Floats
from corewise.kit.report import Report, Reported, Summarised, Table
from corewise.kit.values import ByValue
from corewise.model.system import System, require_system
from corewise.policies.base import BoundPolicy, Policy, bind, counts_by_name
from corewise.policies.jobs.state import JobState
from corewise.policies.whole import WholeCores

__all__ = ["Allocation", "ClassShare", "JobAllocation", "JobShare", "allocate", "allocate_jobs", "rule_card"]

_PAIRED = 6  # classes up to which each is held against every other
_MOST_JOBS = 1_000_000  # each is assigned its cores
_SERVED = 1e-6  # of the cores: a class with less is not served
_PER_JOB = (
    "a unit of a job's work is worth what it costs at the price of a core when the job completes: "
    "of jobs with one curve, those with less work before them hold more cores"
)


@dataclass(frozen=True, eq=False, repr=False)
class ClassShare(ByValue, Summarised):
    """Share of one class: its jobs, the cores they hold together, and those of each.

    Attributes
    ----------
    name : str
        The class.
    jobs : int
        How many of its jobs are there.
    cores : float
        What they hold together.
    each : tuple of float
        What each of them holds: the same, or whole cores that differ by at most one.
    speed : float
        How many times faster than on one core such a job runs, on average over them.
    """

    _repr_fields = ("name", "jobs", "cores")

    name: str
    jobs: int
    cores: float
    each: tuple[float, ...]
    speed: float

    def _each_in_words(self) -> str:
        if not self.each:
            return "-"
        low, high = min(self.each), max(self.each)
        return f"{low:.4g}" if low == high else f"{low:.4g} or {high:.4g}"


@dataclass(frozen=True, eq=False, repr=False)
class Allocation(ByValue, Reported):
    """Allocation of the cores in one state, with the rule card of its policy.

    Attributes
    ----------
    policy : str
        The name of the policy.
    system : System
        The system it shares.
    classes : tuple of ClassShare
        Who holds what, in class order.
    card : tuple of str
        What the policy does in words.
    """

    _repr_fields = ("policy", "classes")
    _json_fields = ("policy", "cores", "classes", "card")

    policy: str
    system: System
    classes: tuple[ClassShare, ...]
    card: tuple[str, ...]

    @property
    def cores(self) -> dict[str, float]:
        """The cores of each class, by name."""
        return {row.name: row.cores for row in self.classes}

    def report(self) -> Report:
        """Return who holds what, and the rule card."""
        facts = [("rule" if k == 0 else "", line) for k, line in enumerate(self.card)]
        header = ("class", "jobs", "cores", "cores of each", "times faster than on one")
        rows = [
            (row.name, row.jobs, f"{row.cores:.4g}", row._each_in_words(), f"{row.speed:.4g}")
            for row in self.classes
        ]
        return Report(f"Policy {self.policy}: {self.system.cores:g} cores", facts, [Table(header, rows)])


def allocate(
    system: System, policy: Policy | str, jobs: Mapping[str, int], *, whole_cores: bool = False
) -> Allocation:
    """Return who gets how many cores under a policy while these jobs are there, by name.

    Parameters
    ----------
    system : System
        The system.
    policy : Policy or str
        A policy, its name, or the file of a saved one.
    jobs : mapping
        How many jobs of each class are there; none of a class that is not named.
    whole_cores : bool, optional
        Whether to give whole cores only, also to each job.
    """
    require_system(system)
    counts = counts_by_name(jobs, system)
    if sum(counts) > _MOST_JOBS:
        raise InvalidInput(f"jobs must be at most {_MOST_JOBS:,} together, got {sum(counts):,}")
    bound = bind(WholeCores(policy) if whole_cores else policy, system)
    if sum(counts) > bound.decision.by_counts_up_to:
        raise InvalidInput(
            f"{bound.name} decides per job where sizes are not exponential: {sum(counts)} jobs have no "
            f"split by their numbers alone; allocate_jobs takes their states, on the command line --jobs FILE"
        )
    cores = bound.allocate([counts])[0]
    whole = bound.decision.by_counts.whole_jobs and bool(np.all(cores == np.rint(cores)))
    rows = [
        _share(system, i, count, held, whole)
        for i, (count, held) in enumerate(zip(counts, cores.tolist(), strict=True))
    ]
    return Allocation(bound.name, system, tuple(rows), (*_around(bound, counts), *rule_card(bound)))


@dataclass(frozen=True, eq=False, repr=False)
class JobShare(ByValue, Summarised):
    """Cores of one job.

    Attributes
    ----------
    name : str
        The job.
    job_class : str
        Its class.
    held : float
        The cores that it held before.
    cores : float
        Those that it is given.
    speed : float
        How many times faster than on one core it runs.
    """

    _repr_fields = ("name", "job_class", "cores")
    _json_fields = ("name", "class=job_class", "held", "cores", "speed")

    name: str
    job_class: str
    held: float
    cores: float
    speed: float


@dataclass(frozen=True, eq=False, repr=False)
class JobAllocation(ByValue, Reported):
    """Allocation of the cores to single jobs.

    Attributes
    ----------
    policy : str
        The name of the policy.
    system : System
        The system it shares.
    jobs : tuple of JobShare
        The jobs in the order given.
    """

    _repr_fields = ("policy", "jobs")
    _json_fields = ("policy", "cores", "jobs")

    policy: str
    system: System
    jobs: tuple[JobShare, ...]

    @property
    def cores(self) -> dict[str, float]:
        """The cores of each job, by name."""
        return {row.name: row.cores for row in self.jobs}

    def report(self) -> Report:
        """Return the cores of every job, and how many are in use."""
        facts = [
            ("jobs", len(self.jobs)),
            ("without cores", sum(not row.cores for row in self.jobs)),
            ("cores in use", f"{sum(row.cores for row in self.jobs):.4g} of {self.system.cores:g}"),
            ("resized", sum(row.cores != row.held for row in self.jobs)),
        ]
        header = ("job", "class", "held", "cores", "times faster than on one")
        rows = [
            (row.name, row.job_class, f"{row.held:.4g}", f"{row.cores:.4g}", f"{row.speed:.4g}")
            for row in self.jobs
        ]
        title = f"Policy {self.policy}: {self.system.cores:g} cores"
        return Report(title, facts, [Table(header, rows, names=2)] if rows else ())

    def _content(self) -> Iterable[object]:
        return self.jobs


def allocate_jobs(
    system: System,
    policy: Policy | str,
    jobs: Iterable[JobState],
    *,
    whole: bool = False,
    pause: float = 0.0,
) -> JobAllocation:
    """Return the cores of every job that is present, under a policy.

    Parameters
    ----------
    system : System
        The system.
    policy : Policy or str
        A policy, its name, or the file of a saved one; one of classes shares equally within a class.
    jobs : iterable of JobState
        The jobs.
    whole : bool, optional
        Whole cores for every job.
    pause : float, optional
        How long a job stands still whose cores change: a width other than the one held has to be worth it.

    Examples
    --------
    >>> import corewise as cw
    >>> from corewise.studies.allocation import allocate_jobs
    >>> jobs = [cw.JobState("short", "one", remaining=0.1), cw.JobState("long", "two", remaining=5.0)]
    >>> allocate_jobs(cw.load_system("paper:1"), "job-index", jobs, whole=True).cores
    {'short': 8, 'long': 22}
    """
    require_system(system)
    if pause and not whole:
        raise InvalidInput(f"a pause counts for whole cores only, got pause {pause!r} without them")
    listed, bound = list(jobs), bind(policy, system)
    cores = bound.allocate_jobs(listed, whole=whole, pause=pause)
    rows = [
        JobShare(job.name, job.job_class, job.held, cores[job.name], _speed(system, job, cores[job.name]))
        for job in listed
    ]
    return JobAllocation(bound.name, system, tuple(rows))


def _speed(system: System, job: JobState, cores: float) -> float:
    if job.speeds is not None:
        return float(np.interp(cores, np.arange(job.speeds.size), job.speeds))
    return float(system.classes[system.index(job.job_class)].curve.rate(np.array([cores]))[0])


def _share(system: System, i: int, jobs: int, cores: float, whole: bool) -> ClassShare:
    known = system.classes[i]
    each = np.full(jobs, cores / max(jobs, 1))
    if whole and jobs:
        least, more = divmod(int(cores), jobs)
        each = np.array([least + (k < more) for k in range(jobs)], dtype=np.float64)
    speed = float(known.speedup.rate(each).mean()) if jobs else 0.0
    return ClassShare(known.name, jobs, cores, tuple(each.tolist()), speed)


def rule_card(policy: BoundPolicy) -> tuple[str, ...]:
    """Return what a bound policy does in words, from what it does in a few states."""
    system = policy.system
    if not policy.by_counts:
        return (_PER_JOB,)
    lines = [_beside(policy, i) for i in range(len(system.classes))] if len(system.classes) > 1 else []
    return (*lines, *_crowded(policy))


def _beside(policy: BoundPolicy, i: int) -> str:
    """Return what a job of class i holds beside a job of another class."""
    names = policy.system.names
    others = [j for j in range(len(names)) if j != i]
    if len(names) > _PAIRED:
        cores = float(policy.allocate([[1] * len(names)])[0, i])
        return f"a job of {names[i]} is worth {_cores(cores)} beside one of every other class"
    states = np.zeros((len(others), len(names)), dtype=np.int64)
    states[:, i] = 1
    states[np.arange(len(others)), others] = 1
    held = policy.allocate(states)[:, i].tolist()
    worth = [f"{_cores(cores)} beside one of {names[j]}" for j, cores in zip(others, held, strict=True)]
    return f"a job of {names[i]} is worth up to {_listed(worth)}"


def _crowded(policy: BoundPolicy) -> list[str]:
    """Return in which order classes are served where each has as many jobs as there are cores."""
    system = policy.system
    names, many = system.names, int(np.ceil(system.cores))
    if len(names) < 2:
        return []
    present, order = np.full(len(names), many), []
    while present.any():
        cores = policy.allocate([present])[0]
        served = np.flatnonzero((cores > _SERVED * system.cores) & (present > 0))
        if not served.size:
            break
        order.append(" and ".join(names[i] for i in served))
        present[served] = 0
    if len(order) == 1:
        return ["where jobs outnumber cores, all classes are served"]
    return [f"where jobs outnumber cores: {', then '.join(order)}"]


def _around(policy: BoundPolicy, counts: list[int]) -> list[str]:
    """Return how the cores of a job change if one more job of its class comes, or one of it leaves."""
    names, lines = policy.system.names, []
    if sum(counts) >= policy.decision.by_counts_up_to:
        return []
    for i, jobs in enumerate(counts):
        if not jobs:
            continue
        states = [[*counts[:i], jobs + k, *counts[i + 1 :]] for k in (0, 1)]
        held: Floats = policy.allocate(states)[:, i] / np.array([jobs, jobs + 1])
        now, then = map(_cores, held.tolist())
        lines.append(f"each job of {names[i]} holds {now} now, and {then} if one more of them comes")
    return lines


def _cores(cores: float) -> str:
    return f"{cores:.3g} core{'' if round(cores, 2) == 1.0 else 's'}"


def _listed(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
