"""``corewise plan``: how many cores are enough."""

from __future__ import annotations

import secrets
import sys
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from corewise.cli.options import SEED_HELP, AsJson, SystemName, number, whole_number
from corewise.cli.output import emit
from corewise.cli.reporting import reporting
from corewise.cli.targets import print_written, require_figure
from corewise.cli.waiting import progress_bar, waiting
from corewise.errors import InvalidInput

if TYPE_CHECKING:
    from corewise.model.system import System
    from corewise.studies.service_levels import LevelPlan

__all__ = ["plan"]

_LOOKS = 12  # at numbers of cores, by and large


@reporting
def plan(  # noqa: PLR0913, PLR0917  # one argument for each option
    system: SystemName,
    target: Annotated[
        list[str],
        typer.Option(
            metavar="T",
            help="The mean response time to meet, in the unit of time of the rates; or mean:NAME=T, p95=T, "
            "p95:NAME=T, by class or percentile. May be given more than once.",
        ),
    ],
    policy: Annotated[
        str | None,
        typer.Option(
            metavar="P",
            help="optimal, improved, whittle, equi, greedy, fixed:… or priority:…, made anew for each "
            "number of cores. Default: the best there is.",
        ),
    ] = None,
    cores: Annotated[
        str | None, typer.Option(metavar="N,N", help="Look at these numbers of cores instead of searching.")
    ] = None,
    price: Annotated[
        str | None,
        typer.Option(metavar="X", help="What a core costs per unit of time: printed for each number."),
    ] = None,
    log: Annotated[
        Path | None,
        typer.Option(metavar="LOG", help="An event log: what it attained stands beside the answer."),
    ] = None,
    max_cores: Annotated[
        str | None, typer.Option(metavar="N", help="Largest number of cores to consider. Default: a million.")
    ] = None,
    most_cores: Annotated[str | None, typer.Option(hidden=True)] = None,
    seed: Annotated[
        str | None, typer.Option(metavar="S", help=f"{SEED_HELP} Default: a new one, which is reported.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="PNG", help="Draw mean response time against cores.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Find the fewest cores that meet a mean response time, or others by class and percentile.

    Computed for up to three classes, where that does not take too long; otherwise simulated, and met by the
    upper end of the interval. The cores that SYSTEM has do not matter. Targets by class or percentile are
    simulated, on the same jobs for every number of cores.
    """
    from corewise.model.files import load_system
    from corewise.studies.plan import plan as plan_cores

    problem = load_system(system)
    by_level = len(target) > 1 or "=" in target[0] or bool(cores or price or log)
    if most_cores is not None:
        print("warning: --most-cores is deprecated: use --max-cores", file=sys.stderr)
        max_cores = max_cores or most_cores
    limits = {} if max_cores is None else {"max_cores": whole_number(max_cores, "--max-cores", least=1)}
    chosen = secrets.randbits(32) if seed is None else whole_number(seed, "--seed")
    require_figure(plot, [], system)
    if by_level and plot is not None:
        raise InvalidInput("--plot draws a plan for one mean response time only")
    began = perf_counter()
    if by_level:
        levels = _plan_levels(
            problem, target, cores, price, log, policy=policy or "whittle", rng=chosen, **limits
        )
        emit(levels, as_json, *_run_facts(began, chosen), seed=chosen, seconds=perf_counter() - began)
        return
    wanted = number(target[0], "--target")
    with progress_bar(f"Planning for {wanted:g}", _LOOKS, "looks") as progress:
        found = plan_cores(problem, target=wanted, policy=policy, rng=chosen, progress=progress, **limits)
    used = None if found.exact else chosen
    seconds, facts = perf_counter() - began, _run_facts(began, used)
    if plot:
        from corewise.plots.plan import capacity_figure
        from corewise.plots.style import save_figure

        save_figure(capacity_figure(found), plot)
    emit(found, as_json, *facts, seed=used, seconds=seconds)
    if not as_json:
        print_written((plot, "plot"))


def _run_facts(began: float, seed: int | None) -> list[tuple[str, object]]:
    facts: list[tuple[str, object]] = [("time", f"{perf_counter() - began:.3g} s")]
    if seed is not None:
        facts.append(("seed", f"{seed} (the same command with --seed {seed} gives the same numbers)"))
    return facts


def _plan_levels(
    system: System, targets: list[str], cores: str | None, price: str | None, log: Path | None, **how: Any
) -> LevelPlan:
    """Find the fewest cores that meet targets by class and percentile, or see what some attain."""
    from corewise.studies.service_levels import parse_level, plan_levels

    levels = [parse_level(text) for text in targets]
    counts = None if cores is None else [whole_number(part, "--cores", least=1) for part in cores.split(",")]
    cost = None if price is None else number(price, "--price")
    logged = None
    if log is not None:
        from corewise.observation.event_logs import load_events
        from corewise.studies.advice.logged_jobs import LoggedJobs

        with waiting(f"Reading {log} ..."):
            logged = LoggedJobs.of(load_events(log, system).path)
    with progress_bar("Planning", 100.0, "%") as progress:
        return plan_levels(system, levels, cores=counts, price=cost, logged=logged, progress=progress, **how)
