"""What an algorithm remembers of the windows it has seen.

A memory is a value: remembering one more window gives another memory. This is all in which the paper's
algorithms differ, besides the length of their windows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, Self, runtime_checkable

from corewise.errors import InvalidInput
from corewise.model.statistics import Statistics

__all__ = ["Everything", "Latest", "Memory"]


@runtime_checkable
class Memory(Protocol):
    """What is remembered, as statistics to estimate from."""

    def recall(self) -> Statistics:
        """Return everything that is remembered."""
        ...

    @property
    def parts(self) -> tuple[Statistics, ...]:
        """What has to be kept to go on later."""
        ...

    def remember(self, window: Statistics) -> Self:
        """Return the memory after one more window."""
        ...

    def of_parts(self, parts: tuple[Statistics, ...]) -> Self:
        """Return the memory of this kind that has kept those parts."""
        ...


@dataclass(frozen=True, eq=False)
class _Whole:
    """A memory that is one table."""

    kept: Statistics | None = None

    def __post_init__(self) -> None:
        if self.kept is not None:
            _require_statistics(self.kept)

    def recall(self) -> Statistics:
        """Return everything that is remembered."""
        if self.kept is None:
            raise InvalidInput("nothing has been remembered yet")
        return self.kept

    @property
    def parts(self) -> tuple[Statistics, ...]:
        """What has to be kept to go on later."""
        return () if self.kept is None else (self.kept,)

    def of_parts(self, parts: tuple[Statistics, ...]) -> Self:
        """Return the memory of this kind that has kept those parts."""
        return type(self)(*parts)


class Latest(_Whole):
    """Remember the latest window only: Algorithm 1a."""

    def remember(self, window: Statistics) -> Self:
        """Return the memory of that window alone."""
        return type(self)(window)


class Everything(_Whole):
    """Remember every window: Algorithm 1b."""

    def remember(self, window: Statistics) -> Self:
        """Return the memory with that window added."""
        _require_statistics(window)
        return type(self)(window if self.kept is None else self.kept + window)


def _require_statistics(window: object) -> None:
    if not isinstance(window, Statistics):
        raise InvalidInput(f"a memory is of Statistics, such as those of a run, got {window!r}")
