"""Tractability of exact numbers: one answer, used everywhere."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import pytest

import corewise as cw
import corewise.studies.compare as comparing
from corewise.analysis.tractability import Tractability
from corewise.learning.evaluator import ExactEvaluator
from corewise.studies.responses import Responses


def alike(count: int, *, cores: float = 8.0, load: float = 0.5) -> cw.System:
    """Return a system of classes that are alike."""
    rows = [cw.JobClass(f"c{i}", 1.0, 1.0, cw.Amdahl(0.5)) for i in range(count)]
    return cw.System(cores, rows).at_load(load)


def test_a_few_classes_at_a_moderate_load_are_within_reach() -> None:
    for count in (1, 2, 3):
        tractability = Tractability.of(alike(count))
        assert tractability.exact
        assert tractability.obstacle == ""
        assert str(tractability) == "exact numbers are within reach"


@pytest.mark.parametrize(
    ("system", "obstacle"),
    [
        (alike(4), "4 classes"),
        (alike(9), "9 classes"),
        (alike(3, cores=400.0), "some 2"),
        (alike(2, load=0.999), " at load 0.999"),
    ],
)
def test_what_puts_them_out_of_reach_is_named(system: cw.System, obstacle: str) -> None:
    tractability = Tractability.of(system)
    assert not tractability.exact
    assert obstacle in tractability.obstacle
    assert str(tractability) == f"exact numbers for {tractability.obstacle} are out of reach"


def test_more_cores_take_longer_and_a_higher_load_longer_yet() -> None:
    few, many = Tractability.of(alike(3, cores=8.0)), Tractability.of(alike(3, cores=40.0))
    busy = Tractability.of(alike(3, cores=8.0, load=0.9))
    assert few.seconds < many.seconds < busy.seconds
    assert all(tractability.seconds_to_solve < tractability.seconds for tractability in (few, many, busy))


@pytest.mark.parametrize("load", [0.7, 0.95])
@pytest.mark.parametrize("sizes", [(1.0, 1.0), (1.0, 4.0)])
def test_the_boxes_are_predicted(load: float, sizes: tuple[float, float]) -> None:
    """Within a factor of three of what is found: good enough to say how long it takes."""
    rows = [cw.JobClass(f"c{i}", mu, mu, cw.Amdahl(0.3 + 0.6 * i)) for i, mu in enumerate(sizes)]
    system = cw.System(8, rows).at_load(load)
    tractability = Tractability.of(system)
    for policy, states in ((cw.Whittle(), tractability.ordered), (cw.Equi(), tractability.shared)):
        found = math.prod(n + 1 for n in cw.evaluate(system, policy).capacity)
        assert states / 3.0 < found < states * 3.0


def test_classes_that_are_alike_need_a_large_box_each() -> None:
    """They are served together, so near saturation each of them may have many jobs; one of two kinds not."""
    system = alike(2, cores=4.0, load=0.95)
    other = cw.System(4.0, [system.classes[0], replace(system.classes[1], speedup=cw.Amdahl(0.6))])
    together, in_turn = Tractability.of(system), Tractability.of(other)
    assert together.ordered == pytest.approx(together.shared)
    assert together.seconds_to_solve > 3.0 * in_turn.seconds_to_solve
    for kinds, tractability in ((system, together), (other, in_turn)):
        found = math.prod(n + 1 for n in cw.evaluate(kinds, cw.Whittle()).capacity)
        assert tractability.ordered / 2.0 < found < tractability.ordered * 2.0


def test_one_class_is_within_reach_whatever_the_cores() -> None:
    assert Tractability.of(alike(1, cores=1e6, load=0.9)).exact
    assert Tractability.of(alike(1, load=0.9999)).exact


def test_no_policy_keeps_up_with_a_load_of_one() -> None:
    with pytest.raises(cw.errors.UnstableSystem, match="the load is 1,"):
        Tractability.of(alike(2, load=1.0))


@pytest.mark.parametrize("system", [alike(3), alike(4), alike(2, load=0.9999)], ids=["3", "4", "busy"])
def test_everybody_gives_the_same_answer(system: cw.System, monkeypatch: pytest.MonkeyPatch) -> None:
    exact = Tractability.of(system).exact
    assert (ExactEvaluator(True).baselines(system) is not None) == exact
    assert Responses(system, cw.Equi(), 0)._is_computed(8) == exact
    ways: list[str] = []

    def taken(way: str) -> Callable[..., None]:
        return lambda *args, **kwargs: ways.append(way)

    monkeypatch.setattr(comparing, "_simulated", taken("simulated"))
    monkeypatch.setattr(comparing, "solve", taken("exact"))
    with suppress(AttributeError):  # there is no solution to go on with
        cw.compare(system)
    assert ways == ["exact" if exact else "simulated"]


def test_numbers_out_of_scale_are_refused_without_a_warning() -> None:
    """A weight whose product with a rate overflows: warnings are errors here."""
    jobs = [cw.JobClass(name, 1.0, 2.5, cw.Amdahl(0.5), weight=1e308) for name in "ab"]
    with pytest.raises(cw.errors.InvalidSystem, match=r"weight 1e\+308 is out of scale"):
        Tractability.of(cw.System(8, jobs))
