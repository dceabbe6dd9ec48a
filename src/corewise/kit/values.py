"""Results as values: when two of them are equal, and what they are as plain values and as rows.

Results hold arrays, which neither compare to one truth value nor go into JSON. Both are settled here, once:

- `same` compares by value: fields of dataclasses, items of mappings and sequences, arguments of partial
  functions, arrays element by element; NaN equals NaN, since a copy of a result is equal to it;
- `as_plain` gives numbers, text, lists and dictionaries;
- `as_rows` flattens such dictionaries to rows of a table: ``{"parameters": {"p": 0.5}}`` has a column
  ``parameters.p``, and an interval has two, ``interval_low`` and ``interval_high``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import partial
from numbers import Integral, Real
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from corewise.errors import CorewiseError

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["ByValue", "as_frame", "as_plain", "as_rows", "public_fields", "same"]


class ByValue:
    """A value that equals another one of its class with the same public fields, arrays included."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        """Return whether the other has the same class and values."""
        if self is other:
            return True
        return _same_fields(self, other) if type(self) is type(other) else NotImplemented

    def __hash__(self) -> int:
        """Return a hash of the text in it: numbers may be equal and of other types."""
        values = (getattr(self, name) for name in _compared(self))
        return hash((type(self), *(value for value in values if isinstance(value, str))))


def same(one: object, other: object) -> bool:  # noqa: PLR0911  # one line for every kind of value
    """Return whether two values are equal, arrays and NaN included."""
    if one is other:
        return True
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
    if isinstance(one, Real) and isinstance(other, Real):
        return one == other or (one != one and other != other)  # noqa: PLR0124  # NaN
    if type(one) is not type(other):
        return False
    if _is_array(one):
        return _same_arrays(one, other)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, partial) and isinstance(other, partial):
        return one.func == other.func and same(one.args, other.args) and same(one.keywords, other.keywords)
    if is_dataclass(one) and not isinstance(one, type):
        return _same_fields(one, other)
    return bool(one == other)


def _is_array(value: object) -> bool:
    return hasattr(value, "dtype") and hasattr(value, "tolist")


def _same_arrays(one: Any, other: Any) -> bool:
    import numpy as np

    return one.dtype == other.dtype and np.array_equal(one, other, equal_nan=one.dtype.kind in "fc")


def _same_fields(one: object, other: object) -> bool:
    return all(same(getattr(one, name), getattr(other, name)) for name in _compared(one))


def _compared(value: object) -> Iterator[str]:
    """Yield the names of what counts in a comparison."""
    if not is_dataclass(value):
        return (name for name in vars(value) if not name.startswith("_"))
    return (known.name for known in fields(value) if known.compare and not known.name.startswith("_"))


def public_fields(value: object) -> dict[str, object]:
    """Return the fields of a dataclass by name, but for private ones."""
    names = (known.name for known in fields(value) if not known.name.startswith("_"))  # type: ignore[arg-type]
    return {name: getattr(value, name) for name in names}


def as_plain(value: object) -> Any:  # noqa: PLR0911  # one line for every kind of value
    """Return a value as numbers, text, None, lists and dictionaries.

    What is none of these has its own `to_dict`, or is a dataclass; of anything else there is its name, or how
    it shows.
    """
    if value is None or isinstance(value, bool | str):
        return value
    if _is_array(value):
        return value.tolist()  # type: ignore[attr-defined]
    if isinstance(value, Enum):
        return value.name.lower()
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        return float(value)
    if hasattr(value, "to_dict") and not isinstance(value, type):
        return value.to_dict()
    if isinstance(value, Mapping):
        return {
            key if isinstance(key, str | Real) else str(key): as_plain(item) for key, item in value.items()
        }
    if isinstance(value, Sequence | Set):
        return [as_plain(item) for item in value]
    if is_dataclass(value) and not isinstance(value, type):
        return {name: as_plain(item) for name, item in public_fields(value).items()}
    name = getattr(value, "name", None)
    return name if isinstance(name, str) else str(value) if isinstance(value, PurePath) else repr(value)


def as_rows(results: Iterable[object]) -> list[dict[str, object]]:
    """Return results as flat rows, one for each."""
    return [dict(_flat(as_plain(result), ())) for result in results]


def _flat(value: object, path: tuple[str, ...]) -> Iterator[tuple[str, object]]:
    name = ".".join(path)
    if isinstance(value, dict) and (value or not path):
        for key, item in value.items():
            yield from _flat(item, (*path, f"{key:g}" if isinstance(key, float) else str(key)))
    elif isinstance(value, list) and len(value) == 2 and _is_interval(path):
        yield f"{name}_low", value[0]
        yield f"{name}_high", value[1]
    else:
        yield name or "value", value


def _is_interval(path: tuple[str, ...]) -> bool:
    return any("interval" in part or part == "bounds" for part in path)


def as_frame(content: Mapping[str, Any] | Iterable[object]) -> DataFrame:
    """Return a pandas data frame of columns by name, or of results, one row for each.

    Raises
    ------
    CorewiseError
        If pandas is not installed: nothing else here needs it.
    """
    try:
        from pandas import DataFrame
    except ImportError:
        raise CorewiseError(
            "to_frame needs pandas, which is not installed: pip install pandas, or use to_dict"
        ) from None
    return DataFrame(dict(content) if isinstance(content, Mapping) else as_rows(content))
