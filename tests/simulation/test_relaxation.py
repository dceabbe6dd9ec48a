"""Relaxation time."""

from __future__ import annotations

import math

import pytest

import corewise as cw
from corewise.simulation.relaxation import relaxation_time


@pytest.mark.parametrize("load", [0.99, 0.999, 0.9999])
def test_near_saturation_it_is_that_of_a_single_server(load: float) -> None:
    """M/M/1, whose spectral gap is (√μ − √λ)²: perfectly parallel jobs. Exact as the load goes to one."""
    cores = 8.0
    system = cw.System(cores, [cw.JobClass("a", load * cores, 1.0, cw.Amdahl(1.0))])
    exact = 1.0 / (math.sqrt(cores) - math.sqrt(load * cores)) ** 2
    assert relaxation_time(system) == pytest.approx(exact, rel=1.1 * (1.0 - load))


def test_in_an_idle_system_it_is_the_longest_job() -> None:
    """Not the mean one: a class that stays for a hundred units of time is forgotten no sooner."""
    jobs = [cw.JobClass("short", 1.0, 1.0, cw.Amdahl(0.5)), cw.JobClass("long", 0.01, 0.01, cw.Amdahl(0.5))]
    assert relaxation_time(cw.System(1000, jobs)) == 100.0
