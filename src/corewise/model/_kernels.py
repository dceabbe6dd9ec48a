"""Compiled loops over states."""

from __future__ import annotations

from numba import njit

from corewise.kit._kernels import tiered
from corewise.kit.arrays import Floats


@tiered(lambda jobs, *_: float(jobs.size))
@njit(cache=True)
def amdahl_departures(
    jobs: Floats, cores: Floats, fractions: Floats, size_rates: Floats, rates: Floats
) -> None:
    """Write n μ s(x/n) for classes that all follow Amdahl's law, to the same bits as `Amdahl.rate`."""
    for i in range(jobs.shape[0]):
        p, q, size_rate = fractions[i], 1.0 - fractions[i], size_rates[i]
        for s in range(jobs.shape[1]):
            width = cores[i, s] / max(jobs[i, s], 1.0)
            above = max(width, 1.0)
            rates[i, s] = jobs[i, s] * min(width, above / (q * above + p)) * size_rate
