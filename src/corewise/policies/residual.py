r"""Residual work: what is known of the jobs of a class by the work that they have attained.

A job that has attained the work a still has m(a) = E[X − a | X > a] to go, in the mean. Of the jobs that are
present of class i, with attained works a_j, one leaves at the rate

    μ_i(t) = n_i / Σ_j m_i(a_j)

per core, about: for exponential sizes m = 1/μ, and μ_i(t) = μ_i. Where jobs outnumber cores, classes are
served in the order of h_i μ_i(t), a core to each job; a tie follows the policy that is used elsewhere.

m is tabulated at attained works in 16 parts of an octave, and linear between them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from corewise.kit.arrays import Floats
from corewise.model.system import System
from corewise.policies.decisions import Decision, Refinement

__all__ = ["FIRST_NODE", "NODE_SHIFT", "AttainedOrder", "ResidualWork"]

NODE_SHIFT = 48
"""Bits of an attained work below those that tell its node."""

FIRST_NODE = (1023 - 20) * 16
_NODES = 36 * 16  # from 2^-20 to 2^16 mean sizes
_LEAST = 1e-9


@dataclass(frozen=True, eq=False)
class ResidualWork:
    """Residual work of the classes of a system, tabulated.

    Attributes
    ----------
    cores : float
        How many jobs there must be more than, for classes to be served in order.
    table : ndarray, shape (K, nodes)
        m of a job of each class by attained work, both in mean sizes.
    size_rates, weights : ndarray
        μ and h of each class.
    """

    cores: float
    table: Floats
    size_rates: Floats
    weights: Floats

    @classmethod
    def of(cls, system: System) -> ResidualWork:
        """Return the residual work by the size laws of a system."""
        nodes = ((np.arange(_NODES + 1) + FIRST_NODE) << NODE_SHIFT).view(np.float64)
        attained = np.concatenate([[0.0], nodes[1:]])
        table = np.stack([job_class.sizes.mean_residual(attained) for job_class in system.classes])
        known = np.maximum(np.nan_to_num(table, nan=_LEAST, posinf=1.0 / _LEAST), _LEAST)
        return cls(system.cores, known, system.size_rates, system.weights)


@dataclass(frozen=True, eq=False)
class AttainedOrder(Refinement):
    """Decision by attained work: where jobs outnumber cores, classes in order of their residual work.

    Attributes
    ----------
    within : Decision
        The decision elsewhere.
    residual : ResidualWork
        The residual work of the jobs of each class.
    """

    within: Decision
    residual: ResidualWork

    @property
    def by_counts_up_to(self) -> float:
        """The number of jobs up to which counts alone decide: one for each core."""
        return self.residual.cores
