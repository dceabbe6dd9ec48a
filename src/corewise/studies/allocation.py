"""Allocation in one state, by name, and the rule behind it in words.

A policy is a table of numbers; people want to know what it does. Any policy can be asked about a few states
that tell most of it: a job of one class beside a job of another, one more or one less than there are now, and
more jobs than cores. The answers are the *rule card*.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from corewise.errors import InvalidInput
from corewise.kit.arrays import Floats
from corewise.kit.report import Report, Reported, Summarised, Table
from corewise.kit.values import ByValue
from corewise.model.system import System, require_system
from corewise.policies.base import BoundPolicy, Policy, bind, counts_by_name
from corewise.policies.whole import WholeCores

__all__ = ["Allocation", "ClassShare", "allocate", "rule_card"]

_PAIRED = 6  # classes up to which each is held against every other
_MOST_JOBS = 1_000_000  # each is told its cores
_SERVED = 1e-6  # of the cores: a class with less is not served


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
            f"{bound.name} goes by the work that each job has attained where jobs outnumber cores: "
            f"{sum(counts)} jobs on {system.cores:g} cores have no split by their numbers alone"
        )
    cores = bound.allocate([counts])[0]
    whole = bound.decision.by_counts.whole_jobs and bool(np.all(cores == np.rint(cores)))
    rows = [
        _share(system, i, count, held, whole)
        for i, (count, held) in enumerate(zip(counts, cores.tolist(), strict=True))
    ]
    return Allocation(bound.name, system, tuple(rows), (*_around(bound, counts), *rule_card(bound)))


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
    told = [f"{_cores(cores)} beside one of {names[j]}" for j, cores in zip(others, held, strict=True)]
    return f"a job of {names[i]} is worth up to {_listed(told)}"


def _crowded(policy: BoundPolicy) -> list[str]:
    """Return in which order classes are served where each has as many jobs as there are cores."""
    system = policy.system
    names, many = system.names, int(np.ceil(system.cores))
    if len(names) < 2:
        return []
    if not policy.by_counts:
        return ["where jobs outnumber cores, the class whose jobs have the least work left comes first"]
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
