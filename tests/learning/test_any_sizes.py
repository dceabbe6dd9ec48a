"""Learning from a record that tells jobs apart: estimates hold for sizes of any law."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import corewise as cw
from corewise.learning.algorithms import Algorithm
from corewise.model.sizes import Erlang
from corewise.policies.base import BoundPolicy
from tests.helpers.sized_jobs import LAWS, sized_path

SYSTEM = cw.load_system("paper:2").at_load(0.7)


@pytest.fixture(scope="module")
def record() -> cw.SamplePath:
    return sized_path(SYSTEM, LAWS["erl4"], 1200, np.random.default_rng(5))


def algorithm(steps: int) -> Algorithm:
    return cw.algorithm_1b(SYSTEM, departures=300, steps=steps, policy="whittle")


def test_a_replayed_log_is_learned_from_as_it_is_estimated(record: cw.SamplePath) -> None:
    """Between nodes the score is a spline: within a twentieth of a standard error (SIZES 4.7)."""
    (*_, last) = cw.learn(cw.ReplayPlant(record), algorithm(4))
    expected = cw.estimate(record, SYSTEM)
    for name, row in last.estimates.items():
        assert row.sizes == "any"
        assert abs(row.value - expected[name].value) < 0.05 * expected[name].stderr
        assert row.stderr == pytest.approx(expected[name].stderr, rel=0.1)
        assert row.size_law is not None


def test_a_saved_run_goes_on_with_its_strata(record: cw.SamplePath, tmp_path: Path) -> None:
    whole = list(cw.learn(cw.ReplayPlant(record), algorithm(4)))
    first = cw.learn(cw.ReplayPlant(record), algorithm(2))
    for _ in first:
        pass
    first.save(tmp_path / "run.npz")
    rest = list(cw.learn(cw.ReplayPlant(record), algorithm(4), resume=tmp_path / "run.npz"))
    for name, row in rest[-1].estimates.items():
        assert row.sizes == "any"
        assert row.value == whole[-1].estimates[name].value


def test_a_log_of_other_classes_is_refused(record: cw.SamplePath) -> None:
    other = cw.load_system("paper:2").at_load(0.5)
    named = cw.System(30, [cw.JobClass(name, 1.0, 1.0, cw.Amdahl(0.5)) for name in ("a", "b")])
    cw.ReplayPlant(record).attend(other)
    with pytest.raises(cw.errors.InvalidInput, match="the algorithm is for a, b"):
        cw.ReplayPlant(record).attend(named)


def plant(rng: int = 3) -> cw.SimulatedPlant:
    classes = [replace(known, sizes=Erlang(4)) for known in SYSTEM.classes]
    return cw.SimulatedPlant(cw.System(SYSTEM.cores, classes), rng=rng)


def test_a_simulated_plant_tells_jobs_apart_unless_sizes_are_exponential() -> None:
    (*_, last) = cw.learn(plant(), algorithm(3), diagnose=False)
    assert {row.sizes for row in last.estimates.values()} == {"any"}
    (*_, last) = cw.learn(cw.SimulatedPlant(SYSTEM, rng=3), algorithm(3), diagnose=False)
    assert {row.sizes for row in last.estimates.values()} == {"exponential"}


def test_windows_of_a_simulated_plant_add_up_to_one() -> None:
    """AttainedWork work is carried over: with one seed the jobs are the same whatever the windows are."""
    tables = []
    for windows in ([300], [1, 99, 200]):
        seen = plant()
        seen.attend(SYSTEM)
        statistics = cw.Statistics.total([seen.run(cw.Equi(), count) for count in windows])
        assert statistics.strata is not None
        assert statistics.strata[0] is not None
        tables.append(statistics.strata[0])
    np.testing.assert_allclose(tables[1].bins, tables[0].bins, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(tables[1].jobs, tables[0].jobs, rtol=1e-9, atol=1e-9)


def test_a_saved_plant_goes_on_with_what_its_jobs_have_attained(tmp_path: Path) -> None:
    whole = list(cw.learn(plant(), algorithm(3), diagnose=False))
    first = cw.learn(plant(), algorithm(2), diagnose=False)
    for _ in first:
        pass
    first.save(tmp_path / "run.npz")
    rest = list(cw.learn(plant(9), algorithm(3), resume=tmp_path / "run.npz", diagnose=False))
    for name, row in rest[-1].estimates.items():
        assert row.sizes == "any"
        assert row.value == whole[-1].estimates[name].value


def test_job_index_is_made_for_the_size_distributions_of_the_record(record: cw.SamplePath) -> None:
    """Erlang sizes have CV² 1/4; a policy of classes, the control, keeps those that it was given."""
    learned = {}
    for policy in ("job-index", "whittle"):
        given = replace(algorithm(4), policy=cw.JobIndex() if policy == "job-index" else cw.Whittle())
        (*_, last) = cw.learn(cw.ReplayPlant(record), given)
        assert isinstance(last.policy, BoundPolicy)
        learned[policy] = [known.sizes.cv2 for known in last.policy.system.classes]
    assert learned["job-index"] == pytest.approx([0.25, 0.25], abs=0.15)
    assert learned["whittle"] == [1.0, 1.0]


def test_job_index_is_made_for_curves_at_the_lower_end_of_their_intervals(record: cw.SamplePath) -> None:
    """With p believed too high few jobs hold most cores; the control, a policy of classes, goes by it."""
    for policy in (cw.JobIndex(), cw.Whittle()):
        (*_, last) = cw.learn(cw.ReplayPlant(record), replace(algorithm(4), policy=policy))
        assert isinstance(last.policy, BoundPolicy)
        for name, row in last.estimates.items():
            low = row.interval[0] if row.interval[0] > 0.0 else 0.5 * row.value
            expected = low if isinstance(policy, cw.JobIndex) else row.value
            assert last.policy.system[name].speedup.parameters["p"] == expected
