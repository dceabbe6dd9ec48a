"""A compiled function and its Python source, side by side: numba has miscompiled some."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from types import ModuleType
from typing import Any

import numpy as np


def same(kernel: Any, *arguments: Any) -> Any:
    """Call a kernel and its source on copies of the arguments; what they return and write must be equal.

    Arrays, those within tuples as well, and random generators take on the state that the call leaves them in.
    """
    ours, theirs = deepcopy(arguments), deepcopy(arguments)
    compiled, plain = getattr(kernel, "compiled", kernel)(*ours), kernel.py_func(*theirs)
    for one, other in zip(_parts(ours), _parts(theirs), strict=True):
        if isinstance(one, np.ndarray):
            assert one.tobytes() == other.tobytes(), kernel.__name__
        if isinstance(one, np.random.Generator):
            assert str(one.bit_generator.state) == str(other.bit_generator.state), kernel.__name__
    assert np.asarray(compiled).tobytes() == np.asarray(plain).tobytes() or compiled is plain is None
    for argument, one in zip(_parts(arguments), _parts(ours), strict=True):
        if isinstance(argument, np.ndarray) and argument.flags.writeable:
            argument[...] = one
        if isinstance(argument, np.random.Generator):
            argument.bit_generator.state = one.bit_generator.state
    return compiled


def _parts(arguments: tuple[Any, ...]) -> Iterator[Any]:
    """Yield the arguments, and for each tuple what it holds."""
    for one in arguments:
        yield from _parts(one) if isinstance(one, tuple) else (one,)


def not_compared(module: ModuleType, alias: str, source: str) -> list[str]:
    """Return the kernels of a module that a test file does not hand to `same`."""
    names = [
        name
        for name, function in vars(module).items()
        if hasattr(function, "py_func") and function.py_func.__module__ == module.__name__
    ]
    assert names
    return [name for name in names if f"{alias}.{name}," not in source]
