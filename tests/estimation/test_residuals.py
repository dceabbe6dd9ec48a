"""Goodness of fit: residuals are Exp(1) under the model, and a log that breaks it is found out."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy import optimize, stats

import corewise as cw
from corewise.estimation.exponential_tests import FittedParameters, exponential_p_value, fitted_p_value
from corewise.kit.arrays import Floats
from corewise.observation.sample_path import NO_JOB, EventKind

SYSTEM = cw.load_system("paper:1")


def recorded(system: cw.System, departures: int, seed: int) -> cw.SamplePath:
    path = cw.simulate(system, cw.Equi(), departures=departures, rng=seed, record=True, start=[2, 1]).path
    assert path is not None
    return path


def test_residuals_are_integrals_of_the_departure_rate() -> None:
    """Interval by interval, with plain sums, in both forms of a path."""
    path = recorded(SYSTEM, 60, 1)
    for form in (path, path.split()):
        for name, verdict in cw.goodness_of_fit(form, SYSTEM).items():
            i = SYSTEM.index(name)
            expected, total = [], 0.0
            for row in range(1, path.time.size):
                jobs = int(path.counts[row - 1, i])
                if jobs:
                    speed = float(SYSTEM[name].speedup.rate(path.cores[row - 1, i] / jobs))
                    total += (
                        jobs
                        * SYSTEM[name].known_size_rate
                        * speed
                        * float(path.time[row] - path.time[row - 1])
                    )
                if path.event[row] == EventKind.DEPARTURE and path.job_class[row] == i:
                    expected.append(total)
                    total = 0.0
            assert verdict.residuals == pytest.approx(np.array(expected), rel=1e-9, abs=1e-12)


def test_the_law_test_is_that_of_scipy() -> None:
    for seed in range(5):
        verdict = cw.goodness_of_fit(recorded(SYSTEM, 300, seed), SYSTEM)["two"]
        theirs = stats.kstest(verdict.residuals, "expon").pvalue
        assert verdict.p_values["law"] == pytest.approx(theirs, abs=0.01)


@pytest.mark.statistical
def test_logs_that_follow_the_model_are_rarely_doubted() -> None:
    """At most 1 % of classes by construction; over 200 the number is below 9 but for a chance of 1e-4."""
    doubted, p_values = 0, []
    for seed in range(100):
        path = recorded(SYSTEM, 400, seed)
        found = cw.estimate(cw.Statistics.of(path), SYSTEM)
        for verdict in cw.goodness_of_fit(path, SYSTEM, found).values():
            doubted += verdict.doubtful
            p_values.append(list(verdict.p_values.values()))
    assert doubted < stats.binom.isf(1e-4, 200, 0.01)
    for column in np.array(p_values).T:  # all three are near uniform, also with an estimated curve
        assert stats.kstest(column, "uniform").pvalue > 1e-4


SMALL = cw.System(6.0, [cw.JobClass("a", 1.6, 1.0, cw.Amdahl(0.7))])


def law_p_values(truth: cw.System, seeds: range) -> Floats:
    """The p-values of the law with an estimated curve and with that curve taken for granted, a row a log."""
    found = []
    for seed in seeds:
        path = cw.simulate(truth, cw.Equi(), departures=40, rng=seed, record=True, start=[1]).path
        assert path is not None
        estimates = cw.estimate(path.statistics, SMALL)
        tested = cw.goodness_of_fit(path, SMALL, estimates)["a"]
        found.append([tested.p_values["law"], exponential_p_value(tested.residuals)])
    return np.array(found)


@pytest.mark.statistical
def test_the_law_has_uniform_p_values_though_the_curve_was_estimated() -> None:
    """Over 1 000 logs of 40 departures; each of the two conditions fails by chance with probability 1e-3.

    The control takes the estimated curve for granted, as was done before: its p-values are far too large.
    """
    corrected, naive = law_p_values(SMALL, range(4000, 5000)).T
    few, many = (float(stats.binom.ppf(tail, 1000, 0.05)) for tail in (5e-4, 1 - 5e-4))
    assert few <= np.count_nonzero(corrected < 0.05) <= many
    assert stats.kstest(corrected, "uniform").pvalue > 1e-3
    assert np.count_nonzero(naive < 0.05) < few / 2


@pytest.mark.parametrize(
    ("level", "critical"), [(0.15, 0.926), (0.10, 0.990), (0.05, 1.094), (0.025, 1.190), (0.01, 1.308)]
)
@pytest.mark.parametrize("count", [25, 100])
def test_an_unknown_rate_alone_is_the_test_of_lilliefors(level: float, critical: float, count: int) -> None:
    """Critical values of Stephens (1974), table 1.4: exponential law with its mean estimated.

    Quantiles of Weibull laws are bent until they are at the critical value; 999 draws find the level to
    within four of their standard errors, and Stephens' formula is good to a tenth of it.
    """

    def bent(shape: float) -> Floats:
        values = (-np.log(1 - (np.arange(count) + 0.5) / count)) ** shape
        return np.asarray(values / values.mean())

    def statistic(shape: float) -> float:
        distance = float(stats.kstest(bent(shape), "expon").statistic)
        return (distance - 0.2 / count) * (math.sqrt(count) + 0.26 + 0.5 / math.sqrt(count))

    values = bent(float(optimize.brentq(lambda shape: statistic(shape) - critical, 1.05, 4.0)))
    only_its_scale = FittedParameters(values[:, None], np.eye(1), np.array([[-math.inf], [math.inf]]))
    p_value = fitted_p_value(values, only_its_scale)
    assert abs(p_value - level) <= 4 * math.sqrt(level / 999) + 0.1 * level


def logged(sizes: Floats, gaps: Floats) -> cw.SamplePath:
    """A log of jobs that run alone on one core each, whatever others do: they leave after their size."""
    arrivals = np.cumsum(gaps)
    times = np.concatenate([arrivals, arrivals + sizes])
    kinds = np.repeat([int(EventKind.ARRIVAL), int(EventKind.DEPARTURE)], sizes.size)
    jobs = np.tile(np.arange(sizes.size), 2)
    order = np.argsort(times, kind="stable")
    held = np.cumsum(np.where(kinds[order] == EventKind.ARRIVAL, 1.0, -1.0))
    return cw.SamplePath(
        names=("a",),
        pool=1e6,
        time=np.concatenate([[0.0], times[order]]),
        event=np.concatenate([[EventKind.START], kinds[order]]).astype(np.int8),
        job_class=np.concatenate([[NO_JOB], np.zeros(2 * sizes.size, dtype=np.int64)]),
        job=np.concatenate([[NO_JOB], jobs[order]]),
        cores=np.concatenate([[0.0], held])[:, None],
    )


LAWS: dict[str, Callable[[np.random.Generator], Floats]] = {
    "exponential": lambda rng: rng.exponential(1.0, 3000),
    "constant": lambda rng: np.ones(3000),
    "two kinds": lambda rng: np.where(rng.random(3000) < 0.9, 0.1, 9.1) * rng.exponential(1.0, 3000),
    "twice as large": lambda rng: rng.exponential(2.0, 3000),
}


@pytest.mark.statistical
@pytest.mark.parametrize("law", LAWS)
def test_sizes_that_are_not_exponential_are_found_out(law: str) -> None:
    """The exponential log is the control: doubted with probability 0.01 with another seed."""
    rng = np.random.default_rng(3)
    path = logged(LAWS[law](rng), rng.exponential(0.5, 3000))
    verdict = cw.goodness_of_fit(path, cw.System(1e6, [cw.JobClass("a", 2.0, 1.0, cw.Amdahl(0.0))]))["a"]
    assert verdict.doubtful == (law != "exponential")
    assert ("warning: it does not" in str(verdict)) == (law != "exponential")


@pytest.mark.statistical
def test_a_wrong_family_is_found_out() -> None:
    """The right one is the control, doubted with probability 0.01 a class with another seed."""
    path = recorded(SYSTEM, 20_000, 3)
    for family, doubtful in (("power", True), ("amdahl", False)):
        found = cw.estimate(cw.Statistics.of(path), SYSTEM, family=family)
        assert cw.goodness_of_fit(path, SYSTEM, found)["two"].doubtful == doubtful


def test_too_little_to_say() -> None:
    path = logged(np.ones(3), np.ones(3))
    verdict = cw.goodness_of_fit(path, cw.System(1e6, [cw.JobClass("a", 2.0, 1.0, cw.Amdahl(0.0))]))["a"]
    assert math.isnan(verdict.p_value)
    assert not verdict.doubtful
    assert "too few departures" in str(verdict)


def test_classes_without_information_are_left_out() -> None:
    path = logged(np.ones(30), np.ones(30))
    system = cw.System(1e6, [cw.JobClass("a", 2.0, 1.0, cw.Amdahl(0.0))])
    assert cw.goodness_of_fit(path, system, cw.estimate(cw.Statistics.of(path), system)) == {}


def test_a_path_of_other_classes_is_refused() -> None:
    with pytest.raises(cw.errors.InvalidInput, match="the path is of classes a; the system has one, two"):
        cw.goodness_of_fit(logged(np.ones(3), np.ones(3)), SYSTEM)


def test_the_tests_together_are_held_by_bonferroni() -> None:
    """The least of the p-values, times how many there are, and one at most; of every seed and class."""
    seen = []
    for seed in range(12):
        run = cw.simulate(cw.load_system("paper:1"), "equi", departures=150, rng=seed, record=True)
        assert run.path is not None
        system = cw.load_system("paper:1")
        for verdict in cw.goodness_of_fit(run.path, system, cw.estimate(run.statistics, system)).values():
            count, least = len(verdict.p_values), min(verdict.p_values.values())
            assert count >= 2
            assert verdict.p_value == pytest.approx(min(1.0, count * least))
            seen.append((count, count * least))
    assert max(count for count, _ in seen) == 4
    assert min(product for _, product in seen) < 1.0 < max(product for _, product in seen)
