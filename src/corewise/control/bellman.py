r"""The Bellman operator of the average-cost problem, by water-filling.

With costs f(n) = Σ h_i n_i the optimal mean J* and relative values V solve

    J* = f(n) + Σ_i λ_i (V(n + e_i) − V(n)) − max_x Σ_i n_i μ_i s_i(x_i/n_i) (V(n) − V(n − e_i)).

The maximum is a concave split with offers ω_i = μ_i (V(n) − V(n − e_i)), exact by water-filling; no grid of
actions. For *any* V, with r(n) = f(n) + (Q V)(n) under the policy that attains the maximum,

    min_n (r(n) − gap(n)) ≤ J* ≤ max_n r(n),

where gap bounds what the split falls short of the maximum: zero but for curves without a closed form. These
are the certified bounds; they are widened by the rounding of r, which grows with |V|.

The paper iterates (4.6)-(4.7) as printed, with rates in place of probabilities and V(0) held at zero; that
neither converges nor minimises the mean. See `docs/paper.md`.

Paper: section 4.3, equations (4.6) and (4.7).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from corewise.analysis.chain import Chain
from corewise.analysis.work import WorkLevels
from corewise.control import _kernels
from corewise.kit.arrays import Floats
from corewise.model.rates import cost_rates
from corewise.model.space import StateSpace
from corewise.model.system import System
from corewise.policies.equi import equal_share
from corewise.policies.rounding import require_whole, round_cores, within_limits
from corewise.policies.waterfill.demand import marginal_shapes
from corewise.policies.waterfill.split import certified_split, full_speeds, ranked, split
from corewise.policies.whittle import Whittle

__all__ = ["Bellman", "Step"]

_TRIFLE = 1e-14
"""By which share one of two offers that are equal is less: that of the class that gains more from cores."""

_HARM = 10.0
"""Growth of the residuals by which a correction is undone."""

_FIRST_SHARE, _BENT = 0.15, 0.35
"""The share of the work that is done when bounds are known at all, and how far they close in what is left."""

_AT_A_TIME = 2**24
"""States swept by one call of the kernel, which cannot be interrupted: a few tenths of a second."""


@dataclass(frozen=True)
class Step:
    """Bellman step: one application of the operator to values V, and the bounds on the optimum it certifies.

    Attributes
    ----------
    chain : Chain
        The chain under the split that attains the maximum.
    drift : ndarray, shape (size,)
        r = f + QV.
    bounds : tuple of float
        Certified bounds on J*, rounding included; but for `gap` while they are not near.
    gap : float
        How far some split may be from the best; zero for curves with closed forms.
    converged : bool
        Whether the bounds are within the tolerance.
    """

    chain: Chain
    drift: Floats
    bounds: tuple[float, float]
    gap: float
    converged: bool

    @property
    def span(self) -> float:
        """The span: the distance between the bounds."""
        return self.bounds[1] - self.bounds[0]


class Bellman:
    """Bellman operator of one system on one truncated state space."""

    def __init__(
        self,
        system: System,
        space: StateSpace,
        *,
        tolerance: float = 1e-9,
        whole_cores: bool = False,
        blocking: bool = True,
        first: Chain | None = None,
        progress: Callable[[float], object] | None = None,
    ) -> None:
        self.system = system
        self.space = space
        self.tolerance = tolerance
        self.whole_cores = whole_cores
        self._first = first
        self._progress, self._widest = progress, 0.0
        self.cost = cost_rates(system, space)
        if not blocking:
            self.cost += _rejection_costs(system, space, self.cost)
        self._offers = np.empty(space.counts.shape)
        ranks = ranked([(speed,) for speed in full_speeds(system)])
        self._favours = np.asarray(1.0 - _TRIFLE * ranks, dtype=np.float64)
        if whole_cores:
            self._table = _rate_table(system, space)
            self._cores = round_cores(equal_share(space.counts, system.cores))
        else:
            self._shapes = marginal_shapes(system)
            self._budget = np.full(space.size, system.cores)

    def __call__(self, values: Floats, guess: Floats | None = None) -> Step:
        """Apply the operator to `values`; `guess` is a distribution near that of the policy found."""
        system, space = self.system, self.space
        _kernels.value_steps(
            values, system.size_rates, self._favours, space.strides, space.counts, self._offers
        )
        if self.whole_cores:
            _kernels.improve_whole(self._table, self._offers, space.counts, self._cores)
            cores = within_limits(self._cores.copy(), space.counts, system.max_cores)
        else:
            cores = split(self._shapes, space.counts, self._offers, self._budget)
        chain = Chain(system, space, cores, guess)
        drift = self.apply(chain, values)
        gap = np.empty(0)
        low, high, rounding = _bracket(drift, values, chain.outflow, self.cost, gap)
        converged = self._within_tolerance(low, high, rounding)
        if converged and not self.whole_cores and self._shapes.sampled:
            gap = certified_split(system, self._shapes, space.counts, self._offers)[1]
            low, high, rounding = _bracket(drift, values, chain.outflow, self.cost, gap)
            converged = self._within_tolerance(low, high, rounding)
        if self._progress:
            self._report(high - low, 1.0 if converged else 0.99, self._progress)
        return Step(chain, drift, (low, high), float(gap.max(initial=0.0)), converged)

    def _report(self, span: float, most: float, progress: Callable[[float], object]) -> None:
        """Report the share of the work done, estimated from the distance of the bounds.

        They close slowly at first, the logarithm of their distance as about the third power of the time.
        """
        self._widest = max(span, self._widest)
        near = self.tolerance * max(1.0, self.cost[0])
        if near < span < math.inf and self._widest > near:
            closed = math.log(self._widest / span) / math.log(self._widest / near)
            progress(min(_FIRST_SHARE + (1.0 - _FIRST_SHARE) * closed**_BENT, most))

    def _within_tolerance(self, low: float, high: float, rounding: float) -> bool:
        """Return whether the bounds are within the tolerance (relative above one) but for rounding.

        Bounds that are not numbers are not.
        """
        return 0.0 <= high - low <= self.tolerance * max(1.0, abs(high)) + 2.0 * rounding

    def first_chain(self) -> Chain:
        """Return the chain to begin with: that of the Whittle policy, which is seldom far from optimal."""
        if self._first is not None:
            return self._first
        return Chain.under(Whittle().on(self.system), self.system, self.space)

    def draining_values(self) -> Floats:
        """Return the cost of draining the system as a fluid, the class with the largest h μ first.

        Far from the empty state relative values grow like it: with the square of the counts.
        """
        system = self.system
        worth = system.weights * system.size_rates
        values, emptied, work = (
            np.zeros(self.space.size),
            np.zeros(self.space.size),
            np.zeros(self.space.size),
        )
        spare = system.cores
        for i in np.argsort(-worth, kind="stable"):
            share = float(system.arrival_rates[i] / system.size_rates[i])
            own = self.space.jobs[i] / system.size_rates[i]
            work += own
            spare -= share
            until = work / spare
            piled = own + share * emptied
            values += 0.5 * worth[i] * ((own + piled) * emptied + piled * (until - emptied))
            emptied = until
        return values

    def apply(self, chain: Chain, values: Floats) -> Floats:
        """Return f + QV for the chain of a policy."""
        if chain.small:  # and nothing to compile
            return self.cost + chain.apply(values)
        drift = np.empty(self.space.size)
        _kernels.apply_generator(
            values,
            chain.rates,
            self.system.arrival_rates,
            chain.outflow,
            self.cost,
            self.space.dimensions,
            self.space.strides,
            drift,
        )
        return drift

    def sweep(self, chain: Chain, values: Floats, mean: float, sweeps: int) -> None:
        """Improve `values` in place by Gauss-Seidel sweeps for a policy whose mean cost is about `mean`."""
        self._sweep(chain, chain.rates * chain.inverse, values, mean, sweeps)

    def relax(self, chain: Chain, values: Floats, prob: Floats, corrections: int, sweeps: int) -> None:
        """Bring `values` near those of a policy whose stationary distribution is about `prob`, in place.

        Sweeps reduce all errors but that of the work in the system, which is corrected between them. A
        policy on the way may have a trap in states it hardly sees, where a correction does harm: it is
        undone, and sweeps alone go on.
        """
        shares = chain.rates * chain.inverse
        equations = WorkLevels(self.system, self.space).equations(prob, chain.rates)
        before, least = values.copy(), np.inf
        for k in range(corrections):
            drift = self.apply(chain, values)
            span = float(np.ptp(drift))
            if not span <= _HARM * least:
                values[:] = before
                mean = float(prob @ self.apply(chain, values))
                self._sweep(chain, shares, values, mean, sweeps * (corrections - k))
                break
            before[:], least = values, min(span, least)
            mean = float(prob @ drift)
            equations.correct_values(values, drift, mean)
            self._sweep(chain, shares, values, mean, sweeps)
        values -= values[0]

    def _sweep(self, chain: Chain, shares: Floats, values: Floats, mean: float, sweeps: int) -> None:
        gain, at_once = (self.cost - mean) * chain.inverse, max(_AT_A_TIME // values.size, 1)
        for done in range(0, sweeps, at_once):
            _kernels.sweep_values(
                values,
                shares,
                self.system.arrival_rates,
                chain.inverse,
                gain,
                self.space.dimensions,
                self.space.strides,
                min(at_once, sweeps - done),
            )


def _rejection_costs(system: System, space: StateSpace, cost: Floats) -> Floats:
    """Return what the jobs lost at the edge of the box would have cost, per unit of time.

    Were they lost for free, the optimum would drive the system into the edge to be rid of them. One more
    job of class i costs its own stay, and delays all others, while the backlog drains, by about
    1/(μ_i c (1 − load)); twice that makes sure that nothing is gained.
    """
    delays = 1.0 / (system.size_rates * system.cores * (1.0 - system.load))
    others = system.arrival_rates * 2.0 * delays
    own = others * system.weights + system.arrival_rates * system.weights / system.size_rates
    return (others @ space.edge) * cost + own @ space.edge


def _rate_table(system: System, space: StateSpace) -> Floats:
    """Return n s_i(x/n) for every class i, count n and whole number of cores x, padded to one shape."""
    cores = require_whole(system)
    held = np.arange(cores + 1, dtype=np.float64)
    table = np.zeros((len(system.classes), max(space.shape), cores + 1))
    for i, job_class in enumerate(system.classes):
        jobs = np.arange(1, space.shape[i])[:, None]
        table[i, 1 : space.shape[i]] = jobs * job_class.curve.rate(held / jobs)
    return table


def _bracket(
    drift: Floats, values: Floats, outflow: Floats, cost: Floats, gap: Floats
) -> tuple[float, float, float]:
    """Return min (r − gap) and max r, widened by the rounding of r = f + QV, and how much that is in all."""
    rounding = 4.0 * _kernels.EPSILON * (2.0 * outflow * np.abs(values) + cost)
    below = drift - gap if gap.size else drift
    return float((below - rounding).min()), float((drift + rounding).max()), 2.0 * float(rounding.max())
