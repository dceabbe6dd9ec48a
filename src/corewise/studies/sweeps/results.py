r"""The file of results of a sweep: one row a trial, written as they arrive.

The file is CSV, and a row is one line: it is appended in one piece and handed to the operating system at
once. Whatever ends the program, the file then holds whole rows and at most one half line at its end, which is
cut off when the sweep is taken up again. Every row has the fingerprint of its sweep, so that rows of
different sweeps never come together in one file; and the file is locked while it is written to, so that no
row comes twice. Once all rows are there they are put in the order of the sweep.

Parquet cannot be appended to row by row. There the CSV file beside it is written first, and the Parquet file
from it when the sweep is complete.
"""

from __future__ import annotations

import csv
import fcntl
import io
import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import astuple, fields
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

from corewise.errors import CorewiseError, InvalidFile
from corewise.kit.files import reason_of, require_path, write_bytes
from corewise.studies.sweeps.grid import SweepPlan
from corewise.studies.sweeps.trial import FAILED, SweepRow

__all__ = ["SweepJournal", "results_files"]

_COLUMNS = [field.name for field in fields(SweepRow)]
_TYPES = [str(field.type) for field in fields(SweepRow)]
_CSV, _PARQUET = ".csv", ".parquet"


def results_files(out: str | os.PathLike[str]) -> tuple[Path, Path | None]:
    """Return the CSV file that rows go to, and the Parquet file that is made of it if that is asked for."""
    require_path(out)
    path = Path(out)
    if path.suffix not in (_CSV, _PARQUET):
        raise InvalidFile(f"{path}: results are written as {_CSV} or {_PARQUET}, got {path.suffix!r}")
    if path.suffix == _CSV:
        return path, None
    try:
        import pyarrow.parquet  # noqa: F401  # found out before the time is spent
    except ImportError:
        raise CorewiseError(f"{path}: Parquet needs pyarrow: install corewise[parquet]") from None
    return path.with_suffix(_CSV), path


class SweepJournal:
    """Journal of a sweep: the rows that are there, in a file or in memory.

    Parameters
    ----------
    plan : SweepPlan
        The sweep.
    out : path, optional
        The file, ``.csv`` or ``.parquet``. Rows of the same sweep that are there already are kept.
    retry_failed : bool, optional
        Whether those that failed are dropped, to be done again.

    Attributes
    ----------
    rows : dict
        By the keys of their trials.
    """

    def __init__(
        self, plan: SweepPlan, out: str | os.PathLike[str] | None = None, *, retry_failed: bool = False
    ) -> None:
        self.plan = plan
        self.rows: dict[str, SweepRow] = {}
        self._path: Path | None = None
        self._parquet: Path | None = None
        self._file: BinaryIO | None = None
        if out is None:
            return
        self._path, self._parquet = results_files(out)
        try:
            self._file = _opened(self._path)
            self._take_up(retry_failed)
        except OSError as error:
            self.close()
            raise InvalidFile(f"{self._path}: cannot be written: {reason_of(error)}") from error
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> SweepJournal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            with suppress(OSError):  # of a row that could not be written, which was said
                self._file.close()
            self._file = None

    @property
    def complete(self) -> bool:
        """Whether every trial has its row."""
        return len(self.rows) == len(self.plan.trials)

    @property
    def in_order(self) -> tuple[SweepRow, ...]:
        """The rows that are there, in the order of the sweep."""
        return tuple(self.rows[trial.key] for trial in self.plan.trials if trial.key in self.rows)

    def append(self, row: SweepRow) -> None:
        """Add a row; it is in the file when this returns."""
        if row.key in self.rows:
            raise CorewiseError(f"a second row for {row.key}")
        if self._file is not None:
            self._write(_line(row))
        self.rows[row.key] = row

    def finish(self) -> None:
        """Put the rows in the order of the sweep, and write the Parquet file if there is to be one."""
        if self._path is not None and list(self.rows) != [trial.key for trial in self.plan.trials]:
            self._rewrite(self.in_order)
        if self._parquet is not None:
            write_bytes(self._parquet, _as_parquet(self.in_order))

    def _take_up(self, retry_failed: bool) -> None:
        """Read the rows that are there, and cut off half a line at the end."""
        assert self._file is not None
        content = self._file.read()
        whole = content.rpartition(b"\n")[0] + b"\n" if b"\n" in content else b""
        if not whole and not _line(_COLUMNS).startswith(content):
            raise InvalidFile(f"{self._path}: is not a file of results of a sweep, and would be overwritten")
        if len(whole) < len(content):
            self._file.truncate(len(whole))
        if not whole:
            self._write(_line(_COLUMNS))
            return
        found = _read(whole, self._path)
        self._require_same(found)
        self.rows = {row.key: row for row in found}
        if len(self.rows) < len(found):
            raise InvalidFile(f"{self._path}: has two rows for the same run")
        if retry_failed and any(row.status == FAILED for row in found):
            self._rewrite([row for row in found if row.status != FAILED])

    def _require_same(self, found: Iterable[SweepRow]) -> None:
        for row in found:
            if row.sweep != self.plan.fingerprint:
                raise InvalidFile(
                    f"{self._path}: holds rows of another sweep ({row.sweep}; this one is "
                    f"{self.plan.fingerprint}): {self.plan.name}, one of its systems or saved policies, or "
                    f"what corewise computes has changed since; name another file, or remove this one"
                )

    def _write(self, line: bytes) -> None:
        assert self._file is not None
        try:
            self._file.write(line)
            self._file.flush()
        except OSError as error:
            raise InvalidFile(f"{self._path}: cannot be written: {reason_of(error)}") from error

    def _rewrite(self, rows: Sequence[SweepRow]) -> None:
        """Replace the file by one with these rows, whole or not at all."""
        assert self._path is not None
        before = self._file
        write_bytes(self._path, b"".join([_line(_COLUMNS), *map(_line, rows)]))
        self._file = _opened(self._path)
        self._file.seek(0, os.SEEK_END)
        self.rows = {row.key: row for row in rows}
        if before is not None:
            before.close()


def _opened(path: Path) -> BinaryIO:
    """Return a file to read and append to, locked until it is closed."""
    if path.exists() and not path.is_file():
        raise InvalidFile(f"{path}: rows are kept in a regular file, which this is not")
    file = path.open("a+b")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise InvalidFile(f"{path}: is being written to by another sweep") from None
    file.seek(0)
    return file


def _line(row: SweepRow | list[str]) -> bytes:
    """Return a row as a line of CSV; numbers by repr, so that they come back bit for bit."""
    text = io.StringIO()
    values = row if isinstance(row, list) else ["" if value is None else value for value in astuple(row)]
    csv.writer(text, lineterminator="\n").writerow(values)
    return text.getvalue().encode()


def _read(content: bytes, path: Path | None) -> list[SweepRow]:
    """Return the rows of a file, refusing what is not one of ours."""
    try:
        header, *lines = csv.reader(io.StringIO(content.decode()), strict=True)
    except (ValueError, csv.Error):
        header, lines = [], []
    if header != _COLUMNS:
        raise InvalidFile(f"{path}: is not a file of results of a sweep, and would be overwritten")
    found = []
    for number, line in enumerate(lines, start=2):
        try:
            values = [_value(text, kind) for text, kind in zip(line, _TYPES, strict=True)]
        except ValueError as error:
            raise InvalidFile(f"{path}: line {number} is not a row of results: {error}") from None
        found.append(SweepRow(*values))
    return found


def _value(text: str, kind: str) -> Any:
    """Return the value that a cell holds, by the type of its column."""
    if not text and kind.endswith("| None"):
        return None
    return {"str": str, "int": int, "float": float}[kind.removesuffix(" | None")](text)


def _as_parquet(rows: Sequence[SweepRow]) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet

    kinds = {"str": pa.string(), "int": pa.int64(), "float": pa.float64()}
    columns = zip(*map(astuple, rows), strict=True)
    arrays = [
        pa.array(column, kinds[kind.removesuffix(" | None")])
        for column, kind in zip(columns, _TYPES, strict=True)
    ]
    stream = io.BytesIO()
    pyarrow.parquet.write_table(pa.table(dict(zip(_COLUMNS, arrays, strict=True))), stream)
    return stream.getvalue()
