"""Loops that know no rates: what they find, that they end well, and that they can be stopped and resumed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import corewise as cw
from corewise.learning.learner import Learner, infer
from tests.learning.test_learning import ALL, EXAMPLE, NOTHING, rows, seen_in, window_of

Algorithms = Callable[..., cw.Algorithm]


@ALL
def test_rates_are_found_and_policies_are_good(algorithm: Algorithms) -> None:
    """Within 3 % of the optimum after 3000 departures, where EQUI is 7.3 % off."""
    truth = cw.load_system("paper:1").at_load(0.5)
    *_, last = cw.learn(
        cw.SimulatedPlant(truth, rng=1),
        algorithm(truth.without_rates(), departures=500, steps=6),
        diagnose={6},
    )
    assert last.gap is not None
    assert last.gap < 0.03
    assert list(last.arrival_rates.values()) == pytest.approx(truth.arrival_rates, rel=0.25)
    for name, row in last.estimates.items():
        assert row.size_rate is not None
        low, high = row.size_rate.interval
        assert low / 1.3 <= truth[name].known_size_rate <= 1.3 * high
        assert last.size_rates[name] == pytest.approx(row.size_rate.value)


@ALL
def test_rates_that_are_known_are_said_and_not_touched(algorithm: Algorithms) -> None:
    epoch = next(cw.learn(cw.SimulatedPlant(EXAMPLE, rng=1), algorithm(EXAMPLE, departures=50, steps=1)))
    assert list(epoch.arrival_rates.values()) == EXAMPLE.arrival_rates.tolist()
    assert list(epoch.size_rates.values()) == EXAMPLE.size_rates.tolist()


@ALL
def test_some_rates_may_be_known(algorithm: Algorithms) -> None:
    one, two = EXAMPLE.classes
    known = cw.System(EXAMPLE.cores, [replace(one, size_rate=None), replace(two, arrival_rate=None)])
    *_, last = cw.learn(cw.SimulatedPlant(EXAMPLE, rng=1), algorithm(known, departures=50, steps=3))
    assert last.arrival_rates[one.name] == one.arrival_rate
    assert last.size_rates[two.name] == two.size_rate
    assert last.arrival_rates[two.name] != two.arrival_rate
    assert last.size_rates[one.name] != one.size_rate


@ALL
def test_a_saved_run_goes_on_as_if_it_had_not_stopped(algorithm: Algorithms, tmp_path: Path) -> None:
    def made(steps: int) -> cw.Algorithm:
        return algorithm(EXAMPLE.without_rates(), departures=40, steps=steps)

    whole = rows(cw.learn(cw.SimulatedPlant(EXAMPLE, rng=5), made(6), diagnose=False))
    first = cw.learn(cw.SimulatedPlant(EXAMPLE, rng=5), made(3), diagnose=False)
    begun = rows(first)
    first.save(tmp_path / "run.npz")
    again = cw.learn(cw.SimulatedPlant(EXAMPLE, rng=9), made(6), resume=tmp_path / "run.npz", diagnose=False)
    assert begun + rows(again) == whole
    with pytest.raises(cw.errors.InvalidFile, match=r"another one|not a usable run"):
        cw.learn(
            cw.SimulatedPlant(EXAMPLE, rng=9),
            algorithm(EXAMPLE, departures=40, steps=6),
            resume=tmp_path / "run.npz",
        )


def test_the_loop_goes_on_where_little_was_seen() -> None:
    """One class at one width, the other never: all rates are positive, and the load is kept below one."""
    learner = Learner(cw.algorithm_1b(EXAMPLE.without_rates(), departures=5, policy="whittle"))
    request = learner.observe(window_of(seen_in(20.0, 4, 0.1, 5, arrivals=4000), NOTHING))
    assert request is not None
    inference = infer(request)
    assert inference.plug_in.load == pytest.approx(0.95)
    assert np.all(inference.plug_in.size_rates > 0.0)
    assert "cannot tell 2 unknowns apart" in inference.classes[0].note
    learner.install(inference, request.solve(inference))


def test_an_estimate_at_an_end_goes_with_its_own_size_rate() -> None:
    """The curve and the size rate of a policy describe the departures that were seen, whatever p is."""
    truth = cw.load_system("paper:1")
    learner = Learner(cw.algorithm_1b(truth.without_rates(), departures=60))
    request = learner.observe(cw.simulate(truth, cw.Equi(), departures=60, rng=3).statistics)
    assert request is not None
    inference = infer(request)
    for known, table in zip(inference.plug_in.classes, request.seen.classes, strict=True):
        due = known.known_size_rate * float(table.job_time @ known.speedup.rate(table.widths))
        assert due == pytest.approx(table.left, rel=0.35)  # shrunk, but not off the ridge


# --- changes ------------------------------------------------------------------------------------------


def changing(steps: int, at: int, **change: object) -> list[cw.results.Epoch]:
    """A loop without rates in which class one changes after some windows."""
    truth = cw.load_system("paper:2").at_load(0.7)
    one, two = truth.classes
    after = cw.System(truth.cores, [replace(one, **change), two])  # type: ignore[arg-type]
    loop = cw.learn(
        cw.SimulatedPlant(truth, rng=2),
        cw.adaptive(truth.without_rates(), departures=500, steps=steps, between_alarms=1e6, policy="whittle"),
        diagnose=False,
    )
    epochs = [next(loop) for _ in range(at)]
    later = cw.SimulatedPlant(after, rng=3, start=loop.plant.state)  # type: ignore[attr-defined]
    loop.plant = later
    return [*epochs, *loop]


@pytest.mark.statistical
def test_changes_are_found_without_rates_and_new_policies_alone_are_none() -> None:
    """With 1e6 departures between false alarms: one in 10 000 has a probability of 1 %."""
    still = changing(20, 10)
    assert [alarm for epoch in still for alarm in epoch.alarms] == []
    halved = changing(20, 10, size_rate=0.6 * cw.load_system("paper:2")["one"].known_size_rate)
    found = [alarm for epoch in halved for alarm in epoch.alarms]
    assert found
    assert {alarm.name for alarm in found} == {"one"}
    assert {alarm.kind for alarm in found} <= {"speed", "curve"}
    assert all(alarm.raised > 5000 for alarm in found)
    assert set(found[0].after) == {"p", "size_rate"}
