r"""The controlled Markov chain: its generator, its stationary distribution and its relative values.

Under a policy the counts of jobs are a Markov chain with generator Q: in state n, class i gains a job at
rate λ_i (not at the edge of the box) and loses one at rate δ_i(n). Its stationary distribution π solves π Q
= 0, and for a cost f the relative values V and the mean J = π f solve

    f(n) − J + (Q V)(n) = 0,      V(r) = 0 at a reference state r.

*Iterative.* Gauss-Seidel sweeps on π, which converge fast in its shape among states with the same total
number of jobs, alternate with the exact balance of flows between totals: every event changes the total by
one, so the totals are a birth-death chain. This is iterative aggregation-disaggregation (Koury, McAllister,
Stewart 1984). It is quick at light load, needs no more memory than π itself, and serves any number of
classes. Balancing the single counts as well was tried: it saves up to a third of the time under EQUI and
diverges under strict priority.

Where sizes differ, totals are not what converges last at high load, but the work in the system: its flows are
balanced as well once the sweeps turn out to be slow (`corewise.analysis.work`). Where a policy starves a
class, balancing totals can keep π from settling: it is left out once it does not help.

*Closed form,* for one class, a birth-death chain: π by its product form, V by the recursion of its steps.

*Direct,* in small boxes, for two classes should the iteration fail, and for exact values: the generator is
factorised, and gives π (left solve) and V (right solve). See `corewise.analysis.factors`.

Paper: section 4.1, equations (4.1)-(4.4).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from corewise.analysis import _kernels
from corewise.analysis.factors import BandFactors, Factors, SparseFactors, band_work, sparse_bytes
from corewise.analysis.work import WorkLevels
from corewise.errors import NotConverged
from corewise.kit.arrays import Floats
from corewise.model.rates import departure_rates
from corewise.model.space import StateSpace, available_memory
from corewise.model.system import System
from corewise.policies.base import BoundPolicy, tabulate

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = ["Chain"]

_DIRECT_STATES = 20_000
_SMALL_WORK = 1e8
"""Operations of a factorisation that are no more than sweeps would take."""
_LIKELY = 1e-3
"""Times the largest probability: a state at least so likely will do as a reference."""
_REFERENCES = 3
"""States that are tried."""
_IMBALANCE = 1e-15
_ROUGH = 1e-6
_FLOOR = 4e-15
"""An imbalance below which one that no longer falls is rounding."""
_LAST_FLOOR = 4e-14
"""The same after the last round of sweeps: near saturation rounding is worse."""
_UNMEASURED = -1.0
"""The target where the imbalance is not asked for."""
_CYCLES = 4
"""Cycles of sweeps a round."""
_MAX_ROUNDS = 400
_DIRECT_ROUNDS = 160
_NEAR = 16
"""Rounds before giving up, before a factorisation takes over, and before a distribution is near enough."""
_MISSES = 4
"""Balancing totals ends when the imbalance has not fallen by a fifth so many times."""
_AT_A_TIME = 2**16
"""States per call of a kernel, which cannot be interrupted."""
_UNTIL_BALANCED = 8
_WHILE_BALANCED = 2
"""Rounds before the levels of work are balanced: in a small box, and at least."""
_REFINEMENTS = 3


@dataclass(frozen=True, eq=False)
class Chain:
    """Markov chain of the counts on a truncated state space, when classes hold `cores`, of shape (K, size).

    `guess` is a distribution near the stationary one, if there is any; `progress` is called with how far the
    distribution has converged, from 0 to 1 on a logarithmic scale.
    """

    system: System
    space: StateSpace
    cores: Floats
    guess: Floats | None = None
    progress: Callable[[float], object] | None = None

    @classmethod
    def under(cls, policy: BoundPolicy, system: System, space: StateSpace) -> Chain:
        """Return the chain of `system` when `policy` shares its cores."""
        return cls(system, space, tabulate(policy, space))

    @cached_property
    def rates(self) -> Floats:
        """δ, the departure rates of every class and state, shape (K, size)."""
        return departure_rates(self.system, self.space.jobs, self.cores)

    @property
    def direct(self) -> bool:
        """Whether a factorisation is affordable: up to two classes that fit in memory, or a small box."""
        if self.space.size <= _DIRECT_STATES:
            return True
        return len(self.space.capacity) <= 2 and sparse_bytes(self.space) <= available_memory()

    @property
    def small(self) -> bool:
        """Whether a factorisation is quicker than sweeps."""
        return band_work(self.space) <= _SMALL_WORK

    @cached_property
    def outflow(self) -> Floats:
        """The total rate out of every state: of all departures, and of the arrivals there is room for."""
        joining = self.system.arrival_rates @ self.space.room
        return np.asarray(joining + np.add.reduce(self.rates, axis=0))

    @cached_property
    def inverse(self) -> Floats:
        """One over the total rate out of every state."""
        return 1.0 / self.outflow

    @cached_property
    def generator(self) -> csr_array:
        """The generator Q as a sparse matrix."""
        from scipy.sparse import diags_array

        size = self.space.size
        diagonals: list[Any] = [-self.outflow]
        offsets = [0]
        for i, stride in enumerate(self.space.strides.tolist()):
            arrivals = self.system.arrival_rates[i] * self.space.room[i]
            diagonals += [arrivals[: size - stride], self.rates[i, stride:]]
            offsets += [stride, -stride]
        return diags_array(diagonals, offsets=offsets, shape=(size, size)).tocsr()

    @cached_property
    def distribution(self) -> Floats:
        """The stationary distribution π."""
        if len(self.space.capacity) == 1:
            return _kernels.birth_death_distribution(self.rates[0], float(self.system.arrival_rates[0]))
        if self.small:
            prob = self._factored
            vars(self).pop("_elimination")  # a solution keeps its chain, and factors are many times larger
            if self._imbalance(prob) <= _FLOOR:
                if self.progress:
                    self.progress(1.0)
                return prob
        begun = self.rough.copy() if "rough" in vars(self) else self.relaxed(2)
        return self._iterate(_IMBALANCE, begun)

    def values(self, cost: Floats) -> tuple[float, Floats]:
        """Return J = π f and the relative values V, zero at the reference state; direct only."""
        if len(self.space.capacity) == 1:
            mean, steps = self.steps(cost)
            reference = int(np.argmax(self.distribution))
            below = -np.cumsum(steps[reference:0:-1])[::-1]
            return mean, np.concatenate([below, [0.0], np.cumsum(steps[reference + 1 : -1])])
        values = self.correction(cost)
        for _ in range(1, _REFINEMENTS):
            values += self.correction(cost + self.apply(values))
        return float(self._factored @ cost), values

    def correction(self, drift: Floats) -> Floats:
        """Return what to add to V, for f + QV = `drift` to become its mean everywhere; direct only."""
        factors, prob = self._elimination
        rest = drift - float(prob @ drift)
        rest[factors.reference] = 0.0
        return factors.right(rest)

    def apply(self, values: Floats) -> Floats:
        """Return Q V."""
        changes = -self.outflow * values
        for i, stride in enumerate(self.space.strides.tolist()):
            changes[:-stride] += self.system.arrival_rates[i] * self.space.room[i, :-stride] * values[stride:]
            changes[stride:] += self.rates[i, stride:] * values[:-stride]
        return changes

    def _imbalance(self, prob: Floats) -> float:
        """Return Σ |inflow − outflow| over Σ outflow: zero for the stationary distribution."""
        leaving = self.outflow * prob
        flows = -leaving
        for i, stride in enumerate(self.space.strides.tolist()):
            flows[stride:] += self.system.arrival_rates[i] * self.space.room[i, :-stride] * prob[:-stride]
            flows[:-stride] += self.rates[i, stride:] * prob[stride:]
        return float(np.abs(flows).sum() / leaving.sum())

    def steps(self, cost: Floats) -> tuple[float, Floats]:
        """Return J = π f and the steps V(n) − V(n − 1) of one class, with a zero below and one above.

        The recursions from both sides meet at one state, and the last digits of J follow from its residual.
        """
        rates, distribution, arrival = self.rates[0], self.distribution, float(self.system.arrival_rates[0])
        mean = float(distribution @ cost)
        for _ in range(_REFINEMENTS):
            steps = _kernels.birth_death_steps(rates, arrival, cost, mean)
            met = int(np.argmax(cost > mean))
            excess = cost[met] - mean + arrival * steps[met + 1] - rates[met] * steps[met]
            mean += float(distribution[met] * excess)
        return mean, _kernels.birth_death_steps(rates, arrival, cost, mean)

    @property
    def _factored(self) -> Floats:
        """π from the factorisation."""
        return self._elimination[1]

    @cached_property
    def _elimination(self) -> tuple[Factors, Floats]:
        """The generator, factorised at a likely state, and π."""
        if not self.small:
            sparse = SparseFactors(self.generator, int(np.argmax(self.relaxed(20))))
            return sparse, self._law(sparse)
        reference = self._typical
        for _ in range(_REFERENCES):
            factors = BandFactors(self.space, self.system.arrival_rates, self.rates, self.outflow, reference)
            prob = self._law(factors)
            if not np.all(np.isfinite(prob)):
                reference = int(np.argmax(self.relaxed(20)))
                continue
            likeliest = int(np.argmax(prob))
            if prob[reference] >= _LIKELY * prob[likeliest]:
                break
            reference = likeliest
        return factors, prob

    @property
    def _typical(self) -> int:
        """A state that is seldom unlikely: the likeliest of a guess, or that of jobs with a core each."""
        if self.guess is not None:
            return int(np.argmax(self.guess))
        jobs = [one.work_rate for one in self.system.classes]
        return int(np.minimum(jobs, self.space.capacity).astype(np.int64) @ self.space.strides)

    def _law(self, factors: Factors) -> Floats:
        """Return π by factors: x with −x Q = 0 that is one at the reference, normed."""
        reference = factors.reference
        joining = np.zeros(self.space.size)
        joining[reference] = 1.0
        for i, stride in enumerate(self.space.strides.tolist()):
            if self.space.room[i, reference]:
                joining[reference + stride] = self.system.arrival_rates[i]
            if self.rates[i, reference]:
                joining[reference - stride] = self.rates[i, reference]
        prob = factors.left(joining)
        with np.errstate(invalid="ignore"):
            return np.asarray(prob / prob.sum())

    def relaxed(self, cycles: int, prob: Floats | None = None) -> Floats:
        """Return a distribution closer to π than `prob`, by some cycles of sweeps and balance."""
        space = self.space
        if prob is None and self.guess is not None:
            prob = self.guess.copy()
        elif prob is None:
            prob = np.exp(-space.counts.sum(axis=0) * (1.0 - min(self.system.load, 1.0)))
            prob /= prob.sum()
        self._relax(prob, True, cycles, 1, _UNMEASURED, np.inf, 0)
        return prob

    def _relax(
        self,
        prob: Floats,
        by_totals: bool,
        cycles: int,
        rounds: int,
        target: float,
        best: float,
        stalled: int,
    ) -> tuple[bool, float, int]:
        """Bring `prob` closer to π; see the kernel."""
        return _kernels.relax(
            prob,
            self.rates,
            self.system.arrival_rates,
            self.outflow,
            self.inverse,
            self.space.dimensions,
            self.space.strides,
            by_totals,
            cycles,
            rounds,
            target,
            _FLOOR,
            best,
            stalled,
        )

    @cached_property
    def rough(self) -> Floats:
        """The stationary distribution π to a few digits: enough to see where its mass lies."""
        if len(self.space.capacity) == 1 or self.small:
            return self.distribution
        return self._iterate(_ROUGH, self.relaxed(2))

    def near(self, prob: Floats) -> Floats:
        """Return a distribution near π, from one that is not far from it; not nearer than a few digits."""
        return self._iterated(_ROUGH, self.relaxed(1, prob), _NEAR)[0]

    def _iterate(self, target: float, prob: Floats) -> Floats:
        """Return `prob` brought to a flow imbalance of at most `target`, or as low as rounding lets it be."""
        max_rounds = _DIRECT_ROUNDS if self.direct else _MAX_ROUNDS
        prob, converged, imbalance = self._iterated(target, prob, max_rounds)
        if converged:
            return prob
        if self.direct:
            return self._factored
        if imbalance <= _LAST_FLOOR:
            return prob
        raise NotConverged(
            f"the stationary distribution over {self.space.size:,} states "
            f"still has a flow imbalance of {imbalance:.1e}"
        )

    def _iterated(self, target: float, prob: Floats, max_rounds: int) -> tuple[Floats, bool, float]:
        """Return `prob` after up to `max_rounds` rounds, whether it has converged, and its imbalance."""
        space, best, stalled, misses = self.space, np.inf, 0, 0
        levels = WorkLevels(self.system, space)
        ways = [(True, False), (False, False)]
        if not levels.are_totals:
            ways = [(True, True), (False, True)]
        at_once = min(max(_AT_A_TIME // space.size, _WHILE_BALANCED), _UNTIL_BALANCED)
        for done in range(0, max_rounds, at_once):
            if misses == _MISSES and len(ways) > 1:
                ways, misses, best = ways[1:], 0, np.inf
            by_totals, by_work = ways[0]
            before = best
            if done > 0 and by_work:
                prob = levels.equations(prob, self.rates).balanced()
            rounds = min(max_rounds - done, at_once)
            converged, best, stalled = self._relax(prob, by_totals, _CYCLES, rounds, target, best, stalled)
            prob /= prob.sum()  # without totals, sweeps let the mass shrink or grow
            if self.progress and 0.0 < best < 1.0:
                self.progress(min(math.log(best) / math.log(target), 1.0))
            if converged:
                return prob, True, best
            misses += best > 0.8 * before
        return prob, False, best
