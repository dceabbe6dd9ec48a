"""The API reference lists every public name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import corewise as cw

REFERENCE = (Path(__file__).parents[2] / "docs" / "api.md").read_text(encoding="utf-8")
SPACES = ("errors", "live", "memories", "plots", "results", "schedules", "sizes", "solvers", "testing")


def missing(text: str, names: list[str]) -> list[str]:
    """Return the names that have no line of their own in a text."""
    listed = {line.strip().rpartition(".")[2] for line in text.splitlines()}
    return [name for name in names if name not in listed]


@pytest.mark.parametrize("space", ["", *SPACES])
def test_every_public_name_is_in_the_reference(space: str) -> None:
    names = (getattr(cw, space) if space else cw).__all__
    assert names
    assert missing(REFERENCE, [name for name in names if name not in {*SPACES, "__version__"}]) == []


def test_a_name_that_is_not_there_is_missed() -> None:
    assert missing(re.sub(r"^.*\bsolve\s*$", "", REFERENCE, flags=re.MULTILINE), ["solve"]) == ["solve"]


def test_every_example_has_its_place_in_the_gallery() -> None:
    """The order is a list in the site's own extension; an example that it lacks ends the build."""
    root = Path(__file__).parents[2]
    order = re.search(r"_ORDER = \(([^)]*)\)", (root / "docs/_ext/code_links.py").read_text(encoding="utf-8"))
    assert order is not None
    examples = {file.stem.removeprefix("plot_") for file in (root / "examples/gallery").glob("plot_*.py")}
    assert set(re.findall(r'"(\w+)"', order[1])) == examples
