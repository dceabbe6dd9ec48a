"""Names and modules of the release before still work, and say once what to write instead."""

from __future__ import annotations

import importlib
import pickle
import subprocess
import sys
import warnings

import pytest

import corewise as cw
from corewise.kit import moved

ERRORS = "-W", "error::DeprecationWarning"


@pytest.fixture(autouse=True)
def nothing_said_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moved, "_warned", set())


def python(program: str, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *options, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", moved.NAMES)
def test_an_old_name_is_the_new_thing_and_says_where_it_is(name: str) -> None:
    new = moved.NAMES[name]
    with pytest.warns(DeprecationWarning, match=rf"^corewise\.{name} is deprecated: use corewise\.{new}$"):
        old = getattr(cw, name)
    module, _, attribute = f"corewise.{new}".rpartition(".")
    assert old is getattr(importlib.import_module(module), attribute)
    assert name not in dir(cw)
    assert name not in vars(cw)["__all__"]


def test_an_old_name_warns_once_where_it_is_used() -> None:
    names = ["InvalidInput", "InvalidInput", "packaged", "InvalidInput"]
    with pytest.warns(DeprecationWarning, match="is deprecated") as said:
        assert all(getattr(cw, name) for name in names)
    assert [str(warning.message).partition(" ")[0] for warning in said] == [
        "corewise.InvalidInput",
        "corewise.packaged",
    ]
    assert {warning.filename for warning in said} == {__file__}


def test_where_warnings_are_errors_every_use_is_one() -> None:
    for _ in range(2):
        with pytest.raises(DeprecationWarning, match=r"use corewise\.SamplePath"):
            _ = getattr(cw, "Path")  # noqa: B009


def test_names_that_never_were_are_not_found() -> None:
    with pytest.raises(AttributeError, match="Paths"):
        _ = getattr(cw, "Paths")  # noqa: B009


def test_new_names_do_not_warn() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name in dir(cw):
            assert getattr(cw, name) is not None
    done = python("from corewise import *; from corewise.results import *; solve, Solution", *ERRORS)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", moved.MODULES)
def test_an_old_module_is_the_new_one(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = f"corewise.{name}", f"corewise.{moved.MODULES[name]}"
    module = importlib.import_module(new)
    about = module.__name__, module.__spec__
    monkeypatch.delitem(sys.modules, old, raising=False)
    with pytest.warns(DeprecationWarning, match=rf"^{old} is deprecated: use {new}$"):
        assert importlib.import_module(old) is module
    assert (module.__name__, module.__spec__) == about


def test_an_import_statement_is_told_its_own_line() -> None:
    program = "from corewise.model.path import SamplePath\nimport corewise.model.path as again\nprint(again)"
    done = python(program, "-W", "always::DeprecationWarning")
    assert done.returncode == 0
    assert "<module 'corewise.observation.sample_path' from" in done.stdout
    assert done.stderr.startswith("<string>:1: DeprecationWarning: corewise.model.path is deprecated")
    assert done.stderr.count("DeprecationWarning") == 1
    refused = python(program, *ERRORS)
    assert refused.returncode == 1
    assert "use corewise.observation.sample_path" in refused.stderr


def test_modules_that_never_were_are_not_found() -> None:
    for name in ("corewise.model.paths", "other.model.path"):
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module(name)


def test_a_drifting_plant_of_a_pickle_is_a_simulated_one() -> None:
    plant = cw.SimulatedPlant(cw.load_system("paper:drift"), rng=1)
    named = pickle.dumps(plant, protocol=0).replace(b"SimulatedPlant", b"DriftingPlant")
    assert b"DriftingPlant" in named
    again = pickle.loads(named)
    assert type(again) is cw.SimulatedPlant
    assert again.snapshot() == plant.snapshot()


def test_the_probability_at_the_edge_has_its_old_name_too() -> None:
    system = cw.load_system("paper:1")
    solution = cw.solve(system, capacity=3)
    for result in (solution, solution.performance, solution.performance.classes["one"]):
        name = type(result).__name__
        with pytest.warns(DeprecationWarning, match=f"^{name}.beyond is deprecated: use {name}.edge_prob"):
            assert getattr(result, "beyond") == result.edge_probability  # noqa: B009
