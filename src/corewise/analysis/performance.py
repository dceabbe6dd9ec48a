r"""Exact performance of a policy: mean jobs, response times and cost.

By Little's law the mean response time is the mean number of jobs over the rate at which jobs are admitted.

Classes with one curve s that share equally (EQUI) are a processor-sharing queue, whatever their number and
sizes: with ρ_i = λ_i/μ_i and N = Σ n_i,

    π(n) ∝ (N! / Π n_i!) Π ρ_i^{n_i} / Π_{k ≤ N} k s(c/k).

So all jobs are those of one class with arrival rate Σ ρ_i and unit sizes, and each is of class i with
probability ρ_i / Σ ρ_j. Source: F. P. Kelly, *Reversibility and Stochastic Networks* (1979), section 3.3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from corewise.analysis.box import edge_probabilities, first_box, fitted_box
from corewise.analysis.chain import Chain
from corewise.analysis.tractability import Tractability
from corewise.errors import BoxTooLarge, InvalidPolicy
from corewise.kit.arrays import Floats
from corewise.kit.frozen import FrozenMapping
from corewise.kit.report import Report, Reported, Summarised, Table
from corewise.kit.unit_labels import with_unit
from corewise.kit.values import ByValue
from corewise.model.space import StateSpace, most_states
from corewise.model.system import System, require_system
from corewise.policies.base import BoundPolicy, Policy, bind
from corewise.policies.equi import Equi

__all__ = [
    "ClassPerformance",
    "Performance",
    "evaluate",
    "has_product_form",
    "performance_of",
    "product_form",
    "stationary_chain",
]

_FEW_CLASSES = 2
"""Number of classes up to which finding the box is quicker than predicting it."""
_FAR_BEYOND = 10.0
"""Times the states that fit in memory: a box predicted to be larger than that is not tried."""
_SIDES = 8  # of a box that are named


@dataclass(frozen=True, eq=False, repr=False)
class ClassPerformance(ByValue, Summarised):
    """Exact long-run performance for one class: mean jobs, response time and cost.

    Examples
    --------
    >>> import corewise as cw
    >>> system = cw.load_system("paper:1")
    >>> performance = cw.evaluate(system, "equi").classes["one"]
    >>> performance.name, round(performance.mean_jobs, 4), round(performance.mean_response_time, 4)
    ('one', 0.4014, 0.2867)
    """

    _repr_fields = ("name", "mean_jobs", "mean_response_time", "mean_cost")
    _json_fields = ("name", "mean_jobs", "mean_response_time", "mean_cost", "beyond=edge_probability")

    name: str
    mean_jobs: float
    mean_response_time: float
    mean_cost: float
    edge_probability: float


@dataclass(frozen=True, eq=False, repr=False)
class Performance(ByValue, Reported):
    """Exact long-run performance of a policy on a system.

    Attributes
    ----------
    policy : str
        The name of the policy.
    mean_jobs, mean_response_time, mean_cost : float
        Overall; the cost is Σ h_i n_i.
    utilisation : float
        The mean share of cores that are assigned to some job.
    edge_probability : float
        The probability of being at the edge of the box.
    capacity : tuple of int
        The box.
    blocking : bool
        Whether the box was given: then arrivals beyond it are lost, as in the paper's Assumption 3.4, and all
        numbers are those of that model.
    classes : mapping
        The same for each class, by name.
    unit : str or None
        What times are in, if the system says so.

    Examples
    --------
    >>> import corewise as cw
    >>> system = cw.load_system("paper:1")
    >>> performance = cw.evaluate(system, "equi")
    >>> performance.policy, performance.blocking
    ('equi', False)
    >>> round(performance.mean_response_time, 6)
    0.16375
    >>> round(performance.mean_jobs / float(system.arrival_rates.sum()), 6)
    0.16375
    >>> performance.edge_probability < 1e-10
    True
    """

    _repr_fields = ("policy", "mean_jobs", "mean_response_time", "capacity")
    _json_fields = (
        *("policy", "mean_jobs", "mean_response_time", "mean_cost", "utilisation", "beyond=edge_probability"),
        *("capacity", "blocking", "unit", "classes"),
    )

    policy: str
    mean_jobs: float
    mean_response_time: float
    mean_cost: float
    utilisation: float
    edge_probability: float
    capacity: tuple[int, ...]
    blocking: bool
    classes: Mapping[str, ClassPerformance]
    unit: str | None = None

    def report(self) -> Report:
        """Return the means of the policy and of each class."""
        facts = [
            *self._means(),
            self._utilisation(),
            ("counts of jobs", self._box()),
        ]
        return Report(f"Policy {self.policy}", facts, [self._table()])

    def _means(self) -> list[tuple[str, str]]:
        unit = self.unit or "(in the unit of time of the rates)"
        return [
            ("mean number of jobs", f"{self.mean_jobs:.10g}"),
            ("mean response time", f"{self.mean_response_time:.10g} {unit}"),
        ]

    def _utilisation(self) -> tuple[str, str]:
        return "utilisation", f"{self.utilisation:.2%} of the cores are held by some job, on average"

    def _box(self) -> str:
        """Return which counts of jobs were looked at, and how likely their edge is."""
        counts = " x ".join(f"0..{n}" for n in self.capacity[:_SIDES])
        counts += " x ..." if len(self.capacity) > _SIDES else ""
        edge = f"(probability at the edge {self.edge_probability:.1e})"
        if not self.blocking:
            return f"{counts}, chosen so that the rest does not matter {edge}"
        lost = "; what is lost costs nothing, so a larger capacity gives another answer"
        more = lost if self.edge_probability > 1e-9 else ""
        return f"{counts}; an arrival beyond them is lost {edge}{more}"

    def _table(self) -> Table:
        """Return the means of each class and of all; the cost where it is not the number of jobs."""
        rows: list[ClassPerformance | Performance] = [*self.classes.values(), self]
        header = ["class", "mean number of jobs", with_unit("mean response time", self.unit)]
        cells = [[*self.classes, "all"], [r.mean_jobs for r in rows], [r.mean_response_time for r in rows]]
        if any(row.mean_cost != row.mean_jobs for row in rows):
            header.append("mean cost")
            cells.append([row.mean_cost for row in rows])
        return Table(header, list(zip(*cells, strict=True)))


def evaluate(
    system: System,
    policy: Policy | str,
    *,
    capacity: int | Iterable[int] | None = None,
    progress: Callable[[float], object] | None = None,
) -> Performance:
    """Return the exact performance of `policy` on `system`.

    Parameters
    ----------
    system : System
        The system; its load must be below one unless a capacity is given.
    policy : Policy or str
        A rule, its name (``"equi"``), or a policy bound to another system with the same cores and classes.
    capacity : int or sequence of int, optional
        Room for that many jobs of each class; arrivals that find none are lost. If not given, the box is
        chosen so large that it does not matter.
    progress : callable, optional
        Called with about how much is done, from 0 to 1.

    Raises
    ------
    UnstableSystem, UnstablePolicy
        If the number of jobs grows without bound.

    Examples
    --------
    >>> import corewise as cw
    >>> system = cw.load_system("paper:1")
    >>> equi = cw.evaluate(system, cw.Equi())
    >>> round(equi.mean_jobs, 6)
    0.655001
    >>> round(equi.classes["two"].mean_response_time, 6)
    0.097551
    """
    require_system(system)
    system.require_memoryless("evaluate")
    bound = bind(policy, system)
    if capacity is None and has_product_form(system, bound):
        return product_form(system, bound.name)
    chain = stationary_chain(system, bound, capacity, progress)
    return performance_of(chain, bound.name, blocking=capacity is not None)


def stationary_chain(
    system: System,
    policy: BoundPolicy,
    capacity: int | Iterable[int] | None,
    progress: Callable[[float], object] | None = None,
) -> Chain:
    """Return the chain of `policy` on the box given, or on one so large that truncation does not matter.

    With `progress`, a box counts for the share that it has of the states predicted.
    """
    if not policy.by_counts:
        raise InvalidPolicy(
            f"{policy.name} decides per job, by work that no chain of counts knows: simulate follows every "
            f"job, and allocate_jobs (allocate --jobs FILE) has the cores of each"
        )
    if capacity is not None:
        system.require_scale()
        chain = Chain.under(policy, system, StateSpace.of(capacity, len(system.classes)))
        return replace(chain, progress=progress)
    system.require_stable()
    system.require_scale()
    begin = first_box(system)
    predicted = _predicted_states(system, policy) if progress or len(system.classes) > _FEW_CLASSES else 0.0
    most = most_states(len(system.classes))
    if predicted > _FAR_BEYOND * most:
        raise BoxTooLarge(
            f"{policy.name} at load {system.load:.6g} needs a box of about {predicted:.1g} states, and this "
            f"machine has room for about {most:,}; compare and simulate do without a box"
        )

    def chain_on(space: StateSpace) -> Chain:
        chain = Chain.under(policy, system, space)
        if progress is None:
            return chain
        part = space.size / max(space.size, predicted)
        return replace(chain, progress=lambda share: progress(part * share))

    return fitted_box(system, begin, chain_on, policy.name)


def _predicted_states(system: System, policy: BoundPolicy) -> float:
    """Return about how many states the box of a policy has."""
    reach = Tractability.of(system)
    return reach.shared if policy.decision.shares_equally else reach.ordered


def has_product_form(system: System, policy: Policy) -> bool:
    """Return whether the counts have a product form: several classes with one curve, which share equally.

    With Poisson arrivals it holds for sizes of any distribution; it is used where all else is exponential
    too.
    """
    first, *others = system.classes
    if not others or not system.memoryless or any(job_class.curve != first.curve for job_class in others):
        return False
    return isinstance(policy, Equi) or (isinstance(policy, BoundPolicy) and policy.decision.shares_equally)


def product_form(system: System, name: str) -> Performance:
    """Return the performance of equal shares among classes with one curve, from all jobs as one class."""
    system.require_stable()
    system.require_scale()
    work = [job_class.work_rate for job_class in system.classes]
    first = replace(system.classes[0], name="all", arrival_rate=sum(work), size_rate=1.0, weight=1.0)
    merged = System(system.cores, [first])
    whole = evaluate(merged, Equi())
    rows = {}
    for job_class, rate, part in zip(system.classes, system.arrival_rates.tolist(), work, strict=True):
        jobs = whole.mean_jobs * part / sum(work)
        rows[job_class.name] = ClassPerformance(
            job_class.name, jobs, jobs / rate, job_class.weight * jobs, whole.edge_probability
        )
    return replace(
        whole,
        policy=name,
        mean_response_time=whole.mean_jobs / float(system.arrival_rates.sum()),
        mean_cost=sum(row.mean_cost for row in rows.values()),
        capacity=whole.capacity * len(rows),
        classes=FrozenMapping(rows),
        unit=system.unit,
    )


def performance_of(chain: Chain, name: str, *, blocking: bool) -> Performance:
    """Return the performance of a policy from its chain."""
    system, space, prob = chain.system, chain.space, chain.distribution
    grid = prob.reshape(space.shape)
    edges = edge_probabilities(space, prob)
    rows = {}
    for i, job_class in enumerate(system.classes):
        others = tuple(j for j in range(len(space.capacity)) if j != i)
        jobs = float(grid.sum(axis=others) @ np.arange(space.shape[i]))
        admitted = float(system.arrival_rates[i]) * (1.0 - edges[i])
        rows[job_class.name] = ClassPerformance(
            job_class.name, jobs, jobs / admitted, job_class.weight * jobs, edges[i]
        )
    jobs = sum(row.mean_jobs for row in rows.values())
    admitted = sum(
        rate * (1.0 - edge) for rate, edge in zip(system.arrival_rates.tolist(), edges, strict=True)
    )
    return Performance(
        policy=name,
        mean_jobs=jobs,
        mean_response_time=jobs / admitted,
        mean_cost=sum(row.mean_cost for row in rows.values()),
        utilisation=float(prob @ (chain.cores.sum(axis=0) / system.cores)),
        edge_probability=_edge_probability(grid),
        capacity=space.capacity,
        blocking=blocking,
        classes=FrozenMapping(rows),
        unit=system.unit,
    )


def _edge_probability(grid: Floats) -> float:
    """Return the probability that some class is at its capacity, by adding up the edge itself.

    One minus the interior would lose it in rounding: it is often below 1e-16.
    """
    total, rest = 0.0, grid
    for axis in range(grid.ndim):
        total += float(rest.take(-1, axis=axis).sum())
        rest = rest.take(np.arange(rest.shape[axis] - 1), axis=axis)
    return total
