"""Maximum likelihood estimates, against closed forms, brute force and other people's formulas."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, stats

import corewise as cw
from corewise.estimation._kernels import AMDAHL, global_maximum
from corewise.estimation.likelihood import Likelihood
from corewise.estimation.search import ClosedFit, GeneralFit
from corewise.observation.statistics import ClassStatistics

ONE_PARAMETER: list[cw.SpeedUp] = [cw.Amdahl(0.5), cw.PowerLaw(0.5), cw.Gustafson(0.5)]
CURVES: list[cw.SpeedUp] = [*ONE_PARAMETER, cw.Usl(0.2, 0.01)]
BY_FAMILY = pytest.mark.parametrize("curve", CURVES, ids=lambda curve: curve.family)


def table_of(widths: Any, departures: Any, job_time: Any, arrivals: int = 5) -> ClassStatistics:
    at, left, spent = (np.array(column, dtype=np.float64) for column in (widths, departures, job_time))
    return ClassStatistics(arrivals, at, left, spent)


def drawn_table(curve: cw.SpeedUp, size_rate: float, seed: int, scale: float = 40.0) -> ClassStatistics:
    """Departures that follow the model at random widths, half of them below one core."""
    rng = np.random.default_rng(seed)
    widths = np.sort(np.concatenate([rng.uniform(0.1, 1.0, 3), rng.uniform(1.0, 30.0, 12)]))
    job_time = rng.exponential(scale, widths.size)
    return table_of(widths, rng.poisson(size_rate * job_time * curve.rate(widths)), job_time)


def one_class(table: ClassStatistics, time: float = 10.0) -> cw.Statistics:
    return cw.Statistics(("a",), time, (table,))


def system_of(curve: cw.SpeedUp, size_rate: float = 1.0) -> cw.System:
    return cw.System(30, [cw.JobClass("a", None, size_rate, curve)])


# --- the likelihood -------------------------------------------------------------------------------


@BY_FAMILY
@pytest.mark.parametrize("size_rate", [0.7, None])
def test_likelihood_is_that_of_poisson_counts(curve: cw.SpeedUp, size_rate: float | None) -> None:
    """Given the job-time, departures at each width are Poisson: the same ℓ up to what has no parameters."""
    table = drawn_table(curve, 0.7, 1)
    likelihood = Likelihood(table, curve, size_rate)
    differences = []
    for parameters in (np.array(list(curve.parameters.values())), np.full(len(curve.bounds), 0.3)):
        rate = likelihood.best_size_rate(parameters)
        mean = rate * table.job_time * likelihood.curve(parameters).rate(table.widths)
        poisson = float(np.sum(stats.poisson.logpmf(table.departures, mean)))
        differences.append(likelihood.value(parameters) - poisson)
    assert differences[0] == pytest.approx(differences[1], rel=1e-10)


@BY_FAMILY
@pytest.mark.parametrize("size_rate", [0.7, None])
def test_score_and_information_are_derivatives(curve: cw.SpeedUp, size_rate: float | None) -> None:
    table = drawn_table(curve, 0.7, 2)
    likelihood = Likelihood(table, curve, size_rate)
    at = np.array([0.3, 0.013][: len(curve.bounds)])
    score = optimize.approx_fprime(at, likelihood.value, 1e-7)
    assert likelihood.score(at) == pytest.approx(score, rel=2e-4, abs=1e-3)
    steps = 1e-7 * np.eye(at.size)
    hessian = np.array([(likelihood.score(at + step) - likelihood.score(at)) / 1e-7 for step in steps])
    assert likelihood.observed_information(at) == pytest.approx(-hessian, rel=1e-3, abs=1e-2)


@BY_FAMILY
def test_information_is_the_mean_of_the_observed_one(curve: cw.SpeedUp) -> None:
    """With departures at their means the two are equal."""
    at = np.array([0.3, 0.013][: len(curve.bounds)])
    truth = curve.with_parameters(**dict(zip(curve.bounds, at.tolist(), strict=True)))
    table = drawn_table(truth, 1.0, 3)
    exact = table_of(table.widths, table.job_time * truth.rate(table.widths), table.job_time)
    for size_rate in (1.0, None):
        likelihood = Likelihood(exact, curve, size_rate)
        assert likelihood.observed_information(at) == pytest.approx(likelihood.information(at), rel=1e-4)
        assert likelihood.score(at) == pytest.approx(np.zeros(at.size), abs=1e-9)


# --- certified maxima -----------------------------------------------------------------------------


@st.composite
def small_tables(draw: st.DrawFn) -> ClassStatistics:
    """Few departures, so that likelihoods with several maxima come up."""
    count = draw(st.integers(1, 6))
    widths = draw(st.lists(st.floats(1.01, 64.0), min_size=count, max_size=count, unique=True))
    departures = draw(st.lists(st.integers(0, 6), min_size=count, max_size=count))
    job_time = draw(st.lists(st.floats(0.001, 9.0), min_size=count, max_size=count))
    return table_of(np.sort(widths), departures, job_time)


@pytest.mark.slow
@pytest.mark.parametrize("curve", ONE_PARAMETER, ids=lambda curve: curve.family)
@given(table=small_tables())
def test_the_maximum_is_global_and_its_interval_outermost(curve: cw.SpeedUp, table: ClassStatistics) -> None:
    likelihood = Likelihood(table, curve, 1.3)
    grid = np.linspace(0.0, 1.0, 2001)
    values = np.array([likelihood.value(np.array([p])) for p in grid])
    fit = ClosedFit.of(likelihood)
    assert fit.certified
    slack = 1e-10 * (1.0 + abs(fit.value))
    assert values.max() <= fit.value + slack
    assert likelihood.value(fit.parameters) == fit.value
    low, high = fit.interval(0, 1.92)
    assert 0.0 <= low <= fit.parameters[0] <= high <= 1.0
    outside = (grid < low - 1e-12) | (grid > high + 1e-12)
    assert np.all(values[outside] <= fit.value - 1.92 + slack)
    for end, bound in ((low, 0.0), (high, 1.0)):
        if end != bound:
            assert likelihood.value(np.array([end])) == pytest.approx(fit.value - 1.92, abs=1e-6 + slack)


def test_two_maxima_are_told_apart() -> None:
    """Amdahl's likelihood need not be unimodal: here both ends are local maxima, the far one the higher."""
    likelihood = Likelihood(table_of([1.02, 40.0], [0.0, 2.0], [120.0, 0.03]), cw.Amdahl(0.5), 1.0)
    values = {p: likelihood.value(np.array([p])) for p in (0.0, 0.01, 0.99, 1.0)}
    assert values[0.0] > values[0.01]
    assert values[1.0] > values[0.99]
    best = ClosedFit.of(likelihood)
    assert best.parameters[0] == 1.0
    assert best.value == values[1.0] > values[0.0]


@pytest.mark.parametrize("curve", ONE_PARAMETER, ids=lambda curve: curve.family)
def test_one_width_has_a_closed_form(curve: cw.SpeedUp) -> None:
    """At one width s(z; p̂) = D/(μW), and for Amdahl's law the information is D (b s)²."""
    z, departures, job_time, size_rate = 8.0, 60.0, 12.0, 2.0
    speed = departures / (size_rate * job_time)
    found = cw.estimate(one_class(table_of([z], [departures], [job_time])), system_of(curve, size_rate))["a"]
    assert found.informative
    assert found.certified
    assert not found.at_boundary
    assert float(found.curve.rate(z)) == pytest.approx(speed, rel=1e-12)  # type: ignore[union-attr]
    if isinstance(curve, cw.Amdahl):
        b = 1.0 - 1.0 / z
        assert found.value == pytest.approx((1.0 - 1.0 / speed) / b, rel=1e-12)
        assert found.stderr == pytest.approx(1.0 / (math.sqrt(departures) * b * speed), rel=1e-9)


@pytest.mark.parametrize(("departures", "value"), [(1.0, 0.0), (500.0, 1.0)])
def test_an_estimate_at_the_end_of_its_range(departures: float, value: float) -> None:
    found = cw.estimate(one_class(table_of([8.0], [departures], [12.0])), system_of(cw.Amdahl(0.5)))["a"]
    assert found.value == value
    assert found.at_boundary
    low, high = found.interval
    assert (low == 0.0 and high < 1.0) if value == 0.0 else (low > 0.9 and high == 1.0)


def test_dropping_the_open_intervals_would_bias_upwards() -> None:
    """The job-time of jobs that did not leave counts: more of it, a smaller p."""
    with_tail = cw.estimate(one_class(table_of([8.0], [60.0], [20.0])), system_of(cw.Amdahl(0.5)))["a"]
    without = cw.estimate(one_class(table_of([8.0], [60.0], [18.0])), system_of(cw.Amdahl(0.5)))["a"]
    assert without.value > with_tail.value


# --- any family -----------------------------------------------------------------------------------


@pytest.mark.parametrize("curve", ONE_PARAMETER, ids=lambda curve: curve.family)
def test_the_general_search_finds_the_certified_maximum(curve: cw.SpeedUp) -> None:
    for seed in range(3):
        likelihood = Likelihood(drawn_table(curve, 1.0, seed), curve, 1.0)
        closed, general = ClosedFit.of(likelihood), GeneralFit.of(likelihood)
        assert not general.certified
        assert general.parameters == pytest.approx(closed.parameters, abs=1e-7)
        assert general.stderr == pytest.approx(closed.stderr, rel=1e-3)
        assert general.interval(0, 1.92) == pytest.approx(closed.interval(0, 1.92), abs=1e-6)


def _best_over(likelihood: Likelihood, held: int, at: float) -> float:
    """Return the profile by brute force: a scan of the other parameter, polished by SciPy."""
    grid = np.linspace(0.0, 1.0, 201) if held else np.concatenate([[0.0], np.geomspace(1e-7, 10.0, 201)])

    def value(other: float) -> float:
        return likelihood.value(np.array([other, at] if held else [at, other]))

    k = int(np.argmax([value(other) for other in grid.tolist()]))
    ends = (float(grid[max(k - 1, 0)]), float(grid[min(k + 1, grid.size - 1)]))
    polished = optimize.minimize_scalar(
        lambda o: -value(o), bounds=ends, method="bounded", options={"xatol": 1e-12}
    )
    return max(value(float(grid[k])), -float(polished.fun))


@pytest.mark.slow
@pytest.mark.parametrize(
    "truth", [cw.Usl(0.1, 0.01), cw.Usl(0.3, 0.0), cw.Usl(0.0, 0.002), cw.Usl(0.8, 0.15)]
)
def test_usl_is_the_best_and_its_intervals_are_profiles(truth: cw.Usl) -> None:
    table = drawn_table(truth, 1.0, 11, scale=200.0)
    found = cw.estimate(one_class(table), system_of(cw.Usl(0.5, 0.5)))["a"]
    likelihood = Likelihood(table, truth, 1.0)
    scan = max(_best_over(likelihood, 0, sigma) for sigma in np.linspace(0.0, 1.0, 41).tolist())
    assert found.log_likelihood >= scan - 1e-9
    drop = 0.5 * stats.chi2.ppf(0.95, 1)
    for held, (name, (low, high)) in enumerate(found.intervals.items()):
        assert low <= found.parameters[name] <= high
        for end in (low, high):
            if end not in truth.bounds[name]:
                assert _best_over(likelihood, held, end) == pytest.approx(
                    found.log_likelihood - drop, abs=1e-4
                )
    amdahl = cw.estimate(one_class(table), system_of(cw.Amdahl(0.5)))["a"]
    assert found.log_likelihood >= amdahl.log_likelihood - 1e-9  # USL with κ = 0 is Amdahl's law


def test_a_curve_of_ones_own() -> None:
    from tests.model.test_speedup import Logarithmic  # a one-formula family

    truth = Logarithmic(0.6)
    found = cw.estimate(one_class(drawn_table(truth, 1.0, 4, 400.0)), system_of(Logarithmic(0.1)))["a"]
    assert found.family == "logarithmic"
    assert not found.certified
    assert abs(found.value - 0.6) < 5.0 * found.stderr
    assert found.interval[0] < 0.6 < found.interval[1]


# --- unknown size rates ---------------------------------------------------------------------------


def test_two_widths_determine_curve_and_size_rate() -> None:
    """At one core μ̂ = D/W, and then s(z; p̂) μ̂ = D/W at the other width: both counts are met exactly."""
    table = table_of([1.0, 6.0], [90.0, 250.0], [60.0, 55.0])
    found = cw.estimate(one_class(table), system_of(cw.Amdahl(0.5), 99.0), unknown_size_rates=True)["a"]
    assert found.size_rate is not None
    assert found.size_rate.value == pytest.approx(1.5, rel=1e-9)
    assert float(cw.Amdahl(found.value).rate(6.0)) == pytest.approx(250.0 / 55.0 / 1.5, rel=1e-8)
    low, high = found.size_rate.interval
    assert low < 1.5 < high
    # What is known about μ comes from the 90 departures at one core alone.
    assert found.size_rate.stderr == pytest.approx(1.5 / math.sqrt(90.0), rel=0.02)
    drop = [stats.poisson.logpmf(90, 60.0 * rate) - stats.poisson.logpmf(90, 90.0) for rate in (low, high)]
    assert drop == pytest.approx([-0.5 * stats.chi2.ppf(0.95, 1)] * 2, rel=1e-5)


def test_one_width_cannot_tell_size_rate_from_curve() -> None:
    table = table_of([6.0], [250.0], [55.0])
    found = cw.estimate(one_class(table), system_of(cw.Amdahl(0.5)), unknown_size_rates=["a"])["a"]
    assert not found.informative
    assert "2 unknowns" in found.note
    assert math.isnan(found.value)


@pytest.mark.statistical
def test_joint_estimates_cover() -> None:
    """z-scores of both over 200 tables have mean square 1: χ² with 200 degrees, false alarm 1e-6 a side."""
    squares = {"p": 0.0, "rate": 0.0}
    for seed in range(200):
        table = drawn_table(cw.Amdahl(0.7), 2.0, seed, 60.0)
        found = cw.estimate(one_class(table), system_of(cw.Amdahl(0.5)), unknown_size_rates=True)["a"]
        assert found.size_rate is not None
        squares["p"] += ((found.value - 0.7) / found.stderr) ** 2
        squares["rate"] += ((found.size_rate.value - 2.0) / found.size_rate.stderr) ** 2
    low, high = float(stats.chi2.ppf(1e-6, 200)), float(stats.chi2.isf(1e-6, 200))
    assert low < squares["p"] < high
    assert low < squares["rate"] < high
    assert not low < 2.0 * squares["rate"] < high


# --- no information -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("table", "curve", "reason"),
    [
        (table_of([], [], []), cw.Amdahl(0.5), "no departures"),
        (table_of([8.0], [0.0], [3.0]), cw.Amdahl(0.5), "no departures"),
        (table_of([0.5, 1.0], [9.0, 4.0], [9.0, 2.0]), cw.Amdahl(0.5), "never held more than one core"),
        (table_of([0.5, 8.0], [9.0, 4.0], [9.0, 2.0]), cw.Usl(0.1, 0.1), "only one number of cores"),
        (table_of([8.0], [5.0], [3.0]), cw.Tabulated([(2, 1.5)]), "no parameters to estimate"),
    ],
)
def test_no_information_is_never_a_number(table: ClassStatistics, curve: cw.SpeedUp, reason: str) -> None:
    found = cw.estimate(one_class(table), system_of(curve))["a"]
    assert not found.informative
    assert found.curve is None
    assert reason in found.note
    assert "no information" in str(found)
    assert all(math.isnan(value) for value in [*found.parameters.values(), *found.stderrs.values()])
    assert dict(found.intervals) == dict(curve.bounds)
    assert cw.estimate(one_class(table), system_of(curve)).curves == {}


# --- families, arrivals, the rest -------------------------------------------------------------------


@pytest.mark.statistical
@pytest.mark.parametrize(
    "truth", [cw.Amdahl(0.8), cw.PowerLaw(0.6), cw.Usl(0.05, 0.01)], ids=lambda c: c.family
)
def test_the_data_choose_the_family(truth: cw.SpeedUp) -> None:
    """The criterion is consistent; with so many departures the odds against it are far below 1e-9."""
    found = cw.estimate(one_class(drawn_table(truth, 1.0, 5, 2000.0)), system_of(truth), family="auto")["a"]
    assert found.family == truth.family
    assert [candidate.bic for candidate in found.candidates] == sorted(c.bic for c in found.candidates)
    assert sum(candidate.weight for candidate in found.candidates) == pytest.approx(1.0)
    assert found.candidates[0].weight > 0.9
    best, table = found.candidates[0], drawn_table(truth, 1.0, 5, 2000.0)
    count = float(table.departures[table.widths > 1.0].sum())
    assert best.bic == pytest.approx(-2.0 * best.log_likelihood + len(best.parameters) * math.log(count))


def test_arrivals_have_the_intervals_of_the_textbooks() -> None:
    tables = (table_of([8.0], [5.0], [3.0], arrivals=7), table_of([8.0], [5.0], [3.0], arrivals=0))
    system = cw.System(30, [cw.JobClass(name, None, 1.0, cw.Amdahl(0.5)) for name in "ab"])
    found = cw.estimate(cw.Statistics(("a", "b"), 4.0, tables), system, level=0.9)
    for name, count in (("a", 7), ("b", 0)):
        rate, share = found[name].arrival_rate, found[name].share
        assert rate.value == count / 4.0
        low = stats.chi2.ppf(0.05, 2 * count) / 8.0 if count else 0.0
        assert rate.interval == pytest.approx((low, stats.chi2.ppf(0.95, 2 * count + 2) / 8.0))
        interval = stats.binomtest(count, 7).proportion_ci(0.9)
        assert share.interval == pytest.approx((interval.low, interval.high))
    nothing = cw.estimate(cw.Statistics.empty("ab"), system)["a"]
    assert math.isnan(nothing.share.value)
    assert nothing.arrival_rate.interval == (0.0, math.inf)


def test_the_systems_own_parameters_are_not_used() -> None:
    system = cw.load_system("paper:1")
    seen = cw.simulate(system, cw.Equi(), departures=500, rng=1).statistics
    other = system.with_curves({"one": cw.Amdahl(0.99), "two": cw.Amdahl(0.01)})
    first, second = cw.estimate(seen, system), cw.estimate(seen, other)
    assert [found.value for found in first.values()] == [found.value for found in second.values()]
    learnt = first.applied_to(system)
    assert learnt["one"].speedup == first["one"].curve
    assert learnt["two"].arrival_rate == first["two"].arrival_rate.value


def test_levels_nest() -> None:
    statistics, system = one_class(drawn_table(cw.Amdahl(0.5), 1.0, 8)), system_of(cw.Amdahl(0.5))
    ends = [cw.estimate(statistics, system, level=level)["a"].interval for level in (0.5, 0.9, 0.99)]
    assert ends[2][0] < ends[1][0] < ends[0][0] < ends[0][1] < ends[1][1] < ends[2][1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"family": "amdal"}, "unknown family 'amdal'; did you mean 'amdahl'"),
        ({"family": {"b": "amdahl"}}, "unknown class 'b'"),
        ({"unknown_size_rates": ["c"]}, "unknown class 'c'"),
        ({"unknown_size_rates": "a"}, "True, False or names"),
        ({"level": 1.0}, "level must lie in"),
        ({"level": "high"}, "level must be a number"),
    ],
)
def test_bad_arguments(arguments: dict[str, Any], message: str) -> None:
    statistics, system = one_class(drawn_table(cw.Amdahl(0.5), 1.0, 8)), system_of(cw.Amdahl(0.5))
    with pytest.raises(cw.errors.InvalidInput, match=message):
        cw.estimate(statistics, system, **arguments)


def test_statistics_of_other_classes_are_refused() -> None:
    system = system_of(cw.Amdahl(0.5))
    with pytest.raises(cw.errors.InvalidInput, match="the statistics are of classes x, y; the system has a"):
        cw.estimate(cw.Statistics.empty("xy"), system)
    with pytest.raises(cw.errors.InvalidInput, match="expected Statistics"):
        cw.estimate({}, system)  # type: ignore[arg-type]


def test_two_parameters_have_no_single_value() -> None:
    found = cw.estimate(one_class(drawn_table(cw.Usl(0.1, 0.01), 1.0, 6)), system_of(cw.Usl(0.5, 0.1)))["a"]
    with pytest.raises(cw.errors.InvalidInput, match="it has sigma, kappa"):
        _ = found.value


def test_the_profile_may_leave_one_ridge_for_another() -> None:
    """The interval of σ reaches to where the best κ is 0, far from the estimate."""
    table = table_of([1.37, 6.22, 9.58], [2.0, 9.0, 35.0], [1.129, 4.581, 26.831])
    found = cw.estimate(one_class(table), system_of(cw.Usl(0.5, 0.5)))["a"]
    likelihood, drop = Likelihood(table, cw.Usl(0.5, 0.5), 1.0), 0.5 * stats.chi2.ppf(0.95, 1)
    high = found.intervals["sigma"][1]
    assert _best_over(likelihood, 0, high) == pytest.approx(found.log_likelihood - drop, abs=1e-4)
    beyond = np.linspace(high + 1e-3, 1.0, 20).tolist()
    assert all(_best_over(likelihood, 0, sigma) < found.log_likelihood - drop for sigma in beyond)


def test_beyond_its_peak_a_curve_cannot_be_told_from_a_size_rate() -> None:
    table = table_of([5.94, 8.943, 9.783, 37.497], [41.0, 41.0, 41.0, 46.0], [34.18, 48.6, 29.06, 106.7])
    found = cw.estimate(one_class(table), system_of(cw.Usl(0.5, 0.1)), unknown_size_rates=True)["a"]
    assert not found.informative
    assert "cannot be told apart" in found.note


def test_results_can_be_compared_and_sent() -> None:
    import pickle

    system = cw.load_system("paper:1")
    run = cw.simulate(system, cw.Equi(), departures=3000, rng=1)
    found = cw.estimate(run.statistics, system)
    assert found == dict(found)
    assert pickle.loads(pickle.dumps(found)) == found
    assert pickle.loads(pickle.dumps(run)).classes == run.classes
    with pytest.raises(ValueError, match="read-only"):
        run.times[0] = 1.0


# --- evidence and search, by hand -------------------------------------------------------------------


def test_weights_of_families_are_those_of_the_criterion() -> None:
    """exp(−BIC/2) over their sum, with BIC = k log n − 2 ℓ and n departures above one core, written out.

    The free curve has a parameter for each corner: here at 2, 4 and 8 cores.
    """
    table = table_of([1.0, 2.0, 4.0, 8.0], [9.0, 30.0, 40.0, 30.0], [9.0, 17.0, 17.0, 10.0])
    system = cw.System(8, [cw.JobClass("one", None, 1.0, cw.Amdahl(0.5))])
    (row,) = cw.estimate(cw.Statistics(("one",), 50.0, (table,)), system, family="auto").values()
    criteria = [
        (len(candidate.parameters) or 3) * math.log(100.0) - 2.0 * candidate.log_likelihood
        for candidate in row.candidates
    ]
    assert [candidate.bic for candidate in row.candidates] == pytest.approx(criteria)
    weights = [math.exp(-0.5 * (criterion - min(criteria))) for criterion in criteria]
    expected = [weight / math.fsum(weights) for weight in weights]
    assert [candidate.weight for candidate in row.candidates] == pytest.approx(expected, rel=1e-9)
    assert 0.001 < min(expected) < max(expected) < 0.99  # the factor of a half shows


def test_the_certified_maximum_of_small_tables() -> None:
    """20 000 tables of three widths with few departures: never below the best of a fine grid.

    Amdahl's likelihood of some of them has two maxima, which is what the search is for.
    """
    rng, count = np.random.default_rng(8), 20_000
    x = 1.0 - 1.0 / np.sort(np.exp(rng.uniform(0.0, math.log(1000.0), (count, 3))), axis=1)
    departures = rng.poisson(rng.choice([0.5, 2.0, 5.0], (count, 1)), (count, 3)).astype(float)
    exposure = rng.lognormal(0.0, 2.5, (count, 3)) * (1.0 - x) ** rng.uniform(0.0, 1.0, (count, 1))
    found = np.array([global_maximum(AMDAHL, *row) for row in zip(x, departures, exposure, strict=True)])
    near = np.geomspace(1e-3, 0.5, 30)
    rows = []
    for p in (0.0, *near, *(1.0 - near[-2::-1]), 1.0):
        rest = 1.0 - p * x
        rows.append(np.sum(-departures * np.log(rest) - exposure / rest, axis=1))
    values = np.array(rows)
    top, gap = found[:, 1], found[:, 2]
    assert np.all(top >= values.max(axis=0) - 1e-9 * (1.0 + np.abs(top)))
    assert np.all(gap <= 1e-9 * (1.0 + np.abs(top)))
    at = 1.0 - found[:, :1] * x
    assert np.allclose(top, np.sum(-departures * np.log(at) - exposure / at, axis=1), rtol=1e-9, atol=1e-9)
    rises = np.diff(values, axis=0) > 0.0
    humps = np.sum(~rises[1:] & rises[:-1], axis=0) + ~rises[0] + rises[-1]
    assert np.sum(humps > 1) > 20


@pytest.mark.parametrize(("gap", "certified"), [(0.0, True), (1e-10, True), (1e-3, False)])
def test_a_maximum_that_may_be_surpassed_is_not_called_certified(
    gap: float, certified: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("corewise.estimation._kernels.global_maximum", lambda *_: (0.5, -3.0, gap))
    system = cw.System(8, [cw.JobClass("a", None, 1.0, cw.Amdahl(0.5))])
    found = cw.estimate(one_class(table_of([2.0, 8.0], [30.0, 20.0], [20.0, 7.0])), system)
    assert found["a"].certified is certified
