"""``corewise allocate``: who gets how many cores, by name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from corewise.cli.options import POLICY_HELP, AsJson, SystemName, whole_number
from corewise.cli.output import emit, print_report
from corewise.cli.reporting import reporting
from corewise.cli.targets import print_written, require_target
from corewise.cli.waiting import waiting
from corewise.errors import InvalidInput

__all__ = ["allocate"]


@reporting
def allocate(
    system: SystemName,
    policy: Annotated[str, typer.Option(metavar="P", help=POLICY_HELP)],
    jobs: Annotated[
        str | None,
        typer.Option(metavar="NAME=N,…", help="How many jobs of each class are there. Default: none."),
    ] = None,
    whole_cores: Annotated[bool, typer.Option("--whole-cores", help="Give out whole cores only.")] = False,
    save: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Save the policy, made for SYSTEM, to this file.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say who gets how many cores while some jobs are there, and the rule in words."""
    from corewise.model.files import load_system
    from corewise.policies.base import bind, policy_named
    from corewise.policies.saved import save_policy
    from corewise.policies.whole import WholeCores
    from corewise.studies.allocation import allocate as allocate_cores

    problem = load_system(system)
    present = _jobs(jobs)
    require_target(save, system, policy)
    with waiting(f"Making {policy} ..."):
        rule = policy_named(policy, problem)
        bound = bind(WholeCores(rule) if whole_cores else rule, problem)
    found = allocate_cores(problem, bound, present)
    if save:
        save_policy(bound, save)
    if as_json or jobs is not None:
        emit(found, as_json)
    else:
        print_report(replace(found.report(), tables=()))
    if not as_json:
        print_written((save, "policy"))


def _jobs(text: str | None) -> dict[str, int]:
    """Return ``"render=3,etl=2"`` as numbers by name."""
    counts: dict[str, int] = {}
    for part in text.split(",") if text is not None else ():
        name, equals, number = (piece.strip() for piece in part.rpartition("="))
        if not equals or not name:
            raise InvalidInput(f"--jobs must be NAME=NUMBER with commas between them, got {part!r}")
        if name in counts:
            raise InvalidInput(f"--jobs names class {name!r} twice")
        counts[name] = whole_number(number, f"--jobs {name}")
    return counts
