"""How the smallest compiled loops are compiled."""

from __future__ import annotations

from typing import Any

from numba import njit

__all__ = ["njit_norefs"]

# For loops that call one another with a dozen arrays, several times an event. numba would count references to
# each of them, which costs more than all arithmetic; code that allocates nothing can do without.
_OPTIONS: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy", "_nrt": False}
njit_norefs = njit(**_OPTIONS)
