"""A mapping that cannot be changed, and can be sent to another process."""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, KeysView, Mapping, ValuesView
from typing import Any, TypeVar

from corewise.kit.report import WIDEST, Summarised, Table, cut, summary
from corewise.kit.values import as_plain, same

__all__ = ["FrozenMapping"]

K = TypeVar("K")
V = TypeVar("V")


class FrozenMapping(Summarised, Mapping[K, V]):
    """Values by name, in order; what results hold, where `types.MappingProxyType` could not be pickled."""

    __slots__ = ("_items",)

    def __init__(self, values: Mapping[K, V]) -> None:
        self._items = dict(values)

    def __getitem__(self, name: K) -> V:
        """Return the value of that name."""
        return self._items[name]

    def __iter__(self) -> Iterator[K]:
        """Go through the names."""
        return iter(self._items)

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._items)

    # Views of a dictionary can be read only, and go through it without a call of Python for every value.

    def keys(self) -> KeysView[K]:
        """Return the names."""
        return self._items.keys()

    def values(self) -> ValuesView[V]:
        """Return the values."""
        return self._items.values()

    def items(self) -> ItemsView[K, V]:
        """Return names and values."""
        return self._items.items()

    def __eq__(self, other: object) -> bool:
        """Return whether the other has the same values under the same names, arrays and NaN included."""
        return same(self._items, dict(other)) if isinstance(other, Mapping) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def to_dict(self) -> dict[Any, Any]:
        """Return the values by name, as plain ones."""
        return dict(as_plain(self._items))

    def _content(self) -> list[dict[str, object]]:
        plain = ((name, as_plain(value)) for name, value in self.items())
        return [{"name": name, **(row if isinstance(row, dict) else {"value": row})} for name, row in plain]

    def __repr__(self) -> str:
        """Return the mapping as a dictionary looks, shortened where that is too long for a line."""
        whole = repr(self._items)
        return whole if len(whole) <= WIDEST and whole.isprintable() else cut(summary(self._items), WIDEST)

    def _table(self) -> Table:
        """Return a table of the values by name."""
        values = list(self.values())
        if not all(isinstance(value, Summarised) for value in values):
            return Table(("name", "value"), [(str(name), value) for name, value in self.items()])
        facts = {name: value._summary() for name, value in self.items() if isinstance(value, Summarised)}
        header = list(dict.fromkeys(key for row in facts.values() for key in row if key != "name"))
        rows = [[str(name), *(row.get(key) for key in header)] for name, row in facts.items()]
        return Table(["name", *header], rows)
