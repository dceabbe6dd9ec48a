"""Display of results: one line at a prompt, a small table in a notebook.

A class says what matters about it, and both follow. Names of classes and policies are a user's own: they are
shortened, escaped, and never break a line.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import is_dataclass
from html import escape
from itertools import islice
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from corewise.kit.spoken import labelled
from corewise.kit.values import as_frame, as_plain, public_fields

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["WIDEST", "Shown", "Table", "as_html", "brief", "cut", "one_line"]

WIDEST = 120
"""Characters of a line."""

_NAME = 24  # characters of a text in it
_CELL = 60  # characters of a text in a table
_DIGITS = 8  # characters of a number that is shown as it is
_ITEMS = 3  # of a sequence or mapping
_ROWS = 20  # of a table


class Table(NamedTuple):
    """What a result shows in a notebook: a header, and rows of plain values."""

    header: Sequence[str]
    rows: Iterable[Sequence[object]]

    @classmethod
    def of(cls, results: Iterable[object], *attributes: str) -> Table:
        """Return the table with these attributes of each result, under their own names."""
        rows = ([getattr(result, name) for name in attributes] for result in results)
        return cls([name.replace("_", " ") for name in attributes], rows)


class Shown:
    """A result that shows as one line at a prompt and as a table in a notebook, and goes into other programs.

    A class lists the attributes that matter most in `_shown`, or gives them by name in `_facts`; if it has
    more to say in a notebook, `_table` does. If it has a `unit`, that is said beside times and rates there.

    `to_dict` gives the public fields of a dataclass, or the attributes listed in `_exported`, or what
    `_values` says; `to_frame` has a row for each of its `rows` or `classes`, or what `_content` says: columns
    by name, or rows.
    """

    __slots__ = ()
    _shown: ClassVar[tuple[str, ...]] = ()
    _exported: ClassVar[tuple[str, ...]] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain values by name: numbers, text, None, lists and dictionaries."""
        return {name: as_plain(value) for name, value in self._values().items()}

    def to_frame(self) -> DataFrame:
        """Return the result as a pandas data frame, which must be installed: one row for each of its parts.

        Values within values have columns such as ``parameters.p``; intervals have two, ``interval_low`` and
        ``interval_high``.
        """
        return as_frame(self._content())

    def _values(self) -> Mapping[str, object]:
        if self._exported:
            return {name: getattr(self, name) for name in self._exported}
        return public_fields(self) if is_dataclass(self) else self._facts()

    def _content(self) -> Mapping[str, Any] | Iterable[object]:
        for name in ("rows", "classes"):
            parts = getattr(self, name, None)
            if isinstance(parts, Mapping):
                return list(parts.values())
            if isinstance(parts, tuple) and parts and all(isinstance(part, Shown) for part in parts):
                return parts
        return [self]

    def _facts(self) -> Mapping[str, object]:
        return {name: getattr(self, name) for name in self._shown}

    def _table(self) -> Table | None:
        return None

    def __repr__(self) -> str:
        """Return what matters in one line."""
        return one_line(type(self).__name__, self._facts())

    def _repr_html_(self) -> str:
        facts, table = self._facts(), self._table()
        if not facts and table is None:
            return f"<pre>{escape(str(self))}</pre>"
        return as_html(type(self).__name__, facts, table, getattr(self, "unit", None))


def one_line(kind: str, facts: Mapping[str, object]) -> str:
    """Return facts as a call looks, cut where it becomes too long."""
    line = f"{kind}({', '.join(f'{name}={brief(value)}' for name, value in facts.items())})"
    return line if len(line) <= WIDEST else f"{line[: WIDEST - 2]}…)"


def as_html(title: str, facts: Mapping[str, object], table: Table | None, unit: str | None = None) -> str:
    """Return a table, with the facts above it; or the facts as a table, if there is no other."""
    spoken = {labelled(name.replace("_", " "), unit): value for name, value in facts.items()}
    about = ", ".join(f"{name} {_cell(value)}" for name, value in spoken.items())
    if table is None:
        about, table = "", Table((), spoken.items())
    rows = iter(table.rows)
    head = _row("th", [labelled(name, unit) for name in table.header]) if table.header else ""
    body = "".join(_row("td", row) for row in islice(rows, _ROWS))
    more = sum(1 for _ in rows)
    if more:
        body += f'<tr><td colspan="{max(len(table.header), 2)}">… {more} more</td></tr>'
    caption = escape(title) + (f": {escape(about)}" if about else "")
    return f"<table><caption>{caption}</caption><thead>{head}</thead><tbody>{body}</tbody></table>"


def _row(tag: str, cells: Iterable[object]) -> str:
    return f"<tr>{''.join(f'<{tag}>{escape(_cell(cell))}</{tag}>' for cell in cells)}</tr>"


def _cell(value: object) -> str:
    """Return a value as it stands in a table: text without quotes, nothing for None."""
    if value is None:
        return ""
    if isinstance(value, str):
        return cut(value if value.isprintable() else repr(value)[1:-1], _CELL)
    return brief(value)


def brief(value: object) -> str:
    """Return a value in a few characters, without a line break."""
    if isinstance(value, str):
        return repr(cut(value, _NAME))
    if isinstance(value, bool) or value is None:
        return repr(value)
    if isinstance(value, Integral):
        return str(int(value))
    if isinstance(value, Real):
        exact = repr(float(value))
        return exact if len(exact) <= _DIGITS else f"{float(value):.6g}"
    if isinstance(value, Mapping):
        return f"{{{_listed((f'{brief(k)}: {brief(v)}' for k, v in value.items()), len(value))}}}"
    if isinstance(value, tuple | list):
        return _brief_sequence(value)
    if hasattr(value, "shape"):
        return f"array{value.shape}"
    return f"{type(value).__name__}(…)" if isinstance(value, Shown) else cut(_flat(repr(value)), 2 * _NAME)


def _brief_sequence(values: Sequence[object]) -> str:
    """Return the ends of an interval, the first few of plain values, or how many there are of others."""
    if len(values) == 2 and all(isinstance(value, float) for value in values):
        return f"[{brief(values[0])}, {brief(values[1])}]"
    if values and not all(isinstance(value, str | Real) for value in values):
        return str(len(values))
    return f"({_listed(map(brief, values), len(values))}{',' if len(values) == 1 else ''})"


def _listed(items: Iterable[str], count: int) -> str:
    shown: Iterator[str] = islice(items, _ITEMS)
    return ", ".join([*shown, *([f"… {count} in all"] if count > _ITEMS else [])])


def cut(text: str, most: int) -> str:
    """Return a text of at most so many characters."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _flat(text: str) -> str:
    return " ".join(text.split())
