"""A mapping that cannot be changed, and can be sent to another process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeVar

__all__ = ["FrozenMapping"]

V = TypeVar("V")


class FrozenMapping(Mapping[str, V]):
    """Values by name, in order; what results hold, where `types.MappingProxyType` could not be pickled."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, V]) -> None:
        self._values = dict(values)

    def __getitem__(self, name: str) -> V:
        """Return the value of that name."""
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        """Go through the names."""
        return iter(self._values)

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._values)

    def __repr__(self) -> str:
        """Return the mapping as a dictionary looks."""
        return repr(self._values)
