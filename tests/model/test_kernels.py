"""The compiled loops over states give bit for bit what their source gives."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import corewise as cw
from corewise.model import _kernels as rate_kernels
from corewise.model.rates import departure_rates
from tests.helpers.twins import not_compared, same


@pytest.mark.parametrize("p", [0.0, 0.3, 1.0])
def test_departures_by_amdahls_law(p: float) -> None:
    """To the same bits as by its curve, whose subclass takes the general way."""

    class Own(cw.Amdahl):
        pass

    curves = (cw.Amdahl(p), cw.Amdahl(0.9))
    system = cw.System(4, [cw.JobClass("ab"[i], 1.0, 1.0 + i, curve) for i, curve in enumerate(curves)])
    other = system.with_curves({"a": Own(p)})
    assert other.amdahl_fractions is None
    jobs = np.array([[0.0, 1.0, 1.0, 3.0, 9.0], [2.0, 0.0, 1.0, 1.0, 2.0]])
    cores = np.array([[0.0, 4.0, 1.0, 3.1, 4.0], [4.0, 0.0, 3.0, 0.9, 0.0]])
    rates = np.empty(jobs.shape)
    same(rate_kernels.amdahl_departures, jobs, cores, system.amdahl_fractions, system.size_rates, rates)
    assert np.array_equal(rates, departure_rates(other, jobs, cores))
    assert np.array_equal(rates, departure_rates(system, jobs, cores))


def test_every_kernel_is_compared_here() -> None:
    """A new one has to be added."""
    source = Path(__file__).read_text(encoding="utf-8")
    assert not_compared(rate_kernels, "rate_kernels", source) == []
