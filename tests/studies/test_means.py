"""Means by simulation with a control variate."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

import corewise as cw
from corewise.control.improve.equations import RIDGE, Equations
from corewise.kit.arrays import Floats
from corewise.policies.base import bind
from corewise.policies.fitted.values import FittedValues
from corewise.simulation.sampling import sample_states
from corewise.studies import compare as comparing
from corewise.studies import means
from corewise.studies.compare import ComparisonRow
from corewise.studies.means import SimulatedMean, simulated_mean

pytestmark = pytest.mark.slow

FALSE_ALARM = 1e-6


def classes(count: int, seed: int, weights: bool = False) -> list[cw.JobClass]:
    """Classes of several families, unlike each other."""
    rng = np.random.default_rng(seed)
    families: list[Callable[[float], cw.SpeedUp]] = [
        cw.Amdahl,
        cw.PowerLaw,
        cw.Gustafson,
        lambda p: cw.Usl(1.0 - p, 0.01),
    ]
    return [
        cw.JobClass(
            f"class {i}",
            float(rng.uniform(0.5, 1.5)),
            float(np.exp(rng.uniform(-1.0, 1.0))),
            families[i % 4](float(rng.uniform(0.05, 0.95))),
            float(rng.uniform(0.5, 3.0)) if weights else 1.0,
        )
        for i in range(count)
    ]


def small(load: float, weights: bool = False) -> cw.System:
    return cw.System(6, classes(2, 3, weights)).at_load(load)


@pytest.mark.statistical
def test_intervals_cover_the_exact_mean() -> None:
    """95 % of them, within binomial error; false alarm 1e-6 for each test.

    Negative control: with 1 % more arrivals the exact mean is covered far less often.
    """
    load = 0.8
    system = small(load, weights=True)
    exact = cw.evaluate(system, cw.Whittle())
    other = cw.evaluate(system.at_load(1.01 * load), cw.Whittle())
    runs = [simulated_mean(system, cw.Whittle(), events=60_000, rng=seed) for seed in range(50)]
    least = stats.binom.ppf(FALSE_ALARM, len(runs), 0.95)

    def covered(mean: float, intervals: list[tuple[float, float]]) -> int:
        return sum(low <= mean <= high for low, high in intervals)

    assert covered(exact.mean_cost, [run.cost_interval for run in runs]) >= least
    assert covered(exact.mean_jobs, [run.interval for run in runs]) >= least
    assert covered(other.mean_cost, [run.cost_interval for run in runs]) < least
    assert covered(other.mean_jobs, [run.interval for run in runs]) < least


@pytest.mark.statistical
def test_the_gain_is_that_of_the_spread_between_runs() -> None:
    """The runs of a plain mean differ by √gain times as much; a factor of five covers its own uncertainty.

    Sixteen runs of each: the ratio of two variances with 15 degrees of freedom is beyond 25 either way with a
    probability below 1e-6. Negative control: without the gain the two would be alike.
    """
    system, events = small(0.7), 50_000
    runs = [simulated_mean(system, cw.Equi(), events=events, rng=seed) for seed in range(16)]
    plain = [cw.simulate(system, cw.Equi(), departures=events // 4, rng=seed).mean_jobs for seed in range(16)]
    ratio = np.var(plain) / np.var([run.mean_jobs for run in runs])
    gain = float(np.median([run.gain for run in runs]))
    assert gain > 100.0
    assert gain / 25.0 < ratio < gain * 25.0
    assert ratio > 25.0


@pytest.mark.statistical
def test_many_classes_that_are_alike_are_one_queue() -> None:
    """Eight classes, all jobs perfectly parallel: M/M/1 under any policy, N = ρ/(1 − ρ).

    The interval misses with probability 0.05 each; both with seeds as given do not. The negative control is a
    load 2 % higher.
    """
    rates = np.linspace(0.5, 1.5, 8)
    jobs = [cw.JobClass(str(i), float(rate), 1.0, cw.Amdahl(1.0)) for i, rate in enumerate(rates)]
    system = cw.System(20, jobs).at_load(0.6)
    policies: list[cw.Policy] = [cw.Greedy(), cw.Whittle()]
    for policy in policies:
        found = simulated_mean(system, policy, events=50_000, rng=4)
        low, high = found.interval
        width = high - low
        assert low - width <= 0.6 / 0.4 <= high + width, policy
        assert not low - width <= 0.612 / 0.388 <= high + width, policy


def one_queue(cores: int, load: float, classes: int = 1) -> tuple[cw.System, float]:
    """Classes alike, and their mean number of jobs if all share equally, as under EQUI and Whittle.

    It is that of a birth-death chain on the number of all jobs.
    """
    curve = cw.Amdahl(0.9)
    rate = load * cores / classes
    system = cw.System(cores, [cw.JobClass(str(i), rate, 1.0, curve) for i in range(classes)])
    jobs = np.arange(1.0, 40.0 * cores + 60.0 / (1.0 - load))
    speeds = jobs * np.asarray(curve.rate(cores / jobs))
    chances = np.exp(np.append(0.0, np.cumsum(np.log(load * cores / speeds))))
    return system, float(jobs @ chances[1:] / chances.sum())


@pytest.mark.statistical
def test_intervals_cover_at_high_load(monkeypatch: pytest.MonkeyPatch) -> None:
    """One class on 64 cores at load 0.95, where values were fitted badly to states hardly ever seen.

    Nineteen of twenty intervals cover, within binomial error; false alarm 1e-6. Negative control: without
    states of other sizes in the fit, three of five do.
    """
    system, exact = one_queue(64, 0.95)
    least = stats.binom.ppf(FALSE_ALARM, 60, 0.95)

    def covered() -> int:
        runs = [simulated_mean(system, cw.Equi(), events=100_000, rng=seed) for seed in range(60)]
        return sum(run.interval[0] <= exact <= run.interval[1] for run in runs)

    assert covered() >= least
    monkeypatch.setattr(means, "_SCALED_WEIGHT", 0.0)
    assert covered() < least


@pytest.mark.statistical
def test_near_saturation_simulations_are_made_longer_or_refused() -> None:
    """Four classes at load 0.99: as many events as it takes; at 0.995 that is more than was allowed.

    The interval is taken threefold: false alarm 1e-4 by Student's law with 15 degrees of freedom. Negative
    control: a load of 0.991.
    """
    system, exact = one_queue(16, 0.99, classes=4)
    found = simulated_mean(system, cw.Whittle(), events=200_000, rng=5)
    assert found.events > 5_000_000
    (low, high), (_, other) = found.interval, one_queue(16, 0.991)
    assert abs(found.mean_jobs - exact) < 1.5 * (high - low) < abs(found.mean_jobs - other)
    with pytest.raises(
        cw.errors.NotSettled,
        match=r"load 0\.995 is not settled within 2,500,000 events.*ask for 7\d\d,\d\d\d",
    ):
        simulated_mean(system.at_load(0.995), cw.Whittle(), events=50_000)


def test_equal_shares_among_classes_alike_are_not_simulated() -> None:
    """Their mean is known, near saturation and on many cores too; unlike curves are simulated."""
    system, exact = one_queue(1024, 0.995, classes=12)
    found = simulated_mean(system, "equi", events=50_000)
    assert found.mean_jobs == pytest.approx(exact, rel=1e-9)
    assert found.interval == (found.mean_jobs, found.mean_jobs)
    assert found.cost_interval == (found.mean_cost, found.mean_cost)
    assert found.events == 0
    assert str(found).endswith("exact, nothing was simulated")
    row = next(row for row in cw.compare(system.at_load(0.5), ["equi"]).rows if row.name == "equi")
    assert row.interval is row.cost_interval is None
    assert row.certified_gap is not None
    assert row.certified_gap > 0.0
    last = dataclasses.replace(system.classes[-1], speedup=cw.Amdahl(0.8))
    other = cw.System(1024, [*system.classes[:-1], last]).at_load(0.5)
    assert simulated_mean(other, "equi", events=50_000, rng=1).events > 0


MIXED = 5.0 + 0.01 * np.array([3, 9, 1, 12, 5, 0, 14, 7, 2, 11, 4, 15, 8, 13, 6, 10])


@pytest.mark.parametrize(
    ("costs", "drift", "floor", "obstacle"),
    [
        (MIXED, 0.0, 1.0, ""),
        (np.sort(MIXED), 0.0, 1.0, "parts of the simulation that follow one another are alike"),
        (MIXED, -9.0, 1.0, r"it came out as -3.* to -3.*, and under no policy is it below 1"),
        (MIXED, 0.0, 5.2, r"it came out as 5.0.* to 5.1.*, and under no policy is it below 5.2"),
        (MIXED, 1.0, 1.0, "means with the control variate and without it are too far apart"),
    ],
)
def test_what_is_not_to_be_trusted(costs: Floats, drift: float, floor: float, obstacle: str) -> None:
    drifts: Floats = drift + 1e-3 * (np.arange(16.0) // 2.0 % 2.0 - 0.5)
    assert re.fullmatch(obstacle, means._Controlled(costs, drifts, np.ones(16), 0.0, floor).obstacle)


def test_a_proved_bound_cuts_the_interval_off() -> None:
    parts = means._Controlled(MIXED, np.zeros(16), np.ones(16), 0.0, 5.08)
    low, high = stats.t.interval(0.95, 15, MIXED.mean(), stats.sem(MIXED))
    assert low < MIXED.mean() < 5.08 < high
    assert parts.mean == parts.interval[0] == 5.08
    assert parts.interval[1] == pytest.approx(high)


@pytest.mark.parametrize("soundly", [1, 3, 9], ids=["at once", "at last", "never"])
def test_values_that_calm_nothing_are_fitted_anew(monkeypatch: pytest.MonkeyPatch, soundly: int) -> None:
    """Equations that happen to be singular give values that are nonsense; they never reach the mean."""
    plain, ridges = Equations.solved, []

    def spoilt(equations: Equations, mixture: list[float], ridge: float) -> FittedValues:
        ridges.append(ridge)
        found = plain(equations, mixture, ridge)
        return found if len(ridges) >= soundly else dataclasses.replace(found, own=1e8 * found.own)

    monkeypatch.setattr(Equations, "solved", spoilt)
    system = cw.System(16, classes(4, 3)).at_load(0.7)
    found = simulated_mean(system, "whittle", events=60_000, rng=1)
    assert ridges == [RIDGE, 1e3 * RIDGE, 1e6 * RIDGE][: min(soundly, 3)]
    assert (found.gain == pytest.approx(1.0, rel=1e-12)) == (soundly > 3)
    monkeypatch.undo()
    other = simulated_mean(system, "whittle", events=400_000, rng=2)
    assert found.interval[0] - 0.2 < other.mean_jobs < found.interval[1] + 0.2


@pytest.mark.parametrize("load", [0.9, 0.995])
def test_a_stable_policy_is_not_called_unstable(load: float) -> None:
    """However short: filling up from empty is no drift. Six standard deviations: false alarm 1e-9 each."""
    system, _ = one_queue(64, load)
    rule = bind(cw.Equi(), system)
    grown = [
        sample_states(system, rule, events=20_000, rng=np.random.default_rng(seed)).growth
        for seed in range(50)
    ]
    assert max(grown) < means._UNSTABLE
    over = sample_states(
        unstable(),
        bind(cw.Priority(unstable().names), unstable()),
        events=50_000,
        rng=np.random.default_rng(1),
    )
    assert over.growth > means._UNSTABLE


def unstable() -> cw.System:
    """Serial jobs at the head of the line hold all eight cores and use one each."""
    return cw.System(
        8,
        [
            cw.JobClass("serial", 1.5, 1.0, cw.Amdahl(0.0)),
            *(cw.JobClass(f"wide {i}", 1.1, 1.0, cw.Amdahl(1.0)) for i in range(3)),
        ],
    )


def test_an_unstable_policy_is_named_and_a_stable_one_is_not() -> None:
    system = unstable()
    order = cw.Priority(system.names)
    with pytest.raises(
        cw.errors.UnstablePolicy, match=r"priority:serial,wide 0,wide 1,wide 2 the number of jobs"
    ):
        simulated_mean(system, order, events=50_000, rng=1)
    last = cw.Priority(system.names[::-1])
    assert np.isfinite(simulated_mean(system, last, events=50_000, rng=1).mean_jobs)


def test_what_is_no_system_or_no_number() -> None:
    system = small(0.5)
    with pytest.raises(cw.errors.InvalidInput, match="events must be at least 50000, got 10"):
        simulated_mean(system, cw.Equi(), events=10)
    with pytest.raises(cw.errors.UnstableSystem, match=r"the load is 1\.1"):
        simulated_mean(system.at_load(1.1), cw.Equi())
    with pytest.raises(cw.errors.InvalidSystem, match="expected a System, got 3"):
        simulated_mean(3, cw.Equi())  # type: ignore[arg-type]


def test_the_same_seed_gives_the_same_and_says_it_in_a_line() -> None:
    system = small(0.5)
    first, second = (simulated_mean(system, cw.Whittle(), events=50_000, rng=2) for _ in range(2))
    assert dataclasses.asdict(first) == dataclasses.asdict(second)
    assert str(first).startswith(f"whittle: mean jobs {first.mean_jobs:.6g} (95 %: ")


# --- side by side -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def many() -> cw.results.Comparison:
    system = cw.System(12, classes(5, 8)).at_load(0.7)
    return cw.compare(system, events=60_000, rng=1)


def test_many_classes_are_compared_by_simulation(many: cw.results.Comparison) -> None:
    assert not many.exact
    assert many.optimum is None
    assert [row.name for row in many.rows] == ["equi", "greedy", "whittle", "improved"]
    assert many.lower_bound == cw.lower_bound(many.system)
    for row in many.rows:
        assert row.gap is None
        assert row.mean_jobs is not None
        assert row.interval is not None
        assert row.cost_interval is not None
        assert row.interval[0] < row.mean_jobs < row.interval[1]
        assert many.lower_bound < row.mean_jobs
        assert row.certified_gap == pytest.approx(row.cost_interval[1] / many.lower_bound - 1.0)


def test_the_table_of_many_classes_says_what_is_certified(many: cw.results.Comparison) -> None:
    text = str(many)
    assert "at most above the" in text
    assert f"{many.rows[2].certified_gap:.2%}" in text
    assert f"lower bound  {many.lower_bound:.8g} (proved" in text


@pytest.mark.statistical
def test_simulated_and_exact_comparisons_agree() -> None:
    """Within three half-widths, which one of six numbers exceeds with probability 1e-6.

    Negative control: the exact numbers of a system with 5 % more arrivals are all farther away.
    """
    system = small(0.6, weights=True)
    policies: list[cw.Policy] = [cw.Equi(), cw.Greedy(), cw.Whittle()]
    exact = cw.compare(system, policies, simulate=False)
    other = cw.compare(system.at_load(0.63), policies, simulate=False)
    simulated = cw.compare(system, policies, simulate=True, events=60_000, rng=7)
    assert exact.exact
    for right, wrong, row in zip(exact.rows[1:], other.rows[1:], simulated.rows, strict=True):
        for mean, interval, at, off in (
            (row.mean_jobs, row.interval, right.mean_jobs, wrong.mean_jobs),
            (row.mean_cost, row.cost_interval, right.mean_cost, wrong.mean_cost),
        ):
            assert mean is not None
            assert interval is not None
            assert at is not None
            assert off is not None
            assert abs(mean - at) <= 1.5 * (interval[1] - interval[0])
            assert abs(mean - off) > 1.5 * (interval[1] - interval[0])


def test_an_unstable_policy_among_many_classes_has_no_numbers() -> None:
    system = unstable()
    found = cw.compare(system, [cw.Priority(system.names), cw.Equi()], events=50_000, rng=1)
    assert found.rows[0] == ComparisonRow(found.rows[0].name, None, None, None, None, stable=False)
    assert found.rows[1].stable
    assert "unstable" in str(found)


def test_a_simulation_has_no_capacity() -> None:
    with pytest.raises(cw.errors.InvalidInput, match="give no capacity, got 5"):
        cw.compare(small(0.5), simulate=True, capacity=5)


def test_a_policy_that_is_not_settled_has_a_row_and_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of two; if no policy is settled, nothing is shown."""
    system = small(0.5)
    real = simulated_mean

    def sometimes(system: cw.System, policy: cw.Policy, **options: object) -> SimulatedMean:
        if policy.name != "equi":
            raise cw.errors.NotSettled("too short")
        return real(system, policy, events=50_000, rng=1)

    monkeypatch.setattr(comparing, "simulated_mean", sometimes)
    found = cw.compare(system, ["equi", "greedy"], simulate=True)
    assert [(row.stable, row.obstacle) for row in found.rows] == [(True, ""), (None, "too short")]
    assert "greedy       not settled" in str(found)
    assert str(found).endswith("\nnote: too short")
    with pytest.raises(cw.errors.NotSettled, match="too short"):
        cw.compare(system, ["whittle", "greedy"], simulate=True)
