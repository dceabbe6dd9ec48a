"""``corewise advise``: from a log to an answer."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated

import typer

from corewise.cli.options import SEED_HELP, AsJson, number, whole_number
from corewise.cli.output import emit
from corewise.cli.reporting import reporting
from corewise.cli.targets import print_written
from corewise.cli.waiting import progress_bar, waiting
from corewise.errors import InvalidFile, InvalidInput

if TYPE_CHECKING:
    from corewise.model.speedup import SpeedUp
    from corewise.observation.event_logs import EventLog
    from corewise.studies.advice.results import Advice

__all__ = ["advise"]

_MOST_CORES = 100_000
_PAGE, _SYSTEM, _POLICY = "advice.html", "system.toml", "policy.npz"


@reporting
def advise(
    log: Annotated[
        Path, typer.Argument(metavar="LOG", help="An event log (CSV, .csv.gz) in which every job has a name.")
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where to write the page, system and policy.")],
    cores: Annotated[
        str | None, typer.Option(metavar="N", help="Cores of the pool. Default: the most ever held at once.")
    ] = None,
    throughput: Annotated[
        Path | None,
        typer.Option(
            metavar="CSV", help="Measured throughputs by class, for curves that the log cannot tell."
        ),
    ] = None,
    unit: Annotated[
        str | None,
        typer.Option(
            metavar="U", help="What times are in, such as hours: said beside them, and in the system file."
        ),
    ] = None,
    lenient: Annotated[
        bool, typer.Option("--lenient", help="Leave out what cannot be used of the log, and count it.")
    ] = False,
    seed: Annotated[str, typer.Option(metavar="S", help=SEED_HELP)] = "0",
    as_json: AsJson = False,
) -> None:
    """Say what a log tells: whether sharing cores otherwise would pay, and how many are needed.

    Jobs and curves are taken from the log; the same jobs are then run under other policies. DIR gets a page
    to read (advice.html), and the system and the policy to go on with.
    """
    from corewise.model.units import require_unit
    from corewise.studies.advice.advice import advise as advise_on

    pool = None if cores is None else number(cores, "--cores")
    if pool is not None and not 1.0 <= pool <= _MOST_CORES:
        raise InvalidInput(f"--cores must lie between 1 and {_MOST_CORES:,}, got {cores!r}")
    chosen = whole_number(seed, "--seed")
    if unit is not None:
        require_unit(unit)
    _require_directory(out)
    measured = _measured(throughput)
    began = perf_counter()
    with waiting(f"Reading {log} ..."):
        events = _read(log, pool, lenient)
    with progress_bar("Advising", 100.0, "%") as progress:
        found = advise_on(events, throughput=measured, rng=chosen, progress=progress, unit=unit)
    found = replace(found, warnings=(*_about(events, pool), *found.warnings))
    files = _write(found, out, log)
    seconds = perf_counter() - began
    facts = ("log", str(log)), ("time", f"{seconds:.3g} s")
    emit(found, as_json, *facts, files=[str(path) for path, _ in files], seconds=seconds)
    if not as_json:
        print_written(*files)


def _require_directory(out: Path) -> None:
    if out.exists() and not out.is_dir():
        raise InvalidFile(f"{out}: is a file, and must be a directory")
    if not out.exists() and not out.absolute().parent.is_dir():
        raise InvalidFile(f"{out}: cannot be made: there is no directory {out.absolute().parent}")
    if not os.access(out if out.exists() else out.absolute().parent, os.W_OK):
        raise InvalidFile(f"{out}: cannot be written: permission denied")


def _read(log: Path, pool: float | None, lenient: bool) -> EventLog:
    """Return the log; if it holds more cores than there are said to be, the error names two ways out."""
    from corewise.observation.event_logs import load_unknown_log

    try:
        return load_unknown_log(log, cores=pool, lenient=lenient)
    except InvalidFile as error:
        if lenient or pool is None:
            raise
        try:
            peak = float(load_unknown_log(log).path.total_cores()[1].max())
            left_out = load_unknown_log(log, cores=pool, lenient=True)
        except InvalidInput:  # something else is wrong with it
            raise error from None
        raise InvalidFile(
            f"{error}; up to {peak:g} are held at a time: give --cores {peak:g}, or --lenient to leave out "
            f"{left_out.skipped:,} of {left_out.rows:,} rows"
        ) from None


def _measured(file: Path | None) -> dict[str, SpeedUp]:
    if file is None:
        return {}
    from corewise.estimation.throughput.tables import curves_in_table

    return {name: fit.curve for name, fit in curves_in_table(str(file)).items()}


def _about(log: EventLog, pool: float | None) -> list[str]:
    notes = []
    if pool is None:
        notes.append(
            f"--cores was not given: the pool is taken to have the {log.path.pool:g} that were held at most"
        )
    if log.skipped:
        notes.append(f"{log.skipped:,} of {log.rows:,} rows could not be used; the first: {log.reasons[0]}")
    return notes


def _write(found: Advice, out: Path, log: Path) -> list[tuple[Path, str]]:
    """Write all files, after all of them have been made."""
    from corewise.kit.files import write_bytes
    from corewise.model.files import system_to_text
    from corewise.plots.advice.page import advice_page
    from corewise.policies.saved import policy_to_bytes

    files = [
        (out / _PAGE, "page to read"),
        (out / _SYSTEM, "system as it was found, with exponential sizes, for solve, compare and plan"),
        (out / _POLICY, f"policy {found.policy.name}, for allocate and simulate"),
    ]
    listed = [(path.name, what) for path, what in files[1:]]
    page = advice_page(found, f"Advice from {log.name}", listed)
    contents = [
        page.encode(),
        system_to_text(found.system.as_memoryless()).encode(),
        policy_to_bytes(found.policy),
    ]
    out.mkdir(exist_ok=True)
    for (path, _), content in zip(files, contents, strict=True):
        write_bytes(path, content)
    return files
