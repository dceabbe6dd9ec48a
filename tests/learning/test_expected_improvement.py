"""The expected improvement of a policy, given what was seen."""

from __future__ import annotations

import math

import numpy as np
import pytest

import corewise as cw
from corewise.learning.gate import expected_improvement, likely_systems, mean_cost
from corewise.learning.learner import Inference, InferenceRequest, Learner, infer
from corewise.learning.solving import solve_request
from corewise.observation.progress import ClassProgress
from corewise.observation.statistics import Statistics
from corewise.policies.saved import policy_from_bytes

TRUTH = cw.System(
    8, [cw.JobClass("one", 2.0, 2.0, cw.Amdahl(0.1)), cw.JobClass("two", 2.0, 0.8, cw.Amdahl(0.9))]
)
UNKNOWN = cw.System(8, [cw.JobClass(known.name, speedup=known.speedup) for known in TRUTH.classes])
NONE = np.empty(0)
SILENT = ClassProgress(NONE, NONE, NONE, NONE, NONE, (0.0, 0.0, 0.0))


def request_of(statistics: Statistics, known: cw.System = UNKNOWN) -> InferenceRequest:
    learner = Learner(cw.algorithm_1b(known, departures=1))
    learner.observe(statistics)
    return learner.request((SILENT, SILENT))


def seen(departures: int, seed: int = 1) -> Statistics:
    return cw.simulate(TRUTH, cw.Equi(), departures=departures, rng=seed).statistics


@pytest.fixture(scope="module")
def much() -> tuple[InferenceRequest, Inference]:
    request = request_of(seen(100_000))
    return request, infer(request)


def test_draws_have_the_moments_of_what_is_likely() -> None:
    """λ ~ Gamma(A)/T, μ ~ Gamma(D)/S given p, p normal: means and standard deviations to the error of 4096
    points, which fill the cube so evenly that it is below that of as many random ones."""
    request = request_of(seen(400))
    inference = infer(request)
    systems = likely_systems(request, inference, inference.plug_in, 4096)
    for i, (row, table) in enumerate(zip(inference.classes, request.seen.classes, strict=True)):
        drawn = [system.classes[i] for system in systems]
        curve = inference.plug_in.classes[i].speedup
        rates = np.array([one.arrival_rate for one in drawn])
        assert rates.mean() == pytest.approx(inference.plug_in.classes[i].arrival_rate, rel=0.01)
        assert rates.std() / rates.mean() == pytest.approx(table.arrivals**-0.5, rel=0.1)
        served = np.array([float(table.job_time @ one.speedup.rate(table.widths)) for one in drawn])
        here = float(table.job_time @ curve.rate(table.widths))
        sizes = np.array([one.size_rate for one in drawn]) * served / here
        assert sizes.std() / sizes.mean() == pytest.approx(table.left**-0.5, rel=0.1)
        values = np.array([one.speedup.parameters["p"] for one in drawn])
        inside = (values > 0.0) & (values < 1.0)
        middle, error = curve.parameters["p"], row.stderrs["p"]
        assert np.median(values) == pytest.approx(middle, abs=0.05 * error)
        assert np.mean(np.abs(values - middle)[inside] < error) == pytest.approx(0.683, abs=0.15)


def test_what_is_known_is_not_drawn() -> None:
    request = request_of(seen(400), TRUTH)
    inference = infer(request)
    for system in likely_systems(request, inference, inference.plug_in):
        assert system.arrival_rates == pytest.approx(TRUTH.arrival_rates)
        assert system.size_rates == pytest.approx(TRUTH.size_rates)


def test_no_draw_is_busier_than_can_be_solved() -> None:
    request = request_of(seen(40))
    inference = infer(request)
    drawn = likely_systems(request, inference, inference.plug_in, 256)
    assert max(system.load for system in drawn) <= 0.85 + 1e-12


def test_a_mean_cost_is_right_to_a_thousandth_at_every_load_that_is_drawn() -> None:
    rng = np.random.default_rng(5)
    quick = []
    for load in np.linspace(0.1, 0.85, 8).tolist():
        drawn = rng.uniform([0.5, 0.5, 0.05, 0.5], [2.0, 2.0, 0.95, 2.0], (2, 4)).tolist()
        rows = zip(TRUTH.names, drawn, strict=True)
        classes = [
            cw.JobClass(name, rate, size, cw.Amdahl(p), weight) for name, (rate, size, p, weight) in rows
        ]
        system = cw.System(8, classes).at_load(load)
        for policy in (cw.Equi(), cw.Whittle()):
            exact, found = cw.evaluate(system, policy).mean_cost, mean_cost(system, policy)
            assert found == pytest.approx(exact, rel=1e-3)
            quick.append(found != pytest.approx(exact, rel=1e-13))
    assert sum(quick) > 8  # not the exact ones


def test_an_unstable_policy_has_an_infinite_cost() -> None:
    curves = zip(TRUTH.names, (0.0, 1.0), strict=True)
    system = cw.System(8, [cw.JobClass(name, 3.0, 1.0, cw.Amdahl(p)) for name, p in curves])
    assert mean_cost(system, cw.Priority(["one", "two"])) == math.inf


def test_a_policy_that_is_in_force_gains_nothing_over_itself(
    much: tuple[InferenceRequest, Inference],
) -> None:
    found = expected_improvement(*much, much[1].plug_in, cw.Equi(), cw.Equi())
    assert found.gain == found.gain_over_equi == found.in_force_over_equi == (0.0, 0.0, 0.0)


def test_where_all_is_known_the_gain_is_the_exact_one(much: tuple[InferenceRequest, Inference]) -> None:
    best, worst = cw.solve(TRUTH, whole_cores=True).policy, cw.Priority(["one", "two"])
    equi, optimum = cw.evaluate(TRUTH, cw.Equi()), cw.evaluate(TRUTH, best)
    exact = 1.0 - optimum.mean_jobs / equi.mean_jobs
    found = expected_improvement(*much, much[1].plug_in, best, worst)
    low, middle, high = found.gain_over_equi
    assert low <= middle <= high
    assert middle == pytest.approx(exact, abs=0.01)  # of 100 000 departures
    assert high - low < 0.02
    assert found.response_times is not None
    for name, times in zip(TRUTH.names, found.response_times, strict=True):
        exactly = [one.classes[name].mean_response_time for one in (equi, optimum)]
        assert times == pytest.approx(exactly, rel=0.03)
    assert found.in_force_over_equi is not None
    assert found.in_force_over_equi[2] < 0.0 < found.gain[0]


def test_from_few_departures_an_improvement_is_less_and_less_sure(
    much: tuple[InferenceRequest, Inference],
) -> None:
    sure = solve_request(much[0], None).improvement.gain_over_equi
    request = request_of(seen(30))
    unsure = solve_request(request, None).improvement.gain_over_equi
    assert unsure[0] < 0.0 < sure[0]
    assert unsure[2] - unsure[0] > sure[2] - sure[0]


def test_a_result_is_a_policy_for_what_was_inferred(much: tuple[InferenceRequest, Inference]) -> None:
    found = solve_request(much[0], None)
    policy = policy_from_bytes(found.policy, "it")
    lost = cw.evaluate(TRUTH, policy).mean_jobs / cw.solve(TRUTH, whole_cores=True).mean_jobs - 1.0
    assert 0.0 <= lost < 0.002
    assert [row.name for row in found.inference.classes] == TRUTH.names
    again = Inference.from_mapping(found.inference.as_mapping())
    assert again.as_mapping() == found.inference.as_mapping()
