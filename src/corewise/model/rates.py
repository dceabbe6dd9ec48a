"""Departure rates and the rates of the controlled chain.

In state n, with x_i cores for class i shared equally by its n_i jobs, class-i jobs leave at rate

    δ_i(n) = n_i μ_i s_i(x_i / n_i),     0 if n_i = 0,

and arrive at rate λ_i, except at the edge of a box, where they are blocked.

Paper: equations (3.1) and (4.1)-(4.4), section 4.2.
"""

from __future__ import annotations

import numpy as np

from corewise.kit.arrays import Floats
from corewise.model import _kernels
from corewise.model.space import StateSpace
from corewise.model.system import System

__all__ = ["cost_rates", "departure_rates", "job_speeds", "uniformisation_constant"]


def departure_rates(system: System, jobs: Floats, cores: Floats) -> Floats:
    """Return δ for jobs and cores per class, both of shape (K, states)."""
    if system.amdahl_fractions is not None:
        rates = np.empty(jobs.shape)
        held = np.ascontiguousarray(cores).view()
        held.flags.writeable = False  # as a policy's table is: the kernel is compiled but once
        _kernels.amdahl_departures(
            np.ascontiguousarray(jobs),
            held,
            system.amdahl_fractions,
            system.size_rates,
            rates,
        )
        return rates
    return np.asarray(jobs * job_speeds(system, jobs, cores) * system.size_rates[:, None])


def job_speeds(system: System, jobs: Floats, cores: Floats) -> Floats:
    """Return s_i(x_i / n_i), how fast each job of a class runs, for arrays of shape (K, states)."""
    widths = cores / np.maximum(jobs, 1.0)
    if system.amdahl_fractions is not None:  # all classes at a time, to the same bits as `Amdahl.rate`
        above, p = np.maximum(widths, 1.0), system.amdahl_fractions[:, None]
        return np.asarray(np.minimum(widths, above / ((1.0 - p) * above + p)))
    return np.stack(
        [job_class.curve.rate(width) for job_class, width in zip(system.classes, widths, strict=True)]
    )


def cost_rates(system: System, space: StateSpace) -> Floats:
    """Return Σ h_i n_i for every state."""
    return np.asarray(system.weights @ space.jobs)


def uniformisation_constant(system: System) -> float:
    """Return ν = λ + c max μ, which no total rate exceeds since s(z) ≤ z.  Paper: section 4.2."""
    return float(system.arrival_rates.sum() + system.cores * system.size_rates.max())
