"""Progress of long work: whom to tell about it."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["Progress"]

Progress = Callable[[float], object]
"""Called now and then with the share of the work that is done."""
