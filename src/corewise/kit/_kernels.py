"""How kernels are compiled: without counting references, or when it is worth it.

Kernels of two tiers are interpreted at first, and compiled when that has taken a while. To compile one takes
numba .2 to 1.5 s, once: the code is then kept on disk, from where the first takes .3 s and the others some
hundredths. A run that needs but a thousand of its steps is better off without. When to compile is the
question of when to buy skis, if it is not known how often there will be snow: to rent until the rent comes to
their price never costs more than twice what would have been best (A. R. Karlin, M. S. Manasse, L. Rudolph
and D. D. Sleator, 1988). Here the rent stops well before, since the next run would pay it again.

Both tiers do the same to the last bit; the tests hold every kernel against its source.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property, update_wrapper
from pathlib import Path
from types import FunctionType
from typing import Any, Generic, ParamSpec, TypeVar, cast

import numpy as np
from numba import njit, types
from numba.extending import typeof_impl

__all__ = ["Tiered", "njit_norefs", "tiered"]

# For loops that call one another with a dozen arrays, several times an event. numba would count references to
# each of them, which costs more than all arithmetic; code that allocates nothing can do without.
_OPTIONS: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy", "_nrt": False}
njit_norefs = njit(**_OPTIONS)

_LOADED = 0.02
"""Seconds of interpreting after which a kernel that is on disk is taken from there."""

_P = ParamSpec("_P")
_R = TypeVar("_R")


class Tiered(Generic[_P, _R]):
    """Kernel that is interpreted at first, and compiled when it turns out to be worth it.

    Compiled kernels may call it as they do any other; they call what is compiled.

    Attributes
    ----------
    compiled
        The kernel.
    py_func : function
        Its source.
    """

    def __init__(self, kernel: Callable[_P, _R], cost: Callable[..., float], most: float) -> None:
        update_wrapper(self, kernel, updated=())
        self.compiled = cast(Any, kernel)
        self.py_func: FunctionType = self.compiled.py_func
        self._cost, self._most, self._spent = cost, most, 0.0

    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        """Do what the kernel does."""
        if self._spent < self._most:
            self._spent += 1e-6 * self._cost(*args, **kwargs)
            if self._spent < (min(self._most, _LOADED) if self._is_on_disk else self._most):
                with np.errstate(all="ignore"):  # as in compiled code
                    return cast(_R, _as_compiled(self._source(*args, **kwargs)))
            self._spent = math.inf
        return cast(_R, self.compiled(*args, **kwargs))

    @cached_property
    def _source(self) -> Callable[_P, _R]:
        return _interpreted(self.py_func)

    @cached_property
    def _is_on_disk(self) -> bool:
        folder, code = self.compiled.stats.cache_path, self.py_func.__code__
        index = f"{Path(code.co_filename).stem}.{self.py_func.__qualname__}-{code.co_firstlineno}.*.nbi"
        return folder is not None and any(Path(folder).glob(index))


def tiered(
    cost: Callable[..., float], *, most: float = _LOADED
) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """Make a kernel one of two tiers.

    Parameters
    ----------
    cost : callable
        How many microseconds the source takes, about, on the arguments of a call.
    most : float, optional
        Seconds after which to interpret it is no longer worth it.
    """

    def made(kernel: Callable[_P, _R]) -> Callable[_P, _R]:
        switched_off = not hasattr(kernel, "py_func")  # NUMBA_DISABLE_JIT: it is its own source
        return kernel if switched_off else Tiered(kernel, cost, most)

    return made


def _as_compiled(returned: object) -> object:
    """Return what a compiled kernel would: numbers of Python, alone or in a tuple."""
    if isinstance(returned, tuple):
        return tuple(map(_as_compiled, returned))
    return returned.item() if isinstance(returned, np.generic) else returned


def _interpreted(source: FunctionType) -> Callable[..., Any]:
    """Return the source of a kernel, in which the kernels that it calls are sources as well."""
    known = source.__globals__
    called = {
        name: _interpreted(known[name].py_func)
        for name in source.__code__.co_names
        if hasattr(known.get(name), "py_func")
    }
    if not called:
        return source
    return FunctionType(
        source.__code__, known | called, source.__name__, source.__defaults__, source.__closure__
    )


@typeof_impl.register(Tiered)
def _type_of(kernel: Tiered[..., Any], _: object) -> types.Dispatcher:
    return types.Dispatcher(kernel.compiled)
