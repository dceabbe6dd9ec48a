"""Tables of jobs that are present, in CSV or JSON: the states that a decision per job is made from."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterator, Mapping
from typing import Any

from corewise.errors import InvalidFile, InvalidInput, nearest
from corewise.kit import checks
from corewise.kit.files import read_text, reason_of
from corewise.model.system import System
from corewise.policies.jobs.state import JobState, checked_jobs, limits

__all__ = ["load_jobs", "parse_jobs"]

_NEEDED = ("name", "class")
_NUMBERS = ("attained", "remaining", "held", "min_cores", "max_cores", "waited")
_COLUMNS = [*_NEEDED, *_NUMBERS, "speeds"]


def load_jobs(path: str | os.PathLike[str], system: System) -> list[JobState]:
    """Return the jobs of a system that a CSV or JSON file lists; see `parse_jobs`."""
    try:
        text = read_text(path)
    except UnicodeDecodeError as error:
        raise InvalidFile(f"{os.fspath(path)}: not a table of jobs: {reason_of(error)}") from None
    return parse_jobs(text, system, os.fspath(path))


def parse_jobs(text: str, system: System, source: str) -> list[JobState]:
    r"""Return the jobs of a system that a text lists; `source` is what to call it in errors.

    CSV has a header with `name`, `class` and any of the other fields of `JobState`; an empty cell is not
    known, and `speeds` are numbers with blanks between them. JSON is a list of objects with the same keys.

    Raises
    ------
    InvalidFile
        If a row is no job of the system: with the row, from 1 for the first job, and the value.

    Examples
    --------
    >>> import corewise as cw
    >>> from corewise.policies.jobs.files import parse_jobs
    >>> text = "name,class,remaining,speeds\na,one,0.5,\nb,two,,0 1 1.8 2.4"
    >>> [job.remaining for job in parse_jobs(text, cw.load_system("paper:1"), "jobs.csv")]
    [0.5, None]
    """
    rows = _json_rows(text, source) if text.lstrip()[:1] in ("[", "{") else _csv_rows(text, source)
    jobs: dict[str, JobState] = {}
    for number, row in enumerate(rows, start=1):
        try:
            job = _job(row)
            if job.name in jobs:
                raise InvalidInput(f"job name {job.name!r} is used twice")
            listed, classes = checked_jobs([job], system)
            limits(listed, classes, system, whole=True)
        except InvalidInput as error:
            raise InvalidFile(f"{source}, row {number}: {error}") from None
        jobs[job.name] = job
    return list(jobs.values())


def _job(row: Mapping[str, Any]) -> JobState:
    for name in row:
        if name not in _COLUMNS:
            raise InvalidInput(f"unknown field {checks.shown(name)}{nearest(str(name), _COLUMNS)}")
    for name in _NEEDED:
        if row.get(name) is None:
            raise InvalidInput(f"no {name}; a job needs a name and a class")
    known = {key: value for key, value in row.items() if value is not None and key not in _NEEDED}
    return JobState(row["name"], row["class"], **known)


def _json_rows(text: str, source: str) -> list[dict[str, Any]]:
    try:
        rows = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidFile(f"{source}: not JSON: {error}") from None
    if not isinstance(rows, list):
        raise InvalidFile(f"{source}: must be a list of jobs, got {checks.shown(rows)}")
    for number, row in enumerate(rows, start=1):
        if not isinstance(row, dict):
            raise InvalidFile(f"{source}, row {number}: must be an object, got {checks.shown(row)}")
    return rows


def _csv_rows(text: str, source: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of a table with the cells that are not empty, those of numbers as numbers."""
    reader = csv.reader(text.splitlines(), strict=True)
    try:
        lines = [[cell.strip() for cell in row] for row in reader if row]
    except csv.Error as error:
        raise InvalidFile(f"{source}: not a table of jobs: {error}") from None
    if not lines:
        raise InvalidFile(f"{source}: is empty; it needs the columns name and class")
    header = lines[0]
    for name in _NEEDED:
        if name not in header:
            raise InvalidFile(f"{source}: no column {name!r}{nearest(name, header)}; it needs name and class")
    for name in header:
        if header.count(name) > 1:
            raise InvalidFile(f"{source}: column {name!r} is there twice")
    for number, line in enumerate(lines[1:], start=1):
        if len(line) > len(header):
            raise InvalidFile(f"{source}, row {number}: {len(line)} cells under {len(header)} columns")
        yield {name: _value(name, cell) for name, cell in zip(header, line, strict=False) if cell}


def _value(column: str, cell: str) -> Any:
    """Return a cell as a number, or numbers, where its column has them; else, and if it is none, as text."""
    try:
        if column in _NUMBERS:
            return float(cell)
        return [float(part) for part in cell.split()] if column == "speeds" else cell
    except ValueError:
        return cell
