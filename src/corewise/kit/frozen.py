"""A mapping that cannot be changed, and can be sent to another process."""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, KeysView, Mapping, ValuesView
from typing import TypeVar

from corewise.kit.display import WIDEST, Shown, Table, brief, cut

__all__ = ["FrozenMapping"]

K = TypeVar("K")
V = TypeVar("V")


class FrozenMapping(Shown, Mapping[K, V]):
    """Values by name, in order; what results hold, where `types.MappingProxyType` could not be pickled."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[K, V]) -> None:
        self._values = dict(values)

    def __getitem__(self, name: K) -> V:
        """Return the value of that name."""
        return self._values[name]

    def __iter__(self) -> Iterator[K]:
        """Go through the names."""
        return iter(self._values)

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._values)

    # Views of a dictionary can be read only, and go through it without a call of Python for every value.

    def keys(self) -> KeysView[K]:
        """Return the names."""
        return self._values.keys()

    def values(self) -> ValuesView[V]:
        """Return the values."""
        return self._values.values()

    def items(self) -> ItemsView[K, V]:
        """Return names and values."""
        return self._values.items()

    def __repr__(self) -> str:
        """Return the mapping as a dictionary looks, shortened where that is too long for a line."""
        whole = repr(self._values)
        return whole if len(whole) <= WIDEST and whole.isprintable() else cut(brief(self._values), WIDEST)

    def _table(self) -> Table:
        values = list(self.values())
        if not all(isinstance(value, Shown) for value in values):
            return Table(("name", "value"), self.items())
        facts = {name: value._facts() for name, value in self.items() if isinstance(value, Shown)}
        header = list(dict.fromkeys(key for row in facts.values() for key in row if key != "name"))
        rows = ([name, *(row.get(key) for key in header)] for name, row in facts.items())
        return Table(["name", *header], rows)
