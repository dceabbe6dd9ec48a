r"""Basis functions of value function approximation: features of a state, and exactly how they drift.

The features are those of `corewise.policies.fitted.values`:

    S(n_i), N S(n_i)   functions of one class, alone and times the number of jobs,
    B(N), B(N) y_a     functions of the number of jobs, times linear forms y_a = Σ_i G_ai n_i,
    y_a y_b            products of two of the forms.

For few classes the forms are the counts themselves, so that all products of counts are there. For many
they are six: N, the work Σ n_i/μ_i, the same two as the jobs see them at their mean widths z_i,
Σ n_i/s_i(z_i) and Σ n_i/(μ_i s_i(z_i)), and two that distinguish the classes, Σ n_i h_i μ_i and
Σ n_i (1 + log s_i(c)). The number of features then grows with K, not with its square.

The drift Qφ follows from the rates alone. With Λ = Σ λ_i, δ = Σ δ_i and ẏ_a = Σ_i G_ai (λ_i − δ_i),

    Q S(n_i)   = λ_i (S(n_i + 1) − S(n_i)) + δ_i (S(n_i − 1) − S(n_i))
    Q N S(n_i) = N Q S(n_i) + (Λ − δ) S(n_i) + λ_i (S(n_i + 1) − S(n_i)) − δ_i (S(n_i − 1) − S(n_i))
    Q B(N)     = Λ (B(N + 1) − B(N)) + δ (B(N − 1) − B(N))
    Q B(N) y_a = y_a Q B(N) + Σ_i G_ai (λ_i B(N + 1) − δ_i B(N − 1))
    Q y_a y_b  = y_a ẏ_b + y_b ẏ_a + Σ_i G_ai G_bi (λ_i + δ_i).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from corewise.kit.arrays import Floats, Ints
from corewise.model.system import System
from corewise.policies.fitted._kernels import (
    EXCESS,
    INVERSE,
    LINEAR,
    LOGARITHM,
    ROOT,
    SATURATION,
    SQUARED_EXCESS,
    ZERO,
)
from corewise.policies.fitted.values import FittedValues, functions_at
from corewise.policies.waterfill.split import full_speeds

__all__ = ["Basis"]

_FEW_CLASSES = 12


@dataclass(frozen=True, eq=False)
class Basis:
    """Basis functions of a fitted value function: the features of a state.

    Attributes
    ----------
    arrival_rates : ndarray, shape (K,)
        λ, which the drift needs.
    own : ndarray, shape (F, 2)
        The functions of a single count, each a kind and a scale.
    crossed : ndarray of int
        Which of them are also there times N.
    alone, sloped : ndarray, shape (·, 2)
        The functions of N that are features themselves, and those that are multiplied by the forms.
    forms : ndarray, shape (A, K)
        G.
    """

    arrival_rates: Floats
    own: Floats
    crossed: Ints
    alone: Floats
    sloped: Floats
    forms: Floats

    @classmethod
    def of(cls, system: System, widths: Floats) -> Basis:
        """Return the features for a system whose classes hold about so many cores a job."""
        c, classes = system.cores, len(system.classes)
        bends = [(SATURATION, 0.25 * c), (SATURATION, 0.5 * c), (SATURATION, c)]
        alone = [*bends, (ROOT, 0.0), (EXCESS, c), (SQUARED_EXCESS, c)]
        sloped = [*bends, (INVERSE, 1.0), (EXCESS, c)]
        if classes <= _FEW_CLASSES:
            own = [(LINEAR, 0.0), (LOGARITHM, 0.0), (SQUARED_EXCESS, c), *bends, (ZERO, 0.0), (EXCESS, c)]
            crossed, forms = np.array([3, 5, 6, 7]), np.eye(classes)
        else:
            own, forms = [(LINEAR, 0.0)], _summaries(system, widths)
            crossed = np.empty(0, dtype=np.int64)
        return cls(system.arrival_rates, np.array(own), crossed, np.array(alone), np.array(sloped), forms)

    @property
    def pairs(self) -> tuple[Ints, Ints]:
        """The products y_a y_b with a ≤ b."""
        return np.triu_indices(len(self.forms))

    def features(self, jobs: Floats, leaving: Floats) -> tuple[Floats, Floats]:
        """Return φ and Qφ, shape (features, states), for jobs and departure rates of shape (K, states)."""
        coming = self.arrival_rates[:, None]
        total, rate, out = jobs.sum(axis=0), float(self.arrival_rates.sum()), leaving.sum(axis=0)
        phi, drift = [], []
        for row, arrive, leave in zip(jobs, self.arrival_rates.tolist(), leaving, strict=True):
            here, after, before = _around(self.own, row)
            up, down = arrive * (after - here), leave * (before - here)
            times = self.crossed
            phi += [here, total * here[times]]
            drift += [up + down, (total * (up + down) + (rate - out) * here + up - down)[times]]
        here, after, before = _around(self.alone, total)
        phi.append(here)
        drift.append(rate * (after - here) + out * (before - here))
        y, inflow, outflow = self.forms @ jobs, self.forms @ self.arrival_rates, self.forms @ leaving
        for here, after, before in zip(*_around(self.sloped, total), strict=True):
            phi.append(here * y)
            moved = rate * (after - here) + out * (before - here)
            drift.append(moved * y + inflow[:, None] * after - outflow * before)
        first, second = self.pairs
        net, both = inflow[:, None] - outflow, self.forms[first] * self.forms[second]
        phi.append(y[first] * y[second])
        drift.append(y[first] * net[second] + y[second] * net[first] + both @ (coming + leaving))
        return np.concatenate(phi), np.concatenate(drift)

    def values(self, coefficients: Floats) -> FittedValues:
        """Return the function that has these coefficients, in the order of `features`."""
        classes, forms = self.forms.shape[1], len(self.forms)
        single, sloped = (len(self.own) + self.crossed.size) * classes, len(self.sloped) * forms
        ends = np.cumsum([single, len(self.alone), sloped])
        alone, bases, slopes, products = np.split(coefficients, ends)
        own = np.zeros((2, classes, len(self.own)))
        own[0], own[1][:, self.crossed] = np.split(alone.reshape(classes, -1), [len(self.own)], axis=1)
        functions = np.zeros((len(self.alone) + len(self.sloped), 3))
        functions[:, :2] = np.concatenate([self.alone, self.sloped])
        functions[: len(self.alone), 2] = bases
        rows = np.zeros((len(functions), classes))
        rows[len(self.alone) :] = slopes.reshape(-1, forms) @ self.forms
        square = np.zeros((forms, forms))
        square[self.pairs] = products
        return FittedValues(
            self.own,
            own,
            functions,
            rows,
            np.stack([self.forms, square @ self.forms], axis=1),
        )


def _summaries(system: System, widths: Floats) -> Floats:
    """Return the few forms that stand for the counts of many classes."""
    rows = zip(system.classes, widths.tolist(), strict=True)
    speeds = np.array([float(job_class.curve.rate(width)) for job_class, width in rows])
    mu, worth = system.size_rates, system.weights * system.size_rates
    bent = 1.0 + np.log(full_speeds(system)) if system.cores > 1.0 else np.ones(mu.size)
    ones = np.ones(mu.size)
    return np.stack([ones, 1.0 / mu, 1.0 / speeds, 1.0 / (mu * speeds), worth / worth.max(), bent])


def _around(functions: Floats, jobs: Floats) -> tuple[Floats, Floats, Floats]:
    """Return functions of a number of jobs: as it is, one more, and one less if there is any."""
    here, after = functions_at(functions, jobs), functions_at(functions, jobs + 1.0)
    return here, after, functions_at(functions, np.maximum(jobs - 1.0, 0.0))
