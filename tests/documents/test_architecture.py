"""The page on the architecture: its diagram is that of the linter, and its walks name what is there."""

from __future__ import annotations

import importlib
import pkgutil
import re
import tomllib
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import corewise as cw

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
DIAGRAM = PAGE[PAGE.index("┌") : PAGE.index("┘")]
WALKS = PAGE[PAGE.index("## Seven walks") : PAGE.index("## The truth cannot leak")]
STATIONS = list(dict.fromkeys(re.findall(r"`([\w.]+)`", WALKS)))


def layers() -> list[set[str]]:
    """Return the layers of the linter, high to low, without the namespaces of public names."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        contracts = tomllib.load(file)["tool"]["importlinter"]["contracts"]
    (found,) = [contract["layers"] for contract in contracts if contract["type"] == "layers"]
    return [set(layer.split(" | ")) for layer in found[1:]]


def packages() -> set[str]:
    return {module.name for module in pkgutil.iter_modules(cw.__path__) if module.ispkg}


def found(name: str) -> Any:
    """Return what a dotted name below corewise stands for."""
    parts = name.split(".")
    value: Any = cw
    for i, part in enumerate(parts, start=1):
        try:
            value = importlib.import_module(f"corewise.{'.'.join(parts[:i])}")
        except ModuleNotFoundError:
            value = getattr(value, part)
    return value


def test_the_diagram_has_the_layers_of_the_linter_in_their_order() -> None:
    places = [
        {
            name: found.start()
            for name in layer
            if (found := re.search(rf"(│|,) {name}\b", DIAGRAM)) is not None
        }
        for layer in layers()
    ]
    assert [set(place) for place in places] == layers()
    for above, below in pairwise(places):
        assert max(above.values()) < min(below.values())


@pytest.mark.parametrize("document", ["docs/architecture.md", "CONTRIBUTING.md", "src/corewise/__init__.py"])
def test_every_package_is_on_the_map(document: str) -> None:
    text = (ROOT / document).read_text(encoding="utf-8")
    assert {name for name in packages() if not re.search(rf"\b{name}\b", text)} == set()


def test_packages_of_live_are_on_the_map() -> None:
    inner = {module.name for module in pkgutil.iter_modules(cw.live.__path__) if module.ispkg} - {"demo"}
    assert {name for name in inner if f"`live.{name}`" not in PAGE} == set()


def test_there_are_seven_walks_each_through_several_packages() -> None:
    walks = re.findall(r"^- \*([\w ]+)\*: (.*(?:\n  .*)*)", WALKS, flags=re.MULTILINE)
    assert [name for name, _ in walks] == [
        *("Solve", "Estimate", "Learn", "Advise", "A live job", "A posted event", "An import")
    ]
    for _, walk in walks:
        assert len({name.split(".")[0] for name in re.findall(r"`([\w.]+)`", walk)}) >= 2


@pytest.mark.parametrize("name", STATIONS)
def test_a_station_of_a_walk_exists(name: str) -> None:
    assert found(name) is not None


@pytest.mark.parametrize("name", ["nothing", "control.nothing", "control.solution.nothing"])
def test_a_station_that_does_not_exist_is_noticed(name: str) -> None:
    with pytest.raises(AttributeError):
        found(name)
