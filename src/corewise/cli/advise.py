"""``corewise advise``: from a log to an answer."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated

import typer

from corewise.cli.options import SEED_HELP, AsJson, number, whole_number
from corewise.cli.output import print_facts, print_json, print_table
from corewise.cli.reporting import reporting
from corewise.cli.targets import print_written
from corewise.cli.waiting import progress_bar, waiting
from corewise.errors import InvalidFile, InvalidInput
from corewise.kit.unit_labels import with_unit

if TYPE_CHECKING:
    from corewise.model.speedup import SpeedUp
    from corewise.observation.event_logs import EventLog
    from corewise.studies.advice.results import Advice, ClassAdvice

__all__ = ["advise"]

_MOST_CORES = 100_000
_SHOWN = 12  # classes in a table
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
    warnings = (*_about(events, pool), *found.warnings)
    files = _write(found, warnings, out, log)
    seconds = perf_counter() - began
    if as_json:
        print_json(_as_mapping(found, warnings, files, seconds))
        return
    _print_advice(found, warnings, log, seconds)
    for path, what in files:
        print_written((path, what))


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
    told = []
    if pool is None:
        told.append(
            f"--cores was not given: the pool is taken to have the {log.path.pool:g} that were held at most"
        )
    if log.skipped:
        told.append(f"{log.skipped:,} of {log.rows:,} rows could not be used; the first: {log.reasons[0]}")
    return told


def _write(found: Advice, warnings: tuple[str, ...], out: Path, log: Path) -> list[tuple[Path, str]]:
    """Write all files, after all of them have been made."""
    from dataclasses import replace

    from corewise.kit.files import write_bytes
    from corewise.model.files import system_to_text
    from corewise.plots.advice.page import advice_page
    from corewise.policies.saved import policy_to_bytes

    files = [
        (out / _PAGE, "page to read"),
        (out / _SYSTEM, "system as it was found, with exponential sizes, for solve, compare and plan"),
        (out / _POLICY, f"policy {found.policy.name}, for allocate and simulate"),
    ]
    told = [(path.name, what) for path, what in files[1:]]
    page = advice_page(replace(found, warnings=warnings), f"Advice from {log.name}", told)
    contents = [
        page.encode(),
        system_to_text(found.system.as_memoryless()).encode(),
        policy_to_bytes(found.policy),
    ]
    out.mkdir(exist_ok=True)
    for (path, _), content in zip(files, contents, strict=True):
        write_bytes(path, content)
    return files


# --- for machines -----------------------------------------------------------------------------


def _as_mapping(
    found: Advice, warnings: tuple[str, ...], files: list[tuple[Path, str]], seconds: float
) -> dict[str, object]:
    needed = found.cores
    return {
        "verdict": found.verdict,
        "classes": [_class_mapping(row) for row in found.classes],
        "policies": [
            {
                "name": row.name,
                "mean_response_time": row.mean,
                "interval": list(row.interval),
                "gain": row.gain,
                "gain_interval": list(row.gain_interval),
                "gains_at_ends": list(row.gains_at_ends),
                "by_class": dict(zip(found.system.names, row.by_class, strict=True)),
            }
            for row in found.outcomes
        ],
        "best": found.best,
        "cores": found.system.cores,
        "cores_needed": needed.cores,
        "cores_needed_interval": list(needed.interval),
        "assumed": _assumed_mapping(found),
        "one_more_core": {"time_saved": needed.one_more, "interval": list(needed.one_more_interval)},
        "unit": found.unit,
        "warnings": list(warnings),
        "assumptions": list(found.assumptions),
        "files": [str(path) for path, _ in files],
        "seconds": seconds,
    }


def _assumed_mapping(found: Advice) -> dict[str, object] | None:
    """Return on which assumed curves the answers rest, and the range of p that intervals are for."""
    from corewise.studies.advice.curves import ASSUMED_CURVE, ASSUMED_RANGE

    if not found.assumed:
        return None
    return {
        "classes": list(found.assumed),
        "family": ASSUMED_CURVE.family,
        "p": ASSUMED_CURVE.p,
        "range": [curve.p for curve in ASSUMED_RANGE],
    }


def _class_mapping(row: ClassAdvice) -> dict[str, object]:
    found = row.curve.estimate if row.curve.informative else None
    return {
        "name": row.name,
        "jobs": row.usage.jobs,
        "cv2": row.cv2,
        "cv2_interval": list(found.dispersion.interval) if found and found.dispersion else None,
        "curve": {
            "family": row.curve.curve.family,
            "parameters": row.curve.curve.parameters,
            "source": row.curve.source,
            "intervals": {name: list(ends) for name, ends in found.intervals.items()} if found else None,
            "weights": row.curve.weights,
        },
        "informative": row.curve.informative,
        "reason": row.curve.reason,
        "goodness_of_fit": row.fit and row.fit.p_value,
        "usage": asdict(row.usage),
    }


# --- for people -------------------------------------------------------------------------------


def _print_advice(found: Advice, warnings: tuple[str, ...], log: Path, seconds: float) -> None:
    from corewise.plots.advice.svg import rounded
    from corewise.studies.advice.words import (
        by_size,
        cores_in_words,
        curve_in_words,
        gain_in_words,
        interval_in_words,
        one_more_in_words,
        percent,
        sizes_in_words,
    )

    ends = interval_in_words(found)
    usage, times = found.usage, with_unit("mean response\ntime", found.unit).replace(" (", "\n(")
    print_facts(
        found.verdict,
        [
            (
                "log",
                f"{log}: {usage.jobs:,} jobs in {rounded(usage.end - usage.start)} {found.times_in}",
            ),
            ("time", f"{seconds:.3g} s"),
            ("pool", f"{usage.cores:g} cores, {usage.utilisation:.0%} of them held on average"),
            ("gain", gain_in_words(found)),
            ("cores", cores_in_words(found)),
            ("one more", one_more_in_words(found)),
        ],
    )
    print_table(
        ["policy", times, ends, "less than\nthe log" + ("\n(p = 0.9)" if found.assumed else ""), ends],
        [
            [
                row.label,
                rounded(row.mean),
                "–".join(map(rounded, row.interval)),
                "" if row.name == "log" else percent(row.gain),
                "" if row.name == "log" else "–".join(map(percent, row.gain_interval)),
            ]
            for row in found.outcomes
        ],
    )
    classes = by_size(found)
    rows = [
        [
            row.name,
            curve_in_words(row),
            f"{row.usage.jobs:,}",
            rounded(row.usage.mean_response_time),
            sizes_in_words(row),
        ]
        for row in classes[:_SHOWN]
    ]
    if rest := classes[_SHOWN:]:
        rows.append(
            [f"and {len(rest)} more", f"see {_PAGE}", f"{sum(row.usage.jobs for row in rest):,}", "", ""]
        )
    print_table(["class", "curve", "jobs", times, "CV² of sizes"], rows, names=2)
    if warnings:
        print_facts("Before you rely on it", [(f"{k}", line) for k, line in enumerate(warnings, start=1)])
