"""The estimates are as good as estimates can be: Cramér-Rao bound, coverage, law near a boundary, rate.

Every number compared with is exact: `cw.fisher_information` comes from the stationary distribution. Each test
draws with a fixed seed and says how often it would fail by chance with another.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest
from scipy import stats

import corewise as cw
from corewise.kit.arrays import Floats
from examples.convergence import Convergence, convergence

pytestmark = pytest.mark.statistical

REPLICATIONS = 3_000
DEPARTURES = 2_000


@dataclass(frozen=True)
class Sample:
    """Estimates of one class's parameter over replications, its bound, and how often the interval covered."""

    truth: float
    estimates: Floats
    bound: float
    covered: float


def sampled(system: cw.System, seed: int) -> dict[str, Sample]:
    policy = cw.solve(system).policy
    information = cw.fisher_information(system, policy)
    runs = cw.replicate(system, policy, n=REPLICATIONS, departures=DEPARTURES, rng=seed).runs
    found = [cw.estimate(run.statistics, system) for run in runs]
    mean_time = DEPARTURES / float(system.arrival_rates.sum())
    samples = {}
    for job_class in system.classes:
        truth = job_class.speedup.parameters["p"]
        mine = [estimates[job_class.name] for estimates in found]
        samples[job_class.name] = Sample(
            truth,
            np.array([one.value for one in mine]),
            1.0 / math.sqrt(mean_time * float(information[job_class.name].per_time[0, 0])),
            float(np.mean([one.interval[0] <= truth <= one.interval[1] for one in mine])),
        )
    return samples


BINOMIAL = math.sqrt(0.95 * 0.05 / REPLICATIONS)
"""The standard deviation of an observed coverage."""


@pytest.mark.parametrize("example", ["paper:1", "paper:2", "paper:3"])
def test_variance_and_coverage(example: str) -> None:
    """The ratio of variances has a standard deviation of √(2/3000) = 0.026, so ±0.104 is 4 of them: false
    alarm 6e-5 a class. Coverage within 3 binomial standard deviations: false alarm 0.0027 a class.
    """
    for sample in sampled(cw.load_system(example), seed=20261116).values():
        ratio = sample.estimates.var() / sample.bound**2
        assert 0.896 < ratio < 1.104
        assert abs(sample.covered - 0.95) < 3.0 * BINOMIAL
        # Negative controls: a fifth more or less data would be seen, and so would intervals for 93 %.
        assert not 0.896 < 6.0 / 5.0 * ratio < 1.104
        assert not 0.896 < 5.0 / 6.0 * ratio < 1.104
        assert not abs(sample.covered - 0.02 - 0.95) < 3.0 * BINOMIAL


def distance(sample: Sample, spread: float) -> float:
    """Return the largest distance of the estimates' distribution from a normal one cut off at 0 and 1."""
    values = np.sort(sample.estimates)
    inside = (values > 0.0) & (values < 1.0)
    law = stats.norm.cdf((values - sample.truth) / spread)
    upto = np.searchsorted(values, values, side="right") / values.size
    before = np.searchsorted(values, values, side="left") / values.size
    # At a boundary the law jumps: only what lies on its inner side can be compared.
    gaps = [np.abs(upto - law)[values < 1.0], np.abs(before - law)[inside | (values == 1.0)]]
    return float(np.concatenate(gaps).max())


def test_near_the_boundary() -> None:
    """The law of p̂ is normal, with what lies beyond the boundary moved onto it.

    By the inequality of Dvoretzky, Kiefer, Wolfowitz and Massart an exact law would be off by more than
    0.0492 with probability 1e-6. Coverage is at least 95 %, less three binomial standard deviations (0.0013 a
    class).
    """
    curves = {"one": cw.Amdahl(0.02), "two": cw.Amdahl(0.98)}
    samples = sampled(cw.load_system("paper:1").with_curves(curves), seed=7)
    allowed = math.sqrt(math.log(2.0 / 1e-6) / (2.0 * REPLICATIONS))
    at_zero = float(np.mean(samples["one"].estimates == 0.0))
    assert at_zero > 0.1
    for sample in samples.values():
        assert distance(sample, sample.bound) < allowed
        assert sample.covered > 0.95 - 3.0 * BINOMIAL
        assert distance(sample, 1.25 * sample.bound) > allowed
        assert distance(sample, sample.bound / 1.25) > allowed
    assert at_zero == pytest.approx(stats.norm.cdf(-0.02 / samples["one"].bound), abs=allowed)


def is_square_root(study: Convergence) -> bool:
    return bool(np.all(np.abs(study.slopes + 0.5) < 4.0 * study.slope_stderr))


def test_the_error_falls_as_one_over_the_square_root() -> None:
    """Paper: Theorem 3.1. Four standard errors of the slope: false alarm 6e-5 a class."""
    system = cw.load_system("paper:3")
    study = convergence(system, cw.Equi(), departures=[500 * 2**k for k in range(6)], n=400, rng=11)
    assert is_square_root(study)
    assert np.all(np.abs(np.log(study.errors / study.bounds)) < 5.0 / math.sqrt(2.0 * study.replications))
    for power in (-0.55, -0.45):
        errors = study.bounds * (study.departures / study.departures[0]) ** (0.5 + power)
        wrong = Convergence(
            study.policy, study.names, study.departures, study.replications, errors, study.bounds
        )
        assert not is_square_root(wrong)
