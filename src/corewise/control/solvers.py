"""The solvers, as objects: give one to `solve(…, solver=…)`.

One class is solved in closed form (`ClosedForm`). The others apply the Bellman operator until its
certified bounds meet, all but the last beginning with the Whittle policy; they differ in what they do between
two applications to the values of the policy just found.

- `ModifiedPolicyIteration` sweeps over them a few times. The mean cost that a sweep needs is π·(f + QV),
  with the stationary distribution π kept up by a cycle of its own; it is wrong only to second order in the
  errors of π and V. Sweeps go in order of rising counts, so that what is known at few jobs reaches many in
  one sweep: at light load three or four applications suffice. At high load what converges last is the work in
  the system, and that is solved for between sweeps (`corewise.analysis.work`). The default.
- `PolicyIteration` computes them exactly by a factorisation now and then.
- `EliminatingPolicyIteration` does so for the first policy, and corrects them by the same factors for the
  next ones, which differ little. The default in a small box.
- `RelativeValueIteration` takes one step of the uniformised chain. Slow, simple, and known to converge: the
  reference.

Paper: section 4.3, Algorithm 2 (value iteration).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import numpy as np

from corewise.analysis.chain import Chain
from corewise.control import _kernels
from corewise.control.bellman import Bellman, Step
from corewise.errors import BoxTooLarge, NotConverged
from corewise.kit import checks
from corewise.kit.arrays import Floats
from corewise.model.rates import uniformisation_constant

_HIGH_LOAD = 0.66
"""From this load on the work in the system converges slowly, and is corrected between sweeps."""
_PER_CORRECTION = 4
_MOST_CORRECTED = 60
_CORRECTED_PATIENCE = 8
"""Improvements with corrections before sweeps alone take over: in all, and without the bounds closing."""
_CLOSING = 0.03
"""Factors serve another policy if the bounds have closed so far, or further, by the last correction."""
_MOST_ELIMINATIONS = 30

__all__ = [
    "ClosedForm",
    "EliminatingPolicyIteration",
    "ModifiedPolicyIteration",
    "PolicyIteration",
    "RelativeValueIteration",
    "Solver",
    "SolverResult",
]


@dataclass(frozen=True)
class SolverResult:
    """Result of a solver: the last Bellman step, the values it was taken at, and the number of steps.

    `by` is the name of the solver that found it, if that is another than the one that was asked.
    """

    step: Step
    values: Floats
    iterations: int
    by: str = ""


@runtime_checkable
class Solver(Protocol):
    """Solver of the average-cost problem, as `solve` uses it."""

    @property
    def name(self) -> str:
        """What to call the solver."""
        ...

    def run(self, bellman: Bellman, values: Floats | None) -> SolverResult:
        """Apply the operator, from `values` if given, until its bounds are within its tolerance."""
        ...


@dataclass(frozen=True)
class ModifiedPolicyIteration:
    """Modified policy iteration: a few sweeps over the values between two improvements of the policy.

    Parameters
    ----------
    sweeps : int
        Sweeps after each of the first improvements; later ones, needed where sweeps converge slowly, get
        up to twelve times as many.
    rounds : int
        The most improvements before giving up.

    Examples
    --------
    >>> import corewise as cw
    >>> system = cw.load_system("paper:1")
    >>> solution = cw.solve(system, solver=cw.solvers.ModifiedPolicyIteration())
    >>> round(solution.mean_jobs, 6)
    0.650289
    """

    sweeps: int = 16
    rounds: int = 2000

    def __post_init__(self) -> None:
        for name in ("sweeps", "rounds"):
            object.__setattr__(self, name, checks.whole(getattr(self, name), name))

    @property
    def name(self) -> str:
        """What to call the solver."""
        return "modified policy iteration"

    def run(self, bellman: Bellman, values: Floats | None) -> SolverResult:
        """Apply the operator until its bounds are within its tolerance."""
        if bellman.system.load >= _HIGH_LOAD:
            found = self._with_corrections(bellman, values)
            if found is not None:
                return found
        return self._with_sweeps(bellman, values)

    def _with_corrections(self, bellman: Bellman, values: Floats | None) -> SolverResult | None:
        """Return the result with the work corrected between sweeps; None if that does not converge."""
        if values is None:
            held, chain = bellman.draining_values(), bellman.first_chain()
            prob = chain.rough.copy()
            self._settle(bellman, chain, held, prob)
        else:
            held = values.copy()
            prob = bellman(held).chain.rough.copy()
        least, since = np.inf, 0
        for k in range(min(self.rounds, _MOST_CORRECTED)):
            step = bellman(held, prob)
            if step.converged:
                return SolverResult(step, held, k + 1)
            since = 0 if step.span < 0.9 * least else since + 1
            least = min(step.span, least)
            if since >= _CORRECTED_PATIENCE or step.gap > 0.0 or not np.isfinite(step.span):
                return None
            prob = step.chain.near(prob)
            self._settle(bellman, step.chain, held, prob)
        return None

    def _settle(self, bellman: Bellman, chain: Chain, held: Floats, prob: Floats) -> None:
        bellman.relax(chain, held, prob, 2 * _PER_CORRECTION, max(self.sweeps // _PER_CORRECTION, 1))

    def _with_sweeps(self, bellman: Bellman, values: Floats | None) -> SolverResult:
        """Return the result by sweeps alone."""
        prob: Floats | None = None
        if values is None:
            held, chain = bellman.cost.copy(), bellman.first_chain()
            prob = chain.relaxed(3)
            bellman.sweep(chain, held, float(prob @ bellman.apply(chain, held)), self.sweeps)
            held -= held[0]
        else:
            held = values.copy()
        watch = _Stall(self.name)
        for k in range(self.rounds):
            step = bellman(held, prob)
            if step.converged:
                return SolverResult(step, held, k + 1)
            watch(step)
            prob = step.chain.relaxed(4 if prob is None else 1, prob)
            sweeps = self.sweeps * min(max(1, k // 3), 12)
            bellman.sweep(step.chain, held, float(prob @ step.drift), sweeps)
            held -= held[0]
        raise watch.unsettled()


@dataclass(frozen=True)
class PolicyIteration:
    """Policy iteration: exact values of a policy, then a few improvements with sweeps between, and again.

    For up to two classes, or a small box. Improving once per factorisation would be Howard's algorithm;
    where many splits are nearly tied (equal sizes, more jobs than cores) it takes tens of factorisations,
    and the sweeps resolve the ties for a hundredth of the price.

    Parameters
    ----------
    improvements : int
        Improvements per factorisation.
    sweeps : int
        Sweeps between two of them.
    rounds : int
        The most factorisations before giving up.

    Examples
    --------
    >>> import corewise as cw
    >>> system = cw.load_system("paper:1")
    >>> solution = cw.solve(system, solver=cw.solvers.PolicyIteration())
    >>> round(solution.mean_jobs, 6)
    0.650289
    """

    improvements: int = 10
    sweeps: int = 20
    rounds: int = 60

    def __post_init__(self) -> None:
        for name in ("improvements", "sweeps", "rounds"):
            object.__setattr__(self, name, checks.whole(getattr(self, name), name))

    @property
    def name(self) -> str:
        """What to call the solver."""
        return "policy iteration"

    def run(self, bellman: Bellman, values: Floats | None) -> SolverResult:
        """Apply the operator until its bounds are within its tolerance."""
        chain = bellman.first_chain() if values is None else bellman(values).chain
        if not chain.direct:
            raise BoxTooLarge(
                f"{self.name} would factorise a matrix over {chain.space.size:,} states of "
                f"{len(chain.space.capacity)} classes; use ModifiedPolicyIteration() or a smaller capacity"
            )
        watch = _Stall(self.name)
        for k in range(self.rounds):
            mean, held = chain.values(bellman.cost)
            for j in range(self.improvements):
                step = bellman(held)
                if step.converged:
                    return SolverResult(step, held, k * self.improvements + j + 1)
                watch(step)
                chain = step.chain
                if j + 1 < self.improvements:
                    bellman.sweep(chain, held, mean, self.sweeps)
                    held -= held[0]
        raise watch.unsettled()


@dataclass(frozen=True)
class EliminatingPolicyIteration:
    """Policy iteration by elimination: the values of a policy by its factors, which serve the next ones too.

    With Q factorised for one policy, values are corrected by f + QV − J of the latest: an error of second
    order is left, for a fraction of the price. If ties keep the bounds from meeting, sweeps take over.
    """

    @property
    def name(self) -> str:
        """What to call the solver."""
        return "policy iteration by elimination"

    def run(self, bellman: Bellman, values: Floats | None) -> SolverResult:
        """Apply the operator until its bounds are within its tolerance."""
        if values is None:
            factorised = bellman.first_chain()
            held = factorised.values(bellman.cost)[1]
            step = bellman(held)
        else:
            held = values.copy()
            step = bellman(held)
            factorised = step.chain
        before = np.inf
        for k in range(_MOST_ELIMINATIONS):
            if step.converged:
                return SolverResult(step, held, k + 1)
            if not np.isfinite(step.span):
                break
            if step.span > _CLOSING * before:
                factorised = step.chain
            before = step.span
            held += factorised.correction(step.drift)
            step = bellman(held)
        sweeps = ModifiedPolicyIteration()
        return replace(sweeps.run(bellman, values), by=sweeps.name)


@dataclass(frozen=True)
class ClosedForm:
    """Closed form for one class, a birth-death chain: nothing is to be chosen but to use the cores.

    Its certificate is taken from the steps of the values, not from their differences: values grow with the
    square of the count, and would lose the digits.
    """

    @property
    def name(self) -> str:
        """What to call the solver."""
        return "closed form"

    def run(self, bellman: Bellman, values: Floats | None) -> SolverResult:  # noqa: ARG002 (nothing to start)
        """Return the values of the only policy, and what the operator makes of them."""
        chain = bellman.first_chain()
        held = chain.values(bellman.cost)[1]
        step = bellman(held)
        steps = step.chain.steps(bellman.cost)[1]
        arrival = bellman.system.arrival_rates[0] * bellman.space.room[0]
        low, high, rounding = _kernels.step_bracket(step.chain.rates[0], arrival, bellman.cost, steps)
        low -= step.gap
        # The recursions add up their roundings, which are worst at one state: some times those of a step.
        if not high - low <= bellman.tolerance * max(1.0, abs(high)) + 8.0 * rounding:
            raise NotConverged(f"the {self.name} has bounds {high - low:.3g} apart")
        return SolverResult(replace(step, bounds=(low, high), converged=True), held, 1)


@dataclass(frozen=True)
class RelativeValueIteration:
    """Relative value iteration: one step of the uniformised chain between two improvements; the reference.

    Examples
    --------
    >>> import corewise as cw
    >>> system = cw.load_system("paper:1")
    >>> solution = cw.solve(system, solver=cw.solvers.RelativeValueIteration())
    >>> round(solution.mean_jobs, 6)
    0.650289
    """

    rounds: int = 1_000_000

    def __post_init__(self) -> None:
        object.__setattr__(self, "rounds", checks.whole(self.rounds, "rounds"))

    @property
    def name(self) -> str:
        """What to call the solver."""
        return "relative value iteration"

    def run(self, bellman: Bellman, values: Floats | None) -> SolverResult:
        """Apply the operator until its bounds are within its tolerance."""
        held = np.zeros(bellman.space.size) if values is None else values.copy()
        rate = uniformisation_constant(bellman.system)
        watch = _Stall(self.name, max_steps=10_000)
        for k in range(self.rounds):
            step = bellman(held)
            if step.converged:
                return SolverResult(step, held, k + 1)
            watch(step)
            held += step.drift / rate
            held -= held[0]
        raise watch.unsettled()


class _Stall:
    """Convergence monitor: the bounds must keep closing; it says what is wrong when they do not."""

    def __init__(self, name: str, max_steps: int = 60) -> None:
        self.name = name
        self.max_steps = max_steps
        self.rounds = 0
        self.best = np.inf
        self.mark = np.inf
        self.since = 0
        self.gap = 0.0

    def __call__(self, step: Step) -> None:
        """Take note of a step; raise if the bounds have not closed for long, or are not numbers."""
        self.rounds += 1
        self.since += 1
        if step.span < 0.999 * self.mark:
            self.mark, self.since = step.span, 0
        self.best = min(self.best, step.span)
        self.gap = step.gap
        if self.since >= self.max_steps or self.gap > 0.0 or not np.isfinite(step.span):
            raise self.unsettled()

    def unsettled(self) -> NotConverged:
        """Return the error to raise when the bounds have not met."""
        reason = ""
        if self.gap > 0.0:
            reason = (
                f"; {self.gap:.3g} of it is the error of a split between curves without a closed form: "
                f"give their slope_above, or a larger tolerance"
            )
        return NotConverged(
            f"{self.name} ended after {self.rounds:,} rounds with bounds {self.best:.3g} apart{reason}"
        )
