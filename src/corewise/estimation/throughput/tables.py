"""Tables of measured throughputs: of one type of job, or of several at once.

Several types come in one of three forms, each with as many measurements at the same cores as there are:

    class,cores,throughput          cores,render,etl          class,1,2,4
    render,1,10.2                   1,10.2,31                 render,10.2,19.5,36.0
    render,2,19.5                   2,19.5,52                 etl,31,52,70
    etl,1,31
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass

from corewise.errors import InvalidFile, InvalidInput, nearest
from corewise.estimation.throughput.least_squares import check_measurement
from corewise.estimation.throughput.measured import CurveFit, fit_curve
from corewise.kit import checks
from corewise.kit.encodings import as_utf8
from corewise.kit.files import read_bytes
from corewise.kit.numbers import is_number

__all__ = [
    "CORES",
    "THROUGHPUT",
    "TIME",
    "MeasuredTable",
    "curves_in_table",
    "number_or_text",
    "read_table",
    "types_in_table",
]

# Names of columns that need no option, in lower case and with underscores.
CORES = re.compile(r"(num_)?(cores|processors|cpus|gpus|workers|threads|replicas)|nodes|n|load|scale_factor")
THROUGHPUT = re.compile(r"throughput|x|rate|speed_?up|tps|qps|\w+_per_second")
TIME = re.compile(r"(\w+_)?(times?|seconds|runtime|elapsed|duration|latency|makespan)")
_CLASS = re.compile(r"class|job_class|job_type|type|kind|job|application|app|model|workload|benchmark")

Pairs = list[tuple[float, float]]


@dataclass(frozen=True)
class MeasuredTable:
    """A CSV file: its header, and its rows with their line numbers."""

    path: str
    header: list[str]
    rows: list[tuple[int, list[str]]]

    def index(self, column: str, option: str) -> int:
        """Return the position of the column that an option names."""
        if column not in self.header:
            raise InvalidFile(f"{self.path}: {option}: no column {column!r}{nearest(column, self.header)}")
        return self.header.index(column)

    def known(self, names: re.Pattern[str]) -> list[int]:
        """Return the positions of the columns that go by known names."""
        plain = [name.lower().replace(" ", "_").replace("-", "_") for name in self.header]
        return [i for i, name in enumerate(plain) if names.fullmatch(name)]


def read_table(path: str) -> MeasuredTable:
    """Return the table in a CSV file with a header."""
    lines = _lines_of(path)
    if not lines:
        raise InvalidFile(f"{path}: empty")
    (line, header), *rows = lines
    if all(map(is_number, header)):
        raise InvalidFile(
            f"{path}: line {line}: no header: the first line must name the columns, as in cores,throughput; "
            f"got {','.join(header)}"
        )
    for name in header:
        if header.count(name) > 1:
            raise InvalidFile(f"{path}: line {line}: more than one column is called {name!r}")
    if not rows:
        raise InvalidFile(f"{path}: nothing below the header {','.join(header)}")
    for line, row in rows:
        if len(row) != len(header):
            raise InvalidFile(f"{path}: line {line}: {len(row)} fields, but the header has {len(header)}")
    return MeasuredTable(path, header, rows)


def _lines_of(path: str) -> list[tuple[int, list[str]]]:
    """Return the fields of the lines of a CSV file that are not empty, with the numbers of these lines."""
    content = as_utf8(read_bytes(path))
    if b"\0" in content:
        raise InvalidFile(f"{path}: a binary file, not CSV")
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InvalidFile(f"{path}: line {line}: not UTF-8 text, byte 0x{content[error.start]:02x}") from None
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        lines = [(reader.line_num, [field.strip() for field in row]) for row in reader]
    except csv.Error as error:
        raise InvalidFile(f"{path}: line {reader.line_num}: {error}") from None
    return [(line, row) for line, row in lines if row not in ([], [""])]


def number_or_text(text: str) -> float | str:
    """Return a field as a number, or as it is."""
    try:
        return float(text)
    except ValueError:
        return text


# --- several types at once --------------------------------------------------------------------


def curves_in_table(path: str, *, by: str | None = None, family: str | None = None) -> dict[str, CurveFit]:
    """Return the curve of every type of job in a table of several, by its name.

    Parameters
    ----------
    path : str
        A CSV file in one of the three forms.
    by : str, optional
        The column that names the types, if it has another name than usual.
    family : str, optional
        One family for all, see `fit_curve`.
    """
    table = read_table(path)
    types = types_in_table(table, by)
    if types is None:
        raise InvalidFile(
            f"{path}: of which types of jobs? The columns must be class,cores,throughput, or cores and one "
            f"for each type, or class and one for each number of cores; got {', '.join(table.header[:8])}"
        )
    found = {}
    for name, pairs in types.items():
        try:
            found[name] = fit_curve(*zip(*pairs, strict=True), family=family)
        except InvalidInput as error:
            raise InvalidFile(f"{path}: {name!r}: {error}") from None
    return found


def types_in_table(table: MeasuredTable, by: str | None = None) -> dict[str, Pairs] | None:
    """Return the measurements of every type of job, by its name; None if the table has but one type."""
    named = [table.index(by, "--by")] if by is not None else table.known(_CLASS)
    across = [i for i, name in enumerate(table.header) if isinstance(number_or_text(name), float)]
    if len(across) > 1:
        rest = [i for i in range(len(table.header)) if i not in across]
        return _gathered(table, _cores_across(table, across, rest[0] if rest else None))
    cores = table.known(CORES)
    if len(cores) != 1:
        return None
    measured = [i for i in table.known(THROUGHPUT) if i not in named]
    if len(named) == 1 and len(measured) == 1 and named != cores:
        rows = ((row[named[0]], line, row[cores[0]], row[measured[0]]) for line, row in table.rows)
        found = _gathered(table, rows)
        return found if by is not None or len(found) > 1 else None
    others = [i for i in range(len(table.header)) if i not in cores]
    plain = by is None and len(others) > 1 and not (measured or named or table.known(TIME))
    if plain and all(_is_measured(row[i]) for _, row in table.rows for i in others):
        return _gathered(table, _types_across(table, cores[0], others))
    return None


def _is_measured(text: str) -> bool:
    return not text or isinstance(number_or_text(text), float)


def _cores_across(
    table: MeasuredTable, across: list[int], name: int | None
) -> Iterator[tuple[str, int, str, str]]:
    if name is None:
        raise InvalidFile(f"{table.path}: cores are in the header, and no column says of which type of job")
    for line, row in table.rows:
        for i in across:
            yield row[name], line, table.header[i], row[i]


def _types_across(table: MeasuredTable, cores: int, types: list[int]) -> Iterator[tuple[str, int, str, str]]:
    for i in types:
        for line, row in table.rows:
            yield table.header[i], line, row[cores], row[i]


def _gathered(table: MeasuredTable, rows: Iterator[tuple[str, int, str, str]]) -> dict[str, Pairs]:
    """Return pairs of cores and throughput by type; an empty field was not measured."""
    found: dict[str, Pairs] = {}
    for name, line, cores, value in rows:
        if not name:
            raise InvalidFile(f"{table.path}: line {line}: it does not say of which type of job")
        if not value:
            continue
        try:
            z, y = (
                checks.positive(number_or_text(text), what, InvalidFile)
                for text, what in ((cores, "cores"), (value, f"throughput of {name!r}"))
            )
            found.setdefault(name, []).append(check_measurement(z, y))
        except InvalidInput as error:
            raise InvalidFile(f"{table.path}: line {line}: {error}") from None
    return found
