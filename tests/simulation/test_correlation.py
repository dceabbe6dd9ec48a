"""Correlation time of the number of jobs."""

from __future__ import annotations

import numpy as np
import pytest

import corewise as cw
from corewise.simulation.correlation import correlation_time


def one_class(cores: float, load: float, curve: cw.SpeedUp) -> cw.System:
    return cw.System(cores, [cw.JobClass("a", load * cores, 1.0, curve)])


@pytest.mark.parametrize("load", [0.9, 0.99, 0.999])
def test_perfectly_parallel_jobs_are_a_single_server(load: float) -> None:
    """M/M/1 at rate μ: ∫ corr(N(0), N(t)) dt = (1 + ρ)/(μ (1 − ρ)²); near it as the load goes to one."""
    cores = 8.0
    exact = (1.0 + load) / (cores * (1.0 - load) ** 2)
    found = correlation_time(one_class(cores, load, cw.Amdahl(1.0)))
    assert found == pytest.approx(exact, rel=0.6 * (1.0 - load))


@pytest.mark.parametrize(
    ("cores", "load", "p"),
    [(256, 0.9, 0.9), (64, 0.8, 0.9), (64, 0.95, 0.9), (64, 0.99, 0.9), (256, 0.9, 0.5), (1024, 0.95, 0.9)],
)
def test_of_a_birth_death_chain(cores: int, load: float, p: float) -> None:
    """The Poisson equation of N − E[N] solved by recursion: θ Var(N) = E[(N − E N) g(N)]."""
    curve = cw.Amdahl(p)
    jobs = np.arange(1.0, 4.0 * cores + 60.0 / (1.0 - load))
    leaving = jobs * np.asarray(curve.rate(cores / jobs))
    chances = np.exp(np.cumsum(np.log(load * cores / leaving)))
    likely = chances > 1e-13 * chances.max()
    jobs, chances = jobs[likely], chances[likely] / chances[likely].sum()
    away = jobs - jobs @ chances
    # λ π(n) (g(n + 1) − g(n)) = −Σ_{m ≤ n} π(m) (m − E N)
    rises = -np.cumsum(chances * away)[:-1] / (load * cores * chances[:-1])
    exact = (chances * away) @ np.append(0.0, np.cumsum(rises)) / (chances @ away**2)
    assert correlation_time(one_class(cores, load, curve)) == pytest.approx(exact, rel=0.25)


def test_in_an_idle_system_it_is_the_longest_job() -> None:
    """Not the mean one: a class that stays for a hundred units of time is forgotten no sooner."""
    jobs = [cw.JobClass("short", 1.0, 1.0, cw.Amdahl(0.0)), cw.JobClass("long", 1e-4, 0.01, cw.Amdahl(0.0))]
    assert correlation_time(cw.System(1000, jobs)) == pytest.approx(100.0)


def test_classes_that_are_alike_are_one() -> None:
    whole, curve = one_class(64, 0.8, cw.Amdahl(0.9)), cw.Amdahl(0.9)
    parts = cw.System(64, [cw.JobClass(str(i), 0.1 * 64 * (i + 1) * 0.8, 1.0, curve) for i in range(4)])
    assert parts.load == pytest.approx(whole.load)
    assert correlation_time(parts) == pytest.approx(correlation_time(whole), rel=1e-4)
