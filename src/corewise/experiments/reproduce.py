"""The paper's experiments by name, and the files with their results."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path

from corewise.errors import InvalidFile, InvalidInput, nearest
from corewise.experiments.examples import example_result, run_example
from corewise.experiments.paper import EXAMPLES, Example
from corewise.experiments.report import (
    Block,
    Heading,
    Picture,
    Result,
    ResultTable,
    Section,
    Setting,
    html_report,
    html_section,
)
from corewise.experiments.tracking import run_table_2
from corewise.kit import checks
from corewise.kit.files import read_bytes, reason_of, write_bytes
from corewise.kit.jsonable import to_json
from corewise.kit.progress import Progress
from corewise.kit.version import __version__
from corewise.kit.workers import processes
from corewise.model.speedup import Amdahl, PowerLaw, SpeedUp
from corewise.plots.curves import speedup_figure
from corewise.plots.style import figure_bytes

__all__ = ["ALL", "EXPERIMENTS", "REPORT", "reproduce"]

ALL = "all"
REPORT = "report.html"
_RESULTS, _SECTION = "results.json", "section.html"

_FIGURE_1_CORES = 10
_FIGURE_1_PARAMETERS = (0.0, 0.25, 0.5, 0.75, 0.9, 1.0)


def _figure_1(_: Setting) -> Result:
    """Draw Amdahl's law and the power law for several parameters."""
    families: dict[str, list[SpeedUp]] = {
        "(a) Amdahl's law": [Amdahl(p) for p in _FIGURE_1_PARAMETERS],
        "(b) power law": [PowerLaw(p) for p in _FIGURE_1_PARAMETERS],
    }
    widths = [0.25 * i for i in range(4 * _FIGURE_1_CORES + 1)]
    rows = [
        [curve.family, curve.parameters["p"], z, float(curve.rate(z))]
        for curves in families.values()
        for curve in curves
        for z in widths
    ]
    blocks: list[Block] = [
        Heading("What it shows"),
        """How fast a job runs on z cores, relative to one. Up to one core both families are linear,
        since nothing runs in parallel there. p = 0 gains nothing from more cores, p = 1 is perfect.
        Where p is small, curves of Amdahl's law lie close together, and data separate them less well;
        the examples say how much less.""",
        Picture(
            "curves",
            "Speed-up curves of both families.",
            figure_bytes(speedup_figure(families, cores=_FIGURE_1_CORES)),
        ),
        ResultTable("curves", ("family", "p", "cores per job", "speed-up"), rows),
    ]
    numbers = {
        "cores": _FIGURE_1_CORES,
        "speedup_on_all_cores": {
            curves[0].family: {
                f"{curve.parameters['p']:g}": float(curve.rate(_FIGURE_1_CORES)) for curve in curves
            }
            for curves in families.values()
        },
    }
    headline = "speed-up curves of both families"
    return Result("figure-1", "Figure 1: speed-up curves", headline, numbers, blocks)


def _example(example: Example, setting: Setting) -> Result:
    return example_result(run_example(example, setting))


EXPERIMENTS: dict[str, Callable[[Setting], Result]] = {
    "figure-1": _figure_1,
    **{f"example-{example.number}": partial(_example, example) for example in EXAMPLES},
    "table-2": run_table_2,
}
"""The experiments, in the order of the report."""

_EFFORT = {"figure-1": 1, "example-1": 30, "example-2": 25, "example-3": 20, "example-4": 20, "table-2": 90}
"""Approximate duration of each, for the progress of all."""


def reproduce(
    what: str,
    out: str | os.PathLike[str],
    *,
    seed: int,
    workers: int | None = None,
    progress: Progress | None = None,
) -> Iterator[Result]:
    """Run an experiment, or all, and write the results to a directory; yield each when it is complete.

    Parameters
    ----------
    what : str
        One of `EXPERIMENTS`, or ``all``.
    out : path
        The directory: made if need be. Every experiment has one of its own in it, with figures as PNG, tables
        as CSV and ``results.json``; ``report.html`` shows all that are there, if they were made with the same
        seed and version.
    seed : int
        An experiment's results depend on it alone: not on the workers, nor on what else is run.
    workers : int, optional
        Number of worker processes; the number of cores by default.
    progress : callable, optional
        Called with the share of the work that is done.
    """
    if what != ALL and what not in EXPERIMENTS:
        raise InvalidInput(f"unknown experiment {what!r}{nearest(str(what), [*EXPERIMENTS, ALL])}")
    start = checks.whole(seed, "seed", least=0)
    count = os.cpu_count() or 1 if workers is None else checks.whole(workers, "workers")
    target = _directory(out)
    names = list(EXPERIMENTS) if what == ALL else [what]
    return _carried_out(names, target, start, count, progress)


def _carried_out(
    names: list[str], target: Path, seed: int, workers: int, progress: Progress | None
) -> Iterator[Result]:
    whole, done = sum(_EFFORT[name] for name in names), 0
    with nullcontext() if workers == 1 else processes(workers) as executor:
        for name in names:
            setting = Setting((seed, list(EXPERIMENTS).index(name)), executor, progress)
            share = setting.part(done / whole, (done + _EFFORT[name]) / whole)
            done += _EFFORT[name]
            result = EXPERIMENTS[name](replace(setting, progress=share))
            _write(result, target, seed)
            write_bytes(target / REPORT, html_report(_sections(target, seed), seed, __version__).encode())
            if share:
                share(1.0)
            yield result


def _directory(out: str | os.PathLike[str]) -> Path:
    """Return a directory that can be written to."""
    if not isinstance(out, str | os.PathLike):
        raise InvalidFile(f"expected the path of a directory, got {out!r}")
    target = Path(out)
    try:
        target.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        raise InvalidFile(f"{target}: cannot be made a directory: {reason_of(error)}") from None
    if not os.access(target, os.W_OK | os.X_OK):
        raise InvalidFile(f"{target}: cannot be written to: permission denied")
    return target


def _write(result: Result, target: Path, seed: int) -> None:
    """Write figures, tables, numbers and the report of an experiment to its own directory."""
    folder = _directory(target / result.name)
    for block in result.blocks:
        match block:
            case Picture():
                write_bytes(folder / f"{block.name}.png", block.png)
            case ResultTable():
                write_bytes(folder / f"{block.name}.csv", block.as_csv().encode())
    write_bytes(folder / _SECTION, html_section(result).encode())
    about = {"experiment": result.name, "title": result.title, "seed": seed, "version": __version__}
    write_bytes(folder / _RESULTS, (to_json({**about, **result.numbers}) + "\n").encode())


def _sections(target: Path, seed: int) -> list[Section]:
    """Return the sections of all results in the directory with the same seed and version."""
    found = []
    for name in EXPERIMENTS:
        folder = target / name
        if not (folder / _RESULTS).is_file() or not (folder / _SECTION).is_file():
            continue
        try:
            about = json.loads(read_bytes(folder / _RESULTS))
            alike = (about["seed"], about["version"]) == (seed, __version__)
        except (ValueError, LookupError, TypeError):
            continue  # not a file of ours
        if alike:
            found.append(Section(name, str(about["title"]), read_bytes(folder / _SECTION).decode()))
    return found
