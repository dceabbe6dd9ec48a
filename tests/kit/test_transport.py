"""Calls as bytes: what a worker process says of one that it cannot read."""

from __future__ import annotations

import sys
from functools import partial
from types import ModuleType

import pytest

from corewise.errors import InvalidInput
from corewise.kit.transport import carry_out, pack_call, unpack_answer


def found(packed: bytes) -> object:
    return unpack_answer(carry_out(packed))


def test_a_call_is_carried_out() -> None:
    assert found(pack_call(partial(pow, 2, 5))) == 32


def test_a_function_of_a_notebook_is_refused_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "__main__", ModuleType("__main__"))
    said = (
        r"Can't get attribute 'work' on .*: put 'work' in a module and import it, or have threads carry out"
    )
    with pytest.raises(InvalidInput, match=said) as raised:
        found(b"c__main__\nwork\n.")
    assert "In the worker:" in raised.value.__notes__[0]


def test_a_function_of_a_script_that_is_defined_only_when_it_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "__mp_main__", ModuleType("__mp_main__"))
    with pytest.raises(
        InvalidInput, match="define 'work' where it is defined also when the script is imported"
    ):
        found(b"c__mp_main__\nwork\n.")


def test_what_cannot_be_imported_is_said_and_what_a_call_raises_is_raised() -> None:
    with pytest.raises(
        InvalidInput, match=r"cannot be read by the process .* No module named 'no_such_module'"
    ):
        found(b"cno_such_module\nwork\n.")
    with pytest.raises(AttributeError, match="no attribute 'work'"):
        found(pack_call(partial(getattr, 1, "work")))
