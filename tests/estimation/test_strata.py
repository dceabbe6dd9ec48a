"""Strata of attained work, against sums over single jobs, closed forms, and how often intervals cover."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

import corewise as cw
from corewise.estimation.likelihood import Likelihood
from corewise.estimation.robust.strata import JobScore, fit_strata, hazard_slopes, size_distribution
from corewise.model.sizes import Erlang, Exponential, Lognormal, SizeLaw
from corewise.observation.histories import JobHistories, job_histories
from corewise.observation.strata.tables import OCTAVES
from tests.helpers.sized_jobs import LAWS, Floats, sized_path, tables


def example(load: float) -> cw.System:
    return cw.load_system("paper:2").at_load(load)


def histories_of(path: cw.SamplePath, i: int = 0) -> JobHistories:
    found = job_histories(path)[i]
    assert found is not None
    return found


def naive_strata(
    jobs: JobHistories, curve: cw.SpeedUp, edges: Floats, slopes: Floats | None = None
) -> Floats:
    """D, E, A, U of every stratum, from one job after another and one segment after another.

    B/x is that of a job when it entered the stratum, in the first one that of the width it began to work at.
    """
    strata, kappa = np.zeros((edges.size + 1, 4)), np.zeros(edges.size + 1) if slopes is None else slopes
    for j in range(jobs.first.size):
        if jobs.truncated[j]:
            continue
        attained, b, bend, so_far = 0.0, 0, 0.0, 0.0
        for k in range(jobs.first[j], jobs.last[j]):
            z, left = jobs.widths[jobs.place[k]], jobs.span[k]
            speed, slope = float(curve.rate(z)), float(curve.gradient(z)[0])
            if attained == 0.0:
                so_far = slope / speed
            while left > 0.0:
                step = left if b == edges.size else min(left, (edges[b] - attained) / speed)
                attained += step * speed
                bend += step * slope
                left -= step
                strata[b, 1] += step * speed
                strata[b, 2] += step * slope + kappa[b] * so_far * step * speed
                if left > 0.0:
                    b, attained, so_far = b + 1, float(edges[b]), bend / float(edges[b])
        if jobs.departed[j]:
            z = jobs.widths[jobs.place[jobs.last[j] - 1]]
            strata[b, 0] += 1.0
            strata[b, 3] += float(curve.gradient(z)[0] / curve.rate(z)) + kappa[b] * so_far
    return strata


@pytest.mark.parametrize("form", ["totals", "per job"])
@pytest.mark.parametrize("law", ["exp", "h2_4"])
def test_strata_are_those_of_single_jobs(law: str, form: str) -> None:
    whole = sized_path(example(0.7), LAWS[law], 400, np.random.default_rng(5))
    jobs = histories_of(whole if form == "totals" else whole.split())
    curve, plain = cw.Amdahl(0.55), JobScore.of(jobs, cw.Amdahl(0.5), 0.4)
    for score in (plain, plain.with_slopes(np.linspace(-0.9, 1.2, OCTAVES.size + 1))):
        expected = naive_strata(jobs, curve, OCTAVES * 0.4, score.slopes)
        assert_allclose(score.passed(0.55).strata, expected, rtol=1e-9, atol=1e-9)
        part = expected[expected[:, 1] > 0.0]
        assert score(0.55) == pytest.approx(float(np.sum(part[:, 3] - part[:, 0] * part[:, 2] / part[:, 1])))


def test_a_job_that_waits_began_to_work_when_it_had_cores(tmp_path: Path) -> None:
    """Without a core nothing is attained: B/x is that of the first width that a job runs at."""
    file = tmp_path / "log.csv"
    file.write_text(
        "time,event,class,job,cores:one,cores:two\n"
        "0,arrival,one,a,0,0\n0,arrival,two,b,0,8\n1,arrival,one,c,0,8\n"
        "2,departure,two,b,8,0\n3,departure,one,a,8,0\n4,departure,one,c,0,0\n"
    )
    path = cw.load_events(file, example(0.5)).path
    jobs, curve = histories_of(path), cw.Amdahl(0.55)
    slopes = np.full(OCTAVES.size + 1, -0.5)
    score = JobScore.of(jobs, curve, 0.4).with_slopes(slopes)
    strata = score.passed(0.55).strata
    ratio = float(curve.gradient(4.0)[0] / curve.rate(4.0))
    assert strata[0, 2] == pytest.approx(0.5 * ratio * strata[0, 1], rel=1e-12)
    assert strata[0, 1] == pytest.approx(2.0 * OCTAVES[0] * 0.4, rel=1e-12)


def test_influences_sum_to_the_score_and_square_to_its_variance() -> None:
    """Σψ = U, as hazards are at their likeliest values: Σ_b ḡ_b (D_b − ĥ_b E_b) = 0."""
    jobs = histories_of(sized_path(example(0.7), LAWS["h2_4"], 400, np.random.default_rng(5)))
    slopes = np.linspace(0.5, -0.5, OCTAVES.size + 1)
    score = JobScore.of(jobs, cw.Amdahl(0.5), 0.4).with_slopes(slopes)
    influence, _ = score.influences(0.6)
    departed = score.passed(0.6).strata[:, 0]
    freedom = departed.sum() / (departed.sum() - np.count_nonzero(departed))
    assert influence.sum() == pytest.approx(math.sqrt(freedom) * score(0.6), rel=1e-8)
    known = score.with_mean(2.5, 0.25)
    _, _, size, slope = known.terms(0.6)
    influence, surplus = known.influences(0.6)
    both = influence + 0.25 * slope / size * surplus
    assert known(0.6) == pytest.approx(score(0.6) + 0.25 * slope / size * surplus.sum(), rel=1e-8)
    assert known.variance(0.6) == pytest.approx(float(both @ both), rel=1e-8)


@pytest.mark.parametrize("size_rate", [2.5, None])
def test_one_stratum_is_the_exponential_likelihood(size_rate: float | None) -> None:
    path = sized_path(example(0.7), LAWS["logn4"], 400, np.random.default_rng(5))
    score = replace(
        JobScore.of(histories_of(path), cw.Amdahl(0.5), 0.4), edges=np.empty(0), slopes=np.zeros(1)
    )
    if size_rate is not None:
        score = score.with_mean(size_rate, 1.0)
    likelihood = Likelihood(cw.Statistics.of(path).classes[0], cw.Amdahl(0.5), size_rate)
    for p in (0.2, 0.6, 0.9):
        assert score(p) == pytest.approx(float(likelihood.score(np.array([p]))[0]), rel=1e-8)


def test_jobs_that_were_there_at_the_start_are_left_out_of_strata() -> None:
    system = example(0.7)
    first = cw.simulate(system, cw.Equi(), departures=200, rng=3)
    run = cw.simulate(system, cw.Equi(), departures=300, rng=4, start=first.state, record=True)
    assert run.path is not None
    jobs = histories_of(run.path)
    assert 0 < jobs.truncated.sum() < jobs.truncated.size
    score = JobScore.of(jobs, cw.Amdahl(0.5), 0.4)
    strata = score.passed(0.4).strata
    assert strata[:, 0].sum() == (jobs.departed & ~jobs.truncated).sum()
    assert_allclose(strata, naive_strata(jobs, cw.Amdahl(0.4), OCTAVES * 0.4), rtol=1e-9, atol=1e-9)
    assert score.terms(0.4).size > strata[:, 1].sum()


def test_sizes_that_are_all_alike_tell_the_curve_though_nobody_knows_how_large_they_are() -> None:
    """Jobs are all of one size only on the right curve: the standard deviations are 0.005 and 0.0014.

    The negative control, the exponential likelihood, is off by 0.07 and 0.05 in the mean (SIZES 3.2).
    """
    system = example(0.7)
    path = sized_path(system, LAWS["det"], 4000, np.random.default_rng(3))
    for sizes in ("any", "exponential"):
        for name, row in cw.estimate(path, system, unknown_size_rates=True, sizes=sizes).items():
            assert (abs(row.value - system[name].speedup.parameters["p"]) < 0.02) == (sizes == "any")
            assert row.sizes == sizes


def test_the_papers_estimate_is_there_for_the_asking() -> None:
    system = example(0.5)
    path = sized_path(system, LAWS["h2_4"], 500, np.random.default_rng(3))
    asked, plain = cw.estimate(path, system, sizes="exponential"), cw.estimate(cw.Statistics.of(path), system)
    for name, row in asked.items():
        assert row.value == plain[name].value
        assert (row.sizes, row.certified) == ("exponential", True)
    with pytest.raises(cw.errors.InvalidInput, match="sizes must be 'any' or 'exponential', got 'gamma'"):
        cw.estimate(path, system, sizes="gamma")


def test_two_parameters_keep_the_exponential_form() -> None:
    system = example(0.7)
    path = sized_path(system, LAWS["h2_4"], 500, np.random.default_rng(3))
    assert {row.sizes for row in cw.estimate(path, system, family="usl").values()} == {"exponential"}


def test_the_law_of_sizes_has_the_hazards_of_the_strata() -> None:
    """Its CV² is that of the sizes, up to what a tail with one hazard leaves out."""
    system = example(0.5)
    for law, cv2 in (("exp", 1.0), ("h2_4", 4.0), ("erl4", 0.25)):
        path = sized_path(system, LAWS[law], 6000, np.random.default_rng(8))
        for row in cw.estimate(path, system).values():
            assert row.size_law is not None
            assert abs(math.log(row.size_law.cv2 / cv2)) < 0.5
    assert size_distribution(np.zeros((3, 4)), np.array([1.0, 2.0])) is None


def test_a_hazard_that_is_a_power_has_that_power_as_its_slope() -> None:
    """In every stratum, those without jobs too; powers beyond what is believed are cut."""
    done = np.array([0.0, 3.0, 5.0, 2.0, 7.0, 0.0])
    for power, slope in ((-0.5, -0.5), (0.0, 0.0), (1.5, 1.5), (-2.0, -0.9), (5.0, 3.0)):
        departed = done * 2.0 ** (power * np.arange(6))
        assert_allclose(hazard_slopes(np.column_stack([departed, done, done, done])), slope, atol=1e-12)
    assert_allclose(hazard_slopes(np.array([[4.0, 2.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0]])), 0.0)


def test_slopes_follow_a_hazard_that_bends_if_enough_jobs_say_so() -> None:
    """Flat below, falling above: each side has its slope with many jobs, and with few the one over all."""
    octaves = np.arange(24)
    for jobs, apart in ((1e9, True), (1e-3, False)):
        done = np.full(24, jobs)
        departed = done * 2.0 ** -np.maximum(octaves - 11.5, 0.0)
        slopes = hazard_slopes(np.column_stack([departed, done, done, done]))
        if apart:
            assert_allclose(slopes[[0, 4, 20, 23]], [0.0, 0.0, -0.9, -0.9], atol=0.02)
        else:
            assert_allclose(slopes, slopes[0], rtol=1e-3)
            assert -0.9 < slopes[0] < -0.05


def test_a_fit_says_the_size_rate_that_it_found() -> None:
    system = example(0.7)
    path = sized_path(system, LAWS["h2_4"], 4000, np.random.default_rng(12))
    for name, row in cw.estimate(path, system, unknown_size_rates=True).items():
        assert row.size_rate is not None
        low, high = row.size_rate.interval
        # Four standard errors: a false alarm once in 8000 tests.
        assert abs(row.size_rate.value - system[name].known_size_rate) < 4.0 * row.size_rate.stderr
        assert low < row.size_rate.value < high


@pytest.mark.statistical
def test_intervals_cover_and_estimates_are_better_where_the_exponential_ones_fail() -> None:
    """60 logs of Erlang sizes, all rates known: 120 intervals that cover with probability 0.95 (SIZES 4.4).

    Fewer than 105 happen with probability 0.001. A mean of 60 estimates is off by two fifths of a standard
    deviation with probability 0.002; that of the exponential likelihood, the negative control, is off by half
    of one or more for the second class.
    """
    system = example(0.7)
    made = tables(system, cw.Equi())
    errors: dict[str, list[float]] = {"any": [], "exponential": []}
    covered = 0
    for seed in range(60):
        path = sized_path(system, LAWS["erl4"], 1500, np.random.default_rng([9, seed]), made)
        for sizes, mine in errors.items():
            found = cw.estimate(path, system, sizes=sizes)
            mine.append(found["two"].value - system["two"].speedup.parameters["p"])
            if sizes == "any":
                for name, row in found.items():
                    covered += row.interval[0] <= system[name].speedup.parameters["p"] <= row.interval[1]
    bias = {sizes: abs(np.mean(mine)) / np.std(mine) for sizes, mine in errors.items()}
    assert covered >= 105
    assert bias["any"] < 0.4
    assert bias["exponential"] > 0.4


@pytest.mark.statistical
def test_nothing_is_lost_at_exponential_sizes() -> None:
    """Both estimates of 25 exponential logs: they differ by less than a fifth of their spread.

    Their correlation is above 0.98 (SIZES 4.3: variances within 1 %); the negative control are sizes with
    CV² = 16, for which they have little to do with each other.
    """
    system = example(0.7)
    made = tables(system, cw.Equi())

    def unlike(law: str) -> float:
        pairs = []
        for seed in range(25):
            path = sized_path(system, LAWS[law], 1500, np.random.default_rng([10, seed]), made)
            pairs.append([cw.estimate(path, system, sizes=s)["one"].value for s in ("any", "exponential")])
        robust, exponential = np.array(pairs).T
        return float(np.std(robust - exponential) / np.std(exponential))

    assert unlike("exp") < 0.2
    assert unlike("h2_16") > 0.4


@pytest.mark.statistical
def test_the_score_with_the_slopes_of_the_hazard_is_efficient() -> None:
    """Its slope is its variance, −U' = Σψ², pooled over 30 logs of some 900 jobs.

    Weibull sizes of shape ½ have κ = −½. With some 27 000 jobs ratios err by 0.03, and slopes by 0.006, and
    by 0.03 for what a hazard within an octave is taken to be. Bounds are four such errors away. The negative
    control is the score without slopes, whose ratio is 0.58 (and one at exponential sizes).
    """
    system = example(0.5)
    made = tables(system, cw.Equi())

    def pooled(law: str, *, with_slopes: bool) -> tuple[float, float]:
        falls, squares, slopes = [], [], []
        for seed in range(30):
            path = sized_path(system, LAWS[law], 1500, np.random.default_rng([11, seed]), made)
            score = JobScore.of(histories_of(path), cw.Amdahl(0.5), 0.4)
            p = system["one"].speedup.parameters["p"]
            strata = score.sums(p).strata
            slopes.append(hazard_slopes(strata) @ strata[:, 0] / strata[:, 0].sum())
            score = score.with_slopes(hazard_slopes(strata)) if with_slopes else score
            falls.append((score(p - 0.05) - score(p + 0.05)) / 0.1)
            squares.append(score.variance(p))
        return float(np.sum(falls) / np.sum(squares)), float(np.mean(slopes))

    for law, worth, slope in (("weib.5", 0.58, -0.5), ("exp", 1.0, 0.0)):
        ratio, power = pooled(law, with_slopes=True)
        assert abs(ratio - 1.0) < 0.13, law
        assert abs(power - slope) < 0.06, law
        assert abs(pooled(law, with_slopes=False)[0] - worth) < 0.13, law


@pytest.mark.statistical
def test_a_mean_that_hangs_on_a_single_job_is_better_than_none() -> None:
    """Lognormal sizes at load 0.1, where the mean is nearly all there is to learn from; 60 logs.

    Of two estimates that are the same but for a seventh of their spread, the errors (root mean square) of 60
    logs differ by a tenth with a probability below 0.001. In one log of twenty a single job makes half of the
    CV²: where the mean was left out for that, errors of these logs were 1.8 times those of the likelihood.
    The negative control are estimates that never know the mean.
    """
    system = cw.load_system("paper:3").at_load(0.1)
    made, truth = tables(system, cw.Equi()), system["two"].speedup.parameters["p"]
    errors: dict[str, list[float]] = {"any": [], "exponential": [], "no mean": []}
    for seed in range(60):
        path = sized_path(system, LAWS["logn4"], 500, np.random.default_rng([14, seed]), made)
        for sizes in ("any", "exponential"):
            errors[sizes].append(cw.estimate(path, system, sizes=sizes)["two"].value - truth)
        if seed < 20:
            without = cw.estimate(path, system, unknown_size_rates=True)
            errors["no mean"].append(without["two"].value - truth)
    rmse = {how: math.sqrt(np.mean(np.square(mine))) for how, mine in errors.items()}
    assert rmse["any"] < 1.1 * rmse["exponential"]
    assert rmse["no mean"] > 2.0 * rmse["exponential"]


def test_strata_are_fitted_at_an_end_of_the_range() -> None:
    """Jobs that do not run in parallel at all: the score is negative everywhere, or nearly so."""
    system = cw.System(8, [cw.JobClass(name, 1.0, 1.0, cw.Amdahl(0.0)) for name in ("one", "two")])
    path = sized_path(system, LAWS["h2_4"], 800, np.random.default_rng(2))
    for name, row in cw.estimate(path, system).items():
        low, high = row.interval
        assert 0.0 == low <= row.value < high < 0.5, name
    found = fit_strata(JobScore.of(histories_of(path), cw.Amdahl(0.5), 1.0), 1.0, (0.0, 0.1))
    assert math.isfinite(found.stderr)


def counted(sizes: Floats, edges: Floats) -> Floats:
    """The strata of jobs that all completed: departures and work done in each."""
    ends = np.concatenate([[0.0], edges, [np.inf]])
    strata = np.zeros((edges.size + 1, 4))
    strata[:, 0] = np.histogram(sizes, ends)[0]
    strata[:, 1] = [np.clip(sizes - low, 0.0, high - low).sum() for low, high in pairwise(ends)]
    return strata


def test_hazards_differ_only_where_that_is_sure() -> None:
    """Of 300 exponential samples of 300 sizes at most 12 are told apart by attained work.

    At equal hazards two differ one time in 1000 by the asymptotic χ², and there are some ten pairs: 3
    expected, more than 12 has a probability below 1e-4. The controls are strata as they are, which always
    differ, and sizes of other distributions, which are told apart.
    """
    rng, edges = np.random.default_rng(12), np.exp2(np.arange(-6.0, 7.0))

    def apart(law: SizeLaw, runs: int) -> int:
        found = [size_distribution(counted(law.draw(rng, 300), edges), edges) for _ in range(runs)]
        return sum(len(law.edges) > 1 for law in found if law is not None)

    assert apart(Exponential(), 300) <= 12
    assert apart(Erlang(2), 40) == 40
    assert apart(Lognormal(4.0), 40) == 40
    strata = counted(rng.exponential(1.0, 300), edges)
    departed, done = strata[strata[:, 0] > 10.0, :2].T
    assert np.ptp(departed / done) > 0.1


def test_a_hazard_that_falls_is_met_where_it_is_sure() -> None:
    """5000 sizes, one in ten of mean 5, the others of mean 5/9: P(X > x) within four errors, and .005."""
    rng, edges = np.random.default_rng(5), np.exp2(np.arange(-6.0, 7.0))
    sizes = rng.exponential(np.where(rng.uniform(size=5000) < 0.1, 5.0, 5.0 / 9.0))
    law = size_distribution(counted(sizes, edges), edges)
    assert law is not None
    assert np.all(np.diff(law.hazards) < 0.0)
    for x in (0.5, 1.0, 2.0, 8.0):
        share = float(np.mean(sizes > x * sizes.mean()))
        error = math.sqrt(share * (1.0 - share) / 5000.0)
        assert float(law.survival(x)) == pytest.approx(share, abs=4.0 * error + 0.005)
