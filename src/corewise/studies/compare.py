"""Policies side by side, against the optimum and a bound that no policy beats.

For few classes every number is exact. For many the state space is out of reach: the means come from
simulation with a control variate (`corewise.studies.means`), and how far a policy can be from the optimum
from the upper end of its interval and the lower bound. EQUI among classes with one curve is exact there too.

Where every job is followed (sizes of any distribution, whole cores, sizes that policies see, recorded jobs)
all policies are given the same jobs, and are set beside the best of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace

import numpy as np

from corewise.analysis.lower.bounds import lower_bound
from corewise.analysis.performance import evaluate
from corewise.analysis.tractability import Tractability
from corewise.control.improve.improved import Improved
from corewise.control.optimal import Optimal
from corewise.control.priced.priced import Priced
from corewise.control.solution import Solution, solve
from corewise.errors import InvalidInput, InvalidPolicy, NotSettled, UnstablePolicy
from corewise.kit.numbers import half_width, plus_minus
from corewise.kit.progress import Progress
from corewise.kit.report import Report, Reported, Summarised, Table
from corewise.kit.unit_labels import with_unit
from corewise.kit.values import ByValue
from corewise.model.system import System
from corewise.policies.base import Policy, checked_policy
from corewise.policies.equi import Equi
from corewise.policies.greedy import Greedy
from corewise.policies.jobs.index import JobIndex
from corewise.policies.moving.held import Held
from corewise.policies.priority import Priority
from corewise.policies.whittle import Whittle
from corewise.simulation.paths import SHARES, Manner
from corewise.simulation.randomness import random_streams
from corewise.simulation.simulator import simulate as simulate_policy
from corewise.simulation.trace import Trace, require_trace
from corewise.studies.means import simulated_mean

__all__ = ["Comparison", "ComparisonRow", "compare"]

# Strict priority is often unstable, and among three classes it takes minutes to be sure of it.
_MOST_CLASSES_FOR_PRIORITY = 2

_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False, repr=False)
class ComparisonRow(ByValue, Summarised):
    """Row of a comparison: the performance of one policy, None where it is unstable or not settled.

    Attributes
    ----------
    name : str
        The policy.
    mean_jobs, mean_response_time, mean_cost : float or None
        Its performance, exact or by simulation.
    gap : float or None
        How much it costs above the optimum, as a fraction: cost / optimal cost − 1. None if the optimum is
        not known.
    stable : bool or None
        Whether the number of jobs stays finite under it; None if a simulation could not tell.
    interval, cost_interval : tuple of float or None
        95 % confidence intervals for `mean_jobs` and `mean_cost`; None if they are exact.
    certified_gap : float or None
        The gap is at most this: the upper end of the interval for the cost over the lower bound, less one, or
        the gap itself where it is known. None without a lower bound, or where not all is exponential.
    above_best : float or None
        How much it costs above the best of these policies, as a fraction, where every job is followed: all of
        them were given the same jobs.
    percentile_99, makespan, resizes_per_job : float or None
        Of recorded jobs: the 99th percentile of the response times, the time from the first arrival to the
        last departure, and for whole cores how often the cores of a job that had begun changed.
    obstacle : str
        Why a simulation gave no mean that can be trusted; empty if it did, or if none was needed.
    """

    _repr_fields = ("name", "mean_jobs", "gap", "stable")

    name: str
    mean_jobs: float | None
    mean_response_time: float | None
    mean_cost: float | None
    gap: float | None
    stable: bool | None
    interval: tuple[float, float] | None = None
    cost_interval: tuple[float, float] | None = None
    certified_gap: float | None = None
    above_best: float | None = None
    obstacle: str = ""
    percentile_99: float | None = None
    makespan: float | None = None
    resizes_per_job: float | None = None

    @property
    def shown_gap(self) -> float | None:
        """What a table shows: the gap, else how large it is at most, else that to the best policy."""
        known = (self.gap, self.certified_gap, self.above_best)
        return next((gap for gap in known if gap is not None), None)

    @property
    def verdict(self) -> str:
        """What to say in place of a mean; empty if there is one."""
        return {True: "", False: "unstable", None: "not settled"}[self.stable]

    def _cells_of_jobs(self, weighted: bool) -> list[str]:
        """Return the cells of the policy in the table of a comparison on recorded jobs."""
        numbers = [self.mean_response_time, self.percentile_99, self.makespan]
        cost = [f"{self.mean_cost:.5g}"] if weighted else []
        resizes = "-" if self.resizes_per_job is None else f"{self.resizes_per_job:.3g}"
        return [self.name, *(f"{value:.5g}" for value in numbers), *cost, resizes, f"{self.shown_gap:.2%}"]

    def _cells(self, digits: int, weighted: bool) -> list[str]:
        """Return the cells of the policy in the table of a comparison."""
        if self.mean_jobs is None or self.mean_response_time is None or self.mean_cost is None:
            return [self.name, self.verdict, *("-" for _ in range(3 if weighted else 2))]
        jobs = _with_error(self.mean_jobs, self.interval)
        middle = [_with_error(self.mean_cost, self.cost_interval)] if weighted else []
        gap = "-" if self.shown_gap is None else f"{self.shown_gap:.2%}"
        return [self.name, jobs, f"{self.mean_response_time:.{digits}g}", *middle, gap]


def _with_error(value: float, interval: tuple[float, float] | None) -> str:
    return f"{value:.8g}" if interval is None else plus_minus(value, half_width(interval), figures=1)


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(ByValue, Reported):
    """Comparison of policies on one system, beside the optimum or a lower bound.

    Attributes
    ----------
    system : System
        What they serve.
    rows : tuple of ComparisonRow
        The optimum first, if it is known, then the policies in the order given.
    lower_bound : float or None
        No policy costs less; on the cost, which without weights is the number of jobs. None where jobs are
        blocked, as it holds only if every job is served, and of recorded jobs, which have no long run.
    optimum : Solution or None
        What the first row is about, with its policy and certificate; None if the numbers are from simulation.
    moving_costs : bool
        Whether jobs hold whole cores and pause when these change.
    recorded : int
        How many recorded jobs were run, if any were.
    same_jobs : bool
        Whether every job is followed, and is the same under all policies.

    Examples
    --------
    >>> import corewise as cw
    >>> system = cw.load_system("paper:1")
    >>> comparison = cw.compare(system, ["equi", "whittle"])
    >>> comparison.exact, [row.name for row in comparison.rows]
    (True, ['optimal', 'equi', 'whittle'])
    >>> comparison.lower_bound <= comparison.optimum.mean_cost
    True
    """

    _repr_fields = ("rows", "lower_bound", "exact")
    _json_fields = ("policies=rows", "lower_bound", "exact", "unit")

    system: System
    rows: tuple[ComparisonRow, ...]
    lower_bound: float | None
    optimum: Solution | None = field(compare=False)
    moving_costs: bool = False
    recorded: int = 0
    same_jobs: bool = False

    @property
    def unit(self) -> str | None:
        """What times are in, if the system says so."""
        return self.system.unit

    @property
    def beside_best(self) -> bool:
        """Whether rows are set beside the best of them: all were given the same jobs."""
        return self.moving_costs or self.same_jobs

    @property
    def exact(self) -> bool:
        """Whether the numbers are exact."""
        return self.optimum is not None

    def report(self) -> Report:
        """Return a table of the policies; the cost has a column only where it is not the number of jobs."""
        weighted = self.system.weighted
        if self.recorded:
            return self._report_of_jobs(weighted)
        facts = [("lower bound", self._bound_in_words())]
        if self.beside_best:
            facts.append(("means", "simulated on the same jobs, with 95 % intervals"))
        elif not self.exact:
            facts.append(
                ("means", "simulated, with 95 % intervals; at most so much above the optimum: certified")
            )
        above = "cost above\nthe optimum" if weighted else "above the\noptimum"
        if self.beside_best:
            above = above.replace("optimum", "best here")
        elif not self.exact:
            above = f"at most {above}"
        times = with_unit("mean\nresponse time", self.unit).replace(" (", "\n(")
        header = ["policy", "mean number\nof jobs", times, *(["mean\ncost"] if weighted else []), above]
        digits = 8 if self.exact else 5
        table = Table(header, [row._cells(digits, weighted) for row in self.rows])
        notes = [f"note: {row.obstacle}" for row in self.rows if row.obstacle]
        return Report(f"Policies side by side: {self.system.summary}", facts, [table], notes)

    def _report_of_jobs(self, weighted: bool) -> Report:
        """Return a table of what recorded jobs took."""
        header = [
            "policy",
            with_unit("mean\nresponse time", self.unit).replace(" (", "\n("),
            "99th\npercentile",
            "makespan",
            *(["mean\ncost"] if weighted else []),
            "resizes\nper job",
            "above the\nbest here",
        ]
        facts = [
            ("jobs", f"{self.recorded:,}, the same under every policy; nothing is random"),
            ("lower bound", self._bound_in_words()),
        ]
        table = Table(header, [row._cells_of_jobs(weighted) for row in self.rows])
        return Report(f"Policies side by side: {self.system.summary}", facts, [table])

    def _bound_in_words(self) -> str:
        if self.recorded:
            return "none: it is of the long run, and these jobs end"
        if self.lower_bound is None:
            return "none: arrivals beyond the capacity are lost, and lost jobs cost nothing"
        cost = "mean cost" if self.system.weighted else "mean number of jobs"
        sizes = "" if self.system.memoryless else ", whatever the sizes"
        return f"{self.lower_bound:.8g} (proved: under no policy is the {cost} below it{sizes})"


def compare(  # noqa: PLR0913  # what to compare, on what, and by what means
    system: System,
    policies: Iterable[Policy | str] | None = None,
    *,
    capacity: int | Sequence[int] | None = None,
    simulate: bool | None = None,
    events: int = 1_000_000,
    rng: np.random.Generator | int | None = None,
    progress: Progress | None = None,
    jobs: Trace | None = None,
    whole: bool = False,
    known_sizes: bool = False,
    moving_costs: bool = False,
) -> Comparison:
    """Evaluate policies beside the optimum or, for many classes, beside a lower bound.

    Where sizes or the times between arrivals are not exponential, curves change with progress, jobs hold
    whole cores or policies see sizes nothing is exact: policies are simulated on the same jobs, and set
    beside the best of them. The lower bound then is that of fixed widths, which holds for any sizes, any
    stationary arrivals and any policy, one that knows all sizes included.

    Parameters
    ----------
    system : System
        What they serve.
    policies : iterable of Policy, optional
        Which to compare; by default EQUI, GREEDY*, Whittle and, for two classes, priority to each in turn,
        for more the improved policy; for sizes that are not exponential also the optimum as if they were, and
        job-index; on recorded jobs EQUI, GREEDY*, Whittle and job-index.
    capacity : int or sequence of int, optional
        The most jobs of each class, as for `solve` and `evaluate`: the paper's blocking model.
    simulate : bool, optional
        Whether to simulate; by default only where exact numbers are out of reach: more than three classes, or
        more than a minute of work.
    events : int, optional
        How many events to simulate of each policy.
    rng : Generator or int, optional
        The source of randomness for it, or a seed.
    progress : callable, optional
        Called with the share of the policies that are done.
    jobs : Trace, optional
        Recorded jobs, which come exactly so under every policy, until all have left; the load may be any.
    whole, known_sizes : bool, optional
        As for `simulate`: whether every job holds whole cores and pauses when these change, and whether
        policies that decide per job see the work before each.
    moving_costs : bool, optional
        Whether jobs hold whole cores and pause when these change, by the width rules of policies of classes,
        see `simulate`: policies are simulated on the same jobs, by default EQUI, the optimum for free moves,
        held widths and the price rule.

    Raises
    ------
    UnstableSystem
        If no policy keeps up. A policy that does not, where another could, gives a row with ``stable=False``.
    NotSettled
        If so many events are too few to tell the mean under any of the policies; if they are for some,
        their rows have ``stable=None`` and say why.

    Examples
    --------
    >>> import corewise as cw
    >>> system = cw.load_system("paper:1")
    >>> comparison = cw.compare(system.at_load(0.8), ["equi", "whittle"])
    >>> for row in comparison.rows:
    ...     print(row.name, round(row.mean_jobs, 3), f"{row.gap:.1%}")
    optimal 17.414 0.0%
    equi 19.138 9.9%
    whittle 17.415 0.0%
    """
    if not isinstance(system, System):
        raise InvalidInput(f"expected a System, got {system!r}")
    manner = Manner(whole, known_sizes)
    followed = jobs is not None or manner != SHARES
    if moving_costs or followed:
        if simulate is False or capacity is not None:
            how = "moving costs" if moving_costs else "jobs, whole or known_sizes"
            raise InvalidInput(f"with {how} nothing is exact: give neither simulate=False nor a capacity")
        if moving_costs and followed:
            raise InvalidInput(
                "moving_costs is another way to hold whole cores: give no jobs, whole or known_sizes"
            )
    if moving_costs:
        usual: list[Policy] = [Equi(), Optimal(), Held(), Priced()]
        rules = usual if policies is None else _checked(policies, system)
        return _moved(system, rules, events, rng, progress)
    if jobs is not None:
        require_trace(jobs)
        system = jobs.completed(system)
    chosen = _usual(system, jobs) if policies is None else _checked(policies, system)
    if jobs is not None:
        return _on_jobs(system, chosen, jobs, manner, progress)
    if simulate and capacity is not None:
        raise InvalidInput(f"a simulation has no box: give no capacity, got {capacity!r}")
    if simulate is None:
        simulate = followed or (capacity is None and not Tractability.of(system).exact)
    if simulate:
        return _simulated(system, chosen, events, rng, progress, manner)
    half = None if progress is None else lambda share: progress(0.5 * share)
    best = solve(system, capacity=capacity, progress=half)
    rows = [
        ComparisonRow(
            "optimal",
            best.mean_jobs,
            best.mean_response_time,
            best.mean_cost,
            0.0,
            stable=True,
            certified_gap=0.0,
        )
    ]
    for k, policy in enumerate(chosen, start=1):
        rows.append(_row(system, policy, capacity, best.mean_cost))
        if progress:
            progress(0.5 + 0.5 * k / len(chosen))
    return Comparison(system, tuple(rows), lower_bound(system) if capacity is None else None, best)


def _usual(system: System, jobs: Trace | None) -> list[Policy]:
    chosen: list[Policy] = [Equi(), Greedy(), Whittle()]
    names = system.names
    if jobs is not None:
        return [*chosen, JobIndex()]
    if not system.memoryless:
        quick = Tractability.of(system.as_memoryless()).exact
        return [*([Optimal()] if quick else []), *chosen, JobIndex(), *([] if quick else [Improved()])]
    if len(names) > _MOST_CLASSES_FOR_PRIORITY:
        chosen.append(Improved())
    elif len(names) > 1:
        chosen += [Priority([first, *(name for name in names if name != first)]) for first in names]
    return chosen


def _simulated(
    system: System,
    policies: Sequence[Policy],
    events: int,
    rng: np.random.Generator | int | None,
    progress: Progress | None,
    manner: Manner,
) -> Comparison:
    """Return the comparison by simulation; every policy has a random stream of its own, or the same jobs."""
    bound, same = lower_bound(system), manner != SHARES or not system.memoryless
    rows, unsettled = [], []
    streams = _streams(rng, len(policies), same=same)
    held = {"whole": manner.whole, "known_sizes": manner.known_sizes}
    for k, (policy, stream) in enumerate(zip(policies, streams, strict=True)):
        try:
            found = simulated_mean(system, policy, events=events, rng=stream, lower_bound=bound, **held)
        except UnstablePolicy:
            rows.append(ComparisonRow(policy.name, None, None, None, None, stable=False))
        except NotSettled as reason:
            unsettled.append(reason)
            rows.append(ComparisonRow(policy.name, None, None, None, None, stable=None, obstacle=str(reason)))
        else:
            rows.append(
                ComparisonRow(
                    policy.name,
                    found.mean_jobs,
                    found.mean_response_time,
                    found.mean_cost,
                    None,
                    stable=True,
                    interval=found.interval if found.events else None,
                    cost_interval=found.cost_interval if found.events else None,
                    certified_gap=None if same else found.cost_interval[1] / bound - 1.0,
                )
            )
        if progress:
            progress((k + 1) / len(policies))
    if unsettled and len(unsettled) == len(rows):
        raise unsettled[0]
    return Comparison(system, tuple(_beside_the_best(rows) if same else rows), bound, None, same_jobs=same)


def _on_jobs(
    system: System, policies: Sequence[Policy], jobs: Trace, manner: Manner, progress: Progress | None
) -> Comparison:
    """Return the comparison on recorded jobs."""
    rows, count = [], len(jobs.job_class)
    for k, policy in enumerate(policies):
        run = simulate_policy(system, policy, jobs=jobs, whole=manner.whole, known_sizes=manner.known_sizes)
        assert run.job_times is not None
        rows.append(
            ComparisonRow(
                policy.name,
                run.mean_jobs,
                run.mean_response_time,
                run.mean_cost,
                None,
                stable=True,
                percentile_99=float(run.job_times.together.percentiles(0, np.array([99.0]))[0]),
                makespan=run.time,
                resizes_per_job=None if run.resizes is None else run.resizes / count,
            )
        )
        if progress:
            progress((k + 1) / len(policies))
    # What all jobs cost in all: means over time are of windows that end with the last job.
    costs = [(row.mean_cost or 0.0) * (row.makespan or 0.0) for row in rows]
    beside = [replace(row, above_best=cost / min(costs) - 1.0) for row, cost in zip(rows, costs, strict=True)]
    return Comparison(system, tuple(beside), None, None, recorded=count, same_jobs=True)


def _moved(
    system: System,
    policies: Sequence[Policy],
    events: int,
    rng: np.random.Generator | int | None,
    progress: Progress | None,
) -> Comparison:
    """Return the comparison with moving costs, all policies on the same jobs."""
    system.require_stable()
    (common,) = random_streams(rng, 1)
    rows = []
    for k, policy in enumerate(policies):
        try:
            run = simulate_policy(
                system, policy, moving_costs=True, departures=-(-events // 2), rng=deepcopy(common)
            )
        except UnstablePolicy:
            rows.append(ComparisonRow(policy.name, None, None, None, None, stable=False))
        else:
            means = (run.mean_jobs, run.mean_response_time, run.mean_cost)
            interval = None if np.isnan(run.interval[0]) else run.interval
            rows.append(ComparisonRow(policy.name, *means, None, stable=True, interval=interval))
        if progress:
            progress((k + 1) / len(policies))
    beside = tuple(_beside_the_best(rows))
    return Comparison(system, beside, lower_bound(system), None, moving_costs=True)


def _streams(rng: np.random.Generator | int | None, count: int, *, same: bool) -> list[np.random.Generator]:
    """Return a random stream for every policy: one of its own, or where every job is followed the same."""
    if not same:
        return random_streams(rng, count)
    (common,) = random_streams(rng, 1)
    return [deepcopy(common) for _ in range(count)]


def _beside_the_best(rows: Sequence[ComparisonRow]) -> list[ComparisonRow]:
    """Return rows that say how much each costs above the best of them."""
    best = min((row.mean_cost for row in rows if row.mean_cost is not None), default=None)
    return [
        row if row.mean_cost is None or best is None else replace(row, above_best=row.mean_cost / best - 1.0)
        for row in rows
    ]


def _checked(policies: Iterable[Policy | str], system: System) -> list[Policy]:
    """Return the policies; one that does not fit is found before time is spent on the optimum."""
    if isinstance(policies, Policy | str) or not isinstance(policies, Iterable):
        raise InvalidPolicy(f"expected a list of policies such as [Equi()], got {policies!r}")
    return [checked_policy(policy, system) for policy in policies]


def _row(
    system: System, policy: Policy, capacity: int | Sequence[int] | None, optimal_cost: float
) -> ComparisonRow:
    try:
        result = evaluate(system, policy, capacity=capacity)
    except UnstablePolicy:
        return ComparisonRow(policy.name, None, None, None, None, stable=False)
    gap = result.mean_cost / optimal_cost - 1.0
    if abs(gap) < _ROUNDING:
        gap = 0.0
    return ComparisonRow(
        policy.name,
        result.mean_jobs,
        result.mean_response_time,
        result.mean_cost,
        gap,
        stable=True,
        certified_gap=gap,
    )
