r"""The linear equations of fitted values.

The values V and the mean cost J of a policy solve f − J + QV = 0, f(n) = Σ h_i n_i. A combination V = θ·φ of
features is fitted by

    A θ = b,     A = −E[φ_c (Qφ)'],     b = E[φ_c f],     φ_c = φ − E[φ],

where E is a weighted mean over states, and Qφ is exact (`corewise.control.improve.basis`). The true V would
solve these equations whatever the states and weights are, if the features could express it. If the weights
are those of a stationary, reversible chain, the V found is the nearest to the true one in the norm Σ π(n)
q(n, m) (V(m) − V(n))²: it is *differences* of V that are fitted best, which are what a policy needs.

Sums over states are linear in the weights. So they are kept for several sets of weights, and the equations
solved for any mixture of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from corewise.control.improve.basis import Basis
from corewise.kit.arrays import Floats, Ints
from corewise.kit.threads import one_thread
from corewise.model.rates import departure_rates
from corewise.model.system import System
from corewise.policies.fitted.values import FittedValues

__all__ = ["RIDGE", "Equations"]

RIDGE = 1e-7
"""What is added to the diagonal of the equations, of their mean diagonal."""
_BLOCK = 8192


@dataclass(frozen=True, eq=False)
class Equations:
    """Least-squares equations of fitted values: weighted sums of F features, for G sets of weights.

    Attributes
    ----------
    basis : Basis
        The features.
    matrices : ndarray, shape (G, F, F)
        Of φ (Qφ)'.
    targets, means, drifts, squares : ndarray, shape (G, F)
        Of φ f, φ, Qφ and φ².
    costs, totals : ndarray, shape (G,)
        Of f and 1.
    """

    basis: Basis
    matrices: Floats
    targets: Floats
    means: Floats
    drifts: Floats
    squares: Floats
    costs: Floats
    totals: Floats

    @classmethod
    def of(cls, system: System, counts: Ints, weights: Floats, cores: Floats) -> Equations:
        """Return the sums over states with the cores that a policy gives them.

        Parameters
        ----------
        system : System
            The system.
        counts, cores : ndarray, shape (K, states)
            The jobs of each class, and the cores that it holds.
        weights : ndarray, shape (G, states)
            How much each state counts.
        """
        everywhere = weights.sum(axis=0)
        widths = cores @ everywhere / np.maximum(counts @ everywhere, 1e-300)
        basis = Basis.of(system, np.clip(widths, 1.0, max(system.cores, 1.0)))
        jobs, cost = counts.astype(np.float64), system.weights @ counts
        leaving = departure_rates(system, jobs, cores)
        # Sums are taken about a typical state: far from the origin squares would lose digits.
        typical = jobs @ everywhere / everywhere.sum()
        centre = basis.features(typical[:, None], np.zeros((len(jobs), 1)))[0]
        level = float(system.weights @ typical)
        sums: list[list[Floats]] = [[] for _ in weights]
        for start in range(0, counts.shape[1], _BLOCK):
            block = slice(start, start + _BLOCK)
            with one_thread():
                phi, drift = basis.features(jobs[:, block], leaving[:, block])
                phi -= centre
                for weight, found in zip(weights[:, block], sums, strict=True):
                    part = _sums(phi, drift, cost[block] - level, weight)
                    found[:] = [old + new for old, new in zip(found, part, strict=True)] if found else part
        return cls(basis, *(np.array(rows) for rows in zip(*sums, strict=True)))

    def solved(self, mixture: Sequence[float], ridge: float = RIDGE) -> FittedValues:
        """Return the values for a mixture of the sets of weights.

        Equations are solved in units in which every feature has variance one, with a little added to the
        diagonal, `ridge`, for features that are nearly the same where these states are.
        """
        share = np.array(mixture) / (np.array(mixture) @ self.totals)
        matrix, target, mean, drift, square, cost = (
            np.tensordot(share, rows, axes=1)
            for rows in (self.matrices, self.targets, self.means, self.drifts, self.squares, self.costs)
        )
        target = target - mean * cost
        scale = np.sqrt(np.maximum(square - mean**2, 0.0))
        vary = scale > 1e-12 * scale.max()
        unit = scale[vary]
        scaled = (np.outer(mean, drift) - matrix)[np.ix_(vary, vary)] / np.outer(unit, unit)
        scaled[np.diag_indices_from(scaled)] += ridge * np.trace(scaled) / unit.size
        answer = np.zeros(target.size)
        with one_thread():
            answer[vary] = np.linalg.solve(scaled, target[vary] / unit) / unit
        return self.basis.values(answer)


def _sums(phi: Floats, drift: Floats, cost: Floats, weight: Floats) -> list[Floats]:
    """Return the sums over the states of a block that count."""
    seen = np.flatnonzero(weight)
    if seen.size < weight.size:
        phi, drift, cost, weight = phi[:, seen], drift[:, seen], cost[seen], weight[seen]
    weighted = phi * weight
    return [
        weighted @ drift.T,
        weighted @ cost,
        weighted.sum(axis=1),
        drift @ weight,
        np.einsum("fs,fs->f", weighted, phi),
        np.asarray(weight @ cost),
        np.asarray(weight.sum()),
    ]
