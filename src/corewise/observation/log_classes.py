"""The classes and the cores of an event log of which nothing is known beforehand."""

from __future__ import annotations

import os
import zlib
from io import BufferedIOBase
from pathlib import Path

import numpy as np

from corewise.errors import InvalidFile, InvalidInput
from corewise.kit.arrays import Floats
from corewise.kit.files import reason_of, require_path
from corewise.model.job_class import JobClass
from corewise.model.speedup import Amdahl
from corewise.model.system import System
from corewise.observation.event_logs import EventLog, load_events, opened
from corewise.observation.log_lines import columns_of
from corewise.observation.rows import NOBODY
from corewise.observation.sample_path import SamplePath
from corewise.observation.text.fields import Fields, Layout, TextCodes, line_blocks

__all__ = ["classes_of_log", "cores_held", "load_unknown_log"]

_MOST_CORES = 1e9
_MOST_CLASSES = 1000


def load_unknown_log(
    path: str | os.PathLike[str], *, cores: float | None = None, lenient: bool = False
) -> EventLog:
    """Read an event log without a system: its classes are those that it names.

    Parameters
    ----------
    path : str or path
        An event log in CSV, compressed if its name ends in ``.gz``.
    cores : float, optional
        The cores of the pool. By default the most that were held at once.
    lenient : bool, optional
        See `load_events`.
    """
    names = classes_of_log(path)
    try:
        classes = [JobClass(name, speedup=Amdahl(0.5)) for name in names]
    except InvalidInput as error:
        raise InvalidFile(f"{os.fspath(path)}: {error}") from None
    log = load_events(path, System(_MOST_CORES if cores is None else cores, classes), lenient=lenient)
    if cores is not None:
        return log
    seen = log.path
    peak = float(cores_held(seen)[1].max())
    if peak <= 0.0:
        raise InvalidFile(f"{os.fspath(path)}: no job ever holds a core")
    columns = seen.time, seen.event, seen.job_class, seen.job, seen.cores
    return EventLog(SamplePath(seen.names, peak, *columns), log.rows, log.skipped, log.reasons)


def classes_of_log(path: str | os.PathLike[str]) -> list[str]:
    """Return the classes that an event log names, in order of appearance."""
    require_path(path)
    name = os.fspath(path)
    if Path(name).is_dir():
        raise InvalidFile(f"{name}: is a directory, not an event log")
    try:
        with opened(name) as file:
            names = _named(file)
    except (OSError, EOFError, zlib.error) as error:
        raise InvalidFile(f"{name}: cannot be read: {reason_of(error)}") from error
    except UnicodeDecodeError:
        raise InvalidFile(f"{name}: not an event log: not UTF-8 text") from None
    except InvalidInput as error:
        raise InvalidFile(f"{name}: not an event log: {error}") from None
    if not names:
        raise InvalidFile(f"{name}: no row names a class")
    return names


def _named(file: BufferedIOBase) -> list[str]:
    header = b""
    while not header.strip():
        header = file.readline()
        if not header:
            raise InvalidInput("it is empty")
        if b"\0" in header:
            raise InvalidInput("it is a binary file")
    columns = columns_of(header.decode())
    totals = [column.removeprefix("cores:") for column in columns if column.startswith("cores:")]
    if totals:
        return totals
    if "class" not in columns:
        raise InvalidInput(f"the header has no column 'class', but {', '.join(columns[:6])}")
    return _texts(file, columns)


def _texts(file: BufferedIOBase, columns: tuple[str, ...]) -> list[str]:
    """Return the different classes that rows name, in order of appearance."""
    seen = TextCodes()
    for block in line_blocks(file, quotes=True):
        seen.codes(Fields.of(block, Layout(columns, ("class",))), "class")
        if len(seen.texts) > _MOST_CLASSES:
            raise InvalidInput(f"it names more than {_MOST_CLASSES} classes")
    return list(dict.fromkeys(text for text in seen.texts if text))


def cores_held(path: SamplePath) -> tuple[Floats, Floats]:
    """Return the instants of a path, and the cores that all jobs together hold from each on."""
    last = np.append(path.time[1:] != path.time[:-1], True)  # rows of one instant belong together
    if not path.per_job:
        return path.time[last], path.cores.sum(axis=1)[last]
    held = np.where(np.isnan(path.cores), 0.0, path.cores)
    order = np.argsort(path.job, kind="stable")
    job, own = path.job[order], held[order]
    same = np.append(False, (job[1:] == job[:-1]) & (job[1:] != NOBODY))
    change = np.empty(held.size)
    change[order] = np.where(job == NOBODY, 0.0, own - np.where(same, np.append(0.0, own[:-1]), 0.0))
    return path.time[last], np.cumsum(change)[last]
