"""``corewise allocate``: who gets how many cores, by name."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from corewise.cli.options import POLICY_HELP, AsJson, SystemName, number, whole_number
from corewise.cli.output import emit, print_report
from corewise.cli.reporting import reporting
from corewise.cli.targets import print_written, require_target
from corewise.cli.waiting import waiting
from corewise.errors import InvalidInput

if TYPE_CHECKING:
    from corewise.model.system import System
    from corewise.policies.jobs.state import JobState
    from corewise.studies.allocation import Allocation, JobAllocation

__all__ = ["allocate"]

_TABLES = (".csv", ".json")
_MOST_STDIN = 64 * 2**20


@reporting
def allocate(
    system: SystemName,
    policy: Annotated[str, typer.Option(metavar="P", help=POLICY_HELP)] = "job-index",
    jobs: Annotated[
        str | None,
        typer.Option(
            metavar="FILE or NAME=N,…",
            help="The jobs that are present: a CSV or JSON table, - for standard input, with name, class and "
            "where known attained, remaining, held, min_cores, max_cores, speeds, waited; or how many there "
            "are of each class. Default: none.",
        ),
    ] = None,
    whole: Annotated[
        bool, typer.Option("--whole", "--whole-cores", help="Give out whole cores only.")
    ] = False,
    pause: Annotated[
        str,
        typer.Option(
            metavar="T",
            help="How long a job of the table stands still when its cores change: a change has to be worth "
            "it. For --whole.",
        ),
    ] = "0",
    save: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Save the policy, made for SYSTEM, to this file.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say who gets how many cores while some jobs are there, and the rule in words.

    For a table of jobs: the cores of every one of them.
    """
    from corewise.model.files import load_system
    from corewise.policies.base import bind, policy_named
    from corewise.policies.saved import save_policy
    from corewise.policies.whole import WholeCores
    from corewise.studies.allocation import allocate as allocate_cores
    from corewise.studies.allocation import allocate_jobs

    problem = load_system(system)
    table = _table(jobs, problem)
    stop = _pause(pause, whole=whole, table=table is not None)
    require_target(save, system, policy, *([] if table is None or not jobs else [jobs]))
    with waiting(f"Making {policy} ..."):
        rule = policy_named(policy, problem)
        bound = bind(WholeCores(rule) if whole and table is None else rule, problem)
    found: JobAllocation | Allocation = (
        allocate_cores(problem, bound, _counts(jobs))
        if table is None
        else allocate_jobs(problem, bound, table, whole=whole, pause=stop)
    )
    if save:
        save_policy(bound, save)
    if as_json or jobs is not None:
        emit(found, as_json)
    else:
        print_report(replace(found.report(), tables=()))
    if not as_json:
        print_written((save, "policy"))


def _table(text: str | None, system: System) -> list[JobState] | None:
    """Return the jobs of the table that a text names; None if it names none."""
    from corewise.policies.jobs.files import load_jobs, parse_jobs

    if text is None:
        return None
    if text == "-":
        content = sys.stdin.buffer.read(_MOST_STDIN + 1)
        if len(content) > _MOST_STDIN:
            raise InvalidInput(f"standard input: too large, more than {_MOST_STDIN // 2**20} MiB")
        try:
            return parse_jobs(content.decode(), system, "standard input")
        except UnicodeDecodeError:
            raise InvalidInput("standard input: must be text in UTF-8") from None
    if Path(text).exists() or Path(text).suffix in _TABLES:
        return load_jobs(text, system)
    return None


def _pause(text: str, *, whole: bool, table: bool) -> float:
    value = number(text, "--pause")
    if value < 0.0:
        raise InvalidInput(f"--pause must not be negative, got {text!r}")
    if value and not (whole and table):
        raise InvalidInput(f"--pause counts for a table of jobs with --whole, got {text!r} without them")
    return value


def _counts(text: str | None) -> dict[str, int]:
    """Return ``"render=3,etl=2"`` as numbers by name."""
    counts: dict[str, int] = {}
    for part in text.split(",") if text is not None else ():
        name, equals, count = (piece.strip() for piece in part.rpartition("="))
        if not equals or not name:
            raise InvalidInput(
                f"--jobs must be a file, or NAME=NUMBER with commas between them, got {part!r}"
            )
        if name in counts:
            raise InvalidInput(f"--jobs names class {name!r} twice")
        counts[name] = whole_number(count, f"--jobs {name}")
    return counts
