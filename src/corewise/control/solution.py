"""The optimal policy of a system, with a certificate."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from corewise.analysis.box import edge_is_remote, edge_probabilities, fitted_box, snug_box
from corewise.analysis.chain import Chain
from corewise.analysis.factors import band_work
from corewise.analysis.performance import Performance, performance_of, stationary_chain
from corewise.control.bellman import Bellman
from corewise.control.solvers import ClosedForm, EliminatingPolicyIteration, ModifiedPolicyIteration, Solver
from corewise.errors import InvalidInput, NotConverged
from corewise.kit import checks
from corewise.kit.arrays import Floats, Ints
from corewise.kit.checks import shown
from corewise.kit.report import Report, Reported
from corewise.kit.values import ByValue
from corewise.model.space import StateSpace
from corewise.model.system import System, require_system
from corewise.policies.base import BoundPolicy
from corewise.policies.rounding import require_whole
from corewise.policies.tabular import Tabular
from corewise.policies.whittle import Whittle

__all__ = ["Solution", "solve"]

_TOLERANCE = 1e-9
_ROUNDS = 8
_SMALL_WORK = 2e7
"""Operations of a factorisation that are no more than the sweeps over values would take."""


@dataclass(frozen=True, eq=False, repr=False)
class Solution(ByValue, Reported):
    """Optimal policy of a system, with its certified cost, relative values and exact performance.

    Attributes
    ----------
    system : System
        The system solved.
    policy : Tabular
        The optimal policy; outside its box, the Whittle rule.
    bounds : tuple of float
        Certified: the optimal cost of the boxed problem lies between them.
    values : ndarray
        Relative values V, zero in the empty state, in the shape of the box.
    iterations : int
        Improvements of the policy.
    solver : str
        What found it.
    blocking : bool
        Whether the box was given, and arrivals beyond it are lost.

    Examples
    --------
    >>> import corewise as cw
    >>> system = cw.load_system("paper:1")
    >>> solution = cw.solve(system)
    >>> round(solution.mean_jobs, 6)
    0.650289
    >>> solution.bounds[1] - solution.bounds[0] < 1e-8
    True
    >>> cw.solve(system, start=solution).iterations <= solution.iterations
    True
    """

    _repr_fields = ("mean_jobs", "bounds", "capacity")
    _json_fields = (
        *("mean_jobs", "mean_response_time", "mean_cost", "bounds", "capacity", "beyond=edge_probability"),
        *("blocking", "solver", "iterations", "unit", "classes=performance.classes"),
    )

    system: System
    policy: Tabular
    bounds: tuple[float, float]
    values: Floats
    iterations: int
    solver: str
    blocking: bool
    _chain: Chain
    _cost: Floats

    @property
    def unit(self) -> str | None:
        """What times are in, if the system says so."""
        return self.system.unit

    @cached_property
    def distribution(self) -> Floats:
        """The stationary distribution of the policy over the box, flat; computed on first use."""
        self._require_within_bounds()
        return self._chain.distribution

    def _require_within_bounds(self) -> None:
        """Raise `NotConverged` if what the policy costs contradicts its certificate."""
        mean = float(self._chain.distribution @ self._cost)
        low, high = self.bounds
        slack = 1e-9 * max(1.0, abs(high)) + (high - low)
        if not low - slack <= mean <= high + slack:
            raise NotConverged(
                f"the policy found costs {mean:.12g}, outside its bounds [{low:.12g}, {high:.12g}]"
            )

    @cached_property
    def performance(self) -> Performance:
        """Exact performance of the policy, from its stationary distribution; computed on first use."""
        self._require_within_bounds()
        return performance_of(self._chain, "optimal", blocking=self.blocking)

    @property
    def mean_jobs(self) -> float:
        """The mean number of jobs."""
        return self.performance.mean_jobs

    @property
    def mean_response_time(self) -> float:
        """The mean response time."""
        return self.performance.mean_response_time

    @property
    def mean_cost(self) -> float:
        """The mean of Σ h_i n_i, which is what was minimised."""
        return self.performance.mean_cost

    @property
    def capacity(self) -> tuple[int, ...]:
        """The box: the largest count of each class."""
        return self.policy.capacity

    @property
    def edge_probability(self) -> float:
        """The probability of being at the edge of the box."""
        return self.performance.edge_probability

    @property
    def warm_start(self) -> Floats:
        """Warm start for a like system: relative values on the smallest box that would have been ample."""
        sizes = snug_box(self.system, self._chain.space, self.distribution)
        return np.ascontiguousarray(self.values[tuple(slice(n + 1) for n in sizes)])

    def report(self) -> Report:
        """Return the means of the optimal policy, and its certificate."""
        low, high = self.bounds
        weighted = self.system.weighted
        minimised = "mean cost" if weighted else "mean number of jobs"
        cost = ("mean cost", f"{self.mean_cost:.10g} (the weighted number of jobs: what is minimised)")
        within = f"the least possible {minimised}{' with that blocking' if self.blocking else ''}"
        kind = "Optimal policy, whole cores" if self.policy.whole_cores else "Optimal policy"
        facts = [
            *self.performance._means(),
            *([cost] if weighted else []),
            ("certified", f"{within} lies in [{low:.12g}, {high:.12g}]"),
            self.performance._utilisation(),
            ("counts of jobs", self.performance._box()),
            ("solver", f"{self.solver}, {self.iterations} iteration{'' if self.iterations == 1 else 's'}"),
        ]
        return Report(f"{kind}: {self.system.summary}", facts, [self.performance._table()])

    def _values(self) -> Mapping[str, object]:
        """Return all but what has a number for each state, which is in `to_frame`."""
        found = {name: getattr(self, name) for name in ("bounds", "iterations", "solver")}
        return {**self.performance._values(), **found}

    def _content(self) -> dict[str, Floats | Ints]:
        """Return one row for each state of the box."""
        per_state = {"probability": self.distribution, "value": self.values.ravel()}
        return {**self.policy._content(), **per_state}


def solve(
    system: System,
    *,
    capacity: int | Iterable[int] | None = None,
    tolerance: float = _TOLERANCE,
    whole_cores: bool = False,
    start: Solution | Floats | None = None,
    solver: Solver | None = None,
    progress: Callable[[float], object] | None = None,
) -> Solution:
    """Return the policy with the least mean cost Σ h_i n_i; with equal weights, the least mean response time.

    Parameters
    ----------
    system : System
        A system whose load is below one.
    capacity : int or sequence of int, optional
        Room for that many jobs of each class, arrivals beyond are lost. If not given, the box is chosen so
        that its effect on the mean number of jobs is below 1e-10.
    tolerance : float
        How far apart the certified bounds may be, relative to the cost where that is above one.
    whole_cores : bool
        Whether every class must hold a whole number of cores.
    start : Solution or ndarray, optional
        Warm start: an earlier solution of a like system, or its `Solution.warm_start`. The search begins from
        its values and, unless a capacity is given, in its box, which grows if it is not ample.
    solver : Solver, optional
        By default modified policy iteration; in a small box policy iteration by elimination, and for one
        class its closed form.
    progress : callable, optional
        Called with about the share of the work that is done, from 0 to 1; less again if the box has to grow.

    Raises
    ------
    UnstableSystem
        If the load is one or more.
    NotConverged
        If the bounds do not meet.

    Examples
    --------
    >>> import corewise as cw
    >>> system = cw.load_system("paper:1")
    >>> solution = cw.solve(system)
    >>> round(solution.mean_jobs, 6), round(solution.mean_response_time, 6)
    (0.650289, 0.162572)
    >>> low, high = solution.bounds
    >>> low <= solution.mean_cost <= high, high - low < 1e-8
    (True, True)
    >>> solution.policy.allocate([2, 3]).round(3)
    array([ 5.739, 24.261])
    """
    require_system(system)
    system.require_memoryless("solve")
    system.require_stable()
    system.require_scale()
    tolerance = checks.positive(tolerance, "tolerance")
    if whole_cores:
        require_whole(system)
    if solver is not None and (isinstance(solver, type) or not isinstance(solver, Solver)):
        raise InvalidInput(f"solver must be an object such as PolicyIteration(), got {solver!r}")
    problem = _SolveTask(system, tolerance, whole_cores, solver, progress)
    values = None if start is None else _warm_values(start, system)
    if capacity is not None:
        space = StateSpace.of(capacity, len(system.classes))
        return problem.on_box(space, values, blocking=True)
    if values is not None:
        return problem.from_box(StateSpace.of([n - 1 for n in values.shape], values.ndim), values)
    first = stationary_chain(system, Whittle().on(system), None)
    return problem.from_box(first.space, None, first)


def _warm_values(start: object, system: System) -> Floats:
    """Return the relative values to start from."""
    values = start.warm_start if isinstance(start, Solution) else start
    if not isinstance(values, np.ndarray) or values.ndim != len(system.classes) or min(values.shape) < 2:
        raise InvalidInput(
            f"start must be an earlier Solution for {len(system.classes)} classes or its warm_start, "
            f"got {shown(start)}"
        )
    return values


@dataclass(frozen=True)
class _SolveTask:
    """Problem to be solved: the system, the tolerance and the solver."""

    system: System
    tolerance: float
    whole_cores: bool
    solver: Solver | None
    progress: Callable[[float], object] | None

    def from_box(self, space: StateSpace, start: Floats | None, first: Chain | None = None) -> Solution:
        """Return the solution on a box, from `space` upwards, whose edge does not matter."""
        for k in range(_ROUNDS):
            solution = self._after(k).on_box(space, start, first, blocking=False)
            if edge_is_remote(self.system, space, edge_probabilities(space, solution.distribution)):
                return solution
            policy = solution.policy.on(self.system)

            def chain_on(box: StateSpace, policy: BoundPolicy = policy) -> Chain:
                return Chain.under(policy, self.system, box)

            larger = fitted_box(self.system, space, chain_on, "the optimal policy").space
            # In a larger box the optimum comes to the edge more often: by small steps it might take many.
            sizes = zip(space.capacity, larger.capacity, strict=True)
            space = StateSpace.of([old + (new - old) * 2**k for old, new in sizes], len(larger.capacity))
            start, first = solution.values, None
        raise NotConverged(f"the box of the optimal policy still grows at {space.capacity}")

    def _after(self, boxes: int) -> _SolveTask:
        """Return the problem with the progress after a number of boxes that were too small."""
        progress = self.progress
        if not (progress and boxes):
            return self
        return replace(self, progress=lambda share: progress((boxes + share) / (boxes + 1.0)))

    def on_box(
        self, space: StateSpace, start: Floats | None, first: Chain | None = None, *, blocking: bool
    ) -> Solution:
        """Return the solution on a box; `first` is the chain of the Whittle policy on it, if it is known."""
        system, whole_cores = self.system, self.whole_cores
        bellman = Bellman(
            system,
            space,
            tolerance=self.tolerance,
            whole_cores=whole_cores,
            blocking=blocking,
            first=first,
            progress=self.progress,
        )
        values = _fitted_values(start, space)
        chosen = self.solver or _suited(space)
        result = chosen.run(bellman, values)
        relative = (result.values - result.values[0]).reshape(space.shape)
        relative.setflags(write=False)
        chain = result.step.chain
        policy = Tabular(system, chain.cores.reshape(-1, *space.shape), whole_cores, "optimal")
        return Solution(
            system,
            policy,
            result.step.bounds,
            relative,
            result.iterations,
            result.by or chosen.name,
            blocking,
            chain,
            bellman.cost,
        )


def _suited(space: StateSpace) -> Solver:
    """Return the solver that is quickest: sweeps, but for a small box, and for one class."""
    if len(space.capacity) == 1:
        return ClosedForm()
    return EliminatingPolicyIteration() if band_work(space) <= _SMALL_WORK else ModifiedPolicyIteration()


def _fitted_values(values: Floats | None, space: StateSpace) -> Floats | None:
    """Return the values of an earlier solution on this box, continued in straight lines beyond its own."""
    if values is None:
        return None
    for axis, (old, new) in enumerate(zip(values.shape, space.shape, strict=True)):
        if new < old:
            values = values.take(np.arange(new), axis=axis)
        elif new > old:
            last = values.take([-1], axis=axis)
            slope = last - values.take([-2], axis=axis)
            ahead = np.arange(1, new - old + 1).reshape([-1 if i == axis else 1 for i in range(values.ndim)])
            values = np.concatenate([values, last + slope * ahead], axis=axis)
    return np.ascontiguousarray(values).ravel()
