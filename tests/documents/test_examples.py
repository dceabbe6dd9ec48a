"""Every public name shows a run in its docstring, and the run prints what the docstring shows."""

from __future__ import annotations

import doctest
import inspect
from typing import Any

import pytest

import corewise as cw

SPACES = ("live", "memories", "results", "schedules", "sizes", "solvers", "testing")
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def public() -> dict[str, Any]:
    """Return every public class and function by its name; modules and the version are neither."""
    spaces = {"": cw} | {f"{space}.": getattr(cw, space) for space in SPACES}
    found = {
        f"{space}{name}": getattr(module, name) for space, module in spaces.items() for name in module.__all__
    }
    return {name: value for name, value in found.items() if inspect.isclass(value) or callable(value)}


PUBLIC = public()


def examples_of(value: Any) -> doctest.DocTest:
    """Return the runs that the docstring of a class or function itself shows."""
    return doctest.DocTestParser().get_doctest(inspect.getdoc(value) or "", {}, value.__name__, None, 0)


def failures(test: doctest.DocTest) -> list[str]:
    """Run a docstring's examples; return what differs from what it shows."""
    differences: list[str] = []
    doctest.DocTestRunner(optionflags=FLAGS).run(test, out=differences.append)
    return differences


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_name_shows_a_run(name: str) -> None:
    doc = inspect.getdoc(PUBLIC[name]) or ""
    assert "Examples\n--------\n" in doc
    test = examples_of(PUBLIC[name])
    assert any(example.want for example in test.examples)
    assert failures(test) == []


def test_a_run_that_prints_something_else_fails() -> None:
    def wrong() -> None:
        """Add.

        >>> 1 + 1
        3
        """

    assert "Expected:\n    3\nGot:\n    2\n" in "".join(failures(examples_of(wrong)))
