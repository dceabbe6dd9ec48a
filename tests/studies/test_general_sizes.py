"""Sizes of any law in comparisons, sweeps, plants and the loop; and what refuses them."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import corewise as cw
from corewise.control.improve.improved import improve
from corewise.learning.loop import Learning
from corewise.model.sizes import Erlang, Exponential, Hyperexponential, Lognormal, Pareto, SizeLaw
from corewise.studies.means import simulated_mean


def system_of(law: SizeLaw, cores: float = 4.0) -> cw.System:
    return cw.System(
        cores,
        [
            cw.JobClass("one", 1.2, 1.0, cw.Amdahl(0.9), sizes=law),
            cw.JobClass("two", 1.2, 1.0, cw.Amdahl(0.5), sizes=law),
        ],
    )


HYPER = system_of(Hyperexponential(4.0))

EXACT: dict[str, Callable[[], object]] = {
    "solve": lambda: cw.solve(HYPER),
    "evaluate": lambda: cw.evaluate(HYPER, "equi"),
    "fisher_information": lambda: cw.fisher_information(HYPER, "equi"),
    "plan": lambda: cw.plan(HYPER, target=2.0),
    "improve": lambda: improve(HYPER),
}


@pytest.mark.parametrize("verb", EXACT)
def test_what_is_exact_says_that_it_is_for_exponential_sizes(verb: str) -> None:
    with pytest.raises(
        cw.errors.InvalidSystem, match=f"{verb} is exact .* hyperexponential .* simulate and comp"
    ):
        EXACT[verb]()
    renewal = cw.System(4, [replace(one, sizes=Exponential(), arrivals=Erlang(2)) for one in HYPER.classes])
    with pytest.raises(cw.errors.InvalidSystem, match="its arrivals are erlang"):
        cw.solve(renewal)


def test_policies_are_made_as_if_sizes_were_exponential() -> None:
    counts = np.array([[1, 0], [2, 3], [7, 9]])
    for name in ("optimal", "whittle", "greedy", "equi"):
        policies = [cw.simulate(system, name, departures=10, rng=1).policy for system in (HYPER,)]
        assert policies == [name]
    made, same = (cw.solve(one).policy for one in (HYPER.as_memoryless(), system_of(Exponential())))
    assert np.array_equal(made.allocate(counts), same.allocate(counts))


def test_a_comparison_gives_all_policies_the_same_jobs() -> None:
    found = cw.compare(HYPER, events=60_000, rng=1)
    names = [row.name for row in found.rows]
    assert names[0] == "optimal"
    assert found.lower_bound == cw.lower_bound(HYPER)
    assert all(row.certified_gap is None for row in found.rows)
    assert not found.exact
    assert min(row.above_best for row in found.rows if row.above_best is not None) == 0.0
    assert all(row.interval is not None and row.interval[0] < row.interval[1] for row in found.rows)
    assert "best here" in str(found)
    again = cw.compare(HYPER, ["equi", "equi"], events=60_000, rng=1).rows
    assert again[0].mean_jobs == again[1].mean_jobs


@pytest.mark.statistical
def test_intervals_of_ratio_means_cover() -> None:
    """Of 60 intervals for M/G/1-PS, 48 or more cover the mean: false alarm 1e-6, at a coverage of 95 %.

    Negative control: of intervals half as wide, fewer do.
    """
    system = cw.System(1, [cw.JobClass("a", 0.6, 1.0, cw.Amdahl(1.0), sizes=Lognormal(4.0))])
    exact, hits = 0.6 / 0.4, np.zeros(2)
    for rng in np.random.default_rng(3).spawn(60):
        found = simulated_mean(system, "equi", events=50_000, rng=rng)
        half = 0.5 * (found.interval[1] - found.interval[0])
        hits += [abs(found.mean_jobs - exact) <= width for width in (half, 0.3 * half)]
        assert found.gain > 1.0
    assert hits[0] >= 48 > hits[1]


def test_a_mean_of_sizes_without_variance_has_no_interval() -> None:
    found = simulated_mean(system_of(Pareto(1.5)), "equi", events=50_000, rng=1)
    assert found.mean_jobs > 0.0
    assert math.isnan(found.interval[0])
    assert math.isnan(cw.simulate(system_of(Pareto(1.5)), "equi", departures=50_000, rng=1).interval[0])


def test_replications_differ_and_depend_on_the_seed_alone() -> None:
    one, same = (cw.replicate(HYPER, "whittle", n=5, departures=500, rng=2) for _ in range(2))
    assert one.mean_jobs == same.mean_jobs
    assert len({run.mean_jobs for run in one.runs}) == 5
    seen = cw.replicate(HYPER, "whittle", n=3, departures=500, rng=2, percentiles=[50.0])
    assert seen.classes["one"].percentiles[0].value > 0.0


# --- plants and the loop --------------------------------------------------------------------------


def test_a_plant_goes_on_in_another_process_as_if_it_had_never_stopped() -> None:
    plant, other = (cw.SimulatedPlant(HYPER, rng=seed) for seed in (5, 6))
    plant.run(cw.Whittle(), 300)
    saved = json.loads(json.dumps(plant.snapshot()))
    other.restore(saved)
    for policy in (cw.Equi(), cw.Whittle()):
        one, two = (each.run(policy, 5000) for each in (plant, other))
        assert one.time == two.time
        assert np.array_equal(one["one"].job_time, two["one"].job_time)
    assert plant.state == other.state


def test_the_jobs_of_a_plant_do_not_depend_on_its_policies() -> None:
    ends = []
    for policy in ("equi", "priority:two,one"):
        plant = cw.SimulatedPlant(HYPER, rng=5)
        for _ in range(50):
            plant.run(cw.Equi() if policy == "equi" else cw.Priority(["two", "one"]), 40)
        ends.append(plant.snapshot()["jobs"]["streams"])
    assert ends[0] == ends[1]


def test_the_loop_learns_from_sizes_of_another_law_and_says_no_gap(tmp_path: Path) -> None:
    algorithm = cw.algorithm_1b(HYPER, departures=100, steps=3)
    loop: Learning = cw.learn(cw.SimulatedPlant(HYPER, rng=1), algorithm)
    epochs = [next(loop), next(loop)]
    file = tmp_path / "saved"
    loop.save(file)
    epochs.append(next(loop))
    assert [epoch.gap for epoch in epochs] == [None] * 3
    resumed = next(cw.learn(cw.SimulatedPlant(HYPER, rng=9), algorithm, resume=file))
    assert resumed.time == epochs[-1].time


def test_a_simulated_plant_tells_jobs_apart_where_sizes_have_a_memory() -> None:
    """The law that is found from 4000 departures has a cv² near that of the truth, which is not told."""
    known = cw.load_system("paper:2").at_load(0.7)
    truth = cw.System(known.cores, [replace(one, sizes=Erlang(4)) for one in known.classes])
    algorithm = cw.algorithm_1b(known, departures=1000, steps=4, policy="whittle")
    *_, last = cw.learn(cw.SimulatedPlant(truth, rng=1), algorithm)
    for row in last.estimates.values():
        assert row.sizes == "any"
        assert row.size_law is not None
        assert row.size_law.cv2 == pytest.approx(0.25, abs=0.1)
    *_, last = cw.learn(cw.SimulatedPlant(known, rng=1), algorithm)
    assert {row.sizes for row in last.estimates.values()} == {"exponential"}
    other = cw.System(4, [replace(HYPER.classes[0], name="other")])
    with pytest.raises(
        cw.errors.InvalidInput, match="the plant has classes one, two, the algorithm is for other"
    ):
        cw.SimulatedPlant(truth).attend(other)
