"""Reports: what a result says, as values, and the renderings of it.

A result says once what it has to say, in `report`: a title, facts, tables and notes. Text, the terminal and
notebooks render that, `to_dict`, `to_frame` and `json_values` follow from its fields. Names of classes and
policies are a user's own: they are escaped, folded or shortened, and never break a line of a repr.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, is_dataclass, replace
from html import escape
from itertools import islice
from numbers import Integral, Real
from operator import attrgetter
from textwrap import fill
from typing import TYPE_CHECKING, Any, ClassVar

from corewise.errors import printable
from corewise.kit.unit_labels import with_unit
from corewise.kit.values import as_frame, as_plain, public_fields

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = [
    "LINE",
    "WIDEST",
    "Report",
    "Reported",
    "Summarised",
    "Table",
    "as_html",
    "as_text",
    "cell",
    "cut",
    "html_page",
    "html_table",
    "json_values",
    "one_line",
    "summary",
]

WIDEST = 120
"""Characters of a repr."""

LINE = 80
"""Characters to which a printed report is folded where nothing else is known."""

_NAME = 24  # characters of a text in a repr
_CELL, _FACT = 60, 400  # characters of a text in a notebook's table, and of a fact
_DIGITS = 8  # characters of a number that is written out in a repr
_ITEMS = 3  # of a sequence or mapping in a repr
_ROWS = 20  # of a notebook's table
_WORD = 32  # characters of a word that is not folded in the terminal
_FOLDED = 7  # characters of a name in a narrow table
_UNLIMITED = 10_000  # columns


# --- values ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Table:
    """Table of a report; without a header it is a list of facts.

    Attributes
    ----------
    header : sequence of str
        The heads of the columns; a line break in one is kept.
    rows : sequence of sequences
        The cells: text, or values that `cell` formats.
    names : int
        How many columns, from the left, are text: aligned to the left, and folded in a narrow terminal.
    title : str
        What stands above it.
    """

    header: Sequence[str]
    rows: Sequence[Sequence[object]]
    names: int = 1
    title: str = ""

    @classmethod
    def of(cls, records: Iterable[object], *attributes: str) -> Table:
        """Return the table of these attributes of each record, under their own names."""
        rows = [[getattr(record, name) for name in attributes] for record in records]
        return cls([name.replace("_", " ") for name in attributes], rows)

    def with_unit(self, unit: str | None) -> Table:
        """Return the table with the unit at the head of times and rates."""
        return replace(self, header=[with_unit(name, unit) for name in self.header])


@dataclass(frozen=True)
class Report:
    """What a result says: a title, named facts, tables and notes.

    Examples
    --------
    >>> from corewise.kit.report import Report, Table, as_text
    >>> print(as_text(Report("Two classes", [("cores", 30)], [Table(["class", "jobs"], [["one", 1.5]])])))
    Two classes
      cores  30
    <BLANKLINE>
      class   jobs
     ──────────────
      one      1.5
    <BLANKLINE>
    """

    title: str
    facts: Sequence[tuple[str, object]] = ()
    tables: Sequence[Table] = ()
    notes: Sequence[str] = ()

    def with_facts(self, *facts: tuple[str, object]) -> Report:
        """Return the report with further facts."""
        return replace(self, facts=(*self.facts, *facts))


def cell(value: object) -> str:
    """Return a value as a cell or a fact: numbers to eight digits, a dash for NaN, nothing for None."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Integral):
        return f"{int(value):,}"
    if isinstance(value, Real):
        return "-" if math.isnan(value) else f"{float(value):.8g}"
    if isinstance(value, tuple) and len(value) == 2 and all(isinstance(end, float) for end in value):
        return f"{value[0]:.4g}–{value[1]:.4g}"
    return value if isinstance(value, str) else summary(value)


# --- results --------------------------------------------------------------------------------------


class Summarised:
    """A value with fields: one line at a prompt, a small table in a notebook, plain values elsewhere.

    A class lists the attributes that matter most in `_repr_fields`, or gives them by name in `_summary`; if
    it has parts, `_table` lists them. If it has a `unit`, that stands beside times and rates.

    `to_dict` gives the public fields of a dataclass, or the attributes listed in `_exported`, or what
    `_values` returns; `to_frame` has one row for each of its `rows` or `classes`, or what `_content` returns:
    columns by name, or rows. `_json_fields` lists the keys that ``--json`` has of it, see `json_values`.
    """

    __slots__ = ()
    _repr_fields: ClassVar[tuple[str, ...]] = ()
    _exported: ClassVar[tuple[str, ...]] = ()
    _json_fields: ClassVar[tuple[str, ...]] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain values by name: numbers, text, None, lists and dictionaries."""
        return {name: as_plain(value) for name, value in self._values().items()}

    def to_frame(self) -> DataFrame:
        """Return the result as a pandas data frame, which must be installed: one row for each of its parts.

        Values within values have columns such as ``parameters.p``; intervals have two, ``interval_low`` and
        ``interval_high``.
        """
        return as_frame(self._content())

    def report(self) -> Report:
        """Return title, facts and tables, for people; here what matters most, by name."""
        unit = getattr(self, "unit", None)
        facts = [
            (with_unit(name.replace("_", " "), unit), value if isinstance(value, str) else summary(value))
            for name, value in self._summary().items()
            if value is not None
        ]
        table = self._table()
        return Report(type(self).__name__, facts, () if table is None else (table.with_unit(unit),))

    def _table(self) -> Table | None:
        return None

    def _values(self) -> Mapping[str, object]:
        if self._exported:
            return {name: getattr(self, name) for name in self._exported}
        return public_fields(self) if is_dataclass(self) else self._summary()

    def _content(self) -> Mapping[str, Any] | Iterable[object]:
        for name in ("rows", "classes"):
            parts = getattr(self, name, None)
            if isinstance(parts, Mapping):
                return list(parts.values())
            if isinstance(parts, tuple) and parts and all(isinstance(part, Summarised) for part in parts):
                return parts
        return [self]

    def _summary(self) -> Mapping[str, object]:
        return {name: getattr(self, name) for name in self._repr_fields}

    def __repr__(self) -> str:
        """Return what matters most in one line."""
        return one_line(type(self).__name__, self._summary())

    def _repr_html_(self) -> str:
        return as_html(self.report())


class Reported(Summarised):
    """A result that prints its report, folded to `_width` characters; None folds nothing."""

    __slots__ = ()
    _width: ClassVar[int | None] = LINE

    def __str__(self) -> str:
        """Return the report as text."""
        return as_text(self.report(), self._width)


def json_values(result: object) -> Any:
    """Return what ``--json`` has of a result: the keys that its class declares in `_json_fields`.

    A key is the name of an attribute, or ``key=attribute`` where the two differ; the attribute may be a path
    such as ``curve.family``. A class that declares none has its public fields. Results by name are a list.
    """
    if isinstance(result, Mapping):
        if result and all(
            isinstance(value, Summarised) and hasattr(value, "name") for value in result.values()
        ):
            return [json_values(value) for value in result.values()]
        return {key: json_values(value) for key, value in result.items()}
    if isinstance(result, list | tuple):
        return [json_values(value) for value in result]
    declared = getattr(result, "_json_fields", ())
    if declared:
        keys = (field.rpartition("=") for field in declared)
        return {key or path: json_values(attrgetter(path)(result)) for key, _, path in keys}
    if is_dataclass(result) and not isinstance(result, type):
        return {name: json_values(value) for name, value in public_fields(result).items()}
    return as_plain(result)


# --- one line -------------------------------------------------------------------------------------


def one_line(kind: str, facts: Mapping[str, object]) -> str:
    """Return facts as a call looks, cut where it becomes too long."""
    line = f"{kind}({', '.join(f'{name}={summary(value)}' for name, value in facts.items())})"
    return line if len(line) <= WIDEST else f"{line[: WIDEST - 2]}…)"


def summary(value: object) -> str:
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
        return f"{{{_listed((f'{summary(k)}: {summary(v)}' for k, v in value.items()), len(value))}}}"
    if isinstance(value, tuple | list):
        return _sequence_summary(value)
    if hasattr(value, "shape"):
        return f"array{value.shape}"
    return (
        f"{type(value).__name__}(…)" if isinstance(value, Summarised) else cut(_flat(repr(value)), 2 * _NAME)
    )


def _sequence_summary(values: Sequence[object]) -> str:
    """Return the ends of an interval, the first few of plain values, or the number of others."""
    if len(values) == 2 and all(isinstance(value, float) for value in values):
        return f"[{summary(values[0])}, {summary(values[1])}]"
    if values and not all(isinstance(value, str | Real) for value in values):
        return str(len(values))
    return f"({_listed(map(summary, values), len(values))}{',' if len(values) == 1 else ''})"


def _listed(items: Iterable[str], count: int) -> str:
    first: Iterator[str] = islice(items, _ITEMS)
    return ", ".join([*first, *([f"… {count} in all"] if count > _ITEMS else [])])


def cut(text: str, most: int) -> str:
    """Return a text of at most so many characters."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _flat(text: str) -> str:
    return " ".join(text.split())


# --- text -----------------------------------------------------------------------------------------


def as_text(report: Report, width: int | None = None, *, color: bool = False) -> str:
    """Return a report as lines of text, folded to a width; `color` sets the heads of tables in bold.

    A line is longer where a number would have to be broken.
    """
    room = _UNLIMITED if width is None else width
    parts = [_facts_text(report.title, report.facts, room)]
    for table in report.tables:
        if table.header:
            parts.append(_folded(table.title, room))
            parts.append(_table_text(table, room, color))
        else:
            parts.append(_facts_text(table.title, [(str(row[0]), row[1]) for row in table.rows], room))
    parts += [_folded(note, room) for note in report.notes]
    return "\n".join(filter(None, parts))


def _folded(text: str, width: int) -> str:
    return "\n".join(fill(line, width, break_on_hyphens=False) for line in printable(text).split("\n"))


def _facts_text(title: str, facts: Iterable[tuple[str, object]], width: int) -> str:
    from rich.table import Table as Grid

    rows = [(f"  {printable(name)}", printable(cell(value))) for name, value in facts]
    if not rows:
        return _folded(title, width)
    grid = Grid.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for row in rows:
        grid.add_row(*row)
    words = [len(word) for _, value in rows for word in value.split()]
    least = max(len(name) for name, _ in rows) + 2 + min(max(words, default=0), _WORD)
    return _rendered(*([printable(title)] if title else []), grid, width=max(width, least))


def _table_text(table: Table, width: int, color: bool) -> str:
    from rich import box
    from rich.table import Table as Grid

    names = table.names
    cells = [list(table.header), *([printable(cell(value)) for value in row] for row in table.rows)]
    least = _least_width(cells, names)
    if least > width:
        cells = [[*row[:names], *map(_in_pieces, row[names:])] for row in cells]
        least = _least_width(cells, names)
    grid = Grid(box=box.SIMPLE_HEAD)
    for i, column in enumerate(cells[0]):
        number = i >= names
        grid.add_column(column, justify="right" if number else "left", overflow="fold", no_wrap=number)
    for row in cells[1:]:
        grid.add_row(*row)
    return _rendered(grid, width=max(width, least), color=color)


def _least_width(cells: Sequence[Sequence[str]], names: int) -> int:
    """Return how wide a table must be for numbers to stay in one piece; long names are folded."""
    widths = [
        max(len(line) for entry in column for line in entry.split("\n"))
        for column in zip(*cells, strict=True)
    ]
    return sum(widths[names:]) + sum(min(width, _FOLDED) for width in widths[:names]) + 3 * len(widths) + 1


def _in_pieces(text: str) -> str:
    """Return a cell with its words, and the ends of an interval, one below the other."""
    return text.replace(" ", "\n").replace("–", "–\n")


def _rendered(*renderables: object, width: int, color: bool = False) -> str:
    from rich.console import Console

    # Names of classes are no markup, and digits are not coloured one by one.
    console = Console(markup=False, highlight=False, emoji=False, width=width, force_terminal=color)
    with console.capture() as captured:
        console.print(*renderables, sep="\n")
    return "\n".join(line.rstrip() for line in captured.get().splitlines())


# --- HTML -----------------------------------------------------------------------------------------


def as_html(report: Report) -> str:
    """Return a report as HTML for a notebook: facts and tables below each other, long ones cut short."""
    facts = Table((), [(name, cut(cell(value), _FACT)) for name, value in report.facts], title=report.title)
    parts = [facts, *report.tables] if report.facts or not report.tables else list(report.tables)
    if parts[0] is not facts:
        parts[0] = replace(parts[0], title=f"{report.title} {parts[0].title}")
    notes = "".join(f"<p>{escape(printable(note))}</p>" for note in report.notes)
    return "".join(map(html_table, parts)) + notes


def html_table(
    table: Table, *, rows: int | None = _ROWS, longest: int | None = _CELL, labels: bool = False
) -> str:
    """Return a table as HTML: at most so many rows, and cells of at most so many characters.

    With `labels` each cell has the head of its column, for a style sheet that stacks cells on narrow screens.
    """
    heads = [_html_text(name, None) for name in table.header]
    marks = [f' data-label="{head}"' if labels else "" for head in heads] or ["", ""]
    head = "".join(f'<th scope="col">{name}</th>' if labels else f"<th>{name}</th>" for name in heads)
    limit = longest if table.header else None
    body = "".join(
        "<tr>"
        + "".join(
            f"<td{mark}>{_html_text(value, limit) or ('&nbsp;' if labels else '')}</td>"
            for mark, value in zip(marks, row, strict=True)
        )
        + "</tr>"
        for row in table.rows[:rows]
    )
    more = 0 if rows is None else len(table.rows) - rows
    if more > 0:
        body += f'<tr><td colspan="{len(marks)}">… {more} more</td></tr>'
    title = f"<caption>{_html_text(table.title.strip(), None)}</caption>" if table.title else ""
    line = f"<tr>{head}</tr>" if head else ""
    return f"<table>{title}<thead>{line}</thead><tbody>{body}</tbody></table>"


def html_page(title: str, style: str, body: str) -> str:
    """Return a page that is one file: its style within it, without scripts."""
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{_html_text(title, None)}</title><style>{style}</style></head>\n"
        f"<body><main>\n{body}\n</main></body></html>\n"
    )


def _html_text(value: object, longest: int | None) -> str:
    text = re.sub(r"\s*\n\s*", " ", cell(value))
    return escape(printable(text if longest is None else cut(text, longest)))
