"""Policies side by side, against the optimum and a bound that no policy beats."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from corewise.analysis.bounds import lower_bound
from corewise.analysis.performance import evaluate
from corewise.control.solution import Solution, solve
from corewise.errors import InvalidInput, InvalidPolicy, UnstablePolicy
from corewise.model.system import System
from corewise.policies.base import Policy, bind
from corewise.policies.equi import Equi
from corewise.policies.greedy import Greedy
from corewise.policies.priority import Priority
from corewise.policies.whittle import Whittle

__all__ = ["Comparison", "Row", "compare"]

# Strict priority is often unstable, and among three classes it takes minutes to be sure of it.
_MOST_CLASSES_FOR_PRIORITY = 2

_ROUNDING = 1e-12


@dataclass(frozen=True)
class Row:
    """One policy of a comparison; the numbers of an unstable one are None.

    Attributes
    ----------
    name : str
        The policy.
    mean_jobs, mean_response_time, mean_cost : float or None
        Its exact performance.
    gap : float or None
        How much it costs above the optimum, as a fraction: cost / optimal cost − 1.
    stable : bool
        Whether the number of jobs stays finite under it.
    """

    name: str
    mean_jobs: float | None
    mean_response_time: float | None
    mean_cost: float | None
    gap: float | None
    stable: bool


@dataclass(frozen=True)
class Comparison:
    """The optimum and other policies on one system.

    Attributes
    ----------
    system : System
        What they serve.
    rows : tuple of Row
        The optimum first, then the policies in the order given.
    lower_bound : float or None
        No policy costs less; on the cost, which without weights is the number of jobs. None where jobs are
        blocked: it holds only if every job is served.
    optimum : Solution
        What the first row is about, with its policy and certificate.
    """

    system: System
    rows: tuple[Row, ...]
    lower_bound: float | None
    optimum: Solution = field(repr=False, compare=False)

    def __str__(self) -> str:
        """Return a table; the cost has a column only where it is not the number of jobs."""
        weighted = any(job_class.weight != 1.0 for job_class in self.system.classes)
        width = max(len("policy"), *(len(row.name) for row in self.rows))

        def line(name: str, jobs: str, time: str, cost: str, gap: str) -> str:
            middle = f"{cost:>11}  " if weighted else ""
            return f"{name:{width}}  {jobs:>11}  {time:>18}  {middle}{gap:>13}".rstrip()

        lines = [
            line(
                "policy",
                "mean jobs",
                "mean response time",
                "mean cost",
                "cost above opt." if weighted else "above optimum",
            )
        ]
        for row in self.rows:
            jobs, time, cost = (
                "" if number is None else f"{number:.8g}"
                for number in (row.mean_jobs, row.mean_response_time, row.mean_cost)
            )
            gap = "" if row.gap is None else f"{row.gap:.2%}"
            lines.append(line(row.name, jobs if row.stable else "unstable", time, cost, gap))
        if self.lower_bound is not None:
            cost = "mean cost" if weighted else "mean number of jobs"
            lines.append(f"No policy has a {cost} below {self.lower_bound:.8g}.")
        return "\n".join(lines)


def compare(
    system: System, policies: Iterable[Policy] | None = None, *, capacity: int | Sequence[int] | None = None
) -> Comparison:
    """Evaluate policies exactly beside the optimum.

    Parameters
    ----------
    system : System
        What they serve.
    policies : iterable of Policy, optional
        Which to compare; by default EQUI, GREEDY*, Whittle and, for two classes, priority to each in turn.
    capacity : int or sequence of int, optional
        The most jobs of each class, as for `solve` and `evaluate`: the paper's blocking model.

    Raises
    ------
    UnstableSystem
        If no policy keeps up. A policy that does not, where another could, gives a row with ``stable=False``.
    """
    if not isinstance(system, System):
        raise InvalidInput(f"expected a System, got {system!r}")
    chosen = _usual(system) if policies is None else _checked(policies, system)
    best = solve(system, capacity=capacity)
    rows = [Row("optimal", best.mean_jobs, best.mean_response_time, best.mean_cost, 0.0, stable=True)]
    rows += [_row(system, policy, capacity, best.mean_cost) for policy in chosen]
    return Comparison(system, tuple(rows), lower_bound(system) if capacity is None else None, best)


def _usual(system: System) -> list[Policy]:
    chosen: list[Policy] = [Equi(), Greedy(), Whittle()]
    names = system.names
    if 1 < len(names) <= _MOST_CLASSES_FOR_PRIORITY:
        chosen += [Priority([first, *(name for name in names if name != first)]) for first in names]
    return chosen


def _checked(policies: Iterable[Policy], system: System) -> list[Policy]:
    if isinstance(policies, Policy | str) or not isinstance(policies, Iterable):
        raise InvalidPolicy(f"expected a list of policies such as [Equi()], got {policies!r}")
    chosen = list(policies)
    for policy in chosen:
        bind(policy, system)  # a policy that does not fit is found before the time is spent on the optimum
    return chosen


def _row(system: System, policy: Policy, capacity: int | Sequence[int] | None, optimal_cost: float) -> Row:
    try:
        result = evaluate(system, policy, capacity=capacity)
    except UnstablePolicy:
        return Row(policy.name, None, None, None, None, stable=False)
    gap = result.mean_cost / optimal_cost - 1.0
    if abs(gap) < _ROUNDING:
        gap = 0.0
    return Row(policy.name, result.mean_jobs, result.mean_response_time, result.mean_cost, gap, stable=True)
