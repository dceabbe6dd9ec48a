"""``corewise plan``: how many cores are enough."""

from __future__ import annotations

import secrets
from dataclasses import asdict
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated

import typer

from corewise.cli.options import SEED_HELP, AsJson, SystemName, number, whole_number
from corewise.cli.output import print_facts, print_json, print_table
from corewise.cli.plan_levels import LevelOptions, plan_by_levels
from corewise.cli.reporting import reporting
from corewise.cli.targets import print_written, require_figure
from corewise.cli.waiting import progress_bar
from corewise.errors import InvalidInput
from corewise.kit.numbers import value_with_interval
from corewise.kit.unit_labels import time_suffix, with_unit

if TYPE_CHECKING:
    from corewise.studies.plan import CapacityPlan

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
    most_cores: Annotated[
        str | None, typer.Option(metavar="N", help="Most cores to consider. Default: a million.")
    ] = None,
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
    only = _number_or_none(target[0]) if len(target) == 1 and not (cores or price or log) else None
    limits = {} if most_cores is None else {"most_cores": whole_number(most_cores, "--most-cores", least=1)}
    chosen = secrets.randbits(32) if seed is None else whole_number(seed, "--seed")
    require_figure(plot, [], system)
    if only is None:
        if plot is not None:
            raise InvalidInput("--plot draws a plan for one mean response time only")
        given = LevelOptions(cores, price, log, policy, limits.get("most_cores"), chosen)
        plan_by_levels(problem, target, given, as_json=as_json)
        return
    wanted = number(only, "--target")
    began = perf_counter()
    with progress_bar(f"Planning for {wanted:g}", _LOOKS, "looks") as progress:
        found = plan_cores(problem, target=wanted, policy=policy, rng=chosen, progress=progress, **limits)
    seconds = perf_counter() - began
    if plot:
        from corewise.plots.plan import capacity_figure
        from corewise.plots.style import save_figure

        save_figure(capacity_figure(found), plot)
    if as_json:
        print_json(_as_mapping(found, None if found.exact else chosen, seconds))
        return
    _print_plan(found, None if found.exact else chosen, seconds)
    print_written((plot, "plot"))


def _number_or_none(text: str) -> str | None:
    """Return a text that is meant as a number, not as a target by class or percentile."""
    return None if "=" in text else text


def _as_mapping(found: CapacityPlan, seed: int | None, seconds: float) -> dict[str, object]:
    return {
        "cores": found.cores,
        "mean_response_time": found.mean_response_time,
        "interval": list(found.point.interval),
        "exact": found.point.exact,
        "mean_jobs": found.mean_jobs,
        "target": found.target,
        "policy": found.policy,
        "least_cores": found.least_cores,
        "undecided": list(found.undecided),
        "limit": found.limit,
        "one_more_core": {
            "time_saved": found.time_saved,
            "interval": list(found.time_saved_interval),
            "jobs_saved": found.jobs_saved,
        },
        "curve": [asdict(point) for point in found.curve],
        "unit": found.unit,
        "seed": seed,
        "seconds": seconds,
    }


def _print_plan(found: CapacityPlan, seed: int | None, seconds: float) -> None:
    point = found.point
    unit = time_suffix(found.unit)
    saved = value_with_interval(found.time_saved, found.time_saved_interval, 4)
    facts = [
        ("fewest cores", f"{found.cores}, under policy {found.policy}"),
        (
            "mean response time",
            f"{value_with_interval(point.mean_response_time, point.interval, 8)}{unit} with them",
        ),
        ("mean number of jobs", f"{point.mean_jobs:.8g}"),
        ("one more core", f"saves {saved}{unit} of the response time, and {found.jobs_saved:.4g} jobs"),
        ("proved", _proved(found)),
        *(
            (
                "undecided",
                f"{cores} cores may be enough as well: the target lies within the interval of the simulation",
            )
            for cores in found.undecided
        ),
        ("limit", f"{found.limit:.8g}{unit}: no number of cores gives less"),
        ("time", f"{seconds:.3g} s"),
    ]
    if seed is not None:
        facts.append(("seed", f"{seed} (the same command with --seed {seed} gives the same numbers)"))
    classes = "1 class" if len(found.system.classes) == 1 else f"{len(found.system.classes)} classes"
    print_facts(
        f"Cores for a mean response time of {found.target:g}{time_suffix(found.unit, found.target)}: "
        f"{classes}",
        facts,
    )
    rows = [
        [
            f"{at.cores}",
            value_with_interval(at.mean_response_time, at.interval, 6),
            f"{at.mean_jobs:.6g}",
            f"{found.system.load * found.cores / at.cores:.1%}",
            "undecided" if at.cores in found.undecided else "yes" if at.interval[1] <= found.target else "no",
        ]
        for at in found.curve
    ]
    times = with_unit("mean response time", found.unit)
    print_table(["cores", times, "mean jobs", "load", "meets the target"], rows)


def _proved(found: CapacityPlan) -> str:
    if found.least_cores == found.cores:
        return "fewer are not enough under any policy"
    return f"fewer than {found.least_cores} are not enough under any policy"
