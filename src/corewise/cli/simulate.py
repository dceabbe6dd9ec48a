"""``corewise simulate``: a random path of the system under a policy."""

from __future__ import annotations

import math
import secrets
from dataclasses import asdict, replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated

import typer

from corewise.cli import policies
from corewise.cli.options import AsJson, SystemName, number, numbers, whole_number
from corewise.cli.output import (
    headline,
    print_facts,
    print_json,
    print_table,
    progress_bar,
    reporting,
    require_figure,
    require_target,
    waiting,
)
from corewise.cli.runs import Outcome, Task
from corewise.errors import InvalidInput

if TYPE_CHECKING:
    from corewise.model.system import System
    from corewise.observation.sample_path import SamplePath

__all__ = ["simulate"]


@reporting
def simulate(  # noqa: PLR0913, PLR0917  # one argument for each option
    system: SystemName,
    policy: Annotated[str, typer.Option(metavar="P", help=policies.HELP)],
    departures: Annotated[
        str | None, typer.Option(metavar="N", help="Stop after so many departures, such as 1e6.")
    ] = None,
    time: Annotated[str | None, typer.Option(metavar="T", help="Or: stop after so long.")] = None,
    seed: Annotated[
        str | None, typer.Option(metavar="S", help="Repeats a run. Default: a new one, which is reported.")
    ] = None,
    start: Annotated[
        str | None, typer.Option(metavar="3,2", help="Jobs of each class at first. Default: none.")
    ] = None,
    replications: Annotated[
        str, typer.Option(metavar="R", help="Simulate so many times, independently, on all cores.")
    ] = "1",
    percentiles: Annotated[
        str | None,
        typer.Option(metavar="50,95,99", help="Percentiles of the response times to find; takes longer."),
    ] = None,
    events: Annotated[
        Path | None, typer.Option(metavar="CSV", help="Write every event to this file, for `estimate`.")
    ] = None,
    per_job: Annotated[
        bool, typer.Option("--per-job", help="Write the cores of each job rather than those of each class.")
    ] = False,
    plot: Annotated[
        Path | None, typer.Option(metavar="PNG", help="Draw jobs and cores of each class over time.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Simulate a policy, for so many departures or so long.

    A log that --events writes has all that `corewise estimate` needs.
    """
    from corewise.model.files import load_system

    problem = load_system(system)
    if (departures is None) == (time is None):
        given = "neither" if departures is None else "both"
        raise InvalidInput(f"give either --departures or --time, got {given}")
    task = Task(
        departures=None if departures is None else whole_number(departures, "--departures", least=1),
        time=None if time is None else _duration(time),
        seed=secrets.randbits(32) if seed is None else whole_number(seed, "--seed"),
        start=_start(start, problem),
        replications=whole_number(replications, "--replications", least=1),
        percents=_percents(percentiles),
        record=events is not None or plot is not None,
    )
    if per_job and events is None:
        raise InvalidInput("--per-job says how to write --events: give both")
    if task.record and task.replications > 1:
        raise InvalidInput(f"--events and --plot are of one run, got --replications {task.replications}")
    require_target(events, system)
    require_figure(plot, problem.names, system)
    task.check_memory(problem)
    with waiting(f"Preparing {policy} ..."):
        rule = policies.parse_policy(policy, problem)
    began = perf_counter()
    with progress_bar(f"Simulating {policy}", task.total, task.unit) as progress:
        outcome, path = task.carry_out(problem, rule, progress)
    seconds = perf_counter() - began
    if path is not None:
        _write(path, events, plot, per_job=per_job)
    if as_json:
        print_json({**asdict(outcome), "seed": task.seed, "seconds": seconds})
        return
    _print_outcome(outcome, problem, task.seed, seconds)
    for file, what in ((events, "events"), (plot, "plot")):
        if file:
            print(f"Wrote the {what} to {file}.")


# --- what is asked for ------------------------------------------------------------------------


def _duration(text: str) -> float:
    length = number(text, "--time")
    if length <= 0.0:
        raise InvalidInput(f"--time must be positive, got {text!r}")
    return length


def _start(text: str | None, system: System) -> list[int] | None:
    if text is None:
        return None
    parts = text.split(",")
    if len(parts) != len(system.classes):
        raise InvalidInput(f"--start needs a number for each class ({', '.join(system.names)}), got {text!r}")
    return [
        whole_number(part, f"--start for class {name!r}")
        for part, name in zip(parts, system.names, strict=True)
    ]


def _percents(text: str | None) -> list[float]:
    percents = [] if text is None else numbers(text, "--percentiles")
    for percent in percents:
        if not 0.0 <= percent <= 100.0:
            raise InvalidInput(f"--percentiles must lie between 0 and 100, got {percent:g}")
    return percents


# --- what goes out ----------------------------------------------------------------------------


def _write(path: SamplePath, events: Path | None, plot: Path | None, *, per_job: bool) -> None:
    """Write what was asked for of the path of a run."""
    if events:
        from corewise.observation.event_logs import save_events

        with waiting(f"Writing {events} ..."):
            save_events(path, events, per_job=per_job)
    if plot:
        from corewise.plots.path import path_figure
        from corewise.plots.style import save_figure

        with waiting(f"Drawing {plot} ..."):
            save_figure(path_figure(path), plot)


def _print_outcome(outcome: Outcome, system: System, seed: int, seconds: float) -> None:
    several = outcome.replications > 1
    how = f"over {outcome.replications} replications" if several else "by batch means"
    interval = f"(95 % confidence, {how})"
    if math.isnan(outcome.interval[0]):
        interval = "(too short a run for a confidence interval)"
    facts = [
        ("mean number of jobs", f"{_with_half(outcome.mean_jobs, outcome.interval)} {interval}"),
        ("mean response time", f"{_shown(outcome.mean_response_time)} (in the unit of time of the rates)"),
        ("departures", f"{outcome.departures:,} in {outcome.time:,.6g} units of time"),
        ("speed", f"{outcome.events:,} events in {seconds:.3g} s, {outcome.events / seconds:,.0f} a second"),
    ]
    if outcome.state is not None:
        jobs = ", ".join(f"{name} {n}" for n, name in zip(outcome.state, system.names, strict=True))
        facts.append(("jobs at the end", jobs))
    facts.append(("seed", f"{seed} (the same command with --seed {seed} gives the same numbers)"))
    if system.load >= 1.0:
        facts.append(("note", "the load is not below 1: under any policy the number of jobs keeps growing"))
    facts += [
        ("note", f"the curve of {change.name} changed at time {change.time:g}")
        for change in system.changes
        if change.time < outcome.time / outcome.replications
    ]
    print_facts(headline(f"Simulated {outcome.policy}", replace(system, changes=())), facts)
    columns = ["class", "arrivals", "departures", "mean number of jobs", "mean response time"]
    rows = [
        [
            row.name,
            f"{row.arrivals:,}",
            f"{row.departures:,}",
            _with_half(row.mean_jobs, row.interval),
            _shown(row.mean_response_time),
        ]
        for row in outcome.classes
    ]
    print_table(columns, rows)
    _print_percentiles(outcome)


def _print_percentiles(outcome: Outcome) -> None:
    """Print the percentiles of the response times, as many in a table as fit beside each other."""
    together = 6 if outcome.replications == 1 else 3
    percents = [p.percent for p in outcome.classes[0].percentiles]
    for first in range(0, len(percents), together):
        shown = slice(first, first + together)
        rows = [
            [row.name, *(_with_half(p.value, p.interval, digits=4) for p in row.percentiles[shown])]
            for row in outcome.classes
        ]
        print_table(["response\ntime", *(f"{percent:g} %" for percent in percents[shown])], rows)


def _with_half(value: float, interval: tuple[float, float], digits: int = 6) -> str:
    """Return a number with half the width of its interval, if there is one."""
    half = 0.5 * (interval[1] - interval[0])
    return _shown(value, digits) if math.isnan(half) else f"{value:.{digits}g} ± {half:.2g}"


def _shown(value: float, digits: int = 6) -> str:
    return "-" if math.isnan(value) else f"{value:.{digits}g}"
