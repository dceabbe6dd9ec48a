"""``corewise simulate``: a random path of the system under a policy."""

from __future__ import annotations

import math
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from corewise.cli.options import (
    POLICY_HELP,
    SEED_HELP,
    AsJson,
    JobsFile,
    KnownSizes,
    SystemName,
    WholeCores,
    day_of,
    number,
    numbers,
    whole_number,
)
from corewise.cli.output import print_json, print_report
from corewise.cli.reporting import reporting
from corewise.cli.targets import draw, print_written, require_figure, require_target
from corewise.cli.waiting import progress_bar, waiting
from corewise.errors import CorewiseError, InvalidInput
from corewise.kit.report import json_values
from corewise.kit.unit_labels import time_suffix

if TYPE_CHECKING:
    from corewise.kit.progress import Progress
    from corewise.model.system import System
    from corewise.observation.sample_path import SamplePath
    from corewise.policies.base import Policy
    from corewise.simulation.replicate import Percentile, Replications
    from corewise.simulation.run import Run
    from corewise.simulation.trace import Trace

__all__ = ["simulate"]


@reporting
def simulate(  # noqa: PLR0913, PLR0917  # one argument for each option
    system: SystemName,
    policy: Annotated[str, typer.Option(metavar="P", help=POLICY_HELP)],
    departures: Annotated[
        str | None, typer.Option(metavar="N", help="Number of departures to simulate, such as 1e6.")
    ] = None,
    time: Annotated[
        str | None,
        typer.Option(metavar="T", help="Or: length of time to simulate, in the unit of the rates."),
    ] = None,
    seed: Annotated[
        str | None, typer.Option(metavar="S", help=f"{SEED_HELP} Default: a new one, which is reported.")
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(metavar="3,2", help="Number of jobs of each class at the start. Default: none."),
    ] = None,
    replications: Annotated[
        str, typer.Option(metavar="R", help="Number of independent replications, on all cores.")
    ] = "1",
    percentiles: Annotated[
        str | None,
        typer.Option(metavar="50,95,99", help="Percentiles of the response times to find; takes longer."),
    ] = None,
    events: Annotated[
        Path | None, typer.Option(metavar="CSV", help="Write every event to this file, for `estimate`.")
    ] = None,
    jobs: JobsFile = None,
    per_job: Annotated[
        bool, typer.Option("--per-job", help="Write the cores of each job rather than those of each class.")
    ] = False,
    whole: WholeCores = False,
    known_sizes: KnownSizes = False,
    moving_costs: Annotated[
        bool,
        typer.Option(
            "--moving-costs",
            help="Jobs hold whole cores and stand still for their resize_pause when these change, by the "
            "width rule of the policy: for priced and held.",
        ),
    ] = False,
    plot: Annotated[
        Path | None, typer.Option(metavar="PNG", help="Draw jobs and cores of each class over time.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Simulate a policy, for a number of departures or a length of time.

    A log that --events writes has all that `corewise estimate` needs.
    """
    from corewise.model.files import load_system
    from corewise.policies.base import policy_named
    from corewise.simulation.replicate import percentile_tables
    from corewise.simulation.run import Run

    problem = load_system(system)
    trace = day_of(system, jobs) if jobs is not None or departures is time is None else None
    if trace is not None:
        problem = trace.completed(problem)
    if (departures is None) == (time is None) and (trace is None or time is not None):
        given = "neither" if departures is None else "both"
        raise InvalidInput(f"give either --departures or --time, got {given}")
    task = _Task(
        departures=None if departures is None else whole_number(departures, "--departures", least=1),
        time=None if time is None else _duration(time),
        seed=secrets.randbits(32) if seed is None else whole_number(seed, "--seed"),
        start=_start(start, problem),
        replications=whole_number(replications, "--replications", least=1),
        percents=_percents(percentiles),
        record=events is not None or plot is not None,
        jobs=trace,
        whole=whole,
        known_sizes=known_sizes,
        moving_costs=moving_costs,
    )
    task.require_possible()
    if per_job and events is None:
        raise InvalidInput("--per-job says how to write --events: give both")
    require_target(events, system)
    require_figure(plot, problem.names, system)
    task.check_memory(problem)
    with waiting(f"Preparing {policy} ..."):
        rule = policy_named(policy, problem)
    began = perf_counter()
    with progress_bar(f"Simulating {policy}", task.total, task.unit) as progress:
        found = task.carry_out(problem, rule, progress)
    seconds = perf_counter() - began
    if isinstance(found, Run) and found.path is not None:
        _write(found.path, events, plot, per_job=per_job, unit=problem.unit)
    values = {"replications": task.replications, "state": None, **json_values(found)}
    if isinstance(found, Run):
        if found.resizes is not None:
            values |= {"resizes": found.resizes, "resizes_per_event": found.resizes_per_event}
        of_one = _percentiles(found, task.percents)
        for row in values["classes"]:
            row["percentiles"] = json_values(of_one[row["name"]])
    if as_json:
        print_json({**values, "seed": task.seed, "seconds": seconds})
        return
    report = found.report().with_facts(*_facts(found, problem, None if trace else task.seed, seconds))
    if isinstance(found, Run):
        tables = percentile_tables(of_one, found.unit, together=6)
        report = replace(report, tables=[*report.tables, *tables])
    print_report(replace(report, title=f"{report.title}: {replace(problem, changes=()).summary}"))
    print_written((events, "events"), (plot, "plot"))


def _facts(
    found: Run | Replications, system: System, seed: int | None, seconds: float
) -> Iterator[tuple[str, str]]:
    """Yield what is to be said of a simulation beside its result; `seed` is None where nothing is random."""
    if math.isnan(found.interval[0]):
        yield "interval", _no_interval(system, recorded=seed is None)
    yield "speed", f"{found.events:,} events in {seconds:.3g} s, {found.events / seconds:,.0f} a second"
    if seed is not None:
        yield "seed", f"{seed} (the same command with --seed {seed} gives the same numbers)"
    if system.load >= 1.0:
        yield "note", "the load is not below 1: under any policy the number of jobs keeps growing"
    runs = len(found.runs) if hasattr(found, "runs") else 1
    for change in system.changes:
        if change.time < found.time / runs:
            yield (
                "note",
                f"the curve of {change.name} changed at time {change.time:g}{time_suffix(system.unit)}",
            )


def _no_interval(system: System, *, recorded: bool) -> str:
    """Return why there is no confidence interval."""
    if recorded:
        return "none: of these jobs; nothing is random"
    if any(math.isinf(job_class.sizes.cv2) for job_class in system.classes):
        return "no confidence interval: the variance of sizes is infinite"
    return "none: too short a run for a confidence interval"


def _percentiles(run: Run, percents: Sequence[float]) -> dict[str, list[Percentile]]:
    """Return the percentiles of each class in a single run, which gives them no interval."""
    from corewise.simulation.replicate import Percentile

    found = run.percentiles(percents) if percents else dict.fromkeys(run.classes, ())
    return {
        name: [
            Percentile(*pair, (math.nan, math.nan)) for pair in zip(percents, map(float, values), strict=True)
        ]
        for name, values in found.items()
    }


# --- what is asked for ------------------------------------------------------------------------


@dataclass(frozen=True)
class _Task:
    """What to simulate: a number of departures, or a length of time; once, or several times."""

    departures: int | None
    time: float | None
    seed: int
    start: list[int] | None
    replications: int
    percents: list[float]
    record: bool
    jobs: Trace | None = None
    whole: bool = False
    known_sizes: bool = False
    moving_costs: bool = False

    @property
    def total(self) -> float:
        """How much is to be done, in all replications."""
        recorded = 0.0 if self.jobs is None else float(len(self.jobs.job_class))
        return self.replications * (self.departures or self.time or recorded)

    @property
    def unit(self) -> str:
        """What `total` counts."""
        return "units of time" if self.time else "departures"

    def require_possible(self) -> None:
        """Raise `InvalidInput` for options that do not go together."""
        if self.moving_costs and (self.whole or self.known_sizes):
            raise InvalidInput(
                "--moving-costs and --whole are two ways to hold whole cores: give one, and --known-sizes "
                "with --whole"
            )
        if self.moving_costs and (self.record or self.start is not None or self.replications > 1):
            raise InvalidInput(
                "--moving-costs is one run from an empty system: no --events, --plot, --start or "
                "--replications"
            )
        if self.jobs is not None and self.replications > 1:
            raise InvalidInput(f"--jobs has nothing random in it, got --replications {self.replications}")
        if self.record and self.replications > 1:
            raise InvalidInput(f"--events and --plot are of one run, got --replications {self.replications}")

    def check_memory(self, system: System) -> None:
        """Refuse to record more events than memory can hold, before the time is spent."""
        from corewise.model.space import available_memory

        if not (self.record or self.percents):
            return
        departures = self.departures or (self.time or 0.0) * float(system.arrival_rates.sum())
        if self.jobs is not None:
            departures = len(self.jobs.job_class)
        events = 2.0 * departures  # as many jobs arrive
        needed = events * (100 + 24 * len(system.classes)) / 2**30
        available = available_memory() / 2**30
        if needed > available:
            raise CorewiseError(
                f"--events, --percentiles and --plot keep every event in memory: about {events:.3g} of them "
                f"need {needed:,.0f} GiB, and this machine has {available:,.1f} GiB for it; simulate fewer"
            )

    def carry_out(self, system: System, policy: Policy, progress: Progress | None) -> Run | Replications:
        """Return the run, with its path if it is to be recorded, or the replications."""
        from corewise.simulation.replicate import replicate
        from corewise.simulation.simulator import simulate as simulate_policy

        window: dict[str, Any] = {"departures": self.departures, "time": self.time, "start": self.start}
        window |= {"whole": self.whole, "known_sizes": self.known_sizes}
        if self.replications > 1:
            return replicate(
                system,
                policy,
                n=self.replications,
                rng=self.seed,
                percentiles=self.percents,
                progress=progress,
                **window,
            )
        followed = not system.memoryless or self.jobs is not None or self.whole or self.moving_costs
        return simulate_policy(
            *(system, policy),
            rng=self.seed,
            record=self.record or (bool(self.percents) and not followed),
            jobs=self.jobs,
            progress=progress,
            moving_costs=self.moving_costs,
            **window,
        )


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


def _write(
    path: SamplePath, events: Path | None, plot: Path | None, *, per_job: bool, unit: str | None
) -> None:
    """Write what was asked for of the path of a run."""
    if events:
        from corewise.observation.event_logs import save_events

        with waiting(f"Writing {events} ..."):
            save_events(path, events, per_job=per_job)
    if plot:
        from corewise.plots.path import path_figure

        draw(plot, lambda: path_figure(path, unit=unit))
