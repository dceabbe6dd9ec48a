"""What stands at the top of the package, and what in its namespaces."""

from __future__ import annotations

import importlib
import inspect
import pkgutil

import pytest

import corewise as cw

SPACES = ("errors", "live", "memories", "plots", "results", "schedules", "sizes", "solvers", "testing")


def test_the_top_is_small_and_each_name_is_there() -> None:
    assert len(dir(cw)) <= 68
    assert dir(cw) == sorted(vars(cw)["__all__"])
    for name in dir(cw):
        assert getattr(cw, name) is not None


@pytest.mark.parametrize("space", SPACES)
def test_a_namespace_is_a_module_that_can_be_imported(space: str) -> None:
    module = importlib.import_module(f"corewise.{space}")
    assert getattr(cw, space) is module
    assert module.__doc__
    assert space in dir(cw)


@pytest.mark.parametrize("space", ["memories", "results", "schedules", "sizes", "solvers"])
def test_a_namespace_lists_what_it_has_in_order(space: str) -> None:
    module = getattr(cw, space)
    assert module.__all__ == sorted(module.__all__)
    public = {name for name in vars(module) if not name.startswith("_")}
    assert public == set(module.__all__)


def test_no_name_is_both_at_the_top_and_in_a_namespace() -> None:
    below = {
        name
        for space in ("memories", "results", "schedules", "sizes", "solvers")
        for name in getattr(cw, space).__all__
    }
    assert not below & set(dir(cw))


def test_every_error_is_in_its_namespace() -> None:
    kinds = {name for name, value in vars(cw.errors).items() if inspect.isclass(value)}
    assert {kind.__name__ for kind in every_kind(cw.CorewiseError)} <= kinds


def every_kind(kind: type[Exception]) -> set[type[Exception]]:
    return {kind}.union(
        *(every_kind(below) for below in kind.__subclasses__() if below.__module__ == "corewise.errors")
    )


def test_every_package_is_described() -> None:
    for package in pkgutil.iter_modules(cw.__path__):
        if package.name != "__main__":
            assert importlib.import_module(f"corewise.{package.name}").__doc__
