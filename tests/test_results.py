"""Results travel: every public result is equal to its copies, and goes into a dictionary and a data frame."""

from __future__ import annotations

import copy
import inspect
import json
import math
import pickle
import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import corewise as cw
from corewise.kit.frozen import FrozenMapping
from corewise.kit.jsonable import to_json
from corewise.kit.report import Reported, Summarised
from corewise.kit.values import ByValue
from corewise.policies.base import bind
from tests.helpers.results import few_of, system_of

UNDER_WAY = (cw.results.Learning, cw.results.Sweep, cw.SimulatedPlant, cw.ReplayPlant, cw.ChangeDetector)
"""What goes on after it is made: no value, so that a copy is another one."""


class Frame:
    """What stands for a pandas data frame: columns of one length."""

    def __init__(self, content: Mapping[str, Any] | list[Mapping[str, Any]]) -> None:
        if isinstance(content, Mapping):
            self.columns = {name: list(values) for name, values in content.items()}
        else:
            names = dict.fromkeys(name for row in content for name in row)
            self.columns = {name: [row.get(name) for row in content] for name in names}
        assert len({len(values) for values in self.columns.values()}) <= 1

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), []))

    def __getitem__(self, name: str) -> list[Any]:
        return self.columns[name]


@pytest.fixture(autouse=True)
def pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("pandas")
    module.DataFrame = Frame  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pandas", module)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    fit = cw.fit_curve([1, 2, 4, 8], [1.0, 1.8, 3.1, 4.2])
    mean = cw.simulated_mean(system_of(("a", "b")), cw.Equi(), events=50_000, rng=1)
    found: dict[str, list[Any]] = {}
    for result in (
        *few_of(system_of(("one", "two")), tmp_path_factory.mktemp("log")),
        fit,
        fit.candidates[0],
        mean,
    ):
        found.setdefault(type(result).__name__, []).append(result)
    return found


NAMES = sorted(
    {name for name in cw.results.__all__ if name != "EventKind"}
    | {"Statistics", "SamplePath", "Tabular", "BoundPolicy", "FrozenMapping", "System", "JobClass"}
    | {
        "ComparisonRow",
        "Point",
        "ImprovementRound",
        "ClassShare",
        "Allocation",
        "LevelPlan",
        "ServiceLevels",
        "Attained",
    }
    | {
        "Level",
        "SweepPlan",
        "Seconds",
        "SimulatedPlant",
        "ReplayPlant",
        "ChangeDetector",
        "Algorithm",
        "Change",
    }
)


def test_all_of_them_are_here(results: dict[str, list[Any]]) -> None:
    assert sorted(results) == NAMES


def test_every_result_of_the_library_can_travel() -> None:
    """A class that shows is a value, or holds something that goes on: a new one has to be one of these."""
    kinds = [kind for kind in _below(Summarised) if kind.__module__.startswith("corewise.")]
    mine = [kind for kind in kinds if not kind.__module__.startswith(("corewise.live.", "corewise.model."))]
    rest = {
        kind.__name__
        for kind in mine
        if kind is not Reported
        and not issubclass(kind, (ByValue, FrozenMapping, *UNDER_WAY))
        and "advice" not in kind.__module__
        and "importers" not in kind.__module__
    }
    assert rest == {"Algorithm"}


def _below(kind: type[Any]) -> set[type[Any]]:
    found: set[type[Any]] = set()
    for below in kind.__subclasses__():
        found |= {below} | _below(below)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_a_result_equals_its_copies(results: dict[str, list[Any]], name: str) -> None:
    for result in results[name]:
        if isinstance(result, (*UNDER_WAY, cw.Algorithm)):
            continue
        for one in (copy.deepcopy(result), pickle.loads(pickle.dumps(result))):
            assert one is not result
            assert one == result
            assert result == one
            assert not one != result  # noqa: SIM202  # both operators
            if type(result).__hash__ is not None and not isinstance(result, cw.System | cw.JobClass):
                assert hash(one) == hash(result)
        assert result != object()


@pytest.mark.parametrize("name", NAMES)
def test_a_result_is_a_dictionary_of_plain_values(results: dict[str, list[Any]], name: str) -> None:
    for result in results[name]:
        plain = result.to_dict()
        assert isinstance(plain, dict)
        assert plain
        _check_plain(plain)
        assert json.loads(to_json(plain))
        assert inspect.getdoc(type(result).to_dict)


def _check_plain(value: object) -> None:
    if isinstance(value, dict):
        for key, item in value.items():
            assert type(key) in {str, int, float}
            _check_plain(item)
    elif isinstance(value, list):
        for item in value:
            _check_plain(item)
    else:
        assert value is None or type(value) in {bool, int, float, str}, repr(value)
        assert not (isinstance(value, str) and "object at 0x" in value)


@pytest.mark.parametrize("name", NAMES)
def test_a_result_is_a_frame(results: dict[str, list[Any]], name: str) -> None:
    for result in results[name]:
        frame = result.to_frame()
        assert len(frame) >= (0 if name == "FrozenMapping" else 1)
        assert all(isinstance(column, str) and column for column in frame.columns)


@pytest.mark.parametrize("name", NAMES)
def test_without_pandas_a_frame_says_what_is_missing(
    results: dict[str, list[Any]], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(cw.CorewiseError, match="to_frame needs pandas, which is not installed"):
        results[name][0].to_frame()


@pytest.mark.parametrize(
    "policy", ["equi", "greedy", "whittle", "fixed:0.4,0.6", "priority:two,one", "optimal"]
)
def test_a_bound_policy_does_the_same_elsewhere(policy: str) -> None:
    bound = bind(policy, system_of(("one", "two")))
    again = pickle.loads(pickle.dumps(bound))
    assert again == bound
    assert again.allocate([3, 40]).tolist() == bound.allocate([3, 40]).tolist()


# --- what is in them ------------------------------------------------------------------------------


def test_what_frames_hold(results: dict[str, list[Any]]) -> None:
    estimates, comparison = results["Estimates"][0], results["Comparison"][0]
    frame = estimates.to_frame()
    assert frame["name"] == ["one", "two"]
    assert frame["parameters.p"] == [row.value for row in estimates.values()]
    assert frame["intervals.p_low"] == [row.interval[0] for row in estimates.values()]
    assert comparison.to_frame()["mean_jobs"] == [row.mean_jobs for row in comparison.rows]
    assert results["Performance"][0].to_frame()["name"] == ["one", "two"]
    assert results["Run"][0].response_times.to_frame()["mean"] == [
        row.mean for row in results["Run"][0].response_times.values()
    ]
    assert results["Learning"][0].to_frame()["k"] == [1, 2]
    assert len(results["Sweep"][0].to_frame()) == 2
    assert results["CapacityPlan"][0].to_frame()["cores"] == [
        row.cores for row in results["CapacityPlan"][0].curve
    ]
    assert set(results["Bounds"][0].to_frame()["name"]) == set(results["Bounds"][0])


def test_a_solution_has_a_row_for_each_state(results: dict[str, list[Any]]) -> None:
    solution = results["Solution"][0]
    frame = solution.to_frame()
    assert len(frame) == 13 * 13
    row = list(zip(frame["jobs.one"], frame["jobs.two"], strict=True)).index((2, 3))
    held = solution.policy.allocate({"one": 2, "two": 3})
    assert frame["cores.one"][row] == held["one"]
    assert math.fsum(frame["probability"]) == pytest.approx(1.0)
    assert solution.to_dict()["mean_jobs"] == solution.mean_jobs


def test_a_path_has_a_row_for_each_event(results: dict[str, list[Any]]) -> None:
    path = results["SamplePath"][0]
    frame = path.to_frame()
    assert len(frame) == path.time.size
    assert frame["event"].count("arrival") == path.arrivals
    assert set(frame["class"]) <= {"one", "two", None}
    assert frame["cores.one"] == path.cores[:, 0].tolist()
    assert "cores" in path.split().to_frame().columns


def test_values_that_differ_are_not_equal(results: dict[str, list[Any]]) -> None:
    """The control: another number anywhere, or another class, is another value."""
    system = system_of(("one", "two"))
    again = cw.simulate(system, cw.Equi(), departures=300, rng=1, record=True)
    other = cw.simulate(system, cw.Equi(), departures=300, rng=2, record=True)
    run = results["Run"][0]
    assert again == run
    assert other != run
    assert other.path != run.path
    assert cw.solve(system, capacity=12) == results["Solution"][0]
    assert cw.solve(system, capacity=11) != results["Solution"][0]
    assert cw.solve(system, capacity=11).policy != results["Solution"][0].policy
    assert FrozenMapping({"a": np.array([1.0, math.nan])}) == {"a": np.array([1.0, math.nan])}
    assert FrozenMapping({"a": np.array([1.0, 2.0])}) != {"a": np.array([1.0, 3.0])}
    assert FrozenMapping({"a": 1.0}) != {"b": 1.0}
