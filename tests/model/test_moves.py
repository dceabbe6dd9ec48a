"""What a job may hold and what a move costs: fields of a class, files, a curve flat from its most on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import corewise as cw
from corewise.errors import InvalidFile, InvalidSystem
from corewise.model.capped import Capped
from corewise.model.files import load_system, save_system


def job_class(**given: object) -> cw.JobClass:
    return cw.JobClass("a", 2.0, 1.0, cw.Amdahl(0.8), **given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"min_cores": 0}, "min_cores must be at least 1, got 0"),
        ({"min_cores": 1.5}, "min_cores must be a whole number, got 1.5"),
        ({"min_cores": 4, "max_cores": 3}, "min_cores 4 is above max_cores 3"),
        ({"max_cores": 0}, "max_cores must be at least 1, got 0"),
        ({"max_cores": True}, "max_cores must be a whole number, got True"),
        ({"resize_pause": -0.1}, r"resize_pause must lie in \[0, infinity\), got -0.1"),
        ({"resize_pause": float("inf")}, "resize_pause must be finite, got inf"),
        ({"resize_pause": "1s"}, "resize_pause must be a number, got '1s'"),
    ],
)
def test_what_cannot_be_is_refused(given: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidSystem, match=f"class 'a': {message}"):
        job_class(**given)


@pytest.mark.parametrize("field", ["min_cores", "max_cores"])
def test_no_job_needs_or_uses_more_cores_than_there_are(field: str) -> None:
    with pytest.raises(InvalidSystem, match=f"class 'a': {field} 9 is above the 8 cores there are"):
        cw.System(8, [job_class(**{field: 9})])


def test_a_system_says_what_its_moves_cost() -> None:
    system = cw.System(8, [job_class(min_cores=2, max_cores=6, resize_pause=0.05)])
    assert str(system).endswith("weight 1, 2 to 6 cores a job, pause 0.05 a resize")
    assert str(cw.System(8, [job_class(min_cores=2)])).endswith("weight 1, 2 or more cores a job")


def test_files_keep_the_limits_and_the_pause(tmp_path) -> None:  # type: ignore[no-untyped-def]
    system = cw.System(8, [job_class(min_cores=2, max_cores=6, resize_pause=0.05)])
    save_system(system, tmp_path / "system.toml")
    assert load_system(tmp_path / "system.toml") == system
    save_system(cw.System(8, [job_class()]), tmp_path / "plain.toml")
    text = (tmp_path / "plain.toml").read_text()
    assert "cores =" in text
    assert not any(key in text for key in ("min_cores", "max_cores", "resize_pause"))


def test_a_wrong_key_or_value_in_a_file_is_named(tmp_path) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "system.toml"
    save_system(cw.System(8, [job_class()]), path)
    plain = path.read_text()
    path.write_text(plain + "max_core = 3\n")
    with pytest.raises(InvalidFile, match=r"class 'a': unknown key 'max_core'; did you mean 'max_cores'"):
        load_system(path)
    path.write_text(plain + "max_cores = 30\n")
    with pytest.raises(InvalidFile, match=r"class 'a': max_cores 30 is above the 8 cores there are"):
        load_system(path)


def test_a_capped_curve_is_a_curve_and_flat_from_its_most() -> None:
    curve = Capped(cw.Amdahl(0.8), 4.0)
    rise = np.diff(curve.rate(np.linspace(0.0, 16.0, 129)))
    assert np.all(rise >= 0.0)
    assert np.all(np.diff(rise) <= 1e-12)
    z = np.array([0.5, 1.0, 3.0, 4.0, 9.0])
    np.testing.assert_allclose(curve.rate(z), cw.Amdahl(0.8).rate(np.minimum(z, 4.0)))
    assert curve.slope(4.0) == curve.slope(9.0) == 0.0
    assert curve.with_parameters(p=0.5) == Capped(cw.Amdahl(0.5), 4.0)
    assert curve.parameters == {"p": 0.8}


def test_one_class_with_a_most_has_a_birth_death_law() -> None:
    """One class is a birth-death chain whatever its curve; with most 3 it leaves at n s(min(8/n, 3))."""
    system = cw.System(8, [job_class(max_cores=3)])
    n = np.arange(1, 200)
    speed = cw.Amdahl(0.8).rate(np.minimum(8.0 / n, 3.0))
    weights = np.concatenate([[1.0], np.cumprod(2.0 / (n * speed))])
    exact = float(weights @ np.arange(200) / weights.sum())
    assert cw.evaluate(system, cw.Equi()).mean_jobs == pytest.approx(exact, rel=1e-9)
    assert cw.solve(system).mean_jobs == pytest.approx(exact, rel=1e-9)
    uncapped = cw.evaluate(cw.System(8, [job_class()]), cw.Equi()).mean_jobs
    assert uncapped < 0.9 * exact  # the control: the limit is felt


def two(**given: object) -> cw.System:
    other = cw.JobClass("b", 1.5, 1.0, cw.Amdahl(0.95), **given)  # type: ignore[arg-type]
    return cw.System(8, [cw.JobClass("a", 1.5, 1.0, cw.Amdahl(0.4)), other])


def test_a_most_is_that_of_a_tabulated_curve_and_the_solver_stays_exact() -> None:
    """Cut at its most, a curve is a table of points: the same system, written without a limit."""
    limited = two(max_cores=2)
    points = [(1.0, 1.0), (2.0, float(cw.Amdahl(0.95).rate(2.0)))]
    nodes = np.linspace(1.0, 2.0, 400)
    fine = cw.Tabulated([*zip(nodes.tolist(), cw.Amdahl(0.95).rate(nodes).tolist(), strict=True)])
    as_table = two().with_curves({"b": fine})
    solution, twin = cw.solve(limited), cw.solve(as_table)
    assert solution.mean_jobs == pytest.approx(twin.mean_jobs, rel=1e-5)
    assert solution.bounds[0] <= solution.mean_jobs * (1 + 1e-9)
    assert points[1][1] == pytest.approx(float(fine.rate(8.0)))
    assert cw.evaluate(limited, solution.policy).mean_jobs == pytest.approx(solution.mean_jobs, rel=1e-9)
    assert cw.lower_bound(limited) <= solution.mean_jobs
    whole = cw.solve(limited, whole_cores=True)
    assert whole.mean_jobs >= solution.mean_jobs - 1e-9


@pytest.mark.statistical
def test_simulation_and_estimation_know_the_most() -> None:
    """p̂ is within four standard errors (false alarm 6e-5 a class); without the limit it is far off."""
    system = two(max_cores=2)
    run = cw.simulate(system, "equi", departures=40_000, rng=5)
    exact = cw.evaluate(system, cw.Equi()).mean_jobs
    assert run.interval[0] - 0.02 <= exact <= run.interval[1] + 0.02
    found = cw.estimate(run.statistics, system)["b"]
    assert abs(found.value - 0.95) < 4.0 * found.stderr
    without = cw.System(8, [replace(one, max_cores=None) for one in system.classes])
    wrong = cw.estimate(run.statistics, without)["b"]
    assert abs(wrong.value - 0.95) > 10.0 * wrong.stderr


def test_exact_numbers_are_for_free_moves_and_any_share_of_a_core() -> None:
    costly = two(min_cores=2, resize_pause=1.0)
    assert cw.solve(costly).mean_jobs == cw.solve(two()).mean_jobs
